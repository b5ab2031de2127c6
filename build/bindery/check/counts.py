"""How much a book holds, chapter by chapter and part by part: words, tables, figures, code, links,
sums, and the numbers that it quotes by their class."""

from __future__ import annotations

import itertools
import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce

from bindery.check.arithmetic.statements import read_statements
from bindery.check.inspect import Inspection
from bindery.check.quoted_numbers import CLASSES, find_quoted, list_numbers
from bindery.check.rules.wrong_arithmetic import TEXT_LANGUAGES
from bindery.core.model import Chapter, ToWeb
from bindery.core.report import group_digits
from bindery.markdown.prose import read_fences, read_passages

WHOLE = "the whole book"
_WORD = re.compile(r"[^\W_]")


@dataclass(frozen=True, slots=True)
class Count:
    """What one chapter holds, or several together."""

    name: str
    chapters: int = 0
    words: int = 0
    """Of paragraphs, headings and cells, as a reader sees them; blocks of code are not text."""
    tables: int = 0
    generated: int = 0
    """Those of the tables that views have made."""
    figures: int = 0
    code_blocks: int = 0
    links_inside: int = 0
    """To chapters, anchors and files of the repository."""
    links_web: int = 0
    sums: int = 0
    """Sums in the text that `bindery check` works out; in a clean book all of them hold."""
    numbers: Mapping[str, int] = field(default_factory=dict)
    """Of generated tables, plots and values, by their class."""

    def __add__(self, other: Count) -> Count:
        sums = {key: getattr(self, key) + getattr(other, key) for key, _ in _COLUMNS}
        return Count(self.name, **sums, numbers=Counter(self.numbers) + Counter(other.numbers))


def count_parts(inspection: Inspection) -> tuple[Count, ...]:
    """Each part of the book, by its title, and the whole book last."""
    by_path = {chapter.path: count for chapter, count in _count_chapters(inspection)}
    parts = [
        _join(part.title or "front", (by_path[chapter.path] for chapter in part.chapters))
        for part in inspection.book.parts
        if part.chapters
    ]
    return (*parts, _join(WHOLE, parts))


def count_chapters(inspection: Inspection) -> tuple[Count, ...]:
    """Each chapter, by its path, and the whole book last."""
    counts = [count for _, count in _count_chapters(inspection)]
    return (*counts, _join(WHOLE, counts))


def _join(name: str, counts: Iterable[Count]) -> Count:
    return reduce(Count.__add__, counts, Count(name))


def _count_chapters(inspection: Inspection) -> list[tuple[Chapter, Count]]:
    quoted = find_quoted(inspection).chapters
    counts = []
    for chapter in inspection.book.chapters:
        targets = [inspection.resolved.links[link] for link in chapter.links if not link.is_image]
        web = sum(isinstance(target, ToWeb) for target in targets)
        numbers = Counter(
            number.number_class
            for quotation in quoted.get(chapter.path, ())
            for number in list_numbers(quotation, inspection.evidence)
        )
        regions = inspection.quotations[chapter.path].regions
        count = Count(
            chapter.path,
            chapters=1,
            words=_count_words(chapter),
            tables=len(chapter.inventory.tables),
            generated=sum(region.kind == "table" for region in regions),
            figures=len(chapter.inventory.figures),
            code_blocks=len(chapter.inventory.code_blocks),
            links_inside=len(targets) - web,
            links_web=web,
            sums=_count_sums(chapter),
            numbers=numbers,
        )
        counts.append((chapter, count))
    return counts


def _count_words(chapter: Chapter) -> int:
    texts = (passage.text for passage in read_passages(chapter))
    return sum(bool(_WORD.search(word)) for text in texts for word in text.split())


def _count_sums(chapter: Chapter) -> int:
    passages = (read_statements(one.text, one.codes) for one in read_passages(chapter))
    lines = (
        read_statements(line, ((0, len(line)),))
        for fence in read_fences(chapter)
        if fence.language in TEXT_LANGUAGES
        for line in fence.code.split("\n")
    )
    return sum(map(len, itertools.chain(passages, lines)))


# --- printing it ---

_COLUMNS = (
    ("chapters", "chapters"),
    ("words", "words"),
    ("tables", "tables"),
    ("generated", "generated"),
    ("figures", "figures"),
    ("code_blocks", "code"),
    ("links_inside", "links"),
    ("links_web", "to the web"),
    ("sums", "sums"),
)


def format_counts(counts: Sequence[Count], heading: str) -> str:
    """The counts as aligned text, one per line; classes without a number have no column."""
    classes = [name for name in CLASSES if any(count.numbers.get(name) for count in counts)]
    head = (heading, *(title for _, title in _COLUMNS), *classes)
    rows = [
        (
            count.name,
            *(group_digits(getattr(count, key)) for key, _ in _COLUMNS),
            *(group_digits(count.numbers.get(name, 0)) for name in classes),
        )
        for count in counts
    ]
    widths = [max(len(row[index]) for row in (head, *rows)) for index in range(len(head))]
    lines = (
        "  ".join(
            cell.rjust(width) if index else cell.ljust(width)
            for index, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in (head, *rows)
    )
    return "\n".join(lines) + "\n"


def format_counts_json(counts: Sequence[Count]) -> str:
    """The counts as JSON, every class of number named."""
    rows = [
        {
            "name": count.name,
            **{key: getattr(count, key) for key, _ in _COLUMNS},
            "numbers": {name: count.numbers.get(name, 0) for name in CLASSES},
        }
        for count in counts
    ]
    return json.dumps(rows, indent=1, ensure_ascii=False) + "\n"
