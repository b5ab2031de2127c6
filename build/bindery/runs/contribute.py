"""A record as a contribution: without names, marked, and with the text of its pull request."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from bindery.book.git_history import ask_git
from bindery.core.model import refuse
from bindery.core.repository import RECORDS_FOLDER
from bindery.core.whole_files import write_whole
from bindery.evidence.records import OPTIONS_FILE, Record, format_record
from bindery.runs.anonymize import clean_log, clean_values

_TOLD = ("command", "environment", "results", "details", "caveats")
"""The fields of a record that a tool or its caller has written."""
_LONGEST = 60_000
"""GitHub takes 65,536 characters."""
_CHECKLIST = """\
- [ ] Nothing else ran on the machine, or I say below what did.
- [ ] I have read the record and its log, and neither names a person or a site against their will.

Anything unusual, such as a power cap or a shared node:
"""


def find_new_records(root: Path) -> list[str]:
    """The paths of the records that are not in git yet, relative to the root.

    Raises ConfigError if there are none, or no git.
    """
    listed = ask_git(
        root, "ls-files", "--others", "-z", "--", RECORDS_FOLDER, must_work=True
    ).split("\0")
    new = [one for one in listed if one.endswith(".json") and not one.endswith(OPTIONS_FILE)]
    if not new:
        hint = "make one with `bindery run TOOL`, or name one; `bindery records` lists them"
        raise refuse(RECORDS_FOLDER, "there are no new records: all are in git already", hint)
    return new


def contribute(root: Path, path: str, record: Record, contributor: str) -> Record:
    """Take names of people, hosts and folders out of a record and its log, mark it as contributed,
    and write both. Returns the record."""
    data = msgspec.to_builtins(record)
    data |= {key: clean_values(data[key], {str(root): "."}) for key in _TOLD}
    data["contributor"] = contributor
    marked = msgspec.convert(data, Record)
    if record.log:
        log = (root / path).with_name(record.log)
        text = log.read_text(encoding="utf-8", errors="replace")
        write_whole(log, clean_log(text, {str(root): "."}).encode())
    write_whole(root / path, format_record(marked).encode())
    return marked


def write_title(records: Sequence[Record]) -> str:
    """The title of the pull request."""
    tools = ", ".join(dict.fromkeys(record.tool for record in records))
    machines = ", ".join(dict.fromkeys(record.machine.hardware for record in records))
    return f"Records of {tools} on {machines}"


def write_request(described: Mapping[str, str]) -> str:
    """The text of the pull request, from the path of each record and what it says."""
    shown = "\n\n".join(f"`{path}`:\n\n~~~~text\n{told}~~~~" for path, told in described.items())
    return f"{_CHECKLIST}\n{shown[:_LONGEST]}\n"
