"""Every page of whole sites, in a browser: accessible, valid, quiet, small, and whole without
scripts; what readers do with them works by mouse and by keyboard."""

import posixpath
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from browsers import find_violations
from validators import run_lighthouse, run_vnu
from whole_sites import WholeSite, serve_folder

pytestmark = pytest.mark.nightly

# What the content of the reference book does not allow, by rule and page; nothing of ours.
FAULTS_OF_CONTENT: dict[str, dict[str, set[str]]] = {
    "own": {},
    # Two tables whose author has left a heading empty.
    "reference": {"empty-table-header": {"network/index.html"}},
}
# The same by audit of Lighthouse: links that are called "here", and those two tables.
CONTENT_FOR_LIGHTHOUSE: dict[str, set[str]] = {
    "own": set(),
    "reference": {"link-text", "td-has-header"},
}
FIXTURES = Path(__file__).resolve().parents[1] / "fixtures"
PARTS = 3
"""Tests that share the pages of a book, so that several processes can look at them."""


@pytest.fixture
def address(whole_site: WholeSite, tmp_path: Path) -> Iterator[str]:
    """Where the site is served: our own below the path that `site` in chapters.yaml names."""
    folder, path = whole_site.folder, ""
    if whole_site.name == "own":
        folder, path = tmp_path, "/ml-engineering"
        (tmp_path / "ml-engineering").symlink_to(whole_site.folder)
    with serve_folder(folder) as served:
        yield f"{served}{path}"


# --- every page ---


@pytest.mark.parametrize("part", range(PARTS))
def test_every_page_is_accessible(
    whole_site: WholeSite, address: str, open_tab: Callable[..., Any], axe: str, part: int
) -> None:
    """From a server no page asks anything of another place or complains, and axe-core finds no
    violation, in both themes and on a phone; links are large enough for a finger."""
    tab = open_tab(address)
    found: dict[str, dict[str, list[str]]] = {}
    for page in whole_site.pages[part::PARTS]:
        tab.goto(f"{address}/{page}")
        for view, rule, elements in find_violations(tab, axe):
            if page not in FAULTS_OF_CONTENT[whole_site.name].get(rule, ()):
                found.setdefault(rule, {})[f"{page}, {view}"] = elements
    assert found == {}


def test_every_page_is_valid(whole_site: WholeSite) -> None:
    """The checker of the HTML standard finds no error, those of redirects among the pages."""
    assert run_vnu(whole_site.folder) == []


# What scripts make, and what they fill in: the buttons, the tips, the marks that numbers answer
# for with scripts, the answers of calculators and the choices of a reader's hardware.
READ = """() => {
    for (const folded of document.querySelectorAll("details")) folded.open = true;
    const texts = document.querySelectorAll("main :is(p, li, dt, dd, td, th, pre, h1, h2, h3)");
    const hidden = [...texts]
        .filter((e) => !e.checkVisibility() && !e.closest("[hidden], nav.sections") && e.innerHTML)
        .map((e) => e.outerHTML.slice(0, 200));
    const copy = document.body.cloneNode(true);
    for (const sort of copy.querySelectorAll("button.sort")) sort.replaceWith(...sort.childNodes);
    for (const made of copy.querySelectorAll(`.table-tools, button, dialog, [role=tooltip],
        [role=status], .fault, script, noscript, a.here, output, code.command, p.link,
        .yours select, svg.strip`)) made.remove();
    const read = (e) => e.textContent.replace(/\\s+/g, " ").trim();
    return {
        text: read(copy),
        cells: [...copy.querySelectorAll("td, th")].map(read),
        links: [...copy.querySelectorAll("a[href]")]
            .map((a) => a.getAttribute("href").replace(location.href, "")),
        instead: [...document.querySelectorAll("noscript")].map((e) => e.innerText.trim()),
        works: document.querySelectorAll("form.calculator, div.yours").length,
        hidden,
    };
}"""


def test_every_page_is_whole_without_scripts(
    whole_site: WholeSite, open_tab: Callable[..., Any]
) -> None:
    """From the disk no page asks anything of another place or complains; without scripts it has
    the same text, cells and links, all to be seen, and says what a script would have done."""
    base = whole_site.folder.as_uri()
    with_scripts, without = open_tab(base), open_tab(base, java_script_enabled=False)
    for page in whole_site.pages:
        with_scripts.goto(f"{base}/{page}")
        without.goto(f"{base}/{page}")
        first, second = with_scripts.evaluate(READ), without.evaluate(READ)
        for kind in ("text", "cells", "links"):
            assert second[kind] == first[kind], (page, kind)
        assert second["hidden"] == [], page
        if page in whole_site.chapters[:-1]:
            following = whole_site.chapters[whole_site.chapters.index(page) + 1]
            assert posixpath.relpath(following, posixpath.dirname(page)) in second["links"]
        assert len([text for text in second["instead"] if text]) >= second["works"], page


# --- the search ---


ANSWER = """(typed) => {
    const field = document.querySelector("dialog.search input");
    const keep = (event) => event.preventDefault();
    document.addEventListener("click", keep, { capture: true });
    field.value = typed;
    field.dispatchEvent(new KeyboardEvent("keydown", { key: "Enter" }));
    document.removeEventListener("click", keep, { capture: true });
    return [...document.querySelectorAll("dialog.search [role=option]")].map((a) => a.href);
}"""


@pytest.mark.parametrize(
    ("file", "first", "among_three"),
    [("searches.txt", 0.85, 0.97), ("searches_unseen.txt", 0.75, 0.93)],
)
def test_questions_of_readers_are_answered(
    own_site: WholeSite, open_tab: Callable[..., Any], file: str, first: float, among_three: float
) -> None:
    """So many of the questions have a section that answers them first, and among the first three.
    The second file was written, and its answers chosen, without trying the search."""
    base = own_site.folder.as_uri()
    tab = open_tab(base)
    tab.goto(f"{base}/index.html")
    tab.keyboard.press("/")
    tab.locator("dialog.search [role=option]").first.wait_for()
    lines = (FIXTURES / file).read_text(encoding="utf-8").splitlines()
    ranks = {}
    for line in lines:
        typed, *wanted = line.split("\t")
        found = [
            h.removeprefix(f"{base}/").replace("index.html", "")
            for h in tab.evaluate(ANSWER, typed)
        ]
        ranks[typed] = next((n for n, href in enumerate(found, 1) if href in wanted), 99)
    late = {typed: rank for typed, rank in ranks.items() if rank > 1}
    assert len(late) <= (1 - first) * len(lines), late
    assert sum(rank > 3 for rank in late.values()) <= (1 - among_three) * len(lines), late


# --- calculators ---


def test_every_calculator_answers_by_keyboard(
    own_site: WholeSite, open_tab: Callable[..., Any]
) -> None:
    """Each has answers when it is opened, refuses what is no number in a sentence, and answers
    again."""
    base = own_site.folder.as_uri()
    tab = open_tab(base)
    pages = [page for page in own_site.pages if 'form class="calculator"' in own_site.read(page)]
    assert pages
    for page in pages:
        tab.goto(f"{base}/{page}")
        read = "() => [...document.querySelectorAll('output')].map((e) => e.value)"
        first = tab.evaluate(read)
        assert "–" not in first, page
        field = tab.locator("form.calculator input").first
        start = field.input_value()
        field.focus()
        tab.keyboard.press("Control+a")
        tab.keyboard.type("much")
        said = tab.locator(".fault").inner_text()
        assert "much" in said, page
        assert set(tab.evaluate(read)) == {"–"}
        assert field.get_attribute("aria-invalid") == "true"
        tab.keyboard.press("Control+a")
        tab.keyboard.type(start)
        assert tab.evaluate(read) == first, page


# --- Lighthouse ---


@pytest.mark.parametrize("kind", ["front", "largest"])
def test_lighthouse_has_nothing_to_say(whole_site: WholeSite, address: str, kind: str) -> None:
    """Accessibility, best practices, SEO and what a page itself decides of performance pass
    on the first page and on the largest chapter."""
    page = "" if kind == "front" else whole_site.largest.removesuffix("index.html")
    faults = run_lighthouse(f"{address}/{page}")
    assert set(faults) <= CONTENT_FOR_LIGHTHOUSE[whole_site.name], faults
