"""Convert syntax within a line: roles, references, attributes, keys, formulas, text styles."""

from __future__ import annotations

import posixpath
import re
from collections import Counter
from collections.abc import Callable, Mapping

from msgspec import Struct, field

from bindery.evidence.excerpts import Excerpt
from bindery.markdown.prose import INSERTED, MARKED, RAISED

_CODE_ROLE = re.compile(
    r"(?:(?:py|c|cpp|js|rst):)?(?:code|file|command|program|option|envvar|literal|func|class|meth"
    r"|mod|attr|obj|data|exc)"
)
ROLE_TARGET = re.compile(r"(?P<text>.*?)\s*<(?P<target>[^<>]+)>$")
_ATTRIBUTE = re.compile(r'#(?P<id>[\w:.-]+)|(?P<key>[\w-]+)=(?:"(?P<quoted>[^"]*)"|(?P<bare>\S+))')
_INLINE = re.compile(
    r"\{(?P<role>[a-z][\w:.-]*)\}`(?P<words>[^`]+)`"
    r"|(?<![\w`:]):(?P<sphinx>[a-z][\w:]*):`(?P<named>[^`]+)`"
    r"|(?P<code>(?<!`)(?P<ticks>`+)(?!`).*?(?<!`)(?P=ticks)(?!`))"
    r"|(?<!!)\[\]\((?P<empty>[^)\s]+)\)"
    r"|(?<![\w@/\[])@(?P<cross>(?:fig|tbl|sec|eq|lst)-[\w-]+)"
    r"|(?<!\])\[(?P<span>[^\]\[]*)\]\{\.[\w .-]*\}"
    r'|(?<=[):\]])(?P<attributes>\{:?\s*(?:[.#][\w-]+\s*|[\w-]+=(?:"[^"]*"|[^\s{}]+)\s*)+\})'
    r'|(?<![\w+{])\+\+(?P<keys>(?:[a-z0-9-]+|"[^"]+")(?:\+(?:[a-z0-9-]+|"[^"]+"))*)\+\+(?!\w)'
    r"|\{/\*(?P<remark>.*?)\*/\}"
    r"|\\\\\((?P<formula>.+?)\\\\\)"
    r'|<Youtube id="(?P<video>[\w-]+)"\s*/>'
    r"|(?P<frame><iframe\s[^<>]*>\s*</iframe>)"
    r"|\$[^$\s](?:[^$\n]*[^$\s])?\$|\]\([^()\s]*\)|</?[a-z][^<>]*>|https?://[^\s)>]+"  # stay
    rf"|(?<=\w)~(?P<sub>[^~\s]+)~(?!~)|{RAISED}|{MARKED}|{INSERTED}"
)
_NOUNS = {
    **dict.fromkeys(("role", "sphinx", "empty", "cross", "video", "frame"), "reference"),
    **dict.fromkeys(("span", "attributes"), "attribute list"),
    **dict.fromkeys(("sub", "sup", "mark", "ins"), "text style"),
    "keys": "key",
    "remark": "comment",
    "formula": "formula",
}
"""How the summary counts each group of the pattern."""


class Places(Struct, frozen=True):
    """The targets of references: labels, chapters and files."""

    labels: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    """The chapter of each label, and the title there."""
    titles: Mapping[str, str] = field(default_factory=dict)
    """The title of each chapter, by its path."""
    folder: str = ""
    """The folder that paths with a leading slash start from."""
    figure: str = "Figure"
    """The word that captions and references begin with, in the language of the book."""
    find_excerpt: Callable[[str], Excerpt] = lambda _: Excerpt(fault="there are no files")
    """Reads a file or a part of it."""

    def find_chapter(self, target: str, here: str) -> str:
        """The chapter that a reference without a suffix names; empty if there is none."""
        start = self.folder if target.startswith("/") else posixpath.dirname(here)
        path = posixpath.normpath(posixpath.join(start, target.lstrip("/")))
        choices = (path, f"{path}.md", f"{path}/README.md", f"{path}/index.md")
        return next((choice for choice in choices if choice in self.titles), "")


class InlineConverter:
    """Converts the lines of a chapter and counts what it rewrites."""

    def __init__(self, path: str, places: Places, counts: Counter[str]) -> None:
        self.path = path
        self.places = places
        self.counts = counts

    def convert(self, line: str) -> str:
        return _INLINE.sub(self._replace, line)

    def _replace(self, match: re.Match[str]) -> str:
        kind = next((key for key in _NOUNS if match[key]), "")
        role = match["role"] or match["sphinx"]
        written = self._write(kind, match)
        if written is None:
            return match[0]
        self.counts["formula" if role == "math" else _NOUNS[kind]] += 1
        return written

    def _write(self, kind: str, match: re.Match[str]) -> str | None:
        match kind:
            case "role":
                return self._write_role(match["role"], match["words"])
            case "sphinx":
                return self._write_role(match["sphinx"], match["named"])
            case "empty" | "cross":
                return self.write_reference(match[kind].removeprefix("#"), "")
            case "span":
                return match["span"]
            case "attributes":
                return ""
            case "keys":
                names = re.findall(r'"([^"]+)"|([a-z0-9-]+)', match["keys"])
                names = [quoted or name.replace("-", " ").title() for quoted, name in names]
                return "+".join(f"<kbd>{name}</kbd>" for name in names)
            case "remark":
                return f"<!--{match['remark']}-->"
            case "formula":
                return f"${match['formula'].strip()}$"
            case "frame":
                attributes = read_attributes(match["frame"])
                address = attributes.get("src")
                return f"[{attributes.get('title') or address}]({address})" if address else None
            case "sub" | "sup" | "mark" | "ins":
                return f"<{kind}>{match[kind]}</{kind}>"
            case "video":
                return f"[Video](https://www.youtube.com/watch?v={match['video']})"
        return None

    def _write_role(self, name: str, words: str) -> str | None:
        titled = ROLE_TARGET.match(words)
        text, target = (titled["text"], titled["target"]) if titled else ("", words)
        match name:
            case "doc" | "ref" | "numref" if "%s" not in text:
                return self.write_reference(target, text)
            case "download":
                return f"[{text or posixpath.basename(target)}]({target})"
            case "math":
                return f"${words}$"
            case "kbd" | "sub" | "sup":
                return f"<{name}>{words}</{name}>"
            case "guilabel" | "menuselection":
                return f"**{words.replace('-->', '→')}**"
            case "term" | "abbr":
                return text or words
            case _ if _CODE_ROLE.fullmatch(name):
                return f"`{text or target.removeprefix('~').removeprefix('!')}`"
        return None

    def write_reference(self, target: str, text: str) -> str | None:
        """A link to a label or a chapter, by default with its title as text; None if the book has
        no such target."""
        here = posixpath.dirname(self.path) or "."
        path, hash_mark, anchor = target.partition("#")
        if target in self.places.labels:
            chapter, title = self.places.labels[target]
            start = "" if chapter == self.path else posixpath.relpath(chapter, here)
            return f"[{text or title or target}]({start}#{target})"
        if chapter := self.places.find_chapter(path, self.path):
            title = self.places.titles[chapter]
            if anchor:
                title = self.places.labels.get(anchor, ("", title))[1]
            return f"[{text or title}]({posixpath.relpath(chapter, here)}{hash_mark}{anchor})"
        return None


def read_attributes(text: str) -> dict[str, str]:
    """The id and the named attributes in `#id .class key=value`."""
    found = {}
    for match in _ATTRIBUTE.finditer(text):
        found[match["key"] or "id"] = match["id"] or match["quoted"] or match["bare"] or ""
    return found
