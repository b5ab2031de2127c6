"""Update data files after a move: cells that name a section of the book.

A column of type `place` has paths relative to the chapters' folder, optionally with an anchor, for
views that make links of them. Only these cells change.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping

from bindery.core.config import Config
from bindery.core.repository import Tree
from bindery.evidence.published_data import DataTable, load_data
from bindery.rewrite.moving.listing import MapPath


def relist_places(tree: Tree, config: Config, map_path: MapPath) -> Mapping[str, tuple[str, str]]:
    """The text before and after of each CSV file with a place that moves."""
    changed = {}
    for table in load_data(tree, config.data):
        if isinstance(table, DataTable) and table.path.endswith(".csv"):
            text = tree.read_bytes(table.path).decode("utf-8")
            new = _relist(text, table, config.folder, map_path)
            if new != text:
                changed[table.path] = text, new
    return changed


def _relist(text: str, table: DataTable, folder: str, map_path: MapPath) -> str:
    lines = text.splitlines(keepends=True)
    columns = [index for index, column in enumerate(table.columns) if column.kind == "place"]
    for row in table.rows:
        for place in dict.fromkeys(str(row.cells[index] or "") for index in columns):
            new = _carry(place, folder, map_path)
            if place and new != place:
                # A whole field between commas or quotes.
                field = rf'(?<![^,"\r\n]){re.escape(place)}(?![^,"\r\n])'
                lines[row.line - 1] = re.sub(field, new.replace("\\", r"\\"), lines[row.line - 1])
    return "".join(lines)


def _carry(place: str, folder: str, map_path: MapPath) -> str:
    path, mark, anchor = place.partition("#")
    whole = posixpath.normpath(posixpath.join(folder, path))
    new = map_path(whole)
    return place if new == whole else f"{posixpath.relpath(new, folder or '.')}{mark}{anchor}"
