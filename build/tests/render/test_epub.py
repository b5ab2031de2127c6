"""The EPUB: its package, its links and contents, the proof, and what a failed build leaves."""

import hashlib
import io
import sys
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest
from bindery.book.this_edition import find_edition
from bindery.check.inspect import Inspection, inspect_book
from bindery.core.model import BookError, ResolvedBook, Severity
from bindery.render.completeness import Proof
from bindery.render.epub import epub as maker
from bindery.render.epub.epub import EpubDialect, build_epub, prove_epub
from bindery.render.text.raw_markup import tidy_markup
from lxml import etree
from PIL import Image
from validators import run_epubcheck

EPOCH = "1700000000"
XHTML = "{http://www.w3.org/1999/xhtml}"
OPF = "{http://www.idpf.org/2007/opf}"
NCX = "{http://www.daisy.org/z3986/2005/ncx/}"
DC = "{http://purl.org/dc/elements/1.1/}"
TYPE = "{http://www.idpf.org/2007/ops}type"
LONG_LINE = "python train.py " + " ".join(f"--option-{n} value{n}" for n in range(24))

CONFIG = """\
title: Büro & <Söhne>
subtitle: A trial
authors: [Zoë Ångström]
language: en
licence: CC BY-SA 4.0
version: 1.2.3
newest: https://example.org/newest
parts:
  - chapters: [README.md]
  - title: Part "One" & more
    chapters: [one/README.md, one/two.md]
  - title: Part Two
    chapters: [three.md]
outputs: {name: trial}
"""
FILES: Mapping[str, str] = {
    "chapters.yaml": CONFIG,
    "README.md": "# Preface\n\nSee [one](one/README.md#set-up) and [two](one/two.md).\n",
    "one/README.md": f"""\
# Größe und Maß

## Set-up

Text with a note[^1], `x=""`, `a && b` and ![a red square](../red%20square.png).

| a | b | c | d | e |
|---|--:|---|---|---|
| 1 | 2 | 3 | 4 | `5` |
| 6 |   | 8 | [nine](two.md#set-up) | 10 |

```bash
{LONG_LINE}
echo "<&>" x=""   # ünïcode → 日本語
```

> [!WARNING]
> Mind the `gap`.

## Set-up

- [x] done
- [ ] to do

[^1]: The note, with a [link](../three.md).
""",
    "one/two.md": """\
Text before the title, and <a id="early"></a>an anchor.

# Second

## Set-up

<p align="center"><img src="../red square.png" width="50%"></p>

<center>in the <strike>middle</strike></center>

<table border="1"><tr><td align="right" valign="top">cell</td></tr></table>

<details><summary>More</summary>

```python
def f(x: int = 0) -> str:
    return f"{x}"
```

</details>

<a id="early"></a>Back to [the anchor](#early).
""",
    "three.md": "# Third\n\nText\n\n# Another title\n\n## Below\n\n[up](README.md#preface)\n",
}


def draw_square() -> bytes:
    buffer = io.BytesIO()
    Image.new("RGB", (40, 30), "red").save(buffer, "PNG")
    return buffer.getvalue()


@dataclass(frozen=True)
class Made:
    """A book that was bound, and what came of it."""

    inspection: Inspection
    dialect: EpubDialect
    path: Path
    proof: Proof
    messages: list[str]

    @property
    def members(self) -> dict[str, bytes]:
        with zipfile.ZipFile(self.path) as archive:
            return {name: archive.read(name) for name in archive.namelist()}

    def parse(self, name: str) -> etree._Element:
        return etree.fromstring(self.members[f"EPUB/{name}"])

    def list_spine(self) -> list[str]:
        package = self.parse("content.opf")
        files = {item.get("id"): item.get("href") or "" for item in package.iter(f"{OPF}item")}
        return [files[item.get("idref")] for item in package.iter(f"{OPF}itemref")]

    def read_claims(self) -> dict[str, list[str]]:
        claims: dict[str, list[str]] = {}
        for meta in self.parse("content.opf").iter(f"{OPF}meta"):
            name = meta.get("property") or ""
            claims.setdefault(name.removeprefix("schema:"), []).append(meta.text or "")
        return claims

    def prove(self, members: Mapping[str, bytes]) -> Proof:
        """The proof of this book held against a package with these members."""
        buffer = io.BytesIO()
        with zipfile.ZipFile(buffer, "w") as archive:
            for name, content in members.items():
                archive.writestr(name, content)
        return prove_epub(self.inspection.resolved, self.dialect, buffer.getvalue())


def bind(root: Path, files: Mapping[str, str | bytes]) -> Made:
    for name, content in files.items():
        target = root / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content.encode() if isinstance(content, str) else content)
    inspection = inspect_book(root)
    path = root / "dist" / "trial.epub"
    kept: list[EpubDialect] = []

    def keep(resolved: ResolvedBook, dialect: EpubDialect, data: bytes) -> Proof:
        kept.append(dialect)
        return prove_epub(resolved, dialect, data)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(maker, "prove_epub", keep)
        proof, findings = build_epub(
            inspection, find_edition(inspection.config), path, lambda name: None
        )
    return Made(inspection, kept[0], path, proof, [finding.message for finding in findings])


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SOURCE_DATE_EPOCH", EPOCH)
        root = tmp_path_factory.mktemp("trial")
        return bind(root, {**FILES, "red square.png": draw_square()})


# --- the package ---


def test_every_chapter_has_a_file_of_its_own_in_the_order_of_the_book(made: Made) -> None:
    """The spine holds title page and contents, then one file for each chapter."""
    assert made.list_spine() == [
        "text/title_page.xhtml",
        "nav.xhtml",
        *(f"text/ch{number:03d}.xhtml" for number in range(1, 5)),
    ]
    titles = [made.parse(name).findtext(f".//{XHTML}title") for name in made.list_spine()[2:]]
    assert titles == ["Preface", "Größe und Maß", "Second", "Third"]


def test_contents_nest_parts_chapters_and_headings(made: Made) -> None:
    """Both tables of contents have the same three levels, the front chapter at the top, and
    the numbers of the chapters."""
    wanted = [
        (1, "Preface"),
        (1, 'Part "One" & more'),
        (2, "1 Größe und Maß"),
        (3, "Set-up"),
        (3, "Set-up"),
        (2, "2 Second"),
        (3, "Set-up"),
        (1, "Part Two"),
        (2, "3 Third"),
        (3, "Another title"),
        (3, "Below"),
    ]

    def walk(node: etree._Element, item: str, title: str, depth: int = 1) -> list[tuple[int, str]]:
        return [
            entry
            for child in node.findall(item)
            for entry in (
                (depth, child.findtext(title) or ""),
                *walk(child, item, title, depth + 1),
            )
        ]

    (contents,) = made.parse("nav.xhtml").findall(f".//{XHTML}nav[@id='toc']")
    assert walk(contents, f"{XHTML}ol/{XHTML}li", f"{XHTML}a") == wanted
    points = made.parse("toc.ncx").find(f"{NCX}navMap")
    assert points is not None
    assert walk(points, f"{NCX}navPoint", f"{NCX}navLabel/{NCX}text") == wanted


def test_the_package_names_the_book_and_the_edition(made: Made) -> None:
    """Identifier, title, language and date are those of the configuration, and never random."""
    package = made.parse("content.opf")
    assert package.findtext(f".//{DC}identifier") == made.inspection.config.identifier
    assert package.findtext(f".//{DC}title") == "Büro & <Söhne>"
    assert package.findtext(f".//{DC}language") == "en"
    assert package.findtext(f".//{DC}creator") == "Zoë Ångström"
    assert made.read_claims()["dcterms:modified"] == ["2023-11-14T22:13:20Z"]
    page = "".join(made.parse("text/title_page.xhtml").itertext())
    for said in ("Büro & <Söhne>", "Version 1.2.3", "2023-11-14", "https://example.org/newest"):
        assert said in page


def test_a_picture_without_a_description_is_not_claimed_to_have_one(
    made: Made, tmp_path: Path
) -> None:
    """One image of the trial has no alternative text; a book where each has may say so."""
    claims = made.read_claims()
    assert claims["accessModeSufficient"] == ["textual,visual"]
    assert "alternativeText" not in claims["accessibilityFeature"]
    assert "1 of 2 images" in claims["accessibilitySummary"][0]
    config = "title: T\nparts: [{chapters: [a.md]}]\n"
    described = {"chapters.yaml": config, "a.md": "# A\n\n![red](a.png)\n", "a.png": draw_square()}
    claims = bind(tmp_path / "described", described).read_claims()
    assert claims["accessModeSufficient"] == ["textual"]
    assert "alternativeText" in claims["accessibilityFeature"]


# --- the text ---


def test_code_keeps_every_character_and_its_long_lines_are_marked(made: Made) -> None:
    """A long line has an element of its own, for the indent; spaces and empty quotes stay."""
    code = made.parse("text/ch002.xhtml").find(f".//{XHTML}pre")
    assert code is not None
    assert "".join(code.itertext()) == f'{LONG_LINE}\necho "<&>" x=""   # ünïcode → 日本語'
    lines = [e for e in code.iter(f"{XHTML}span") if e.get("class") == "line"]
    assert "".join(lines[0].itertext()) == LONG_LINE
    assert any(e.get("class") != "line" for e in code.iter(f"{XHTML}span"))


@pytest.mark.parametrize(
    ("given", "tidied"),
    [
        ("<p><b>a<table><tr><td>b</td></tr></table></b></p>",
         "<div><div>a<table><tr><td>b</td></tr></table></div></div>"),
        ('<p id="a">x</p><span id="a"/><h2 id="b">y</h2>',
         '<p id="a">x</p><span/><h2 id="b">y</h2>'),
        ('<span id="b"/><h2 id="b">y</h2>', '<span/><h2 id="b">y</h2>'),
        ('<table width="80"><tr><td valign="top"/></tr></table>',
         '<table style="width: 80px"><tr><td style="vertical-align: top"/></tr></table>'),
        ('<strike>a</strike><div border="1">b</div>', "<s>a</s><div>b</div>"),
        ('<img src="a" width="50%"/>', '<img src="a" style="width: 50%"/>'),
        ("", ""),
    ],
)  # fmt: skip
def test_tidy_markup(given: str, tidied: str) -> None:
    """What a strict reader refuses is said otherwise, and no text is lost."""
    assert tidy_markup(given, frozenset(("b",))) == tidied


# --- the cover ---


def test_a_cover_that_is_named_is_the_cover(tmp_path: Path) -> None:
    """A book without one begins with its title page, also where the file is missing."""
    config = "title: T\ncover: cover.png\nparts: [{chapters: [a.md]}]\n"
    files: dict[str, str | bytes] = {"chapters.yaml": config, "a.md": "# A\n"}
    missing = bind(tmp_path / "missing", files)
    assert {f.rule for f in missing.inspection.findings} == {"missing-image"}
    assert missing.list_spine()[0] == "text/title_page.xhtml"
    made = bind(tmp_path / "named", {**files, "cover.png": draw_square()})
    assert made.list_spine()[0] == "text/cover.xhtml"
    items = made.parse("content.opf").iter(f"{OPF}item")
    cover = next(i.get("href") for i in items if i.get("properties") == "cover-image")
    assert made.members[f"EPUB/{cover}"] == draw_square()


# --- promises about the whole ---


def test_same_book_and_date_give_the_same_bytes(
    made: Made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another folder and another moment leave no trace."""
    monkeypatch.setenv("SOURCE_DATE_EPOCH", EPOCH)
    again = bind(tmp_path, {**FILES, "red square.png": draw_square()})
    digests = {hashlib.sha256(m.path.read_bytes()).hexdigest() for m in (made, again)}
    assert len(digests) == 1
    with zipfile.ZipFile(made.path) as archive:
        first = archive.infolist()[0]
        assert (first.filename, first.compress_type) == ("mimetype", zipfile.ZIP_STORED)
        assert {info.date_time for info in archive.infolist()} == {(2023, 11, 14, 22, 13, 20)}


def cut(text: str, start: str, end: str) -> str:
    first = text.index(start)
    return text[:first] + text[text.index(end, first) + len(end) :]


@pytest.mark.parametrize(
    ("name", "change", "kind", "what"),
    [
        ("text/ch002.xhtml", lambda t: t.replace("日本語", ""), "code_blocks",
         "part of one--code.1"),
        ("text/ch001.xhtml", lambda t: cut(t, "<a ", "</a>"), "links",
         "ch002.xhtml#one--set-up"),
        ("content.opf", lambda t: t.replace('<itemref idref="ch003_xhtml"/>', ""), "pages",
         "EPUB/text/ch003.xhtml is not in its place in the spine"),
        ("nav.xhtml", lambda t: t.replace("text/ch003.xhtml", "text/ch002.xhtml"), "links",
         "no line in nav.xhtml"),
    ],
)  # fmt: skip
def test_the_proof_sees_what_is_lost(
    made: Made, name: str, change: Callable[[str], str], kind: str, what: str
) -> None:
    """The proof names whatever is cut from a finished EPUB, and fails."""
    members = made.members
    before = members[f"EPUB/{name}"].decode()
    members[f"EPUB/{name}"] = change(before).encode()
    assert members[f"EPUB/{name}"].decode() != before
    proof = made.prove(members)
    assert (kind, what) in {(lack.kind, lack.what) for lack in proof.lacks}
    with pytest.raises(BookError):
        proof.raise_if_incomplete()


def test_a_build_that_fails_leaves_the_former_epub(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether pandoc fails or the proof does, the file of yesterday is untouched."""
    files = {"chapters.yaml": "title: T\nparts: [{chapters: [a.md]}]\n", "a.md": "# A\n\n## B\n"}
    made = bind(tmp_path, files)
    former = made.path.read_bytes()
    with monkeypatch.context() as patch:
        finish = maker._finish_chapter
        patch.setattr(maker, "_finish_chapter", lambda *given: cut(finish(*given), "<h2", "</h2>"))
        with pytest.raises(BookError) as caught:
            bind(tmp_path, files)
    assert {finding.rule for finding in caught.value.findings} == {"incomplete-output"}
    monkeypatch.setattr(maker, "_PANDOC", sys.executable)
    with pytest.raises(BookError) as caught:
        bind(tmp_path, files)
    assert {finding.rule for finding in caught.value.findings} == {"engine-message"}
    assert made.path.read_bytes() == former
    assert sorted(p.name for p in made.path.parent.iterdir()) == [".cache", "trial.epub"]


def test_every_line_of_pandoc_becomes_a_finding(tmp_path: Path) -> None:
    """What pandoc says about a picture it cannot find is a warning, never silence."""
    body = '<h1 id="a--a">A</h1><p><img id="x" src="lost.png" alt="lost"/></p>'
    (tmp_path / "chapters.yaml").write_text("title: T\nparts: [{chapters: [a.md]}]\n")
    (tmp_path / "a.md").write_text("# A\n")
    inspection = inspect_book(tmp_path)
    edition = find_edition(inspection.config)
    config = inspection.config
    document = maker._write_document(config, edition, [body], "")
    said = maker._run_pandoc(config, edition, document, "", None, tmp_path).findings
    assert any("lost.png" in finding.message for finding in said)
    assert {(f.rule, f.severity) for f in said} == {("engine-message", Severity.WARNING)}


@pytest.mark.nightly
def test_epubcheck_finds_nothing(made: Made) -> None:
    """The validator of the EPUB standard reports no error and no warning."""
    status, report = run_epubcheck(made.path)
    assert status == 0, report
