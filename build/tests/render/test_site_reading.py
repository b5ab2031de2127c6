"""What readers do with a site beyond reading it: search, theme, copying, sorting, reporting."""

from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from browsers import keep_copies
from fixture_types import BookMaker, Runner
from whole_sites import serve_folder

pytestmark = pytest.mark.nightly

CONFIG = """\
title: Small Book
description: Said in a line.
version: 1.2
repository: {url: "https://example.org/book"}
parts:
  - chapters: [README.md]
  - title: Second part
    chapters: [tables.md, long.md, found.md, wide.md]
"""
SECTIONS = "\n".join(
    f"## Section {n}\n\n{'Words of a paragraph that goes on. ' * 60}\n" for n in range(1, 9)
)
FILES = {
    "README.md": "# Welcome\n\nThe quick zebra jumps, `-j`.[^1] Actors act in acts, active.\n\n"
    "[^1]: What the *note* says.\n",
    "tables.md": """# Tables

A lone walrus sings.

## Chips

| Chip | Memory | Share | Name |
|:--|--:|--:|:--|
| b | 900 MB | 7.25 | beta |
| a | 1 GB | 10 | alpha, the first |
| d | 2 GB | 0.5 | delta |
| c |  | 3 | "gamma" |
| e | 4 GB | 4 | x |
| f | 5 GB | 5 | y |
| g | 6 GB | 6 | z |
| h | 7 GB | 8 | w |

## Commands

```console
$ echo one \\
  two
one two
$ true
```

```bash
make all
```
""",
    "long.md": f"# Long\n\n{SECTIONS}\n## Last\n\nAn odd ptarmigan. ACS too.\n",
    "found.md": """# Found

A gibbon, and elsewhere a heron.

## Numbers

Gibbon-7.

| Animal | Weight[^w] |
|---|--:|
| Gibbon[^w] | 6.128 kg |
| Okapi | 250 kg |

## Birds

The heron and the gibbon meet here.

## Gibbon and heron

In the heading they are as well.

[^w]: Of an adult.
""",
    "wide.md": f"""# Wide

| {" | ".join(f"Column number {n}" for n in range(9))} |
|{"---|" * 9}
| {" | ".join(["256 CU"] * 9)} |

| Chip | Rate | Source |
|---|--:|---|
| a | 5 | [1](https://example.org/a) |
| c | 7 | [1](https://example.org/c), p. 3 |

<table>
<thead><tr><th rowspan="2">Chip</th><th colspan="2">Memory</th></tr>
<tr><th>GB</th><th>TB/s</th></tr>
</thead>
<tbody>
<tr><td rowspan="2">a</td><td>1</td><td>2</td></tr>
<tr><td>3</td><td>4</td></tr>
<tr><td>b</td><td colspan="2">none</td></tr>
</tbody>
</table>
""",
}


@pytest.fixture
def site(make_book: BookMaker, run_bindery: Runner) -> Path:
    root = make_book({**FILES, "chapters.yaml": CONFIG})
    ended = run_bindery("html", folder=root)
    assert ended.status == 0, ended.stderr
    return root / "dist" / "site"


@pytest.fixture
def open_page(open_tab: Callable[..., Any], site: Path) -> Callable[..., Any]:
    """Open a page from the disk."""

    def visit(page: str, **options: Any) -> Any:
        tab = open_tab("file:", **options)
        tab.goto((site / page).as_uri())
        return tab

    return visit


def read_results(page: Any, typed: str) -> list[tuple[str, str]]:
    """Heading and excerpt of each section that the first search of a page finds."""
    page.keyboard.press("/")
    page.locator("dialog.search input").fill(typed)  # at once: no search for a part of it
    page.wait_for_function(
        """() => document.querySelector('dialog.search .state').textContent
            .match(/sections?$/)"""
    )
    options = page.locator("[role=option]").all()
    return [(o.locator("b").inner_text(), o.locator("span").inner_text()) for o in options]


def test_the_section_that_answers_comes_first(open_page: Callable[..., Any]) -> None:
    """What has both words in its heading; of the rest of its page nothing that is far behind. A
    word that is nowhere does not hide the others; a name and its number are one word, joined or
    not; a letter may lack."""
    page = open_page("index.html")
    titles = [title for title, _ in read_results(page, "heron gibbon")]
    assert titles == ["Gibbon and heron"]
    assert read_results(open_page("index.html"), "okapi killer")[0][0] == "Numbers"
    joined = read_results(open_page("index.html"), "gibbon7")
    assert joined == read_results(open_page("index.html"), "Gibbon-7")
    assert len(joined) > 1
    assert read_results(open_page("index.html"), "gibon heron")[0][0] == "Gibbon and heron"
    assert read_results(open_page("index.html"), '"gibbon meet"')[0][0] == "Birds"


def test_the_search_says_when_there_is_nothing(open_page: Callable[..., Any]) -> None:
    """A word that is nowhere gives a sentence, though its first letter is one somewhere; arrows
    move, Escape closes."""
    page = open_page("index.html")
    page.keyboard.press("/")
    page.keyboard.type("jjjjj")
    page.get_by_text("No results for").wait_for(state="visible")
    page.keyboard.press("Control+a")
    page.keyboard.type("paragraph")
    page.locator("[role=option]").nth(1).wait_for(state="visible")
    first = page.locator("[aria-selected=true]").get_attribute("id")
    page.keyboard.press("ArrowDown")
    second = page.locator("[aria-selected=true]").get_attribute("id")
    assert first != second
    assert page.locator("dialog input").get_attribute("aria-activedescendant") == second
    page.keyboard.press("Escape")
    assert not page.locator("dialog.search").is_visible()


def test_code_is_copied_without_prompts(open_page: Callable[..., Any]) -> None:
    """Of a session only the commands are copied, of other code all of it."""
    page = open_page("tables.html")
    keep_copies(page)
    for block in range(2):
        page.locator(".code").nth(block).hover()
        page.locator(".code .copy").nth(block).click()
    assert page.evaluate("copied") == ["echo one \\\n  two\ntrue", "make all"]
    assert page.locator("[role=status]").last.inner_text() == "Copied"


def test_tables_are_sorted_and_filtered_by_keyboard(open_page: Callable[..., Any]) -> None:
    """Enter on a heading sorts up, down and as it was; typing filters."""
    page = open_page("tables.html")
    table, tools = page.locator("article table").first, page.locator(".table-tools").first
    typed = list("badcefgh")

    def read_names() -> list[str]:
        return list(table.locator("tbody tr:visible td:first-child").all_inner_texts())

    table.locator("button.sort").first.focus()
    for names in (sorted(typed), sorted(typed, reverse=True), typed):
        page.keyboard.press("Enter")
        assert read_names() == names
    tools.locator("input").focus()
    page.keyboard.type("alpha")
    assert read_names() == ["a"]
    assert tools.get_by_role("status").inner_text() == "1 of 8 rows"


def test_tables_are_copied_as_csv(open_page: Callable[..., Any]) -> None:
    """Each row has a text for each column, also where a cell has several rows or columns, and a
    link that is shown as a number leaves its address."""
    page = open_page("wide.html")
    keep_copies(page)
    for number in (1, 2):
        page.get_by_role("button", name="Copy as CSV").nth(number).click()
    links, spans = (text.split("\n") for text in page.evaluate("copied"))
    assert links[1:] == ["a,5,https://example.org/a", 'c,7,"https://example.org/c, p. 3"']
    assert spans == ["Chip,Memory,Memory", "Chip,GB,TB/s", "a,1,2", "a,3,4", "b,none,none"]


def test_a_table_says_that_it_goes_on(open_page: Callable[..., Any]) -> None:
    """The wide table is marked where it goes on behind its edges; one that fits is not."""
    page = open_page("wide.html", width=390)
    wide = page.locator(".table[data-goes-on]")
    wide.wait_for()
    assert page.locator(".table").nth(1).evaluate("(box) => box.matches('[data-fits]')")
    wide.evaluate("(box) => { box.scrollLeft = 9999; }")
    page.wait_for_selector(".table[data-scrolled]:not([data-goes-on])")


def test_the_theme_is_chosen_by_keyboard(open_page: Callable[..., Any], site: Path) -> None:
    """Each press shows what the button says, whatever the system wants; the next page as well."""
    page = open_page("index.html", color_scheme="dark")
    read_paper = "getComputedStyle(document.documentElement).backgroundColor"
    papers = []
    page.locator("button.theme").focus()
    for theme in ("light", "dark", "system", "light"):
        page.keyboard.press("Enter")
        assert page.locator("button.theme").get_attribute("aria-label") == f"Theme: {theme}"
        papers.append(page.evaluate(read_paper))
    assert papers[0] != papers[1] == papers[2]
    page.goto((site / "long.html").as_uri())
    assert page.evaluate(read_paper) == papers[0]


def test_decimal_points_stand_below_each_other(open_page: Callable[..., Any]) -> None:
    """Units digits of a column of numbers end at the same place, with or without fractions."""
    page = open_page("tables.html")
    ends = page.evaluate(
        """() => [...document.querySelectorAll('tbody td:nth-child(3)')].map((cell) => {
            const text = cell.firstChild.firstChild ?? cell.firstChild;
            const whole = text.data.split('.')[0].length;
            const range = document.createRange();
            range.setStart(text, whole - 1);
            range.setEnd(text, whole);
            return range.getBoundingClientRect().right;
        })"""
    )
    assert len(ends) == 8
    assert max(ends) - min(ends) < 0.6


def test_an_error_is_reported_with_its_place(open_page: Callable[..., Any]) -> None:
    """The report names chapter, version, section and the words that were selected."""
    page = open_page("long.html")
    page.evaluate(
        """() => {
            const said = document.evaluate("//p[contains(., 'ptarmigan')]", document).iterateNext();
            getSelection().selectAllChildren(said);
            document.querySelector('a.report').addEventListener('click', (e) => e.preventDefault());
        }"""
    )
    page.get_by_text("Report an error").click()
    address = urlsplit(page.locator("a.report").get_attribute("href"))
    asked = parse_qs(address.query)
    assert address.netloc == "example.org"
    assert asked["title"] == ["Error in 'Long'"]
    body = asked["body"][0]
    for line in ("Chapter: long.md", "Version: 1.2", "Section: #last", "> An odd ptarmigan."):
        assert line in body


def test_paper_has_the_text_alone(browser: Any, site: Path) -> None:
    """In print menus, buttons and ways to edit are gone, and every row of a table is there."""
    page = browser.new_page()
    page.goto((site / "tables.html").as_uri())
    page.emulate_media(media="print")
    for selector in ("header.book", ".sections", ".actions", ".table-tools", ".copy", "nav.turn"):
        assert not page.locator(selector).first.is_visible(), selector
    assert page.locator("tbody tr").last.is_visible()
    page.close()


def test_programs_find_the_text(site: Path) -> None:
    """Each chapter is there as Markdown, and llms.txt leads to all of them."""
    for name in ("README.md", "tables.md", "long.md"):
        assert (site / name).read_text() == FILES[name]
    listed = (site / "llms.txt").read_text()
    assert listed.startswith("# Small Book\n\n> Said in a line.\n")
    assert "- [Tables](tables.md): A lone walrus sings." in listed
    whole = (site / "llms-full.txt").read_text()
    assert whole.index("zebra") < whole.index("walrus") < whole.index("ptarmigan")
    assert not (site / "sitemap.xml").exists(), "without an address there is nothing to map"


def test_who_comes_to_an_old_or_a_wrong_address_arrives(
    browser: Any, make_book: BookMaker, run_bindery: Runner
) -> None:
    """The page of a chapter that has moved leads to the same section of it, with scripts; search
    engines are told its whole address. On a page for wrong ones the first link stays on it."""
    moved = "site: https://example.org/book\nmoved:\n  old/was.md: long.md\n"
    root = make_book({**FILES, "chapters.yaml": CONFIG + moved})
    assert run_bindery("html", folder=root).status == 0
    folder = root / "dist" / "site"
    text = (folder / "old/was.html").read_text()
    assert '<link rel="canonical" href="https://example.org/book/long.html">' in text
    assert 'content="0; url=../long.html"' in text
    page = browser.new_page()
    with serve_folder(folder) as address:
        page.goto(f"{address}/old/was.html#section-7")
        page.wait_for_url("**/long.html#section-7")
        wrong = f"{address}/404.html?from=here"
        page.goto(wrong)
        page.keyboard.press("Tab")
        page.keyboard.press("Enter")
        page.wait_for_url(f"{wrong}#main.text")
        assert page.get_by_role("heading", name="Page not found").is_visible()
    page.goto((folder / "404.html").as_uri())
    page.get_by_role("button", name="Search the book").click()
    page.locator("[role=option]").first.wait_for()
    page.close()
