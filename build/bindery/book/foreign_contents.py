"""Read the list of chapters of other tools: parts, chapters, their order and titles."""

from __future__ import annotations

import posixpath
import re
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from msgspec import Struct, field
from ruamel.yaml.nodes import MappingNode, Node, SequenceNode

from bindery.core.model import SAVE_AS_UTF8, find_bad_byte, refuse
from bindery.core.repository import MARKDOWN, Tree
from bindery.core.yaml_nodes import read_nodes


class Contents(Struct):
    """A book's contents; paths are relative to the root of the tree."""

    source: str
    """The file with the list, for messages; empty without one."""
    folder: str = ""
    """The folder of the chapters."""
    title: str = ""
    about: dict[str, Any] = field(default_factory=dict)
    """Other values for chapters.yaml, by key; `repository` is an address."""
    parts: list[tuple[str, list[tuple[str, str]]]] = field(default_factory=list)
    """Title of each part, and path and title of its chapters; empty titles are unknown."""
    missing: list[str] = field(default_factory=list)
    """Entries that are not Markdown files in the book."""

    def begin_part(self, title: str) -> None:
        self.parts.append((title, []))

    def add(self, tree: Tree, name: str, title: str = "") -> str:
        """Add a chapter, given with or without suffix, to the last part; its path if it is new."""
        known = {path for _, chapters in self.parts for path, _ in chapters}
        bare = posixpath.normpath(posixpath.join(self.folder, name.partition("#")[0]))
        stem, ending = posixpath.splitext(bare)
        choices = [bare, *(f"{bare}{other}" for other in MARKDOWN)]
        if ending in MARKDOWN:  # `import --convert` has changed the suffix
            choices.append(f"{stem}.md")
        path = next((p for p in choices if tree.find_kind(p) == "file"), "")
        if not path.endswith(MARKDOWN):
            self.missing.append(name)
        elif path not in known:
            if not self.parts:
                self.begin_part("")
            self.parts[-1][1].append((path, title))
            return path
        return ""

    def describe(self, settings: Mapping[str, Any], **keys: str) -> None:
        """Copy settings for chapters.yaml; `keys` has their names in the settings."""
        for ours, theirs in keys.items():
            value: Any = settings
            for key in theirs.split("."):
                value = value.get(key) if isinstance(value, Mapping) else None
            if ours == "authors":
                entries = value if isinstance(value, list) else [value]
                value = [one.get("name") if isinstance(one, Mapping) else one for one in entries]
                value = [" ".join(str(name).split()) for name in value if name]
            elif ours in ("site", "repository"):
                value = str(value).partition("/tree/")[0]
                value = value if value.startswith(("https://", "http://")) else ""
            if value:
                self.about[ours] = value if ours == "authors" else " ".join(str(value).split())


def find_contents(tree: Tree, folder: str = "") -> Contents:
    """The contents from the first list of chapters that exists, or else the Markdown files below
    the folder. Raises ConfigError if the list cannot be read."""
    for name, read in _READERS:
        if tree.find_kind(name) == "file":
            contents = Contents(name, posixpath.dirname(name))
            read(tree, contents)
            contents.parts = [part for part in contents.parts if part[1]]
            if contents.parts or not name.endswith(_MAY_LIST_NOTHING):
                return contents
    contents = Contents("", folder)
    paths = (posixpath.relpath(path, folder or ".") for path in tree.walk_files(folder))
    for path in sorted(paths, key=_sort_path):
        top = path.split("/")[0] if "/" in path else ""
        if not contents.parts or contents.parts[-1][0] != top:
            contents.begin_part(top)
        if path.endswith(MARKDOWN) and path != "SKILL.md":  # for agents, not a chapter
            contents.add(tree, path)
    contents.parts = [(name_part(top), chapters) for top, chapters in contents.parts if chapters]
    return contents


def name_part(folder: str) -> str:
    """`Model parallelism` for `model-parallelism`."""
    words = re.sub(r"[-_]+", " ", folder).strip()
    return words[:1].upper() + words[1:]


def _sort_path(path: str) -> list[tuple[bool, bool, str]]:
    """Sort files before folders, and READMEs before other files."""
    *folders, name = path.split("/")
    is_first = name.lower() in ("readme.md", "index.md")
    return [*((True, True, folder) for folder in folders), (False, not is_first, name)]


# --- mdBook ---

_SUMMARY_LINK = re.compile(r"^\s*(?:[-*] )?\[([^\]]*)\]\(<?([^)>]*)>?\)")


def _read_summary(tree: Tree, contents: Contents) -> None:
    base = contents.folder.removesuffix("src").rstrip("/")
    book = posixpath.join(base, "book.toml")
    if tree.find_kind(book) == "file":
        try:
            settings = tomllib.loads(tree.read_bytes(book).decode("utf-8", "replace"))
        except tomllib.TOMLDecodeError as error:
            raise refuse(book, f"it cannot be read: {error}") from None
        contents.title = settings.get("book", {}).get("title", "")
        contents.describe(
            settings, authors="book.authors", description="book.description",
            language="book.language", repository="output.html.git-repository-url",
        )  # fmt: skip
    is_numbered = False
    for line in tree.read_bytes(contents.source).decode("utf-8", "replace").splitlines():
        is_item = line.lstrip().startswith(("- ", "* "))
        if is_numbered and line.startswith(("[", "---")):  # the rest belongs to no part
            contents.begin_part("")
        is_numbered = is_item or (is_numbered and not line.strip())
        if line.startswith("# ") and line[2:].strip().lower() not in ("summary", "contents"):
            contents.begin_part(line[2:].strip())
        elif (link := _SUMMARY_LINK.match(line)) and link[2]:
            contents.add(tree, link[2], link[1])
        elif link:
            contents.missing.append(f"{link[1]} (a draft)")


# --- files of YAML ---


def _read_yaml(tree: Tree, name: str) -> Any:
    """A YAML file as plain values; tags such as `!!python/name:...` are ignored."""

    def read(node: Node | None) -> Any:
        if isinstance(node, MappingNode):
            return {str(key.value): read(value) for key, value in node.value}
        if isinstance(node, SequenceNode):
            return [read(item) for item in node.value]
        return node.value if node else ""

    try:
        return read(read_nodes(name, tree.read_bytes(name).decode()))
    except UnicodeDecodeError as error:
        raise refuse(*find_bad_byte(name, error), SAVE_AS_UTF8) from None


def _read_mkdocs(tree: Tree, contents: Contents) -> None:
    settings = _read_yaml(tree, contents.source)
    contents.title = settings.get("site_name", "")
    contents.describe(
        settings, authors="site_author", description="site_description", site="site_url",
        language="theme.language", repository="repo_url",
    )  # fmt: skip
    contents.folder = posixpath.normpath(
        posixpath.join(contents.folder, settings.get("docs_dir") or "docs")
    )

    def walk(entries: Iterable[Any], depth: int) -> None:
        for entry in entries:
            ((title, value),) = entry.items() if isinstance(entry, dict) else (("", entry),)
            if isinstance(value, list):
                if depth == 0:
                    contents.begin_part(title)
                walk(value, depth + 1)
                if depth == 0:
                    contents.begin_part("")
            else:
                contents.add(tree, value, title)

    if nav := settings.get("nav"):
        walk(nav, 0)
    else:
        files = (p for p in tree.walk_files(contents.folder) if p.endswith(MARKDOWN))
        for path in sorted(files, key=_sort_path):
            contents.add(tree, posixpath.relpath(path, contents.folder))


def _read_nested(top: Callable[[Any], Any], *books: str) -> Any:
    """A reader of nested entries: `top` finds them in the file, and the keys in `books` have values
    about the book. An entry with children but no file starts a part."""

    def read(tree: Tree, contents: Contents) -> None:
        settings = _read_yaml(tree, contents.source)
        try:
            contents.describe(settings, language="lang")
            for book in (settings.get(name) or {} for name in books):
                contents.title = contents.title or book.get("title") or ""
                contents.describe(
                    book, authors="author", description="description", site="site-url",
                    repository="repo-url",
                )  # fmt: skip
                contents.describe(book, authors="authors", repository="github")
            walk(tree, contents, top(settings) or [], in_part=False)
        except (AttributeError, KeyError, TypeError) as error:
            message = "it has no" if isinstance(error, KeyError) else "its chapters cannot be read:"
            raise refuse(contents.source, f"{message} {error}") from None

    def walk(tree: Tree, contents: Contents, entries: Iterable[Any], *, in_part: bool) -> None:
        for entry in entries:
            if isinstance(entry, str):
                contents.add(tree, entry)
                continue
            file = next((entry[key] for key in ("file", "local", "root") if key in entry), "")
            if str(entry.get("href", "")).endswith(MARKDOWN):
                file = entry["href"]
            below = list(_find_below(entry))
            names = (entry.get(key) for key in ("caption", "part", "section", "title", "text"))
            name = str(next(filter(None, names), ""))
            if file:
                contents.add(tree, file, entry.get("title") or entry.get("text") or "")
            elif below and not in_part:
                contents.begin_part(name)
            elif not below:
                contents.missing.append(str(entry.get("url") or entry.get("href") or name))
            is_part = not file and not in_part
            walk(tree, contents, below, in_part=in_part or is_part)
            if is_part:
                contents.begin_part("")

    return read


def _find_below(entry: dict[str, Any]) -> Iterator[Any]:
    for key in ("parts", "chapters", "sections", "children", "contents"):
        yield from entry.get(key) or []
    if appendices := entry.get("appendices"):
        yield {"part": "Appendices", "chapters": appendices}


# --- Sphinx and d2l ---

_TOCTREE = re.compile(r"^(`{3,}|:{3,})(?:\{toctree\}|toc)[^\n]*\n(.*?)^\1", re.M | re.S)
_TOCTREE_ENTRY = re.compile(r"(?:(?P<title>[^<>\n]+?)\s*<(?P<path>[^<>\n]+)>|(?P<bare>[^<>\n]+))$")


def _read_toctree(tree: Tree, contents: Contents) -> None:
    """The toctrees in an index.md and in the chapters that they name; nothing if it has none."""

    def walk(path: str, *, is_top: bool) -> None:
        for block in _TOCTREE.finditer(tree.read_bytes(path).decode("utf-8", "replace")):
            rows = [row.strip() for row in block[2].splitlines()]
            caption = next((row for row in rows if row.startswith(":caption:")), "")
            if is_top:
                contents.begin_part(caption.removeprefix(":caption:").strip(" \"'"))
            for row in rows:
                entry = _TOCTREE_ENTRY.match(row)
                if entry is None or row.startswith((":", "---")) or row == "self":
                    continue
                name = posixpath.join(posixpath.dirname(path), entry["path"] or entry["bare"])
                below = posixpath.relpath(name, contents.folder or ".")
                if added := contents.add(tree, below, entry["title"] or ""):
                    walk(added, is_top=False)

    if _TOCTREE.search(tree.read_bytes(contents.source).decode("utf-8", "replace")):
        contents.add(tree, posixpath.basename(contents.source))
        walk(contents.source, is_top=True)


_read_toc = _read_nested(lambda found: found if isinstance(found, list) else [found])


def _read_jupyter(tree: Tree, contents: Contents) -> None:
    _read_toc(tree, contents)
    if tree.find_kind("_config.yml") == "file":
        settings = _read_yaml(tree, "_config.yml")
        contents.title = settings.get("title", "")
        contents.describe(settings, authors="author", repository="repository.url")


_READERS: tuple[tuple[str, Callable[[Tree, Contents], None]], ...] = (
    ("src/SUMMARY.md", _read_summary),
    ("SUMMARY.md", _read_summary),
    *((name, _read_mkdocs) for name in ("mkdocs.yml", "mkdocs.yaml", "zensical.yml")),
    ("_toc.yml", _read_jupyter),
    (
        "myst.yml",
        _read_nested(lambda found: found["project"]["toc"], "project"),
    ),
    (
        "_quarto.yml",
        _read_nested(
            lambda found: [
                entry
                for site in (found.get("book"), (found.get("website") or {}).get("sidebar"))
                for one in (site if isinstance(site, list) else [site or {}])
                for entry in _find_below(one)
            ],
            "book",
            "website",
        ),
    ),
    ("_toctree.yml", _read_nested(lambda found: found)),
    *((f"{folder}index.md", _read_toctree) for folder in ("", "docs/", "docs/source/", "source/")),
)
"""The lists of chapters of mdBook, MkDocs, Jupyter Book, MyST, Quarto, Hugging Face, Sphinx."""
_MAY_LIST_NOTHING = ("index.md", "_quarto.yml")
