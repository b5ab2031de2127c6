"""Read the command line of a tool from the JSON that `bindery run TOOL --texts` stored.

`dump_parser.py` writes it. `check` never runs a tool.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Literal

from msgspec import Struct

Kind = Literal["text", "int", "float", "other"]


class Option(Struct, frozen=True):
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


class Parser(Struct, frozen=True):
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
        return _read_parser(json.loads(text))
    except (TypeError, KeyError, AttributeError, ValueError) as error:
        raise ValueError(f"not a stored parser: {error}") from None


def _read_parser(data: Mapping[str, Any]) -> Parser:
    commands = data.get("commands")
    others = ("options", "positionals", "commands")
    return Parser(
        tuple(map(_read_option, data.get("options", ()))),
        tuple(map(_read_option, data.get("positionals", ()))),
        None if commands is None else {name: _read_parser(one) for name, one in commands.items()},
        **{name: value for name, value in data.items() if name not in others},
    )


def _read_option(data: Mapping[str, Any]) -> Option:
    choices = data.get("choices")
    tuples = {"names": tuple(data["names"]), "choices": choices and tuple(choices)}
    return Option(**{**data, **tuples})
