"""unglossed-term: a glossary term has no meaning, appears twice, or links to a section that does
not mention it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

from bindery.book.glossary import is_glossary, match_name, split_names
from bindery.check.rules.gutted_section import find_section
from bindery.check.rules.rule import Rule, Scope
from bindery.core.model import Book, Finding, Link, Severity, ToChapter
from bindery.markdown.prose import read_fences, read_passages
from bindery.markdown.typed_tables import Cell, TypedTable, read_tables

RULE = Rule(
    "unglossed-term", Severity.WARNING, "a glossary term is not explained where its row says"
)


def check(scope: Scope) -> Iterator[Finding]:
    for chapter in scope.book.chapters:
        if is_glossary(chapter):
            links: dict[int, list[Link]] = defaultdict(list)
            for link in chapter.links:
                links[link.span.line].append(link)
            known: dict[str, Cell] = {}
            texts = _Texts(scope.book)
            for table in read_tables(chapter):
                yield from _check_table(scope, table, links, known, texts)


def _check_table(
    scope: Scope,
    table: TypedTable,
    links: Mapping[int, Sequence[Link]],
    known: dict[str, Cell],
    texts: _Texts,
) -> Iterator[Finding]:
    places = [_list_places(scope, links.get(row[0].span.line, ())) for row in table.rows]
    for row, targets in zip(table.rows, places, strict=True):
        term = row[0]
        names = split_names(term.text)
        if not names or len(row) < 2:
            continue
        if not row[1].text:
            hint = "explain it in the second column"
            yield RULE.find(term.span, f"'{names[0]}' has no meaning", hint)
        if (other := known.setdefault(names[0].casefold(), term)) is not term:
            hint = f"it already has a row on line {other.span.line}"
            yield RULE.find(term.span, f"'{names[0]}' is explained twice", hint)
        if not targets and any(places):
            hint = "link to the chapter, as the other rows do"
            yield RULE.find(term.span, f"no link to where '{names[0]}' is explained", hint)
        for link, target in targets:
            if not texts.mention(target, names):
                message = f"the target of this link does not mention '{names[0]}'"
                hint = "link to the section that explains it, or add the word used there"
                yield RULE.find(link.span, message, hint)


def _list_places(scope: Scope, links: Sequence[Link]) -> list[tuple[Link, ToChapter]]:
    found = []
    for link in links:
        target = scope.resolved.links[link]
        if isinstance(target, ToChapter):
            found.append((link, target))
    return found


class _Texts:
    """The text of chapters and sections."""

    def __init__(self, book: Book) -> None:
        self._chapters = {chapter.path: chapter for chapter in book.chapters}
        self._lines: dict[str, list[tuple[int, str]]] = {}

    def mention(self, target: ToChapter, names: Sequence[str]) -> bool:
        """Whether the target of a link says one of these names."""

        def search() -> bool:
            text = self._read(target)
            return any(match_name(name).search(text) for name in names)

        facts = self._chapters[target.path].facts
        return facts.derive(f"mention of {', '.join(names)} in #{target.slug}", bool, search)

    def _read(self, target: ToChapter) -> str:
        """The text of a section with its subsections; the whole chapter if the target names no
        heading."""
        chapter = self._chapters[target.path]
        if target.path not in self._lines:
            passages = [(passage.line, passage.text) for passage in read_passages(chapter)]
            fences = [(fence.line, fence.code) for fence in read_fences(chapter)]
            self._lines[target.path] = passages + fences
        headings = {anchor.slug for anchor in chapter.anchors if anchor.level}
        first, last = find_section(chapter, target.slug if target.slug in headings else "")
        return "\n".join(text for line, text in self._lines[target.path] if first <= line < last)
