"""Units after numbers: their size in base units, and their dimension.

With both, `16 GB / 300 GBps` comes out in seconds. `B` may be bytes or billions, and `GB` a power
of ten or of two; `readings` tries each.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from msgspec import Struct

from bindery.core import units
from bindery.core.units import BASE_UNITS, Dimension


class Unit(Struct, frozen=True):
    """A unit or scale; `binary` is its size where its prefix counts in powers of 1024."""

    size: float
    dimension: Dimension = ()
    binary: float = 0
    is_billion: bool = False
    """Whether it is a bare `B`, which may mean billions or bytes."""

    def measure(self, *, binary: bool, billion: bool) -> tuple[float, Dimension]:
        """Size and dimension in one reading."""
        if self.is_billion and billion:
            return 1e9, ()
        return (self.binary if binary and self.binary else self.size), self.dimension


def multiply(first: Dimension, second: Dimension, power: int = 1) -> Dimension:
    """The dimension of a product, or of a quotient if `power` is -1.

    Operations per second count as operations: people write FLOPs and FLOPS for either.
    """
    if not second:
        return first
    powers = dict(first)
    for name, exponent in second:
        powers[name] = powers.get(name, 0) + exponent * power
    if powers.get("FLOP"):
        powers.pop("s", None)
    return tuple(sorted((name, exponent) for name, exponent in powers.items() if exponent))


_SECOND: Dimension = (("s", 1),)
_HERTZ: Dimension = (("s", -1),)
_MONEY: Mapping[str, Dimension] = {
    "$": (("dollar", 1),),
    "€": (("euro", 1),),
    "£": (("pound", 1),),
}
# Likely variables here, or not words of prose.
_LEFT_OUT = frozenset("b d percent pct permille ppm".split())
_PREFIXES = {"k": 1, "K": 1, "M": 2, "G": 3, "T": 4, "P": 5, "E": 6}

UNITS: Mapping[str, Unit] = {
    name: Unit(unit.size, multiply((), BASE_UNITS[unit.base].dimension), unit.binary)
    for name, unit in units.UNITS.items()
    if unit.base not in ("V", "A", "degC") and name.isalpha() and name not in _LEFT_OUT
} | {
    "B": Unit(1, (("B", 1),), is_billion=True),
    **{name: Unit(1000.0**power, (), 1024.0**power) for name, power in _PREFIXES.items()},
}
_TIMES = {name: unit.size for name, unit in UNITS.items() if unit.dimension == _SECOND}


_UNIT = re.compile("[ \u00a0\u202f\u2009]?(?P<unit>[A-Za-zµμ]+)(?!\\w|-\\w)")
_RATE = re.compile(r"(?:/|[ ]?per[ ])[ ]?(?P<time>[A-Za-zµμ]+)(?![\w/])")
_PRICED = frozenset("kWh MWh GB GiB TB TiB M million billion".split())
"""What prices are per, apart from times: `$0.12/kWh`, `$3 per million`."""
_PRICE = re.compile(r"[$€£]\d[\d.,]*$")


def match_unit(text: str, start: int) -> tuple[Unit, int] | None:
    """The unit that begins at `start`, optionally after a space, and where it ends."""
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


def list_sizes(dimension: Dimension) -> tuple[float, ...]:
    """The sizes of the known units of a dimension, and of rates of them."""
    sizes = {
        size * rate
        for unit in UNITS.values()
        for inverse, rates in _RATES.items()
        if multiply(unit.dimension, inverse) == dimension
        for rate in rates
        for size in (unit.size, unit.binary or unit.size)
    }
    return tuple(sorted(sizes))


_RATES: Mapping[Dimension, tuple[float, ...]] = {(): (1.0,), _HERTZ: (1.0, 1 / 60, 1 / 3600)}
