"""see_mem_usage: memory that is really taken, in this process, in threads of a tree, on ranks."""

from __future__ import annotations

import contextlib
import gc
import io
import mmap
import os
import pty
import re
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from needs import need
from testing_utils import write_file_tree

SCRIPTS = Path(__file__).resolve().parent.parent
TOOL = "debug/see_mem_usage.py"
PATH = SCRIPTS / TOOL
MIB = 1024**2

pytestmark = pytest.mark.skipif(
    not Path("/proc/self/smaps_rollup").exists(), reason="memory is read from Linux's /proc"
)


@pytest.fixture(scope="module")
def memory(load_tool: Callable[[str], Any]) -> Any:
    """The tool as a module."""
    return load_tool(TOOL)


def take(size: int) -> mmap.mmap:
    """So many bytes, written."""
    block = mmap.mmap(-1, size)
    for start in range(0, size, mmap.PAGESIZE):
        block[start] = 1
    return block


# A program that holds MiB, and starts others that hold some as well.
HOLDER = """
import subprocess, sys, time
block = bytearray(b"x") * (int(sys.argv[1]) * 1024 ** 2)
others = [subprocess.Popen([sys.executable, "-c", sys.argv[2], size, sys.argv[2]])
          for size in sys.argv[3:]]
for other in others:
    other.wait()
time.sleep(0.6)
"""


def run_wrapped(
    *command: str, options: tuple[str, ...] = (), **more: Any
) -> subprocess.CompletedProcess[str]:
    """Run a program under the tool."""
    return subprocess.run(
        [sys.executable, str(PATH), "--interval", "50ms", *options, "--", *command],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        **more,
    )


def test_memory_that_is_taken_is_seen(memory: Any) -> None:
    """32 MiB written make RSS and PSS grow by 32 MiB; given back they shrink by as much."""
    # What earlier tests and the first call leave behind is not to go while we look.
    gc.collect()
    memory.see_memory_usage("first", stream=io.StringIO())
    stream = io.StringIO()
    memory.see_memory_usage("before", stream=stream)
    block = take(32 * MIB)
    taken = memory.see_memory_usage("taken", stream=stream)
    block.close()
    gone = memory.see_memory_usage("gone", stream=stream)
    for growth in (taken.rss_growth, taken.pss_growth, -gone.rss_growth, -gone.pss_growth):
        assert growth == pytest.approx(32 * MIB, abs=2 * MIB)
    lines = stream.getvalue().splitlines()
    assert len(lines) == 3
    wanted = r"\d\d:\d\d:\d\d taken \| cpu RSS [\d.]+ .iB \(\+3\d\.\d MiB\) PSS .* peak [\d.]+ .iB"
    assert re.fullmatch(wanted, lines[1])
    assert " (-3" in lines[2]


def test_own_numbers_are_the_kernels(memory: Any) -> None:
    """RSS is that of the kernel, PSS at most RSS, the peak at least RSS."""
    block = take(8 * MIB)
    reading = memory.read_memory_of("self")
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    assert reading.rss == pytest.approx(pages * mmap.PAGESIZE, abs=2 * MIB)
    assert 0 < reading.pss <= reading.rss <= reading.peak
    block.close()


def test_shared_memory_is_divided(memory: Any) -> None:
    """64 MiB that two processes share are 64 in the RSS of each and 32 in their PSS."""
    block = take(64 * MIB)  # shared: an anonymous mmap of Python's is MAP_SHARED
    alone = memory.read_memory_of("self")
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        for start in range(0, len(block), mmap.PAGESIZE):
            block[start]
        os.write(writer, b"1")
        signal.pause()
        os._exit(0)
    try:
        os.read(reader, 1)
        both = memory.read_memory_of("self")
        child = memory.read_memory_of(pid)
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        block.close()
    assert child.rss >= 64 * MIB
    assert both.rss == pytest.approx(alone.rss, abs=4 * MIB)
    assert alone.pss - both.pss >= 30 * MIB


def test_peak_is_kept_and_can_begin_anew(memory: Any) -> None:
    """The peak remembers what was given back, until it is reset."""
    stream = io.StringIO()
    base = memory.see_memory_usage("base", stream=stream, reset_peaks=True)
    take(48 * MIB).close()
    high = memory.see_memory_usage("high", stream=stream, reset_peaks=True)
    low = memory.see_memory_usage("low", stream=stream)
    assert high.process.peak - base.process.rss >= 44 * MIB
    assert low.process.peak - base.process.rss <= 8 * MIB


def test_block_is_watched(memory: Any) -> None:
    """A line before the block and one after it, also where it raises."""
    stream = io.StringIO()
    with pytest.raises(KeyError), memory.watch_memory("the step", stream=stream):
        raise KeyError
    first, second = stream.getvalue().splitlines()
    assert " before the step | cpu" in first
    assert " after the step | cpu" in second


def test_ranks_are_told_apart(memory: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The line names the rank; with ranks=[0] the others say nothing."""
    stream = io.StringIO()
    monkeypatch.setenv("RANK", "3")
    assert memory.see_memory_usage("all", stream=stream) is not None
    assert memory.see_memory_usage("some", stream=stream, ranks=[0]) is None
    (line,) = stream.getvalue().splitlines()
    assert " rank 3 all | " in line


def test_torch_is_not_imported_for_it(torch_trap: dict[str, str]) -> None:
    """A program without torch stays one without torch."""
    code = "import sys, see_mem_usage as s; s.see_memory_usage('x'); print('torch' in sys.modules)"
    environ = {**os.environ, "PYTHONPATH": f"{PATH.parent}:{torch_trap['PYTHONPATH']}"}
    done = subprocess.run(
        [sys.executable, "-B", "-c", code],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
        env=environ,
    )
    assert done.stdout == "False\n"


def test_forked_process_begins_anew(memory: Any) -> None:
    """A forked process does not compare itself with what its parent had."""
    memory.see_memory_usage("parent", stream=io.StringIO())
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        reading = memory.see_memory_usage("child", stream=io.StringIO())
        os.write(writer, str(reading.rss_growth).encode())
        os._exit(0)
    os.waitpid(pid, 0)
    assert os.read(reader, 20) == b"None"


class FakeCounters:
    """What torch's module of a device counts; for the form of the line only."""

    def __init__(self) -> None:
        self.allocated = 2 * 1024**3

    def is_initialized(self) -> bool:
        return True

    def current_device(self) -> int:
        return 1

    def memory_allocated(self) -> int:
        return self.allocated

    def memory_reserved(self) -> int:
        return 3 * 1024**3

    def max_memory_allocated(self) -> int:
        return 5 * 1024**3 // 2

    def mem_get_info(self, _index: int) -> tuple[int, int]:
        return 20 * 1024**3, 64 * 1024**3


@pytest.mark.parametrize(
    ("kind", "hip", "name"),
    [("cuda", "6.2", "cuda:1 (ROCm)"), ("xpu", None, "xpu:1"), ("cuda", None, "cuda:1")],
)
def test_line_of_a_device(
    memory: Any, monkeypatch: pytest.MonkeyPatch, kind: str, hip: str | None, name: str
) -> None:
    """Allocated with its change, reserved, peak, and the device's own used and total."""
    counters = FakeCounters()
    torch = SimpleNamespace(
        accelerator=SimpleNamespace(
            is_available=lambda: True, current_accelerator=lambda: SimpleNamespace(type=kind)
        ),
        get_device_module=lambda _kind: counters,
        version=SimpleNamespace(hip=hip),
    )
    monkeypatch.setitem(sys.modules, "torch", torch)
    stream = io.StringIO()
    memory.see_memory_usage("one", stream=stream)
    counters.allocated += 512 * MIB
    memory.see_memory_usage("two", stream=stream)
    assert (
        stream.getvalue()
        .splitlines()[1]
        .endswith(
            f" | {name} allocated 2.50 GiB (+512 MiB) reserved 3.00 GiB peak 2.50 GiB "
            "device 44.0 GiB of 64.0 GiB"
        )
    )


def test_device_that_is_not_used_is_not_touched(memory: Any) -> None:
    """Where the process has no context on the device nothing of it is read."""
    torch = SimpleNamespace(
        accelerator=SimpleNamespace(
            is_available=lambda: True, current_accelerator=lambda: SimpleNamespace(type="cuda")
        ),
        get_device_module=lambda _kind: SimpleNamespace(is_initialized=lambda: False),
    )
    assert memory.read_device(torch) is None


def test_amd_files_are_read(memory: Any, tmp_path: Path) -> None:
    """Used and total of each GPU from the kernel's files; connectors beside them are no GPUs."""
    for card, used in (("card0", 7), ("card1", 9)):
        texts = {"mem_info_vram_used": f"{used}\n", "mem_info_vram_total": "64\n"}
        write_file_tree(tmp_path / card / "device", texts)
    (tmp_path / "card0-DP-1" / "device").mkdir(parents=True)
    (tmp_path / "card2" / "device").mkdir(parents=True)
    assert memory.read_amd_devices(tmp_path) == [(7, 64), (9, 64)]


def test_whole_tree_is_added_up(tmp_path: Path, read_json: Callable[[Path], Any]) -> None:
    """A program of 40 MiB with two children of 24 and 16 MiB takes 80 MiB and their Pythons."""
    path = tmp_path / "out.json"
    command = [sys.executable, "-c", HOLDER, "40", HOLDER, "24", "16"]
    done = run_wrapped(*command, options=("--json", str(path)))
    assert done.returncode == 0, done.stderr
    document = read_json(path)
    details = document["details"]
    assert 80 * MIB < details["largest_rss_bytes"] < 140 * MIB
    assert 80 * MIB < details["largest_pss_bytes"] < details["largest_rss_bytes"]
    assert max(row["processes"] for row in document["results"]) == 3
    peaks = sorted(each["peak_rss_bytes"] for each in details["processes"])[-3:]
    assert peaks[2] - peaks[1] == pytest.approx(16 * MIB, abs=4 * MIB)
    assert document["complete"] is True
    assert set(document["units"]) <= set(document["results"][0])
    assert "largest RSS of all processes" in done.stderr


def test_orphans_stay_in_the_tree(tmp_path: Path, read_json: Callable[[Path], Any]) -> None:
    """A process whose parent has ended is still counted."""
    path = tmp_path / "out.json"
    # A busy machine takes a while to start Python.
    script = f"({sys.executable} -c '{HOLDER}' 30 x & sleep 0.4); sleep 2"
    run_wrapped("bash", "-c", script, options=("--json", str(path)))
    rows = read_json(path)["results"]
    late = [row for row in rows if row["seconds"] > 0.55]
    assert late
    assert max(row["rss_bytes"] for row in late) > 30 * MIB


@pytest.mark.parametrize(
    ("code", "status"),
    [
        ("raise SystemExit(37)", 37),
        ("pass", 0),
        ("import os; os.kill(os.getpid(), 9)", 137),
        ("import os; os.kill(os.getpid(), 15)", 143),
        ("import os; os.abort()", 134),
    ],
)
def test_exit_status_is_the_programs(code: str, status: int) -> None:
    """What the program ends with, or 128 and the signal that ended it, as a shell has it."""
    assert run_wrapped(sys.executable, "-c", code).returncode == status


def test_streams_are_the_programs() -> None:
    """stdin and stdout are the program's; its arguments too, whatever they look like."""
    code = "import sys; print(sys.argv[1:], sys.stdin.read())"
    done = run_wrapped(sys.executable, "-c", code, "--json", "--", "-x", input="hello")
    assert done.stdout == "['--json', '--', '-x'] hello\n"


WAITER = """
import signal, sys, time
def stop(number, frame):
    print(signal.Signals(number).name, flush=True)
    sys.exit(21)
for name in sys.argv[1:]:
    signal.signal(getattr(signal, name), stop)
print("up", signal.pthread_sigmask(signal.SIG_BLOCK, []), flush=True)
time.sleep(30)
"""


@pytest.mark.parametrize(
    "name",
    [
        "SIGTERM",
        pytest.param("SIGINT", marks=pytest.mark.nightly),
        pytest.param("SIGUSR1", marks=pytest.mark.nightly),
        pytest.param("SIGHUP", marks=pytest.mark.nightly),
    ],
)
def test_signals_are_passed_on(name: str, tmp_path: Path, read_json: Callable[[Path], Any]) -> None:
    """A signal sent to the wrapper reaches the program, which ends as it likes; the JSON stays."""
    path = tmp_path / "out.json"
    process = subprocess.Popen(
        [
            *(sys.executable, str(PATH), "--interval", "50ms", "--json", str(path), "--"),
            *(sys.executable, "-c", WAITER, name),
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        # The program starts without any signal held back.
        assert process.stdout.readline() == "up set()\n"
        process.send_signal(getattr(signal, name))
        out, errors = process.communicate(timeout=20)
    finally:
        process.kill()
    assert (process.returncode, out) == (21, f"{name}\n")
    assert "Traceback" not in errors
    document = read_json(path)
    assert document["results"]
    # Slurm's early warning is the program's own affair.
    assert document["complete"] is (name == "SIGUSR1")
    assert (f"the program was stopped by {name}" in document["caveats"]) is (name != "SIGUSR1")


@pytest.mark.parametrize(("code", "reason"), [("9", "ended by signal 9"), ("0", "")])
def test_killed_program_is_not_complete(
    tmp_path: Path, read_json: Callable[[Path], Any], code: str, reason: str
) -> None:
    """Samples of a program that a signal ended are not all that there would have been."""
    path = tmp_path / "out.json"
    words = f"import os, time; time.sleep(0.3); os.kill(os.getpid(), {code})"
    run_wrapped(sys.executable, "-c", words, options=("--json", str(path)))
    document = read_json(path)
    assert document["complete"] is not bool(reason)
    assert [text for text in document["caveats"] if "program was" in text] == (
        [f"the program was {reason}"] if reason else []
    )


COUNTER = """
import signal, time
received = []
signal.signal(signal.SIGINT, lambda number, frame: received.append(number))
print("up", flush=True)
while not received:
    time.sleep(0.05)
time.sleep(0.4)
print("received", len(received), flush=True)
"""


def test_ctrl_c_at_the_terminal_arrives_once(tmp_path: Path) -> None:
    """Ctrl-C at a terminal reaches the program as well as the wrapper, which does not send a
    second one, and waits until the program has ended."""
    need("/dev/pts/ptmx")
    pid, terminal = pty.fork()
    if pid == 0:
        arguments = [str(PATH), "--interval", "50ms", "--", sys.executable, "-c", COUNTER]
        os.execv(sys.executable, [sys.executable, *arguments])
    text = b""
    is_typed = False
    with contextlib.suppress(OSError):  # the other end is closed
        while part := os.read(terminal, 4096):
            text += part
            if b"up" in text and not is_typed:
                os.write(terminal, b"\x03")
                is_typed = True
    _, status = os.waitpid(pid, 0)
    os.close(terminal)
    assert os.waitstatus_to_exitcode(status) == 0
    assert b"received 1" in text
    assert b"samples in" in text


def test_lines_come_while_it_runs() -> None:
    """--report prints a line now and then, with what changed."""
    done = run_wrapped("sleep", "1", options=("--report", "200ms"))
    lines = [line for line in done.stderr.splitlines() if " process | cpu RSS " in line]
    assert 2 <= len(lines) <= 6
    assert re.search(r"RSS [\d.]+ .iB \([+-]", lines[1])


def test_sampling_stays_cheap() -> None:
    """Asked for a sample each 10 ms, it takes fewer where they would cost too much."""
    done = run_wrapped("sleep", "1.5", options=("--interval", "10ms"))
    found = re.search(r"(\d+) samples in .*; sampling took .* \(([\d.]+)%\)", done.stderr)
    assert found
    assert float(found[2]) < 12
    assert int(found[1]) > 3


def test_program_that_is_not_there_is_wrong_use() -> None:
    """A program that cannot be started is one line and status 2."""
    done = run_wrapped("/no/such/program")
    assert done.returncode == 2
    assert "could not start /no/such/program" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "name the program to start, or --demo"),
        (["--demo", "true"], "--demo starts nothing"),
        (["--size", "1MiB", "true"], "belong to --demo"),
        (["--demo", "--interval", "1s"], "belong to a program"),
        (["--demo", "--no_pss"], "belong to a program"),
        (["--interval", "1ms", "true"], "has to be 10ms or more"),
        (["--interval", "soon", "true"], "is no duration"),
        (["--demo", "--size", "9999TiB"], "--size 9999 TiB: there is not so much memory here"),
        (["--demo", "--size", "99999999TiB"], "there is not so much memory here"),
    ],
)
def test_wrong_use_is_one_line(
    call_tool: Callable[..., Any], arguments: list[str], message: str
) -> None:
    """What makes no sense ends with status 2 and one line."""
    done = call_tool(TOOL, *arguments)
    assert done.returncode == 2
    assert message in done.stderr
    assert "Traceback" not in done.stderr


def test_many_samples_are_thinned_to_the_larger_ones(memory: Any) -> None:
    """However many samples there are, few are kept, in order, and never less than the largest."""
    sampler = memory.TreeSampler(os.getpid())
    for number in range(9 * memory.KEPT_SAMPLES):
        size = 10**9 if number == 12345 else number % 1000
        sampler._keep({"seconds": number, "rss_bytes": size, "pss_bytes": None})
    assert memory.KEPT_SAMPLES / 2 <= len(sampler.rows) <= memory.KEPT_SAMPLES + 1
    assert max(row["rss_bytes"] for row in sampler.rows) == 10**9
    seconds = [row["seconds"] for row in sampler.rows]
    assert seconds == sorted(seconds)


def test_process_names_with_parentheses_are_read(memory: Any, tmp_path: Path) -> None:
    """The start time is the 22nd field, whatever the process is called; a zombie has none."""
    fields = " ".join(str(number) for number in range(4, 53))
    for pid, state in ((7, "S"), (8, "Z")):
        (tmp_path / str(pid)).mkdir()
        (tmp_path / str(pid) / "stat").write_text(f"{pid} (a) b (c)) {state} {fields}")
    assert memory.read_start_time(7, tmp_path) == "22"
    assert memory.read_start_time(8, tmp_path) is None
    assert memory.read_start_time(9, tmp_path) is None


@given(size=st.integers(0, 2**50))
def test_change_has_its_sign(memory: Any, size: int) -> None:
    """A change is written as its size, with the sign before it."""
    assert memory.format_change(size) == f" (+{memory.format_memory(size)})"
    assert memory.format_change(-size - 1) == f" (-{memory.format_memory(size + 1)})"
    assert memory.format_change(None) == ""


@pytest.mark.torch
@pytest.mark.nightly
def test_ranks_of_torchrun_say_a_line_each(
    tmp_path: Path, read_json: Callable[[Path], Any]
) -> None:
    """Two ranks of torchrun say a line each with its rank, and a tensor is seen in RSS; the
    wrapper around torchrun adds up all processes."""
    script = tmp_path / "train.py"
    script.write_text(
        textwrap.dedent(
            """\
            import time
            import torch
            import torch.distributed as dist
            from see_mem_usage import see_memory_usage

            dist.init_process_group("gloo")
            torch.ones(1024 ** 2, dtype=torch.uint8)  # the first tensor has torch take memory
            see_memory_usage("start")
            block = torch.ones(64 * 1024 ** 2, dtype=torch.uint8)
            reading = see_memory_usage("tensor made")
            dist.barrier()
            time.sleep(0.5)
            assert abs(reading.rss_growth - block.numel()) < 4 * 1024 ** 2
            dist.destroy_process_group()
            """
        )
    )
    path = tmp_path / "out.json"
    done = run_wrapped(
        *(sys.executable, "-m", "torch.distributed.run", "--nproc_per_node", "2"),
        *("--rdzv_endpoint=localhost:0", "--rdzv_backend=c10d", "--local-addr=127.0.0.1"),
        str(script),
        options=("--json", str(path)),
        env={**os.environ, "PYTHONPATH": str(PATH.parent), "PYTHONDONTWRITEBYTECODE": "1"},
    )
    assert done.returncode == 0, done.stderr
    for rank in (0, 1):
        assert re.search(rf" rank {rank} tensor made \| cpu RSS .* \(\+6\d\.\d MiB\)", done.stderr)
    details = read_json(path)["details"]
    peaks = sorted(each["peak_rss_bytes"] for each in details["processes"])
    assert len(peaks) >= 3
    assert details["largest_rss_bytes"] > peaks[-1] + peaks[-2]
    assert details["largest_pss_bytes"] < details["largest_rss_bytes"]


def test_demonstration_is_checked_against_what_it_took(memory: Any) -> None:
    """A growth that is not what was taken is a problem, in words."""
    rows = [
        {"step": "taken", "rss_growth_bytes": 10 * MIB, "pss_growth_bytes": 64 * MIB},
        {"step": "given back", "rss_growth_bytes": None},
    ]
    (problem,) = memory.find_memory_problems(rows, 64 * MIB)
    assert problem == "taken: rss_growth_bytes is 10.0 MiB, taken were 64.0 MiB"
