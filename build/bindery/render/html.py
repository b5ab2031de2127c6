"""The site: one page a chapter, plain files that work from a disk as well as from a server."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from bindery.config import Config
from bindery.edition import Edition
from bindery.load import Tree
from bindery.model import (
    Anchor,
    Chapter,
    ConfigError,
    Finding,
    Span,
    Target,
    ToChapter,
    ToFile,
    ToWeb,
)
from bindery.pipeline import Inspection
from bindery.render.addresses import (
    find_file_url,
    find_page,
    quote_fragment,
    quote_path,
    relate,
)
from bindery.render.appendix import find_appendix
from bindery.render.completeness import Proof, prove_site
from bindery.render.content import NOTHING_ADDED, ImageSource, find_title_slug, render_chapter
from bindery.render.output import make_folder
from bindery.render.provenance_notes import write_additions
from bindery.render.web_notes import write_titles

STYLE_SHEET = "style.css"
SCRIPT = "provenance.js"
"""Shows where a number comes from; only pages with such numbers have it."""
Progress = Callable[[str], None]

_HERE = Path(__file__).parent
_GENERATOR = re.compile(rb'<meta name="generator" content="bindery"\s*/?>')


@dataclass(frozen=True, slots=True)
class PageLink:
    """A chapter in a menu, as the page that shows the menu writes it."""

    href: str
    title: str
    is_here: bool = False


@dataclass
class SiteDialect:
    """How the site writes ids, links and images."""

    config: Config
    edition: Edition
    pages: dict[str, str]
    used_files: set[str] = field(default_factory=set)
    """Files of the repository that the pages show or offer, to be copied beside them."""

    code_columns = None
    table_rooms = None
    labels_cells = False
    scrolls = True
    offers_sources = True
    draws_maths = False

    def write_id(self, chapter: Chapter, slug: str) -> str:
        return slug

    def write_href(self, target: Target, chapter: Chapter) -> str | None:
        here = self.pages[chapter.path]
        match target:
            case ToWeb(url=url):
                return url
            case ToChapter(path=path, slug=slug):
                fragment = f"#{quote_fragment(slug)}" if slug else ""
                if path == chapter.path:
                    return fragment or f"#{quote_fragment(find_title_slug(chapter))}"
                return quote_path(relate(self.pages[path], here)) + fragment
            case ToFile(path=path, is_folder=is_folder):
                address = find_file_url(target, self.config, self.edition)
                if address is None and not is_folder:
                    return self._offer_file(path, here)
                return address

    def write_image(self, target: Target, chapter: Chapter) -> ImageSource | None:
        match target:
            case ToFile(path=path, is_folder=False):
                return ImageSource(self._offer_file(path, self.pages[chapter.path]))
            case _:
                return None

    def _offer_file(self, path: str, here: str) -> str:
        self.used_files.add(path)
        return quote_path(relate(place_file(path, self.config.folder), here))


def place_file(path: str, folder: str) -> str:
    """Where a file of the repository stands in the site."""
    inside = f"{folder}/" if folder else ""
    return path.removeprefix(inside) if path.startswith(inside) else f"_files/{path}"


def find_clashes(config: Config) -> list[Finding]:
    """Chapters that would be written to the same page."""
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
    """Raise ConfigError where a site would take the place of something else: a folder is replaced
    only if it is empty or its `index.html` says that bindery has made it."""
    if out.is_dir():
        first = out / "index.html"
        if not any(out.iterdir()):
            return
        if first.is_file() and _GENERATOR.search(first.read_bytes()):
            return
        message = "this folder would be replaced, and it is no site that bindery has built"
    elif out.exists():
        message = "the site would take the place of this file"
    else:
        return
    hint = "move it away, or give another folder with --out"
    raise ConfigError(Finding(Span.whole(str(out)), "config", message, hint))


def build_site(inspection: Inspection, edition: Edition, out: Path, progress: Progress) -> Proof:
    """Write the site to `out`, whole or not at all. Gives the proof that nothing is missing.

    Raises ConfigError where something stands there that is no site of bindery, and where a line
    of the memory of links is no answer.
    """
    refuse_foreign(out)
    config, book = inspection.config, inspection.book
    pages = {c.path: find_page(c.path, config.folder) for c in book.chapters}
    dialect = SiteDialect(config, edition, pages)
    additions = write_additions(inspection, edition, dialect, folds=True)
    web_titles = write_titles(inspection)
    environment = _make_environment()
    page_template = environment.get_template("page.html")
    written: dict[str, str] = {}
    chapters, appendix = book.chapters, find_appendix(inspection)
    for position, chapter in enumerate(chapters):
        progress(chapter.title)
        added = additions.get(chapter.path, NOTHING_ADDED)
        body = render_chapter(chapter, inspection.resolved, dialect, added, web_titles)
        here = pages[chapter.path]
        written[here] = page_template.render(
            **_describe_frame(inspection, edition, pages, here),
            title=chapter.title,
            body=Markup(body),
            sections=_list_sections(chapter),
            before=_link_page(chapters, position - 1, pages, here),
            after=_link_page(chapters, position + 1, pages, here),
            edit="" if chapter is appendix else _find_edit_url(config, chapter),
            script=quote_path(relate(SCRIPT, here)) if chapter.path in additions else "",
        )
    if "index.html" not in written:
        frame = _describe_frame(inspection, edition, pages, "index.html")
        written["index.html"] = environment.get_template("contents.html").render(**frame)
    for move in config.moved:
        old = find_page(move.old, config.folder)
        target = quote_path(relate(pages[move.new], old))
        written[old] = environment.get_template("moved.html").render(
            language=config.language, target=target, title=config.title
        )
    with make_folder(out) as work:
        for page, text in written.items():
            path = work / page
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        shutil.copyfile(_HERE / "styles" / STYLE_SHEET, work / STYLE_SHEET)
        if additions:
            shutil.copyfile(_HERE / "scripts" / SCRIPT, work / SCRIPT)
        _copy_files(inspection.tree, dialect.used_files, work, config.folder)
        proof = prove_site(inspection.resolved, dialect, work, pages)
        proof.raise_if_incomplete()
    return proof


def _make_environment() -> Environment:
    return Environment(
        loader=PackageLoader("bindery.render"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=StrictUndefined,
        keep_trailing_newline=True,
    )


def _describe_frame(
    inspection: Inspection, edition: Edition, pages: dict[str, str], here: str
) -> dict[str, object]:
    """What every page shows around its text."""
    config = inspection.config
    menu = [
        (
            part.title,
            [
                PageLink(quote_path(relate(pages[c.path], here)), c.title, pages[c.path] == here)
                for c in part.chapters
            ],
        )
        for part in inspection.book.parts
    ]
    return {
        "book": config,
        "edition": edition,
        "language": config.language,
        "menu": menu,
        "home": quote_path(relate("index.html", here)),
        "style": quote_path(relate(STYLE_SHEET, here)),
    }


def _list_sections(chapter: Chapter) -> Sequence[Anchor]:
    """The headings that the contents of a page shows: the two levels below its title."""
    return [anchor for anchor in chapter.anchors if anchor.level in (2, 3)]


def _link_page(
    chapters: Sequence[Chapter], position: int, pages: dict[str, str], here: str
) -> PageLink | None:
    if not 0 <= position < len(chapters):
        return None
    chapter = chapters[position]
    return PageLink(quote_path(relate(pages[chapter.path], here)), chapter.title)


def _find_edit_url(config: Config, chapter: Chapter) -> str:
    repository = config.repository
    if repository is None:
        return ""
    return f"{repository.url}/edit/{repository.branch}/{quote_path(chapter.path)}"


def _copy_files(tree: Tree, files: set[str], work: Path, folder: str) -> None:
    for path in sorted(files):
        target = work / place_file(path, folder)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(tree.root / path, target)
