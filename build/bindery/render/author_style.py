"""The author's style: accent color, fonts, and a style sheet per output, applied after ours."""

from __future__ import annotations

import base64
import io
import mimetypes
import posixpath
import re
from collections.abc import Iterator
from urllib.parse import unquote

from bindery.core.config import Config
from bindery.core.model import Span, refuse
from bindery.core.repository import Tree

_URL = re.compile(r"""url\(\s*(["']?)(?!data:|#)([^"')\s]+)\1\s*\)""")
_LEAST_CONTRAST = 4.5
"""Minimum contrast of text and background (WCAG 2.2, level AA)."""
_LIGHT, _DARK = "#f3f4f2", "#23292f"
"""The background of each theme on which text has the least contrast."""
_RULES = {
    "html": {
        "accent": ":root {{ --link: light-dark({0}, {1}); --accent: light-dark({0}, {1}); }}",
        "text": ':root {{ --text: "{0}", serif; }}',
        "headings": ':root {{ --sans: "{0}", sans-serif; }}',
        "code": ':root {{ --mono: "{0}", monospace; }}',
    },
    "pdf": {},  # whose style sheet has them in its own rules
    "epub": {
        "text": 'body {{ font-family: "{0}", serif; }}',
        "headings": 'h1, h2, h3, h4, h5, h6 {{ font-family: "{0}", sans-serif; }}',
        "code": 'code, kbd, samp, pre {{ font-family: "{0}", monospace; }}',
    },
}
"""How each output receives a color or font."""


def read_author_style(config: Config, tree: Tree, output: str) -> str:
    """The author's style for an output as one style sheet, with its fonts and pictures embedded;
    empty if there is none. Raises ConfigError if one of them is not in the book."""
    rules = _RULES[output]
    lines = []
    if config.style.accent and "accent" in rules:
        lines.append(rules["accent"].format(*find_accents(config.style.accent)))
    for kind, paths in config.style.fonts.items():
        lines += (_write_face(tree, kind, path) for path in paths)
        if kind in rules:
            lines.append(rules[kind].format(name_family(kind)))
    if path := getattr(config.style, output):
        text = tree.read_bytes(path).decode("utf-8", errors="replace")
        lines.append(_URL.sub(lambda match: _embed(match, path, text, tree), text))
    return "".join(f"\n{line}" for line in lines)


def _embed(match: re.Match[str], path: str, text: str, tree: Tree) -> str:
    file = posixpath.normpath(posixpath.join(posixpath.dirname(path), unquote(match[2])))
    if tree.find_kind(file) != "file":
        place = Span(path, text.count("\n", 0, match.start()) + 1, 1)
        message = f"the style sheet names '{match[2]}', but there is no such file"
        raise refuse(place, message, "put fonts and pictures of a style in the book")
    return f'url("{write_data(tree, file)}")'


def write_data(tree: Tree, path: str) -> str:
    """A file of the book as a `data:` URL."""
    kind = mimetypes.guess_type(path)[0] or "application/octet-stream"
    return f"data:{kind};base64,{base64.b64encode(tree.read_bytes(path)).decode()}"


# --- fonts ---


def name_family(kind: str) -> str:
    return f"author {kind}"


def _write_face(tree: Tree, kind: str, path: str) -> str:
    """The font in a file, with the weight and style that the file declares."""
    from fontTools.ttLib import TTFont, TTLibError  # slow, and few books have their own fonts

    try:
        font = TTFont(io.BytesIO(tree.read_bytes(path)), lazy=True)
        table = font["OS/2"]
    except (TTLibError, KeyError, ImportError) as error:
        raise refuse(path, f"this font cannot be read: {error}", "take another file") from None
    weight, style = f"{table.usWeightClass}", "italic" if table.fsSelection & 1 else "normal"
    for axis in font["fvar"].axes if "fvar" in font else ():
        if axis.axisTag == "wght":
            weight = f"{axis.minValue:g} {axis.maxValue:g}"
    return (
        f'@font-face {{ font-family: "{name_family(kind)}"; font-weight: {weight}; '
        f'font-style: {style}; src: url("{write_data(tree, path)}"); }}'
    )


# --- colours ---


def find_accents(colour: str) -> tuple[str, str]:
    """A color for text on light and on dark pages: the color itself if it is readable there,
    else the nearest darker or lighter shade that is."""
    shades = tuple(_mix(colour, "#000000")), tuple(_mix(colour, "#ffffff"))
    return _choose(shades[0], _LIGHT), _choose(shades[1], _DARK)


def _choose(shades: tuple[str, ...], paper: str) -> str:
    return next(s for s in shades if measure_contrast(s, paper) >= _LEAST_CONTRAST)


def _mix(colour: str, other: str) -> Iterator[str]:
    for step in range(51):
        mixed = (
            round(a + (b - a) * step / 50)
            for a, b in zip(_split(colour), _split(other), strict=True)
        )
        yield "#" + "".join(f"{part:02x}" for part in mixed)


def measure_contrast(one: str, other: str) -> float:
    """The contrast of two colors as WCAG 2.2 defines it, from 1 to 21."""
    dark, light = sorted((_measure_light(one), _measure_light(other)))
    return (light + 0.05) / (dark + 0.05)


def _measure_light(colour: str) -> float:
    parts = [part / 255 for part in _split(colour)]
    linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def _split(colour: str) -> tuple[int, ...]:
    return tuple(bytes.fromhex(colour[1:]))
