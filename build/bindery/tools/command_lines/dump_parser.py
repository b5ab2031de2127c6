"""Print the command line of a tool as JSON: `python dump_parser.py TOOL`.

The tool is run until it parses its arguments, and no further. Attributes with default values are
left out, as `stored_parsers` expects.
"""

from __future__ import annotations

import argparse
import json
import runpy
import sys
from pathlib import Path
from typing import Any, NoReturn


def describe_option(action: argparse.Action) -> dict[str, Any]:
    """An argparse action as JSON."""
    counts: dict[Any, tuple[int, int | None]] = {None: (1, 1), "?": (0, 1), "+": (1, None)}
    least, most = counts.get(action.nargs, (0, None))
    if isinstance(action.nargs, int):
        least = most = action.nargs
    kinds: dict[Any, str] = {None: "text", str: "text", int: "int", float: "float"}
    kind = kinds.get(action.type, "other")
    choices = action.choices
    return leave_out_usual(
        names=list(action.option_strings) or [str(action.metavar or action.dest)],
        least=(least, 1),
        most=(most, 1),
        kind=(kind, "text"),
        choices=(None if choices is None else list(choices), None),
        is_required=(bool(action.option_strings) and action.required, False),
        ends_run=(isinstance(action, argparse._HelpAction | argparse._VersionAction), False),
        takes_rest=(action.nargs == argparse.REMAINDER, False),
        is_hidden=(action.help == argparse.SUPPRESS, False),
    )


def describe_parser(parser: argparse.ArgumentParser, *, is_open: bool) -> dict[str, Any]:
    """A parser with its subcommands as JSON."""
    options: list[dict[str, Any]] = []
    positionals: list[dict[str, Any]] = []
    commands: dict[str, Any] | None = None
    is_command_required = False
    groups = {
        id(action): number
        for number, group in enumerate(parser._mutually_exclusive_groups, start=1)
        for action in group._group_actions
    }
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            commands = {n: describe_parser(p, is_open=is_open) for n, p in action.choices.items()}
            is_command_required = action.required
            continue
        option = describe_option(action)
        if id(action) in groups:
            option["rivals"] = groups[id(action)]
        (options if action.option_strings else positionals).append(option)
    return leave_out_usual(
        options=(options, []),
        positionals=(positionals, []),
        commands=(commands, None),
        is_command_required=(is_command_required, False),
        is_open=(is_open, False),
        takes_abbreviations=(parser.allow_abbrev, True),
        takes_underscores=(getattr(parser, "takes_underscores", False), False),
    )


def leave_out_usual(**values: Any) -> dict[str, Any]:
    """Leave out default values; each argument is a pair of value and default."""
    kept = {}
    for name, value in values.items():
        if not isinstance(value, tuple):
            kept[name] = value
        elif value[0] != value[1]:
            kept[name] = value[0]
    return kept


def main() -> None:
    """Run the tool in the first argument until it parses its arguments."""
    tool = Path(sys.argv[1]).resolve()

    def stop_at(is_open: bool) -> Any:
        def parse(parser: argparse.ArgumentParser, *_: Any, **__: Any) -> NoReturn:
            text = json.dumps(describe_parser(parser, is_open=is_open), indent=1, default=str)
            print(text)
            sys.stdout.flush()
            raise SystemExit(0)

        return parse

    parsers: Any = argparse.ArgumentParser
    parsers.parse_args = parsers.parse_intermixed_args = stop_at(False)
    parsers.parse_known_args = parsers.parse_known_intermixed_args = stop_at(True)
    sys.argv = [str(tool)]
    sys.path[0] = str(tool.parent)
    runpy.run_path(str(tool), run_name="__main__")
    sys.exit("the tool did not parse any arguments")


if __name__ == "__main__":
    main()
