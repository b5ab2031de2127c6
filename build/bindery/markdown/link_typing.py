"""How a destination is typed, and how it is typed again where files have moved.

What an author chose stays: angle brackets, percent signs, a leading `./` or `/`, a slash behind a
folder, a path that climbs higher than it need, the query and the anchor.
"""

from __future__ import annotations

import html
import posixpath
import re
from dataclasses import dataclass, replace
from typing import Literal
from urllib.parse import quote, unquote

from markdown_it.common.utils import unescapeAll

Style = Literal["bare", "angle", "html", "srcset"]

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:|//")
_DOTS = re.compile(r"(?:\./+)+")
# What cannot be in a destination of each style, besides control characters.
_NEVER = frozenset('%#?\\"<>^`{|}')
_FORBIDDEN = {
    "bare": _NEVER | {" "},
    "angle": _NEVER,
    "html": _NEVER | set(" '&"),
    "srcset": _NEVER | set(" '&,"),
}


@dataclass(frozen=True, slots=True)
class Form:
    """A destination that is a path: where it leads, and how its author typed it."""

    path: str
    """The path that it leads to, relative to the root; one outside begins with `..`."""
    style: Style
    prefix: str
    """`./` as often as it is at the front, or `/` for a path from the root."""
    excess: int
    """How many folders it climbs above the one that both ends have in common."""
    slash: bool
    """Whether a slash ends it."""
    tail: str
    """Query and anchor as typed."""
    typed: tuple[tuple[str, str], ...]
    """Names on the way, and how each is typed."""


def read_form(raw: str, style: Style, here: str) -> Form | None:
    """How a destination in a file in the folder `here` is typed; None where it is not a path, or
    escapes hide what is what. `raw` is as it is in the file."""
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
        prefix = path[: len(path) - len(path.lstrip("/"))]
        rest = path.lstrip("/")
        target = _normalise(rest.split("/"))
        return Form("/".join(target), style, prefix, 0, rest.endswith("/"), tail, tuple(names))
    dots = _DOTS.match(path)
    prefix = dots[0] if dots and dots[0] != path else ""
    start, parts = _split(here), _split(path.removeprefix(prefix))
    target = _normalise([*start, *parts])
    climbs = next((n for n, part in enumerate(parts) if part != ".."), len(parts))
    common = _count_common(start, target)
    excess = max(common - (len(start) - climbs), 0) if climbs <= len(start) else 0
    form = Form("/".join(target), style, prefix, excess, path.endswith("/"), tail, tuple(names))
    behind = parts[climbs or 1 :]
    kept = next((n for n, part in enumerate(behind) if part != "."), len(behind))
    if kept:
        dotted = replace(form, excess=excess + kept)
        if write_form(dotted, here, form.path) == raw:
            return dotted
    return form


def write_form(form: Form, here: str, path: str, *, slash: bool | None = None) -> str:
    """The destination as its author would type it in the folder `here`, to lead to `path`."""
    start, target = _split(here), _split(path)
    ending = "/" if (form.slash if slash is None else slash) else ""
    if form.prefix.startswith("/"):
        parts = target
    else:
        common = _count_common(start, target)
        pivot = max(common - form.excess, 0)
        parts = [".."] * (len(start) - pivot)
        rest = target[pivot:]
        # Where the tree is too flat to climb as high as the author did, a dot keeps the place, so
        # that moving back gives what was there.
        missing = ["."] * (form.excess - (common - pivot))
        if not parts and len(rest) > 1:
            parts, rest = rest[:1], rest[1:]
        parts += [*missing, *rest] if parts else rest
    known = dict(form.typed)
    names = [known.get(name, encode_name(name, form.style)) for name in parts]
    if names and not form.prefix and _SCHEME.match(names[0]):
        names[0] = names[0].replace(":", "%3A")
    body = form.prefix + "/".join(names or ["."] * (not form.prefix)) + ending
    written = f"{body}{form.tail}"
    return f"<{written}>" if form.style == "angle" else written


def encode_name(name: str, style: Style) -> str:
    """The name of a file as it can be in a destination of a style; letters of all languages
    stay as they are."""
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
    """Whether each parenthesis has its partner, as a bare destination needs it."""
    depth = 0
    for character in name:
        depth += (character == "(") - (character == ")")
        if depth < 0:
            return False
    return depth == 0


def _split(path: str) -> list[str]:
    return [part for part in path.split("/") if part]


def _normalise(parts: list[str]) -> list[str]:
    path = posixpath.normpath("/".join(part for part in parts if part) or ".")
    return [] if path == "." else path.split("/")


def _count_common(start: list[str], target: list[str]) -> int:
    count = 0
    while count < min(len(start), len(target)) and start[count] == target[count]:
        count += 1
    return count
