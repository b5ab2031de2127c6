"""Pages of the PDF in the EPUB: which thing of the book is the first on each of them.

Two readers of the same edition can then name a page to each other. A page begins in the EPUB at
its first heading, table, figure or block of code, which is where the PDF has a named place.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pikepdf

from bindery.book.this_edition import Edition
from bindery.render.completeness import is_of_edition


def find_pages(pdf: Path, edition: Edition) -> Mapping[str, int]:
    """The page of each named place of the book, counted from 1 as the PDF prints it. Empty without
    a PDF of the same edition."""
    if not is_of_edition(pdf, edition):
        return {}
    try:
        with pikepdf.open(pdf) as file:
            return _read_pages(file)
    except (pikepdf.PdfError, OSError):
        return {}  # half a PDF


def _read_pages(file: pikepdf.Pdf) -> Mapping[str, int]:
    names = file.Root.get("/Names", pikepdf.Dictionary()).get("/Dests")
    if names is None:
        return {}
    numbers = {page.obj.objgen: number for number, page in enumerate(file.pages, 1)}
    return {
        str(name): numbers[place[0].objgen]
        for name, place in pikepdf.NameTree(names).items()
        if isinstance(place, pikepdf.Array) and getattr(place[0], "objgen", None) in numbers
    }
