"""One side of a sum: read from tokens into a tree, and worked out.

What is written can be read in more than one way: `B` as bytes or billions, `GB` as 10**9 or 2**30
bytes, `log` to three bases, units taken along or left aside. A `Reading` is one of these ways, and
`list_readings` tells which of them differ for a given tree.
"""

from __future__ import annotations

import enum
import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from bindery.sums.measures import Dimension, Unit, multiply
from bindery.sums.tokens import Kind, Token

_LARGEST_BITS = 4096
_LONGEST_LABEL = 4


class NoValueError(ValueError):
    """There is no value, or none in this way of reading it."""


# --- the tree --------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Number:
    """A number as typed."""

    value: int | float
    decimals: int
    """How many decimals are shown; negative where an exponent takes digits from the end."""
    text: str


@dataclass(frozen=True, slots=True)
class Measured:
    """A value with a unit or a scale."""

    content: Node
    unit: Unit


@dataclass(frozen=True, slots=True)
class Percent:
    """A value with a percent sign."""

    content: Node


@dataclass(frozen=True, slots=True)
class Negative:
    """A value with a minus before it."""

    content: Node


@dataclass(frozen=True, slots=True)
class Binary:
    """Two values and the operator between them."""

    operator: str
    left: Node
    right: Node


@dataclass(frozen=True, slots=True)
class Call:
    """A function of values; `log` without a base is called so."""

    name: str
    arguments: tuple[Node, ...]


Node = Number | Measured | Percent | Negative | Binary | Call


@dataclass(frozen=True, slots=True)
class Side:
    """A tree and what is said around its numbers."""

    node: Node
    labels: frozenset[str] = frozenset()
    """The words behind its numbers that are no units: `GPUs`, `nodes`."""
    is_loose: bool = False
    """Whether there is another way to understand it than as this tree."""
    is_rough: bool = False
    """Whether one of its numbers is said to be rough."""
    has_remark_behind: bool = False
    """Whether words or brackets follow the last of its values."""

    @property
    def operators(self) -> int:
        """How many operators and functions it has."""
        return sum(isinstance(node, Binary | Call) for node in iterate_nodes(self.node))


def iterate_nodes(node: Node) -> Iterator[Node]:
    """A node and all below it."""
    yield node
    match node:
        case Measured(content=content) | Percent(content=content) | Negative(content=content):
            yield from iterate_nodes(content)
        case Binary(left=left, right=right):
            yield from iterate_nodes(left)
            yield from iterate_nodes(right)
        case Call(arguments=arguments):
            for argument in arguments:
                yield from iterate_nodes(argument)


# --- reading ---------------------------------------------------------------------------------


def read_side(tokens: Sequence[Token]) -> Side | None:
    """The side that is written by exactly these tokens, or None where they write none."""
    reader = _Reader(tokens)
    try:
        node = reader.read_sum()
    except _NoExpressionError:
        return None
    if reader.at != len(tokens):
        return None
    has_remark_behind = reader.value_end < reader.at
    labels = frozenset(reader.labels)
    return Side(node, labels, reader.is_loose, reader.is_rough, has_remark_behind)


class _NoExpressionError(Exception):
    """The tokens are no expression."""


_AFTER_LABEL = (Kind.OPERATOR, Kind.RELATION, Kind.CLOSE, Kind.UNIT, Kind.OPEN)
NO_LABELS = frozenset(
    "and or so then thus hence therefore with without to from in on at by for but if when while "
    "as is are was were be been has have had gives give makes make we you they it its this that "
    "these those not no than which who where about around roughly nearly almost only just exactly "
    "up down mod modulo squared cubed half dozen hundred hundreds out versus vs via each "
    "per".split()
)
"""Words that are no names of what is counted."""


class _Reader:
    """Reads from left to right; `at` is the token that comes next."""

    def __init__(self, tokens: Sequence[Token]) -> None:
        self.tokens = tokens
        self.at = 0
        self.value_end = 0
        self.labels: set[str] = set()
        self.is_loose = False
        self.is_rough = False

    def peek(self, ahead: int = 0) -> Token | None:
        index = self.at + ahead
        return self.tokens[index] if index < len(self.tokens) else None

    def take_operator(self, *names: str) -> str | None:
        token = self.peek()
        if token is None or token.kind is not Kind.OPERATOR or token.text not in names:
            return None
        self.is_loose |= token.is_loose or token.is_new_line
        self.at += 1
        return token.text

    def read_sum(self) -> Node:
        node = self.read_product()
        while operator := self.take_operator("+", "-"):
            node = Binary(operator, node, self.read_product())
        return node

    def read_product(self) -> Node:
        node = self.read_factor()
        while True:
            if operator := self.take_operator("*", "/", "//"):
                node = Binary(operator, node, self.read_factor())
            elif self.take_operator("of"):
                node = Binary("*", node, self.read_factor())
            elif self.is_remainder():
                self.at += 1
                node = Binary("%", node, self.read_factor())
            elif self.is_glued_bracket():
                node = Binary("*", node, self.read_factor())
            else:
                return node

    def is_remainder(self) -> bool:
        """Whether a percent sign with a value behind it comes next: `10 % 3`."""
        token, following = self.peek(), self.peek(1)
        return (
            token is not None
            and following is not None
            and token.text == "%"
            and following.kind in (Kind.NUMBER, Kind.OPEN)
        )

    def is_glued_bracket(self) -> bool:
        """Whether a bracket stands directly behind a value: `8(2+1)`."""
        token = self.peek()
        before = self.tokens[self.at - 1]
        return (
            token is not None
            and token.kind is Kind.OPEN
            and before.kind in (Kind.NUMBER, Kind.CLOSE)
            and before.end == token.start
        )

    def read_factor(self) -> Node:
        token = self.peek()
        if token is not None and token.kind is Kind.TILDE:
            self.at += 1
            self.is_rough = True
        was_loose = self.is_loose
        sign = self.take_operator("+", "-")
        if sign:
            self.is_loose = was_loose or self.at > 1  # in 8 -3 the minus may be a dash
            node = self.read_factor()
            return Negative(node) if sign == "-" else node
        return self.read_suffixes(self.read_power())

    def read_power(self) -> Node:
        node = self.read_atom()
        token = self.peek()
        if token is not None and token.kind is Kind.POWER:
            self.at += 1
            return Binary("**", node, Number(int(token.text), 0, token.text))
        if self.take_operator("**"):
            sign = self.take_operator("+", "-")
            power = self.read_power()
            return Binary("**", node, Negative(power) if sign == "-" else power)
        return node

    def read_atom(self) -> Node:
        token = self.peek()
        if token is None:
            raise _NoExpressionError
        self.at += 1
        match token.kind:
            case Kind.NUMBER:
                self.is_loose |= token.is_loose
                return _read_number(token.text)
            case Kind.CURRENCY if token.unit:
                number = self.peek()
                if number is None or number.kind is not Kind.NUMBER or number.start != token.end:
                    raise _NoExpressionError
                return Measured(self.read_atom(), token.unit)
            case Kind.OPEN:
                node = self.read_sum()
                self.close()
                return node
            case Kind.ROOT:
                return Call("sqrt", (self.read_atom(),))
            case Kind.FUNCTION:
                return self.read_call(token.text)
            case _:
                raise _NoExpressionError

    def read_call(self, name: str) -> Node:
        self.at += 1  # the tokenizer has seen the bracket
        arguments = [self.read_sum()]
        while (token := self.peek()) is not None and token.kind is Kind.COMMA:
            self.at += 1
            arguments.append(self.read_sum())
        self.close()
        return Call(name, tuple(arguments))

    def close(self) -> None:
        token = self.peek()
        if token is None or token.kind is not Kind.CLOSE:
            raise _NoExpressionError
        self.at += 1

    def read_suffixes(self, node: Node) -> Node:
        self.value_end = self.at
        while (token := self.peek()) is not None:
            if token.kind is Kind.UNIT and token.unit:
                node = Measured(node, token.unit)
                self.at += 1
                self.value_end = self.at
            elif token.kind is Kind.PERCENT and not self.is_remainder():
                node = Percent(node)
                self.at += 1
                self.value_end = self.at
            elif not self.skip_label() and not self.skip_remark():
                break
        return node

    def skip_label(self) -> bool:
        """Pass over the words that say what is counted, if an operator or the end follows."""
        words: list[str] = []
        while (token := self.peek(len(words))) is not None and token.kind is Kind.WORD:
            words.append(token.text)
        follows = self.peek(len(words))
        if (
            not 0 < len(words) <= _LONGEST_LABEL
            or any(word.lower() in NO_LABELS for word in words[:1] + words[-1:])
            or any("_" in word or not word[0].isalpha() for word in words)
            or (follows is not None and follows.kind not in _AFTER_LABEL)
        ):
            return False
        is_glued = self.tokens[self.at].start == self.tokens[self.at - 1].end
        if is_glued and words == ["x"]:
            self.is_loose = True  # three times, or a variable
        elif len(words[0]) < (3 if is_glued else 2):
            return False
        self.labels.update(word.lower().rstrip("s") for word in words)
        self.at += len(words)
        return True

    def skip_remark(self) -> bool:
        """Pass over a remark in brackets: `2 (bytes of bf16)`."""
        token = self.peek()
        if token is None or token.kind is not Kind.OPEN or self.is_glued_bracket():
            return False
        depth = 0
        for index in range(self.at, len(self.tokens)):
            kind = self.tokens[index].kind
            depth += (kind is Kind.OPEN) - (kind is Kind.CLOSE)
            if not depth:
                break
        else:
            return False
        inside = self.tokens[self.at + 1 : index]
        if not any(token.kind is Kind.WORD for token in inside):
            return False
        self.is_loose |= any(token.kind is Kind.NUMBER for token in inside)
        self.at = index + 1
        return True


def _read_number(text: str) -> Number:
    plain = "".join(character for character in text if character not in ",_ \u00a0\u202f\u2009")
    mantissa, _, exponent = plain.lower().partition("e")
    decimals = len(mantissa.partition(".")[2]) - int(exponent or 0)
    if abs(decimals) > 300:
        raise _NoExpressionError
    value = int(plain) if plain.isdigit() else float(plain)
    if isinstance(value, float) and value.is_integer() and "." not in mantissa:
        value = int(mantissa) * 10 ** int(exponent)
    return Number(value, decimals, text)


# --- working out -----------------------------------------------------------------------------

PercentSense = enum.Enum("PercentSense", ["SHARE", "OF_THE_LEFT", "NUMBER"])


@dataclass(frozen=True, slots=True)
class Reading:
    """One way of understanding what is written."""

    units: bool = False
    """Whether units and scales count; without, only the bare numbers do."""
    binary: bool = False
    billion: bool = False
    percent: PercentSense = PercentSense.SHARE
    base: float = 10


@dataclass(frozen=True, slots=True)
class Quantity:
    """A value in base units."""

    value: int | float
    dimension: Dimension = ()


def list_readings(first: Node, second: Node) -> list[Reading]:
    """The ways in which two sides can be read, the bare numbers first."""
    nodes = [*iterate_nodes(first), *iterate_nodes(second)]
    units = [node.unit for node in nodes if isinstance(node, Measured)]
    has_log = any(isinstance(node, Call) and node.name == "log" for node in nodes)
    choices = itertools.product(
        (False, True) if units else (False,),
        (False, True) if any(unit.binary for unit in units) else (False,),
        (False, True) if any(unit.is_billion for unit in units) else (False,),
        _list_senses(first, second),
        (10, 2, math.e) if has_log else (10,),
    )
    return [Reading(*choice) for choice in choices if choice[0] or not (choice[1] or choice[2])]


def _list_senses(first: Node, second: Node) -> list[PercentSense]:
    """What percent signs can mean: a hundredth; so much more of what stands to the left; or
    nothing, where a side multiplies by 100 or leaves the sign away from a mere sum."""
    senses = [PercentSense.SHARE]
    sides = (first, second)
    marked = [any(isinstance(node, Percent) for node in iterate_nodes(side)) for side in sides]
    if not any(marked):
        return senses
    for side in sides:
        for node in iterate_nodes(side):
            if isinstance(node, Binary) and isinstance(node.right, Percent):
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
        if other_has_sign and 100 in numbers:
            senses.append(PercentSense.NUMBER)
    return list(dict.fromkeys(senses))


def evaluate(node: Node, reading: Reading) -> Quantity:
    """The value of a tree in one way of reading it. Raises NoValueError where it has none."""
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
