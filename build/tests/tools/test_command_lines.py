"""Commands compared with the stored parsers of tools: what argparse refuses, and nothing else."""

import contextlib
import functools
import io
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest
from bindery.tools.command_lines import dump_parser
from bindery.tools.command_lines.fitting import Misuse, judge_words
from bindery.tools.command_lines.programs import find_calls
from bindery.tools.command_lines.shell import read_shell
from bindery.tools.command_lines.stored_parsers import Parser, read_stored_parser
from hypothesis import given
from hypothesis import strategies as st

TOOL = """
import argparse
parser = argparse.ArgumentParser()
parser.add_argument("host")
parser.add_argument("--dtype", choices=["bfloat16", "float32"])
parser.add_argument("--num_steps", "-n", type=int)
parser.add_argument("--ratio", type=float)
parser.add_argument("--shape", nargs=3, type=int)
parser.add_argument("--tags", nargs="+")
parser.add_argument("--compare", nargs="?")
parser.add_argument("--verbose", "-v", action="count")
parser.add_argument("--quiet", "-q", action="store_true")
parser.parse_args()
"""


@functools.cache
def store_parser(tool: str) -> Parser:
    """The parser of a program, stored and read."""
    with tempfile.NamedTemporaryFile("w", suffix=".py") as file:
        file.write(tool)
        file.flush()
        command = [sys.executable, dump_parser.__file__, file.name]
        return read_stored_parser(
            subprocess.run(command, capture_output=True, check=True).stdout.decode()
        )


def judge(words: str, tool: str = TOOL, *, is_whole: bool = True) -> tuple[Misuse, ...]:
    parser = store_parser(tool)
    command = read_shell(f"tool.py {words}").commands[-1]
    return judge_words(parser, command.words[0], command.words[1:], is_whole=is_whole)


REFUSED = {
    "a --nope": ("--nope", "there is no option '--nope'"),
    "a --num-steps 3": ("--num-steps", "there is no option '--num-steps'"),
    "a -x": ("-x", "there is no option '-x'"),
    "a --dtype bf16": ("bf16", "'--dtype' cannot be 'bf16'"),
    "a --dtype=bf16": ("--dtype=bf16", "'--dtype' cannot be 'bf16'"),
    "a --num_steps 1.5": ("1.5", "'--num_steps' takes an integer, not '1.5'"),
    "a --ratio half": ("half", "'--ratio' takes a number, not 'half'"),
    "a --num_steps": ("--num_steps", "'--num_steps' takes a value, but none follows"),
    "a --shape 1 2": ("--shape", "'--shape' takes 3 values, but only 2 follow"),
    "a --tags --quiet": ("--tags", "'--tags' takes a value, but none follows"),
    "a --quiet=yes": ("--quiet=yes", "'--quiet' takes no value"),
    "a -quiet": ("-quiet", "there is no option '-quiet'"),
    "a b": ("b", "'b' is one argument too many: the tool takes 1 positional argument"),
    "--quiet": ("tool.py", "'tool.py' needs 'host'"),
}


@pytest.mark.parametrize("words", REFUSED)
def test_what_the_tool_refuses_is_found(words: str) -> None:
    """Each misuse is found once, at its word."""
    (misuse,) = judge(words)
    assert (misuse.word.text, misuse.message) == REFUSED[words]


@pytest.mark.parametrize(
    "words",
    [
        "a --dtype float32 --num_steps 3 --ratio -1e-3 --shape 1 2 3 --tags x y -vv -q",
        "--tags x y -- a",
        "a -n3 -n 3 -vqn3",
        "--help --nope",
        "$HOST --dtype $DTYPE --num_steps N --ratio <ratio> --shape $SHAPE",
        "a $MORE --dtype <one of them>",
        "...",
        "a [--num_steps N] [--dtype {bfloat16,float32}]",
        "a ${EXTRA} b c",
        "a --tags *.json",
        "$(hostname) --num_steps $((2 * 3))",
        "a --num_steps=${N}",
        'a "$@"',
    ],
)
def test_what_may_be_right_is_not_reported(words: str) -> None:
    """Right commands, abbreviations, and what only the shell or the reader knows are let be."""
    assert judge(words) == ()


def test_a_part_of_a_command_lacks_nothing() -> None:
    """In a sentence a command may be cut short; what is there is judged all the same."""
    assert judge("--quiet --num_steps", is_whole=False) == ()
    assert [misuse.word.text for misuse in judge("--quit", is_whole=False)] == ["--quit"]


@pytest.mark.parametrize("text", ["{", "[]", '{"options": [{}]}', '{"colour": 1}'])
def test_what_is_not_a_stored_parser_is_refused(text: str) -> None:
    """Broken JSON and JSON of another kind."""
    with pytest.raises(ValueError, match="not a stored parser"):
        read_stored_parser(text)


def test_a_program_without_a_parser_is_an_error(tmp_path: Path) -> None:
    """There is nothing to store."""
    (tmp_path / "tool.py").write_text("print('done')")
    command = [sys.executable, dump_parser.__file__, str(tmp_path / "tool.py")]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ended.returncode == 1
    assert "the tool did not parse any arguments" in ended.stderr


COMMANDS = """
import argparse
parser = argparse.ArgumentParser()
parser.add_argument("--root")
commands = parser.add_subparsers(required=True)
show = commands.add_parser("show")
show.add_argument("name")
show.add_argument("--all", action="store_true")
parser.parse_args()
"""
REST = """
import argparse
parser = argparse.ArgumentParser()
parser.add_argument("--root")
parser.add_argument("program")
parser.add_argument("rest", nargs=argparse.REMAINDER)
parser.parse_args()
"""


RIVALS = """
import argparse
parser = argparse.ArgumentParser()
group = parser.add_mutually_exclusive_group()
group.add_argument("--long", action="store_true")
group.add_argument("--short", action="store_true")
parser.add_argument("--all", action=argparse.BooleanOptionalAction)
parser.add_argument("--old", action="store_true", help=argparse.SUPPRESS)
parser.parse_args()
"""


@pytest.mark.parametrize(
    ("tool", "words", "found"),
    [
        (COMMANDS, "--root x show it --all", []),
        (COMMANDS, "show it --root x", ["--root"]),
        (COMMANDS, "shaw it", ["shaw"]),
        (COMMANDS, "--root x", ["tool.py"]),
        (REST, "--root x ls --whatever -l", []),
        (RIVALS, "--long --short", ["--short"]),
        (RIVALS, "--no-all --old", []),
        (RIVALS.replace("parse_args", "parse_known_args"), "--whatever", []),
    ],
)
def test_parsers_of_every_kind_are_read(tool: str, words: str, found: list[str]) -> None:
    """Behind a subcommand its own parser counts, behind a program nothing is judged; options may
    exclude each other, be hidden, or be unknown where the parser lets them pass."""
    assert [misuse.word.text for misuse in judge(words, tool)] == found


WORDS = """
--dtype --dtyp=bfloat16 --num_steps --num_steps=3 --nu -n5 -n --ratio --shape --tags --compare -v
-vv -vqn --quiet --root --all --no-all --al --long --short --old show --nope -x -3 -.5 -- 1 2 a
bfloat16""".split()
TOOLS = (TOOL, COMMANDS, REST, RIVALS)


@given(
    st.sampled_from([TOOL, COMMANDS, REST, RIVALS]), st.lists(st.sampled_from(WORDS), max_size=6)
)
def test_nothing_is_reported_that_argparse_takes(tool: str, words: list[str]) -> None:
    """Whatever the words, a command that argparse takes has no misuse."""
    names: dict[str, Any] = {}
    exec(tool.removesuffix("parser.parse_args()\n"), names)
    try:
        with contextlib.redirect_stderr(io.StringIO()):
            names["parser"].parse_args(words)
    except SystemExit:
        return
    assert judge(" ".join(words), tool) == ()


CALLS = {
    "python a.py --x": [("a.py", "--x")],
    "A=1 python3.12 -u b/a.py": [("b/a.py", "")],
    "torchrun --nproc-per-node 8 --nnodes=2 a.py --x": [("a.py", "--x")],
    "python -m torch.distributed.run --nproc_per_node 8 a.py --x": [("a.py", "--x")],
    "accelerate launch --num_processes 2 a.py --x": [("a.py", "--x")],
    "nsys profile -o report python a.py --x": [("a.py", "--x")],
    "timeout 5 python a.py && python b.py": [("a.py", ""), ("b.py", "")],
    "bash -c 'cd x; python a.py --x'": [("a.py", "--x")],
    'ssh host "python a.py --x"': [("a.py", "--x")],
    'sbatch --wrap="python a.py --x"': [("a.py", "--x")],
    "sbatch <<EOF\nsrun python a.py --x\nEOF": [("a.py", "--x")],
    "x=$(python a.py --x)": [("a.py", "--x")],
    "$LAUNCHER a.py --x": [("a.py", "--x")],
    "for n in 1 2; do python a.py $n; done": [("a.py", "$n")],
    "$ python a.py --x\nit's python b.py\n$ ls": [("a.py", "--x")],
    "a.py's --x": [],
    "python -m pytest a.py --x": [],
    "python -c 'import a' a.py": [],
    "cat a.py --x": [],
    "python train.py --config a.py --x": [("train.py", "--config a.py --x")],
    "echo 'python a.py --x'": [],
    "# python a.py --x": [],
}  # fmt: skip


@pytest.mark.parametrize("text", CALLS)
def test_calls_are_found_behind_what_starts_them(text: str) -> None:
    """A program and its arguments are found whatever starts it, and only where it is started."""
    calls = find_calls(text)
    assert [
        (call.program.text, " ".join(word.text for word in call.words)) for call in calls
    ] == CALLS[text]
    assert all(
        text[call.program.start : call.program.end] == call.program.text
        for call in calls
        if not call.program.is_quoted
    )
