"""Read links, named destinations and the outline of a finished PDF."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import BinaryIO

import pikepdf
from msgspec import Struct

Spot = tuple[int, float]
"""A page, from 1, and the distance from its top; sorted in reading order."""


class PdfLinks(Struct, frozen=True):
    """The links of a PDF and where they may lead."""

    pages: int
    links: Sequence[tuple[Spot, str]]
    """Where each link is and leads, in the order of the pages: `#name` inside the book, an address
    outside; empty for a link without a destination."""
    places: Mapping[str, Spot]
    """Where each named place is."""
    outline: Sequence[str]

    def find_fault(self, address: str) -> str:
        """Why a link leads nowhere; empty if it leads somewhere."""
        if not address:
            return "it has no destination"
        is_lost = address[0] == "#" and address[1:] not in self.places
        return "there is no destination of that name" if is_lost else ""


def read_links(source: Path | BinaryIO) -> PdfLinks:
    """Read the annotations, the named places and the outline of a PDF."""
    with pikepdf.open(source) as file:
        numbers = {page.obj.objgen: number for number, page in enumerate(file.pages, 1)}
        names = file.Root.get("/Names", pikepdf.Dictionary()).get("/Dests")
        entries = pikepdf.NameTree(names).items() if names is not None else ()
        places = {
            str(name): (numbers[place[0].objgen], -float(place[3])) for name, place in entries
        }
        links = [
            ((number, depth), address)
            for number, page in enumerate(file.pages, 1)
            for depth, address in _read_annotations(page)
        ]
        with file.open_outline() as outline:
            return PdfLinks(len(numbers), links, places, list(_read_outline(outline.root)))


def _read_annotations(page: pikepdf.Page) -> Iterator[tuple[float, str]]:
    for annotation in page.get("/Annots", pikepdf.Array()):
        if annotation.get("/Subtype") == "/Link":
            if "/Dest" in annotation:
                address = f"#{annotation.Dest}"
            else:
                address = str(annotation.get("/A", pikepdf.Dictionary()).get("/URI", ""))
            yield -float(annotation.Rect[3]), address


def _read_outline(items: Sequence[pikepdf.OutlineItem]) -> Iterator[str]:
    for item in items:
        yield item.title
        yield from _read_outline(item.children)
