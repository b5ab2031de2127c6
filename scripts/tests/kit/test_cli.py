"""Command lines of tools."""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

import pytest
from kit import cli

SCRIPTS = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize(
    ("read", "text", "expected"),
    [
        (cli.size, "4096", 4096), (cli.size, "32KiB", 32768), (cli.size, "4MB", 4_000_000),
        (cli.size, "16G", 16 * 1024**3), (cli.size, "1.5k", 1536),
        (cli.duration, "90", 90), (cli.duration, "45s", 45), (cli.duration, "100ms", 0.1),
        (cli.duration, "1h30m", 5400), (cli.duration, "2d", 172800),
        (cli.large_number, "70B", 70e9), (cli.large_number, "1.5T", 1.5e12),
        (cli.large_number, "128K", 128e3), (cli.large_number, "4Ki", 4096),
        (cli.large_number, "1.2E", 1.2e18), (cli.large_number, "7e-3", 7e-3),
    ],
)  # fmt: skip
def test_values(read, text: str, expected: float) -> None:
    """`KiB` and a bare `K` of a size are binary, `KB` is decimal; numbers have the suffixes of
    parameter counts."""
    assert read(text) == expected


@pytest.mark.parametrize(
    ("read", "text"),
    [
        (cli.size, "12 parsecs"), (cli.size, "1.5"), (cli.size, "0"), (cli.size, "4iB"),
        (cli.duration, "soon"), (cli.duration, "0"), (cli.duration, ""),
        (cli.positive_int, "0"), (cli.positive_int, "1.5"), (cli.natural_int, "-1"),
        (cli.positive_float, "inf"), (cli.positive_float, "nan"), (cli.large_number, "many"),
    ],
)  # fmt: skip
def test_bad_values_are_named(read, text: str) -> None:
    """The error quotes what was typed."""
    with pytest.raises(argparse.ArgumentTypeError, match=f"'{text}'"):
        read(text)


def make_parser() -> cli.Parser:
    parser = cli.Parser("Doc.", tool="x", version="1.0.0", method=3, demo=["--max-size", "1"])
    parser.add_argument("--max-size", type=int)
    parser.add_argument("words", nargs="*")
    return parser


def test_underscores_are_hyphens_in_known_options() -> None:
    """Values, and words after `--`, stay as they are."""
    parsed = make_parser().parse_args(["--max_size=3", "a_b", "--", "--max_size"])
    assert (parsed.max_size, parsed.words) == (3, ["a_b", "--max_size"])


def test_demo_may_stand_for_a_subcommand() -> None:
    """Which does not know --demo itself; what is given beside it wins."""
    assert make_parser().parse_args(["--max-size", "7", "--demo"]).max_size == 7
    parser = cli.Parser("Doc.", tool="x", version="1.0.0", demo=["sum", "--num-values", "3"])
    command = parser.add_subparsers(dest="command").add_parser("sum")
    command.add_argument("--num-values", type=int)
    options = parser.parse_args(["--demo"])
    assert (options.demo, options.command, options.num_values) == (True, "sum", 3)
    assert parser.parse_args(["sum", "--num_values", "4"]).num_values == 4


@pytest.fixture
def run(tmp_path: Path):
    """Run a program with this body of main() in a shell, with more words behind it."""

    def start(body: str, more: str = "") -> tuple[int, str, str]:
        program = tmp_path / "x.py"
        program.write_text(
            f"import sys\nsys.path.insert(0, {str(SCRIPTS)!r})\n"
            f"from kit.cli import UsageError, start\ndef main():\n    {body}\nstart(main)\n"
        )
        command = f"{sys.executable} {program} {more}"
        done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)
        return done.returncode, done.stdout, done.stderr

    return start


@pytest.mark.parametrize(
    ("body", "status", "error"),
    [
        ("return 3", 3, ""),
        ("return None", 0, ""),
        ("raise UsageError('no disk')", 2, "x.py: error: no disk\n"),
        ("open('a.txt')", 2, "x.py: error: [Errno 2] No such file or directory: 'a.txt'\n"),
        ("raise KeyboardInterrupt", 130, ""),
    ],
)
def test_exit_status(run, body: str, status: int, error: str) -> None:
    """UsageError is one line and status 2, as is a file of the command line that cannot be used;
    Ctrl-C is silent."""
    assert run(body, "ring=a.txt") == (status, "", error)


def test_a_closed_pipe_ends_the_program_without_complaint(run) -> None:
    """`tool.py | head -1`."""
    assert run("for _ in range(100000): print('line')", "| head -1") == (0, "line\n", "")
