"""The frames around the text of a book: the templates of site, PDF and EPUB."""

from __future__ import annotations

from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined


def open_frames() -> Environment:
    """The templates of all outputs. What a template shows is escaped, unless it is marked as
    markup already, and a name that it is not given is an error."""
    return Environment(
        loader=PackageLoader("bindery.render"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=StrictUndefined,
        keep_trailing_newline=True,
    )


def fill_frame(name: str, **values: Any) -> str:
    """One template with its values in place."""
    return open_frames().get_template(name).render(**values)
