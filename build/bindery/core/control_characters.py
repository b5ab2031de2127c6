"""Make control characters visible: a terminal would obey them, and XML forbids them."""

from __future__ import annotations

_PICTURES = {code: 0x2400 + code for code in range(0x20) if chr(code) not in "\t\n\r"}
_PICTURES |= dict.fromkeys((0x7F, 0xFFFE, 0xFFFF), ord("\N{REPLACEMENT CHARACTER}"))


def show_controls(text: str) -> str:
    """The text with visible control characters; tabs and line ends stay."""
    return text if text.isprintable() else text.translate(_PICTURES)
