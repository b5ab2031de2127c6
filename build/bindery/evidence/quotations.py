"""Regions and values: generated text in a chapter, between invisible comments.

    <!-- table: VIEW -->
    | ... |
    <!-- /table 27f2f21b -->

    It reaches <!-- value: VIEW.COLUMN[ROW] -->794.5 TFLOPS<!-- /value 5d41402a --> there.

A region is the table of a view (`table`), its plot (`plot`), the output of a tool (`output`) or a
file (`excerpt`); each marker is alone on its line. A value is one cell inside a sentence. The
closing marker has a checksum of the text between, so that edits by hand are found.
"""

from __future__ import annotations

import posixpath
import re
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import ClassVar

from markdown_it.token import Token
from msgspec import Struct

from bindery.core.model import Chapter, Finding, Span
from bindery.core.report import count_noun, describe_change
from bindery.core.suggestions import suggest
from bindery.evidence.evidence import Evidence
from bindery.evidence.tables import format_cell, format_markdown

FILL_COMMAND = "bindery fill"

_KINDS = "table|plot|output|excerpt"
_OPEN = re.compile(
    rf"(?P<indent>\s*)(?P<mark><!--\s*(?P<kind>{_KINDS}):\s*(?P<name>[\w./#+-]*)\s*-->)\s*$"
)
_CLOSE = re.compile(
    rf"\s*(?P<mark><!--\s*/(?P<kind>{_KINDS})(?:\s+(?P<sum>[0-9a-f]{{8}}))?\s*-->)\s*$"
)
# `table NAME` without its colon is a slip; a comment of several words is a comment.
_ANY = re.compile(
    rf"<!--\s*(?:(?:{_KINDS})\s*:|/\s*(?:{_KINDS})\b|(?:{_KINDS})\s+[\w./#+-]+\s*-->)"
)
_VALUE = re.compile(
    r"<!--\s*value:\s*(?P<view>[\w-]+)\.(?P<column>\w+)(?:\[(?P<row>[^\]]*)\])?\s*-->"
)
_END_VALUE = re.compile(r"<!--\s*/value(?:\s+(?P<sum>[0-9a-f]{8}))?\s*-->")
_ANY_VALUE = re.compile(r"<!--\s*(?:value\s*:|/\s*value\b)")
_STALE_MARK = " (stale)"


class Region(Struct, frozen=True):
    """A region of a chapter. The body is strictly between its two lines."""

    kind: str
    name: str
    opening: Span
    closing: Span
    indent: str
    body: str
    checksum: str
    table: str = ""
    """The id of its table in the chapter."""


class Value(Struct, frozen=True):
    """A cell of a view inside a sentence, and its present text."""

    view: str
    column: str
    row: str | None
    """The row by the text of its first cell; None where the view has one row."""
    opening: Span
    closing: Span
    body: str
    checksum: str
    kind: ClassVar[str] = "value"

    @property
    def name(self) -> str:
        return self.view


Quotation = Region | Value


class Quotations(Struct, frozen=True):
    """All that a chapter quotes, in order, and markers that cannot be read."""

    regions: tuple[Region, ...] = ()
    values: tuple[Value, ...] = ()
    findings: tuple[Finding, ...] = ()

    def __iter__(self) -> Iterator[Quotation]:
        yield from self.regions
        yield from self.values

    @property
    def views(self) -> Iterator[str]:
        """The views that are quoted, once for each quotation."""
        yield from (region.name for region in self.regions if region.kind in ("table", "plot"))
        yield from (value.view for value in self.values)

    @property
    def excerpts(self) -> Iterator[str]:
        yield from (region.name for region in self.regions if region.kind == "excerpt")


def compute_checksum(body: str) -> str:
    """Eight hexadecimal digits over the body without its indentation, so that a table has the
    same sum at top level and in a list."""
    import hashlib  # it loads OpenSSL, and most chapters quote nothing

    lines = textwrap.dedent(body).strip("\n").split("\n")
    text = "\n".join(line.rstrip() for line in lines)
    return hashlib.sha256(text.encode()).hexdigest()[:8]


def _is_edited(quotation: Quotation) -> bool:
    """Whether the body is not what was last filled in. An empty one is never edited."""
    if not quotation.body.strip() and not quotation.checksum:
        return False
    return compute_checksum(quotation.body) != quotation.checksum


# --- finding them ---


def find_quotations(chapter: Chapter) -> Quotations:
    """What a chapter quotes; markers in code are ignored."""
    if "<!--" not in chapter.source:
        return Quotations()
    return chapter.facts.derive("quotations", Quotations, lambda: _find_quotations(chapter))


def _find_quotations(chapter: Chapter) -> Quotations:
    findings: list[Finding] = []

    def fault(span: Span, message: str, hint: str) -> None:
        findings.append(Finding(span, "unclosed-region", message, hint))

    regions = tuple(_find_regions(chapter, fault))
    values = tuple(_find_values(chapter, fault))
    return Quotations(regions, values, tuple(findings))


_Fault = Callable[[Span, str, str], None]


def _find_regions(chapter: Chapter, fault: _Fault) -> Iterator[Region]:
    opened: tuple[re.Match[str], Span, bool] | None = None
    lines = chapter.lines
    tables = [
        (token.map[0], token.meta["id"])
        for token in chapter.tokens
        if token.type == "table_open" and token.map
    ]

    def report_unclosed() -> None:
        if opened is not None:
            kind, name = opened[0]["kind"], opened[0]["name"]
            hint = f"write `<!-- /{kind} -->` on a line of its own after the {kind}"
            fault(opened[1], f"the region '{name}' is not closed", hint)

    for number, is_inside in _find_markers(chapter):
        line = lines[number - 1]
        if opening := _OPEN.match(line):
            span = _span_of(chapter.path, number, opening)
            report_unclosed()
            # A plot is raw HTML itself; the others are Markdown.
            is_unread = is_inside and opening["kind"] != "plot"
            if is_unread:
                message = "this marker is inside raw HTML, where Markdown is not read"
                fault(span, message, "put an empty line before it")
            opened = opening, span, is_unread
        elif closing := _CLOSE.match(line):
            span, kind = _span_of(chapter.path, number, closing), closing["kind"]
            if opened is None or opened[0]["kind"] != kind:
                hint = f"write `<!-- {kind}: NAME -->` before the {kind}"
                fault(span, "this region is closed and was never opened", hint)
                continue
            (start, where, is_unread), opened = opened, None
            body = "\n".join(lines[where.line : number - 1])
            table = next((name for line, name in tables if where.line <= line < number), "")
            if is_unread:
                continue
            if kind == "table" and not table and body.lstrip().startswith("|"):
                message = "Markdown reads no table here, so no origin can be shown for its numbers"
                hint = "remove the lines between the two markers and run `bindery fill`"
                fault(where, message, hint)
                continue
            indent, checksum = start["indent"], closing["sum"] or ""
            yield Region(kind, start["name"], where, span, indent, body, checksum, table)
        else:
            span = Span(chapter.path, number, len(line) - len(line.lstrip()) + 1, len(line.strip()))
            message = "this marker of a region cannot be read"
            hint = "write `<!-- table: NAME -->` and `<!-- /table -->`, each on a line of its own"
            if ">" in line[: line.index("<!--")]:
                message, hint = "a quote cannot hold a region", "put it before or after the quote"
            fault(span, message, hint)
    report_unclosed()


def _find_markers(chapter: Chapter) -> Iterator[tuple[int, bool]]:
    """The lines of markers, and whether each is inside raw HTML that began earlier."""
    for token in chapter.tokens:
        if token.type == "html_block" and token.map and _ANY.search(token.content):
            for number in range(token.map[0], token.map[1]):
                if _ANY.search(chapter.lines[number]):
                    yield number + 1, number > token.map[0]


def _span_of(path: str, number: int, match: re.Match[str]) -> Span:
    return Span(path, number, match.start("mark") + 1, len(match["mark"]))


def _find_values(chapter: Chapter, fault: _Fault) -> Iterator[Value]:
    for token in chapter.tokens:
        if token.type == "html_block" and token.map and _ANY_VALUE.search(token.content):
            for number in range(*token.map):
                if match := _ANY_VALUE.search(chapter.lines[number]):
                    span = Span(chapter.path, number + 1, match.start() + 1, len(match[0]))
                    message = (
                        "a line that begins with a value is raw HTML, its Markdown is not read"
                    )
                    fault(span, message, "put a word before the value")
        elif token.type == "inline" and "<!--" in token.content:
            comments = [c for c in token.children or () if c.type == "html_inline"]
            yield from _pair_values(chapter, comments, fault)


def _pair_values(chapter: Chapter, comments: Iterable[Token], fault: _Fault) -> Iterator[Value]:
    """The values in a paragraph or a cell."""
    opened: tuple[re.Match[str], Span] | None = None

    def report_unclosed() -> None:
        if opened is not None:
            hint = "write `<!-- /value -->` after it, on the same line"
            fault(opened[1], "this value is not closed", hint)

    hint = "write `<!-- value: VIEW.COLUMN[ROW] --><!-- /value -->` on one line"
    for comment in comments:
        span: Span = comment.meta["span"]
        if _ANY.match(comment.content):
            message = "this marker of a region is inside a line of text"
            name = "write it alone on its line, with its name: `<!-- table: NAME -->`"
            fault(span, message, name)
        elif opening := _VALUE.fullmatch(comment.content):
            report_unclosed()
            opened = opening, span
        elif closing := _END_VALUE.fullmatch(comment.content):
            if opened is None or opened[1].line != span.line:
                fault(span, "this value is closed and was not opened on this line", hint)
            else:
                start, where = opened
                line = chapter.lines[span.line - 1]
                body = line[where.col + where.width - 1 : span.col - 1]
                checksum = closing["sum"] or ""
                view, column, row = start.group("view", "column", "row")
                yield Value(view, column, row, where, span, body, checksum)
            opened = None
        elif _ANY_VALUE.match(comment.content):
            fault(span, "this marker of a value cannot be read", hint)
    report_unclosed()


# --- what they should hold ---


class Filling(Struct, frozen=True):
    """The text that should be between the markers, with a note if it quotes stale records;
    `fresh` is without the note."""

    text: str
    fresh: str


def make_filling(
    quotation: Quotation, chapter: str, evidence: Evidence, figures: str
) -> Filling | Finding | None:
    """The indented text of a region or value, or a finding if it cannot be made, or None while its
    view is broken. `figures` is the folder of plots."""
    name = quotation.name
    if isinstance(quotation, Region) and quotation.kind == "output":
        return _make_output(quotation, evidence)
    if isinstance(quotation, Region) and quotation.kind == "excerpt":
        return _make_excerpt(quotation, evidence)
    if name in evidence.broken:
        return None
    if name not in evidence.tables:
        hint = suggest(name, [*evidence.tables, *evidence.broken], f"add a view '{name}.sql'")
        return Finding(quotation.opening, "unknown-view", f"there is no view '{name}'", hint)
    stale = evidence.find_stale_records(name)
    if isinstance(quotation, Value):
        return _make_value(quotation, evidence)
    table, plot = evidence.tables[name], evidence.views[name].plot
    body = format_markdown(table)
    if quotation.kind == "plot":
        if plot is None:
            message = f"the view '{name}' draws nothing"
            hint = "add `-- plot: bar` and what it needs to its header"
            return Finding(quotation.opening, "unknown-view", message, hint)
        from bindery.evidence.plots.spec import format_picture

        prefix = posixpath.relpath(figures or ".", posixpath.dirname(chapter) or ".")
        body = format_picture(plot, table, name, f"{prefix}/")
    marked = body
    if stale:
        reasons = "; ".join(f"{record} ({evidence.stale[record].reason})" for record in stale)
        marked = f"{body}\n\n*Stale: {reasons}.*"
    fresh, text = (textwrap.indent(entry, quotation.indent) for entry in (body, marked))
    return Filling(text, fresh)


def _make_output(region: Region, evidence: Evidence) -> Filling | Finding:
    text = evidence.texts.get(region.name)
    if text is None:
        tool, _, name = region.name.partition("/")
        command = f"`bindery run {tool or 'TOOL'} --text {name or 'NAME'}`"
        hint = suggest(region.name, evidence.texts, f"make it with {command}")
        message = f"there is no text '{region.name}' of a tool"
        return Finding(region.opening, "unknown-record", message, hint)
    return _make_fence(region, text, "text")


def _make_excerpt(region: Region, evidence: Evidence) -> Filling | Finding:
    excerpt = evidence.excerpts[region.name]
    if excerpt.fault:
        return Finding(region.opening, "unknown-excerpt", excerpt.fault, excerpt.hint)
    return _make_fence(region, excerpt.text, excerpt.language)


def _make_fence(region: Region, text: str, language: str) -> Filling:
    lines = _write_fence(text, language)
    body = "\n".join(f"{region.indent}{line}".rstrip() for line in lines)
    return Filling(body, body)


def _write_fence(text: str, language: str) -> list[str]:
    fence = "`" * max([3, *(len(match) + 1 for match in re.findall(r"`{3,}", text))])
    return [f"{fence}{language}", *text.rstrip("\n").split("\n"), fence]


def write_excerpt(name: str, text: str, language: str) -> list[str]:
    """The lines of a region that quotes an excerpt, as `bindery fill` leaves them."""
    body = [line.rstrip() for line in _write_fence(text, language)]
    checksum = compute_checksum("\n".join(body))
    return [f"<!-- excerpt: {name} -->", *body, f"<!-- /excerpt {checksum} -->"]


def _make_value(value: Value, evidence: Evidence) -> Filling | Finding:
    table = evidence.tables[value.view]

    def refuse(message: str, hint: str) -> Finding:
        return Finding(value.opening, "unknown-view", message, hint)

    keys = [column.key for column in table.columns]
    if value.column not in keys:
        hint = suggest(value.column, keys, f"it has: {', '.join(keys)}")
        return refuse(f"the view '{value.view}' has no column '{value.column}'", hint)
    index = keys.index(value.column)
    labels = [format_cell(row[0], table.columns[0]) for row in table.rows]
    if value.row is None and len(table.rows) != 1:
        message = f"the view '{value.view}' has {len(table.rows)} rows, and this names none"
        return refuse(message, f"write `{value.view}.{value.column}[{(labels or ['ROW'])[0]}]`")
    rows = [n for n, label in enumerate(labels) if value.row is None or label == value.row]
    if len(rows) != 1:
        hint = suggest(value.row or "", labels, f"rows: {', '.join(labels[:12])}")
        if rows:
            hint = "quote a view whose first column tells its rows apart"
        count = "no row is" if not rows else f"{len(rows)} rows are"
        return refuse(f"{count} called '{value.row}' in the view '{value.view}'", hint)
    column, cell = table.columns[index], table.rows[rows[0]][index]
    text = format_cell(cell, column)
    if column.unit and cell is not None:
        text = f"{text} {column.unit}"
    provenance = evidence.provenance.get(value.view)
    quoted = provenance.cells[rows[0]][index] if provenance else None
    is_stale = quoted is not None and any(name in evidence.stale for name in quoted.records)
    return Filling(text + _STALE_MARK if is_stale else text, text)


# --- comparing and filling ---


def compare_quotations(
    chapter: str, quotations: Quotations, evidence: Evidence, figures: str
) -> Iterator[Finding]:
    """Findings about the quotations of a chapter: markers, names, edits, stale records."""
    yield from quotations.findings
    for quotation in quotations:
        filling = make_filling(quotation, chapter, evidence, figures)
        if isinstance(filling, Finding):
            yield filling
        elif filling is not None and (finding := _compare(quotation, filling, evidence)):
            yield finding


def _compare(quotation: Quotation, filling: Filling, evidence: Evidence) -> Finding | None:
    what, name = quotation.kind, quotation.name
    if _is_edited(quotation):
        message = f"this {what} was edited by hand"
        if not quotation.checksum:
            message = f"this {what} is between markers and was never filled in"
        source = "the file" if what == "excerpt" else "the record, data or view"
        hint = f"undo the edit, or empty the region; then change {source}"
        hint = f"{hint} and run `{FILL_COMMAND}`"
        return Finding(quotation.opening, "edited-output", message, hint)
    if quotation.body == filling.text:
        return None
    if quotation.body == filling.fresh:
        return _report_stale_records(quotation, what, evidence.find_stale_records(name), evidence)
    sources = {"output": "the text ", "excerpt": ""}
    source = f"{sources.get(what, 'the view ')}'{name}'"
    message = f"this {what} is not what {source} gives"
    hint = f"run `{FILL_COMMAND}` and commit the result"
    if not quotation.body.strip():
        message = f"this {what} is not filled in yet"
    else:
        giver = "the file" if what == "excerpt" else "the view"
        hint = f"{describe_change(quotation.body, filling.text, giver)}; {hint}"
    return Finding(quotation.closing, "stale-output", message, hint)


def _report_stale_records(
    quotation: Quotation, what: str, names: tuple[str, ...], evidence: Evidence
) -> Finding:
    """A correct quotation of a stale record, without a note that it is stale."""
    staleness, record = evidence.stale[names[0]], evidence.records[names[0]]
    others = f" and {count_noun(len(names) - 1, 'other stale record')}" if names[1:] else ""
    message = f"this {what} quotes '{names[0]}'{others}: {staleness.reason}"
    again = f"measure again with {record.again} on {record.machine.hardware}"
    hint = (
        f"{staleness.repair or again} and run `{FILL_COMMAND}`; if you cannot, "
        f"`{FILL_COMMAND}` alone adds a note to the {what} that it is stale"
    )
    return Finding(quotation.opening, staleness.rule, message, hint)


def fill_chapter(
    chapter: Chapter, quotations: Quotations, evidence: Evidence, figures: str
) -> tuple[str, Mapping[str, int]]:
    """The source of a chapter with everything filled in, and how many of each kind changed.

    Edited and unknown quotations are left alone; the checks report them.
    """
    lines = list(chapter.lines)
    changed: dict[str, int] = {}
    # From the end, so that earlier positions stay valid.
    for quotation in sorted(quotations, key=lambda entry: entry.opening, reverse=True):
        filling = make_filling(quotation, chapter.path, evidence, figures)
        if not isinstance(filling, Filling) or _is_edited(quotation):
            continue
        if filling.text == quotation.body:
            continue
        checksum = compute_checksum(filling.text)
        start, end = quotation.opening, quotation.closing
        if isinstance(quotation, Region):
            closing = f"{quotation.indent}<!-- /{quotation.kind} {checksum} -->"
            lines[start.line : end.line] = [*filling.text.split("\n"), closing]
        else:
            line = lines[start.line - 1]
            head, tail = line[: start.col + start.width - 1], line[end.col + end.width - 1 :]
            lines[start.line - 1] = f"{head}{filling.text}<!-- /value {checksum} -->{tail}"
        changed[quotation.kind] = changed.get(quotation.kind, 0) + 1
    return "\n".join(lines), changed
