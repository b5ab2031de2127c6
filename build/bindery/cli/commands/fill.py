"""`bindery fill`: write the results of views and files into the chapters, or compare them."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from bindery.cli.console import (
    CLEAN,
    FINDINGS,
    Format,
    print_findings,
    root_option,
)
from bindery.core.model import Severity

if TYPE_CHECKING:
    from bindery.check.inspect import Inspection


@click.command("fill")
@root_option
@click.option("--check", "only_check", is_flag=True, help="Only compare, and write nothing.")
def fill(
    root: Path,
    only_check: bool,
) -> None:
    """Write tables, values, plots, diagrams and excerpts into chapters, and the contents into
    SKILL.md."""
    from bindery.check.inspect import inspect_book
    from bindery.core.report import count_noun

    inspection = inspect_book(root)
    if not only_check and fill_book(inspection):
        inspection = inspect_book(root)
    chosen = [f for f in inspection.findings if f.rule in _EVIDENCE_RULES]
    entries = inspection.quotations.values()
    regions = [region for entry in entries for region in entry.regions]
    counts = [
        count_noun(sum(region.kind == kind for region in regions), kind)
        for kind in ("table", "plot", "output", "excerpt")
        if kind == "table" or any(region.kind == kind for region in regions)
    ]
    if values := sum(len(entry.values) for entry in entries):
        counts.append(count_noun(values, "value"))
    errors = sum(finding.severity is Severity.ERROR for finding in chosen)
    summary = f"compared {', '.join(counts)}: {count_noun(errors, 'error')}"
    print_findings(chosen, inspection, Format.TEXT, summary=summary)
    # A new record that no table quotes is reported, but nothing is wrong with the chapters.
    faults = [finding for finding in chosen if finding.rule != "unused-record"]
    raise SystemExit(FINDINGS if faults else CLEAN)


def fill_book(inspection: Inspection) -> bool:
    """Write everything that differs and print what was written. Returns whether anything was."""
    from bindery.book.diagrams import list_diagrams
    from bindery.book.draw_diagram import NotDrawnError, draw_diagram
    from bindery.core.processes import CommandMissingError
    from bindery.core.report import count_noun
    from bindery.core.whole_files import write_whole
    from bindery.evidence.plots.files import draw_figures
    from bindery.evidence.quotations import fill_chapter

    folder = inspection.config.figures
    tree, evidence, quotations = inspection.tree, inspection.evidence, inspection.quotations
    written = False
    for name, content in draw_figures(tree, folder, evidence, quotations):
        (tree.root / name).parent.mkdir(parents=True, exist_ok=True)
        write_whole(tree.root / name, content)
        print(f"{name}: drawn")
        written = True
    for source, place in list_diagrams(inspection.book.chapters).items():
        if source not in inspection.resolved.drawings:
            try:
                name, content = draw_diagram(folder, source)
            except CommandMissingError:  # the finding about the diagram says so
                break
            except NotDrawnError as error:
                print(f"{place.path}:{place.line}: not drawn: {error}", file=sys.stderr)
                continue
            (tree.root / name).parent.mkdir(parents=True, exist_ok=True)
            write_whole(tree.root / name, content)
            print(f"{name}: drawn")
            written = True
    for chapter in inspection.book.chapters:
        text, changed = fill_chapter(chapter, quotations[chapter.path], evidence, folder)
        if changed:
            path = tree.root / chapter.path
            newline = b"\r\n" if b"\r\n" in path.read_bytes() else b"\n"
            write_whole(path, text.encode().replace(b"\n", newline))
            what = ", ".join(count_noun(number, kind) for kind, number in changed.items())
            print(f"{chapter.path}: filled {what}")
            written = True
    return fill_skill(inspection) or written


def fill_skill(inspection: Inspection) -> bool:
    """Write the contents of the book into SKILL.md if it exists. Returns whether it was written."""
    from bindery.check.rules import stale_skill
    from bindery.core.repository import join_lines
    from bindery.core.whole_files import write_whole

    tree, config, name = inspection.tree, inspection.config, stale_skill.FILE
    if tree.find_kind(name) != "file":
        return False
    text = join_lines(tree.read_bytes(name).decode("utf-8", "replace"))
    filled = stale_skill.write_skill(text, inspection.book, config, tree)
    if filled != text:
        write_whole(tree.root / name, filled.encode())
        print(f"{name}: filled")
    return filled != text


_EVIDENCE_RULES = frozenset(
    """bad-data bad-record edited-record bad-view unclosed-region unknown-view unknown-record
    unknown-excerpt edited-output stale-output old-method old-record unsourced-number
    unused-record stale-skill undrawn-diagram""".split()
)
