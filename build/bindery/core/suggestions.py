"""Did you mean: which existing word looks most like one that does not exist."""

from __future__ import annotations

import difflib
import posixpath
import re
from collections.abc import Iterable
from functools import lru_cache

_CUTOFF = 0.6
_COMPARED = 64
"""Of more words only those are compared that begin like the one asked for."""
_LONGEST = 200
"""Letters; a longer word is not a typo, and takes long to compare."""
_ENDING = re.compile(r"\.[A-Za-z]\w*$")


def find_nearest(word: str, choices: Iterable[str]) -> str:
    """The choice that looks most like `word`, or an empty string where none is close.

    It may be asked thousands of times for the same thousands of choices.
    """
    return _compare(word, tuple(choices)) if 0 < len(word) <= _LONGEST else ""


@lru_cache(maxsize=4096)
def _compare(word: str, words: tuple[str, ...]) -> str:
    if len(words) > _COMPARED:
        words = _sort_by_beginning(words).get(_find_beginning(word), ())
    may_be_meant = [w for w in words if len(w) <= _LONGEST and _may_be_meant(word, w)]
    return next(iter(difflib.get_close_matches(word, may_be_meant, n=1, cutoff=_CUTOFF)), "")


def _may_be_meant(word: str, choice: str) -> bool:
    """Whether two names of files are alike without the folder and the ending that they share. Of
    short names with different numbers each is another file."""
    name = posixpath.basename(word).lower()
    if not _ENDING.search(name):
        return True
    stem = _ENDING.sub("", name)
    other = _ENDING.sub("", posixpath.basename(choice).lower())
    if re.sub(r"\D", "", stem) != re.sub(r"\D", "", other):
        return False
    return difflib.SequenceMatcher(None, other, stem).ratio() >= _CUTOFF


@lru_cache(maxsize=16)
def _sort_by_beginning(words: tuple[str, ...]) -> dict[str, tuple[str, ...]]:
    groups: dict[str, list[str]] = {}
    for word in words:
        groups.setdefault(_find_beginning(word), []).append(word)
    return {beginning: tuple(group) for beginning, group in groups.items()}


def _find_beginning(word: str) -> str:
    return posixpath.basename(word)[:1].lower()
