"""The pages of a book's tools: what each is for, how it is used, what it gives, its records and the
chapters that speak of it. All is read from the source and the records of a tool; nothing runs."""

from __future__ import annotations

import hashlib
import math
import posixpath
import re
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from markupsafe import Markup

from bindery.calculators import Calculator, Input, read_calculators
from bindery.config import Config, ToolEntry
from bindery.docstrings import Block, read_docstring, split_docstring
from bindery.load import RECORDS_FOLDER, Tree
from bindery.model import Anchor, Span
from bindery.pipeline import Inspection
from bindery.render.addresses import quote_path
from bindery.render.decimals import find_pads
from bindery.render.highlighting import highlight_code
from bindery.render.markup import escape_attribute, escape_text
from bindery.report import count_noun
from bindery.slugs import SlugCounter
from bindery.tables import UNKNOWN, Cell, Column, format_cell
from bindery.translating import TranslationError

if TYPE_CHECKING:
    from bindery.comparison import Reference
    from bindery.records import Record, Scalar
    from bindery.terms import Terms

_FOLDERS = ("tools", "_tools")
MOST_ROWS = 60
"""Of an example on a page; the rest is in the file that can be downloaded."""
_MOST_RECORDS = 6
"""Columns of the table of values."""
_LOG_LINES = 60
_TAKEN = "usage records example values chapters text yours calculators tool".split()
"""Anchors of the page that are not of the docstring."""
_CODE = re.compile(r"(`+)(.+?)\1")
_PREFIXES = ("p", "n", "µ", "m", "", "k", "M", "G", "T", "P", "E")
_SCALED = frozenset(("s", "B", "B/s", "FLOP", "FLOP/s", "Hz", "W", "J"))
_BINARY = ("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei")


@dataclass(frozen=True, slots=True)
class Offer:
    """A file of the repository that a page offers: its path there, and its place in the site."""

    path: str
    place: str

    @property
    def name(self) -> str:
        return posixpath.basename(self.place)


@dataclass(frozen=True, slots=True)
class ToolSection:
    """A section of a tool's page."""

    slug: str
    title: str
    body: Markup


@dataclass(frozen=True, slots=True)
class ListedRun:
    """A record as the page of its tool lists it."""

    name: str
    href: str
    day: str
    machine: str
    hardware: str
    profile: str
    state: str
    method: int


@dataclass(frozen=True, slots=True)
class ToolPage:
    """All that the page of a tool shows."""

    name: str
    path: str
    """Of its source in the repository."""
    place: str
    """Of the page in the site."""
    question: str
    version: str
    method: int | None
    sha256: str
    size: str
    file: Offer
    about: tuple[ToolSection, ...]
    """Its docstring: what stands before the first heading has no title."""
    help: str
    newest: str
    """Name of the record that the example is from; empty where there is none."""
    command: str
    example: Markup
    runs: tuple[ListedRun, ...]
    values: Markup
    """The table of the values that can be compared, by record; empty where there are none."""
    shared: Mapping[str, object] | None
    """What the page needs to hold another run against these, as JSON."""
    chapters: tuple[str, ...]
    """Paths of the chapters that speak of it."""
    offers: tuple[Offer, ...]
    calculators: tuple[Calculator, ...] = ()

    @property
    def shelf(self) -> str:
        """The folder in which it lies: what it is about."""
        return posixpath.basename(posixpath.dirname(self.path))

    def list_sections(self) -> list[Anchor]:
        """The sections of the page, in their order."""
        found = [("calculators", "Calculators")] if self.calculators else []
        found += [(section.slug, section.title) for section in self.about if section.title]
        found += [("usage", "Usage")] if self.help else []
        found += [("example", "Example")] if self.example else []
        found.append(("records", "Records"))
        found += [("values", "Values by record")] if self.values else []
        found += [("yours", "Your number beside ours")] if self.shared else []
        found += [("chapters", "In the book")] if self.chapters else []
        return [Anchor(slug, title, 2, Span.whole(self.path)) for slug, title in found]


def find_tools_folder(config: Config, tree: Tree) -> str:
    """The folder of the site for these pages; another one where the book has such a folder."""
    inside = f"{config.folder}/" if config.folder else ""
    free = (name for name in _FOLDERS if tree.find_kind(inside + name) is None)
    return next(free, "__tools")


def describe_tools(inspection: Inspection, folder: str) -> list[ToolPage]:
    """The page of each tool of the book whose source is there, in the order of chapters.yaml."""
    tree = inspection.tree
    tools = [tool for tool in inspection.config.tools if tree.find_kind(tool.path) == "file"]
    return [_describe_tool(inspection, tool, folder) for tool in tools]


def _describe_tool(inspection: Inspection, tool: ToolEntry, folder: str) -> ToolPage:
    from bindery.constants import read_method
    from bindery.terms import TermsError, read_terms

    tree, evidence = inspection.tree, inspection.evidence
    here = f"{folder}/{tool.name}"
    content = tree.read_bytes(tool.path)
    source = content.decode("utf-8-sig", "replace")
    question, blocks = split_docstring(read_docstring(source))
    records = {name: r for name, r in evidence.records.items() if r.tool == tool.name}
    order = sorted(records, key=lambda name: (records[name].started, name), reverse=True)
    file = Offer(tool.path, f"{here}/{posixpath.basename(tool.path)}")
    newest = next((name for name in order if records[name].complete), "")
    try:
        terms = read_terms(tool.name, source)
    except TermsError:
        terms = None
    references = _find_references(inspection, records, terms)
    units = {key: unit for r in records.values() for key, unit in r.units.items()}
    slugs = SlugCounter()
    for taken in _TAKEN:
        slugs.assign_slug(taken)
    version = next((records[name].version for name in order), "")
    offers = [file, *(_offer_record(name, here) for name in order)]
    return ToolPage(
        tool.name,
        tool.path,
        f"{here}/index.html",
        question or tool.name,
        version,
        read_method(source),
        hashlib.sha256(content).hexdigest(),
        _format_size(len(content)),
        file,
        tuple(_set_blocks(blocks, slugs)),
        evidence.texts.get(f"{tool.name}/help", "").rstrip(),
        newest,
        records[newest].shell_line if newest else "",
        _write_example(tree, newest, records[newest]) if newest else Markup(),
        tuple(_list_run(inspection, name, records[name]) for name in order),
        _write_values(references, terms, units) if terms else Markup(),
        _share(terms, references, units, read_method(source)) if terms and references else None,
        tuple(_find_chapters(inspection, tool, records)),
        tuple(offers),
        tuple(_read_calculators(source)) if tool.calculators else (),
    )


def _read_calculators(source: str) -> list[Calculator]:
    """The calculators of a tool; none where one cannot be read, as `bad-calculator` has said."""
    try:
        return read_calculators(source)
    except TranslationError:
        return []


def find_calculator(page: ToolPage, calculator: Calculator) -> str:
    """The place of a calculator's page in the site."""
    return f"{posixpath.dirname(page.place)}/{calculator.name}.html"


def show_default(asked: Input) -> str:
    """A default as it would be typed."""
    value = asked.default
    if isinstance(value, float) and abs(value) >= 1e6 and float(f"{value:g}") == value:
        return re.sub(r"e\+0*", "e", f"{value:g}")
    return f"{value:g}" if isinstance(value, float) and float(f"{value:g}") == value else str(value)


def show_bounds(asked: Input) -> str:
    """Between what a number has to be; empty where nothing is said."""
    low, high = (None if b is None else _show_bound(b) for b in (asked.minimum, asked.maximum))
    if low is not None and high is not None:
        return f"{low} to {high}"
    return f"at least {low}" if low is not None else f"at most {high}" if high is not None else ""


def _show_bound(bound: float) -> str:
    is_short = float(bound).is_integer() and abs(bound) < 1e9
    return f"{bound:,.0f}" if is_short else re.sub(r"e([+-])0*", r"e\1", f"{bound:g}")


def _offer_record(name: str, here: str) -> Offer:
    return Offer(f"{RECORDS_FOLDER}/{name}.json", f"{here}/records/{posixpath.basename(name)}.json")


def _format_size(size: int) -> str:
    return f"{size / 1000:.1f} kB" if size >= 1000 else f"{size} bytes"


def _list_run(inspection: Inspection, name: str, record: Record) -> ListedRun:
    evidence = inspection.evidence
    if not record.complete:
        state = f"partial: {record.ended}"
    elif record.ended == "failed":
        state = "failed: the tool had found a problem"
    elif name in evidence.stale:
        state = f"stale: {evidence.stale[name].reason}"
    else:
        state = "whole" if name in evidence.newest else "superseded"
    return ListedRun(
        name, f"records/{quote_path(posixpath.basename(name))}.json", f"{record.started:%Y-%m-%d}",
        record.machine.label, record.machine.hardware, record.profile, state, record.method,
    )  # fmt: skip


def _find_chapters(
    inspection: Inspection, tool: ToolEntry, records: Iterable[str]
) -> Iterable[str]:
    """The chapters that name the file of a tool, quote what it prints, or show its numbers."""
    names = set(records)
    views = {
        view
        for view, provenance in inspection.evidence.provenance.items()
        if names & set(provenance.records)
    }
    file = re.escape(posixpath.basename(tool.path))
    spoken = re.compile(rf"(?<![\w.-]){file}(?![\w-])|\btext: {re.escape(tool.name)}/")
    for chapter in inspection.book.chapters:
        quotations = inspection.quotations.get(chapter.path)
        quoted = quotations is not None and bool(views & set(quotations.views))
        if quoted or spoken.search(chapter.source):
            yield chapter.path


# --- the docstring ---


def _set_blocks(blocks: Sequence[Block], slugs: SlugCounter) -> Iterable[ToolSection]:
    title, slug, pieces = "", "", list[str]()
    for block in blocks:
        if block.kind == "heading":
            if title or pieces:
                yield ToolSection(slug, title, Markup("\n".join(pieces)))
            title, slug, pieces = block.text, slugs.assign_slug(block.text), []
        elif block.kind == "typed":
            text = highlight_code(block.text, "text")
            pieces.append(f'<div class="code"><pre tabindex="0"><code>{text}</code></pre></div>')
        else:
            pieces.append(f"<p>{_set_inline(block.text)}</p>")
    if title or pieces:
        yield ToolSection(slug, title, Markup("\n".join(pieces)))


def _set_inline(text: str) -> str:
    return _CODE.sub(r"<code>\2</code>", escape_text(text))


# --- results ---


def _write_example(tree: Tree, name: str, record: Record) -> Markup:
    """The results of a record as a table; its log where it has none."""
    if record.results:
        return _write_results(record)
    path = f"{posixpath.dirname(f'{RECORDS_FOLDER}/{name}')}/{record.log}"
    if record.log is None or tree.find_kind(path) != "file":
        return Markup("<p>The run has left no table.</p>")
    lines = tree.read_bytes(path).decode("utf-8", "replace").rstrip().split("\n")
    more = f"\n({count_noun(len(lines) - _LOG_LINES, 'more line')})"
    text = "\n".join(lines[:_LOG_LINES]) + (more if len(lines) > _LOG_LINES else "")
    return Markup(
        f'<div class="code"><pre tabindex="0"><code>{escape_text(text)}</code></pre></div>'
    )


def _write_results(record: Record) -> Markup:
    keys = list(dict.fromkeys(key for row in record.results for key in row))
    rows = record.results[:MOST_ROWS]
    same = {
        key: rows[0][key]
        for key in keys
        if len(rows) > 1 and key in rows[0]
        and all(key in row and _is_same(row[key], rows[0][key]) for row in rows)
    }  # fmt: skip
    columns: list[tuple[str, list[Cell], Column]] = []
    for key in keys:
        if key not in same:
            values = [row.get(key) for row in rows]
            columns.append((key, *_scale_column(key, values, record.units.get(key, ""))))
    out = []
    if same:
        shown = []
        for key, value in same.items():
            (cell,), column = _scale_column(key, [value], record.units.get(key, ""))
            unit = f" {column.unit}" if column.unit else ""
            shown.append(f"{_name_column(key)} {_show_cell(cell, column)}{unit}")
        out.append(f"<p>The same in all rows: {escape_text('; '.join(shown))}.</p>")
    if columns:
        heads = [column for _, _, column in columns]
        body = list(zip(*(cells for _, cells, _ in columns), strict=True))
        out.append(write_table(heads, body, f"Results of a run of {record.tool}"))
    if len(record.results) > len(rows):
        out.append(f"<p>The first {len(rows)} of {len(record.results)} rows.</p>")
    return Markup("\n".join(out))


def _is_same(left: Scalar, right: Scalar) -> bool:
    return isinstance(left, bool) == isinstance(right, bool) and left == right


def _name_column(key: str) -> str:
    return key.replace("_", " ")


def _show_cell(cell: Cell, column: Column) -> str:
    return format_cell(cell, column).replace("\\|", "|")


def _scale_column(key: str, values: Sequence[Scalar], unit: str) -> tuple[list[Cell], Column]:
    """The cells of a column and its heading: base units get the prefix that most of the numbers
    read best with."""
    numbers = [float(v) for v in values if isinstance(v, int | float) and not isinstance(v, bool)]
    plain: list[Cell] = [_show_flag(v) if isinstance(v, bool) else v for v in values]
    name = _name_column(key)
    shown = "" if unit == "1" else unit
    if not numbers or any(isinstance(v, str) for v in plain):
        return [None if v is None else str(v) for v in plain], Column(key, name)
    is_whole = all(number.is_integer() for number in numbers)
    sizes = [abs(number) for number in numbers if number]
    middle = statistics.median(sizes) if sizes else 0.0
    factor, prefix = 1.0, ""
    if unit == "B" and is_whole and sizes and all(size % 1024 == 0 for size in sizes):
        power = min(int(math.log2(min(sizes)) // 10), len(_BINARY) - 1)
        factor, prefix = 1024.0**power, _BINARY[power]
    elif unit in _SCALED and middle:
        least = _PREFIXES.index("") if unit in ("B", "FLOP") else 0
        power = math.floor(math.log10(middle) / 3 + 1e-9)
        power = max(least - 4, min(power, len(_PREFIXES) - 5))
        factor, prefix = 1000.0**power, _PREFIXES[power + 4]
    scaled = [v / factor if isinstance(v, int | float) and v is not None else v for v in plain]
    if all(not isinstance(v, float) or v.is_integer() for v in scaled):
        return [int(v) if isinstance(v, float) else v for v in scaled], Column(
            key, name, prefix + shown
        )
    digits = max(0, min(9, 3 - math.floor(math.log10(middle / factor)))) if middle else 0
    return list(scaled), Column(key, name, prefix + shown, digits)


def _show_flag(value: bool) -> str:
    return "yes" if value else "no"


def write_table(columns: Sequence[Column], rows: Iterable[Sequence[Cell]], label: str) -> str:
    """A table in the XHTML of the site: numbers to the right, decimal points below each other."""
    body = [[_show_cell(c, k) for c, k in zip(row, columns, strict=True)] for row in rows]
    cells = [[column.title for column in columns], *body]
    right = {
        index
        for index in range(len(columns))
        if body and all(_is_number(row[index]) for row in body)
    }
    pads = find_pads(cells, right)
    out = [
        f'<div class="table" role="region" tabindex="0" aria-label="{escape_attribute(label)}">',
        "<table><thead><tr>",
    ]
    for index, text in enumerate(cells[0]):
        side = ' class="right"' if index in right else ""
        out.append(f'<th{side} scope="col">{escape_text(text)}</th>\n')
    out.append("</tr></thead><tbody>")
    for number, row in enumerate(body, 1):
        out.append("<tr>")
        for index, text in enumerate(row):
            side = ' class="right"' if index in right else ""
            pad = f' data-pad="{pads[number, index]}"' if (number, index) in pads else ""
            out.append(f"<td{side}{pad}>{escape_text(text)}</td>")
        out.append("</tr>")
    out.append("</tbody></table></div>")
    return "".join(out)


def _is_number(text: str) -> bool:
    return text == UNKNOWN or re.fullmatch(r"-?\d[\d.]*(e[+-]?\d+)?", text) is not None


# --- what can be compared ---


def _find_references(
    inspection: Inspection, records: Mapping[str, Record], terms: Terms | None
) -> list[Reference]:
    """The records that others are compared with, the newest first."""
    if terms is None or not records:
        return []
    from bindery.comparison import make_references

    stale = {name: entry.reason for name, entry in inspection.evidence.stale.items()}
    references = make_references(records, terms, stale)
    return sorted(references, key=lambda r: (r.started, r.name), reverse=True)


def _write_values(
    references: Sequence[Reference], terms: Terms, units: Mapping[str, str]
) -> Markup:
    """The values of the newest records, a column for each, a row for each key."""
    shown = references[:_MOST_RECORDS]
    keys = list(dict.fromkeys(key for reference in shown for key in reference.rows))[:MOST_ROWS]
    if not keys:
        return Markup()
    fixed = [i for i in range(len(terms.keys)) if len({key[i] for key in keys}) == 1 < len(keys)]
    varied = [i for i in range(len(terms.keys)) if i not in fixed]
    columns: list[Column] = []
    cells: list[list[Cell]] = []
    for index in varied:
        values = [key[index][1] for key in keys]
        scaled, column = _scale_column(terms.keys[index], values, units.get(terms.keys[index], ""))
        columns.append(column)
        cells.append(scaled)
    every: list[Scalar] = [
        recorded.value if (recorded := reference.rows.get(key)) else None
        for reference in shown
        for key in keys
    ]
    scaled, column = _scale_column(terms.value, every, units.get(terms.value, ""))
    for number, reference in enumerate(shown):
        day, name = reference.started[:10], posixpath.basename(reference.name)
        columns.append(Column(name, f"{day} {name}", column.unit, column.digits))
        cells.append(scaled[number * len(keys) : (number + 1) * len(keys)])
    better = "higher" if terms.higher_is_better else "lower"
    said = f"<p><code>{escape_text(terms.value)}</code>; {better} is better."
    if fixed:
        same = ", ".join(f"{terms.keys[i]} {_show_key(keys[0][i][1])}" for i in fixed)
        said += f" In all rows: {escape_text(same)}."
    rows = list(zip(*cells, strict=True))
    return Markup(f"{said}</p>\n" + write_table(columns, rows, f"{terms.value} by record"))


def _show_key(value: Scalar) -> str:
    from bindery.comparison import show_scalar

    return show_scalar(value)


def _share(
    terms: Terms, references: Sequence[Reference], units: Mapping[str, str], method: int | None
) -> dict[str, object]:
    """Terms and records as the page's script reads them."""
    from bindery.comparison import FAR, TOLERANCE

    return {
        "tool": terms.tool,
        "method": method,
        "keys": list(terms.keys),
        "value": terms.value,
        "unit": units.get(terms.value, "1"),
        "higherIsBetter": terms.higher_is_better,
        "spread": terms.spread,
        "member": terms.member,
        "trusted": {column: list(values) for column, values in terms.trusted.items()},
        "alike": list(terms.alike),
        "hasRanks": terms.has_ranks,
        "tolerance": TOLERANCE,
        "far": FAR,
        "records": [
            {
                "name": reference.name,
                "started": reference.started,
                "method": reference.method,
                "hardware": reference.hardware,
                "powerLimit": reference.power_limit,
                "nodes": reference.nodes,
                "ranks": reference.ranks,
                "settings": dict(reference.settings),
                "rows": [
                    [[value for _, value in key], recorded.value, recorded.spread]
                    for key, recorded in reference.rows.items()
                ],
                "untrusted": [
                    [[value for _, value in key], reason]
                    for key, reason in reference.untrusted.items()
                ],
            }
            for reference in references
        ],
    }
