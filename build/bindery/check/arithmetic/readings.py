"""Evaluate a tree in each way it can be read.

Notation is ambiguous: `B` is bytes or billions, `GB` is 10**9 or 2**30 bytes, `log` has one of
three bases, and a unit counts or is only a label. A `Reading` is one choice, and `list_readings`
lists those that differ for two given sides.
"""

from __future__ import annotations

import contextlib
import enum
import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from bindery.check.arithmetic.measures import multiply
from bindery.check.arithmetic.trees import (
    Binary,
    Call,
    Measured,
    Negative,
    Node,
    Number,
    Percent,
    iterate_nodes,
    substitute,
)
from bindery.core.units import Dimension

_LARGEST_BITS = 4096


class NoValueError(ValueError):
    """There is no value, or none in this reading."""


PercentSense = enum.Enum("PercentSense", ["SHARE", "OF_THE_LEFT", "NUMBER"])


class Reading(Struct, frozen=True):
    """One way to interpret the notation."""

    units: bool = False
    """Whether units and scales count; without, only the bare numbers do."""
    binary: bool = False
    billion: bool = False
    percent: PercentSense = PercentSense.SHARE
    base: float = 10


class Quantity(Struct, frozen=True):
    """A value in base units."""

    value: int | float
    dimension: Dimension = ()


def list_readings(first: Node, second: Node) -> list[Reading]:
    """The readings of two sides, the one with bare numbers last."""
    nodes = [*iterate_nodes(first), *iterate_nodes(second)]
    units = [node.unit for node in nodes if isinstance(node, Measured)]
    has_log = any(isinstance(node, Call) and node.name == "log" for node in nodes)
    choices = itertools.product(
        (True, False) if units else (False,),
        (False, True) if any(unit.binary for unit in units) else (False,),
        (False, True) if any(unit.is_billion for unit in units) else (False,),
        _list_senses(first, second, nodes),
        (10, 2, math.e) if has_log else (10,),
    )
    return [Reading(*choice) for choice in choices if choice[0] or not (choice[1] or choice[2])]


def _list_senses(first: Node, second: Node, nodes: Sequence[Node]) -> list[PercentSense]:
    """What percent signs can mean: a hundredth; a share of the left operand; or nothing, if a side
    multiplies by 100 or only adds: 50 + 50 = 100%."""
    senses = [PercentSense.SHARE]
    if not any(isinstance(node, Percent) for node in nodes):
        return senses
    sides = (first, second)
    marked = [any(isinstance(node, Percent) for node in iterate_nodes(side)) for side in sides]
    if any(isinstance(node, Binary) and isinstance(node.right, Percent) for node in nodes):
        senses.append(PercentSense.OF_THE_LEFT)
    for side, has_sign, other_has_sign in (
        (first, marked[0], marked[1]),
        (second, marked[1], marked[0]),
    ):
        if has_sign == other_has_sign:
            continue
        numbers = [node.value for node in iterate_nodes(side) if isinstance(node, Number)]
        operators = [node.operator for node in iterate_nodes(side) if isinstance(node, Binary)]
        if has_sign and operators and set(operators) <= {"+", "-"}:
            senses.append(PercentSense.NUMBER)
        is_total = operators and set(operators) <= {"+", "-"} and sum(map(abs, numbers)) > 2
        if other_has_sign and (100 in numbers or is_total):
            senses.append(PercentSense.NUMBER)
    return list(dict.fromkeys(senses))


def evaluate_sides(left: Node, right: Node) -> Iterator[tuple[Reading, Quantity, Quantity]]:
    """The values of two sides in each reading in which both have one."""
    for reading in list_readings(left, right):
        with contextlib.suppress(NoValueError):
            yield reading, evaluate(left, reading), evaluate(right, reading)


def evaluate(node: Node, reading: Reading) -> Quantity:
    """The value of a tree in one reading. Raises NoValueError if it has none."""
    try:
        quantity = _evaluate(node, reading)
        if isinstance(quantity.value, complex) or not math.isfinite(quantity.value):
            raise NoValueError
    except (ArithmeticError, ValueError, TypeError):
        raise NoValueError from None
    return quantity


def _evaluate(node: Node, reading: Reading) -> Quantity:
    match node:
        case Number(value=value):
            return Quantity(value)
        case Measured(content=content, unit=unit):
            inner = _evaluate(content, reading)
            if not reading.units:
                return inner
            size, dimension = unit.measure(binary=reading.binary, billion=reading.billion)
            return Quantity(inner.value * size, multiply(inner.dimension, dimension))
        case Percent(content=content):
            inner = _evaluate(content, reading)
            if reading.percent is PercentSense.NUMBER:
                return inner
            return replace(inner, value=inner.value / 100)
        case Negative(content=content):
            inner = _evaluate(content, reading)
            return replace(inner, value=-inner.value)
        case Binary():
            return _evaluate_binary(node, reading)
        case Call(name=name, arguments=arguments):
            values = [_evaluate(argument, reading) for argument in arguments]
            return _call(name, values, reading)


def _evaluate_binary(node: Binary, reading: Reading) -> Quantity:
    left, right = _evaluate(node.left, reading), _evaluate(node.right, reading)
    a, b = left.value, right.value
    match node.operator:
        case "+" | "-":
            if left.dimension and right.dimension and left.dimension != right.dimension:
                raise NoValueError
            if isinstance(node.right, Percent) and reading.percent is PercentSense.OF_THE_LEFT:
                b *= a
            return Quantity(
                a + b if node.operator == "+" else a - b, left.dimension or right.dimension
            )
        case "*":
            return Quantity(a * b, multiply(left.dimension, right.dimension))
        case "/":
            exact = isinstance(a, int) and isinstance(b, int) and b and a % b == 0
            value = a // b if exact else a / b
            return Quantity(value, multiply(left.dimension, right.dimension, -1))
        case "//":
            return Quantity(a // b, multiply(left.dimension, right.dimension, -1))
        case "%":
            return Quantity(a % b, left.dimension)
        case _:
            return Quantity(_raise(a, b))


def _raise(base: int | float, power: int | float) -> int | float:
    if abs(power) * math.log2(abs(base) + 1) > _LARGEST_BITS:
        raise NoValueError
    value: int | float = base**power
    return value


_FUNCTIONS: Mapping[str, Callable[[float], float]] = {
    "sqrt": math.sqrt,
    "log2": math.log2,
    "log10": math.log10,
    "ln": math.log,
    "exp": math.exp,
    "ceil": math.ceil,
    "floor": math.floor,
    "abs": abs,
}


def _call(name: str, values: Sequence[Quantity], reading: Reading) -> Quantity:
    numbers = [quantity.value for quantity in values]
    dimension = values[0].dimension
    if name in ("min", "max"):
        return Quantity((min if name == "min" else max)(numbers), dimension)
    if name == "round" and len(numbers) == 2:
        return Quantity(round(numbers[0], int(numbers[1])), dimension)
    if name == "log" and len(numbers) == 2:
        return Quantity(math.log(numbers[0], numbers[1]))
    if len(numbers) != 1:
        raise NoValueError
    if name == "log":
        return Quantity(math.log(numbers[0], reading.base))
    if name == "round":
        return Quantity(round(numbers[0]), dimension)
    value = _FUNCTIONS[name](numbers[0])
    return Quantity(value, dimension if name in ("ceil", "floor", "abs") else ())


def measure_size(node: Node, typed: Number, reading: Reading) -> float:
    """The value of the node with 1 instead of the typed number."""
    return abs(evaluate(substitute(node, typed, replace(typed, value=1)), reading).value)


def measure_distance(first: float, second: float) -> float:
    """The absolute log ratio of two values."""
    if not first or not second:
        return math.inf
    return abs(math.log(abs(first / second)))
