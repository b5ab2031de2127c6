"""Files for programs: the Markdown of each chapter, llms.txt, and a sitemap."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape

from bindery.book.this_edition import Edition
from bindery.core.config import Config
from bindery.core.model import Book, Chapter
from bindery.render.addresses import quote_path

LLMS, LLMS_FULL, SITEMAP = "llms.txt", "llms-full.txt", "sitemap.xml"


def find_markdown(chapter: Chapter, folder: str) -> str:
    """The path of the Markdown of a chapter in the site: its own path, so that its links to other
    Markdown and to pictures work as in the repository."""
    inside = f"{folder}/" if folder else ""
    return chapter.path.removeprefix(inside)


def write_llms(
    book: Book,
    config: Config,
    edition: Edition,
    summaries: Mapping[str, str],
    markdown: list[str],
    tools: Mapping[str, tuple[str, str]],
) -> str:
    """A list of the chapters after llmstxt.org: title, description, then the parts with a line per
    chapter, which links to its Markdown, and the tools with their questions, which link to their
    sources; `tools` has the name and question of each by its path."""
    base = f"{config.site}/" if config.site else ""
    lines = [f"# {config.title}", ""]
    if config.description:
        lines += [f"> {config.description}", ""]
    lines += [f"{_describe(edition)} The whole book as one file: [{LLMS_FULL}]({base}{LLMS_FULL})."]
    known = set(markdown)
    for part in book.parts:
        entries = []
        for chapter in part.chapters:
            path = find_markdown(chapter, config.folder)
            if path not in known:
                continue
            summary = summaries.get(chapter.path, "")
            about = f": {summary}" if summary else ""
            entries.append(f"- [{chapter.title}]({base}{quote_path(path)}){about}")
        if entries:
            lines += ["", f"## {part.title or 'Chapters'}", "", *entries]
    if tools:
        lines += ["", "## Tools", ""]
        for place, (name, question) in tools.items():
            lines.append(f"- [{name}]({base}{quote_path(place)}): {question}")
    return "\n".join(lines) + "\n"


def write_llms_full(chapters: Mapping[str, str], config: Config, edition: Edition) -> str:
    """The Markdown of all chapters in reading order, each after its path."""
    head = f"# {config.title}\n\n{_describe(edition)}\n"
    parts = [f"\n---\n\n<!-- {path} -->\n\n{source.strip()}\n" for path, source in chapters.items()]
    return head + "".join(parts)


def write_sitemap(pages: Mapping[str, str], site: str) -> str:
    """A sitemap after sitemaps.org: each page with the day of its last change, if known."""
    entries = []
    for page, changed in pages.items():
        address = escape(find_address(page, site), quote=False)
        day = f"<lastmod>{changed}</lastmod>" if changed else ""
        entries.append(f"<url><loc>{address}</loc>{day}</url>\n")
    return (
        '<?xml version="1.0" encoding="UTF-8"?>\n'
        '<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">\n'
        f"{''.join(entries)}</urlset>\n"
    )


def find_address(page: str, site: str) -> str:
    """The address of a page on the web: that of its folder where it is an index."""
    return f"{site}/{quote_path(page).removesuffix('index.html')}"


def _describe(edition: Edition) -> str:
    version = f"Version {edition.version}, " if edition.version else ""
    commit = f", commit {edition.short_commit}" if edition.short_commit else ""
    return f"{version}{edition.day}{commit}."
