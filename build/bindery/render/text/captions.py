"""Add to the tree of a chapter: captions of numbered tables and figures, their numbers in
references, the class of notes below tables, names of code languages. All outputs use it; elements
may have the namespace of XHTML or none. The author's text is neither changed nor removed: a caption
that the author wrote gets the number instead of the word before it.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

from lxml import etree
from pygments.lexers import get_lexer_by_name
from pygments.util import ClassNotFound

from bindery.render.numbering import Exhibit

_AROUND_IMAGE = frozenset(("a", "span", "b", "i", "em", "strong", "picture", "sub", "sup"))
_IN_FIGURE = _AROUND_IMAGE | {"img", "source", "br", "p", "div"}
HOLD_BLOCKS = frozenset(("section", "article", "body", "div", "blockquote", "li", "td", "th", "dd"))
"""Elements that may contain a block."""
_PLAIN = frozenset(("text only", "text output"))


def read_name(element: Any) -> str:
    """The name of an element without its namespace; empty for a comment."""
    return element.tag.rpartition("}")[2] if isinstance(element.tag, str) else ""


def _like(element: Any, name: str) -> str:
    """A name in the namespace of an element."""
    return f"{element.tag.rpartition('}')[0]}}}{name}" if element.tag[0] == "{" else name


# --- captions ---


def caption_exhibit(element: Any, exhibit: Exhibit) -> Any:
    """Write number and title into the caption of a table, or of the figure of an image. Returns the
    caption; None for an image where HTML allows no figure."""
    if read_name(element) == "table":
        holder, name, position = element, "caption", 0
    else:
        holder, name = _make_figure(element), "figcaption"
        position = -1 if holder is None else len(holder)
    if holder is None:
        return None
    caption = holder.find(_like(element, name))
    title = ""
    if caption is None:
        own = _take_caption(holder) if exhibit.caption else None
        caption, title = etree.Element(_like(element, name)), exhibit.title
        holder.insert(position, caption)
        if own is not None:
            _move_caption(own, caption, exhibit)
            return caption
    label = etree.Element(_like(element, "span"), {"class": "label"})
    title = title or (caption.text or "").lstrip()
    label.text, label.tail = exhibit.label, f" {title}" if title or len(caption) else None
    caption.text = None
    caption.insert(0, label)
    return caption


def _take_caption(holder: Any) -> Any:
    """Take the paragraph above a table or figure out of the text."""
    box = holder.getparent()
    block = box if box.get("role") == "region" else holder
    own = block.getprevious()
    if own is None or read_name(own) != "p":
        return None
    own.getparent().remove(own)
    return own


def _move_caption(own: Any, caption: Any, exhibit: Exhibit) -> None:
    """Make a caption of the paragraph that an author wrote: the number takes the place of the bold
    word. Links to a figure lead to the image above the caption."""
    word = next(child for child in own if read_name(child) == "strong")
    word.tag, word.text = _like(word, "span"), exhibit.label
    word.set("class", "label")
    caption.extend(own)
    anchor = caption[0]
    if read_name(anchor) == "a" and exhibit.kind == "figure":
        caption.getparent().set("id", anchor.get("id"))
        caption.remove(anchor)


def name_references(root: Any, exhibits: Mapping[str, Exhibit]) -> None:
    """Write the number of a table or figure into the links to it whose text is the word alone.
    `exhibits` are those that may be referred to, by the address of their anchor."""
    for link in root.iter() if exhibits else ():
        exhibit = exhibits.get(link.get("href", "")) if read_name(link) == "a" else None
        if exhibit is not None and not len(link) and link.text == exhibit.word:
            link.text = exhibit.label


def _make_figure(image: Any) -> Any:
    """The element that contains only an image: its paragraph becomes a figure, else one is made
    around the image; None if HTML allows no figure there."""
    top = image
    while read_name(top.getparent()) in _AROUND_IMAGE:
        top = top.getparent()
    block = top.getparent()
    name = read_name(block)
    if name == "figure":
        return block
    if name in ("p", "div") and block.find(f".//{_like(image, 'figure')}") is None:
        is_alone = not "".join(block.itertext()).strip()
        if is_alone and all(read_name(child) in _IN_FIGURE for child in block.iterdescendants()):
            block.tag = _like(image, "figure")
            return block
    if name not in HOLD_BLOCKS:
        return None
    figure = etree.Element(_like(image, "figure"), {"class": "figure"})
    figure.tail, top.tail = top.tail, None
    block.replace(top, figure)
    figure.append(top)
    return figure


# --- notes below tables: paragraphs that are emphasized as a whole ---


def mark_table_notes(root: Any) -> None:
    """Give the notes below tables their class. All outputs set them in small type."""
    for table in root.iter("{*}table"):
        box = table.getparent()
        is_in_box = read_name(box) == "div" and box.get("role") == "region"
        for block in (table, box) if is_in_box else (table,):
            for below in block.itersiblings():
                if not _is_stressed(below):
                    break
                below.set("class", "table-note")


def _is_stressed(element: Any) -> bool:
    """Whether an element is a paragraph that is emphasized as a whole."""
    return (
        read_name(element) == "p"
        and [read_name(child) for child in element] == ["em"]
        and not (element.text or "").strip()
        and not (element[0].tail or "").strip()
    )


# --- languages of code ---


def name_language(pre: Any) -> None:
    """Store the name of the language of a code block for the style sheet of an ebook."""
    code = pre.find(_like(pre, "code"))
    if code is not None and (name := code.get("class", "")).startswith("language-"):
        shown = find_language_name(name.removeprefix("language-"))
        if shown:
            pre.set("data-language", shown)


@cache
def find_language_name(language: str) -> str:
    """The usual name of the language of a fence: `Bash` for `sh`; empty for plain text and unknown
    words."""
    try:
        name = str(get_lexer_by_name(language).name)
    except ClassNotFound:
        return ""
    return "" if name.lower() in _PLAIN else name
