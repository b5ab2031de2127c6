"""The only reader of `chapters.yaml`. Every error has a place, and the nearest key that exists."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Any

from msgspec import Struct, field
from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError
from ruamel.yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from bindery.core.control_characters import show_controls
from bindery.core.model import (
    SAVE_AS_UTF8,
    ConfigError,
    Finding,
    Severity,
    Span,
    find_bad_byte,
    refuse,
)
from bindery.core.repository import MARKDOWN, RECORDS_TABLE
from bindery.core.suggestions import suggest
from bindery.core.wording import Wording, read_words
from bindery.core.yaml_nodes import read_nodes

FILE_NAME = "chapters.yaml"
FORMATS = ("html", "pdf", "epub")
PAPERS = ("a4", "letter")
FONTS = ("text", "headings", "code")
FRONTS = ("title", "text")
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
_TOP = "at the top, without indentation"
_EXAMPLES = {
    "a language tag": "such as en, de or pt-BR",
    "a file name": "letters, digits, . _ -",
    "a color": "such as '#7a1f5c', in quotes",
}
_LANGUAGE = re.compile(r"[A-Za-z]{2,3}(-[A-Za-z0-9]{2,8})*")
_COLOUR = re.compile(r"#[0-9A-Fa-f]{6}")
_LENGTH = re.compile(r"(\d+(?:\.\d+)?)(mm|cm|in)")
_MILLIMETRES = {"mm": 1.0, "cm": 10.0, "in": 25.4}
_FILE_STEM = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


class ChapterEntry(Struct, frozen=True):
    """A chapter as it is listed. `path` is relative to the root."""

    path: str
    span: Span
    title: str = ""


class PartEntry(Struct, frozen=True):
    title: str
    chapters: tuple[ChapterEntry, ...]


class Repository(Struct, frozen=True):
    """Where the files of the book are on the web."""

    url: str
    ref: str = ""
    """Tag or commit that links to programs point at; empty means the commit that is built."""
    branch: str = "main"
    """Where "edit this page" leads."""


class Move(Struct, frozen=True):
    """A chapter that has moved: its old path leads to its new one."""

    old: str
    new: str
    span: Span


class ToolEntry(Struct, frozen=True):
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
    """Whether it declares calculators, which the site turns into interactive pages."""


class Style(Struct, frozen=True):
    """How the author wants the outputs to look."""

    html: str = ""
    pdf: str = ""
    epub: str = ""
    """The author's style sheet of each output that has one."""
    accent: str = ""
    """A color as `#7a1f5c`."""
    logo: str = ""
    favicon: str = ""
    fonts: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """The files of each kind of font in `FONTS`."""
    margins: tuple[float, ...] = ()
    """Top, right, bottom and left of the pages of the PDF, in millimetres."""
    front: str = FRONTS[0]
    """What the first page of the site begins with."""

    @property
    def files(self) -> tuple[str, ...]:
        """All files that it names."""
        fonts = (path for paths in self.fonts.values() for path in paths)
        return (self.html, self.pdf, self.epub, self.logo, self.favicon, *fonts)


class Config(Struct, frozen=True):
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
    """The paper that the PDF is laid out for: one of `PAPERS`, or `WIDTHxHEIGHT` in millimetres."""
    style: Style = Style()
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
    interface: str = ""
    """The file of the author's words for those of the outputs."""
    wording: Wording = field(default_factory=Wording)
    """The words of the outputs that are not the author's."""

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
        hint = "start a book here with `bindery init`, or give the folder of a book with --root"
        for above in root.resolve().parents[:3]:
            if (above / FILE_NAME).is_file():
                hint = f"did you mean `--root {os.path.relpath(above)}`?"
                break
        message = f"there is no {FILE_NAME} in the folder '{root}'"
        raise refuse(shown, message, hint) from None
    except UnicodeDecodeError as error:
        raise refuse(*find_bad_byte(FILE_NAME, error), SAVE_AS_UTF8) from None
    return _Reader(root, rule_ids).read(text)


Read = Callable[[Node, str], Any]
"""What makes a value of a node; the text says what it is. Raises ConfigError where it cannot."""


class _Reader:
    """Walks the YAML nodes, which know their places, and collects what is wrong."""

    def __init__(self, root: Path, rule_ids: Iterable[str]) -> None:
        self.root = root
        self.findings: list[Finding] = []
        self.folder = ""
        self.spans: dict[str, Span] = {}
        """Where the value of each key is; of keys that may be in several places only one."""
        texts = partial(self._list, read=self._text)
        self.shapes: Mapping[str, Mapping[str, Read]] = {
            _TOP: {
                "title": self._filled,
                "subtitle": self._text,
                "description": self._text,
                "authors": texts,
                "language": partial(self._like, pattern=_LANGUAGE, kind="a language tag"),
                "interface": self._file,
                "licence": self._text,
                "version": self._text,
                "newest": self._url,
                "site": self._url,
                "cover": self._path,
                "folder": self._read_folder,
                "parts": partial(self._list, read=self._read_part),
                "not_chapters": partial(self._list, read=self._path_below),
                "moved": partial(self._entries, read=self._read_move),
                "outputs": partial(self._keys, place="below `outputs:`"),
                "style": partial(self._keys, place="below `style:`"),
                "repository": self._read_repository,
                "links": partial(self._keys, place="below `links:`"),
                "claims": partial(self._keys, place="below `claims:`"),
                "rules": partial(self._keys, place="below `rules:`"),
                "baseline": self._path,
                "words": partial(self._entries, read=lambda node, what, _: self._text(node, what)),
                "tools": partial(self._entries, read=self._read_tool),
                "maths": self._flag,
            },
            "below `outputs:`": {
                "name": partial(self._like, pattern=_FILE_STEM, kind="a file name"),
                "formats": partial(self._list, read=partial(self._choice, choices=FORMATS)),
                "paper": self._read_paper,
            },
            "below `style:`": {
                **dict.fromkeys((*FORMATS, "logo", "favicon"), self._file),
                "accent": partial(self._like, pattern=_COLOUR, kind="a color"),
                "fonts": partial(self._keys, place="below `fonts:`"),
                "margins": self._read_margins,
                "front": partial(self._choice, choices=FRONTS),
            },
            "below `fonts:`": dict.fromkeys(FONTS, self._read_fonts),
            "below `repository:`": {"url": self._url, "ref": self._text, "branch": self._text},
            "below `links:`": {"schemes": texts, "shelf_life": self._shelf_life},
            "below `claims:`": {"shelf_life": self._shelf_life},
            "below `rules:`": dict.fromkeys(
                sorted({*rule_ids, *ASKED_RULES}), partial(self._choice, choices=tuple(Severity))
            ),
            "to a part": {
                "title": self._text,
                "chapters": partial(self._list, read=self._read_chapter),
            },
            "to a chapter": {"path": self._path_below, "title": self._text},
            "to a tool, below `tools: NAME:`": {
                "path": self._file,
                "output": partial(self._choice, choices=OUTPUT_CLASSES),
                "texts": partial(self._entries, read=self._read_arguments),
                "shelf_life": self._shelf_life,
                "calculators": self._flag,
            },
        }
        """What reads each key, by where it may be."""

    def read(self, text: str) -> Config:
        node = read_nodes(FILE_NAME, text)
        if node is None:
            needed = "it needs `title`, and `parts` with the chapters"
            raise refuse(FILE_NAME, "the file is empty", needed)
        top = self._collect(self._keys, node, FILE_NAME, place=_TOP, needed=("title", "parts"))
        if top is not None:
            self._check_parts(top["parts"], top.get("moved", {}).values())
        if self.findings:
            raise ConfigError(*sorted(self.findings, key=lambda finding: finding.span))
        outputs = {key: value for key, value in top.pop("outputs", {}).items() if value}
        words = {**read_words(top.get("language", "")), **self._read_interface(top)}
        if self.findings:
            raise ConfigError(*self.findings)
        links, claims = top.pop("links", {}), top.pop("claims", {})
        return Config(
            root=self.root,
            moved=tuple(top.pop("moved", {}).values()),
            tools=tuple(top.pop("tools", {}).values()),
            severities={rule: Severity(word) for rule, word in top.pop("rules", {}).items()},
            allowed_schemes=links.get("schemes") or DEFAULT_SCHEMES,
            link_days=links.get("shelf_life", DEFAULT_LINK_DAYS),
            claim_days=claims.get("shelf_life", DEFAULT_CLAIM_DAYS),
            wording=Wording(words),
            style=Style(**top.pop("style", {})),
            cover_span=self.spans.get("cover"),
            baseline_span=self.spans.get("baseline"),
            **outputs,
            **top,
        )

    # --- places and findings ---

    def _span(self, node: Node) -> Span:
        mark, end = node.start_mark, node.end_mark
        width = end.column - mark.column if end.line == mark.line else 1
        return Span(FILE_NAME, mark.line + 1, mark.column + 1, max(width, 1))

    def _report(self, span: Span, message: str, hint: str = "") -> None:
        self.findings += refuse(span, message, hint).findings

    def _wrong(self, node: Node, message: str, hint: str = "") -> ConfigError:
        return refuse(self._span(node), message, hint)

    def _collect(self, read: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
        """What a reader makes of a node; None where it finds something wrong, which is kept."""
        try:
            return read(*arguments, **options)
        except ConfigError as error:
            self.findings += error.findings
            return None

    # --- shapes ---

    def _keys(self, node: Node, what: str, place: str, needed: Iterable[str] = ()) -> Any:
        """A mapping with the keys that may be at a place, each read by its own reader."""
        readers, values = self.shapes[place], {}
        entries = self._split_mapping(
            node, what, f"write its keys, such as {', '.join(needed or readers)}"
        )
        # Where the chapters are is known before their paths are read.
        for key in sorted(entries, key=lambda key: key != "folder"):
            key_node, value_node = entries[key]
            self.spans[key] = self._span(value_node)
            if key not in readers:
                hint = self._suggest_key(key, readers)
                self._report(self._span(key_node), f"{what} has no key '{key}'", hint)
            elif (value := self._collect(readers[key], value_node, f"'{key}'")) is not None:
                values[key] = value
        for key in (key for key in needed if key not in entries):
            self._report(self._span(node), f"{what} needs the key '{key}'")
        if not values.keys() >= set(needed):
            raise ConfigError
        return values

    def _entries(self, node: Node, what: str, read: Callable[[Node, str, str], Any]) -> Any:
        """A mapping with names of the author's choice, which the reader gets too."""
        return {
            name: self._collect(read, value, f"'{name}'", name)
            for name, (_, value) in self._split_mapping(node, what).items()
        }

    def _split_mapping(self, node: Node, what: str, hint: str = "") -> dict[str, tuple[Node, Node]]:
        if not isinstance(node, MappingNode):
            raise self._wrong(node, f"{what} should be a mapping of keys to values", hint)
        entries: dict[str, tuple[Node, Node]] = {}
        for key_node, value_node in node.value:
            key = str(key_node.value)
            if key in entries:
                self._report(self._span(key_node), f"the key '{key}' appears twice")
            entries.setdefault(key, (key_node, value_node))
        return entries

    def _list(self, node: Node, what: str, read: Read) -> tuple[Any, ...]:
        if not isinstance(node, SequenceNode):
            hint = "begin each entry with a hyphen"
            raise self._wrong(node, f"{what} should be a list", hint)
        return tuple(self._collect(read, item, f"an entry of {what}") for item in node.value)

    def _text(self, node: Node, what: str) -> str:
        if not isinstance(node, ScalarNode) or str(node.tag).endswith(":null"):
            raise self._wrong(node, f"{what} should be text")
        return show_controls(str(node.value).strip())

    def _filled(self, node: Node, what: str) -> str:
        text = self._text(node, what)
        if not text:
            raise self._wrong(node, f"{what} is empty")
        return text

    def _like(self, node: Node, what: str, pattern: re.Pattern[str], kind: str) -> str:
        text = self._text(node, what)
        if not pattern.fullmatch(text):
            raise self._wrong(node, f"'{text}' is not {kind}", _EXAMPLES[kind])
        return text

    def _choice(self, node: Node, what: str, choices: Sequence[str]) -> str:
        word = self._text(node, what)
        if word not in choices:
            hint = suggest(word, choices, f"one of: {', '.join(choices)}")
            raise self._wrong(node, f"{what} cannot be '{word}'", hint)
        return word

    def _flag(self, node: Node, what: str) -> bool:
        return self._choice(node, what, ("true", "false")) == "true"

    def _path(self, node: Node, what: str, base: str = "") -> str:
        """A path inside the root, with forward slashes."""
        raw = self._filled(node, what)
        path = PurePosixPath(base, raw)
        if raw.startswith("/") or ".." in path.parts or "\\" in raw:
            hint = "write it relative to the root, with /"
            raise self._wrong(node, f"{what} '{raw}' leaves the book", hint)
        return "" if str(path) == "." else str(path)

    def _file(self, node: Node, what: str) -> str:
        path = self._path(node, what)
        if not (self.root / path).is_file():
            raise self._wrong(node, f"there is no file '{path}'")
        return path

    def _path_below(self, node: Node, what: str) -> str:
        """A path relative to the folder of the chapters."""
        return self._path(node, what, self.folder)

    def _lengths(self, text: str) -> list[float]:
        """Lengths apart by blanks, in millimetres; none if one of them is something else."""
        matches = [_LENGTH.fullmatch(word) for word in text.split()]
        return [float(m[1]) * _MILLIMETRES[m[2]] for m in matches if m] if all(matches) else []

    def _read_paper(self, node: Node, what: str) -> str:
        text = self._text(node, what)
        sides = self._lengths(text.replace(" x ", " "))
        if len(sides) == 2 and all(90 <= side <= 600 for side in sides):
            return f"{sides[0]:g}x{sides[1]:g}"
        if text not in PAPERS:
            hint = f"{', '.join(PAPERS)}, or a width and height such as 170mm x 240mm"
            hint += ", each from 90mm to 600mm" if sides else ""
            raise self._wrong(node, f"{what} cannot be '{text}'", hint)
        return text

    def _read_margins(self, node: Node, what: str) -> tuple[float, ...]:
        text = self._text(node, what)
        sides = self._lengths(text)
        if not 1 <= len(sides) <= 4 or not all(8 <= side <= 60 for side in sides):
            hint = "one to four lengths from 8mm to 60mm as in CSS: top, right, bottom, left"
            raise self._wrong(node, f"{what} cannot be '{text}'", hint)
        top, *others = sides
        right = others[0] if others else top
        return (top, right, *(others[1:2] or [top]), *(others[2:] or [right]))

    def _read_fonts(self, node: Node, what: str) -> tuple[str, ...]:
        if isinstance(node, ScalarNode):
            return (self._read_font(node, what),)
        return self._list(node, what, self._read_font)

    def _read_font(self, node: Node, what: str) -> str:
        path = self._file(node, what)
        if not path.lower().endswith((".ttf", ".otf", ".woff2")):
            raise self._wrong(
                node, f"'{path}' is not a font", "its name ends in .ttf, .otf or .woff2"
            )
        return path

    def _url(self, node: Node, what: str) -> str:
        url = self._text(node, what)
        if not re.match(r"https?://[^\s/]+", url):
            raise self._wrong(node, f"{what} should be a web address", "it begins with https://")
        return url.rstrip("/")

    def _shelf_life(self, node: Node, what: str) -> int:
        text = self._text(node, what)
        number, _, unit = text.partition(" ")
        is_number = re.fullmatch(r"[1-9][0-9]{0,4}", number) is not None
        days = round(int(number) * _DAYS.get(unit or "days", 0)) if is_number else 0
        if not 1 <= days <= _CENTURY:
            hint = "such as 90 days, 18 months or 2 years"
            raise self._wrong(node, f"{what} cannot be '{text}'", hint)
        return days

    # --- the keys of chapters.yaml ---

    def _read_folder(self, node: Node, what: str) -> str:
        self.folder = self._path(node, what)
        return self.folder

    def _read_part(self, node: Node, _what: str) -> PartEntry:
        part = self._keys(node, "a part", "to a part", ("chapters",))
        return PartEntry(part.get("title", ""), part["chapters"])

    def _read_chapter(self, node: Node, _what: str) -> ChapterEntry:
        chapter, path_node = {}, node
        if isinstance(node, MappingNode):
            chapter = self._keys(node, "a chapter", "to a chapter", ("path",))
            path_node = next(value for key, value in node.value if key.value == "path")
        path = self._path_below(path_node, "the chapter")
        if not path.endswith(MARKDOWN):
            message = f"the chapter '{path}' is not Markdown"
            raise self._wrong(path_node, message, "its name ends in .md, .mdx or .qmd")
        return ChapterEntry(path, self._span(path_node), chapter.get("title", ""))

    def _check_parts(self, parts: Sequence[PartEntry], moves: Iterable[Move | None]) -> None:
        """Report what is listed twice, or has moved to where no chapter is."""
        entries = [e for part in filter(None, parts) for e in filter(None, part.chapters)]
        if not entries and not self.findings:
            message = "the book has no chapter"
            self._report(self.spans["parts"], message, "list one under 'parts'")
        lines: dict[str, int] = {}
        for entry in entries:
            if entry.path in lines:
                message = f"the chapter '{entry.path}' is listed twice"
                self._report(entry.span, message, f"first on line {lines[entry.path]}")
            lines.setdefault(entry.path, entry.span.line)
        for move in filter(None, moves):
            if move.new not in lines:
                hint = suggest(move.new, lines, "list it under 'parts', or remove this line")
                self._report(move.span, f"'{move.new}' is not a chapter of this book", hint)
            if move.old in lines:
                message = f"'{move.old}' is listed under 'moved', but is still a chapter"
                self._report(move.span, message)

    def _read_interface(self, top: dict[str, Any]) -> Mapping[str, str]:
        """The author's own words for those of the outputs."""
        path = top.get("interface", "")
        if not path:
            return {}
        import tomllib  # few books have words of their own

        text = (self.root / path).read_text(encoding="utf-8-sig", errors="replace")
        try:
            words = tomllib.loads(text)
        except tomllib.TOMLDecodeError as error:
            line = re.search(r"at line (\d+)", str(error))
            span = Span(path, int(line[1]) if line else 1)
            raise refuse(span, f"this is not TOML: {error}", 'write "Search" = "Suche"') from None
        known = read_words("de")
        for english, own in words.items():
            line = text.count("\n", 0, max(text.find(english), 0)) + 1
            if english not in known:
                hint = suggest(english, known, "copy one of bindery/core/words")
                self._report(Span(path, line), f"the outputs do not say '{english}'", hint)
            elif not isinstance(own, str) or set("<&>") & set(own):
                self._report(Span(path, line), f"'{english}' needs a text without <, > and &")
            elif (names := sorted(re.findall(r"{\w*}", english))) != sorted(
                re.findall(r"{\w*}", own)
            ):
                self._report(
                    Span(path, line), f"'{english}' needs {', '.join(names) or 'no braces'}"
                )
        return words

    def _read_repository(self, node: Node, what: str) -> Repository:
        return Repository(**self._keys(node, what, "below `repository:`", ("url",)))

    def _read_move(self, node: Node, _what: str, old: str) -> Move:
        new = self._path_below(node, "the new path")
        return Move(str(PurePosixPath(self.folder, old)), new, self._span(node))

    def _read_tool(self, node: Node, what: str, name: str) -> ToolEntry:
        place = "to a tool, below `tools: NAME:`"
        if name == RECORDS_TABLE:
            message = f"a tool cannot be called '{name}': that is the table of all records"
            raise self._wrong(node, message, "rename the tool")
        tool = {"output": "measured", **self._keys(node, f"the tool {what}", place, ("path",))}
        days = tool.pop("shelf_life", DEFAULT_SHELF_DAYS)
        return ToolEntry(name=name, span=self._span(node), shelf_days=days, **tool)

    def _read_arguments(self, node: Node, what: str, name: str) -> tuple[str, ...]:
        if not _NAME.fullmatch(name):
            hint = "use only lower-case letters, digits, _ and -"
            raise self._wrong(node, f"{what} cannot be the name of a text", hint)
        return self._list(node, what, self._text)

    def _suggest_key(self, key: str, allowed: Mapping[str, Read]) -> str:
        """What to do about a key that is not allowed where it is."""
        places = [place for place, keys in self.shapes.items() if key in keys]
        if places:
            return f"'{key}' belongs {' or '.join(places)}"
        return suggest(key, allowed, f"keys: {', '.join(allowed)}")


def write_scalar(value: str) -> str:
    """A text as YAML reads it back: bare where that is safe, else in quotes."""
    yaml = YAML(typ="safe", pure=True)
    try:
        kept = yaml.load(f"[{value}]") == [value]
        kept = kept and yaml.load(f"{value}: {value}") == {value: value}
    except (YAMLError, ValueError):
        kept = False
    return value if kept else quote_scalar(value)


def quote_scalar(value: str) -> str:
    """A text in single quotes, as YAML reads it."""
    return "'" + value.replace("'", "''") + "'"
