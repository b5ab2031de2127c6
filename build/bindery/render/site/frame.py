"""The frame around the text of a page: menu, addresses, links to edit or report errors."""

from __future__ import annotations

import json
import posixpath
from urllib.parse import urlencode

from bindery.book.this_edition import Edition
from bindery.core.config import Config
from bindery.core.model import Chapter, ToFile
from bindery.render.addresses import quote_path, relate
from bindery.render.site import changes
from bindery.render.site.dialect import place_file
from bindery.render.site.llms_and_sitemap import find_address
from bindery.render.site.model import FRONT, MenuPart, Page, PageLink, Site
from bindery.render.site.tools import find_calculator

SCRIPTS = ("site.js", "search.js")
"""Those of every page."""
MENU = "menu.js"
"""The script with the chapters of all parts, loaded when a reader opens a part."""
_NEAR = 40
"""Chapters before and after the current one in the menu of a page."""


def describe_frame(site: Site, page: Page) -> dict[str, object]:
    """The values that a page shows around its text. Those of the page itself take precedence."""
    config, here = site.config, page.place
    up = relate(FRONT, here).removesuffix(FRONT)
    card = f"{config.site}/{quote_path(place_file(config.cover, config.folder))}"
    return {
        "edition": site.edition.of_the_day,
        "language": config.language,
        "menu": _list_menu(site, here),
        "home": quote_path(f"{up}{FRONT}"),
        "root": quote_path(up),
        "logo": _link_picture(site, config.style.logo, here),
        "icon": _link_picture(site, config.style.favicon, here),
        "address": find_address(here, config.site) if config.site else "",
        "card": card if config.site and has_cover(site) else "",
        "feed": relate(changes.FEED, here) if site.editions and config.site else "",
        "changes": _link_changes(site, here),
        "title": page.title,
        "part": "",
        "scripts": (*SCRIPTS, *page.scripts),
        "summary": config.description,
        "is_front": here == FRONT,
        "sections": (),
        "number": "",
        "minutes": 0,
        "changed": "",
        "before": None,
        "after": None,
        "edit": "",
        "report": "",
        "markdown": "",
    }


def has_cover(site: Site) -> bool:
    """Whether the book has a cover that can be shown."""
    cover = site.config.cover
    return bool(cover) and site.inspection.tree.find_kind(cover) == "file"


def link_cover(site: Site, here: str) -> str:
    """The address of the cover, which is copied next to the pages; empty without one."""
    return _link_picture(site, site.config.cover, here) if has_cover(site) else ""


def _link_picture(site: Site, path: str, here: str) -> str:
    """The address of a picture, which is copied next to the pages; empty without one."""
    if not path:
        return ""
    site.dialect.write_image(ToFile(path), site.book.chapters[0])
    return quote_path(relate(place_file(path, site.config.folder), here))


def _list_menu(site: Site, here: str) -> list[MenuPart]:
    """The menu of one page: the chapters of its own part, and of the others the first. A script
    adds the rest from `menu.js`, so that a page does not grow with the book."""
    menu = []
    own, number = site.standing.get(here, (-1, 0))
    for which, part in enumerate(site.book.parts):
        is_open = which == own or not part.title
        first = max(0, number - _NEAR) if which == own else 0
        shown = part.chapters[first : first + 2 * _NEAR] if is_open else part.chapters[:1]
        links = [site.link_chapter(chapter, here) for chapter in shown]
        menu.append(MenuPart(part.title, links, is_open, len(part.chapters)))
    if site.tools:
        links = list(_list_tools(site, here))
        menu.append(
            MenuPart(
                site.config.wording("Tools"), links, is_open=any(link.is_here for link in links)
            )
        )
    return menu


def write_menu(site: Site) -> str:
    """All chapters by part, for the script of the menu: page, title and number of each."""
    menu = [
        [(quote_path(site.places[c.path]), c.title, site.numbers[c.path]) for c in part.chapters]
        for part in site.book.parts
    ]
    return f"window.bookMenu = {json.dumps(menu, ensure_ascii=False, separators=(',', ':'))};\n"


def _list_tools(site: Site, here: str) -> list[PageLink]:
    """The tools in the menu: the catalog, and the current page if it is a tool. All tools would be
    longer than the chapters."""
    catalogue, words = site.catalogue, site.config.wording
    links = [
        PageLink(quote_path(relate(catalogue, here)), words("Tools by question"), catalogue == here)
    ]
    for page in site.tools:
        if page.calculators:
            href = f"{quote_path(relate(page.place, here))}#calculators"
            links.append(PageLink(href, words("Calculators"), is_here=here == page.place))
    for page in site.tools:
        titles = {find_calculator(page, one): one.title for one in page.calculators}
        if not page.calculators:
            titles[page.place] = page.name
        if here in titles:
            own = quote_path(posixpath.basename(here))
            links.append(PageLink(own, titles[here], is_here=True))
    return links


def _link_changes(site: Site, here: str) -> PageLink | None:
    if site.editions is None:
        return None
    title = site.config.wording("What changed")
    return PageLink(relate(changes.PAGE, here), title, here == changes.PAGE)


def find_edit_url(config: Config, path: str) -> str:
    """Where to edit a file on the web; empty if the book names no repository."""
    repository = config.repository
    if repository is None:
        return ""
    return f"{repository.url}/edit/{repository.branch}/{quote_path(path)}"


def write_report_url(config: Config, edition: Edition, chapter: Chapter) -> str:
    """Where to report an error in a chapter, with its position filled in; empty if the book names
    no repository. A script on the page adds the section and the selected text."""
    repository = config.repository
    if repository is None:
        return ""
    lines = [f"Chapter: {chapter.path}"]
    if edition.version:
        lines.append(f"Version: {edition.version}")
    lines.append(f"Edition: {edition.day}{f', commit {edition.commit}' if edition.commit else ''}")
    asked = {"title": f"Error in {chapter.title!r}", "body": "\n".join(lines) + "\n\n"}
    return f"{repository.url}/issues/new?{urlencode(asked)}"
