#!/usr/bin/env python3
# /// script
# requires-python = ">=3.11"
# dependencies = []
# ///
"""Which lines does this program run, and which was the last one before it hung?

nicer_trace writes each call and each line before it runs, like Python's own `trace`, but with the
time, the rank, the process and the full name of the module, only for the packages you name, and to
a file per process. Nothing is buffered: after a hang, a kill or a segmentation fault, the last line
of the file is the line that ran.

    12:03:11 r3 4711 call  mypkg.model.Net.forward:41 from mypkg.train.main:12
    12:03:11 r3 4711 line  mypkg.model:42         x = self.a(x)

The columns are time, rank (if a launcher set one), process (`4711/4713` in a thread) and event. The
line of a call is that of the definition. Resuming a generator is a call too.

## What is traced

Without `--packages-to-include`, all code except Python's library and installed packages. With it,
these packages and everything below them, installed or not: `__main__` is the script, `*` is
everything. New threads and forked processes are traced too; a forked process gets its own file.
Programs that are started with subprocess or spawn are not traced, nor is code in C++. A line costs
some microseconds. No debugger or coverage tool can work at the same time (sys.settrace).

## How to run

    python nicer_trace.py --packages-to-include __main__,mypkg train.py --lr 1e-4
    python nicer_trace.py -m mypkg.train --lr 1e-4
    # a file per process in traces/, named trace.HOST.RANK.PID.txt, of some ranks of a job
    torchrun --nproc-per-node 8 nicer_trace.py --ranks 0,7 --quiet --log-dir traces train.py
    srun python nicer_trace.py --log-dir /shared/traces --quiet train.py

In a program, copy this file next to it:

    from nicer_trace import Tracer

    with Tracer(packages_to_include=["mypkg"], log_dir="traces"):
        step()

A good answer: the same lines on all ranks up to the one where they diverge. For a hang, `tail -n 1`
of each file. The exit status is that of the program; 2 for a usage error. Exit status of --demo: 0
every line of a small program was traced, 1 not.
"""

import argparse
import atexit
import functools
import linecache
import os
import re
import runpy
import socket
import subprocess
import sys
import sysconfig
import tempfile
import threading
import time
import tokenize  # noqa: F401 - linecache would import it in the middle of an import of the program
from collections.abc import Iterable
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, Self

__version__ = "0.2.0"

OWN_FILE = sys._getframe().f_code.co_filename
LIBRARY = tuple(
    sysconfig.get_path(name) + os.sep for name in ("stdlib", "platstdlib", "purelib", "platlib")
)


def read_rank() -> str | None:
    """The rank that torchrun, Slurm or Open MPI gave this process; None without a launcher."""
    names = ("RANK", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK")
    return next((os.environ[name] for name in names if name in os.environ), None)


def is_installed(file: str) -> bool:
    """True for Python's library, installed packages, and code without a file."""
    return (
        file.startswith(("<", *LIBRARY)) or re.search(r"/(site|dist)-packages/", file) is not None
    )


class Tracer:
    """Writes a line for each call and each line that a program runs.

    A context manager. Lines go to stderr unless `quiet`, and with `log_dir` to a file per process.
    Raises OSError where that cannot be opened.
    """

    def __init__(
        self,
        packages_to_include: Iterable[str] | None = None,
        *,
        log_dir: str | os.PathLike[str] | None = None,
        quiet: bool = False,
    ) -> None:
        self.included = None if packages_to_include is None else tuple(packages_to_include)
        self.log_dir = Path(log_dir).absolute() if log_dir else None
        self.stream = None if quiet else sys.stderr
        self.lines = 0
        self.is_active = False
        self.file: int | None = None
        # By id, because equal code objects may come from different files; the code object is kept,
        # so that no other one gets its id.
        self.judged: dict[int, tuple[CodeType, str | None]] = {}

    @property
    def path(self) -> Path | None:
        """The file of this process."""
        host = socket.gethostname().split(".")[0]
        name = f"trace.{host}.{read_rank() or 'none'}.{os.getpid()}.txt"
        return self.log_dir / name if self.log_dir else None

    def start(self) -> None:
        """Start to trace this thread, new threads, and the functions that are running now."""
        self._enter_process()
        self.is_active = True
        frame = sys._getframe(1)
        while frame is not None:  # such as the rest of a `with` block
            frame.f_trace = self._trace if self._judge(frame)[1] else frame.f_trace
            frame = frame.f_back
        threading.settrace(self._trace)
        sys.settrace(self._trace)

    def stop(self) -> None:
        """End the trace and close the file."""
        self.is_active = False
        threading.settrace(None)
        sys.settrace(None)
        if self.file is not None:
            os.close(self.file)
            self.file = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _enter_process(self) -> None:
        """Name this process and open its file: at the start, and in a forked process."""
        self.pid = os.getpid()
        rank = read_rank()
        self.who = f"{self.pid}" if rank is None else f"r{rank} {self.pid}"
        if self.log_dir:
            self.log_dir.mkdir(parents=True, exist_ok=True)
            # Each line is one write at the end of the file, so threads cannot interleave.
            self.file = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)

    def _judge(self, frame: FrameType) -> tuple[CodeType, str | None]:
        """The code of a function, and its module if it is to be shown, kept for the next call."""
        code, module = frame.f_code, str(frame.f_globals.get("__name__", "?"))
        if self.included is None:
            is_shown = not is_installed(code.co_filename)
        else:
            is_shown = any(p in ("*", module) or module.startswith(f"{p}.") for p in self.included)
        is_shown &= code.co_filename != OWN_FILE
        return self.judged.setdefault(id(code), (code, module if is_shown else None))

    def _trace(self, frame: FrameType, event: str, _argument: Any) -> Any:
        """What Python calls before each call and line."""
        if not self.is_active:
            return None
        code = frame.f_code
        module = (self.judged.get(id(code)) or self._judge(frame))[1]
        if module is None:
            return None
        if event == "call":
            text = f"call  {module}.{code.co_qualname}:{code.co_firstlineno}"
            caller = frame.f_back
            name = caller.f_globals.get("__name__", "?") if caller else "runpy"
            if name != "runpy" and caller.f_code.co_filename != OWN_FILE:
                text += f" from {name}.{caller.f_code.co_qualname}:{caller.f_lineno}"
            self._write(text)
        elif event == "line":
            source = linecache.getline(code.co_filename, frame.f_lineno, frame.f_globals)
            self._write(f"line  {module}:{frame.f_lineno} {source}")
        return self._trace

    def _write(self, text: str) -> None:
        if os.getpid() != self.pid:
            self._enter_process()
        self.lines += 1
        thread = threading.get_native_id()
        who = self.who if thread == self.pid else f"{self.who}/{thread}"
        line = f"{time.strftime('%H:%M:%S')} {who} {text.rstrip()}\n"
        if self.file is not None:
            os.write(self.file, line.encode("utf-8", "backslashreplace"))
        if self.stream is not None:
            self.stream.write(line)


def run_program(tracer: Tracer | None, program: list[str], is_module: bool) -> None:
    """Run a script or a module as Python would, traced until the process ends."""
    name = program[0]
    sys.argv = program
    sys.path[0] = str(Path.cwd()) if is_module else str(Path(name).resolve().parent)
    if tracer:
        tracer.start()
        atexit.register(finish, tracer, os.getpid())
    if is_module:
        runpy.run_module(name, run_name="__main__", alter_sys=True)
    else:
        runpy.run_path(str(Path(name).absolute()), run_name="__main__")


def finish(tracer: Tracer, pid: int) -> None:
    """End the trace of a program; say where it is, once for all processes that it forked."""
    tracer.stop()
    if os.getpid() == pid:
        place = f", in {tracer.path}" if tracer.path else ""
        print(f"nicer_trace: {tracer.lines} lines{place}", file=sys.stderr)


DEMO = """def count(limit):
    for number in range(limit):
        yield number
raise SystemExit(sum(count(10)))
"""
DEMO_LINES = (1 + 2) + (11 + 2 * 10 + 1)
"""The script: start and 2 lines. count(): entered 11 times, 2 lines per number, the loop's end."""


def run_demo() -> int:
    """Trace a script whose lines were counted by hand; the exit status."""
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder, "demo.py")
        script.write_text(DEMO)
        options = ["--quiet", "--log-dir", folder, "--packages-to-include", "__main__"]
        done = subprocess.run([sys.executable, __file__, *options, script], check=False)
        lines = next(Path(folder).glob("trace.*")).read_text().splitlines()
    print("...", *lines[-8:], sep="\n")
    is_right = done.returncode == 45 and len(lines) == DEMO_LINES
    counts = f"{len(lines)} lines, {DEMO_LINES} by hand; status {done.returncode}, 45 by hand"
    print(f"{'ok' if is_right else 'WRONG'}: {counts}")
    return int(not is_right)


def build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="nicer_trace.py",
        usage="nicer_trace.py [options] SCRIPT [ARGUMENTS], or nicer_trace.py --demo",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    add, words = parser.add_argument, functools.partial(re.split, ",")
    # fmt: off
    add("--packages-to-include", "--packages_to_include", type=words, metavar="NAMES",
        help="packages to show, with commas between them (default: all that is not installed)")
    add("--ranks", type=words, metavar="LIST", help="trace only these ranks: 0,7")
    add("--log-dir", "--log_dir", type=Path, metavar="DIR",
        help="write a file trace.HOST.RANK.PID.txt per process")
    add("--quiet", action="store_true", help="write no lines to stderr, only to --log-dir")
    add("-m", "--module", action="store_true", help="SCRIPT is the name of a module")
    add("--demo", action="store_true", help="trace a small script and check the lines")
    add("--version", action="version", version=f"nicer_trace {__version__}")
    add("program", nargs=argparse.REMAINDER, metavar="SCRIPT", help="script to run")
    # fmt: on
    return parser


def main() -> int:
    parser = build_parser()
    options = parser.parse_args()
    if options.demo:
        return run_demo()
    if options.program[:1] == ["--"]:
        options.program.pop(0)
    if not options.program:
        parser.error("name the script to run, or use --demo")
    if not options.module and not Path(options.program[0]).is_file():
        parser.error(f"there is no script {options.program[0]}")
    tracer = Tracer(options.packages_to_include, log_dir=options.log_dir, quiet=options.quiet)
    is_traced = options.ranks is None or read_rank() in (None, *options.ranks)
    run_program(tracer if is_traced else None, options.program, options.module)
    return 0


if __name__ == "__main__":
    sys.exit(main())
