"""Path mapping of a move, and the repository's files after it."""

from __future__ import annotations

import posixpath
from pathlib import PurePosixPath

from msgspec import Struct

from bindery.core.repository import Kind, Tree
from bindery.core.transaction import map_path


class Moves(Struct, frozen=True):
    """Old and new paths. A folder moves with its contents."""

    pairs: tuple[tuple[str, str], ...]

    def map(self, path: str) -> str:
        """The new path of an old one."""
        return map_path(self.pairs, path)

    def unmap(self, path: str) -> str | None:
        """The old path of a new one, or None if nothing will be there."""
        for old, new in self.pairs:
            if path == new or path.startswith(f"{new}/"):
                return old + path[len(new) :]
        return None if self.map(path) != path else path


class MovedTree(Tree):
    """The files below a root as they will be after moves."""

    def __init__(self, tree: Tree, moves: Moves) -> None:
        super().__init__(tree.root)
        self._tree = tree
        self._moves = moves
        self._made = {parent for _, new in moves.pairs for parent in _list_parents(new)}
        self.emptied = frozenset(_find_emptied(tree, moves) - self._made)
        """Folders that become empty."""

    def find_kind(self, path: str) -> Kind | None:
        if not path or path in self._made:
            return "folder"
        before = self._moves.unmap(path)
        return None if before is None or path in self.emptied else self._tree.find_kind(before)

    def leaves_root(self, path: str) -> bool:
        before = self._moves.unmap(path)
        return before is not None and self._tree.leaves_root(before)

    def find_other_case(self, path: str) -> str:
        actual = self._tree.find_other_case(path)
        return self._moves.map(actual) if actual else ""


def _list_parents(path: str) -> list[str]:
    return [str(parent) for parent in PurePosixPath(path).parents if str(parent) != "."]


def _find_emptied(tree: Tree, moves: Moves) -> set[str]:
    gone = {old for old, _ in moves.pairs}
    emptied: set[str] = set()
    for old, _ in moves.pairs:
        for parent in _list_parents(old):
            if any(posixpath.join(parent, name) not in gone for name in tree.list_folder(parent)):
                break
            gone.add(parent)
            emptied.add(parent)
    return emptied
