"""Units of measured columns: base units only, and the name of a column may not contradict its unit.

Where one run stores gigabytes and another bytes, the two get compared sooner or later.
"""

from __future__ import annotations

import re

from bindery.core.units import BASE_UNITS, UNITS, read_unit

_UNIT_OF_WORD = {
    base.word: name for name, base in BASE_UNITS.items() if "/" not in name and name != "1"
} | {"bits": "1"}  # a width, such as that of weights
# The spread of some seconds is a share of them.
_RELATIVE_WORDS = frozenset("share ratio fraction relative spread".split())
_UNITS_PER = ("byte", "flop", "watt", "joule", "hertz")

# Names of scaled units that are ordinary words or variables in the name of a column.
_ORDINARY = frozenset(
    """b d h k m bit byte mn bn min hr sec day hour minute week second thousand million billion
    trillion eb ej ew mop na nj nv nw pop pw top tw ua uv""".split()
)
_SCALED_WORDS = {
    name.lower(): unit.base for name, unit in UNITS.items() if unit.size != 1
} | {
    **dict.fromkeys("millis micros nanos".split(), "s"),
    **dict.fromkeys("kbs mbs gbs tbs".split(), "B/s"),
    **dict.fromkeys("kelvin fahrenheit degf millicelsius".split(), "degC"),
}  # fmt: skip
_OTHER_SPELLINGS = {base.word: name for name, base in BASE_UNITS.items()} | {
    "flops": "FLOP/s",
    "flops/s": "FLOP/s",
    "c": "degC",
    "°c": "degC",
    "count": "1",
    "": "1",
    "tokens": "1",
    "tokens/s": "1/s",
}
_WORD = re.compile(r"[a-z0-9%µ]+")


def find_bound_unit(column: str) -> str | None:
    """The unit that the name of a column states, or None."""
    words = _WORD.findall(column.lower())
    if _RELATIVE_WORDS.intersection(words):
        return None
    counted, _, per = " ".join(words).partition(" per ")
    units = {_UNIT_OF_WORD[word] for word in counted.split() if word in _UNIT_OF_WORD}
    unit = units.pop() if len(units) == 1 else None
    if per.startswith("second"):
        return {"FLOP": "FLOP/s", "B": "B/s", None: None if units else "1/s"}.get(unit)
    return None if per.startswith(_UNITS_PER) else unit


def explain_wrong_name(column: str) -> str:
    """Why a column of numbers cannot have this name, or an empty text."""
    words = _WORD.findall(column.lower())
    is_rate = "per second" in " ".join(words)
    for word in words:
        base = None if word in _ORDINARY else _SCALED_WORDS.get(word)
        if base and (is_rate or word not in _UNIT_OF_WORD):
            return f"the name says '{word}', which is not a base unit; {_advise(base)}"
    return ""


def explain_wrong_unit(column: str, unit: str) -> str:
    """Why a column cannot have this unit, or an empty text."""
    bound = find_bound_unit(column)
    if unit in BASE_UNITS:
        if bound is None or bound == unit:
            return ""
        meaning = BASE_UNITS[bound].meaning
        return f"the name says {meaning}, and the unit is '{unit}'; write '{bound}'"
    lower = unit.lower()
    base = _SCALED_WORDS.get(lower) or _SCALED_WORDS.get(lower.removesuffix("/s"))
    if base:
        is_rate = lower.endswith("/s") and not base.endswith("/s")
        return f"'{unit}' is not a base unit; {_advise(f'{base}/s' if is_rate else base)}"
    known = read_unit(unit)
    meant = bound or _OTHER_SPELLINGS.get(lower) or (known.base if known else None)
    if meant:
        return f"'{unit}' is not a known unit; write '{meant}'"
    return f"'{unit}' is not a known unit; one of: {', '.join(BASE_UNITS)}"


def _advise(base: str) -> str:
    if base == "1":
        return "store the ratio itself, with the unit '1'"
    unit = BASE_UNITS[base]
    return f"store {unit.meaning}, with the unit '{base}' and '{unit.word}' in the name"
