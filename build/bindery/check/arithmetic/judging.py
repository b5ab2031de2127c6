"""Judge whether a statement holds, over all ways to read it.

It fails only if no reasonable reading makes it true; anything doubtful is not judged.
"""

from __future__ import annotations

import enum
import math
import re

from msgspec.structs import replace

from bindery.check.arithmetic.agreement import SILENT, compare_values, find_silent_unit
from bindery.check.arithmetic.readings import (
    NoValueError,
    Reading,
    evaluate,
    evaluate_sides,
    measure_distance,
)
from bindery.check.arithmetic.sides import Cut, is_counted
from bindery.check.arithmetic.trees import (
    Binary,
    Measured,
    Node,
    Number,
    Percent,
    Side,
    find_typed_number,
    has_operator,
    has_scale,
    iterate_nodes,
)
from bindery.core.units import Dimension


class Verdict(enum.Enum):
    """Whether a statement is true."""

    HOLDS = "holds"
    FAILS = "fails"
    UNJUDGED = "unjudged"


_ROUGH_SIGNS = frozenset(("=~", "~=", "≈", "≃", "≅", "~"))
_ARROWS = frozenset(("=>", "⇒"))
_WRAPS = frozenset(2**bits for bits in (8, 16, 32, 64))
_FARTHEST_RESULT = math.log(3)
"""Largest log ratio between a number and its working for that to be a wrong result."""
_TIME: Dimension = (("s", 1),)
_LARGEST_DATE = 32
_FARTHEST_MODEL = 30
_SWALLOWED = 1 / 8
"""Largest relative summand that the coarsest number format loses in an addition."""


def is_statement(left: Side, right: Side) -> bool:
    """Whether there is something to compute: an operation, or a conversion of units or percent."""
    if left.has_operator or right.has_operator:
        return True
    return (has_scale(left.node) and has_scale(right.node)) or _is_share(left.node, right.node)


def is_certain_difference(node: Node) -> bool:
    """Whether the minus of a side cannot be a dash: 80 GB - 10 GB, 100% - 5% and 1 - 0.05."""
    match node:
        case Binary("-", Percent(), Percent()):
            return True
        case Binary("-", Number(value=1), Number(value=part)):
            return 0 < part < 1
        case Binary("-", first, second):
            try:
                one, other = (evaluate(term, Reading(units=True)) for term in (first, second))
            except NoValueError:
                return False
            is_range = one.value <= other.value  # 10 s - 20 s
            return bool(one.dimension) and one.dimension == other.dimension and not is_range
        case _:
            return False


def _is_share(left: Node, right: Node) -> bool:
    return isinstance(left, Percent) != isinstance(right, Percent)


def judge_sides(left: Cut, right: Cut, sign: str, counted: str) -> Verdict:
    """The verdict on two sides with a sign between them; `counted` is the word after them.

    The sign `(` stands for a result with its working in brackets.
    """
    first, second = left.side, right.side
    is_rough = sign in _ROUGH_SIGNS or first.is_rough or second.is_rough
    outcome = _weigh(first.node, second.node, is_rough)
    if outcome is not Verdict.FAILS:
        return outcome
    if first.is_loose or second.is_loose or _is_key(first, second):
        return Verdict.UNJUDGED
    if right.is_factor and not _is_ratio(first):
        return Verdict.UNJUDGED
    has_hidden_unit = not has_scale(second.node) and bool(counted or has_scale(first.node))
    if has_hidden_unit and _agrees_but_for_scale(first.node, second.node):
        return Verdict.UNJUDGED
    if not first.has_operator and not second.has_operator:
        is_plain = left.is_bare_before and not (first.labels or second.labels or is_rough)
        if not is_plain or _is_share(first.node, second.node):
            return Verdict.UNJUDGED
    if has_scale(second.node) and _names_model(first.node, second.node):
        return Verdict.UNJUDGED
    if sign == "(" and not _is_near(first.node, second.node):
        return Verdict.UNJUDGED
    if sign in _ARROWS and not _is_plain_result(first, second):
        return Verdict.UNJUDGED
    if counted and is_counted(counted) and first.labels and not has_scale(second.node):
        return outcome if counted.lower().rstrip("s") in first.labels else Verdict.UNJUDGED
    return outcome


def _is_key(left: Side, right: Side) -> bool:
    """Whether the left side is the key of a list: 0=720/576, 1=625/50."""
    if not isinstance(left.node, Number) or not right.has_operator:
        return False
    try:
        value = evaluate(right.node, Reading()).value
    except NoValueError:
        return False
    return measure_distance(left.node.value, value) > math.log(2)


def _is_ratio(side: Side) -> bool:
    """Whether a side divides two numbers of the same unit, so that `5x` after it means five times:
    `100 s / 25 s`."""
    match side.node:
        case Binary("/", over, under) if not side.labels:
            if find_typed_number(over) is None or find_typed_number(under) is None:
                return False
        case _:
            return False
    try:
        return not evaluate(side.node, Reading(units=True)).dimension
    except NoValueError:
        return False


def _agrees_but_for_scale(left: Node, right: Node) -> bool:
    """Whether the sides differ only by powers of 1000 or 1024: 400k + 20000 * 8 = 560 kilobytes."""
    for reading, a, b in evaluate_sides(left, right):
        if a.dimension != b.dimension:
            continue
        for scale in (step**power for step in (1000.0, 1024.0) for power in (-3, -2, -1, 1, 2, 3)):
            moved = replace(a, value=a.value * scale)
            if compare_values(left, right, moved, b, reading, False):
                return True
    return False


def _names_model(left: Node, right: Node) -> bool:
    """Whether a factor may be the name of a device: 8 x 4090 = 192 GB."""
    match left:
        case Binary("*", Number(text=count, value=a), Number(text=name, value=b)):
            result = find_typed_number(right)
            is_name = len(count) <= 3 and re.fullmatch(r"[1-9]\d\d0", name) is not None
            return is_name and result is not None and a * b > _FARTHEST_MODEL * result.value
        case _:
            return False


def _is_near(left: Node, right: Node) -> bool:
    """Whether brackets hold the working of the number before them: its value is near, and it is
    neither a date nor a position: June 3 (6/3), part 1 (1/2)."""
    try:
        a, b = evaluate(left, Reading()).value, evaluate(right, Reading()).value
    except NoValueError:
        return False
    is_counting = not has_scale(left) and all(
        node.value < _LARGEST_DATE for node in iterate_nodes(right) if isinstance(node, Number)
    )
    return not is_counting and measure_distance(a, b) < _FARTHEST_RESULT


def _is_plain_result(left: Side, right: Side) -> bool:
    """Whether an arrow leads from whole numbers to a whole number."""
    if right.has_operator or not left.has_operator or left.labels:
        return False
    return all(
        isinstance(node, Binary) or (isinstance(node, Number) and node.decimals == 0)
        for side in (left, right)
        for node in iterate_nodes(side.node)
    )


def _weigh(left: Node, right: Node, is_rough: bool) -> Verdict:
    """The verdict over all readings of two sides."""
    holds_bare = is_measured = is_explained = is_odd = False
    ratios = []
    for reading, a, b in evaluate_sides(left, right):
        if a.dimension != b.dimension:
            if a.dimension and b.dimension:
                is_odd |= not _counts_times(left, right)
            elif size := find_silent_unit(left, right, a, b, reading, is_rough):
                if size in SILENT:
                    return Verdict.HOLDS
                is_explained = True
            continue
        closeness = compare_values(left, right, a, b, reading, is_rough)
        is_explained |= closeness is None
        if not reading.units:
            holds_bare |= bool(closeness)
        elif closeness:
            return Verdict.HOLDS
        elif a.dimension:
            is_measured = True
            ratios.append(a.value / b.value if b.value else math.inf)
    if holds_bare and is_measured:
        is_converted = not has_operator(left) and not has_operator(right)
        is_eightfold = all(_is_eightfold(ratio) for ratio in ratios)
        is_wrong_eightfold = is_eightfold and not _has_eight(left, right)
        is_wrong = is_converted or is_wrong_eightfold or _adds_units(left, right)
        return Verdict.FAILS if is_wrong else Verdict.HOLDS
    if holds_bare:
        return Verdict.HOLDS
    if is_explained or (is_odd and not is_measured) or _is_of_computers(left, right):
        return Verdict.UNJUDGED
    return Verdict.FAILS


def _counts_times(left: Node, right: Node) -> bool:
    """Whether one time counts how often another occurs, and the result has the unit of either:
    `30 days x 24 h = 720 h`."""
    match left, right:
        case Binary("*", Measured(Number(), one), Measured(Number(), other)), Measured(
            Number(), unit
        ):
            return one.dimension == other.dimension == _TIME and unit in (one, other)
        case _:
            return False


def _is_eightfold(ratio: float) -> bool:
    return any(math.isclose(ratio, wanted, rel_tol=0.005) for wanted in (8, 0.125))


def _adds_units(left: Node, right: Node) -> bool:
    """Whether amounts in different units of one kind are added, so that their bare numbers mean
    nothing: 12 GB + 500 MB = 512 GB."""
    whole, total = (right, left) if find_typed_number(right) is not None else (left, right)
    terms = _list_terms(total)
    units = [node.unit for node in (whole, *terms) if isinstance(node, Measured)]
    if len(units) <= len(terms) or any(find_typed_number(term) is None for term in terms):
        return False
    if any(unit.is_billion for unit in units):
        return False  # 7B parameters of a byte each, and 1 GB: 8 GB
    kinds = {unit.dimension for unit in units}
    sizes = {unit.size for unit in units[1:]}
    return len(kinds) == 1 and () not in kinds and len(sizes) > 1


def _list_terms(node: Node) -> list[Node]:
    """The terms of a sum or difference; any other tree is a single term."""
    match node:
        case Binary("+" | "-", left, right):
            return [*_list_terms(left), *_list_terms(right)]
        case _:
            return [node]


def _has_eight(left: Node, right: Node) -> bool:
    """Whether there is an 8 that may convert bytes to bits."""
    return any(
        isinstance(node, Number) and node.value == 8
        for side in (left, right)
        for node in iterate_nodes(side)
    )


def _is_of_computers(left: Node, right: Node) -> bool:
    """Whether an equation shows computer arithmetic: 256 + 1 = 256, 255 + 1 = 0."""
    try:
        a, b = evaluate(left, Reading()).value, evaluate(right, Reading()).value
    except NoValueError:
        return True
    if abs(a - b) in _WRAPS:
        return True
    for node, other in ((left, b), (right, a)):
        if not isinstance(node, Binary) or node.operator not in "+-" or has_scale(node):
            continue
        for whole, part in ((node.left, node.right), (node.right, node.left)):
            is_kept = evaluate(whole, Reading()).value == other != 0
            added = abs(evaluate(part, Reading()).value)
            if is_kept and added <= abs(other) * _SWALLOWED and _is_plain_power(whole):
                return True
    return False


def _is_plain_power(node: Node) -> bool:
    """Whether a value is a number or a power, as in examples of rounding."""
    operators = {below.operator for below in iterate_nodes(node) if isinstance(below, Binary)}
    return operators <= {"**"}
