"""The first test for syntax of other tools must not pass over what the patterns find."""

import re

import pytest
from bindery.check.rules import foreign_syntax
from hypothesis import given, settings
from hypothesis import strategies as st

KINDS = (*foreign_syntax._IN_PROSE, foreign_syntax._DOLLARS, *foreign_syntax._ON_FENCES)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.what)
@settings(max_examples=20)
@given(st.data())
def test_what_a_pattern_matches_has_one_of_its_marks(
    kind: foreign_syntax._Kind, data: st.DataObject
) -> None:
    """Only texts with a mark are searched for the pattern."""
    text = data.draw(st.from_regex(re.compile(kind.pattern, re.M)))
    assert any(mark in f"\n{text}" for mark in kind.marks.split(" "))
