"""One side of a sum: tokens read into a value.

What is written can mean more than one thing: `B` bytes or billions, `GB` 10**9 or 2**30 bytes, a
unit something to calculate with or a mere label. A `Reading` is one of these ways, and a side has
a value in each. What is counted may follow a number (`8 GPUs`), and so may a remark in brackets
(`2 (bytes of bf16)`); both are skipped.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from bindery.check.arithmetic.measures import Unit, multiply
from bindery.check.arithmetic.tokens import Kind, Token
from bindery.core.units import Dimension

LONGEST = 80
"""The most tokens that a side may have."""
_LONGEST_LABEL = 4
_LARGEST_EXPONENT = 300
_LARGEST_BITS = 4096

_AFTER_LABEL = (Kind.OPERATOR, Kind.RELATION, Kind.CLOSE, Kind.UNIT, Kind.OPEN)

NO_LABELS = frozenset(
    "and or so then thus hence therefore with without to from in on at by for but if when while "
    "as is are was were be been has have had gives give makes make we you they it its this that "
    "these those not no than which who where about around roughly nearly almost only just exactly "
    "up down mod modulo squared cubed half dozen hundred hundreds out versus vs via each "
    "per times".split()
)
"""Words that do not name what is counted."""

_FUNCTIONS: Mapping[str, Callable[[float], float]] = {
    "sqrt": math.sqrt,
    "log2": math.log2,
    "log10": math.log10,
    "ln": math.log,
    "exp": math.exp,
    "ceil": math.ceil,
    "floor": math.floor,
    "round": round,
    "abs": abs,
}
_KEEP_UNITS = ("ceil", "floor", "round", "abs")


@dataclass(frozen=True, slots=True)
class Reading:
    """One way of understanding what is written."""

    units: bool = False
    """Whether units and scales count; otherwise only the bare numbers do."""
    binary: bool = False
    billion: bool = False
    percent: bool = True
    """Whether a percent sign divides by a hundred; otherwise it is a mere label."""


@dataclass(frozen=True, slots=True)
class Number:
    """A number as typed."""

    value: int | float
    decimals: int
    """How many decimals are shown; negative where an exponent takes digits from the end."""
    text: str

    @property
    def digits(self) -> int:
        """How many digits are significant: 2 in 0.0420, in 4200 and in 42e9."""
        mantissa = self.text.lower().partition("e")[0]
        return len("".join(filter(str.isdigit, mantissa)).strip("0"))


@dataclass(frozen=True, slots=True)
class Quantity:
    """A value in base units."""

    value: int | float
    dimension: Dimension = ()
    is_percent: bool = False


@dataclass(slots=True)
class Side:
    """A side of a sum in one reading."""

    quantity: Quantity = Quantity(0)
    numbers: list[Number] = field(default_factory=list)
    operators: str = ""
    """The operators in it, and `f` for each function."""
    units: list[Unit] = field(default_factory=list)
    """The units and scales in it, whether they count or not."""
    has_percent: bool = False
    terms: set[float] = field(default_factory=set)
    """What is added or subtracted in it."""
    labels: set[str] = field(default_factory=set)
    """The words behind its numbers that are not units: `gpu`, `node`."""
    is_loose: bool = False
    """Whether it may well mean something else."""
    is_rough: bool = False
    """Whether one of its numbers is said to be rough."""
    has_remark_behind: bool = False
    """Whether words or brackets follow the last of its values."""

    @property
    def value(self) -> int | float:
        return self.quantity.value

    @property
    def dimension(self) -> Dimension:
        return self.quantity.dimension

    @property
    def typed(self) -> Number | None:
        """The number that the side is, unit and sign aside; None where there is more to it."""
        return self.numbers[0] if not self.operators else None

    @property
    def size(self) -> float:
        """What 1 instead of the typed number would come to."""
        return abs(self.value / self.numbers[0].value) if self.numbers[0].value else 1.0


class _NoValueError(ValueError):
    """The tokens are not an expression, or it has no value in this reading."""


def read_side(tokens: Sequence[Token], reading: Reading) -> Side | None:
    """The side that exactly these tokens make; None where they have no value in this reading."""
    if len(tokens) > LONGEST:
        return None
    reader = _Reader(tokens, reading)
    side = reader.side
    try:
        side.quantity = reader.read_sum()
        if reader.at != len(tokens) or not math.isfinite(side.value):
            return None
    except (ArithmeticError, ValueError, TypeError):
        return None
    side.has_remark_behind = reader.value_end < reader.at
    return side


def list_readings(first: Side, second: Side) -> list[Reading]:
    """The ways in which two sides can be read, the bare numbers first."""
    units = (*first.units, *second.units)
    has_hundred = any(number.value == 100 for number in (*first.numbers, *second.numbers))
    is_label = has_hundred or set(first.operators + second.operators) <= {"+", "-"}
    has_percent = first.has_percent or second.has_percent
    choices = itertools.product(
        (False, True) if units else (False,),
        (False, True) if any(unit.binary for unit in units) else (False,),
        (False, True) if any(unit.is_billion for unit in units) else (False,),
        (True, False) if has_percent and is_label else (True,),
    )
    return [Reading(*choice) for choice in choices if choice[0] or not (choice[1] or choice[2])]


class _Reader:
    """Reads from left to right; `at` is the token that comes next."""

    def __init__(self, tokens: Sequence[Token], reading: Reading) -> None:
        self.tokens = tokens
        self.reading = reading
        self.at = 0
        self.value_end = 0
        self.side = Side()

    def peek(self, ahead: int = 0) -> Token | None:
        index = self.at + ahead
        return self.tokens[index] if index < len(self.tokens) else None

    def take_operator(self, *names: str) -> str | None:
        token = self.peek()
        if token is None or token.kind is not Kind.OPERATOR or token.text not in names:
            return None
        self.side.is_loose |= token.is_loose or token.is_new_line
        self.at += 1
        return token.text

    def read_sum(self) -> Quantity:
        total = self.read_product()
        while operator := self.take_operator("+", "-"):
            term = self.read_product()
            self.side.operators += operator
            self.side.terms |= {total.value, term.value}
            total = self.add(total, term, operator)
        return total

    def add(self, first: Quantity, second: Quantity, operator: str) -> Quantity:
        if first.dimension and second.dimension and first.dimension != second.dimension:
            raise _NoValueError
        if second.is_percent and not first.is_percent and first.value != 1:
            raise _NoValueError  # 100 + 20% is 120 to some
        value = first.value + second.value if operator == "+" else first.value - second.value
        return Quantity(value, first.dimension or second.dimension, first.is_percent)

    def read_product(self) -> Quantity:
        product = self.read_factor()
        while True:
            operator = self.take_operator("*", "/", "//", "of")
            if operator is None and not self.is_glued_bracket():
                return product
            factor = self.read_factor()
            power = -1 if operator in ("/", "//") else 1
            if operator == "/":
                value = product.value / factor.value
            elif operator == "//":
                value = product.value // factor.value
            else:
                value = product.value * factor.value
            self.side.operators += "/" if power < 0 else "*"
            product = Quantity(value, multiply(product.dimension, factor.dimension, power))

    def is_glued_bracket(self) -> bool:
        """Whether a bracket is directly behind a value: `8(2+1)`."""
        token = self.peek()
        before = self.tokens[self.at - 1]
        return (
            token is not None
            and token.kind is Kind.OPEN
            and before.kind in (Kind.NUMBER, Kind.CLOSE)
            and before.end == token.start
        )

    def read_factor(self) -> Quantity:
        token = self.peek()
        if token is not None and token.kind is Kind.TILDE:
            self.at += 1
            self.side.is_rough = True
        was_loose = self.side.is_loose
        sign = self.take_operator("+", "-")
        if sign:
            self.side.is_loose = was_loose or self.at > 1  # in 8 -3 the minus may be a dash
            factor = self.read_factor()
            return replace(factor, value=-factor.value) if sign == "-" else factor
        return self.read_suffixes(self.read_power())

    def read_power(self) -> Quantity:
        base = self.read_atom()
        token = self.peek()
        if token is not None and token.kind is Kind.POWER:
            self.at += 1
            exponent: int | float = int(token.text[:5])
        elif self.take_operator("**"):
            sign = self.take_operator("+", "-")
            exponent = self.read_power().value * (-1 if sign == "-" else 1)
        else:
            return base
        self.side.operators += "^"
        if abs(exponent) * math.log2(abs(base.value) + 1) > _LARGEST_BITS:
            raise _NoValueError
        return Quantity(base.value**exponent)

    def read_atom(self) -> Quantity:
        token = self.peek()
        if token is None:
            raise _NoValueError
        self.at += 1
        match token.kind:
            case Kind.NUMBER:
                self.side.is_loose |= token.is_loose
                self.side.numbers.append(_read_number(token.text))
                return Quantity(self.side.numbers[-1].value)
            case Kind.CURRENCY if token.unit:
                number = self.peek()
                if number is None or number.kind is not Kind.NUMBER or number.start != token.end:
                    raise _NoValueError
                return self.measure(self.read_atom(), token.unit)
            case Kind.OPEN:
                inner = self.read_sum()
                self.close()
                return inner
            case Kind.ROOT:
                return self.call("sqrt", [self.read_atom()])
            case Kind.FUNCTION:
                self.at += 1  # the tokenizer has seen the bracket
                arguments = [self.read_sum()]
                while (comma := self.peek()) is not None and comma.kind is Kind.COMMA:
                    self.at += 1
                    arguments.append(self.read_sum())
                self.close()
                return self.call(token.text, arguments)
            case _:
                raise _NoValueError

    def call(self, name: str, arguments: Sequence[Quantity]) -> Quantity:
        self.side.operators += "f"
        values = [argument.value for argument in arguments]
        dimension = arguments[0].dimension
        if name in ("min", "max"):
            return Quantity((min if name == "min" else max)(values), dimension)
        if len(values) != 1:
            raise _NoValueError
        return Quantity(_FUNCTIONS[name](values[0]), dimension if name in _KEEP_UNITS else ())

    def close(self) -> None:
        token = self.peek()
        if token is None or token.kind is not Kind.CLOSE:
            raise _NoValueError
        self.at += 1

    def measure(self, quantity: Quantity, unit: Unit) -> Quantity:
        self.side.units.append(unit)
        if not self.reading.units:
            return quantity
        size, dimension = unit.measure(binary=self.reading.binary, billion=self.reading.billion)
        return Quantity(quantity.value * size, multiply(quantity.dimension, dimension))

    def read_suffixes(self, quantity: Quantity) -> Quantity:
        self.value_end = self.at
        while (token := self.peek()) is not None:
            if token.kind is Kind.UNIT and token.unit:
                quantity = self.measure(quantity, token.unit)
            elif token.kind is Kind.PERCENT:
                quantity = self.read_percent(quantity)
            elif self.skip_share() or self.skip_label() or self.skip_remark():
                continue
            else:
                break
            self.at += 1
            self.value_end = self.at
        return quantity

    def read_percent(self, quantity: Quantity) -> Quantity:
        self.side.has_percent = True
        if not self.reading.percent:
            return quantity
        return Quantity(quantity.value / 100, quantity.dimension, is_percent=True)

    def skip_label(self) -> bool:
        """Skip the words that say what is counted, if an operator or the end follows."""
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
            self.side.is_loose = True  # three times, or a variable
        elif len(words[0]) < (3 if is_glued else 2):
            return False
        self.side.labels.update(word.lower().rstrip("s") for word in words)
        self.at += len(words)
        return True

    def skip_share(self) -> bool:
        """Skip what a quantity is counted for: the `/param` of `2 bytes/param`, or `per
        parameter`."""
        sign, word, follows = self.peek(), self.peek(1), self.peek(2)
        before = self.tokens[self.at - 1]
        if sign is None or word is None or word.kind is not Kind.WORD:
            return False
        is_glued = before.end == sign.start and sign.end == word.start
        if not (sign.text == "per" or (sign.text == "/" and is_glued)):
            return False
        if before.kind not in (Kind.UNIT, Kind.WORD) or not word.text.isalpha():
            return False
        is_name = len(word.text) > 2 and word.text.lower() not in NO_LABELS
        if not is_name or (follows is not None and follows.kind not in _AFTER_LABEL):
            return False
        self.side.is_loose |= word.text.endswith("s")  # 640 GB/ranks may be divided by their number
        self.side.labels.add(word.text.lower())
        self.at += 2
        return True

    def skip_remark(self) -> bool:
        """Skip a remark in brackets: `2 (bytes of bf16)`."""
        token = self.peek()
        if token is None or token.kind is not Kind.OPEN or self.is_glued_bracket():
            return False
        kinds = [token.kind for token in self.tokens[self.at :]]
        if Kind.CLOSE not in kinds:
            return False
        length = kinds.index(Kind.CLOSE)
        if Kind.WORD not in kinds[:length] or Kind.OPEN in kinds[1:length]:
            return False
        self.side.is_loose |= Kind.NUMBER in kinds[:length]
        self.at += length + 1
        return True


def _read_number(text: str) -> Number:
    plain = "".join(character for character in text if character not in ",_ \u00a0\u202f\u2009")
    mantissa, _, exponent = plain.lower().partition("e")
    if len(exponent) > 4:
        raise _NoValueError
    decimals = len(mantissa.partition(".")[2]) - int(exponent or 0)
    if abs(decimals) > _LARGEST_EXPONENT or len(mantissa) > _LARGEST_EXPONENT:
        raise _NoValueError
    value = int(plain) if plain.isdigit() else float(plain)
    if isinstance(value, float) and value.is_integer() and "." not in mantissa:
        value = int(mantissa) * 10 ** int(exponent)
    return Number(value, decimals, text)
