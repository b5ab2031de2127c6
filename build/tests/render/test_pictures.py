"""Images with a second file for dark screens: shown on the site, checked like any other image, and
plain images in the ebooks."""

from __future__ import annotations

import json
import re
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from bindery.markdown.chapter_reader import parse_chapter
from PIL import ExifTags, Image

if TYPE_CHECKING:
    from conftest import BookMaker, Runner

PICTURE = """\
<picture>
  <source media="(prefers-color-scheme: dark)" srcset="../figures/a-dark.svg">
  <img src="../figures/a.svg" alt="A drawing">
</picture>
"""
SOURCE = f"# One\n\nText.\n\n<!-- a comment -->\n{PICTURE}<!-- another -->\n\nMore text.\n"


def draw(colour: str) -> str:
    path = f'<path fill="{colour}" d="M0 0h40v30H0z"/>'
    return f'<svg xmlns="http://www.w3.org/2000/svg" width="40" height="30">{path}</svg>\n'


@pytest.fixture
def book(make_book: BookMaker) -> Path:
    files = {
        "one/README.md": SOURCE,
        "figures/a.svg": draw("#ff0000"),
        "figures/a-dark.svg": draw("#0000ff"),
    }
    return make_book(files, extra="authors: [Ada]\noutputs:\n  name: trial\n")


def test_both_files_count_as_shown_and_one_needs_words(book: Path, run_bindery: Runner) -> None:
    """The dark file is neither an orphan nor an image without alternative text."""
    ended = run_bindery("check", folder=book)
    assert (ended.status, ended.stdout) == (
        0,
        "checked 2 links in 1 chapter: 0 errors, 0 warnings\n",
    )


def test_the_site_offers_both_files(book: Path, run_bindery: Runner) -> None:
    """The page of a chapter leaves the choice to the browser, with addresses of the site."""
    assert run_bindery("html", folder=book).status == 0
    site = book / "dist" / "site"
    page = (site / "one" / "index.html").read_text()
    assert (
        '<figure class="figure"><picture>\n'
        '  <source media="(prefers-color-scheme: dark)" srcset="../figures/a-dark.svg"/>\n'
        '  <img id="figure.1" src="../figures/a.svg" alt="A drawing"/>\n</picture>\n\n'
    ) in page
    assert (site / "figures" / "a-dark.svg").read_text() == draw("#0000ff")


LIGHT = "![A drawing](../figures/a.svg#gh-light-mode-only)"
DARK = "![A drawing](../figures/a-dark.svg#gh-dark-mode-only)"


@pytest.mark.parametrize(
    ("paragraph", "kinds"),
    [
        (f"{DARK} {LIGHT}", ["dark-image", "image"]),
        (LIGHT, ["image"]),
        (f"{LIGHT}, and {DARK}", ["image", "image"]),
    ],
)
def test_only_a_pair_for_light_and_dark_is_one_image(paragraph: str, kinds: list[str]) -> None:
    """Two images side by side are a figure and its dark file; others are images like any other."""
    chapter = parse_chapter("one/README.md", f"# One\n\n{paragraph}\n")
    assert [link.kind for link in chapter.links] == kinds


def test_a_pair_is_a_picture_on_the_site_and_one_image_in_an_ebook(
    book: Path, run_bindery: Runner
) -> None:
    """The site leaves the choice to the browser, and an ebook has the light file only."""
    (book / "one/README.md").write_text(f"# One\n\nText.\n\n{LIGHT}\n{DARK}\n")
    assert run_bindery("check", folder=book).status == 0

    assert run_bindery("html", folder=book).status == 0
    site = book / "dist" / "site"
    assert (
        '<figure class="figure"><picture><source media="(prefers-color-scheme: dark)"'
        ' srcset="../figures/a-dark.svg"/><img id="figure.1" src="../figures/a.svg"'
        ' alt="A drawing"/></picture>\n'
    ) in (site / "one" / "index.html").read_text()
    assert (site / "figures" / "a-dark.svg").is_file()

    assert run_bindery("epub", folder=book).status == 0
    with zipfile.ZipFile(book / "dist" / "trial.epub") as archive:
        texts = {name: archive.read(name).decode("utf-8", "replace") for name in archive.namelist()}
    assert "".join(texts.values()).count('alt="A drawing"') == 1
    assert [text for name, text in texts.items() if name.endswith(".svg")] == [draw("#ff0000")]


@pytest.mark.parametrize("output", ["html", "pdf", "epub"])
def test_a_lenient_build_says_which_images_it_lacks(
    book: Path, run_bindery: Runner, output: str
) -> None:
    """The last line and the report count the images without a file, and their text stands at their
    places with a mark; an image on the web is none of them."""
    text = "# One\n\nIn ![a word](gone.png) here.\n\n![An oven](gone-too.png)\n\n"
    (book / "one/README.md").write_text(f"{text}{PICTURE}\n![far](https://example.org/a.png)\n")
    ended = run_bindery(output, "--lenient", folder=book)

    assert ended.status == 0
    assert "complete but for 2 missing images: 1 heading" in ended.stdout
    report = json.loads((book / "dist" / "report.json").read_text())
    (entry,) = report["outputs"].values()
    assert entry["missing_images"] == 2
    if output == "html":
        page = (book / "dist/site/one/index.html").read_text()
        assert page.count('class="no-image">[image missing: ') == 2
        assert "[image missing: An oven]" in page


def test_the_site_keeps_room_for_pictures_and_loads_the_first(
    make_book: BookMaker, run_bindery: Runner
) -> None:
    """A page knows how large its pictures are before they are there, those on their side as they
    are shown, and those further down wait until a reader comes near."""
    root = make_book({"README.md": "# One\n\n![A](a.png)\n\n![B](b.jpg)\n\n![C](c.svg)\n"})
    Image.new("RGB", (30, 20), "white").save(root / "a.png")
    orientation = Image.Exif()
    orientation[ExifTags.Base.Orientation] = 6
    Image.new("RGB", (30, 20), "white").save(root / "b.jpg", exif=orientation)
    (root / "c.svg").write_text(draw("#ff0000"))
    ended = run_bindery("html", folder=root)
    assert ended.status == 0, ended.stderr
    page = (root / "dist/site/index.html").read_text(encoding="utf-8")
    assert [
        re.findall(r'\b(width|height|loading)="(\w+)"', image)
        for image in re.findall(r'<img id="figure[^>]*>', page)
    ] == [
        [("width", "30"), ("height", "20")],
        [("width", "20"), ("height", "30"), ("loading", "lazy")],
        [("loading", "lazy")],
    ]
