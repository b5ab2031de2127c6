"""Units as readers see them, in a heading or a data file: which base unit, and how much of it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

_DECIMAL = {"": 1.0, "k": 1e3, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15, "E": 1e18}
_SMALL = {"m": 1e-3, "µ": 1e-6, "μ": 1e-6, "u": 1e-6, "n": 1e-9, "p": 1e-12}
_BINARY = {f"{letter}i": 2.0 ** (10 * power) for power, letter in enumerate("KMGTPE", 1)}
_STEMS: Mapping[str, tuple[str, float]] = {
    "B": ("B", 1.0),
    "byte": ("B", 1.0),
    "bytes": ("B", 1.0),
    "b": ("B", 0.125),
    "bit": ("B", 0.125),
    "FLOP": ("FLOP", 1.0),
    "OP": ("FLOP", 1.0),  # of whole numbers, counted alike
    "s": ("s", 1.0),
    "Hz": ("Hz", 1.0),
    "W": ("W", 1.0),
    "J": ("J", 1.0),
    "V": ("V", 1.0),
    "A": ("A", 1.0),
}
_WHOLE: Mapping[str, tuple[str, float]] = {
    "1": ("1", 1.0),
    "%": ("1", 0.01),
    "min": ("s", 60.0),
    "h": ("s", 3600.0),
    "d": ("s", 86400.0),
    "°C": ("degC", 1.0),
    "degC": ("degC", 1.0),
    "1/s": ("1/s", 1.0),
    "Wh": ("J", 3600.0),
    "kWh": ("J", 3.6e6),
}
_SMALL_STEMS = frozenset(("s", "W", "J", "V", "A"))
_RATE = re.compile(r"(?P<amount>.+?)(?:/s|ps)")
_OPERATIONS = re.compile(r"(?P<amount>.*(?:FLOP|OP))S")


@dataclass(frozen=True, slots=True)
class Measure:
    """`factor` times the base unit."""

    base: str
    factor: float


def read_measure(unit: str) -> Measure | None:
    """What a unit measures: GBps and GB/s are 1e9 B/s, TFLOPS 1e12 FLOP/s, µs 1e-6 s, % 0.01.

    Upper and lower case count: GB is bytes, Gb is bits. None for a unit that is not known.
    """
    if unit in _WHOLE:
        return Measure(*_WHOLE[unit])
    for pattern in (_RATE, _OPERATIONS):
        if (match := pattern.fullmatch(unit)) and (amount := read_measure(match["amount"])):
            return Measure(f"{amount.base}/s", amount.factor)
    for stem, (base, size) in _STEMS.items():
        prefix = unit.removesuffix(stem)
        if prefix == unit:
            continue
        scales = {**_DECIMAL, **(_SMALL if stem in _SMALL_STEMS else {})}
        if base == "B":
            scales |= _BINARY
        if prefix in scales:
            return Measure(base, scales[prefix] * size)
    return None
