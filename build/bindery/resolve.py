"""Links to targets: the one place that knows where a link leads.

The checker and all outputs read what this module says, so a link that passes the check is the
link that is written. Relative paths start at the folder of the chapter, absolute ones at the
root of the repository, as on GitHub.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping
from urllib.parse import unquote

from bindery.config import find_nearest
from bindery.load import Tree
from bindery.model import (
    Book,
    Chapter,
    FolderAnchor,
    Link,
    NestedUrl,
    NoAnchor,
    NoDestination,
    NothingThere,
    Outside,
    Resolution,
    ResolvedBook,
    Target,
    ToChapter,
    ToFile,
    ToWeb,
    WrongCase,
)
from bindery.slugs import slugify_heading

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:")
_NESTED = re.compile(r"https?:/{1,2}", re.IGNORECASE)
_LINES_OF_FILE = re.compile(r"L\d+(C\d+)?(-L\d+(C\d+)?)?")
_ARCHIVES = ("web.archive.org/", "archive.org/", "archive.ph/", "archive.is/", "archive.today/")


def resolve_book(book: Book, tree: Tree, schemes: tuple[str, ...]) -> ResolvedBook:
    """Resolve every link of every chapter."""
    resolver = _Resolver(book, tree, schemes)
    links = {
        link: resolver.resolve(link, chapter) for chapter in book.chapters for link in chapter.links
    }
    return ResolvedBook(book, links)


class _Resolver:
    def __init__(self, book: Book, tree: Tree, schemes: tuple[str, ...]) -> None:
        self.tree = tree
        self.schemes = schemes
        self.slugs: Mapping[str, Mapping[str, None]] = {
            chapter.path: {anchor.slug: None for anchor in chapter.anchors}
            for chapter in book.chapters
        }

    def resolve(self, link: Link, chapter: Chapter) -> Resolution:
        destination = link.destination.strip()
        if not destination:
            return NoDestination("it is empty")
        if _SCHEME.match(destination) or destination.startswith("//"):
            return self._resolve_url(destination)
        if link.kind == "autolink":  # www. and e-mail addresses carry their scheme already
            return ToWeb(destination)
        path, _, fragment = destination.partition("#")
        path = unquote(path.partition("?")[0])
        fragment = unquote(fragment)
        if not path:
            return self._resolve_anchor(chapter.path, fragment)
        if any(character.isspace() for character in path) and "/" not in path and "." not in path:
            return NoDestination("it is prose")
        return self._resolve_path(path, fragment, chapter.path)

    def _resolve_url(self, url: str) -> Resolution:
        scheme = url.split(":", 1)[0].lower() if not url.startswith("//") else "https"
        if scheme not in self.schemes:
            return NoDestination(f"the scheme '{scheme}:' is not allowed in this book")
        if scheme in ("http", "https"):
            rest = url.split("//", 1)[1] if "//" in url else ""
            if not rest or rest.startswith("/"):
                return NoDestination("the address names no host")
            nested = _NESTED.search(rest)
            # A query may hold an address, and archives are made of them.
            if (
                nested
                and not any(archive in rest[: nested.start()] for archive in _ARCHIVES)
                and "?" not in rest[: nested.start()]
                and "#" not in rest[: nested.start()]
            ):
                return NestedUrl(rest[nested.start() :], url)
        return ToWeb(url)

    def _resolve_anchor(self, path: str, fragment: str) -> Resolution:
        slugs = self.slugs[path]
        if not fragment or fragment in slugs:
            return ToChapter(path, fragment)
        lowered = fragment.lower()
        if lowered in slugs:
            return NoAnchor(path, fragment, lowered, "the case of letters counts")
        base = re.sub(r"-\d+$", "", fragment)
        if base != fragment and base in slugs:
            last = base
            count = 1
            while f"{base}-{count}" in slugs:
                last = f"{base}-{count}"
                count += 1
            return NoAnchor(path, fragment, last, "it lies beyond the last heading of that text")
        slugged = slugify_heading(fragment)
        nearest = slugged if slugged in slugs else find_nearest(fragment, slugs)
        return NoAnchor(path, fragment, nearest)

    def _resolve_path(self, typed: str, fragment: str, here: str) -> Resolution:
        start = "" if typed.startswith("/") else posixpath.dirname(here)
        path = posixpath.normpath(posixpath.join(start, typed.lstrip("/")))
        if path == ".." or path.startswith("../"):
            return Outside(path)
        path = "" if path == "." else path
        kind = self.tree.find_kind(path)
        if kind is None:
            return self._resolve_missing(typed, path, fragment, here)
        if self.tree.leaves_root(path):
            return Outside(path, through_link=True)
        if kind == "folder":
            return self._resolve_folder(path, fragment, typed)
        return self._resolve_file(path, fragment)

    def _resolve_file(self, path: str, fragment: str) -> Resolution:
        if path in self.slugs:
            if _LINES_OF_FILE.fullmatch(fragment):
                return ToFile(path, fragment)
            return self._resolve_anchor(path, fragment)
        return ToFile(path, fragment)

    def _resolve_folder(self, path: str, fragment: str, typed: str) -> Resolution:
        readme = f"{path}/README.md" if path else "README.md"
        has_chapter = readme in self.slugs
        if fragment:
            target: ToChapter | None = None
            if has_chapter:
                slug = fragment if fragment in self.slugs[readme] else ""
                target = ToChapter(readme, slug)
            written = typed.rstrip("/")
            return FolderAnchor(readme, f"{written}/README.md#{fragment}", fragment, target)
        if has_chapter:
            return ToChapter(readme)
        return ToFile(path, is_folder=True)

    def _resolve_missing(self, typed: str, path: str, fragment: str, here: str) -> Resolution:
        actual = self.tree.find_other_case(path)
        if actual and actual != path:
            kind = self.tree.find_kind(actual)
            resolved = (
                self._resolve_folder(actual, fragment, typed)
                if kind == "folder"
                else self._resolve_file(actual, fragment)
            )
            if isinstance(resolved, Target):
                return WrongCase(self._write_path(actual, here, typed), resolved)
        parent = posixpath.dirname(path)
        siblings = self.tree.list_folder(parent) if self.tree.find_kind(parent) == "folder" else {}
        candidates = [posixpath.join(parent, name) for name in siblings]
        name = posixpath.basename(path)
        same_name = [p for p in self.slugs if posixpath.basename(p) == name]
        # A README stands in every folder, so its name alone says little.
        nearest = find_nearest(path, same_name) if name != "README.md" else ""
        nearest = (
            nearest
            or find_nearest(path, candidates)
            or find_nearest(path, same_name)
            or find_nearest(path, self.slugs)
        )
        if f"{nearest}/README.md" in self.slugs:
            nearest = f"{nearest}/README.md"
        return NothingThere(path, self._write_path(nearest, here, typed) if nearest else "")

    def _write_path(self, path: str, here: str, typed: str) -> str:
        """A path as an author would type it in this chapter."""
        if typed.startswith("/"):
            return f"/{path}"
        return posixpath.relpath(path, posixpath.dirname(here) or ".")
