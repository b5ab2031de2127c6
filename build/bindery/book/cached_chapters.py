"""Chapters from the cache. Their tokens are not stored: a chapter is parsed again if a rule or an
output needs them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
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
from bindery.core.second_process import has_second_processor, start_copy

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

_MANY = 8
"""So many chapters take longer than starting a second process."""


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


@dataclass(frozen=True, slots=True)
class Manuscript:
    """A chapter that is not parsed yet."""

    path: str
    source: str
    title: str
    """That in chapters.yaml, if it has one."""
    maths: bool

    def parse(self) -> Chapter:
        # Imported here: if every chapter is in the cache, no parser is needed.
        from bindery.markdown.chapter_reader import parse_chapter

        return parse_chapter(self.path, self.source, self.title, maths=self.maths)

    def restore(self, stored: Any) -> Chapter:
        """The chapter from what `write_chapter` wrote."""
        values = {key: make_reader(kind)(stored[key]) for key, kind in _FIELDS.items()}
        facts, tokens = Facts(stored["facts"]), _LazyTokens(self.parse)
        return Chapter(path=self.path, source=self.source, tokens=tokens, facts=facts, **values)

    def recall(self, cache: Cache) -> Chapter | None:
        """The chapter as `parse` returns it, with the facts that earlier builds worked out."""
        return cache.read(f"text of {self.path}", self._list_inputs(), self.restore)

    def keep(self, cache: Cache, chapter: Chapter, *, is_recalled: bool) -> None:
        """Store the chapter with all its facts when the cache is closed."""

        def store() -> None:
            rebuilt = chapter.facts.rebuilt
            if is_recalled:
                reasons = {f"{fact} of {self.path}": reason for fact, reason in rebuilt.items()}
                cache.rebuilt.update(reasons)
            if rebuilt or not is_recalled:
                cache.store(f"text of {self.path}", self._list_inputs(), write_chapter(chapter))
                rebuilt.clear()

        cache.do_at_end(store)

    def _list_inputs(self) -> dict[str, str]:
        return {
            "its text": self.source,
            "its entry in chapters.yaml": f"{self.maths} {self.title}",
        }


def write_chapter(chapter: Chapter) -> dict[str, Any]:
    """A chapter and its facts as JSON."""
    fields: dict[str, Any] = {key: write_value(getattr(chapter, key)) for key in _FIELDS}
    return {**fields, "facts": chapter.facts.write()}


def read_chapters(
    manuscripts: Sequence[Manuscript],
    cache: Cache | None,
    prepare: Callable[[Chapter], object] = lambda _: None,
) -> list[Chapter]:
    """Chapters as they are parsed, from the cache if they are there. The others are parsed, and
    `prepare` works out facts of them, by two processes if they are many."""
    recalled = {one.path: one.recall(cache) for one in manuscripts} if cache else {}
    chapters = {path: chapter for path, chapter in recalled.items() if chapter}
    missing = [one for one in manuscripts if one.path not in chapters]

    def parse(one: Manuscript) -> Chapter:
        chapter = one.parse()
        prepare(chapter)
        return chapter

    if len(missing) >= _MANY and has_second_processor():
        theirs, missing = missing[::2], missing[1::2]
        wait = start_copy(lambda: [write_chapter(parse(one)) for one in theirs])
        chapters |= {one.path: parse(one) for one in missing}
        written = wait()
        if written is None:
            missing = theirs
        else:
            missing = []
            for one, stored in zip(theirs, written, strict=True):
                chapters[one.path] = one.restore(stored)
    chapters |= {one.path: parse(one) for one in missing}
    if cache:
        for one in manuscripts:
            one.keep(cache, chapters[one.path], is_recalled=recalled[one.path] is not None)
    return [chapters[one.path] for one in manuscripts]


def read_chapter(manuscript: Manuscript, cache: Cache | None) -> Chapter:
    """One chapter as it is parsed, from the cache if it is there."""
    (chapter,) = read_chapters((manuscript,), cache)
    return chapter
