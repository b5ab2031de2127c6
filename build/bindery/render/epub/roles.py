"""What a reader's program needs around the text of a chapter: captions, footnotes that pop up,
languages of code, and where the pages of the PDF begin.

Works on the XHTML of a finished chapter. Nothing of the author's is changed or left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from lxml import etree

from bindery.render.numbering import Exhibit
from bindery.render.text.captions import (
    HOLD_BLOCKS,
    caption_exhibit,
    mark_table_notes,
    name_language,
    read_name,
)

_XHTML = "{http://www.w3.org/1999/xhtml}"
_TYPE = "{http://www.idpf.org/2007/ops}type"
_DOCTYPE = "<!DOCTYPE html>"


@dataclass(frozen=True, slots=True)
class Dressed:
    """A dressed chapter, and the pages that begin in it with the ids of their marks."""

    text: bytes
    pages: tuple[tuple[int, str], ...]


def dress_chapter(
    text: str, exhibits: Mapping[str, Exhibit], pages: Mapping[str, int], last_page: int = 0
) -> Dressed:
    """Dress the XHTML of a chapter. `exhibits` are the numbered tables and figures, and `pages`
    those of the PDF, both by the id of an element in the book. Pages up to `last_page` have begun
    before this chapter."""
    root = etree.fromstring(text.encode())
    mark_table_notes(root)
    for element in list(root.iter()):
        if not isinstance(element.tag, str):  # a comment
            continue
        match element.tag.removeprefix(_XHTML):
            case "table" | "img":
                exhibit = exhibits.get(element.get("id", ""))
                if exhibit is not None:
                    caption_exhibit(element, exhibit)
            case "pre":
                name_language(element)
            case "ol" if element.get("class") == "footnotes":
                _part_footnotes(element)
            case "sup" if element.get("class") == "note":
                for link in element.iter(f"{_XHTML}a"):
                    link.set(_TYPE, "noteref")
                    link.set("role", "doc-noteref")
            case _:
                pass
    marks = tuple(_mark_pages(root, pages, last_page))
    written = etree.tostring(root, xml_declaration=True, encoding="UTF-8", doctype=_DOCTYPE)
    return Dressed(bytes(written), marks)


# --- notes ---


def _part_footnotes(notes: Any) -> None:
    """Make each footnote an aside, which readers show where it is called; its number, which the
    list has drawn, is the way back as well."""
    notes.tag = f"{_XHTML}section"
    notes.set(_TYPE, "footnotes")
    notes.set("role", "doc-endnotes")
    notes.set("aria-label", "Notes")
    rule = notes.getprevious()
    if rule is not None and rule.tag == f"{_XHTML}hr" and rule.get("class") == "footnotes":
        notes.getparent().remove(rule)
    for count, item in enumerate(notes.findall(f"{_XHTML}li"), 1):
        item.tag = f"{_XHTML}aside"
        item.set(_TYPE, "footnote")
        item.set("role", "doc-footnote")
        number = etree.Element(f"{_XHTML}span", {"class": "number"})
        number.text, number.tail = f"{count}.", " "
        first = next(iter(item), None)
        holder = first if first is not None and first.tag == f"{_XHTML}p" else item
        number.tail += holder.text or ""
        holder.text = None
        holder.insert(0, number)
        for link in item.iter(f"{_XHTML}a"):
            if link.get("class") == "back":
                link.set("role", "doc-backlink")


# --- pages ---


def _mark_pages(root: Any, pages: Mapping[str, int], last: int) -> Iterator[tuple[int, str]]:
    """Put a mark before the first thing of each page; returns the number of the page and the id of
    its mark."""
    for element in list(root.iter()):
        page = pages.get(element.get("id", ""), 0) if isinstance(element.tag, str) else 0
        if page <= last:
            continue
        top = element
        while top.getparent() is not None and read_name(top.getparent()) not in HOLD_BLOCKS:
            top = top.getparent()
        if top.getparent() is None or top.tag == f"{_XHTML}body":
            continue
        last, identifier = page, f"page.{page}"
        attributes = {"id": identifier, "role": "doc-pagebreak", "aria-label": str(page)}
        mark = etree.Element(f"{_XHTML}span", attributes)
        mark.set(_TYPE, "pagebreak")
        top.addprevious(mark)
        yield page, identifier
