"""Chapters from the cache. Their tokens are not stored: a chapter is parsed again if a rule or an
output needs them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, overload

from msgspec import Raw, Struct
from msgspec.structs import asdict

from bindery.core.cache import Cache
from bindery.core.facts import Facts, StoredFacts, decode, encode
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
from bindery.core.second_process import share_work

if TYPE_CHECKING:
    from markdown_it.token import Token


class _Stored(Struct):
    """What is kept of a chapter: all but its source, which is at hand, and its tokens."""

    title: str
    anchors: tuple[Anchor, ...]
    links: tuple[Link, ...]
    definitions: tuple[Definition, ...]
    footnotes: tuple[Footnote, ...]
    open_references: tuple[OpenReference, ...]
    excuses: tuple[Excuse, ...]
    inventory: Inventory
    findings: tuple[Finding, ...]
    facts: StoredFacts


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


class Manuscript(Struct, frozen=True):
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

    def restore(self, written: Raw) -> Chapter:
        """The chapter from what `write_chapter` wrote."""
        values = asdict(decode(written, _Stored))
        values["facts"] = Facts(values["facts"])
        return Chapter(self.path, source=self.source, tokens=_LazyTokens(self.parse), **values)

    def recall(self, cache: Cache) -> Chapter | None:
        """The chapter as `parse` returns it, with the facts that earlier builds worked out."""
        return cache.read(f"text of {self.path}", self._list_inputs(), self.restore)

    def store(self, cache: Cache, chapter: Chapter) -> None:
        """Store the chapter with its known facts."""
        cache.store(f"text of {self.path}", self._list_inputs(), write_chapter(chapter))
        chapter.facts.rebuilt.clear()

    def store_at_end(self, cache: Cache, chapter: Chapter, *, is_recalled: bool) -> None:
        """Store the chapter again when the cache is closed, if facts have been added."""

        def store() -> None:
            rebuilt = chapter.facts.rebuilt
            if is_recalled:
                reasons = {f"{fact} of {self.path}": reason for fact, reason in rebuilt.items()}
                cache.rebuilt.update(reasons)
            if rebuilt:
                self.store(cache, chapter)

        cache.do_at_end(store)

    def _list_inputs(self) -> dict[str, str]:
        return {
            "its text": self.source,
            "its entry in chapters.yaml": f"{self.maths} {self.title}",
        }


def write_chapter(chapter: Chapter) -> Mapping[str, Any]:
    """A chapter and its facts, for `encode`."""
    values = {name: getattr(chapter, name) for name in _Stored.__struct_fields__}
    return {**values, "facts": chapter.facts.write()}


def read_chapters(
    manuscripts: Sequence[Manuscript],
    cache: Cache | None,
    prepare: Callable[[Chapter], object] = lambda _: None,
    meanwhile: Callable[[], object] = lambda: None,
) -> list[Chapter]:
    """Chapters as they are parsed, from the cache if they are there. The others are parsed, and
    `prepare` works out facts of them, by two processes if they are many. If none is in the cache,
    `meanwhile` is called while the second process begins with them."""
    recalled = {one.path: one.recall(cache) for one in manuscripts} if cache else {}
    chapters = {path: chapter for path, chapter in recalled.items() if chapter}
    missing = [one for one in manuscripts if one.path not in chapters]
    missing.sort(key=lambda one: -len(one.source))  # so that both processes end together

    def parse(one: Manuscript) -> Chapter:
        chapter = one.parse()
        prepare(chapter)
        if cache:
            one.store(cache, chapter)
        return chapter

    def write(one: Manuscript) -> Raw:
        return Raw(encode(write_chapter(parse(one))))

    if len(missing) < len(manuscripts):
        read = share_work(missing, parse, write, Manuscript.restore)
    else:
        read = share_work(missing, parse, write, Manuscript.restore, meanwhile)
    chapters |= {chapter.path: chapter for chapter in read}
    if cache:
        for one in manuscripts:
            is_recalled = recalled[one.path] is not None
            one.store_at_end(cache, chapters[one.path], is_recalled=is_recalled)
    return [chapters[one.path] for one in manuscripts]


def read_chapter(manuscript: Manuscript, cache: Cache | None) -> Chapter:
    """One chapter as it is parsed, from the cache if it is there."""
    (chapter,) = read_chapters((manuscript,), cache)
    return chapter
