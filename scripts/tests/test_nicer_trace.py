"""nicer_trace: the same lines by both ways, and a program that notices nothing of being traced."""

from __future__ import annotations

import contextlib
import io
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

SCRIPTS = Path(__file__).resolve().parent.parent
TOOL = "debug/nicer_trace.py"
PATH = SCRIPTS / TOOL

RANK_NAMES = ("RANK", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK")


def find_pythons() -> dict[str, str]:
    """The Pythons from 3.11 on that are at hand, by version: this one, on the path, pyenv's."""
    candidates = [sys.executable]
    candidates += [shutil.which(f"python3.{minor}") or "" for minor in range(11, 15)]
    folder = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    candidates += [str(path) for path in sorted(folder.glob("3.1[1-9]*/bin/python"))]
    found: dict[str, str] = {}
    for candidate in filter(None, candidates):
        done = subprocess.run(
            [candidate, "-I", "-c", "import sys; print('%d.%d' % sys.version_info[:2])"],
            capture_output=True,
            text=True,
            timeout=20,
            check=False,
        )
        version = done.stdout.strip()
        if done.returncode == 0 and version.startswith("3.") and int(version[2:]) >= 11:
            found.setdefault(version, candidate)
    return found


PYTHONS = find_pythons()
MONITORED = {version: path for version, path in PYTHONS.items() if int(version[2:]) >= 12}

# Everything whose lines the two ways could tell differently.
RICH_PROGRAM = """\
import asyncio
import contextlib
import dataclasses
import threading


def recur(n): return n and recur(n - 1)


def count(limit):
    received = 0
    for number in range(limit):
        received = yield number
    return received


def delegate():
    result = yield from count(2)
    return result


def throw_into():
    walk = count(5)
    next(walk)
    walk.send(7)
    try:
        walk.throw(KeyError("thrown"))
    except KeyError:
        pass
    closing = count(3)
    next(closing)
    closing.close()


def guard(kind):
    def decorate(function):
        def wrapped(*values, **named):
            try:
                return function(*values, **named)
            except kind as error:
                return repr(error)
            finally:
                del values
        return wrapped
    return decorate


@guard(
    ZeroDivisionError,
)
def divide(a, b):
    return (
        a
        / b
    )


@contextlib.contextmanager
def opened(name):
    try:
        yield name
    finally:
        name = None


@dataclasses.dataclass
class Point:
    x: int
    y: int = 2

    @property
    def size(self):
        return self.x * self.x + self.y * self.y

    def __enter__(self):
        return self

    def __exit__(self, *_):
        return True


async def wait(n):
    await asyncio.sleep(0)
    return n


async def gather():
    async def produce():
        for number in range(3):
            yield number
    total = 0
    async for number in produce():
        total += await wait(number)
    async with asyncio.timeout(5):
        total += 1
    return total


def one_line_loops():
    total = 0
    for number in range(4): total += number
    while total: total -= 1
    return [a for a in range(3) if a], {b: b for b in range(2)}, sum(c for c in range(3))


def choose(value):
    match value:
        case [first, *_]:
            return first
        case {"a": found} if found:
            return found
        case _:
            return None


def nested():
    try:
        try:
            raise ValueError("first")
        except ValueError as error:
            raise RuntimeError("second") from error
    except RuntimeError:
        with Point(1) as point:
            raise OSError
        return point.size


def main():
    recur(3)
    list(delegate())
    throw_into()
    divide(1, 0)
    divide(4, 2)
    with opened("a") as a, opened("b"):
        a += "c"
    asyncio.run(gather())
    one_line_loops()
    for value in ([1, 2], {"a": 3}, 4):
        choose(value)
    nested()
    thread = threading.Thread(target=recur, args=(2,))
    thread.start()
    thread.join()
    space = {}
    exec("def made(n):\\n    return n + 1\\nmade(2)", space)
    if (n := space["made"](1)) > 1:
        n = sorted([3, 1], key=lambda value: -value)
    return n


main()
"""


@pytest.fixture(scope="module")
def trace(load_tool: Callable[[str], Any]) -> Any:
    """The tool as a module."""
    return load_tool(TOOL)


def run_traced(
    folder: Path, script: Path, *options: str, python: str = sys.executable, **more: Any
) -> tuple[subprocess.CompletedProcess[str], list[str]]:
    """Run a script under the tool, with a file and nothing on stderr; the lines of all files."""
    logs = folder / f"logs{len(list(folder.glob('logs*')))}"
    environ = {k: v for k, v in os.environ.items() if k not in RANK_NAMES}
    done = subprocess.run(
        [python, str(PATH), "--log_dir", str(logs), "--quiet", *options, str(script)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env={**environ, **more.pop("environ", {})},
        **more,
    )
    lines = []
    for path in sorted(logs.glob("trace.*.txt")) if logs.is_dir() else []:
        lines += path.read_text(encoding="utf-8").splitlines()
    return done, lines


def strip_line(line: str) -> str:
    """A line of the trace without its time and the numbers of process and thread."""
    found = re.fullmatch(r"\d\d:\d\d:\d\d (?:r\d+ )?\d+(?:/(\d+))? (.*)", line)
    assert found, line
    return f"{'thread ' if found[1] else ''}{found[2]}"


def write_script(folder: Path, text: str, name: str = "program.py") -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(textwrap.dedent(text), encoding="utf-8")
    return path


def test_this_machine_has_both_ways() -> None:
    """At least one Python is at hand; without a newer one the two ways cannot be compared."""
    assert PYTHONS
    if not MONITORED:
        pytest.skip("no Python from 3.12 on is installed: sys.monitoring was not compared")


@pytest.mark.parametrize("version", MONITORED)
@pytest.mark.parametrize("events", ["call,line", "call,line,leave,raise", "call", "line,raise"])
def test_both_ways_give_the_same_lines(tmp_path: Path, version: str, events: str) -> None:
    """sys.monitoring and sys.settrace write the same lines for a program with everything in it."""
    script = write_script(tmp_path, RICH_PROGRAM)
    options = ["--events", events, "--packages_to_include", "__main__,contextlib"]
    logs = []
    for way in ("settrace", "monitoring"):
        done, lines = run_traced(
            tmp_path, script, "--way", way, *options, python=MONITORED[version]
        )
        assert done.returncode == 0, done.stderr
        # Which of two threads comes first is chance.
        logs.append(sorted(map(strip_line, lines), key=lambda line: line.startswith("thread ")))
    assert logs[0] == logs[1]
    assert len(logs[0]) > 30
    kinds = {line.removeprefix("thread ").split()[0] for line in logs[0]}
    assert kinds == set(events.split(","))


PLAIN_PROGRAM = """\
class Sum:
    def __init__(self):
        self.total = 0

    def add(self, values):
        for value in values:
            self.total += value


def walk(limit):
    number = 0
    while number < limit:
        yield number
        number += 1


def main():
    result = Sum()
    result.add(walk(2))
    try:
        result.miss()
    except AttributeError:
        return result.total


main()
"""

PLAIN_LINES = """\
call  __main__.<module>:1
line  __main__:1 class Sum:
call  __main__.Sum:1 from __main__.<module>:1
line  __main__:1 class Sum:
line  __main__:2     def __init__(self):
line  __main__:5     def add(self, values):
line  __main__:10 def walk(limit):
line  __main__:17 def main():
line  __main__:26 main()
call  __main__.main:17 from __main__.<module>:26
line  __main__:18     result = Sum()
call  __main__.Sum.__init__:2 from __main__.main:18
line  __main__:3         self.total = 0
line  __main__:19     result.add(walk(2))
call  __main__.Sum.add:5 from __main__.main:19
line  __main__:6         for value in values:
call  __main__.walk:10 from __main__.Sum.add:6
line  __main__:11     number = 0
line  __main__:12     while number < limit:
line  __main__:13         yield number
line  __main__:7             self.total += value
line  __main__:6         for value in values:
call  __main__.walk:10 from __main__.Sum.add:6
line  __main__:14         number += 1
line  __main__:12     while number < limit:
line  __main__:13         yield number
line  __main__:7             self.total += value
line  __main__:6         for value in values:
call  __main__.walk:10 from __main__.Sum.add:6
line  __main__:14         number += 1
line  __main__:12     while number < limit:
line  __main__:20     try:
line  __main__:21         result.miss()
line  __main__:22     except AttributeError:
line  __main__:23         return result.total
""".splitlines()


@pytest.mark.parametrize("version", PYTHONS)
def test_lines_by_hand(tmp_path: Path, version: str) -> None:
    """Each call with its caller and each line in order, alike in all versions of Python."""
    script = write_script(tmp_path, PLAIN_PROGRAM)
    done, lines = run_traced(tmp_path, script, python=PYTHONS[version])
    assert done.returncode == 0, done.stderr
    assert [strip_line(line) for line in lines] == PLAIN_LINES


@pytest.mark.parametrize("version", PYTHONS)
def test_tool_proves_itself_on_all_versions(version: str) -> None:
    """--self-test passes on every Python at hand."""
    done = subprocess.run(
        [PYTHONS[version], str(PATH), "--self-test"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr


ENDINGS = {
    "falls off": "print('done')",
    "status": "import sys; sys.exit(37)",
    "words": "import sys; sys.exit('no data')",
    "nothing": "import sys; sys.exit(None)",
    "error": "def f(): raise ValueError('bad')\nf()",
    "chained": "try:\n    1 / 0\nexcept ZeroDivisionError as e:\n    raise KeyError('k') from e",
    "group": "raise ExceptionGroup('many', [ValueError(1), TypeError(2)])",
    "syntax": "def f(:\n    pass",
    "late syntax": "compile('a b', 'made.py', 'exec')",
    "assertion": "import sys\nassert len(sys.argv) == 5, sys.argv",
    "interrupt": "import os, signal\nos.kill(os.getpid(), signal.SIGINT)\nprint('not here')",
    "killed": "import os, signal\nos.kill(os.getpid(), signal.SIGKILL)",
    "at once": "import os\nos._exit(5)",
    "own hook": "import sys\nsys.excepthook = lambda *a: print('hook', a[0].__name__)\n1 / 0",
    "at exit": "import atexit\natexit.register(print, 'bye')\nraise SystemExit(3)",
    "bad thread": (
        "import threading\nt = threading.Thread(target=lambda: 1 / 0, name='t')\n"
        "t.start()\nt.join()"
    ),
    "deep": "def f(): f()\ntry:\n    f()\nexcept RecursionError:\n    print('deep')",
}


@pytest.mark.parametrize("version", PYTHONS)
@pytest.mark.parametrize("ending", ENDINGS)
def test_program_ends_as_it_would_untraced(tmp_path: Path, version: str, ending: str) -> None:
    """Exit status, stdout and traceback are those of the program run without the tool."""
    script = write_script(tmp_path, ENDINGS[ending])
    plain = subprocess.run(
        [PYTHONS[version], str(script)], capture_output=True, text=True, timeout=60, check=False
    )
    done, _ = run_traced(tmp_path, script, python=PYTHONS[version])
    assert done.returncode == plain.returncode
    assert done.stdout == plain.stdout
    notes = [t for t in done.stderr.splitlines() if not t.startswith("nicer_trace: ")]
    assert notes == plain.stderr.splitlines()


def test_program_sees_itself_as_the_main_program(tmp_path: Path) -> None:
    """Its arguments, its folder on the path, its __main__, pickling, and processes it spawns."""
    write_script(tmp_path, "VALUE = 4", "neighbour.py")
    script = write_script(
        tmp_path,
        """\
        import json, multiprocessing, pickle, sys
        import neighbour

        class Own:
            pass

        def square(n):
            return n * n

        if __name__ == "__main__":
            with multiprocessing.get_context("spawn").Pool(1) as pool:
                squares = pool.map(square, [2, 3])
            kind = type(pickle.loads(pickle.dumps(Own()))) is Own
            print(json.dumps([sys.argv, __file__, sys.path[0], squares, kind, neighbour.VALUE]))
        """,
    )
    outputs = []
    for command in ([str(script)], [str(PATH), "--log_dir", str(tmp_path / "l"), str(script)]):
        done = subprocess.run(
            [sys.executable, *command, "--lr", "1", "--", "-x"],
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
        )
        outputs.append(done.stdout)
    assert outputs[0] == outputs[1]
    assert "[4, 9], true, 4]" in outputs[0]


def make_package(folder: Path) -> Path:
    """A package of two levels, and a script that calls it."""
    write_script(folder, "", "mypkg/__init__.py")
    write_script(folder, "", "mypkg/model/__init__.py")
    write_script(
        folder,
        """\
        class Net:
            def forward(self, x):
                return x + 1
        """,
        "mypkg/model/net.py",
    )
    write_script(folder, "def help(x):\n    return x\n", "mypkgother.py")
    return write_script(
        folder,
        """\
        import json
        from mypkg.model.net import Net
        from mypkgother import help
        json.dumps(help(Net().forward(1)))
        """,
    )


def list_modules(lines: list[str]) -> set[str]:
    """The modules of the lines."""
    found = (re.match(r"line  ([\w.]+):\d+", strip_line(line)) for line in lines)
    return {match[1] for match in found if match}


@pytest.mark.parametrize(
    ("options", "modules"),
    [
        ([], {"__main__", "mypkg", "mypkg.model", "mypkg.model.net", "mypkgother"}),
        (["--packages_to_include", "mypkg"], {"mypkg", "mypkg.model", "mypkg.model.net"}),
        (["--packages_to_include", "mypkg.model,json"], {"mypkg.model", "mypkg.model.net", "json"}),
        (["--packages_to_exclude", "mypkg,__main__"], {"mypkgother"}),
    ],
)
def test_packages_are_chosen(tmp_path: Path, options: list[str], modules: set[str]) -> None:
    """A package stands for all below it and for no other of like name; Python's own is left out."""
    _, lines = run_traced(tmp_path, make_package(tmp_path), *options)
    # json has modules of its own, which differ from version to version.
    assert {name for name in list_modules(lines) if not name.startswith("json.")} == modules


def test_names_are_full(tmp_path: Path) -> None:
    """A call is named by package, module, class and function, with both lines."""
    _, lines = run_traced(tmp_path, make_package(tmp_path))
    wanted = "call  mypkg.model.net.Net.forward:2 from __main__.<module>:4"
    assert wanted in [strip_line(line) for line in lines]


def test_star_shows_everything(tmp_path: Path) -> None:
    """With * the lines of Python's own library are there too."""
    _, lines = run_traced(tmp_path, make_package(tmp_path), "--packages_to_include", "*")
    assert {"json", "json.encoder"} <= list_modules(lines)


def test_module_runs_as_python_m_does(tmp_path: Path) -> None:
    """-m runs a module by name, with the current folder on the path."""
    make_package(tmp_path)
    write_script(tmp_path, "import sys\nprint(__name__, sys.argv[1:], __package__)", "mypkg/go.py")
    done = subprocess.run(
        [sys.executable, str(PATH), "-m", "mypkg.go", "--lr", "1"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        cwd=tmp_path,
    )
    assert done.stdout == "__main__ ['--lr', '1'] mypkg\n"
    assert "line  __main__:2 print(__name__" in done.stderr


@pytest.mark.parametrize("version", PYTHONS)
def test_last_line_of_a_crash_is_kept(tmp_path: Path, version: str) -> None:
    """After a segmentation fault the file ends with the line that caused it."""
    script = write_script(
        tmp_path, "import ctypes\n\ndef touch():\n    ctypes.string_at(0)\n\ntouch()\n"
    )
    done, lines = run_traced(tmp_path, script, python=PYTHONS[version])
    assert done.returncode == -signal.SIGSEGV
    assert strip_line(lines[-1]) == "line  __main__:4     ctypes.string_at(0)"


def test_last_line_of_a_hang_is_kept(tmp_path: Path) -> None:
    """While a program hangs its file ends with the line it hangs in."""
    script = write_script(tmp_path, "import time\nprint('up', flush=True)\ntime.sleep(60)\n")
    process = subprocess.Popen(
        [sys.executable, str(PATH), "--log_dir", str(tmp_path / "l"), "--quiet", str(script)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "up\n"
        deadline = time.monotonic() + 10
        last = ""
        while "sleep" not in last and time.monotonic() < deadline:
            (path,) = (tmp_path / "l").iterdir()
            last = path.read_text().splitlines()[-1]
    finally:
        process.kill()
        process.communicate(timeout=20)
    assert strip_line(last) == "line  __main__:3 time.sleep(60)"


@pytest.mark.parametrize("version", PYTHONS)
def test_forked_processes_have_files_of_their_own(tmp_path: Path, version: str) -> None:
    """A forked process goes on being traced, into a file with its own number, and says nothing."""
    script = write_script(
        tmp_path,
        """\
        import os

        def child():
            return 1

        pid = os.fork()
        if pid == 0:
            child()
            raise SystemExit(0)
        os.waitpid(pid, 0)
        print(pid)
        """,
    )
    done, _ = run_traced(tmp_path, script, python=PYTHONS[version])
    pid = done.stdout.strip()
    texts = {p.name.split(".")[3]: p.read_text() for p in (tmp_path / "logs0").iterdir()}
    assert len(texts) == 2
    assert "call  __main__.child:3" in texts[pid]
    assert all(line.split()[1] == pid for line in texts[pid].splitlines())
    (other,) = texts.keys() - {pid}
    assert "    child()" not in texts[other]
    assert "line  __main__:10 os.waitpid(pid, 0)" in texts[other]
    assert done.stderr.count("nicer_trace: ") == 1


def test_threads_are_numbered(tmp_path: Path) -> None:
    """The lines of another thread carry its own number beside that of the process."""
    script = write_script(
        tmp_path,
        """\
        import threading

        def work():
            print(threading.get_native_id())

        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        """,
    )
    done, lines = run_traced(tmp_path, script)
    number = done.stdout.strip()
    (line,) = [line for line in lines if "print(threading" in line]
    assert line.split()[1].split("/")[1] == number


def test_file_is_named_by_host_rank_and_process(tmp_path: Path) -> None:
    """trace.HOST.RANK.PID.txt, and the rank stands in each line."""
    script = write_script(tmp_path, "import os\nprint(os.getpid(), os.uname().nodename)\n")
    done, lines = run_traced(tmp_path, script, environ={"RANK": "3"})
    pid, host = done.stdout.split()
    (path,) = (tmp_path / "logs0").iterdir()
    assert path.name == f"trace.{host.split('.')[0]}.3.{pid}.txt"
    assert all(re.match(rf"\d\d:\d\d:\d\d r3 {pid} ", line) for line in lines)


@pytest.mark.parametrize(("rank", "is_traced"), [("0", True), ("1", False), ("7", True)])
def test_only_some_ranks_are_traced(tmp_path: Path, rank: str, is_traced: bool) -> None:
    """--ranks 0,5-7 leaves the other ranks alone; all of them run."""
    script = write_script(tmp_path, "print('ran')\n")
    done, lines = run_traced(tmp_path, script, "--ranks", "0,5-7", environ={"RANK": rank})
    assert done.stdout == "ran\n"
    assert bool(lines) is is_traced
    assert ("nicer_trace: " in done.stderr) is is_traced


@pytest.mark.torch
@pytest.mark.nightly
def test_torchrun_ranks_have_a_file_each(tmp_path: Path) -> None:
    """Two ranks of torchrun that reduce over gloo: a file each, with what each of them ran."""
    script = write_script(
        tmp_path,
        """\
        import torch
        import torch.distributed as dist

        dist.init_process_group("gloo")
        if dist.get_rank() == 1:
            extra = True
        value = torch.ones(2)
        dist.all_reduce(value)
        assert value.tolist() == [2.0, 2.0]
        dist.destroy_process_group()
        """,
    )
    logs = tmp_path / "logs"
    done = subprocess.run(
        [
            *(sys.executable, "-m", "torch.distributed.run", "--nproc_per_node", "2"),
            *("--rdzv_endpoint=localhost:0", "--rdzv_backend=c10d", "--local-addr=127.0.0.1"),
            *(str(PATH), "--quiet", "--log_dir", str(logs), str(script)),
        ],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    texts = {path.name.split(".")[2]: path.read_text() for path in logs.iterdir()}
    assert set(texts) == {"0", "1"}
    lines = {rank: [strip_line(t) for t in text.splitlines()] for rank, text in texts.items()}
    extra = "line  __main__:6     extra = True"
    assert extra in lines["1"]
    assert [line for line in lines["1"] if line != extra] == lines["0"]


def test_trace_ends_after_so_many_lines(tmp_path: Path) -> None:
    """--max_lines ends the trace; the program runs on, and it is said."""
    script = write_script(tmp_path, "for number in range(100):\n    number += 1\nprint(number)\n")
    done, lines = run_traced(tmp_path, script, "--max_lines", "7")
    assert (len(lines), done.stdout) == (7, "100\n")
    assert "the trace ended early: --max_lines 7" in done.stderr


def test_full_disk_does_not_reach_the_program(tmp_path: Path) -> None:
    """Where the file can take no more the trace ends with a note, and the program goes on."""
    script = write_script(tmp_path, "for number in range(1000):\n    number += 1\nprint(number)\n")

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))

    done, lines = run_traced(tmp_path, script, preexec_fn=limit)
    assert (done.returncode, done.stdout) == (0, "1000\n")
    assert 20 < len(lines) < 200
    assert "the trace ended early: [Errno 27]" in done.stderr


@pytest.mark.parametrize("version", PYTHONS)
def test_broken_loader_does_not_reach_the_program(tmp_path: Path, version: str) -> None:
    """Code whose loader raises when it is asked for the source is traced without its text, and
    runs as it would untraced."""
    script = write_script(
        tmp_path,
        """\
        class Loader:
            def get_source(self, name):
                raise ZeroDivisionError(name)

        code = compile("x = 6\\ny = x * 7\\n", "/nowhere/odd.py", "exec")
        space = {"__name__": "odd", "__loader__": Loader()}
        exec(code, space)
        print(space["y"])
        """,
    )
    done, lines = run_traced(tmp_path, script, python=PYTHONS[version])
    assert (done.returncode, done.stdout) == (0, "42\n"), done.stderr
    assert [strip_line(line) for line in lines if " odd:" in line] == ["line  odd:1", "line  odd:2"]
    assert strip_line(lines[-1]).endswith('print(space["y"])')


def test_paths_are_those_of_the_start(
    tmp_path: Path, run_tool: Callable[..., Any], read_json: Callable[[Path], Any]
) -> None:
    """A program that changes its folder, and forks then, leaves its files where it was started."""
    script = write_script(
        tmp_path,
        """\
        import os
        os.chdir("/")
        pid = os.fork()
        if pid:
            os.waitpid(pid, 0)
        """,
    )
    done = run_tool(TOOL, "--log_dir", "logs", "--json", "a.json", script.name, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert len(list((tmp_path / "logs").iterdir())) == 2
    assert read_json(tmp_path / "a.json")["complete"] is True


def test_json_counts_calls_and_lines(
    tmp_path: Path, read_json: Callable[[Path], Any], run_tool: Callable[..., Any]
) -> None:
    """--json has the calls and lines of each function; of few lines there is no saying what they
    cost, however slow the first of them was."""
    script = write_script(tmp_path, PLAIN_PROGRAM)
    path = tmp_path / "out.json"
    done = run_tool(TOOL, "--json", str(path), script)
    document = read_json(path)
    rows = {row["function"]: (row["calls"], row["lines"]) for row in document["results"]}
    assert rows["__main__.main"] == (1, 6)
    assert document["complete"] is True
    details = document["details"]
    assert details["lines"] == sum(map(sum, rows.values())) == len(PLAIN_LINES)
    assert details["cost_seconds"] is None
    said = r"\d+ lines by sys\.\w+ in \S+ .?s: too few to tell what writing them took"
    assert re.search(said, done.stderr)


def test_cost_is_possible(
    tmp_path: Path, read_json: Callable[[Path], Any], run_tool: Callable[..., Any]
) -> None:
    """What the trace cost is said of many lines, and is less than the run took; a first line that
    took as long as all others, because files were opened for it, is not taken for each of them."""
    script = write_script(tmp_path, "for number in range(2000):\n    number += 1\n")
    path = tmp_path / "out.json"
    done = run_tool(TOOL, "--json", str(path), script)
    found = re.search(r"writing them took about (\S+) (.?s) of (\S+) (.?s) \((\d+)%\)", done.stderr)
    assert found, done.stderr
    scale = {"s": 1, "ms": 1e-3, "us": 1e-6}
    cost, whole = (float(found[n]) * scale[found[n + 1]] for n in (1, 3))
    assert 0 < cost < whole
    assert int(found[5]) == pytest.approx(100 * cost / whole, abs=1)
    assert read_json(path)["details"]["cost_seconds"] == pytest.approx(cost, rel=0.02)


def test_cost_stands_on_enough_lines(trace: Any) -> None:
    """By hand: of 1000 lines the first took 20 ms, 14 others 10 us each and one 30 ms, because the
    machine did something else: 20 + 999 * 0.01 ms; of 7 timed ones there is none; and it is never
    more than all of the time, which is said."""
    tracer = trace.Tracer(packages_to_include=["none"])
    tracer.lines, tracer.seconds = 1000, 0.05
    tracer._first_seconds, tracer._timed = 0.02, [*[1e-5] * 14, 0.03]
    assert tracer.cost_seconds == pytest.approx(0.02999)
    assert "took about 30.0 ms of 50.0 ms (60%)" in trace.describe_cost(tracer)
    tracer.seconds = 0.016
    assert tracer.cost_seconds == 0.016
    assert trace.describe_cost(tracer).endswith("took most of 16.0 ms")
    del tracer._timed[6:]
    assert tracer.cost_seconds is None


LIBRARY_USE = """\
import io
import sys
import threading

from nicer_trace import Tracer

way = sys.argv[1]
former = sys.gettrace()
stream = io.StringIO()
go, done = threading.Event(), threading.Event()


def wait():
    go.wait(20)
    late = 1
    done.set()


thread = threading.Thread(target=wait)
thread.start()


def block(tracer):
    with tracer:
        first = 1
        go.set()
        done.wait(20)
        second = first + 1
    third = second + 1
    return third


def divide(a, /, b):
    return a / b


tracer = Tracer(["__main__"], stream=stream, way=way)
assert block(tracer) == 3
assert tracer.runfunc(divide, 6, b=3) == 2.0
try:
    tracer.runfunc(divide, 6, b=0)
except ZeroDivisionError:
    after = 1
thread.join()
assert sys.gettrace() is former
sys.stdout.write(stream.getvalue())
"""


@pytest.mark.parametrize("version", PYTHONS)
def test_with_block_is_traced_from_its_first_line(tmp_path: Path, version: str) -> None:
    """The rest of a function that runs already is traced, and nothing after the block; the tracer
    can be used again, also after an exception. By sys.monitoring a thread that ran before too."""
    script = write_script(tmp_path, LIBRARY_USE)
    ways = ["settrace"] + (["monitoring"] if version in MONITORED else [])
    logs = {}
    for way in ways:
        done = subprocess.run(
            [PYTHONS[version], str(script), way],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
            env={**os.environ, "PYTHONPATH": str(PATH.parent), "PYTHONDONTWRITEBYTECODE": "1"},
        )
        assert done.returncode == 0, done.stderr
        lines = [strip_line(line) for line in done.stdout.splitlines()]
        if way == "monitoring":
            assert "thread line  __main__:15     late = 1" in lines
        logs[way] = [line for line in lines if not line.startswith("thread")]
        assert logs[way][0] == "line  __main__:25         first = 1"
        assert "line  __main__:28         second = first + 1" in logs[way]
        assert not any("third = " in line or "after = " in line for line in logs[way])
        assert logs[way][-2:] == ["call  __main__.divide:33", "line  __main__:34     return a / b"]
        assert len(logs[way]) in (8, 9)  # __exit__ belongs to the line of `with`
    assert len(set(map(tuple, logs.values()))) == 1


def test_function_is_traced_and_its_answer_kept(trace: Any) -> None:
    """runfunc gives what the function gives, lets its exception through, and can be used again."""
    stream = io.StringIO()
    tracer = trace.Tracer(packages_to_include=[__name__], stream=stream)

    def divide(a: int, /, b: int) -> float:
        return a / b

    assert tracer.runfunc(divide, 6, b=3) == 2.0
    with pytest.raises(ZeroDivisionError):
        tracer.runfunc(divide, 6, b=0)
    assert stream.getvalue().count("        return a / b\n") == 2
    with tracer, pytest.raises(trace.WrongUse):
        tracer.start()


def test_second_trace_is_added_to_the_file(trace: Any, tmp_path: Path) -> None:
    """What a process traces later comes after what it traced before; nothing is overwritten."""
    for number in (1, 2):
        tracer = trace.Tracer([__name__], log_dir=tmp_path, quiet=True)
        tracer.runfunc(lambda: number)  # noqa: B023
    (path,) = tmp_path.iterdir()
    assert path == tracer.path
    assert path.read_text().count("tracer.runfunc(lambda: number)") == 2


def test_debugger_of_the_program_is_left_alone(trace: Any) -> None:
    """A trace function that was set before is there again afterwards."""

    def own(*_: Any) -> None:
        return None

    before = sys.gettrace()
    sys.settrace(own)
    try:
        trace.Tracer(quiet=True).runfunc(len, "abc")
        now = sys.gettrace()
    finally:
        sys.settrace(before)
    assert now is own


def test_source_that_is_not_ascii_is_written(tmp_path: Path) -> None:
    """A line that the file's encoding, or the terminal's, cannot hold does not end the program."""
    script = write_script(tmp_path, "word = 'größer \N{SNOWMAN}'\nprint(ascii(word))\n")
    done, lines = run_traced(tmp_path, script, environ={"PYTHONIOENCODING": "ascii"})
    assert done.returncode == 0
    assert "größer \N{SNOWMAN}" in lines[1]
    shown = subprocess.run(
        [sys.executable, str(PATH), str(script)],
        capture_output=True,
        timeout=60,
        check=False,
        env={**os.environ, "PYTHONIOENCODING": "ascii:strict"},
    )
    assert shown.returncode == 0
    assert b"snowman" not in shown.stderr.lower().replace(b"\\u2603", b"")
    assert b"line  __main__:1 word = 'gr" in shown.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "name the script to run"),
        (["no_such.py"], "could not read no_such.py"),
        (["-m", "no.such.module"], "there is no module no.such.module"),
        (["--quiet", "x.py"], "--quiet without --log_dir"),
        (["--demo", "x.py"], "--demo runs a program of its own"),
        (["--events", "call,jump", "x.py"], "'jump' is no event"),
        (["--ranks", "3-1", "x.py"], "'3-1' is no list of ranks"),
        (["--numbers", "3", "x.py"], "belong to --demo"),
        (["--demo", "--way", "settrace"], "--way does not go with --demo"),
        (["--demo", "--events", "call"], "--events does not go with --demo"),
        (["--demo", "--packages_to_exclude", "a"], "--packages_to_exclude does not go"),
        (["--packages_to_include", "a,,b", "x.py"], "write names with commas"),
    ],
)
def test_wrong_use_is_one_line(
    call_tool: Callable[..., Any], tmp_path: Path, arguments: list[str], message: str
) -> None:
    """What makes no sense ends with status 2 and one line, before anything runs."""
    done = call_tool(TOOL, *arguments, cwd=tmp_path)
    assert done.returncode == 2
    assert message in done.stderr
    assert "Traceback" not in done.stderr


def test_link_of_its_name_is_not_followed(trace: Any, tmp_path: Path) -> None:
    """A link that somebody has put where the file is to be leads to nothing that is written."""
    victim = tmp_path / "victim"
    victim.write_text("precious")
    tracer = trace.Tracer(log_dir=tmp_path / "logs", quiet=True)
    tracer.path.symlink_to(victim)
    with pytest.raises(trace.WrongUse, match="could not write"):
        tracer.start()
    tracer.stop()
    assert victim.read_text() == "precious"


def test_log_folder_that_is_a_file_is_wrong_use(
    call_tool: Callable[..., Any], tmp_path: Path
) -> None:
    """--log_dir that cannot be a folder is refused before the program runs."""
    script = write_script(tmp_path, "print('ran')\n")
    done = call_tool(TOOL, "--log_dir", str(script), str(script))
    assert (done.returncode, done.stdout) == (2, "")
    assert "no folder" in done.stderr


@given(numbers=st.integers(0, 300))
def test_demonstration_counts_by_its_formula(trace: Any, numbers: int) -> None:
    """The demonstration of n numbers has 5 n + 8 calls and lines."""
    assert trace.count_demo_lines(numbers) == 5 * numbers + 8


@given(numbers=st.integers(1, 60))
def test_demonstration_is_traced_as_counted(trace: Any, numbers: int) -> None:
    """For any length the lines written are as many as counted by hand."""
    space: dict[str, Any] = {"__name__": "demo_of_nicer_trace"}
    exec(compile(trace.DEMO, "demo_of_nicer_trace.py", "exec"), space)
    stream = io.StringIO()
    with contextlib.closing(stream):
        tracer = trace.Tracer(["demo_of_nicer_trace"], stream=stream)
        assert tracer.runfunc(space["main"], numbers) == sum(range(numbers))
        assert stream.getvalue().count("\n") == trace.count_demo_lines(numbers)


@given(ranks=st.sets(st.integers(0, 200), min_size=1))
def test_lists_of_ranks_are_read(trace: Any, ranks: set[int]) -> None:
    """Ranks with commas between them are these ranks; a range is all from first to last."""
    assert trace.parse_rank_list(",".join(map(str, sorted(ranks)))) == ranks
    low, high = min(ranks), max(ranks)
    assert trace.parse_rank_list(f"{low}-{high}") == set(range(low, high + 1))


@given(names=st.lists(st.from_regex(r"[a-z]{1,4}", fullmatch=True), min_size=1, max_size=4))
def test_package_holds_what_is_below_it(trace: Any, names: list[str]) -> None:
    """Each leading part of a module's name is a package of it; a longer word is not."""
    module = ".".join(names)
    for count in range(1, len(names) + 1):
        assert trace.is_of_package(module, [".".join(names[:count])])
    assert not trace.is_of_package(f"{module}x", [module])
    assert trace.is_of_package(module, ["*"])
