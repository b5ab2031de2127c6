"""Update `chapters.yaml` and plain lists of chapters after a move.

Comments, quotes and order belong to the author, so only the paths themselves are replaced.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import PurePosixPath

from ruamel.yaml import YAML
from ruamel.yaml.error import StringMark, YAMLError
from ruamel.yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from bindery.book.importing import LIST_NAME
from bindery.core.config import FILE_NAME, FORMATS, Config, quote_scalar, write_scalar
from bindery.core.model import BookError, Finding, Span

MapPath = Callable[[str], str]
_FILE_KEYS = ("cover", "baseline", "interface")
"""Keys whose value is a file path relative to the root."""
_STYLE_KEYS = (*FORMATS, "logo", "favicon", "fonts")
"""Keys below `style` that name files."""
_GLOB = re.compile(r"[*?\[]")
_ROW = re.compile(r"(?P<before>[^\S\r\n]*)(?P<path>[^#\r\n]*?)(?=[^\S\r\n]*(?:#|[\r\n]|\Z))")


def relist_chapters(text: str, config: Config, map_path: MapPath) -> str:
    """Replace the paths in `chapters.yaml` with `map_path`.

    Moved chapters are added under `moved`; a chapter that moves back is removed there. Raises
    BookError if the file cannot be edited.
    """
    mark = "\ufeff" if text.startswith("\ufeff") else ""
    text = text.removeprefix(mark)
    before = find_values(text)
    moved = _follow_moves(text, config, map_path)
    edits = [
        (node.start_mark.index, node.end_mark.index, _write_scalar(text, node, value))
        for node, value in _find_new_values(before, config, map_path)
        if value != str(node.value)
    ]
    if any(text[start] in "&!|>" for start, _, _ in edits):
        raise _refuse("write the paths plainly, without anchors, tags, `|` and `>`, and try again")
    # From the end, so that earlier positions stay valid.
    changed = text
    for start, end, written in sorted(edits, reverse=True):
        changed = changed[:start] + written + changed[end:]
    changed = _write_moved(changed, moved)
    paths = [value for _, value in _find_new_values(before, config, map_path)]
    if not _says(changed, paths, moved, config):
        raise _refuse("write one entry of its lists per line, and try again")
    return mark + changed


def _refuse(hint: str) -> BookError:
    message = f"{FILE_NAME} cannot be edited in place"
    return BookError(Finding(Span.whole(FILE_NAME), "refused-move", message, hint))


def find_values(text: str) -> Mapping[str, Node]:
    node = YAML(typ="safe", pure=True).compose(text)
    return {str(key.value): value for key, value in node.value}


def _find_new_values(
    top: Mapping[str, Node], config: Config, map_path: MapPath
) -> Iterator[tuple[ScalarNode, str]]:
    """The paths as typed, except under `moved`, and their new values."""
    for node, base, kind in _find_paths(top, config.folder):
        path = str(PurePosixPath(base, str(node.value).strip()))
        new = _map_pattern(path, map_path) if kind == "pattern" else map_path(path)
        yield node, _relate(new, base) if new != path else str(node.value)


def _find_paths(top: Mapping[str, Node], folder: str) -> Iterator[tuple[ScalarNode, str, str]]:
    """Each path in the file, with its base folder and kind."""
    for part in _iterate_items(top.get("parts")):
        for chapter in _iterate_items(get_value(part, "chapters")):
            node = get_value(chapter, "path") if isinstance(chapter, MappingNode) else chapter
            if isinstance(node, ScalarNode):
                yield node, folder, "chapter"
    style = top.get("style")
    files = [top.get(key) for key in _FILE_KEYS]
    files += [get_value(style, key) for key in _STYLE_KEYS] if style else []
    for node in files:
        yield from ((file, "", "file") for file in _iterate_scalars(node))
    for pattern in _iterate_items(top.get("not_chapters")):
        if isinstance(pattern, ScalarNode):
            yield pattern, folder, "pattern"
    tools = top.get("tools")
    for _, tool in tools.value if isinstance(tools, MappingNode) else ():
        node = get_value(tool, "path")
        if isinstance(node, ScalarNode):
            yield node, "", "file"


def get_value(node: Node, key: str) -> Node | None:
    if not isinstance(node, MappingNode):
        return None
    return next((value for name, value in node.value if name.value == key), None)


def find_end(node: Node) -> StringMark:
    """The end of the last value within a node; the end of the node itself is after comments."""
    while isinstance(node, MappingNode | SequenceNode) and node.value and not node.flow_style:
        last = node.value[-1]
        node = last[1] if isinstance(last, tuple) else last
    end: StringMark = node.end_mark
    return end


def _iterate_items(node: Node | None) -> Iterator[Node]:
    if isinstance(node, SequenceNode):
        yield from node.value


def _iterate_scalars(node: Node | None) -> Iterator[ScalarNode]:
    """The texts in a node, whatever lists and mappings they are in."""
    match node:
        case ScalarNode():
            yield node
        case SequenceNode():
            for item in node.value:
                yield from _iterate_scalars(item)
        case MappingNode():
            for _, value in node.value:
                yield from _iterate_scalars(value)


def _map_pattern(pattern: str, map_path: MapPath) -> str:
    """Map a pattern's literal leading folder, if that moves; without wildcards it is a path."""
    if not _GLOB.search(pattern):
        return map_path(pattern)
    literal = pattern[: _GLOB.search(pattern).start()]  # type: ignore[union-attr]
    folder, _, _ = literal.rpartition("/")
    return map_path(folder) + pattern[len(folder) :] if folder else pattern


def _relate(path: str, folder: str) -> str:
    return path.removeprefix(f"{folder}/") if folder else path


def _write_scalar(text: str, node: ScalarNode, value: str) -> str:
    """The value in its existing quotes; an unquoted one gets quotes if it needs them."""
    mark = text[node.start_mark.index]
    if mark == '"':
        escaped = value.replace("\\", "\\\\").replace('"', '\\"')
        return f'"{escaped}"'
    if mark == "'":
        return quote_scalar(value)
    return write_scalar(value)


# --- moved ---


def _follow_moves(text: str, config: Config, map_path: MapPath) -> Mapping[str, str]:
    """The new content of `moved`, from old path to new, as typed there."""
    folder = config.folder
    known = {_relate(m.old, folder): _relate(m.new, folder) for m in config.moved}
    pairs = {
        _relate(entry.path, folder): _relate(map_path(entry.path), folder)
        for entry in config.chapters
        if map_path(entry.path) != entry.path
    }
    followed = {old: pairs.get(new, new) for old, new in known.items()}
    back = {new for new in pairs.values() if new in followed}
    for old, new in pairs.items():
        if known.get(new) == old:
            continue  # it moves back
        followed[old] = new
    return {old: new for old, new in followed.items() if old not in back}


def _write_moved(text: str, moved: Mapping[str, str]) -> str:
    """The text with exactly these entries under `moved`; existing ones stay as typed."""
    newline = "\r\n" if "\r\n" in text else "\n"
    is_ended = text.endswith("\n")
    lines = (text if is_ended else text + newline).splitlines(keepends=True)
    node = find_values(text).get("moved")
    entries = node.value if isinstance(node, MappingNode) else []
    there = {str(key.value) for key, _ in entries}
    indent = " " * (entries[0][0].start_mark.column if entries else 2)
    rows = [
        f"{indent}{write_scalar(old)}: {write_scalar(new)}{newline}"
        for old, new in moved.items()
        if old not in there
    ]
    if entries:
        end = entries[-1][1].end_mark.line + 1
        lines[end:end] = rows
    elif rows:
        lines += [newline, f"moved:{newline}", *rows]
    for key, value in reversed(entries):  # from the end, so that earlier positions stay valid
        row, old = key.start_mark.line, str(key.value)
        if old not in moved:
            del lines[row : value.end_mark.line + 1]
        elif str(value.value) != moved[old]:
            start, stop = value.start_mark.column, value.end_mark.column
            written = _write_scalar(text, value, moved[old])
            lines[row] = lines[row][:start] + written + lines[row][stop:]
    if entries and not moved:
        row = next(row for row, line in enumerate(lines) if line.startswith("moved:"))
        is_last = row + 1 == len(lines)
        del lines[row - (is_last and not lines[row - 1].strip()) : row + 1]
    changed = "".join(lines)
    return changed if is_ended else changed.removesuffix(newline)


def _says(text: str, paths: list[str], moved: Mapping[str, str], config: Config) -> bool:
    """Whether a text lists these paths in order, and these moves."""
    try:
        top = find_values(text)
    except (YAMLError, ValueError):
        return False
    node = top.get("moved")
    pairs = node.value if isinstance(node, MappingNode) else ()
    found = [str(node.value) for node, _, _ in _find_paths(top, config.folder)]
    return found == paths and {str(old.value): str(new.value) for old, new in pairs} == moved


# --- plain lists ---


def list_plain_lists(config: Config) -> tuple[str, ...]:
    """Possible lists of chapters for `bindery import`, with one path per line."""
    return tuple(dict.fromkeys(posixpath.join(base, LIST_NAME) for base in ("", config.folder)))


def relist_paths(text: str, path: str, map_path: MapPath) -> str:
    """Replace the paths in a plain list, which are relative to its folder. Comments, blanks and
    line ends stay."""
    base = posixpath.dirname(path)

    def relist(row: str) -> str:
        match = _ROW.match(row)
        if match is None or not match["path"]:
            return row
        typed = match["path"]
        old = posixpath.normpath(posixpath.join(base, typed))
        new = map_path(old)
        if new == old:
            return row
        return f"{match['before']}{posixpath.relpath(new, base or '.')}{row[match.end() :]}"

    return "".join(relist(row) for row in re.findall(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+", text))
