"""Everything that is patched in WeasyPrint. The tests in `test_engine_patches.py` fail as soon as
a new version no longer needs a patch: then delete both.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import pydyf
from weasyprint import css, images, layout, pdf, svg
from weasyprint.layout import inline
from weasyprint.layout.page import set_page_type_computed_styles
from weasyprint.pdf import tags
from weasyprint.text import line_break
from weasyprint.text.ffi import ffi, gobject, pango

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
_OF_LAYOUT = (
    *_FONT,
    "direction",
    "font_feature_settings",
    "font_kerning",
    "font_language_override",
    "font_variant_alternates",
    "font_variant_east_asian",
    "font_variant_ligatures",
    "font_variant_numeric",
    "font_variant_position",
    "lang",
    "text_decoration_line",
)
"""The style properties from which the engine sets up a piece of text."""
_OF_LETTERS = frozenset(("rotate", "letter-spacing", "textLength"))
Stacks = Mapping[str, Sequence[str]]
ffi.cdef("PangoLayout * pango_layout_copy (PangoLayout *layout);")


@contextmanager
def patched_engine(stacks: Stacks) -> Iterator[None]:
    """Patch the engine while a book is laid out and written. `stacks` are the families of fonts
    to use for each generic name, such as `serif`."""
    with ExitStack() as all_patches:
        for owner, name, make in (
            (inline, "split_first_line", fill_lines),
            (css, "find_style_attributes", share_styles),
            (svg.Node, "text", join_letters),
            (line_break, "get_font_description", lambda f: name_fonts(f, stacks)),
            (line_break.Layout, "setup", copy_layouts),
            (tags, "_get_pdf_tag", know_roles),
            (images.RasterImage, "_get_png_data", copy_png),
            (pydyf.PDF, "page_references", keep_references),
        ):
            all_patches.enter_context(patch.object(owner, name, make(getattr(owner, name))))
        yield


@contextmanager
def late_numbers(html: Any, find_first: Callable[[], int]) -> Iterator[None]:
    """The engine makes running heads after it has laid out all pages. With this patch, it asks
    only then for the number of the first page."""
    original = layout.make_margin_boxes
    first = 0

    def make(context: Any, page: Any, state: Any) -> Any:
        nonlocal first
        first = first or find_first()
        if first > 1:
            state[1]["page"] = [first + context.current_page - 1]
        if first % 2 == 0:
            side = "left" if page.page_type.side == "right" else "right"
            page.page_type = page.page_type._replace(side=side)
            set_page_type_computed_styles(page.page_type, html, context.style_for)
        return original(context, page, state)

    with patch.object(layout, "make_margin_boxes", make):
        yield


@contextmanager
def links_elsewhere(places: Iterable[str]) -> Iterator[None]:
    """The engine drops links to places that are on no page. With this patch, it keeps those to
    `places`, which may be in another file."""
    original = pdf.resolve_links
    others = SimpleNamespace(anchors=dict.fromkeys(places, (0, 0, 0, 0)), links=())
    with patch.object(pdf, "resolve_links", lambda pages: original([*pages, others])):
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
    come first, so that Greek letters match the Latin ones."""

    def describe(style: Any) -> Any:
        named = _name_families(style["font_family"], stacks)
        return original({name: style[name] for name in _FONT} | {"font_family": named})

    return describe


def _name_families(asked: Sequence[str], stacks: Stacks) -> tuple[str, ...]:
    """Our families before each generic name; the stacks of the style sheet have them already."""
    named: list[str] = []
    for name in map(str.strip, asked):
        named += (family for family in stacks.get(name, ()) if family not in asked)
        named.append(name)
    return tuple(named)


def share_styles(original: Callable[..., Iterator[Any]]) -> Callable[..., Iterator[Any]]:
    """Elements that look alike share one style, but not those with an attribute `style`, nor what
    is inside them. With this patch the same attribute is the same style."""

    def find(*arguments: Any) -> Iterator[Any]:
        kept: dict[str, Any] = {}
        for specificity, element, declarations, base_url in original(*arguments):
            if specificity[0]:  # not a hint, such as a language, which adds to the attribute
                declarations = kept.setdefault(element.get("style"), declarations)
            yield specificity, element, declarations, base_url

    return find


def copy_layouts(original: Callable[[Any, Any], None]) -> Callable[[Any, Any], None]:
    """Each piece of text is set up from its style twice, to be laid out and to be drawn, which
    takes a tenth of the time of a book. With this patch it is a copy of a piece that was set up
    from the same values."""
    pieces: dict[str, Any] = {}

    def set_up(layout: Any, style: Any) -> None:
        piece = getattr(style, "piece", None)
        if piece is None:
            values = str([style[name] for name in _OF_LAYOUT])
            if values not in pieces:
                piece = pieces[values] = object.__new__(type(layout))
                original(piece, style)
            piece = style.piece = pieces[values]
        vars(layout).update(vars(piece), style=style)
        layout.layout = ffi.gc(pango.pango_layout_copy(piece.layout), gobject.g_object_unref)

    return set_up


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


def copy_png(original: Callable[[Any], bytes]) -> Any:
    """Copy the compressed data of a PNG as it is in the file. The engine decodes and compresses it
    again, which takes a sixth of the time of a book of screenshots."""

    def read(image: Any) -> bytes:
        # One strip of 8 bits per channel, the only kind that has these names.
        if image.format == "PNG" and [tile[3] for tile in image.tile] in (["RGB"], ["L"]):
            data = image.fp.getvalue()
            image = SimpleNamespace(save=lambda file, **_: file.write(data))
        return original(image)

    return staticmethod(read)
