"""Count what chapters and parts contain: words, tables, figures, code, links, calculations, and
quoted numbers by class."""

from __future__ import annotations

import itertools
import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from bindery.check.arithmetic.judging import Verdict
from bindery.check.arithmetic.statements import read_statements
from bindery.check.inspect import Inspection
from bindery.check.quoted_numbers import CLASSES, find_quoted, list_numbers
from bindery.check.rules.wrong_arithmetic import TEXT_LANGUAGES
from bindery.core.model import Chapter, ToWeb
from bindery.core.report import group_digits
from bindery.markdown.prose import read_fences, read_passages

WHOLE = "the whole book"
_WORD = re.compile(r"[^\W_]")


COLUMNS = {
    "chapters": "chapters",
    "words": "words",
    "tables": "tables",
    "generated": "generated",
    "figures": "figures",
    "code_blocks": "code",
    "links_inside": "links",
    "links_web": "to the web",
    "sums": "sums",
}
"""What is counted, with its heading: words that readers see, without code blocks; links inside the
repository; calculations that `bindery check` evaluates."""

Count = tuple[str, Counter[str]]
"""The name of a chapter or part, and its counts, including quoted numbers by class."""


def count_parts(inspection: Inspection) -> list[Count]:
    """One count per part, by title, and the whole book last."""
    by_path = dict(_count_chapters(inspection))
    parts = [
        (part.title or "front", _join(by_path[chapter.path] for chapter in part.chapters))
        for part in inspection.book.parts
        if part.chapters
    ]
    return [*parts, (WHOLE, _join(held for _, held in parts))]


def count_chapters(inspection: Inspection) -> list[Count]:
    """One count per chapter, by path, and the whole book last."""
    counts = list(_count_chapters(inspection))
    return [*counts, (WHOLE, _join(held for _, held in counts))]


def _join(counts: Iterable[Counter[str]]) -> Counter[str]:
    return sum(counts, Counter())


def _count_chapters(inspection: Inspection) -> Iterator[Count]:
    quoted = find_quoted(inspection).chapters
    for chapter in inspection.book.chapters:
        targets = [inspection.resolved.links[link] for link in chapter.links if not link.is_image]
        web = sum(isinstance(target, ToWeb) for target in targets)
        numbers = Counter(
            number.number_class
            for quotation in quoted.get(chapter.path, ())
            for number in list_numbers(quotation, inspection.evidence)
        )
        regions = inspection.quotations[chapter.path].regions
        held = Counter(
            chapters=1,
            words=_count_words(chapter),
            tables=len(chapter.inventory.tables),
            generated=sum(region.kind == "table" for region in regions),
            figures=len(chapter.inventory.figures),
            code_blocks=len(chapter.inventory.code_blocks),
            links_inside=len(targets) - web,
            links_web=web,
            sums=_count_sums(chapter),
        )
        yield chapter.path, held + numbers


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
    found = itertools.chain.from_iterable(itertools.chain(passages, lines))
    return sum(statement.verdict is not Verdict.UNJUDGED for statement in found)


# --- output ---


def format_counts(counts: Sequence[Count], heading: str) -> str:
    """The counts as an aligned table; empty classes of numbers have no column."""
    classes = [name for name in CLASSES if any(held[name] for _, held in counts)]
    shown = (*COLUMNS, *classes)
    rows = [(heading, *COLUMNS.values(), *classes)]
    rows += [(name, *(group_digits(held[key]) for key in shown)) for name, held in counts]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = (
        "  ".join([row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])]).rstrip()
        for row in rows
    )
    return "\n".join(lines) + "\n"


def format_counts_json(counts: Sequence[Count]) -> str:
    """The counts as JSON, with all classes of numbers."""
    rows = [
        {
            "name": name,
            **{key: held[key] for key in COLUMNS},
            "numbers": {key: held[key] for key in CLASSES},
        }
        for name, held in counts
    ]
    return json.dumps(rows, indent=1, ensure_ascii=False) + "\n"
