"""A second opinion on links: run linkchecker on the site and read all destinations in the ebooks,
then compare them with the resolver's targets.

Both sides use `render` for the layout of an output: the page, ids and title of a chapter, and the
address of a file. A link to the wrong place because of that code is therefore not found. A broken
link is found: linkchecker, the EPUB's ids and the PDF's named destinations come from the outputs
alone.
"""

from __future__ import annotations

from bisect import bisect
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from urllib.parse import unquote

from msgspec.structs import replace

from bindery.book.this_edition import Edition
from bindery.check.inspect import Inspection
from bindery.core.model import BookError, Finding, Span
from bindery.core.report import count_noun
from bindery.crawl.comparing import RULE, Comparison, Layout
from bindery.crawl.linkchecker import CrawlError, ask_linkchecker
from bindery.crawl.reading import Written, find_place, leaves_book, read_epub, read_site
from bindery.render.addresses import find_page, join_id, make_prefixes
from bindery.render.appendix import append_appendix, find_appendix
from bindery.render.pdf.reading import read_links
from bindery.render.site.dialect import place_file
from bindery.render.text.content import find_title_slug

Progress = Callable[[str], None]


def crawl_outputs(
    inspection: Inspection,
    edition: Edition,
    folder: Path,
    progress: Progress,
) -> tuple[list[Finding], str]:
    """Findings about the outputs in `folder`, and a summary line.

    Raises BookError if there is no site to crawl, or linkchecker fails.
    """
    site = folder / "site"
    if not site.is_dir():
        message = "there is no site to crawl"
        place = Span.whole(inspection.config.file)
        raise BookError(Finding(place, RULE, message, "run `bindery html` first"))
    if find_appendix(inspection) is None:
        inspection = append_appendix(inspection)
    config = inspection.config
    progress("site")
    crawled = {"site": _crawl_site(inspection, edition, site.resolve())}
    for name, crawl in (("EPUB", _crawl_epub), ("PDF", _crawl_pdf)):
        path = folder / f"{config.name}.{name.lower()}"
        if path.is_file():
            progress(name)
            crawled[name] = crawl(inspection, edition, path)
    appendix = find_appendix(inspection)
    findings = [
        # The appendix has no source lines.
        replace(finding, span=Span.whole(config.file))
        if appendix is not None and finding.span.path == appendix.path
        else finding
        for comparison in crawled.values()
        for finding in comparison.findings
    ]
    unbuilt = [n for n in ("EPUB", "PDF") if n.lower() in config.formats and n not in crawled]
    return findings, _summarise(crawled, findings, unbuilt)


def _summarise(
    crawled: Mapping[str, Comparison], findings: Sequence[Finding], unbuilt: Sequence[str]
) -> str:
    counts = ", ".join(
        f"{comparison.links:,} links of the {name}".replace(",", "\N{NO-BREAK SPACE}")
        for name, comparison in crawled.items()
    )
    counts += "".join(f", and no {name} was built" for name in unbuilt)
    return f"crawled {counts}: {count_noun(len(findings), 'finding')}"


def _crawl_site(inspection: Inspection, edition: Edition, site: Path) -> Comparison:
    config, chapters = inspection.config, inspection.book.chapters
    pages = {c.path: find_page(c.path, config.folder) for c in chapters}
    # A link to a chapter's title is a link to its page.
    tops = {f"{pages[c.path]}#{find_title_slug(c)}": pages[c.path] for c in chapters}

    def find_anchor(path: str, slug: str) -> str:
        place = f"{pages[path]}#{slug}" if slug else pages[path]
        return tops.get(place, place)

    def find_written(written: Written) -> str:
        place = find_place(written.address, written.page)
        return tops.get(place, place)

    def find_copy(path: str) -> str:
        return place_file(path, config.folder)

    try:
        verdicts = ask_linkchecker(site)
    except CrawlError as error:
        raise BookError(Finding(Span.whole(config.file), RULE, str(error))) from None

    def judge(written: Written) -> Written:
        if leaves_book(written.address):
            return written
        exact = find_place(written.address, written.page)
        if written.is_alternative:  # linkchecker ignores the `srcset` of a `source`
            is_lost = not (site / exact).is_file()
            return replace(written, fault="there is no such file" if is_lost else "")
        said = verdicts.get(exact, verdicts.get(tops.get(exact, exact)))
        if said is None:
            return replace(written, fault="linkchecker did not check it")
        return replace(written, fault=f"linkchecker reports '{said}'" if said else "")

    layout = Layout("site", "on the page '{}'", find_anchor, find_written, find_copy)
    comparison = Comparison(inspection, edition, layout)
    comparison.compare(
        pages, {page: [*map(judge, links)] for page, links in read_site(site).items()}
    )
    return comparison


def _crawl_epub(inspection: Inspection, edition: Edition, path: Path) -> Comparison:
    config, chapters = inspection.config, inspection.book.chapters
    prefixes = make_prefixes(chapters, config.folder)
    files = {c.path: f"EPUB/text/ch{number:03d}.xhtml" for number, c in enumerate(chapters, 1)}
    tops = {
        f"{files[c.path]}#{join_id(prefixes[c.path], find_title_slug(c))}": files[c.path]
        for c in chapters
    }

    def find_anchor(path: str, slug: str) -> str:
        place = f"{files[path]}#{join_id(prefixes[path], slug)}" if slug else files[path]
        return tops.get(place, place)

    def find_written(written: Written) -> str:
        place = find_place(written.address, written.page)
        return tops.get(place, place)

    layout = Layout("EPUB", "in '{}'", find_anchor, find_written)
    comparison = Comparison(inspection, edition, layout)
    comparison.compare(files, read_epub(path))
    return comparison


def _crawl_pdf(inspection: Inspection, edition: Edition, path: Path) -> Comparison:
    """A chapter extends from its title to the title of the next one."""
    chapters = inspection.book.chapters
    prefixes = make_prefixes(chapters, inspection.config.folder)
    titles = {c.path: find_title_slug(c) for c in chapters}

    def find_anchor(path: str, slug: str) -> str:
        return f"#{join_id(prefixes[path], slug or titles[path])}"

    def find_written(written: Written) -> str:
        address = written.address
        return address if address.startswith("#") else unquote(address)

    layout = Layout("PDF", "on page {}", find_anchor, find_written, marks_text=False)
    comparison = Comparison(inspection, edition, layout)
    links = read_links(path)
    for chapter in chapters:
        for anchor in chapter.anchors:
            name = find_anchor(chapter.path, anchor.slug)
            if name[1:] not in links.places:
                comparison.add(anchor.span, f"the PDF has no destination '{name[1:]}'")
    tops = {chapter.path: find_anchor(chapter.path, "") for chapter in chapters}
    starts = sorted(
        (links.places[top[1:]], top) for top in tops.values() if top[1:] in links.places
    )
    read: dict[str, list[Written]] = {top: [] for _, top in starts}
    for spot, address in links.links:
        before = bisect(starts, spot, key=lambda start: start[0])
        begin = starts[before - 1][1] if before else ""
        written = Written(str(spot[0]), address, fault=links.find_fault(address))
        read.setdefault(begin, []).append(written)
    comparison.compare(tops, read)
    return comparison
