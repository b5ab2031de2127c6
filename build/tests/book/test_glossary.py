"""Terms: where a book explains them, and where a page says what they mean."""

import pytest
from bindery.book.glossary import find_glossary
from bindery.check.inspect import inspect_book
from bindery.render.glossary import collect_terms, mark_terms
from conftest import BookMaker
from lxml import etree

XHTML = "{http://www.w3.org/1999/xhtml}"
TABLE = "<table><tr><th>Term</th><th>M</th></tr><tr><td>HBM</td><td>Fast.</td></tr></table>"
WORDS = "<ul><li>HBM: fast memory</li><li>rank: a process</li></ul>"


def parse(body: str) -> etree._Element:
    return etree.fromstring(f'<article xmlns="http://www.w3.org/1999/xhtml">{body}</article>')


def mark(body: str) -> str:
    """The terms that are marked in a text: section by section, in reading order."""
    root = parse(body)
    listed = collect_terms(parse(WORDS), is_glossary=True)
    mark_terms(root, {"words.html": listed}, is_glossary=False)
    links = root.iter(f"{XHTML}a")
    return " ".join(f"{link.text}>{link.get('data-term')}" for link in links if link.get("class"))


@pytest.mark.parametrize(
    ("body", "names"),
    [
        ("<ul><li>HBM: fast memory</li></ul>", ("HBM",)),
        ("<ul><li><p>HBM: fast memory</p></li></ul>", ("HBM",)),
        ("<ul><li><p><strong>HBM</strong>: fast memory</p></li></ul>", ("HBM",)),
        (TABLE, ("HBM",)),
        ("<p><strong>HBM (stacked memory)</strong> is fast.</p>", ("HBM", "stacked memory")),
        ("<p><b>All-reduce, allreduce</b> \N{EM DASH} a sum.</p>", ("All-reduce", "allreduce")),
        ("<h2 id='hbm'>HBM</h2><p>Fast memory.</p>", ("HBM",)),
        ("<dl><dt>HBM</dt><dd>Fast memory.</dd></dl>", ("HBM",)),
        ("<h1>Glossary</h1><p>What words mean.</p>", ()),
        ("<ul><li>HBM</li><li>a sentence that is long: no term at all, as one sees</li></ul>",
         ("a sentence that is long",)),
    ],
)  # fmt: skip
def test_a_term_is_explained_in_many_shapes(body: str, names: tuple[str, ...]) -> None:
    """Lists, tables, bold words, headings and definitions explain terms; plain prose does not."""
    terms = collect_terms(parse(body), is_glossary=True)
    assert tuple(name for term in terms for name in term.names) == names


def test_a_section_is_a_glossary_for_its_chapter() -> None:
    """Only what is below the heading counts, and it is not marked itself."""
    body = (
        "<h1>Chips</h1><p>HBM is dear.</p><h2>Glossary</h2><ul><li>HBM: memory</li></ul>"
        "<h2>More</h2><ul><li>TPU: something else</li></ul><p>More HBM.</p>"
    )
    root = parse(body)
    terms = collect_terms(root, is_glossary=False)
    assert [(term.name, term.anchor) for term in terms] == [("HBM", "term.1")]
    assert mark_terms(root, {"": terms}, is_glossary=False)
    assert [link.get("href") for link in root.iter(f"{XHTML}a")] == ["#term.1", "#term.1"]
    assert not list(root.find(f"{XHTML}ul").iter(f"{XHTML}a"))


@pytest.mark.parametrize(
    ("body", "marked"),
    [
        ("<p>HBM and HBM.</p><p>HBM</p><h2>B</h2><p>Of HBMs.</p>", "HBM>HBM HBMs>HBM"),
        ("<p>hbm, HBM3, an-HBM</p>", ""),
        ("<p>Rank 0 and ranks, franks</p>", "Rank>rank"),
        ("<h2>HBM</h2><pre>HBM</pre><p><code>HBM</code> <a>HBM</a></p>", ""),
        ("<p>A <em>fast HBM</em>, a <b>rank</b> of HBM</p>", "HBM>HBM rank>rank"),
        ("<p>One rank <em>of</em> HBM then</p>", "rank>rank HBM>HBM"),
    ],
)
def test_the_first_use_in_a_section_is_marked(body: str, marked: str) -> None:
    """Once in each section, whole words only, abbreviations in capitals; not in code, links and
    headings."""
    assert mark(body) == marked


def test_marking_changes_no_word() -> None:
    """The text reads as before, and the link says what the term means and where that is."""
    body = "<p>A rank, <em>or two ranks</em>, of HBM &amp; more HBM.</p>"
    root = parse(body)
    before = "".join(root.itertext())
    terms = collect_terms(parse("<ul><li>HBM: fast</li><li>rank: one</li></ul>"), is_glossary=True)
    mark_terms(root, {"g.html": terms}, is_glossary=False)
    assert "".join(root.itertext()) == before
    link = next(root.iter(f"{XHTML}a"))
    assert dict(link.attrib) == {
        "class": "term",
        "href": "g.html#term.2",
        "data-term": "rank",
        "data-meaning": "one",
    }


@pytest.mark.parametrize(
    ("path", "title", "found"),
    [
        ("words.md", "Glossary", True),
        ("resources/glossary/README.md", "Words", True),
        ("glossary.md", "Words", True),
        ("words.md", "Glossaire", True),
        ("words.md", "Words of a glossary", False),
    ],
)
def test_the_glossary_is_the_chapter_of_that_name(
    make_book: BookMaker, path: str, title: str, found: bool
) -> None:
    """Title, file or folder may say it, in the languages that have the word."""
    root = make_book({"README.md": "# A\n", path: f"# {title}\n"})
    assert find_glossary(inspect_book(root).book) == (path if found else "")
