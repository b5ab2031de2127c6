"""GitHub's rule for the anchor of a heading, and nothing else.

GitHub lower-cases the text, drops every character that is not a word character, hyphen or space,
and writes a hyphen for each space; nothing is collapsed, so an em dash between spaces
leaves two hyphens. Repeats get `-1`, `-2`, ... in order of appearance.

"Word character" is Unicode's: alphabetic characters, marks, decimal numbers and connector
punctuation (UTS 18, annex C, `\\p{word}`), the class of the Ruby engine that GitHub runs.
"""

from __future__ import annotations

import re
import unicodedata

_WORD_CATEGORIES = frozenset(("Lu", "Ll", "Lt", "Lm", "Lo", "Mn", "Mc", "Me", "Nd", "Nl", "Pc"))
# Other_Alphabetic outside the marks: Latin letters in circles and squares.
_LETTERS_AMONG_SYMBOLS = (
    ("\u24b6", "\u24e9"),
    ("\U0001f130", "\U0001f149"),
    ("\U0001f150", "\U0001f169"),
    ("\U0001f170", "\U0001f189"),
)
_PLAIN = re.compile(r"[a-z0-9_\- ]*", re.ASCII)


def _is_kept(character: str) -> bool:
    if character in "- ":
        return True
    if unicodedata.category(character) in _WORD_CATEGORIES:
        return True
    return any(first <= character <= last for first, last in _LETTERS_AMONG_SYMBOLS)


def slugify_heading(text: str) -> str:
    """The anchor of a heading with this text, before repeats are counted."""
    lowered = text.lower()
    if not _PLAIN.fullmatch(lowered):
        lowered = "".join(character for character in lowered if _is_kept(character))
    return lowered.replace(" ", "-")


class SlugCounter:
    """Assigns anchors to the headings of one chapter, with `-1`, `-2`, ... for repeats."""

    def __init__(self) -> None:
        self._seen: dict[str, int] = {}

    def assign_slug(self, text: str) -> str:
        """The anchor of the next heading. A number that is taken is skipped, as on GitHub: after
        `a` and `a-1`, a second `a` becomes `a-2`."""
        base = slug = slugify_heading(text)
        while slug in self._seen:
            self._seen[base] += 1
            slug = f"{base}-{self._seen[base]}"
        self._seen[slug] = 0
        return slug
