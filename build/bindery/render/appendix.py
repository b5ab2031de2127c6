"""The appendix "How these numbers were made": every record and every source that a book quotes,
and what is known of its links to the web.

It is a chapter like any other, written here as Markdown instead of by an author, so that outlines,
links and the completeness proof hold for it as well. It has no file.
"""

from __future__ import annotations

import hashlib
import posixpath
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from bindery.book.resolve import resolve_book
from bindery.check.inspect import Inspection
from bindery.check.quoted_numbers import (
    CLASSES,
    Quoted,
    find_quoted,
    is_address,
    list_numbers,
    tell_failure,
)
from bindery.core.model import Book, Chapter, Part, ResolvedBook, Span
from bindery.core.report import count_noun
from bindery.core.repository import RECORDS_FOLDER
from bindery.evidence.provenance import Figure
from bindery.evidence.published_data import Citation
from bindery.markdown.chapter_reader import parse_chapter
from bindery.markdown.slugs import slugify_heading
from bindery.render.addresses import quote_fragment, quote_path
from bindery.render.web_notes import WebNotes, find_day, find_web_notes
from bindery.web.answers import Answer, Verdict

if TYPE_CHECKING:
    from bindery.evidence.records import Accelerator, Machine, Record

TITLE = "How these numbers were made"
WEB_TITLE = "Links to the web"
"""Of the section, and of the whole appendix where no numbers are quoted."""
PART = "Appendix"

_INTRODUCTION = """\
Every number in a generated table, plot or sentence of this book comes from a record of a run or \
from a published source. This appendix lists them all."""
_UNCONFIRMED = """\
**unconfirmed**: published but not certain: the only source is doubtful, sources disagree, or the \
part is only announced."""
_LISTED: Mapping[Verdict, str] = {
    "dead": "Gone when asked",
    "gated": "Closed to programs, perhaps not to readers",
}
"""What is listed one by one, and what is said of it."""
_DIGITS = 12
"""Digits of a digest that are shown."""
_SPECIAL = re.compile(r"([\\`*_{}\[\]<>()#+\-.!|~&$:@^])")


def find_appendix(inspection: Inspection) -> Chapter | None:
    """The appendix of a book, where it has been added: the one chapter that chapters.yaml does
    not list, as it has no file."""
    listed = {entry.path for entry in inspection.config.chapters}
    return next((c for c in inspection.book.chapters if c.path not in listed), None)


def find_record_slug(number: str, record: Record) -> str:
    """The anchor of a record in the appendix."""
    return slugify_heading(_name_record(number, record))


def _name_record(number: str, record: Record) -> str:
    return f"{number}: {record.tool}, {record.started.date()}"


def append_appendix(inspection: Inspection) -> Inspection:
    """The same book with the appendix as its last chapter; as it was, where it quotes nothing and
    nothing is known of its links.

    Raises ConfigError if a line of the link memory cannot be read.
    """
    quoted, web = find_quoted(inspection), find_web_notes(inspection)
    if not quoted.chapters and not web.answers:
        return inspection
    name = slugify_heading(TITLE if quoted.chapters else WEB_TITLE)
    path = posixpath.join(inspection.config.folder, name, "README.md")
    text = "\n".join(_AppendixWriter(inspection, quoted, web).write()) + "\n"
    chapter = parse_chapter(path, text)
    book = Book((*inspection.book.parts, Part(PART, (chapter,))))
    # Only the links of the appendix are new, and they may lead to any chapter.
    others = tuple(replace(other, links=()) for other in inspection.book.chapters)
    everything = Book((Part("", (*others, chapter)),))
    links = resolve_book(everything, inspection.tree, inspection.config.allowed_schemes).links
    resolved = ResolvedBook(book, {**inspection.resolved.links, **links})
    return replace(inspection, resolved=resolved)


class _AppendixWriter:
    """Writes the lines of the appendix."""

    def __init__(self, inspection: Inspection, quoted: Quoted, web: WebNotes) -> None:
        self.inspection = inspection
        self.evidence = inspection.evidence
        self.quoted = quoted
        self.web = web
        self.chapters = {chapter.path: chapter for chapter in inspection.book.chapters}
        self.places: dict[str, dict[str, None]] = {name: {} for name in quoted.records}
        self.published: dict[str, dict[Figure, None]] = {}
        for path, quotations in quoted.chapters.items():
            for quotation in quotations:
                place = _link_section(self.chapters[path], quotation.opening.line)
                for number in list_numbers(quotation, self.evidence):
                    for name in number.records:
                        self.places[name][place] = None
                    for figure in number.figures:
                        self.published.setdefault(figure.table, {})[figure] = None

    def write(self) -> Iterator[str]:
        if not self.quoted.chapters:
            yield from (f"# {WEB_TITLE}", *self._write_web())
            return
        yield from self._write_numbers()
        if self.web.answers:
            yield from ("", f"## {WEB_TITLE}", *self._write_web())

    def _write_numbers(self) -> Iterator[str]:
        yield from (
            f"# {TITLE}",
            "",
            _INTRODUCTION,
            "",
            "## What the classes mean",
            "",
            *(f"- **{name}**: {meaning}." for name, meaning in CLASSES.items()),
            f"- {_UNCONFIRMED}",
        )
        if self.quoted.records:
            yield from ("", "## Records")
        for name, number in self.quoted.records.items():
            yield from self._write_record(number, name, self.evidence.records[name])
        if self.published:
            yield from ("", "## Published figures")
        for table in sorted(self.published):
            yield from self._write_table(table, list(self.published[table]))

    # --- links to the web ---

    def _write_web(self) -> Iterator[str]:
        web = self.web
        noun = "address" if web.count == 1 else "addresses"
        verb = "was" if len(web.answers) == 1 else "were"
        leads = f"This book leads to {web.count} {noun} on the web"
        asked = f"{len(web.answers)} of them {verb} asked {web.tell_days()}"
        yield from ("", f"{leads}. {asked}: {web.tell_verdicts()}.")
        for verdict, told in _LISTED.items():
            if entries := web.list_answers(verdict):
                yield from ("", f"{told}:", "")
                for address, answer in entries:
                    yield write_answer(answer, map(self._link_place, address.places))

    def _link_place(self, span: Span) -> str:
        if span.path in self.chapters:
            return _link_section(self.chapters[span.path], span.line)
        return _link(span.path, f"/{span.path}")

    # --- records ---

    def _write_record(self, number: str, name: str, record: Record) -> Iterator[str]:
        yield from ("", f"### {_escape(_name_record(number, record))}", "")
        yield from _fence(record.shell_line)
        yield ""
        yield f"- Tool: {self._tell_tool(record)}."
        if name in self.evidence.stale:
            yield f"- **Stale**: {_escape(self.evidence.stale[name].reason)}."
        yield f"- Run: {self._tell_run(record)}."
        if failure := tell_failure(record):
            yield f"- **Failed**: {failure}."
        yield from write_record_facts(record)
        files = [_link("record", f"/{RECORDS_FOLDER}/{name}.json")]
        if record.log:
            files.append(_link("log", f"/{RECORDS_FOLDER}/{record.tool}/{record.log}"))
        yield f"- Files: {', '.join(files)}."
        yield f"- Quoted in: {'; '.join(self.places[name])}."

    def _tell_tool(self, record: Record) -> str:
        path = next(
            (tool.path for tool in self.inspection.config.tools if tool.name == record.tool), ""
        )
        tree = self.inspection.tree
        is_there = bool(path) and tree.find_kind(path) == "file"
        name = _link(record.tool, f"/{path}") if is_there else _escape(record.tool)
        told = f"{name} {_escape(record.version)}, method {record.method}"
        told += f", SHA-256 {record.sha256[:_DIGITS]}"
        if not is_there:
            return f"{told}; no longer a tool of this book"
        if hashlib.sha256(tree.read_bytes(path)).hexdigest() == record.sha256:
            return f"{told}; its file is the same today"
        return f"{told}; its file has changed since"

    def _tell_run(self, record: Record) -> str:
        status = record.exit_status
        return ", ".join(
            (
                f"{record.started:%Y-%m-%d %H:%M} UTC",
                f"{record.seconds:.3g} s",
                f"profile {_escape(record.profile)}",
                count_noun(record.nodes, "node"),
                count_noun(record.ranks, "rank"),
                "done" if record.ended == "done" else f"ended as {record.ended}",
                "no exit status" if status is None else f"exit status {status}",
                "complete" if record.complete else "**partial**",
            )
        )

    # --- published figures ---

    def _write_table(self, name: str, figures: Sequence[Figure]) -> Iterator[str]:
        table = self.evidence.data[name]
        rows = {(figure.line, figure.citation.number_class) for figure in figures}
        lines = {line for line, _ in rows}
        classes = Counter(number_class for _, number_class in rows)
        told = ", ".join(f"{kind} {classes[kind]}" for kind in CLASSES if classes[kind])
        yield from ("", f"### {_escape(table.title)}", "")
        file = _link(table.path, f"/{table.path}")
        yield f"From {file}: {count_noun(len(lines), 'row')} quoted, by class: {told}. Sources:"
        yield ""
        cited: dict[str, dict[str, set[int]]] = {}
        for figure in sorted(figures, key=lambda figure: figure.line):
            sources = cited.setdefault(self._tell_citation(figure.citation), {})
            sources.setdefault(figure.citation.source, set()).add(figure.line)
        for told, sources in cited.items():
            yield f"- {told}:"
            for source, source_lines in sources.items():
                count = count_noun(len(source_lines), "row").replace(" ", "\N{NO-BREAK SPACE}")
                yield f"    - {_write_source(source)}, {count}"

    def _tell_citation(self, citation: Citation) -> str:
        """What is said about a source in addition to its name."""
        said = [
            _escape(citation.number_class),
            f"dated {_escape(citation.date)}",
        ]
        if citation.unconfirmed:
            said.append("**unconfirmed**")
        if citation.via:
            said.append(f"via {_write_source(citation.via)}")
        return "; ".join(said)


def write_answer(answer: Answer, places: Iterable[str]) -> str:
    """What an address answered, and the places of the book that lead to it: an item of a list in
    Markdown."""
    reason = f"{_escape(answer.reason)}, " if answer.reason else ""
    told = f"{_write_source(answer.url)}: {reason}asked on {find_day(answer)}"
    if is_address(answer.archived):
        told += f"; a copy: {_write_source(answer.archived)}"
    return f"- {told}. In {'; '.join(dict.fromkeys(places))}."


def write_record_facts(record: Record) -> Iterator[str]:
    """What the run had at hand, and what is to be known before its results are used: items of a
    list in Markdown."""
    yield f"- Machine: {_escape(_tell_machine(record.machine))}."
    for text, count in Counter(map(_tell_accelerator, record.machine.accelerators)).items():
        yield f"- Accelerators: {count} x {_escape(text)}."
    if record.environment:
        pairs = (f"{key}={value}" for key, value in record.environment.items())
        yield f"- Environment: {', '.join(map(_code, pairs))}."
    software = [f"{name} {value}" for name, value in record.software.items() if value is not None]
    if software:
        yield f"- Software: {_escape(', '.join(software))}."
    if record.caveats:
        yield "- Caveats:"
        yield from (f"    - {_escape(caveat)}" for caveat in record.caveats)


def _link_section(chapter: Chapter, line: int) -> str:
    """A link to the section of a chapter that contains a line."""
    headings = [a for a in chapter.anchors if a.level and a.span.line <= line]
    text, address = chapter.title, f"/{quote_path(chapter.path)}"
    if headings and headings[-1].level > 1 and headings[-1].title:
        text = f"{text}: {headings[-1].title}"
        address += f"#{quote_fragment(headings[-1].slug)}"
    return f"[{_escape(text)}](<{address}>)"


def _tell_machine(machine: Machine) -> str:
    """The machine in a line; its record file holds the rest."""
    cpu = machine.cpu
    said = [machine.hardware]
    if machine.accelerators and cpu.model:
        said.append(cpu.model)
    if cpu.architecture:
        said.append(cpu.architecture)
    if machine.memory_bytes:
        said.append(f"{_write_gib(machine.memory_bytes)} of memory")
    return ", ".join(said)


def _tell_accelerator(accelerator: Accelerator) -> str:
    """The facts of one accelerator; identical ones have the same."""
    said = [accelerator.model or accelerator.vendor or "unknown accelerator"]
    if accelerator.memory_bytes:
        said.append(_write_gib(accelerator.memory_bytes))
    if accelerator.power_limit_watts:
        said.append(f"power limit {accelerator.power_limit_watts:g} W")
    if accelerator.driver:
        said.append(f"driver {accelerator.driver}")
    if accelerator.throttle_reasons:
        said.append(f"throttled by {' and '.join(accelerator.throttle_reasons)}")
    return ", ".join(said)


def _write_gib(count: int) -> str:
    return f"{count / 2**30:.3g} GiB"


# --- Markdown that says exactly this ---


def _escape(text: str) -> str:
    return _SPECIAL.sub(r"\\\1", " ".join(text.split()))


def _link(text: str, path: str) -> str:
    return f"[{_escape(text)}](<{quote_path(path)}>)"


def _write_source(source: str) -> str:
    return f"<{source}>" if is_address(source) and not set("<>") & set(source) else _escape(source)


def _code(text: str) -> str:
    ticks = "`" * (1 + max((len(run) for run in re.findall("`+", text)), default=0))
    return f"{ticks} {text} {ticks}" if len(ticks) > 1 else f"`{text}`"


def _fence(text: str) -> Iterator[str]:
    ticks = "`" * max(3, 1 + max((len(run) for run in re.findall("`+", text)), default=0))
    yield from (f"{ticks}bash", *text.splitlines(), ticks)
