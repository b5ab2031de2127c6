{#- The script of one calculator. `literal` and `variable` are in calculators.py. -#}
/* Translated from the Python of the tool, so that both give the same. */
"use strict";
window.calculator = (() => {
{{ one.functions }}
return {
  name: {{ one.name|literal }},
  inputs: [
{% for input in one.inputs %}
    {
{% for key in ("name", "label", "unit", "kind", "default", "minimum", "maximum", "choices") %}
      {{ key }}: {{ input[key]|literal }},
{% endfor %}
    },
{% endfor %}
  ],
  outputs: [
{% for output in one.outputs %}
    {name: {{ output.name|literal }}, label: {{ output.label|literal }}, unit: {{ output.unit|literal }}},
{% endfor %}
  ],
  reasons: [{% for _, message in one.requires %}{{ message }}{{ ", " if not loop.last }}{% endfor %}],
  compute: (given) => {{ one.function|variable }}(
{%- for each in one.parameters %}given.get({{ each|literal }}){{ ", " if not loop.last }}{% endfor %}),
  check(given) {
{% for input in one.inputs %}
    const {{ input.name|variable }} = given.get({{ input.name|literal }});
{% endfor %}
{% for condition, message in one.requires %}
    if (!python.truth({{ condition }})) return {{ message }};
{% endfor %}
    return "";
  },
};
})();
