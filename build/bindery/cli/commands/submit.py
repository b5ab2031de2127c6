"""`bindery submit`: make new records ready for a pull request."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import click

from bindery.cli.console import print_troubles, root_option

_REQUEST = "dist/pull-request.md"
_MOST_ROWS = 20
"""The rows of a record in the text of the pull request; the file of the record has all."""


@click.command("submit")
@click.argument(
    "names", nargs=-1, metavar="[RECORD]...", help="Records to prepare.  [default: all not in git]"
)
@click.option(
    "--by",
    default="anonymous",
    metavar="LOGIN",
    help="Your GitHub login, shown where the book quotes your record.",
)
@root_option
def submit(names: tuple[str, ...], by: str, root: Path) -> None:
    """Prepare new records for a pull request, and write its text. Nothing is sent.

    Checks the records, removes names of people, hosts and folders, and marks them as contributed.
    """
    from bindery.check.inspect import inspect_book
    from bindery.core.build_date import read_today
    from bindery.core.model import BookError, Finding, Severity, Span, refuse
    from bindery.core.repository import RECORDS_FOLDER
    from bindery.core.whole_files import write_whole
    from bindery.evidence import record_list
    from bindery.evidence.records import CONTRIBUTOR, DEMO
    from bindery.runs.contribute import contribute, find_new_records, write_request, write_title

    if not re.fullmatch(CONTRIBUTOR, by):
        raise refuse("--by", f"'{by}' is not a name on GitHub", "letters, digits and hyphens")
    inspection = inspect_book(root)
    evidence = inspection.evidence
    listed = record_list.list_records(
        evidence, inspection.quotations, inspection.findings, read_today()
    )
    chosen = {}
    for name in names or find_new_records(inspection.tree.root):
        entry = record_list.find_record(name, listed)
        path = f"{RECORDS_FOLDER}/{entry.record}.json"
        if entry.profile == DEMO:
            print(f"left out: {path}, a demo record: it only shows that the tool runs")
        else:
            chosen[path] = entry
    if not chosen:
        hint = "measure with `bindery run TOOL --profile full`"
        raise refuse(RECORDS_FOLDER, "there are only demo records to submit", hint)
    findings = [f for f in inspection.findings if f.span.path in chosen]
    for path, entry in chosen.items():
        if entry.stale:
            reason = evidence.stale[entry.record].reason
            findings.append(Finding(Span.whole(path), "old-method", reason, "measure again"))
    if any(finding.severity is Severity.ERROR for finding in findings):
        raise BookError(*findings)
    print_troubles(findings, inspection.tree)
    records = {
        path: contribute(inspection.tree.root, path, evidence.records[entry.record], by)
        for path, entry in chosen.items()
    }
    told = {
        path: record_list.format_record(chosen[path], record, limit=_MOST_ROWS)
        for path, record in records.items()
    }
    (root / _REQUEST).parent.mkdir(exist_ok=True)
    write_whole(root / _REQUEST, write_request(told).encode())
    files = [*records, *(str(Path(path).with_name(r.log)) for path, r in records.items() if r.log)]
    title = write_title(list(records.values()))
    print(
        *(f"ready: {path}" for path in records),
        f"the text of the pull request: {_REQUEST}",
        "next: read these files, then",
        "  git switch --create records",
        f"  git add {shlex.join(files)}",
        f"  git commit --message {shlex.quote(title)}",
        f"  gh pr create --title {shlex.quote(title)} --body-file {_REQUEST}",
        sep="\n",
    )
