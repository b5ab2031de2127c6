"""orphan-file: a file in the folder of the book that nothing points to.

An image has to be shown. Any other file is in use where a chapter links it or names it, in a
command say, where a folder is linked that holds it, or where a file beside it names it. Those of
one folder are one finding. What book tools and package managers read needs no link, nor does what
they name, or Markdown that is no chapter.
"""

from __future__ import annotations

import contextlib
import posixpath
import re
from collections.abc import Iterator
from functools import cache, partial

from bindery.book.diagrams import DRAWING
from bindery.book.load import is_left_out
from bindery.check.rules.rule import Rule, Scope
from bindery.core.model import Finding, Outside, Severity, Span, ToFile, WrongCase
from bindery.core.report import count_more
from bindery.core.repository import MARKDOWN, RECORDS_FOLDER

RULE = Rule("orphan-file", Severity.WARNING, "nothing in the book points to a file of its folder")

_OR = "remove it, or add it to 'not_chapters' in chapters.yaml"
_IMAGES = (".png", ".jpg", ".jpeg", ".gif", ".svg", ".webp", ".avif")
_READ_AT_MOST = 200_000
_READ_BY_TOOLS = re.compile(
    r"(?:book\.(?:toml|json)|mkdocs\.ya?ml|conf\.py|myst\.ya?ml|_\w+\.ya?ml|antora\.yml"
    r"|(?:docusaurus\.config|sidebars|babel\.config)\.[jt]s|tsconfig\.json|package(?:-lock)?\.json"
    r"|yarn\.lock|pnpm-lock\.yaml|Makefile|make\.bat|Gemfile(?:\.lock)?|requirements\.txt"
    r"|environment\.ya?ml|pyproject\.toml|Cargo\.(?:toml|lock)|\w+\.bib|CNAME|robots\.txt)"
)


def check(scope: Scope) -> Iterator[Finding]:
    used, folders = _find_targets(scope)
    known = (*_list_fed_folders(scope), *folders)
    beside: dict[str, list[tuple[str, bytes]]] = {}
    forgotten: dict[str, list[str]] = {}
    homes = {posixpath.dirname(chapter.path) for chapter in scope.book.chapters} - {""}
    outside = cache(partial(_read_outside, scope))
    for path in scope.tree.walk_files(scope.config.folder):
        if path in used or path.endswith(MARKDOWN) or is_left_out(path, scope.config):
            continue
        is_drawing = bool(DRAWING.fullmatch(posixpath.basename(path)))
        if any(path.startswith(f"{folder}/") for folder in known) and not is_drawing:
            continue
        name = posixpath.basename(path).encode("utf-8", "surrogateescape")
        if any(name in text for text in outside()):
            continue
        if path.lower().endswith(_IMAGES):
            # A cover may lie there in several formats, for shelves that show only some of them.
            if posixpath.splitext(path)[0] == posixpath.splitext(scope.config.cover)[0]:
                continue
            yield RULE.find(Span.whole(path), f"no chapter shows '{path}'", f"show it, {_OR}")
        elif _READ_BY_TOOLS.fullmatch(posixpath.basename(path)):
            continue
        elif _is_at_home(path, homes) and not _is_named(path, scope, beside):
            forgotten.setdefault(posixpath.dirname(path), []).append(path)
    for paths in forgotten.values():
        message = f"no chapter links or names '{paths[0]}'"
        if others := [f"'{posixpath.basename(path)}'" for path in paths[1:4]]:
            message += f" and, beside it, {', '.join(others)}{count_more(paths[3:])}"
        yield RULE.find(Span.whole(paths[0]), message, f"link it, {_OR}")


def _find_targets(scope: Scope) -> tuple[set[str], set[str]]:
    """The files and the folders that links lead to, and what `chapters.yaml` names."""
    config = scope.config
    tools = (tool.path for tool in config.tools)
    files = {config.cover, config.file, config.baseline, config.link_memory, config.interface}
    files |= {*tools, *config.style.files, *scope.resolved.drawings.values()}
    folders: set[str] = set()
    for _, _, resolution in scope.iterate_links():
        match resolution:
            case ToFile(path=path, is_folder=True):
                folders.add(path)
            case ToFile(path=path) | WrongCase(target=ToFile(path=path)):
                files.add(path)
            case Outside(path=path, through_link=True):  # shown, though outside-book reports it
                files.add(path)
            case _:
                pass
    return files, folders


def _list_fed_folders(scope: Scope) -> tuple[str, ...]:
    """Folders that the toolchain reads or writes, and reports by rules of their own."""
    folder = scope.config.folder
    return (
        posixpath.join(folder, "data"),
        posixpath.join(folder, "views"),
        scope.config.figures,
        RECORDS_FOLDER,
    )


def _is_at_home(path: str, homes: set[str]) -> bool:
    """Whether a chapter is in a folder that holds the file: what else a repository holds is
    no part of the book."""
    folder = posixpath.dirname(path)
    while folder:
        if folder in homes:
            return True
        folder = posixpath.dirname(folder)
    return False


def _is_named(path: str, scope: Scope, beside: dict[str, list[tuple[str, bytes]]]) -> bool:
    """Whether a chapter, or a file beside, names a file; a module goes by its name alone. What
    is in a folder is read once, and kept in `beside`."""
    folder, name = posixpath.split(path)
    names = [name]
    if name.endswith(".py"):
        stem = name.removesuffix(".py")
        names += [f"import {stem}", f"from {stem} ", f"-m {stem}"]
    if any(n in chapter.source for n in names for chapter in scope.book.chapters):
        return True
    if folder not in beside:
        beside[folder] = list(_read_texts(folder, scope))
    sought = [n.encode("utf-8", "surrogateescape") for n in names]
    return any(other != name and n in text for other, text in beside[folder] for n in sought)


def _read_outside(scope: Scope) -> list[bytes]:
    """The beginnings of Markdown files that are no chapters, and of what book tools read."""
    chapters = {chapter.path for chapter in scope.book.chapters}
    return [
        scope.tree.read_beginning(path, _READ_AT_MOST)
        for path in scope.tree.walk_files("")
        if (path.endswith(MARKDOWN) and path not in chapters)
        or _READ_BY_TOOLS.fullmatch(posixpath.basename(path))
    ]


def _read_texts(folder: str, scope: Scope) -> Iterator[tuple[str, bytes]]:
    """The beginnings of the files in a folder, by their names."""
    for name in scope.tree.list_folder(folder):
        path = posixpath.join(folder, name)
        if name.startswith(".") or scope.tree.find_kind(path) != "file":
            continue
        with contextlib.suppress(OSError):
            yield name, scope.tree.read_beginning(path, _READ_AT_MOST)
