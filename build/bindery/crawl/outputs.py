"""The second opinion on links: linkchecker over the built site, and every destination of the
ebooks, each held against what the resolver says of the source.

The two share no code. Where they disagree, either way, that is a finding of its own.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import SequenceMatcher
from pathlib import Path

from bindery.book.this_edition import Edition
from bindery.check.inspect import Inspection
from bindery.core.config import Config
from bindery.core.model import (
    BookError,
    Chapter,
    Finding,
    Part,
    Severity,
    Span,
    Target,
    ToChapter,
    ToFile,
    ToWeb,
)
from bindery.core.report import count_noun
from bindery.crawl.comparing import RULE, Comparison, Tally, list_anchors
from bindery.crawl.linkchecker import (
    CrawlError,
    Verdict,
    ask_linkchecker,
    find_place,
    fold_address,
)
from bindery.crawl.reading import (
    PdfLinks,
    PdfPlace,
    Written,
    find_in_epub,
    read_epub,
    read_pdf,
    read_site,
)
from bindery.render.addresses import find_file_url, find_page, join_id, make_prefixes
from bindery.render.appendix import append_appendix, find_appendix
from bindery.render.completeness import fold_space
from bindery.render.pdf.joined import JoinedDialect
from bindery.render.provenance_notes import write_additions
from bindery.render.site.dialect import place_file
from bindery.render.text.content import find_title_slug

Progress = Callable[[str], None]
_TOLERANCE = 2.0
"""Points by which the place of a heading may differ from that of its line in the outline."""


def crawl_outputs(
    inspection: Inspection,
    edition: Edition,
    folder: Path,
    progress: Progress,
) -> tuple[list[Finding], str]:
    """Findings on the outputs that lie in `folder`, and the line that sums them up.

    Raises BookError where there is no site to crawl, or linkchecker gives no answer.
    """
    site = folder / "site"
    if not site.is_dir():
        message = "there is no site to crawl"
        place = Span.whole(inspection.config.file)
        raise BookError(Finding(place, RULE, message, "run `bindery html` first"))
    if find_appendix(inspection) is None:
        inspection = append_appendix(inspection, edition)
    config = inspection.config
    progress("site")
    tallies = {"site": _crawl_site(inspection, edition, site)}
    for name, crawl in (("EPUB", _crawl_epub), ("PDF", _crawl_pdf)):
        path = folder / f"{config.name}.{name.lower()}"
        if path.is_file():
            progress(name)
            tallies[name] = crawl(inspection, edition, path)
    appendix = find_appendix(inspection)
    findings = [
        # The appendix has no file: the reader cannot be sent to a line of it.
        replace(finding, span=Span.whole(config.file))
        if appendix is not None and finding.span.path == appendix.path
        else finding
        for tally in tallies.values()
        for finding in tally.findings
    ]
    unbuilt = [n for n in ("EPUB", "PDF") if n.lower() in config.formats and n not in tallies]
    return findings, _summarise(tallies, findings, unbuilt)


def _summarise(
    tallies: Mapping[str, Tally], findings: Sequence[Finding], unbuilt: Sequence[str]
) -> str:
    counts = ", ".join(
        f"{tally.links:,} links of the {name}".replace(",", "\N{NO-BREAK SPACE}")
        for name, tally in tallies.items()
    )
    counts += "".join(f", and no {name} was built" for name in unbuilt)
    first = tallies["site"]
    faulty = first.mended + first.dropped
    known = ""
    if faulty:
        known = (
            f"; of {count_noun(faulty, 'link')} in which the check finds a fault "
            f"{first.mended} lead to the best place there is and {first.dropped} are text"
        )
    return f"crawled {counts}: {count_noun(len(findings), 'finding')}{known}"


# --- the site ---


@dataclass(frozen=True, slots=True)
class _SiteLayout:
    config: Config
    edition: Edition
    site: Path
    pages: Mapping[str, str]
    tops: Mapping[str, str]
    """The place of each title, and the page that begins there."""
    name: str = "site"

    def find_target(self, target: Target, chapter: Chapter) -> str | None:
        match target:
            case ToWeb(url=url):
                return find_place(url, self.pages[chapter.path], self.site)
            case ToChapter(path=path, slug=slug):
                return None if path not in self.pages else self._fold(self.pages[path], slug)
            case ToFile(path=path, is_folder=is_folder):
                address = find_file_url(target, self.config, self.edition)
                if address is not None:
                    return fold_address(address)
                return None if is_folder else self.find_image(path)

    def _fold(self, page: str, slug: str) -> str:
        place = f"{page}#{slug}" if slug else page
        return self.tops.get(place, place)

    def find_image(self, path: str) -> str:
        return place_file(path, self.config.folder)

    def find_written(self, written: Written) -> str:
        place = find_place(written.address, written.page, self.site)
        return self.tops.get(place, place)

    def describe_page(self, page: str) -> str:
        return f"on the page '{page}'"


def _crawl_site(inspection: Inspection, edition: Edition, site: Path) -> Tally:
    config, site = inspection.config, site.resolve()
    chapters = inspection.book.chapters
    pages = {c.path: find_page(c.path, config.folder) for c in chapters}
    tops = {f"{pages[c.path]}#{find_title_slug(c)}": pages[c.path] for c in chapters}
    layout = _SiteLayout(config, edition, site, pages, tops)
    read = read_site(site)
    alternatives = {
        layout.find_written(written)
        for links in read.values()
        for written in links
        if written.is_alternative
    }
    try:
        verdicts = ask_linkchecker(site, alternatives)
    except CrawlError as error:
        raise BookError(Finding(Span.whole(config.file), RULE, str(error))) from None

    def find_verdict(written: Written, place: str) -> Verdict | None:
        exact = find_place(written.address, written.page, site)
        return verdicts.get(exact) or verdicts.get(place)

    def judge(written: Written, place: str) -> str:
        verdict = find_verdict(written, place)
        if verdict is None:
            return "linkchecker did not look at it"
        return "" if verdict.is_good else f"linkchecker says '{verdict.said}'"

    comparison = Comparison(
        layout,
        inspection.resolved,
        judge,
        Span.whole(config.file),
        dict(
            list_anchors(
                chapters, lambda c, slug: f"{pages[c.path]}#{slug}" if slug else pages[c.path]
            )
        ),
    )
    for chapter in chapters:
        page = pages[chapter.path]
        if page not in read:
            message = f"the site has no page '{page}' for this chapter"
            comparison.add(Span.whole(chapter.path), message, "build the site again")
            continue
        comparison.compare_chapter(chapter, read[page], with_images=True)
    own = set(pages.values())
    for page, links in read.items():
        if page not in own:
            comparison.compare_frame(links)
    return comparison.finish()


# --- the EPUB ---


@dataclass(frozen=True, slots=True)
class _EpubLayout:
    config: Config
    edition: Edition
    files: Mapping[str, str]
    ids: Callable[[str, str], str]
    tops: Mapping[str, str]
    name: str = "EPUB"

    def find_target(self, target: Target, chapter: Chapter) -> str | None:
        match target:
            case ToWeb(url=url):
                return fold_address(url)
            case ToChapter(path=path, slug=slug):
                if path not in self.files:
                    return None
                place = self.files[path] + (f"#{self.ids(path, slug)}" if slug else "")
                return self.tops.get(place, place)
            case ToFile():
                address = find_file_url(target, self.config, self.edition)
                return None if address is None else fold_address(address)

    def find_image(self, path: str) -> str:
        return ""

    def find_written(self, written: Written) -> str:
        place = find_in_epub(written.address, written.page)
        if place == written.address:
            return fold_address(place)
        return self.tops.get(place, place)

    def describe_page(self, page: str) -> str:
        return f"in '{page}'"


def _crawl_epub(inspection: Inspection, edition: Edition, path: Path) -> Tally:
    config, chapters = inspection.config, inspection.book.chapters
    prefixes = make_prefixes(chapters, config.folder)
    files = {c.path: f"EPUB/text/ch{number:03d}.xhtml" for number, c in enumerate(chapters, 1)}

    def find_id(chapter: str, slug: str) -> str:
        return join_id(prefixes[chapter], slug)

    def find_anchor(chapter: Chapter, slug: str) -> str:
        return files[chapter.path] + (f"#{find_id(chapter.path, slug)}" if slug else "")

    tops = {find_anchor(c, find_title_slug(c)): files[c.path] for c in chapters}
    layout = _EpubLayout(config, edition, files, find_id, tops)
    links = read_epub(path)
    comparison = Comparison(
        layout,
        inspection.resolved,
        lambda written, _place: written.fault,
        Span.whole(config.file),
        dict(list_anchors(chapters, find_anchor)),
    )
    for fault in links.faults:
        comparison.add(Span.whole(config.file), f"the package of the EPUB is broken: {fault}", "")
    for chapter in chapters:
        if files[chapter.path] not in links.files:
            message = f"the EPUB has no file '{files[chapter.path]}' for this chapter"
            comparison.add(Span.whole(chapter.path), message, "build the EPUB again")
            continue
        comparison.compare_chapter(chapter, links.files[files[chapter.path]])
    own = set(files.values())
    for file, written in links.files.items():
        if file not in own:
            comparison.compare_frame(written)
    return comparison.finish()


# --- the PDF ---


@dataclass(frozen=True, slots=True)
class _PdfLayout:
    config: Config
    edition: Edition
    titles: Mapping[str, str]
    """The id of the title of each chapter."""
    ids: Callable[[str, str], str]
    name: str = "PDF"

    def find_target(self, target: Target, chapter: Chapter) -> str | None:
        match target:
            case ToWeb(url=url):
                return fold_address(url)
            case ToChapter(path=path, slug=slug):
                if path not in self.titles:
                    return None
                return f"#{self.ids(path, slug) if slug else self.titles[path]}"
            case ToFile():
                address = find_file_url(target, self.config, self.edition)
                return None if address is None else fold_address(address)

    def find_image(self, path: str) -> str:
        return ""

    def find_written(self, written: Written) -> str:
        inside = written.address.startswith("#")
        return written.address if inside else fold_address(written.address)

    def describe_page(self, page: str) -> str:
        return f"on page {page}"


def _crawl_pdf(inspection: Inspection, edition: Edition, path: Path) -> Tally:
    config, chapters = inspection.config, inspection.book.chapters
    prefixes = make_prefixes(chapters, config.folder)

    def find_id(chapter: str, slug: str) -> str:
        return join_id(prefixes[chapter], slug)

    titles = {c.path: find_id(c.path, find_title_slug(c)) for c in chapters}
    layout = _PdfLayout(config, edition, titles, find_id)
    links = read_pdf(path)
    comparison = Comparison(
        layout,
        inspection.resolved,
        lambda written, _place: written.fault,
        Span.whole(config.file),
        dict(
            list_anchors(
                chapters, lambda c, slug: f"#{find_id(c.path, slug) if slug else titles[c.path]}"
            )
        ),
    )
    headings, back = _align_headings(inspection.book.parts, links)
    starts = {
        chapter.path: place.page
        for chapter in chapters
        if (place := _find_start(chapter, titles[chapter.path], headings, links)) is not None
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
        own = f"#{prefixes[chapter.path]}--"
        authored = {f"#{find_id(chapter.path, anchor.slug)}" for anchor in chapter.anchors}
        more = added.get(chapter.path, frozenset())
        written = [w for page in links.pages[first - 1 : last] for w in page]

        def is_ours(
            place: str,
            own: str = own,
            authored: set[str] = authored,
            more: frozenset[str] = more,
        ) -> bool:
            return place in more or (place.startswith(own) and place not in authored)

        comparison.compare_chapter(chapter, written, repeats=True, ignored=is_ours)
        for finding in _check_places(chapter, find_id, headings, links, first, last):
            comparison.tally.findings.append(finding)
    return comparison.finish()


def _align_headings(
    parts: Sequence[Part], links: PdfLinks
) -> tuple[Mapping[tuple[str, str], PdfPlace | None], set[int]]:
    """Where the outline says that each heading stands, by chapter and anchor, a part by its number
    from 0; and the pages where that begins which comes after the last of them, as an index does."""
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


def _find_start(
    chapter: Chapter,
    title: str,
    headings: Mapping[tuple[str, str], PdfPlace | None],
    links: PdfLinks,
) -> PdfPlace | None:
    """Where a chapter begins: the outline says it of its first heading, the names of its title."""
    return headings.get((chapter.path, find_title_slug(chapter))) or links.places.get(title)


def _list_added(
    inspection: Inspection, edition: Edition, prefixes: Mapping[str, str]
) -> Mapping[str, frozenset[str]]:
    """Where the notes on the sources of numbers lead, by chapter: a PDF does not tell them from
    the text around them."""
    chapters = {chapter.path: chapter for chapter in inspection.book.chapters}
    dialect = JoinedDialect(inspection.config, edition, chapters, prefixes, {}, lambda image: "")
    additions = write_additions(inspection, edition, dialect, folds=False)
    return {
        path: frozenset(
            address if address.startswith("#") else fold_address(address)
            for address in _HREF.findall(repr(added).replace("&amp;", "&"))
        )
        for path, added in additions.items()
    }


_HREF = re.compile(r'href="([^"]*)"')


def _check_places(
    chapter: Chapter,
    find_id: Callable[[str, str], str],
    headings: Mapping[tuple[str, str], PdfPlace | None],
    links: PdfLinks,
    first: int,
    last: int,
) -> Iterator[Finding]:
    """Anchors of a chapter whose place in the PDF is missing, outside the chapter, or not where
    the heading stands."""
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
        yield Finding(anchor.span, RULE, message, "build the PDF again", Severity.ERROR)
