"""The web addresses that a book leads its readers to, where they are written, and which of them are
never asked."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address, IPv6Network
from urllib.parse import urldefrag, urlsplit

from bindery.check.inspect import Inspection
from bindery.core.model import Chapter, Link, Span, ToWeb
from bindery.core.repository import Tree

_EXAMPLES = ("example", "example.com", "example.net", "example.org", "invalid", "test")
# RFC 6761, RFC 6762 with its appendix G, RFC 7686, RFC 8375 and what routers call their network.
_PRIVATE_ENDINGS = tuple(
    "corp home home.arpa internal intranet lan local localdomain localhost onion private".split()
)
_NO_NAME = re.compile(r"[^a-z0-9._-]")
# Browsers and the system read a name that ends in a number as an IPv4 address.
_NUMBER = re.compile(r"[0-9]+|0x[0-9a-f]*")
_GLOBAL_UNICAST = IPv6Network("2000::/3")
_TUNNELS = IPv6Network("2002::/16")
_TRANSLATED = IPv6Network("64:ff9b::/96")
"""How networks without IPv4 write the IPv4 addresses of hosts."""

EXAMPLE, PRIVATE, MALFORMED = "example host", "private host", "broken URL"

ReasonNotToAsk = Callable[[str], str]
"""Why an address is not asked; empty if it may be."""


@dataclass(frozen=True, slots=True)
class Address:
    """An address as it is written in the book, and everywhere it is written."""

    url: str
    places: tuple[Span, ...]

    @property
    def page(self) -> str:
        """What the host is asked for: the address without its anchor."""
        return urldefrag(self.url).url

    @property
    def fragment(self) -> str:
        return urldefrag(self.url).fragment


@dataclass(frozen=True, slots=True)
class Gathered:
    """The addresses to ask, in reading order, and the reasons why the rest are left out."""

    addresses: tuple[Address, ...]
    left_out: Mapping[str, str]


def gather_addresses(inspection: Inspection, find_reason: ReasonNotToAsk | None = None) -> Gathered:
    """Every address with http or https in chapters and data, once."""
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
    # A generated link is corrected at its source, so its own place counts only without one.
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
    """Where the destination of a link is written: for one with a label, in its definition."""
    for definition in chapter.definitions if link.label else ():
        if definition.key == link.label:
            return definition.destination_span
    return link.span


def is_generated(inspection: Inspection, span: Span) -> bool:
    """Whether `bindery fill` has written the text at a place of a chapter."""
    return any(
        region.opening.line <= span.line <= region.closing.line
        for region in inspection.quotations[span.path].regions
    )


def leads_to_web(url: str) -> bool:
    """Whether an address has a scheme of the web: nothing else is ever asked."""
    return url.partition(":")[0].lower() in ("http", "https")


def find_host(url: str) -> str:
    """The name of a host's queue, with the port unless it is the usual one.

    Raises ValueError if it is not an address.
    """
    parts = urlsplit(url)
    host = _normalise_host(parts.hostname or "")
    return host if parts.port in (None, 80, 443) else f"{host}:{parts.port}"


def _normalise_host(host: str) -> str:
    """The ASCII name of a host: the same one however an author types it.

    Raises ValueError if it cannot be a name.
    """
    return host.encode("idna").decode("ascii").lower().rstrip(".")


def find_reason_not_to_ask(url: str) -> str:
    """Why an address is never asked: it is an example, private, or not an address."""
    try:
        parts = urlsplit(url)
        host, _ = _normalise_host(parts.hostname or ""), parts.port
    except ValueError:
        return MALFORMED
    try:
        return "" if is_on_web(ipaddress.ip_address(host)) else PRIVATE
    except ValueError:  # a name
        pass
    if not host or _NO_NAME.search(host) or any(map(str.isspace, url)):
        return MALFORMED
    if _NUMBER.fullmatch(host.rpartition(".")[2]):
        return MALFORMED
    if _ends_in(host, _EXAMPLES):
        return EXAMPLE
    return PRIVATE if _ends_in(host, _PRIVATE_ENDINGS) or "." not in host else ""


def is_on_web(address: IPv4Address | IPv6Address) -> bool:
    """Whether an address belongs to one host on the internet."""
    if isinstance(address, IPv6Address):
        if address not in _TRANSLATED:
            is_public = address in _GLOBAL_UNICAST and address not in _TUNNELS
            return is_public and address.is_global
        address = IPv4Address(int(address) & 0xFFFFFFFF)
    return address.is_global and not address.is_multicast


def _ends_in(host: str, endings: tuple[str, ...]) -> bool:
    return any(host == name or host.endswith(f".{name}") for name in endings)


def _iterate_data(inspection: Inspection) -> Iterator[tuple[str, Span]]:
    """The addresses in data: cells that hold one, and the sources of rows and cells."""
    for table in inspection.evidence.data.values():
        for row in table.rows:
            cited = (row.citation, *row.cell_citations.values())
            texts = [*(c.source for c in cited), *(c.via for c in cited), *row.cells]
            urls = [text for text in texts if isinstance(text, str) and "://" in text]
            for url in dict.fromkeys(urls):
                if leads_to_web(url) and not any(map(str.isspace, url)):
                    yield url, _find_in_data(inspection.tree, table.path, row.line, url)


def _find_in_data(tree: Tree, path: str, line: int, url: str) -> Span:
    """Where a row has an address: in its own lines, or in the schema."""
    rows = list(enumerate(_read_lines(tree, path), 1))[line - 1 :]
    schema = path.removesuffix(".csv") + ".yaml"
    places = [(path, *row) for row in rows]
    places += [(schema, *row) for row in enumerate(_read_lines(tree, schema), 1)]
    for where, number, text in places:
        col = text.find(url)
        if col >= 0:
            return Span(where, number, col + 1, len(url))
    return Span(path, line)


def _read_lines(tree: Tree, path: str) -> list[str]:
    try:
        return tree.read_bytes(path).decode("utf-8-sig", "replace").splitlines()
    except OSError:
        return []
