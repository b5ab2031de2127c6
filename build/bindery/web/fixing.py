"""Write new addresses in place of old ones: in the destinations of links, and nowhere else."""

from __future__ import annotations

import html
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from bindery.book.markdown_files import Edit, apply_edits, read_source
from bindery.check.inspect import Inspection
from bindery.core.model import Chapter, Finding, Link, Severity, Span, ToWeb
from bindery.core.transaction import Change, Texts, change_files, find_obstacle
from bindery.markdown.chapter_reader import parse_chapter
from bindery.web.addresses import find_place, is_generated

RULE = "web-moved"


@dataclass(frozen=True, slots=True)
class Fixes:
    """The chapters as they would be, and findings on what cannot be fixed."""

    count: int
    """How many places change."""
    texts: Texts
    """The text of each chapter before and after."""
    findings: tuple[Finding, ...]


def plan_fixes(inspection: Inspection, targets: Mapping[str, str]) -> Fixes:
    """The changes that write new addresses, `targets` by the old ones, into the chapters.

    Only the places of links are written to. A chapter that has changed since it was read stays as
    it is, and so does what `bindery fill` has written.
    """
    count = 0
    texts: dict[str, tuple[str, str]] = {}
    findings: list[Finding] = []
    for chapter in inspection.book.chapters:
        links = {}
        for link in chapter.links:
            old = inspection.resolved.links[link]
            if (
                isinstance(old, ToWeb)
                and old.url in targets
                and not is_generated(inspection, find_place(chapter, link))
            ):
                links[link] = targets[old.url]
        if not links:
            continue
        if obstacle := find_obstacle(inspection.tree.root, chapter.path):
            findings.append(_refuse(Span.whole(chapter.path), *obstacle))
            continue
        text = (inspection.tree.root / chapter.path).read_bytes().decode("utf-8", "replace")
        if read_source(text) != chapter.source:
            message = f"'{chapter.path}' has changed while the web was asked"
            findings.append(_refuse(Span.whole(chapter.path), message, "run this again"))
            continue
        planned = []
        for link, target in links.items():
            edit = _plan_edit(chapter, link, target)
            if edit is None:
                message = f"cannot replace the address '{link.raw}' here"
                findings.append(_refuse(find_place(chapter, link), message))
            else:
                planned.append(edit)
        planned = list(dict.fromkeys(planned))  # links that share a definition share its edit
        after = apply_edits(text, planned)
        if not _is_as_planned(chapter, links, after, inspection):
            message = f"the new addresses would change more than links in '{chapter.path}'"
            findings.append(_refuse(Span.whole(chapter.path), message))
        elif planned:
            texts[chapter.path] = text, after
            count += len(planned)
    return Fixes(count, texts, tuple(findings))


def write_fixes(root: Path, fixes: Fixes, finish: Callable[[], Texts] | None = None) -> Texts:
    """Write the new texts, and then what `finish` returns: all of it or nothing. Returns what
    `finish` has changed.

    Raises BookError if a chapter has changed since, and OSError if the disk fails.
    """
    if not fixes.texts:
        return {}
    return change_files(root, Change(RULE, fixes.texts), finish)


def _refuse(span: Span, message: str, hint: str = "write the new address by hand") -> Finding:
    return Finding(span, RULE, message, hint, Severity.WARNING)


def _plan_edit(chapter: Chapter, link: Link, target: str) -> Edit | None:
    """The edit that replaces an address; None if the old one is not found at its place."""
    span = find_place(chapter, link)
    raws = [link.raw]
    if link.label:
        raws = [d.raw for d in chapter.definitions if d.destination_span == span]
    elif link.kind.startswith("html"):  # the parser has removed the escapes
        raws.append(html.escape(link.raw))
    line = chapter.lines[span.line - 1]
    for raw in filter(None, raws):
        start = line.find(raw, span.col - 1, span.col - 1 + max(span.width, len(raw)))
        if start >= 0:
            written = _write_destination(link, raw, target)
            return Edit(Span(span.path, span.line, start + 1, len(raw)), raw, written)
    return None


def _write_destination(link: Link, raw: str, target: str) -> str:
    """An address as it can be typed in place of `raw`."""
    written = quote(target, safe="%/:?#[]@!$&'()*+,;=~-._|")
    if link.kind.startswith("html"):
        return html.escape(written)
    if raw.startswith("<"):
        return f"<{written}>"
    if not _is_balanced(written):
        written = written.replace("(", "%28").replace(")", "%29")
    if link.kind != "autolink" and html.unescape(written) != written:
        written = written.replace("&", "&amp;")
    return written.replace("|", "%7C")  # it would end the cell of a table


def _is_balanced(text: str) -> bool:
    depth = 0
    for character in text:
        depth += (character == "(") - (character == ")")
        if depth < 0:
            return False
    return depth == 0


def _is_as_planned(
    chapter: Chapter, links: Mapping[Link, str], after: str, inspection: Inspection
) -> bool:
    """Whether the new text has the same links in the same order, with the new addresses."""
    fresh = parse_chapter(chapter.path, read_source(after), maths=inspection.config.maths)
    found = [_normalise(link.destination) for link in fresh.links]
    wanted = [_normalise(links.get(link, link.destination)) for link in chapter.links]
    return found == wanted


def _normalise(url: str) -> str:
    """The same address in the same letters, however it is percent-encoded."""
    return quote(url, safe="%/:?#[]@!$&'*+,;=~-._")
