"""`bindery check`: every rule over the sources."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from bindery.cli.console import (
    CLEAN,
    FINDINGS,
    Format,
    format_option,
    open_cache,
    print_findings,
    root_option,
    why_option,
)
from bindery.core.model import Finding, Severity, refuse

if TYPE_CHECKING:
    from bindery.check.inspect import Inspection
    from bindery.core.cache import Cache


@click.command("check")
@click.argument("paths", nargs=-1, help="Report only findings in these files and folders.")
@root_option
@format_option
@click.option(
    "--since",
    metavar="REV",
    help="Report only findings on lines added or changed since this git revision, and sections "
    "that have lost most of their text since then.",
)
@click.option(
    "--baseline",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Accept the findings listed in this file instead of those in the file that "
    "chapters.yaml names.",
)
@click.option(
    "--write-baseline",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Write all current findings to this file; if it exists, only remove findings that no "
    "longer occur. Then check as with --baseline.",
)
@click.option(
    "--explain",
    metavar="RULE",
    help="Explain a rule and how to excuse its findings, without checking anything.",
)
@why_option
def check(
    paths: tuple[str, ...],
    root: Path,
    output: Format,
    since: str | None,
    baseline: Path | None,
    write_baseline: Path | None,
    explain: str | None,
    why: bool,
) -> None:
    """Check links, anchors, images, tables, calculations, commands and dates in the sources."""
    if explain is not None:
        print(_explain_rule(explain))
        raise SystemExit(CLEAN)
    wanted = _Wanted(root, paths, since, baseline or write_baseline)
    if write_baseline is not None:
        _refuse_parts(paths, since, baseline)
        _rewrite_baseline(root, write_baseline)
    with open_cache(root, why=why) as cache:
        checked = _check_once(wanted, cache)
        print_findings(checked.findings, checked.inspection, output, accepted=checked.accepted)
    raise SystemExit(FINDINGS if checked.findings else CLEAN)


@dataclass(frozen=True, slots=True)
class _Wanted:
    """Which book is checked, and which of its findings are reported."""

    root: Path
    paths: tuple[str, ...]
    since: str | None
    baseline: Path | None


@dataclass(frozen=True, slots=True)
class _Checked:
    """A book, the findings that are reported, and how many were accepted."""

    inspection: Inspection
    findings: tuple[Finding, ...]
    accepted: int


def _check_once(wanted: _Wanted, cache: Cache) -> _Checked:
    from bindery.check.baseline import sift_findings
    from bindery.check.baseline_use import is_of_check, read_accepted, read_listed
    from bindery.check.choose_findings import choose_new, find_folders, is_below, relate_paths
    from bindery.check.inspect import inspect_book

    # Read first: what is wrong with it should not have to wait for the book.
    given = read_accepted(wanted.root, wanted.baseline) if wanted.baseline else None
    # A section may have lost its text though nothing in its own chapter leads there.
    only = relate_paths(wanted.root, wanted.paths) if wanted.since is None else ()
    inspection = inspect_book(wanted.root, since=wanted.since, only=only, cache=cache)
    folders = find_folders(inspection, wanted.root, wanted.paths)
    acceptances = filter(is_of_check, read_listed(inspection.config) if given is None else given)
    sifted = sift_findings(
        [f for f in inspection.findings if is_below(f.span.path, folders)],
        [entry for entry in acceptances if is_below(entry.identity.path, folders)],
        inspection.tree.read_line,
        {move.old: move.new for move in inspection.config.moved},
    )
    fresh = sifted.fresh
    if wanted.since is not None:
        fresh = choose_new(fresh, inspection, wanted.since)
    findings = (*fresh, *sifted.gone)
    return _Checked(inspection, findings, len(sifted.accepted))


# --- what a rule is about ---


def _explain_rule(name: str) -> str:
    """What a rule reports, and how to excuse its findings or change their severity. Raises
    ConfigError if there is no such rule."""
    from bindery.check.rules import CHECKS, REPORTED_ELSEWHERE, RULES
    from bindery.core.config import ASKED_RULES
    from bindery.core.suggestions import find_nearest

    if name in REPORTED_ELSEWHERE:
        weighed = f"\n\nTo turn it off, write `{name}: off` under `rules` in chapters.yaml."
        return f"{name}: {REPORTED_ELSEWHERE[name]}" + (weighed if name in ASKED_RULES else "")
    if name not in RULES:
        nearest = find_nearest(name, [*RULES, *REPORTED_ELSEWHERE])
        hint = f"did you mean '{nearest}'?" if nearest else f"rules: {', '.join(sorted(RULES))}"
        raise refuse("--explain", f"there is no rule '{name}'", hint)
    rule = RULES[name]
    document = sys.modules[CHECKS[rule].__module__].__doc__ or ""
    about = document.removeprefix(f"{name}: ").strip() if document.startswith(name) else ""
    about = f"{about[:1].upper()}{about[1:]}" or textwrap.fill(rule.about, 100)
    about += "\n\n" if about else ""
    other = Severity.OFF if rule.severity is Severity.WARNING else Severity.WARNING
    return (
        f"{name} ({rule.severity}): {rule.summary}\n\n{about}"
        "To excuse one finding in a chapter, put a comment above its block or on its line:\n\n"
        f"    <!-- bindery: allow {name} because REASON -->\n\n"
        "To change the severity of all of them, write in chapters.yaml:\n\n"
        f"    rules:\n      {name}: {other}"
    )


# --- what is accepted ---


def _rewrite_baseline(root: Path, path: Path) -> None:
    """Write the file of accepted findings: all of today's in a new file, otherwise those of the
    file that are still found. So an existing file never grows."""
    from bindery.check.baseline import format_accepted, sift_findings
    from bindery.check.baseline_use import is_of_check, read_accepted
    from bindery.check.inspect import inspect_book
    from bindery.core.report import count_noun
    from bindery.core.whole_files import write_whole

    if path.exists() and not path.is_file():
        raise refuse("--write-baseline", f"'{path}' is not a file", "name a file, existing or new")
    acceptances = read_accepted(root, path) if path.exists() else None
    inspection = inspect_book(root)

    read = inspection.tree.read_line
    findings = inspection.findings
    kept = []
    if acceptances is not None:
        findings = sift_findings(findings, acceptances, read).accepted
        kept = [entry for entry in acceptances if not is_of_check(entry)]
    write_whole(path, format_accepted(findings, read, kept).encode())
    number = len(findings) + sum(entry.count for entry in kept)
    print(f"{path}: {count_noun(number, 'finding')} accepted", file=sys.stderr)


# --- usage error ---


def _refuse_parts(paths: Sequence[str], since: str | None, baseline: Path | None) -> None:
    """A file that was written from a part of the findings would lack the others."""
    given = {
        "paths": bool(paths),
        "--since": since is not None,
        "--baseline": baseline is not None,
    }
    for other in (name for name, is_given in given.items() if is_given):
        message = f"'--write-baseline' covers the whole book, and cannot be combined with {other}"
        raise refuse("--write-baseline", message, f"leave {other} out")
