"""Whether two values agree by the digits that are shown."""

from __future__ import annotations

import math
import re

from msgspec.structs import replace

from bindery.check.arithmetic.measures import list_sizes
from bindery.check.arithmetic.readings import (
    NoValueError,
    Quantity,
    Reading,
    evaluate,
    measure_distance,
    measure_size,
)
from bindery.check.arithmetic.trees import (
    Binary,
    Node,
    Number,
    Percent,
    count_digits,
    find_typed_number,
    iterate_nodes,
    substitute,
)
from bindery.core.units import Dimension

_TIME: Dimension = (("s", 1),)
_ROUGH_SHARE = 0.05
"""Relative error allowed for a number marked as rough."""


def compare_values(
    left: Node, right: Node, a: Quantity, b: Quantity, reading: Reading, is_rough: bool
) -> bool | None:
    """Whether two sides agree to the digits shown; None if that cannot be decided."""
    typed_right, typed_left = find_typed_number(right), find_typed_number(left)
    if typed_right is not None and (
        typed_left is None
        or _has_more_digits(typed_left, typed_right)
        or (not is_rough and _is_exact(typed_left, a))
    ):
        shown, exact, node, typed = b.value, a.value, right, typed_right
        other = left
    elif typed_left is not None:
        shown, exact, node, typed = a.value, b.value, left, typed_left
        other = right
    else:
        return _compare_expressions(left, right, a.value, b.value, is_rough)
    size = measure_size(node, typed, reading)
    if _agrees(exact, shown, typed, size, is_rough):
        return True
    if typed.decimals == 0 and 0 < shown - exact < size and _has_quotient(other):
        return None  # rounded up, such as a number of nodes
    if isinstance(node, Percent) and _agrees(abs(exact - 1), abs(shown), typed, size, is_rough):
        return None  # a change in percent instead of a ratio
    spread = _find_spread(other, reading)
    return None if spread and abs(exact - shown) <= spread * 1.000001 else False


def _has_more_digits(first: Number, second: Number) -> bool:
    """Whether the first of two numbers is shown with at least as many significant digits."""
    return count_digits(first) >= count_digits(second)


def _is_exact(typed: Number, quantity: Quantity) -> bool:
    """Whether a number to be converted to another unit is exact: 1 GB and 90 min."""
    is_whole = typed.decimals == 0
    return is_whole and (quantity.dimension == _TIME or count_digits(typed) == 1)


def _agrees(exact: float, shown: float, typed: Number, size: float, is_rough: bool) -> bool:
    """Whether a number is a value rounded or cut off at its last digit."""
    step = size * 10.0**-typed.decimals
    difference = abs(exact - shown)
    slack = 1e-9 * max(abs(exact), abs(shown))
    if difference <= step / 2 + slack:
        return True
    if abs(shown) <= abs(exact) and difference < step - slack and shown * exact >= 0:
        return True
    zeros = _count_zeros(typed)
    rounded = step * 10.0**zeros
    if is_rough:
        by_zeros = min(rounded / 2, 0.15 * abs(exact)) if zeros else 0
        return difference <= max(_ROUGH_SHARE * abs(exact), step, by_zeros) + slack
    is_rounded = zeros >= 2 or (zeros == 1 and not float(exact / (size or 1)).is_integer())
    return is_rounded and count_digits(typed) >= 2 and difference <= rounded / 2 + slack


def _count_zeros(typed: Number) -> int:
    """How many zeros a whole number ends in."""
    if typed.decimals or not typed.value:
        return 0
    digits = re.sub(r"\D", "", typed.text)
    return len(digits) - len(digits.rstrip("0"))


def _compare_expressions(
    left: Node, right: Node, a: float, b: float, is_rough: bool
) -> bool | None:
    difference, largest = abs(a - b), max(abs(a), abs(b))
    if difference <= 1e-6 * largest or (is_rough and difference <= _ROUGH_SHARE * largest):
        return True
    has_decimals = any(
        isinstance(node, Number) and node.decimals > 0
        for side in (left, right)
        for node in iterate_nodes(side)
    )
    return None if (has_decimals or is_rough) and difference <= 0.02 * largest else False


def _has_quotient(node: Node) -> bool:
    return any(isinstance(below, Binary) and below.operator == "/" for below in iterate_nodes(node))


def _find_spread(node: Node, reading: Reading) -> float:
    """How much the value of a side may change because its numbers are rounded."""
    spread = 0.0
    value = evaluate(node, reading).value
    for number in iterate_nodes(node):
        if isinstance(number, Number) and _is_rounded(number):
            moved = replace(number, value=number.value + 0.5 * 10.0**-number.decimals)
            try:
                spread += abs(evaluate(substitute(node, number, moved), reading).value - value)
            except NoValueError:
                return 0.0
    return spread


def _is_rounded(number: Number) -> bool:
    """Whether a number looks like the rounded result of a calculation: 2.67 and 16.7, but not
    0.6, 2.4, 0.01, 0.25 and 1.05."""
    if number.decimals < 1 or (number.decimals == 1 and count_digits(number) < 3):
        return False
    if number.text.strip("0.") == "1":  # a power of ten
        return False
    parts = number.value * (2 if number.decimals == 1 else 20)
    return not math.isclose(parts, round(parts), abs_tol=1e-9)


_UNIT_APART = math.log(5)
"""Log ratio above which a unit was changed silently: 17170 = 17.2 GB."""


SILENT = frozenset((1.0, 8.0))
"""Sizes of units that are often left out: seconds, operations, bytes and bits."""


def find_silent_unit(
    left: Node, right: Node, a: Quantity, b: Quantity, reading: Reading, is_rough: bool
) -> float:
    """The size of the unit with which the side without one agrees with the other; 0 if none."""
    bare = replace(reading, units=False)
    try:
        distance = measure_distance(evaluate(left, bare).value, evaluate(right, bare).value)
    except NoValueError:
        return 0.0
    if distance < _UNIT_APART:
        return 0.0
    typed_right, typed_left = find_typed_number(right), find_typed_number(left)
    node, typed = (right, typed_right) if typed_right is not None else (left, typed_left)
    own = measure_size(node, typed, reading) if typed is not None else 0.0
    for size in list_sizes(a.dimension or b.dimension):
        first = a.value if a.dimension else a.value * size
        second = b.value if b.dimension else b.value * size
        shown, exact = (second, first) if node is right else (first, second)
        has_own = bool((b if node is right else a).dimension)
        if typed is None:
            agrees = math.isclose(first, second, rel_tol=1e-3)
        else:
            agrees = _agrees(exact, shown, typed, own if has_own else own * size, is_rough)
        if agrees:
            return size
    return 0.0
