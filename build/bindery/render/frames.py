"""The templates of site, PDF and EPUB."""

from __future__ import annotations

from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from bindery.core.config import Config
from bindery.core.wording import Wording


def open_frames(words: Wording) -> Environment:
    """The templates of all outputs; `t` translates their words. Values are escaped unless they are
    marked as markup, and a missing value is an error."""
    environment = Environment(
        loader=PackageLoader("bindery.render"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=StrictUndefined,
        keep_trailing_newline=True,
    )
    environment.globals["t"] = words
    return environment


def fill_frame(name: str, book: Config, **values: Any) -> str:
    """One template, rendered with its values."""
    return open_frames(book.wording).get_template(name).render(book=book, **values)
