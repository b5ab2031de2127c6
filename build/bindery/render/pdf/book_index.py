"""The index of a printed book: where the terms of its glossary are explained and used, and where
its tools and environment variables are used.

Not every occurrence is listed, only the explanation, headings, and the sections that use a term
most.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

from msgspec import Struct, field

from bindery.render.glossary import collect_terms
from bindery.render.text.markup import escape_attribute, escape_text

_BLOCKS = frozenset(("p", "li", "dt", "dd", "td", "pre", "h2", "h3", "h4", "h5", "h6"))
_HEADINGS = frozenset(("h2", "h3", "h4", "h5", "h6"))
_PASSED_OVER = frozenset(("note", "artifact", "caption", "figcaption", "sup"))
_WORD = re.compile(r"\w[\w+#]*(?:[-/'\u2019]\w[\w+#]*)*")
_NAME = re.compile(r"[A-Za-z_]\w*")
_VARIABLE = re.compile(r"([A-Z][A-Z0-9]+(?:_[A-Z0-9]+)+)(?:=.*)?")
_MOST_HEADINGS, _MOST_PLACES = 3, 5
"""Maximum places per subject, in addition to its explanation."""
_MOST_PAGES = 5
"""Of an entry in one line."""
_FEWEST_SUBJECTS = 5
_MAIN = ' class="main"'

Words = tuple[str, ...]


class Subject(Struct):
    """An entry of the index; it is code where it is the name of a tool or a variable. `note` has
    the other names of a term; places are ids in the book, with whether the subject is explained
    there, and chapters the titles of the chapters that they are in."""

    name: str
    note: str = ""
    is_code: bool = False
    places: dict[str, bool] = field(default_factory=dict)
    chapters: dict[str, str] = field(default_factory=dict)

    @property
    def sort_key(self) -> tuple[str, str]:
        return re.sub(r"[\W_]", "", self.name).casefold(), self.name


class _Block(Struct):
    """A piece of text, with the numbers of its chapter and section."""

    element: Any
    chapter: int
    section: int
    words: list[str]


def collect_index(root: Any, tools: Iterable[str], glossary: str) -> list[Subject]:
    """The subjects of a joined book in order; none if there are too few for an index.

    Elements that are places get an id where they have none. `glossary` is the path of the chapter
    that explains the terms of the book, if it has one.
    """
    chapters = [s for s in root.iter("section") if "chapter" in s.get("class", "").split()]
    # The appendix repeats what the chapters say about each record.
    in_text = [c for c in chapters if "appended" not in c.get("class", "").split()]
    blocks = list(_list_blocks(in_text))
    found = [
        *_index_codes(blocks, frozenset(tools)),
        *_index_terms(blocks, next((c for c in in_text if c.get("data-path") == glossary), None)),
    ]
    if len(found) < _FEWEST_SUBJECTS:
        return []
    for number, element in enumerate(dict.fromkeys(e for _, es in found for e, _ in es), 1):
        if element.get("id") is None:
            element.set("id", f"index.{number}")
    titles = {e: _read_title(chapter) for chapter in in_text for e in chapter.iter()}
    for subject, elements in found:
        for element, is_main in elements:
            identifier = element.get("id", "")
            subject.places[identifier] = subject.places.get(identifier, False) or is_main
            subject.chapters[identifier] = titles[element]
    return sorted((subject for subject, _ in found), key=lambda s: s.sort_key)


def _list_blocks(chapters: Iterable[Any]) -> Iterator[_Block]:
    """The blocks of all chapters, each with its section, counted from heading to heading."""
    section = 0
    for number, chapter in enumerate(chapters):
        section += 1
        for element in _walk_blocks(chapter):
            section += element.tag in _HEADINGS
            words = [_fold(word) for word in _WORD.findall(_read_text(element))]
            yield _Block(element, number, section, words)


def _walk_blocks(parent: Any) -> Iterator[Any]:
    """The elements that hold text and no other block."""
    for child in parent:
        if child.tag in _BLOCKS and not any(e is not child for e in child.iter(*_BLOCKS)):
            yield child
        elif child.tag not in _PASSED_OVER:
            yield from _walk_blocks(child)


def _read_title(chapter: Any) -> str:
    title = next(chapter.iter("h1"), None)
    return "" if title is None else " ".join(_read_text(title).split())


def _read_text(element: Any) -> str:
    pieces = [element.text or ""]
    for child in element:
        if child.tag not in _PASSED_OVER:
            pieces.append(_read_text(child))
        pieces.append(child.tail or "")
    return "".join(pieces)


def _fold(word: str) -> str:
    """A word normalized for comparison: in lower case, unless it is an abbreviation, and without a
    plural s."""
    if sum(character.isupper() for character in word) > 1:
        return word.removesuffix("s")
    word = word.casefold()
    return word[:-1] if len(word) > 3 and word[-1] == "s" and word[-2] != "s" else word


# --- what is in it ---

Found = tuple[Subject, list[tuple[Any, bool]]]


def _index_codes(blocks: Sequence[_Block], tools: frozenset[str]) -> Iterator[Found]:
    """A tool counts if its name is inline code, because the name may also be an ordinary word. An
    environment variable counts if two sections name it."""
    uses: dict[str, list[_Block]] = {}
    for block in blocks:
        is_code = block.element.tag == "pre"
        codes = [block.element] if is_code else block.element.iter("code")
        named: set[str] = set()
        for code in map(_read_text, codes):
            named.update(tools.intersection(_NAME.findall(code)))
            if not is_code and (variable := _VARIABLE.fullmatch(code)):
                named.add(variable[1])
        for name in sorted(named):
            uses.setdefault(name, []).append(block)
    for name, where in uses.items():
        if name in tools or len({block.section for block in where}) > 1:
            yield Subject(name, is_code=True), _choose_places(where, None)


def _index_terms(blocks: Sequence[_Block], glossary: Any) -> Iterator[Found]:
    """The terms of the glossary with the places that use one of their names."""
    terms = [] if glossary is None else collect_terms(glossary, is_glossary=True)
    by_element = {block.element: block for block in blocks}
    explained = {element.get("id"): element for element in glossary.iter()} if terms else {}
    names = {
        tuple(map(_fold, _WORD.findall(name))): term.anchor for term in terms for name in term.names
    }
    uses = _find_uses(blocks, names)
    for term in terms:
        main = next((by_element[e] for e in explained[term.anchor].iter() if e in by_element), None)
        others = [block for block in uses[term.anchor] if block is not main]
        aliases = [name for name in term.names if name.casefold() != term.name.casefold()]
        yield Subject(term.name, ", ".join(aliases)), _choose_places(others, main)
        for alias in aliases:
            yield Subject(alias, term.name), _choose_places([], main)


def _find_uses(blocks: Sequence[_Block], names: Mapping[Words, str]) -> Mapping[str, list[_Block]]:
    """The blocks that contain one of the names of each term, in reading order. `names` are terms
    by the words of their names."""
    by_first: dict[str, list[Words]] = {}
    for words in filter(None, names):
        by_first.setdefault(words[0], []).append(words)
    uses: dict[str, list[_Block]] = defaultdict(list)
    for block in blocks:
        if block.element.tag in ("pre", "td"):
            continue
        hits = {
            names[words]: None
            for position, word in enumerate(block.words)
            for words in by_first.get(word, ())
            if tuple(block.words[position : position + len(words)]) == words
        }
        for term in hits:
            uses[term].append(block)
    return uses


def _choose_places(where: Sequence[_Block], main: _Block | None) -> list[tuple[Any, bool]]:
    """The explanation, a few headings, and the first use in each of the sections that use a word
    most, in reading order."""
    headings = [block for block in where if block.element.tag in _HEADINGS]
    chosen = {id(block) for block in headings[:_MOST_HEADINGS]}
    # Of each chapter the section that uses it most comes first, then the others.
    sections = Counter((block.section, block.chapter) for block in where)
    seen = {main.chapter} if main is not None else set()
    first_of_chapters: list[int] = []
    rest: list[int] = []
    for (section, chapter), _ in sections.most_common():
        (rest if chapter in seen else first_of_chapters).append(section)
        seen.add(chapter)
    known = {block.section for block in where if id(block) in chosen}
    if main is not None:
        known.add(main.section)
    for section in (*first_of_chapters, *rest):
        if section not in known and len(chosen) < _MOST_PLACES:
            chosen.add(id(next(block for block in where if block.section == section)))
    places = [(block.element, False) for block in where if id(block) in chosen]
    return [(main.element, True), *places] if main is not None else places


# --- writing it ---


def write_index(subjects: Iterable[Subject], numbers: Mapping[str, int]) -> str:
    """The index as XHTML. `numbers` are the pages of places; one page is named once."""
    lines = []
    for letter, group in groupby(subjects, key=_find_letter):
        lines.append(f'<p class="letter">{letter}</p>')
        lines += (_write_entry(subject, numbers) for subject in group)
    return "\n".join(lines)


def _find_letter(subject: Subject) -> str:
    first = subject.sort_key[0][:1].upper()
    return first if first.isalpha() else "#"


def _write_entry(subject: Subject, numbers: Mapping[str, int]) -> str:
    """An entry. If it has many pages, those of each chapter are in a line below it."""
    pages: dict[int, tuple[str, bool]] = {}
    for anchor, is_main in subject.places.items():
        number = numbers.get(anchor)
        if number is not None and (is_main or number not in pages):
            pages[number] = anchor, is_main
    lines: dict[str, list[str]] = {"": []}
    for number, (anchor, is_main) in sorted(pages.items()):
        is_apart = len(pages) > _MOST_PAGES and not is_main
        link = f'<a href="#{escape_attribute(anchor)}"{_MAIN if is_main else ""}>{number}</a>'
        lines.setdefault(subject.chapters[anchor] if is_apart else "", []).append(link)
    name = escape_text(subject.name)
    if subject.is_code:
        name = f"<code>{name}</code>"
    if subject.note:
        name += f" ({escape_text(subject.note)})"
    entry = f'<p class="entry">{name} {", ".join(lines.pop(""))}</p>'
    subentries = (
        f'<p class="subentry">{escape_text(title)} {", ".join(links)}</p>'
        for title, links in lines.items()
    )
    return "\n".join((entry, *subentries))
