{#- The script of one calculator. `literal`, `variable` and `condition` are in calculators.py. -#}
/* Translated from the Python of the tool, so that both give the same. */
"use strict";
window.calculator = (() => {
{{ functions }}
return {
  name: {{ name|literal }},
  inputs: [
{% for one in inputs %}
    {
{% for key in ("name", "label", "unit", "kind", "default", "minimum", "maximum", "choices") %}
      {{ key }}: {{ one[key]|literal }},
{% endfor %}
    },
{% endfor %}
  ],
  outputs: [
{% for one in outputs %}
    {name: {{ one.name|literal }}, label: {{ one.label|literal }}, unit: {{ one.unit|literal }}},
{% endfor %}
  ],
  reasons: {{ reasons|literal }},
  compute: (given) => {{ function|variable }}(
{%- for each in parameters %}given.get({{ each|literal }}){{ ", " if not loop.last }}{% endfor %}),
  check(given) {
{% for name in asked %}
    const {{ name|variable }} = given.get({{ name|literal }});
{% endfor %}
{% for text, message in requires %}
    if (!python.truth({{ text|condition(asked) }})) return {{ message|literal }};
{% endfor %}
    return "";
  },
};
})();
