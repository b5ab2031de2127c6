"""The pages of a book's tools: purpose, usage and results of each, its records and the chapters
that mention it. Everything is read from source and records; no tool is run."""

from __future__ import annotations

import hashlib
import posixpath
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from markdown_it import MarkdownIt
from markupsafe import Markup

from bindery.check.inspect import Inspection
from bindery.core.config import Config, ToolEntry
from bindery.core.model import Anchor, Span
from bindery.core.repository import Tree
from bindery.core.wording import Wording
from bindery.markdown.slugs import SlugCounter
from bindery.render.site.reader_run import find_references, share_references
from bindery.render.site.results import write_example, write_values
from bindery.tools.bundle import BundleError, bundle_tool
from bindery.tools.calculators import Calculator, Input, read_calculators
from bindery.tools.python_to_js import TranslationError
from bindery.tools.tool_source import read_docstring, read_method, read_version

if TYPE_CHECKING:
    from bindery.evidence.records import Record

_FOLDERS = ("tools", "_tools")
_TAKEN = "usage records example values chapters text yours calculators tool".split()
"""Anchors of the page that are not from the docstring."""


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
    record: Record
    state: str

    @property
    def file(self) -> str:
        """The name of its file, without the extension."""
        return posixpath.basename(self.name)


@dataclass(frozen=True, slots=True)
class ToolPage:
    """Everything that the page of a tool shows."""

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
    file: str
    """The name of the file that readers download: the tool and the kit modules it uses."""
    text: bytes
    address: str
    """Its address on the web; empty for a site without an address, or a shell script."""
    about: tuple[ToolSection, ...]
    """Its docstring: the text before the first heading has no title."""
    help: str
    newest: ListedRun | None
    """The record of the example, if there is one."""
    example: Markup
    runs: tuple[ListedRun, ...]
    values: Markup
    """The table of the values that can be compared, by record; may be empty."""
    shared: Mapping[str, object] | None
    """The data for comparing another run with these, as JSON."""
    chapters: tuple[str, ...]
    """Paths of the chapters that mention it."""
    calculators: tuple[Calculator, ...] = ()

    @property
    def folder(self) -> str:
        """The folder of the page and of its files to download."""
        return posixpath.dirname(self.place)

    @property
    def shelf(self) -> str:
        """The name of its folder, which is its topic."""
        return posixpath.basename(posixpath.dirname(self.path))

    def list_sections(self, words: Wording) -> list[Anchor]:
        """The sections of the page, in their order."""
        found = [("calculators", words("Calculators"))] if self.calculators else []
        found += [("example", words("Example"))] if self.example else []
        found += [(section.slug, section.title) for section in self.about if section.title]
        found += [("usage", words("Usage"))] if self.help else []
        found.append(("records", words("Records")))
        found += [("values", words("Values by record"))] if self.values else []
        found += [("yours", words("Compare your results with ours"))] if self.shared else []
        found += [("chapters", words("In the book"))] if self.chapters else []
        return [Anchor(slug, title, 2, Span.whole(self.path)) for slug, title in found]


def find_tools_folder(config: Config, tree: Tree) -> str:
    """The folder of the site for these pages; another name if the book has such a folder."""
    inside = f"{config.folder}/" if config.folder else ""
    free = (name for name in _FOLDERS if tree.find_kind(inside + name) is None)
    return next(free, "__tools")


def describe_tools(inspection: Inspection, folder: str) -> list[ToolPage]:
    """The page of each tool of the book whose source exists, in the order of chapters.yaml."""
    tree = inspection.tree
    tools = [tool for tool in inspection.config.tools if tree.find_kind(tool.path) == "file"]
    return [_describe_tool(inspection, tool, folder) for tool in tools]


def _describe_tool(inspection: Inspection, tool: ToolEntry, folder: str) -> ToolPage:
    from bindery.evidence.compare.declaration import TermsError, read_terms

    tree, evidence = inspection.tree, inspection.evidence
    here = f"{folder}/{tool.name}"
    content = tree.read_bytes(tool.path)
    source = content.decode("utf-8-sig", "replace")
    text = _bundle(tree, tool.path, content)
    question, _, about = read_docstring(source).partition("\n")
    records = {name: r for name, r in evidence.records.items() if r.tool == tool.name}
    order = sorted(records, key=lambda name: (records[name].started, name), reverse=True)
    runs = tuple(_list_run(inspection, name, records[name]) for name in order)
    newest = next((run for run in runs if run.record.complete), None)
    try:
        terms = read_terms(tool.name, source)
    except TermsError:
        terms = None
    references = find_references(inspection, records, terms)
    units = {key: unit for r in records.values() for key, unit in r.units.items()}
    slugs = SlugCounter()
    for taken in _TAKEN:
        slugs.assign_slug(taken)
    version = read_version(source)
    site = inspection.config.site
    return ToolPage(
        tool.name,
        tool.path,
        f"{here}/index.html",
        question or tool.name,
        version,
        read_method(source) if "METHOD" in source else None,
        hashlib.sha256(text).hexdigest(),
        _format_size(len(text), inspection.config.wording),
        posixpath.basename(tool.path),
        text,
        f"{site.rstrip('/')}/{here}/{posixpath.basename(tool.path)}"
        if site and tool.path.endswith(".py")
        else "",
        tuple(_cut_sections(about, slugs)),
        _leave_out_docstring(evidence.texts.get(f"{tool.name}/help", ""), source),
        newest,
        write_example(newest.record, inspection.config.wording) if newest else Markup(),
        runs,
        write_values(references, terms, units, inspection.config.wording) if terms else Markup(),
        share_references(terms, references, units, read_method(source))
        if terms and references
        else None,
        tuple(_find_chapters(inspection, tool, records)),
        _read_calculators(source) if tool.calculators else (),
    )


def _read_calculators(source: str) -> tuple[Calculator, ...]:
    """The calculators of a tool; none if one cannot be read, which `bad-calculator` reports."""
    try:
        return read_calculators(source)
    except TranslationError:
        return ()


def find_calculator(page: ToolPage, calculator: Calculator) -> str:
    """The place of a calculator's page in the site."""
    return f"{page.folder}/{calculator.name}.html"


def show_default(asked: Input) -> str:
    """A default value as a user would type it."""
    value = asked.default
    if isinstance(value, float) and abs(value) >= 1e6 and float(f"{value:g}") == value:
        return re.sub(r"e\+0*", "e", f"{value:g}")
    return f"{value:g}" if isinstance(value, float) and float(f"{value:g}") == value else str(value)


def show_bounds(asked: Input, words: Wording) -> str:
    """The bounds of a number in words; empty if it has none."""
    low, high = (None if b is None else _show_bound(b) for b in (asked.minimum, asked.maximum))
    if low is not None and high is not None:
        return words("{low} to {high}", low=low, high=high)
    if low is not None:
        return words("at least {low}", low=low)
    return words("at most {high}", high=high) if high is not None else ""


def _show_bound(bound: float) -> str:
    is_short = float(bound).is_integer() and abs(bound) < 1e9
    return f"{bound:,.0f}" if is_short else re.sub(r"e\+?(-?)0*", r"e\1", f"{bound:g}")


def _format_size(size: int, words: Wording) -> str:
    return words.number(f"{size / 1000:.1f} kB") if size >= 1000 else words.count(size, "byte")


def _list_run(inspection: Inspection, name: str, record: Record) -> ListedRun:
    evidence, words = inspection.evidence, inspection.config.wording
    if not record.complete:
        state = words("partial: {ended}", ended=record.ended)
    elif record.ended == "failed":
        state = words("failed: the tool reported a problem")
    elif name in evidence.stale:
        state = words("stale: {reason}", reason=evidence.stale[name].reason)
    else:
        state = words("current") if name in evidence.newest else words("superseded")
    return ListedRun(name, record, state)


@lru_cache(maxsize=16384)
def _speaks_of(source: str, file: str, text: str) -> bool:
    pattern = rf"(?<![\w.-]){re.escape(file)}(?![\w-])|\b{re.escape(text)}"
    return re.search(pattern, source) is not None


def _find_chapters(
    inspection: Inspection, tool: ToolEntry, records: Iterable[str]
) -> Iterable[str]:
    """The chapters that name the file of a tool, quote its output, or show its numbers."""
    names = set(records)
    views = {
        view
        for view, provenance in inspection.evidence.provenance.items()
        if names & set(provenance.records)
    }
    file, text = posixpath.basename(tool.path), f"text: {tool.name}/"
    for chapter in inspection.book.chapters:
        quotations = inspection.quotations.get(chapter.path)
        quoted = quotations is not None and bool(views & set(quotations.views))
        source = chapter.source
        if quoted or ((file in source or text in source) and _speaks_of(source, file, text)):
            yield chapter.path


# --- the docstring ---


def _bundle(tree: Tree, path: str, content: bytes) -> bytes:
    """The tool as one file; its source if it cannot be bundled, which `bindery bundle` reports."""
    if not path.endswith(".py"):
        return content
    try:
        return bundle_tool(path, lambda name: tree.read_bytes(name).decode("utf-8-sig")).encode()
    except (BundleError, OSError, SyntaxError, ValueError):
        return content


def _leave_out_docstring(help_text: str, source: str) -> str:
    """The output of `--help` without the docstring, which the page shows in other sections."""
    docstring = read_docstring(source)
    shown = help_text.replace(docstring, "") if docstring else help_text
    return re.sub(r"\n{3,}", "\n\n", shown).rstrip()


_MARKDOWN = MarkdownIt("commonmark", {"html": False}).enable("table")


def _render_markdown(text: str) -> Markup:
    """Blocks of code can be scrolled by keyboard."""
    return Markup(_MARKDOWN.render(text).replace("<pre>", '<pre tabindex="0">'))


def _cut_sections(text: str, slugs: SlugCounter) -> Iterable[ToolSection]:
    """The sections of a docstring in Markdown."""
    first, *others = re.split(r"^## ", text, flags=re.MULTILINE)
    if first.strip():
        yield ToolSection("", "", _render_markdown(first))
    for section in others:
        title, _, body = section.partition("\n")
        yield ToolSection(slugs.assign_slug(title.strip()), title.strip(), _render_markdown(body))
