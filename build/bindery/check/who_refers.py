"""Who refers to what: to a file, an anchor, a tool, a record, a view or an address."""

from __future__ import annotations

import json
import posixpath
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from bindery.book.markdown_files import Document, resolve_documents
from bindery.check.inspect import Inspection
from bindery.core.config import FILE_NAME
from bindery.core.model import (
    ConfigError,
    Finding,
    FolderAnchor,
    Link,
    NestedUrl,
    NoAnchor,
    Resolution,
    Span,
    ToChapter,
    ToFile,
    ToWeb,
    WrongCase,
)
from bindery.core.report import count_noun
from bindery.core.repository import RECORDS_FOLDER, Tree
from bindery.core.suggestions import find_nearest
from bindery.evidence.quotations import Region
from bindery.evidence.views import View, blank_quoted
from bindery.markdown.prose import read_fences

_ADDRESS = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://|mailto:")


@dataclass(frozen=True, slots=True, order=True)
class Reference:
    """A place that refers to the thing asked for."""

    span: Span
    how: str
    """In which way: "link", "image", "definition", "table", "command", "view" and so on."""
    text: str
    """What is there."""


@dataclass(frozen=True, slots=True)
class Asked:
    """What is asked for. Each field that is set is searched for; one name can mean a tool and
    all that belongs to it."""

    paths: frozenset[str] = frozenset()
    folder: str = ""
    """A folder, with everything below it."""
    anchors: frozenset[tuple[str, str]] = frozenset()
    """Pairs of a path and an anchor."""
    address: str = ""
    tool: str = ""
    record: str = ""
    views: frozenset[str] = frozenset()


def find_references(
    inspection: Inspection, documents: Mapping[str, Document], target: str
) -> tuple[Reference, ...]:
    """Every reference to the target, in reading order. `target` is a path, `path#anchor`,
    `#anchor`, a tool, a record, a view or an address. Raises ConfigError where it is none."""
    asked = _read_target(inspection, documents, target)
    found = [
        *_find_links(inspection, documents, asked),
        *_find_listed(inspection, asked),
        *_find_quotations(inspection, asked),
        *_find_commands(inspection, documents, asked),
    ]
    return tuple(sorted(set(found)))


# --- what is asked for ---


def _read_target(inspection: Inspection, documents: Mapping[str, Document], target: str) -> Asked:
    config, evidence, tree = inspection.config, inspection.evidence, inspection.tree
    if _ADDRESS.match(target):
        return Asked(address=target)
    path, mark, anchor = target.partition("#")
    if mark:
        return Asked(anchors=_find_anchors(documents, tree, path, anchor, target))
    tools = {tool.name: tool.path for tool in config.tools}
    if target in tools:
        return Asked(paths=frozenset((tools[target],)), tool=target)
    if target in evidence.records:
        return _ask_record(target)
    if target in evidence.views:
        path = evidence.views[target].path
        return Asked(paths=frozenset((path,)), views=frozenset((target,)))
    path = posixpath.normpath(path) if path else ""
    path = "" if path == "." else path
    kind = tree.find_kind(path)
    if kind == "folder":
        return Asked(folder=f"{path}/" if path else "", paths=frozenset((path,)))
    if kind == "file":
        return _ask_file(inspection, path)
    choices = (*tools, *evidence.records, *evidence.views, *tree.walk_files(""))
    raise _refuse(target, f"there is nothing called '{target}'", find_nearest(target, choices))


def _ask_file(inspection: Inspection, path: str) -> Asked:
    """A file is also the tool, the record or the view that it holds."""
    for tool in inspection.config.tools:
        if tool.path == path:
            return Asked(paths=frozenset((path,)), tool=tool.name)
    for view in inspection.evidence.views.values():
        if view.path == path:
            return Asked(paths=frozenset((path,)), views=frozenset((view.name,)))
    record = path.removeprefix(f"{RECORDS_FOLDER}/").removesuffix(".json")
    if record in inspection.evidence.records:
        return _ask_record(record)
    return Asked(paths=frozenset((path,)))


def _ask_record(record: str) -> Asked:
    return Asked(paths=frozenset((f"{RECORDS_FOLDER}/{record}.json",)), record=record)


def _find_anchors(
    documents: Mapping[str, Document], tree: Tree, path: str, anchor: str, target: str
) -> frozenset[tuple[str, str]]:
    chosen = posixpath.normpath(path) if path else ""
    if chosen and tree.find_kind(chosen) == "folder":
        chosen = f"{chosen}/README.md" if chosen != "." else "README.md"
    if chosen and chosen not in documents:
        nearest = find_nearest(chosen, documents)
        raise _refuse(target, f"there is no Markdown file '{chosen}'", nearest)
    where = [documents[chosen]] if chosen else list(documents.values())
    known = {(document.path, a.slug) for document in where for a in document.chapter.anchors}
    found = frozenset(pair for pair in known if pair[1] == anchor)
    if not found:
        place = f"in '{chosen}'" if chosen else "in any chapter"
        nearest = find_nearest(anchor, sorted({slug for _, slug in known}))
        raise _refuse(target, f"there is no anchor '{anchor}' {place}", nearest)
    return found


def _refuse(target: str, message: str, nearest: str) -> ConfigError:
    hint = f"did you mean '{nearest}'?" if nearest else ""
    return ConfigError(Finding(Span.whole(target), "config", message, hint))


# --- links ---


def _find_links(
    inspection: Inspection, documents: Mapping[str, Document], asked: Asked
) -> Iterator[Reference]:
    resolved = resolve_documents(documents.values(), inspection.tree, inspection.config)
    for path, links in resolved.items():
        for link, resolution in links:
            if _leads_there(resolution, asked) and not _stays_inside(path, asked):
                yield Reference(link.span, _name_kind(link), link.raw.split("\n")[0])


def _stays_inside(path: str, asked: Asked) -> bool:
    """Whether a link is in what is asked for: a file's links to itself are not news."""
    return path in asked.paths or (bool(asked.folder) and path.startswith(asked.folder))


def _name_kind(link: Link) -> str:
    match link.kind:
        case "html-link":
            return "link"
        case "html-image" | "html-source":
            return "image"
        case kind:
            return kind


def _leads_there(resolution: Resolution, asked: Asked) -> bool:
    match resolution:
        case ToWeb(url) | NestedUrl(_, url):
            return bool(asked.address) and _is_same_address(url, asked.address)
        case ToChapter(path, slug):
            return _is_asked(path, slug, asked)
        case ToFile(path, _):
            return _is_asked(path, "", asked)
        case NoAnchor(path):
            return _is_asked(path, "", asked)
        case FolderAnchor(readme, _, slug):
            return _is_asked(readme, slug, asked)
        case WrongCase(_, target):
            return _leads_there(target, asked)
        case _:
            return False


def _is_asked(path: str, slug: str, asked: Asked) -> bool:
    inside = bool(asked.folder) and path.startswith(asked.folder)
    return path in asked.paths or inside or (bool(slug) and (path, slug) in asked.anchors)


def _is_same_address(url: str, asked: str) -> bool:
    """An address without an anchor means all of its anchors too."""
    if "#" not in asked:
        url = url.partition("#")[0]
    return url.rstrip("/") == asked.rstrip("/")


# --- chapters.yaml, regions, views, commands ---


def _find_listed(inspection: Inspection, asked: Asked) -> Iterator[Reference]:
    config = inspection.config

    def is_asked(path: str) -> bool:
        return _is_asked(path, "", asked)

    for entry in config.chapters:
        if is_asked(entry.path):
            yield Reference(entry.span, "chapter", entry.path)
    for move in config.moved:
        if is_asked(move.new):
            yield Reference(move.span, "moved", move.old)
    for tool in config.tools:
        if is_asked(tool.path):
            span = Span(FILE_NAME, tool.span.line, tool.span.col)
            yield Reference(span, "tool", tool.name)
    if config.cover and config.cover_span and is_asked(config.cover):
        yield Reference(config.cover_span, "cover", config.cover)


def _find_quotations(inspection: Inspection, asked: Asked) -> Iterator[Reference]:
    evidence = inspection.evidence
    views = set(asked.views)
    for view in evidence.views.values():
        if line := _find_source(inspection, view, asked):
            views.add(view.name)
            yield Reference(Span(view.path, line), "view", view.name)
    for entry in inspection.quotations.values():
        for quotation in entry:
            if isinstance(quotation, Region):
                is_text = quotation.kind == "output"
                owner = quotation.name.partition("/")[0] if is_text else ""
                is_asked = owner == asked.tool if is_text else quotation.name in views
                how, name = quotation.kind, quotation.name
            else:
                is_asked = quotation.view in views
                how, name = "value", f"{quotation.view}.{quotation.column}"
            if is_asked:
                yield Reference(quotation.opening, how, name)


def _find_source(inspection: Inspection, view: View, asked: Asked) -> int:
    """The line at which a view reads the tool or the record asked for, or 0."""
    if asked.tool:
        sql = blank_quoted(view.sql, "comment", "text")
        match = re.search(rf"(?<!\w){re.escape(asked.tool)}(?!\w)", sql, re.IGNORECASE)
        return sql.count("\n", 0, match.start()) + 1 if match else 0
    if asked.record:
        provenance = inspection.evidence.provenance.get(view.name)
        if asked.record in blank_quoted(view.sql, "comment"):
            return view.find_line(asked.record)
        return int(provenance is not None and asked.record in provenance.records)
    return 0


def _find_commands(
    inspection: Inspection, documents: Mapping[str, Document], asked: Asked
) -> Iterator[Reference]:
    """Lines of code that call the tool by its name or by that of its file."""
    if not asked.tool:
        return
    files = (PurePosixPath(t.path).name for t in inspection.config.tools if t.name == asked.tool)
    words = "|".join(re.escape(word) for word in (asked.tool, *files))
    pattern = re.compile(rf"(?<![\w-])(?:{words})(?![\w-])")
    for document in documents.values():
        for fence in read_fences(document.chapter):
            for row, line in enumerate(fence.code.split("\n")):
                if match := pattern.search(line):
                    place = fence.place(row, match.start(), len(match[0]))
                    yield Reference(place, "command", line.strip())


# --- as it is shown ---


def format_references(references: Sequence[Reference], target: str) -> str:
    """One reference a line, and how many there are in how many files."""
    width = max((len(entry.how) for entry in references), default=0)
    lines = [
        f"{entry.span.path}:{entry.span.line}:{entry.span.col}: "
        f"{entry.how.ljust(width)}  {entry.text}"
        for entry in references
    ]
    files = len({entry.span.path for entry in references})
    counted = count_noun(len(references), "reference")
    lines.append(f"{counted} to {target}" + (f" in {count_noun(files, 'file')}" if files else ""))
    return "\n".join(lines) + "\n"


def format_references_json(references: Iterable[Reference]) -> str:
    """One array of objects: path line col how text."""
    rows = [
        {
            "path": entry.span.path,
            "line": entry.span.line,
            "col": entry.span.col,
            "how": entry.how,
            "text": entry.text,
        }
        for entry in references
    ]
    return json.dumps(rows, indent=2, ensure_ascii=False) + "\n"
