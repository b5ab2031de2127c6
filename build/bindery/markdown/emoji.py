"""Emoji by name, as GitHub shows them: a rocket for `:rocket:`, but not in code.

Raw HTML too may have them. Names that GitHub draws as an image of its own, such as `:octocat:`,
stay text, as unknown ones do on GitHub.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache
from importlib import resources

from markdown_it.rules_core import StateCore
from markdown_it.token import Token

_NAME = re.compile(r"(?<![\w:/.]):([a-z0-9_+-]+):(?![\w:])")
_CODE = re.compile(r"<(/?)(?:code|pre|tt)\b", re.I)


@cache
def _read_names() -> Mapping[str, str]:
    """The character of each name."""
    text = resources.files(__package__).joinpath("emoji.txt").read_text(encoding="utf-8")
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
        if token.type == "inline" and token.children and ":" in token.content:
            token.children = list(_split_names(token.children))


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
