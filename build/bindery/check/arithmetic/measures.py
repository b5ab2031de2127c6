"""Units as they are behind numbers in a sum: their size, and what they are units of.

A unit is a size in base units (bits, seconds, operations, joules) and a dimension, so that
`16 GB / 300 GBps` comes out in seconds. `B` may be bytes or billions, `GB` a power of ten or of
two; which of them is meant is for the reader of the sum to try.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from dataclasses import dataclass

Dimension = tuple[tuple[str, int], ...]
"""Base units and their powers, sorted: `(("bit", 1), ("s", -1))` is a rate of data."""


@dataclass(frozen=True, slots=True)
class Unit:
    """A unit or scale; `binary` is its size where its prefix counts in powers of 1024."""

    size: float
    dimension: Dimension = ()
    binary: float = 0
    is_billion: bool = False
    """Whether it is the bare `B`, which may be billions as well as bytes."""

    def measure(self, *, binary: bool, billion: bool) -> tuple[float, Dimension]:
        """Size and dimension in one way of reading it."""
        if self.is_billion and billion:
            return 1e9, ()
        return (self.binary if binary and self.binary else self.size), self.dimension


def multiply(first: Dimension, second: Dimension, power: int = 1) -> Dimension:
    """The dimension of a product, or of a quotient where `power` is -1.

    Operations a second count as operations: people write FLOPs and FLOPS for either.
    """
    powers = dict(first)
    for name, exponent in second:
        powers[name] = powers.get(name, 0) + exponent * power
    if powers.get("flop"):
        powers.pop("s", None)
    return tuple(sorted((name, exponent) for name, exponent in powers.items() if exponent))


_PREFIXES = {"k": 1, "K": 1, "M": 2, "G": 3, "T": 4, "P": 5, "E": 6}
_WORDS = {"kilo": 1, "mega": 2, "giga": 3, "tera": 4, "peta": 5}
_BIT: Dimension = (("bit", 1),)
_FLOP: Dimension = (("flop", 1),)
_JOULE: Dimension = (("J", 1),)
_WATT: Dimension = (("J", 1), ("s", -1))
_HERTZ: Dimension = (("s", -1),)
_SECOND: Dimension = (("s", 1),)
_MONEY: Mapping[str, Dimension] = {
    "$": (("dollar", 1),),
    "€": (("euro", 1),),
    "£": (("pound", 1),),
}

_TIMES = {
    "ns": 1e-9,
    "us": 1e-6,
    "µs": 1e-6,
    "μs": 1e-6,
    "ms": 1e-3,
    "msec": 1e-3,
    "msecs": 1e-3,
    "s": 1,
    "sec": 1,
    "secs": 1,
    "min": 60,
    "mins": 60,
    "h": 3600,
    "hr": 3600,
    "hrs": 3600,
} | {
    f"{word}{plural}": size
    for word, size in {
        "nanosecond": 1e-9,
        "microsecond": 1e-6,
        "millisecond": 1e-3,
        "second": 1.0,
        "minute": 60.0,
        "hour": 3600.0,
        "day": 86400.0,
        "week": 604800.0,
    }.items()
    for plural in ("", "s")
}


_DATA = {
    "B": 8,
    "b": 1,
    "bit": 1,
    "bits": 1,
    "byte": 8,
    "bytes": 8,
    "Byte": 8,
    "Bytes": 8,
}


def _list_units() -> dict[str, Unit]:
    units = {name: Unit(size, _SECOND) for name, size in _TIMES.items()}
    for names, size in (("byte bytes Byte Bytes", 8), ("bit bits Bit Bits", 1)):
        for name in names.split():
            units[name] = Unit(size, _BIT)
    for prefix, power in _PREFIXES.items():
        decimal, binary = 1000.0**power, 1024.0**power
        units[prefix] = Unit(decimal, (), binary)
        for name, size in _DATA.items():
            units[prefix + name] = Unit(size * decimal, _BIT, size * binary)
        for name, size in (("iB", 8), ("ib", 1)):
            units[prefix + name] = Unit(size * binary, _BIT)
        for name, size in (("Bps", 8), ("bps", 1)):
            units[prefix + name] = Unit(size * decimal, multiply(_BIT, _SECOND, -1), size * binary)
            units[f"{prefix}i{name}"] = Unit(size * binary, multiply(_BIT, _SECOND, -1))
        for name in ("FLOP", "FLOPs", "FLOPS"):
            units[prefix + name] = Unit(decimal, _FLOP)
        for name, dimension in (("W", _WATT), ("J", _JOULE), ("Hz", _HERTZ), ("hz", _HERTZ)):
            units[prefix + name] = Unit(decimal, dimension)
        units[f"{prefix}Wh"] = Unit(decimal * 3600, _JOULE)
    for word, power in _WORDS.items():
        for plural in ("", "s"):
            decimal, binary = 1000.0**power, 1024.0**power
            units[f"{word}byte{plural}"] = Unit(8 * decimal, _BIT, 8 * binary)
            units[f"{word}bit{plural}"] = Unit(decimal, _BIT, binary)
    for name in ("FLOP", "FLOPs", "FLOPS"):
        units[name] = Unit(1, _FLOP)
    for name, dimension in (("W", _WATT), ("J", _JOULE), ("Hz", _HERTZ)):
        units[name] = Unit(1, dimension)
    units["Wh"] = Unit(3600, _JOULE)
    units["B"] = Unit(8, _BIT, is_billion=True)
    for name, scale in (
        ("thousand", 1e3),
        ("million", 1e6),
        ("mn", 1e6),
        ("billion", 1e9),
        ("bn", 1e9),
        ("trillion", 1e12),
    ):
        units[name] = Unit(scale)
    return units


UNITS: Mapping[str, Unit] = _list_units()


_UNIT = re.compile("[ \u00a0\u202f\u2009]?(?P<unit>[A-Za-zµμ]+)(?!\\w|-\\w)")
_RATE = re.compile(r"(?:/|[ ]?per[ ])[ ]?(?P<time>[A-Za-zµμ]+)(?![\w/])")
_PRICED = frozenset("kWh MWh GB GiB TB TiB M million billion".split())
"""What prices are given for, times aside: `$0.12/kWh`, `$3 per million`."""
_PRICE = re.compile(r"[$€£]\d[\d.,]*$")


def match_unit(text: str, start: int) -> tuple[Unit, int] | None:
    """The unit that begins at `start`, after a blank perhaps, and where it ends."""
    match = _UNIT.match(text, start)
    unit = UNITS.get(match["unit"]) if match else None
    if match is None or unit is None:
        return match_rate(text, start)
    rate = match_rate(text, match.end())
    if rate is None:
        return unit, match.end()
    per, end = rate
    product = Unit(
        unit.size * per.size,
        multiply(unit.dimension, per.dimension),
        unit.binary * per.size,
        unit.is_billion,
    )
    return product, end


def match_rate(text: str, start: int) -> tuple[Unit, int] | None:
    """The `/s`, ` per hour` or `/kWh` that begins at `start`, and where it ends."""
    match = _RATE.match(text, start)
    if match is None:
        return None
    name = match["time"]
    if name in _TIMES:
        return Unit(1 / _TIMES[name], _HERTZ), match.end()
    is_variable = name == "M" and not _PRICE.search(text, max(start - 16, 0), start)
    if name not in _PRICED or is_variable:
        return None
    unit = UNITS[name]
    inverse = multiply((), unit.dimension, -1)
    return Unit(1 / unit.size, inverse, 1 / unit.binary if unit.binary else 0), match.end()


def read_currency(sign: str) -> Unit:
    """The unit of a sign such as `$` before a number."""
    return Unit(1, _MONEY[sign])


@functools.lru_cache(maxsize=64)
def list_sizes(dimension: Dimension) -> tuple[float, ...]:
    """The sizes of the known units of a dimension, and of rates of them."""
    sizes = {
        size * rate
        for unit in UNITS.values()
        for rate, inverse in _RATES
        if multiply(unit.dimension, inverse) == dimension
        for size in (unit.size, unit.binary or unit.size)
    }
    return tuple(sorted(sizes))


_RATES: tuple[tuple[float, Dimension], ...] = (
    (1.0, ()),
    *((1 / size, _HERTZ) for size in (1, 60, 3600)),
)
