"""unused-excuse: an excuse matches no finding, or gives no reason.

`apply_excuses` applies the excuses, after all other rules.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Iterator, Sequence

from msgspec.structs import replace

from bindery.check.rules.rule import Rule
from bindery.core.config import ASKED_RULES
from bindery.core.model import Chapter, Excuse, Finding, Severity
from bindery.core.suggestions import suggest

RULE = Rule(
    "unused-excuse",
    Severity.WARNING,
    "an excuse matches no finding",
    "A comment `<!-- bindery: allow RULE because REASON -->` matches no finding, or gives no "
    "reason.",
)

_COMMENTS = re.compile(r"\s*(?:(?><!--.*?-->)\s*)++", re.DOTALL)
_NAMED = "use the id in brackets, such as 'dead-link' from error[dead-link]"
_BLOCKS = frozenset(
    """paragraph_open heading_open fence code_block html_block table_open blockquote_open
    list_item_open footnote_open""".split()
)
"""Blocks that an excuse covers as a whole. It covers items of a list, not the list."""


def apply_excuses(
    findings: Iterable[Finding],
    chapters: Iterable[Chapter],
    rule_ids: Iterable[str],
    silent: Container[str] = (),
) -> Iterator[Finding]:
    """The findings that no excuse covers, and a finding for every unused excuse.

    An excuse covers the first finding of its rule in its lines. Excuses for `silent` rules, which
    did not run, are never unused.
    """
    waiting: dict[tuple[str, str], list[tuple[int, Excuse]]] = {}
    for chapter in chapters:
        for excuse, last in read_reaches(chapter):
            waiting.setdefault((chapter.path, excuse.rule), []).append((last, excuse))
    for finding in findings:
        line = finding.span.line
        excuses = waiting.get((finding.span.path, finding.rule), [])
        covering = [entry for entry in excuses if entry[1].covers <= line <= entry[0]]
        if covering:  # use the excuse that ends first: others may cover a later finding
            excuses.remove(min(covering, key=lambda entry: (entry[0], -entry[1].covers)))
        else:
            yield finding
    left = [entry for entries in waiting.values() for entry in entries]
    known = list(rule_ids)
    for last, excuse in sorted(left, key=lambda entry: entry[1].span):
        if excuse.rule in ASKED_RULES or excuse.rule in silent:
            continue
        if excuse.rule in known:
            lines = f"line {excuse.covers} has"
            if last > excuse.covers:
                lines = f"lines {excuse.covers} to {last} have"
            message = f"{lines} no finding of '{excuse.rule}' to excuse"
            yield RULE.find(excuse.span, message, "remove the excuse")
        else:
            hint = suggest(excuse.rule, known, _NAMED)
            yield RULE.find(excuse.span, f"there is no rule '{excuse.rule}'", hint)


_Reaches = tuple[tuple[Excuse, int], ...]


def read_reaches(chapter: Chapter) -> _Reaches:
    """Each excuse with the last line that it covers: its own line if it is inside one, otherwise
    the block below it, skipping comments in between."""
    if not chapter.excuses:
        return ()
    return chapter.facts.derive("excuses", _Reaches, lambda: tuple(_find_reaches(chapter)))


def _find_reaches(chapter: Chapter) -> Iterator[tuple[Excuse, int]]:
    ends: dict[int, int] = {}
    comments: dict[int, int] = {}
    for token in chapter.tokens:
        if token.map is None or token.type not in _BLOCKS:
            continue
        first, end = token.map
        if token.type == "html_block" and _COMMENTS.fullmatch(token.content):
            comments[first + 1] = end
        else:
            ends[first + 1] = max(end, ends.get(first + 1, 0))
    for excuse in chapter.excuses:
        line = excuse.covers
        if line == excuse.span.line:
            yield excuse, line
            continue
        line = first_line = _skip_blank(chapter.lines, line)
        while line in comments:
            line = _skip_blank(chapter.lines, comments[line] + 1)
        last = ends.get(line, line)
        while last > line and not chapter.lines[last - 1].strip():
            last -= 1
        yield replace(excuse, covers=first_line), last


def _skip_blank(lines: Sequence[str], line: int) -> int:
    while line < len(lines) and not lines[line - 1].strip(" \t>"):
        line += 1
    return line
