"""Sums in prose: what is read as one, what it comes to, and what is left alone."""

import math

import pytest
from bindery.check.arithmetic.grammar import read_side
from bindery.check.arithmetic.judging import Verdict
from bindery.check.arithmetic.measures import match_unit
from bindery.check.arithmetic.readings import NoValueError, Reading, evaluate
from bindery.check.arithmetic.statements import Statement, read_statements
from bindery.check.arithmetic.tokens import split_tokens
from fixture_types import Case
from hypothesis import assume, given
from hypothesis import strategies as st


def _describe(statement: Statement) -> str:
    values = " and ".join(value for value in (statement.left, statement.right) if value)
    return f"{statement.verdict.value}: {statement.text}{f' -> {values}' if values else ''}"


@pytest.mark.cases("sums.txt")
def test_each_line_gets_this_verdict(case: Case) -> None:
    """What is stated is found with its edges, and gets the verdict of a careful reader."""
    lines = case.given.split("\n")
    case.expect(
        "\n".join("; ".join(map(_describe, read_statements(line))) or "-" for line in lines)
    )


@pytest.mark.parametrize(
    ("text", "verdict"),
    [
        ("3 * 8 = 32 - overhead", Verdict.UNJUDGED),
        ("3 * 8 = 25", Verdict.FAILS),
    ],
)
def test_a_minus_in_code_is_a_minus(text: str, verdict: Verdict) -> None:
    """What a dash cuts off in prose may be taken away in code, where it has no name yet."""
    assert read_statements(text, ((0, len(text)),))[0].verdict is verdict
    assert read_statements(text)[0].verdict is Verdict.FAILS


def test_statements_know_their_place() -> None:
    """The place of a statement is that of its characters, in the second sentence as well."""
    text = "There are 3 * 4 = 12 of them. Later,\n5 + 5 = 11 (or so), 2 * 2 = 4."
    found = read_statements(text)
    assert [text[one.start : one.end] for one in found] == ["3 * 4 = 12", "5 + 5 = 11", "2 * 2 = 4"]
    assert [one.text for one in found] == [text[one.start : one.end] for one in found]


# --- the two sides against Python ---

_SPACES = st.sampled_from(["", " "])
_TIMES = st.sampled_from(["*", " * ", " × ", "×", " · ", " x "])
_OVER = st.sampled_from(["/", " / ", " ÷ "])
_POWER = st.sampled_from(["**", "^", " ** "])


@st.composite
def _numbers(draw: st.DrawFn) -> tuple[str, str]:
    """A number as an author types it, and as Python reads it."""
    whole = draw(st.integers(min_value=1, max_value=10**7))
    match draw(st.sampled_from(["plain", "commas", "underscores", "decimals", "exponent"])):
        case "commas":
            return f"{whole:,}", str(whole)
        case "underscores":
            return f"{whole:_}", str(whole)
        case "decimals":
            digits = f"{whole}.{draw(st.integers(min_value=1, max_value=99)):02d}"
            return digits, digits
        case "exponent":
            text = f"{whole % 1000 + 1}e{draw(st.integers(min_value=0, max_value=9))}"
            return text, text
        case _:
            return str(whole), str(whole)


@st.composite
def _expressions(draw: st.DrawFn, depth: int = 3) -> tuple[str, str]:
    """An expression as an author types it, and as Python reads it."""
    kind = draw(st.sampled_from("nnspbpqr" if depth else "n"))
    if kind == "n":
        return draw(_numbers())
    left, left_python = draw(_expressions(depth - 1))
    right, right_python = draw(_expressions(depth - 1))
    match kind:
        case "s":
            sign = draw(st.sampled_from([" + ", " - ", " − ", "+"]))
            operator = "+" if "+" in sign else "-"
            return f"({left}{sign}{right})", f"({left_python}{operator}{right_python})"
        case "p":
            return f"{left}{draw(_TIMES)}{right}", f"{left_python}*{right_python}"
        case "q":
            return f"({left}){draw(_OVER)}({right})", f"({left_python})/({right_python})"
        case "r":
            power = draw(st.integers(min_value=0, max_value=3))
            return f"({left}){draw(_POWER)}{power}", f"({left_python})**{power}"
        case _:
            space = draw(_SPACES)
            return f"({space}{left}{space})", f"({left_python})"


def _work_out(python: str) -> float:
    try:
        value = float(eval(python, {"__builtins__": {}}))
    except (ArithmeticError, OverflowError):
        assume(False)
        raise
    assume(math.isfinite(value) and 1e-6 < abs(value) < 1e15)
    return value


@given(_expressions())
def test_an_expression_has_the_value_that_python_gives(pair: tuple[str, str]) -> None:
    """However it is typed, a side is worked out as Python works it out."""
    text, python = pair
    value = _work_out(python)
    side = read_side(split_tokens(text))
    assert side is not None
    assert math.isclose(evaluate(side.node, Reading()).value, value, rel_tol=1e-9)


@given(_expressions(), st.sampled_from(["=", " = ", " == ", " ≈ ", " = ~"]))
def test_what_python_gives_holds(pair: tuple[str, str], sign: str) -> None:
    """A sum with the result that Python gives holds, with all digits and with four."""
    text, python = pair
    value = _work_out(python)
    assume(any(operator in text[1:] for operator in "+-−*×·x/÷^"))
    for shown in (f"{value:.4g}", f"{value:.10f}", repr(value)):
        assume(float(shown) > 0)
        found = read_statements(f"This gives {text}{sign}{shown}, as it should.")
        assert [one.verdict for one in found] == [Verdict.HOLDS], shown


@given(
    st.integers(min_value=12, max_value=9999),
    st.integers(min_value=12, max_value=9999),
    st.sampled_from(["*", " * ", " × ", "x", " + ", "+"]),
    st.integers(min_value=0, max_value=3),
    st.integers(min_value=1, max_value=9),
    st.sampled_from(["", " GB", " nodes", "."]),
)
def test_a_changed_digit_is_found(
    first: int, second: int, sign: str, place: int, shift: int, behind: str
) -> None:
    """One wrong digit in a result fails, and the right result is told."""
    right = first + second if "+" in sign else first * second
    digits = list(str(right))
    place %= len(digits)
    digits[place] = str((int(digits[place]) + shift) % 10)
    wrong = int("".join(digits))
    assume(digits[0] != "0" and wrong not in (first, second) and abs(wrong - right) != 256)
    assume(abs(wrong - right) != 65536 and not str(wrong).endswith("00"))
    assume(behind != " GB" or second < 1000 or second % 10)  # not the name of a device
    assume(behind != " GB" or not 7 < max(right / wrong, wrong / right) < 9)  # bytes for bits
    found = read_statements(f"There are {first}{sign}{second} = {wrong}{behind}")
    assert [one.verdict for one in found] == [Verdict.FAILS]
    assert found[0].left.split()[0] == str(right)


_WORDS = st.sampled_from(
    "we get the node 8 GPUs 80GB = 3.5 == ~ ≈ * / x - – ( ) 2**30 % 1,024 , . : n of 3% GB/s k B "
    "$2 √ sqrt( log( 10¹² => 0x10 1.2.3 2023-10-26 A100-80 e 1e9 -n , ^ + min max( … [ ] ² equals "
    "times per hour 5 min 1e999 9**9**9 0 /0 approx. \n".split(" ")
)


@given(st.lists(_WORDS, max_size=25), st.sampled_from(["", " "]))
def test_no_text_is_too_odd(words: list[str], joint: str) -> None:
    """Whatever is in a text, reading it ends, and places lie within it."""
    text = joint.join(words)
    for found in read_statements(text):
        assert found.text == text[found.start : found.end]


@given(st.text(max_size=60))
def test_no_character_is_lost(text: str) -> None:
    """Tokens are in order, do not overlap, and leave out nothing but blanks."""
    position = 0
    for token in split_tokens(text):
        assert not text[position : token.start].strip()
        assert token.start < token.end
        position = token.end
    assert not text[position:].strip()


def test_a_sum_without_a_value_raises() -> None:
    """What cannot be worked out says so and nothing else."""
    for text in ("1 / 0", "sqrt(0 - 4)", "9**9**9", "10 % 0", "round(1, 2, 3)", "1 GB + 2 s"):
        side = read_side(split_tokens(text))
        assert side is not None, text
        with pytest.raises(NoValueError):
            evaluate(side.node, Reading(units=True))


@pytest.mark.parametrize(
    ("text", "size"),
    [
        (" GBps", 1e9),
        ("GiB", 2**30),
        (" GB/s", 1e9),
        (" Gbit/s", 1.25e8),
        ("ms", 1e-3),
        (" TFLOPS", 1e12),
        (" kWh", 3.6e6),
        (" hours", 3600),
        ("/hour", 1 / 3600),
        (" per second", 1),
    ],
)
def test_units_have_their_size(text: str, size: float) -> None:
    """A unit is as large as its base units say."""
    found = match_unit(text, 0)
    assert found is not None
    assert found[0].size == pytest.approx(size)
    assert found[1] == len(text)
