"""Convert code blocks: titles, Quarto cells, mdBook's hidden lines, included files."""

from __future__ import annotations

import itertools
import posixpath
import re
from collections import Counter
from collections.abc import Sequence

from bindery.evidence.quotations import write_excerpt
from bindery.rewrite.converting.inline import Places, read_attributes

_CELL = re.compile(r"\{\s*(?P<language>python|r|julia|bash|sql|\.[\w+-]+)\b[^}]*\}")
_CODE = re.compile(r'(?P<language>[\w+#-]*)\s+(?:[\w-]+="[^"]*").*')
_ANNOTATION = re.compile(r"(?<=[#/*;%-] )\((\d+)\)!")
INCLUDE = re.compile(
    r"\{\{#(?P<kind>include|rustdoc_include|playground)\s+(?P<path>[^\s:}]+)"
    r"(?::(?P<name>[A-Za-z][\w-]*)|:(?P<first>\d*)(?::(?P<last>\d+))?)?(?:\s[^}]*)?\}\}\s*$"
)
_SNIPPET = re.compile(
    r'\s*-+8<-+\s+"(?P<path>[^\s:"]+)'
    r'(?::(?P<name>[A-Za-z][\w-]*)|:(?P<first>\d*):(?P<last>\d+))?"\s*$'
)


class CodeConverter:
    """Converts the code blocks of a chapter and counts what it rewrites."""

    def __init__(self, path: str, places: Places, counts: Counter[str]) -> None:
        self.path = path
        self.places = places
        self.counts = counts

    def convert(self, fence: re.Match[str], body: Sequence[str]) -> list[str] | None:
        """The block with only a language as its label, below its title; an included file becomes an
        excerpt. Drops Quarto's options and the lines that mdBook hides."""
        info, marks = fence["info"], fence["marks"]
        if marks[0] == ":":
            return None
        rest = [_ANNOTATION.sub(r"(\1)", line) for line in body]
        named = []
        if cell := _CELL.fullmatch(info) or _CODE.fullmatch(info):
            rest = list(itertools.dropwhile(lambda line: line.startswith("#|"), rest))
            attributes = read_attributes(info.strip("{}"))
            info = cell["language"].lstrip(".")
            if name := attributes.get("filename") or attributes.get("title"):
                named = [f"**{name}**" if " " in name else f"`{name}`", ""]
        elif re.match(r"rust\b", info):
            rest = [line for line in rest if not re.match(r"\s*#(?:\s|$)", line)]
            shown = [re.sub(r"^(\s*)##", r"\1#", line) for line in rest]
            # mdBook hides lines only in blocks labeled `rust`; `rs` marks this one as converted.
            info = f"rs{info.removeprefix('rust')}" if shown != rest else info
            rest = shown
        include = INCLUDE.match(body[0]) or _SNIPPET.match(body[0]) if len(body) == 1 else None
        if include and (excerpt := self.write_include(include)):
            return [*named, *excerpt]
        if info == fence["info"] and rest == body:
            return None
        self.counts["code block"] += 1
        return [*named, f"{marks}{info}", *rest, marks]

    def write_include(self, include: re.Match[str]) -> list[str] | None:
        """An excerpt that `bindery fill` keeps up to date; None if the file has no such part."""
        first, last, part = include["first"], include["last"], include["name"] or ""
        if first or last:
            part = f"L{first or 1}" + (f"-L{last}" if last else "")
        # MkDocs looks in the root unless its settings say otherwise, usually the chapters' folder.
        is_snippet = include.re is _SNIPPET
        for base in ("", self.places.folder) if is_snippet else (posixpath.dirname(self.path),):
            path = posixpath.normpath(posixpath.join(base, include["path"]))
            name = f"{path}#{part}" if part else path
            excerpt = self.places.find_excerpt(name)
            if not excerpt.fault and not path.endswith(".md"):
                self.counts["excerpt"] += 1
                return write_excerpt(name, excerpt.text, excerpt.language)
        return None
