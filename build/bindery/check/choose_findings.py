"""Which findings are asked for: those below some paths, and those that are new."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from bindery.check.baseline_use import relate_path
from bindery.check.inspect import Inspection
from bindery.core.model import Finding, refuse

_AT_ANY_LINE = frozenset(("gutted-section",))
"""Rules about text that is gone: their findings are new whatever line they are on."""


def find_folders(inspection: Inspection, root: Path, paths: Sequence[str]) -> list[str]:
    """The given paths, of files or folders, relative to the root. Raises ConfigError for one that
    holds nothing of the book."""
    wanted = []
    known = [
        *(entry.path for entry in inspection.config.chapters),
        *(finding.span.path for finding in inspection.findings),
    ]
    for path, relative in zip(paths, relate_paths(root, paths), strict=True):
        if not any(is_below(name, [relative]) for name in known):
            hint = "name chapters or folders of this book, relative to the folder you are in"
            raise refuse(path, f"no chapter of the book is at '{path}'", hint)
        wanted.append(relative)
    return wanted


def relate_paths(root: Path, paths: Sequence[str]) -> list[str]:
    """The given paths relative to the root, which itself is the empty path."""
    relative = (relate_path(root, Path(path)) for path in paths)
    return ["" if path == "." else path for path in relative]


def is_below(path: str, folders: Sequence[str]) -> bool:
    """Whether a path is one of these, or is in one of them; without any it is."""
    return not folders or any(
        not folder or path == folder or path.startswith(f"{folder}/") for folder in folders
    )


def choose_new(
    findings: Sequence[Finding], inspection: Inspection, rev: str
) -> tuple[Finding, ...]:
    """The findings in lines that were added since a revision, those about files as such that are
    not what they were then, and those that speak of what is gone.

    Raises ConfigError where there is no such revision.
    """
    from bindery.book.git_history import find_added_lines, find_changed_files  # git is rarely asked

    tree = inspection.tree
    added = find_added_lines(tree.root, rev)
    changed = find_changed_files(tree.root, rev)

    def is_new(finding: Finding) -> bool:
        span = finding.span
        if finding.rule in _AT_ANY_LINE:
            return True
        if span.width:
            return span.line in added.get(span.path, ())
        return span.path in changed or tree.find_kind(span.path) != "file"

    return tuple(finding for finding in findings if is_new(finding))
