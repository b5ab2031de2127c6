"""Text to XHTML: escaping that an XML parser accepts, whatever an author pasted."""

from __future__ import annotations

import re

_CONTROL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ufffe\uffff]")


def _picture(match: re.Match[str]) -> str:
    """A control character as its visible picture, U+2400 and on; XML forbids the thing itself."""
    code = ord(match[0])
    return chr(0x2400 + code) if code < 0x20 else "\N{REPLACEMENT CHARACTER}"


def show_controls(text: str) -> str:
    """Text as every output shows it: control characters as pictures."""
    return text if text.isprintable() else _CONTROL.sub(_picture, text)


def escape_text(text: str) -> str:
    """Text for the content of an element."""
    return show_controls(text).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def escape_attribute(text: str) -> str:
    """Text for an attribute between double quotes."""
    return escape_text(text).replace('"', "&quot;").replace("\n", " ")
