"""The correct value of a side that is wrong, written as the author would write it."""

from __future__ import annotations

import math
from collections.abc import Sequence

from bindery.check.arithmetic.readings import (
    Reading,
    evaluate_sides,
    measure_distance,
    measure_size,
)
from bindery.check.arithmetic.sides import Cut
from bindery.check.arithmetic.tokens import Token
from bindery.check.arithmetic.trees import Node, Number, find_typed_number, has_scale


def tell_values(
    left: Node, right: Node, tokens: Sequence[Token], first: Cut, second: Cut, text: str
) -> tuple[str, str]:
    """The values of both sides; the left is written like the right if that is a number."""
    typed = find_typed_number(right)
    if typed is not None:
        return _tell_like(right, typed, left, tokens[second.first : second.last], text), ""
    typed = find_typed_number(left)
    if typed is not None:
        return "", _tell_like(left, typed, right, tokens[first.first : first.last], text)
    a, b, _ = _find_nearest_reading(left, right)
    return _write(a, 3), _write(b, 3)


def _find_nearest_reading(left: Node, right: Node) -> tuple[float, float, Reading]:
    """The values of two sides in the likeliest reading: with their units, if that
    does not take them far apart. A side without a unit is taken to be in base units."""
    found = []
    for reading, a, b in evaluate_sides(left, right):
        if a.dimension == b.dimension or not a.dimension or not b.dimension:
            found.append((a.value, b.value, reading))
    if all(has_scale(side) and find_typed_number(side) for side in (left, right)):
        return found[0]  # a unit conversion: the units count, however wrong the number is
    near = (sides for sides in found if 1e-9 < measure_distance(*sides[:2]) < _FAR_APART)
    return next(near, found[0])


_FAR_APART = math.log(30)


def _tell_like(node: Node, typed: Number, other: Node, tokens: Sequence[Token], text: str) -> str:
    """The value of the other side, written as the typed number is, with its unit."""
    _, value, reading = _find_nearest_reading(node, other)
    size = measure_size(node, typed, reading)
    number = next(token for token in tokens if token.kind == "number")
    behind = text[number.end : tokens[-1].end]
    before = text[tokens[0].start : number.start].lstrip("~-−+ ")
    return f"{before}{_write_like(typed, value / size if size != 1 else value)}{behind}"


def _write_like(typed: Number, value: float) -> str:
    """A value in the form of a typed number: with its decimals, its commas or its power of ten."""
    mantissa, mark, _ = typed.text.lower().partition("e")
    if mark:
        decimals = len(mantissa.partition(".")[2])
        written, _, power = f"{value:.{decimals}e}".partition("e")
        return f"{written}e{int(power)}"
    return _write(value, max(typed.decimals, 0), "," in typed.text)


def _write(value: float, decimals: int, has_commas: bool = False) -> str:
    """A value with so many decimals, and more where these would show nothing."""
    comma = "," if has_commas else ""
    if isinstance(value, int) or float(value).is_integer():
        return f"{int(value):{comma}d}" if abs(value) < 10**18 else f"{value:.4g}"
    if abs(value) < 10.0 ** (2 - decimals) or abs(value) >= 1e16:
        return f"{value:.3g}"
    if not decimals and abs(value) < 1000:
        short = f"{value:.5g}"  # 100.05 is not 100
        is_exact = math.isclose(float(short), value, rel_tol=1e-12)
        return short if is_exact else f"{value:.4g}"
    if not decimals:
        return f"{round(value):{comma}d}"
    return f"{value:{comma}.{decimals}f}"
