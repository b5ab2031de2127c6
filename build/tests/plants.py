"""What authors get wrong within a sentence: links, images, references and tags.

Each phrase knows which rule has to find it and what under; `planting` puts them into books. To
have another kind planted, add an entry to `KINDS`.
"""

from __future__ import annotations

import posixpath
import random
from collections.abc import Callable
from dataclasses import dataclass, replace

from bindery.check.inspect import Inspection
from bindery.core.model import Chapter, ToFile


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


class Ground:
    """A chapter to plant in: what is there to be linked, and words that no book holds."""

    def __init__(self, rng: random.Random, inspection: Inspection, chapter: Chapter) -> None:
        self.rng = rng
        self.inspection = inspection
        self.chapter = chapter
        shown: dict[str, bool] = {}
        faults = {finding.span for finding in inspection.findings}
        for other in inspection.book.chapters:
            for link in other.links:
                target = inspection.resolved.find_target(link)
                if link.is_image and isinstance(target, ToFile) and not target.is_folder:
                    is_good = " " not in target.path and link.span not in faults
                    shown[target.path] = is_good and shown.get(target.path, True)
        self.images = sorted(path for path, is_good in shown.items() if is_good)
        """Those that are shown, and with which nothing is wrong."""

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


def make_right_link(ground: Ground) -> Destination:
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


def make_right_image(ground: Ground) -> Destination:
    return Destination(ground.lead(ground.rng.choice(ground.images)))


# --- forms of a link -------------------------------------------------------------------------


def write_link(ground: Ground, to: Destination) -> Phrase:
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


def write_image(ground: Ground, to: Destination) -> Phrase:
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
    return lambda ground: write_link(ground, make(ground))


def _make_image_kind(make: Callable[[Ground], Destination]) -> Callable[[Ground], Phrase]:
    return lambda ground: write_image(ground, make(ground))


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
    path = make_right_image(ground).text
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
