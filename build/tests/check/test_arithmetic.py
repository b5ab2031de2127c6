"""Sums in prose: what is read as one, what it comes to, and what is left alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from bindery.check.arithmetic.statements import Statement, read_statements
from hypothesis import assume, given
from hypothesis import strategies as st

if TYPE_CHECKING:
    from conftest import Case


def _describe(statement: Statement) -> str:
    values = " and ".join(value for value in (statement.left, statement.right) if value)
    verdict = "holds" if statement.holds else "fails"
    return f"{verdict}: {statement.text}{f' -> {values}' if values else ''}"


@pytest.mark.cases("sums.txt")
def test_each_line_gets_this_verdict(case: Case) -> None:
    """What is stated is found with its edges, and gets the verdict of a careful reader."""
    lines = case.given.split("\n")
    case.expect(
        "\n".join("; ".join(map(_describe, read_statements(line))) or "-" for line in lines)
    )


def test_a_minus_in_code_is_a_minus() -> None:
    """What a dash cuts off in prose may be taken away in code, where it has no name yet."""
    text = "3 * 8 = 32 - overhead"
    assert read_statements(text, [(0, len(text))]) == []
    assert [found.holds for found in read_statements(text)] == [False]


def test_statements_know_their_place() -> None:
    """The place of a statement is that of its characters, in the second sentence as well."""
    text = "There are 3 * 4 = 12 of them. Later,\n5 + 5 = 11 (or so), 2 * 2 = 4."
    found = read_statements(text)
    assert [text[one.start : one.end] for one in found] == ["3 * 4 = 12", "5 + 5 = 11", "2 * 2 = 4"]
    assert [one.text for one in found] == [text[one.start : one.end] for one in found]


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
    assume(behind != " GB" or not 7 < max(right / wrong, wrong / right) < 9)  # bytes for bits
    found = read_statements(f"There are {first}{sign}{second} = {wrong}{behind}")
    assert [one.holds for one in found] == [False]
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
