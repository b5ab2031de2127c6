"""Control characters as pictures: a terminal would obey them, and XML forbids them."""

from __future__ import annotations

import re

_CONTROL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ufffe\uffff]")


def _picture(match: re.Match[str]) -> str:
    """A control character as its visible picture, U+2400 and on."""
    code = ord(match[0])
    return chr(0x2400 + code) if code < 0x20 else "\N{REPLACEMENT CHARACTER}"


def show_controls(text: str) -> str:
    """Text as every output shows it; tabs and ends of lines stay what they are."""
    return text if text.isprintable() else _CONTROL.sub(_picture, text)
