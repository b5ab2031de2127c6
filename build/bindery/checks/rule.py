"""What a check is made of: a rule with an id, and the scope it looks at."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from bindery.config import Config
from bindery.evidence import Evidence
from bindery.load import Tree
from bindery.model import (
    Book,
    Chapter,
    Finding,
    Link,
    Resolution,
    ResolvedBook,
    Severity,
    Span,
)
from bindery.regions import Quotations


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule id, how much its findings weigh unless the book says otherwise, and its promise."""

    id: str
    severity: Severity
    summary: str

    def find(self, span: Span, message: str, hint: str = "") -> Finding:
        return Finding(span, self.id, message, hint, self.severity)


@dataclass(frozen=True, slots=True)
class Scope:
    """All that a check may look at."""

    config: Config
    tree: Tree
    resolved: ResolvedBook
    evidence: Evidence
    quotations: Mapping[str, Quotations]
    """What each chapter quotes from the evidence, by its path."""
    found: tuple[Finding, ...]
    """What loading, parsing and comparing tables have found already."""

    @property
    def book(self) -> Book:
        return self.resolved.book

    def iterate_links(self) -> Iterator[tuple[Chapter, Link, Resolution]]:
        for chapter in self.book.chapters:
            for link in chapter.links:
                yield chapter, link, self.resolved.links[link]

    def take_found(self, rule: Rule) -> Iterator[Finding]:
        """The findings of earlier stages under this rule."""
        for finding in self.found:
            if finding.rule == rule.id:
                yield Finding(
                    finding.span, finding.rule, finding.message, finding.help, rule.severity
                )
