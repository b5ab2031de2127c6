"""The templates of site, PDF and EPUB."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from functools import cache, cached_property
from typing import Any, TypeVar

from jinja2 import Environment, PackageLoader, StrictUndefined

from bindery.core.cache import Cache, recall
from bindery.core.config import Config

T = TypeVar("T")


class Frames:
    """The templates of all outputs for one book; `t` translates their words. Values are escaped
    unless they are marked as markup, and a missing value is an error."""

    def __init__(self, book: Config, cache: Cache | None = None) -> None:
        self._book = book
        self._cache = cache

    def fill(self, template: str, values: Mapping[str, Any]) -> str:
        """A template, rendered with its values."""
        words = self._book.wording
        return _load_templates().get_template(template).render(book=self._book, t=words, **values)

    def recall(
        self, name: str, values: Mapping[str, Any], kind: type[T], make: Callable[[], T]
    ) -> T:
        """What was made earlier of the same values. `repr` has to tell all that a template can show
        of them."""
        inputs = {"chapters.yaml": self._digest, "what it shows": repr(values)}
        return recall(self._cache, name, inputs, kind, make)

    @cached_property
    def _digest(self) -> str:
        return hashlib.sha256(repr(self._book).encode(errors="surrogatepass")).hexdigest()


@cache
def _load_templates() -> Environment:
    return Environment(
        loader=PackageLoader("bindery.render"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=StrictUndefined,
        keep_trailing_newline=True,
    )


def fill_frame(name: str, book: Config, **values: Any) -> str:
    """One template, rendered with its values."""
    return Frames(book).fill(name, values)
