"""The word that was meant: which of those that exist looks most like one that does not."""

from __future__ import annotations

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
"""Letters; a longer word is not a slip of the pen, and takes long to compare."""
_SHORT = 5
"""Letters of the name of a file, ending aside: where there are no more, the ending alone makes
two names look alike."""
_ENDING = re.compile(r"\.[A-Za-z]\w*$")


def find_nearest(word: str, choices: Iterable[str]) -> str:
    """Give the choice that looks most like `word`, or an empty string where none is close.

    It may be asked thousands of times for the same thousands of choices.
    """
    if not 0 < len(word) <= _LONGEST:
        return ""
    return _compare(word, _keep_one(tuple(choices)))


@lru_cache(maxsize=16)
def _keep_one(words: tuple[str, ...]) -> tuple[str, ...]:
    """The same list for equal ones, so that a thousand questions keep one list of words."""
    return words


@lru_cache(maxsize=4096)
def _compare(word: str, words: tuple[str, ...]) -> str:
    import difflib  # a book without a slip does not need it

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
    """Whether a word may be a slip for a choice: a folder or an ending that both share makes no
    likeness of two names of files, and for a short name there are few.

    One slip of the pen, or letters left out at its end; but another number is another file.
    """
    name = posixpath.basename(word).lower()
    if not _ENDING.search(name):
        return True
    stem = _ENDING.sub("", name)
    other = _ENDING.sub("", posixpath.basename(choice).lower())
    if stem == other:
        return True
    if len(stem) > _SHORT:
        import difflib  # as above

        return difflib.SequenceMatcher(None, other, stem).ratio() >= _CUTOFF
    if re.sub(r"\D", "", stem) != re.sub(r"\D", "", other):
        return False
    return _is_one_slip(stem, other) or (len(stem) > 2 and other.startswith(stem))


def _is_one_slip(first: str, second: str) -> bool:
    """Whether one letter is too many, missing or another, or two have changed places. Of one or
    two letters another one makes another word."""
    start = len(posixpath.commonprefix((first, second)))
    first, second = first[start:], second[start:]
    end = len(posixpath.commonprefix((first[::-1], second[::-1])))
    kept = start + end
    one, other = first[: len(first) - end], second[: len(second) - end]
    if len(one) + len(other) <= 1:
        return kept > 0
    is_other_letter = len(one) == len(other) == 1 and kept > 1
    return is_other_letter or (len(one) == 2 and one == other[::-1])


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
