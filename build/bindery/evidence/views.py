"""Views: SQL queries with a header that describes how to show the result."""

from __future__ import annotations

import re
from collections.abc import Iterator

from msgspec import Struct

from bindery.core.model import Finding, Span
from bindery.evidence.plots.spec import Plot, parse_plot
from bindery.evidence.tables import Column

_COLUMN = re.compile(
    r"--\s*column\s+(?P<key>[A-Za-z_][A-Za-z0-9_]*)\s*:\s*(?P<heading>.*?)"
    r"(?:\s*\[(?P<unit>[^\]]+)\])?(?:\s+\.(?P<digits>\d))?\s*$"
)
_HEADER = re.compile(r"--\s*(?P<key>[a-z]+)\b\s*:?\s*(?P<rest>.*)")
_PLOT = re.compile(r"--\s*plot\b")
_WORD = re.compile(r"\w+")
_QUOTED = re.compile(
    r"""(?P<comment>--[^\n]*|/\*.*?(?:\*/|\Z))|(?P<text>'(?:[^']|'')*')"""
    r"""|(?P<name>"(?:[^"]|"")*"|`[^`]*`|\[[^\]]*\])""",
    re.DOTALL,
)


class View(Struct, frozen=True):
    """A query and the layout of its columns."""

    name: str
    path: str
    title: str
    columns: tuple[Column, ...]
    notes: tuple[str, ...]
    sql: str
    plot: Plot | None = None

    @property
    def words(self) -> frozenset[str]:
        """The words of the query in lower case: every table that it reads is one of them, and the
        tool of every record that it names."""
        return frozenset(_WORD.findall(self.sql.lower()))

    def find_line(self, word: str) -> int:
        """The line of the first occurrence of a word outside comments, else 1."""
        match = re.search(
            rf"(?<!\w){re.escape(word)}(?!\w)", blank_quoted(self.sql, "comment"), re.I
        )
        return self.sql.count("\n", 0, match.start()) + 1 if match else 1

    def find_heading(self, key: str) -> int:
        """The line of the header that describes a column."""
        described = re.search(rf"^--\s*column\s+{re.escape(key)}\b", self.sql, re.MULTILINE)
        return self.sql.count("\n", 0, described.start()) + 1 if described else 1

    def find_texts(self) -> Iterator[tuple[Span, str]]:
        """The quoted strings of the query and their positions."""
        for match in _QUOTED.finditer(self.sql):
            if match.lastgroup == "text" and "\n" not in match[0]:
                before = self.sql[: match.start()]
                line, col = before.count("\n") + 1, match.start() - before.rfind("\n") + 1
                text = match[0][1:-1].replace("''", "'")
                yield Span(self.path, line, col, len(match[0]) - 2), text


def blank_quoted(sql: str, *kinds: str) -> str:
    """A query with its comments (`comment`), strings (`text`) or quoted names (`name`) blanked out,
    as requested, so that positions stay the same."""

    def blank(match: re.Match[str]) -> str:
        return re.sub(r"[^\n]", " ", match[0]) if match.lastgroup in kinds else match[0]

    return _QUOTED.sub(blank, sql)


def parse_view(name: str, path: str, text: str) -> View | Finding:
    """Parse a view, or return a finding about its name, header or query."""
    if name.endswith("-dark"):
        message = f"a view cannot be named '{name}': that is the file of another view's dark plot"
        return Finding(Span.whole(path), "bad-view", message, "rename the file")
    text = text.removeprefix("\ufeff")
    title = ""
    columns: list[Column] = []
    notes: list[str] = []
    plot_lines: list[tuple[int, str]] = []
    for number, line in enumerate(text.split("\n"), 1):
        if not line.startswith("--"):
            continue
        column = _COLUMN.match(line)
        header = _HEADER.match(line)
        if column and not set("[]") & set(column["heading"]):
            digits = int(column["digits"]) if column["digits"] else None
            columns.append(Column(column["key"], column["heading"], column["unit"] or "", digits))
        elif header and header["key"] == "title":
            title = header["rest"].strip()
        elif header and header["key"] == "note":
            notes.append(header["rest"].strip())
        elif header and header["key"] in ("column", "columns"):
            message = "this column declaration is malformed"
            hint = "write `-- column KEY: HEADING [UNIT] .DIGITS`"
            return Finding(Span(path, number), "bad-view", message, hint)
        elif _PLOT.match(line):
            plot_lines.append((number, line))
    if not title:
        message = "the view has no title"
        return Finding(Span.whole(path), "bad-view", message, "add `-- title: TITLE`")
    if not columns:
        hint = "add `-- column KEY: HEADING` for each column"
        return Finding(Span.whole(path), "bad-view", "the view names no columns", hint)
    query = blank_quoted(text, "comment", "text", "name")
    first = re.search(r"\w+|\S", query)
    if first is None or first[0].upper() not in ("SELECT", "WITH"):
        begins = f"this begins with '{first[0]}'" if first else "this has none"
        line_number = query.count("\n", 0, first.start()) + 1 if first else 1
        hint = "a view can only read: one SELECT over records and data, independent of time"
        message = f"a view is one SELECT, but {begins}"
        return Finding(Span(path, line_number), "bad-view", message, hint)
    if not re.search(r"\border\s+by\b", query, re.IGNORECASE):
        message = "the query has no ORDER BY, so its rows have no order"
        return Finding(Span.whole(path), "bad-view", message, "add one, such as `ORDER BY name`")
    plot = parse_plot(plot_lines, columns)
    if isinstance(plot, tuple):
        line_number, message, hint = plot
        return Finding(Span(path, line_number), "bad-view", message, hint)
    return View(name, path, title, tuple(columns), tuple(notes), text, plot)
