"""The pages of a book's tools: purpose, usage and results of each, its records and the chapters
that mention it. Everything is read from source and records; no tool is run."""

from __future__ import annotations

import hashlib
import json
import posixpath
import re
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from markdown_it import MarkdownIt
from markupsafe import Markup
from msgspec import Struct

from bindery.check.inspect import Inspection
from bindery.core.cache import Cache, recall
from bindery.core.config import Config, ToolEntry
from bindery.core.model import Anchor, Span
from bindery.core.repository import Tree
from bindery.core.wording import Wording
from bindery.evidence.quotations import Quotations
from bindery.markdown.slugs import SlugCounter
from bindery.render.site.reader_run import find_references, share_references
from bindery.render.site.results import write_example, write_values
from bindery.tools.bundle import KIT, BundleError, bundle_tool
from bindery.tools.calculators import Calculator, Input, read_calculators
from bindery.tools.python_to_js import TranslationError
from bindery.tools.tool_source import read_docstring, read_method, read_version

if TYPE_CHECKING:
    from bindery.evidence.records import Record

_FOLDERS = ("tools", "_tools")
_TAKEN = "usage records example values chapters text yours calculators tool".split()
"""Anchors of the page that are not from the docstring."""


class ToolSection(Struct, frozen=True):
    """A section of a tool's page."""

    slug: str
    title: str
    body: Markup


class ListedRun(Struct, frozen=True):
    """A record as the page of its tool lists it."""

    name: str
    day: str
    hardware: str
    profile: str
    method: int
    state: str

    @property
    def file(self) -> str:
        """The name of its file, without the extension."""
        return posixpath.basename(self.name)


class ToolPage(Struct, frozen=True):
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
    command: str
    """The command of that record."""
    example: Markup
    runs: tuple[ListedRun, ...]
    values: Markup
    """The table of the values that can be compared, by record; may be empty."""
    shared: Markup
    """The data for comparing another run with these, as JSON; may be empty."""
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


def describe_tools(
    inspection: Inspection, folder: str, cache: Cache | None = None
) -> tuple[ToolPage, ...]:
    """The page of each tool of the book whose source exists, in the order of chapters.yaml."""
    tree = inspection.tree
    tools = [tool for tool in inspection.config.tools if tree.find_kind(tool.path) == "file"]
    if not tools:
        return ()
    mentions = _find_mentions(inspection, tools)
    inputs = {
        **inspection.inputs,
        "a module of the kit": tree.hash_files(_list_kit_files(tree, tools)),
        "the mention of a tool": repr(mentions),
        "the language of the outputs": repr(inspection.config.wording),
        "the folder of the tools": folder,
    }
    return recall(
        cache,
        "tools",
        inputs,
        tuple[ToolPage, ...],
        lambda: tuple(_describe_tool(inspection, t, folder, mentions[t.name]) for t in tools),
    )


def _list_kit_files(tree: Tree, tools: Iterable[ToolEntry]) -> Iterator[str]:
    """Everything that a tool can import from a kit."""
    folders = {(folder / KIT).as_posix() for t in tools for folder in PurePosixPath(t.path).parents}
    for folder in sorted(folders):
        yield from tree.walk_files(folder)


def _describe_tool(
    inspection: Inspection, tool: ToolEntry, folder: str, chapters: tuple[str, ...]
) -> ToolPage:
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
    newest = next((run for run in runs if records[run.name].complete), None)
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
        records[newest.name].shell_line if newest else "",
        write_example(records[newest.name], inspection.config.wording) if newest else Markup(),
        runs,
        write_values(references, terms, units, inspection.config.wording) if terms else Markup(),
        _embed_json(share_references(terms, references, units))
        if terms and references
        else Markup(),
        chapters,
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
    return ListedRun(
        name,
        str(record.started.date()),
        record.machine.hardware,
        record.profile,
        record.method,
        state,
    )


def _find_mentions(
    inspection: Inspection, tools: Sequence[ToolEntry]
) -> dict[str, tuple[str, ...]]:
    """By the name of a tool, the chapters that name its file, quote what it prints, or show its
    numbers."""
    sources = inspection.facts.derive(
        "tools behind views", dict[str, tuple[str, ...]], lambda: _list_sources(inspection)
    )
    mentions: dict[str, dict[str, None]] = {tool.name: {} for tool in tools}
    given = repr([(tool.name, tool.path) for tool in tools])
    for chapter in inspection.book.chapters:
        list_named = partial(_list_named, chapter.source, tools)
        named = chapter.facts.derive("named tools", tuple[str, ...], list_named, given)
        quoted = inspection.quotations.get(chapter.path, Quotations()).views
        for name in (*named, *(tool for view in quoted for tool in sources.get(view, ()))):
            mentions.get(name, {})[chapter.path] = None
    return {name: tuple(chapters) for name, chapters in mentions.items()}


def _list_sources(inspection: Inspection) -> dict[str, tuple[str, ...]]:
    """The tools whose records each view shows."""
    evidence = inspection.evidence
    return {
        view: tuple(dict.fromkeys(evidence.records[name].tool for name in provenance.records))
        for view, provenance in evidence.provenance.items()
    }


def _list_named(source: str, tools: Iterable[ToolEntry]) -> tuple[str, ...]:
    """The tools whose file a chapter names, or whose output it quotes."""
    named, quotes = [], "text: " in source
    for tool in tools:
        file, text = posixpath.basename(tool.path), f"text: {tool.name}/"
        # What looks back comes behind the name: a pattern that begins with letters is quick.
        name, quotation = re.escape(file), re.escape(text)
        if (file in source and re.search(rf"{name}(?<![\w.-]{name})(?![\w-])", source)) or (
            quotes and text in source and re.search(rf"{quotation}(?<!\w{quotation})", source)
        ):
            named.append(tool.name)
    return tuple(named)


def _embed_json(value: object) -> Markup:
    """JSON that is safe inside a script element of a page."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return Markup(text.replace("<", "\\u003c"))


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
