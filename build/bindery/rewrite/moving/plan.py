"""Plan a move: new paths, links to rewrite, and proof that each link leads to the same thing."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import PurePosixPath

from msgspec import Struct

from bindery.book.markdown_files import (
    Document,
    Edit,
    Resolved,
    apply_edits,
    find_typed,
    make_document,
    read_link_form,
    resolve_documents,
)
from bindery.core.config import Config
from bindery.core.model import (
    BookError,
    Chapter,
    Failure,
    Finding,
    FolderAnchor,
    NestedUrl,
    NoAnchor,
    NoDestination,
    NothingThere,
    Outside,
    Resolution,
    Severity,
    Span,
    Target,
    ToChapter,
    ToFile,
    ToWeb,
    WrongCase,
)
from bindery.core.repository import Tree
from bindery.core.transaction import Texts
from bindery.evidence.quotations import Quotations, compute_checksum, find_quotations
from bindery.markdown.link_typing import Form, read_form, write_form
from bindery.rewrite.moving.paths import MovedTree, Moves

RULE = "refused-move"
_CHECKSUM = re.compile(r"[0-9a-f]{8}(?=\s*-->)")


class Plan(Struct, frozen=True):
    """A move that breaks nothing."""

    moves: Moves
    texts: Texts
    """The files whose text changes."""
    edits: Mapping[str, tuple[Edit, ...]]
    """The links to rewrite, by the path of their file before the move."""
    emptied: frozenset[str]
    """Folders that become empty."""
    notes: tuple[Finding, ...]
    """Links that work, but would not be restored as typed by moving back."""
    mentions: tuple[Finding, ...]
    """Code and prose that name the old path. They are not links, so they stay."""


def plan_move(
    config: Config,
    tree: Tree,
    documents: Mapping[str, Document],
    moves: Moves,
    listing: Texts,
) -> Plan:
    """Plan moves so that every link in every document leads to the same thing as before.

    `listing` has the text before and after of changed files that are not Markdown. Raises BookError
    with a finding for each link that would lead elsewhere.
    """
    before = resolve_documents(documents.values(), tree, config)
    edits: dict[str, tuple[Edit, ...]] = {}
    notes: list[Finding] = []
    for path, document in documents.items():
        items = tuple(_edit_links(document, before, documents, moves))
        notes += (item for item in items if isinstance(item, Finding))
        renamed = _rename_quoted(document.chapter, moves, config)
        found = (*(item for item in items if isinstance(item, Edit)), *renamed)
        if found:
            edits[path] = tuple(dict.fromkeys(found))
    moved = _move_documents(documents, edits, moves, maths=config.maths)
    moved_tree = MovedTree(tree, moves)
    after = resolve_documents(moved.values(), moved_tree, config)
    faults = list(_find_astray(documents, moved, before, after, moves))
    if faults:
        raise BookError(*faults)
    notes += _find_shown(before, after, moves)
    pairs = {path: (documents[path].text, moved[moves.map(path)].text) for path in edits}
    texts = {path: pair for path, pair in {**pairs, **listing}.items() if pair[0] != pair[1]}
    mentions = tuple(_find_mentions(moved.values(), moves))
    return Plan(moves, texts, edits, moved_tree.emptied, tuple(notes), mentions)


# --- rewriting links ---


def _edit_links(
    document: Document,
    before: Mapping[str, Resolved],
    documents: Mapping[str, Document],
    moves: Moves,
) -> Iterator[Edit | Finding]:
    here = posixpath.dirname(document.path)
    new_here = posixpath.dirname(moves.map(document.path))
    for link, resolution in before[document.path]:
        form = read_link_form(link, document.chapter)
        if form is None:
            continue
        target, slash = _find_new_target(form, resolution, documents, moves)
        typed = write_form(form, here, form.path)
        wanted = write_form(form, new_here, target, slash=slash)
        if wanted == typed:
            continue
        old = find_typed(link, document.chapter)
        assert old is not None
        yield Edit(link.span, old, wanted)
        again = read_form(wanted, form.style, new_here)
        if slash is not None or again is None or write_form(again, here, form.path) != old:
            message = f"'{old}' is now typed '{wanted}': moving back will not restore it"
            yield Finding(link.span, RULE, message, severity=Severity.WARNING)


def _find_new_target(
    form: Form, resolution: Resolution, documents: Mapping[str, Document], moves: Moves
) -> tuple[str, bool | None]:
    """The new path, and whether it needs a slash at the end, if that changes."""
    path = moves.map(form.path)
    if path != form.path:
        return path, None
    if isinstance(resolution, WrongCase):
        match resolution.target:
            case ToChapter(actual) | ToFile(actual) if moves.map(actual) != actual:
                return moves.map(actual), None
    readme = posixpath.join(form.path, "README.md")
    if isinstance(resolution, ToChapter | FolderAnchor) and readme in documents:
        new = moves.map(readme)
        if new != readme:  # GitHub showed it for the folder
            is_readme = posixpath.basename(new) == "README.md"
            return (posixpath.dirname(new), None) if is_readme else (new, False)
    return form.path, None


def _rename_quoted(chapter: Chapter, moves: Moves, config: Config) -> Iterator[Edit]:
    """Update the markers of regions and values that quote a renamed view or file."""
    quotations = find_quotations(chapter)
    for region in quotations.regions:
        path = region.name.partition("#")[0]
        if region.kind == "excerpt" and moves.map(path) != path:
            yield _rename_in_marker(chapter, region.opening, path, moves.map(path))
    names = {
        PurePosixPath(old).stem: PurePosixPath(new).stem
        for old, new in moves.pairs
        if old.endswith(".sql") and PurePosixPath(config.views) in PurePosixPath(old).parents
    }
    if not any(old != new for old, new in names.items()):
        return
    for region in quotations.regions:
        if region.kind in ("table", "plot") and region.name in names:
            yield _rename_in_marker(chapter, region.opening, region.name, names[region.name])
    for value in quotations.values:
        if value.view in names:
            yield _rename_in_marker(chapter, value.opening, value.view, names[value.view])


def _rename_in_marker(chapter: Chapter, span: Span, old: str, new: str) -> Edit:
    line = chapter.lines[span.line - 1]
    start = line.index(old, line.index(":", span.col - 1))
    return Edit(Span(span.path, span.line, start + 1, len(old)), old, new)


# --- the documents after the move ---


def _move_documents(
    documents: Mapping[str, Document],
    edits: dict[str, tuple[Edit, ...]],
    moves: Moves,
    *,
    maths: bool,
) -> Mapping[str, Document]:
    """The documents after the move, by new path. Adds edits of checksums to `edits`: a checksum
    covers the links inside a generated region."""
    moved: dict[str, Document] = {}
    for path, document in documents.items():
        new_path = moves.map(path)
        if path not in edits:
            moved[new_path] = document
            if new_path != path:
                moved[new_path] = make_document(new_path, document.text, maths=maths)
            continue
        changed = make_document(new_path, apply_edits(document.text, edits[path]), maths=maths)
        sums = tuple(_renew_checksums(document.chapter, changed.chapter))
        if sums:
            edits[path] = (*edits[path], *sums)
            changed = make_document(new_path, apply_edits(document.text, edits[path]), maths=maths)
        moved[new_path] = changed
    return moved


def _renew_checksums(before: Chapter, after: Chapter) -> Iterator[Edit]:
    former: Quotations = find_quotations(before)
    for old, new in zip(former.regions, find_quotations(after).regions, strict=False):
        if old.body == new.body or compute_checksum(old.body) != old.checksum:
            continue
        line = before.lines[old.closing.line - 1]
        match = _CHECKSUM.search(line)
        assert match is not None
        span = Span(before.path, old.closing.line, match.start() + 1, len(match[0]))
        yield Edit(span, match[0], compute_checksum(new.body))


# --- verification ---


def _find_astray(
    documents: Mapping[str, Document],
    moved: Mapping[str, Document],
    before: Mapping[str, Resolved],
    after: Mapping[str, Resolved],
    moves: Moves,
) -> Iterator[Finding]:
    """A finding for each link that would lead elsewhere."""
    for path in documents:
        old_links, new_links = before[path], after[moves.map(path)]
        if len(old_links) != len(new_links):
            message = f"the links of '{path}' would be parsed differently after the move"
            yield Finding(Span.whole(path), RULE, message, "choose another name")
            continue
        for (old, was), (_, leads) in zip(old_links, new_links, strict=True):
            if _describe(was, moves) == _describe(leads, None) or _is_better(was, leads):
                continue
            message = f"'{old.raw}' would lead elsewhere"
            yield Finding(old.span, RULE, message, _explain(was, leads))


def _find_shown(
    before: Mapping[str, Resolved], after: Mapping[str, Resolved], moves: Moves
) -> Iterator[Finding]:
    """A note for each link to a folder that starts showing a chapter."""
    for path, links in before.items():
        for (link, was), (_, leads) in zip(links, after[moves.map(path)], strict=True):
            if isinstance(was, ToFile) and was.is_folder and isinstance(leads, ToChapter):
                message = (
                    f"'{link.raw}' now leads to '{leads.path}': moving back will not restore it"
                )
                yield Finding(link.span, RULE, message, severity=Severity.WARNING)


def _find_mentions(moved: Iterable[Document], moves: Moves) -> Iterator[Finding]:
    # A name without a folder is an ordinary word.
    names = "|".join(re.escape(old) for old, _ in moves.pairs if "/" in old)
    if not names:
        return
    pattern = re.compile(rf"(?<![\w./-])(?:{names})(?![\w-])")
    for document in moved:
        for number, line in enumerate(document.chapter.lines, 1):
            for match in pattern.finditer(line):
                span = Span(document.path, number, match.start() + 1, len(match[0]))
                message = (
                    f"'{match[0]}' is not a link and was not changed: check whether it is right"
                )
                yield Finding(span, RULE, message, severity=Severity.WARNING)


def _describe(resolution: Resolution, moves: Moves | None) -> tuple[object, ...]:
    """Where a link leads, in comparable form, without incidental details."""

    def carry(path: str) -> str:
        return moves.map(path) if moves else path

    match resolution:
        case ToChapter(path, slug):
            return "chapter", carry(path), slug
        case ToFile(path, fragment):
            return "file", carry(path), fragment
        case ToWeb(url) | NestedUrl(_, url):
            return "web", url
        case NothingThere(path):
            return "nothing", carry(path)
        case NoDestination(reason):
            return "none", reason
        case NoAnchor(chapter, slug):
            return "no anchor", carry(chapter), slug
        case FolderAnchor(readme, _, slug, target):
            return "folder anchor", carry(readme), slug, target and _describe(target, moves)
        case WrongCase(_, target):
            return "wrong case", _describe(target, moves)
        case Outside(path, through_link):
            return "outside", path, through_link


def _is_better(was: Resolution, leads: Resolution) -> bool:
    """Whether a broken link now works, or a folder got a page to show."""
    if isinstance(was, Failure):
        return isinstance(leads, Target)
    match was, leads:
        case ToFile(path, is_folder=True), ToChapter(chapter):
            return chapter == posixpath.join(path, "README.md")
    return False


def _explain(was: Resolution, leads: Resolution) -> str:
    match was, leads:
        case ToFile(path, is_folder=True), NothingThere():
            return f"the folder '{path}' would be removed because it becomes empty"
        case _, ToChapter(path) | ToFile(path):
            return f"it would lead to '{path}'; change the link first"
    return "change the link first"
