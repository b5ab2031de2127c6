"""`robots.txt` as in RFC 9309: the longest matching rule wins, and ties allow."""

from __future__ import annotations

import re
from collections.abc import Iterator
from urllib.parse import quote, unquote, urlsplit

from msgspec import Struct

AGENT = "bindery"
MAX_BYTES = 500 << 10
"""How much of the file must be read, as in RFC 9309."""
_DELAY = re.compile(r"\d+(\.\d*)?|\.\d+", re.ASCII)


class Robots(Struct, frozen=True):
    """What a host allows us; everything by default."""

    rules: tuple[tuple[str, bool], ...] = ()
    """Patterns, and whether they allow."""
    delay: float = 0.0
    """Seconds between requests."""

    def allows(self, url: str) -> bool:
        parts = urlsplit(url)
        path = _normalise((parts.path or "/") + (f"?{parts.query}" if parts.query else ""))
        matches = [(len(p), is_allowed) for p, is_allowed in self.rules if _matches(p, path)]
        return max(matches, default=(0, True))[1]


def parse_robots(text: str) -> Robots:
    """The rules for our agent, or those for all agents."""
    groups: dict[str, list[tuple[str, str]]] = {}
    names: list[str] = []
    is_open = False
    for key, value in _read_lines(text):
        if key == "user-agent":
            names = [*names, value.lower()] if is_open else [value.lower()]
            groups.setdefault(value.lower(), [])
        else:
            for name in dict.fromkeys(names):
                groups[name].append((key, value))
        is_open = key == "user-agent"
    entries = groups.get(AGENT, groups.get("*", []))
    rules = [(_normalise(v), k == "allow") for k, v in entries if k in ("allow", "disallow") and v]
    delays = [float(v) for k, v in entries if k == "crawl-delay" and _DELAY.fullmatch(v)]
    return Robots(tuple(rules), max(delays, default=0.0))


def _read_lines(text: str) -> Iterator[tuple[str, str]]:
    for line in text.removeprefix("\ufeff").splitlines():
        key, colon, value = line.partition("#")[0].partition(":")
        key = key.strip().lower()
        if colon and key in ("user-agent", "allow", "disallow", "crawl-delay"):
            yield key, value.strip()


def _normalise(path: str) -> str:
    """A path with normalized percent-encoding."""
    return quote(unquote(path), safe="/*$?&=:;,+@!~'()")


def _matches(pattern: str, path: str) -> bool:
    # Not a regular expression: a malicious pattern could run forever.
    first, *pieces = pattern.removesuffix("$").split("*")
    if not path.startswith(first):
        return False
    place = len(first)
    is_whole = pattern.endswith("$")
    last = pieces.pop() if is_whole and pieces else ""
    for piece in pieces:
        found = path.find(piece, place)
        if found < 0:
            return False
        place = found + len(piece)
    if not is_whole:
        return True
    if "*" not in pattern:
        return path == first
    return path.endswith(last) and len(path) - len(last) >= place
