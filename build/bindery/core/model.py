"""The data model of bindery: frozen values, no I/O.

Lines and columns count from 1, as in editors. Paths of chapters and files are POSIX paths relative
to the root, the folder of `chapters.yaml`.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Literal

from msgspec import Struct, field

from bindery.core.facts import Facts

if TYPE_CHECKING:
    from markdown_it.token import Token


class Severity(enum.StrEnum):
    """The weight of a finding: errors stop a build, warnings do not."""

    ERROR = "error"
    WARNING = "warning"
    OFF = "off"


class Span(Struct, frozen=True, order=True):
    """A position in a text file, and the width of the marked text."""

    path: str
    line: int
    col: int = 1
    width: int = 1

    @classmethod
    def whole(cls, path: str) -> Span:
        """A whole file, for findings without a line."""
        return cls(path, 1, 1, 0)


class Finding(Struct, frozen=True):
    """A problem at one position. `rule` is an id from build/docs/rules.md."""

    span: Span
    rule: str
    message: str
    help: str = ""
    severity: Severity = Severity.ERROR


class BookError(Exception):
    """The input is unusable. Carries findings that explain why."""

    def __init__(self, *findings: Finding) -> None:
        super().__init__("; ".join(finding.message for finding in findings))
        self.findings = findings


class ConfigError(BookError):
    """An error in `chapters.yaml` or on the command line: exit status 2."""


def refuse(place: Span | str, message: str, hint: str = "") -> ConfigError:
    """An error at a position, or about a whole file or option."""
    span = Span.whole(place) if isinstance(place, str) else place
    return ConfigError(Finding(span, "config", message, hint))


SAVE_AS_UTF8 = "save the file as UTF-8 text"


def find_bad_byte(path: str, error: UnicodeDecodeError) -> tuple[Span, str]:
    """Where a file is not UTF-8, and what is there."""
    before = error.object[: error.start]
    line = before.count(b"\n") + 1
    col = len(before[before.rfind(b"\n") + 1 :].decode("utf-8", "replace")) + 1
    return Span(path, line, col), f"this is not UTF-8: byte 0x{error.object[error.start]:02x}"


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


class Link(Struct, frozen=True):
    """A link or an image.

    `raw` is exactly what the author typed as the destination; `destination` is the same without
    angle brackets, backslashes and entities, still percent-encoded where the author did so.
    """

    raw: str
    destination: str
    span: Span
    kind: LinkKind
    text: str = ""
    """The alt text of an image; empty for links."""
    label: str = ""
    """The normalized label of its definition; empty if the link contains its destination."""

    @property
    def is_image(self) -> bool:
        return self.kind in ("image", "html-image", "html-source")

    @property
    def is_alternative(self) -> bool:
        """Whether this is another file for an image, from `srcset`."""
        return self.kind == "html-source"


class Definition(Struct, frozen=True):
    """A link definition: `[label]: destination "title"`."""

    label: str
    """As typed."""
    raw: str
    """The destination as typed, including angle brackets."""
    destination: str
    """The destination without angle brackets, backslashes and entities."""
    span: Span
    """The position of the label and its brackets."""
    destination_span: Span
    is_used: bool
    """Whether a link in the chapter uses it; of several with one label only the first counts."""
    key: str
    """The normalized label."""

    @property
    def link(self) -> Link:
        """The destination as a link, at its place in the definition."""
        return Link(self.raw, self.destination, self.destination_span, "definition")


class Footnote(Struct, frozen=True):
    """A footnote: `[^label]: text`. `span` is that of the label with its brackets."""

    label: str
    span: Span
    is_used: bool


BracketShape = Literal["full", "collapsed", "shortcut", "footnote"]


class OpenReference(Struct, frozen=True):
    """Brackets that would be a link or a footnote reference if their label were defined:
    `[text][label]`, `[label][]`, `[label]`, `[^label]`."""

    shape: BracketShape
    text: str
    label: str
    span: Span
    before: str
    """The character before the brackets; empty at the start of a text."""
    after: str
    """The character after them; empty at the end of a text."""


class Anchor(Struct, frozen=True):
    """A link target. `level` is 0 for an explicit `<a id>` or `<a name>`."""

    slug: str
    title: str
    level: int
    span: Span


class Excuse(Struct, frozen=True):
    """An inline comment that excuses a finding and gives the reason."""

    rule: str
    reason: str
    span: Span
    covers: int
    """The line whose finding is excused."""


class Inventory(Struct, frozen=True):
    """The contents of a chapter, to compare with an output.

    Each entry starts with the id that renderers write into the output, so that missing ones are
    noticed. `None` marks what only a browser could count: rows and code of raw HTML.
    """

    headings: tuple[tuple[str, str], ...] = ()
    """Anchor and text."""
    tables: tuple[tuple[str, int | None], ...] = ()
    """Id and number of rows, including the head."""
    figures: tuple[str, ...] = ()
    code_blocks: tuple[tuple[str, str | None], ...] = ()
    """Id and code."""


@lru_cache(maxsize=256)
def _split_lines(source: str) -> tuple[str, ...]:
    """The lines of a source; cached because they are often needed."""
    return tuple(source.split("\n"))


class Chapter(Struct, frozen=True, eq=False):
    """A parsed Markdown file of the book. It never changes its path."""

    path: str
    title: str
    source: str
    tokens: Sequence[Token] = ()
    anchors: tuple[Anchor, ...] = ()
    links: tuple[Link, ...] = ()
    definitions: tuple[Definition, ...] = ()
    footnotes: tuple[Footnote, ...] = ()
    open_references: tuple[OpenReference, ...] = ()
    excuses: tuple[Excuse, ...] = ()
    inventory: Inventory = Inventory()
    findings: tuple[Finding, ...] = ()
    """Findings of the parser: tags that a browser would swallow, malformed excuses."""
    facts: Facts = field(default_factory=Facts)
    """Facts about this chapter alone."""

    @property
    def lines(self) -> Sequence[str]:
        return _split_lines(self.source)

    @property
    def unread_links(self) -> tuple[Link, ...]:
        """Destinations of unused definitions, which are checked too."""
        return tuple(entry.link for entry in self.definitions if not entry.is_used)


class Part(Struct, frozen=True):
    """A titled group of chapters; the part without a title is the front matter."""

    title: str
    chapters: tuple[Chapter, ...]


class Book(Struct, frozen=True):
    """The chapters in reading order."""

    parts: tuple[Part, ...]

    @property
    def chapters(self) -> tuple[Chapter, ...]:
        return tuple(chapter for part in self.parts for chapter in part.chapters)


# --- where a link leads ----------------------------------------------------------------------


class ToChapter(Struct, frozen=True):
    """A chapter, or an anchor in it."""

    path: str
    slug: str = ""


class ToFile(Struct, frozen=True):
    """A file or folder of the repository that is not a chapter."""

    path: str
    fragment: str = ""
    is_folder: bool = False


class ToWeb(Struct, frozen=True):
    """A URL with a scheme: http, https, mailto, ..."""

    url: str


Target = ToChapter | ToFile | ToWeb


class NothingThere(Struct, frozen=True):
    """No such file. `nearest` is the most similar path, as the author would type it."""

    path: str
    nearest: str = ""


class NoDestination(Struct, frozen=True):
    """The destination is empty, prose, or an address without a host."""

    reason: str
    nearest: str = ""
    """The scheme that was probably meant, with its colon."""
    repair: str = ""
    """What to do if nothing is similar."""


class NoAnchor(Struct, frozen=True):
    """The chapter exists, but the anchor does not."""

    chapter: str
    slug: str
    nearest: str = ""
    """The most similar anchor of the chapter."""
    reason: str = ""
    elsewhere: str = ""
    """The destination, as the author would type it, of a chapter that has this anchor."""
    is_chapter: bool = True
    """False if the file is Markdown outside the book."""


class FolderAnchor(Struct, frozen=True):
    """`folder#anchor`: GitHub ignores the anchor, though `folder` alone works."""

    readme: str
    written: str
    slug: str
    target: ToChapter | None


class WrongCase(Struct, frozen=True):
    """The path differs in case: dead on GitHub, alive on a case-insensitive file system."""

    actual: str
    """As the author should type it, with query and anchor."""
    target: Target
    lost_anchor: str = ""
    """The anchor, if the file does not have it either."""


class Outside(Struct, frozen=True):
    """The path leaves the repository through `..` or a symbolic link."""

    path: str
    through_link: bool = False


class NestedUrl(Struct, frozen=True):
    """A URL wrapped in a URL, usually by a careless search and replace."""

    inner: str
    url: str


Failure = NothingThere | NoDestination | NoAnchor | FolderAnchor | WrongCase | Outside | NestedUrl
Resolution = Target | Failure


class ResolvedBook(Struct, frozen=True):
    """A book and its link targets. The checker and the renderers use the same values."""

    book: Book
    links: Mapping[Link, Resolution]
    drawings: Mapping[str, str] = field(default_factory=dict)
    """The file of the drawing of each diagram that has one, by the diagram's source."""

    def find_target(self, link: Link) -> Target | None:
        """The target for a renderer: the resolved one, the best substitute for a broken link, or
        None if there is none."""
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
