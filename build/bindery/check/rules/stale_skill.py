"""stale-skill: SKILL.md does not list the current chapters, sections and tools.

Agents read SKILL.md in the root of a repository. `bindery fill` writes the list between
`<!-- contents -->` and `<!-- /contents -->`. The rest of the file is yours; links in it are checked
like those of a chapter.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from urllib.parse import quote

from msgspec.structs import replace

from bindery.book.resolve import resolve_book
from bindery.check.rules import link_targets
from bindery.check.rules.rule import Rule, Scope
from bindery.core.config import Config
from bindery.core.model import Book, Chapter, Finding, Part, ResolvedBook, Severity, Span
from bindery.core.report import describe_change
from bindery.core.repository import Tree, join_lines
from bindery.markdown.chapter_reader import parse_chapter
from bindery.tools.tool_source import read_docstring

RULE = Rule("stale-skill", Severity.ERROR, "SKILL.md does not list what the book contains")
FILE = "SKILL.md"
_HINT = "run `bindery fill`"
_CONTENTS = re.compile(r"(<!-- contents -->\n).*?(<!-- /contents -->)", re.DOTALL)
_HEAD = re.compile(r"---\nname: \S.*\ndescription: \S.*\n")
_COMMON = 3
"""In so many chapters a title no longer says what a section is about."""
_SPECIAL = re.compile(r"[\\`*_<>\[\]|]")


def check(scope: Scope) -> Iterator[Finding]:
    if scope.tree.find_kind(FILE) != "file" or not _is_whole(scope.book, scope.config):
        return
    text = join_lines(scope.tree.read_bytes(FILE).decode("utf-8", "replace"))
    if not _HEAD.match(text):
        hint = "begin with `---`, `name:`, and `description:` that says when to read the book"
        yield RULE.find(Span.whole(FILE), "there is no name and description at the top", hint)
    match = _CONTENTS.search(text)
    if match is None:
        hint = f"write `<!-- contents -->` and `<!-- /contents -->`, then {_HINT}"
        yield RULE.find(Span.whole(FILE), "there is no place for the list of contents", hint)
    elif (written := write_skill(text, scope.book, scope.config, scope.tree)) != text:
        span = Span(FILE, text.count("\n", 0, match.start()) + 1)
        change = describe_change(text, written, "the book")
        yield RULE.find(span, "this list is not what the book contains", f"{change}; {_HINT}")
    # `bindery fill` writes the list, so its links are not checked.
    text = _CONTENTS.sub(lambda match: "\n" * match[0].count("\n"), text, count=1)
    skill = parse_chapter(FILE, text)
    others = [replace(chapter, links=(), definitions=()) for chapter in scope.book.chapters]
    links = resolve_book(
        Book((Part("", (*others, skill)),)), scope.tree, scope.config.allowed_schemes
    ).links
    alone = ResolvedBook(Book((Part("", (skill,)),)), links)
    yield from link_targets.check(replace(scope, resolved=alone))


def write_skill(text: str, book: Book, config: Config, tree: Tree) -> str:
    """The text of SKILL.md with what the book contains; unchanged if it has no place for that, or
    if the book was not read as a whole."""
    if not _is_whole(book, config):
        return text
    lines = "".join(f"{line}\n" for line in _list_contents(book, config, tree))
    return _CONTENTS.sub(lambda match: f"{match[1]}{lines}{match[2]}", text, count=1)


def _is_whole(book: Book, config: Config) -> bool:
    paths = {entry.path for entry in config.chapters}
    return FILE not in paths and paths == {chapter.path for chapter in book.chapters}


def _list_contents(book: Book, config: Config, tree: Tree) -> Iterator[str]:
    titles = Counter(a.title for chapter in book.chapters for a in chapter.anchors if a.level == 2)
    for part in book.parts:
        yield from (f"## {_escape(part.title or 'Chapters')}", "")
        yield from (_list_chapter(chapter, titles) for chapter in part.chapters)
        yield ""
    tools = [tool for tool in config.tools if tree.find_kind(tool.path) == "file"]
    if tools:
        yield from ("## Tools", "")
        run = "`bindery run TOOL --profile demo` runs a tool within limits and records it, `full`"
        yield from (f"{run} measures. Each has `--help`, and runs alone with `python`.", "")
    for tool in tools:
        source = tree.read_bytes(tool.path).decode("utf-8-sig", "replace")
        question = read_docstring(source).partition("\n")[0]
        yield f"- [{_escape(tool.name)}]({quote(tool.path)}): {_escape(question)}"


def _list_chapter(chapter: Chapter, titles: Mapping[str, int]) -> str:
    """A line with the chapter and its sections; `Further reading` of all chapters says nothing."""
    address = quote(chapter.path)
    sections = ", ".join(
        f"[{_escape(anchor.title)}]({address}#{quote(anchor.slug)})"
        for anchor in chapter.anchors
        if anchor.level == 2 and titles[anchor.title] < _COMMON
    )
    return f"- [{_escape(chapter.title)}]({address})" + (f": {sections}" if sections else "")


def _escape(text: str) -> str:
    return _SPECIAL.sub(r"\\\g<0>", text)
