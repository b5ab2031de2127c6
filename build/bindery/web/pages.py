"""What a page of HTML says: where it sends its reader on, and which anchors it has."""

from __future__ import annotations

import asyncio
import codecs
import contextlib
import re
from dataclasses import dataclass
from urllib.parse import unquote, urljoin

from lxml import etree
from lxml.html import HtmlElement, HTMLParser, document_fromstring

from bindery.core.suggestions import find_nearest
from bindery.web.fetch import Reply

_MOST_SECONDS = 5
"""A refresh that comes later is one of the page itself."""
_LONGEST_REFRESH = 2_048
_REFRESH = re.compile(
    r"\s*(?P<seconds>\d+)(?:\.\d*)?\s*[;,]\s*(?:url\s*=\s*)?(?P<quote>[\"']?)(?P<url>.+?)(?P=quote)\s*",
    re.IGNORECASE | re.DOTALL,
)
_CHARSET = re.compile(rb"<meta[^>]+charset\s*=\s*[\"']?\s*([A-Za-z0-9_:.-]+)", re.IGNORECASE)
# Not anchors: lines of a file, text to look for, the route of a program, a page of a PDF, and
# what GitHub puts in by script when one scrolls to it.
_NO_ANCHOR = re.compile(
    r"L\d+(C\d+)?(-L?\d+(C\d+)?)?|top|[!/].*|.*=.*|"
    r"(issuecomment|discussioncomment|pullrequestreview|issue|event|discussion|commitcomment)-?_?r?\d+",
    re.IGNORECASE | re.DOTALL,
)
# Python knows more, among them some that are no letters of a page: idna, punycode, escapes.
_ENCODING = re.compile(
    r"ascii|big5\w*|cp\d+|euc_\w+|gb\w+|hz|iso2022_\w+|iso8859-\d+|johab|koi8-\w|kz1048|"
    r"mac-\w+|ptcp154|shift_jis\w*|tis-620|utf-(8|16|32)(-sig|-be|-le)?"
)
_MOST_NAMES = 5_000
"""Anchors of a page among which one that looks like another is looked for."""
_LITTLE_TEXT = 400
"""Characters; a page with less is put together by a script."""
_ROOTS = frozenset(("root", "app", "__next", "__nuxt", "___gatsby", "svelte", "q-app"))
"""Ids of the empty element into which scripts write a page."""


@dataclass(frozen=True, slots=True)
class Refresh:
    """A page that sends its reader on."""

    seconds: int
    url: str


@dataclass(frozen=True, slots=True)
class Page:
    """The parts of a page that links are about."""

    refresh: Refresh | None
    anchors: frozenset[str]
    source: str
    is_by_script: bool
    """Whether a script writes the text, so that its anchors cannot be seen here."""


def read_page(reply: Reply) -> Page:
    """Read a page, however broken."""
    text = _decode(reply)
    root = _parse(text)
    if root is None:
        return Page(None, frozenset(), text, is_by_script=True)
    anchors = {value for value in root.xpath("//@id | //a/@name") if value}
    return Page(_find_refresh(root, reply), frozenset(anchors), text, _is_by_script(root))


async def read_page_within(reply: Reply, seconds: float) -> Page:
    """The same in a time that ends, while other hosts are listened to; a page for which it is not
    enough cannot be judged. There are pages that the parser takes minutes for."""
    try:
        async with asyncio.timeout(seconds):
            return await asyncio.to_thread(read_page, reply)
    except TimeoutError:
        return Page(None, frozenset(), "", is_by_script=True)


def read_refresh_header(reply: Reply) -> Refresh | None:
    """The header `Refresh`, which browsers take for the element."""
    return _read_refresh(reply.headers.get("refresh", ""), reply)


def cut_fragment(fragment: str) -> str:
    """The anchor that a fragment asks for; nothing where it asks for none."""
    anchor = unquote(fragment.partition(":~:")[0])
    return "" if _NO_ANCHOR.fullmatch(anchor) else anchor


def has_anchor(page: Page, anchor: str) -> bool:
    """Whether a page has an anchor: as it is, as GitHub writes those of an author, or in what its
    scripts are given."""
    names = (anchor, f"user-content-{anchor}")
    if any(name in page.anchors for name in names):
        return True
    return any(
        re.search(rf"[\"']{re.escape(name)}[\"'\\]", page.source) is not None for name in names
    )


def find_nearest_anchor(page: Page, anchor: str) -> str:
    """The anchor of a page that looks most like one that it lacks."""
    names = {name.removeprefix("user-content-") for name in page.anchors}
    same = next((name for name in sorted(names) if name.lower() == anchor.lower()), "")
    return same or (find_nearest(anchor, sorted(names)) if len(names) <= _MOST_NAMES else "")


def _decode(reply: Reply) -> str:
    match = re.search(r"charset\s*=\s*[\"']?([\w:.-]+)", reply.headers.get("content-type", ""))
    declared = _CHARSET.search(reply.body[:2048])
    names = [match[1]] if match else []
    names += [declared[1].decode()] if declared else []
    for name in names:
        # One that nobody knows is no reason not to read on.
        with contextlib.suppress(LookupError, ValueError):
            if _ENCODING.fullmatch(codecs.lookup(name).name):
                return reply.body.decode(name, "replace")
    return reply.body.decode("utf-8", "replace")


def _parse(text: str) -> HtmlElement | None:
    # The bytes are said to be UTF-8 here, so that nothing that the page says of itself counts.
    parser = HTMLParser(encoding="utf-8", huge_tree=True)
    try:
        return document_fromstring(text.encode("utf-8", "replace"), parser=parser)
    except (etree.LxmlError, ValueError):
        return None


def _find_refresh(root: HtmlElement, reply: Reply) -> Refresh | None:
    base = next(iter(root.xpath("//base/@href")), "")
    # Within noscript it speaks to browsers that run no scripts, and those are few.
    for element in root.xpath("//meta[@http-equiv and @content][not(ancestor::noscript)]"):
        if element.get("http-equiv").strip().lower() == "refresh":
            refresh = _read_refresh(element.get("content"), reply, base)
            if refresh:
                return refresh
    return None


def _read_refresh(text: str, reply: Reply, base: str = "") -> Refresh | None:
    match = _REFRESH.fullmatch(text[:_LONGEST_REFRESH])
    if match is None or int(match["seconds"][:9]) > _MOST_SECONDS:
        return None
    try:
        start = urljoin(reply.url, base)
        return Refresh(int(match["seconds"]), urljoin(start, match["url"].strip()))
    except ValueError:
        return None


def _is_by_script(root: HtmlElement) -> bool:
    """Whether there is a script and little else, or an empty element that it fills. Within one
    that is filled already another one is a part of the page."""
    length = 0
    has_script = False
    silent = 0
    """Elements around us whose text nobody sees."""
    outermost: tuple[HtmlElement, int] | None = None
    """The element for a script that is open, and the length of the text before it."""
    is_left_empty = False
    for event, element in etree.iterwalk(root, events=("start", "end", "comment", "pi")):
        is_silent = element.tag in ("script", "style", "noscript")
        if event == "start":
            has_script = has_script or element.tag == "script"
            silent += is_silent
            if outermost is None and (element.get("id") or "").lower() in _ROOTS:
                outermost = element, length
            length += 0 if silent else _count_signs(element.text)
            continue
        silent -= is_silent
        if outermost is not None and element is outermost[0]:
            is_left_empty = is_left_empty or length == outermost[1]
            outermost = None
        length += 0 if silent else _count_signs(element.tail)
    return has_script and (is_left_empty or length < _LITTLE_TEXT)


def _count_signs(text: str | None) -> int:
    """The characters of a text, spaces between its words included."""
    return len(" ".join(text.split())) if text else 0
