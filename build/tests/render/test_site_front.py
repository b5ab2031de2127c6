"""What the site adds to a book: captions, terms, drawings, the front page, addresses."""

import json
import re
import subprocess
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from bindery.render.site.dressing import DressedText
from browsers import open_browser
from fixture_types import BookMaker, Runner
from lxml import html as lxml_html
from PIL import Image

CONFIG = """\
title: Small Book
description: Said in a line.
{site}parts:
  - chapters: [README.md]
  - title: Part
    chapters: [chips.md, glossary.md]
moved: {{old/chips.md: chips.md}}
"""
INK = '<svg xmlns="http://www.w3.org/2000/svg" width="40" height="40">{}</svg>'
FILES = {
    "README.md": "# Welcome\n\nSee [sizes](chips.md#sizes), [again](chips.md#sizes).\n",
    "chips.md": """# Chips

An accelerator has HBM, and more HBM.

## Sizes

| Chip | GB |
|:--|--:|
| a | 80 |
| b | 96 |

*As sold.*

## Prices

| Chip | Price |
|:--|--:|
| a | 1 |

![A plain square](plain.svg)

![A square of both themes](both.svg)
""",
    "glossary.md": "# Glossary\n\n- HBM: high-bandwidth memory, beside the chip\n",
    "plain.svg": INK.format('<path d="M0 0h40v40H0z" fill="#f8f8f8"/>'),
    "both.svg": INK.format(
        "<style>path{fill:#fff}@media (prefers-color-scheme: dark){path{fill:#000}}</style>"
        '<path d="M0 0h40v40H0z"/>'
    ),
}


@pytest.fixture
def site(make_book: BookMaker, run_bindery: Runner) -> Path:
    root = make_book({**FILES, "chapters.yaml": CONFIG.format(site="")})
    ended = run_bindery("html", folder=root)
    assert ended.status == 0, ended.stderr
    return root / "dist" / "site"


def read(page: Path) -> Any:
    return lxml_html.fromstring(page.read_bytes())


def test_tables_and_figures_have_numbers_and_captions(site: Path) -> None:
    """As on paper: number and title stand above a table and below a figure, and name the box in
    which a table scrolls; stressed words below a table are its note."""
    page = read(site / "chips.html")
    captions = [e.text_content() for e in page.iter("caption", "figcaption")]
    assert captions == ["Table 1.1", "Table 1.2", "Figure 1.1", "Figure 1.2"]
    (box,) = page.xpath('//div[@class="table"][.//caption[contains(., "1.1")]]')
    assert box.get("aria-label") == "Table 1.1"
    assert box.getnext().get("class") == "table-note"


def test_chapters_have_the_numbers_of_their_tables(site: Path) -> None:
    """The menu and the line above a title tell the number that captions begin with; a chapter
    before the first part has none."""
    page = read(site / "chips.html")
    lines = [link.text_content() for link in page.xpath('//nav[@aria-label="Chapters"]//a')]
    assert lines[:3] == ["Welcome", "1 Chips", "2 Glossary"]
    assert page.find_class("reading")[0].text_content().startswith("Chapter 1 \u00b7 1 min")
    assert read(site / "index.html").find_class("above") == []


def test_a_term_leads_to_the_glossary(site: Path) -> None:
    """Without scripts it is a link to where it is explained; the search reads it as a word."""
    (term,) = read(site / "chips.html").find_class("term")
    page, _, anchor = term.get("href").partition("#")
    assert read(site / page).get_element_by_id(anchor).text.startswith("HBM")
    assert not read(site / page).find_class("term")
    assert "An accelerator has HBM, and more HBM." in (site / "search-index.js").read_text()


def test_a_long_glossary_has_letters() -> None:
    """Each leads to its first term; a short glossary has none."""
    rows = [f"<tr><td>{letter}{n}</td><td>meaning</td></tr>" for letter in "aBc" for n in range(20)]
    for count, letters in ((60, ["A", "B", "C"]), (30, [])):
        text = DressedText(f"<p>Terms:</p><table>{''.join(rows[:count])}</table>", is_glossary=True)
        text.mark_terms({"": text.terms}, "Letters")
        root = lxml_html.fromstring(text.write())
        links = root.xpath("//nav[@class='letters']/a")
        assert [link.text for link in links] == letters
        for link in links:
            row = root.get_element_by_id(link.get("href")[1:])
            assert row.text_content().startswith(("a0", "B0", "c0"))


@pytest.mark.nightly
@pytest.mark.parametrize("system", ["light", "dark"])
def test_terms_and_drawings_in_a_browser(site: Path, system: str) -> None:
    """A term is explained under the mouse, by keyboard and by touch. Drawings follow the theme that
    the reader chose, whatever the system says."""
    with open_browser() as browser:
        page = browser.new_page(color_scheme=system)
        page.goto((site / "chips.html").as_uri())
        term, tip = page.locator("a.term"), page.locator(".term-tip")
        term.hover()
        tip.wait_for(state="visible")
        assert tip.inner_text().startswith("HBM high-bandwidth memory, beside the chip")
        page.keyboard.press("Escape")
        assert not tip.is_visible()
        page.mouse.move(2, 2)
        page.keyboard.press("Tab")
        for _ in range(60):
            if term.evaluate("e => e === document.activeElement"):
                break
            page.keyboard.press("Tab")
        assert tip.is_visible()
        for theme in ("light", "dark"):
            page.evaluate("t => { document.documentElement.dataset.theme = t }", theme)
            for name in ("plain.svg", "both.svg"):
                shot = Image.open(BytesIO(page.locator(f'img[src="{name}"]').screenshot()))
                middle = shot.convert("L").getpixel((shot.width // 2, shot.height // 2))
                assert (middle > 200) == (theme == "light"), (name, theme, middle)
        context = browser.new_context(has_touch=True)
        page = context.new_page()
        page.goto((site / "chips.html").as_uri())
        page.locator("a.term").tap()
        page.locator(".term-tip").wait_for(state="visible")
        assert page.url.endswith("chips.html"), "the first tap explains"
        page.locator(".term-tip a").tap()
        page.wait_for_url(re.compile("glossary"))


def test_a_site_with_an_address_passes_its_own_check(
    make_book: BookMaker, run_bindery: Runner
) -> None:
    """With `site` canonical addresses, map and the root of the page 404 are those of the web, and
    `bindery links` finds every link of the site to arrive."""
    site = 'site: "https://example.org/book/"\n'
    root = make_book({**FILES, "chapters.yaml": CONFIG.format(site=site)})
    assert run_bindery("html", folder=root).status == 0
    folder = root / "dist" / "site"
    for page, address in (("index.html", ""), ("chips.html", "chips.html")):
        links = read(folder / page).xpath('//link[@rel="canonical"]')
        assert [link.get("href") for link in links] == [f"https://example.org/book/{address}"]
    mapped = re.findall("<loc>(.*?)</loc>", (folder / "sitemap.xml").read_text())
    assert "https://example.org/book/chips.html" in mapped
    assert '{ href: "/book/" }' in (folder / "404.html").read_text()
    ended = run_bindery("links", folder=root)
    assert ended.status == 0, ended.stdout + ended.stderr


@pytest.mark.needs("git")
def test_ebooks_of_the_same_edition_are_offered(make_book: BookMaker, run_bindery: Runner) -> None:
    """The front page leads to an ebook that was built of the same commit, and to no other."""
    root = make_book({**FILES, "chapters.yaml": CONFIG.format(site="")})
    who = ("-c", "user.name=A", "-c", "user.email=a@example.org")
    for command in (["init", "--quiet"], ["add", "."], ["commit", "--quiet", "-m", "All"]):
        subprocess.run(["git", *who, *command], cwd=root, check=True)
    assert run_bindery("epub", folder=root).status == 0
    assert run_bindery("html", folder=root).status == 0
    site = root / "dist" / "site"
    assert (site / "downloads/book.epub").read_bytes() == (root / "dist/book.epub").read_bytes()
    size = round((site / "downloads/book.epub").stat().st_size / 1000)
    offer = f'href="downloads/book.epub" download>EPUB <small>{size} kB</small>'
    assert offer in (site / "index.html").read_text()
    report = json.loads((root / "dist/report.json").read_text())
    report["outputs"]["epub"]["edition"] = "another"
    (root / "dist/report.json").write_text(json.dumps(report))
    assert run_bindery("html", folder=root).status == 0
    assert not (site / "downloads").exists()
