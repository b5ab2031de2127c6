"""Remove people, hosts and folders from what a record and its log contain."""

from __future__ import annotations

import contextlib
import getpass
import platform
import re
import sys
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Any

_NAME = r"[^\s/=,:;'\"]+"
_FOLDERS = re.compile(rf"(?<![\w.~/-])(?:/{_NAME})+/?")


def hide_folders(text: str, root: Path | None = None) -> str:
    """Cut absolute paths to their last name, or make them relative to the root. Homes become
    `~`."""
    if root is not None:
        text = text.replace(f"{root}/", "")
    homes = _match_homes()

    def cut(match: re.Match[str]) -> str:
        path = PurePosixPath(match[0])
        return "~" if homes.fullmatch(str(path)) else path.name

    return _hide_homes(_FOLDERS.sub(cut, text))


def _hide_homes(text: str) -> str:
    return _match_homes().sub(lambda match: match["address"] or "~", text)


def _match_homes() -> re.Pattern[str]:
    own = str(Path.home())
    homes = rf"(?:/{_NAME}){{0,20}}/(?:home|Users)/{_NAME}"
    if len(own) > 1:
        homes += rf"|(?:(?<=-[A-Za-z])|(?<![\w.~-])){re.escape(own)}(?![\w-]|\.\w)"
    return re.compile(rf"(?P<address>https?://\S+)|(?<!:/)(?:{homes})")


def clean_values(value: Any, names: Mapping[str, str]) -> Any:
    """JSON values with `clean_log` applied to each text, including the keys of objects."""
    match value:
        case str():
            return clean_log(value, names)
        case list() | tuple():
            return [clean_values(each, names) for each in value]
        case dict():
            cleaned: dict[str, Any] = {}
            for key, each in value.items():
                name = clean_log(key, names)
                while name in cleaned:
                    name += "_"  # two hosts with the same stand-in
                cleaned[name] = clean_values(each, names)
            return cleaned
        case _:
            return value


def clean_log(text: str, names: Mapping[str, str]) -> str:
    """The text with each of `names` replaced by its stand-in, and without homes, user and host."""
    replaced = {str(Path.home()): "~", **names}
    replaced |= {sys.prefix: "PYTHON", sys.base_prefix: "PYTHON"}
    for folder in sorted(replaced, key=len, reverse=True):
        if len(folder) > 1:
            text = re.sub(rf"{re.escape(folder)}(?![\w-])", replaced[folder], text)
    text = _hide_homes(text)
    people = {platform.node(): "HOST", platform.node().partition(".")[0]: "HOST"}
    with contextlib.suppress(OSError, KeyError, ImportError):
        people[getpass.getuser()] = "USER"
    for name, stand_in in people.items():
        if len(name) > 2 and name not in ("root", "localhost"):
            text = re.sub(rf"(?<![\w-]){re.escape(name)}(?![\w-])", stand_in, text)
    return text
