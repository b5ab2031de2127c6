"""Make control characters visible: a terminal would obey them, and XML forbids them."""

from __future__ import annotations

import re

_CONTROL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ufffe\uffff]")


def _picture(match: re.Match[str]) -> str:
    """The visible picture of a control character, from U+2400."""
    code = ord(match[0])
    return chr(0x2400 + code) if code < 0x20 else "\N{REPLACEMENT CHARACTER}"


def show_controls(text: str) -> str:
    """The text with visible control characters; tabs and line ends stay."""
    return text if text.isprintable() else _CONTROL.sub(_picture, text)
