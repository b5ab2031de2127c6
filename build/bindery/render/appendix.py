"""The appendix "Records and sources": every record that a book quotes, every file of
published figures, and what is known of its links to the web.

It is generated as Markdown and then treated like any other chapter, so outlines, links and the
completeness proof cover it too. It has no file.
"""

from __future__ import annotations

import posixpath
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from msgspec.structs import replace

from bindery.book.cached_chapters import Manuscript, read_chapter
from bindery.book.resolve import resolve_book
from bindery.check.inspect import Inspection
from bindery.check.quoted_numbers import (
    CLASSES,
    Quoted,
    find_quoted,
    is_address,
    list_numbers,
)
from bindery.core.cache import Cache
from bindery.core.model import Book, Chapter, Part, Span
from bindery.core.repository import RECORDS_FOLDER
from bindery.core.wording import Wording
from bindery.evidence.provenance import Figure
from bindery.render.addresses import quote_fragment, quote_path
from bindery.render.web_notes import WebNotes, find_day, find_web_notes
from bindery.web.answers import Answer, Verdict

if TYPE_CHECKING:
    from bindery.evidence.records import Machine, Record

_INTRODUCTION = """\
Every number in a generated table, plot or sentence of this book comes from a recorded run or from \
a published source. The site shows the origin of each number next to it."""
_RECORDS = """\
Numbers from two records can be compared if the tool's method is the same. A change to the tool's \
file raises the method only if it changes what is measured."""
_UNCONFIRMED = """\
published but not certain: the only source is doubtful, sources disagree, or the product has only \
been announced."""
_LISTED: Mapping[Verdict, str] = {
    "dead": "Gone",
    "gated": "Closed to programs; a browser may still open them",
}
"""Answers whose addresses are listed one by one, under this heading."""
_SPECIAL = re.compile(r"([\\`*_{}\[\]<>()#+\-.!|~&$:@^])")


def find_appendix(inspection: Inspection) -> Chapter | None:
    """The appendix of a book, if it has been added: the only chapter that chapters.yaml does not
    list."""
    listed = {entry.path for entry in inspection.config.chapters}
    return next((c for c in inspection.book.chapters if c.path not in listed), None)


def find_record_slug(number: str) -> str:
    """The anchor of a record in the appendix."""
    return number.lower()


def append_appendix(inspection: Inspection, cache: Cache | None = None) -> Inspection:
    """The book with the appendix as its last chapter; unchanged if it quotes nothing and nothing is
    known about its links.

    Raises ConfigError if a line of the link memory cannot be read.
    """
    quoted, web = find_quoted(inspection), find_web_notes(inspection)
    if not quoted.chapters and not web.answers:
        return inspection
    # The address of the page is the same in any language.
    name = "records-and-sources" if quoted.chapters else "links-to-the-web"
    path = posixpath.join(inspection.config.folder, name, "README.md")
    cited = [c for c in inspection.book.chapters if web.answers or c.path in quoted.chapters]
    text = inspection.facts.derive(
        "appendix",
        str,
        lambda: "\n".join(_AppendixWriter(inspection, quoted, web).write()) + "\n",
        given=repr((web, inspection.config.wording, [(c.title, c.anchors) for c in cited])),
    )
    chapter = read_chapter(Manuscript(path, text, "", maths=False), cache)
    *parts, last = inspection.book.parts
    title = inspection.config.wording("Appendix")
    if last.title == title:
        parts.append(Part(title, (*last.chapters, chapter)))
    else:
        parts += [last, Part(title, (chapter,))]
    book = Book(tuple(parts))
    # Only the links of the appendix are new, and they may lead to any chapter.
    others = tuple(replace(other, links=()) for other in inspection.book.chapters)
    everything = Book((Part("", (*others, chapter)),))
    links = resolve_book(everything, inspection.tree, inspection.config.allowed_schemes).links
    resolved = replace(inspection.resolved, book=book, links={**inspection.resolved.links, **links})
    return replace(inspection, resolved=resolved)


class _AppendixWriter:
    """Writes the lines of the appendix."""

    def __init__(self, inspection: Inspection, quoted: Quoted, web: WebNotes) -> None:
        self.inspection = inspection
        self.words = inspection.config.wording
        self.evidence = inspection.evidence
        self.quoted = quoted
        self.web = web
        self.chapters = {chapter.path: chapter for chapter in inspection.book.chapters}
        self.places: dict[str, dict[str, None]] = {name: {} for name in quoted.records}
        self.published: dict[str, set[Figure]] = {}
        for path, quotations in quoted.chapters.items():
            for quotation in quotations:
                place = _link_section(self.chapters[path], quotation.opening.line)
                for number in list_numbers(quotation, self.evidence):
                    for name in number.records:
                        self.places[name][place] = None
                    for figure in number.figures:
                        self.published.setdefault(figure.table, set()).add(figure)

    def write(self) -> Iterator[str]:
        words = self.words
        if not self.quoted.chapters:
            yield from (f"# {words('Links to the web')}", *self._write_web())
            return
        yield from (
            f"# {words('Records and sources')}",
            "",
            words(_INTRODUCTION),
            "",
            f"## {words('What the classes mean')}",
            "",
            *(f"- **{words(name)}**: {words(meaning)}." for name, meaning in CLASSES.items()),
            f"- **{words('unconfirmed')}**: {words(_UNCONFIRMED)}",
        )
        if self.quoted.records:
            yield from ("", f"## {words('Records')}", "", *self._write_records())
        if self.published:
            yield from ("", f"## {words('Published figures')}", "", *self._write_published())
        if self.web.answers:
            yield from ("", f"## {words('Links to the web')}", *self._write_web())

    # --- links to the web ---

    def _write_web(self) -> Iterator[str]:
        web = self.web
        said = "Web links in this book: {n}. Checked {when}: {asked} ({answers})."
        asked = len(web.answers)
        told = self.words(
            said, n=web.count, when=web.tell_days(), asked=asked, answers=web.tell_verdicts()
        )
        yield from ("", told)
        for verdict, told in _LISTED.items():
            if entries := web.list_answers(verdict):
                yield from ("", f"{self.words(told)}:", "")
                for address, answer in entries:
                    yield write_answer(answer, map(self._link_place, address.places), self.words)

    def _link_place(self, span: Span) -> str:
        if span.path in self.chapters:
            return _link_section(self.chapters[span.path], span.line)
        return _link(span.path, f"/{span.path}")

    # --- records and published figures ---

    def _write_records(self) -> Iterator[str]:
        records = {name: self.evidence.records[name] for name in self.quoted.records}
        machines: dict[str, str] = {}
        for record in records.values():
            machines.setdefault(_tell_machine(record.machine), f"M{len(machines) + 1}")
        whole = len(self.evidence.records)
        said = self.words("The book quotes {n} of {all} recorded runs.", n=len(records), all=whole)
        yield from (f"{said} {self.words(_RECORDS)}", "")
        yield from (f"- **{label}**: {escape_words(told)}." for told, label in machines.items())
        yield from (
            "",
            self._write_head("Record", "Tool", "Method", "Date", "Machine", "Quoted in"),
            "| :-- | :-- | --: | :-- | :-- | :-- |",
        )
        for name, record in records.items():
            number = self.quoted.records[name]
            cells = (
                f'<a id="{find_record_slug(number)}"></a>'
                + _link(number, f"/{RECORDS_FOLDER}/{name}.json"),
                self._link_tool(record),
                str(record.method),
                ", ".join((str(record.started.date()), *self._tell_doubts(name, record))),
                f"{machines[_tell_machine(record.machine)]}{self._tell_size(record)}",
                "; ".join(self.places[name]),
            )
            yield f"| {' | '.join(cells)} |"

    def _write_head(self, *titles: str) -> str:
        return f"| {' | '.join(map(self.words, titles))} |"

    def _link_tool(self, record: Record) -> str:
        tools = {tool.name: tool.path for tool in self.inspection.config.tools}
        path = tools.get(record.tool, "")
        is_there = bool(path) and self.inspection.tree.find_kind(path) == "file"
        return _link(record.tool, f"/{path}") if is_there else escape_words(record.tool)

    def _tell_size(self, record: Record) -> str:
        if record.nodes == record.ranks == 1:
            return ""
        count = self.words.count
        return f", {count(record.nodes, 'node')}, {count(record.ranks, 'rank')}"

    def _tell_doubts(self, name: str, record: Record) -> Iterator[str]:
        if record.contributor:
            yield self.words("contributed by {name}", name=record.contributor)
        if record.ended == "failed":
            yield f"**{self.words('failed')}** ({record.exit_status})"
        if not record.complete:
            yield f"**{self.words('partial')}**"
        if name in self.evidence.stale:
            yield f"**{self.words('stale')}**: {escape_words(self.evidence.stale[name].reason)}"

    def _write_published(self) -> Iterator[str]:
        yield self._write_head("Data", "Rows quoted", "Classes", "Sources")
        yield "| :-- | --: | :-- | --: |"
        for name in sorted(self.published):
            table, figures = self.evidence.data[name], self.published[name]
            classes = Counter(
                number_class
                for _, number_class in {(f.line, f.citation.number_class) for f in figures}
            )
            cells = (
                _link(table.title, f"/{table.path}"),
                str(len({figure.line for figure in figures})),
                ", ".join(
                    f"{self.words(kind)} {classes[kind]}" for kind in CLASSES if classes[kind]
                ),
                str(len({figure.citation.source for figure in figures})),
            )
            yield f"| {' | '.join(cells)} |"


def write_answer(answer: Answer, places: Iterable[str], words: Wording) -> str:
    """What an address answered, and the sections that link to it, as a Markdown list item."""
    reason = f"{escape_words(answer.reason)}, " if answer.reason else ""
    told = f"{_write_source(answer.url)}: {reason}{words('checked on {day}', day=find_day(answer))}"
    if is_address(answer.archived):
        told += "; " + words("archived copy: {address}", address=_write_source(answer.archived))
    return f"- {told}. {words('In:')} {'; '.join(dict.fromkeys(places))}."


def _link_section(chapter: Chapter, line: int) -> str:
    """A link to the section of a chapter that contains a line."""
    headings = [a for a in chapter.anchors if a.level and a.span.line <= line]
    text, address = chapter.title, f"/{quote_path(chapter.path)}"
    if headings and headings[-1].level > 1 and headings[-1].title:
        text = f"{text}: {headings[-1].title}"
        address += f"#{quote_fragment(headings[-1].slug)}"
    return f"[{escape_words(text)}](<{address}>)"


def _tell_machine(machine: Machine) -> str:
    """The machine in one line; the record has the rest."""
    said = [machine.hardware]
    if machine.accelerators and machine.cpu.model:
        said.append(machine.cpu.model)
    if machine.memory_bytes:
        said.append(f"{machine.memory_bytes / 2**30:.3g} GiB of memory")
    drivers = {a.driver: None for a in machine.accelerators if a.driver}
    said += (f"driver {driver}" for driver in drivers)
    return ", ".join(said)


# --- escaping ---


def escape_words(text: str) -> str:
    """Markdown that shows exactly this text."""
    return _SPECIAL.sub(r"\\\1", " ".join(text.split()))


def _link(text: str, path: str) -> str:
    return f"[{escape_words(text)}](<{quote_path(path)}>)"


def _write_source(source: str) -> str:
    return (
        f"<{source}>"
        if is_address(source) and not set("<>") & set(source)
        else escape_words(source)
    )
