"""Notes on numbers: what the numbers of each quoted table, plot and sentence stand on.

A note is one thing that numbers stand on: a record or a published source. Formulas have letters
of their own. Every output holds the notes as text below the table; the site folds them, and lets
a reader ask a single number (`site/static/provenance.js`).
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from math import ceil

from bindery.book.this_edition import Edition
from bindery.check.inspect import Inspection
from bindery.check.quoted_numbers import (
    CLASSES,
    Quoted,
    compress_numbers,
    describe_age,
    find_number,
    find_quoted,
    is_address,
    list_cells,
    read_day,
    shorten_address,
    tell_failure,
)
from bindery.core.model import Chapter, ToChapter, ToFile
from bindery.core.report import count_noun
from bindery.evidence.evidence import Evidence
from bindery.evidence.provenance import Provenance, TableProvenance
from bindery.evidence.published_data import Citation
from bindery.evidence.quotations import Region, Value
from bindery.render.appendix import find_appendix, find_record_slug
from bindery.render.text.content import Additions, CellAddition, Dialect, TableAddition
from bindery.render.text.markup import escape_attribute, escape_text

Source = str | Citation
"""What a note speaks of: the name of a record, or what is said of published figures."""
Place = tuple[int, int]
"""Row and column of a cell. Row 0 is the head."""

_SIZE_OF_MARK = 0.7
_STALE = '<span class="stale">stale</span>'
_TITLE = "Where these numbers come from"
_TITLE_OF_VALUES = "Where the numbers of the text come from"
_RULES = {
    "table": ("", "Numbers without a mark: {}."),
    "columns": (
        "A mark at a heading holds for the numbers below it.",
        "A mark at a heading holds for the numbers below it that have none of their own.",
    ),
    "rows": (
        "A mark at the start of a row holds for its numbers.",
        "A mark at the start of a row holds for its numbers that have none of their own.",
    ),
}
"""How marks are to be read: where all numbers follow the rule, and where some have their own."""


def write_additions(
    inspection: Inspection, edition: Edition, dialect: Dialect, *, folds: bool
) -> Mapping[str, Additions]:
    """The notes of each chapter that quotes numbers, by its path. Where they fold, the elements
    of numbers also say what a script needs to show the notes of one of them."""
    quoted = find_quoted(inspection)
    if not quoted.chapters:
        return {}
    additions = {}
    day, appendix = edition.date.date(), find_appendix(inspection)
    for chapter in inspection.book.chapters:
        if chapter.path in quoted.chapters:
            writer = _NoteWriter(inspection, day, quoted, dialect, folds, appendix, chapter)
            additions[chapter.path] = writer.write(quoted.chapters[chapter.path])
    return additions


# --- which numbers stand on what ---


@dataclass(frozen=True, slots=True)
class NumberNote:
    """What is noted of one number: class, formula and sources, these by their marks."""

    number_class: str
    formula: str
    sources: tuple[int, ...]


@dataclass
class _Notes:
    """The notes below one table, as they are found. Sources are counted from 1."""

    slug: str
    counts_in_roman: bool = False
    sources: dict[Source, int] = field(default_factory=dict)
    formulas: dict[tuple[str, str], str] = field(default_factory=dict)
    """The letter of each formula, by the column that it gives and itself."""
    classes: set[str] = field(default_factory=set)
    lines: dict[Citation, dict[str, list[int]]] = field(default_factory=dict)
    """The lines of data files on which figures of a citation stand."""

    def add(self, number: Provenance, heading: str) -> NumberNote:
        """Note what a number stands on. `heading` is that of its column."""
        used = [self._number_source(name) for name in number.records]
        for figure in number.figures:
            used.append(self._number_source(figure.citation))
            files = self.lines.setdefault(figure.citation, {})
            files.setdefault(figure.path, []).append(figure.line)
        self.classes.add(number.number_class)
        letter = ""
        if number.formula:
            # A formula of the data names its own column.
            is_named = number.formula.partition(" = ")[0].isidentifier()
            key = ("" if is_named else heading, number.formula)
            letter = self.formulas.setdefault(key, write_letter(len(self.formulas) + 1))
        return NumberNote(number.number_class, letter, tuple(sorted(set(used))))

    def _number_source(self, source: Source) -> int:
        return self.sources.setdefault(source, len(self.sources) + 1)

    def write_label(self, number: int) -> str:
        return write_roman(number) if self.counts_in_roman else str(number)


def write_letter(number: int) -> str:
    """1 as a, 26 as z, 27 as aa."""
    text = ""
    while number:
        number, rest = divmod(number - 1, 26)
        text = chr(ord("a") + rest) + text
    return text


def write_roman(number: int) -> str:
    """1 as i, 4 as iv: notes of the text, which may have footnotes with digits."""
    text = ""
    for value, letters in (
        (1000, "m"), (900, "cm"), (500, "d"), (400, "cd"), (100, "c"), (90, "xc"), (50, "l"),
        (40, "xl"), (10, "x"), (9, "ix"), (5, "v"), (4, "iv"), (1, "i"),
    ):  # fmt: skip
        count, number = divmod(number, value)
        text += letters * count
    return text


@dataclass(frozen=True, slots=True)
class Marks:
    """Where marks stand in a table, and the rule that says what they hold for."""

    rule: str
    sources: Mapping[Place, tuple[int, ...]]
    default: tuple[int, ...] = ()
    """The sources of all numbers without a mark, where the rule is that of the table."""
    has_exceptions: bool = False


def place_marks(notes: Mapping[Place, NumberNote]) -> Marks:
    """Mark the sources of the numbers of a table with as few marks as can be: none, one for each
    column, or one for each row, and one for each number that differs.

    A number with a formula needs none where the formula has its sources from the same row.
    """
    plain: dict[int, set[int]] = {}
    for (row, _), note in notes.items():
        if not note.formula:
            plain.setdefault(row, set()).update(note.sources)
    needing = {
        place: note.sources
        for place, note in notes.items()
        if not (note.formula and plain.get(place[0], set()).issuperset(note.sources))
    }
    ways: tuple[tuple[str, Callable[[Place], Place]], ...] = (
        ("table", lambda place: (0, 0)),
        ("columns", lambda place: (0, place[1])),
        ("rows", lambda place: (place[0], 0)),
    )
    return min((_mark(needing, rule, find) for rule, find in ways), key=lambda m: len(m.sources))


def _mark(
    needing: Mapping[Place, tuple[int, ...]], rule: str, find: Callable[[Place], Place]
) -> Marks:
    counts: dict[Place, Counter[tuple[int, ...]]] = {}
    for place, sources in needing.items():
        counts.setdefault(find(place), Counter())[sources] += 1
    common = {place: counter.most_common(1)[0][0] for place, counter in counts.items()}
    own = {p: sources for p, sources in needing.items() if sources != common[find(p)]}
    if rule == "table":
        return Marks(rule, own, common.get((0, 0), ()), bool(own))
    clashes = common.keys() & own.keys()  # a number in the very cell that marks its row
    merged = {place: tuple(sorted({*common[place], *own[place]})) for place in clashes}
    return Marks(rule, {**common, **own, **merged}, (), bool(own))


def place_letters(notes: Mapping[Place, NumberNote]) -> Mapping[Place, str]:
    """Where the letters of formulas stand: at the heading of a column whose numbers all share
    one, else at the number."""
    columns: dict[int, set[str]] = {}
    for (_, column), note in notes.items():
        columns.setdefault(column, set()).add(note.formula)
    return {
        (0 if len(columns[place[1]]) == 1 else place[0], place[1]): note.formula
        for place, note in notes.items()
        if note.formula
    }


# --- writing them ---


@dataclass(frozen=True, slots=True)
class _NoteWriter:
    """Writes the notes of one chapter as XHTML."""

    inspection: Inspection
    day: date
    quoted: Quoted
    dialect: Dialect
    folds: bool
    appendix: Chapter | None
    chapter: Chapter

    @property
    def evidence(self) -> Evidence:
        return self.inspection.evidence

    def write(self, quotations: Sequence[Region | Value]) -> Additions:
        tables: dict[int, TableAddition] = {}
        blocks: dict[int, str] = {}
        inlines: dict[Place, tuple[str, str]] = {}
        rows_of_tables = dict(self.chapter.inventory.tables)
        starts = {
            token.map[0] + 1: rows_of_tables.get(token.meta["id"])
            for token in self.chapter.tokens
            if token.type == "table_open" and token.map
        }
        lines = sorted(starts)
        of_text = _Notes("origins.text", counts_in_roman=True)
        for number, quotation in enumerate(quotations, 1):
            if isinstance(quotation, Value):
                inlines |= self._annotate_value(quotation, of_text)
                continue
            table = self.evidence.tables[quotation.name]
            provenance = self.evidence.provenance[quotation.name]
            notes = _Notes(f"origins.{number}")
            numbers = _note_numbers(notes, quotation, self.evidence)
            if not numbers:
                continue
            marks: Marks | None = None
            if quotation.kind == "table":
                position = bisect_right(lines, quotation.opening.line)
                line = lines[position] if position < len(lines) else quotation.closing.line
                if line >= quotation.closing.line or starts[line] != len(table.rows) + 1:
                    continue  # Markdown reads no such table there, as inside raw HTML
                marks = place_marks(numbers)
                tables[line] = self._annotate_table(notes, numbers, marks, provenance)
            blocks[quotation.closing.line] = self._write_block(notes, _TITLE, marks)
        end = self._write_block(of_text, _TITLE_OF_VALUES, None) if of_text.sources else ""
        return Additions(tables, blocks, inlines, end)

    def _annotate_table(
        self,
        notes: _Notes,
        numbers: Mapping[Place, NumberNote],
        marks: Marks,
        provenance: TableProvenance,
    ) -> TableAddition:
        letters = place_letters(numbers)
        # One source needs no number: the note below the table speaks of all of it.
        sources = marks.sources if len(notes.sources) > 1 else {}
        stale = self._find_stale_rows(provenance)
        cells = {}
        for place in {*numbers, *letters, *sources, *((row, 0) for row in stale)}:
            mark, text = self._write_mark(notes, letters.get(place, ""), sources.get(place, ()))
            if place[1] == 0 and place[0] in stale:
                mark, text = f"{mark} {_STALE}", f"{text} stale"
            attributes = self._write_attributes(numbers[place]) if place in numbers else ""
            cells[place] = CellAddition(attributes, mark, text)
        return TableAddition(self._write_owner(notes), cells, dict.fromkeys(stale, "stale"))

    def _find_stale_rows(self, provenance: TableProvenance) -> Sequence[int]:
        stale = self.evidence.stale
        return [
            row
            for row, cells in enumerate(provenance.cells, 1)
            if any(name in stale for cell in cells if cell for name in cell.records)
        ]

    def _annotate_value(self, value: Value, notes: _Notes) -> Mapping[Place, tuple[str, str]]:
        number = find_number(value, self.evidence)
        if number is None:
            return {}
        columns = self.evidence.tables[value.view].columns
        heading = next(column.title for column in columns if column.key == value.column)
        note = notes.add(number, heading)
        mark, _ = self._write_mark(notes, note.formula, note.sources)
        attributes = self._write_attributes(note) + self._write_owner(notes)
        return {
            (value.opening.line, value.opening.col): (f'<span class="number"{attributes}>', ""),
            (value.closing.line, value.closing.col): ("</span>", mark),
        }

    def _write_attributes(self, note: NumberNote) -> str:
        if not self.folds:
            return ""
        formula = f' data-formula="{note.formula}"' if note.formula else ""
        sources = " ".join(map(str, note.sources))
        return f' data-number="{note.number_class}" data-sources="{sources}"{formula}'

    def _write_owner(self, notes: _Notes) -> str:
        return f' data-origins="{self._id(notes.slug)}"' if self.folds else ""

    def _id(self, slug: str) -> str:
        return escape_attribute(self.dialect.write_id(self.chapter, slug))

    # --- marks ---

    def _write_mark(self, notes: _Notes, letter: str, sources: Iterable[int]) -> tuple[str, str]:
        """The mark as XHTML, and a text as wide as it is."""
        shown = [(letter, f"formula.{letter}")] if letter else []
        for first, last in compress_numbers(sources):
            label = notes.write_label(first)
            if last > first + 1:
                shown.append((f"{label}–{notes.write_label(last)}", str(first)))
                continue
            shown += ((notes.write_label(n), str(n)) for n in range(first, last + 1))
        if not shown:
            return "", ""
        links = ",".join(
            f'<a role="doc-noteref" href="#{self._id(f"{notes.slug}.{end}")}">{label}</a>'
            for label, end in shown
        )
        text = ",".join(label for label, _ in shown)
        return f'<sup class="origin">{links}</sup>', text[: ceil(_SIZE_OF_MARK * len(text))]

    # --- the notes below ---

    def _write_block(self, notes: _Notes, title: str, marks: Marks | None) -> str:
        rule = self._write_rule(notes, marks)
        if self.folds:
            return self._write_details(notes, title, rule)
        return self._write_paragraphs(notes, title, rule)

    def _write_rule(self, notes: _Notes, marks: Marks | None) -> str:
        if marks is None or len(notes.sources) == 1:
            return ""
        default = ", ".join(map(notes.write_label, marks.default))
        if marks.rule == "table" and not marks.has_exceptions:
            return f"All numbers: {default}." if len(marks.default) < len(notes.sources) else ""
        return _RULES[marks.rule][marks.has_exceptions].format(default)

    def _write_paragraphs(self, notes: _Notes, title: str, rule: str) -> str:
        """Small print: the formulas, then a paragraph for sources of which the same is said."""
        lines = [rule] if rule else []
        formulas = [
            f'<span id="{self._id(f"{notes.slug}.formula.{letter}")}"><b>{letter}</b> '
            f"{_write_formula(*formula)}</span>"
            for formula, letter in notes.formulas.items()
        ]
        if formulas:
            lines.append(f"{'; '.join(formulas)}.")
        groups: dict[str, list[str]] = {}
        for source, number in notes.sources.items():
            label = f"<b>{notes.write_label(number)}</b> " if self._is_numbered(notes) else ""
            opening = f'<span id="{self._id(f"{notes.slug}.{number}")}">{label}'
            if isinstance(source, str):
                said, name = self._tell_run(source), self._link_record(source)
            else:
                said, name = self._tell_figure(source), _write_source(source.source)
            groups.setdefault(said, []).append(f"{opening}{name}</span>")
        lines += (f"{said}: {', '.join(names)}." for said, names in groups.items())
        lines[0] = f"<b>{title}.</b> {lines[0]}"
        paragraphs = "".join(f"<p>{line}</p>\n" for line in lines)
        return f'<div class="origins">\n{paragraphs}</div>\n'

    def _is_numbered(self, notes: _Notes) -> bool:
        return notes.counts_in_roman or len(notes.sources) > 1

    def _write_details(self, notes: _Notes, title: str, rule: str) -> str:
        identifier = self._id(notes.slug)
        pieces = [f'<details class="origins" id="{identifier}">\n<summary>{title}</summary>\n']
        if rule:
            pieces.append(f'<p class="rule">{rule}</p>\n')
        if notes.formulas:
            items = "".join(
                f'<li id="{self._id(f"{notes.slug}.formula.{letter}")}">'
                f"{_write_formula(*formula)}</li>\n"
                for formula, letter in notes.formulas.items()
            )
            pieces.append(f'<ol class="formulas" type="a">\n{items}</ol>\n')
        items = "".join(
            f'<li id="{self._id(f"{notes.slug}.{number}")}" tabindex="-1">'
            f"{self._tell_source(source, notes)}</li>\n"
            for source, number in notes.sources.items()
        )
        kind = ' type="i"' if notes.counts_in_roman else ""
        pieces.append(f'<ol class="sources"{kind}>\n{items}</ol>\n')
        words = "".join(
            f'<dt>{name}</dt><dd data-class="{name}">{meaning}</dd>\n'
            for name, meaning in CLASSES.items()
            if name in notes.classes
        )
        pieces.append(f"<dl>\n{words}</dl>\n</details>\n")
        return "".join(pieces)

    # --- one note ---

    def _tell_source(self, source: Source, notes: _Notes) -> str:
        """All that is known of a source, as a sentence or two."""
        if isinstance(source, str):
            record = self.evidence.records[source]
            command = escape_text(record.shell_line)
            link = self._link_record(source)
            return f"{self._tell_run(source)}, {link}. Command: <code>{command}</code>"
        files = "; ".join(self._tell_lines(*entry) for entry in notes.lines[source].items())
        return f"{_write_source(source.source)}: {self._tell_figure(source)}. In {files}."

    def _tell_run(self, name: str) -> str:
        record = self.evidence.records[name]
        day = record.started.date()
        size = ""
        if record.ranks > 1 or record.nodes > 1:
            size = f", {count_noun(record.nodes, 'node')} with {count_noun(record.ranks, 'rank')}"
        said = [
            f"Measured with <b>{escape_text(record.tool)}</b> {escape_text(record.version)}",
            f"method {record.method}",
            f"on {escape_text(record.machine.hardware)}{size}",
            str(day),
            describe_age(day, self.day),
        ]
        if not record.complete:
            said.append(f"partial, ended as <i>{record.ended}</i>")
        if failure := tell_failure(record):
            said.append(f"<b>{failure}</b>")
        if record.caveats:
            said.append(count_noun(len(record.caveats), "caveat"))
        if name in self.evidence.stale:
            said.append(f"{_STALE} ({escape_text(self.evidence.stale[name].reason)})")
        return ", ".join(said)

    def _link_record(self, name: str) -> str:
        number = self.quoted.records[name]
        if self.appendix is None:
            return f"record {number}"
        target = ToChapter(
            self.appendix.path, find_record_slug(number, self.evidence.records[name])
        )
        href = self.dialect.write_href(target, self.chapter) or ""
        return f'record <a class="book" href="{escape_attribute(href)}">{number}</a>'

    def _tell_figure(self, citation: Citation) -> str:
        day = read_day(citation.date)
        age = f" ({describe_age(day, self.day)})" if day else ""
        said = [f"<b>{escape_text(citation.number_class)}</b>"]
        said.append(f"dated {escape_text(citation.date)}{age}")
        if citation.unconfirmed:
            said.append("<b>unconfirmed</b>")
        if citation.via:
            said.append(f"via {_write_source(citation.via)}")
        return ", ".join(said)

    def _tell_lines(self, path: str, lines: Sequence[int]) -> str:
        runs = [
            f"{first}–{last}" if last > first else f"{first}"
            for first, last in compress_numbers(tuple(lines))
        ]
        noun = "line" if len(runs) == 1 and "–" not in runs[0] else "lines"
        text = f"{escape_text(path)}, {noun} {', '.join(runs)}"
        href = self.dialect.write_href(ToFile(path, f"L{min(lines)}"), self.chapter)
        return f'<a href="{escape_attribute(href)}">{text}</a>' if href else text


def _note_numbers(notes: _Notes, region: Region, evidence: Evidence) -> Mapping[Place, NumberNote]:
    columns = evidence.tables[region.name].columns
    return {
        (row + 1, column): notes.add(number, columns[column].title)
        for (row, column), number in list_cells(region, evidence).items()
    }


def _write_formula(column: str, formula: str) -> str:
    name = f"{escape_text(column)} = " if column else ""
    return f"{name}<code>{escape_text(formula)}</code>"


def _write_source(source: str) -> str:
    if not is_address(source):
        return escape_text(source)
    shown = escape_text(shorten_address(source))
    return f'<a class="web" href="{escape_attribute(source)}">{shown}</a>'
