"""Notes on provenance: the origins of the numbers of each quoted table, plot and sentence.

The origin of a number is a record or a published source. The site lists the origins in a folded
note below each table, and shows those of a single number when a reader points at it
(`site/static/provenance.js`). On paper a note of one or two lines names the sources; if the rows of
a table have different sources, each row shows its own in brackets after its name.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from urllib.parse import urlsplit

from msgspec import Struct, field

from bindery.book.this_edition import Edition
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
from bindery.core.wording import Wording
from bindery.evidence.evidence import Evidence
from bindery.evidence.provenance import DERIVED, Provenance, TableProvenance
from bindery.evidence.published_data import Citation
from bindery.evidence.quotations import Region, Value
from bindery.render.appendix import find_appendix, find_record_slug
from bindery.render.text.content import Additions, CellAddition, Dialect, TableAddition
from bindery.render.text.markup import escape_attribute, escape_text, keep_options

Origin = str | Citation
"""The name of a record, or what a data file says about published figures."""
Place = tuple[int, int]
"""Row and column of a cell. Row 0 is the head."""

_SQL = re.compile(r"\b(?:CASE|CAST|OVER|coalesce|printf|replace)\b|\|\|")
"""SQL syntax: a formula with it explains nothing to a reader."""


def write_additions(
    inspection: Inspection, dialect: Dialect, *, folds: bool
) -> dict[str, Additions]:
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


def list_note_inputs(inspection: Inspection, dialect: Dialect, edition: Edition) -> dict[str, str]:
    """Everything that `write_additions` reads, by what the user calls it."""
    appendix = find_appendix(inspection)
    return {
        **inspection.inputs,
        "a quotation": repr(inspection.quotations),
        "the language of the outputs": repr(dialect.words),
        "the edition": repr((edition.of_the_day, appendix and appendix.path)),
    }


# --- origins of numbers ---


class NumberOrigins(Struct, frozen=True):
    """Class, formula and origins of one number; its formula by letter, its origins by position."""

    number_class: str
    formula: str
    origins: tuple[int, ...]


class _Note(Struct):
    """The note below one table, or on the values in the text, while it is built."""

    slug: str
    origins: dict[Origin, int] = field(default_factory=dict)
    """Counted from 1."""
    formulas: dict[tuple[str, str], str] = field(default_factory=dict)
    """The letter of each formula, by its column and text."""
    classes: set[str] = field(default_factory=set)
    is_derived: bool = False
    """Whether some of its numbers are computed from the origins."""
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
        self.is_derived |= number.number_class == DERIVED and bool(number.formula)
        letter = ""
        if number.formula and not _SQL.search(number.formula):
            # A formula in the data names its column itself.
            is_named = number.formula.partition(" = ")[0].isidentifier()
            key = ("" if is_named else heading, number.formula)
            letter = self.formulas.setdefault(key, write_letter(len(self.formulas) + 1))
        return NumberOrigins(number.number_class, letter, tuple(sorted(set(used))))

    def _count(self, origin: Origin) -> int:
        return self.origins.setdefault(origin, len(self.origins) + 1)


def write_letter(number: int) -> str:
    """1 as a, 26 as z, 27 as aa."""
    text = ""
    while number:
        number, rest = divmod(number - 1, 26)
        text = chr(ord("a") + rest) + text
    return text


def mark_rows(numbers: Mapping[Place, NumberOrigins]) -> Mapping[int, Sequence[int]]:
    """The origins of each row of a table; none if all rows have the same."""
    rows: dict[int, set[int]] = {}
    for (row, _), number in numbers.items():
        rows.setdefault(row, set()).update(number.origins)
    if len(set(map(frozenset, rows.values()))) == 1:
        return {}
    return {row: sorted(origins) for row, origins in rows.items()}


# --- writing notes ---


class _NoteWriter(Struct, frozen=True):
    """Writes the notes of one chapter as XHTML."""

    inspection: Inspection
    quoted: Quoted
    dialect: Dialect
    folds: bool
    appendix: Chapter | None
    chapter: Chapter

    @property
    def words(self) -> Wording:
        return self.inspection.config.wording

    @property
    def stale(self) -> str:
        return f'<span class="stale">{self.words("stale")}</span>'

    @property
    def evidence(self) -> Evidence:
        return self.inspection.evidence

    def write(self, quotations: Sequence[Region | Value]) -> Additions:
        tables: dict[str, TableAddition] = {}
        blocks: dict[int, str] = {}
        inlines: dict[Place, str] = {}
        of_text = _Note("origins.text")
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
            if quotation.kind == "table":
                provenance = self.evidence.provenance[quotation.name]
                tables[quotation.table] = self._annotate_table(note, numbers, provenance)
            blocks[quotation.closing.line] = self._write_note(
                note, self.words("Where these numbers come from")
            )
        title = self.words("Where the numbers in the text come from")
        end = self._write_note(of_text, title) if of_text.origins else ""
        return Additions(tables, blocks, inlines, end)

    def _annotate_table(
        self, note: _Note, numbers: Mapping[Place, NumberOrigins], provenance: TableProvenance
    ) -> TableAddition:
        marked = {} if self.folds else mark_rows(numbers)
        stale = [
            row
            for row, cells in enumerate(provenance.cells, 1)
            if any(name in self.evidence.stale for cell in cells if cell for name in cell.records)
        ]
        cells = {}
        for place in {*numbers, *((row, 0) for row in (*marked, *stale))}:
            row, column = place
            behind, text = "", ""
            if column == 0 and row in marked:
                behind, text = self._write_mark(note, marked[row])
            if column == 0 and row in stale:
                behind, text = f"{behind} {self.stale}", f"{text} {self.words('stale')}"
            attributes = self._write_attributes(numbers[place]) if place in numbers else ""
            cells[place] = CellAddition(attributes, behind, text)
        return TableAddition(self._name_note(note), cells, dict.fromkeys(stale, "stale"))

    def _annotate_value(self, value: Value, note: _Note) -> Mapping[Place, str]:
        provenance = find_number(value, self.evidence)
        if provenance is None:
            return {}
        columns = self.evidence.tables[value.view].columns
        heading = next(column.title for column in columns if column.key == value.column)
        number = note.add(provenance, heading)
        if not self.folds:
            return {}
        attributes = self._write_attributes(number) + self._name_note(note)
        return {
            (value.opening.line, value.opening.col): f'<span class="number"{attributes}>',
            (value.closing.line, value.closing.col): "</span>",
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

    def _write_note(self, note: _Note, title: str) -> str:
        return self._write_details(note, title) if self.folds else self._write_paper(note)

    # --- on paper ---

    def _write_mark(self, note: _Note, numbers: Sequence[int]) -> tuple[str, str]:
        """The sources of a row in brackets as XHTML, and its text."""
        labels = self._label(note)
        links = (f'<a href="#{self._id(f"{note.slug}.{n}")}">{labels[n]}</a>' for n in numbers)
        text = f" [{', '.join(labels[n] for n in numbers)}]"
        return f' <span class="origin">[{", ".join(links)}]</span>', text

    def _label(self, note: _Note) -> Mapping[int, str]:
        """The labels of origins on paper: R1 is a record, 1 a published source."""
        published = [
            number for origin, number in note.origins.items() if origin not in self.quoted.records
        ]
        return {
            number: self.quoted.records[origin]
            if isinstance(origin, str)
            else str(published.index(number) + 1)
            for origin, number in note.origins.items()
        }

    def _write_paper(self, note: _Note) -> str:
        """One or two lines: the runs, then the published sources by class and host."""
        labels = self._label(note)
        runs: dict[str, list[str]] = {}
        cited: dict[tuple[int, bool], list[tuple[Citation, str]]] = {}
        for origin, number in note.origins.items():
            if isinstance(origin, str):
                link = self._link_record(origin, self._id(f"{note.slug}.{number}"))
                runs.setdefault(self._describe_run(origin), []).append(link)
            else:
                key = (list(CLASSES).index(origin.number_class), origin.unconfirmed)
                cited.setdefault(key, []).append((origin, labels[number]))
        parts = [f"{said}: {', '.join(links)}" for said, links in runs.items()]
        parts += (self._cite(note, entries) for _, entries in sorted(cited.items()))
        if note.is_derived:
            parts.append(self.words("the rest is derived from these"))
        said = f"<b>{self.words('Sources:')}</b> {'; '.join(parts)}"
        return f'<div class="origins">\n<p>{said}.</p>\n</div>\n'

    def _describe_run(self, name: str) -> str:
        record = self.evidence.records[name]
        tool, where = escape_text(record.tool), escape_text(record.machine.hardware)
        is_computed = record.tool in self.evidence.computed
        words = self.words
        said = words("measured with {tool} on {machine}", tool=tool, machine=where)
        if is_computed:
            said = words("computed with {tool}", tool=tool)
        said += f", {record.started.date()}"
        if record.contributor:
            said += f", {words('contributed by {name}', name=record.contributor)}"
        if not record.complete:
            said += f", {words('partial')}"
        if record.ended == "failed":
            said += f", <b>{words('failed')}</b>"
        return f"{said}, {self.stale}" if name in self.evidence.stale else said

    def _cite(self, note: _Note, entries: Sequence[tuple[Citation, str]]) -> str:
        """The published sources of one class: each host once, with a numbered link per page."""
        months = sorted(citation.date[:7] for citation, _ in entries)
        dated = (
            months[0]
            if months[0] == months[-1]
            else self.words("{low} to {high}", low=months[0], high=months[-1])
        )
        hosts: dict[str, list[str]] = {}
        for citation, label in entries:
            identifier = self._id(f"{note.slug}.{note.origins[citation]}")
            host, href = citation.source, ""
            if is_address(citation.source):
                host = (urlsplit(citation.source).hostname or "").removeprefix("www.")
                href = f' class="web" href="{escape_attribute(citation.source)}"'
            tag = "a" if href else "span"
            link = f'<{tag} id="{identifier}"{href}>[{label}]</{tag}>'
            hosts.setdefault(escape_text(host), []).append(link)
        listed = ", ".join(f"{host} {' '.join(links)}" for host, links in hosts.items())
        citation, _ = entries[0]
        unconfirmed = f", <b>{self.words('unconfirmed')}</b>" if citation.unconfirmed else ""
        return f"{self.words(citation.number_class)}{unconfirmed} ({dated}): {listed}"

    # --- on the site ---

    def _write_details(self, note: _Note, title: str) -> str:
        identifier = self._id(note.slug)
        pieces = [f'<details class="origins" id="{identifier}">\n<summary>{title}</summary>\n']
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
        pieces.append(f"<ol>\n{items}</ol>\n")
        words = "".join(
            f'<dt>{self.words(name)}</dt><dd data-class="{name}">{self.words(meaning)}</dd>\n'
            for name, meaning in CLASSES.items()
            if name in note.classes
        )
        pieces.append(f"<dl>\n{words}</dl>\n</details>\n")
        return "".join(pieces)

    # --- one origin ---

    def _describe_origin(self, origin: Origin, note: _Note) -> str:
        """All that is known about an origin, as a sentence or two."""
        if isinstance(origin, str):
            record, link = self.evidence.records[origin], self._link_record(origin)
            said = f"{self._describe_record(origin)}, {self.words('record')} {link}."
            if record.caveats:
                told = escape_text("; ".join(record.caveats))
                said += f" {self.words('Caveats:')} {told}."
            return f"{said} {self.words('Command:')} <code>{keep_options(record.shell_line)}</code>"
        files = "; ".join(self._link_data(*entry) for entry in note.lines[origin].items())
        return f"{_write_source(origin.source)}: {self._describe_citation(origin)}. {files}."

    def _describe_record(self, name: str) -> str:
        record = self.evidence.records[name]
        is_computed, size = record.tool in self.evidence.computed, ""
        words = self.words
        if record.ranks > 1 or record.nodes > 1:
            size = f", {words.count(record.nodes, 'node')}, {words.count(record.ranks, 'rank')}"
        tool = f"<b>{escape_text(record.tool)}</b> {escape_text(record.version)}"
        said = [
            words("Computed with {tool}" if is_computed else "Measured with {tool}", tool=tool),
            words("method {method}", method=record.method),
            *([] if is_computed else [f"{escape_text(record.machine.hardware)}{size}"]),
            str(record.started.date()),
        ]
        if record.contributor:
            said.append(words("contributed by {name}", name=record.contributor))
        if not record.complete:
            said.append(words("partial: {ended}", ended=record.ended))
        if failure := tell_failure(record, words):
            said.append(f"<b>{failure}</b>")
        if name in self.evidence.stale:
            said.append(f"{self.stale} ({escape_text(self.evidence.stale[name].reason)})")
        return ", ".join(said)

    def _link_record(self, name: str, identifier: str = "") -> str:
        """A link to the record in the appendix."""
        number = self.quoted.records[name]
        named = f' id="{identifier}"' if identifier else ""
        if self.appendix is None:
            return f"<span{named}>{number}</span>"
        target = ToChapter(self.appendix.path, find_record_slug(number))
        href = self.dialect.write_href(target, self.chapter) or ""
        return f'<a class="book"{named} href="{escape_attribute(href)}">{number}</a>'

    def _describe_citation(self, citation: Citation) -> str:
        words = self.words
        said = [f"<b>{words(citation.number_class)}</b>"]
        said.append(escape_text(citation.date))
        if citation.unconfirmed:
            said.append(f"<b>{words('unconfirmed')}</b>")
        if citation.via:
            said.append(words("via {source}", source=_write_source(citation.via)))
        return ", ".join(said)

    def _link_data(self, path: str, lines: Sequence[int]) -> str:
        runs = [
            f"{first}–{last}" if last > first else f"{first}"
            for first, last in compress_numbers(tuple(lines))
        ]
        is_one = len(runs) == 1 and "–" not in runs[0]
        lines_said = self.words("line {n}" if is_one else "lines {n}", n=", ".join(runs))
        text = f"{escape_text(path)}, {lines_said}"
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
