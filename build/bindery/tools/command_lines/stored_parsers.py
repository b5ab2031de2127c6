"""Read the command line of a tool from the JSON that `bindery run TOOL --texts` stored.

`dump_parser.py` writes it. `check` never runs a tool.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import msgspec
from msgspec import Struct

Kind = Literal["text", "int", "float", "other"]


class Option(Struct, frozen=True, forbid_unknown_fields=True):
    """An option or a positional argument of a parser."""

    names: tuple[str, ...]
    """`--json`, `-j`; for a positional argument, its name in `add_argument`."""
    least: int = 1
    """Minimum number of values."""
    most: int | None = 1
    """Maximum number; None if unlimited."""
    kind: Kind = "text"
    choices: tuple[Any, ...] | None = None
    is_required: bool = False
    ends_run: bool = False
    """Whether it prints something and exits, as `--help` does."""
    takes_rest: bool = False
    """Whether everything after it belongs to it."""
    rivals: int = 0
    """The number of its mutually exclusive group; 0 without."""
    is_hidden: bool = False
    """Whether `--help` omits it."""


class Parser(Struct, frozen=True, forbid_unknown_fields=True):
    """The options and arguments of a command line."""

    options: tuple[Option, ...] = ()
    positionals: tuple[Option, ...] = ()
    commands: Mapping[str, Parser] | None = None
    """Subcommands by name, after the positional arguments; None without subcommands."""
    is_command_required: bool = False
    is_open: bool = False
    """Whether it accepts unknown options."""
    takes_abbreviations: bool = True
    takes_underscores: bool = False
    """Whether `--max_size` means `--max-size`."""

    def find(self, name: str) -> Option | None:
        """The option with this name."""
        if self.takes_underscores and name.startswith("--"):
            name = name.replace("_", "-")
        return next((option for option in self.options if name in option.names), None)


def read_stored_parser(text: str) -> Parser:
    """Parse a stored parser. Raises ValueError if the JSON is invalid."""
    try:
        return msgspec.json.decode(text, type=Parser)
    except msgspec.DecodeError as error:
        raise ValueError(f"not a stored parser: {error}") from None
