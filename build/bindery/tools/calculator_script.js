{#- The script of one calculator. `literal`, `variable` and `condition` are in calculators.py. -#}
{% macro declare(names) %}
{% for name in names %}
    const {{ name|variable }} = given.get({{ name|literal }});
{% endfor %}
{% endmacro %}
{% macro say_unless(conditions, names) %}
{% for text, message in conditions %}
    if (!python.truth({{ text|condition(names) }})) return {{ message|literal }};
{% endfor %}
{% endmacro %}
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
{{ declare(asked) }}{{ say_unless(requires, asked) }}    return "";
  },
  judge(given) {
{{ declare(all) }}{{ say_unless(possible, all) }}    return "";
  },
};
})();
