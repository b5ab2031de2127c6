"""Text to XHTML: escaping that an XML parser accepts, whatever an author pasted."""

from __future__ import annotations

import re

from bindery.core.control_characters import show_controls

_OPTION = re.compile(r"(?<!\S)-{1,2}\w\S{0,24}(?!\S)")
"""An option in escaped code, short enough for any line."""


def escape_text(text: str) -> str:
    """Text for the content of an element."""
    return show_controls(text).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def escape_attribute(text: str) -> str:
    """Text for an attribute between double quotes."""
    return escape_text(text).replace('"', "&quot;").replace("\n", " ")


def keep_options(command: str) -> str:
    """A command as XHTML in which short options are not broken."""
    return _OPTION.sub(r'<span class="word">\g<0></span>', escape_text(command))
