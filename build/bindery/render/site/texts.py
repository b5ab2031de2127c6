"""The texts of chapters as pages show them, each written when it is first asked for."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from bindery.book.git_history import find_last_changes
from bindery.book.glossary import find_glossary
from bindery.check.inspect import Inspection
from bindery.core.model import Chapter, ToFile
from bindery.render.addresses import quote_path, relate
from bindery.render.numbering import Exhibit
from bindery.render.provenance_notes import write_additions
from bindery.render.site.dialect import SiteDialect
from bindery.render.site.dressing import DressedText
from bindery.render.site.model import ChapterText, Progress
from bindery.render.site.reading import read_sections, summarise_page
from bindery.render.text.content import NOTHING_ADDED, render_chapter
from bindery.render.web_notes import write_titles


class Texts:
    """The text of each chapter of a book. `progress` is told the title of a chapter before its
    text is written."""

    def __init__(
        self,
        inspection: Inspection,
        dialect: SiteDialect,
        exhibits: Iterable[Exhibit],
        progress: Progress,
    ) -> None:
        self._inspection = inspection
        self._dialect = dialect
        self._progress = progress
        self._additions = write_additions(inspection, dialect, folds=True)
        self._titles = write_titles(inspection)
        self._days = find_last_changes(inspection.config.root)
        self._glossary = find_glossary(inspection.book)
        self._exhibits: dict[str, list[Exhibit]] = {}
        for exhibit in exhibits:
            self._exhibits.setdefault(exhibit.chapter, []).append(exhibit)
        self._chapters = {chapter.path: chapter for chapter in inspection.book.chapters}
        self._dressed: dict[str, DressedText] = {}
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
        text, here = self._dress(chapter.path), self._dialect.pages[chapter.path]
        terms = {"": text.terms}
        if self._glossary:
            page = quote_path(relate(self._dialect.pages[self._glossary], here))
            terms = {page: self._dress(self._glossary).terms, **terms}
        has_terms = text.mark_terms(terms, self._inspection.config.wording("Terms by letter"))
        text.delay_images()
        body = text.write()
        return ChapterText(
            chapter,
            body,
            tuple(read_sections(body)),
            summarise_page(body),
            self._days.get(chapter.path, ""),
            has_origins=chapter.path in self._additions,
            has_terms=has_terms,
            synonyms=tuple(term.names for term in text.terms if len(term.names) > 1),
        )

    def _dress(self, path: str) -> DressedText:
        if path not in self._dressed:
            chapter = self._chapters[path]
            self._progress(chapter.title)
            added = self._additions.get(path, NOTHING_ADDED)
            resolved = self._inspection.resolved
            body = render_chapter(chapter, resolved, self._dialect, added, self._titles)
            text = DressedText(body, is_glossary=path == self._glossary)
            text.caption(self._exhibits.get(path, ()))
            text.mark_tables()
            text.mark_drawings(self._find_drawings(chapter))
            self._dressed[path] = text
        return self._dressed[path]

    def _find_drawings(self, chapter: Chapter) -> Iterator[str]:
        """The addresses of the drawings of a chapter that know one theme only. A drawing that asks
        for the reader's theme by itself is told it by the browser."""
        tree = self._inspection.tree
        for link in chapter.links:
            target = self._inspection.resolved.find_target(link)
            if (
                link.is_image
                and isinstance(target, ToFile)
                and target.path.lower().endswith(".svg")
            ):
                source = self._dialect.write_image(target, chapter)
                if source and b"prefers-color-scheme" not in tree.read_bytes(target.path):
                    yield source.src
