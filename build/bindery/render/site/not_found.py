"""Pages for wrong addresses: the page 404, and redirects to where a chapter has moved."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import urlsplit

from bindery.render.addresses import find_page, quote_path, relate
from bindery.render.frames import Frames
from bindery.render.site.llms_and_sitemap import find_address
from bindery.render.site.model import Page, Site

MISSING = "404.html"


def make_page(site: Site) -> Page:
    """The page for wrong addresses. A server shows it at any address, so its links start at the
    root of the site."""
    values = {"address": "", "summary": "", "base": f"{urlsplit(site.config.site).path}/"}
    return Page(
        MISSING, site.config.wording("Page not found"), "site/missing.html", values, is_listed=False
    )


def write_moved(site: Site, frames: Frames) -> Iterator[tuple[str, str]]:
    """For each chapter that has moved, its old path and a page that redirects to the new one."""
    config = site.config
    for move in config.moved:
        if move.new not in site.places:  # the chapter could not be read
            continue
        old = find_page(move.old, config.folder)
        new = site.places[move.new]
        target = quote_path(relate(new, old))
        address = find_address(new, config.site) if config.site else target
        values = {
            "language": config.language,
            "target": target,
            "address": address,
            "title": config.title,
        }
        yield old, frames.fill("site/moved.html", values)
