"""The notes below tables: paragraphs that are stressed as a whole. All outputs set them small."""

from __future__ import annotations

from typing import Any


def mark_table_notes(root: Any) -> None:
    """Give the notes below the tables of a tree, with or without names of XHTML, their class."""
    for parent in root.iter():
        is_below = False
        for child in parent:
            if _is_table(child):
                is_below = True
            elif is_below and _is_stressed(child):
                child.set("class", "table-note")
            else:
                is_below = False


def _name(element: Any) -> str:
    """The name of an element without its namespace; nothing for a comment."""
    return element.tag.rpartition("}")[2] if isinstance(element.tag, str) else ""


def _is_table(element: Any) -> bool:
    """Whether an element is a table, or the box in which one scrolls."""
    if _name(element) == "div" and element.get("role") == "region":
        return any(_name(child) == "table" for child in element)
    return _name(element) == "table"


def _is_stressed(element: Any) -> bool:
    """Whether an element is a paragraph of which every word is stressed."""
    return (
        _name(element) == "p"
        and [_name(child) for child in element] == ["em"]
        and not (element.text or "").strip()
        and not (element[0].tail or "").strip()
    )
