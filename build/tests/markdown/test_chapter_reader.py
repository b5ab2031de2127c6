"""Parsing: places of links to the column, what a chapter holds, and no text that breaks it."""

import pytest
from any_markdown import MARKDOWN
from bindery.core.model import Chapter, Link, Span
from bindery.markdown.chapter_reader import parse_chapter
from bindery.markdown.parser import make_parser
from fixture_types import Case
from hypothesis import example, given
from markdown_it import MarkdownIt
from mdit_py_plugins.gfm import gfm_plugin


def show_link(link: Link, chapter: Chapter) -> list[str]:
    """Place, kind and destination of a link, and its line with the place marked below."""
    span = link.span
    line = chapter.lines[span.line - 1]
    return [
        f"{span.line}:{span.col} {link.kind} {link.destination}".rstrip(),
        f"| {line}",
        f"| {' ' * (span.col - 1)}{'^' * span.width}",
    ]


@pytest.mark.cases("positions.txt")
def test_links_know_their_place(case: Case) -> None:
    """Each link is found at the line and column at which its destination is typed."""
    chapter = parse_chapter("a.md", case.given + "\n")
    for link in chapter.links:
        start = link.span.col - 1
        typed = chapter.lines[link.span.line - 1][start : start + link.span.width]
        assert link.raw in (typed, ""), "the place is not that of the destination"
    case.expect("\n".join(line for link in chapter.links for line in show_link(link, chapter)))


DEFINITIONS = """\
[plain]: a.md
 [Two  words]:   <b c.md>  'A title'
> [quoted]:
>    c.md
>    "over
>    lines"

- item

  1. deeper

     [listed\\]]: d%20e.md

Text[^note] with [plain] and [text][TWO WORDS], ![image][quoted].

[plain]: again.md
[^note]: Not a definition.

    [noted]: /f.md

```
[code]: g.md
```

text
[paragraph]: h.md
"""


def test_definitions_know_their_places() -> None:
    """Definitions are found in quotes, lists and footnotes, with label and destination in place,
    and those in code or inside a paragraph are none."""
    chapter = parse_chapter("a.md", DEFINITIONS)

    def cut(span: Span) -> str:
        return chapter.lines[span.line - 1][span.col - 1 : span.col - 1 + span.width]

    assert [(cut(d.span), cut(d.destination_span), d.is_used) for d in chapter.definitions] == [
        ("[plain]", "a.md", True),
        ("[Two  words]", "<b c.md>", True),
        ("[quoted]", "c.md", True),
        ("[listed\\]]", "d%20e.md", False),
        ("[plain]", "again.md", False),
        ("[noted]", "/f.md", False),
    ]
    assert all(cut(d.destination_span) == d.raw for d in chapter.definitions)
    assert [d.destination for d in chapter.definitions][1:4] == ["b c.md", "c.md", "d%20e.md"]
    assert [(cut(n.span), n.is_used) for n in chapter.footnotes] == [("[^note]", True)]


def test_an_inventory_names_everything_in_order() -> None:
    """Headings, tables, figures and code blocks are counted, those of raw HTML too."""
    source = (
        "# Title\n\n| a |\n|---|\n| 1 |\n| 2 |\n\n![x](a.svg)\n\n```\none\n```\n\n"
        '<h2>Raw</h2>\n\n<img src="b.svg">\n\n<table><tr><td>1</td></tr></table>\n\n'
        "    two\n\n<pre>three</pre>\n"
    )
    inventory = parse_chapter("a.md", source).inventory
    assert inventory.headings == (("title", "Title"), ("raw", "Raw"))
    assert inventory.tables == (("table.1", 3), ("table.2", None))
    assert inventory.figures == ("figure.1", "figure.2")
    assert inventory.code_blocks == (("code.1", "one\n"), ("code.2", "two\n"), ("code.3", None))


@pytest.mark.parametrize(
    ("source", "ranks"),
    [
        ("# A\n## B\n### C\n", [1, 2, 3]),
        ("# A\n## B\n# C\n## D\n", [1, 3, 2, 3]),
        ("## A\n### B\n", [2, 3]),
        ("# A\n# B\n###### C\n", [1, 2, 6]),
        ("# A\n\n<h1>B</h1>\n", [1, 2]),
    ],
)
def test_a_chapter_has_one_title(source: str, ranks: list[int]) -> None:
    """In a joined book only the title is of rank 1; what follows keeps its order below it."""
    found = []
    for token in parse_chapter("a.md", source).tokens:
        if token.type == "heading_open":
            found.append(token.meta["rank"])
        found.extend(token.meta.get("piece_ranks", {}).values())
    assert found == ranks


@pytest.mark.parametrize(
    ("path", "source", "title"),
    [
        ("a.md", "# The title\n", "The title"),
        ("a.md", "text\n\n## Section\n\n# Late title\n", "Late title"),
        ("network/slow-links.md", "text\n", "Slow links"),
        ("network/README.md", "text\n", "Network"),
        ("README.md", "text\n", "Preface"),
        ("a.md", "# The `code` and *more*\n", "The code and more"),
        ("a.md", "---\ntitle: Workspaces\n---\n\n## One\n", "Workspaces"),
        ("a.md", "---\ntitle: 'In quotes'\n---\n\nText.\n", "In quotes"),
        ("a.md", "---\ntitle: Given\n---\n\n# Written\n", "Written"),
        ("a-page.md", "---\nsection: 7\n---\n\nText.\n", "A page"),
        ("a-page.md", "Text.\n\ntitle: not front matter\n", "A page"),
    ],
)
def test_a_title_comes_from_the_text_or_the_path(path: str, source: str, title: str) -> None:
    """A chapter is called what its first heading of level 1 says, else its front matter, else after
    its file."""
    assert parse_chapter(path, source).title == title


@given(MARKDOWN)
@example("|a|\n|-|\n|<p>|\n\n</p>")
@example("- [x](<>\n\n> <a href=''>")
def test_no_text_breaks_the_parser(source: str) -> None:
    """Whatever an author writes is parsed, and every link and finding is inside the text."""
    source = source.replace("\r\n", "\n").replace("\r", "\n")
    chapter = parse_chapter("a.md", source)
    spans = [
        *(link.span for link in chapter.links),
        *(anchor.span for anchor in chapter.anchors),
        *(finding.span for finding in chapter.findings),
        *(excuse.span for excuse in chapter.excuses),
        *(definition.span for definition in chapter.definitions),
        *(definition.destination_span for definition in chapter.definitions),
        *(footnote.span for footnote in chapter.footnotes),
        *(reference.span for reference in chapter.open_references),
    ]
    for span in spans:
        assert 1 <= span.line <= len(chapter.lines)
        assert span.col >= 1
        assert span.width >= 1


@given(MARKDOWN)
@example("wwww.a.org www.a.org (www.b.org) mailto:x@y.z xmpp:a@b.c https://d.e http:f ![a](b) !c")
@example("[*a* `b` & <c>](d) [e &amp; f](g) [h\ni](j) [k](\x01l) [m](n&amp;o) [p](q(r)) [s](t\\)u)")
def test_no_inline_rule_is_passed_by(source: str) -> None:
    """Our parser stops at fewer characters than the library's, and renders the same."""

    class Library(MarkdownIt):
        def validateLink(self, url: str) -> bool:  # noqa: N802
            return True

    theirs = Library("commonmark")
    gfm_plugin(theirs, front_matter=True)
    assert make_parser().render(source) == theirs.render(source)
