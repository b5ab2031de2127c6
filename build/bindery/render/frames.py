"""The frames around the text of a book: the templates of site, PDF and EPUB."""

from __future__ import annotations

from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from bindery.core.config import Config
from bindery.core.wording import Wording


def open_frames(words: Wording) -> Environment:
    """The templates of all outputs; `t` gives their words. What a template shows is escaped, unless
    it is marked as markup already, and a name that it is not given is an error."""
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
    """One template with its values in place."""
    return open_frames(book.wording).get_template(name).render(book=book, **values)
