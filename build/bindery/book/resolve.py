"""Resolve links to targets.

The checker and all outputs use this module, so the links that pass the check are the links that
are written. As on GitHub, relative paths start at the chapter's folder and absolute ones at the
repository root.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Mapping
from urllib.parse import unquote

from msgspec import Struct

from bindery.core.model import (
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
    ToChapter,
    ToFile,
    ToWeb,
    WrongCase,
)
from bindery.core.repository import MARKDOWN, Tree
from bindery.core.suggestions import find_nearest
from bindery.markdown.chapter_reader import parse_chapter
from bindery.markdown.link_typing import Style, encode_name
from bindery.markdown.slugs import slugify_heading

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:")
_NESTED = re.compile(r"https?:/{1,2}", re.IGNORECASE)
_HOST = re.compile(r"(?:www\.[\w-]+|(?:[\w-]+\.)*[\w-]+\.(?:ai|com|dev|edu|gov|io|net|org))\b")
_MAILBOX = re.compile(r"[^\s/@]+@[\w-]+(?:\.[\w-]+)+")
_BROKEN_SCHEME = re.compile(r"(?P<scheme>https?)[:;]?/{1,3}(?=[\w-]+\.\w)")
_PATH_MARK = re.compile(r"[/.]")
_NO_MAILBOX = re.compile(r"mailto:[^@?]+@[\w.-]+\.\d+$", re.IGNORECASE)
_LINES_OF_FILE = re.compile(r"L\d+(C\d+)?(-L\d+(C\d+)?)?")
_ARCHIVE = re.compile(
    r"//(?:[\w-]+\.)?archive\.(?:org|ph|is|today|fo|li|md|vn)(?::\d+)?/"
    r"(?:(?:web|wayback)/)?(?:[\d*][\w.*-]*/)?",
    re.IGNORECASE,
)
"""The prefix of an archived page: the archive and the date."""
_COPY = re.compile(
    r"(?:https?:/{1,2})?(?:(?:web\.|www\.)?archive\.org(?::\d+)?/(?:web|wayback)/(?=[\w*])"
    r"|archive\.(?:ph|is|today|fo|li|md|vn)/(?=\w{4}))",
    re.IGNORECASE,
)
"""The start of such an address, with or without a scheme."""
_AS_PAGE = re.compile(r"(?:(?:^|/)index)?\.html?$", re.IGNORECASE)
"""The suffix of pages in other book tools, where the file is Markdown."""


def resolve_book(
    book: Book,
    tree: Tree,
    schemes: tuple[str, ...],
    parsers: Mapping[str, Callable[[], Chapter]] | None = None,
) -> ResolvedBook:
    """Resolve every link of every chapter, and every unused definition.

    If `book` has only some of the chapters, `parsers` has all of them in reading order; a missing
    one is parsed when a link needs its anchors.
    """
    resolver = _Resolver(book, tree, schemes, parsers or {})
    links = {
        link: resolver.resolve(link, chapter)
        for chapter in book.chapters
        for link in (*chapter.links, *chapter.unread_links)
    }
    return ResolvedBook(book, links)


class _Asked(Struct, frozen=True):
    """A link to a path, split into parts."""

    typed: str
    """The decoded path."""
    fragment: str
    tail: str
    """Query and fragment as typed."""
    here: str
    """The chapter with the link."""
    style: Style


class _Resolver:
    def __init__(
        self,
        book: Book,
        tree: Tree,
        schemes: tuple[str, ...],
        parsers: Mapping[str, Callable[[], Chapter]],
    ) -> None:
        self.tree = tree
        self.schemes = schemes
        self.parsers = parsers
        self.read = {chapter.path: chapter for chapter in book.chapters}
        self.paths = dict.fromkeys(parsers or self.read)
        """Paths of the chapters, in reading order."""
        self.slugs: dict[str, Mapping[str, None]] = {}
        self.places: dict[str, list[str]] = {}
        """All files of the repository by name."""

    def resolve(self, link: Link, chapter: Chapter) -> Resolution:
        destination = link.destination.strip()
        if not destination:
            repair = "give the path or address that it should lead to, or remove the link"
            return NoDestination("it is empty", repair=repair)
        if destination.startswith("//"):  # ebooks and local sites have no scheme to add
            destination = f"https:{destination}"
        if _SCHEME.match(destination):
            return self._resolve_url(destination)
        if link.kind == "autolink":  # www. and e-mail addresses already have their scheme
            return ToWeb(destination)
        before, hash_mark, fragment = destination.partition("#")
        path, question_mark, query = before.partition("?")
        nested = _NESTED.search(path)
        if nested:
            inner = destination[nested.start() :]
            return NestedUrl(inner, inner)
        tail = question_mark + query + hash_mark + fragment
        asked = _Asked(unquote(path), unquote(fragment), tail, chapter.path, _find_style(link))
        if not asked.typed:
            return self._resolve_anchor(chapter.path, asked)
        if not _PATH_MARK.search(asked.typed) and re.search(r"\s", asked.typed):
            repair = "put a path or an address here, and the words outside the link"
            return NoDestination("it is prose", repair=repair)
        return self._resolve_path(asked)

    def _resolve_url(self, url: str) -> Resolution:
        scheme, _, behind = url.partition(":")
        scheme = scheme.lower()
        if scheme not in self.schemes:
            nearest = find_nearest(scheme, self.schemes)
            reason = f"the scheme '{scheme}:' is not allowed in this book"
            repair = "use another link, or allow the scheme in `links: schemes` in chapters.yaml"
            return NoDestination(reason, f"{nearest}:" if nearest else "", repair)
        if scheme in ("http", "https"):
            if inner := _find_nested(behind):
                return NestedUrl(inner, url)
            rest = behind.removeprefix("//")
            if rest == behind or not rest or rest.startswith("/"):
                host = rest.lstrip("/")
                nearest = f"{scheme}://{host}" if _HOST.match(host) else ""
                repair = "write the full address, such as 'https://example.org/page'"
                return NoDestination("the address has no host", nearest, repair)
        if scheme == "mailto" and "@" not in url and "?" not in url:
            repair = "write 'mailto:' and an e-mail address"
            return NoDestination("the address has no mailbox", repair=repair)
        if _NO_MAILBOX.match(url):
            repair = "if this is not an e-mail address, such as a version, put it in a code span"
            return NoDestination("a mail host's name cannot end in a number", repair=repair)
        return ToWeb(url)

    # --- anchors ---

    def _resolve_anchor(self, path: str, asked: _Asked) -> Resolution:
        """Resolve an anchor of a chapter, or of Markdown outside the book."""
        fragment = asked.fragment
        is_chapter = path in self.paths
        slugs = self._list_slugs(path) if fragment else {}
        if not fragment or fragment in slugs:
            return ToChapter(path, fragment) if is_chapter else ToFile(path, fragment)

        def fail(nearest: str = "", reason: str = "", elsewhere: str = "") -> NoAnchor:
            return NoAnchor(path, fragment, nearest, reason, elsewhere, is_chapter)

        lowered = fragment.lower()
        alike = (slug for slug in slugs if slug.lower() == lowered)
        if other_case := lowered if lowered in slugs else next(alike, ""):
            return fail(other_case, "anchors are case-sensitive")
        slugged = slugify_heading(fragment.removeprefix("user-content-"))  # as on GitHub's pages
        nearest = slugged if slugged in slugs else find_nearest(fragment, slugs)
        if nearest == slugged:
            return fail(nearest)
        other = next((p for p in self.paths if fragment in self._list_slugs(p)), "")
        if not other:
            return fail(nearest)
        elsewhere = f"{self._write_path(other, asked)}#{fragment}"
        return fail(nearest, f"'{other}' has it", elsewhere)

    # --- paths ---

    def _resolve_path(self, asked: _Asked) -> Resolution:
        path = _join_path(asked.typed, asked.here)
        if "\0" in path:  # no file system allows it
            return NothingThere(path)
        if path == ".." or path.startswith("../"):
            return Outside(path)
        kind = self.tree.find_kind(path)
        if kind is None:
            return self._resolve_missing(path, asked)
        if self.tree.leaves_root(path):
            return Outside(path, through_link=True)
        if kind == "folder":
            return self._resolve_folder(path, asked)
        return self._resolve_file(path, asked)

    def _resolve_file(self, path: str, asked: _Asked) -> Resolution:
        is_chapter = path in self.paths
        if _LINES_OF_FILE.fullmatch(asked.fragment):
            return self._resolve_lines(path, asked.fragment)
        if is_chapter or (asked.fragment and path.lower().endswith(MARKDOWN)):
            return self._resolve_anchor(path, asked)
        return ToFile(path, asked.fragment)

    def _resolve_lines(self, path: str, fragment: str) -> Resolution:
        """Resolve lines of a file, `L3-L5`, which may have become too short."""
        try:
            count = len(self.tree.read_bytes(path).splitlines())
        except OSError:
            return ToFile(path, fragment)
        last = max(map(int, re.findall(r"L(\d+)", fragment)))
        if last <= count:
            return ToFile(path, fragment)
        reason = f"the file has only {count} lines"
        return NoAnchor(path, fragment, f"L{count}", reason, is_chapter=path in self.paths)

    def _list_slugs(self, path: str) -> Mapping[str, None]:
        if path not in self.slugs:
            if path in self.read:
                chapter = self.read[path]
            elif path in self.parsers:
                chapter = self.parsers[path]()
            else:
                chapter = parse_chapter(path, "\n".join(self.tree.read_lines(path)))
            self.slugs[path] = {anchor.slug: None for anchor in chapter.anchors}
        return self.slugs[path]

    def _resolve_folder(self, path: str, asked: _Asked) -> Resolution:
        readme = f"{path}/README.md" if path else "README.md"
        has_chapter = readme in self.paths
        fragment = asked.fragment
        if fragment:
            target: ToChapter | None = None
            if has_chapter:
                slug = fragment if fragment in self._list_slugs(readme) else ""
                target = ToChapter(readme, slug)
            written = asked.typed.rstrip("/")
            return FolderAnchor(readme, f"{written}/README.md#{fragment}", fragment, target)
        if has_chapter:
            return ToChapter(readme)
        return ToFile(path, is_folder=True)

    # --- missing files ---

    def _resolve_missing(self, path: str, asked: _Asked) -> Resolution:
        actual = self.tree.find_other_case(path)
        if actual and actual != path and self.tree.find_kind(actual):
            is_folder = self.tree.find_kind(actual) == "folder"
            resolve = self._resolve_folder if is_folder else self._resolve_file
            resolved = resolve(actual, asked)
            written = self._write_path(actual, asked)
            match resolved:
                case ToChapter() | ToFile() | ToWeb():
                    return WrongCase(written + asked.tail, resolved)
                case NoAnchor(is_chapter=True):
                    return WrongCase(written + asked.tail, ToChapter(actual), asked.fragment)
                case NoAnchor():
                    return WrongCase(written + asked.tail, ToFile(actual), asked.fragment)
                case FolderAnchor(readme=readme, target=ToChapter() as target):
                    lost = "" if target.slug else asked.fragment
                    written = self._write_path(readme, asked)
                    return WrongCase(written + asked.tail, target, lost)
                case _:
                    pass
        address = _guess_address(asked.typed)
        if address:
            return NothingThere(path, address)
        nearest = self._find_nearest_path(path, asked)
        return NothingThere(path, self._write_path(nearest, asked) + asked.tail if nearest else "")

    def _find_nearest_path(self, path: str, asked: _Asked) -> str:
        """The file that was probably meant: with slashes for backslashes, without the suffix or
        with a page's, misspelled in its folder, or of the same name elsewhere."""
        turned = _join_path(asked.typed.replace("\\", "/"), asked.here)
        page = _AS_PAGE.sub("", path)
        inside = (posixpath.join(page, name) for name in ("README.md", "index.md"))
        for guess in (turned, f"{path}.md", f"{page}.md", *inside):
            if guess != path and not guess.startswith("..") and self.tree.find_kind(guess):
                return guess
        parent, _, name = path.rpartition("/")
        there = [posixpath.join(parent, other) for other in self.tree.list_folder(parent)]
        close = find_nearest(name, [posixpath.basename(p) for p in there if self.tree.find_kind(p)])
        if close:
            nearest = posixpath.join(parent, close)
        else:
            elsewhere = self._find_by_name(name)
            nearest = find_nearest(path, elsewhere)
            # Every folder has a README, so the name alone means little.
            if not nearest and elsewhere and name != "README.md":
                nearest = elsewhere[0]
        readme = f"{nearest}/README.md"
        return readme if readme in self.paths else nearest

    def _find_by_name(self, name: str) -> list[str]:
        """All files of the repository with this name."""
        if not self.places:
            for path in self.tree.walk_files(""):
                self.places.setdefault(posixpath.basename(path), []).append(path)
        return self.places.get(name, [])

    def _write_path(self, path: str, asked: _Asked) -> str:
        """A path as the author would type it in a link."""
        if asked.typed.startswith("/"):
            written = f"/{path}"
        else:
            written = posixpath.relpath(path or ".", posixpath.dirname(asked.here) or ".")
        return "/".join(encode_name(name, asked.style) for name in written.split("/"))


def _find_style(link: Link) -> Style:
    if link.kind.startswith("html"):
        return "srcset" if link.is_alternative else "html"
    return "angle" if link.raw.startswith("<") else "bare"


def _join_path(typed: str, here: str) -> str:
    """The path from the root for a link in the chapter `here`."""
    start = "" if typed.startswith("/") else posixpath.dirname(here)
    path = posixpath.normpath(posixpath.join(start, typed.lstrip("/")))
    return "" if path == "." else path


def _find_nested(address: str) -> str:
    """An address inside another by mistake. It is fine in a query and in an archive's address, but
    not in an archive's copy of an archive."""
    if archive := _ARCHIVE.match(address):
        copy = address[archive.end() :]
        if not _COPY.match(copy):
            return ""
        return copy if _NESTED.match(copy) else f"https://{copy}"
    nested = _NESTED.search(address)
    if nested is None or "?" in address[: nested.start()] or "#" in address[: nested.start()]:
        return ""
    return address[nested.start() :]


def _guess_address(typed: str) -> str:
    """The address that was probably meant, if only its scheme is missing."""
    if _MAILBOX.fullmatch(typed):
        return f"mailto:{typed}"
    scheme = _BROKEN_SCHEME.match(typed)
    if scheme:
        return f"{scheme['scheme']}://{typed[scheme.end() :]}"
    return f"https://{typed}" if _HOST.match(typed) else ""
