"""What paper needs around the text of a chapter: captions, languages of code, roles of elements.

Works on the tree of a joined book before it is laid out. Nothing of the author's is changed or
left out: captions and roles are added, and elements get names that tell the engine what they are.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from xml.etree.ElementTree import Element

from pygments.lexers import get_lexer_by_name
from pygments.util import ClassNotFound

from bindery.render.numbering import Exhibit
from bindery.render.table_notes import mark_table_notes

_AROUND_IMAGE = frozenset(("a", "span", "b", "i", "em", "strong", "picture", "sub", "sup"))
_IN_FIGURE = _AROUND_IMAGE | {"img", "br", "p", "div"}
_PLAIN = frozenset(("text only", "text output"))
_LED = frozenset(("pre", "table", "ul", "ol", "figure", "blockquote"))
"""What a paragraph that ends with a colon leads to."""
_SHARE = re.compile(r"width: ([\d.]+)%")


def dress(root: Element, exhibits: Mapping[str, Exhibit]) -> None:
    """Dress a joined book for paper. `exhibits` are the numbered tables and figures by their id
    in the book."""
    mark_table_notes(root)
    _turn_back(root)
    parents = {child: parent for parent in root.iter() for child in parent}
    for element in list(parents):
        match element.tag:
            case "table" | "img":
                exhibit = exhibits.get(element.get("id", ""))
                if exhibit is not None:
                    _caption(element, exhibit, parents)
            case "pre":
                _name_language(element)
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


def _turn_back(root: Element) -> None:
    """Mark what follows a table that is turned, and its notes, as the first on an upright page."""
    for parent in root.iter():
        is_turned = False
        for child in parent:
            classes = frozenset(child.get("class", "").split())
            if child.tag == "table" and "turned" in classes:
                is_turned = True
            elif is_turned and classes.isdisjoint(("table-note", "origins")):
                child.set("data-page", "upright")
                is_turned = False


def _name_part(section: Element) -> None:
    """Tell the title of a chapter the part in which it stands, for the heads of pages."""
    title = next(section.iter("h1"), None)
    part = section.get("data-part")
    if title is not None and part is not None:
        title.set("data-part", part)


def _caption(element: Element, exhibit: Exhibit, parents: dict[Element, Element]) -> None:
    if element.tag == "table":
        caption = element.find("caption")
        if caption is None:
            caption = _make_caption("caption", exhibit)
            element.insert(0, caption)
        else:
            _number_caption(caption, exhibit)
        share = _SHARE.fullmatch(element.get("style", ""))
        if share:  # the words above a narrow table may be wider than it is
            caption.set("style", f"width: {10_000 / float(share[1]):.4g}%")
        return
    if not element.get("alt"):
        element.set("alt", exhibit.title)
    _make_figure(element, parents).append(_make_caption("figcaption", exhibit))


def _make_caption(name: str, exhibit: Exhibit) -> Element:
    caption = Element(name, {"class": "caption"})
    label = Element("span", {"class": "label"})
    label.text = exhibit.label
    label.tail = f" {exhibit.title}"
    caption.append(label)
    return caption


def _number_caption(caption: Element, exhibit: Exhibit) -> None:
    """Put the number before the words of a caption that the author gave."""
    caption.set("class", " ".join((*caption.get("class", "").split(), "caption")))
    label = Element("span", {"class": "label"})
    label.text = exhibit.label
    label.tail, caption.text = f" {(caption.text or '').lstrip()}", None
    caption.insert(0, label)


def _make_figure(image: Element, parents: dict[Element, Element]) -> Element:
    """The element that holds an image and nothing else: a paragraph of its own becomes it, and
    where there is none it is made."""
    top = image
    while parents[top].tag in _AROUND_IMAGE:
        top = parents[top]
    block = parents[top]
    if block.tag in ("p", "div") and _holds_only_images(block):
        block.tag = "figure"
        block.attrib.pop("class", None)
        return block
    figure = Element("figure")
    figure.tail, top.tail = top.tail, None
    position = list(block).index(top)
    block[position] = figure
    figure.append(top)
    parents[figure], parents[top] = block, figure
    return figure


def _holds_only_images(block: Element) -> bool:
    return not "".join(block.itertext()).strip() and all(
        child.tag in _IN_FIGURE for child in block.iter()
    )


def _name_language(pre: Element) -> None:
    code = pre.find("code")
    if code is not None and (name := code.get("class", "")).startswith("language-"):
        shown = find_language_name(name.removeprefix("language-"))
        if shown:
            pre.set("data-language", shown)


@cache
def find_language_name(language: str) -> str:
    """What a reader calls the language of a fence: `Bash` for `sh`; nothing for plain text, and
    for a word that is no language."""
    try:
        name = str(get_lexer_by_name(language).name)
    except ClassNotFound:
        return ""
    return "" if name.lower() in _PLAIN else name


def _wrap_content(element: Element, name: str) -> None:
    """Put all that an element holds into one new element inside it."""
    inner = Element(name)
    inner.text, element.text = element.text, None
    inner.extend(list(element))
    for child in list(element):
        element.remove(child)
    element.append(inner)


def _keep_with_next(parent: Element) -> None:
    """Mark the paragraphs that lead to what follows, so that no page ends with one."""
    before: Element | None = None
    for child in parent:
        if before is not None and child.tag in _LED and _leads_on(before):
            before.set("class", "leads")
        before = child


def _leads_on(element: Element) -> bool:
    """Whether an element is a paragraph that ends with a colon."""
    is_plain = element.tag == "p" and "class" not in element.attrib
    return is_plain and "".join(element.itertext()).rstrip().endswith(":")
