"""Use of the baseline that chapters.yaml names: read it, apply it, and keep it up to date when
commands change the sources."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from bindery.check.baseline import Acceptance, Sifted, carry_accepted, parse_accepted, sift_findings
from bindery.check.finding_identity import Identity, identify_finding
from bindery.core.config import ASKED_RULES, Config
from bindery.core.model import SAVE_AS_UTF8, BookError, Finding, Span, find_bad_byte, refuse

if TYPE_CHECKING:
    from bindery.check.inspect import Inspection

_OF_OTHERS = frozenset((*ASKED_RULES, "second-opinion"))
"""Rules of `bindery links`, whose findings `check` cannot see."""


def read_accepted(root: Path, path: Path, place: Span | None = None) -> tuple[Acceptance, ...]:
    """Read a baseline. Raises ConfigError if it cannot be read; `place` is where the file is named,
    by default the command line."""
    shown = relate_path(root, path)
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except FileNotFoundError:
        named = path if place is None else shown
        hint = f"create it: `bindery check --write-baseline {named}`"
        message = f"there is no baseline '{named}'"
        raise refuse(place or shown, message, hint) from None
    except UnicodeDecodeError as error:
        raise refuse(*find_bad_byte(shown, error), SAVE_AS_UTF8) from None
    return parse_accepted(text, shown)


def read_listed(config: Config) -> tuple[Acceptance, ...]:
    """The baseline that chapters.yaml names; empty if it names none. Raises ConfigError as
    `read_accepted` does."""
    if not config.baseline:
        return ()
    return read_accepted(config.root, config.root / config.baseline, config.baseline_span)


def relate_path(root: Path, path: Path) -> str:
    """A path as findings show it: relative to the book's root if it is inside."""
    try:
        return path.resolve().relative_to(root.resolve()).as_posix()
    except ValueError:
        return str(path.resolve())


def is_of_check(entry: Acceptance) -> bool:
    """Whether `check` can find this again."""
    return entry.identity.rule not in _OF_OTHERS


def sift_listed(inspection: Inspection, findings: Sequence[Finding] | None = None) -> Sifted:
    """Findings, by default those of the book, sorted by its baseline.

    Raises ConfigError if the baseline cannot be read.
    """
    config = inspection.config
    entries = read_listed(config)
    if findings is None:
        findings = inspection.findings
        entries = tuple(filter(is_of_check, entries))
    moved = {move.old: move.new for move in config.moved}
    return sift_findings(findings, entries, inspection.tree.read_line, moved)


def prepare_carrying(
    config: Config, rule: str, map_path: Callable[[str], str] = str
) -> Callable[[], Mapping[str, tuple[str, str]]] | None:
    """A function that returns the updated baseline as a change of its file once the sources have
    changed; None without a baseline. Call this before the change: it inspects the book as it is.

    Raises ConfigError if the baseline cannot be read, BookError by `rule` if it cannot be written.
    """
    from bindery.core.transaction import find_obstacle

    if not config.baseline:
        return None
    entries, before = read_listed(config), _identify_findings(config.root)
    text = (config.root / config.baseline).read_bytes().decode("utf-8")
    if obstacle := find_obstacle(config.root, config.baseline):
        raise BookError(Finding(Span.whole(config.baseline), rule, *obstacle))

    def carry() -> Mapping[str, tuple[str, str]]:
        after = _identify_findings(config.root)
        unchanged = carry_accepted(entries, before, before, str)
        carried = carry_accepted(entries, before, after, map_path)
        # Keep an order chosen by hand where the entries still hold.
        return {} if carried == unchanged else {config.baseline: (text, carried)}

    return carry


def _identify_findings(root: Path) -> list[Identity]:
    from bindery.check.inspect import inspect_book

    inspection = inspect_book(root)
    return [
        identify_finding(finding, inspection.tree.read_line(finding.span))
        for finding in inspection.findings
    ]
