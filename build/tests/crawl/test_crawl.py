"""The second opinion: sound outputs agree with the source, and broken ones are reported."""

import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path

import pikepdf
import pytest
from bindery.book.this_edition import find_edition
from bindery.check.inspect import inspect_book
from bindery.core.model import BookError
from bindery.crawl.linkchecker import ask_linkchecker
from bindery.crawl.outputs import crawl_outputs
from bindery.crawl.reading import find_place
from bindery.render.appendix import append_appendix
from bindery.render.epub.epub import build_epub
from bindery.render.pdf.pdf import build_pdf
from bindery.render.site.building import build_site
from PIL import Image

BOOKS = Path(__file__).parents[1] / "books"
_FIRST = """\
# A

See [B](b.md#part) and [B](b.md#part) again, the [end](b.md#the-end), the [web](https://example.org/a).

![A dot](dot.png)

<picture>
  <source media="(prefers-color-scheme: dark)" srcset="dark.png">
  <img src="light.png" alt="Two dots">
</picture>

## Below

A [note][n], [here](#below) and there[^1].

[n]: b.md

[^1]: It leads to [the part](b.md#part).
"""
_SECOND = """\
# B

## Part

Back to [A](README.md#below).

## The end

Of [this](c.md).
"""
_THIRD = """\
# C

Nothing leads on, but [B](b.md).

> [!NOTE]
> An alert is no note of ours: [so](https://example.org/so).
"""


def _make_book(root: Path, **texts: str) -> Path:
    root.mkdir(parents=True)
    chapters = ", ".join(f"{name}.md" for name in texts)
    (root / "chapters.yaml").write_text(f"title: T\nparts:\n  - chapters: [{chapters}]\n")
    for name, text in texts.items():
        (root / f"{name}.md").write_text(text)
    for number, name in enumerate(("dot", "light", "dark")):
        Image.new("RGB", (4, 4), (60 * number, 0, 0)).save(root / f"{name}.png")
    return root


def _build(root: Path, out: Path, outputs: str = "site EPUB PDF") -> None:
    inspection = inspect_book(root)
    edition = find_edition(inspection.config)
    inspection = append_appendix(inspection)
    name = inspection.config.name
    if "site" in outputs:
        build_site(inspection, edition, out / "site", lambda step: None)
    if "EPUB" in outputs:
        build_epub(inspection, edition, out / f"{name}.epub", lambda step: None, lenient=True)
    if "PDF" in outputs:
        build_pdf(inspection, edition, out / f"{name}.pdf", lambda step: None, lenient=True)


def _crawl(root: Path, out: Path) -> tuple[list[str], str]:
    inspection = inspect_book(root)
    edition = find_edition(inspection.config)
    findings, summary = crawl_outputs(inspection, edition, out, lambda step: None)
    places = [
        f"{f.span.path}:{f.span.line}:{f.span.col} {f.severity} {f.message}" for f in findings
    ]
    return places, summary


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A book with all its outputs, sound."""
    root = _make_book(tmp_path_factory.mktemp("built") / "book", README=_FIRST, b=_SECOND, c=_THIRD)
    _build(root, root / "dist")
    return root


def _edit(path: Path, old: str, new: str) -> None:
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new), encoding="utf-8")


def _edit_epub(out: Path, name: str, old: bytes = b"", new: bytes = b"") -> None:
    """Replace a text in a member of the EPUB; without one, remove the member."""
    path = out / "book.epub"
    with zipfile.ZipFile(path) as archive:
        members = {info.filename: archive.read(info) for info in archive.infolist()}
    assert old in members[name]
    with zipfile.ZipFile(path, "w") as archive:
        for each, data in members.items():
            if old or each != name:
                archive.writestr(each, data.replace(old, new) if each == name else data)


def _remove_place(out: Path, name: str) -> None:
    """Remove a named place of the PDF."""
    path = out / "book.pdf"
    with pikepdf.open(path, allow_overwriting_input=True) as file:
        del pikepdf.NameTree(file.Root["/Names"]["/Dests"])[name]
        file.save(path)


_FAULTS: Mapping[str, tuple[Callable[[Path], object], str]] = {
    "site: an anchor is gone": (
        lambda out: _edit(out / "site" / "b.html", 'id="part"', 'id="other"'),
        """README.md:3:9 error the link in the site to 'b.html#part' on the page 'index.html'
        README.md:3:28 error
        README.md:18:30 error
        b.md:3:1 error the link in the site to '#part'""",
    ),
    "site: a link leads to another page that is there": (
        lambda out: _edit(out / "site" / "index.html", 'href="b.html#the-end"', 'href="c.html"'),
        """README.md:3:56 error the site has no link to 'b.html#the-end' for this link
        README.md:1:1 error the source has no link for the link in the site to 'c.html'""",
    ),
    "site: a menu leads astray": (
        lambda out: _edit(
            out / "site" / "c.html", '<li><a href="b.html">', '<li><a href="d.html">'
        ),
        "c.md:1:1 error the link in the site to 'd.html' on the page 'c.html'",
    ),
    "site: an image for the dark is gone": (
        lambda out: (out / "site" / "dark.png").unlink(),
        "README.md:8:56 error the link in the site to 'dark.png'",
    ),
    "EPUB: an id is gone": (
        lambda out: _edit_epub(out, "EPUB/text/ch002.xhtml", b'id="b--part"', b'id="b--gone"'),
        """README.md:3:9 error the link in the EPUB to 'ch002.xhtml#b--part' in 'EPUB/text/ch001
        README.md:3:28 error
        README.md:18:30 error
        b.md:3:1 error the link in the EPUB""",
    ),
    "EPUB: a file is gone": (
        lambda out: _edit_epub(out, "EPUB/text/ch003.xhtml"),
        """b.md:9:11 error the link in the EPUB to 'ch003.xhtml#c--c'
        c.md:1:1 error the EPUB has no 'EPUB/text/ch003.xhtml' for this chapter
        c.md:1:1 error the link in the EPUB to""",
    ),
    "EPUB: an image is gone": (
        lambda out: _edit_epub(out, "EPUB/media/file1.png"),
        "README.md:1:1 error the link in the EPUB to '../media/file1.png'",
    ),
    "PDF: a place is gone": (
        lambda out: _remove_place(out, "b--part"),
        """README.md:3:9 error the link in the PDF to '#b--part' on page
        README.md:3:28 error the link in the PDF to '#b--part' on page
        README.md:18:30 error the link in the PDF
        b.md:3:1 error the link in the PDF
        b.md:3:1 error the PDF has no destination 'b--part'""",
    ),
}


@pytest.mark.parametrize("name", _FAULTS)
def test_faults_are_found_at_their_places(built: Path, tmp_path: Path, name: str) -> None:
    """Each fault is reported at the link or heading that an author wrote, and nothing else is."""
    out = tmp_path / "dist"
    shutil.copytree(built / "dist", out)
    for other in {"EPUB", "PDF"} - {name.partition(":")[0]}:
        (out / f"book.{other.lower()}").unlink()
    breaks, expected = _FAULTS[name]
    breaks(out)
    found, summary = _crawl(built, out)

    assert ", and no " in summary
    starts = [line.strip() for line in expected.splitlines()]
    for start in starts:
        assert any(each.startswith(start) for each in found), f"{start}\n" + "\n".join(found)
    assert all(any(map(each.startswith, starts)) for each in found), found


def test_sound_outputs_agree_with_the_source(built: Path) -> None:
    """A book that passes the check is crawled without a finding, and its links are counted."""
    found, summary = _crawl(built, built / "dist")

    assert found == []
    assert summary.endswith(": 0 findings")
    counts = [int(part.split()[0]) for part in summary.removeprefix("crawled ").split(", ")]
    assert len(counts) == 3
    assert min(counts) > 10


def test_the_log_is_that_of_linkchecker_alone(built: Path) -> None:
    """Reading each page once changes nothing of what linkchecker says."""
    # Not in `tmp_path`: run as root, linkchecker becomes a user who may not go there.
    with tempfile.TemporaryDirectory() as name:
        site = Path(name) / "site"
        shutil.copytree(built / "dist" / "site", site)
        _edit(site / "b.html", 'id="part"', 'id="other"')
        (site / "c.html").unlink()
        settings = Path(name) / "settings.ini"
        settings.write_text("[AnchorCheck]\n[csv]\nparts=urlname,result,warningstring,valid,url\n")
        for path in (Path(name), *Path(name).rglob("*")):
            path.chmod(0o755 if path.is_dir() else 0o644)

        def run(program: str) -> list[str]:
            command = [sys.executable, "-m", program, f"--config={settings}"]
            command += ["--threads=0", "--no-status", "--verbose", "--output=csv"]
            command += sorted(str(page) for page in site.glob("*.html"))
            done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=site)
            return sorted(done.stdout.splitlines())

        alone = run("linkcheck")
        assert run("bindery.crawl.crawler") == alone

    assert any("False" in line for line in alone)
    assert any("Anchor `part'" in line for line in alone)
    assert len(alone) > 12


def test_a_verdict_is_found_for_any_spelling(tmp_path: Path) -> None:
    """A page with blanks, other letters, percent signs and a query is found under its place."""
    site = tmp_path / "site"
    (site / "ä b").mkdir(parents=True)
    (site / "ä b" / "50%25.html").write_text('<p id="é x">')
    page = (
        '<a href="%C3%A4%20b/50%2525.html?q=1#%C3%A9%20x">a</a>'
        '<a href="ä b/50%2525.html#é x">b</a><a href="%C3%A4%20b/50%2525.html#no">c</a>'
    )
    (site / "index.html").write_text(page)
    verdicts = ask_linkchecker(site)

    def judge(address: str) -> bool:
        return not verdicts[find_place(address, "index.html")]

    assert judge("%C3%A4%20b/50%2525.html?q=1#%C3%A9%20x")
    assert judge("ä b/50%2525.html#é x")
    assert not judge("ä%20b/50%2525.html#no")


def test_a_missing_or_empty_site_is_an_error(tmp_path: Path) -> None:
    """If nothing can be looked at, the crawl fails."""
    root = _make_book(tmp_path / "book", README="# A\n")
    with pytest.raises(BookError, match="no site to crawl"):
        _crawl(root, root / "dist")
    (root / "dist" / "site").mkdir(parents=True)
    with pytest.raises(BookError, match="checked no links"):
        _crawl(root, root / "dist")


@pytest.mark.parametrize("name", ["directory-anchor", "nested-url"])
def test_a_lenient_build_of_a_broken_book_agrees(tmp_path: Path, name: str) -> None:
    """Broken links lead to the best place or are plain text; both opinions agree on the rest."""
    shutil.copytree(BOOKS / name, tmp_path / "book")
    _build(tmp_path / "book", tmp_path / "dist")

    assert _crawl(tmp_path / "book", tmp_path / "dist")[0] == []
