"""A move on the disk: what is asked for, what is refused, and putting it into effect."""

from __future__ import annotations

import contextlib
import os
import posixpath
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path, PurePosixPath

from bindery.book.markdown_files import Document
from bindery.core.config import FILE_NAME, Config
from bindery.core.model import ConfigError, Finding, Span
from bindery.core.repository import RECORDS_FOLDER, SKIPPED_FOLDERS, Tree
from bindery.core.suggestions import find_nearest
from bindery.core.transaction import Change, Texts, change_files
from bindery.rewrite.moving.listing import list_plain_lists, relist_chapters, relist_paths
from bindery.rewrite.moving.paths import Moves
from bindery.rewrite.moving.places import relist_places
from bindery.rewrite.moving.plan import RULE, Plan, plan_move

_VIEW_NAME = re.compile(r"[\w-]+")


def find_path(typed: str, root: Path, here: Path, *, must_exist: bool = False) -> str:
    """A path as typed on the command line, relative to the root.

    It starts at the current folder, or at the root where that is where something is. Raises
    ConfigError where it is outside the root.
    """
    starts = (here, root)
    chosen = next((s for s in starts if os.path.lexists(s / typed)), None)
    if chosen is None:
        parents = (s for s in starts if (s / typed).parent.is_dir() and _is_inside(s, root))
        chosen = root if must_exist else next(parents, here if _is_inside(here, root) else root)
    path = Path(os.path.normpath(chosen / typed))  # links are not followed: they are what moves
    with contextlib.suppress(OSError):
        path = path.parent.resolve() / path.name
    if not path.is_relative_to(root):
        message = f"'{typed}' is outside the folder '{root}'"
        raise _refuse(typed, message, "both paths lie in the folder of the book")
    relative = path.relative_to(root).as_posix()
    return "" if relative == "." else relative


def _is_inside(path: Path, root: Path) -> bool:
    return path.resolve().is_relative_to(root)


def _refuse(path: str, message: str, hint: str = "") -> ConfigError:
    return ConfigError(Finding(Span.whole(path), RULE, message, hint))


# --- what is asked for ---


def arrange_moves(config: Config, tree: Tree, old: str, new: str, *, into: bool = False) -> Moves:
    """The moves that come of "move OLD to NEW"; `into` says that NEW is a folder, there or not.

    A folder that exists takes OLD in, as `mv` has it. What is beside a tool for its own
    comparison, and the plots of a view, come along. Raises ConfigError where this would break.
    """
    if not old or old == FILE_NAME:
        what = f"'{old}'" if old else "the root"
        raise _refuse(old or ".", f"{what} cannot be moved", f"{FILE_NAME} marks the root")
    if ".git" in old.split("/"):
        raise _refuse(old, f"'{old}' belongs to git", "choose a file or folder of the book")
    kind = tree.find_kind(old)
    if kind is None:
        nearest = find_nearest(old, tree.walk_files(""))
        hint = f"did you mean '{nearest}'?" if nearest else ""
        raise _refuse(old, f"there is nothing at '{old}'", hint)
    name = posixpath.basename(old)
    if tree.find_kind(new) == "folder" or (into and kind == "file"):
        new = posixpath.join(new, name)
    if old == new:
        raise _refuse(old, f"'{old}' is there already")
    _refuse_place(new, is_folder=kind == "folder")
    if new.startswith(f"{old}/"):
        raise _refuse(new, f"'{old}' cannot be moved into itself")
    if os.path.lexists(tree.root / new):
        raise _refuse(
            new, f"'{new}' is there already", "move it away first, or choose another name"
        )
    for parent in PurePosixPath(new).parents:
        if str(parent) != "." and tree.find_kind(str(parent)) == "file":
            raise _refuse(new, f"'{parent}' is a file, not a folder")
        if str(parent) != "." and tree.find_kind(str(parent)) and tree.leaves_root(str(parent)):
            raise _refuse(new, f"'{parent}' leads out of the book", "choose another folder")
    _refuse_fixed(config, tree, old, new)
    moves = Moves(((old, new), *_take_along(config, tree, old, new)))
    for extra, target in moves.pairs[1:]:
        if os.path.lexists(tree.root / target):
            raise _refuse(target, f"'{target}' is there already", f"'{extra}' has to move there")
    _refuse_chapters(config, moves)
    _refuse_tools(config, tree, moves)
    return moves


def _refuse_place(new: str, *, is_folder: bool) -> None:
    """Raise ConfigError for a new path at which a file of the book would be lost."""
    if not new.isprintable():
        message = f"'{new}' holds a character that nobody sees"
        raise _refuse(new, message, "choose a name without it")
    names = new.split("/")
    for name in names if is_folder else names[:-1]:
        if name in SKIPPED_FOLDERS or name in (".git", ".cache"):
            what = "git and programs keep their own files there"
            message = f"no file of a book can lie in '{name}': {what}"
            raise _refuse(new, message, "choose another folder")


def _refuse_fixed(config: Config, tree: Tree, old: str, new: str) -> None:
    """Raise ConfigError for places that bindery looks for by their names."""
    fixed = {
        RECORDS_FOLDER: "records are found by it, and tables quote them by name",
        posixpath.dirname(RECORDS_FOLDER) + "/schemas": "records are checked against it",
        config.data: "views call data files by name",
        config.views: "chapters call views by name",
        config.figures: "`bindery fill` draws the plots of views there",
    }
    if config.folder and (old == config.folder or config.folder.startswith(f"{old}/")):
        hint = "rename it by hand, with `folder` in chapters.yaml"
        raise _refuse(old, f"'{config.folder}' is the folder of the chapters", hint)
    for folder, why in fixed.items():
        if tree.find_kind(folder) is None:
            continue
        if old == folder or folder.startswith(f"{old}/"):
            raise _refuse(old, f"'{folder}' has a fixed place: {why}")
        if not old.startswith(f"{folder}/"):
            if new.startswith(f"{folder}/") and _is_called(tree, config, folder, new):
                raise _refuse(new, f"what is in '{folder}' is found by its name", "add it by hand")
            continue
        if folder == config.views:
            if old.endswith(".sql"):
                _refuse_view(tree, folder, old, new)
        elif _is_called(tree, config, folder, old):
            raise _refuse(old, f"'{old}' belongs where it is: {why}", _ADVICE.get(folder, ""))


_CALLED_ENDINGS = {"data": (".csv", ".yaml"), "views": (".sql",), "schemas": (".json",)}
_ADVICE = {RECORDS_FOLDER: "make a new record with `bindery run`"}


def _refuse_view(tree: Tree, folder: str, old: str, new: str) -> None:
    name = PurePosixPath(new).stem
    if not new.startswith(f"{folder}/") or not new.endswith(".sql"):
        raise _refuse(new, f"a view is in '{folder}' and ends in .sql")
    others = {PurePosixPath(p).stem for p in tree.walk_files(folder) if p != old}
    if not _VIEW_NAME.fullmatch(name) or name.endswith("-dark") or name in others:
        hint = "letters, digits, _ and -; not the name of another view; not ending in -dark"
        raise _refuse(new, f"'{name}' cannot be the name of a view", hint)


def _is_called(tree: Tree, config: Config, folder: str, path: str) -> bool:
    """Whether a file in one of the fixed folders is found there by its name."""
    if folder == config.figures:
        name = PurePosixPath(path).stem.removesuffix("-dark")
        return any(PurePosixPath(view).stem == name for view in tree.walk_files(config.views))
    return path.endswith(_CALLED_ENDINGS.get(folder.rpartition("/")[2], ""))


def _take_along(config: Config, tree: Tree, old: str, new: str) -> Iterator[tuple[str, str]]:
    """What has to move too: the plots of a view."""
    before, after = PurePosixPath(old), PurePosixPath(new)
    pairs = []
    if before.suffix == ".sql" and PurePosixPath(config.views) in before.parents:
        figures = PurePosixPath(config.figures)
        pairs = [
            (figures / f"{before.stem}{ending}", figures / f"{after.stem}{ending}")
            for ending in (".svg", "-dark.svg")
        ]
    for source, target in pairs:
        if source != target and tree.find_kind(str(source)) == "file":
            yield str(source), str(target)


def _refuse_chapters(config: Config, moves: Moves) -> None:
    for entry in config.chapters:
        path = moves.map(entry.path)
        if path == entry.path:
            continue
        if not path.endswith(".md"):
            raise _refuse(path, f"'{entry.path}' is a chapter, and its name ends in .md")
        if config.folder and not path.startswith(f"{config.folder}/"):
            hint = "take it out of `parts` first, or move it within that folder"
            raise _refuse(path, f"chapters lie in the folder '{config.folder}'", hint)


def _refuse_tools(config: Config, tree: Tree, moves: Moves) -> None:
    for tool in config.tools:
        path = moves.map(tool.path)
        if PurePosixPath(path).name != PurePosixPath(tool.path).name:
            message = f"'{tool.path}' is the tool '{tool.name}', and records and views call it so"
            raise _refuse(path, message, "keep the name of its file; its folder may change")


def make_plan(config: Config, tree: Tree, documents: Mapping[str, Document], moves: Moves) -> Plan:
    """The plan of some moves with what it makes of `chapters.yaml`, plain lists and places in data.
    Raises BookError where links would break."""
    text = tree.read_bytes(FILE_NAME).decode("utf-8")
    listing = {FILE_NAME: (text, relist_chapters(text, config, moves.map))}
    for path in list_plain_lists(config):
        with contextlib.suppress(OSError, UnicodeDecodeError):  # none, or none that we could read
            text = tree.read_bytes(path).decode("utf-8")
            listing[path] = text, relist_paths(text, path, moves.map)
    listing |= relist_places(tree, config, moves.map)
    return plan_move(config, tree, documents, moves, listing)


# --- on the disk ---


def transfer(root: Path, plan: Plan, finish: Callable[[], Texts] | None = None) -> Texts:
    """Put a plan into effect, or leave everything as it is; what `finish` gives belongs to it, as
    in `change_files`, and so does what this raises."""
    return change_files(root, make_change(plan), finish)


def make_change(plan: Plan) -> Change:
    """What a plan changes on disk."""
    texts = {path: (plan.formers[path], text) for path, text in plan.texts.items()}
    return Change(RULE, texts, plan.moves.pairs, tuple(sorted(plan.emptied)))
