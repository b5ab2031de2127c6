"""Addresses: one page for each chapter, ids that no two chapters share."""

import re

import pytest
from bindery.core.model import Chapter
from bindery.render.addresses import find_page, join_id, make_prefixes, quote_path
from hypothesis import given
from hypothesis import strategies as st


@pytest.mark.parametrize(
    ("path", "folder", "page"),
    [
        ("book/README.md", "book", "index.html"),
        ("book/network/README.md", "book", "network/index.html"),
        ("book/network/debug.md", "book", "network/debug.html"),
        ("booklet/a.md", "book", "booklet/a.html"),
    ],
)
def test_a_page_stands_where_its_chapter_does(path: str, folder: str, page: str) -> None:
    """The address of a page is computed from the path of its chapter, and a README is an index."""
    assert find_page(path, folder) == page


@pytest.mark.parametrize(
    ("path", "quoted"),
    [("a b/c#d?.md", "a%20b/c%23d%3F.md"), ("café.md", "café.md"), ("100%.md", "100%25.md")],
)
def test_a_path_is_quoted_as_a_url(path: str, quoted: str) -> None:
    """What would end a path in a URL is encoded, letters of all scripts are kept."""
    assert quote_path(path) == quoted


PATHS = st.lists(
    st.text("abAB1 .-_é/", min_size=1, max_size=8).map(lambda name: f"{name.strip('/')}.md")
    | st.sampled_from(["README.md", "a/README.md", "a.md", "A.md", "1.md", "preface.md"]),
    unique=True,
    max_size=12,
)


@given(PATHS)
def test_prefixes_are_unique_and_fit_for_xml(paths: list[str]) -> None:
    """However chapters are called, each has a prefix of its own with which an XML id may begin."""
    prefixes = make_prefixes([Chapter(path, "A", "") for path in paths], "")
    assert len({prefix.lower() for prefix in prefixes.values()}) == len(paths)
    for prefix in prefixes.values():
        assert re.fullmatch(r"[^\W\d][\w.-]*", prefix), prefix


def test_an_id_has_no_space() -> None:
    """An explicit anchor with a space in it is still one id."""
    assert join_id("network", "a b") == "network--a_b"
