"""Anchors of headings: GitHub's rule, case by case."""

import unicodedata
from pathlib import Path

import pytest
from bindery.markdown.chapter_reader import parse_chapter
from bindery.markdown.slugs import SlugCounter, slugify_heading
from fixture_types import Case
from hypothesis import given
from hypothesis import strategies as st

ROOT = Path(__file__).resolve().parents[3]


@pytest.mark.cases("slugs.txt")
def test_headings_get_the_anchors_of_github(case: Case) -> None:
    """The anchors of a chapter's headings are those that GitHub gives them."""
    chapter = parse_chapter("a.md", case.given + "\n")
    case.expect("\n".join(anchor.slug for anchor in chapter.anchors if anchor.level))


@given(st.text())
def test_slugs_hold_word_characters_and_hyphens_only(text: str) -> None:
    """No text gives a slug with a space, a mark of punctuation or a sign in it."""
    for character in slugify_heading(text):
        kind = unicodedata.category(character)
        is_circled = kind == "So" and "LATIN" in unicodedata.name(character)
        assert character == "-" or kind[0] in "LMN" or kind == "Pc" or is_circled, repr(character)


@given(st.lists(st.text(alphabet="ab-1 ?", max_size=5), max_size=30))
def test_slugs_of_a_chapter_are_unique(texts: list[str]) -> None:
    """However headings repeat and collide, no two of a chapter share an anchor."""
    counter = SlugCounter()
    slugs = [counter.assign_slug(text) for text in texts]
    assert len(set(slugs)) == len(slugs)
