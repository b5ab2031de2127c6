"""Build a site: plain files that work from a disk as well as from a server."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from importlib import resources
from pathlib import Path

from bindery.book.git_history import find_last_changes, read_refs
from bindery.book.images import list_images, read_sizes
from bindery.book.past_editions import Editions
from bindery.book.this_edition import Edition
from bindery.check.inspect import Inspection
from bindery.core.cache import Cache, recall
from bindery.core.config import Config
from bindery.core.model import ConfigError, Finding, Span
from bindery.core.repository import MADE_BY_US, RECORDS_FOLDER
from bindery.core.whole_files import make_folder, write_again
from bindery.render.addresses import find_page
from bindery.render.appendix import find_appendix
from bindery.render.author_style import read_author_style
from bindery.render.completeness import Proof, prove_site
from bindery.render.frames import Frames
from bindery.render.numbering import list_exhibits, number_chapters
from bindery.render.site import changes, chapters, front, searching, tools
from bindery.render.site import llms_and_sitemap as machines
from bindery.render.site import not_found as missing
from bindery.render.site import tool_pages as shelf
from bindery.render.site.dialect import SiteDialect, place_file
from bindery.render.site.frame import MENU, describe_frame, write_menu
from bindery.render.site.model import DOWNLOADS, FRONT, Page, Progress, Site
from bindery.render.site.texts import Texts
from bindery.render.site.tools import ToolPage


def find_clashes(config: Config) -> list[Finding]:
    """Findings for chapters that would be written to the same page."""
    seen: dict[str, str] = {}
    findings = []
    for entry in config.chapters:
        page = find_page(entry.path, config.folder).lower()
        if page in seen:
            message = f"'{entry.path}' and '{seen[page]}' would be the same page '{page}'"
            findings.append(Finding(entry.span, "config", message, "rename one of them"))
        seen.setdefault(page, entry.path)
    return findings


def refuse_foreign(out: Path) -> None:
    """Raise ConfigError if a site would replace something else: a folder is replaced only if it is
    empty or its `index.html` was made by bindery."""
    if out.is_dir():
        first = out / "index.html"
        if not any(out.iterdir()):
            return
        if first.is_file() and MADE_BY_US.search(first.read_bytes()):
            return
        message = "this folder would be replaced, but it is not a site that bindery built"
    elif out.exists():
        message = "the site would replace this file"
    else:
        return
    hint = "move it away, or give another folder with --out"
    raise ConfigError(Finding(Span.whole(str(out)), "config", message, hint))


def build_site(
    inspection: Inspection,
    edition: Edition,
    out: Path,
    progress: Progress,
    *,
    allows_losses: bool = False,
    cache: Cache | None = None,
) -> Proof:
    """Write the site to `out`, whole or not at all. Returns the proof that nothing is missing, or
    with `allows_losses` of what is; raises BookError otherwise.

    Raises ConfigError if `out` is something other than a site of bindery, or a line of the link
    memory cannot be read.
    """
    refuse_foreign(out)
    site = gather_site(inspection, edition, out, progress, cache, renders=True)
    texts = _write_texts(site, cache)
    with make_folder(out) as work:
        for name, text in texts.items():
            write_again(work / name, text.encode(), out / name)
        for name, file in list_files(site).items():
            data = file if isinstance(file, bytes) else file.read_bytes()
            write_again(work / name, data, out / name)
        proof = prove_site(inspection.resolved, site.dialect, work, site.places, cache)
        if not allows_losses:
            proof.raise_if_incomplete()
    return proof


def list_files(site: Site) -> dict[str, bytes | Path]:
    """The other files of a site by path: content to write, or a file to copy. Includes the files
    shown on the pages written so far."""
    root = site.inspection.tree.root
    assets = {
        asset.name: asset.read_bytes()
        for asset in (resources.files("bindery.render.site") / "static").iterdir()
    }
    assets["site.js"] = _write_words(site.config, assets.values()) + assets["site.js"]
    assets["site.css"] += read_author_style(site.config, site.inspection.tree, "html").encode()
    files: dict[str, bytes | Path] = {**assets}
    downloads = (Path(one.path) for one in site.downloads)
    files |= {f"{DOWNLOADS}/{path.name}": path for path in downloads}
    for path in sorted(site.dialect.used_files):
        files[place_file(path, site.config.folder)] = root / path
    for tool in site.tools:
        files[f"{tool.folder}/{tool.file}"] = tool.text
        for run in tool.runs:
            place = f"{tool.folder}/records/{run.file}.json"
            files[place] = root / RECORDS_FOLDER / f"{run.name}.json"
    return files


def _write_words(config: Config, scripts: Collection[bytes]) -> bytes:
    """The words of the scripts in the language of the book; empty for English."""
    words = config.wording.texts
    used = {english: text for english, text in words.items() if _is_said(english, scripts)}
    return f"window.bookWords = {json.dumps(used, ensure_ascii=False)};\n".encode() if used else b""


def _is_said(english: str, scripts: Iterable[bytes]) -> bool:
    quoted = f'"{english}"'.encode()
    return any(quoted in script for script in scripts)


def gather_site(
    inspection: Inspection,
    edition: Edition,
    out: Path,
    progress: Progress,
    cache: Cache | None = None,
    *,
    renders: bool = False,
) -> Site:
    """The input of the pages of a site; `out` is the folder of the site. The texts of chapters are
    rendered when they are needed, or with `renders` all of them at once, by two processes."""
    config = inspection.config
    places = {c.path: find_page(c.path, config.folder) for c in inspection.book.chapters}
    paths = [config.cover, *(path for _, path in list_images(inspection.resolved))]
    dialect = SiteDialect(config, edition, places, read_sizes(inspection.tree, paths))
    folder = tools.find_tools_folder(config, inspection.tree)
    refs = read_refs(config.root)
    texts = Texts(inspection, dialect, list_exhibits(inspection), progress, cache)
    days: Mapping[str, str] = {}
    editions: Editions | None = None
    shelf_tools: tuple[ToolPage, ...] = ()

    def gather_others() -> None:
        nonlocal days, editions, shelf_tools
        with ThreadPoolExecutor(1) as pool:  # git is slow; read the tools meanwhile
            later_days = pool.submit(_find_days, config.root, refs, cache)
            later = pool.submit(changes.gather_editions, inspection, places, refs, cache)
            shelf_tools = tools.describe_tools(inspection, folder, cache)
        days, editions = later_days.result(), later.result()

    if renders:
        texts.render(gather_others)
    else:
        gather_others()
    return Site(
        inspection,
        edition,
        dialect,
        texts,
        number_chapters(inspection),
        {
            places[chapter.path]: (which, number)
            for which, part in enumerate(inspection.book.parts)
            for number, chapter in enumerate(part.chapters)
        },
        shelf_tools,
        folder,
        days,
        tuple(front.find_downloads(out.parent, config, edition)),
        editions,
        find_appendix(inspection),
    )


def _find_days(root: Path, refs: str, cache: Cache | None) -> Mapping[str, str]:
    """The day of the last change of each file."""
    read, inputs = partial(find_last_changes, root, refs), {"the history": refs}
    return recall(cache, "days of the last changes", inputs, dict[str, str], read)


def write_text(site: Site, place: str) -> str | None:
    """One text file of a site, same as in a whole build; None if there is no such file. A page is
    rendered without the others, but what lists all of them needs all."""
    frames = Frames(site.config)
    for page in _make_pages(site, frames, only=place):
        if page.place == place:
            return _frame_page(site, page, frames)
    if place == MENU:
        return write_menu(site)
    return _write_others(site, frames, list(_make_pages(site, frames))).get(place)


def _make_pages(site: Site, frames: Frames, only: str = "") -> Iterator[Page]:
    """All pages; of the chapters, only the one with this path, if it is given."""
    yield from chapters.make_pages(site, only)
    yield from shelf.make_pages(site, frames)
    if FRONT not in site.places.values():
        yield front.make_contents(site)
    yield from changes.make_page(site)
    yield missing.make_page(site)


def _frame_page(site: Site, page: Page, frames: Frames) -> str:
    values = {**describe_frame(site, page), **page.values}
    # The text of a chapter is in the cache itself, and to read it twice takes longer than to fill.
    fills = frames.fill if "body" in values else partial(frames.fill_again, page.place)
    return fills(page.template, values)


def _write_texts(site: Site, cache: Cache | None = None) -> dict[str, str]:
    """Every text file of the site by path: pages, scripts, files for programs."""
    frames = Frames(site.config, cache)
    pages = list(_make_pages(site, frames))
    texts = {page.place: _frame_page(site, page, frames) for page in pages}
    return {**texts, **_write_others(site, frames, pages)}


def _write_others(site: Site, frames: Frames, pages: Sequence[Page]) -> dict[str, str]:
    """Every text file that is not one of the pages: redirects, scripts, files for programs."""
    moved = dict(missing.write_moved(site, frames))
    return {**moved, **shelf.write_scripts(site), **_write_machine_texts(site, frames, pages)}


def _write_machine_texts(site: Site, frames: Frames, pages: Sequence[Page]) -> Mapping[str, str]:
    """The files for programs, including the search index, by path."""
    config, edition = site.config, site.edition
    sources = {
        machines.find_markdown(text.chapter, config.folder): text.chapter.source
        for text in site.texts
        if text.chapter is not site.appendix
    }
    summaries = {text.chapter.path: text.summary for text in site.texts}
    listed = {f"{tool.folder}/{tool.file}": (tool.name, tool.question) for tool in site.tools}
    synonyms = [names for text in site.texts for names in text.synonyms]
    texts = {
        **sources,
        machines.LLMS: machines.write_llms(
            site.book, config, edition, summaries, list(sources), listed
        ),
        machines.LLMS_FULL: machines.write_llms_full(sources, config, edition),
        searching.INDEX: searching.write_index(pages, synonyms),
        MENU: write_menu(site),
    }
    if config.site:
        days = {page.place: page.changed for page in pages if page.is_listed}
        texts[machines.SITEMAP] = machines.write_sitemap(days, config.site)
        if site.editions:
            texts[changes.FEED] = changes.write_feed(site.editions, config, frames)
    return texts
