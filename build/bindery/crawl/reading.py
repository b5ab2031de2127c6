"""Read the links of the site and the EPUB from their files, independently of the renderers."""

from __future__ import annotations

import re
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote, urljoin, urlsplit

from lxml import etree
from lxml import html as lxml_html
from msgspec import Struct
from msgspec.structs import replace

_NOTES = frozenset(
    (
        *(("sup", "note"), ("a", "back"), ("a", "term")),
        *(("span", "origin"), ("div", "origins"), ("details", "origins"), ("nav", "letters")),
    )
)
"""Elements and classes of notes. The class alone is not enough: an alert is a `note` too."""
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:|//")


class Written(Struct, frozen=True):
    """A link or an image in an output."""

    page: str
    """The page of a site, the file in an EPUB, or the page number in a PDF."""
    address: str
    is_text: bool = True
    """Whether it is in the author's text, not in a note, a menu or the contents."""
    is_image: bool = False
    is_alternative: bool = False
    """Whether it is another file for an image, from `srcset`."""
    fault: str = ""
    """Why it is broken; otherwise empty."""


def leaves_book(address: str) -> bool:
    """Whether an address leads out of the output."""
    return _SCHEME.match(address) is not None


def find_place(address: str, page: str) -> str:
    """The target of a link on a page: a decoded path in the output with an id after `#`, or the
    decoded address if it leaves the book."""
    if leaves_book(address):
        return unquote(address)
    parts = urlsplit(urljoin(f"file:///{quote(page)}", address))
    path = unquote(parts.path).removeprefix("/")
    return f"{path}#{unquote(parts.fragment)}" if parts.fragment else path


def read_site(site: Path) -> Mapping[str, tuple[Written, ...]]:
    """The links of each page of a site, by path."""
    pages = {}
    for path in sorted(site.rglob("*.html")):
        page = path.relative_to(site).as_posix()
        root = lxml_html.parse(str(path), lxml_html.HTMLParser(encoding="utf-8")).getroot()
        pages[page] = tuple(_read_page(root, page, "article"))
    return pages


def _read_page(root: Any, page: str, text: str) -> Iterator[Written]:
    """The links below an element, in order; `text` is the element with the author's text."""

    def walk(element: Any, *, is_text: bool) -> Iterator[Written]:
        if not isinstance(element.tag, str):
            return
        name = element.tag.rpartition("}")[2]
        if name == text:
            is_text = True
        elif any((name, each) in _NOTES for each in (element.get("class") or "").split()):
            is_text = False
        for address, is_alternative in _list_addresses(element):
            if not address.startswith("data:"):
                yield Written(page, address, is_text, name in ("img", "source"), is_alternative)
        for child in element:
            yield from walk(child, is_text=is_text)

    yield from walk(root, is_text=False)


def _list_addresses(element: Any) -> Iterator[tuple[str, bool]]:
    for attribute in ("href", "src"):
        if element.get(attribute) is not None:
            yield element.get(attribute), False
    for candidate in (element.get("srcset") or "").split(","):
        yield from ((address, True) for address in candidate.split()[:1])


def read_epub(path: Path) -> Mapping[str, tuple[Written, ...]]:
    """The links of each file of an EPUB, including its table of contents."""
    with zipfile.ZipFile(path) as archive:
        names = archive.namelist()
        trees = {
            name: etree.fromstring(archive.read(name))
            for name in names
            if name.endswith((".xhtml", ".ncx"))
        }
    ids = {name: {e.get("id") for e in tree.iter()} for name, tree in trees.items()}

    def find_fault(written: Written) -> str:
        if leaves_book(written.address):
            return ""
        file, _, fragment = find_place(written.address, written.page).partition("#")
        if file not in names:
            return "there is no such file"
        return "the file has no such id" if fragment and fragment not in ids[file] else ""

    return {
        name: tuple(
            replace(written, fault=find_fault(written))
            for written in _read_page(tree, name, "body")
        )
        for name, tree in trees.items()
    }
