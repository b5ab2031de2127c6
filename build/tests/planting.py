"""Defects, planted at random right places into copies of a real book.

A plant knows which rule has to find it, and where; a decoy is the same text where it is right, or
where it is no text of the book. Pieces of sentences come from `plants`, sums and tables from
`untruths`; to have another kind of lines or of files planted, add an entry to `BLOCKS` or `FILES`.
"""

from __future__ import annotations

import posixpath
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from bindery.book.load import is_left_out
from bindery.check.inspect import Inspection
from bindery.core.model import Chapter, Finding
from plants import KINDS, Ground, Phrase, make_right_image, make_right_link, write_image, write_link
from untruths import TRUTHS, UNTRUTHS, Claim

SVG = '<svg xmlns="http://www.w3.org/2000/svg" width="8" height="8"><path d="M0 0h8v8z"/></svg>\n'


@dataclass(frozen=True)
class Expected:
    """The finding of a plant. `row` is counted within what is planted until it is in place."""

    rule: str
    row: int
    typed: str = ""
    """What the finding has to stand under, as far as it goes on one line."""
    answer: str = ""
    """What the advice has to name."""
    kind: str = ""
    path: str = ""


@dataclass(frozen=True)
class Block:
    """Lines to plant between two paragraphs, and what has to be found in them."""

    lines: tuple[str, ...]
    expected: tuple[Expected, ...] = ()


# --- places for a phrase ---------------------------------------------------------------------


def _wrap(ground: Ground, phrase: Phrase) -> tuple[list[str], int]:
    """The phrase in a construct of Markdown, and the row where it begins."""
    word, t = ground.word(), phrase.text
    if "\n" in t:
        return [*f"Here is {t} there.".split("\n")], 0
    raw: list[tuple[list[str], int]] = []
    if phrase.is_html:
        raw = [
            (["<p>", f"  Here is {t}", "</p>"], 1),
            (["<dl><dt>One</dt>", f"<dd>{t}</dd></dl>"], 1),
            (["<table>", "<tr><td>", t, "</td></tr>", "</table>"], 2),
        ]
    wrappers: list[tuple[list[str], int]] = [
        ([f"Here is {t} there."], 0),
        (["Some words,", f"  then {t} there,", "then more."], 1),
        ([f"A {word}, **in bold {t}**, *and more*."], 0),
        (["- one", f"- two {t}", "- three"], 1),
        (["1. one", "   - two", "", f"     three {t}", "2. four"], 3),
        (["- [ ] one", f"- [x] two {t}"], 1),
        (["| a | b |", "|---|:-:|", f"| `x\\|y` \\| {t} | {word} |"], 2),
        (["a | b", "--- | ---", f"{word} | see {t}"], 2),
        (["> one", f"> two {t}"], 1),
        (["> - one", f">   - two {t}", ">", "> three"], 1),
        (["> [!NOTE]", f"> Here is {t}."], 1),
        ([f"### A {word} with {t} in it"], 0),
        ([f"A {word} with {t}", "==="], 0),
        ([f"Is this so, {t}? (And {word}.)"], 0),
        ([f"Words[^{word}].", "", f"[^{word}]: A note with {t} in it."], 2),
        ([f"Words[^{word}].", "", f"[^{word}]: A note.", "", f"    With {t} in it."], 4),
        (["<div>", "", f"Words and {t} there.", "", "</div>"], 2),
        (["<details><summary>More</summary>", "", f"Words, {t}.", "", "</details>"], 2),
        ([f"Words, `code`, ``co`de``, \\[escaped\\](x y), {t} &amp; <b>more</b>."], 0),
    ]
    return ground.rng.choice(raw + wrappers if not raw else [*raw * 3, *wrappers])


def _make_block(ground: Ground, phrase: Phrase, kind: str = "") -> Block:
    lines, row = _wrap(ground, phrase)
    expected: tuple[Expected, ...] = ()
    if phrase.rule:
        row += phrase.row
        expected = (Expected(phrase.rule, row, phrase.typed, phrase.answer, kind),)
    return Block((*lines, "", *phrase.behind), expected)


# --- blocks that are wrong by themselves -----------------------------------------------------


def _unused_definition(ground: Ground) -> Block:
    word, path = ground.word(), ground.lead(ground.pick().path)
    lines = ground.rng.choice(
        (
            (f"[{word}]: {path}",),
            (f"> [{word}]: <{path}>",),
            ("- words", "", f"  [{word}]: {path} 'a title'"),
        )
    )
    return Block(lines, (Expected("unused-reference", len(lines) - 1, f"[{word}]"),))


def _dead_unused_definition(ground: Ground) -> Block:
    word = ground.word()
    gone = Expected("dead-link", 0, f"{word}.md")
    return Block((f"[{word}]: {word}.md",), (gone, Expected("unused-reference", 0, f"[{word}]")))


def _unused_footnote(ground: Ground) -> Block:
    word = ground.word()
    return Block(
        (f"[^{word}]: A note.", "", "    And more of it."),
        (Expected("unused-reference", 0, f"[^{word}]"),),
    )


def _repeated_definition(ground: Ground) -> Block:
    word, path = ground.word(), ground.lead(ground.pick().path)
    return Block(
        (f"See [{word}].", "", f"[{word}]: {path}", f"[{word.upper()}]: https://example.org/"),
        (Expected("repeated-reference", 3, f"[{word.upper()}]"),),
    )


def _definition_that_stands_twice(ground: Ground) -> Block:
    word, path = ground.word(), ground.lead(ground.pick().path)
    return Block(
        (f"See [{word}].", "", f"[{word}]: {path}", "", f"> [{word}]: {path}"),
        (Expected("unused-reference", 4, f"[{word}]"),),
    )


def _repeated_footnote(ground: Ground) -> Block:
    word = ground.word()
    return Block(
        (f"Words[^{word}].", "", f"[^{word}]: One.", "", f"[^{word}]: Two."),
        (Expected("repeated-reference", 4, f"[^{word}]"),),
    )


def _definition_in_a_paragraph(ground: Ground) -> Block:
    word = ground.word()
    return Block(
        (f"See [the {word}][{word}].", f"[{word}]: https://example.org/"),
        (Expected("undefined-reference", 0, f"[the {word}][{word}]", "line"),),
    )


def _anchor_of_a_heading(ground: Ground) -> Block:
    word = ground.word()
    return Block(
        (f"## The {word}", "", f'<a id="the-{word}"></a>', "", "Words."),
        (Expected("duplicate-anchor", 2, f'<a id="the-{word}">'),),
    )


def _anchor_that_stands_twice(ground: Ground) -> Block:
    word = ground.word()
    return Block(
        (f'Words <a name="{word}"></a>.', "", f"- more <a id='{word}'></a>"),
        (Expected("duplicate-anchor", 2, f"<a id='{word}'>"),),
    )


def _heading_whose_number_is_taken(ground: Ground) -> Block:
    word = ground.word()
    return Block(
        (f"## A {word}", "", f"## A {word}", "", f"## A {word} 1"),
        (Expected("duplicate-anchor", 4, f"## A {word} 1"),),
    )


def _make_claim(make: Callable[[Ground], Claim]) -> Callable[[Ground], Block]:
    def plant_claim(ground: Ground) -> Block:
        claim = make(ground)
        expected = (Expected(claim.rule, claim.row, claim.typed, claim.answer),)
        return Block(claim.lines, expected if claim.rule else ())

    return plant_claim


BLOCKS: dict[str, Callable[[Ground], Block]] = {
    **{kind: _make_claim(make) for kind, make in UNTRUTHS.items()},
    "unused definition": _unused_definition,
    "dead unused definition": _dead_unused_definition,
    "unused footnote": _unused_footnote,
    "repeated definition": _repeated_definition,
    "definition that stands twice": _definition_that_stands_twice,
    "repeated footnote": _repeated_footnote,
    "definition in a paragraph": _definition_in_a_paragraph,
    "anchor of a heading": _anchor_of_a_heading,
    "anchor that stands twice": _anchor_that_stands_twice,
    "heading whose number is taken": _heading_whose_number_is_taken,
}


# --- decoys ----------------------------------------------------------------------------------


def _hide(ground: Ground, phrase: Phrase) -> list[str]:
    """Lines in which a defect is none, for it is not read as text of the book."""
    t = phrase.text.replace("\n", " ")
    escaped = t.replace("[", "\\[").replace("<", "\\<")
    ways = [
        [f"Words `{t}` there."] if "`" not in t else [f"Words ``{t}`` there."],
        [f"- words ``` {t} ``` there"],
        ["```", t, "```"],
        ["````markdown", "```", t, "```", t, "````"],
        ["~~~", t, "~~~~"],
        ["- words", "", "  ```text", f"  {t}", "  ```"],
        ["> ~~~", f"> {t}", "> ~~~"],
        ["Words:", "", f"    {t}", "", "more words."],
        [f"<!-- {t} -->"],
        ["<!--", t, "", t, "-->"],
        [f"Words <!-- {t} --> there."],
    ]
    if "://" not in t:  # a bare address is a link by itself
        ways.append([f"Words {escaped} there."])
    if "<" not in t:
        ways.append(["<div>", t, "</div>"])
    return ground.rng.choice(ways)


RIGHT_BLOCKS = (
    ("A class of characters [^a-z]*, an index a[i][j], [1][2], [OPTIONS][ARGS], [sic], [x] [y].",),
    ("- [ ] a task", "- [x] another", "- [X] a third"),
    ("Mail <me@example.org>, <https://example.org/>, www.example.org and https://example.org/a.",),
    ("Twice the same[^{w}], and again[^{w}].", "", "[^{w}]: A note.", "", "    - with a list"),
    ("See [{w}] and [the same][{w}].", "", "[{w}]: https://example.org/ 'a title'"),
    ("## {w}", "", "## {w}", "", "## {w}"),
    ("A backslash at the end of `[{w}](x\\`, and \\![{w}\\](gone.md).",),
    ("> [!TIP]", "> Words."),
)


def make_decoy(ground: Ground) -> Block:
    """Lines in which nothing is wrong, though something looks so."""
    draw = ground.rng.random()
    if draw < 0.2:
        return _make_claim(ground.rng.choice(TRUTHS))(ground)
    if draw < 0.5:
        kind = ground.rng.choice(list(KINDS))
        return Block(tuple(_hide(ground, KINDS[kind](ground))))
    if draw < 0.8:
        return _make_block(ground, write_link(ground, make_right_link(ground)))
    if draw < 0.9:
        return _make_block(ground, write_image(ground, make_right_image(ground)))
    word = ground.word()
    return Block(tuple(line.format(w=word) for line in ground.rng.choice(RIGHT_BLOCKS)))


# --- a whole book ----------------------------------------------------------------------------


@dataclass
class Field:
    """A copy of a book with plants in it."""

    root: Path
    expected: list[Expected] = field(default_factory=list)
    """What has to be found, rows being lines of the files."""
    shifts: dict[str, list[tuple[int, int]]] = field(default_factory=dict)
    """For each file, behind which line how many lines were put in."""

    def move_line(self, path: str, line: int) -> int:
        """Where a line of the book stands now."""
        return line + sum(count for after, count in self.shifts.get(path, ()) if after < line)


def _find_sites(inspection: Inspection, chapter: Chapter) -> list[int]:
    """The lines behind which a block can stand: ends of paragraphs that stand for themselves."""
    regions = inspection.quotations[chapter.path].regions
    lines = chapter.lines
    sites = []
    depth = 0
    for token in chapter.tokens:
        if token.type == "paragraph_open" and token.level == 0 and token.map and not depth:
            end = token.map[1]
            inside = any(r.opening.line <= end <= r.closing.line for r in regions)
            if not inside and (end >= len(lines) or not lines[end].strip()):
                sites.append(end)
        if token.type == "html_block":
            depth += token.content.count("<details") - token.content.count("</details")
            depth += token.content.count("<div") - token.content.count("</div")
    return sites


def _plant_blocks(inspection: Inspection, rng: random.Random, planted: Field, plants: int) -> None:
    kinds = [*KINDS, *BLOCKS]
    rng.shuffle(kinds)
    sites = [(c, site) for c in inspection.book.chapters for site in _find_sites(inspection, c)]
    chosen = sorted(
        rng.sample(sites, min(plants + plants // 2, len(sites))),
        key=lambda entry: (entry[0].path, entry[1]),
    )
    order = list(range(len(chosen)))
    rng.shuffle(order)
    made: dict[str, list[tuple[int, Block]]] = {}
    for number, index in enumerate(order):
        chapter, site = chosen[index]
        ground = Ground(rng, inspection, chapter)
        kind = kinds[number % len(kinds)]
        if number >= plants:
            block = make_decoy(ground)
        elif kind in KINDS:
            block = _make_block(ground, KINDS[kind](ground))
        else:
            block = BLOCKS[kind](ground)
        named = tuple(replace(e, kind=kind, path=chapter.path) for e in block.expected)
        made.setdefault(chapter.path, []).append((site, replace(block, expected=named)))
    for path, blocks in made.items():
        _write_blocks(planted, path, sorted(blocks, key=lambda entry: entry[0]))


def _write_blocks(planted: Field, path: str, blocks: Sequence[tuple[int, Block]]) -> None:
    file = planted.root / path
    lines = file.read_text(encoding="utf-8").split("\n")
    shift = 0
    for site, block in blocks:
        put = ["", *block.lines, "", "<!-- words -->", ""]
        lines[site + shift : site + shift] = put
        for expected in block.expected:
            planted.expected.append(replace(expected, row=site + shift + 2 + expected.row))
        planted.shifts.setdefault(path, []).append((site, len(put)))
        shift += len(put)
    file.write_text("\n".join(lines), encoding="utf-8")


# --- files -----------------------------------------------------------------------------------


def _unlisted_chapter(ground: Ground, root: Path) -> Expected:
    path = _make_path(ground, ".md")
    (root / path).write_text("# Words\n", encoding="utf-8")
    return Expected("unlisted-chapter", 1, path=path)


def _image_that_nobody_shows(ground: Ground, root: Path) -> Expected:
    path = _make_path(ground, ".svg")
    (root / path).write_text(SVG, encoding="utf-8")
    return Expected("orphan-file", 1, path=path)


def _program_that_nobody_names(ground: Ground, root: Path) -> Expected:
    path = _make_path(ground, ground.rng.choice((".py", ".txt", ".sh")))
    (root / path).write_text("pass\n", encoding="utf-8")
    return Expected("orphan-file", 1, path=path)


def _chapter_that_is_gone(ground: Ground, root: Path) -> Expected:
    file = root / "chapters.yaml"
    lines = file.read_text(encoding="utf-8").split("\n")
    entry = ground.rng.choice(ground.inspection.config.chapters)
    text = lines[entry.span.line - 1]
    indent = text[: len(text) - len(text.lstrip())]
    word = ground.word()
    lines.insert(entry.span.line, f"{indent}- {word}.md")
    file.write_text("\n".join(lines), encoding="utf-8")
    return Expected("missing-chapter", entry.span.line + 1, f"{word}.md", path="chapters.yaml")


def _make_path(ground: Ground, suffix: str) -> str:
    chapters = ground.inspection.book.chapters
    homes = sorted({posixpath.dirname(c.path) for c in chapters} - {""})
    paths = [posixpath.join(home, ground.word() + suffix) for home in homes]
    config = ground.inspection.config
    return ground.rng.choice([path for path in paths if not is_left_out(path, config)])


FILES: dict[str, Callable[[Ground, Path], Expected]] = {
    "unlisted chapter": _unlisted_chapter,
    "image that nobody shows": _image_that_nobody_shows,
    "program that nobody names": _program_that_nobody_names,
    "chapter that is gone": _chapter_that_is_gone,
}


def plant(inspection: Inspection, seed: int, plants: int) -> Field:
    """Plant so many defects, and half as many decoys, into a book that was inspected, which is
    changed. The same seed gives the same plants."""
    root = inspection.config.root
    rng = random.Random(seed)
    planted = Field(root)
    _plant_blocks(inspection, rng, planted, plants)
    for kind, make in FILES.items():
        ground = Ground(rng, inspection, rng.choice(inspection.book.chapters))
        expected = make(ground, root)
        planted.expected.append(replace(expected, kind=kind))
        if expected.path == "chapters.yaml":
            planted.shifts["chapters.yaml"] = [(expected.row - 1, 1)]
    return planted


def cut(root: Path, finding: Finding) -> str:
    """The text that a finding stands under."""
    span = finding.span
    lines = (root / span.path).read_text(encoding="utf-8").split("\n")
    return lines[span.line - 1][span.col - 1 : span.col - 1 + span.width]


def iterate_kinds() -> Iterator[str]:
    """The names of all that is planted."""
    yield from (*KINDS, *BLOCKS, *FILES)
