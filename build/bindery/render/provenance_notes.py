"""Notes on provenance: the origins of the numbers of each quoted table, plot and sentence.

The origin of a number is a record or a published source. A note below a table lists the origins
of its numbers, counted from 1, and formulas by letter; a mark at a number, column or row leads to
them. The site folds the note and shows a reader the origins of a single number
(`site/static/provenance.js`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import ceil

from bindery.check.inspect import Inspection
from bindery.check.quoted_numbers import (
    CLASSES,
    Quoted,
    compress_numbers,
    find_number,
    find_quoted,
    is_address,
    list_cells,
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

Origin = str | Citation
"""The name of a record, or what a data file says about published figures."""
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
    inspection: Inspection, dialect: Dialect, *, folds: bool
) -> Mapping[str, Additions]:
    """The notes of each chapter that quotes numbers, by its path. With `folds`, the elements of
    numbers also carry what a script needs to show the origins of one of them."""
    quoted = find_quoted(inspection)
    appendix = find_appendix(inspection)
    return {
        chapter.path: _NoteWriter(inspection, quoted, dialect, folds, appendix, chapter).write(
            quoted.chapters[chapter.path]
        )
        for chapter in inspection.book.chapters
        if chapter.path in quoted.chapters
    }


# --- which numbers have which origins ---


@dataclass(frozen=True, slots=True)
class NumberOrigins:
    """Class, formula and origins of one number; formula and origins by their marks."""

    number_class: str
    formula: str
    origins: tuple[int, ...]


@dataclass
class _Note:
    """The note below one table, or of the values in the text, while it is collected."""

    slug: str
    counts_in_roman: bool = False
    origins: dict[Origin, int] = field(default_factory=dict)
    """Counted from 1."""
    formulas: dict[tuple[str, str], str] = field(default_factory=dict)
    """The letter of each formula, by the column that it gives and itself."""
    classes: set[str] = field(default_factory=set)
    lines: dict[Citation, dict[str, list[int]]] = field(default_factory=dict)
    """The lines of data files on which the published figures of a citation are."""

    def add(self, number: Provenance, heading: str) -> NumberOrigins:
        """Add the origins of a number. `heading` is that of its column."""
        used = [self._count(name) for name in number.records]
        for figure in number.figures:
            used.append(self._count(figure.citation))
            files = self.lines.setdefault(figure.citation, {})
            files.setdefault(figure.path, []).append(figure.line)
        self.classes.add(number.number_class)
        letter = ""
        if number.formula:
            # A formula of the data names its own column.
            is_named = number.formula.partition(" = ")[0].isidentifier()
            key = ("" if is_named else heading, number.formula)
            letter = self.formulas.setdefault(key, write_letter(len(self.formulas) + 1))
        return NumberOrigins(number.number_class, letter, tuple(sorted(set(used))))

    def _count(self, origin: Origin) -> int:
        return self.origins.setdefault(origin, len(self.origins) + 1)

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
    """1 as i, 4 as iv: for notes of the text, which may have footnotes with digits."""
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
    """The places of the marks in a table, and the rule that says which numbers they cover."""

    rule: str
    origins: Mapping[Place, tuple[int, ...]]
    default: tuple[int, ...] = ()
    """The origins of all numbers without a mark, where the rule is that of the table."""
    has_exceptions: bool = False


def place_marks(numbers: Mapping[Place, NumberOrigins]) -> Marks:
    """Mark the origins of the numbers of a table with as few marks as possible: none, one for each
    column, or one for each row, and one for each number that differs.

    A number with a formula needs no mark if its origins are marked at other numbers of its row.
    """
    plain: dict[int, set[int]] = {}
    for (row, _), number in numbers.items():
        if not number.formula:
            plain.setdefault(row, set()).update(number.origins)
    needing = {
        place: number.origins
        for place, number in numbers.items()
        if not (number.formula and plain.get(place[0], set()).issuperset(number.origins))
    }
    ways: tuple[tuple[str, Callable[[Place], Place]], ...] = (
        ("table", lambda place: (0, 0)),
        ("columns", lambda place: (0, place[1])),
        ("rows", lambda place: (place[0], 0)),
    )
    return min((_mark(needing, rule, find) for rule, find in ways), key=lambda m: len(m.origins))


def _mark(
    needing: Mapping[Place, tuple[int, ...]], rule: str, find: Callable[[Place], Place]
) -> Marks:
    counts: dict[Place, Counter[tuple[int, ...]]] = {}
    for place, origins in needing.items():
        counts.setdefault(find(place), Counter())[origins] += 1
    common = {place: counter.most_common(1)[0][0] for place, counter in counts.items()}
    own = {p: origins for p, origins in needing.items() if origins != common[find(p)]}
    if rule == "table":
        return Marks(rule, own, common.get((0, 0), ()), bool(own))
    clashes = common.keys() & own.keys()  # a number in the very cell that marks its row
    merged = {place: tuple(sorted({*common[place], *own[place]})) for place in clashes}
    return Marks(rule, {**common, **own, **merged}, (), bool(own))


def place_letters(numbers: Mapping[Place, NumberOrigins]) -> Mapping[Place, str]:
    """The places of the letters of formulas: the heading of a column if its numbers all share
    one, else the number."""
    columns: dict[int, set[str]] = {}
    for (_, column), number in numbers.items():
        columns.setdefault(column, set()).add(number.formula)
    return {
        (0 if len(columns[place[1]]) == 1 else place[0], place[1]): number.formula
        for place, number in numbers.items()
        if number.formula
    }


# --- writing them ---


@dataclass(frozen=True, slots=True)
class _NoteWriter:
    """Writes the notes of one chapter as XHTML."""

    inspection: Inspection
    quoted: Quoted
    dialect: Dialect
    folds: bool
    appendix: Chapter | None
    chapter: Chapter

    @property
    def evidence(self) -> Evidence:
        return self.inspection.evidence

    def write(self, quotations: Sequence[Region | Value]) -> Additions:
        tables: dict[str, TableAddition] = {}
        blocks: dict[int, str] = {}
        inlines: dict[Place, tuple[str, str]] = {}
        of_text = _Note("origins.text", counts_in_roman=True)
        for count, quotation in enumerate(quotations, 1):
            if isinstance(quotation, Value):
                inlines |= self._annotate_value(quotation, of_text)
                continue
            note = _Note(f"origins.{count}")
            columns = self.evidence.tables[quotation.name].columns
            numbers = {
                (row + 1, column): note.add(number, columns[column].title)
                for (row, column), number in list_cells(quotation, self.evidence).items()
            }
            if not numbers:
                continue
            marks: Marks | None = None
            if quotation.kind == "table":
                marks = place_marks(numbers)
                provenance = self.evidence.provenance[quotation.name]
                tables[quotation.table] = self._annotate_table(note, numbers, marks, provenance)
            blocks[quotation.closing.line] = self._write_note(note, _TITLE, marks)
        end = self._write_note(of_text, _TITLE_OF_VALUES, None) if of_text.origins else ""
        return Additions(tables, blocks, inlines, end)

    def _annotate_table(
        self,
        note: _Note,
        numbers: Mapping[Place, NumberOrigins],
        marks: Marks,
        provenance: TableProvenance,
    ) -> TableAddition:
        letters = place_letters(numbers)
        # A single origin needs no mark: the note below the table covers the whole table.
        origins = marks.origins if len(note.origins) > 1 else {}
        stale = [
            row
            for row, cells in enumerate(provenance.cells, 1)
            if any(name in self.evidence.stale for cell in cells if cell for name in cell.records)
        ]
        cells = {}
        for place in {*numbers, *letters, *origins, *((row, 0) for row in stale)}:
            mark, text = self._write_mark(note, letters.get(place, ""), origins.get(place, ()))
            if place[1] == 0 and place[0] in stale:
                mark, text = f"{mark} {_STALE}", f"{text} stale"
            attributes = self._write_attributes(numbers[place]) if place in numbers else ""
            cells[place] = CellAddition(attributes, mark, text)
        return TableAddition(self._name_note(note), cells, dict.fromkeys(stale, "stale"))

    def _annotate_value(self, value: Value, note: _Note) -> Mapping[Place, tuple[str, str]]:
        provenance = find_number(value, self.evidence)
        if provenance is None:
            return {}
        columns = self.evidence.tables[value.view].columns
        heading = next(column.title for column in columns if column.key == value.column)
        number = note.add(provenance, heading)
        mark, _ = self._write_mark(note, number.formula, number.origins)
        attributes = self._write_attributes(number) + self._name_note(note)
        return {
            (value.opening.line, value.opening.col): (f'<span class="number"{attributes}>', ""),
            (value.closing.line, value.closing.col): ("</span>", mark),
        }

    def _write_attributes(self, number: NumberOrigins) -> str:
        if not self.folds:
            return ""
        formula = f' data-formula="{number.formula}"' if number.formula else ""
        origins = " ".join(map(str, number.origins))
        return f' data-number="{number.number_class}" data-origins="{origins}"{formula}'

    def _name_note(self, note: _Note) -> str:
        return f' data-note="{self._id(note.slug)}"' if self.folds else ""

    def _id(self, slug: str) -> str:
        return escape_attribute(self.dialect.write_id(self.chapter, slug))

    # --- marks ---

    def _write_mark(self, note: _Note, letter: str, origins: Iterable[int]) -> tuple[str, str]:
        """The mark as XHTML, and a text as wide as it is."""
        shown = [(letter, f"formula.{letter}")] if letter else []
        for first, last in compress_numbers(origins):
            label = note.write_label(first)
            if last > first + 1:
                shown.append((f"{label}–{note.write_label(last)}", str(first)))
                continue
            shown += ((note.write_label(n), str(n)) for n in range(first, last + 1))
        if not shown:
            return "", ""
        links = ",".join(
            f'<a role="doc-noteref" href="#{self._id(f"{note.slug}.{end}")}">{label}</a>'
            for label, end in shown
        )
        text = ",".join(label for label, _ in shown)
        return f'<sup class="origin">{links}</sup>', text[: ceil(_SIZE_OF_MARK * len(text))]

    # --- the note below ---

    def _write_note(self, note: _Note, title: str, marks: Marks | None) -> str:
        rule = self._write_rule(note, marks)
        if self.folds:
            return self._write_details(note, title, rule)
        return self._write_paragraphs(note, title, rule)

    def _write_rule(self, note: _Note, marks: Marks | None) -> str:
        if marks is None or len(note.origins) == 1:
            return ""
        default = ", ".join(map(note.write_label, marks.default))
        if marks.rule == "table" and not marks.has_exceptions:
            return f"All numbers: {default}." if len(marks.default) < len(note.origins) else ""
        return _RULES[marks.rule][marks.has_exceptions].format(default)

    def _write_paragraphs(self, note: _Note, title: str, rule: str) -> str:
        """Small print: the formulas, then a paragraph for all origins that share a description."""
        lines = [rule] if rule else []
        formulas = [
            f'<span id="{self._id(f"{note.slug}.formula.{letter}")}"><b>{letter}</b> '
            f"{_write_formula(*formula)}</span>"
            for formula, letter in note.formulas.items()
        ]
        if formulas:
            lines.append(f"{'; '.join(formulas)}.")
        is_numbered = note.counts_in_roman or len(note.origins) > 1
        groups: dict[str, list[str]] = {}
        for origin, number in note.origins.items():
            label = f"<b>{note.write_label(number)}</b> " if is_numbered else ""
            opening = f'<span id="{self._id(f"{note.slug}.{number}")}">{label}'
            if isinstance(origin, str):
                said, name = self._describe_record(origin), self._link_record(origin)
            else:
                said, name = self._describe_citation(origin), _write_source(origin.source)
            groups.setdefault(said, []).append(f"{opening}{name}</span>")
        lines += (f"{said}: {', '.join(names)}." for said, names in groups.items())
        lines[0] = f"<b>{title}.</b> {lines[0]}"
        paragraphs = "".join(f"<p>{line}</p>\n" for line in lines)
        return f'<div class="origins">\n{paragraphs}</div>\n'

    def _write_details(self, note: _Note, title: str, rule: str) -> str:
        identifier = self._id(note.slug)
        pieces = [f'<details class="origins" id="{identifier}">\n<summary>{title}</summary>\n']
        if rule:
            pieces.append(f'<p class="rule">{rule}</p>\n')
        if note.formulas:
            items = "".join(
                f'<li id="{self._id(f"{note.slug}.formula.{letter}")}">'
                f"{_write_formula(*formula)}</li>\n"
                for formula, letter in note.formulas.items()
            )
            pieces.append(f'<ol class="formulas" type="a">\n{items}</ol>\n')
        items = "".join(
            f'<li id="{self._id(f"{note.slug}.{number}")}" tabindex="-1">'
            f"{self._describe_origin(origin, note)}</li>\n"
            for origin, number in note.origins.items()
        )
        kind = ' type="i"' if note.counts_in_roman else ""
        pieces.append(f"<ol{kind}>\n{items}</ol>\n")
        words = "".join(
            f'<dt>{name}</dt><dd data-class="{name}">{meaning}</dd>\n'
            for name, meaning in CLASSES.items()
            if name in note.classes
        )
        pieces.append(f"<dl>\n{words}</dl>\n</details>\n")
        return "".join(pieces)

    # --- one origin ---

    def _describe_origin(self, origin: Origin, note: _Note) -> str:
        """All that is known about an origin, as a sentence or two."""
        if isinstance(origin, str):
            command = escape_text(self.evidence.records[origin].shell_line)
            link = self._link_record(origin)
            return f"{self._describe_record(origin)}, {link}. Command: <code>{command}</code>"
        files = "; ".join(self._link_data(*entry) for entry in note.lines[origin].items())
        return f"{_write_source(origin.source)}: {self._describe_citation(origin)}. In {files}."

    def _describe_record(self, name: str) -> str:
        record = self.evidence.records[name]
        size = ""
        if record.ranks > 1 or record.nodes > 1:
            size = f", {count_noun(record.nodes, 'node')} with {count_noun(record.ranks, 'rank')}"
        said = [
            f"Measured with <b>{escape_text(record.tool)}</b> {escape_text(record.version)}",
            f"method {record.method}",
            f"on {escape_text(record.machine.hardware)}{size}",
            str(record.started.date()),
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

    def _describe_citation(self, citation: Citation) -> str:
        said = [f"<b>{escape_text(citation.number_class)}</b>"]
        said.append(f"dated {escape_text(citation.date)}")
        if citation.unconfirmed:
            said.append("<b>unconfirmed</b>")
        if citation.via:
            said.append(f"via {_write_source(citation.via)}")
        return ", ".join(said)

    def _link_data(self, path: str, lines: Sequence[int]) -> str:
        runs = [
            f"{first}–{last}" if last > first else f"{first}"
            for first, last in compress_numbers(tuple(lines))
        ]
        noun = "line" if len(runs) == 1 and "–" not in runs[0] else "lines"
        text = f"{escape_text(path)}, {noun} {', '.join(runs)}"
        href = self.dialect.write_href(ToFile(path, f"L{min(lines)}"), self.chapter)
        return f'<a href="{escape_attribute(href)}">{text}</a>' if href else text


def _write_formula(column: str, formula: str) -> str:
    name = f"{escape_text(column)} = " if column else ""
    return f"{name}<code>{escape_text(formula)}</code>"


def _write_source(source: str) -> str:
    if not is_address(source):
        return escape_text(source)
    shown = escape_text(shorten_address(source))
    return f'<a class="web" href="{escape_attribute(source)}">{shown}</a>'
