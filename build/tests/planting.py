"""Defects, planted at random places into copies of real books, and decoys: the same text where it
is right, or where it is not text of the book.

What is planted is a template. `{w}` and `{v}` are made-up words, `{page}`, `{image}` and the other
fields come from `find_fields`. To have another kind planted, add an entry to a table.
"""

from __future__ import annotations

import posixpath
import random
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from bindery.check.inspect import Inspection
from bindery.core.model import Chapter, ToFile


@dataclass(frozen=True)
class Plant:
    """Text with a defect, and what has to be found in it."""

    text: str
    rule: str = ""
    typed: str = ""
    """What the finding has to be under, as far as it goes on one line."""
    answer: str = ""
    """What the advice has to name."""
    behind: str = ""
    """Lines that have to be below."""
    kind: str = ""
    path: str = ""

    @property
    def line(self) -> str:
        """The line in which it has to be found."""
        at = self.text.rindex(self.typed)
        return self.text[self.text.rfind("\n", 0, at) + 1 :].partition("\n")[0]

    def fill(self, fields: Mapping[str, str]) -> Plant:
        return replace(
            self,
            text=self.text.format_map(fields),
            typed=self.typed.format_map(fields),
            answer=self.answer.format_map(fields),
            behind=self.behind.format_map(fields),
        )


WRONG_LINKS = {
    "missing chapter": Plant("{w}/README.md", "dead-link"),
    "misspelt chapter": Plant("{page_misspelt}", "dead-link", answer="{page}"),
    "missing file with anchor": Plant("{w}.md#{v}", "dead-link"),
    "absolute path": Plant("/{w}/{v}.md", "dead-link"),
    "query": Plant("{w}.md?plain=1", "dead-link"),
    "encoded path": Plant("caf%C3%A9%20{w}.md", "dead-link"),
    "unknown scheme": Plant("htps://{w}.org/", "dead-link"),
    "script": Plant("javascript://{w}.org/", "dead-link"),
    "no host": Plant("https:///{w}", "dead-link"),
    "mail without scheme": Plant("{w}@example.org", "dead-link", answer="mailto:{w}@example.org"),
    "address without scheme": Plant("www.{w}.org/a", "dead-link", answer="https://www.{w}.org/a"),
    "lines beyond the end": Plant("{page}#L99999", "dead-anchor", answer="#L"),
    "missing anchor": Plant("#{w}", "dead-anchor"),
    "missing anchor elsewhere": Plant("{page}#{w}", "dead-anchor"),
    "anchor in other case": Plant("{page}#{slug_in_other_case}", "dead-anchor", answer="#{slug}"),
    "anchor in a fence": Plant("#the-{w}", "dead-anchor", behind="~~~\n## The {w}\n~~~"),
    "anchor in a comment": Plant("#the-{w}", "dead-anchor", behind="<!--\n## The {w}\n-->"),
    "anchor beyond the last": Plant(
        "#no-{w}-2", "dead-anchor", answer="#no-{w}-1", behind="## No {w}\n\n## No {w}"
    ),
    "anchor of another chapter": Plant("#{slug_of_another}", "dead-anchor"),
    "anchor of a folder": Plant(
        "{folder}#{folder_slug}", "directory-anchor", answer="{folder}/README.md#{folder_slug}"
    ),
    "path in other case": Plant("{page_in_other_case}#{slug}", "case-mismatch", answer="{page}#"),
    "out of the repository": Plant("{outside}{w}.md", "outside-book"),
    "nested address": Plant("https://https://{w}.org/a", "nested-url", answer="https://{w}.org/a"),
    "address behind a path": Plant("../https://{w}.org/a", "nested-url", answer="https://{w}.org"),
}
WRONG_IMAGES = {
    "missing image": Plant("images/{w}.png", "missing-image"),
    "misspelt image": Plant("{image_misspelt}", "missing-image", answer="{image}"),
    "image in other case": Plant("{image_in_other_case}", "case-mismatch", answer="{image}"),
    "folder for an image": Plant("{image_folder}", "missing-image"),
    "image outside": Plant("{outside}{w}.png", "outside-book"),
}
RIGHT_LINKS = (
    *("{page}", "./{page}#{slug}", "/{page_from_root}#{slug}", "#{own_slug}", "{page}?plain=1#L3"),
    *("mailto:me@example.org", "https://example.org/{w}?to=https://example.com/"),
    *("https://web.archive.org/web/2024/https://example.com/{w}", "//example.org/a_(b)"),
)
LINK_FORMS = (
    Plant("[{v}]({d})", typed="{d}"),
    Plant('[{v} and `code`]( {d} "A title")', typed="{d}"),
    Plant("[**{v}**](<{d}>)", typed="<{d}>"),
    Plant("[![{v}](https://example.org/a.svg)]({d})", typed="{d}"),
    Plant("<a title='>' href='{d}'>{v}</a>", typed="{d}"),
    Plant('<A HREF="{d}" id={v}>{v}</A>', typed="{d}"),
    Plant("[{v}\nover two lines](\n{d})", typed="{d}"),
    Plant("[{v}][{v} two]", typed="[{v}][{v} two]", behind="[{v} two]: {d}"),
    Plant("[{v} two]", typed="[{v} two]", behind="[{v} two]: <{d}>\n  'A title, {v}'"),
)
IMAGE_FORMS = (
    Plant("![{v}]({d})", typed="{d}"),
    Plant('![{v}](<{d}> "A title")', typed="<{d}>"),
    Plant("[![{v}]({d})](https://example.org/)", typed="{d}"),
    Plant("<img alt='{v}' width=20 src={d}>", typed="{d}"),
    Plant(
        '<picture><source srcset="https://example.org/b.svg 1x, {d} 2x">'
        '<img src="https://example.org/a.svg" alt="{v}"></picture>',
        typed="{d}",
    ),
    Plant("![{v}][{v} two]", typed="![{v}][{v} two]", behind="[{v} two]: {d}"),
)
PHRASES = {
    "empty link": Plant("[{w}]()", "dead-link", "[{w}]()"),
    "empty raw link": Plant('<a href="">{w}</a>', "dead-link", '">{w}</a>'),
    "link without text": Plant("[]({page})", "dead-link", "{page}"),
    "prose for a destination": Plant(
        "[the table](on the {w} page)", "dead-link", "on the {w} page"
    ),
    "link in two parts": Plant("[{w}] ({page})", "dead-link", "{page}"),
    "link without end": Plant("[{w}]({page}]", "dead-link", "{page}"),
    "empty image": Plant("![{w}]()", "missing-image", "![{w}]()"),
    "raw image without source": Plant('<img alt="{w}">', "missing-image", '<img alt="{w}">'),
    "image without text": Plant("![]({image})", "missing-alt", "{image}"),
    "undefined label": Plant("[the {w}][{w} two]", "undefined-reference", "[the {w}][{w} two]"),
    "label with a slip": Plant(
        "[{w_misspelt}]",
        "undefined-reference",
        "[{w_misspelt}]",
        "[{w}]",
        "[{w}]: {page}\n\nRight is [{w}].",
    ),
    "undefined footnote": Plant("{v}[^{w}]", "undefined-reference", "[^{w}]"),
    "swallowed tag": Plant("<{w}>", "swallowed-tag", "<{w}>"),
}
BLOCKS = {
    "unused definition": Plant("> [{w}]: <{page}>", "unused-reference", "[{w}]"),
    "unused footnote": Plant("[^{w}]: A note.\n\n    And more.", "unused-reference", "[^{w}]"),
    "repeated definition": Plant(
        "See [{w}].\n\n[{w}]: {page}\n[{W}]: https://example.org/", "repeated-reference", "[{W}]"
    ),
    "definition that is there twice": Plant(
        "See [{w}].\n\n[{w}]: {page}\n\n> [{w}]: {page}", "unused-reference", "[{w}]"
    ),
    "repeated footnote": Plant(
        "Words[^{w}].\n\n[^{w}]: One.\n\n[^{w}]: Two.", "repeated-reference", "[^{w}]"
    ),
    "definition in a paragraph": Plant(
        "See [a {w}][{w}].\n[{w}]: https://example.org/",
        "undefined-reference",
        "[a {w}][{w}]",
        "line",
    ),
    "anchor of a heading": Plant(
        '## The {w}\n\n<a id="the-{w}"></a>\n\nWords.', "duplicate-anchor", '<a id="the-{w}">'
    ),
    "anchor that is there twice": Plant(
        "Words <a name=\"{w}\"></a>.\n\n- more <a id='{w}'></a>", "duplicate-anchor", "<a id='{w}'>"
    ),
    "heading whose number is taken": Plant(
        "## A {w}\n\n## A {w}\n\n## A {w} 1", "duplicate-anchor", "## A {w} 1"
    ),
}
KINDS = (*WRONG_LINKS, *WRONG_IMAGES, *PHRASES, *BLOCKS)

RAW_FRAMES = ("<p>\n  Here is {t}\n</p>", "<table>\n<tr><td>\n{t}\n</td></tr>\n</table>")
FRAMES = (
    "Here is {t} there.",
    "Some words,\n  then {t} there,\nthen more.",
    "A {v}, **in bold {t}**, *and more*.",
    "1. one\n   - two\n\n     three {t}\n2. four",
    "- [ ] one\n- [x] two {t}",
    "| a | b |\n|---|:-:|\n| `x\\|y` \\| {t} | {v} |",
    "a | b\n--- | ---\n{v} | see {t}",
    "> - one\n>   - two {t}\n>\n> three",
    "> [!NOTE]\n> Here is {t}.",
    "### A {v} with {t} in it",
    "Words[^{v}].\n\n[^{v}]: A note.\n\n    With {t} in it.",
    "<details><summary>More</summary>\n\nWords, {t}.\n\n</details>",
    "Words, `code`, ``co`de``, \\[escaped\\](x y), {t} &amp; <b>more</b>.",
)
HIDING = (
    "Words ``{t}`` there.",
    "~~~\n{t}\n~~~~",
    "````markdown\n```\n{t}\n```\n````",
    "- words\n\n  ```text\n  {t}\n  ```",
    "> ~~~\n> {t}\n> ~~~",
    "Words:\n\n    {t}\n\nmore words.",
    "<!--\n{t}\n\n{t}\n-->",
    "Words <!-- {t} --> there.",
)
RIGHT_BLOCKS = (
    "A class of characters [^a-z]*, an index a[i][j], [1][2], [OPTIONS][ARGS], [sic], [x] [y].",
    "- [ ] a task\n- [x] another\n- [X] a third",
    "Mail <me@example.org>, <https://example.org/>, www.example.org and https://example.org/a.",
    "Twice the same[^{v}], and again[^{v}].\n\n[^{v}]: A note.\n\n    - with a list",
    "See [{v}] and [the same][{v}].\n\n[{v}]: https://example.org/ 'a title'",
    "## {v}\n\n## {v}\n\n## {v}\n\n[three](#{v}-2)",
    "## What's `new` in {v}? (v2.0) \U0001f389\n\n[new](#whats-new-in-{v}-v20-)",
    "A backslash at the end of `[{v}](x\\`, and \\![{v}\\](gone.md).",
)


def find_fields(rng: random.Random, inspection: Inspection, chapter: Chapter) -> dict[str, str]:
    """What templates of a chapter name: words that no book holds, and what is there to link to."""
    chapters = [other for other in inspection.book.chapters if " " not in other.path]
    here = posixpath.dirname(chapter.path)

    def lead(path: str) -> str:
        return posixpath.relpath(path, here or ".")

    def find_slugs(other: Chapter) -> list[str]:
        return [a.slug for a in other.anchors if a.slug.isascii() and a.slug[:1].isalpha()]

    page = rng.choice([other for other in chapters if find_slugs(other)])
    slug = rng.choice(find_slugs(page))
    own = find_slugs(chapter)
    folders = [
        other
        for other in chapters
        if posixpath.basename(other.path) == "README.md"
        and posixpath.dirname(other.path) not in ("", here)
    ]
    shown = rng.choice(folders)
    image = lead(rng.choice(_find_images(inspection)))
    w, v = _make_word(rng), _make_word(rng)
    return {
        "w": w,
        "W": w.upper(),
        "v": v,
        "w_misspelt": _misspell(rng, w),
        "page": lead(page.path),
        "page_from_root": page.path,
        "page_misspelt": _misspell(rng, lead(page.path)),
        "page_in_other_case": _change_case(rng, lead(page.path)),
        "slug": slug,
        "slug_in_other_case": slug[0].swapcase() + slug[1:],
        "slug_of_another": rng.choice(
            [s for c in chapters for s in find_slugs(c) if len(s) > 4 and s not in own]
        ),
        "own_slug": rng.choice(own),
        "folder": lead(posixpath.dirname(shown.path)),
        "folder_slug": rng.choice(find_slugs(shown)),
        "outside": "../" * (chapter.path.count("/") + rng.randint(1, 3)),
        "image": image,
        "image_folder": posixpath.dirname(image),
        "image_misspelt": _misspell(rng, image),
        "image_in_other_case": _change_case(rng, image),
    }


def _find_images(inspection: Inspection) -> list[str]:
    """The images that are shown, and with which nothing is wrong."""
    faults = {finding.span for finding in inspection.findings}
    shown: dict[str, bool] = {}
    for link in (link for chapter in inspection.book.chapters for link in chapter.links):
        target = inspection.resolved.find_target(link)
        if link.is_image and isinstance(target, ToFile) and not target.is_folder:
            is_good = " " not in target.path and link.span not in faults
            shown[target.path] = is_good and shown.get(target.path, True)
    return sorted(path for path, is_good in shown.items() if is_good and "/" in path)


def _make_word(rng: random.Random) -> str:
    return "".join(rng.choice("bdfgklmnprstvz") + rng.choice("aeiou") for _ in range(5))


def _misspell(rng: random.Random, path: str) -> str:
    """Two letters of the name change places."""
    folder, name = posixpath.split(path)
    stem, suffix = posixpath.splitext(name)
    at = rng.choice([n for n in range(len(stem) - 1) if stem[n].lower() != stem[n + 1].lower()])
    return posixpath.join(folder, stem[:at] + stem[at + 1] + stem[at] + stem[at + 2 :] + suffix)


def _change_case(rng: random.Random, path: str) -> str:
    at = rng.choice([n for n, letter in enumerate(path) if letter.isalpha() and letter.isascii()])
    return path[:at] + path[at].swapcase() + path[at + 1 :]


def _write_link(to: Plant, form: Plant, fields: Mapping[str, str]) -> Plant:
    to = to.fill(fields)
    form = form.fill({**fields, "d": to.text})
    behind = f"{form.behind}\n\n{to.behind}" if form.behind else to.behind
    return replace(to, text=form.text, typed=form.typed, behind=behind)


def _make_phrase(rng: random.Random, kind: str, fields: Mapping[str, str]) -> Plant:
    if kind in WRONG_LINKS:
        return _write_link(WRONG_LINKS[kind], rng.choice(LINK_FORMS), fields)
    if kind in WRONG_IMAGES:
        return _write_link(WRONG_IMAGES[kind], rng.choice(IMAGE_FORMS), fields)
    return PHRASES[kind].fill(fields)


def _frame(rng: random.Random, phrase: Plant) -> Plant:
    """The phrase in a construct of Markdown."""
    frames = FRAMES[:1] if "\n" in phrase.text else FRAMES
    if phrase.text.startswith("<"):
        frames = (*FRAMES, *RAW_FRAMES * 3)
    text = rng.choice(frames).format(t=phrase.text, v=_make_word(rng))
    return replace(phrase, text=text)


def make_plant(rng: random.Random, kind: str, fields: Mapping[str, str]) -> Plant:
    """A block with a defect of this kind."""
    if kind in BLOCKS:
        return BLOCKS[kind].fill(fields)
    return _frame(rng, _make_phrase(rng, kind, fields))


def make_decoy(rng: random.Random, fields: Mapping[str, str]) -> Plant:
    """A block in which nothing is wrong, though something looks so."""
    match rng.randrange(3):
        case 0:
            kind = rng.choice([*WRONG_LINKS, *WRONG_IMAGES, *PHRASES])
            text = _make_phrase(rng, kind, fields).text.replace("\n", " ")
            return Plant(rng.choice(HIDING).format(t=text))
        case 1:
            to = Plant(rng.choice(RIGHT_LINKS))
            return replace(_frame(rng, _write_link(to, rng.choice(LINK_FORMS), fields)), typed="")
        case _:
            return Plant(rng.choice(RIGHT_BLOCKS)).fill(fields)


def _find_sites(inspection: Inspection, chapter: Chapter) -> list[int]:
    """The lines behind which a block can be: ends of paragraphs that are not part of anything."""
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


def plant_defects(inspection: Inspection, seed: int, count: int) -> list[Plant]:
    """Plant so many defects, and half as many decoys, into the files of a book that was inspected.
    The same seed gives the same plants."""
    rng = random.Random(seed)
    sites = [(c, site) for c in inspection.book.chapters for site in _find_sites(inspection, c)]
    chosen = rng.sample(sites, min(count + count // 2, len(sites)))
    kinds = rng.sample(KINDS, len(KINDS))
    planted = []
    blocks: dict[str, dict[int, Plant]] = {}
    for number, (chapter, site) in enumerate(chosen):
        fields = find_fields(rng, inspection, chapter)
        if number < count:
            kind = kinds[number % len(kinds)]
            block = replace(make_plant(rng, kind, fields), kind=kind, path=chapter.path)
            planted.append(block)
        else:
            block = make_decoy(rng, fields)
        blocks.setdefault(chapter.path, {})[site] = block
    for path, at in blocks.items():
        file = Path(inspection.config.root, path)
        lines = file.read_text(encoding="utf-8").split("\n")
        for site in sorted(at, reverse=True):
            block = at[site]
            lines[site:site] = ["", block.text, "", block.behind, "", "<!-- words -->", ""]
        file.write_text("\n".join(lines), encoding="utf-8")
    return planted
