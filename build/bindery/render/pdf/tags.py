"""Fix the tags of the PDF where the engine does not follow PDF/UA.

Works on the engine's objects before the file is written: pieces of text become content of
their element, what a screen reader should skip is marked as an artifact, headings keep to the
order of levels, lists and tables contain only what they may, heads of tables have a scope, notes
have ids, and links have a description.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pydyf

ARTIFACT = "Artifact"
"""The role of elements that are not content; they are removed."""
_GROUPS = frozenset(
    f"/{role}" for role in ("Document", "Part", "Sect", "Div", "Art", "BlockQuote", "TOC", "L")
)
_HOLD_TEXT = frozenset(
    f"/{role}"
    for role in "P H1 H2 H3 H4 H5 H6 Span Code Link Lbl LBody Caption Note TH TD NonStruct".split()
)
_POINTS_OF_PIXEL = 0.75


def fix_structure(document: Any, pdf: Any, mark: str) -> None:
    """Fix the tags of a PDF before it is written. Their ids begin with `mark`."""
    _name_links(document)
    tree = _Tree(pdf, [page.height * _POINTS_OF_PIXEL for page in document.pages], mark)
    tree.fix()


def _name_links(document: Any) -> None:
    """Give each link its text as description, which screen readers read."""
    for page in document.pages:
        for _, target, _, box in page.links:
            annotation = getattr(box, "link_annotation", None)
            if annotation and box.element is not None:
                shown = box.element.get("aria-label") or "".join(box.element.itertext())
                words = " ".join(shown.split())
                annotation["Contents"] = pydyf.String(words or str(target))


class _Tree:
    """The tree of tags: a walk in reading order that rewrites each element."""

    def __init__(self, pdf: Any, heights: list[float], mark: str) -> None:
        self._pdf = pdf
        self._mark = mark
        self._root = self._find(pdf.catalog["StructTreeRoot"])
        self._pages = {ref: n for n, ref in enumerate(pdf.page_references)}
        self._heights = heights
        self._owners: list[dict[int, bytes]] = [{} for _ in heights]
        """The element of each piece of marked content, by page."""
        self._level = 0
        self._notes = 0
        self._ids: list[tuple[bytes, Any, bytes]] = []

    def _find(self, reference: bytes) -> Any:
        return self._pdf.objects[int(reference.split(b" ", 1)[0])]

    def fix(self) -> None:
        top = self._find(self._root["K"][0])
        top["K"] = pydyf.Array(self._fix_children(top, in_head=False))
        self._write_parents()
        self._write_ids()
        self._mark_artifacts()

    # --- elements ---

    def _fix_children(self, element: Any, *, in_head: bool) -> Iterator[Any]:
        """The fixed children of an element."""
        for kid in element["K"]:
            if isinstance(kid, int):
                self._own(element, kid)
                yield kid
                continue
            child = self._find(kid)
            if child["Type"] != "/StructElem":
                yield kid
                continue
            yield from self._fix(child, kid, element, in_head=in_head)

    def _own(self, element: Any, mark: int) -> None:
        self._owners[self._pages[element["Pg"]]][mark] = element.reference

    def _fix(self, element: Any, kid: bytes, parent: Any, *, in_head: bool) -> Iterator[Any]:
        role = element["S"]
        if role == f"/{ARTIFACT}" or (role == "/Figure" and "Alt" not in element):
            self._remove(element)
            return
        if role == "/Table" and parent["S"] == "/Table":  # rows outside a body
            role = element["S"] = "/TBody"
        is_head = in_head or role == "/THead"
        kids = element["K"]
        is_bare = role == "/Span" and len(kids) == 1 and isinstance(kids[0], int)
        if is_bare and parent["S"] in _HOLD_TEXT and parent["Pg"] == element["Pg"]:
            element.free = "f"  # a piece of text: content of the element around it
            self._own(parent, kids[0])
            yield kids[0]
            return
        if role[:2] == "/H" and role[2:].isdigit():
            self._level = min(int(role[2:]), self._level + 1)
            element["S"] = f"/H{self._level}"
        fixed = pydyf.Array(self._fix_children(element, in_head=is_head))
        element["K"] = fixed
        if not fixed and role not in ("/TD", "/TH"):
            element.free = "f"  # an anchor or a rule: nothing to read
            return
        if role == "/NonStruct":
            if all(isinstance(k, bytes) and self._is_element(k) for k in fixed):
                element.free = "f"
                for k in fixed:
                    child = self._find(k)
                    child["P"] = parent.reference
                    yield k
                return
            if parent["S"] in _GROUPS:
                element["S"] = "/P"
        self._describe(element, role, parent, in_head=in_head)
        yield from self._place(element, kid, parent)

    def _is_element(self, reference: bytes) -> bool:
        return bool(self._find(reference)["Type"] == "/StructElem")

    def _remove(self, element: Any) -> None:
        """Remove an element with everything in it; its content becomes an artifact."""
        element.free = "f"
        for kid in element["K"]:
            if isinstance(kid, bytes) and self._is_element(kid):
                self._remove(self._find(kid))

    def _describe(self, element: Any, role: str, parent: Any, *, in_head: bool) -> None:
        """Add the attributes that a role needs."""
        if role == "/TH":
            is_first = not parent["K"] or self._find(parent["K"][0]) is element
            scope = "Row" if is_first and not in_head else "Column"
            element["A"]["Scope"] = f"/{scope}"
            if "ID" in element:
                element["ID"].string = f"{self._mark}{element['ID'].string}"  # its cells share it
                self._ids.append((element["ID"].data, element["ID"], element.reference))
        elif role == "/Note":
            self._notes += 1
            element["ID"] = pydyf.String(f"{self._mark}note-{self._notes}")
            self._ids.append((element["ID"].data, element["ID"], element.reference))
        elif role == "/Figure" and "A" in element:
            height = self._heights[self._pages[element["Pg"]]]
            left, top, right, bottom = (v * _POINTS_OF_PIXEL for v in element["A"]["BBox"])
            element["A"]["BBox"] = pydyf.Array((left, height - bottom, right, height - top))

    def _place(self, element: Any, kid: bytes, parent: Any) -> Iterator[bytes]:
        """The element, inside what its parent asks for around it."""
        role, around = element["S"], parent["S"]
        if around == "/L" and role not in ("/LI", "/L", "/Caption"):
            body = element if role == "/LBody" else self._wrap(element, "LBody", parent)
            yield self._wrap(body, "LI", parent).reference
        elif around == "/LI" and role not in ("/Lbl", "/LBody"):
            yield self._wrap(element, "LBody", parent).reference
        elif around == "/TOCI" and role == "/Link":
            yield self._wrap(element, "P", parent).reference
        else:
            yield kid

    def _wrap(self, element: Any, role: str, parent: Any) -> Any:
        wrapper = pydyf.Dictionary(
            {
                "Type": "/StructElem",
                "S": f"/{role}",
                "K": pydyf.Array([element.reference]),
                "Pg": element["Pg"],
                "P": parent.reference,
            }
        )
        self._pdf.add_object(wrapper)
        element["P"] = wrapper.reference
        return wrapper

    # --- the lookup tables of the tree ---

    def _write_parents(self) -> None:
        """Record to which element each piece of content belongs."""
        numbers = self._find(self._root["ParentTree"])["Nums"]
        for page, owners in enumerate(self._owners):
            count = max(owners, default=-1) + 1
            numbers[2 * page + 1] = pydyf.Array(owners.get(m, b"null") for m in range(count))

    def _write_ids(self) -> None:
        if not self._ids:
            return
        names = pydyf.Array()
        for _, name, reference in sorted(self._ids, key=lambda entry: entry[0]):
            names.extend((name, reference))
        self._root["IDTree"] = pydyf.Dictionary({"Names": names})

    def _mark_artifacts(self) -> None:
        """Mark content that belongs to no element, such as running heads, as artifacts."""
        for owners, reference in zip(self._owners, self._pdf.page_references, strict=True):
            stream = self._find(self._find(reference)["Contents"]).stream
            marks = [
                position
                for position, entry in enumerate(stream)
                if isinstance(entry, pydyf.Dictionary) and entry.get("MCID", -1) not in owners
            ]
            for position in reversed(marks):
                if "MCID" in stream[position]:
                    stream[position - 1 : position + 2] = [b"/Artifact", b"BMC"]
