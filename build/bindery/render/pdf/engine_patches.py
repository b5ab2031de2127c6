"""Everything that is patched in WeasyPrint. The tests in `test_engine_patches.py` fail as soon as
a new version no longer needs a patch: then delete both.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import cache
from typing import Any
from unittest.mock import patch

import pydyf
from weasyprint import svg
from weasyprint.layout import inline
from weasyprint.pdf import tags
from weasyprint.text import line_break

from bindery.render.pdf.tags import ARTIFACT

ROLES: Mapping[str, str] = {
    "artifact": ARTIFACT,
    "code": "Code",
    "figure": "Div",
    "note": "Note",
    "pre": "P",
    "toc": "TOC",
    "toci": "TOCI",
}
"""PDF tag roles by element name; the engine has those of HTML."""
_NARROWEST = 0.2
"""Lower bound of the average width of a letter, in em."""
_FONT = (
    "font_family",
    "font_style",
    "font_stretch",
    "font_weight",
    "font_size",
    "font_variant_caps",
    "font_variation_settings",
)
"""The style properties from which the engine describes a font."""
_OF_LETTERS = frozenset(("rotate", "letter-spacing", "textLength"))
Stacks = Mapping[str, Sequence[str]]


@contextmanager
def patched_engine(stacks: Stacks) -> Iterator[None]:
    """Patch the engine while a book is laid out and written. `stacks` are the families of fonts
    to use for each generic name, such as `serif`."""
    with ExitStack() as all_patches:
        for owner, name, make in (
            (inline, "split_first_line", fill_lines),
            (svg.Node, "text", join_letters),
            (line_break, "get_font_description", lambda f: name_fonts(f, stacks)),
            (tags, "_get_pdf_tag", know_roles),
            (pydyf.PDF, "page_references", keep_references),
        ):
            all_patches.enter_context(patch.object(owner, name, make(getattr(owner, name))))
        yield


def fill_lines(original: Callable[..., Any]) -> Callable[..., Any]:
    """If a piece of text fits on the rest of a line except for the space after it, WeasyPrint
    breaks the line after its first word. With this patch the space may extend into the margin."""

    def split(
        text: str, style: Any, context: Any, width: float, *others: Any, **options: Any
    ) -> Any:
        split_off = original(text, style, context, width, *others, **options)
        _, length, resume_index, *_ = split_off
        first_word = text.partition(" ")[0]
        if resume_index is None or text[-1:] != " " or length != len(first_word.encode()):
            return split_off
        if len(text) * _NARROWEST * style["font_size"] > width:
            return split_off  # it is too long for the line, space or no space
        if original(text.rstrip(" "), style, context, width, *others, **options)[2] is not None:
            return split_off
        return original(text, style, context, width + style["font_size"], *others, **options)

    return split


def join_letters(original: property) -> property:
    """WeasyPrint sets each letter of a drawing apart, without kerning, which takes a sixth of the
    time of a book with drawings. With this patch a text is one letter, unless its letters have
    places of their own."""
    read = original.fget
    assert read is not None

    def read_whole(node: Any) -> Any:
        text = read(node)
        if not text or _OF_LETTERS & node.attrib.keys():
            return text
        places = (node.attrib.get(name, "") for name in ("x", "y", "dx", "dy"))
        return text if any(len(place.split()) > 1 for place in places) else _Whole(text)

    return property(read_whole)


class _Whole(str):
    """A text that is its own only letter."""

    __slots__ = ()

    def __iter__(self) -> Iterator[str]:
        yield str(self)


def name_fonts(original: Callable[[Any], Any], stacks: Stacks) -> Callable[[Any], Any]:
    """A generic font name in a drawing means a font of the machine. With this patch our families
    come first, so that Greek letters match the Latin ones, and a font is described once instead
    of once per line."""

    @cache
    def describe(families: Sequence[str], *others: Any) -> Any:
        named = _name_families(families, stacks)
        return original(dict(zip(_FONT, (named, *others), strict=True)))

    def look_up(style: Any) -> Any:
        families, *others = (style[name] for name in _FONT)
        return describe(tuple(families), *others)

    return look_up


def _name_families(asked: Sequence[str], stacks: Stacks) -> tuple[str, ...]:
    """Our families before each generic name; the stacks of the style sheet have them already."""
    named: list[str] = []
    for name in map(str.strip, asked):
        named += (family for family in stacks.get(name, ()) if family not in asked)
        named.append(name)
    return tuple(named)


def know_roles(original: Callable[[str | None], Any]) -> Callable[[str | None], str]:
    """WeasyPrint tags elements that HTML does not have as NonStruct; with this patch they get
    our roles."""
    return lambda name: ROLES.get(name or "") or str(original(name))


def keep_references(original: property) -> property:
    """The list of all pages is made again for each box that is tagged, which takes a fifth of the
    time of a long book. With this patch it is made once for a number of pages."""
    read = original.fget
    assert read is not None
    kept: dict[int, Any] = {}

    def read_once(pdf: Any) -> Any:
        count = len(pdf.pages["Kids"])
        if count not in kept:
            kept.clear()
            kept[count] = read(pdf)
        return kept[count]

    return property(read_once)
