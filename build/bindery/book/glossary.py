"""Find the glossary of a book and the names of its terms."""

from __future__ import annotations

import re
from pathlib import PurePosixPath

from bindery.core.model import Book, Chapter

GLOSSARIES = frozenset(
    ("glossary", "glossaire", "glossar", "glosario", "glossario", "gloss\u00e1rio")
)
"""Titles of glossaries in several languages."""

_PARENTHESES = re.compile(r"\s*\(([^()]+)\)")
_JOINTS = re.compile(r"[-_ ]")


def is_glossary(chapter: Chapter) -> bool:
    """Whether the chapter's title or file name says that it is the glossary."""
    path = PurePosixPath(chapter.path)
    name = path.stem if path.stem.lower() not in ("readme", "index") else path.parent.name
    return not GLOSSARIES.isdisjoint((name.casefold(), chapter.title.casefold()))


def find_glossary(book: Book) -> str:
    """The path of the glossary; empty if the book has none."""
    return next((chapter.path for chapter in book.chapters if is_glossary(chapter)), "")


def split_names(text: str) -> tuple[str, ...]:
    """`HBM (high-bandwidth memory)` and `all-reduce, allreduce` are two names each."""
    inside = [name for names in _PARENTHESES.findall(text) for name in re.split(r",\s+", names)]
    names = [*re.split(r",\s+|\s+/\s+", _PARENTHESES.sub("", text)), *inside]
    return tuple(dict.fromkeys(name.strip() for name in names if len(name.strip()) > 1))


def is_abbreviation(name: str) -> bool:
    """Whether a name must match in capitals only."""
    return sum(character.isupper() for character in name) > 1


def match_name(name: str) -> re.Pattern[str]:
    """A pattern for a name: whole words, also in the plural; hyphen, blank and underscore are
    equivalent, so that `all_reduce` matches all-reduce."""
    words = "[-_\\s]".join(re.escape(word) for word in _JOINTS.split(name))
    flags = re.NOFLAG if is_abbreviation(name) else re.IGNORECASE
    return re.compile(rf"(?<![^\W_]){words}(?:e?s)?(?![^\W_])", flags)
