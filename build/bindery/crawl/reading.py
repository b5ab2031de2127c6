"""The links of the outputs, read from the files without knowing how they were written: a page as a
browser reads it, an EPUB from its manifest, a PDF from its annotations, names and outline."""

from __future__ import annotations

import re
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal
from urllib.parse import unquote, urljoin, urlsplit

import pikepdf
from lxml import etree
from lxml import html as lxml_html

Role = Literal["text", "note", "frame"]
"""What a link belongs to: the author's text; marks of footnotes and of the origins of numbers;
menus, contents and the rest around the text."""

_CONTAINER = "META-INF/container.xml"
_CONTAINER_NAMES = "{urn:oasis:names:tc:opendocument:xmlns:container}"
_NOTES = frozenset(
    (
        *(("sup", "note"), ("a", "back"), ("a", "term")),
        *(("span", "origin"), ("div", "origins"), ("details", "origins")),
    )
)
"""Elements and classes of notes; the class alone is not enough: an alert is a `note` too."""
_REFRESH = re.compile(r"\s*\d+\s*;\s*url\s*=\s*(.+)", re.IGNORECASE)
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:|//")
_BASE = "file:///"


@dataclass(frozen=True, slots=True)
class Written:
    """A link or an image in an output."""

    page: str
    """The page of a site, the file inside an EPUB, the number of a page in a PDF."""
    address: str
    role: Role = "text"
    is_image: bool = False
    is_alternative: bool = False
    """Whether it is another file for an image, among which a browser chooses."""
    fault: str = ""
    """Why it leads nowhere, if the output itself shows it."""


def read_site(site: Path) -> Mapping[str, tuple[Written, ...]]:
    """The links of each page of a site, by its path."""
    pages = {}
    for path in sorted(site.rglob("*.html")):
        page = path.relative_to(site).as_posix()
        root = lxml_html.parse(str(path), lxml_html.HTMLParser(encoding="utf-8")).getroot()
        pages[page] = () if root is None else tuple(_read_page(root, page, "article"))
    return pages


def _read_page(root: Any, page: str, text: str) -> Iterator[Written]:
    """The links below an element, in order; `text` names the element with the author's text."""

    def walk(element: Any, role: Role) -> Iterator[Written]:
        if not isinstance(element.tag, str):
            return
        name = element.tag.rpartition("}")[2]
        classes = (element.get("class") or "").split()
        if name == text and role == "frame":
            role = "text"
        elif role == "text" and any((name, each) in _NOTES for each in classes):
            role = "note"
        for address, is_alternative in _list_addresses(name, element):
            if not address.startswith("data:"):
                is_image = name in ("img", "source", "image")
                yield Written(page, address, role, is_image, is_alternative)
        for child in element:
            yield from walk(child, role)

    yield from walk(root, "frame")


def _list_addresses(name: str, element: Any) -> Iterator[tuple[str, bool]]:
    for attribute in ("href", "src", "{http://www.w3.org/1999/xlink}href"):
        if element.get(attribute) is not None:
            yield element.get(attribute), False
    if element.get("srcset") is not None:
        for candidate in element.get("srcset").split(","):
            yield from ((address, True) for address in candidate.split()[:1])
    if name == "meta" and (element.get("http-equiv") or "").lower() == "refresh":
        refresh = _REFRESH.match(element.get("content") or "")
        if refresh:
            yield refresh[1].strip(), False


@dataclass(frozen=True, slots=True)
class EpubLinks:
    """The links of an EPUB by file, and what is wrong with its package."""

    files: Mapping[str, tuple[Written, ...]]
    faults: tuple[str, ...]


def find_in_epub(address: str, file: str) -> str:
    """Where a link in a file of an EPUB leads: a decoded path inside it with the id behind `#`, or
    the address itself if it leaves the book."""
    if _SCHEME.match(address):
        return address
    parts = urlsplit(urljoin(f"{_BASE}{file}", address))
    path = unquote(parts.path).lstrip("/")
    return f"{path}#{unquote(parts.fragment)}" if parts.fragment else path


def read_epub(path: Path) -> EpubLinks:
    """Read an EPUB as reading software does: its container names the package, whose manifest names
    the files."""
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    faults: list[str] = []
    trees: dict[str, Any] = {}
    for name, data in members.items():
        if name.endswith((".xhtml", ".ncx", ".opf", ".xml")):
            try:
                trees[name] = etree.fromstring(data)
            except etree.XMLSyntaxError as error:
                faults.append(f"'{name}' is not well formed: {error}")
    package = _find_package(trees)
    if package not in trees:
        return EpubLinks({}, (*faults, f"there is no package '{package}'"))
    listed: dict[str, str] = {}
    for element in trees[package].iter():
        tag = str(element.tag).rpartition("}")[2]
        if tag == "item":
            target = find_in_epub(element.get("href") or "", package)
            listed[element.get("id") or ""] = target
            if target not in members:
                faults.append(f"the manifest names '{target}', which is not there")
        elif tag == "itemref" and element.get("idref") not in listed:
            faults.append(f"the spine names '{element.get('idref')}', which is not in the manifest")
    known = set(listed.values())
    ids = {
        name: {e.get("id") for e in tree.iter() if e.get("id") is not None}
        for name, tree in trees.items()
        if name in known
    }
    files = {
        name: tuple(
            replace(written, fault=_find_fault(written, ids, known, members))
            for written in _read_page(trees[name], name, "body")
        )
        for name in members
        if name in known and name in trees
    }
    return EpubLinks(files, tuple(faults))


def _find_package(trees: Mapping[str, Any]) -> str:
    if _CONTAINER in trees:
        for element in trees[_CONTAINER].iter(f"{_CONTAINER_NAMES}rootfile"):
            return str(element.get("full-path"))
    return ""


def _find_fault(
    written: Written,
    ids: Mapping[str, set[str]],
    known: set[str],
    members: Mapping[str, bytes],
) -> str:
    if _SCHEME.match(written.address):
        return ""
    file, _, fragment = find_in_epub(written.address, written.page).partition("#")
    if file not in members:
        return "there is no such file"
    if file not in known:
        return "the file is not in the manifest"
    if fragment and fragment not in ids.get(file, ()):
        return "the file has no such id"
    return ""


@dataclass(frozen=True, slots=True)
class PdfPlace:
    """A place in a PDF: its page, from 1, and its height above the bottom."""

    page: int
    top: float


@dataclass(frozen=True, slots=True)
class PdfLinks:
    """The links of a PDF by page, its named places, and its outline."""

    pages: Sequence[tuple[Written, ...]]
    """The address of a place inside begins with `#`."""
    places: Mapping[str, PdfPlace | None]
    """None if the place of a name is not on a page."""
    outline: Sequence[tuple[str, PdfPlace | None]]


def read_pdf(path: Path) -> PdfLinks:
    """Read the annotations, the named places and the outline of a PDF."""
    with pikepdf.open(path) as file:
        numbers = {page.obj.objgen: number for number, page in enumerate(file.pages, 1)}
        names = file.Root.get("/Names", pikepdf.Dictionary()).get("/Dests")
        entries = pikepdf.NameTree(names).items() if names is not None else ()
        places = {str(name): _read_place(place, numbers) for name, place in entries}
        pages = [
            tuple(_read_annotations(page, str(number), places))
            for number, page in enumerate(file.pages, 1)
        ]
        with file.open_outline() as outline:
            lines = tuple(_read_outline(outline.root, numbers, places))
    return PdfLinks(pages, places, lines)


def _read_place(place: Any, numbers: Mapping[Any, int]) -> PdfPlace | None:
    if isinstance(place, pikepdf.Dictionary):
        place = place.get("/D")
    if not isinstance(place, pikepdf.Array) or not len(place):
        return None
    first = place[0]
    number = numbers.get(getattr(first, "objgen", None))
    if number is None:
        return None
    try:
        top = float(place[3])
    except (IndexError, TypeError, ValueError):
        top = 0.0
    return PdfPlace(number, top)


def _read_annotations(
    page: pikepdf.Page, number: str, places: Mapping[str, PdfPlace | None]
) -> Iterator[Written]:
    for annotation in page.get("/Annots", pikepdf.Array()):
        if annotation.get("/Subtype") != "/Link":
            continue
        action = annotation.get("/A", pikepdf.Dictionary())
        target = annotation.get("/Dest", action.get("/D"))
        if target is not None and not isinstance(target, pikepdf.Array):
            name = str(target)
            fault = "" if places.get(name) else "there is no place of that name"
            yield Written(number, f"#{name}", fault=fault)
        elif "/URI" in action:
            yield Written(number, str(action["/URI"]))
        else:
            yield Written(number, "", fault="it has no destination")


def _read_outline(
    items: Sequence[pikepdf.OutlineItem],
    numbers: Mapping[Any, int],
    places: Mapping[str, PdfPlace | None],
) -> Iterator[tuple[str, PdfPlace | None]]:
    for item in items:
        target: Any = item.destination
        if target is None and item.action is not None:
            target = item.action.get("/D")
        is_name = target is not None and not isinstance(target, pikepdf.Array)
        place = places.get(str(target)) if is_name else _read_place(target, numbers)
        yield item.title, place
        yield from _read_outline(item.children, numbers, places)
