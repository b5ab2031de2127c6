"""Chapters from the cache: all but their tokens, which are parsed when someone asks for them."""

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


class _LateTokens(Sequence["Token"]):
    """The tokens of a chapter, parsed when the first of them is asked for."""

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
    """A chapter as `parse_chapter` gives it, with the facts that are known of it. They are kept
    when the cache is closed."""
    if cache is None:
        return _parse(path, source, title, maths)
    name = f"text of {path}"
    parts = {"its text": source, "chapters.yaml": f"{maths} {title}"}
    kept = cache.read(name, parts)
    if kept is None:
        chapter = _parse(path, source, title, maths)
    else:
        tokens = _LateTokens(partial(_parse, path, source, title, maths))
        values = {key: make_reader(kind)(kept[key]) for key, kind in _FIELDS.items()}
        facts = Facts(kept["facts"])
        chapter = Chapter(path=path, source=source, tokens=tokens, facts=facts, **values)

    def keep() -> None:
        if kept is not None:
            for fact in chapter.facts.grown:
                cache.made[f"{fact} of {path}"] = "not known of this text with these settings"
        if kept is None or chapter.facts.grown:
            value: dict[str, Any] = {key: write_value(getattr(chapter, key)) for key in _FIELDS}
            cache.keep(name, parts, {**value, "facts": chapter.facts.write()})

    cache.do_at_end(keep)
    return chapter


def _parse(path: str, source: str, title: str, maths: bool) -> Chapter:
    # Imported here: where every chapter is kept, no parser is needed.
    from bindery.markdown.chapter_reader import parse_chapter

    return parse_chapter(path, source, title, maths=maths)
