"""What a text states to be equal, and whether it is.

A statement is an expression, a sign and a number, or two expressions. Whether it holds is measured
by the digits that are shown: `16/300 = 0.053` does. It fails only where no reasonable reading makes
it true; all else is left unjudged.
"""

from __future__ import annotations

import enum
import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from bindery.sums.expressions import (
    Binary,
    Call,
    Measured,
    Negative,
    Node,
    NoValueError,
    Number,
    Percent,
    Quantity,
    Reading,
    Side,
    evaluate,
    iterate_nodes,
    list_readings,
    read_side,
)
from bindery.sums.measures import list_sizes
from bindery.sums.sides import Cut, find_left, find_right, is_counted
from bindery.sums.tokens import Kind, Token, split_tokens


class Verdict(enum.Enum):
    """Whether a statement is true."""

    HOLDS = "holds"
    FAILS = "fails"
    UNJUDGED = "unjudged"


@dataclass(frozen=True, slots=True)
class Statement:
    """Two sides and the sign between them, as they stand in a text from `start` to `end`."""

    text: str
    start: int
    end: int
    verdict: Verdict
    left: str = ""
    """What the left side gives where the statement fails, in the words of the right side if that
    is a mere number."""
    right: str = ""
    """What the right side gives where the left is a mere number, or both are expressions."""
    is_bracketed: bool = False
    """Whether the right side stands in brackets behind its result: `320 GB (80 * 4)`."""


_MAYBE = re.compile(
    r"(?:[\d)%.²³¹⁰-⁹]\s*|\d ?[A-Za-zµ/]{1,9}\s*|\w\s+)"
    r"(?:=[=>~]?|[≈≃≅⇒]|~=|(?<=\s)~(?=\s)|equals\b)"
    r"\s*(?:[a-z.]+\s+){0,2}[~≈$€£(+−–√-]*\s*(?:\.?\d|[a-z][a-z0-9.]*\()"
)
"""A number or word, a sign, and a number or function."""
_WORK = re.compile(
    r"[\w)%]\s*(?:\*\*?|[×·⋅∙÷^xX+%]|//?|by|times|plus|of)\s*[~$€£(√−-]*\s*[\d.a-z]"
    r"|[\d)%]\s*(?:[−–-]|minus)\s*[~$€£(√]*\s*[\d.a-z]"
    r"|[√²³¹⁰-⁹]|(?:sqrt|log\w*|ln|exp|ceil|floor|round|min|max|abs)\("
    r"|\d[ \u00a0]?[A-Za-z%][\w/%]*\s*[=≈~]+\s*[~$]?\s*[\d.]|[\d.][=≈~ ]+[\d.]+%"
)
"""What a statement has at least: an operation, or a number with a unit beside the sign."""
_BRACKETED = re.compile(
    r"\d[ \u00a0]?(?:[A-Za-z%]+ )? ?\([(\d.,]+\s*(?:\*\*?|[×·÷/+−-])\s*[(\d.][^A-Za-z=]*\)"
)
"""A number, a unit perhaps, and an expression in brackets."""
_FARTHEST_RESULT = math.log(3)
"""How far, in powers of e, a number can be from the sum behind it to be its wrong result."""
_SENTENCE_END = re.compile(r"(?<!approx)(?<!ca)[.!?;]\s+")
_ROUGH_SIGNS = frozenset(("=~", "~=", "≈", "≃", "≅", "~"))
_ARROWS = frozenset(("=>", "⇒"))
_ROUGH_SHARE = 0.05
_WRAPS = frozenset(2**bits for bits in (8, 16, 32, 64))


def read_statements(text: str, codes: Sequence[tuple[int, int]] = ()) -> list[Statement]:
    """The statements of a text in their order.

    `codes` are the ranges of code in it: there a minus is a minus, and in prose, with blanks on
    both sides, it may be a dash.
    """
    has_signs = has_sign(text) and bool(_MAYBE.search(text))
    if not has_signs and not (" (" in text and _BRACKETED.search(text)):
        return []
    statements = []
    start = 0
    for end in (*(match.end() for match in _SENTENCE_END.finditer(text)), len(text)):
        sentence = text[start:end]
        found = []
        if has_signs and _MAYBE.search(sentence) and _WORK.search(sentence):
            found += _read_sentence(sentence, [(a - start, b - start) for a, b in codes])
        if _BRACKETED.search(sentence):
            found += _read_brackets(sentence)
        statements += [
            replace(one, start=one.start + start, end=one.end + start)
            for one in sorted(found, key=lambda one: one.start)
        ]
        start = end
    return statements


def has_sign(text: str) -> bool:
    """Whether a sign is there that may say that two sides are equal: the quickest of questions."""
    return (
        "=" in text
        or "≈" in text
        or " ~ " in text
        or "≃" in text
        or "≅" in text
        or "⇒" in text
        or "equals" in text
    )


def _read_sentence(text: str, codes: Sequence[tuple[int, int]]) -> Iterator[Statement]:
    tokens = split_tokens(text)
    signs = [index for index, token in enumerate(tokens) if _is_sign(tokens, index)]
    for number, index in enumerate(signs):
        low = signs[number - 1] + 1 if number else 0
        high = signs[number + 1] if number + 1 < len(signs) else len(tokens)
        rights = find_right(tokens, index + 1, high, codes)
        lefts = find_left(tokens, low, index) if rights else []
        if lefts:
            statement = _compare_cuts(text, tokens, index, lefts, rights)
            if statement is not None:
                yield statement


def _read_brackets(text: str) -> Iterator[Statement]:
    """The statements that show the working in brackets behind the result."""
    tokens = split_tokens(text)
    for index, token in enumerate(tokens):
        if token.kind is not Kind.OPEN or not index or tokens[index - 1].end == token.start:
            continue
        lefts = find_left(tokens, 0, index)
        end = next((at for at in range(index, len(tokens)) if tokens[at].kind is Kind.CLOSE), 0)
        while end and (side := read_side(tokens[index + 1 : end])) is None:
            end = next(
                (at for at in range(end + 1, len(tokens)) if tokens[at].kind is Kind.CLOSE), 0
            )
        if not end or not lefts or side is None or not side.operators or side.labels:
            continue
        right = Cut(side, index + 1, end)
        left = lefts[0]
        if left.side.operators or left.side.labels:
            continue
        statement = _compare_cuts(text, tokens, index, [left], [right])
        if statement is not None:
            statement = replace(
                statement,
                text=text[statement.start : tokens[end].end],
                end=tokens[end].end,
                is_bracketed=True,
            )
            yield statement


def _is_sign(tokens: Sequence[Token], index: int) -> bool:
    """Whether a token says that two sides are equal: `=`, `≈`, or `~` between two of them."""
    token = tokens[index]
    if token.kind is Kind.RELATION:
        return True
    return (
        token.kind is Kind.TILDE
        and 0 < index < len(tokens) - 1
        and tokens[index - 1].end < token.start
        and token.end < tokens[index + 1].start
    )


def _compare_cuts(
    text: str, tokens: Sequence[Token], index: int, lefts: Sequence[Cut], rights: Sequence[Cut]
) -> Statement | None:
    """The statement around a sign: it holds where it holds for one way to cut out its sides."""
    sign = tokens[index]
    found: list[Statement] = []
    for left in lefts:
        for right in rights:
            if not _is_statement(left.side, right.side):
                continue
            word = tokens[right.last] if right.last < len(tokens) else None
            is_word = word is not None and word.kind is Kind.WORD and not word.is_new_line
            counted = word.text if word is not None and is_word else ""
            judged = _judge(left, right, sign.text, counted)
            start, end = tokens[left.first].start, tokens[right.last - 1].end
            typed = text[start:end]
            names = ("", "")
            if judged is Verdict.FAILS and _holds_with_decimal_commas(typed):
                judged = Verdict.UNJUDGED
            if judged is Verdict.FAILS:
                names = _tell_values(left.side.node, right.side.node, tokens, left, right, text)
            found.append(Statement(typed, start, end, judged, *names))
    if not found:
        return None
    for statement in found:
        if statement.verdict is Verdict.HOLDS:
            return statement
    if all(statement.verdict is Verdict.FAILS for statement in found):
        return found[0]
    return replace(found[0], verdict=Verdict.UNJUDGED, left="", right="")


def _holds_with_decimal_commas(typed: str) -> bool:
    """Whether a comma of a statement is a decimal point: 1,500 * 2 = 3."""
    return "," in typed and any(
        found.verdict is Verdict.HOLDS for found in read_statements(typed.replace(",", "."))
    )


def _is_statement(left: Side, right: Side) -> bool:
    """Whether there is something to work out: an operation, or units or shares to be turned into
    each other."""
    if left.operators or right.operators:
        return True
    return (_has_scale(left.node) and _has_scale(right.node)) or _is_share(left.node, right.node)


def _has_scale(node: Node) -> bool:
    return any(isinstance(below, Measured) for below in iterate_nodes(node))


def _is_share(left: Node, right: Node) -> bool:
    return isinstance(left, Percent) != isinstance(right, Percent)


# --- judging ---------------------------------------------------------------------------------


def _judge(left: Cut, right: Cut, sign: str, counted: str) -> Verdict:
    first, second = left.side, right.side
    is_rough = sign in _ROUGH_SIGNS or first.is_rough or second.is_rough
    outcome = _weigh(first.node, second.node, is_rough)
    if outcome is not Verdict.FAILS:
        return outcome
    if first.is_loose or second.is_loose or _is_key(first, second):
        return Verdict.UNJUDGED
    has_hidden_unit = not _has_scale(second.node) and bool(counted or _has_scale(first.node))
    if has_hidden_unit and _agrees_but_for_scale(first.node, second.node):
        return Verdict.UNJUDGED
    if not first.operators and not second.operators:
        is_plain = left.is_bare_before and not (first.labels or second.labels or is_rough)
        if not is_plain or _is_share(first.node, second.node):
            return Verdict.UNJUDGED
    if sign == "(" and not _is_near(first.node, second.node):
        return Verdict.UNJUDGED
    if sign in _ARROWS and not _is_plain_result(first, second):
        return Verdict.UNJUDGED
    if counted and is_counted(counted) and first.labels and not _has_scale(second.node):
        return outcome if counted.lower().rstrip("s") in first.labels else Verdict.UNJUDGED
    return outcome


def _is_key(left: Side, right: Side) -> bool:
    """Whether the left side is a number that something is listed under: 0=720/576, 1=625/50."""
    if not isinstance(left.node, Number) or not right.operators:
        return False
    try:
        value = evaluate(right.node, Reading()).value
    except NoValueError:
        return False
    return _measure_distance(left.node.value, value) > math.log(2)


def _agrees_but_for_scale(left: Node, right: Node) -> bool:
    """Whether the sides differ by thousands only: 400k + 20000 * 8 = 560 kilobytes."""
    for reading in list_readings(left, right):
        try:
            a, b = evaluate(left, reading), evaluate(right, reading)
        except NoValueError:
            continue
        for step in (1000.0, 1024.0):
            for power in (-3, -2, -1, 1, 2, 3):
                moved = replace(a, value=a.value * step**power)
                if a.dimension == b.dimension and _compare(left, right, moved, b, reading, False):
                    return True
    return False


def _is_near(left: Node, right: Node) -> bool:
    """Whether a sum comes near enough to the number before it to be meant for its working."""
    try:
        a, b = evaluate(left, Reading()).value, evaluate(right, Reading()).value
    except NoValueError:
        return False
    return _measure_distance(a, b) < _FARTHEST_RESULT


def _is_plain_result(left: Side, right: Side) -> bool:
    """Whether an arrow leads from whole numbers to a whole number."""
    if right.operators or not left.operators or left.labels:
        return False
    return all(
        isinstance(node, Binary) or (isinstance(node, Number) and node.decimals == 0)
        for side in (left, right)
        for node in iterate_nodes(side.node)
    )


def _weigh(left: Node, right: Node, is_rough: bool) -> Verdict:
    """The verdict over all readings of two sides."""
    holds_bare = holds_measured = is_measured = is_explained = is_odd = False
    ratios = []
    for reading in list_readings(left, right):
        try:
            a, b = evaluate(left, reading), evaluate(right, reading)
        except NoValueError:
            continue
        if a.dimension != b.dimension:
            if a.dimension and b.dimension:
                is_odd = True
            elif size := _find_silent_unit(left, right, a, b, reading, is_rough):
                holds_measured |= size in _SILENT
                is_explained = True
            continue
        closeness = _compare(left, right, a, b, reading, is_rough)
        is_explained |= closeness is None
        if not reading.units:
            holds_bare |= bool(closeness)
        else:
            holds_measured |= bool(closeness)
            if a.dimension:
                is_measured = True
                ratios.append(a.value / b.value if b.value else math.inf)
    if holds_measured:
        return Verdict.HOLDS
    operators = _count_operators(left) + _count_operators(right)
    if holds_bare:
        is_eightfold = all(_is_eightfold(ratio) for ratio in ratios)
        if is_measured and (not operators or (is_eightfold and not _has_eight(left, right))):
            return Verdict.FAILS
        return Verdict.HOLDS
    if is_explained or (is_odd and not is_measured) or _is_of_computers(left, right):
        return Verdict.UNJUDGED
    return Verdict.FAILS


def _count_operators(node: Node) -> int:
    return sum(isinstance(below, Binary | Call) for below in iterate_nodes(node))


def _is_eightfold(ratio: float) -> bool:
    return any(math.isclose(ratio, wanted, rel_tol=0.005) for wanted in (8, 0.125))


def _has_eight(left: Node, right: Node) -> bool:
    """Whether an 8 is there that may turn bytes into bits."""
    return any(
        isinstance(node, Number) and node.value == 8
        for side in (left, right)
        for node in iterate_nodes(side)
    )


def _compare(
    left: Node, right: Node, a: Quantity, b: Quantity, reading: Reading, is_rough: bool
) -> bool | None:
    """Whether two sides agree by the digits shown; None where they may, for all that is known."""
    typed_right, typed_left = _find_typed(right), _find_typed(left)
    if typed_right is not None and (
        typed_left is None or _has_more_digits(typed_left, typed_right)
    ):
        shown, exact, node, typed = b.value, a.value, right, typed_right
        other = left
    elif typed_left is not None:
        shown, exact, node, typed = a.value, b.value, left, typed_left
        other = right
    else:
        return _compare_expressions(left, right, a.value, b.value, is_rough)
    size = _measure_size(node, typed, reading)
    if _agrees(exact, shown, typed, size, is_rough):
        return True
    if typed.decimals == 0 and 0 < shown - exact < size and _has_quotient(other):
        return None  # rounded up: so many nodes are needed
    if isinstance(node, Percent) and _agrees(abs(exact - 1), abs(shown), typed, size, is_rough):
        return None  # so much more or less than the whole
    spread = _find_spread(other, reading)
    return None if spread and abs(exact - shown) <= spread * 1.000001 else False


def _find_typed(node: Node) -> Number | None:
    """The number of a side that is nothing else."""
    while isinstance(node, Measured | Percent | Negative):
        node = node.content
    return node if isinstance(node, Number) else None


def _has_more_digits(first: Number, second: Number) -> bool:
    """Whether the first of two numbers, each with its unit, is shown more exactly."""
    return _count_digits(first) >= _count_digits(second)


def _count_digits(number: Number) -> int:
    mantissa = re.split("[eE]", number.text)[0]
    return len(re.sub(r"\D", "", mantissa).strip("0"))


def _measure_size(node: Node, typed: Number, reading: Reading) -> float:
    """What 1 in the place of the typed number amounts to."""
    return abs(evaluate(_substitute(node, typed, replace(typed, value=1)), reading).value)


def _substitute(node: Node, old: Number, new: Number) -> Node:
    match node:
        case Number():
            return new if node is old else node
        case Measured(content=content) | Percent(content=content) | Negative(content=content):
            return replace(node, content=_substitute(content, old, new))
        case Binary(left=left, right=right):
            return replace(
                node, left=_substitute(left, old, new), right=_substitute(right, old, new)
            )
        case Call(arguments=arguments):
            return replace(
                node, arguments=tuple(_substitute(argument, old, new) for argument in arguments)
            )


def _agrees(exact: float, shown: float, typed: Number, size: float, is_rough: bool) -> bool:
    """Whether a number stands for a value: rounded, or cut off, at the last digit shown."""
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
    return is_rounded and _count_digits(typed) >= 2 and difference <= rounded / 2 + slack


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
    """By how much a side may be off because its numbers were rounded before they were typed."""
    spread = 0.0
    value = evaluate(node, reading).value
    for number in iterate_nodes(node):
        if isinstance(number, Number) and _is_rounded(number):
            moved = replace(number, value=number.value + 0.5 * 10.0**-number.decimals)
            try:
                spread += abs(evaluate(_substitute(node, number, moved), reading).value - value)
            except NoValueError:
                return 0.0
    return spread


def _is_rounded(number: Number) -> bool:
    """Whether a number may be the result of an earlier sum by its looks: 2.67 and 16.7, but not
    0.6, 2.4, 0.25 and 1.05."""
    if number.decimals < 1 or (number.decimals == 1 and _count_digits(number) < 3):
        return False
    parts = number.value * (2 if number.decimals == 1 else 20)
    return not math.isclose(parts, round(parts), abs_tol=1e-9)


_UNIT_APART = math.log(5)
"""How far apart numbers are, in powers of e, if a unit was changed silently: 17170 = 17.2 GB."""
_SILENT = frozenset((1.0, 8.0))
"""The sizes of units that go without saying: of seconds, operations, bits and bytes."""


def _find_silent_unit(
    left: Node, right: Node, a: Quantity, b: Quantity, reading: Reading, is_rough: bool
) -> float:
    """The size of a unit in which the side that has none agrees with the other; 0 for none."""
    bare = Reading(units=False)
    a_bare, b_bare = evaluate(left, bare).value, evaluate(right, bare).value
    if _measure_distance(a_bare, b_bare) < _UNIT_APART:
        return 0.0
    typed_right, typed_left = _find_typed(right), _find_typed(left)
    node, typed = (right, typed_right) if typed_right is not None else (left, typed_left)
    own = _measure_size(node, typed, reading) if typed is not None else 0.0
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


def _is_of_computers(left: Node, right: Node) -> bool:
    """Whether a sum is false on paper because it tells of computers: 256 + 1 = 256, 255 + 1 = 0."""
    try:
        a, b = evaluate(left, Reading()).value, evaluate(right, Reading()).value
    except NoValueError:
        return True
    if abs(a - b) in _WRAPS:
        return True
    for node, other in ((left, b), (right, a)):
        if isinstance(node, Binary) and node.operator in "+-":
            for part in (node.left, node.right):
                if evaluate(part, Reading()).value == other != 0:
                    return True
    return False


# --- telling ---------------------------------------------------------------------------------


def _tell_values(
    left: Node, right: Node, tokens: Sequence[Token], first: Cut, second: Cut, text: str
) -> tuple[str, str]:
    """What the sides give: that of the left in the words of the right where that is a number."""
    typed = _find_typed(right)
    if typed is not None:
        return _tell_like(right, typed, left, tokens[second.first : second.last], text), ""
    typed = _find_typed(left)
    if typed is not None:
        return "", _tell_like(left, typed, right, tokens[first.first : first.last], text)
    a, b, _ = _find_nearest_reading(left, right)
    return _write(a, 3), _write(b, 3)


def _find_nearest_reading(left: Node, right: Node) -> tuple[float, float, Reading]:
    """The values of two sides that fail, in the likeliest reading: with their units, if that
    does not take them far apart."""
    found = []
    for reading in list_readings(left, right):
        try:
            a, b = evaluate(left, reading), evaluate(right, reading)
        except NoValueError:
            continue
        if a.dimension == b.dimension:
            found.append((a.value, b.value, reading))
    found.sort(key=lambda sides: not sides[2].units)
    near = (sides for sides in found if 1e-9 < _measure_distance(*sides[:2]) < _FAR_APART)
    return next(near, found[0])


_FAR_APART = math.log(30)


def _measure_distance(first: float, second: float) -> float:
    """How far two values are from each other, in powers of e."""
    if not first or not second:
        return math.inf
    return abs(math.log(abs(first / second)))


def _tell_like(node: Node, typed: Number, other: Node, tokens: Sequence[Token], text: str) -> str:
    """The value of the other side, written as the typed number is, with its unit."""
    _, value, reading = _find_nearest_reading(node, other)
    size = _measure_size(node, typed, reading)
    number = next(token for token in tokens if token.kind is Kind.NUMBER)
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
    if not decimals:
        return f"{round(value):{comma}d}" if abs(value) >= 1000 else f"{value:.4g}"
    return f"{value:{comma}.{decimals}f}"
