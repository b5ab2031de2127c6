"""Did you mean: which existing word looks most like one that does not exist."""

from __future__ import annotations

import difflib
import posixpath
import re
from collections.abc import Iterable

_CUTOFF = 0.6
_LONGEST = 200
"""Letters; a longer word is not a typo, and takes long to compare."""
_ENDING = re.compile(r"\.[A-Za-z]\w*$")


def find_nearest(word: str, choices: Iterable[str]) -> str:
    """Give the choice that looks most like `word`, or an empty string where none is close."""
    if not 0 < len(word) <= _LONGEST:
        return ""
    likely = [c for c in choices if len(c) <= _LONGEST and _may_be_meant(word, c)]
    return next(iter(difflib.get_close_matches(word, likely, n=1, cutoff=_CUTOFF)), "")


def suggest(word: str, choices: Iterable[str], otherwise: str = "") -> str:
    """A hint that asks whether the nearest choice was meant, or another one if none is close."""
    nearest = find_nearest(word, choices)
    return f"did you mean '{nearest}'?" if nearest else otherwise


def _may_be_meant(word: str, choice: str) -> bool:
    """Whether two names of files are alike without the folder and the ending that they share;
    another number is another file."""
    name = posixpath.basename(word).lower()
    if not _ENDING.search(name):
        return True
    stem = _ENDING.sub("", name)
    other = _ENDING.sub("", posixpath.basename(choice).lower())
    if re.sub(r"\D", "", stem) != re.sub(r"\D", "", other):
        return False
    return difflib.SequenceMatcher(None, other, stem).ratio() >= _CUTOFF
