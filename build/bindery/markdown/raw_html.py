"""Raw HTML inside Markdown: tags, comments and text, with their places.

Follows GitHub's list of elements and attributes: any other tag, such as `<jobid>`, would disappear
in a browser, so it is kept as text and reported.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator

from msgspec import Struct

SHOWN_ELEMENTS = frozenset(
    """h1 h2 h3 h4 h5 h6 br b i strong em a pre code img tt div ins del sup sub p picture ol ul
    table thead tbody tfoot blockquote dl dt dd kbd q samp var hr ruby rt rp li tr td th s strike
    summary details caption figure figcaption abbr bdo cite dfn mark small source span time wbr
    center col colgroup u big""".split()
)
"""Elements that GitHub shows (and the few old ones that every browser still knows)."""

HIDDEN_ELEMENTS = frozenset(
    """html head body title meta link base script noscript style template iframe object embed
    param form input button select option optgroup textarea label fieldset legend datalist output
    progress meter video audio track canvas svg math map area frame frameset noframes noembed
    xmp plaintext marquee applet font dialog slot article section nav aside header footer main
    address hgroup menu search bdi data portal""".split()
)
"""HTML elements that books cannot use: GitHub drops the tag, or even its content."""

VOID_ELEMENTS = frozenset("br hr img wbr source col".split())
_KEPT_ATTRIBUTES = frozenset(
    """id name href src alt title width height align valign border colspan rowspan start type open
    reversed dir lang cite datetime srcset media scope headers abbr span""".split()
)
_TAG = re.compile(
    r"""<(?P<close>/)?(?P<name>[A-Za-z][A-Za-z0-9_-]*)
        (?P<attributes>(?:\s+[A-Za-z_:@][\w:.@-]*(?:\s*=\s*(?:"[^"]*"|'[^']*'|[^\s"'=<>`]+))?)*)
        \s*(?P<empty>/)?>""",
    re.VERBOSE,
)
_ADDRESS = re.compile(r"[^\s,]\S*")
_ATTRIBUTE = re.compile(
    r"""\s+(?P<name>[A-Za-z_:@][\w:.@-]*)
        (?:\s*=\s*(?:"(?P<double>[^"]*)"|'(?P<single>[^']*)'|(?P<bare>[^\s"'=<>`]+)))?""",
    re.VERBOSE,
)


class Attribute(Struct, frozen=True):
    name: str
    value: str
    start: int
    """Offset of the value in the fragment."""


class Tag(Struct, frozen=True):
    """A start or end tag. `raw` is the text as typed, `start` its offset in the fragment."""

    name: str
    raw: str
    start: int
    closing: bool = False
    attributes: tuple[Attribute, ...] = ()

    @property
    def is_shown(self) -> bool:
        return self.name in SHOWN_ELEMENTS

    def get(self, name: str) -> str | None:
        """The value of an attribute, or None if the tag does not carry it."""
        return next((a.value for a in self.attributes if a.name == name), None)

    @property
    def kept_attributes(self) -> list[tuple[str, str]]:
        """The attributes that outputs keep; scripts and styles are removed."""
        return [(a.name, a.value) for a in self.attributes if a.name in _KEPT_ATTRIBUTES]


class Candidate(Struct, frozen=True):
    """One of the files in a `srcset`, and for which screens it is: `2x`, `800w` or nothing."""

    address: str
    descriptor: str
    start: int
    """Offset of the address in the value."""


class Text(Struct, frozen=True):
    text: str
    start: int


class Comment(Struct, frozen=True):
    text: str
    start: int


Piece = Tag | Text | Comment


def split_html(fragment: str) -> Iterator[Piece]:
    """The pieces of a fragment in order. Nothing is lost: what is not a tag is text."""
    position = 0
    start = fragment.find("<")
    while start >= 0:
        piece, end = _read_piece(fragment, start)
        if end > start:
            if start > position:
                yield Text(html.unescape(fragment[position:start]), position)
            if piece is not None:
                yield piece
            position = end
        start = fragment.find("<", max(end, start + 1))
    if position < len(fragment):
        yield Text(html.unescape(fragment[position:]), position)


def _read_piece(fragment: str, start: int) -> tuple[Tag | Comment | None, int]:
    """The tag or comment that begins here, and where it ends; nothing of a declaration, and an
    end before its start where all of it is text."""
    if fragment.startswith("<!--", start):
        short = next((s for s in ("<!-->", "<!--->") if fragment.startswith(s, start)), "")
        close = start + len(short) - 3 if short else fragment.find("-->", start + 4)
        if close >= 0:
            return Comment(fragment[start + 4 : close], start), close + 3
    if fragment.startswith(("<!", "<?"), start):
        return None, fragment.find(">", start) + 1
    match = _TAG.match(fragment, start)
    if match is None:
        return None, -1
    tag = Tag(
        match["name"].lower(),
        match[0],
        start,
        bool(match["close"]),
        tuple(_split_attributes(match["attributes"], match.start("attributes"))),
    )
    return tag, match.end()


def split_srcset(value: str) -> Iterator[Candidate]:
    """The files that a `srcset` offers, in order. As in the HTML standard, an address ends at white
    space, or at a comma before it."""
    at = 0
    while (first := _ADDRESS.search(value, at)) is not None:
        address = first[0].rstrip(",")
        at = first.end()
        descriptor = ""
        if address == first[0]:
            end = value.find(",", at)
            end = len(value) if end < 0 else end
            descriptor, at = value[at:end].strip(), end + 1
        yield Candidate(address, descriptor, first.start())


def _split_attributes(text: str, offset: int) -> Iterator[Attribute]:
    seen = set()
    for match in _ATTRIBUTE.finditer(text):
        name = match["name"].lower()
        if name in seen:
            continue
        seen.add(name)
        group = next((g for g in ("double", "single", "bare") if match[g] is not None), None)
        value = html.unescape(match[group]) if group else ""
        yield Attribute(name, value, offset + (match.start(group) if group else match.start()))
