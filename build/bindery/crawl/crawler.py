"""linkchecker with a page cache: `python -m bindery.crawl.crawler` takes linkchecker's arguments.

linkchecker parses a page again for each anchor that a link leads to, which takes a minute in a book
of 50 chapters. This caches the parsed page and its links. A test compares the log with that of
plain linkchecker.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

from linkcheck.command.linkchecker import linkchecker
from linkcheck.htmlutil import htmlsoup, linkparse


def remember_pages() -> None:
    """Make linkchecker cache parsed pages."""
    parse, search = htmlsoup.make_soup, linkparse.find_links
    known: dict[tuple[int, int], tuple[object, list[tuple[str, dict[str, Any]]]]] = {}

    def find_links(page: object, callback: Callable[..., None], tags: Mapping[str, object]) -> None:
        key = id(page), id(tags)
        if key not in known:
            found: list[tuple[str, dict[str, Any]]] = []
            search(page, lambda address, **place: found.append((address, place)), tags)
            # A cached page keeps its id unique.
            known[key] = page, found
        for address, place in known[key][1]:
            callback(address, **place)

    htmlsoup.make_soup = cache(parse)
    linkparse.find_links = find_links


if __name__ == "__main__":
    remember_pages()
    linkchecker()
