"""Joins the halves of a book, each a PDF with tags, into one file."""

from __future__ import annotations

import io
from collections.abc import Sequence
from string import ascii_uppercase
from typing import Any

import pikepdf

_NEXT_LETTERS = str.maketrans(ascii_uppercase, ascii_uppercase[1:] + ascii_uppercase[0])


def join_files(files: Sequence[bytes]) -> bytes:
    """One compressed PDF; the same bytes for the same files."""
    packed = io.BytesIO()
    with pikepdf.open(io.BytesIO(files[0])) as whole:
        for file in files[1:]:
            with pikepdf.open(io.BytesIO(file)) as more:
                _add(whole, more)
        whole.save(
            packed,
            compress_streams=True,
            object_stream_mode=pikepdf.ObjectStreamMode.generate,
            deterministic_id=True,
        )
    return packed.getvalue()


def _add(whole: pikepdf.Pdf, more: pikepdf.Pdf) -> None:
    """Add pages with their tags, the named places and the outline."""
    start = len(whole.pages)
    for page in more.pages:  # first, so that the rest leads to the copies
        whole.pages.append(page)
    added = list(whole.pages)[start:]
    root, other = whole.Root, more.Root
    _rename_fonts(added[0].obj.Resources.Font)
    _add_tags(root.StructTreeRoot, whole.copy_foreign(other.StructTreeRoot), added)
    names = more.make_indirect(other.Names.Dests)
    _add_names(root.Names.Dests, whole.copy_foreign(names))
    _add_outline(root.Outlines, whole.copy_foreign(other.Outlines))


def _rename_fonts(fonts: Any) -> None:
    """Both files embed subsets of the same fonts; a subset needs a name that no other has."""
    for font in fonts.values():
        tag, plus, name = str(font.BaseFont).partition("+")
        renamed = pikepdf.Name(f"{tag.translate(_NEXT_LETTERS)}{plus}{name}")
        for part in (font, *font.get("/DescendantFonts", ())):
            part.BaseFont = renamed
            if "/FontDescriptor" in part:
                part.FontDescriptor.FontName = renamed


def _add_tags(tree: Any, more: Any, pages: Sequence[pikepdf.Page]) -> None:
    """Add the tags of some pages, and renumber what refers to them with free numbers."""
    top = tree.K[0]
    for element in more.K[0].K:
        element.P = top
        top.K.append(element)
    numbers = tree.ParentTree.Nums
    free = int(numbers[len(numbers) - 2]) + 1
    for position, entry in enumerate(more.ParentTree.Nums):
        numbers.append(entry if position % 2 else entry + free)
    for page in pages:
        page.obj.StructParents += free
        for annotation in page.obj.get("/Annots", ()):
            annotation.StructParent += free
    if "/IDTree" in more:
        tree.IDTree = tree.get("/IDTree", pikepdf.Dictionary(Names=pikepdf.Array()))
        _add_names(tree.IDTree, more.IDTree)


def _add_names(tree: Any, more: Any) -> None:
    """Add the entries of a tree of names, which has to be sorted. A name that is there already
    keeps its place."""
    entries: dict[bytes, tuple[Any, Any]] = {}
    for names in (list(more.Names), list(tree.Names)):
        pairs = zip(names[::2], names[1::2], strict=True)
        entries |= {bytes(name): (name, value) for name, value in pairs}
    tree.Names = pikepdf.Array([one for _, entry in sorted(entries.items()) for one in entry])


def _add_outline(outline: Any, more: Any) -> None:
    """Append the entries of one outline to another."""
    entry = more.First
    while entry is not None:
        entry.Parent = outline
        entry = entry.get("/Next")
    outline.Last.Next, more.First.Prev = more.First, outline.Last
    outline.Last = more.Last
    outline.Count += more.Count
