"""The texts of chapters for their pages, each rendered when it is first needed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property, partial

from msgspec import Struct
from msgspec.structs import replace

from bindery.book.glossary import find_glossary
from bindery.book.images import list_images
from bindery.check.inspect import Inspection
from bindery.core.cache import Cache, Recipe, recall, recall_many
from bindery.core.model import Book, Chapter, Part, ResolvedBook, ToFile
from bindery.render.addresses import quote_path, relate
from bindery.render.glossary import Term
from bindery.render.numbering import Exhibit, find_addresses
from bindery.render.provenance_notes import list_note_inputs, write_additions
from bindery.render.site.dialect import SiteDialect
from bindery.render.site.dressing import DressedText
from bindery.render.site.model import ChapterText, Progress
from bindery.render.site.reading import Section, count_minutes, read_page
from bindery.render.text.content import NOTHING_ADDED, Additions, render_chapter
from bindery.render.text_inputs import list_inputs
from bindery.render.web_notes import write_titles

_Given = tuple[Chapter, ResolvedBook, SiteDialect, Additions, Mapping[str, str]]
"""The arguments of `render_chapter`."""


class _PageText(Struct, frozen=True):
    """The text of a chapter, and facts about it."""

    body: str
    sections: tuple[Section, ...]
    summary: str
    minutes: int
    """Reading time."""
    has_terms: bool
    """Whether it uses terms from a glossary."""
    terms: tuple[Term, ...]
    """The terms that it explains."""
    files: tuple[str, ...]
    """Files of the repository that it shows or links."""


class _Notes(Struct, frozen=True):
    """The notes on the numbers of each chapter, and the files of the repository that they offer."""

    chapters: Mapping[str, Additions]
    files: tuple[str, ...]


class Texts:
    """The text of each chapter of a book. Calls `progress` with the title of a chapter before it
    is rendered."""

    def __init__(
        self,
        inspection: Inspection,
        dialect: SiteDialect,
        exhibits: Sequence[Exhibit],
        progress: Progress,
        cache: Cache | None = None,
    ) -> None:
        self._inspection = inspection
        self._dialect = dialect
        self._progress = progress
        self._cache = cache
        notes = recall(
            cache,
            "notes on numbers in the site",
            list_note_inputs(inspection, dialect, dialect.edition),
            _Notes,
            lambda: _Notes(
                write_additions(inspection, dialect, folds=True),
                tuple(sorted(dialect.used_files)),
            ),
        )
        self._additions = notes.chapters
        dialect.used_files.update(notes.files)
        self._titles = write_titles(inspection)
        self._glossary = find_glossary(inspection.book)
        self._exhibits: dict[str, list[Exhibit]] = {}
        self._labelled = [exhibit for exhibit in exhibits if exhibit.anchor]
        for exhibit in exhibits:
            self._exhibits.setdefault(exhibit.chapter, []).append(exhibit)
        self._chapters = {chapter.path: chapter for chapter in inspection.book.chapters}
        self._texts: dict[str, _PageText] = {}
        self._written: dict[str, ChapterText] = {}

    def __iter__(self) -> Iterator[ChapterText]:
        """All of them, in reading order."""
        return map(self.write, self._chapters)

    def write(self, path: str) -> ChapterText:
        """The text of the chapter at a path."""
        if path not in self._written:
            self._written[path] = self._write(self._chapters[path])
        return self._written[path]

    def _write(self, chapter: Chapter) -> ChapterText:
        text = self._read(chapter.path)
        self._dialect.used_files.update(text.files)
        return ChapterText(
            chapter,
            text.body,
            text.sections,
            text.summary,
            text.minutes,
            has_origins=chapter.path in self._additions,
            has_terms=text.has_terms,
            synonyms=tuple(term.names for term in text.terms if len(term.names) > 1),
        )

    def _read(self, path: str) -> _PageText:
        if path not in self._texts:
            self._render([path])
        return self._texts[path]

    def render(self, meanwhile: Callable[[], object]) -> None:
        """Render all texts, with two processes if many have changed; `meanwhile` is called while
        the second one begins."""
        self._render([path for path in self._chapters if path != self._glossary], meanwhile)

    def _render(self, paths: Sequence[str], meanwhile: Callable[[], object] = lambda: None) -> None:
        """The texts of chapters, from the cache if none of their inputs has changed."""
        recipes = [self._list_recipe(self._chapters[path]) for path in paths]
        texts = recall_many(self._cache, _PageText, recipes, self._progress, meanwhile)
        self._texts |= zip(paths, texts, strict=True)

    def _list_recipe(self, chapter: Chapter) -> Recipe[_PageText]:
        path = chapter.path
        terms = self._find_terms(path)
        with self._collect_files():
            given = self._list_given(chapter)
            drawings = tuple(self._find_drawings(chapter))
            known = find_addresses(self._labelled, self._dialect, chapter)
            inputs = {
                **list_inputs(*given),
                "the numbering of its tables and figures": repr((self._exhibits.get(path), known)),
                "a drawing": repr(drawings),
                "the glossary": f"{list(terms)} {any(terms.values()) and self._explained}",
            }
        make = partial(self._make, given, terms, drawings, known)
        return Recipe(f"page of {path}", inputs, make, chapter.title)

    @contextmanager
    def _collect_files(self) -> Iterator[set[str]]:
        """The files that the dialect notes as used meanwhile, apart from those before."""
        others, self._dialect.used_files = self._dialect.used_files, set()
        try:
            yield self._dialect.used_files
        finally:
            self._dialect.used_files = others

    def _list_given(self, chapter: Chapter) -> _Given:
        added = self._additions.get(chapter.path, NOTHING_ADDED)
        return chapter, self._inspection.resolved, self._dialect, added, self._titles

    def _find_terms(self, path: str) -> Mapping[str, Sequence[Term]]:
        """The terms of the glossary, by its address from the chapter at a path."""
        if not self._glossary:
            return {}
        pages = self._dialect.pages
        address = quote_path(relate(pages[self._glossary], pages[path]))
        return {address: self._read(self._glossary).terms if path != self._glossary else ()}

    @cached_property
    def _explained(self) -> str:
        """All that the glossary says."""
        return repr(self._read(self._glossary).terms)

    def _make(
        self,
        given: _Given,
        terms: Mapping[str, Sequence[Term]],
        drawings: Iterable[str],
        known: Mapping[str, Exhibit],
    ) -> _PageText:
        path = given[0].path
        is_glossary = path == self._glossary
        with self._collect_files() as used:
            text = DressedText(render_chapter(*given), is_glossary=is_glossary)
        text.caption(self._exhibits.get(path, ()), known)
        text.mark_tables()
        text.mark_drawings(drawings)
        own = tuple(text.terms)
        if is_glossary:
            terms = dict.fromkeys(terms, own)
        letters = self._inspection.config.wording("Terms by letter")
        has_terms = text.mark_terms({**terms, "": own}, letters)
        text.delay_images()
        body = text.write()
        sections, summary = read_page(body)
        minutes, files = count_minutes(sections), tuple(sorted(used))
        return _PageText(body, tuple(sections), summary, minutes, has_terms, own, files)

    def _find_drawings(self, chapter: Chapter) -> Iterator[str]:
        """The addresses of the drawings of a chapter that have one theme only; others query the
        theme of the browser themselves."""
        tree = self._inspection.tree
        alone = replace(self._inspection.resolved, book=Book((Part("", (chapter,)),)))
        for _, path in list_images(alone):
            if path.lower().endswith(".svg"):
                source = self._dialect.write_image(ToFile(path), chapter)
                if source and b"prefers-color-scheme" not in tree.read_bytes(path):
                    yield source.src
