"""Make the files of a new chapter, tool or view, and its entry in chapters.yaml.

Functions return texts by path and write nothing. An entry is inserted as a separate line; comments,
quotes and order stay as typed.
"""

from __future__ import annotations

import posixpath
import re
import sqlite3
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from datetime import date
from pathlib import Path

from ruamel.yaml.nodes import MappingNode, Node, SequenceNode

import bindery
from bindery.book.foreign_contents import name_part
from bindery.core.config import FILE_NAME, Config, write_scalar
from bindery.core.model import refuse
from bindery.core.repository import RECORDS_TABLE, Tree
from bindery.rewrite.moving.listing import find_end, find_values, get_value

Read = Callable[[str], str]
"""Reads a file of the starter."""
Files = dict[str, str]
TOOLS, FACTS = "scripts", "env_report"
_NAME = re.compile(r"[a-z][a-z0-9_]*")
_KIT_IMPORT = re.compile(r"^from kit\.(\w+) import", re.MULTILINE)


def begin_chapter(tree: Tree, config: Config, name: str) -> Files:
    """A chapter with a title, listed after the chapters of its folder."""
    if not posixpath.basename(name) or name.startswith("/"):
        message = "this is not the path of a chapter"
        raise refuse(f"'{name}'", message, "give a path such as `storage/nfs`")
    path = posixpath.normpath(posixpath.join(config.folder, name.removesuffix(".md") + ".md"))
    if not path.startswith(f"{config.folder}/" if config.folder else "") or path.startswith("../"):
        raise refuse(name, "it is outside the book's folder", "name a path within it")
    stem = posixpath.basename(path.removesuffix(".md"))
    folder = posixpath.basename(posixpath.dirname(path))
    title = name_part(folder if stem.lower() in ("readme", "index") and folder else stem)
    text = f"# {title}\n\nWhat a reader can do after this chapter, in two sentences.\n"
    return _refuse_present(tree, {path: text}) | {
        FILE_NAME: _list_chapter(tree.read_bytes(FILE_NAME).decode(), config, path)
    }


def begin_tool(tree: Tree, config: Config, name: str, read: Read) -> Files:
    """A tool that uses the kit, with its test and its entry; also the kit and env_report if the
    book lacks them. `name` may start with a folder below `scripts/`."""
    stem = _check_name(posixpath.basename(name))
    path = posixpath.normpath(f"{TOOLS}/{name}.py")
    if stem in (RECORDS_TABLE, "torch", *sys.stdlib_module_names) or _is_keyword(stem):
        message = f"'{stem}' is already a Python module, an SQL keyword or a table"
        raise refuse(name, message, "choose another name")
    known = {tool.name: tool.path for tool in config.tools}
    if stem in known or not path.startswith(f"{TOOLS}/"):
        message = f"there is a tool '{stem}' already" if stem in known else "it is not in scripts/"
        raise refuse(name, message, "choose another name")
    words = {"NAME": stem, "PATH": path.removeprefix(f"{TOOLS}/"), "DEPTH": str(name.count("/"))}
    new = {path: _fill_in(read("tool.py.txt"), words)}
    new[f"{TOOLS}/tests/test_{stem}.py"] = _fill_in(read("test_tool.py.txt"), words)
    files = _refuse_present(tree, new)
    listed = tree.read_bytes(FILE_NAME).decode()
    shared = _find_shared(new[path], facts=FACTS not in known)
    files |= {at: text for at, text in shared.items() if tree.find_kind(at) is None}
    if FACTS not in known:
        listed = _list_tool(listed, FACTS, f"{TOOLS}/{FACTS}.py", "shape")
    return files | {FILE_NAME: _list_tool(listed, stem, path, "measured")}


def begin_view(
    tree: Tree, config: Config, name: str, chapter: str, source: str, today: date, read: Read
) -> Files:
    """A view of two rows of data, quoted at the end of a chapter if one is given."""
    words = {"NAME": _check_name(name), "TITLE": name_part(name), "TODAY": today.isoformat()}
    if name in (RECORDS_TABLE, *(tool.name for tool in config.tools)):
        raise refuse(name, f"'{name}' is already a table of records", "choose another name")
    if _is_keyword(name):
        raise refuse(name, f"'{name}' is an SQL keyword", "choose another name")
    words["SOURCE"] = source or "# the page or document that states the figures"
    new = {f"{config.views}/{name}.sql": _fill_in(read("view.sql"), words)}
    new[f"{config.data}/{name}.yaml"] = _fill_in(read("data.yaml"), words)
    files = _refuse_present(tree, new)
    if chapter:
        text = tree.read_bytes(chapter).decode()
        files[chapter] = f"{text.rstrip()}\n\n{quote_view(name)}"
    return files


def _is_keyword(name: str) -> bool:
    """Whether SQL takes a name for one of its own words."""
    with closing(sqlite3.connect(":memory:")) as connection:
        try:
            connection.execute(f"CREATE TABLE {name} (name)")
        except sqlite3.OperationalError:
            return True
    return False


def quote_view(name: str) -> str:
    """The comments between which `bindery fill` writes the table of a view."""
    return f"<!-- table: {name} -->\n<!-- /table -->\n"


def _check_name(name: str) -> str:
    if not _NAME.fullmatch(name):
        message = "a name has only lower-case letters, digits and _"
        raise refuse(name, message, "such as `sort_time`")
    return name


def _refuse_present(tree: Tree, files: Files) -> Files:
    for path in files:
        if tree.find_kind(path) is not None:
            raise refuse(path, "this file already exists", "choose another name")
    return files


def _fill_in(text: str, words: Mapping[str, str]) -> str:
    return re.sub(rf"\b({'|'.join(words)})\b", lambda match: words[match[0]], text)


def _find_shared(tool: str, *, facts: bool) -> Files:
    """bindery's copies of env_report and of the kit modules that it and the tool import."""
    packed = Path(bindery.__file__).parent / "cli/starter/scripts"
    source = packed if packed.is_dir() else Path(bindery.__file__).parents[2] / TOOLS
    files = {"kit/__init__.py": (source / "kit/__init__.py").read_text(encoding="utf-8")}
    if facts:
        files[f"{FACTS}.py"] = (source / f"{FACTS}.py").read_text(encoding="utf-8")
    waiting = [tool, *files.values()]
    while waiting:
        for module in _KIT_IMPORT.findall(waiting.pop()):
            name = f"kit/{module}.py"
            if name not in files:
                files[name] = (source / name).read_text(encoding="utf-8")
                waiting.append(files[name])
    return {f"{TOOLS}/{name}": text for name, text in files.items()}


# --- chapters.yaml ---


def _list_chapter(text: str, config: Config, path: str) -> str:
    """chapters.yaml with the chapter after the one whose folder is most similar."""
    written = write_scalar(posixpath.relpath(path, config.folder or "."))
    entries = list(_iterate_chapters(find_values(text)))
    shared = [
        len(posixpath.commonpath([posixpath.dirname(path), posixpath.dirname(entry.path)]))
        for entry in config.chapters
    ]
    nearest = max(range(len(shared)), key=lambda index: (shared[index], index))
    return _insert_behind(text, *entries[nearest], written)


def _iterate_chapters(top: Mapping[str, Node]) -> Iterator[tuple[SequenceNode, Node]]:
    """Each chapter and the list that contains it."""
    for part in top["parts"].value:
        chapters = get_value(part, "chapters")
        if isinstance(chapters, SequenceNode):
            yield from ((chapters, chapter) for chapter in chapters.value)


def _insert_behind(text: str, listed: SequenceNode, item: Node, written: str) -> str:
    end = find_end(item)
    if listed.flow_style:
        return f"{text[: end.index]}, {written}{text[end.index :]}"
    dash = text.splitlines()[item.start_mark.line][: item.start_mark.column]
    return _insert_line(text, end.line + 1, f"{dash}{written}")


def _list_tool(text: str, name: str, path: str, output: str) -> str:
    """chapters.yaml with the tool after the last one."""
    node = find_values(text).get("tools")
    if node is None:
        text = f"{text.rstrip()}\n\ntools:\n"
        line, indent = text.count("\n"), "  "
    elif isinstance(node, MappingNode) and node.value and not node.flow_style:
        line, indent = find_end(node).line + 1, " " * node.value[0][0].start_mark.column
    else:
        hint = "write `tools:` with one tool per line below it"
        raise refuse(FILE_NAME, "the list of tools cannot be continued", hint)
    keys = (f"path: {write_scalar(path)}", f"output: {output}", "texts: {help: [--help]}")
    entry = "".join(f"\n{indent}  {key}" for key in keys)
    return _insert_line(text, line, f"{indent}{name}:{entry}")


def _insert_line(text: str, line: int, written: str) -> str:
    newline = "\r\n" if "\r\n" in text else "\n"
    lines = text.splitlines()
    lines[line:line] = written.split("\n")
    return newline.join([*lines, ""])
