"""Pages of the PDF in the EPUB: which thing of the book is the first on each of them.

Two readers of the same edition can then name a page to each other. A page begins in the EPUB at
its first heading, table, figure or block of code, which is where the PDF has a named place.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import pikepdf

from bindery.book.this_edition import Edition


def find_pages(pdf: Path, edition: Edition) -> Mapping[str, int]:
    """The page on which each named place of the book stands, counted from 1 as the PDF prints it.
    Empty where no PDF of the same commit lies there, as the report beside it tells."""
    if not edition.commit or not pdf.is_file() or not _is_same(pdf, edition):
        return {}
    try:
        with pikepdf.open(pdf) as file:
            return _read_pages(file)
    except (pikepdf.PdfError, OSError):
        return {}  # what lies there is no PDF, or half of one


def _is_same(pdf: Path, edition: Edition) -> bool:
    try:
        report = json.loads((pdf.parent / "report.json").read_text(encoding="utf-8"))
        return bool(report["outputs"]["pdf"]["edition"] == edition.name)
    except (OSError, ValueError, KeyError, TypeError):
        return False


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
