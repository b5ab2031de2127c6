"""Addresses in each output, computed from the one path of a chapter."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Mapping
from functools import cache
from urllib.parse import quote

from bindery.book.this_edition import Edition
from bindery.core.config import Config
from bindery.core.model import Chapter, ToFile

_SAFE_IN_PATH = "/~!$&'()*+,;=:@"
_SAFE_IN_FRAGMENT = _SAFE_IN_PATH + "?%"
_ASCII = re.compile(r"[\x00-\x7f]+")
_SPACE = re.compile(r"\s")


@cache  # every page has the same menu
def quote_path(path: str) -> str:
    """A path encoded for a URL; letters of all scripts stay as they are."""
    return _ASCII.sub(lambda run: quote(run[0], safe=_SAFE_IN_PATH), path)


@cache
def quote_fragment(slug: str) -> str:
    return _ASCII.sub(lambda run: quote(run[0], safe=_SAFE_IN_FRAGMENT), slug)


def find_page(path: str, folder: str) -> str:
    """The page of a chapter in the site: `book/a/README.md` is at `a/index.html`."""
    inside = path.removeprefix(f"{folder}/") if folder else path
    stem = posixpath.splitext(inside)[0]
    name = posixpath.basename(stem)
    if name.lower() in ("readme", "index"):
        return posixpath.join(posixpath.dirname(stem), "index.html")
    return f"{stem}.html"


def relate(page: str, here: str) -> str:
    """The address of one page of the site as another one writes it."""
    parts, start = page.split("/"), here.split("/")[:-1]
    common = len(posixpath.commonprefix([parts, start]))
    return "/".join([*[".."] * (len(start) - common), *parts[common:]]) or "."


def make_prefixes(chapters: Iterable[Chapter], folder: str) -> Mapping[str, str]:
    """The prefix of the ids of each chapter in a joined book, unique and valid in XML."""
    prefixes: dict[str, str] = {}
    taken: set[str] = set()
    for chapter in chapters:
        inside = chapter.path.removeprefix(f"{folder}/") if folder else chapter.path
        stem = re.sub(r"[^\w.-]", "_", posixpath.splitext(inside)[0].replace("/", "."))
        stem = stem.removesuffix(".README") if stem != "README" else "preface"
        if not re.match(r"[^\W\d]", stem):
            stem = f"c-{stem}"
        prefix, count = stem, 1
        while prefix.lower() in taken:
            count += 1
            prefix = f"{stem}.{count}"
        taken.add(prefix.lower())
        prefixes[chapter.path] = prefix
    return prefixes


def join_id(prefix: str, slug: str) -> str:
    """The id of an anchor in a joined book."""
    return f"{prefix}--{_SPACE.sub('_', slug)}"


def find_file_url(target: ToFile, config: Config, edition: Edition) -> str | None:
    """The address of a file of the repository on the web, at the pinned ref; None if the book
    names no repository."""
    repository = config.repository
    if repository is None:
        return None
    ref = repository.ref or edition.commit or repository.branch
    kind = "tree" if target.is_folder else "blob"
    path = quote_path(target.path)
    fragment = f"#{quote_fragment(target.fragment)}" if target.fragment else ""
    return f"{repository.url}/{kind}/{quote(ref)}/{path}".rstrip("/") + fragment
