"""Suggest the existing word most similar to an unknown one."""

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
"""Up to this many words are compared directly; of more, only those that share rare pieces."""
_CANDIDATES = 8
_VOTES = 300
_LONGEST = 200
"""Longer words are not typos, and slow to compare."""
_ENDING = re.compile(r"\.[A-Za-z]\w*$")


def find_nearest(word: str, choices: Iterable[str]) -> str:
    """The choice most similar to `word`, or an empty string if none is close.

    Fast enough to be called thousands of times with the same thousands of choices.
    """
    if not 0 < len(word) <= _LONGEST:
        return ""
    return _compare(word, _keep_one(tuple(choices)))


def suggest(word: str, choices: Iterable[str], otherwise: str = "") -> str:
    """A hint that suggests the nearest choice, or `otherwise` if none is close."""
    nearest = find_nearest(word, choices)
    return f"did you mean '{nearest}'?" if nearest else otherwise


@lru_cache(maxsize=16)
def _keep_one(words: tuple[str, ...]) -> tuple[str, ...]:
    """One list for equal ones, so that a thousand calls keep one list in memory."""
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
    """Whether two file names are similar beyond the folder and suffix that they share. Different
    numbers mean different files."""
    name = posixpath.basename(word).lower()
    if not _ENDING.search(name):
        return True
    stem = _ENDING.sub("", name)
    other = _ENDING.sub("", posixpath.basename(choice).lower())
    if re.sub(r"\D", "", stem) != re.sub(r"\D", "", other):
        return False
    return difflib.SequenceMatcher(None, other, stem).ratio() >= _CUTOFF


def _find_candidates(word: str, words: tuple[str, ...]) -> tuple[str, ...]:
    """The words that share most pieces with this one. Start with rare pieces: common ones do not
    distinguish words."""
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
    """The indices of the words that contain a piece."""
    index: dict[str, list[int]] = {}
    for number, word in enumerate(words):
        for piece in _cut_word(word[:_LONGEST]):
            index.setdefault(piece, []).append(number)
    return dict(index)


def _cut_word(word: str) -> set[str]:
    """All pairs and triples of adjacent letters, including the word's ends."""
    framed = f"\0{word}\0"
    return {framed[at : at + size] for size in (2, 3) for at in range(len(framed) - size + 1)}
