"""Which addresses a book leads its readers to, where they stand, and which are never asked."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address, IPv6Network
from urllib.parse import SplitResult, urldefrag, urlsplit, urlunsplit

import idna

from bindery.check.inspect import Inspection
from bindery.core.model import Chapter, Link, Span, ToWeb
from bindery.core.repository import Tree

_EXAMPLES = ("example", "example.com", "example.net", "example.org", "invalid", "test")
# RFC 6761, RFC 6762 with its appendix G, RFC 7686, RFC 8375 and what routers call their network.
_PRIVATE_ENDINGS = tuple(
    "corp home home.arpa internal intranet lan local localdomain localhost onion private".split()
)
_PLACEHOLDERS = frozenset("<>{}[]$%*")
# Signs that no name of a host has, and that other programs read otherwise than this one.
_NO_NAME = re.compile(r"[\x00-\x20\x7f\"^`|\\]")
# What ends in a number is an address of IPv4 to browsers and to the system, however it is typed.
_NUMBER = re.compile(r"[0-9]+|0[xX][0-9a-fA-F]*")
_GLOBAL_UNICAST = IPv6Network("2000::/3")
_COMPATIBLE = IPv6Network("::/96")
_TRANSLATED = IPv6Network("64:ff9b::/96")

EXAMPLE, PRIVATE, MALFORMED = "example host", "private host", "broken URL"

ReasonNotToAsk = Callable[[str], str]
"""Why an address is not asked; nothing where it may be."""


@dataclass(frozen=True, slots=True)
class Address:
    """An address as it is written in the book, and all places where it stands."""

    url: str
    places: tuple[Span, ...]

    @property
    def page(self) -> str:
        """What is asked of the host: the address without its anchor."""
        return urldefrag(complete_url(self.url)).url

    @property
    def fragment(self) -> str:
        return urldefrag(self.url).fragment


@dataclass(frozen=True, slots=True)
class Gathered:
    """The addresses to ask in the order of their first places, and those left out, with the
    reason."""

    addresses: tuple[Address, ...]
    left_out: Mapping[str, str]


def gather_addresses(inspection: Inspection, find_reason: ReasonNotToAsk | None = None) -> Gathered:
    """Every address with http or https in chapters and data, once."""
    reason_of = find_reason or find_reason_not_to_ask
    places: dict[str, list[Span]] = {}
    generated: dict[str, list[Span]] = {}
    for chapter in inspection.book.chapters:
        regions = inspection.quotations[chapter.path].regions
        lines = {
            line
            for region in regions
            for line in range(region.opening.line, region.closing.line + 1)
        }
        for link in chapter.links:
            target = inspection.resolved.links[link]
            if isinstance(target, ToWeb) and leads_to_web(target.url):
                span = find_place(chapter, link)
                kind = generated if span.line in lines else places
                kind.setdefault(target.url, []).append(span)
    for url, span in _iterate_data(inspection):
        places.setdefault(url, []).append(span)
    # What was generated is changed where it comes from: it counts only where that is not known.
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
    """Where the destination of a link stands: for one with a label, in its definition."""
    for definition in chapter.definitions if link.label else ():
        if definition.key == link.label:
            return definition.destination_span
    return link.span


def complete_url(url: str) -> str:
    """The address with the scheme that a browser would add."""
    return f"https:{url}" if url.startswith("//") else url


def leads_to_web(url: str) -> bool:
    """Whether an address has a scheme of the web: nothing else is ever asked."""
    return complete_url(url).partition(":")[0].lower() in ("http", "https")


def find_host(url: str) -> str:
    """The host as its queue is called: the port counts where it is not the usual one.

    Raises ValueError where it is no address.
    """
    parts = urlsplit(url)
    host = normalise_host(parts.hostname or "")
    return host if parts.port in (None, 80, 443) else f"{host}:{parts.port}"


def normalise_host(host: str) -> str:
    """The name of a host in the letters in which it is looked up: however an author types it, it
    is the same host.

    Raises ValueError where it cannot be a name.
    """
    if host.isascii():
        return host.lower().rstrip(".")
    labels = idna.uts46_remap(host, std3_rules=False).rstrip(".").split(".")
    # A label of plain letters is taken as it is, with the underscores that some hosts have.
    return ".".join(n if n.isascii() else idna.alabel(n).decode("ascii") for n in labels)


def write_request_url(url: str) -> str:
    """An address as it is asked for: the name of its host as it is looked up.

    Raises ValueError where it is no address.
    """
    parts = urlsplit(url)
    host = parts.hostname or ""
    if host.isascii():
        return url
    before, at, _ = parts.netloc.rpartition("@")
    port = "" if parts.port is None else f":{parts.port}"
    return urlunsplit(parts._replace(netloc=f"{before}{at}{normalise_host(host)}{port}"))


def find_reason_not_to_ask(url: str) -> str:
    """Why an address is never asked: its host is an example, is not on the web, or it is none."""
    parts = _split(complete_url(url))
    try:
        host = normalise_host(parts.hostname or "") if parts else ""
    except ValueError:
        return MALFORMED
    # Behind a backslash one program sees the host, and another one the path.
    if parts is None or not host or "\\" in parts.netloc or any(map(str.isspace, url)):
        return MALFORMED
    try:
        return "" if is_on_web(ipaddress.ip_address(host)) else PRIVATE
    except ValueError:
        pass
    if _PLACEHOLDERS & set(host) or _NO_NAME.search(host):
        return MALFORMED
    if _NUMBER.fullmatch(host.rpartition(".")[2]):
        return MALFORMED
    if _ends_in(host, _EXAMPLES):
        return EXAMPLE
    return PRIVATE if _ends_in(host, _PRIVATE_ENDINGS) or "." not in host else ""


def is_on_web(address: IPv4Address | IPv6Address) -> bool:
    """Whether an address belongs to one host on the internet. One of IPv6 that stands for one of
    IPv4 is as good as that."""
    if isinstance(address, IPv4Address):
        return address.is_global and not address.is_multicast
    inner = _find_inner(address)
    if inner is not None:
        return is_on_web(inner)
    return address in _GLOBAL_UNICAST and address.is_global


def _find_inner(address: IPv6Address) -> IPv4Address | None:
    """The address of IPv4 that one of IPv6 leads to: mapped, translated, or through a tunnel."""
    if address.ipv4_mapped or address.sixtofour:
        return address.ipv4_mapped or address.sixtofour
    if address in _TRANSLATED or address in _COMPATIBLE:
        return IPv4Address(int(address) & 0xFFFFFFFF)
    return None


def _ends_in(host: str, endings: tuple[str, ...]) -> bool:
    return any(host == name or host.endswith(f".{name}") for name in endings)


def _split(url: str) -> SplitResult | None:
    try:
        parts = urlsplit(url)
        _ = parts.port, parts.hostname
    except ValueError:
        return None
    return parts


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
    """Where a row has an address: on its line, on a later one of its own, or in the schema."""
    lines = _read_lines(tree, path)
    schema = path.removesuffix(".csv") + ".yaml"
    places = [(path, number, text) for number, text in enumerate(lines, 1)]
    places = [*places[line - 1 :], *places[: line - 1]]
    if schema != path:
        places += [
            (schema, number, text) for number, text in enumerate(_read_lines(tree, schema), 1)
        ]
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
