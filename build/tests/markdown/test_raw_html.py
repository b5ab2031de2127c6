"""Raw HTML in pieces: nothing is lost, and every value knows its place."""

import pytest
from any_markdown import MARKDOWN
from bindery.markdown.raw_html import Comment, Tag, Text, split_html, split_srcset
from hypothesis import given


@given(MARKDOWN)
def test_pieces_stand_one_behind_the_other(fragment: str) -> None:
    """Pieces are in order, tags are quoted as typed, and values are where they say."""
    position = 0
    for piece in split_html(fragment):
        assert piece.start >= position
        match piece:
            case Tag(raw=raw, start=start, attributes=attributes):
                assert fragment.startswith(raw, start)
                position = start + len(raw)
                for attribute in attributes:
                    assert start < attribute.start <= position
            case Comment(text=text, start=start):
                assert fragment.startswith("<!--", start)
                assert text in fragment[start:]
            case Text(start=start):
                position = start


@pytest.mark.parametrize(
    ("fragment", "attributes"),
    [
        ('<a href="x">', {"href": "x"}),
        ("<a href='x'>", {"href": "x"}),
        ("<A HREF=x >", {"href": "x"}),
        ('<a href = "x y" title="a > b">', {"href": "x y", "title": "a > b"}),
        ('<a href="x" href="y">', {"href": "x"}),
        ('<a href="x&amp;y">', {"href": "x&y"}),
        ("<details open>", {"open": ""}),
        ('<img src="a.svg"/>', {"src": "a.svg"}),
    ],
)
def test_attributes_are_read_as_a_browser_does(fragment: str, attributes: dict[str, str]) -> None:
    """Quotes of both kinds and none, entities, repeats: the first of a name counts."""
    (tag,) = split_html(fragment)
    assert isinstance(tag, Tag)
    assert {attribute.name: attribute.value for attribute in tag.attributes} == attributes


@pytest.mark.parametrize(
    ("value", "candidates"),
    [
        ("a.svg", [("a.svg", "")]),
        (" a.png 1x,\n b.png 2x ", [("a.png", "1x"), ("b.png", "2x")]),
        ("a.png, b.png 480w", [("a.png", ""), ("b.png", "480w")]),
        ("a,b.png 2x", [("a,b.png", "2x")]),
        ("a.png,,", [("a.png", "")]),
        (",a.png ,b.png", [("a.png", ""), ("b.png", "")]),
        ("data:image/png;base64,AA== 1x", [("data:image/png;base64,AA==", "1x")]),
        (" , ", []),
    ],
)
def test_srcset_is_split_as_a_browser_does(value: str, candidates: list[tuple[str, str]]) -> None:
    """A comma ends an address only before white space or the end; descriptors are kept."""
    found = list(split_srcset(value))
    assert [(c.address, c.descriptor) for c in found] == candidates
    assert all(value.startswith(c.address, c.start) for c in found)


def test_what_is_no_tag_is_text() -> None:
    """A comparison and an arrow are text."""
    assert list(split_html("a < b, <- c, 3<4")) == [Text("a < b, <- c, 3<4", 0)]


def test_a_comment_ends_at_its_first_end() -> None:
    """A comment holds whatever is before the first `-->`, lines and tags included."""
    pieces = list(split_html("<!-- a <b>\n\nc -- d -->e-->"))
    assert pieces == [Comment(" a <b>\n\nc -- d ", 0), Text("e-->", 22)]
