"""Text to XHTML: escaping that an XML parser accepts, whatever an author pasted."""

from __future__ import annotations

from bindery.core.control_characters import show_controls


def escape_text(text: str) -> str:
    """Text for the content of an element."""
    return show_controls(text).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def escape_attribute(text: str) -> str:
    """Text for an attribute between double quotes."""
    return escape_text(text).replace('"', "&quot;").replace("\n", " ")
