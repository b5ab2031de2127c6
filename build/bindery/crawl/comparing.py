"""Compare the links of an output with the source: for each link in a chapter, the output must have
one to the same target.

Links are not resolved again: each target of the resolver is mapped to a place in the output.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from urllib.parse import unquote

from msgspec import Struct

from bindery.book.this_edition import Edition
from bindery.check.inspect import Inspection
from bindery.core.model import (
    Chapter,
    Finding,
    Link,
    NestedUrl,
    Span,
    Target,
    ToChapter,
    ToFile,
    ToWeb,
)
from bindery.crawl.reading import Written
from bindery.render.addresses import find_file_url

RULE = "second-opinion"
_REPORT = "build again, and report a bug if it happens again"


class Layout(Struct, frozen=True):
    """The layout of an output. A place is a string: a file with an id after `#`, or an address."""

    name: str
    """The name of the output in findings."""
    page: str
    """How findings name a page, with `{}` for the page."""
    find_anchor: Callable[[str, str], str]
    """The place of an anchor by chapter and slug, of the chapter if the slug is empty."""
    find_written: Callable[[Written], str]
    """The target of a link in the output."""
    find_copy: Callable[[str], str] | None = None
    """The place of a copied file by path, if the output keeps file names."""
    marks_text: bool = True
    """Whether links in the text can be distinguished from those in menus and notes."""


class Comparison:
    """Compares an output with its source and collects differences."""

    def __init__(self, inspection: Inspection, edition: Edition, layout: Layout) -> None:
        self.findings: list[Finding] = []
        self.links = 0
        self._inspection = inspection
        self._edition = edition
        self._layout = layout
        self._anchors = {
            layout.find_anchor(chapter.path, anchor.slug): anchor.span
            for chapter in inspection.book.chapters
            for anchor in chapter.anchors
        }
        """Source positions of the places in the output."""
        self._reported: set[tuple[str, str]] = set()

    def add(self, span: Span, message: str, hint: str = _REPORT) -> None:
        self.findings.append(Finding(span, RULE, message, hint))

    def compare(self, files: Mapping[str, str], read: Mapping[str, Sequence[Written]]) -> None:
        """Compare the links of each chapter with those of its file, and check the targets of all
        links."""
        name = self._layout.name
        chapters = {files[chapter.path]: chapter for chapter in self._inspection.book.chapters}
        for file, chapter in chapters.items():
            if file not in read:
                message = f"the {name} has no '{file}' for this chapter"
                self.add(Span.whole(chapter.path), message, f"build the {name} again")
        for file, written in read.items():
            self.links += len(written)
            if file in chapters:
                self._compare_chapter(chapters[file], written)
            else:
                self._check(written, Span.whole(self._inspection.config.file))

    def _compare_chapter(self, chapter: Chapter, written: Sequence[Written]) -> None:
        """Match each link of the source with one to the same place; the rest have no source."""
        resolved = self._inspection.resolved
        free: dict[tuple[str, bool], list[Written]] = {}
        for one in written:
            if one.is_text:
                key = self._layout.find_written(one), one.is_image
                free.setdefault(key, []).append(one)
        for link in chapter.links:
            target = resolved.find_target(link)
            place = None if target is None else self._find_place(link, target)
            if place is None:
                continue
            # Outputs show a web image as a link, unless it is inside a link.
            is_shown_as_link = link.is_image and isinstance(target, ToWeb)
            same = free.get((place, link.is_image and not is_shown_as_link))
            if same:
                one = same.pop(0)
                # Outputs copy nested URLs unchanged; the checker has already reported them.
                if one.fault and not isinstance(resolved.links[link], NestedUrl):
                    self.add(link.span, self._tell_fault(one))
            elif not is_shown_as_link:
                message = f"the {self._layout.name} has no link to '{place}' for this link"
                self.add(link.span, message)
        if self._layout.marks_text:
            for one in (o for (_, is_image), rest in free.items() if not is_image for o in rest):
                message = f"the source has no link for {self._describe(one)}"
                self.add(Span.whole(chapter.path), message)
        others = [one for one in written if not one.is_text]
        others += [one for rest in free.values() for one in rest]
        self._check(others, Span.whole(chapter.path))

    def _find_place(self, link: Link, target: Target) -> str | None:
        """The place that an output's link must lead to; None if there is no requirement."""
        layout = self._layout
        match target:
            case ToWeb(url=url):
                return layout.find_written(Written("", url))
            case ToFile(path=path, is_folder=False) if link.is_image:
                return layout.find_copy(path) if layout.find_copy else None
            case ToFile(path=path, is_folder=is_folder) if not link.is_image:
                address = find_file_url(target, self._inspection.config, self._edition)
                if address is not None:
                    return unquote(address)
                return layout.find_copy(path) if layout.find_copy and not is_folder else None
            case ToChapter(path=path, slug=slug) if not link.is_image:
                return layout.find_anchor(path, slug)
            case _:
                return None

    def _check(self, written: Sequence[Written], fallback: Span) -> None:
        """Report broken links, once per place."""
        for one in written:
            place = self._layout.find_written(one)
            if one.fault and (place, one.fault) not in self._reported:
                self._reported.add((place, one.fault))
                page = place.partition("#")[0]
                span = self._anchors.get(place) or self._anchors.get(page) or fallback
                self.add(span, self._tell_fault(one))

    def _tell_fault(self, one: Written) -> str:
        return f"{self._describe(one)} is broken: {one.fault}"

    def _describe(self, one: Written) -> str:
        page = self._layout.page.format(one.page)
        return f"the link in the {self._layout.name} to '{one.address}' {page}"
