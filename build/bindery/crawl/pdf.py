"""The second opinion on the PDF. Its pages show no chapters, so the outline and the named places
say where each one begins."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from pathlib import Path

from bindery.book.this_edition import Edition
from bindery.check.inspect import Inspection
from bindery.core.model import Chapter, Finding, Part, Span, ToFile
from bindery.crawl.comparing import RULE, Comparison, Layout, Tally
from bindery.crawl.linkchecker import fold_address
from bindery.crawl.reading import PdfLinks, PdfPlace, Written, read_pdf
from bindery.render.addresses import find_file_url, join_id, make_prefixes
from bindery.render.completeness import fold_space
from bindery.render.pdf.joined import JoinedDialect
from bindery.render.provenance_notes import write_additions
from bindery.render.text.content import find_title_slug

_TOLERANCE = 2.0
"""Points by which the place of a heading may differ from that of its line in the outline."""
_HREF = re.compile(r'href="([^"]*)"')
_Headings = Mapping[tuple[str, str], PdfPlace | None]
"""Where the outline leads for each heading, by chapter and slug; a part has an empty path and its
number from 0."""


def crawl_pdf(inspection: Inspection, edition: Edition, path: Path) -> Tally:
    """Compare the links of a PDF with the source."""
    config, chapters = inspection.config, inspection.book.chapters
    prefixes = make_prefixes(chapters, config.folder)
    titles = {c.path: find_title_slug(c) for c in chapters}

    def find_id(chapter: str, slug: str) -> str:
        return join_id(prefixes[chapter], slug)

    def find_written(written: Written) -> str:
        address = written.address
        return address if address.startswith("#") else fold_address(address)

    def find_file(target: ToFile) -> str | None:
        address = find_file_url(target, config, edition)
        return None if address is None else fold_address(address)

    layout = Layout(
        "PDF",
        "on page {}",
        lambda path, slug: f"#{find_id(path, slug or titles[path])}",
        find_written,
        find_file,
    )
    comparison = Comparison(inspection, layout, lambda written, _place: written.fault)
    links = read_pdf(path)
    headings, back = _align_headings(inspection.book.parts, links)
    # The outline knows the first heading of a chapter, the named places know its title.
    starts = {
        chapter: place.page
        for chapter, title in titles.items()
        if (place := headings.get((chapter, title)) or links.places.get(find_id(chapter, title)))
    }
    added = _list_added(inspection, edition, prefixes)
    numbers = range(len(inspection.book.parts))
    openers = {place.page for number in numbers if (place := headings.get(("", str(number))))}
    frames = {1, *openers, *back} - set(starts.values())
    order = sorted({*starts.values(), *frames})
    ends = dict(zip(order, [*(start - 1 for start in order[1:]), len(links.pages)], strict=True))
    for begin in frames:
        for page in links.pages[begin - 1 : ends[begin]]:
            comparison.compare_frame(page)
    for chapter in chapters:
        first = starts.get(chapter.path)
        if first is None:
            message = "the PDF has no place for this chapter"
            comparison.add(Span.whole(chapter.path), message, "build the PDF again")
            continue
        last = ends[first]
        written = [w for page in links.pages[first - 1 : last] for w in page]
        own = f"#{prefixes[chapter.path]}--"
        authored = {f"#{find_id(chapter.path, anchor.slug)}" for anchor in chapter.anchors}
        notes = added.get(chapter.path, frozenset())
        ours = {
            place
            for place in map(find_written, written)
            if place in notes or (place.startswith(own) and place not in authored)
        }
        comparison.compare_chapter(chapter, written, repeats=True, ours=ours)
        comparison.tally.findings += _check_places(chapter, find_id, headings, links, first, last)
    return comparison.finish()


def _align_headings(parts: Sequence[Part], links: PdfLinks) -> tuple[_Headings, set[int]]:
    """Where the outline leads for each heading, and the first pages of what follows the last one,
    such as an index."""
    wanted: list[tuple[str, str, str]] = []
    for number, part in enumerate(parts):
        if part.title:  # its line must not be taken for that of a chapter of the same name
            wanted.append(("", str(number), fold_space(part.title)))
        wanted += (
            (chapter.path, anchor.slug, fold_space(anchor.title))
            for chapter in part.chapters
            for anchor in chapter.anchors
            if anchor.level and anchor.title
        )
    lines = [fold_space(title) for title, _ in links.outline]
    matcher = SequenceMatcher(None, [title for _, _, title in wanted], lines, autojunk=False)
    blocks = matcher.get_matching_blocks()
    headings = {
        wanted[block.a + step][:2]: links.outline[block.b + step][1]
        for block in blocks
        for step in range(block.size)
    }
    end = max((block.b + block.size for block in blocks if block.size), default=len(lines))
    return headings, {place.page for _, place in links.outline[end:] if place is not None}


def _list_added(
    inspection: Inspection, edition: Edition, prefixes: Mapping[str, str]
) -> Mapping[str, frozenset[str]]:
    """Where the notes on the origins of numbers lead, by chapter."""
    chapters = {chapter.path: chapter for chapter in inspection.book.chapters}
    dialect = JoinedDialect(inspection.config, edition, chapters, prefixes, {}, lambda image: "")
    additions = write_additions(inspection, dialect, folds=False)
    return {
        path: frozenset(
            address if address.startswith("#") else fold_address(address)
            for address in _HREF.findall(repr(added).replace("&amp;", "&"))
        )
        for path, added in additions.items()
    }


def _check_places(
    chapter: Chapter,
    find_id: Callable[[str, str], str],
    headings: _Headings,
    links: PdfLinks,
    first: int,
    last: int,
) -> Iterator[Finding]:
    """Findings on anchors whose place in the PDF is missing, outside the chapter, or not at the
    heading."""
    for anchor in chapter.anchors:
        identifier = find_id(chapter.path, anchor.slug)
        place = links.places.get(identifier)
        line = headings.get((chapter.path, anchor.slug))
        if place is None:
            message = f"the PDF has no place '{identifier}'"
        elif not first <= place.page <= last:
            message = (
                f"the place '{identifier}' of the PDF is on page {place.page}, "
                f"and its chapter on pages {first} to {last}"
            )
        elif line and (place.page != line.page or abs(place.top - line.top) > _TOLERANCE):
            message = (
                f"the place '{identifier}' of the PDF is on page {place.page}, and not where the "
                f"outline has this heading, on page {line.page}"
            )
        else:
            continue
        yield Finding(anchor.span, RULE, message, "build the PDF again")
