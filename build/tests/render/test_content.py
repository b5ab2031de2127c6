"""Chapters as XHTML: what each construct becomes, and that nothing makes it ill formed."""

import re
from dataclasses import dataclass, field
from pathlib import Path
from xml.etree import ElementTree

import pytest
from any_markdown import MARKDOWN
from bindery.book.resolve import resolve_book
from bindery.core.config import DEFAULT_SCHEMES
from bindery.core.model import Book, Chapter, Part, Target, ToChapter, ToFile, ToWeb
from bindery.core.repository import Tree
from bindery.core.wording import Wording
from bindery.markdown.chapter_reader import parse_chapter
from bindery.render.completeness import compare_contents, expect_contents, read_contents
from bindery.render.text.content import ImageSource, render_chapter
from bindery.render.text.paper import Paper
from bindery.render.text.sums import write_sum
from fixture_types import Case
from hypothesis import example, given

TREE = Path(__file__).parents[1] / "fixtures" / "tree"
HERE = "book/network/debug.md"


@dataclass
class PlainDialect:
    """Ids are slugs, links and images are paths of the repository."""

    paper: Paper | None = None
    is_narrow: bool = False
    scrolls: bool = False
    draws_maths: bool = False
    marks_lines: bool = False
    offers_sources: bool = False
    words: Wording = field(default_factory=Wording)

    def write_id(self, chapter: Chapter, slug: str) -> str:
        return slug

    def write_href(self, target: Target, chapter: Chapter) -> str | None:
        match target:
            case ToWeb(url=url):
                return url
            case ToChapter(path=path, slug=slug):
                return f"{path}#{slug}" if slug else path
            case ToFile(path=path):
                return path

    def write_image(self, target: Target, chapter: Chapter) -> ImageSource | None:
        return ImageSource(target.path, 4, 3) if isinstance(target, ToFile) else None


def render(source: str, dialect: PlainDialect, *, maths: bool = False) -> str:
    chapter = parse_chapter(HERE, source, maths=maths)
    other = parse_chapter("book/network/README.md", "# Network\n\n## Bus bandwidth\n")
    book = Book((Part("", (chapter, other)),))
    resolved = resolve_book(book, Tree(TREE), DEFAULT_SCHEMES)
    text = render_chapter(chapter, resolved, dialect)
    # Well formed, and complete by the same proof that every output has to pass.
    root = ElementTree.fromstring(f"<article>{text}</article>")
    expected = expect_contents(chapter, resolved, dialect)
    proof = compare_contents(HERE, expected, read_contents(root, expected))
    # Where a raw heading that is never closed ends is anybody's guess, so its text is not held.
    is_open = "<h2>" in re.sub(r"<h2>[^<]*</h2>", "", source)
    assert [
        lack
        for lack in proof.lacks
        if not (is_open and lack.kind == "headings" and lack.what.startswith("part of"))
    ] == []
    return text


@pytest.mark.cases("content.txt")
def test_markdown_becomes_xhtml(case: Case) -> None:
    """Each construct of GitHub's Markdown becomes one known piece of well-formed XHTML."""
    case.expect(render(case.given + "\n", PlainDialect()).rstrip("\n"))


DIALECTS = {
    "plain": PlainDialect(),
    "paper": PlainDialect(paper=Paper(105.0, 148.0)),
    "scrolling": PlainDialect(scrolls=True),
    "stacking": PlainDialect(is_narrow=True),
    "choosing": PlainDialect(offers_sources=True),
}


@pytest.mark.parametrize("dialect", DIALECTS.values(), ids=DIALECTS)
@given(source=MARKDOWN)
@example(source="|a|\n|-|\n|<p>|\n\n</p>")
@example(source="<p>\n\n- x\n\n</p>\n\n> <td>")
@example(source="[<a href='a.md'>](b.md)\n\n<a href='a.md'>\n\n[x](b.md)</a>")
@example(source="# <p>a</p>\n\n<h2>\n\n# b\n\n</h2>")
@example(source="<h2>a <jobid> b</h2>")
@example(source="# ![](https://example.org/a.svg) Badge[^1]\n\n[^1]: note")
@example(source="- [ ] <li>\n- <ul>\n\n</ul>")
def test_no_text_breaks_the_xhtml(dialect: PlainDialect, source: str) -> None:
    """Whatever an author writes, the output is well-formed XML and holds all that was written."""
    render(source.replace("\r\n", "\n").replace("\r", "\n"), dialect)


def test_control_characters_are_shown_as_pictures() -> None:
    """What XML forbids is shown as its picture instead of breaking the output."""
    text = render("an escape \x1b[0m, a null \x00 and a delete \x7f\n", PlainDialect())
    assert "an escape ␛[0m, a null \N{REPLACEMENT CHARACTER} and a delete" in text


@pytest.mark.needs("python:latex2mathml", "python:ziamath")
def test_maths_is_read_where_the_book_asks_for_it() -> None:
    """With `maths: true` dollars hold formulas, in the line or in a paragraph of their own."""
    text = render("An $x_1$ here.\n\n$$\na < b\n$$\n", PlainDialect(), maths=True)
    assert re.search(r'An <math alttext="x_1"[^>]* display="inline">.*</math> here', text)
    assert re.search(r'<p class="maths"><math alttext="a &lt; b".*</math></p>', text)


def test_an_option_stays_whole() -> None:
    """Readers would break a line behind the hyphens that it begins with; other code they may."""
    text = render("Say `srun --export=ALL -N 2 a-b` here.\n", PlainDialect())
    options = re.findall(r'<span class="word">([^<]*)</span>', text)
    assert options == ["--export=ALL", "-N"]
    assert re.sub("<[^>]*>", "", text) == "Debug\nSay srun --export=ALL -N 2 a-b here.\n"


def test_a_table_for_a_small_screen_labels_its_cells() -> None:
    """Where rows may be stacked, each cell names the heading of its column."""
    text = render("| Name | Peak |\n|---|---|\n| H100 | 989 |\n", DIALECTS["stacking"])
    assert '<td data-label="Name">H100</td>' in text
    assert '<td data-label="Peak">989</td>' in text


@pytest.mark.parametrize(
    ("code", "shown"),
    [
        ("2 * 8e9 = 16e9", "2\u2009×\u20098e9|= 16e9"),
        ("(7 - 2) * 3 = 15 = 5 * 3", "(7\u2009−\u20092)\u2009×\u20093|= 15|= 5\u2009×\u20093"),
        ("2**30 / 1e6", "2<sup>30</sup>\u2009/\u20091e6"),
    ],
)
def test_a_sum_is_set_as_mathematics(code: str, shown: str) -> None:
    sides = "".join(f'<span class="word">{side}</span> ' for side in shown.split("|")).rstrip()
    assert write_sum(code) == f'<span class="sum">{sides}</span>'


@pytest.mark.parametrize(
    "code",
    ["-1", "1e9", "2026-11-23", "a * b", "10.0.0.0/8", "--m 2", "2 ** -", "0-7,16-23", "* 2"],
)
def test_other_code_is_no_sum(code: str) -> None:
    assert write_sum(code) is None
