"""The web addresses in a book, their positions, and those that are never requested."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Iterator, Mapping
from ipaddress import IPv4Address, IPv6Address, IPv6Network
from urllib.parse import urldefrag, urlsplit

from msgspec import Struct

from bindery.check.inspect import Inspection
from bindery.core.model import Chapter, Link, Span, ToWeb
from bindery.core.repository import Tree

_EXAMPLES = ("example", "example.com", "example.net", "example.org", "invalid", "test")
# RFC 6761, RFC 6762 with its appendix G, RFC 7686, RFC 8375 and common names of home routers.
_PRIVATE_ENDINGS = tuple(
    "corp home home.arpa internal intranet lan local localdomain localhost onion private".split()
)
_NO_NAME = re.compile(r"[^a-z0-9._-]")
# Browsers and operating systems parse a name that ends in a number as an IPv4 address.
_NUMBER = re.compile(r"[0-9]+|0x[0-9a-f]*")
_GLOBAL_UNICAST = IPv6Network("2000::/3")
_TUNNELS = IPv6Network("2002::/16")
_TRANSLATED = IPv6Network("64:ff9b::/96")
"""Prefix for IPv4 addresses in IPv6-only networks."""

EXAMPLE, PRIVATE, MALFORMED = "example host", "private host", "broken URL"

ReasonNotToAsk = Callable[[str], str]
"""Returns why an address is not requested, or empty."""


class Address(Struct, frozen=True):
    """An address and all its positions in the book."""

    url: str
    places: tuple[Span, ...]

    @property
    def page(self) -> str:
        """The address to request: without its anchor."""
        return urldefrag(self.url).url

    @property
    def fragment(self) -> str:
        return urldefrag(self.url).fragment


class Gathered(Struct, frozen=True):
    """The addresses to request, in reading order, and why the rest are skipped."""

    addresses: tuple[Address, ...]
    left_out: Mapping[str, str]


def gather_addresses(inspection: Inspection, find_reason: ReasonNotToAsk | None = None) -> Gathered:
    """Every http and https address in chapters and data, once."""
    reason_of = find_reason or find_reason_not_to_ask
    places: dict[str, list[Span]] = {}
    generated: dict[str, list[Span]] = {}
    for chapter in inspection.book.chapters:
        for link in chapter.links:
            target = inspection.resolved.links[link]
            if isinstance(target, ToWeb) and leads_to_web(target.url):
                span = find_place(chapter, link)
                kind = generated if is_generated(inspection, span) else places
                kind.setdefault(target.url, []).append(span)
    for url, span in _iterate_data(inspection):
        places.setdefault(url, []).append(span)
    # A generated link must be fixed at its source, so its own position is only a fallback.
    for url, spans in generated.items():
        places.setdefault(url, spans)
    left_out = {url: reason for url in places if (reason := reason_of(url))}
    kept = (
        Address(url, tuple(sorted(set(spans))))
        for url, spans in places.items()
        if url not in left_out
    )
    return Gathered(tuple(sorted(kept, key=lambda address: address.places)), left_out)


def find_place(chapter: Chapter, link: Link) -> Span:
    """The position of a link's destination; for a link with a label, in its definition."""
    for definition in chapter.definitions if link.label else ():
        if definition.key == link.label:
            return definition.destination_span
    return link.span


def is_generated(inspection: Inspection, span: Span) -> bool:
    """Whether `bindery fill` wrote the text at a position."""
    return any(
        region.opening.line <= span.line <= region.closing.line
        for region in inspection.quotations[span.path].regions
    )


def leads_to_web(url: str) -> bool:
    """Whether the scheme is http or https: nothing else is requested."""
    return url.partition(":")[0].lower() in ("http", "https")


def find_host(url: str) -> str:
    """The name of a host's queue, with the port unless it is the default.

    Raises ValueError if this is not an address.
    """
    parts = urlsplit(url)
    host = _normalise_host(parts.hostname or "")
    return host if parts.port in (None, 80, 443) else f"{host}:{parts.port}"


def _normalise_host(host: str) -> str:
    """The ASCII form of a host name.

    Raises ValueError if it is not valid.
    """
    return host.encode("idna").decode("ascii").lower().rstrip(".")


def find_reason_not_to_ask(url: str) -> str:
    """Why an address is never requested: it is an example, private, or invalid."""
    try:
        parts = urlsplit(url)
        host, _ = _normalise_host(parts.hostname or ""), parts.port
    except ValueError:
        return MALFORMED
    try:
        return "" if is_on_web(ipaddress.ip_address(host)) else PRIVATE
    except ValueError:  # not an IP address
        pass
    if not host or _NO_NAME.search(host) or any(map(str.isspace, url)):
        return MALFORMED
    if _NUMBER.fullmatch(host.rpartition(".")[2]):
        return MALFORMED
    if _ends_in(host, _EXAMPLES):
        return EXAMPLE
    return PRIVATE if _ends_in(host, _PRIVATE_ENDINGS) or "." not in host else ""


def is_on_web(address: IPv4Address | IPv6Address) -> bool:
    """Whether an IP address belongs to a single host on the internet."""
    if isinstance(address, IPv6Address):
        if address not in _TRANSLATED:
            is_public = address in _GLOBAL_UNICAST and address not in _TUNNELS
            return is_public and address.is_global
        address = IPv4Address(int(address) & 0xFFFFFFFF)
    return address.is_global and not address.is_multicast


def _ends_in(host: str, endings: tuple[str, ...]) -> bool:
    return any(host == name or host.endswith(f".{name}") for name in endings)


def _iterate_data(inspection: Inspection) -> Iterator[tuple[str, Span]]:
    """The addresses in data: in cells, and as sources of rows and cells."""
    for table in inspection.evidence.data.values():
        for row in table.rows:
            cited = (row.citation, *row.cell_citations.values())
            texts = [*(c.source for c in cited), *(c.via for c in cited), *row.cells]
            urls = [text for text in texts if isinstance(text, str) and "://" in text]
            for url in dict.fromkeys(urls):
                if leads_to_web(url) and not any(map(str.isspace, url)):
                    yield url, _find_in_data(inspection.tree, table.path, row.line, url)


def _find_in_data(tree: Tree, path: str, line: int, url: str) -> Span:
    """The position of a row's address: in its own lines, or in the schema."""
    rows = list(enumerate(tree.read_lines(path), 1))[line - 1 :]
    schema = path.removesuffix(".csv") + ".yaml"
    places = [(path, *row) for row in rows]
    places += [(schema, *row) for row in enumerate(tree.read_lines(schema), 1)]
    for where, number, text in places:
        col = text.find(url)
        if col >= 0:
            return Span(where, number, col + 1, len(url))
    return Span(path, line)
