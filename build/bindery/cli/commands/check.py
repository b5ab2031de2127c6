"""`bindery check`: every rule over the sources."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Sequence
from pathlib import Path

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
from bindery.core.model import Severity, refuse


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
    from bindery.check.baseline import sift_findings
    from bindery.check.baseline_use import is_of_check, read_accepted, read_listed
    from bindery.check.choose_findings import choose_new, find_folders, is_below, relate_paths
    from bindery.check.inspect import inspect_book

    if write_baseline is not None:
        _refuse_parts(paths, since, baseline)
        _rewrite_baseline(root, write_baseline)
        baseline = write_baseline
    # Read the baseline first, to report a broken one before the check.
    given = read_accepted(root, baseline) if baseline else None
    # With --since, links to a section of these chapters may be anywhere in the book.
    only = relate_paths(root, paths) if since is None else ()
    with open_cache(root, why=why) as cache:
        inspection = inspect_book(root, since=since, only=only, cache=cache)
        folders = find_folders(inspection, root, paths)
        accepted = filter(is_of_check, read_listed(inspection.config) if given is None else given)
        sifted = sift_findings(
            [f for f in inspection.findings if is_below(f.span.path, folders)],
            [entry for entry in accepted if is_below(entry.identity.path, folders)],
            inspection.tree.read_line,
            {move.old: move.new for move in inspection.config.moved},
        )
        fresh = sifted.fresh
        if since is not None:
            fresh = choose_new(fresh, inspection, since)
        findings = (*fresh, *sifted.gone)
        print_findings(findings, inspection, output, accepted=len(sifted.accepted))
    raise SystemExit(FINDINGS if findings else CLEAN)


def _explain_rule(name: str) -> str:
    """What a rule reports, and how to excuse its findings or change their severity. Raises
    ConfigError if there is no such rule."""
    from bindery.check.rules import CHECKS, REPORTED_ELSEWHERE, RULES
    from bindery.core.config import ASKED_RULES
    from bindery.core.suggestions import suggest

    if name in REPORTED_ELSEWHERE:
        weighed = f"\n\nTo turn it off, write `{name}: off` under `rules` in chapters.yaml."
        return f"{name}: {REPORTED_ELSEWHERE[name]}" + (weighed if name in ASKED_RULES else "")
    if name not in RULES:
        known = f"rules: {', '.join(sorted(RULES))}"
        hint = suggest(name, [*RULES, *REPORTED_ELSEWHERE], known)
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


def _rewrite_baseline(root: Path, path: Path) -> None:
    """Write all findings to a new baseline; from an existing one, only remove those that no longer
    occur."""
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


def _refuse_parts(paths: Sequence[str], since: str | None, baseline: Path | None) -> None:
    """Raise ConfigError for options that select findings: the baseline would lack the others."""
    given = {
        "paths": bool(paths),
        "--since": since is not None,
        "--baseline": baseline is not None,
    }
    for other in (name for name, is_given in given.items() if is_given):
        message = f"'--write-baseline' covers the whole book, and cannot be combined with {other}"
        raise refuse("--write-baseline", message, f"leave {other} out")
