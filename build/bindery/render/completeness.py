"""The completeness proof: the output has everything that the source has, or the build fails.

Engines have been seen to drop content silently. So each output is read back as a reader's program
would read it, and its headings, tables, figures, code blocks and links are compared with those of
the source, chapter by chapter.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Container, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from lxml import etree
from msgspec import Struct, field

from bindery.book.this_edition import Edition
from bindery.core.cache import Cache
from bindery.core.control_characters import show_controls
from bindery.core.facts import Facts
from bindery.core.model import BookError, Chapter, Finding, ResolvedBook, Span, ToWeb
from bindery.core.report import count_noun
from bindery.core.repository import REPORT
from bindery.core.whole_files import write_whole
from bindery.render.text.content import Dialect, find_title_slug

KINDS = ("headings", "tables", "figures", "code_blocks", "links")
_NOUNS = {kind: kind.removesuffix("s").replace("_", " ") for kind in KINDS}
# Some control characters count as space in Python, so their pictures are removed too.
_SPACE = re.compile(r"[\s\u200b\u00ad\u2400-\u241f]+")


class Contents(Struct):
    """What was found, or expected, in one chapter. Keys are ids, or addresses for links; values
    are the content of the element: a text, or a number of rows."""

    headings: dict[str, str] = field(default_factory=dict)
    tables: dict[str, int | None] = field(default_factory=dict)
    figures: dict[str, None] = field(default_factory=dict)
    code_blocks: dict[str, str | None] = field(default_factory=dict)
    links: Counter[str] = field(default_factory=Counter)
    plain_links: int = 0
    """Links to files of the repository that have no address, so an output can only name them."""
    missing_images: int = 0
    """Images without a file, replaced by their text, and missing files for another theme."""


class Lack(Struct, frozen=True):
    """Something in the source that is missing or different in the output."""

    chapter: str
    kind: str
    what: str


class ChapterProof(Struct, frozen=True):
    chapter: str
    source: Mapping[str, int]
    output: Mapping[str, int]
    lacks: tuple[Lack, ...]
    plain_links: int = 0
    missing_images: int = 0


class Proof(Struct, frozen=True):
    """The proof of one output."""

    format: str
    chapters: tuple[ChapterProof, ...]
    pages: int | None = None

    @property
    def lacks(self) -> tuple[Lack, ...]:
        return tuple(lack for chapter in self.chapters for lack in chapter.lacks)

    def count(self, kind: str) -> int:
        return sum(chapter.output[kind] for chapter in self.chapters)

    def count_missing_images(self) -> int:
        return sum(chapter.missing_images for chapter in self.chapters)

    def summarise(self, listed: Container[str]) -> str:
        """One line. `listed` are the paths of the chapters that chapters.yaml lists: the appendix
        of records and sources is generated."""
        counts = ", ".join(count_noun(self.count(kind), _NOUNS[kind]) for kind in KINDS)
        pages = f", {count_noun(self.pages, 'page')}" if self.pages is not None else ""
        plain = sum(chapter.plain_links for chapter in self.chapters)
        rest = f"; {count_noun(plain, 'link')} left as text without `repository`" if plain else ""
        lost = self.count_missing_images()
        but = f" but for {count_noun(lost, 'missing image')}" if lost else ""
        gone = count_noun(len(self.lacks), "thing")
        state = f"incomplete, {gone} lost" if self.lacks else "complete"
        number = sum(chapter.chapter in listed for chapter in self.chapters)
        chapters = count_noun(number, "chapter")
        if number < len(self.chapters):
            chapters += " and the generated appendix"
        return f"{state}{but}: {counts} in {chapters}{pages}{rest}"

    def report_lacks(self, hint: str = "please report this with the chapter") -> list[Finding]:
        """A finding for each thing that is missing."""
        findings = []
        for lack in self.lacks:
            kind = lack.kind.replace("_", " ").removesuffix("s")
            message = f"the {self.format} lost a {kind}: {lack.what}"
            findings.append(Finding(Span.whole(lack.chapter), "incomplete-output", message, hint))
        return findings

    def raise_if_incomplete(self) -> None:
        """Raise BookError with a finding for each thing that is missing."""
        hint = "the old output was kept; --lenient builds without; please report this with the "
        if findings := self.report_lacks(f"{hint}chapter"):
            raise BookError(*findings)


def fold_space(text: str) -> str:
    """Text without white space, which engines change."""
    return _SPACE.sub("", show_controls(text))


def expect_contents(chapter: Chapter, resolved: ResolvedBook, dialect: Dialect) -> Contents:
    """What an output of this dialect must contain of a chapter."""

    def name(slug: str) -> str:
        return dialect.write_id(chapter, slug)

    inventory = chapter.inventory
    headings = {name(slug): fold_space(text) for slug, text in inventory.headings}
    title = find_title_slug(chapter)
    headings.setdefault(name(title), fold_space(chapter.title))
    links: Counter[str] = Counter()
    plain_links = missing_images = 0
    for link in chapter.links:
        target = resolved.find_target(link)
        is_shown = link.is_image and (dialect.offers_sources or not link.is_alternative)
        if is_shown and not isinstance(target, ToWeb):
            missing_images += target is None or dialect.write_image(target, chapter) is None
        if not link.is_image and target is not None:
            href = dialect.write_href(target, chapter)
            if href is not None:
                links[href] += 1
            else:
                plain_links += 1
    shown = (link for link in chapter.links if link.is_image and not link.is_alternative)
    figures = [
        slug
        for slug, link in zip(inventory.figures, shown, strict=True)
        if not isinstance(target := resolved.find_target(link), ToWeb)
        or dialect.write_image(target, chapter)
    ]
    return Contents(
        headings,
        {name(slug): rows for slug, rows in inventory.tables},
        dict.fromkeys(map(name, figures)),
        {
            name(slug): None if text is None else fold_space(text)
            for slug, text in inventory.code_blocks
        },
        links,
        plain_links,
        missing_images,
    )


def compare_contents(path: str, expected: Contents, found: Contents) -> ChapterProof:
    """Compare one chapter of an output with its source."""
    lacks = list(_find_lacks(path, expected, found))
    return ChapterProof(
        path,
        {kind: _count(getattr(expected, kind)) for kind in KINDS},
        {
            # Links that outputs add, to notes and back, are not the author's.
            kind: (found.links & expected.links).total()
            if kind == "links"
            else _count(getattr(found, kind))
            for kind in KINDS
        },
        tuple(lacks),
        expected.plain_links,
        expected.missing_images,
    )


def _count(contents: Mapping[str, Any]) -> int:
    return contents.total() if isinstance(contents, Counter) else len(contents)


def _find_lacks(path: str, expected: Contents, found: Contents) -> Iterator[Lack]:
    for kind in ("headings", "tables", "figures", "code_blocks"):
        wanted: dict[str, str | int | None] = getattr(expected, kind)
        there: dict[str, str | int | None] = getattr(found, kind)
        for identifier, content in wanted.items():
            if identifier not in there:
                yield Lack(path, kind, identifier)
            elif content is not None and content != there[identifier]:
                yield Lack(path, kind, f"part of {identifier}")
    for href, number in (expected.links - found.links).items():
        yield Lack(path, "links", href if number == 1 else f"{href} ({number} times)")


def read_contents(root: Any, wanted: Contents) -> Contents:
    """What an XHTML or HTML tree contains. Only elements with a wanted id count; line break marks
    in code are ignored."""
    found = Contents()
    added: set[Any] = set()
    for element in root.iter():
        tag = element.tag
        if not isinstance(tag, str):
            continue
        if element.get("class") in _ADDED_LINKS:
            added.update(element.iter())
        name = tag.rpartition("}")[2]
        identifier = element.get("id")
        if name == "a" and element.get("href") is not None and element not in added:
            found.links[element.get("href")] += 1
        if identifier is None:
            continue
        if identifier in wanted.headings:
            # A second element may have the same id; one of them must be the heading.
            if found.headings.get(identifier) != wanted.headings[identifier]:
                found.headings[identifier] = fold_space(read_text(element))
        elif identifier in wanted.tables:
            found.tables[identifier] = sum(
                isinstance(e.tag, str) and e.tag.rpartition("}")[2] == "tr" for e in element.iter()
            )
        elif identifier in wanted.figures:
            found.figures[identifier] = None
        elif identifier in wanted.code_blocks:
            # The source of a diagram that is drawn describes the drawing.
            found.code_blocks[identifier] = fold_space(element.get("alt") or read_text(element))
    return found


ADDED = frozenset(("origin", "origins"))
"""Classes of provenance marks and notes. They are generated, so a link in them cannot replace a
lost link of the text."""
_ADDED_LINKS = ADDED | {"term", "letters"}
"""A term that links to the glossary is the author's text, but not the author's link; nor are the
letters above a glossary."""
NOT_TEXT = frozenset(("wrap", "note", "no-image")) | ADDED
"""Classes that outputs add: line break marks, footnote numbers, words for images."""


def read_text(element: Any) -> str:
    """The text of an element, without what outputs add; of a formula, its source."""
    if element.get("alttext"):
        return str(element.get("alttext"))
    pieces = [element.text or ""]
    for child in element:
        if not (isinstance(child.tag, str) and child.get("class") in NOT_TEXT):
            pieces.append(read_text(child) if isinstance(child.tag, str) else "")
        pieces.append(child.tail or "")
    return "".join(pieces)


def prove_site(
    resolved: ResolvedBook,
    dialect: Dialect,
    folder: Path,
    pages: Mapping[str, str],
    cache: Cache | None = None,
) -> Proof:
    """Read the pages of a site back and compare them with the book. A page is not parsed if the
    cache has the proof of the same bytes."""
    facts = cache.open_facts("proof of the site", {}) if cache else Facts()
    chapters = []
    for chapter in resolved.book.chapters:
        expected = expect_contents(chapter, resolved, dialect)
        page = (folder / pages[chapter.path]).read_bytes()
        compare = partial(_compare_page, chapter.path, page, expected)
        digest = hashlib.sha256(page + repr(expected).encode(errors="surrogatepass")).hexdigest()
        chapters.append(facts.derive(chapter.path, ChapterProof, compare, given=digest))
    return Proof("site", tuple(chapters))


def _compare_page(path: str, page: bytes, expected: Contents) -> ChapterProof:
    tree = etree.fromstring(page, etree.HTMLParser(encoding="utf-8"))
    article = next(tree.iter("article"), None)
    found = Contents() if article is None else read_contents(article, expected)
    return compare_contents(path, expected, found)


def _read_report(path: Path) -> dict[str, Any]:
    """The entries of the report by output; empty if there is no report yet."""
    try:
        entries: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))["outputs"]
    except (OSError, ValueError):
        return {}
    return entries


def is_of_edition(path: Path, edition: Edition) -> bool:
    """Whether the report says that the ebook next to it is of this edition."""
    entry = _read_report(path.parent / REPORT).get(path.suffix.removeprefix("."), {})
    return entry.get("edition") == edition.name and path.is_file()


def write_proof(path: Path, proof: Proof, edition: Edition, name: str) -> None:
    """Add the proof of an output of this edition to the report, `dist/report.json`; `name` is that
    of the output beside it."""
    entries = _read_report(path)
    entries[proof.format.lower()] = {
        "file": name,
        "complete": not proof.lacks,
        "edition": edition.name,
        **({"pages": proof.pages} if proof.pages is not None else {}),
        **({"missing_images": lost} if (lost := proof.count_missing_images()) else {}),
        "totals": {
            kind: {
                "source": sum(c.source[kind] for c in proof.chapters),
                "output": proof.count(kind),
            }
            for kind in KINDS
        },
        "chapters": [
            {
                "path": chapter.chapter,
                **{
                    kind: {"source": chapter.source[kind], "output": chapter.output[kind]}
                    for kind in KINDS
                },
                "missing": [{"kind": lack.kind, "what": lack.what} for lack in chapter.lacks],
            }
            for chapter in proof.chapters
        ],
    }
    text = json.dumps({"schema": 1, "outputs": dict(sorted(entries.items()))}, indent=2)
    write_whole(path, (text + "\n").encode())
