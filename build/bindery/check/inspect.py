"""From a folder to findings: load, parse, resolve, compare, check, each once, in this order."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, cast

from msgspec import Struct, field
from msgspec.structs import replace

from bindery.book.diagrams import compare_drawings, find_drawings, list_diagrams
from bindery.book.glossary import is_glossary
from bindery.book.load import load_book
from bindery.book.resolve import resolve_book
from bindery.check.rules import RULES, Scope, check_book, prepare_chapter
from bindery.core.build_date import read_latest_start, read_today
from bindery.core.cache import Cache
from bindery.core.config import Config, load_config
from bindery.core.facts import Facts
from bindery.core.model import Book, Chapter, Finding, ResolvedBook
from bindery.core.report import sort_findings
from bindery.core.repository import RECORDS_FOLDER, Tree, join_lines
from bindery.evidence.evidence import Evidence
from bindery.evidence.excerpts import read_excerpts
from bindery.evidence.late_evidence import LateEvidence, hash_evidence
from bindery.evidence.plots.files import compare_figures
from bindery.evidence.quotations import Quotations, compare_quotations, find_quotations
from bindery.markdown.chapter_reader import parse_chapter

if TYPE_CHECKING:
    from bindery.evidence.gather import Gathering


class Inspection(Struct, frozen=True):
    """A book, where its links lead, what its views give, and all that is wrong with it."""

    config: Config
    tree: Tree
    resolved: ResolvedBook
    evidence: Evidence
    quotations: Mapping[str, Quotations]
    """What each chapter quotes, by its path."""
    findings: tuple[Finding, ...]
    facts: Facts = field(default_factory=Facts)
    """Facts about the evidence and the quotations together."""
    inputs: Mapping[str, str] = field(default_factory=dict)
    """What the evidence depends on, by what the user calls it; empty without a cache."""
    evidence_key: object = None
    """What the evidence was gathered from; that of another inspection is the same if this is."""

    @property
    def book(self) -> Book:
        return self.resolved.book


def inspect_book(
    root: Path,
    *,
    since: str | None = None,
    only: Collection[str] = (),
    cache: Cache | None = None,
    prepare: Callable[[Chapter], object] = lambda _: None,
) -> Inspection:
    """Inspect the book in a folder. Raises ConfigError where chapters.yaml is wrong.

    With `since`, a revision of git, the chapters are compared with what they were then; ConfigError
    where there is no such revision. Where `only` names chapters and nothing else, the book is
    these and the evidence that they quote: the findings in them are the same, others are not all
    there, and it is quicker.
    The cache does not change the result. `prepare` works out facts of a chapter that was not in
    it, in addition to those that the rules ask for.
    """

    def prepare_all(config: Config, tree: Tree, chapter: Chapter) -> None:
        prepare_chapter(config, tree, chapter)
        prepare(chapter)

    read = read_book(root, only=only, cache=cache, prepare=prepare_all)
    return find_faults(read, since=since)


def read_book(
    root: Path,
    *,
    only: Collection[str] = (),
    before: Inspection | None = None,
    cache: Cache | None = None,
    prepare: Callable[[Config, Tree, Chapter], object] = lambda *_: None,
) -> Inspection:
    """The same, of findings only what reading comes upon: no rule has been asked. The evidence is
    that of an inspection `before` where none of its files has changed since. `prepare` works out
    facts of a chapter that was not in the cache."""
    config = load_config(root, RULES)
    is_part = bool(only) and {entry.path for entry in config.chapters}.issuperset(only)
    gathering: list[Gathering] = []

    def gather_ahead(tree: Tree) -> None:
        if before is None and not is_part and _has_evidence(tree, config):
            gathering.append(_begin_gathering(tree, config, cache))
            gathering[0].trace_ahead()

    load = partial(load_book, config, cache=cache, prepare=partial(prepare, config))
    loaded = load(only if is_part else None, meanwhile=gather_ahead)
    if is_part and any(map(is_glossary, loaded.book.chapters)):
        loaded = load()  # where its links lead is compared with its terms
    resolved = resolve_book(loaded.book, loaded.tree, config.allowed_schemes, loaded.parsers)
    chapters, tree = loaded.book.chapters, loaded.tree
    diagrams = list_diagrams(chapters)
    drawings = find_drawings(tree, config.figures, diagrams)
    resolved = replace(resolved, drawings=drawings)
    quotations = {chapter.path: find_quotations(chapter) for chapter in chapters}
    quoted = [view for entry in quotations.values() for view in entry.views]
    named = [name for entry in quotations.values() for name in entry.excerpts]
    excerpts = read_excerpts(tree, named)

    def gather() -> Evidence:
        if not _has_evidence(tree, config):
            return Evidence(excerpts=excerpts)
        needed = quoted if is_part else None
        begun = gathering[0] if gathering else _begin_gathering(tree, config, cache, needed)
        return replace(begun.finish(quoted), excerpts=excerpts)

    key = _read_stamps(tree, config), tuple(quoted), repr(excerpts), read_today()
    facts = Facts()
    inputs: dict[str, str] = {}
    if before is not None and before.evidence_key == key:
        evidence = before.evidence
    elif cache is None:
        evidence = gather()
    else:
        evidence = cast(Evidence, LateEvidence(gather))
    if cache is not None:
        inputs = {"the evidence": hash_evidence(tree, config), "the day": str(read_today())}
        if _has_evidence(tree, config):
            part = f" of {', '.join(quotations)}" if is_part else ""
            quoting = {**inputs, "a quotation": repr((quotations, excerpts))}
            facts = cache.open_facts(f"findings about quotations{part}", quoting)
    of_evidence = facts.derive(
        "quotations",
        tuple[Finding, ...],
        lambda: (
            *evidence.findings,
            *(
                finding
                for path, entry in quotations.items()
                for finding in compare_quotations(path, entry, evidence, config.figures)
            ),
            *compare_figures(tree, config.figures, evidence, quotations),
        ),
    )
    of_chapters = (finding for chapter in chapters for finding in chapter.findings)
    of_diagrams = compare_drawings(tree, diagrams, drawings)
    found = (*loaded.findings, *of_evidence, *of_chapters, *of_diagrams)
    return Inspection(config, tree, resolved, evidence, quotations, found, facts, inputs, key)


def find_faults(read: Inspection, *, since: str | None = None) -> Inspection:
    """A book that was read, with the findings of all rules."""
    former = _read_former(read.config, read.book, since) if since is not None else None
    scope = Scope(
        read.config,
        read.tree,
        read.resolved,
        read.evidence,
        read.quotations,
        read.findings,
        former,
        read.facts,
    )
    return replace(read, findings=tuple(sort_findings(check_book(scope))))


def _read_stamps(tree: Tree, config: Config) -> tuple[tuple[str, int, int], ...]:
    """Path, time and size of every file that the evidence of a book is made from."""
    folders = (config.views, config.data, RECORDS_FOLDER)
    paths = (path for folder in folders if folder for path in tree.walk_files(folder))
    stamps = []
    for path in (config.file, *(tool.path for tool in config.tools), *paths):
        with suppress(OSError):
            status = (tree.root / path).stat()
            stamps.append((path, status.st_mtime_ns, status.st_size))
    return tuple(stamps)


def _has_evidence(tree: Tree, config: Config) -> bool:
    return any(map(tree.find_kind, (config.views, config.data, RECORDS_FOLDER)))


def _begin_gathering(
    tree: Tree, config: Config, cache: Cache | None, only: Collection[str] | None = None
) -> Gathering:
    # Imported here: a book without evidence need not wait for what reads it.
    from bindery.evidence.gather import Gathering

    return Gathering(tree, config, read_today(), read_latest_start(), cache, only)


def _read_former(config: Config, book: Book, rev: str) -> Mapping[str, Chapter]:
    """The chapters of today as they were at a revision, those that have moved under their new
    path; new ones are left out."""
    from bindery.book.git_history import find_changed_files, read_file_at

    changed = find_changed_files(config.root, rev)
    names = {move.new: move.old for move in config.moved}
    former = {chapter.path: chapter for chapter in book.chapters if chapter.path not in changed}
    for chapter in (chapter for chapter in book.chapters if chapter.path in changed):
        source = read_file_at(config.root, rev, chapter.path)
        if not source and chapter.path in names:
            source = read_file_at(config.root, rev, names[chapter.path])
        if source:
            source = join_lines(source.removeprefix("\ufeff"))
            former[chapter.path] = parse_chapter(chapter.path, source, maths=config.maths)
    return former
