"""What paper needs around the text of a chapter: captions, languages of code, roles of elements.

Works on the tree of a joined book before it is laid out. Nothing of the author's text is changed
or left out: captions and roles are added, and elements get names that tell the engine their role.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import pairwise
from typing import Any

from lxml import etree

from bindery.core.wording import Wording
from bindery.render.numbering import Exhibit
from bindery.render.text.captions import caption_exhibit, mark_table_notes, name_language

_LED = frozenset(("pre", "table", "ul", "ol", "figure", "blockquote"))
"""What a paragraph that ends with a colon leads to."""
_HEADINGS = ("h1", "h2", "h3", "h4", "h5", "h6")
_LEAVES = ("p", "li", "tr", "dt", "dd", "pre", "figure", *_HEADINGS)
_QUARTER, _LINE = 12, 100
"""Lines of text that fill a quarter of a page with the room between them, and characters in a line,
or a few more."""
_WHOLE = 3
"""A table with so many rows is never split, as the style sheet has it."""
_SHARE = re.compile(r"width: ([\d.]+)%")


def dress(root: Any, exhibits: Mapping[str, Exhibit], words: Wording) -> None:
    """Dress a joined book for paper. `exhibits` are the numbered tables and figures by their id
    in the book."""
    mark_table_notes(root)
    _turn_pages(root)
    for chapter in root.iter("section"):
        if "chapter" in chapter.get("class", "").split():
            _keep_ends(chapter)
    for element in list(root.iter(etree.Element)):
        match element.tag:
            case "table" | "img":
                exhibit = exhibits.get(element.get("id", ""))
                if exhibit is not None:
                    _caption(element, exhibit, words)
            case "pre":
                name_language(element)
                _hide_id(element)
            case "span" if element.get("aria-hidden") == "true":
                element.tag = "artifact"
            case "div" if element.get("class") == "origins":
                element.tag = "note"
            case "ol" if element.get("class") == "footnotes":
                for item in element:
                    _wrap_content(item, "note")
            case "section":
                _name_part(element)
                _keep_with_next(element)
            case "li":
                _keep_with_next(element)
            case _:
                pass


def name_next(parent: Any) -> None:
    """Give each child the class of the next one. The engine looks for it behind `:has(+ ...)` among
    all the children, for each of them."""
    for child, following in pairwise(parent):
        child.set("data-next", following.get("class", ""))


def _turn_pages(root: Any) -> None:
    """Mark the headings and the lead of a turned table, which are turned with it, and what follows
    the table and its notes as the first block on an upright page."""
    for parent in root.iter():
        is_turned = False
        for child in parent:
            classes = frozenset(child.get("class", "").split())
            if child.tag == "table" and "turned" in classes:
                is_turned = True
                before = child.getprevious()
                while before is not None and (before.tag in _HEADINGS or _leads_on(before)):
                    before.set("data-page", "turned")
                    before = before.getprevious()
            elif is_turned and classes.isdisjoint(("table-note", "origins")):
                child.set("data-page", "upright")
                is_turned = False


def _keep_ends(chapter: Any) -> None:
    """Mark what comes last before the rest of a page stays empty, at the end of a part, before and
    after a turned table: so much that the page is at least a quarter full. Where a chapter has
    less before its turned table, it begins turned."""
    after = chapter.getnext()
    wanted = _QUARTER if after is None or after.get("class") == "part" else 0
    turned = None
    for element in reversed(list(chapter.iter(etree.Element))):
        if element.get("data-page") == "upright":
            wanted = _QUARTER // 2  # a turned page is low
        elif element.get("data-page") == "turned" or "turned" in element.get("class", "").split():
            turned, wanted = element, _QUARTER
        elif wanted > 0 and element.tag in _LEAVES and not _holds_leaves(element):
            element.set("data-end", "")
            element.set("style", f"{element.get('style', '')}; widows: {wanted}".removeprefix("; "))
            wanted -= _count_lines(element)
    if turned is not None and wanted > 0:
        chapter.set("data-begins", "turned")
        for before in turned.itersiblings(preceding=True):
            before.set("data-page", "turned")


def _holds_leaves(element: Any) -> bool:
    return next(element.iterdescendants(*_LEAVES), None) is not None


def _count_lines(element: Any) -> int:
    text = "".join(element.itertext())
    match element.tag:
        case "pre":
            return text.count("\n") * 3 // 4 + 1
        case "figure":
            return _QUARTER
        case "tr":
            return 1
        case _:
            return len(text) // _LINE + (3 if element.tag in _HEADINGS else 1)


def _name_part(section: Any) -> None:
    """Give the title of a chapter the name of its part, for the heads of pages."""
    title = next(section.iter("h1"), None)
    part = section.get("data-part")
    if title is not None and part is not None:
        title.set("data-part", part)


def _caption(element: Any, exhibit: Exhibit, words: Wording) -> None:
    if element.tag == "img" and not element.get("alt"):
        element.set("alt", exhibit.title or exhibit.label)
    caption = caption_exhibit(element, exhibit)
    if caption is None:
        return
    caption.set("class", " ".join((*caption.get("class", "").split(), "caption")))
    rows = element.findall("tbody/tr")
    if len(rows) > _WHOLE:
        rows[1].set("data-continued", words("{label}, continued", label=exhibit.label))
        rows[-1].set("data-continued", "")
    share = _SHARE.fullmatch(element.get("style", ""))
    if element.tag == "table" and share:  # the words above a narrow table may be wider than it is
        caption.set("style", f"width: {10_000 / float(share[1]):.4g}%")
    if element.tag == "table":
        caption.set("id", _hide_id(element))
    else:
        caption.getparent().attrib.pop("class", None)


def _hide_id(element: Any) -> str:
    """Take the id from an element with many others inside, and keep it for the proof: the engine
    computes a style for each element with an id, and for all that is inside it."""
    element.set("data-id", element.attrib.pop("id"))
    return str(element.get("data-id"))


def _wrap_content(element: Any, name: str) -> None:
    """Put everything that an element holds into one new element inside it."""
    inner = etree.Element(name)
    inner.text, element.text = element.text, None
    inner.extend(list(element))
    element.append(inner)


def _keep_with_next(parent: Any) -> None:
    """Mark the paragraphs that lead to what follows, so that no page ends with one."""
    for child in parent:
        before = child.getprevious()
        if before is not None and child.tag in _LED and _leads_on(before):
            before.set("class", "leads")


def _leads_on(element: Any) -> bool:
    """Whether an element is a paragraph that ends with a colon."""
    is_plain = element.tag == "p" and "class" not in element.attrib
    return is_plain and "".join(element.itertext()).rstrip().endswith(":")
