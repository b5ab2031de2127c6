"""Select findings: those below given paths, and those that are new."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from bindery.check.baseline_use import relate_path
from bindery.check.inspect import Inspection
from bindery.core.model import ConfigError, Finding, refuse

_AT_ANY_LINE = frozenset(("gutted-section",))
"""Rules about text that is gone. Their findings are new whatever their line."""


def find_folders(inspection: Inspection, root: Path, paths: Sequence[str]) -> list[str]:
    """The given files or folders relative to the root. Raises ConfigError for a path without
    anything from the book."""
    wanted = []
    known = [
        *(entry.path for entry in inspection.config.chapters),
        *(finding.span.path for finding in inspection.findings),
    ]
    for path, relative in zip(paths, relate_paths(root, paths), strict=True):
        if not any(is_below(name, [relative]) for name in known):
            raise _refuse(path)
        wanted.append(relative)
    return wanted


def relate_paths(root: Path, paths: Sequence[str]) -> list[str]:
    """The given paths relative to the root, which becomes the empty path. Raises ConfigError for a
    path where nothing is."""
    for path in paths:
        if not Path(path).exists():
            raise _refuse(path)
    relative = (relate_path(root, Path(path)) for path in paths)
    return ["" if path == "." else path for path in relative]


def _refuse(path: str) -> ConfigError:
    hint = "name chapters or folders of this book, relative to the current folder"
    return refuse(path, f"there is no chapter of the book at '{path}'", hint)


def is_below(path: str, folders: Sequence[str]) -> bool:
    """Whether a path is one of these or inside one; always true if there are none."""
    return not folders or any(
        not folder or path == folder or path.startswith(f"{folder}/") for folder in folders
    )


def choose_new(
    findings: Sequence[Finding], inspection: Inspection, rev: str
) -> tuple[Finding, ...]:
    """Findings on lines added since a revision, on whole files that have changed since, and about
    text that is gone.

    Raises ConfigError if the revision does not exist.
    """
    from bindery.book.git_history import find_added_lines, find_changed_files  # rarely needed

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
