"""Formulas between dollars: only where the book asks, and set in all three outputs."""

import json
import sys
import zipfile
from pathlib import Path
from xml.etree import ElementTree

import pikepdf
import pytest
from bindery.book.this_edition import find_edition
from bindery.check.inspect import inspect_book
from bindery.markdown.maths import draw_maths, find_fault, write_mathml
from bindery.markdown.parser import make_parser
from bindery.render.epub.epub import build_epub
from bindery.render.pdf.pdf import build_pdf
from bindery.render.site.building import build_site
from fixture_types import BookMaker, Runner
from lxml import html as lxml_html

TEXT = (
    "# A\n\nInline $\\frac{1}{2}$ here.\n\n$$\nE = m c^2\n$$\n\n| a |\n|---|\n| $x_1$ |\n\n"
    "```math\ny\n```\n\n```python\nmath\n```\n"
)
TYPESETTERS = pytest.mark.needs("python:latex2mathml", "python:ziamath")


def build(root: Path) -> str:
    """The page of a book of one chapter."""
    inspection = inspect_book(root)
    site = root / "dist" / "site"
    build_site(inspection, find_edition(inspection.config), site, lambda name: None)
    return (site / "index.html").read_text()


def test_a_book_with_formulas_says_what_to_install(
    make_book: BookMaker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without the extra `maths` the check reports the first formula, once; a lenient build shows
    the LaTeX. A book without formulas needs nothing."""
    for name in ("latex2mathml", "ziamath"):
        monkeypatch.setitem(sys.modules, name, None)
    root = make_book({"README.md": TEXT}, extra="maths: true\n")
    (finding,) = inspect_book(root).findings
    assert (finding.rule, finding.span.line) == ("broken-maths", 3)
    assert finding.message == ("formulas need latex2mathml and ziamath (not installed)")
    assert finding.help == "run `pip install 'bindery[maths]'`"
    assert r"<code>\frac{1}{2}</code>" in build(root)
    (root / "README.md").write_text("# A\n\nIt costs $5.\n")
    assert inspect_book(root).findings == ()


@TYPESETTERS
def test_a_fraction_is_a_fraction() -> None:
    """MathML keeps numerator and denominator apart, and its source for who cannot see it."""
    root = ElementTree.fromstring(write_mathml(r"\frac{1}{2}", is_block=False))
    name = "{http://www.w3.org/1998/Math/MathML}"
    fraction = next(root.iter(f"{name}mfrac"))

    assert ["".join(part.itertext()) for part in fraction] == ["1", "2"]
    assert root.get("alttext") == r"\frac{1}{2}"
    assert root.get("display") == "inline"


@TYPESETTERS
def test_a_drawing_stands_on_the_line() -> None:
    """A fraction reaches below the line of its text, a letter hardly."""
    image = ElementTree.fromstring(draw_maths(r"\frac{1}{2}", is_block=False))
    style = dict(rule.split(": ") for rule in image.get("style", "").split("; "))

    assert image.get("alt") == r"\frac{1}{2}"
    assert float(style["vertical-align"].removesuffix("em")) < -0.2
    assert 0.5 < float(style["height"].removesuffix("em")) < 3


@TYPESETTERS
@pytest.mark.parametrize(
    ("latex", "rows"),
    [
        (r"\begin{aligned}[t] a &= b \\[2pt] c &= d \end{aligned}", ["a|=b", "c|=d"]),
        (r"\begin{align} a &= b \\ c &= d \nonumber \end{align}", ["a|=b", "c|=d"]),
        (r"\begin{alignat*}{2} a &= b & c &= d \end{alignat*}", ["a|=b|c|=d"]),
        (r"\begin{split} a &= b \\ &= d \end{split}", ["a|=b", "|=d"]),
        (r"\begin{gathered} a \\* b \label{x} \end{gathered}", ["a", "b"]),
        ("\\begin{equation} a % & b\n\\tag{1} \\end{equation}", ["a(1)"]),
        (r"\begin{eqnarray} a &=& b \end{eqnarray}", ["a|=|b"]),
        (r"\begin{dcases} a & \text{if $x < 1$ & so} \end{dcases}", ["a|if x<1 & so"]),
        (r"\begin{pmatrix} a \& b & c \\ d & e \end{pmatrix}", ["a&b|c", "d|e"]),
        (r"\begin{vmatrix} a & b \\ c & d \end{vmatrix}", ["a|b", "c|d"]),
        (r"\begin{array}{lr} a & b \\ \hline c & d \end{array}", ["a|b", "c|d"]),
    ],
)
def test_a_table_of_formulas_is_a_table(latex: str, rows: list[str]) -> None:
    """What is aligned is in rows and cells, for the PDF too; a sign in words is that sign."""
    name = "{http://www.w3.org/1998/Math/MathML}"
    root = ElementTree.fromstring(write_mathml(latex, is_block=True))
    found = [["".join(cell.itertext()) for cell in row] for row in root.iter(f"{name}mtr")]
    assert ["|".join(row).replace("\xa0", " ").replace("\u2003", "") for row in found] == rows
    assert find_fault(latex, is_block=True) == ""


@TYPESETTERS
@pytest.mark.parametrize(
    ("latex", "fault"),
    [
        (r"\nocommand x", r"there is no command \nocommand"),
        (r"\left( x", "extra left or missing right"),
        ("{", "a brace is not closed"),
        (r"x = \frac{1", "a brace is not closed"),
        (r"\frac{1}{2", "a brace is not closed"),
        ("a}", "a closing brace has no opening brace"),
        (r"\{ a \\ b \}", ""),
        ("^", "missing super script or subscript"),
        (r"\frac{a}{b}", ""),
        (r"\sum_{i=0}^{n} x_i \le \sqrt{2}", ""),
        ("a & b", "'&' is not in a table such as aligned; the sign itself is written \\&"),
        (
            r"\begin{tabular}{c} 1 & 2 \end{tabular}",
            "the environment tabular is unknown; use aligned, gathered, cases, array or a matrix",
        ),
        (r"\href{javascript:a}{b}", r"GitHub does not allow \href"),
        (r"x % \begin{tabular} &", ""),
        (r"\color{a\"b&}{x}", "it contains characters that it cannot show as text"),
    ],
)
def test_what_cannot_be_set_is_said(latex: str, fault: str) -> None:
    """The reason names the command or the mistake; what can be set has none."""
    assert find_fault(latex, is_block=False) == fault


@pytest.mark.parametrize(
    ("text", "formulas"),
    [
        ("It costs $5 and $7, not more.", []),
        ("From $5 to $7.", []),
        ("Between $5-$7.", []),
        ("US$5, US$7", []),
        ("$HOME/$PATH and $HOME", []),
        ("a $ b $ c", []),
        ("a $x $ b", []),
        ("a $ x$ b", []),
        ("the $n$th", []),
        ("a$x$", []),
        ("2$x$", []),
        ("a $$ b", []),
        ("\\$x$ and more", []),
        ("$x", []),
        ("It costs $5, and $x$ is free.", ["x"]),
        ("$x$", ["x"]),
        ("$x$ of 5", ["x"]),
        ("$5$ of them", ["5"]),
        ('($x$), "$y$": *$z$*-$w$.', ["x", "y", "z", "w"]),
        ("$a \\$ b$", ["a \\$ b"]),
        ("a $$x$$ b", ["x"]),
        ("$a\n+ b$", ["a\n+ b"]),
        ("| $x$ | $5 | $7 |", ["x"]),
    ],
)
def test_a_formula_begins_and_ends_where_it_does_on_github(text: str, formulas: list[str]) -> None:
    """A dollar with a blank inside, or a letter or a digit outside, is money or a variable."""
    children = make_parser(maths=True).parseInline(text)[0].children or []
    assert [t.content for t in children if t.type.startswith("math_inline")] == formulas


@TYPESETTERS
def test_formulas_in_headings_and_aligned_ones_reach_every_output(
    make_book: BookMaker, run_bindery: Runner
) -> None:
    """A heading has GitHub's anchor, its formula is typeset, and outlines have its letters. What
    is aligned is a table, whose rows are not those of the author's tables."""
    text = """# A\n\nSee [norm](#norm-l_1-ab).\n\n## Norm $L_1$ `a&b`\n
$$\n\\begin{aligned}\na &= b \\\\\nc &= d\n\\end{aligned}\n$$\n
## $E=c$\n\n| a |\n|---|\n| $\\begin{split} x &= 1 \\end{split}$ |\n"""
    root = make_book({"README.md": text}, extra="maths: true\n")
    for output in ("pdf", "epub", "html"):
        ended = run_bindery(output, folder=root)
        assert ended.status == 0, ended.stderr + ended.stdout
        assert "complete: 3 headings, 1 table" in ended.stdout
    page = lxml_html.parse(root / "dist/site/index.html").getroot()
    (heading,) = page.xpath("//h3[@id='norm-l_1-ab'] | //h2[@id='norm-l_1-ab']")
    assert heading.xpath("math/@alttext") == ["L_1"]
    search = json.loads((root / "dist/site/search-index.js").read_text()[21:].rstrip(";\n"))
    assert [section[1] for section in search["pages"][0][2]] == ["A", "Norm L_1 a&b", "E=c"]
    with zipfile.ZipFile(root / "dist/book.epub") as archive:
        assert ">Norm L_1 a&amp;b</a>" in archive.read("EPUB/nav.xhtml").decode()
    (aligned,) = page.xpath("//p[@class='maths']//mtable")
    assert [len(row) for row in aligned] == [2, 2]
    assert not any("&" in text for text in page.xpath("//mi/text()"))
    with pikepdf.open(root / "dist/book.pdf") as pdf, pdf.open_outline() as outline:
        titles = [item.title for top in outline.root for item in top.children]
    assert titles[-2:] == ["Norm L_1 a&b", "E=c"]


@TYPESETTERS
def test_formulas_reach_every_output(make_book: BookMaker) -> None:
    """Four formulas in the source are four on the page, in the EPUB and in the PDF."""
    root = make_book({"README.md": TEXT}, extra="maths: true\n")
    inspection = inspect_book(root)
    edition = find_edition(inspection.config)
    assert inspection.findings == ()
    build_epub(inspection, edition, root / "dist" / "t.epub", lambda name: None)
    _, findings = build_pdf(inspection, edition, root / "dist" / "t.pdf", lambda name: None)
    page = build(root)
    assert (page.count("<math "), page.count("<pre")) == (4, 1)
    with zipfile.ZipFile(root / "dist" / "t.epub") as archive:
        assert archive.read("EPUB/text/ch001.xhtml").count(b"<math ") == 4
        package = archive.read("EPUB/content.opf").decode()
    assert package.count('properties="mathml"') == 1
    assert findings == []


def test_dollars_are_dollars_unless_asked(make_book: BookMaker) -> None:
    """Without `maths: true` a dollar sign is a dollar sign, and a block of maths is code."""
    page = build(make_book({"README.md": TEXT}))
    assert "<math" not in page
    assert "$\\frac{1}{2}$" in page
    assert page.count("<pre") == 2


@TYPESETTERS
def test_a_broken_block_of_maths_is_found(make_book: BookMaker) -> None:
    """The finding is where the block begins."""
    source = "# A\n\n```math\n\\frac{1\n```\n"
    (finding,) = inspect_book(make_book({"README.md": source}, extra="maths: true\n")).findings
    assert (finding.rule, finding.span.line) == ("broken-maths", 3)
    assert finding.help == "fix the LaTeX"
