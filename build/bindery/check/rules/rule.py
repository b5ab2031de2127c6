"""A rule, and the scope that a check sees."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from msgspec import Struct, field

from bindery.core.config import Config
from bindery.core.facts import Facts
from bindery.core.model import (
    Book,
    Chapter,
    Finding,
    Link,
    Resolution,
    ResolvedBook,
    Severity,
    Span,
)
from bindery.core.repository import Tree
from bindery.evidence.evidence import Evidence
from bindery.evidence.quotations import Quotations
from bindery.markdown.prose import Fence, Passage, read_fences, read_passages


class Rule(Struct, frozen=True):
    """A rule: id, default severity and summary."""

    id: str
    severity: Severity
    summary: str
    about: str = ""
    """The explanation for `--explain`; by default the docstring of the module."""

    def find(self, span: Span, message: str, hint: str = "") -> Finding:
        return Finding(span, self.id, message, hint, self.severity)

    def find_in_link(self, chapter: Chapter, link: Link, message: str, hint: str) -> Finding:
        """A finding in a link; the hint gives the line of the link's definition, if it has one."""
        defined = (one for one in chapter.definitions if one.key == link.label)
        first = next(defined, None) if link.label else None
        if first is not None:
            hint += f" (defined on line {first.span.line})"
        return self.find(link.span, message, hint)


class Scope(Struct, frozen=True):
    """Everything a check may read."""

    config: Config
    tree: Tree
    resolved: ResolvedBook
    evidence: Evidence
    quotations: Mapping[str, Quotations]
    """What each chapter quotes from the evidence, by chapter path."""
    found: tuple[Finding, ...]
    """Findings from loading, parsing and comparing tables."""
    former: Mapping[str, Chapter] | None = None
    """Chapters of the revision to compare with, by path."""
    facts: Facts = field(default_factory=Facts)
    """Facts about the evidence and the quotations together."""
    _passages: dict[str, tuple[Passage, ...]] = field(default_factory=dict)
    _fences: dict[str, tuple[Fence, ...]] = field(default_factory=dict)

    @property
    def book(self) -> Book:
        return self.resolved.book

    def iterate_links(self) -> Iterator[tuple[Chapter, Link, Resolution]]:
        """Every link and every unused definition, with its target."""
        for chapter in self.book.chapters:
            for link in (*chapter.links, *chapter.unread_links):
                yield chapter, link, self.resolved.links[link]

    def iterate_passages(self) -> Iterator[tuple[Chapter, Passage]]:
        """The prose of the book; cached."""
        for chapter in self.book.chapters:
            if chapter.path not in self._passages:
                self._passages[chapter.path] = read_passages(chapter)
            for passage in self._passages[chapter.path]:
                yield chapter, passage

    def iterate_fences(self) -> Iterator[tuple[Chapter, Fence]]:
        """The code blocks of the book; cached."""
        for chapter in self.book.chapters:
            if chapter.path not in self._fences:
                self._fences[chapter.path] = read_fences(chapter)
            for fence in self._fences[chapter.path]:
                yield chapter, fence

    def is_generated(self, path: str, line: int) -> bool:
        """Whether `bindery fill` wrote a line of a chapter."""
        return any(
            region.opening.line <= line <= region.closing.line
            for region in self.quotations[path].regions
        )
