"""Environment variables that have been renamed: the list, and where a text still has the old name.

The list is `facts/renamed_variables.toml`. Where a text names the new variable too, or says that
the old one is deprecated, it speaks of the change and is left alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

OUTPUT_LANGUAGES = frozenset(
    ("", "console", "log", "none", "output", "plain", "plaintext", "shell-session", "text", "txt")
)
"""Fences that may show what a program printed: only what is plainly set or read there counts."""

_OF_THE_CHANGE = re.compile(
    r"\b(?:deprecat\w*|renam\w*|former(?:ly)?|replac\w*|supersed\w*|obsolete|legacy|no\s+longer"
    r"|used\s+to|instead\s+of|backwards?[ -]compat\w*|alias\w*|old(?:er)?\s+names?|previously"
    r"|in\s+the\s+past|historical\w*)\b",
    re.I,
)


@dataclass(frozen=True, slots=True)
class Rename:
    """A variable that goes by another name today."""

    old: str
    new: str
    source: str
    since: str = ""
    """The release from which on, where it is known."""
    note: str = ""


@dataclass(frozen=True, slots=True)
class OldName:
    """A place where the old name of a variable is, in characters of the text."""

    start: int
    end: int
    rename: Rename


@cache
def load_renames() -> Mapping[str, Rename]:
    """The variables that have been renamed, by their old names."""
    import tomllib  # only a book that may have such names needs it

    text = (Path(__file__).parent / "renamed_variables.toml").read_text(encoding="utf-8")
    entries = tomllib.loads(text)["variable"]
    return {entry["old"]: Rename(**entry) for entry in entries}


@cache
def _make_pattern() -> re.Pattern[str]:
    names = "|".join(sorted(load_renames(), reverse=True))
    return re.compile(rf"(?<![A-Za-z0-9_])(?:{names})(?![A-Za-z0-9_])")


def find_old_names(text: str, around: str = "") -> Iterator[OldName]:
    """The old names in a text that does not speak of their change. `around` is what else a reader
    sees in the same place, such as the other cells of a row."""
    matches = list(_make_pattern().finditer(text))
    if not matches or _OF_THE_CHANGE.search(f"{text}\n{around}"):
        return
    written = {match[0]: load_renames()[match[0]] for match in matches}
    known = {
        old
        for old, rename in written.items()
        if _has_name(text, rename.new) or _has_name(around, rename.new)
    }
    for match in matches:
        if match[0] not in known:
            yield OldName(match.start(), match.end(), written[match[0]])


def find_old_names_in_code(code: str, language: str) -> Iterator[OldName]:
    """The old names in a block of code. Where the block may be the output of a program, only those
    that a command sets or reads."""
    for place in find_old_names(code):
        if language not in OUTPUT_LANGUAGES or _is_used(code, place.start, place.end):
            yield place


def _has_name(text: str, name: str) -> bool:
    """Whether a name is in a text, and not as a part of a longer one."""
    return re.search(rf"(?<![\w-]){re.escape(name)}(?![\w])", text) is not None


def _is_used(code: str, start: int, end: int) -> bool:
    """Whether a command or program sets or reads the variable here."""
    before = code[code.rfind("\n", 0, start) + 1 : start]
    behind = code[end:].split("\n", 1)[0]
    if before.endswith(("$", "${")):
        return True
    if re.search(r"\b(?:environ(?:\.get)?|getenv)[\[(]['\"]$", before):
        return True
    if re.search(r"(?:\b(?:export|unset|setenv|ENV)\s+(?:\S+=\S*\s+)*|\s-e\s+|--env[= ])$", before):
        return True
    prompt = re.fullmatch(r"\s*(?:[$#>%]\s+)?(?:\w+=\S*\s+)*", before)
    return prompt is not None and re.match(r"=\S*\s+\S", behind) is not None
