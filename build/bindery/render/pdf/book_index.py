"""The index of a printed book: where its terms are explained and its tools are used.

Terms are those of the glossary, if the book has one, words in italics where they are explained,
and abbreviations with their long form. Names are words that look like one and occur in several
sections: abbreviations, products, programs, environment variables. Not every occurrence is listed:
the place of the explanation, headings, and the sections that use it most.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from xml.etree.ElementTree import Element

from bindery.render.text.markup import escape_attribute, escape_text

_BLOCKS = frozenset(("p", "li", "dt", "dd", "td", "pre", "h2", "h3", "h4", "h5", "h6"))
_HEADINGS = frozenset(("h2", "h3", "h4", "h5", "h6"))
_PASSED_OVER = frozenset(("note", "artifact", "caption", "figcaption"))
_WORD = re.compile(r"\w[\w+#]*(?:[-/'\u2019]\w[\w+#]*)*")
_NAME = re.compile(r"[A-Za-z_]\w*")
_ABBREVIATION = re.compile(r"\(([A-Z][A-Za-z]*[A-Z])s?\)")
_SMALL_WORDS = frozenset(
    "a all an and any as at both by each every few for from if in into is it its many more most"
    " no not of on one or our over per same so some such than that the their these this those to"
    " two under what when where which who why with your".split()
)
_LONG_FORM = re.compile(r"\b([A-Z][A-Za-z]*[A-Z])s? \(([^()]+)\)")
_LONGEST_TERM = 4
_MOST_HEADINGS, _MOST_PLACES = 3, 5
"""Of a subject, in addition to the place where it is explained."""
_FEWEST_SUBJECTS = 5

_TEXT = frozenset(("p", "li", "dt", "dd"))
_TEXT_AND_CELLS = _TEXT | {"td"}
_CODE = frozenset(("code", "kbd", "samp"))
_BREAK = " \0 "
_LETTERS = re.compile(r"(?<![\w./-])[A-Za-z][A-Za-z0-9]*(?:-[A-Za-z0-9]+)*(?![\w/-])")
_PART_OF_NAME = re.compile(
    r"[A-Za-z]*[A-Z][A-Za-z0-9]*[A-Z][A-Za-z0-9]*|[A-Z]+\d{2,}[A-Z]*|[A-Z]+\d+"
)
_VARIABLE = re.compile(r"([A-Z][A-Z0-9]+(?:_[A-Z0-9]+)+)(?:=.*)?")
_IDENTIFIER = re.compile(r"[a-z][a-z0-9]*(?:(?:[._]|-(?!-))[a-z0-9]+)+(?:\(\))?")
_PROGRAM = re.compile(r"([a-z][a-z0-9_-]*) +(?:[a-z]+ +)?--?[A-Za-z]")
_FILE = re.compile(
    r".*\.(?:c|conf|cpp|csv|h|html|ini|js|json|log|md|out|pdf|pt|py|sh|so|toml|txt|ya?ml)"
)
_UNIT = re.compile(
    r"[kKMGTPEZ]i?[bB](?:ps|s|it|its|E|ytes)?|[kKMGTPEZ]?Hz|[kMGTPEZ]FLOPs?|[kMGTPEZ]FLOPS|[kMGT]Wh?"
    r"|GT|MT|TOPS|[kMGT]bps"
)
_NO_NAMES = frozenset(
    "AI AM API ASCII CI CSV CV EU EUR FAQ GNU HTML HTTP HTTPS ID IDs IMHO IO IP IS ISO IT JSON"
    " LICENSE ML NB NOT OK OS PC PDF PM PR PS README TLDR TODO UI UK URL US USA USD UTC XXX YAML"
    " January February March April May June July August September October November December".split()
)
"""Written like names, but not worth an entry."""
_EVERYDAY = frozenset(
    "awk bash cat cd chmod cp curl df diff du echo env export find git grep head kill ls make mkdir"
    " mv pip pip3 ps python python3 rm rsync sed set sh sort ssh sudo tail tar test watch".split()
)
"""Programs of every shell."""
_FEWEST_SECTIONS = 3
_COMMON_SHARE, _FEWEST_CHAPTERS = 4 / 5, 8
"""A name that more of the chapters have than this is what the book is about; in a book of fewer
chapters that cannot be said."""

_MAIN = ' class="main"'

Words = tuple[str, ...]


@dataclass(slots=True)
class Subject:
    """An entry of the index; it is code where it is the name of a tool, a program or a variable.
    `note` is the long form of an abbreviation; places are ids in the book, with whether the
    subject is explained there."""

    name: str
    note: str = ""
    is_code: bool = False
    places: dict[str, bool] = field(default_factory=dict)

    @property
    def sort_key(self) -> tuple[str, str]:
        return re.sub(r"[\W_]", "", self.name).casefold(), self.name


@dataclass(slots=True)
class _Block:
    """A piece of text, with its chapter and its section, by their count."""

    element: Element
    chapter: int
    section: int
    text: str
    words: list[str]


def collect_index(root: Element, tools: Iterable[str], glossary: str) -> list[Subject]:
    """The subjects of a joined book in their order; nothing if they are too few for an index.

    Elements that are places get an id where they have none. `glossary` is the path of the chapter
    that explains the terms of the book, if it has one.
    """
    sections = [s for s in root.iter("section") if "chapter" in s.get("class", "").split()]
    blocks = list(_number_sections(sections))
    paths = [section.get("data-path", "") for section in sections]
    tools = frozenset(tools)
    appended = {n for n, s in enumerate(sections) if "appended" in s.get("class", "").split()}
    in_text = [block for block in blocks if block.chapter not in appended]
    terms = _list_explained(in_text, paths.index(glossary) if glossary in paths else None)
    kept: dict[str, Found] = {}
    for entry in (*_index_tools(blocks, tools), *_index_terms(in_text, terms, tools)):
        kept.setdefault(entry[0].name.casefold(), entry)
    found = list(kept.values())
    if len(found) < _FEWEST_SUBJECTS:
        return []
    for number, element in enumerate(dict.fromkeys(e for _, es in found for e, _ in es), 1):
        if element.get("id") is None:
            element.set("id", f"index.{number}")
    for subject, elements in found:
        for element, is_main in elements:
            identifier = element.get("id", "")
            subject.places[identifier] = subject.places.get(identifier, False) or is_main
    return sorted((subject for subject, _ in found), key=lambda s: s.sort_key)


def _number_sections(chapters: Iterable[Element]) -> Iterator[_Block]:
    """The blocks of all chapters, each with its section, counted from heading to heading."""
    section = 0
    for number, chapter in enumerate(chapters):
        section += 1
        for block in _list_blocks(chapter, number):
            section += block.element.tag in _HEADINGS
            block.section = section
            yield block


def _list_blocks(section: Element, chapter: int) -> Iterator[_Block]:
    for child in section:
        if child.tag in _PASSED_OVER:
            continue
        if child.tag in _BLOCKS and not any(
            e.tag in _BLOCKS for e in child.iter() if e is not child
        ):
            text = _read_text(child, _PASSED_OVER | {"sup"})
            yield _Block(child, chapter, 0, text, [_fold(w) for w in _WORD.findall(text)])
        else:
            yield from _list_blocks(child, chapter)


def _read_text(element: Element, without: frozenset[str]) -> str:
    """The text of an element, with a break in place of the elements of these names."""
    pieces: list[str] = []

    def read(part: Element) -> None:
        pieces.append(part.text or "")
        for child in part:
            if child.tag in without:
                pieces.append("" if child.tag == "sup" else _BREAK)
            else:
                read(child)
            pieces.append(child.tail or "")

    read(element)
    return " ".join("".join(pieces).split())


def _fold(word: str) -> str:
    """A word in the form in which it is compared: in small letters, unless it is an abbreviation,
    and without the s of the plural."""
    if sum(character.isupper() for character in word) > 1:
        return word.removesuffix("s")
    word = word.casefold()
    return word[:-1] if len(word) > 3 and word[-1] == "s" and word[-2] != "s" else word


Found = tuple[Subject, list[tuple[Element, bool]]]


# --- tools ---


def _index_tools(blocks: Sequence[_Block], tools: Iterable[str]) -> Iterator[Found]:
    """A tool counts where its name is code: it may be a usual word as well."""
    names = frozenset(tools)
    uses: dict[str, list[_Block]] = {name: [] for name in sorted(names)}
    for block in blocks:
        codes = [block.element] if block.element.tag == "pre" else block.element.iter("code")
        used = {word for code in codes for word in _NAME.findall("".join(code.itertext()))}
        if block.element.tag in _HEADINGS:
            used |= {word for word in _NAME.findall(block.text) if "_" in word}
        for name in used & names:
            uses[name].append(block)
    for name, where in uses.items():
        if where:
            yield Subject(name, is_code=True), _choose_places(where, None)


# --- terms ---


@dataclass(slots=True)
class _Term:
    """What may become a subject. `main` is where it is explained. It is sure where that is told
    by more than the way in which it is set."""

    subject: Subject
    main: _Block | None
    is_sure: bool = False


def _index_terms(
    blocks: Sequence[_Block],
    explained: Mapping[Words, _Term],
    tools: frozenset[str],
) -> Iterator[Found]:
    explained_uses = _find_uses(blocks, explained)
    chosen: set[Words] = set()
    for words, term in explained.items():
        others = [other for other in explained_uses[words] if other is not term.main]
        # A word in italics that is never used again was stressed, not explained.
        if term.is_sure or len({other.text for other in others}) > 1:
            chosen.add(words)
            yield term.subject, _choose_places(others, term.main)
    names = {w: n for w, n in _list_names(blocks).items() if w not in chosen}
    uses = _find_uses(blocks, names, frozenset(("pre",)))
    for words, name in names.items():
        if where := uses[words]:
            main = _find_main(name, words, where)
            yield Subject(name), _choose_places([b for b in where if b is not main], main)
    yield from _index_codes(blocks, tools)


def _list_explained(blocks: Sequence[_Block], glossary: int | None) -> dict[Words, _Term]:
    explained: dict[Words, _Term] = {}
    for block in blocks:
        if block.element.tag == "pre":
            continue
        is_glossary = block.chapter == glossary
        for name, note in _list_terms(block.element, block.text, is_glossary=is_glossary):
            words = _split(name)
            known = explained.get(words)
            if words and (known is None or (is_glossary and not known.is_sure)):
                explained[words] = known = _Term(Subject(name, note), block)
            if known is not None and (note or is_glossary):
                known.is_sure = True
    return explained


def _split(name: str) -> Words:
    return tuple(_fold(word) for word in _WORD.findall(name))


def _list_terms(element: Element, text: str, *, is_glossary: bool) -> Iterator[tuple[str, str]]:
    """The terms that a block explains, each with its long form where it is an abbreviation."""
    for match in _ABBREVIATION.finditer(text):
        if long_form := _find_long_form(match[1], text[: match.start()]):
            yield match[1], long_form
    for match in _LONG_FORM.finditer(text):
        if _find_long_form(match[1], match[2]) == match[2]:
            yield match[1], match[2]
    if is_glossary:
        first = element if element.tag == "dt" else next(element.iter("strong"), None)
        if first is not None and (name := _read_term(first)):
            yield name, ""
    elif element.tag not in _HEADINGS:
        for emphasis in element.iter("em"):
            name = _read_term(emphasis)
            if 0 < len(name.split()) <= _LONGEST_TERM and _is_term(name, text):
                yield name, ""


def _read_term(element: Element) -> str:
    return " ".join("".join(element.itertext()).split()).strip(" .,:;()")


def _is_term(name: str, text: str) -> bool:
    """Whether words in italics look like a term and not like words that are stressed: they stand
    in parentheses behind what they mean, or are several words, or letters of an abbreviation."""
    words = name.casefold().split()
    is_label = len(words) > 1 and name[0].isupper() and name[1:].islower()
    if is_label and not text.startswith(name):
        return False  # a label or a title, with its capital inside a sentence
    if not name[0].isalpha() or not _SMALL_WORDS.isdisjoint(words):
        return False
    is_abbreviation = len(words) == 1 and sum(character.isupper() for character in name) > 1
    return len(words) > 1 or is_abbreviation or f"({name})" in text


def _find_long_form(letters: str, before: str) -> str:
    """The words before an abbreviation whose first letters it is made of."""
    words = before.split()
    wanted = letters.casefold()
    for count in range(len(wanted), len(wanted) + 4):
        tail = words[-count:] if count <= len(words) else []
        parts = [part for word in tail for part in word.casefold().split("-") if part]
        own = [part for part in parts if part not in _SMALL_WORDS]
        if wanted and wanted in ("".join(p[0] for p in parts), "".join(p[0] for p in own)):
            while tail[0].casefold() in _SMALL_WORDS:
                del tail[0]
            return " ".join(tail).strip("(,;:")
    return ""


# --- names ---


def _list_names(blocks: Sequence[_Block]) -> dict[Words, str]:
    """What is written like a name in several sections of the text, by its words."""
    forms: dict[Words, Counter[str]] = defaultdict(Counter)
    sections: dict[Words, set[int]] = defaultdict(set)
    chapters: dict[Words, set[int]] = defaultdict(set)
    headed: set[Words] = set()
    small: Counter[str] = Counter()
    for block in blocks:
        is_heading = block.element.tag in _HEADINGS
        if not is_heading and block.element.tag not in _TEXT_AND_CELLS:
            continue
        text = _read_text(block.element, _CODE | _PASSED_OVER | {"sup"})
        small.update(re.findall(r"(?<![\w-])[a-z]+(?![\w-])", text))
        found = [name for name in _LETTERS.findall(text) if _is_name(name)]
        for name in found:
            words = _split(name)
            forms[words][name] += 1
            sections[words].add(block.section)
            chapters[words].add(block.chapter)
            if is_heading:
                headed.add(words)
    count = len({block.chapter for block in blocks})
    names: dict[Words, str] = {}
    for words, spelled in forms.items():
        name = min(spelled, key=lambda form: (words[-1] != form.split()[-1], -spelled[form], form))
        total = sum(spelled.values())
        fewest = _FEWEST_SECTIONS - 1 if words in headed else _FEWEST_SECTIONS
        is_spread = len(sections[words]) >= fewest and not _is_common(chapters[words], count)
        is_word = max(small[name.casefold()], small[name.split()[0].casefold()]) >= total
        if is_spread and not is_word and name not in _NO_NAMES and not _UNIT.fullmatch(name):
            names[words] = name
    return {
        words: name
        for words, name in sorted(names.items(), key=lambda item: -len(sections[item[0]]))
        if not (name[-1].isdigit() and (name.rstrip("0123456789"),) in names)
    }


def _is_common(chapters: Collection[int], count: int) -> bool:
    return count >= _FEWEST_CHAPTERS and len(chapters) > _COMMON_SHARE * count


def _is_name(word: str) -> bool:
    """Whether a word is an abbreviation, or has a capital inside, or letters and a number."""
    parts = word.split("-")
    return any(map(_PART_OF_NAME.fullmatch, parts)) and (
        len(parts) == 1 or all(part[0].isupper() or part.isdigit() for part in parts)
    )


def _find_main(name: str, words: Words, where: Sequence[_Block]) -> _Block | None:
    """Where a name is explained: under a heading that says little else, where it is set apart
    in bold or italics, or where a gloss follows it in parentheses."""
    for block in where:
        if block.element.tag in _HEADINGS and len(block.words) <= len(words) + 2:
            return block
    for block in where:
        stressed = [e for e in block.element.iter() if e.tag in ("strong", "b", "em", "dfn")]
        if any(_split(_read_term(element)) == words for element in stressed):
            return block
    gloss = re.compile(rf"(?<!\w){re.escape(name)}s? \([^()\d]+ [^()\d]+\)")
    return next((block for block in where if gloss.search(block.text)), None)


def _index_codes(blocks: Sequence[_Block], tools: frozenset[str]) -> Iterator[Found]:
    """Variables of the environment, programs and functions that the text names in several
    sections."""
    uses: dict[str, list[_Block]] = defaultdict(list)
    for block in blocks:
        if block.element.tag not in _TEXT and block.element.tag not in _HEADINGS:
            continue
        named: set[str] = set()
        for element in block.element.iter("code"):
            code = " ".join("".join(element.itertext()).split())
            if match := _VARIABLE.fullmatch(code) or _PROGRAM.match(code):
                named.add(match[1])
            elif _IDENTIFIER.fullmatch(code) and not _FILE.fullmatch(code):
                named.add(code.removesuffix("()"))
        for name in sorted(named - tools - _EVERYDAY):
            uses[name].append(block)
    count = len({block.chapter for block in blocks})
    for name, where in uses.items():
        fewest = _FEWEST_SECTIONS - 1 if _VARIABLE.fullmatch(name) else _FEWEST_SECTIONS
        is_spread = len({block.section for block in where}) >= fewest
        if is_spread and not _is_common({block.chapter for block in where}, count):
            yield Subject(name, is_code=True), _choose_places(where, None)


# --- places ---


def _find_uses(
    blocks: Sequence[_Block],
    terms: Mapping[Words, object],
    passed_over: frozenset[str] = frozenset(("pre", "td")),
) -> Mapping[Words, list[_Block]]:
    """The blocks that contain each term, in reading order."""
    by_first: dict[str, list[Words]] = {}
    for words in terms:
        by_first.setdefault(words[0], []).append(words)
    uses: dict[Words, list[_Block]] = {words: [] for words in terms}
    for block in blocks:
        if block.element.tag in passed_over:
            continue
        hits: set[Words] = set()
        for position, word in enumerate(block.words):
            for words in by_first.get(word, ()):
                if tuple(block.words[position : position + len(words)]) == words:
                    hits.add(words)
        for words in hits:
            uses[words].append(block)
    return uses


def _choose_places(where: Sequence[_Block], main: _Block | None) -> list[tuple[Element, bool]]:
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
    pages: dict[int, tuple[str, bool]] = {}
    for anchor, is_main in subject.places.items():
        number = numbers.get(anchor)
        if number is not None and (is_main or number not in pages):
            pages[number] = anchor, is_main
    links = ", ".join(
        f'<a href="#{escape_attribute(anchor)}"{_MAIN if is_main else ""}>{number}</a>'
        for number, (anchor, is_main) in sorted(pages.items())
    )
    name = escape_text(subject.name)
    if subject.is_code:
        name = f"<code>{name}</code>"
    if subject.note:
        name += f" ({escape_text(subject.note)})"
    return f'<p class="entry">{name} {links}</p>'
