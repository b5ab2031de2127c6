"""Which addresses a book leads its readers to, where they stand, and which are never asked."""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from urllib.parse import SplitResult, urldefrag, urlsplit

from bindery.load import Tree
from bindery.model import Chapter, Link, Span, ToWeb
from bindery.pipeline import Inspection

_RESERVED = ("example.com", "example.net", "example.org")
# RFC 2606, RFC 6762, RFC 8375 and the name that networks at home and at work use.
_RESERVED_ENDINGS = ("example", "invalid", "localhost", "test", "local", "internal", "home.arpa")
_PLACEHOLDERS = frozenset("<>{}[]$%*")

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
            if isinstance(target, ToWeb) and _leads_to_web(target.url):
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


def find_host(url: str) -> str:
    """The host as its queue is called: the port counts where it is not the usual one."""
    parts = urlsplit(url)
    host = (parts.hostname or "").rstrip(".")
    return host if parts.port in (None, 80, 443) else f"{host}:{parts.port}"


def find_reason_not_to_ask(url: str) -> str:
    """Why an address is never asked: its host is an example, is not on the web, or it is none."""
    parts = _split(complete_url(url))
    host = (parts.hostname or "").rstrip(".") if parts else ""
    if parts is None or not host or _PLACEHOLDERS & set(host) or any(map(str.isspace, url)):
        return MALFORMED
    try:
        return "" if ipaddress.ip_address(host).is_global else PRIVATE
    except ValueError:
        pass
    if any(host == name or host.endswith(f".{name}") for name in _RESERVED):
        return EXAMPLE
    if host.rpartition(".")[2] in ("example", "invalid", "test"):
        return EXAMPLE
    is_private = any(host == name or host.endswith(f".{name}") for name in _RESERVED_ENDINGS)
    return PRIVATE if is_private or "." not in host else ""


def _split(url: str) -> SplitResult | None:
    try:
        parts = urlsplit(url)
        _ = parts.port, parts.hostname
    except ValueError:
        return None
    return parts


def _leads_to_web(url: str) -> bool:
    return complete_url(url).partition(":")[0].lower() in ("http", "https")


def _iterate_data(inspection: Inspection) -> Iterator[tuple[str, Span]]:
    """The addresses in data: cells that hold one, and the sources of rows and cells."""
    for table in inspection.evidence.data.values():
        for row in table.rows:
            cited = (row.citation, *row.cell_citations.values())
            texts = [*(c.source for c in cited), *(c.via for c in cited), *row.cells]
            urls = [text for text in texts if isinstance(text, str) and "://" in text]
            for url in dict.fromkeys(urls):
                if _leads_to_web(url) and not any(map(str.isspace, url)):
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
