"""Emoji by name, as GitHub shows them: a rocket for `:rocket:`, but not in code.

Raw HTML too may have them. Names that GitHub draws as an image of its own, such as `:octocat:`,
stay text, as unknown ones do on GitHub, and so does a name with an escaped colon.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

from markdown_it.rules_core import StateCore
from markdown_it.token import Token

_NAME = re.compile(r"(?<![\w:/.]):([a-z0-9_+-]+):(?![\w:])")
_CODE = re.compile(r"<(/?)(?:code|pre|tt)\b", re.I)


@cache
def _read_names() -> Mapping[str, str]:
    """The character of each name."""
    text = Path(__file__).with_name("emoji.txt").read_text(encoding="utf-8")
    rows = (line.split() for line in text.splitlines() if line != "#" and line[:2] != "# ")
    return {name: character for character, *names in rows for name in names}


def show_emoji(text: str) -> str:
    """A text with the characters instead of their names."""
    if ":" not in text:
        return text
    return _NAME.sub(lambda match: _read_names().get(match[1], match[0]), text)


def read_emoji(state: StateCore) -> None:
    """Make tokens `emoji` of the names in prose; their `markup` is what was typed."""
    for token in state.tokens:
        if token.type == "inline" and token.children and token.content.count(":") > 1:
            token.children = list(_split_names(list(_join_escaped(token.children))))


def _join_escaped(children: list[Token]) -> Iterator[Token]:
    r"""Escaped characters become text, `:no\_entry:` too, but not colons: those are never part of
    a name."""
    last = None
    for child in children:
        is_text = child.type == "text" or (child.type == "text_special" and child.content != ":")
        if is_text and last is not None:
            last.content += child.content
            continue
        last = child if is_text else None
        if is_text:
            child.type = "text"
        yield child


def _split_names(children: list[Token]) -> Iterator[Token]:
    in_code = 0
    for index, child in enumerate(children):
        if child.type == "html_inline" and (tag := _CODE.match(child.content)):
            in_code += -1 if tag[1] else 1
        is_address = index > 0 and children[index - 1].meta.get("how") == "autolink"
        if child.type != "text" or in_code > 0 or is_address:
            yield child
            continue
        read = 0
        for match in _NAME.finditer(child.content):
            if character := _read_names().get(match[1]):
                if before := child.content[read : match.start()]:
                    yield child.copy(content=before)
                yield Token("emoji", "", 0, content=character, markup=match[0], level=child.level)
                read = match.end()
        if not read:
            yield child
        elif behind := child.content[read:]:
            yield child.copy(content=behind)
