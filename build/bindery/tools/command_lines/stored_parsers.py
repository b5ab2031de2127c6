"""The command line of a tool, as `bindery run TOOL --texts` has stored it: check never runs a tool.

`dump_parser.py` writes the JSON that is read here.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

Kind = Literal["text", "int", "float", "other"]


@dataclass(frozen=True, slots=True)
class Option:
    """An option or a positional argument of a parser."""

    names: tuple[str, ...]
    """`--json`, `-j`; of a positional argument what `add_argument` calls it."""
    least: int = 1
    """How many values it takes at least."""
    most: int | None = 1
    """At most; None for any number."""
    kind: Kind = "text"
    choices: tuple[Any, ...] | None = None
    is_required: bool = False
    ends_run: bool = False
    """Whether it prints something and exits, as `--help` does."""
    takes_rest: bool = False
    """Whether everything behind it belongs to it."""
    rivals: int = 0
    """The number of the group of options that exclude each other; 0 without."""
    is_hidden: bool = False
    """Whether `--help` leaves it out."""


@dataclass(frozen=True, slots=True)
class Parser:
    """What a command line may hold."""

    options: tuple[Option, ...] = ()
    positionals: tuple[Option, ...] = ()
    commands: Mapping[str, Parser] | None = None
    """The subcommands by name, which come after the positionals; None without any."""
    is_command_required: bool = False
    is_open: bool = False
    """Whether it lets options pass that it does not know."""
    takes_abbreviations: bool = True
    takes_underscores: bool = False
    """Whether `--max_size` is the same as `--max-size`."""

    def find(self, name: str) -> Option | None:
        """The option of this name."""
        if self.takes_underscores and name.startswith("--"):
            name = name.replace("_", "-")
        return next((option for option in self.options if name in option.names), None)


def read_stored_parser(text: str) -> Parser:
    """A parser from its JSON. Raises ValueError where it is not one."""
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
