"""Images with a second file for dark screens: shown on the site, checked like any other image, and
plain images in the ebooks."""

import json
import re
from pathlib import Path

import pytest
from browsers import open_browser
from fixture_types import BookMaker, Runner
from PIL import ExifTags, Image

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
        '  <img id="figure.1" src="../figures/a.svg" alt="A drawing" width="40" height="30"/>\n'
        "</picture>\n\n"
    ) in page
    assert (site / "figures" / "a-dark.svg").read_text() == draw("#0000ff")


def test_the_pdf_shows_the_light_file(book: Path, run_bindery: Runner) -> None:
    """The page is painted in the colour of the light file and never in that of the dark one."""
    import pikepdf

    assert run_bindery("pdf", folder=book).status == 0
    with pikepdf.open(book / "dist" / "trial.pdf") as pdf:
        forms = (e for e in pdf.objects if isinstance(e, pikepdf.Stream))
        painted = [*pdf.pages, *(form for form in forms if form.get("/Subtype") == "/Form")]
        colours = {
            tuple(map(float, operands))
            for content in painted
            for operands, operator in pikepdf.parse_content_stream(content)
            if str(operator) in ("rg", "scn") and len(operands) == 3
        }
    assert (1, 0, 0) in colours
    assert (0, 0, 1) not in colours


@pytest.mark.nightly
@pytest.mark.parametrize(("scheme", "name"), [("light", "a.svg"), ("dark", "a-dark.svg")])
def test_a_browser_shows_the_file_for_its_colours(
    book: Path, run_bindery: Runner, scheme: str, name: str
) -> None:
    """Chromium shows the dark file to readers who read light on dark, and the light one else."""
    assert run_bindery("html", folder=book).status == 0
    address = (book / "dist" / "site" / "one" / "index.html").as_uri()
    with open_browser() as browser:
        page = browser.new_context(color_scheme=scheme).new_page()
        page.goto(address)
        shown = page.evaluate("() => [...document.images].map(i => [i.currentSrc, i.naturalWidth])")
    assert [(source.rsplit("/", 1)[1], width) for source, width in shown] == [(name, 40)]


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
        [("width", "40"), ("height", "30"), ("loading", "lazy")],
    ]
