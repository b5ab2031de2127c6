"""The quick inline parser against the one that it replaces."""

from __future__ import annotations

from bindery.markdown.inline import InlineParser
from bindery.markdown.parser import add_maths
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from mdit_py_plugins.gfm import gfm_plugin

PIECES = (
    "* _ [ ] ( ) ! < > ` `` \\ &amp; & ; www. w http:// https: mailto:a@b.cc xmpp: a.b @ x@y.zz "
    ": ~ ~~ a b.md # $ $$ ^ [^1] ' \" - = { } 1 é ![ ](a) <a> <!-- -->"
).split()


def make_parsers(maths: bool) -> tuple[MarkdownIt, MarkdownIt]:
    """The parser as it comes, and one with our inline parser."""
    first, second = MarkdownIt("commonmark"), MarkdownIt("commonmark")
    for parser in (first, second):
        gfm_plugin(parser, front_matter=True)
        if maths:
            add_maths(parser)
    second.inline = InlineParser(second.inline)
    return first, second


PARSERS = (*make_parsers(maths=False), *make_parsers(maths=True))


@given(st.lists(st.sampled_from([*PIECES, " ", "\n"]), max_size=24).map("".join))
def test_the_tokens_are_those_of_the_whole_search(text: str) -> None:
    """Asking each rule only where it can begin changes no token."""
    plain, quick, plain_maths, quick_maths = PARSERS
    assert quick.parse(text) == plain.parse(text)
    assert quick_maths.parse(text) == plain_maths.parse(text)
