"""The pages of tools: the catalog, and a page per tool and per calculator."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Mapping

from markupsafe import Markup
from msgspec import Struct

from bindery.render.addresses import quote_path, relate
from bindery.render.frames import Frames
from bindery.render.site.frame import find_edit_url
from bindery.render.site.model import Page, PageLink, Site
from bindery.render.site.reading import Section, read_page
from bindery.render.site.tools import ToolPage, find_calculator, show_bounds, show_default
from bindery.tools.calculators import Calculator

_WEIGHT, _WEIGHT_OF_CALCULATOR = 0.5, 0.9
"""In the search: chapters come first."""


class _ToolText(Struct, frozen=True):
    """The text of a page, and what is read from it."""

    body: Markup
    sections: tuple[Section, ...]
    summary: str


def make_pages(site: Site, frames: Frames) -> Iterator[Page]:
    """All pages of tools, the catalog first; none if the book has no tools."""
    if not site.tools:
        return
    shelves: dict[str, list[ToolPage]] = {}
    for tool in site.tools:
        shelves.setdefault(tool.shelf, []).append(tool)
    title, shown = site.config.wording("Tools"), {"shelves": sorted(shelves.items())}
    yield _make_page(site, frames, site.catalogue, title, "site/tools.html", shown)
    for tool in site.tools:
        for one in tool.calculators:
            yield _make_calculator(site, frames, tool, one)
        yield _make_tool(site, frames, tool)


def write_scripts(site: Site) -> dict[str, str]:
    """The script of each calculator, by its path."""
    return {
        _find_script(find_calculator(tool, one)): one.script
        for tool in site.tools
        for one in tool.calculators
    }


def _find_script(place: str) -> str:
    return f"{place.removesuffix('.html')}.js"


def _make_tool(site: Site, frames: Frames, tool: ToolPage) -> Page:
    here = tool.place
    links = [
        site.link_chapter(chapter, here)
        for chapter in site.book.chapters
        if chapter.path in tool.chapters
    ]
    calculators = [
        PageLink(quote_path(relate(find_calculator(tool, one), here)), one.title,
                 about=one.question)
        for one in tool.calculators
    ]  # fmt: skip
    shown = {
        "tool": tool,
        "chapters": links,
        "calculators": calculators,
    }
    around = {
        "sections": tool.list_sections(site.config.wording),
        "edit": find_edit_url(site.config, tool.path),
    }
    scripts = ("tables.js", "yours.js") if tool.shared else ("tables.js",)
    return _make_page(
        site, frames, here, tool.name, "site/tool.html", shown, around, scripts=scripts
    )


def _make_calculator(site: Site, frames: Frames, tool: ToolPage, one: Calculator) -> Page:
    here, words = find_calculator(tool, one), site.config.wording
    shown = {
        "one": one,
        "tool": tool,
        "back": posixpath.basename(tool.place),
        "shown": {asked.name: show_default(asked) for asked in one.inputs},
        "bounds": {asked.name: show_bounds(asked, words) for asked in one.inputs},
    }
    scripts = ("python.js", _find_script(here), "calculator.js")
    # A reader searches for the "memory calculator".
    title = words("Calculator: {title}", title=one.title)
    return _make_page(
        site,
        frames,
        here,
        title,
        "site/calculator.html",
        shown,
        scripts=scripts,
        weight=_WEIGHT_OF_CALCULATOR,
    )


_NOTHING: Mapping[str, object] = {}


def _make_page(
    site: Site,
    frames: Frames,
    here: str,
    title: str,
    template: str,
    shown: Mapping[str, object],
    around: Mapping[str, object] = _NOTHING,
    *,
    scripts: tuple[str, ...] = ("tables.js",),
    weight: float = _WEIGHT,
) -> Page:
    """A page whose text comes from a template; `around` has the values of the frame."""

    def write() -> _ToolText:
        body = frames.fill(template, shown)
        sections, summary = read_page(body)
        return _ToolText(Markup(body), tuple(sections), summary)

    text = frames.recall(f"text of {here}", shown, _ToolText, write)
    values = {
        "part": site.config.wording("Tools"),
        "summary": text.summary,
        "body": text.body,
        **around,
    }
    return Page(here, title, "site/page.html", values, scripts, text.sections, weight)
