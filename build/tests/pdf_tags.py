"""The tags of a PDF as a tree that tests can ask, and what PDF/UA-1 wants of it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pikepdf

CHILDREN = {
    "L": {"LI", "L", "Caption"},
    "LI": {"Lbl", "LBody"},
    "TOC": {"TOC", "TOCI", "Caption"},
    "TOCI": {"Lbl", "Reference", "NonStruct", "P", "TOC"},
    "Table": {"TR", "THead", "TBody", "TFoot", "Caption"},
    "THead": {"TR"},
    "TBody": {"TR"},
    "TFoot": {"TR"},
    "TR": {"TH", "TD"},
}
"""What these roles may hold, by ISO 32000-1, 14.8.4."""
PARENTS = {
    role: {parent for parent, roles in CHILDREN.items() if role in roles}
    for role in ("LI", "LBody", "TOCI", "TR", "TH", "TD", "THead", "TBody")
}
ROLES = {
    "Document", "Part", "Sect", "Div", "Art", "BlockQuote", "Caption", "TOC", "TOCI", "P", "H1",
    "H2", "H3", "H4", "H5", "H6", "L", "LI", "Lbl", "LBody", "Table", "TR", "TH", "TD", "THead",
    "TBody", "TFoot", "Span", "Note", "Code", "Link", "Figure", "NonStruct",
}  # fmt: skip


@dataclass
class Tag:
    """A structure element: its role, its dictionary, what it holds and how many pieces of marked
    content are its own."""

    role: str
    entry: Any
    parent: Tag | None = None
    children: list[Tag] = field(default_factory=list)
    marks: int = 0
    objects: int = 0

    def walk(self) -> Iterator[Tag]:
        yield self
        for child in self.children:
            yield from child.walk()


@dataclass
class Tags:
    """All that a PDF says of its structure."""

    top: Tag
    owned: dict[int, set[int]]
    """The marked content that belongs to a tag, by page."""
    parents: dict[int, Any]

    def find(self, role: str) -> list[Tag]:
        return [tag for tag in self.top.walk() if tag.role == role]


def read_tags(file: pikepdf.Pdf) -> Tags:
    """The tags of an open PDF."""
    pages = {page.obj.objgen: n for n, page in enumerate(file.pages)}
    owned: dict[int, set[int]] = {n: set() for n in range(len(pages))}
    root = file.Root.StructTreeRoot

    def read(entry: Any, parent: Tag | None) -> Tag:
        tag = Tag(str(entry.S).lstrip("/"), entry, parent)
        kids = entry.get("/K", pikepdf.Array())
        for kid in kids if isinstance(kids, pikepdf.Array) else [kids]:
            if isinstance(kid, int):
                tag.marks += 1
                owned[pages[entry.Pg.objgen]].add(kid)
            elif str(kid.get("/Type")) == "/OBJR":
                tag.objects += 1
            else:
                assert kid.P.objgen == entry.objgen
                tag.children.append(read(kid, tag))
        return tag

    top = read(root.K[0], None)
    parents = {int(k): v for k, v in pikepdf.NumberTree(root.ParentTree).items()}
    return Tags(top, owned, parents)


def find_faults(path: Path) -> list[str]:
    """What in a PDF is not as PDF/UA-1 wants it, one line for each kind and place."""
    with pikepdf.open(path) as file:
        return list(dict.fromkeys(_list_faults(file)))


def _list_faults(file: pikepdf.Pdf) -> Iterator[str]:
    tags = read_tags(file)
    yield from _list_faults_of_tags(tags)
    for number, page in enumerate(file.pages):
        if str(page.get("/Tabs")) != "/S":
            yield f"page {number + 1}: order of tabs"
        yield from (f"page {number + 1}: {fault}" for fault in _check_content(page, tags, number))
        for annotation in page.get("/Annots", pikepdf.Array()):
            if not str(annotation.get("/Contents", "")).strip():
                yield f"page {number + 1}: a link without words"
            if tags.parents.get(int(annotation.get("/StructParent", -1))) is None:
                yield f"page {number + 1}: a link outside the tags"


def _list_faults_of_tags(tags: Tags) -> Iterator[str]:
    level = 0
    notes: set[str] = set()
    for tag in tags.top.walk():
        role = tag.role
        if role not in ROLES:
            yield f"unknown role {role}"
        held = {child.role for child in tag.children}
        if role in CHILDREN and (held - CHILDREN[role] or (tag.marks and role != "TOCI")):
            yield f"{role} holds {sorted(held - CHILDREN[role]) or 'text'}"
        if role in PARENTS and tag.parent is not None and tag.parent.role not in PARENTS[role]:
            yield f"{role} in {tag.parent.role}"
        if match := re.fullmatch(r"H([1-6])", role):
            if int(match[1]) > level + 1:
                yield f"H{match[1]} after H{level}"
            level = int(match[1])
        if role == "Figure":
            if not str(tag.entry.get("/Alt", "")).strip():
                yield "a figure without a text"
            left, bottom, right, top = (float(v) for v in tag.entry.A.BBox)
            if not (0 <= left < right and 0 <= bottom < top):
                yield "a figure outside its page"
        if role == "TH" and str(tag.entry.A.get("/Scope")) not in ("/Column", "/Row"):
            yield "a head of a table without scope"
        if role == "Table":
            yield from _check_table(tag)
        if role == "Note":
            notes.add(str(tag.entry.get("/ID", "")))
        if role == "Link" and not tag.objects:
            yield "a link that leads nowhere"
        if not tag.children and not tag.marks and not tag.objects and role not in ("TD", "TH"):
            yield f"an empty {role}"
    if len(notes) != len(tags.find("Note")) or "" in notes:
        yield "a note without an id of its own"


def _check_table(table: Tag) -> Iterator[str]:
    if [child.role for child in table.children].count("Caption") > 1:
        yield "two captions"
    rows = [tag for tag in table.walk() if tag.role == "TR"]
    if not any(cell.role == "TH" for row in rows for cell in row.children):
        yield "a table without heads"
    # A cell that reaches down stands in no later row, so that such rows are shorter.
    spans = [[cell.entry.get("/A", {}) for cell in row.children] for row in rows]
    if not any("/RowSpan" in span for row in spans for span in row):
        lengths = {sum(int(span.get("/ColSpan", 1)) for span in row) for row in spans}
        if len(lengths) > 1:
            yield "rows of different lengths"


_PIECE = re.compile(
    rb"/(?P<role>\w+)\s*(?:<<\s*/MCID\s+(?P<mark>\d+)\s*>>\s*BDC|BMC)\b|(?P<end>\bEMC\b)"
    rb"|(?P<shown>(?<=[\s\]>)])(?:Tj|TJ|Do|f\*?|S|s|B\*?|b\*?)(?=\s))"
)


def _check_content(page: pikepdf.Page, tags: Tags, number: int) -> Iterator[str]:
    """What is drawn on a page is content of a tag or an artifact, and nothing is both."""
    data = b"\n" + page.obj.Contents.read_bytes() + b"\n"
    depth, marks = 0, set()
    for match in _PIECE.finditer(data):
        if match["role"]:
            depth += 1
            if match["mark"]:
                marks.add(int(match["mark"]))
            elif match["role"] != b"Artifact":
                yield "marked content that is no artifact and belongs to nothing"
        elif match["end"]:
            depth -= 1
        elif depth == 0:
            yield "something drawn that is neither content nor artifact"
    if depth:
        yield "marks that do not close"
    if marks != tags.owned[number]:
        yield "content without a tag"
    parents = tags.parents.get(int(page.obj.get("/StructParents", -1)), ())
    if any(m >= len(parents) or parents[m] is None for m in marks):
        yield "content without a parent"


def find_strange_fonts(path: Path) -> set[str]:
    """The fonts of a PDF that bindery does not carry."""
    with pikepdf.open(path) as file:
        names = {
            str(font.BaseFont).split("+")[-1]
            for page in file.pages
            for font in page.resources.get("/Font", {}).values()
        }
    ours = re.compile(r"(source|bindery|noto)-[a-z0-9-]+|serif|sans-serif|monospace|emoji")
    return {name for name in names if not ours.match(name)}


def count_empty_boxes(path: Path) -> int:
    """How often a PDF draws the glyph 0, which stands for one that a font does not have."""
    count = 0
    with pikepdf.open(path) as file:
        for page in file.pages:
            for shown in re.findall(
                rb"(?<!<)<([0-9a-fA-F]+)>(?!>)", page.obj.Contents.read_bytes()
            ):
                glyphs = [shown[n : n + 4] for n in range(0, len(shown), 4)]
                count += glyphs.count(b"0000")
    return count
