"""The completeness proof of the PDF: what was laid out and what the file contains, compared with
the book."""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Container, Iterable
from typing import Any
from urllib.parse import unquote

from weasyprint.urls import iri_to_uri

from bindery.core.model import ResolvedBook
from bindery.render.completeness import (
    ADDED,
    NOT_TEXT,
    Contents,
    Proof,
    compare_contents,
    expect_contents,
    fold_space,
)
from bindery.render.pdf.joined import JoinedDialect
from bindery.render.pdf.reading import read_links


def read_pages(resolved: ResolvedBook, dialect: JoinedDialect, pages: Iterable[Any]) -> BoxReader:
    """Read what was laid out."""
    chapters = resolved.book.chapters
    reader = BoxReader({c.path: expect_contents(c, resolved, dialect) for c in chapters})
    for page in pages:
        reader.read(page._page_box)
    return reader


def prove_pdf(
    resolved: ResolvedBook, dialect: JoinedDialect, reader: BoxReader, data: bytes
) -> Proof:
    """Compare a PDF with the book: the text by the boxes that were laid out, and everything that
    has an id, every link and the outline by the file itself."""
    links = read_links(io.BytesIO(data))
    targets = {target for _, target in links.links}
    outline = Counter(map(fold_space, links.outline))
    proofs = []
    for chapter in resolved.book.chapters:
        found = reader.give_contents(chapter.path, links.places, targets)
        labels = {dialect.write_id(chapter, a.slug): a.title for a in chapter.anchors if a.level}
        for identifier, text in list(found.headings.items()):
            label = fold_space(labels.get(identifier, text))
            outline[label] -= 1
            if label and outline[label] < 0:  # a heading without a name has no outline entry
                del found.headings[identifier]
        proofs.append(compare_contents(chapter.path, reader.expected[chapter.path], found))
    return Proof("PDF", tuple(proofs), links.pages)


class BoxReader:
    """Reads what was laid out: the text of headings and code, the rows of tables, the links."""

    def __init__(self, expected: dict[str, Contents]) -> None:
        self.expected = expected
        self._texts: dict[str, list[str]] = {}
        self._rows: dict[str, set[int]] = {}
        self._figures: set[str] = set()
        self._links: dict[str, dict[int, str]] = {path: {} for path in expected}
        self._kinds = {
            identifier: kind
            for contents in expected.values()
            for kind in ("headings", "tables", "figures", "code_blocks")
            for identifier in getattr(contents, kind)
        }

    def read(self, box: Any, chapter: str = "", text_id: str = "", table_id: str = "") -> None:
        element = getattr(box, "element", None)
        if element is not None:
            tag = element.tag
            if tag == "section":
                chapter = element.get("data-path") or chapter
            elif "::" in (box.element_tag or ""):
                return  # page numbers are ours, not the author's
            elif element.get("class") in NOT_TEXT:
                text_id = ""
                chapter = "" if element.get("class") in ADDED else chapter
            identifier = element.get("data-id") or element.get("id", "")
            match self._kinds.get(identifier):
                case "headings" | "code_blocks":
                    text_id = identifier
                    self._texts.setdefault(identifier, [])
                    if tag == "img":  # the drawing of a diagram, which its source describes
                        self._texts[identifier] = [element.get("alt", "")]
                case "tables":
                    table_id = identifier
                    self._rows.setdefault(identifier, set())
                case "figures":
                    self._figures.add(identifier)
                case _:
                    pass
            if text_id and element.get("class") == "maths":
                self._texts[text_id].append(element.get("alt", ""))
            if tag == "tr" and table_id:
                self._rows[table_id].add(id(element))
            elif tag == "a" and chapter and element.get("href"):
                self._links[chapter][id(element)] = element.get("href")
        if text_id:
            text = getattr(box, "text", None)
            if text:
                self._texts[text_id].append(text)
        for child in box.all_children():
            self.read(child, chapter, text_id, table_id)

    def add(self, other: BoxReader) -> None:
        """Add what was read of other chapters, perhaps by another process."""
        self._texts |= other._texts
        self._rows |= other._rows
        self._figures |= other._figures
        for chapter, links in other._links.items():
            self._links[chapter] = self._links[chapter] or links

    def give_contents(
        self, chapter: str, places: Container[str], targets: Container[str]
    ) -> Contents:
        """The content of a chapter that is on the pages and, if it has an id, in the file; and its
        working links."""
        wanted = self.expected[chapter]
        texts = {
            key: fold_space("".join(self._texts[key]))
            for key in (*wanted.headings, *wanted.code_blocks)
            if key in self._texts
        }
        links: Counter[str] = Counter()
        for href in self._links[chapter].values():
            if href.startswith("#"):
                name = unquote(href[1:])
                leads = f"#{name}" in targets and name in places
            else:
                leads = iri_to_uri(href) in targets
            if leads:
                links[href] += 1
        return Contents(
            {k: texts[k] for k in wanted.headings if k in texts and k in places},
            {
                k: (len(self._rows[k]) if rows is not None else None)
                for k, rows in wanted.tables.items()
                if k in self._rows and k in places
            },
            dict.fromkeys(k for k in wanted.figures if k in self._figures and k in places),
            {k: texts[k] for k in wanted.code_blocks if k in texts},
            links,
        )
