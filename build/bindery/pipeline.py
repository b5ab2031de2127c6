"""From a folder to findings: load, parse, resolve, compare, check, each once, in this order."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from bindery.checks import RULES, Scope, check_book
from bindery.config import Config, load_config
from bindery.evidence import Evidence, gather_evidence
from bindery.load import Tree, load_book
from bindery.model import Book, Finding, ResolvedBook, Severity
from bindery.regions import compare_regions
from bindery.report import sort_findings
from bindery.resolve import resolve_book


@dataclass(frozen=True, slots=True)
class Inspection:
    """A book, where its links lead, what its views give, and all that is wrong with it."""

    config: Config
    tree: Tree
    resolved: ResolvedBook
    evidence: Evidence
    findings: tuple[Finding, ...]

    @property
    def book(self) -> Book:
        return self.resolved.book

    @property
    def errors(self) -> tuple[Finding, ...]:
        return tuple(f for f in self.findings if f.severity is Severity.ERROR)


def inspect_book(root: Path) -> Inspection:
    """Inspect the book in a folder. Raises ConfigError where chapters.yaml is wrong."""
    config = load_config(root, RULES)
    loaded = load_book(config)
    resolved = resolve_book(loaded.book, loaded.tree, config.allowed_schemes)
    evidence = gather_evidence(loaded.tree, config)
    found = (
        *loaded.findings,
        *evidence.findings,
        *(finding for chapter in loaded.book.chapters for finding in chapter.findings),
        *(
            finding
            for chapter in loaded.book.chapters
            for finding in compare_regions(chapter, evidence)
        ),
    )
    scope = Scope(config, loaded.tree, resolved, found)
    findings = sort_findings(check_book(scope))
    return Inspection(config, loaded.tree, resolved, evidence, tuple(findings))
