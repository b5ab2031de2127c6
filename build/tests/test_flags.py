"""Options of tools: read from the source, and equal to what the tools themselves say."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from bindery.calls.flags import Parser, read_parser

ROOT = Path(__file__).resolve().parents[2]
TOOLS = sorted(
    path
    for path in ROOT.glob("scripts/**/*.py")
    if "tests" not in path.parts and "ArgumentParser(" in path.read_text(encoding="utf-8")
)

TOP = "import argparse\nparser = argparse.ArgumentParser({})\n"
END = "options = parser.parse_args()\n"


def read(body: str, *, top: str = "", end: str = END) -> Parser | None:
    return read_parser(TOP.format(top) + body + end)


def list_names(parser: Parser | None) -> list[str]:
    """All names of a parser, those of its subcommands behind the name of the command."""
    assert parser is not None
    names = [name for option in (*parser.options, *parser.positionals) for name in option.names]
    for command, inner in (parser.commands or {}).items():
        names += [f"{command} {name}" for name in list_names(inner)]
    return [name for name in names if not name.endswith(("-h", "--help"))]


@pytest.mark.parametrize("path", TOOLS, ids=lambda path: path.stem)
def test_options_are_those_that_help_lists(path: Path) -> None:
    """For each tool of the project, what is read without running it is what `--help` says."""
    parser = read_parser(path.read_text(encoding="utf-8"))
    assert parser is not None
    done = subprocess.run(
        [sys.executable, path, "--help"], capture_output=True, text=True, check=True
    )
    lines = (line for line in done.stdout.splitlines() if re.match("  ?-", line))
    heads = [re.split(r"  +", line.strip())[0] for line in lines]
    told = {
        name
        for head in heads
        if head.startswith("-")
        for name in re.findall(r"(?:^|, )(--?[a-zA-Z][\w-]*)", head)
    }
    assert told == {
        name for option in parser.options if not option.is_hidden for name in option.names
    }


RECORD = "class Asked(NamedTuple):\n    name: str\n    short: str = '-s'\n"
RECORDED = "from typing import NamedTuple\n" + RECORD
DATACLASS = "from dataclasses import dataclass\n@dataclass(frozen=True)\n" + RECORD.replace(
    "(NamedTuple)", ""
)
LOOP = "for one in ASKED:\n    parser.add_argument(f'--{one.name}', one.short)"

BODIES = {
    f"{RECORDED}ASKED = (Asked('a'), Asked(name='b', short='-t'))\n{LOOP}": [
        *("--a", "-s"),
        *("--b", "-t"),
    ],
    f"{DATACLASS}ASKED = [Asked('a')]\n{LOOP}": ["--a", "-s"],
    "parser.add_argument('--a', '-b')": ["--a", "-b"],
    "for name in ('x', 'y'):\n    parser.add_argument(f'--{name}_size')": ["--x_size", "--y_size"],
    "for name, kind in {'x': int, 'y': str}.items():\n    parser.add_argument('--' + name)": [
        "--x", "--y",
    ],
    "NAMES = ['x', 'y']\nfor i, name in enumerate(NAMES):\n    parser.add_argument('--' + name)":
        ["--x", "--y"],
    "parser.add_argument('--deep-speed', action=argparse.BooleanOptionalAction)": [
        "--deep-speed", "--no-deep-speed",
    ],
    "group = parser.add_argument_group('g')\ngroup.add_argument('--a')": ["--a"],
    "g = parser.add_argument_group('g').add_mutually_exclusive_group()\ng.add_argument('--a')": [
        "--a",
    ],
    "def add(p, name='--b'):\n    p.add_argument('--a')\n    p.add_argument(name)\nadd(parser)": [
        "--a", "--b",
    ],
    "def add(*, to, name):\n    to.add_argument(name)\nadd(name='--a', to=parser)": ["--a"],
    "if input():\n    parser.add_argument('--a')\nelse:\n    parser.add_argument('--b')": [
        "--a", "--b",
    ],
    "try:\n    import a\n    parser.add_argument('--a')\nexcept ImportError:\n    pass": ["--a"],
    "common = dict(type=int)\nparser.add_argument('--a', **common)": ["--a"],
    "s = parser.add_subparsers()\na = s.add_parser('a', aliases=['b'])\na.add_argument('--x')": [
        "a --x", "b --x",
    ],
    "s = parser.add_subparsers()\nfor n in ('a', 'b'):\n    s.add_parser(n).add_argument('--x')": [
        "a --x", "b --x",
    ],
    "parser.set_defaults(x=1)\nparser.add_argument('a', nargs='*')": ["a"],
}  # fmt: skip


@pytest.mark.parametrize("body", BODIES)
def test_what_builds_a_parser_is_followed(body: str) -> None:
    """Loops over literals, groups, functions, branches and subcommands give their options."""
    assert list_names(read(body + "\n")) == BODIES[body]


WHOLE = {
    "a function": "import argparse\ndef build():\n    parser = argparse.ArgumentParser()\n"
    "    parser.add_argument('--a')\n    return parser\n"
    "def main():\n    options = build().parse_args()\n"
    "if __name__ == '__main__':\n    raise SystemExit(main())\n",
    "parents": "from argparse import ArgumentParser as P\nbase = P(add_help=False)\n"
    "base.add_argument('--a')\nP(parents=[base]).parse_args()\n",
    "another name": "import argparse as ap\np = ap.ArgumentParser()\np.add_argument('--a')\n"
    "p.parse_args()\n",
    "a class for its messages": "import argparse\nclass P(argparse.ArgumentParser):\n"
    "    def error(self, message):\n        raise SystemExit(message)\n"
    "p = P()\np.add_argument('--a')\np.parse_args()\n",
    "two stages": "import argparse\nfirst = argparse.ArgumentParser(add_help=False)\n"
    "first.add_argument('--b')\nknown, rest = first.parse_known_args()\n"
    "second = argparse.ArgumentParser(parents=[first])\nsecond.add_argument('--a')\n"
    "second.parse_args(rest)\n",
    "a main that is handed over": "import argparse, sys\ndef main():\n"
    "    p = argparse.ArgumentParser()\n    p.add_argument('--a')\n    p.parse_args()\n"
    "def guard(run):\n    return run()\nsys.exit(guard(main))\n",
    "a decorated main": "import argparse\n@record\ndef main():\n    p = argparse.ArgumentParser()\n"
    "    p.add_argument('--a')\n    with open('x') as f:\n        o = p.parse_args()\nmain()\n",
}


@pytest.mark.parametrize("name", WHOLE)
def test_the_parser_is_found_where_it_is_used(name: str) -> None:
    """However a program comes to its parser, it is the one that reads its command line."""
    assert "--a" in list_names(read_parser(WHOLE[name]))


UNKNOWABLE = [
    "parser.add_argument(input())\n",
    "for name in open('x'):\n    parser.add_argument('--' + name)\n",
    "import deepspeed\nparser = deepspeed.add_config_arguments(parser)\n",
    "import extra\nextra.add_options(parser)\n",
    "parser._actions.clear()\n",
    "def later():\n    parser.add_argument('--a')\n",
    "NAMES = ['a']\nNAMES.append(input())\nfor n in NAMES:\n    parser.add_argument('--' + n)\n",
    "parser.add_argument('--a')\nif input():\n    parser = argparse.ArgumentParser()\n",
    f"{RECORDED}ASKED = [Asked(*input())]\n{LOOP}\n",
    f"{RECORDED}class More(Asked):\n    help: str\nASKED = [More('a', '-b', 'x')]\n{LOOP}\n",
    f"{DATACLASS.replace('(frozen=True)', '')}ASKED = [Asked('a')]\nASKED[0].name = 'b'\n{LOOP}\n",
    f"{DATACLASS}    of: ClassVar[int] = 3\nASKED = [Asked('a')]\n{LOOP}\n",
    f"{RECORDED}    def __new__(cls, name): return input()\nASKED = [Asked('a')]\n{LOOP}\n",
]


@pytest.mark.parametrize("body", UNKNOWABLE)
def test_what_cannot_be_known_is_not_judged(body: str) -> None:
    """A parser that only the running tool knows is none here."""
    assert read("parser.add_argument('--x')\n" + body) is None


@pytest.mark.parametrize(
    "source",
    [
        "",
        "import argparse\np = argparse.ArgumentParser()\np.add_argument('--a')\n",
        "import argparse\nadd_argument = (\n",
        "import argparse\ndef f(p):\n    p.add_argument('--a')\n    return p.parse_args()\n",
        TOP.format("prefix_chars='+'") + "parser.add_argument('+a')\n" + END,
    ],
)
def test_a_file_without_a_command_line_has_no_parser(source: str) -> None:
    """A library, broken Python and strange prefixes give no parser."""
    assert read_parser(source) is None


@pytest.mark.parametrize(
    "body",
    [
        "parser.add_argument('--a', action=[1], nargs={}, choices={1: 2}, type=3, required=[])\n",
        "parser.add_argument('--a', **{'nargs': -1})\n",
        "x = 'a'\nfor _ in range(900):\n    x = x + x\n    parser.add_argument('--a')\n",
        "for _ in range(10 ** 12):\n    parser.add_argument('--a')\n",
        "def f():\n    return f()\nf()\nparser.add_argument('--a' if f() else '--b')\n",
        "parser.add_argument()\n",
        "parser.add_argument('')\n",
        "a, (b, *c) = 1\nparser.add_argument('--a', choices=[*a, *'x'])\n",
        "x = {**{}, 'a': 1, [1]: 2}[0]\nparser.add_argument(*x)\n",
        "(lambda: parser)().add_argument('--a')\n",
    ],
)
def test_strange_sources_are_read_without_an_error(body: str) -> None:
    """Whatever a tool does with its parser, reading it ends, soon and without an error of ours."""
    parser = read(body)
    assert parser is None or set(list_names(parser)) <= {"--a", ""}


def test_what_is_known_of_an_option() -> None:
    """Values, type, choices and duties of an option are those that the source gives it."""
    parser = read(
        "SIZES = {'s': 1, 'm': 2}\n"
        "parser.add_argument('--a', type=int, nargs='+', required=True)\n"
        "parser.add_argument('--b', choices=sorted(SIZES))\n"
        "parser.add_argument('--c', action='store_true', help=argparse.SUPPRESS)\n"
        "parser.add_argument('--d', type=make, choices=['x'], nargs=argparse.REMAINDER)\n"
        "parser.add_argument('--e', action=Mine)\n"
        "parser.add_argument('f', nargs='?')\n",
        top="allow_abbrev=False, fromfile_prefix_chars='@'",
        end="known, rest = parser.parse_known_args()\n",
    )
    assert parser is not None
    _, a, b, c, d, e = parser.options
    assert (a.kind, a.least, a.most, a.is_required) == ("int", 1, None, True)
    assert (b.kind, b.least, b.most, b.choices) == ("text", 1, 1, ("m", "s"))
    assert (c.most, c.is_hidden) == (0, True)
    assert (d.kind, d.choices, d.takes_rest) == ("other", None, True)
    assert not e.is_counted
    assert not parser.positionals[0].is_required
    assert (parser.is_open, parser.takes_abbreviations, parser.takes_files) == (True, False, True)
