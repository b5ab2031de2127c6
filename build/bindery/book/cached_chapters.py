"""Chapters from the cache. Their tokens are not stored: a chapter is parsed again if a rule or an
output needs them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, overload

from bindery.core.cache import Cache
from bindery.core.facts import Facts, make_reader, write_value
from bindery.core.model import (
    Anchor,
    Chapter,
    Definition,
    Excuse,
    Finding,
    Footnote,
    Inventory,
    Link,
    OpenReference,
)

if TYPE_CHECKING:
    from markdown_it.token import Token

_FIELDS = {
    "title": str,
    "anchors": tuple[Anchor, ...],
    "links": tuple[Link, ...],
    "definitions": tuple[Definition, ...],
    "footnotes": tuple[Footnote, ...],
    "open_references": tuple[OpenReference, ...],
    "excuses": tuple[Excuse, ...],
    "inventory": Inventory,
    "findings": tuple[Finding, ...],
}


class _LazyTokens(Sequence["Token"]):
    """The tokens of a chapter, which is parsed when the first of them is needed."""

    def __init__(self, parse: Callable[[], Chapter]) -> None:
        self._parse = parse

    @cached_property
    def _tokens(self) -> Sequence[Token]:
        return self._parse().tokens

    @overload
    def __getitem__(self, index: int) -> Token: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Token]: ...
    def __getitem__(self, index: int | slice) -> Token | Sequence[Token]:
        return self._tokens[index]

    def __len__(self) -> int:
        return len(self._tokens)

    def __iter__(self) -> Iterator[Token]:
        return iter(self._tokens)


def read_chapter(
    cache: Cache | None, path: str, source: str, title: str, *, maths: bool
) -> Chapter:
    """A chapter as `parse_chapter` returns it, with the facts that earlier builds worked out. It is
    stored with all its facts when the cache is closed."""
    parse = partial(_parse, path, source, title, maths)
    if cache is None:
        return parse()
    name = f"text of {path}"
    inputs = {"its text": source, "its entry in chapters.yaml": f"{maths} {title}"}

    def restore(stored: Any) -> Chapter:
        values = {key: make_reader(kind)(stored[key]) for key, kind in _FIELDS.items()}
        facts, tokens = Facts(stored["facts"]), _LazyTokens(parse)
        return Chapter(path=path, source=source, tokens=tokens, facts=facts, **values)

    restored = cache.read(name, inputs, restore)
    chapter = restored or parse()

    def store() -> None:
        rebuilt = chapter.facts.rebuilt
        if restored:
            reasons = {f"{fact} of {path}": reason for fact, reason in rebuilt.items()}
            cache.rebuilt.update(reasons)
        if rebuilt or not restored:
            fields: dict[str, Any] = {key: write_value(getattr(chapter, key)) for key in _FIELDS}
            cache.store(name, inputs, {**fields, "facts": chapter.facts.write()})

    cache.do_at_end(store)
    return chapter


def _parse(path: str, source: str, title: str, maths: bool) -> Chapter:
    # Imported here: if every chapter is in the cache, no parser is needed.
    from bindery.markdown.chapter_reader import parse_chapter

    return parse_chapter(path, source, title, maths=maths)
