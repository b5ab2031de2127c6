"""Replace old addresses with new ones in link destinations only."""

from __future__ import annotations

import html
from collections.abc import Mapping
from urllib.parse import quote

from bindery.book.markdown_files import Edit, apply_edits, find_typed, read_source
from bindery.check.inspect import Inspection
from bindery.core.model import Chapter, Finding, Link, Severity, Span
from bindery.core.transaction import Texts, find_obstacle
from bindery.markdown.chapter_reader import parse_chapter
from bindery.markdown.link_typing import is_balanced
from bindery.web.addresses import is_generated

RULE = "web-moved"


def plan_fixes(
    inspection: Inspection, targets: Mapping[str, str]
) -> tuple[int, Texts, list[Finding]]:
    """Plan to replace addresses in chapters; `targets` has new addresses by old ones. Returns the
    number of places, the text of each changed chapter before and after, and findings about links
    that cannot be fixed.

    Changes only link destinations. Skips text from `bindery fill`, and chapters that have changed
    since they were read.
    """
    count = 0
    texts: dict[str, tuple[str, str]] = {}
    findings: list[Finding] = []
    for chapter in inspection.book.chapters:
        edits = []
        for link in (*chapter.links, *(entry.link for entry in chapter.definitions)):
            target = targets.get(link.destination.strip())
            # A link with a label has its address in the definition.
            if target is None or link.label or is_generated(inspection, link.span):
                continue
            typed = find_typed(link, chapter)
            if typed is None:
                message = f"cannot replace the address '{link.raw}' here"
                findings.append(_refuse(link.span, message))
            else:
                edits.append(Edit(link.span, typed, _write_destination(link, typed, target)))
        if not edits:
            continue
        text = (inspection.tree.root / chapter.path).read_bytes().decode("utf-8", "replace")
        whole = Span.whole(chapter.path)
        if obstacle := find_obstacle(inspection.tree.root, chapter.path):
            findings.append(_refuse(whole, *obstacle))
        elif read_source(text) != chapter.source:
            message = f"'{chapter.path}' has changed during the run"
            findings.append(_refuse(whole, message, "run the command again"))
        elif not _is_as_planned(chapter, targets, after := apply_edits(text, edits), inspection):
            message = f"new addresses would change more than the links in '{chapter.path}'"
            findings.append(_refuse(whole, message))
        else:
            texts[chapter.path] = text, after
            count += len(edits)
    return count, texts, findings


def _refuse(span: Span, message: str, hint: str = "write the new address by hand") -> Finding:
    return Finding(span, RULE, message, hint, Severity.WARNING)


def _write_destination(link: Link, raw: str, target: str) -> str:
    """An address as it can be typed instead of `raw`."""
    written = quote(target, safe="%/:?#[]@!$&'()*+,;=~-._|")
    if link.kind.startswith("html"):
        return html.escape(written)
    if raw.startswith("<"):
        return f"<{written}>"
    if not is_balanced(written):
        written = written.replace("(", "%28").replace(")", "%29")
    if link.kind != "autolink" and html.unescape(written) != written:
        written = written.replace("&", "&amp;")
    return written.replace("|", "%7C")  # a pipe would end a table cell


def _is_as_planned(
    chapter: Chapter, targets: Mapping[str, str], after: str, inspection: Inspection
) -> bool:
    """Whether the new text has the same number of links in the same order, and no old address
    except those that stay."""
    fresh = parse_chapter(chapter.path, read_source(after), maths=inspection.config.maths)
    pairs = zip(chapter.links, fresh.links, strict=False)
    return len(fresh.links) == len(chapter.links) and all(
        _normalise(new.destination)
        in (_normalise(old.destination), _normalise(targets.get(old.destination.strip(), "")))
        for old, new in pairs
    )


def _normalise(url: str) -> str:
    """An address with normalized percent-encoding."""
    return quote(url, safe="%/:?#[]@!$&'*+,;=~-._")
