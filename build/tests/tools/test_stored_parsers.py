"""Options of tools: stored once by running the tool, then read without it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from bindery.tools.command_lines import dump_parser
from bindery.tools.command_lines.stored_parsers import Option, Parser, read_stored_parser

ROOT = Path(__file__).resolve().parents[3]
TOP = "import argparse\nparser = argparse.ArgumentParser()\n"
END = "\noptions = parser.parse_args()\nraise SystemExit('ran on')\n"

CASES = {
    "parser.add_argument('--size', '-s', type=int, required=True)": Option(
        ("--size", "-s"), kind="int", is_required=True
    ),
    "parser.add_argument('--all', action='store_true')": Option(("--all",), 0, 0),
    "parser.add_argument('--all', action=argparse.BooleanOptionalAction)": Option(
        ("--all", "--no-all"), 0, 0
    ),
    "parser.add_argument('--kind', choices=['a', 'b'])": Option(("--kind",), choices=("a", "b")),
    "parser.add_argument('--range', nargs=3, type=float)": Option(("--range",), 3, 3, "float"),
    "parser.add_argument('--some', nargs='+')": Option(("--some",), 1, None),
    "parser.add_argument('--maybe', nargs='?')": Option(("--maybe",), 0, 1),
    "parser.add_argument('--old', help=argparse.SUPPRESS)": Option(("--old",), is_hidden=True),
    "parser.add_argument('--version', action='version')": Option(
        ("--version",), 0, 0, ends_run=True
    ),
}


def store(tmp_path: Path, source: str) -> Parser:
    """The parser of a program, stored and read."""
    tool = tmp_path / "tool.py"
    tool.write_text(source)
    command = [sys.executable, dump_parser.__file__, str(tool)]
    ended = subprocess.run(command, capture_output=True, text=True, check=True)
    return read_stored_parser(ended.stdout)


@pytest.mark.parametrize("line", CASES)
def test_an_option_is_read_as_argparse_takes_it(tmp_path: Path, line: str) -> None:
    """Number of values, type, choices and what else decides whether a command is right."""
    parser = store(tmp_path, TOP + line + END)
    assert parser.find("--help") == Option(("-h", "--help"), 0, 0, ends_run=True)
    assert parser.options[1] == CASES[line]


def test_subcommands_and_positionals_are_read(tmp_path: Path) -> None:
    """Commands by name with options of their own; groups of which only one may be given."""
    body = """
parser.add_argument('path')
commands = parser.add_subparsers(required=True)
one = commands.add_parser('list', aliases=['ls'])
group = one.add_mutually_exclusive_group()
group.add_argument('--long', action='store_true')
group.add_argument('--short', action='store_true')
"""
    parser = store(tmp_path, TOP + body + END)
    assert parser.positionals == (Option(("path",)),)
    assert parser.is_command_required
    assert parser.commands is not None
    assert parser.commands["list"] == parser.commands["ls"]
    assert [one.rivals for one in parser.commands["list"].options[1:]] == [1, 1]


def test_a_parser_that_lets_unknown_options_pass_is_open(tmp_path: Path) -> None:
    """`parse_known_args` refuses nothing."""
    end = END.replace("parse_args", "parse_known_args")
    assert store(tmp_path, TOP + end).is_open


def test_a_program_without_a_parser_is_an_error(tmp_path: Path) -> None:
    """There is nothing to store."""
    with pytest.raises(subprocess.CalledProcessError):
        store(tmp_path, "print('done')")


def test_what_is_not_a_stored_parser_is_refused() -> None:
    """Broken JSON and JSON of another kind."""
    for text in ("{", "[]", '{"options": [{}]}', '{"colour": 1}'):
        with pytest.raises(ValueError, match="not a stored parser"):
            read_stored_parser(text)
