"""Captions of numbered tables and figures in a tree of XHTML, as the EPUB and the site have them.
Nothing of the author's is changed or left out: his own caption gets the number."""

from __future__ import annotations

from typing import Any

from lxml import etree

from bindery.render.numbering import Exhibit

_XHTML = "{http://www.w3.org/1999/xhtml}"
_AROUND_IMAGE = frozenset(
    f"{_XHTML}{name}" for name in ("a", "span", "b", "i", "em", "strong", "picture", "sub", "sup")
)
_IN_FIGURE = _AROUND_IMAGE | {f"{_XHTML}{name}" for name in ("img", "source", "br", "p", "div")}
HOLD_BLOCKS = frozenset(
    f"{_XHTML}{name}"
    for name in ("section", "article", "body", "div", "blockquote", "li", "td", "th", "dd")
)
"""Elements in which a block may stand."""


def caption_exhibit(element: Any, exhibit: Exhibit) -> None:
    """Write number and title into the caption of a table or of the figure that an image is."""
    if element.tag == f"{_XHTML}table":
        caption = element.find(f"{_XHTML}caption")
        if caption is None:
            caption = etree.Element(f"{_XHTML}caption")
            element.insert(0, caption)
            _fill_caption(caption, exhibit, exhibit.title)
        else:  # the author has given one: it gets the number
            _fill_caption(caption, exhibit, "")
        return
    figure = _make_figure(element)
    if figure is None:
        return
    caption = figure.find(f"{_XHTML}figcaption")
    if caption is None:
        caption = etree.SubElement(figure, f"{_XHTML}figcaption")
        _fill_caption(caption, exhibit, exhibit.title)
    else:
        _fill_caption(caption, exhibit, "")


def _fill_caption(caption: Any, exhibit: Exhibit, title: str) -> None:
    label = etree.Element(f"{_XHTML}span", {"class": "label"})
    label.text = exhibit.label
    label.tail = f" {title or caption.text or ''}"
    caption.text = None
    caption.insert(0, label)


def _make_figure(image: Any) -> Any:
    """The element that holds an image and nothing else: a paragraph of its own becomes it, and
    where there is none it is made; None where no figure may stand."""
    top = image
    while top.getparent().tag in _AROUND_IMAGE:
        top = top.getparent()
    block = top.getparent()
    name = block.tag.removeprefix(_XHTML)
    if name == "figure":
        return block
    if name in ("p", "div") and block.find(f".//{_XHTML}figure") is None:
        is_alone = not "".join(block.itertext()).strip()
        if is_alone and all(child.tag in _IN_FIGURE for child in block.iterdescendants()):
            block.tag = f"{_XHTML}figure"
            return block
    if block.tag not in HOLD_BLOCKS:
        return None
    figure = etree.Element(f"{_XHTML}figure", {"class": "figure"})
    figure.tail, top.tail = top.tail, None
    block.replace(top, figure)
    figure.append(top)
    return figure
