"""Defects that authors make, planted at random right places into copies of a real book.

A plant knows which rule has to find it, and where; a decoy is the same text where it is right, or
where it is no text of the book. To have another kind planted, add an entry to `KINDS` (a piece of
a sentence), `BLOCKS` (lines of its own) or `FILES`.
"""

from __future__ import annotations

import posixpath
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from bindery.load import is_left_out
from bindery.model import Chapter, Finding, ToFile
from bindery.pipeline import Inspection, inspect_book

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
class Destination:
    """Where a link should lead, and what is wrong with it."""

    text: str
    rule: str = ""
    """Empty where nothing is."""
    answer: str = ""
    behind: tuple[str, ...] = ()
    """Lines that have to stand below."""


@dataclass(frozen=True)
class Phrase:
    """A piece of a sentence with a defect in it, or with none."""

    text: str
    rule: str = ""
    typed: str = ""
    answer: str = ""
    behind: tuple[str, ...] = ()
    row: int = 0
    is_html: bool = False


@dataclass(frozen=True)
class Block:
    """Lines to plant between two paragraphs, and what has to be found in them."""

    lines: tuple[str, ...]
    expected: tuple[Expected, ...] = ()


class Ground:
    """A chapter to plant in: what is there to be linked, and words that no book holds."""

    def __init__(self, rng: random.Random, inspection: Inspection, chapter: Chapter) -> None:
        self.rng = rng
        self.inspection = inspection
        self.chapter = chapter
        shown = (
            inspection.resolved.find_target(link)
            for chapter in inspection.book.chapters
            for link in chapter.links
            if link.is_image
        )
        self.images = sorted(
            {
                target.path
                for target in shown
                if isinstance(target, ToFile) and not target.is_folder and " " not in target.path
            }
        )

    def word(self) -> str:
        """A word that is made up, and long enough to be there once."""
        vowels, others = "aeiou", "bdfgklmnprstvz"
        return "".join(self.rng.choice(others) + self.rng.choice(vowels) for _ in range(5))

    def lead(self, path: str) -> str:
        """The path as a link of this chapter has it."""
        return posixpath.relpath(path or ".", posixpath.dirname(self.chapter.path) or ".")

    def pick(self) -> Chapter:
        others = [c for c in self.inspection.book.chapters if " " not in c.path]
        return self.rng.choice(others)

    def pick_slug(self, chapter: Chapter) -> str:
        return self.rng.choice([a.slug for a in chapter.anchors if a.slug.isascii() and a.slug])

    def is_there(self, path: str) -> bool:
        here = posixpath.dirname(self.chapter.path)
        full = posixpath.normpath(posixpath.join(here, path))
        return self.inspection.tree.find_kind(full) is not None


# --- destinations that are wrong -------------------------------------------------------------


def _misspell(ground: Ground, path: str) -> str:
    """Two letters of the name change places."""
    folder, name = posixpath.split(path)
    stem, suffix = posixpath.splitext(name)
    places = [n for n in range(len(stem) - 1) if stem[n].lower() != stem[n + 1].lower()]
    at = ground.rng.choice(places)
    turned = stem[:at] + stem[at + 1] + stem[at] + stem[at + 2 :]
    return posixpath.join(folder, turned + suffix)


def _other_case(ground: Ground, path: str) -> str:
    letters = [n for n, letter in enumerate(path) if letter.isalpha() and letter.isascii()]
    at = ground.rng.choice(letters)
    return path[:at] + path[at].swapcase() + path[at + 1 :]


def _missing_chapter(ground: Ground) -> Destination:
    return Destination(f"{ground.word()}/README.md", "dead-link")


def _misspelt_chapter(ground: Ground) -> Destination:
    right = ground.lead(ground.pick().path)
    return Destination(_misspell(ground, right), "dead-link", answer=right)


def _missing_program(ground: Ground) -> Destination:
    return Destination(
        f"../{ground.word()}.py" if ground.chapter.path.count("/") else "a.py", "dead-link"
    )


def _missing_anchor_behind_file(ground: Ground) -> Destination:
    return Destination(f"{ground.word()}.md#{ground.word()}", "dead-link")


def _absolute(ground: Ground) -> Destination:
    return Destination(f"/{ground.word()}/{ground.word()}.md", "dead-link")


def _with_query(ground: Ground) -> Destination:
    return Destination(f"{ground.word()}.md?plain=1", "dead-link")


def _encoded(ground: Ground) -> Destination:
    return Destination(f"caf%C3%A9%20{ground.word()}.md", "dead-link")


def _unknown_scheme(ground: Ground) -> Destination:
    scheme = ground.rng.choice(("htp", "htps", "javascript", "file", "vbscript"))
    return Destination(f"{scheme}://{ground.word()}.org/", "dead-link")


def _no_host(ground: Ground) -> Destination:
    return Destination(f"https:///{ground.word()}", "dead-link")


def _missing_anchor(ground: Ground) -> Destination:
    return Destination(f"#{ground.word()}", "dead-anchor")


def _missing_anchor_elsewhere(ground: Ground) -> Destination:
    chapter = ground.pick()
    return Destination(f"{ground.lead(chapter.path)}#{ground.word()}", "dead-anchor")


def _anchor_in_other_case(ground: Ground) -> Destination:
    chapter = ground.pick()
    slugs = [a.slug for a in chapter.anchors if a.slug[:1].isalpha() and a.slug.isascii()]
    slug = ground.rng.choice(slugs)
    wrong = slug[0].swapcase() + slug[1:]
    return Destination(f"{ground.lead(chapter.path)}#{wrong}", "dead-anchor", f"#{slug}")


def _anchor_in_a_fence(ground: Ground) -> Destination:
    word = ground.word()
    fence = ground.rng.choice(("```", "````", "~~~"))
    behind = (f"{fence}markdown", f"## The {word}", fence)
    return Destination(f"#the-{word}", "dead-anchor", behind=behind)


def _anchor_in_a_comment(ground: Ground) -> Destination:
    word = ground.word()
    return Destination(f"#the-{word}", "dead-anchor", behind=("<!--", f"## The {word}", "-->"))


def _anchor_beyond_the_last(ground: Ground) -> Destination:
    word = ground.word()
    behind = (f"## Notes {word}", "", f"## Notes {word}")
    return Destination(f"#notes-{word}-2", "dead-anchor", f"#notes-{word}-1", behind)


def _anchor_of_another(ground: Ground) -> Destination:
    here = {anchor.slug for anchor in ground.chapter.anchors}
    chapters = [c for c in ground.inspection.book.chapters if c is not ground.chapter]
    slugs = [a.slug for c in chapters for a in c.anchors if a.slug.isascii() and a.slug.isalpha()]
    slug = ground.rng.choice([s for s in slugs if s not in here and len(s) > 4])
    return Destination(f"#{slug}", "dead-anchor")


def _folder_with_anchor(ground: Ground) -> Destination:
    here = posixpath.dirname(ground.chapter.path)
    chapters = [
        c
        for c in ground.inspection.book.chapters
        if posixpath.basename(c.path) == "README.md" and posixpath.dirname(c.path) not in ("", here)
    ]
    chapter = ground.rng.choice(chapters)
    folder = ground.lead(posixpath.dirname(chapter.path))
    slash = ground.rng.choice(("", "/"))
    slug = ground.pick_slug(chapter)
    answer = f"{folder}/README.md#{slug}"
    return Destination(f"{folder}{slash}#{slug}", "directory-anchor", answer)


def _path_in_other_case(ground: Ground) -> Destination:
    chapter = ground.pick()
    right = ground.lead(chapter.path)
    anchor = ground.rng.choice(("", f"#{ground.pick_slug(chapter)}"))
    return Destination(_other_case(ground, right) + anchor, "case-mismatch", right + anchor)


def _out_of_the_repository(ground: Ground) -> Destination:
    climbs = ground.chapter.path.count("/") + ground.rng.randint(1, 3)
    return Destination("../" * climbs + f"{ground.word()}.md", "outside-book")


def _nested_url(ground: Ground) -> Destination:
    inner = f"https://{ground.word()}.org/a.md"
    outer = ground.rng.choice(("https://example.org/", "http://example.org/b/", "https://"))
    return Destination(f"{outer}{inner}", "nested-url", inner)


def _url_behind_a_path(ground: Ground) -> Destination:
    inner = f"https://{ground.word()}.org/a.md"
    return Destination(f"../{inner}", "nested-url", inner)


def _address_without_scheme(ground: Ground) -> Destination:
    word = ground.word()
    texts = ((f"{word}@example.org", "mailto:"), (f"www.{word}.org/a", "https://"))
    text, scheme = ground.rng.choice(texts)
    return Destination(text, "dead-link", f"{scheme}{text}")


def _lines_beyond_the_end(ground: Ground) -> Destination:
    return Destination(f"{ground.lead(ground.pick().path)}#L99999", "dead-anchor", "#L")


WRONG_LINKS = (
    _address_without_scheme,
    _lines_beyond_the_end,
    _missing_chapter,
    _misspelt_chapter,
    _missing_program,
    _missing_anchor_behind_file,
    _absolute,
    _with_query,
    _encoded,
    _unknown_scheme,
    _no_host,
    _missing_anchor,
    _missing_anchor_elsewhere,
    _anchor_in_other_case,
    _anchor_in_a_fence,
    _anchor_in_a_comment,
    _anchor_beyond_the_last,
    _anchor_of_another,
    _folder_with_anchor,
    _path_in_other_case,
    _out_of_the_repository,
    _nested_url,
    _url_behind_a_path,
)


def _missing_image(ground: Ground) -> Destination:
    return Destination(f"images/{ground.word()}.png", "missing-image")


def _misspelt_image(ground: Ground) -> Destination:
    right = ground.lead(ground.rng.choice(ground.images))
    return Destination(_misspell(ground, right), "missing-image", right)


def _image_in_other_case(ground: Ground) -> Destination:
    right = ground.lead(ground.rng.choice(ground.images))
    return Destination(_other_case(ground, right), "case-mismatch", right)


def _folder_for_an_image(ground: Ground) -> Destination:
    folder = posixpath.dirname(ground.rng.choice(ground.images))
    return Destination(ground.lead(folder), "missing-image")


def _image_outside(ground: Ground) -> Destination:
    return replace(
        _out_of_the_repository(ground), text=_out_of_the_repository(ground).text + ".png"
    )


WRONG_IMAGES = (
    _missing_image,
    _misspelt_image,
    _image_in_other_case,
    _folder_for_an_image,
    _image_outside,
)


# --- destinations that are right -------------------------------------------------------------

# The anchors are written down, not computed: they are what GitHub gives.
HEADINGS = (
    ("## What's new in {w}? (v2.0) \U0001f389", "whats-new-in-{w}-v20-"),
    ("## `code` & *emphasis* {w}", "code--emphasis-{w}"),
    ("## Größe \u2014 1½ {w}", "größe--1-{w}"),
    ("## The {w}: [a link](https://example.org), done", "the-{w}-a-link-done"),
    ("## {w}_with_underscores/and.dots", "{w}_with_underscoresanddots"),
    ("<h2>Raw {w}</h2>", "raw-{w}"),
    ('<a id="Own.{w}"></a>', "Own.{w}"),
    ("<a name='own-{w}'></a>", "own-{w}"),
    ("{w} set\n---", "{w}-set"),
    ("## Twice {w}\n\n## Twice {w}\n\n## Twice {w}", "twice-{w}-2"),
)


def _right_link(ground: Ground) -> Destination:
    chapter = ground.pick()
    path = ground.lead(chapter.path)
    slug = ground.pick_slug(chapter)
    own = ground.pick_slug(ground.chapter)
    heading, anchor = ground.rng.choice(HEADINGS)
    word = ground.word()
    planted = Destination(
        f"#{anchor.format(w=word)}", behind=tuple(heading.format(w=word).split("\n"))
    )
    return ground.rng.choice(
        (
            planted,
            planted,
            planted,
            Destination(path),
            Destination(f"./{path}#{slug}"),
            Destination(f"/{chapter.path}#{slug}"),
            Destination(f"#{own}"),
            Destination(f"#{'%' + format(ord(own[0]), '02X')}{own[1:]}"),
            Destination(path.replace("R", "%52").replace("-", "%2D")),
            Destination(f"{path}?plain=1#L3"),
            Destination("mailto:me@example.org"),
            Destination(f"https://example.org/{word}?to=https://example.com/"),
            Destination(f"https://web.archive.org/web/2024/https://example.com/{word}"),
            Destination("//example.org/a_(b)"),
        )
    )


def _right_image(ground: Ground) -> Destination:
    return Destination(ground.lead(ground.rng.choice(ground.images)))


# --- forms of a link -------------------------------------------------------------------------


def _write_link(ground: Ground, to: Destination) -> Phrase:
    word, d = ground.word(), to.text
    definition = (f"[{word} two]: {d}", "")
    quoted = (f"[{word} two]: <{d}>", f"  'A title, {word}'", "")
    plain = Phrase("", to.rule, d, to.answer, to.behind)
    forms = [
        replace(plain, text=f"[{word}]({d})"),
        replace(plain, text=f'[{word} and `code`]({d} "A title")'),
        replace(plain, text=f"[{word}]( {d}  'a title' )"),
        replace(plain, text=f"[**{word}**](<{d}>)", typed=f"<{d}>"),
        replace(plain, text=f"[![{word}](https://example.org/a.svg)]({d})"),
        replace(plain, text=f'<a href="{d}">{word}</a>', is_html=True),
        replace(plain, text=f"<a title='>' href='{d}'>{word}</a>", is_html=True),
        replace(plain, text=f"<A HREF={d} id={word}>{word}</A>", is_html=True)
        if "=" not in d
        else plain,
        replace(plain, text=f"[{word}\nover two lines](\n{d})", row=2),
        replace(
            plain,
            text=f"[{word}][{word} two]",
            typed=f"[{word}][{word} two]",
            behind=(*definition, *to.behind),
        ),
        replace(
            plain,
            text=f"[{word.upper()} two][]",
            typed=f"[{word.upper()} two][]",
            behind=(*to.behind, "", *quoted),
        ),
        replace(plain, text=f"[{word} two]", typed=f"[{word} two]", behind=(*quoted, *to.behind)),
    ]
    return ground.rng.choice([form for form in forms if form.text])


def _write_image(ground: Ground, to: Destination) -> Phrase:
    word, d = ground.word(), to.text
    plain = Phrase("", to.rule, d, to.answer, to.behind)
    forms = [
        replace(plain, text=f"![{word}]({d})"),
        replace(plain, text=f'![{word}](<{d}> "A title")', typed=f"<{d}>"),
        replace(plain, text=f"[![{word}]({d})](https://example.org/)"),
        replace(plain, text=f'<img src="{d}" alt="{word}">', is_html=True),
        replace(plain, text=f"<img alt='{word}' width=20 src={d}>", is_html=True),
        replace(
            plain,
            text=f'<img src="https://example.org/a.svg" srcset="{d} 2x" alt="{word}">',
            is_html=True,
        ),
        replace(
            plain,
            text=f'<picture><source srcset="https://example.org/b.svg 1x, {d} 2x">'
            f'<img src="https://example.org/a.svg" alt="{word}"></picture>',
            is_html=True,
        ),
        replace(
            plain,
            text=f"![{word}][{word} two]",
            typed=f"![{word}][{word} two]",
            behind=(f"[{word} two]: {d}", "", *to.behind),
        ),
    ]
    return ground.rng.choice(forms)


def _make_link_kind(make: Callable[[Ground], Destination]) -> Callable[[Ground], Phrase]:
    return lambda ground: _write_link(ground, make(ground))


def _make_image_kind(make: Callable[[Ground], Destination]) -> Callable[[Ground], Phrase]:
    return lambda ground: _write_image(ground, make(ground))


# --- phrases that are wrong by themselves ----------------------------------------------------


def _empty_link(ground: Ground) -> Phrase:
    word = ground.word()
    texts = (f"[{word}]()", f"[{word}]( )", f"[{word}](<>)")
    text = ground.rng.choice(texts)
    return Phrase(text, "dead-link", "" if "<" in text else text)


def _empty_raw_link(ground: Ground) -> Phrase:
    return Phrase(f'<a href="">{ground.word()}</a>', "dead-link", is_html=True)


def _link_without_text(ground: Ground) -> Phrase:
    path = ground.lead(ground.pick().path)
    return Phrase(f"[]({path})", "dead-link", path)


def _prose_for_a_destination(ground: Ground) -> Phrase:
    prose = f"on the {ground.word()} page"
    return ground.rng.choice(
        (
            Phrase(f"[the table]({prose})", "dead-link", prose),
            Phrase(f"[the table](<{prose}>)", "dead-link", f"<{prose}>"),
        )
    )


def _link_in_two_parts(ground: Ground) -> Phrase:
    path = ground.lead(ground.pick().path)
    return Phrase(f"[{ground.word()}] ({path})", "dead-link", path)


def _link_without_end(ground: Ground) -> Phrase:
    path = ground.lead(ground.pick().path)
    text = ground.rng.choice(("[{w}]({p}]", "[{w}](<{p})"))
    return Phrase(text.format(w=ground.word(), p=path), "dead-link", path)


def _empty_image(ground: Ground) -> Phrase:
    return Phrase(f"![{ground.word()}]()", "missing-image")


def _raw_image_without_source(ground: Ground) -> Phrase:
    text = ground.rng.choice(('<img alt="{w}">', '<img src="" alt="{w}">'))
    return Phrase(text.format(w=ground.word()), "missing-image", is_html=True)


def _image_without_text(ground: Ground) -> Phrase:
    path = _right_image(ground).text
    if ground.rng.random() < 0.5:
        return Phrase(f"![]({path})", "missing-alt")
    return Phrase(f'<img src="{path}">', "missing-alt", is_html=True)


def _undefined_label(ground: Ground) -> Phrase:
    word = ground.word()
    texts = (f"[the {word}][{word} two]", f"[The {word}][]", f"[`a` {word}][{word[:5]}]")
    text = ground.rng.choice(texts)
    return Phrase(text, "undefined-reference", text)


def _label_with_a_slip(ground: Ground) -> Phrase:
    word, path = ground.word(), ground.lead(ground.pick().path)
    slip = word[:3] + word[4] + word[3] + word[5:]
    if slip == word:
        slip = word[:-1]
    behind = (f"[{word}]: {path}", "", f"Right is [{word}].")
    return Phrase(f"[{slip}]", "undefined-reference", f"[{slip}]", f"[{word}]", behind)


def _undefined_footnote(ground: Ground) -> Phrase:
    mark = f"[^{ground.rng.choice((ground.word(), str(ground.rng.randint(1000, 9999))))}]"
    return Phrase(f"{ground.word()}{mark}", "undefined-reference", mark)


def _swallowed_tag(ground: Ground) -> Phrase:
    tag = f"<{ground.word()}>"
    return Phrase(tag, "swallowed-tag", tag, is_html=True)


KINDS: dict[str, Callable[[Ground], Phrase]] = {
    **{make.__name__.strip("_"): _make_link_kind(make) for make in WRONG_LINKS},
    **{make.__name__.strip("_"): _make_image_kind(make) for make in WRONG_IMAGES},
    "empty link": _empty_link,
    "empty raw link": _empty_raw_link,
    "link without text": _link_without_text,
    "prose for a destination": _prose_for_a_destination,
    "link in two parts": _link_in_two_parts,
    "link without end": _link_without_end,
    "empty image": _empty_image,
    "raw image without source": _raw_image_without_source,
    "image without text": _image_without_text,
    "undefined label": _undefined_label,
    "label with a slip": _label_with_a_slip,
    "undefined footnote": _undefined_footnote,
    "swallowed tag": _swallowed_tag,
}


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
    expected = ()
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


BLOCKS: dict[str, Callable[[Ground], Block]] = {
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
    if draw < 0.5:
        kind = ground.rng.choice(list(KINDS))
        return Block(tuple(_hide(ground, KINDS[kind](ground))))
    if draw < 0.8:
        return _make_block(ground, _write_link(ground, _right_link(ground)))
    if draw < 0.9:
        return _make_block(ground, _write_image(ground, _right_image(ground)))
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


def plant(root: Path, seed: int, plants: int) -> Field:
    """Plant so many defects, and half as many decoys, into the book in `root`, which is changed.
    The same seed gives the same plants."""
    rng = random.Random(seed)
    inspection = inspect_book(root)
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
