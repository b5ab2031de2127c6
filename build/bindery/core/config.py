"""The only reader of `chapters.yaml`. Every error has a place, and the nearest key that exists."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import TypeVar

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from bindery.core.control_characters import show_controls
from bindery.core.model import ConfigError, Finding, Severity, Span, refuse
from bindery.core.suggestions import find_nearest

FILE_NAME = "chapters.yaml"
FORMATS = ("html", "pdf", "epub")
PAPERS = ("a4", "letter")
DEFAULT_SCHEMES = ("http", "https", "mailto", "ftp")
OUTPUT_CLASSES = ("exact", "shape", "measured", "text")
ASKED_RULES = ("web-anchor", "web-dead", "web-moved")
"""Rules of `bindery links --external`. `check` takes them under `rules` and in excuses, and cannot
tell whether they are of use."""
DEFAULT_SHELF_DAYS = 730
DEFAULT_LINK_DAYS = 30
DEFAULT_CLAIM_DAYS = round(18 * 365.25 / 12)
_CENTURY = 36_525
_DAYS = {"day": 1, "days": 1, "month": 30.4375, "months": 30.4375, "year": 365.25, "years": 365.25}
_NAME = re.compile(r"[a-z0-9][a-z0-9_-]*")


@dataclass(frozen=True, slots=True)
class ChapterEntry:
    """A chapter as it is listed. `path` is relative to the root."""

    path: str
    span: Span
    title: str = ""


@dataclass(frozen=True, slots=True)
class PartEntry:
    title: str
    chapters: tuple[ChapterEntry, ...]


@dataclass(frozen=True, slots=True)
class Repository:
    """Where the files of the book are on the web."""

    url: str
    ref: str = ""
    """Tag or commit that links to programs point at; empty means the commit that is built."""
    branch: str = "main"
    """Where "edit this page" leads."""


@dataclass(frozen=True, slots=True)
class Move:
    """A chapter that has moved: its old path leads to its new one."""

    old: str
    new: str
    span: Span


@dataclass(frozen=True, slots=True)
class ToolEntry:
    """A companion tool that the book runs, and how far its output can be repeated."""

    name: str
    path: str
    output: str
    span: Span
    texts: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """What it prints and the book quotes word by word: the arguments of each text, by name."""
    shelf_days: int = DEFAULT_SHELF_DAYS
    """Days after which a record of it is old."""
    calculators: bool = False
    """Whether it declares calculators, of which the site makes pages that compute."""


@dataclass(frozen=True, slots=True)
class Config:
    """`chapters.yaml`, read and checked. All paths are POSIX, relative to `root`."""

    root: Path
    title: str
    parts: tuple[PartEntry, ...]
    file: str = FILE_NAME
    subtitle: str = ""
    description: str = ""
    authors: tuple[str, ...] = ()
    language: str = "en"
    licence: str = ""
    version: str = ""
    newest: str = ""
    """Where a reader finds the newest edition."""
    site: str = ""
    """Where the site is on the web; a site without an address has no map of itself."""
    cover: str = ""
    cover_span: Span | None = None
    folder: str = ""
    """The folder of the chapters; empty means the root itself."""
    not_chapters: tuple[str, ...] = ()
    """Patterns of files below `folder` that are left out of the book on purpose."""
    moved: tuple[Move, ...] = ()
    formats: tuple[str, ...] = FORMATS
    name: str = "book"
    """File name of the ebooks, without its ending."""
    paper: str = PAPERS[0]
    """The paper that the PDF is laid out for."""
    repository: Repository | None = None
    allowed_schemes: tuple[str, ...] = DEFAULT_SCHEMES
    link_days: int = DEFAULT_LINK_DAYS
    """Days for which the answer of a web page counts."""
    claim_days: int = DEFAULT_CLAIM_DAYS
    """Days after which a dated claim is old."""
    severities: Mapping[str, Severity] = field(default_factory=dict)
    baseline: str = ""
    """The file of the findings that the book lives with for now."""
    baseline_span: Span | None = None
    words: Mapping[str, str] = field(default_factory=dict)
    """Words that the book does not use, and what to write instead."""
    tools: tuple[ToolEntry, ...] = ()
    maths: bool = False

    @property
    def chapters(self) -> tuple[ChapterEntry, ...]:
        return tuple(entry for part in self.parts for entry in part.chapters)

    @property
    def data(self) -> str:
        """The folder of the published figures."""
        return str(PurePosixPath(self.folder, "data"))

    @property
    def views(self) -> str:
        """The folder of the views."""
        return str(PurePosixPath(self.folder, "views"))

    @property
    def figures(self) -> str:
        """The folder of the plots that are drawn from views."""
        return str(PurePosixPath(self.folder, "figures"))

    @property
    def link_memory(self) -> str:
        """What is remembered of links to the web: beside the chapters."""
        return str(PurePosixPath(self.folder, "links.jsonl"))

    @property
    def identifier(self) -> str:
        """A fixed identifier of the book, the same for all its editions."""
        import uuid  # only outputs need it

        seed = self.repository.url if self.repository else f"bindery:{self.title}"
        return uuid.uuid5(uuid.NAMESPACE_URL, seed).urn


def load_config(root: Path, rule_ids: Iterable[str]) -> Config:
    """Read `chapters.yaml` in `root`.

    Raises ConfigError with one finding for each thing that is wrong.
    """
    shown = (root / FILE_NAME).as_posix()
    try:
        text = (root / FILE_NAME).read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        hint = "give the folder of a book with --root, or make one with `bindery import DIR`"
        message = f"there is no {FILE_NAME} in the folder '{root}'"
        raise refuse(shown, message, hint) from None
    except UnicodeDecodeError as error:
        line = error.object[: error.start].count(b"\n") + 1
        message = "this file is not UTF-8"
        raise refuse(Span(FILE_NAME, line), message, "save it as UTF-8 text") from None
    return _Reader(root, frozenset(rule_ids)).read(text)


T = TypeVar("T")


class _Reader:
    """Walks the YAML nodes, which know their places, and collects what is wrong."""

    def __init__(self, root: Path, rule_ids: frozenset[str]) -> None:
        self.root = root
        self.rule_ids = rule_ids
        self.findings: list[Finding] = []

    def read(self, text: str) -> Config:
        try:
            node = YAML(typ="safe", pure=True).compose(text)
        except MarkedYAMLError as error:
            mark = error.problem_mark or error.context_mark
            line, col = (mark.line + 1, mark.column + 1) if mark else (1, 1)
            problem = error.problem or "it is not YAML"
            hint = _YAML_HINTS.get(problem) or _hint_at_beginning(error)
            message = f"the YAML breaks off: {problem}"
            raise refuse(Span(FILE_NAME, line, col), message, hint) from None
        except YAMLError as error:
            raise refuse(FILE_NAME, str(error).splitlines()[0]) from None
        if node is None:
            needed = "it needs `title`, and `parts` with the chapters"
            raise refuse(FILE_NAME, "the file is empty", needed)
        config = self._read_top(node)
        if self.findings or config is None:
            raise ConfigError(*sorted(self.findings, key=lambda finding: finding.span))
        return config

    # --- places and findings ---

    def _report(self, node: Node, message: str, hint: str = "") -> None:
        self.findings.append(Finding(self._span(node), "config", message, hint))

    def _span(self, node: Node) -> Span:
        mark, end = node.start_mark, node.end_mark
        width = end.column - mark.column if end.line == mark.line else 1
        return Span(FILE_NAME, mark.line + 1, mark.column + 1, max(width, 1))

    # --- shapes ---

    def _mapping(self, node: Node, what: str, keys: Iterable[str] | None) -> dict[str, Node]:
        """The entries of a mapping; unknown and repeated keys are reported and left out."""
        if not isinstance(node, MappingNode):
            self._report(node, f"{what} should be a mapping of keys to values")
            return {}
        allowed = None if keys is None else tuple(keys)
        entries: dict[str, Node] = {}
        for key_node, value_node in node.value:
            key = str(key_node.value)
            if key in entries:
                self._report(key_node, f"the key '{key}' appears twice")
            elif allowed is not None and key not in allowed:
                self._report(key_node, f"{what} has no key '{key}'", _suggest_key(key, allowed))
            else:
                entries[key] = value_node
        return entries

    def _items(self, node: Node, what: str) -> list[Node]:
        if not isinstance(node, SequenceNode):
            self._report(node, f"{what} should be a list", "begin each entry with a hyphen")
            return []
        return list(node.value)

    def _text(self, node: Node | None, what: str, default: str = "") -> str:
        if node is None:
            return default
        if not isinstance(node, ScalarNode) or str(node.tag).endswith(":null"):
            self._report(node, f"{what} should be text")
            return default
        return show_controls(str(node.value).strip())

    def _choice(self, node: Node | None, what: str, choices: Iterable[str], default: str) -> str:
        if node is None:
            return default
        options = list(choices)
        word = self._text(node, what, default)
        if word not in options:
            nearest = find_nearest(word, options)
            hint = f"did you mean '{nearest}'?" if nearest else f"one of: {', '.join(options)}"
            self._report(node, f"{what} cannot be '{word}'", hint)
            return default
        return word

    def _flag(self, node: Node | None, what: str) -> bool:
        return self._choice(node, what, ("true", "false"), "false") == "true"

    def _list(self, node: Node | None, what: str, read: Callable[[Node], T]) -> tuple[T, ...]:
        return () if node is None else tuple(read(item) for item in self._items(node, what))

    def _path(self, node: Node, what: str, base: str = "") -> str:
        """A path inside the root, with forward slashes."""
        reported = len(self.findings)
        raw = self._text(node, what)
        if len(self.findings) > reported:
            return ""
        path = PurePosixPath(base, raw)
        if not raw:
            self._report(node, f"{what} is empty")
            return ""
        if raw.startswith("/") or ".." in path.parts or "\\" in raw:
            hint = "write it relative to the root, with /"
            self._report(node, f"{what} '{raw}' leaves the book", hint)
            return ""
        return "" if str(path) == "." else str(path)

    def _url(self, node: Node | None, what: str) -> str:
        reported = len(self.findings)
        url = self._text(node, what)
        is_text = node is not None and len(self.findings) == reported
        if node is not None and is_text and not re.match(r"https?://[^\s/]+", url):
            self._report(node, f"{what} should be a web address", "it begins with https://")
        return url.rstrip("/")

    # --- the keys of chapters.yaml ---

    def _read_top(self, node: Node) -> Config | None:
        top = self._mapping(node, FILE_NAME, _KEYS)
        if not isinstance(node, MappingNode):
            return None
        for key in ("title", "parts"):
            if key not in top:
                self._report(node, f"the key '{key}' is missing")
        folder = self._path(top["folder"], "'folder'") if "folder" in top else ""
        parts = self._list(top.get("parts"), "'parts'", lambda item: self._read_part(item, folder))
        self._check_repeats(parts)
        name, formats, paper = self._read_outputs(top.get("outputs"))
        schemes, link_days = self._read_link_policy(top.get("links"))
        cover, baseline = top.get("cover"), top.get("baseline")
        title = self._text(top.get("title"), "'title'")
        if isinstance(top.get("title"), ScalarNode) and not title:
            self._report(top["title"], "'title' is empty")
        if "parts" in top and not any(part.chapters for part in parts) and not self.findings:
            self._report(top["parts"], "the book has no chapter", "list one under 'parts'")
        return Config(
            root=self.root,
            title=title,
            subtitle=self._text(top.get("subtitle"), "'subtitle'"),
            description=self._text(top.get("description"), "'description'"),
            authors=self._list(
                top.get("authors"), "'authors'", lambda item: self._text(item, "an author")
            ),
            language=self._read_language(top.get("language")),
            licence=self._text(top.get("licence"), "'licence'"),
            version=self._text(top.get("version"), "'version'"),
            newest=self._url(top.get("newest"), "'newest'"),
            site=self._url(top.get("site"), "'site'"),
            cover=self._path(cover, "'cover'") if cover is not None else "",
            cover_span=self._span(cover) if cover is not None else None,
            folder=folder,
            parts=parts,
            not_chapters=self._list(
                top.get("not_chapters"),
                "'not_chapters'",
                lambda item: self._path(item, "the pattern", folder),
            ),
            moved=self._read_moves(top.get("moved"), folder, parts),
            name=name,
            formats=formats,
            paper=paper,
            repository=self._read_repository(top.get("repository")),
            allowed_schemes=schemes,
            link_days=link_days,
            claim_days=self._read_claims(top.get("claims")),
            severities=self._read_rules(top.get("rules")),
            baseline=self._path(baseline, "'baseline'") if baseline is not None else "",
            baseline_span=self._span(baseline) if baseline is not None else None,
            words=self._read_words(top.get("words")),
            tools=self._read_tools(top.get("tools")),
            maths=self._flag(top.get("maths"), "'maths'"),
        )

    def _read_part(self, node: Node, folder: str) -> PartEntry:
        entries = self._mapping(node, "a part", _PART_KEYS)
        if isinstance(node, MappingNode) and "chapters" not in entries:
            self._report(node, "the part lists no chapters", "add the key 'chapters'")
        return PartEntry(
            self._text(entries.get("title"), "the title of a part"),
            self._list(
                entries.get("chapters"),
                "'chapters'",
                lambda item: self._read_chapter(item, folder),
            ),
        )

    def _read_chapter(self, node: Node, folder: str) -> ChapterEntry:
        title, path_node = "", node
        if isinstance(node, MappingNode):
            entries = self._mapping(node, "a chapter", _CHAPTER_KEYS)
            title = self._text(entries.get("title"), "the title of a chapter")
            if "path" not in entries:
                self._report(node, "the chapter has no 'path'")
                return ChapterEntry("", self._span(node), title)
            path_node = entries["path"]
        path = self._path(path_node, "the chapter", folder)
        if path and not path.endswith(".md"):
            self._report(path_node, f"the chapter '{path}' is not Markdown", "its name ends in .md")
        return ChapterEntry(path, self._span(path_node), title)

    def _check_repeats(self, parts: Iterable[PartEntry]) -> None:
        seen: dict[str, int] = {}
        for entry in (entry for part in parts for entry in part.chapters):
            if entry.path and entry.path in seen:
                message = f"the chapter '{entry.path}' is listed twice"
                hint = f"first on line {seen[entry.path]}"
                self.findings.append(Finding(entry.span, "config", message, hint))
            seen.setdefault(entry.path, entry.span.line)

    def _read_language(self, node: Node | None) -> str:
        language = self._text(node, "'language'", "en")
        if node is not None and not re.fullmatch(r"[A-Za-z]{2,3}(-[A-Za-z0-9]{2,8})*", language):
            self._report(node, f"'{language}' is not a language tag", "such as en, de or pt-BR")
        return language

    def _read_outputs(self, node: Node | None) -> tuple[str, tuple[str, ...], str]:
        entries = self._mapping(node, "'outputs'", _OUTPUT_KEYS) if node else {}
        name = self._text(entries.get("name"), "'name'", "book")
        if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", name):
            self._report(entries["name"], f"'{name}' is not a file name", "letters, digits, . _ -")
        formats = self._list(
            entries.get("formats"),
            "'formats'",
            lambda item: self._choice(item, "an output", FORMATS, "html"),
        )
        paper = self._choice(entries.get("paper"), "the paper", PAPERS, PAPERS[0])
        return name, formats or FORMATS, paper

    def _read_repository(self, node: Node | None) -> Repository | None:
        if node is None:
            return None
        entries = self._mapping(node, "'repository'", _REPOSITORY_KEYS)
        if isinstance(node, MappingNode) and "url" not in entries:
            self._report(node, "'repository' has no 'url'")
        return Repository(
            self._url(entries.get("url"), "'url'"),
            self._text(entries.get("ref"), "'ref'"),
            self._text(entries.get("branch"), "'branch'", "main"),
        )

    def _read_link_policy(self, node: Node | None) -> tuple[tuple[str, ...], int]:
        entries = self._mapping(node, "'links'", _LINK_KEYS) if node else {}
        schemes = self._list(
            entries.get("schemes"), "'schemes'", lambda item: self._text(item, "a scheme")
        )
        days = self._read_shelf_life(entries.get("shelf_life"), DEFAULT_LINK_DAYS)
        return schemes or DEFAULT_SCHEMES, days

    def _read_claims(self, node: Node | None) -> int:
        entries = self._mapping(node, "'claims'", _CLAIM_KEYS) if node else {}
        return self._read_shelf_life(entries.get("shelf_life"), DEFAULT_CLAIM_DAYS)

    def _read_rules(self, node: Node | None) -> Mapping[str, Severity]:
        known = sorted({*self.rule_ids, *ASKED_RULES})
        entries = self._mapping(node, "'rules'", known) if node else {}
        return {
            rule: Severity(self._choice(value, f"the severity of '{rule}'", Severity, "error"))
            for rule, value in entries.items()
        }

    def _read_words(self, node: Node | None) -> Mapping[str, str]:
        entries = self._mapping(node, "'words'", None) if node else {}
        return {
            word: self._text(value, f"the advice for '{word}'") for word, value in entries.items()
        }

    def _read_moves(
        self, node: Node | None, folder: str, parts: Iterable[PartEntry]
    ) -> tuple[Move, ...]:
        chapters = {entry.path for part in parts for entry in part.chapters}
        moves = []
        for old, new in (self._mapping(node, "'moved'", None) if node else {}).items():
            target = self._path(new, "the new path", folder)
            source = str(PurePosixPath(folder, old))
            if target and target not in chapters:
                nearest = find_nearest(target, chapters)
                hint = f"did you mean '{nearest}'?" if nearest else "list it under 'parts'"
                self._report(new, f"'{target}' is not a chapter of this book", hint)
            if source in chapters:
                self._report(new, f"'{source}' is said to have moved and is still a chapter")
            moves.append(Move(source, target, self._span(new)))
        return tuple(moves)

    def _read_tools(self, node: Node | None) -> tuple[ToolEntry, ...]:
        tools = []
        for name, value in (self._mapping(node, "'tools'", None) if node else {}).items():
            entries = self._mapping(value, f"the tool '{name}'", _TOOL_KEYS)
            if "path" not in entries:
                if isinstance(value, MappingNode):
                    self._report(value, f"the tool '{name}' has no 'path'")
                continue
            path = self._path(entries["path"], "the path of a tool")
            if path and not (self.root / path).is_file():
                self._report(entries["path"], f"there is no file '{path}'")
            output = self._choice(
                entries.get("output"), "the output class", OUTPUT_CLASSES, "measured"
            )
            texts = self._read_texts(entries.get("texts"), name)
            days = self._read_shelf_life(entries.get("shelf_life"), DEFAULT_SHELF_DAYS)
            computes = self._flag(entries.get("calculators"), f"'calculators' of '{name}'")
            span = self._span(value)
            tools.append(ToolEntry(name, path, output, span, texts, days, computes))
        return tuple(tools)

    def _read_texts(self, node: Node | None, tool: str) -> Mapping[str, tuple[str, ...]]:
        texts = {}
        for name, value in (self._mapping(node, "'texts'", None) if node else {}).items():
            if not _NAME.fullmatch(name):
                self._report(value, f"'{name}' cannot be the name of a text of '{tool}'",
                             "small letters, digits, _ and - only")  # fmt: skip
            texts[name] = self._list(
                value, f"the text '{name}'", lambda item: self._text(item, "an argument")
            )
        return texts

    def _read_shelf_life(self, node: Node | None, default: int) -> int:
        text = self._text(node, "'shelf_life'", str(default))
        number, _, unit = text.partition(" ")
        is_number = re.fullmatch(r"[1-9][0-9]{0,4}", number) is not None
        days = round(int(number) * _DAYS.get(unit or "days", 0)) if is_number else 0
        if not 1 <= days <= _CENTURY:
            assert node is not None
            hint = "such as 90 days, 18 months or 2 years"
            self._report(node, f"'shelf_life' cannot be '{text}'", hint)
            return default
        return days


def _suggest_key(key: str, allowed: Sequence[str]) -> str:
    """What to do about a key that is not allowed where it is."""
    other = _OTHER_NAMES.get(key, "")
    if other in allowed:
        return f"did you mean '{other}'?"
    places = [place for place, keys in _PLACES.items() if key in keys and keys != allowed]
    if places:
        return f"'{key}' belongs {' or '.join(places)}"
    nearest = find_nearest(key, allowed)
    return f"did you mean '{nearest}'?" if nearest else f"keys: {', '.join(allowed)}"


_YAML_HINTS = {
    "mapping values are not allowed here": "a text that holds a colon goes between quotes",
    "found character '\\t' that cannot start any token": "indent with spaces, not with tabs",
}
_YAML_CONTEXTS = {
    "while parsing a flow sequence": "close the bracket that is opened in line {}",
    "while parsing a flow mapping": "close the brace that is opened in line {}",
    "while parsing a block mapping": "indent it like line {}, where its block begins",
    "while parsing a block collection": "indent it like line {}, where its block begins",
    "while scanning a quoted scalar": "close the quote that is opened in line {}",
}
"""What to do where the YAML breaks off inside of something, by the words for it."""
# What people know by another name, mostly from other tools.
_OTHER_NAMES = {
    "accepted": "baseline",
    "author": "authors",
    "baseurl": "site",
    "chapters": "parts",
    "files": "chapters",
    "lang": "language",
    "license": "licence",
    "nav": "parts",
    "repo": "repository",
    "toc": "parts",
}
_PART_KEYS = ("title", "chapters")
_CHAPTER_KEYS = ("path", "title")
_OUTPUT_KEYS = ("name", "formats", "paper")
_REPOSITORY_KEYS = ("url", "ref", "branch")
_LINK_KEYS = ("schemes", "shelf_life")
_CLAIM_KEYS = ("shelf_life",)
_TOOL_KEYS = ("path", "output", "texts", "shelf_life", "calculators")
_KEYS = tuple(
    """title subtitle description authors language licence version newest site cover folder parts
    not_chapters moved outputs repository links claims rules baseline words tools maths""".split()
)
_PLACES: Mapping[str, Sequence[str]] = {
    "at the top, without indentation": _KEYS,
    "below `outputs:`": _OUTPUT_KEYS,
    "below `repository:`": _REPOSITORY_KEYS,
    "below `links:`": _LINK_KEYS,
    "below `claims:`": _CLAIM_KEYS,
    "to a part": _PART_KEYS,
    "to a chapter": _CHAPTER_KEYS,
    "to a tool, below `tools: NAME:`": _TOOL_KEYS,
}
"""Where each key may be."""


def _hint_at_beginning(error: MarkedYAMLError) -> str:
    """What to do about a break inside of something that begins earlier."""
    hint = _YAML_CONTEXTS.get(error.context or "", "")
    return hint.format(error.context_mark.line + 1) if error.context_mark else ""
