"""The list of accepted findings that a book names: read, heeded by what reports findings, and kept
true where commands change the sources."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from bindery.check.baseline import Acceptance, Sifted, carry_accepted, parse_accepted, sift_findings
from bindery.check.finding_identity import Identity, identify_finding
from bindery.core.config import ASKED_RULES, Config
from bindery.core.model import BookError, Finding, Span, refuse

if TYPE_CHECKING:
    from bindery.check.inspect import Inspection

_OF_OTHERS = frozenset((*ASKED_RULES, "second-opinion"))
"""Rules of `bindery links`: `check` cannot know whether their findings are gone."""


def read_accepted(root: Path, path: Path, place: Span | None = None) -> tuple[Acceptance, ...]:
    """The list in a file. Raises ConfigError where it cannot be read; `place` is where the file is
    named, the command line if left out."""
    shown = relate_path(root, path)
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except FileNotFoundError:
        named = path if place is None else shown
        hint = f"write it: `bindery check --write-baseline {named}`"
        message = f"there is no file '{named}' of accepted findings"
        raise refuse(place or shown, message, hint) from None
    except UnicodeDecodeError as error:
        message = f"this is not UTF-8: byte 0x{error.object[error.start]:02x}"
        line = error.object.count(b"\n", 0, error.start) + 1
        raise refuse(Span(shown, line), message, "save the file as UTF-8 text") from None
    return parse_accepted(text, shown)


def read_listed(config: Config) -> tuple[Acceptance, ...]:
    """The list that `chapters.yaml` names; nothing where it names none. Raises ConfigError as
    `read_accepted` does."""
    if not config.baseline:
        return ()
    return read_accepted(config.root, config.root / config.baseline, config.baseline_span)


def relate_path(root: Path, path: Path) -> str:
    """A path as findings name it: relative to the root of the book where it is there."""
    try:
        return path.resolve().relative_to(root.resolve()).as_posix()
    except ValueError:
        return str(path.resolve())


def is_of_check(entry: Acceptance) -> bool:
    """Whether `check` would find again what is listed here."""
    return entry.identity.rule not in _OF_OTHERS


def sift_listed(inspection: Inspection, findings: Sequence[Finding] | None = None) -> Sifted:
    """The findings of a book, or these, compared with the list that it names.

    Raises ConfigError where the list cannot be read.
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
    """What gives the list again once the sources have changed, as a change of its file; None where
    the book has no list. It is called before the change, for it looks at the book as it is.

    Raises ConfigError where the list cannot be read, BookError by `rule` where it may not be
    written.
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
        # One that was sorted otherwise by hand is left so where it stays true.
        return {} if carried == unchanged else {config.baseline: (text, carried)}

    return carry


def _identify_findings(root: Path) -> list[Identity]:
    from bindery.check.inspect import inspect_book

    inspection = inspect_book(root)
    return [
        identify_finding(finding, inspection.tree.read_line(finding.span))
        for finding in inspection.findings
    ]
