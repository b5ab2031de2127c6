"""unknown-flag: a companion tool would reject a command line in the book.

Checks commands in code blocks and inline code that run a tool listed in chapters.yaml. The check
does not run the tool: it reads the options that `bindery run TOOL --texts` stored beside the tool's
records, and says nothing about a tool without them. That command needs a text under the tool, such
as `texts: {help: [--help]}`, which `bindery new tool` declares. Run it again after you change the
tool's options; `bindery verify` finds stored options that are out of date.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterator
from functools import partial

from msgspec import Struct
from msgspec.structs import replace

from bindery.check.rules.rule import Rule, Scope
from bindery.core.model import Chapter, Finding, Severity, Span
from bindery.core.repository import RECORDS_FOLDER
from bindery.markdown.prose import read_fences, read_passages
from bindery.tools.command_lines.fitting import Misuse, judge_words
from bindery.tools.command_lines.programs import ToolCall, find_calls
from bindery.tools.command_lines.shell import Word
from bindery.tools.command_lines.stored_parsers import Parser, read_stored_parser

RULE = Rule("unknown-flag", Severity.ERROR, "a tool would reject this command")

_LANGUAGES = frozenset(("", "bash", "sh", "shell", "zsh", "console", "terminal", "shell-session"))


class _Call(Struct, frozen=True):
    """A call in one of a chapter's fences, or in one of its passages: which one, and where the
    command begins in it."""

    in_fence: bool
    index: int
    start: int
    call: ToolCall

    def place(self, chapter: Chapter, word: Word) -> Span:
        """Where a word of the call is in the file."""
        if not self.in_fence:
            passage = read_passages(chapter)[self.index]
            return passage.place(self.start + word.start, self.start + word.end)
        fence = read_fences(chapter)[self.index]
        row = fence.code.count("\n", 0, word.start)
        col = word.start - (fence.code.rfind("\n", 0, word.start) + 1)
        first_line = fence.code[word.start : word.end].split("\n")[0]
        return fence.place(row, col, max(len(first_line), 1))


def check(scope: Scope) -> Iterator[Finding]:
    if not scope.config.tools:
        return
    toolbox = _Toolbox(scope)
    for chapter in scope.book.chapters:
        find = partial(_find_calls, chapter)
        for one in chapter.facts.derive("calls of programs", tuple[_Call, ...], find):
            for misuse in toolbox.judge(one.call, chapter.path, is_whole=one.in_fence):
                yield RULE.find(one.place(chapter, misuse.word), misuse.message, misuse.help)


def _find_calls(chapter: Chapter) -> tuple[_Call, ...]:
    """The calls in a chapter's blocks of shell text, and the code spans that are commands. A span
    may be part of a command, so nothing counts as missing."""
    in_fences = (
        _Call(True, index, 0, call)
        for index, fence in enumerate(read_fences(chapter))
        if fence.language in _LANGUAGES
        for call in find_calls(fence.code)
    )
    in_spans = (
        _Call(False, index, start, call)
        for index, passage in enumerate(read_passages(chapter))
        for start, end in passage.codes
        if " " in passage.text[start:end]
        for call in find_calls(passage.text[start:end])
    )
    return (*in_fences, *in_spans)


class _Toolbox:
    """The argument parsers of the book's tools, each read once."""

    def __init__(self, scope: Scope) -> None:
        self.tree = scope.tree
        self.paths = {tool.name: tool.path for tool in scope.config.tools}
        self.by_file_name: dict[str, str] = {}
        for path in self.paths.values():
            name = posixpath.basename(path)
            self.by_file_name[name] = "" if name in self.by_file_name else path
        self.parsers: dict[str, Parser | None] = {}

    def judge(self, call: ToolCall, here: str, *, is_whole: bool = True) -> Iterator[Misuse]:
        """What the called program would reject, if it is a tool of the book with a stored
        parser."""
        path = self._find_file(call.program.text, here) if call.program.is_plain else ""
        name = next((name for name, known in self.paths.items() if known == path), "")
        if name and name not in self.parsers:
            self.parsers[name] = self._read(name)
        if parser := self.parsers.get(name):
            again = f"(if the tool has changed, run `bindery run {name} --texts`)"
            for misuse in judge_words(parser, call.program, call.words, is_whole=is_whole):
                yield replace(misuse, help=f"{misuse.help} {again}".lstrip())

    def _find_file(self, typed: str, here: str) -> str:
        """Resolve a path from the root or the chapter, or a bare file name of a tool, since readers
        copy tools to other places."""
        if typed.startswith(("/", "~")):
            return ""
        for folder in ("", posixpath.dirname(here)):
            path = posixpath.normpath(posixpath.join(folder, typed))
            if not path.startswith("../") and self.tree.find_kind(path) == "file":
                return path
        name = posixpath.normpath(typed)
        if name in self.by_file_name:
            return self.by_file_name[name]
        matches = {path for path in self.paths.values() if path.endswith(f"/{name}")}
        return matches.pop() if len(matches) == 1 else ""

    def _read(self, name: str) -> Parser | None:
        stored = f"{RECORDS_FOLDER}/{name}/options.json"
        if self.tree.find_kind(stored) != "file":
            return None
        try:
            return read_stored_parser(self.tree.read_bytes(stored).decode())
        except (OSError, ValueError):
            return None  # `bindery verify` reports it
