"""Find references to a file, an anchor, a tool, a record, a view or an address."""

from __future__ import annotations

import json
import posixpath
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import PurePosixPath

from msgspec import Struct

from bindery.book.markdown_files import Document, resolve_documents
from bindery.check.inspect import Inspection
from bindery.core.config import FILE_NAME
from bindery.core.model import (
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
    refuse,
)
from bindery.core.report import count_noun
from bindery.core.repository import RECORDS_FOLDER, Tree
from bindery.core.suggestions import suggest
from bindery.evidence.quotations import Region
from bindery.evidence.views import View, blank_quoted
from bindery.markdown.prose import read_fences

_ADDRESS = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://|mailto:")


class Reference(Struct, frozen=True, order=True):
    """A reference and its place."""

    span: Span
    how: str
    """Its kind: "link", "image", "definition", "table", "command", "view" and so on."""
    text: str
    """The text at that place."""


class Asked(Struct, frozen=True):
    """The targets to search for. One name can set several fields: a tool and all that belongs to
    it."""

    path: str | None = None
    folder: str = ""
    """A folder and everything below it."""
    anchors: frozenset[tuple[str, str]] = frozenset()
    """Pairs of a path and an anchor."""
    address: str = ""
    tool: str = ""
    record: str = ""
    view: str = ""


def find_references(
    inspection: Inspection, documents: Mapping[str, Document], target: str
) -> tuple[Reference, ...]:
    """Every reference to the target, in reading order. `target` is a path, `path#anchor`,
    `#anchor`, a tool, a record, a view or an address. Raises ConfigError for anything else."""
    asked = _read_target(inspection, documents, target)
    found = [
        *_find_links(inspection, documents, asked),
        *_find_listed(inspection, asked),
        *_find_quotations(inspection, asked),
        *_find_commands(inspection, documents, asked),
    ]
    return tuple(sorted(set(found)))


# --- the target ---


def _read_target(inspection: Inspection, documents: Mapping[str, Document], target: str) -> Asked:
    tree, evidence = inspection.tree, inspection.evidence
    if _ADDRESS.match(target):
        return Asked(address=target)
    path, mark, anchor = target.partition("#")
    if mark:
        return Asked(anchors=_find_anchors(documents, tree, path, anchor, target))
    # Tools, records and views can be given by name or by path.
    named = {
        **{name: Asked(f"{RECORDS_FOLDER}/{name}.json", record=name) for name in evidence.records},
        **{view.name: Asked(view.path, view=view.name) for view in evidence.views.values()},
        **{tool.name: Asked(tool.path, tool=tool.name) for tool in inspection.config.tools},
    }
    if target in named:
        return named[target]
    path = posixpath.normpath(path) if path else ""
    path = "" if path == "." else path
    match tree.find_kind(path):
        case "folder":
            return Asked(path, folder=f"{path}/" if path else "")
        case "file":
            return next((one for one in named.values() if one.path == path), Asked(path))
    hint = suggest(target, (*named, *tree.walk_files("")))
    raise refuse(target, f"there is no '{target}' in this book", hint)


def _find_anchors(
    documents: Mapping[str, Document], tree: Tree, path: str, anchor: str, target: str
) -> frozenset[tuple[str, str]]:
    chosen = posixpath.normpath(path) if path else ""
    if chosen and tree.find_kind(chosen) == "folder":
        chosen = f"{chosen}/README.md" if chosen != "." else "README.md"
    if chosen and chosen not in documents:
        hint = suggest(chosen, documents)
        raise refuse(target, f"there is no Markdown file '{chosen}'", hint)
    where = [documents[chosen]] if chosen else list(documents.values())
    known = {(document.path, a.slug) for document in where for a in document.chapter.anchors}
    found = frozenset(pair for pair in known if pair[1] == anchor)
    if not found:
        place = f"in '{chosen}'" if chosen else "in any chapter"
        hint = suggest(anchor, sorted({slug for _, slug in known}))
        raise refuse(target, f"there is no anchor '{anchor}' {place}", hint)
    return found


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
    """Whether a link is inside the target: a file's links to itself are not listed."""
    return path == asked.path or (bool(asked.folder) and path.startswith(asked.folder))


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
    return _stays_inside(path, asked) or (bool(slug) and (path, slug) in asked.anchors)


def _is_same_address(url: str, asked: str) -> bool:
    """Compare addresses; one without an anchor matches all of its anchors."""
    if "#" not in asked:
        url = url.partition("#")[0]
    return url.rstrip("/") == asked.rstrip("/")


# --- chapters.yaml, regions, views, commands ---


def _find_listed(inspection: Inspection, asked: Asked) -> Iterator[Reference]:
    config = inspection.config
    listed = [
        *((entry.path, Reference(entry.span, "chapter", entry.path)) for entry in config.chapters),
        *((move.new, Reference(move.span, "moved", move.old)) for move in config.moved),
        *(
            (
                tool.path,
                Reference(Span(FILE_NAME, tool.span.line, tool.span.col), "tool", tool.name),
            )
            for tool in config.tools
        ),
    ]
    if config.cover and config.cover_span:
        listed.append((config.cover, Reference(config.cover_span, "cover", config.cover)))
    yield from (reference for path, reference in listed if _is_asked(path, "", asked))


def _find_quotations(inspection: Inspection, asked: Asked) -> Iterator[Reference]:
    evidence = inspection.evidence
    views = {asked.view} if asked.view else set()
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
                if quotation.kind == "excerpt":
                    is_asked = _is_asked(quotation.name.partition("#")[0], "", asked)
                how, name = quotation.kind, quotation.name
            else:
                is_asked = quotation.view in views
                how, name = "value", f"{quotation.view}.{quotation.column}"
            if is_asked:
                yield Reference(quotation.opening, how, name)


def _find_source(inspection: Inspection, view: View, asked: Asked) -> int:
    """The line where a view reads the requested tool or record, or 0."""
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
    """Lines of code that call the tool by its name or file name."""
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


# --- output ---


def format_references(references: Sequence[Reference], target: str) -> str:
    """One reference per line, and a count of references and files."""
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
    """A JSON array of objects with path, line, col, how and text."""
    rows = [
        {
            "path": span.path,
            "line": span.line,
            "col": span.col,
            "how": entry.how,
            "text": entry.text,
        }
        for entry in references
        for span in (entry.span,)
    ]
    return json.dumps(rows, indent=2, ensure_ascii=False) + "\n"
