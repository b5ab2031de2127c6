"""The second opinion on links: linkchecker over the built site, and every destination of the
ebooks, compared with where the resolver says that the source leads.

Both opinions use the same code of `render` for the layout of an output: the page, ids and title of
a chapter, and the address of a file. For the PDF, which does not mark notes on the origins of
numbers, these notes are also written again with it. So a link that consistently leads to the wrong
place because of that code is not found. A link that leads nowhere is: that is read from the outputs
alone, by linkchecker, or from the ids of the EPUB and the named places of the PDF.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from bindery.book.this_edition import Edition
from bindery.check.inspect import Inspection
from bindery.core.model import BookError, Chapter, Finding, Span, ToFile
from bindery.core.report import count_noun
from bindery.crawl.comparing import RULE, Comparison, Layout, Tally
from bindery.crawl.linkchecker import CrawlError, ask_linkchecker, find_place, fold_address
from bindery.crawl.pdf import crawl_pdf
from bindery.crawl.reading import Written, find_in_epub, read_epub, read_site
from bindery.render.addresses import find_file_url, find_page, join_id, make_prefixes
from bindery.render.appendix import append_appendix, find_appendix
from bindery.render.site.dialect import place_file
from bindery.render.text.content import find_title_slug

Progress = Callable[[str], None]


def crawl_outputs(
    inspection: Inspection,
    edition: Edition,
    folder: Path,
    progress: Progress,
) -> tuple[list[Finding], str]:
    """Findings on the outputs in `folder`, and the line that sums them up.

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
    tallies = {"site": _crawl_site(inspection, edition, site.resolve())}
    for name, crawl in (("EPUB", _crawl_epub), ("PDF", crawl_pdf)):
        path = folder / f"{config.name}.{name.lower()}"
        if path.is_file():
            progress(name)
            tallies[name] = crawl(inspection, edition, path)
    appendix = find_appendix(inspection)
    findings = [
        # The appendix has no file with lines.
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
    return f"crawled {counts}: {count_noun(len(findings), 'finding')}"


def _compare_files(
    comparison: Comparison,
    chapters: Sequence[Chapter],
    files: Mapping[str, str],
    read: Mapping[str, Sequence[Written]],
) -> Tally:
    """Compare the file of each chapter with it, and check the links of all other files."""
    name = comparison.layout.name
    for chapter in chapters:
        file = files[chapter.path]
        if file in read:
            comparison.compare_chapter(chapter, read[file])
        else:
            message = f"the {name} has no file '{file}' for this chapter"
            comparison.add(Span.whole(chapter.path), message, f"build the {name} again")
    for file, written in read.items():
        if file not in files.values():
            comparison.compare_frame(written)
    return comparison.finish()


def _crawl_site(inspection: Inspection, edition: Edition, site: Path) -> Tally:
    config, chapters = inspection.config, inspection.book.chapters
    pages = {c.path: find_page(c.path, config.folder) for c in chapters}
    # A link to the title of a chapter is one to its page.
    tops = {f"{pages[c.path]}#{find_title_slug(c)}": pages[c.path] for c in chapters}

    def find_anchor(path: str, slug: str) -> str:
        place = f"{pages[path]}#{slug}" if slug else pages[path]
        return tops.get(place, place)

    def find_written(written: Written) -> str:
        place = find_place(written.address, written.page, site)
        return tops.get(place, place)

    def find_image(path: str) -> str:
        return place_file(path, config.folder)

    def find_file(target: ToFile) -> str | None:
        address = find_file_url(target, config, edition)
        if address is None:
            return None if target.is_folder else find_image(target.path)
        return fold_address(address)

    read = read_site(site)
    alternatives = {
        find_written(written)
        for links in read.values()
        for written in links
        if written.is_alternative
    }
    try:
        verdicts = ask_linkchecker(site, alternatives)
    except CrawlError as error:
        raise BookError(Finding(Span.whole(config.file), RULE, str(error))) from None

    def judge(written: Written, place: str) -> str:
        exact = find_place(written.address, written.page, site)
        said = verdicts.get(exact, verdicts.get(place))
        if said is None:
            return "linkchecker did not look at it"
        return f"linkchecker says '{said}'" if said else ""

    layout = Layout("site", "on the page '{}'", find_anchor, find_written, find_file, find_image)
    return _compare_files(Comparison(inspection, layout, judge), chapters, pages, read)


def _crawl_epub(inspection: Inspection, edition: Edition, path: Path) -> Tally:
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
        place = find_in_epub(written.address, written.page)
        return fold_address(place) if place == written.address else tops.get(place, place)

    def find_file(target: ToFile) -> str | None:
        address = find_file_url(target, config, edition)
        return None if address is None else fold_address(address)

    layout = Layout("EPUB", "in '{}'", find_anchor, find_written, find_file)
    comparison = Comparison(inspection, layout, lambda written, _place: written.fault)
    links = read_epub(path)
    for fault in links.faults:
        comparison.add(Span.whole(config.file), f"the package of the EPUB is broken: {fault}", "")
    return _compare_files(comparison, chapters, files, links.files)
