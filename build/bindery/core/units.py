"""The table of units: what each measures, and its size in base units.

Records store only base units; headings, data files and prose use all of them. Case matters, as in
GB (bytes) and Gb (bits).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from msgspec import Struct

Dimension = tuple[tuple[str, int], ...]
"""Base units and their powers, sorted: `(("B", 1), ("s", -1))` is a data rate."""


class BaseUnit(Struct, frozen=True):
    meaning: str
    dimension: Dimension = ()


BASE_UNITS = {
    "1": BaseUnit("a count or a ratio"),
    "s": BaseUnit("seconds", (("s", 1),)),
    "B": BaseUnit("bytes", (("B", 1),)),
    "FLOP": BaseUnit("floating point operations", (("FLOP", 1),)),
    "FLOP/s": BaseUnit("floating point operations per second", (("FLOP", 1), ("s", -1))),
    "B/s": BaseUnit("bytes per second", (("B", 1), ("s", -1))),
    "Hz": BaseUnit("hertz", (("s", -1),)),
    "W": BaseUnit("watts", (("J", 1), ("s", -1))),
    "J": BaseUnit("joules", (("J", 1),)),
    "degC": BaseUnit("degrees Celsius", (("degC", 1),)),
    "V": BaseUnit("volts", (("V", 1),)),
    "A": BaseUnit("amperes", (("A", 1),)),
    "1/s": BaseUnit("things per second", (("s", -1),)),
}


class Unit(Struct, frozen=True):
    base: str
    size: float
    """In the base unit."""
    binary: float = 0.0
    """Size if its decimal prefix means a power of 1024; 0 without such a prefix."""


_LARGE = {"k": 1, "K": 1, "M": 2, "G": 3, "T": 4, "P": 5, "E": 6}
_LARGE_WORDS = {"kilo": 1, "mega": 2, "giga": 3, "tera": 4, "peta": 5}
_BINARY = {f"{letter}i": power for letter, power in _LARGE.items()}
_BINARY_WORDS = {"kibi": 1, "mebi": 2, "gibi": 3, "tebi": 4}
_SMALL = {"m": 1e-3, "µ": 1e-6, "μ": 1e-6, "u": 1e-6, "n": 1e-9}
_SMALL_WORDS = {"milli": 1e-3, "micro": 1e-6, "nano": 1e-9}

# Base unit, size, and names. The last names are long forms, which take prefixes such as giga.
_WITH_PREFIXES = (
    ("B", 1.0, "B Byte Bytes", "byte bytes"),
    ("B", 0.125, "b Bit Bits", "bit bits"),
    ("B/s", 1.0, "Bps", ""),
    ("B/s", 0.125, "bps", ""),
    ("FLOP", 1.0, "FLOP FLOPs OP OPs", "flop"),
    ("FLOP/s", 1.0, "FLOPS OPS", "flops"),
    ("s", 1.0, "s sec secs", "second seconds"),
    ("Hz", 1.0, "Hz hz", "hertz"),
    ("W", 1.0, "W", "watt watts"),
    ("J", 1.0, "J", "joule joules"),
    ("J", 3600.0, "Wh", ""),
    ("V", 1.0, "V", "volt volts"),
    ("A", 1.0, "A", "ampere amperes"),
)
_ALONE = (
    ("1", 1.0, "1"),
    ("1", 1e-2, "% percent pct"),
    ("1", 1e-3, "permille"),
    ("1", 1e-6, "ppm"),
    ("1", 1e3, "thousand thousands"),
    ("1", 1e6, "million millions mn"),
    ("1", 1e9, "billion billions bn"),
    ("1", 1e12, "trillion trillions"),
    ("s", 60.0, "min mins minute minutes"),
    ("s", 3600.0, "h hr hrs hour hours"),
    ("s", 86400.0, "d day days"),
    ("s", 604800.0, "week weeks"),
    ("degC", 1.0, "°C degC"),
    ("1/s", 1.0, "1/s"),
)


def _list_units() -> Iterator[tuple[str, Unit]]:
    for base, size, alone in _ALONE:
        yield from ((name, Unit(base, size)) for name in alone.split())
    for base, size, short, long in _WITH_PREFIXES:
        names, words = [*short.split(), *long.split()], long.split()
        is_data = base in ("B", "B/s")
        yield from ((name, Unit(base, size)) for name in names)
        if base in ("s", "W", "J", "V", "A"):
            for scales, stems in ((_SMALL, names), (_SMALL_WORDS, words)):
                for prefix, scale in scales.items():
                    yield from ((prefix + stem, Unit(base, size * scale)) for stem in stems)
        if base in ("s", "V", "A"):
            continue
        for prefixes, stems in ((_LARGE, names), (_LARGE_WORDS, words)):
            for prefix, power in prefixes.items():
                binary = size * 1024.0**power if is_data else 0.0
                unit = Unit(base, size * 1000.0**power, binary)
                yield from ((prefix + stem, unit) for stem in stems)
        if is_data:
            for prefixes, stems in ((_BINARY, names), (_BINARY_WORDS, words)):
                for prefix, power in prefixes.items():
                    unit = Unit(base, size * 1024.0**power)
                    yield from ((prefix + stem, unit) for stem in stems)


UNITS: Mapping[str, Unit] = dict(_list_units())


def read_unit(name: str) -> Unit | None:
    """GBps and GB/s are 1e9 B/s, TFLOPS 1e12 FLOP/s, µs 1e-6 s, % 0.01. None if unknown."""
    if name in UNITS:
        return UNITS[name]
    amount = UNITS.get(name.removesuffix("/s")) if name.endswith("/s") else None
    return Unit(f"{amount.base}/s", amount.size) if amount else None


_SECONDS = {"s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86400.0}
_BYTES = {
    name.lower(): unit.size for name, unit in UNITS.items() if name.endswith(("B", "byte", "bytes"))
}
_AMOUNT = re.compile(r"(\d+(?:\.\d+)?)\s*([A-Za-z]*)", re.ASCII)


def parse_seconds(text: str) -> float:
    """Parse a time such as `90`, `10m` or `2h`. Raises ValueError unless it is positive."""
    return _parse_amount(text, _SECONDS, "s", "90, 10m or 2h")


def parse_bytes(text: str, default: str) -> float:
    """Parse a size such as `8GiB` or `500 MB`; a bare number is in the default unit. Raises
    ValueError unless it is positive."""
    return _parse_amount(text, _BYTES, default, "8GiB or 500MiB")


def _parse_amount(text: str, sizes: Mapping[str, float], default: str, examples: str) -> float:
    match = _AMOUNT.fullmatch(text.strip())
    size = sizes.get((match[2] or default).lower()) if match else None
    if match is None or size is None or float(match[1]) == 0:
        raise ValueError(f"'{text}' is not a positive amount, such as {examples}")
    return float(match[1]) * size
