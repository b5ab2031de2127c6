"""Read an HTML page: its refresh and its anchors."""

from __future__ import annotations

import contextlib
import re
from urllib.parse import unquote, urljoin

from lxml import etree
from lxml.html import HtmlElement, HTMLParser, document_fromstring
from msgspec import Struct

from bindery.core.suggestions import find_nearest
from bindery.web.fetch import Reply

_MOST_SECONDS = 5
"""A later refresh reloads the page itself."""
_REFRESH = re.compile(
    r"\s*(?P<seconds>\d+)(?:\.\d*)?\s*[;,]\s*(?:url\s*=\s*)?(?P<quote>[\"']?)(?P<url>.+?)(?P=quote)\s*",
    re.IGNORECASE | re.DOTALL,
)
_CHARSET = re.compile(rb"<meta[^>]+charset\s*=\s*[\"']?\s*([A-Za-z0-9_:.-]+)", re.IGNORECASE)
# Not anchors: lines of a file, text fragments, client-side routes, pages of a PDF, and content that
# GitHub loads on scrolling.
_NO_ANCHOR = re.compile(
    r"L\d+(C\d+)?(-L?\d+(C\d+)?)?|top|[!/].*|.*=.*|"
    r"(issuecomment|discussioncomment|pullrequestreview|issue|event|discussion|commitcomment)-?_?r?\d+",
    re.IGNORECASE | re.DOTALL,
)
_MOST_NAMES = 5_000
"""Most anchors to search for a similar one."""
_LITTLE_TEXT = 400
"""A page with fewer characters is rendered by a script."""
_ROOTS = frozenset(("root", "app", "__next", "__nuxt", "___gatsby", "svelte", "q-app"))
"""Ids of the empty element into which scripts render a page."""


class Refresh(Struct, frozen=True):
    """A page that redirects its reader."""

    seconds: int
    url: str


class Page(Struct, frozen=True):
    """The parts of a page that matter for links."""

    refresh: Refresh | None
    anchors: frozenset[str]
    source: str
    is_by_script: bool
    """Whether a script renders the text, so that its anchors are unknown."""


def read_page(reply: Reply) -> Page:
    """Parse a page, however malformed."""
    text = _decode(reply)
    try:
        # Encode the text again so that no declaration in it counts.
        parser = HTMLParser(encoding="utf-8", huge_tree=True)
        root: HtmlElement = document_fromstring(text.encode("utf-8", "replace"), parser=parser)
    except (etree.LxmlError, ValueError):
        return Page(None, frozenset(), text, is_by_script=True)
    anchors = {value for value in root.xpath("//@id | //a/@name") if value}
    return Page(_find_refresh(root, reply), frozenset(anchors), text, _is_by_script(root))


def cut_fragment(fragment: str) -> str:
    """The anchor in a fragment; empty if it is none."""
    anchor = unquote(fragment.partition(":~:")[0])
    return "" if _NO_ANCHOR.fullmatch(anchor) else anchor


def has_anchor(page: Page, anchor: str) -> bool:
    """Whether a page has an anchor: as given, with GitHub's prefix for user content, or in script
    data."""
    names = (anchor, f"user-content-{anchor}")
    if any(name in page.anchors for name in names):
        return True
    return any(
        re.search(rf"[\"']{re.escape(name)}[\"'\\]", page.source) is not None for name in names
    )


def find_nearest_anchor(page: Page, anchor: str) -> str:
    """The page's anchor most similar to a missing one."""
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
    # Those in noscript are for browsers without scripts.
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
    Modifies the tree."""
    if root.find(".//script") is None:
        return False
    etree.strip_elements(
        root, "script", "style", "noscript", etree.Comment, etree.PI, with_tail=False
    )
    # Only the outermost counts: inside a filled one, another is part of the page.
    filled = next((e for e in root.iter() if (e.get("id") or "").lower() in _ROOTS), None)
    if filled is not None and not any(map(str.strip, filled.itertext())):
        return True
    return len(" ".join(root.text_content().split())) < _LITTLE_TEXT
