"""The style in which a destination is typed, kept when files move.

The author's choices stay: angle brackets, percent signs, a leading `./` or `/`, a slash after a
folder, the query and the anchor.
"""

from __future__ import annotations

import html
import posixpath
import re
from typing import Literal
from urllib.parse import quote, unquote

from markdown_it.common.utils import unescapeAll
from msgspec import Struct

Style = Literal["bare", "angle", "html", "srcset"]

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:|//")
_DOTS = re.compile(r"(?:\./+)+")
# Characters that are not allowed in each style; control characters are allowed in none.
_NEVER = frozenset('%#?\\"<>^`{|}')
_FORBIDDEN = {
    "bare": _NEVER | {" "},
    "angle": _NEVER,
    "html": _NEVER | set(" '&"),
    "srcset": _NEVER | set(" '&,"),
}


class Form(Struct, frozen=True):
    """A destination that is a path: its target, and how the author typed it."""

    path: str
    """The path that it leads to, relative to the root; one outside begins with `..`."""
    style: Style
    prefix: str
    """All leading `./`, or `/` for a path from the root."""
    slash: bool
    """Whether it ends with a slash."""
    tail: str
    """Query and anchor as typed."""
    typed: tuple[tuple[str, str], ...]
    """Path components, and how each is typed."""


def read_form(raw: str, style: Style, here: str) -> Form | None:
    """How a destination in a file in the folder `here` is typed; None if it is not a path, or if
    escapes make it ambiguous. `raw` is the text of the file."""
    typed = raw
    if style in ("bare", "angle") and raw.startswith("<") and raw.endswith(">"):
        typed, style = raw[1:-1], "angle"
    typed = typed.strip()
    plain = _unescape(typed, style)
    path = unquote(plain.partition("#")[0].partition("?")[0])
    if not path or _SCHEME.match(plain):
        return None
    cut = min((typed.find(mark) for mark in "#?" if mark in typed), default=len(typed))
    body, tail = typed[:cut], typed[cut:]
    if unquote(_unescape(body, style)) != path:
        return None
    names = [(unquote(_unescape(name, style)), name) for name in body.split("/")]
    if "/".join(name for name, _ in names) != path:
        names = []
    if path.startswith("/"):
        prefix, start = path[: len(path) - len(path.lstrip("/"))], ""
    else:
        dots = _DOTS.match(path)
        prefix, start = (dots[0] if dots and dots[0] != path else ""), here
    target = posixpath.normpath(f"{start}/{path}".strip("/") or ".")
    return Form(
        "" if target == "." else target, style, prefix, path.endswith("/"), tail, tuple(names)
    )


def write_form(form: Form, here: str, path: str, *, slash: bool | None = None) -> str:
    """The destination as its author would type it in the folder `here`, to lead to `path`."""
    parts = _split(path)
    if not form.prefix.startswith("/"):
        start = _split(here)
        pairs = zip(start, parts, strict=False)
        common = next((n for n, (a, b) in enumerate(pairs) if a != b), min(len(start), len(parts)))
        parts = [".."] * (len(start) - common) + parts[common:]
    known = dict(form.typed)
    names = [known.get(name, encode_name(name, form.style)) for name in parts]
    if names and not form.prefix and _SCHEME.match(names[0]):
        names[0] = names[0].replace(":", "%3A")
    body = form.prefix + "/".join(names or ["."] * (not form.prefix))
    ending = "/" if (form.slash if slash is None else slash) else ""
    written = f"{body}{ending}{form.tail}"
    return f"<{written}>" if form.style == "angle" else written


def encode_name(name: str, style: Style) -> str:
    """A file name encoded for a destination of this style; letters of all languages stay as they
    are."""
    if name in (".", ".."):
        return name
    forbidden = _FORBIDDEN[style]
    if style == "bare" and not is_balanced(name):
        forbidden = forbidden | set("()")
    if style in ("bare", "angle") and html.unescape(name) != name:
        forbidden = forbidden | {"&"}
    return "".join(
        quote(c, safe="", errors="surrogateescape") if c in forbidden or not c.isprintable() else c
        for c in name
    )


def _unescape(text: str, style: Style) -> str:
    return unescapeAll(text) if style in ("bare", "angle") else html.unescape(text)


def is_balanced(name: str) -> bool:
    """Whether parentheses are balanced, which a bare destination requires."""
    depth = 0
    for character in name:
        depth += (character == "(") - (character == ")")
        if depth < 0:
            return False
    return depth == 0


def _split(path: str) -> list[str]:
    return [part for part in path.split("/") if part]
