"""The syntax of other book tools becomes GitHub Markdown; what has no counterpart stays."""

import pytest
from bindery.evidence.excerpts import Excerpt
from bindery.rewrite.converting.chapters import convert_text, find_labels
from bindery.rewrite.converting.inline import Places
from conftest import Case

TITLES = {"README.md": "Here", "other.md": "The other"}
EXCERPTS = {
    "x.rs": Excerpt("fn main() {}", "rust"),
    "x.rs#part": Excerpt("let x = 1;", "rust"),
    "x.rs#L2-L4": Excerpt("let y = 1;", "rust"),
}


@pytest.mark.cases("converting.txt")
def test_syntax_is_rewritten(case: Case) -> None:
    """Each construct becomes this text, and converting that again changes nothing."""
    labels = {
        "place": ("deep/x.md", "A place"),
        **dict(find_labels("README.md", case.given, "Figure")),
    }
    places = Places(
        labels, TITLES, "", "Figure", lambda name: EXCERPTS.get(name, Excerpt(fault="gone"))
    )
    text, counts = convert_text(case.given, "README.md", places)
    summary = [f"{noun}: {count}" for noun, count in sorted(counts.items())]
    case.expect("\n".join([text, *summary]))
    assert convert_text(text, "README.md", places) == (text, {})
