"""Compare each link of an output with its source: the resolver says where a link of a chapter
leads, and the output has to lead there, exactly as often.

The resolver is not run again: each of its targets is turned into a place of the output.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from itertools import chain, repeat

from bindery.check.inspect import Inspection
from bindery.core.model import (
    Chapter,
    Failure,
    Finding,
    Link,
    NestedUrl,
    ResolvedBook,
    Span,
    Target,
    ToChapter,
    ToFile,
    ToWeb,
)
from bindery.crawl.reading import Written

RULE = "second-opinion"
_REPORT = "build again, and report it if it happens again"


@dataclass(frozen=True, slots=True)
class Layout:
    """Where an output puts things. A place is a text: a file with an id behind `#`, or an
    address."""

    name: str
    """The output, as a finding names it."""
    page: str
    """How a finding names a page, with `{}` for the page itself."""
    find_anchor: Callable[[str, str], str]
    """The place of an anchor, by chapter and slug; that of the chapter if the slug is empty."""
    find_written: Callable[[Written], str]
    """Where a link of the output leads."""
    find_file: Callable[[ToFile], str | None]
    """Where a link to a file leads; None if the output has no address for it."""
    find_image: Callable[[str], str] | None = None
    """The place of an image by its path; None if the output gives images its own names."""

    def find_target(self, target: Target) -> str | None:
        """Where a link has to lead; None if the output has no address for it."""
        match target:
            case ToWeb(url=url):
                return self.find_written(Written("", url))
            case ToChapter(path=path, slug=slug):
                return self.find_anchor(path, slug)
            case ToFile():
                return self.find_file(target)


@dataclass(frozen=True, slots=True)
class Promise:
    """A link of the source, and the place where the output has to lead with it."""

    link: Link
    place: str
    is_certain: bool = True
    """False for an image of the web: it is a link unless it is inside one."""


@dataclass(slots=True)
class Differences:
    """How the links of an output differ from the promises."""

    kept: list[tuple[Promise, Written]] = field(default_factory=list)
    lost: list[tuple[Promise, Written | None]] = field(default_factory=list)
    """Promises without a link, each with the link that the output has instead."""
    extra: list[Written] = field(default_factory=list)
    """Links without a promise."""


@dataclass(slots=True)
class Tally:
    """The result for one output."""

    findings: list[Finding] = field(default_factory=list)
    links: int = 0


def list_promises(
    chapter: Chapter, resolved: ResolvedBook, layout: Layout, *, images: bool
) -> list[Promise]:
    """What an output has to contain for the links of a chapter, or for its images."""
    promises = []
    for link in chapter.links:
        target = resolved.find_target(link)
        if target is None:
            continue
        if images and link.is_image and isinstance(target, ToFile) and not target.is_folder:
            shown = layout.find_image(target.path) if layout.find_image else ""
            promises.append(Promise(link, shown))
        elif not images and (not link.is_image or isinstance(target, ToWeb)):
            place = layout.find_target(target)
            if place is not None:
                promises.append(Promise(link, place, is_certain=not link.is_image))
    return promises


def compare_links(
    promises: Sequence[Promise],
    written: Sequence[tuple[Written, str]],
    *,
    repeats: bool = False,
) -> Differences:
    """Compare the links of an output, each with its place, with the promises, in order.

    With `repeats` a link may be there several times: a PDF has one per line of its text.
    """
    wanted = [promise.place for promise in promises]
    there = [place for _, place in written]
    result = Differences()
    lost: list[tuple[int, int | None]] = []
    extra: list[int] = []
    matcher = SequenceMatcher(None, wanted, there, autojunk=False)
    for kind, first, last, start, end in matcher.get_opcodes():
        if kind == "equal":
            pairs = zip(range(first, last), range(start, end), strict=True)
            result.kept += [(promises[i], written[j][0]) for i, j in pairs]
        else:
            partners = [*range(start, end)] + [None] * (last - first)
            lost += zip(range(first, last), partners, strict=False)
            extra += range(start, end)
    # Links may have moved: footnotes go to the end of a page.
    free: dict[str, list[int]] = {}
    for j in extra:
        free.setdefault(there[j], []).append(j)
    moved = {i: free[wanted[i]].pop(0) for i, _ in lost if free.get(wanted[i])}
    result.kept += [(promises[i], written[j][0]) for i, j in moved.items()]
    lost = [(i, partner) for i, partner in lost if i not in moved]
    extra = [j for j in extra if j not in moved.values()]
    if repeats:
        known = set(wanted)
        extra = list({there[j]: j for j in reversed(extra) if there[j] not in known}.values())
        lost = list(zip((i for i, _ in lost), chain(reversed(extra), repeat(None)), strict=False))
    taken = set()
    for i, partner in lost:
        if promises[i].is_certain:
            instead = partner if partner in extra and partner not in taken else None
            taken.add(instead)
            result.lost.append((promises[i], written[instead][0] if instead is not None else None))
    result.extra = [written[j][0] for j in extra if j not in taken]
    return result


Judge = Callable[[Written, str], str]
"""Why a link of an output leads nowhere, by the link and its place; empty if it leads somewhere."""


class Comparison:
    """Compares one output with its source, and collects what differs."""

    def __init__(self, inspection: Inspection, layout: Layout, judge: Judge) -> None:
        self.layout = layout
        self.judge = judge
        self.resolved = inspection.resolved
        self.fallback = Span.whole(inspection.config.file)
        """Where findings are reported that no line of a chapter explains."""
        self.anchors = {
            layout.find_anchor(chapter.path, anchor.slug): anchor.span
            for chapter in inspection.book.chapters
            for anchor in chapter.anchors
        }
        """Where the author wrote what is at a place of the output."""
        self.tally = Tally()
        self._frame: dict[tuple[str, str], list[Written]] = {}

    def add(self, span: Span, message: str, hint: str) -> None:
        self.tally.findings.append(Finding(span, RULE, message, hint))

    def compare_chapter(
        self,
        chapter: Chapter,
        written: Sequence[Written],
        *,
        repeats: bool = False,
        ours: Collection[str] = (),
    ) -> None:
        """Compare the links of a chapter in the output with its source. Links to `ours` were added
        by bindery, unless the author has the same."""
        promises = list_promises(chapter, self.resolved, self.layout, images=False)
        authored = {promise.place for promise in promises}
        links, images, added = [], [], []
        for one in written:
            place = self.layout.find_written(one)
            if one.role != "text" or (place in ours and place not in authored):
                added.append(one)
            elif one.is_image and not one.address.startswith("https:"):
                images.append((one, place))
            else:
                links.append((one, place))
        self._report(chapter, compare_links(promises, links, repeats=repeats))
        pictures = list_promises(chapter, self.resolved, self.layout, images=True)
        if self.layout.find_image:
            self._report(chapter, compare_links(pictures, images))
        else:
            self._compare_renamed(images, [p for p in pictures if not p.link.is_alternative])
        self.compare_frame(added)

    def _compare_renamed(
        self, images: Sequence[tuple[Written, str]], promises: Sequence[Promise]
    ) -> None:
        """Check that images are there to which the output gives its own names."""
        if len(images) != len(promises):  # an unreadable image is shown as text
            self.compare_frame([image for image, _ in images])
            return
        self.tally.links += len(images)
        for (image, place), promise in zip(images, promises, strict=True):
            if fault := self.judge(image, place):
                message = f"the image of {self._describe(image)} is missing: {fault}"
                self.add(promise.link.span, message, _REPORT)

    def compare_frame(self, written: Sequence[Written]) -> None:
        """Check links that no author wrote: menus, contents, notes."""
        self.tally.links += len(written)
        for one in written:
            place = self.layout.find_written(one)
            if fault := self.judge(one, place):
                self._frame.setdefault((place, fault), []).append(one)

    def finish(self) -> Tally:
        """The result, with each broken link of menus and notes once."""
        for (place, fault), written in self._frame.items():
            more = len(written) - 1
            message = f"a menu or a note of {self._describe(written[0])} leads nowhere: {fault}"
            if more:
                message += f"; {more} more {'do' if more > 1 else 'does'} the same"
            span = self.anchors.get(place) or self.anchors.get(place.partition("#")[0])
            self.add(span or self.fallback, message, _REPORT)
        return self.tally

    def _describe(self, written: Written) -> str:
        page = self.layout.page.format(written.page)
        return f"the {self.layout.name} to '{written.address}' {page}"

    def _report(self, chapter: Chapter, differences: Differences) -> None:
        self.tally.links += len(differences.kept) + len(differences.extra)
        for promise, written in differences.kept:
            fault = self.judge(written, promise.place)
            # An output repeats an address inside another as it is, so a fault there is no news.
            if fault and not isinstance(self.resolved.links[promise.link], NestedUrl):
                message = f"the link of {self._describe(written)} leads nowhere: {fault}"
                self.add(promise.link.span, message, _REPORT)
        for promise, instead in differences.lost:
            message = f"the {self.layout.name} has no link to '{promise.place}' for this one"
            if instead is not None:
                message = f"the link of {self._describe(instead)} should lead to '{promise.place}'"
            self.add(promise.link.span, message, _REPORT)
        faulty = {
            link.destination: link
            for link in chapter.links
            if isinstance(self.resolved.links[link], Failure)
        }
        for written in differences.extra:
            if written.address in faulty:
                message = f"the check calls a link of {self._describe(written)} broken"
                self.add(faulty[written.address].span, message, _REPORT)
                continue
            fault = self.judge(written, self.layout.find_written(written))
            message = f"the source has no link for that of {self._describe(written)}"
            message += f", which leads nowhere: {fault}" if fault else ""
            self.add(Span.whole(chapter.path), message, _REPORT)
