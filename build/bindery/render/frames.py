"""The templates of site, PDF and EPUB."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, TypeVar

from jinja2 import Environment, PackageLoader, StrictUndefined

from bindery.core.cache import Cache
from bindery.core.config import Config
from bindery.core.facts import Facts, encode

T = TypeVar("T")


class Frames:
    """The templates of all outputs for one book; `t` translates their words. Values are escaped
    unless they are marked as markup, and a missing value is an error."""

    def __init__(self, book: Config, cache: Cache | None = None) -> None:
        self._book = book
        inputs = {"chapters.yaml": repr(book)}
        self._facts = cache.open_facts("framed texts", inputs) if cache else Facts()

    def fill(self, template: str, values: Mapping[str, Any]) -> str:
        """A template, rendered with its values."""
        words = self._book.wording
        return _load_templates().get_template(template).render(book=self._book, t=words, **values)

    def recall(
        self, name: str, values: Mapping[str, Any], kind: type[T], make: Callable[[], T]
    ) -> T:
        """What was made earlier of the same values."""
        digest = hashlib.sha256(encode(values)).hexdigest()
        return self._facts.derive(name, kind, make, digest)

    def fill_again(self, name: str, template: str, values: Mapping[str, Any]) -> str:
        """A template with its values, or the same text from an earlier build."""
        return self.recall(name, values, str, lambda: self.fill(template, values))


@cache
def _load_templates() -> Environment:
    return Environment(
        loader=PackageLoader("bindery.render"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=StrictUndefined,
        keep_trailing_newline=True,
        auto_reload=False,
    )


def fill_frame(name: str, book: Config, **values: Any) -> str:
    """One template, rendered with its values."""
    return Frames(book).fill(name, values)
