"""Find the Python programs that shell text starts, with their arguments: also through a launcher
such as torchrun or srun, a quoted command, a heredoc or a substitution."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from msgspec import Struct
from msgspec.structs import replace

from bindery.tools.command_lines.shell import Command, Word, iterate_prompted, read_shell

_PYTHON = re.compile(r"(?:.*/)?(?:python|pypy)[0-9.]*")
_SCRIPT = re.compile(r"[^\s=:;,'\"]*\.py")
_LAUNCHERS = frozenset(
    """torchrun accelerate deepspeed srun mpirun mpiexec orterun horovodrun prun aprun jsrun flux
    nsys ncu nvprof rocprof rocprofv3 omnitrace-run perf strace ltrace gdb numactl taskset
    hwloc-bind chrt nice ionice time env sudo nohup setsid stdbuf exec command timeout watch
    chronic uv poetry pipenv conda micromamba docker podman apptainer singularity enroot kernprof
    kubectl py-spy memray coverage sbatch salloc dsh pdsh clush ssh systemd-run
    caffeinate unbuffer script ipython cuda-gdb compute-sanitizer cuda-memcheck rocgdb bash sh
    zsh""".split()
)
"""Programs that start another program named in their arguments."""
_SHELLS = frozenset(
    ("bash", "sh", "zsh", "ssh", "pdsh", "clush", "dsh", "srun", "sbatch", "salloc")
)
"""Programs that read an argument, or standard input, as shell text."""
_STARTING_MODULES = frozenset(
    ("torch.distributed.run", "torch.distributed.launch", "accelerate.commands.launch", "pdb",
     "deepspeed.launcher.runner", "cProfile", "trace", "coverage", "scalene", "memray", "viztracer")
)  # fmt: skip
_OPTIONS_THAT_TAKE_A_FILE = re.compile(
    r"--?(?:o|output|out|input|i|config|config[_-]file|log|file|f|e|error|report|c)"
)


class ToolCall(Struct, frozen=True):
    """A program and its arguments. Positions are offsets in the text."""

    program: Word
    """The path of the program."""
    words: tuple[Word, ...]


def find_calls(text: str) -> tuple[ToolCall, ...]:
    """The calls in a code block or code span, if all of it is shell text. After prompts only what
    is typed counts, not the output."""
    if ".py" not in text:
        return ()  # no script is called, so skip the slow reading of shell text
    pieces = list(iterate_prompted(text)) or [(0, text)]
    return tuple(_shift(call, offset) for offset, one in pieces for call in _find_in_shell(one))


def _find_in_shell(text: str) -> Iterator[ToolCall]:
    shell = read_shell(text)
    if shell.fault is None:
        yield from _find_in_commands(text, shell.commands)


def _find_in_commands(text: str, commands: Sequence[Command]) -> Iterator[ToolCall]:
    for command in commands:
        if command.words:
            yield from _find_in_command(command.words)
        if command.heredoc and any(_name(word) in _SHELLS for word in command.words):
            for call in _find_in_shell(command.heredoc):
                yield _shift(call, command.heredoc_start)
        for word in command.assignments:  # CMD="python a.py": arguments may follow where it is used
            for call in _find_in_quotes(text, word):
                end = Word("...", word.end, word.end, is_many=True)
                yield replace(call, words=(*call.words, end))
        if command.words and _name(command.words[0]) in _SHELLS:
            for word in command.words[1:]:
                yield from _find_in_quotes(text, word)


def _find_in_quotes(text: str, word: Word) -> Iterator[ToolCall]:
    """A quoted command that is passed to a shell."""
    typed = text[word.start : word.end]
    quote = re.search(r"[\"']", typed)
    if quote is None or " " not in typed or "\\" + quote[0] in typed or typed[-1] != quote[0]:
        return
    inside = typed[quote.end() : -1]
    for call in _find_in_shell(inside):
        yield _shift(call, word.start + quote.end())


def _shift(call: ToolCall, offset: int) -> ToolCall:
    def shift(word: Word) -> Word:
        return replace(word, start=word.start + offset, end=word.end + offset)

    return replace(call, program=shift(call.program), words=tuple(map(shift, call.words)))


def _name(word: Word) -> str:
    return word.text.rpartition("/")[2]


def _find_in_command(words: Sequence[Word]) -> Iterator[ToolCall]:
    name = _name(words[0])
    if _SCRIPT.fullmatch(words[0].text):
        yield ToolCall(words[0], tuple(words[1:]))
        return
    is_variable = words[0].text.startswith("$")
    if not (_PYTHON.fullmatch(words[0].text) or name in _LAUNCHERS or is_variable):
        return
    for index, word in enumerate(words[1:], 1):
        before = words[index - 1].text
        if before == "-m":
            if word.text not in _STARTING_MODULES:
                return
        elif word.text == "-c" and _PYTHON.fullmatch(before):
            return
        elif _SCRIPT.fullmatch(word.text):
            if not _OPTIONS_THAT_TAKE_A_FILE.fullmatch(before):
                yield ToolCall(word, tuple(words[index + 1 :]))
                return
        elif (word.is_quoted and " " in word.text) or _name(word) in _STRANGERS:
            return


_STRANGERS = frozenset(
    """pytest ruff mypy black vim vi nano emacs cat less more head tail grep rg sed awk cp mv rm ls
    scp rsync wget curl git chmod diff wc echo touch ln find tar jq pylint flake8 isort""".split()
)
"""Programs that do something else with a file than run it."""
