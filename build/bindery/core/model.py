"""The nouns of bindery: frozen values, no input or output.

Lines and columns are counted from 1, as editors count them. Paths of chapters and files are
POSIX paths relative to the root, the folder that holds `chapters.yaml`.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Literal

from bindery.core.facts import Facts

if TYPE_CHECKING:
    from markdown_it.token import Token


class Severity(enum.StrEnum):
    """How much a finding weighs: an error stops a build, a warning does not."""

    ERROR = "error"
    WARNING = "warning"
    OFF = "off"


@dataclass(frozen=True, slots=True, order=True)
class Span:
    """A place in a text file, as wide as the offending text."""

    path: str
    line: int
    col: int = 1
    width: int = 1

    @classmethod
    def whole(cls, path: str) -> Span:
        """A file as such, where no line of it says more than another."""
        return cls(path, 1, 1, 0)


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is wrong, in one place. `rule` is the id listed in build/docs/rules.md."""

    span: Span
    rule: str
    message: str
    help: str = ""
    severity: Severity = Severity.ERROR


class BookError(Exception):
    """The input cannot be worked with at all. Carries the findings that say why."""

    def __init__(self, *findings: Finding) -> None:
        super().__init__("; ".join(finding.message for finding in findings))
        self.findings = findings


class ConfigError(BookError):
    """`chapters.yaml` or the command line is wrong: exit status 2."""


def refuse(place: Span | str, message: str, hint: str = "") -> ConfigError:
    """The error at a place, or about a file or an option as such."""
    span = Span.whole(place) if isinstance(place, str) else place
    return ConfigError(Finding(span, "config", message, hint))


# --- what an author wrote --------------------------------------------------------------------

LinkKind = Literal[
    "link",
    "image",
    "autolink",
    "reference",
    "html-link",
    "html-image",
    "html-source",
    "definition",
]


@dataclass(frozen=True, slots=True)
class Link:
    """A link or an image.

    `raw` is exactly what the author typed as the destination; `destination` is the same without
    angle brackets, backslashes and entities, still percent-encoded where the author did so.
    """

    raw: str
    destination: str
    span: Span
    kind: LinkKind
    text: str = ""
    """The alternative text of an image; empty for links."""
    label: str = ""
    """The label by which its definition is found, in the letters that labels are compared in;
    empty where the destination is in the link itself."""

    @property
    def is_image(self) -> bool:
        return self.kind in ("image", "html-image", "html-source")

    @property
    def is_alternative(self) -> bool:
        """Whether this is another file for an image, which browsers choose from `srcset`."""
        return self.kind == "html-source"


@dataclass(frozen=True, slots=True)
class Definition:
    """A definition that reference links read: `[label]: destination "title"`."""

    label: str
    """As it is typed."""
    raw: str
    """What the author typed as the destination, angle brackets included."""
    destination: str
    """The same without angle brackets, backslashes and entities."""
    span: Span
    """Where the label is, with its brackets."""
    destination_span: Span
    is_used: bool
    """Whether a link of the chapter reads it; of two with one label only the first is read."""
    key: str
    """The label in the letters that labels are compared in."""

    @property
    def link(self) -> Link:
        """The destination as a link, at its place in the definition."""
        return Link(self.raw, self.destination, self.destination_span, "definition")


@dataclass(frozen=True, slots=True)
class Footnote:
    """The text of a footnote: `[^label]: text`. `span` is that of the label and its brackets."""

    label: str
    span: Span
    is_used: bool


BracketShape = Literal["full", "collapsed", "shortcut", "footnote"]


@dataclass(frozen=True, slots=True)
class OpenReference:
    """Brackets that would be a link, or the mark of a footnote, if their label were defined:
    `[text][label]`, `[label][]`, `[label]`, `[^label]`."""

    shape: BracketShape
    text: str
    label: str
    span: Span
    before: str
    """The character before the brackets; empty at the start of a text."""
    after: str
    """The character behind them; empty at the end of a text."""


@dataclass(frozen=True, slots=True)
class Anchor:
    """A place that a link can lead to. `level` is 0 for an explicit `<a id>` or `<a name>`."""

    slug: str
    title: str
    level: int
    span: Span


@dataclass(frozen=True, slots=True)
class Excuse:
    """An inline comment that excuses one finding and says why."""

    rule: str
    reason: str
    span: Span
    covers: int
    """The line whose finding is excused."""


@dataclass(frozen=True, slots=True)
class Inventory:
    """What a chapter holds, so that an output can be compared with it.

    Each entry begins with the id that renderers write into the output, so that its absence can
    be seen. `None` is for what only a browser could tell: rows and code of raw HTML.
    """

    headings: tuple[tuple[str, str], ...] = ()
    """Anchor and text."""
    tables: tuple[tuple[str, int | None], ...] = ()
    """Id and number of rows, the head included."""
    figures: tuple[str, ...] = ()
    code_blocks: tuple[tuple[str, str | None], ...] = ()
    """Id and code."""


@lru_cache(maxsize=256)
def _split_lines(source: str) -> tuple[str, ...]:
    """The lines of a source; asked for often, and split once."""
    return tuple(source.split("\n"))


@dataclass(frozen=True, slots=True)
class Chapter:
    """One Markdown file of the book, parsed. It keeps its path for life."""

    path: str
    title: str
    source: str
    tokens: Sequence[Token] = field(repr=False, hash=False, compare=False, default=())
    anchors: tuple[Anchor, ...] = ()
    links: tuple[Link, ...] = ()
    definitions: tuple[Definition, ...] = ()
    footnotes: tuple[Footnote, ...] = ()
    open_references: tuple[OpenReference, ...] = ()
    excuses: tuple[Excuse, ...] = ()
    inventory: Inventory = Inventory()
    findings: tuple[Finding, ...] = ()
    """What the parser itself saw: tags that a browser would swallow, malformed excuses."""
    facts: Facts = field(repr=False, hash=False, compare=False, default_factory=Facts)
    """What has been worked out from this chapter alone."""

    @property
    def lines(self) -> Sequence[str]:
        return _split_lines(self.source)

    @property
    def unread_links(self) -> tuple[Link, ...]:
        """The destinations of definitions that no link reads: wrong ones are wrong all the same."""
        return tuple(entry.link for entry in self.definitions if not entry.is_used)


@dataclass(frozen=True, slots=True)
class Part:
    """A titled run of chapters; the part without a title is the front of the book."""

    title: str
    chapters: tuple[Chapter, ...]


@dataclass(frozen=True, slots=True)
class Book:
    """The chapters in reading order."""

    parts: tuple[Part, ...]

    @property
    def chapters(self) -> tuple[Chapter, ...]:
        return tuple(chapter for part in self.parts for chapter in part.chapters)


# --- where a link leads ----------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ToChapter:
    """A chapter, at its top or at an anchor."""

    path: str
    slug: str = ""


@dataclass(frozen=True, slots=True)
class ToFile:
    """A file or folder of the repository that is not a chapter."""

    path: str
    fragment: str = ""
    is_folder: bool = False


@dataclass(frozen=True, slots=True)
class ToWeb:
    """A URL with a scheme of its own: http, https, mailto, ..."""

    url: str


Target = ToChapter | ToFile | ToWeb


@dataclass(frozen=True, slots=True)
class NothingThere:
    """No such file. `nearest` is the path, as the author would type it, that looks most alike."""

    path: str
    nearest: str = ""


@dataclass(frozen=True, slots=True)
class NoDestination:
    """The destination leads nowhere: it is empty or prose, or an address without a host."""

    reason: str
    nearest: str = ""
    """The scheme that was meant, with its colon."""
    repair: str = ""
    """What to do where nothing is near."""


@dataclass(frozen=True, slots=True)
class NoAnchor:
    """The chapter is there and the anchor is not."""

    chapter: str
    slug: str
    nearest: str = ""
    """The anchor of the chapter that looks most alike."""
    reason: str = ""
    elsewhere: str = ""
    """The destination, as the author would type it, of a chapter that has just this anchor."""
    is_chapter: bool = True
    """False where the file is Markdown outside the book."""


@dataclass(frozen=True, slots=True)
class FolderAnchor:
    """`folder#anchor`: GitHub does not resolve it, though `folder` alone works."""

    readme: str
    written: str
    slug: str
    target: ToChapter | None


@dataclass(frozen=True, slots=True)
class WrongCase:
    """The path exists in other letters: dead on GitHub, alive on a forgiving file system."""

    actual: str
    """As the author should type it, with query and anchor."""
    target: Target
    lost_anchor: str = ""
    """The anchor that the file does not have either."""


@dataclass(frozen=True, slots=True)
class Outside:
    """The path leaves the repository, by `..` or through a symbolic link."""

    path: str
    through_link: bool = False


@dataclass(frozen=True, slots=True)
class NestedUrl:
    """A URL wrapped into a URL, most often by a careless replacement."""

    inner: str
    url: str


Failure = NothingThere | NoDestination | NoAnchor | FolderAnchor | WrongCase | Outside | NestedUrl
Resolution = Target | Failure


@dataclass(frozen=True, slots=True)
class ResolvedBook:
    """A book and where each of its links leads. Checker and renderers read the same values."""

    book: Book
    links: Mapping[Link, Resolution]

    def find_target(self, link: Link) -> Target | None:
        """Where a renderer should lead the reader: the target, or the best place a failed link
        can still lead to, or None where there is no such place."""
        match self.links[link]:
            case ToChapter() | ToFile() | ToWeb() as target:
                return target
            case FolderAnchor(target=target):
                return target
            case WrongCase(target=target):
                return target
            case NoAnchor(chapter=path, is_chapter=is_chapter):
                return ToChapter(path) if is_chapter else ToFile(path)
            case NestedUrl(url=url):
                return ToWeb(url)
            case _:
                return None
