"""What no record may carry, whoever has measured it: HTML, links to the web, and absurd sizes.

The texts of a record get into chapters, where GitHub would show the HTML and offer the links.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

LARGEST_BYTES = 1 << 20
"""Of a record, and of its log."""
LONGEST_TEXT = 2000
_HTML = re.compile(
    # Python names code without a name like this in stacks.
    r"</|<[!?]|<(?!(?:module|lambda|\w*comp|genexpr|string|stdin|unknown)>)[a-z][^<>]*>",
    re.I,
)
_LINK = re.compile(r"\b(?:https?|ftp)://|\bwww\.|\]\(", re.I)
_SIGNS = ("<", "://", "www.", "](")
"""Whatever the two patterns find contains one of these."""
Place = tuple[str | int, ...]


def find_excess(data: object) -> tuple[Place, str] | None:
    """The first text in the JSON of a record that it may not carry: its place, and why."""
    texts = list(_list_texts(data))
    together = "\n".join(texts).lower()
    if max(map(len, texts), default=0) <= LONGEST_TEXT and not any(
        sign in together for sign in _SIGNS
    ):
        return None  # most records end here
    for place, text in _walk(data, ()):
        if len(text) > LONGEST_TEXT:
            return (
                place,
                f"a text of {len(text)} characters, but the limit is {LONGEST_TEXT}; write less",
            )
        if match := _HTML.search(text):
            return place, f"'{match[0][:40]}' is HTML, which no record may carry; write plain text"
        if match := _LINK.search(text):
            return place, f"'{match[0]}' begins a link, which no record may carry; write a name"
    return None


def _list_texts(data: object) -> Iterator[str]:
    """Each text of `_walk`, without its place."""
    found = [data]
    for value in found:  # which grows meanwhile
        if isinstance(value, str):
            yield value
        elif isinstance(value, dict):
            yield from value
            found += value.values()
        elif isinstance(value, list):
            found += value


def _walk(value: object, place: Place) -> Iterator[tuple[Place, str]]:
    """Each text with its place; keys of objects too."""
    match value:
        case str():
            yield place, value
        case list():
            for index, each in enumerate(value):
                yield from _walk(each, (*place, index))
        case dict():
            for key, each in value.items():
                yield (*place, key), key
                yield from _walk(each, (*place, key))
