"""What an HTML page says: where it sends its reader, and which anchors it has."""

from __future__ import annotations

import contextlib
import re
from dataclasses import dataclass
from urllib.parse import unquote, urljoin

from lxml import etree
from lxml.html import HtmlElement, HTMLParser, document_fromstring

from bindery.core.suggestions import find_nearest
from bindery.web.fetch import Reply

_MOST_SECONDS = 5
"""A refresh that comes later reloads the page itself."""
_REFRESH = re.compile(
    r"\s*(?P<seconds>\d+)(?:\.\d*)?\s*[;,]\s*(?:url\s*=\s*)?(?P<quote>[\"']?)(?P<url>.+?)(?P=quote)\s*",
    re.IGNORECASE | re.DOTALL,
)
_CHARSET = re.compile(rb"<meta[^>]+charset\s*=\s*[\"']?\s*([A-Za-z0-9_:.-]+)", re.IGNORECASE)
# Not anchors: lines of a file, text to look for, the route of a program, a page of a PDF, and
# what a script of GitHub loads while the reader scrolls.
_NO_ANCHOR = re.compile(
    r"L\d+(C\d+)?(-L?\d+(C\d+)?)?|top|[!/].*|.*=.*|"
    r"(issuecomment|discussioncomment|pullrequestreview|issue|event|discussion|commitcomment)-?_?r?\d+",
    re.IGNORECASE | re.DOTALL,
)
_MOST_NAMES = 5_000
"""The most anchors among which a similar one is looked for."""
_LITTLE_TEXT = 400
"""Characters; a page with fewer is written by a script."""
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
    try:
        # The text is encoded again so that no declaration in it counts.
        parser = HTMLParser(encoding="utf-8", huge_tree=True)
        root: HtmlElement = document_fromstring(text.encode("utf-8", "replace"), parser=parser)
    except (etree.LxmlError, ValueError):
        return Page(None, frozenset(), text, is_by_script=True)
    anchors = {value for value in root.xpath("//@id | //a/@name") if value}
    return Page(_find_refresh(root, reply), frozenset(anchors), text, _is_by_script(root))


def cut_fragment(fragment: str) -> str:
    """The anchor that a fragment asks for; empty if it asks for none."""
    anchor = unquote(fragment.partition(":~:")[0])
    return "" if _NO_ANCHOR.fullmatch(anchor) else anchor


def has_anchor(page: Page, anchor: str) -> bool:
    """Whether a page has an anchor: as it is, as GitHub writes an author's, or in the data of its
    scripts."""
    names = (anchor, f"user-content-{anchor}")
    if any(name in page.anchors for name in names):
        return True
    return any(
        re.search(rf"[\"']{re.escape(name)}[\"'\\]", page.source) is not None for name in names
    )


def find_nearest_anchor(page: Page, anchor: str) -> str:
    """The anchor of a page that looks most like a missing one."""
    names = {name.removeprefix("user-content-") for name in page.anchors}
    same = next((name for name in sorted(names) if name.lower() == anchor.lower()), "")
    return same or (find_nearest(anchor, sorted(names)) if len(names) <= _MOST_NAMES else "")


def _decode(reply: Reply) -> str:
    match = re.search(r"charset\s*=\s*[\"']?([\w:.-]+)", reply.headers.get("content-type", ""))
    declared = _CHARSET.search(reply.body[:2048])
    names = [match[1]] if match else []
    names += [declared[1].decode()] if declared else []
    for name in names:
        with contextlib.suppress(LookupError, ValueError):  # an unknown encoding
            return reply.body.decode(name, "replace")
    return reply.body.decode("utf-8", "replace")


def _find_refresh(root: HtmlElement, reply: Reply) -> Refresh | None:
    base = next(iter(root.xpath("//base/@href")), "")
    # Within noscript it is for browsers that run no scripts, and those are few.
    for element in root.xpath("//meta[@http-equiv and @content][not(ancestor::noscript)]"):
        if element.get("http-equiv").strip().lower() != "refresh":
            continue
        match = _REFRESH.fullmatch(element.get("content"))
        if match and int(match["seconds"][:9]) <= _MOST_SECONDS:
            with contextlib.suppress(ValueError):  # not an address
                start = urljoin(reply.url, base)
                return Refresh(int(match["seconds"]), urljoin(start, match["url"].strip()))
    return None


def _is_by_script(root: HtmlElement) -> bool:
    """Whether the page has a script and little else, or an empty element that a script fills.
    Changes the tree."""
    if root.find(".//script") is None:
        return False
    etree.strip_elements(
        root, "script", "style", "noscript", etree.Comment, etree.PI, with_tail=False
    )
    # Only the outermost counts: within one that is filled, another is a part of the page.
    filled = next((e for e in root.iter() if (e.get("id") or "").lower() in _ROOTS), None)
    if filled is not None and not any(map(str.strip, filled.itertext())):
        return True
    return len(" ".join(root.text_content().split())) < _LITTLE_TEXT
