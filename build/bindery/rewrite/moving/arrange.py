"""Turn a requested move into a plan: related files, refusals, changes."""

from __future__ import annotations

import contextlib
import os
import posixpath
import re
from collections.abc import Container, Iterator, Mapping
from pathlib import PurePosixPath

from bindery.book.markdown_files import Document
from bindery.core.config import FILE_NAME, Config
from bindery.core.model import ConfigError, Finding, Span
from bindery.core.repository import MARKDOWN, RECORDS_FOLDER, Tree
from bindery.core.suggestions import suggest
from bindery.core.transaction import Change
from bindery.rewrite.moving.listing import list_plain_lists, relist_chapters, relist_paths
from bindery.rewrite.moving.paths import Moves
from bindery.rewrite.moving.places import relist_places
from bindery.rewrite.moving.plan import RULE, Plan, plan_move

_VIEW_NAME = re.compile(r"[\w-]+")


def _refuse(path: str, message: str, hint: str = "") -> ConfigError:
    return ConfigError(Finding(Span.whole(path), RULE, message, hint))


def arrange_moves(config: Config, tree: Tree, old: str, new: str, *, into: bool = False) -> Moves:
    """The moves for "move OLD to NEW"; `into` says that NEW is a folder, existing or not.

    As with `mv`, an existing folder takes OLD in. The files next to a tool for its comparison, and
    the plots of a view, move too. Raises ConfigError if this would break something.
    """
    if not old or old == FILE_NAME:
        what = f"'{old}'" if old else "the root"
        raise _refuse(old or ".", f"{what} cannot be moved", f"{FILE_NAME} marks the root")
    kind = tree.find_kind(old)
    if kind is None:
        hint = suggest(old, tree.walk_files(""))
        raise _refuse(old, f"there is nothing at '{old}'", hint)
    name = posixpath.basename(old)
    if tree.find_kind(new) == "folder" or (into and kind == "file"):
        new = posixpath.join(new, name)
    if old == new:
        raise _refuse(old, f"'{old}' already exists")
    if new.startswith(f"{old}/"):
        raise _refuse(new, f"'{old}' cannot be moved into itself")
    if os.path.lexists(tree.root / new):
        raise _refuse(new, f"'{new}' already exists", "move it away first, or choose another name")
    for parent in PurePosixPath(new).parents:
        if str(parent) != "." and tree.find_kind(str(parent)) == "file":
            raise _refuse(new, f"'{parent}' is a file, not a folder")
    _refuse_fixed(config, tree, old, new)
    moves = Moves(((old, new), *_take_along(config, tree, old, new)))
    for extra, target in moves.pairs[1:]:
        if os.path.lexists(tree.root / target):
            raise _refuse(target, f"'{target}' already exists", f"'{extra}' has to move there")
    _refuse_chapters(config, moves)
    _refuse_tools(config, tree, moves)
    return moves


def _refuse_fixed(config: Config, tree: Tree, old: str, new: str) -> None:
    """Raise ConfigError for paths that bindery finds by name."""
    fixed = {
        RECORDS_FOLDER: "bindery finds records there, and tables quote them by name",
        posixpath.dirname(RECORDS_FOLDER) + "/schemas": "bindery checks records against it",
        config.data: "views use data files by name",
        config.views: "chapters quote views by name",
        config.figures: "`bindery fill` draws plots there",
    }
    if config.folder and (old == config.folder or config.folder.startswith(f"{old}/")):
        hint = "rename it by hand, with `folder` in chapters.yaml"
        raise _refuse(old, f"'{config.folder}' is the chapters' folder", hint)
    views = {PurePosixPath(path).stem for path in tree.walk_files(config.views)}
    for folder, why in fixed.items():
        moved = [path for path in (old, new) if path.startswith(f"{folder}/")]
        if folder == config.figures:  # other drawings may move
            moved = [p for p in moved if PurePosixPath(p).stem.removesuffix("-dark") in views]
        elif folder == config.views and len(moved) == 2 and old.endswith(".sql"):
            _refuse_view(new, views - {PurePosixPath(old).stem})
            moved = []
        is_whole = old == folder or folder.startswith(f"{old}/")
        if moved or (is_whole and tree.find_kind(folder)):
            hint = "add or rename files there by hand"
            raise _refuse(old, f"'{folder}' is reserved: {why}", hint)


def _refuse_view(new: str, others: Container[str]) -> None:
    name = PurePosixPath(new).stem
    fits = new.endswith(".sql") and _VIEW_NAME.fullmatch(name) and not name.endswith("-dark")
    if not fits or name in others:
        hint = "use letters, digits, _ and -, no existing view's name, and no -dark at the end"
        raise _refuse(new, f"'{name}' is not a valid view name", hint)


def _take_along(config: Config, tree: Tree, old: str, new: str) -> Iterator[tuple[str, str]]:
    """Files that must move too: the plots of a view."""
    before, after = PurePosixPath(old), PurePosixPath(new)
    if before.suffix != ".sql" or PurePosixPath(config.views) not in before.parents:
        return
    for ending in (".svg", "-dark.svg"):
        source, target = (f"{config.figures}/{path.stem}{ending}" for path in (before, after))
        if source != target and tree.find_kind(source) == "file":
            yield source, target


def _refuse_chapters(config: Config, moves: Moves) -> None:
    for entry in config.chapters:
        path = moves.map(entry.path)
        if path == entry.path:
            continue
        if not path.endswith(MARKDOWN):
            raise _refuse(path, f"'{entry.path}' is a chapter, so its name must end in .md")
        if config.folder and not path.startswith(f"{config.folder}/"):
            hint = "remove it from `parts` first, or move it within that folder"
            raise _refuse(path, f"chapters must be in the folder '{config.folder}'", hint)


def _refuse_tools(config: Config, tree: Tree, moves: Moves) -> None:
    for tool in config.tools:
        path = moves.map(tool.path)
        if PurePosixPath(path).name != PurePosixPath(tool.path).name:
            message = f"records and views know '{tool.path}' by its name, '{tool.name}'"
            raise _refuse(path, message, "keep the file name; only the folder can change")


def make_plan(config: Config, tree: Tree, documents: Mapping[str, Document], moves: Moves) -> Plan:
    """Plan moves, with their changes to `chapters.yaml`, plain lists and places in data. Raises
    BookError if links would break."""
    text = tree.read_bytes(FILE_NAME).decode("utf-8")
    listing = {FILE_NAME: (text, relist_chapters(text, config, moves.map))}
    for path in list_plain_lists(config):
        with contextlib.suppress(OSError, UnicodeDecodeError):  # missing or unreadable
            text = tree.read_bytes(path).decode("utf-8")
            listing[path] = text, relist_paths(text, path, moves.map)
    listing |= relist_places(tree, config, moves.map)
    return plan_move(config, tree, documents, moves, listing)


def make_change(plan: Plan) -> Change:
    """The changes of a plan on disk."""
    return Change(RULE, plan.texts, plan.moves.pairs, tuple(sorted(plan.emptied)))
