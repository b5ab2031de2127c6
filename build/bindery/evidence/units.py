"""Units of measured columns: base units only, and bound to the names of the columns.

A number that is stored scaled gets compared with one that is not, sooner or later. So results are
in base units, and a column that names its unit cannot be of another.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping

BASE_UNITS = {
    "1": "a count or a ratio",
    "s": "seconds",
    "B": "bytes",
    "FLOP": "floating point operations",
    "FLOP/s": "floating point operations per second",
    "B/s": "bytes per second",
    "Hz": "hertz",
    "W": "watts",
    "J": "joules",
    "degC": "degrees Celsius",
    "V": "volts",
    "A": "amperes",
    "1/s": "things per second",
}

_WORD_OF_UNIT = {
    "s": "seconds",
    "B": "bytes",
    "FLOP": "flops",
    "FLOP/s": "flops_per_second",
    "B/s": "bytes_per_second",
    "Hz": "hertz",
    "W": "watts",
    "J": "joules",
    "degC": "celsius",
    "V": "volts",
    "A": "amperes",
    "1": "ratio",
}
_UNIT_OF_WORD = {word: unit for unit, word in _WORD_OF_UNIT.items() if unit not in ("B/s", "1")}
del _UNIT_OF_WORD["flops_per_second"]
_UNIT_OF_WORD["bits"] = "1"  # a width, such as that of weights; not so a rate in bits
# The spread of some seconds is a share of them, and no seconds.
_RELATIVE_WORDS = frozenset("share ratio fraction relative spread".split())

_UNITS_PER = ("byte", "flop", "watt", "joule", "hertz")
# What people write, in small letters, and the base unit that is meant.
_SCALED = {
    "s": "ms us µs ns msec usec nsec milliseconds microseconds nanoseconds millis micros nanos "
    "minutes mins hours hrs days weeks",
    "B": "kb mb gb tb pb kib mib gib tib pib kilobytes megabytes gigabytes terabytes kibibytes "
    "mebibytes gibibytes bits kbit mbit gbit",
    "B/s": "kbps mbps gbps tbps kbs mbs gbs tbs kb/s mb/s gb/s tb/s kib/s mib/s gib/s kibps mibps "
    "gibps gbit/s mbit/s bps",
    "FLOP": "kflop mflop gflop tflop pflop gigaflop teraflop petaflop",
    "FLOP/s": "kflops mflops gflops tflops pflops eflops gigaflops teraflops petaflops gflop/s "
    "tflop/s pflop/s gflops/s tflops/s",
    "Hz": "khz mhz ghz kilohertz megahertz gigahertz",
    "W": "kw mw milliwatts kilowatts megawatts",
    "J": "kj mj wh kwh kilojoules megajoules",
    "degC": "kelvin fahrenheit degf millicelsius",
    "V": "mv millivolts",
    "A": "ma milliamperes",
    "1": "% percent pct permille ppm thousands millions billions",
}
_BASE_OF_SCALED = {name: base for base, names in _SCALED.items() for name in names.split()}
_OTHER_SPELLINGS = {word: unit for unit, word in _WORD_OF_UNIT.items()} | {
    "second": "s",
    "sec": "s",
    "byte": "B",
    "bytes/s": "B/s",
    "flop": "FLOP",
    "flops": "FLOP/s",
    "flops/s": "FLOP/s",
    "watt": "W",
    "joule": "J",
    "c": "degC",
    "°c": "degC",
    "count": "1",
    "": "1",
    "tokens": "1",
    "tokens/s": "1/s",
}
_WORD = re.compile(r"[a-z0-9%µ]+")


@functools.lru_cache(maxsize=4096)
def find_bound_unit(column: str) -> str | None:
    """The unit that the name of a column says it has, or None where it says nothing."""
    words = _WORD.findall(column.lower())
    if _RELATIVE_WORDS.intersection(words):
        return None
    counted, _, per = " ".join(words).partition(" per ")
    units = {_UNIT_OF_WORD[word] for word in counted.split() if word in _UNIT_OF_WORD}
    unit = units.pop() if len(units) == 1 else None
    if per.startswith("second"):
        return {"FLOP": "FLOP/s", "B": "B/s", None: None if units else "1/s"}.get(unit)
    return None if per.startswith(_UNITS_PER) else unit


@functools.lru_cache(maxsize=4096)
def explain_wrong_name(column: str) -> str:
    """Why a column of numbers cannot have this name, or an empty text where it can."""
    words = _WORD.findall(column.lower())
    is_rate = "per second" in " ".join(words)
    for word in words:
        if word in _BASE_OF_SCALED and (is_rate or word not in _UNIT_OF_WORD):
            base = _BASE_OF_SCALED[word]
            return f"the name says '{word}', which is no base unit; {_advise(base)}"
    return ""


@functools.lru_cache(maxsize=4096)
def explain_wrong_unit(column: str, unit: str) -> str:
    """Why a column cannot have this unit, or an empty text where it can."""
    bound = find_bound_unit(column)
    if unit in BASE_UNITS:
        if bound is None or bound == unit:
            return ""
        return f"the name says {BASE_UNITS[bound]}, and the unit is '{unit}'; write '{bound}'"
    base = _BASE_OF_SCALED.get(unit.lower())
    if base:
        return f"'{unit}' is no base unit; {_advise(base)}"
    meant = bound or _OTHER_SPELLINGS.get(unit.lower())
    if meant:
        return f"'{unit}' is no unit that is known; write '{meant}'"
    return f"'{unit}' is no unit that is known; one of: {', '.join(BASE_UNITS)}"


def _advise(base: str) -> str:
    if base == "1":
        return "store the ratio itself, with the unit '1'"
    return (
        f"store {BASE_UNITS[base]}, with the unit '{base}' and '{_WORD_OF_UNIT[base]}' in the name"
    )


_SECONDS = {"s": 1, "m": 60, "min": 60, "h": 3600, "d": 86400}
_BYTES = {
    "b": 1,
    "k": 10**3,
    "kb": 10**3,
    "mb": 10**6,
    "gb": 10**9,
    "tb": 10**12,
    "kib": 2**10,
    "mib": 2**20,
    "gib": 2**30,
    "tib": 2**40,
}
_AMOUNT = re.compile(r"(\d+(?:\.\d+)?)\s*([A-Za-z]*)", re.ASCII)


def parse_seconds(text: str, default: str = "s") -> float:
    """Seconds from `90`, `10m`, `2h`. Raises ValueError for what is no time, or no time at all."""
    return _parse_amount(text, _SECONDS, default, "90, 10m or 2h")


def parse_bytes(text: str, default: str = "B") -> float:
    """Bytes from `8GiB` or `500 MB`; a number alone is in the default unit. Raises ValueError for
    what is no size, or none at all."""
    return _parse_amount(text, _BYTES, default, "8GiB or 500MiB")


def _parse_amount(text: str, factors: Mapping[str, int], default: str, examples: str) -> float:
    match = _AMOUNT.fullmatch(text.strip())
    factor = factors.get((match[2] or default).lower()) if match else None
    if match is None or factor is None or float(match[1]) == 0:
        raise ValueError(f"'{text}' is no amount above zero, such as {examples}")
    return float(match[1]) * factor
