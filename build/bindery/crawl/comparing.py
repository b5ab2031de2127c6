"""Two opinions on each link held against each other: what the resolver promises of the source, and
what stands in an output, is followed there, or leads nowhere.

The resolver is not asked again and renders nothing here: where it says that a link leads is turned
into a place of the output, and the output has to lead to that place, no more and no less often.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from itertools import chain, repeat
from typing import Protocol

from bindery.core.model import (
    Chapter,
    Failure,
    Finding,
    Link,
    NestedUrl,
    ResolvedBook,
    Span,
    Target,
    ToFile,
    ToWeb,
)
from bindery.crawl.reading import Written

RULE = "second-opinion"
_REPORT = "one of the two is wrong: build again, and report it if it stays"


class Layout(Protocol):
    """Where an output puts things. A place is a text: a file with an id behind `#`, an address."""

    @property
    def name(self) -> str:
        """The output, as a finding names it."""

    def find_target(self, target: Target, chapter: Chapter) -> str | None:
        """Where a link of a chapter has to lead; None where the output has no address for it."""

    def find_image(self, path: str) -> str:
        """Where an image of the repository stands; the empty text where that cannot be said."""

    def find_written(self, written: Written) -> str:
        """Where a link of the output leads."""

    def describe_page(self, page: str) -> str:
        """A page of the output in words."""


@dataclass(frozen=True, slots=True)
class Promise:
    """A link of the source, and the place where the output has to lead with it."""

    link: Link
    place: str
    is_certain: bool = True
    """False for an image of the web, which is a link only where it stands in none."""


@dataclass(slots=True)
class Differences:
    """The links of the output that keep a promise, those of the source that the output lacks, each
    with what stands in its place, and what the source does not explain."""

    kept: list[tuple[Promise, Written]] = field(default_factory=list)
    lost: list[tuple[Promise, Written | None]] = field(default_factory=list)
    extra: list[Written] = field(default_factory=list)


@dataclass(slots=True)
class Tally:
    """What one output came to."""

    findings: list[Finding] = field(default_factory=list)
    links: int = 0
    mended: int = 0
    """Links in which the check finds a fault, and which the output leads to the best place."""
    dropped: int = 0
    """Links in which the check finds a fault, and of which the output shows the text alone."""


def list_promises(
    chapter: Chapter, resolved: ResolvedBook, layout: Layout, *, images: bool
) -> list[Promise]:
    """What an output has to hold of the links of a chapter, or of its images."""
    promises = []
    for link in chapter.links:
        target = resolved.find_target(link)
        if target is None:
            continue
        if images and link.is_image and isinstance(target, ToFile) and not target.is_folder:
            promises.append(Promise(link, layout.find_image(target.path)))
        elif not images and link.is_image and isinstance(target, ToWeb):
            place = layout.find_target(target, chapter)
            promises.append(Promise(link, place or "", is_certain=False))
        elif not images and not link.is_image:
            place = layout.find_target(target, chapter)
            promises += [Promise(link, place)] if place is not None else []
    return promises


def compare_links(
    promises: Sequence[Promise],
    written: Sequence[tuple[Written, str]],
    *,
    repeats: bool = False,
) -> Differences:
    """Hold the links of an output, each with its place, against what is promised, in order.

    With `repeats` a link may stand there several times, as one does that is broken over lines.
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
    lost, extra = _match_moved(lost, extra, promises, written, result)
    if repeats:
        known = set(wanted)
        extra = list({there[j]: j for j in reversed(extra) if there[j] not in known}.values())
        lost = list(zip((i for i, _ in lost), chain(reversed(extra), repeat(None)), strict=False))
    taken = set()
    for i, partner in lost:
        if not promises[i].is_certain:
            continue
        instead = partner if partner in extra and partner not in taken else None
        taken.add(instead)
        result.lost.append((promises[i], written[instead][0] if instead is not None else None))
    result.extra = [written[j][0] for j in extra if j not in taken]
    return result


def _match_moved(
    lost: list[tuple[int, int | None]],
    extra: list[int],
    promises: Sequence[Promise],
    written: Sequence[tuple[Written, str]],
    result: Differences,
) -> tuple[list[tuple[int, int | None]], list[int]]:
    """Take out what stands elsewhere in the output only: footnotes go to the end of a page."""
    free: dict[str, list[int]] = {}
    for j in extra:
        free.setdefault(written[j][1], []).append(j)
    rest = []
    used = set()
    for i, partner in lost:
        candidates = free.get(promises[i].place)
        if candidates:
            j = candidates.pop(0)
            used.add(j)
            result.kept.append((promises[i], written[j][0]))
        else:
            rest.append((i, partner))
    return rest, [j for j in extra if j not in used]


Judge = Callable[[Written, str], str]
"""Why a link of an output leads nowhere, by what is written and its place; empty where it leads
somewhere."""


@dataclass(slots=True)
class Comparison:
    """One output under way: holds its chapters against the source, and gathers what differs."""

    layout: Layout
    resolved: ResolvedBook
    judge: Judge
    fallback: Span
    """Where findings stand that no line of a chapter explains."""
    anchors: Mapping[str, Span]
    """Where the author wrote what stands at a place of the output."""
    tally: Tally = field(default_factory=Tally)
    _frame: dict[tuple[str, str], list[Written]] = field(default_factory=dict)

    def add(self, span: Span, message: str, hint: str) -> None:
        self.tally.findings.append(Finding(span, RULE, message, hint))

    def compare_chapter(
        self,
        chapter: Chapter,
        written: Sequence[Written],
        *,
        repeats: bool = False,
        with_images: bool = False,
        ignored: Callable[[str], bool] = lambda place: False,
    ) -> None:
        """Hold what an output holds of a chapter against its source. Places that are `ignored` are
        bindery's own, not the author's."""
        links = [w for w in written if w.role == "text" and not w.is_image]
        promises = list_promises(chapter, self.resolved, self.layout, images=False)
        promised = {promise.place for promise in promises}
        placed, ours = [], []
        for link in links:
            place = self.layout.find_written(link)
            if place in promised or not ignored(place):
                placed.append((link, place))
            else:
                ours.append(link)
        self._report(chapter, compare_links(promises, placed, repeats=repeats))
        self.compare_frame(ours)
        images = [w for w in written if w.role == "text" and w.is_image]
        pictures = list_promises(chapter, self.resolved, self.layout, images=True)
        if with_images:
            shown = [(w, self.layout.find_written(w)) for w in images]
            self._report(chapter, compare_links(pictures, shown))
        else:
            self._compare_renamed(images, [p for p in pictures if not p.link.is_alternative])
        self.compare_frame([w for w in written if w.role != "text"])
        self._count_faults(chapter)

    def _compare_renamed(self, images: Sequence[Written], promises: Sequence[Promise]) -> None:
        """Look whether images are there that an output gives names of its own."""
        if len(images) != len(promises):  # one that cannot be read is shown as its text
            self.compare_frame(images)
            return
        self.tally.links += len(images)
        for image, promise in zip(images, promises, strict=True):
            if fault := self.judge(image, self.layout.find_written(image)):
                message = f"the image of {self._describe(image)} is not there: {fault}"
                self.add(promise.link.span, message, _REPORT)

    def compare_frame(self, written: Sequence[Written]) -> None:
        """Look whether links lead somewhere that no author wrote: menus, contents, notes."""
        self.tally.links += len(written)
        for one in written:
            place = self.layout.find_written(one)
            fault = self.judge(one, place)
            if fault:
                self._frame.setdefault((place, fault), []).append(one)

    def finish(self) -> Tally:
        """The outcome, with what the frame has lost, each loss once."""
        for (place, fault), written in self._frame.items():
            more = len(written) - 1
            first = written[0]
            message = f"a menu or a note of {self._describe(first)} leads nowhere: {fault}"
            if more:
                message += f"; {more} more {'do' if more > 1 else 'does'} the same"
            span = self.anchors.get(place) or self.anchors.get(place.partition("#")[0])
            self.add(span or self.fallback, message, _REPORT)
        return self.tally

    def _describe(self, written: Written) -> str:
        page = self.layout.describe_page(written.page)
        return f"the {self.layout.name} to '{written.address}' {page}"

    def _report(self, chapter: Chapter, differences: Differences) -> None:
        self.tally.links += len(differences.kept) + len(differences.extra)
        for promise, written in differences.kept:
            self._report_kept(promise, written)
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
            place = self.layout.find_written(written)
            fault = self.judge(written, place)
            if written.address in faulty:
                message = f"a link of {self._describe(written)} is one that the check calls faulty"
                self.add(faulty[written.address].span, message, _REPORT)
            else:
                message = f"no link of the source explains that of {self._describe(written)}"
                message += f", which leads nowhere: {fault}" if fault else ""
                self.add(Span.whole(chapter.path), message, _REPORT)

    def _report_kept(self, promise: Promise, written: Written) -> None:
        fault = self.judge(written, promise.place)
        # An address inside another is the one fault that an output repeats as it is; a complaint
        # there is agreement.
        if fault and not isinstance(self.resolved.links[promise.link], NestedUrl):
            message = f"the link of {self._describe(written)} leads nowhere: {fault}"
            self.add(promise.link.span, message, _REPORT)

    def _count_faults(self, chapter: Chapter) -> None:
        for link in chapter.links:
            if isinstance(self.resolved.links[link], Failure):
                target = self.resolved.find_target(link)
                written = self.layout.find_target(target, chapter) if target else None
                self.tally.mended += written is not None
                self.tally.dropped += written is None


def list_anchors(
    chapters: Sequence[Chapter], find_anchor: Callable[[Chapter, str], str]
) -> Iterator[tuple[str, Span]]:
    """Each place of an output that an anchor of the source stands for, and where that is."""
    for chapter in chapters:
        yield find_anchor(chapter, "").partition("#")[0] or chapter.path, Span.whole(chapter.path)
        for anchor in chapter.anchors:
            yield find_anchor(chapter, anchor.slug), anchor.span
