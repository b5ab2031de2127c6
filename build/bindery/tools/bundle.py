"""Bundle a companion tool and the kit modules it uses into one file with one namespace.

A tool imports from the kit by name (`from kit.stats import summarize`), so a bundle is the tool
without those lines, followed by the modules. The same sources give the same bytes.
"""

from __future__ import annotations

import ast
import hashlib
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache, partial
from pathlib import Path

from msgspec import Struct

from bindery.core.model import Span, find_bad_byte
from bindery.tools.tool_source import parse_module, read_constants

KIT = "kit"
LICENCE = "Apache-2.0"
_LIMIT = 100
"""Columns of a line."""

Read = Callable[[str], str]
"""Reads a file by path; raises OSError if it does not exist."""


class BundleError(Exception):
    """A tool cannot be bundled; `span` is the line of its source, or of the kit's."""

    def __init__(self, path: str, message: str, line: int = 1) -> None:
        super().__init__(message)
        self.span = Span(path, line)


class _Part(Struct, frozen=True):
    """A module, split into the parts that a bundle needs."""

    path: str
    head: str
    """The comments before the docstring: `#!` line and metadata."""
    docstring: str
    """The docstring as typed, with its quotes."""
    summary: str
    """The first line of the docstring."""
    uses: tuple[str, ...]
    """The kit modules that it imports from."""
    imports: tuple[ast.Import | ast.ImportFrom, ...]
    body: str
    ending: str
    """The block below `if __name__ == "__main__":`."""
    names: tuple[str, ...]
    """The names that the module defines."""


def uses_kit(source: str) -> bool:
    """Whether a tool imports from the kit."""
    return f"from {KIT}." in source


def find_kit(tool: str, read: Read) -> str:
    """The kit folder above a tool: `scripts/kit` for `scripts/network/x.py`.

    Raises BundleError if there is none.
    """
    for folder in Path(tool).parents:
        candidate = str(folder / KIT)
        try:
            read(f"{candidate}/__init__.py")
        except OSError:
            continue
        return candidate
    raise BundleError(tool, f"it imports from {KIT}, but no folder above it has {KIT}/__init__.py")


def hash_bundle(root: Path, tool: str) -> str:
    """SHA-256 of the bundle. Raises as `bundle_tool` does."""
    return hashlib.sha256(bundle_file(root, tool).encode()).hexdigest()


def bundle_file(root: Path, tool: str) -> str:
    """The bundle of a tool in a book. Raises as `bundle_tool` does."""
    return bundle_tool(tool, partial(read_source, root))


def read_source(root: Path, path: str) -> str:
    """A source in a book. Raises BundleError where it is not UTF-8, and OSError."""
    try:
        return (root / path).read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        span, message = find_bad_byte(path, error)
        raise BundleError(path, message, span.line) from None


def bundle_tool(tool: str, read: Read) -> str:
    """The text of the bundle; a tool without the kit is unchanged.

    Raises BundleError, and OSError for a missing module.
    """
    source = read(tool)
    if not uses_kit(source):
        return source
    folder = find_kit(tool, read)
    main = _cut(tool, source)
    parts: dict[str, _Part] = {}
    _collect(main, folder, read, parts)
    _refuse_collisions([main, *parts.values()])
    constants = read_constants(source)
    version, method = (_read_literal(tool, constants, name) for name in ("__version__", "METHOD"))
    title = f"{Path(tool).stem} {version}" + (f" (method {method})" if method else "")
    notice = [
        f"# {title}",
        f"# SPDX-License-Identifier: {LICENCE}",
        f"# Made by `bindery bundle` from {tool}, and from {folder}/:",
        f"# {', '.join(f'{name}.py' for name in sorted(parts))}",
    ]
    sections = [
        "\n".join(filter(None, [main.head, *notice, main.docstring])) + "\n\n"
        + _join_imports([main, *parts.values()]) + "\n\n" + main.body.strip("\n"),
    ]  # fmt: skip
    for name, part in parts.items():
        sections.append(f"# --- {KIT}/{name}.py ---\n# {part.summary}.\n\n\n{part.body.strip()}")
    sections.append(main.ending)
    return "\n\n\n".join(section.strip("\n") for section in sections if section.strip()) + "\n"


def _read_literal(tool: str, constants: Mapping[str, ast.expr], name: str) -> object:
    if name not in constants:
        return None
    try:
        value: object = ast.literal_eval(constants[name])
    except (ValueError, TypeError):
        message = f"{name} must be a literal: bindery reads it without running the tool"
        raise BundleError(tool, message, getattr(constants[name], "lineno", 1)) from None
    return value


def _collect(part: _Part, folder: str, read: Read, parts: dict[str, _Part]) -> None:
    """Add the kit modules that a part uses to `parts`, dependencies first."""
    for name in part.uses:
        if name not in parts:
            path = f"{folder}/{name}.py"
            module = _cut(path, read(path))
            _collect(module, folder, read, parts)
            parts[name] = module


@cache  # many tools use the same modules
def _cut(path: str, source: str) -> _Part:
    try:
        tree = parse_module(source)
    except SyntaxError as error:
        message = f"this is not valid Python: {error.msg}"
        raise BundleError(path, message, error.lineno or 1) from None
    lines = source.split("\n")
    dropped: set[int] = set()
    docstring = summary = ending = head = ""
    uses: list[str] = []
    imports: list[ast.Import | ast.ImportFrom] = []
    names: list[str] = []
    for position, node in enumerate(tree.body):
        span = range(node.lineno - 1, (node.end_lineno or node.lineno))
        text = "\n".join(lines[span.start : span.stop])
        if position == 0 and ast.get_docstring(tree) is not None:
            docstring, summary = text, (ast.get_docstring(tree) or "").split("\n")[0].rstrip(".")
            head = "\n".join(lines[: span.start])
            dropped |= set(range(span.stop))
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith(f"{KIT}."):
            if any(alias.asname for alias in node.names):
                raise BundleError(path, f"import from {KIT} without `as`", node.lineno)
            uses.append((node.module or "").removeprefix(f"{KIT}."))
            dropped |= set(span)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            imports.append(node)
            dropped |= set(span)
        elif text.startswith("sys.path.insert("):
            dropped |= set(span)
        elif text.startswith("if __name__"):
            ending = text
            dropped |= set(span)
        else:
            names += _list_names(node)
    is_imported_below = re.search(rf"(?<!^)\bfrom\s+{KIT}\b", source, re.MULTILINE)
    for deep in ast.walk(tree) if is_imported_below else ():
        if not isinstance(deep, ast.ImportFrom) or deep in tree.body:
            continue
        if (deep.module or "").split(".")[0] == KIT:
            raise BundleError(path, f"import from {KIT} at the top of the file", deep.lineno)
    body = "\n".join(line for number, line in enumerate(lines) if number not in dropped)
    while "\n\n\n\n" in body:
        body = body.replace("\n\n\n\n", "\n\n\n")
    return _Part(path, head, docstring, summary, tuple(dict.fromkeys(uses)), tuple(imports), body,
                 ending, tuple(names))  # fmt: skip


def _list_names(node: ast.stmt) -> list[str]:
    match node:
        case ast.FunctionDef(name=name) | ast.ClassDef(name=name) | ast.AsyncFunctionDef(name=name):
            return [name]
        case ast.Assign(targets=targets):
            return [target.id for target in targets if isinstance(target, ast.Name)]
        case ast.AnnAssign(target=ast.Name(id=name)):
            return [name]
    return []


def _refuse_collisions(parts: Iterable[_Part]) -> None:
    owners: dict[str, str] = {}
    for part in parts:
        for name in dict.fromkeys(part.names):
            if name in owners:
                raise BundleError(part.path, f"'{name}' is in {owners[name]} too; rename one")
            owners[name] = part.path


def _join_imports(parts: Sequence[_Part]) -> str:
    """The imports of all parts, once each, in ruff's order. Annotations are not evaluated, because
    the tool comes before the kit modules that they name."""
    plain: set[str] = set()
    named: dict[str, set[str]] = {"__future__": {"annotations"}} if len(parts) > 1 else {}
    for part in parts:
        for node in part.imports:
            texts = {f"{a.name} as {a.asname}" if a.asname else a.name for a in node.names}
            if isinstance(node, ast.Import):
                plain |= texts
            else:
                named.setdefault(node.module or "", set()).update(texts)
    future = named.pop("__future__", set())
    lines = [f"from __future__ import {', '.join(sorted(future))}\n"] if future else []
    lines += [f"import {name}" for name in sorted(plain)]
    for module in sorted(named):
        names = sorted(named[module], key=_sort_name)
        line = f"from {module} import {', '.join(names)}"
        if len(line) > _LIMIT:
            line = f"from {module} import (\n" + "".join(f"    {n},\n" for n in names) + ")"
        lines.append(line)
    return "\n".join(lines)


def _sort_name(name: str) -> tuple[int, str]:
    """Constants, then classes, then the rest, as isort sorts."""
    kind = 0 if name.isupper() and len(name) > 1 else 1 if name[:1].isupper() else 2
    return kind, name
