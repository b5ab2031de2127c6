"""Whether two sides of a sum are equal, by the digits that are shown.

A sum is wrong only where no reasonable reading makes it true; what is in doubt is not judged.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator

from bindery.check.arithmetic.expressions import (
    Number,
    Reading,
    Side,
    list_readings,
    read_side,
)
from bindery.check.arithmetic.sides import Cut

_ROUGH_SIGNS = frozenset(("=~", "~=", "≈", "≃", "≅", "~"))
_ROUGH_SHARE = 0.05
"""How far off a rough number may be."""
_WRAPS = frozenset(2**bits for bits in (8, 16, 32, 64))
_FARTHEST_UNIT = 30
"""How far sides can be apart if one of them has its unit left out."""


def judge_sides(left: Cut, right: Cut, sign: str, counted: str) -> bool | None:
    """Whether two sides with a sign between them are equal, None where that is in doubt;
    `counted` is the word behind them."""
    first, second = left.side, right.side
    is_rough = sign in _ROUGH_SIGNS or first.is_rough or second.is_rough
    is_hidden = bool(first.units) != bool(second.units) or bool(counted and not second.units)
    agreement = _compare_readings(left, right, is_rough, is_hidden)
    if agreement is not False:
        return agreement
    operators = first.operators + second.operators
    is_doubtful = (
        first.is_loose
        or second.is_loose
        or (right.is_factor and first.operators != "/")
        or (not operators and (is_rough or not left.is_bare_before))
        or (not operators and (first.labels or second.labels))
        or (counted and first.labels and not second.units and counted not in first.labels)
    )
    return None if is_doubtful else False


def _compare_readings(left: Cut, right: Cut, is_rough: bool, is_hidden: bool) -> bool | None:
    """Whether the sides agree in one of the readings. Where a unit is hidden, they may be in
    thousands, or one of them in bits."""
    first, second = left.side, right.side
    agrees_bare = is_measured = is_odd = is_explained = is_near = False
    is_eightfold = True
    for reading, a, b in iterate_values(left, right):
        if a.dimension and b.dimension and a.dimension != b.dimension:
            is_odd = True
            continue
        agreement = _agree(a, b, is_rough)
        if agreement and reading.units:
            return True
        agrees_bare |= bool(agreement)
        is_explained |= agreement is None
        is_near |= not _is_far(a, b)
        if a.dimension and b.dimension:
            is_measured = True
            is_eightfold &= _is_eightfold(a, b)
    numbers = (*first.numbers, *second.numbers)
    if agrees_bare:
        is_wrong_bits = is_eightfold and all(number.value != 8 for number in numbers)
        is_conversion = not (first.operators or second.operators)
        return not (is_measured and (is_conversion or is_wrong_bits))
    is_of_computers = first.value in second.terms or second.value in first.terms
    is_of_computers |= abs(first.value - second.value) in _WRAPS
    has_exponent = any("e" in number.text.lower() for number in numbers)
    is_explained |= is_hidden and not is_near and not has_exponent
    is_explained |= is_hidden and _is_eightfold(first, second)
    return None if is_explained or is_of_computers or (is_odd and not is_measured) else False


def iterate_values(left: Cut, right: Cut) -> Iterator[tuple[Reading, Side, Side]]:
    """Both sides in each reading in which both have a value, the bare numbers first."""
    for reading in list_readings(left.side, right.side):
        a, b = read_side(left.tokens, reading), read_side(right.tokens, reading)
        if a is not None and b is not None:
            yield reading, a, b


def _is_far(first: Side, second: Side) -> bool:
    smaller, larger = sorted((abs(first.value), abs(second.value)))
    return larger > _FARTHEST_UNIT * smaller


def _is_eightfold(first: Side, second: Side) -> bool:
    """Whether bits were taken for bytes."""
    ratio = first.value / second.value if second.value else 0
    return any(math.isclose(ratio, wanted, rel_tol=0.005) for wanted in (8, 0.125))


def _agree(left: Side, right: Side, is_rough: bool) -> bool | None:
    """Whether two values agree by the digits shown; None where they may, for all we know."""
    typed, other = right, left
    if right.typed is None or (
        left.typed is not None
        and left.typed.decimals > 0
        and left.typed.digits < right.typed.digits
    ):
        typed, other = left, right
    number = typed.typed
    if number is None:
        return _compare_expressions(left, right, is_rough)
    shown, exact, size = typed.value, other.value, typed.size
    if _is_shown_as(exact, shown, number, size, is_rough):
        return True
    if number.decimals == 0 and 0 < shown - exact < size and "/" in other.operators:
        return None  # rounded up: 3.2 nodes are 4
    if typed.has_percent and _is_shown_as(abs(exact - 1), abs(shown), number, size, is_rough):
        return None  # so much more or less than the whole
    return None if abs(exact - shown) <= abs(exact) * _find_spread(other) * 1.001 else False


def _is_shown_as(exact: float, shown: float, number: Number, size: float, is_rough: bool) -> bool:
    """Whether a number is a value that was rounded or cut off at the last digit shown."""
    step = size * 10.0**-number.decimals
    difference = abs(exact - shown)
    slack = 1e-9 * max(abs(exact), abs(shown))
    if difference <= step / 2 + slack:
        return True
    if abs(shown) <= abs(exact) and difference < step - slack and shown * exact >= 0:
        return True
    digits = re.sub(r"\D", "", number.text)
    zeros = 0 if number.decimals or not number.value else len(digits) - len(digits.rstrip("0"))
    rounded = step * 10.0**zeros
    if is_rough:
        by_zeros = min(rounded / 2, 0.15 * abs(exact)) if zeros else 0
        return difference <= max(_ROUGH_SHARE * abs(exact), step, by_zeros) + slack
    is_rounded = zeros >= 2 or (zeros == 1 and not float(exact / (size or 1)).is_integer())
    return is_rounded and number.digits >= 2 and difference <= rounded / 2 + slack


def _compare_expressions(left: Side, right: Side, is_rough: bool) -> bool | None:
    largest = max(abs(left.value), abs(right.value))
    difference = abs(left.value - right.value)
    if difference <= 1e-6 * largest or (is_rough and difference <= _ROUGH_SHARE * largest):
        return True
    has_decimals = any(number.decimals > 0 for number in (*left.numbers, *right.numbers))
    return None if (has_decimals or is_rough) and difference <= 0.02 * largest else False


def _find_spread(side: Side) -> float:
    """By what share a side may be off because its numbers were rounded before they were typed."""
    return sum(0.5 * 10.0**-n.decimals / n.value for n in side.numbers if _is_rounded(n))


def _is_rounded(number: Number) -> bool:
    """Whether a number may be the result of an earlier sum by its looks: 2.67 and 16.7, but not
    0.6, 2.4, 0.25 and 1.05."""
    if number.decimals < 1 or not number.value or (number.decimals == 1 and number.digits < 3):
        return False
    parts = number.value * (2 if number.decimals == 1 else 20)
    return not math.isclose(parts, round(parts), abs_tol=1e-9)
