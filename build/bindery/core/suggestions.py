"""Did you mean: which existing word looks most like one that does not exist."""

from __future__ import annotations

import difflib
import heapq
import posixpath
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import lru_cache

_CUTOFF = 0.6
_COMPARED = 64
"""So many words are compared letter by letter; of more only those that share rare pieces."""
_CANDIDATES = 8
_VOTES = 300
_LONGEST = 200
"""Letters; a longer word is not a typo, and takes long to compare."""
_ENDING = re.compile(r"\.[A-Za-z]\w*$")


def find_nearest(word: str, choices: Iterable[str]) -> str:
    """Give the choice that looks most like `word`, or an empty string where none is close.

    It may be asked thousands of times for the same thousands of choices.
    """
    if not 0 < len(word) <= _LONGEST:
        return ""
    return _compare(word, _keep_one(tuple(choices)))


def suggest(word: str, choices: Iterable[str], otherwise: str = "") -> str:
    """A hint that asks whether the nearest choice was meant, or another one if none is close."""
    nearest = find_nearest(word, choices)
    return f"did you mean '{nearest}'?" if nearest else otherwise


@lru_cache(maxsize=16)
def _keep_one(words: tuple[str, ...]) -> tuple[str, ...]:
    """The same list for equal ones, so that a thousand questions keep one list of words."""
    return words


@lru_cache(maxsize=4096)
def _compare(word: str, words: tuple[str, ...]) -> str:
    if len(words) > _COMPARED:
        words = _find_candidates(word, words)
    close = difflib.get_close_matches(
        word,
        [w for w in words if len(w) <= _LONGEST and _may_be_meant(word, w)],
        n=1,
        cutoff=_CUTOFF,
    )
    return close[0] if close else ""


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


def _find_candidates(word: str, words: tuple[str, ...]) -> tuple[str, ...]:
    """The words that share most pieces with this one. Rare pieces are looked at first: what all
    words share tells nothing."""
    index = _index_words(words)
    found = sorted((index[piece] for piece in _cut_word(word) if piece in index), key=len)
    votes: Counter[int] = Counter()
    left = _VOTES
    for numbers in found:
        votes.update(numbers[:left])
        left -= len(numbers)
        if left <= 0:
            break
    best = heapq.nsmallest(_CANDIDATES, votes, key=lambda number: (-votes[number], number))
    return tuple(words[number] for number in best)


@lru_cache(maxsize=16)
def _index_words(words: tuple[str, ...]) -> dict[str, Sequence[int]]:
    """Which words hold a piece, by their numbers."""
    index: dict[str, list[int]] = {}
    for number, word in enumerate(words):
        for piece in _cut_word(word[:_LONGEST]):
            index.setdefault(piece, []).append(number)
    return dict(index)


def _cut_word(word: str) -> set[str]:
    """Every two letters that follow each other, and every three; beginning and end count."""
    framed = f"\0{word}\0"
    return {framed[at : at + size] for size in (2, 3) for at in range(len(framed) - size + 1)}
