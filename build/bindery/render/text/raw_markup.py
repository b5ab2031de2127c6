"""The authors' raw HTML as XHTML that a strict reader accepts.

XHTML lacks the presentational markup of HTML 4: `valign`, `width="50%"`, `<strike>`. What still has
an effect becomes style, and the rest is removed; no text is.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping

from lxml import etree

# Attributes that only some elements may have; all others may be on any element.
_CARRIERS: Mapping[str, frozenset[str]] = {
    name: frozenset(elements.split())
    for name, elements in {
        "href": "a",
        "src": "img",
        "alt": "img",
        "width": "img",
        "height": "img",
        "colspan": "td th",
        "rowspan": "td th",
        "headers": "td th",
        "scope": "th",
        "abbr": "th",
        "start": "ol",
        "reversed": "ol",
        "type": "ol",
        "open": "details",
        "cite": "blockquote q del ins",
        "datetime": "time del ins",
        "span": "col colgroup",
        "valign": "",
        "border": "",
        "media": "",
        "srcset": "",
    }.items()
}
_VALUES: Mapping[str, re.Pattern[str]] = {
    "width": re.compile(r"\d+"),
    "height": re.compile(r"\d+"),
    "colspan": re.compile(r"[1-9]\d*"),
    "rowspan": re.compile(r"\d+"),
    "span": re.compile(r"[1-9]\d*"),
    "start": re.compile(r"-?\d+"),
    "type": re.compile("[1aAiI]"),
    "scope": re.compile("row|col|rowgroup|colgroup"),
    "dir": re.compile("ltr|rtl|auto"),
}
_LENGTH = re.compile(r"(\d+(?:\.\d+)?)(%|px)?")
_BLOCKS = frozenset(
    """address blockquote center details div dl figure h1 h2 h3 h4 h5 h6 hr ol p pre table
    ul""".split()
)
_HOLD_TEXT_ONLY = frozenset(
    """abbr b bdo cite code dfn em i kbd mark p q s samp small span strong sub sup time u
    var""".split()
)


def tidy_markup(body: str, kept_ids: Collection[str]) -> str:
    """The same XHTML without what a strict reader rejects. Of two elements with the same id, the
    one in `kept_ids`, else the first, keeps it."""
    parser = etree.XMLParser(huge_tree=True, resolve_entities=False)
    root = etree.fromstring(f"<div>{body}</div>", parser)
    _drop_repeated_ids(root, kept_ids)
    for element in list(root.iterdescendants("{}*")):  # formulas have a namespace
        _tidy_element(element)
    for element in root.iterdescendants("{}*"):
        blocks = element.iter(*_BLOCKS)
        if element.tag in _HOLD_TEXT_ONLY and any(block is not element for block in blocks):
            element.tag = "div"
    text = str(etree.tostring(root, encoding="unicode"))
    return text[len("<div>") : -len("</div>")] if text.endswith("</div>") else ""


def _drop_repeated_ids(root: etree._Element, kept_ids: Collection[str]) -> None:
    owners: dict[str, etree._Element] = {}
    for element in root.iter(etree.Element):
        identifier = element.get("id")
        if identifier is None:
            continue
        owner = owners.get(identifier)
        if owner is None:
            owners[identifier] = element
        elif identifier in kept_ids and owner.tag == "span":
            del owner.attrib["id"]
            owners[identifier] = element
        else:
            del element.attrib["id"]


def _tidy_element(element: etree._Element) -> None:
    if element.tag == "strike":
        element.tag = "s"
    if element.tag == "details":
        element.set("open", "open")  # some readers cannot open it
    style = [element.get("style", ""), *_find_styles(element)]
    for name, value in list(element.attrib.items()):
        carriers = _CARRIERS.get(str(name))
        pattern = _VALUES.get(str(name))
        is_out_of_place = carriers is not None and element.tag not in carriers
        if is_out_of_place or (pattern is not None and not pattern.fullmatch(str(value))):
            del element.attrib[name]
    if any(style):
        element.set("style", "; ".join(filter(None, style)))


def _find_styles(element: etree._Element) -> Iterator[str]:
    """The CSS for the old attributes of an element."""
    valign = (element.get("valign") or "").lower()
    if valign in ("top", "middle", "bottom", "baseline"):
        yield f"vertical-align: {valign}"
    for name in ("width", "height"):
        value = element.get(name) or ""
        length = _LENGTH.fullmatch(value.strip())
        if length and not (element.tag == "img" and value.isdecimal()):
            yield f"{name}: {length[1]}{length[2] or 'px'}"
