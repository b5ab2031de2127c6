"""What a reader's program needs around the text of a chapter: captions, footnotes that pop up and
languages of code.

Works on the XHTML of a finished chapter. Nothing of the author's is changed or left out.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lxml import etree

from bindery.render.numbering import Exhibit
from bindery.render.text.captions import (
    caption_exhibit,
    mark_table_notes,
    name_language,
    name_references,
)

_XHTML = "{http://www.w3.org/1999/xhtml}"
_TYPE = "{http://www.idpf.org/2007/ops}type"
_DOCTYPE = "<!DOCTYPE html>"


def dress_chapter(
    text: str,
    exhibits: Mapping[str, Exhibit],
    known: Mapping[str, Exhibit],
    notes: str = "Notes",
) -> bytes:
    """Dress the XHTML of a chapter. `exhibits` are the numbered tables and figures by their id in
    the book, `known` those that may be referred to by address, and `notes` is what its footnotes
    are called."""
    root = etree.fromstring(text.encode())
    name_references(root, known)
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
                _part_footnotes(element, notes)
            case "sup" if element.get("class") == "note":
                for link in element.iter(f"{_XHTML}a"):
                    link.set(_TYPE, "noteref")
                    link.set("role", "doc-noteref")
            case _:
                pass
    return bytes(etree.tostring(root, xml_declaration=True, encoding="UTF-8", doctype=_DOCTYPE))


# --- notes ---


def _part_footnotes(notes: Any, label: str) -> None:
    """Make each footnote an aside, which readers show where it is called; its number, which the
    list has drawn, is the way back as well."""
    notes.tag = f"{_XHTML}section"
    notes.set(_TYPE, "footnotes")
    notes.set("role", "doc-endnotes")
    notes.set("aria-label", label)
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
