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
    ("text", "expected"),
    [("4096", 4096), ("32KiB", 32768), ("4MB", 4_000_000), ("16G", 16 * 1024**3), ("1.5k", 1536)],
)
def test_sizes(text: str, expected: int) -> None:
    """`KiB` and a bare `K` are binary, `KB` is decimal."""
    assert cli.size(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"), [("90", 90), ("45s", 45), ("10m", 600), ("1h30m", 5400), ("2d", 172800)]
)
def test_durations(text: str, expected: float) -> None:
    """Seconds, and any of days, hours, minutes."""
    assert cli.duration(text) == expected


def test_large_numbers() -> None:
    """Suffixes are those of parameter counts."""
    assert cli.large_number("70B") == 70e9
    assert cli.large_number("1.5T") == 1.5e12
    assert cli.large_number("8192") == 8192
    assert cli.large_number("128K") == 128e3
    assert cli.large_number("4Ki") == 4096
    assert cli.large_number("1.2E") == 1.2e18
    assert cli.large_number("7e-3") == 7e-3


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


def test_demo_stands_for_its_arguments() -> None:
    """What is given beside it wins."""
    assert make_parser().parse_args(["--demo"]).max_size == 1
    assert make_parser().parse_args(["--max-size", "7", "--demo"]).max_size == 7


def test_demo_may_stand_for_a_subcommand() -> None:
    """Which does not know --demo itself."""
    parser = cli.Parser("Doc.", tool="x", version="1.0.0", demo=["sum", "--num-values", "3"])
    command = parser.add_subparsers(dest="command").add_parser("sum")
    command.add_argument("--num-values", type=int)
    options = parser.parse_args(["--demo"])
    assert (options.demo, options.command, options.num_values) == (True, "sum", 3)
    assert parser.parse_args(["sum", "--num_values", "4"]).num_values == 4


def test_help_is_the_docstring(capsys: pytest.CaptureFixture[str]) -> None:
    """As typed, with its line breaks."""
    with pytest.raises(SystemExit):
        cli.Parser("One.\n\n    two", tool="x", version="1").parse_args(["--help"])
    assert "One.\n\n    two" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("body", "status", "error"),
    [
        ("return 3", 3, ""),
        ("return None", 0, ""),
        ("raise UsageError('no disk')", 2, "x.py: error: no disk\n"),
        ("raise KeyboardInterrupt", 130, ""),
    ],
)
def test_exit_status(tmp_path: Path, body: str, status: int, error: str) -> None:
    """UsageError is one line and status 2; Ctrl-C is silent."""
    program = tmp_path / "x.py"
    program.write_text(
        f"import sys\nsys.path.insert(0, {str(SCRIPTS)!r})\n"
        f"from kit.cli import UsageError, start\ndef main():\n    {body}\nstart(main)\n"
    )
    done = subprocess.run(
        [sys.executable, str(program)], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (status, error)


def test_a_closed_pipe_ends_the_program_without_complaint(tmp_path: Path) -> None:
    """`tool.py | head -1`."""
    program = tmp_path / "x.py"
    program.write_text(
        f"import sys\nsys.path.insert(0, {str(SCRIPTS)!r})\nfrom kit.cli import start\n"
        "def main():\n    for _ in range(100000):\n        print('line')\nstart(main)\n"
    )
    command = f"{sys.executable} {program} | head -1"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("line\n", "")
