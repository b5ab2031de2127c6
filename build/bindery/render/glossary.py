"""The terms that a book explains: read its glossary, and mark terms on pages.

The glossary is the chapter of that name; a section of that name is the glossary of its own chapter.
It may be a table, a list, paragraphs that begin with the term in bold, headings with a paragraph
below, or an HTML definition list.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache, lru_cache
from typing import Any

from lxml import etree
from msgspec import Struct

from bindery.book.glossary import GLOSSARIES, is_abbreviation, split_names
from bindery.render.text.captions import read_name

_XHTML = "{http://www.w3.org/1999/xhtml}"
_RANKS = {f"h{rank}": rank for rank in range(1, 7)}
_LONGEST_TERM, _LONGEST_MEANING = 6, 300
"""Words of a term; characters of the meaning that a page shows."""
_PASSED_OVER = frozenset(
    (
        *("a", "button", "caption", "code", "details", "figcaption", "kbd", "pre", "samp"),
        *("script", "sup", "table", *_RANKS),
    )
)
_BOLD = ("strong", "b", "dfn")
_SEPARATOR = re.compile(r"^\s*[:\u2013\u2014-]\s*|^\s+")
_COLON = re.compile(r"\s*:\s+|\s+[\u2013\u2014-]\s+")
_END_OF_SENTENCE = re.compile(r"(?<=[^\s.][.!?])\s")


class Term(Struct, frozen=True):
    """A term, its other names, its meaning, and the anchor of its explanation."""

    names: tuple[str, ...]
    meaning: str
    anchor: str

    @property
    def name(self) -> str:
        return self.names[0]


def collect_terms(root: Any, *, is_glossary: bool) -> list[Term]:
    """The terms that a chapter explains: all of it where it is the glossary, else its sections of
    that name. Elements that explain one get an id where they have none."""
    terms: dict[str, Term] = {}
    for names, meaning, element in _read_terms(_find_blocks(root, is_glossary=is_glossary)):
        if not names or not meaning or names[0].casefold() in terms:
            continue
        if element.get("id") is None:
            element.set("id", f"term.{len(terms) + 1}")
        terms[names[0].casefold()] = Term(names, _shorten(meaning), element.get("id"))
    return list(terms.values())


def mark_terms(root: Any, terms: Mapping[str, Sequence[Term]], *, is_glossary: bool) -> bool:
    """Make the first use of each term in each section, its subsections included,
    a link to its explanation that carries what it says. `terms` are those of each page by its
    address from this one. Returns whether there is a use."""
    by_name = {
        f"{_fold(name)}{ending}": (term, f"{page}#{term.anchor}")
        for ending in ("s", "")
        for page, listed in terms.items()
        for term in listed
        for name in term.names
    }
    if not by_name or is_glossary:
        return False
    pattern = _find_any(frozenset(by_name))
    own = set(_find_blocks(root, is_glossary=False))
    used: set[str] = set()
    is_used = False
    for element in root:
        if _RANKS.get(read_name(element), 3) <= 2:  # one mark per small heading would be too many
            used = set()
        if element not in own and _is_prose(element):
            is_used |= _mark_element(element, pattern, by_name, used)
    return is_used


@lru_cache(maxsize=64)
def _find_any(names: frozenset[str]) -> re.Pattern[str]:
    """What finds the longest of these names, by its first letter: each alternative takes time."""
    groups: dict[str, list[str]] = {}
    for name in sorted(names, key=lambda name: (-len(name), name)):
        groups.setdefault(name[0].lower(), []).append(re.escape(name[1:]))
    any_of = "|".join(f"{re.escape(a)}(?:{'|'.join(rest)})" for a, rest in groups.items())
    return re.compile(rf"(?<![\w-])(?:{any_of})(?![\w-])", re.IGNORECASE)


# --- reading a glossary ---


def _find_blocks(root: Any, *, is_glossary: bool) -> list[Any]:
    """The blocks of a glossary: those of a whole chapter, or those below a heading of that name up
    to the next heading of the same or a higher level."""
    if is_glossary:
        return list(root)
    found, rank = [], 0
    for element in root:
        level = _RANKS.get(read_name(element))
        if level and (not rank or level <= rank):
            first = _read(element).casefold().split(" ")[0]
            rank = level if level > 1 and first in GLOSSARIES else 0
        elif rank:
            found.append(element)
    return found


def _read_terms(blocks: Iterable[Any]) -> Iterator[tuple[tuple[str, ...], str, Any]]:
    """Names, meaning and the element of each explanation."""
    heading = None
    for block in blocks:
        if read_name(block) in _RANKS:
            heading = block if _RANKS[read_name(block)] > 1 else None
            continue
        for element in block.iter("{*}p", "{*}li", "{*}dt", "{*}tr"):
            entry = _read_entry(element)
            if entry is not None:
                yield *entry, element
            elif element is block and heading is not None:
                yield split_names(_read(heading)), _read(element), heading
        heading = None


def _read_entry(element: Any) -> tuple[tuple[str, ...], str] | None:
    """Names and meaning of an element that explains a term by itself."""
    name = read_name(element)
    if name == "dt":
        following = element.getnext()
        if following is None or read_name(following) != "dd":
            return None
        return split_names(_read(element)), _read(following)
    if name == "tr":
        cells = list(element)
        if len(cells) < 2 or any(read_name(cell) != "td" for cell in cells):
            return None
        return split_names(_read(cells[0])), _read(cells[1])
    text, first = _read(element), next(iter(element), None)
    if first is not None and read_name(first) == "p":
        return None
    if first is not None and read_name(first) in _BOLD and not (element.text or "").strip():
        said = _read(first)
        return split_names(said.rstrip(":")), _SEPARATOR.sub("", text[len(said) :]).strip()
    # In a list with room between its items the text of one is a paragraph.
    parent = element.getparent()
    if name == "li" or (read_name(parent) == "li" and parent[0] is element):
        term, *meaning = _COLON.split(text, maxsplit=1)
        if meaning and len(term.split()) <= _LONGEST_TERM:
            return split_names(term), meaning[0]
    return None


def _read(element: Any) -> str:
    return " ".join("".join(element.itertext()).split())


def _shorten(meaning: str) -> str:
    """The sentences of an explanation that fit into a small box; at least the first one."""
    kept = ""
    for sentence in _END_OF_SENTENCE.split(meaning):
        if kept and len(kept) + len(sentence) > _LONGEST_MEANING:
            break
        kept = f"{kept} {sentence}".strip()
    return kept


# --- marking terms ---


@cache  # every chapter looks for the same terms
def _fold(name: str) -> str:
    """The form in which names are looked up: abbreviations are written in capitals only."""
    return name if is_abbreviation(name) else name.casefold()


def _mark_element(
    element: Any,
    pattern: re.Pattern[str],
    by_name: Mapping[str, tuple[Term, str]],
    used: set[str],
) -> bool:
    """Mark the terms in the text below an element that are not yet used in its section."""
    is_used = False
    for child in [None, *element]:
        if child is not None and _is_prose(child):
            is_used |= _mark_element(child, pattern, by_name, used)
        text = (element.text if child is None else child.tail) or ""
        place = 0 if child is None else list(element).index(child) + 1
        pieces = list(_cut_at_terms(text, pattern, by_name, used))
        if not pieces:
            continue
        is_used = True
        before = text[: pieces[0][0]]
        if child is None:
            element.text = before
        else:
            child.tail = before
        ends = [start for start, _, _, _ in pieces[1:]] + [len(text)]
        for (start, end, term, href), following in zip(pieces, ends, strict=True):
            link = etree.Element(f"{_XHTML}a", {"class": "term", "href": href})
            link.set("data-term", term.name)
            link.set("data-meaning", term.meaning)
            link.text, link.tail = text[start:end], text[end:following]
            element.insert(place, link)
            place += 1
    return is_used


def _is_prose(element: Any) -> bool:
    return element.tag.startswith(_XHTML) and read_name(element) not in _PASSED_OVER


def _cut_at_terms(
    text: str,
    pattern: re.Pattern[str],
    by_name: Mapping[str, tuple[Term, str]],
    used: set[str],
) -> Iterator[tuple[int, int, Term, str]]:
    """The terms in a text that are not used yet: start, end, term and address."""
    for match in pattern.finditer(text):
        found = by_name.get(match[0]) or by_name.get(match[0].casefold())
        if found and found[0].name not in used:
            used.add(found[0].name)
            yield match.start(), match.end(), *found
