#!/usr/bin/env python3
# /// script
# requires-python = ">=3.11"
# dependencies = ["torch>=2.6"]
# ///
r"""How much slower is a collective of Python objects than the same one with tensors?

all_gather_object takes any object: it pickles it, tells the others how long the pickle is, pads
all of them to the longest, gathers the bytes, and unpickles them. A tensor of known shape needs
only the gathering. This tool measures both with the same values, and the usual reason for it too:
asking whether all ranks are done.

The tasks, each done both ways in turn
    gather     the same whole numbers of each rank reach all ranks: all_gather_object of a list of
               Python integers, against all_gather of an int64 tensor of the same values. Payload
               sizes are those of the tensor: 8 bytes a number.
    done flag  each rank says whether it is done, all learn whether all are: all_gather_object of a
               bool and all(), against all_reduce (MIN) of one int32 and reading it back. Here the
               tensor is made anew from a Python bool each time, as a program would have to.

Physics
    Both send a few bytes, so the time is latency: the object way needs two collectives instead of
    one, and pickling, and on an accelerator the way of the bytes to the device and back with a
    wait for it.  ratio = seconds with objects / seconds with tensors, of neighbouring iterations.
    Hand check: 500 us against 100 us is a ratio of 5.

What is timed
    From when all ranks have met in a barrier until the answer can be used by this rank: as Python
    objects, or as a tensor that the device has finished. The host's clock, because the host does
    most of it. A sample is the mean over the ranks.
What is not timed
    The barrier, the first iterations, and the check of both answers on every rank, which is done in
    each iteration.
What is reported
    For each task and payload: median and spread of both ways, and of the ratio of each pair of
    neighbours its median, IQR, minimum and maximum.

How to run
    one node        python object_vs_tensor_collectives.py    (starts a rank for each accelerator)
    or              torchrun --nproc_per_node 8 object_vs_tensor_collectives.py
    other sizes     python object_vs_tensor_collectives.py --payload 8 1KiB 1MiB
    Slurm           srun --ntasks-per-node 8 --gpus-per-node 8 bash -c 'MASTER_ADDR=$(scontrol \
                        show hostnames $SLURM_JOB_NODELIST | head -n 1) \
                        python object_vs_tensor_collectives.py --json out.json'
    pdsh            pdsh -w node[01-04] 'torchrun --nnodes 4 --nproc_per_node 8 --rdzv_id 1 \
                        --rdzv_backend c10d --rdzv_endpoint node01:29500 \
                        /shared/object_vs_tensor_collectives.py'
    Ctrl-C, SIGTERM and SIGUSR1 end all ranks after the iteration that runs, and keep what was
    measured.

A good answer: ratios of some units are usual, and they grow with the payload, because pickling
does. Whether it matters depends on how often it is called: a millisecond in each step of 100 ms is
1 %. Never in an inner loop; once an epoch anything will do.

Seen running so far: gloo on CPUs, one to four ranks. The path for accelerators follows PyTorch's
documentation and has not been run on one yet.

Exit status: 0 done, 1 a wrong answer, a rank that failed, nothing measured, or stopped by a
signal, 2 wrong use.
"""

from __future__ import annotations

import sys

if __name__ == "__main__":  # Ctrl-C ends in silence, also while the rest is imported
    sys.excepthook = lambda *e: None if e[0] is KeyboardInterrupt else sys.__excepthook__(*e)

import argparse
import contextlib
import datetime
import errno
import json
import math
import os
import pickle
import platform
import re
import signal
import socket
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

__version__ = "0.1.0"
METHOD = 1

# Plain literals: a runner reads them without importing this file.
# fmt: off
PROFILES = {
    "toy": [
        "--device", "cpu", "--payload", "8", "64KiB", "--num_iterations", "20",
        "--num_warmup_iterations", "5",
    ],
    "full": ["--payload", "8", "1KiB", "64KiB", "1MiB", "--num_iterations", "200"],
}
# fmt: on
RANKS = {"toy": 2, "full": "accelerators"}

# The unit of each column of the JSON's results that holds numbers.
UNITS = {
    "payload_bytes": "B",
    "ranks": "1",
    "samples": "1",
    "object_seconds_median": "s",
    "object_seconds_iqr": "s",
    "object_seconds_min": "s",
    "object_seconds_max": "s",
    "tensor_seconds_median": "s",
    "tensor_seconds_iqr": "s",
    "tensor_seconds_min": "s",
    "tensor_seconds_max": "s",
    "ratio_median": "1",
    "ratio_mean": "1",
    "ratio_iqr": "1",
    "ratio_min": "1",
    "ratio_max": "1",
    "spread": "1",
    "drift": "1",
    "wrong_answers": "1",
}

# How far the ratio may vary from pair to pair: latencies of microseconds are never very steady.
WIDE_RATIO = 0.25
# Below this many samples a quartile is an interpolation between two of them, and no measurement.
QUARTILE_SAMPLES = 4

Row = dict[str, Any]


class WrongUse(Exception):
    """The command line asks for what this tool or this device cannot do; exit status 2."""


class Stopped(Exception):
    """The run ends here, by a signal or by the budget; what was measured is kept."""


class StopSign:
    """Why the run has to end, if it has to: a signal, the budget, or the parent process."""

    def __init__(self) -> None:
        self.reason: str | None = None
        self.by_signal = False
        self.deadline: float | None = None

    def listen(self) -> None:
        """End the run on Ctrl-C, on SIGTERM, and on Slurm's early warning."""
        for name in ("SIGINT", "SIGTERM", "SIGUSR1"):
            if hasattr(signal, name):
                signal.signal(getattr(signal, name), self._receive)

    def _receive(self, number: int, _frame: Any) -> None:
        self.reason = f"stopped by {signal.Signals(number).name}"
        self.by_signal = True
        # A second signal of the same kind ends a run that hangs.
        signal.signal(number, signal.SIG_DFL)

    def check(self) -> None:
        """Raise Stopped where there is a reason to end."""
        if self.reason is None and self.deadline is not None and time.monotonic() > self.deadline:
            self.reason = "the budget is used up"
        if self.reason is not None:
            raise Stopped(self.reason)


class Job(NamedTuple):
    """This rank's place among all ranks, and what it talks through."""

    torch: Any
    device: Any
    backend: str
    rank: int
    size: int
    local_rank: int

    @property
    def is_first(self) -> bool:
        """Whether this is the rank that prints and writes."""
        return self.rank == 0


def parse_duration(text: str) -> float:
    """Seconds from `90`, `45s`, `10m`, `1h30m`."""
    found = re.fullmatch(r"(?:(\d+)h)?(?:(\d+)m)?(?:(\d+(?:\.\d+)?)s?)?", text.strip())
    if not text.strip() or found is None:
        raise argparse.ArgumentTypeError(f"'{text}' is no duration: write 90s, 10m or 1h30m")
    hours, minutes, seconds = (float(part or 0) for part in found.groups())
    total = 3600 * hours + 60 * minutes + seconds
    if total <= 0:
        raise argparse.ArgumentTypeError(f"'{text}': a duration has to be longer than nothing")
    return total


def parse_count(text: str) -> int:
    """A number of things to do or to show: a whole number from 1."""
    if not re.fullmatch(r"[1-9]\d*", text):
        raise argparse.ArgumentTypeError(f"'{text}' has to be a whole number from 1")
    return int(text)


def parse_count_or_none(text: str) -> int:
    """A number of things to do that may be none: a whole number from 0."""
    if not re.fullmatch(r"0|[1-9]\d*", text):
        raise argparse.ArgumentTypeError(f"'{text}' has to be a whole number from 0")
    return int(text)


def parse_bytes(text: str) -> int:
    """Bytes from `32KiB`, `16G` (binary, as nccl-tests has it), `4GB` (decimal), or `8`."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([kKMGT]?)(i?)(B?)", text.strip())
    if found is None:
        raise argparse.ArgumentTypeError(f"'{text}' is no size: write 32KiB, 4MB or 16GiB")
    number, prefix, binary, unit = found.groups()
    base = 1000 if unit and not binary else 1024
    size = float(number) * base ** " KMGT".index(prefix.upper() or " ")
    if (binary and not prefix) or size < 1 or size != int(size):
        raise argparse.ArgumentTypeError(f"'{text}' is no whole number of bytes from 1")
    return int(size)


def format_bytes(size: int) -> str:
    """`32 KiB`, `4 MB`, `12345 B`: exactly so many bytes, in the unit with the fewest digits."""
    texts = [f"{size} B"]
    for base, units in ((1024, ("KiB", "MiB", "GiB", "TiB")), (1000, ("kB", "MB", "GB", "TB"))):
        for power, unit in enumerate(units, start=1):
            if size % base**power == 0 and size:
                texts.append(f"{size // base**power} {unit}")
    return min(texts, key=lambda text: len(text.split()[0]))


def choose_device(torch: Any, name: str | None, local_rank: int = 0) -> Any:
    """The torch.device asked for, or the accelerator of this rank, or the CPU.

    Raises WrongUse where this torch has no such device.
    """
    has_accelerator = hasattr(torch, "accelerator") and torch.accelerator.is_available()
    present = torch.accelerator.current_accelerator().type if has_accelerator else "cpu"
    try:
        device = torch.device(name or present)
    except RuntimeError as error:
        known = f"{present} or cpu" if has_accelerator else "cpu"
        raise WrongUse(f"--device {name}: no device of torch; here it is {known}") from error
    if device.type == "cpu":
        return device
    if device.type != present:
        here = present if has_accelerator else "no accelerator, only cpu"
        raise WrongUse(f"--device {name}: this torch sees {here}")
    count = torch.accelerator.device_count()
    index = device.index if device.index is not None else local_rank
    if index >= count:
        raise WrongUse(f"device {index} of {device.type} is not there: there are {count}, from 0")
    device = torch.device(device.type, index)
    set_device = getattr(torch.get_device_module(device.type), "set_device", None)
    if set_device:  # a kind that is only ever one device has none
        set_device(index)
    return device


def choose_backend(torch: Any, device: Any) -> str:
    """The backend of a process group on this kind of device: gloo for CPU, nccl for CUDA and ROCm.

    Raises WrongUse where this torch has none.
    """
    distributed = torch.distributed
    if not distributed.is_available():
        raise WrongUse("this torch was built without torch.distributed")
    known = getattr(distributed.Backend, "default_device_backend_map", {})
    backend = known.get(device.type) or {"cpu": "gloo", "cuda": "nccl"}.get(device.type)
    if backend is None:
        raise WrongUse(f"torch.distributed has no backend for {device.type}; use --device cpu")
    is_there = getattr(distributed, f"is_{backend}_available", None)
    if is_there is not None and not is_there():
        raise WrongUse(f"this torch was built without {backend}, the backend of {device.type}")
    return str(backend)


def may_bind_device(version: str, backend: str) -> bool:
    """Whether device_id may be given to init_process_group: nccl from torch 2.8 on.

    With it some versions before hang now and then (pytorch issue 153960). Without it nothing here
    has to guess a device: each tensor names its own.
    """
    found = re.match(r"(\d+)\.(\d+)", version)
    return backend == "nccl" and found is not None and tuple(map(int, found.groups())) >= (2, 8)


def join_job(
    torch: Any, place: tuple[int, int, int], device_name: str | None, timeout: float
) -> Job:
    """Meet the other ranks; `timeout` seconds is what they, and each collective, may take.

    Raises WrongUse where the device or its backend is not there, and RuntimeError where the other
    ranks do not come.
    """
    rank, size, local_rank = place
    device = choose_device(torch, device_name, local_rank)
    backend = choose_backend(torch, device)
    os.environ.setdefault("MASTER_PORT", "29500")
    bound = {"device_id": device} if may_bind_device(torch.__version__, backend) else {}
    torch.distributed.init_process_group(
        backend,
        init_method="env://",
        rank=rank,
        world_size=size,
        timeout=datetime.timedelta(seconds=timeout),
        **bound,
    )
    return Job(torch, device, backend, rank, size, local_rank)


def leave_job(job: Job) -> None:
    """Take leave of the other ranks; one that is gone already is no reason to fail.

    From here on a signal comes too late to matter, and would only kill Python while it ends.
    """
    with contextlib.suppress(RuntimeError, ValueError):
        job.torch.distributed.destroy_process_group()
    for name in ("SIGINT", "SIGTERM", "SIGUSR1"):
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), signal.SIG_IGN)


def gather_values(job: Job, value: Any) -> list[Any]:
    """What every rank has, on every rank, in the order of the ranks.

    As all_gather_object does it, but for that torch's own needs NumPy.
    """
    torch, distributed = job.torch, job.torch.distributed
    data = pickle.dumps(value)
    size = torch.tensor([len(data)], dtype=torch.int64, device=job.device)
    sizes = [torch.zeros_like(size) for _ in range(job.size)]
    distributed.all_gather(sizes, size)
    lengths = [int(one.item()) for one in sizes]
    longest = max(lengths)
    padded = bytearray(data.ljust(longest, b"\0"))
    mine = torch.frombuffer(padded, dtype=torch.uint8).to(job.device)
    theirs = [torch.empty_like(mine) for _ in range(job.size)]
    distributed.all_gather(theirs, mine)
    values = []
    for length, one in zip(lengths, theirs, strict=True):
        buffer = bytearray(longest)
        torch.frombuffer(buffer, dtype=torch.uint8).copy_(one)
        values.append(pickle.loads(buffer[:length]))
    return values


class Meeting:
    """A barrier of all ranks that also tells every one of them whether one has to end."""

    def __init__(self, job: Job, stop: StopSign) -> None:
        self.job = job
        self.stop = stop
        self.flag = job.torch.zeros(1, dtype=job.torch.int32, device=job.device)

    def hold(self) -> None:
        """Wait for all ranks. Raises Stopped on all of them where one has a reason to end."""
        with contextlib.suppress(Stopped):
            self.stop.check()
        self.flag.fill_(0 if self.stop.reason is None else 1)
        self.job.torch.distributed.all_reduce(self.flag)
        if int(self.flag.item()):
            raise Stopped(self.stop.reason or "another rank was stopped")


def list_numbers(rank: int, count: int, turn: int) -> list[int]:
    """What a rank gives in an iteration: other numbers for each rank, place and iteration."""
    start = 1_000_003 * rank + 7919 * turn
    return list(range(start, start + count))


def is_done(rank: int, ranks: int, turn: int) -> bool:
    """Whether a rank says that it is done: all do every second time, else all but one."""
    return turn % 2 == 0 or rank != turn // 2 % ranks


Gatherer = Callable[[Job, Any], list[Any]]


def gather_objects(job: Job, value: Any) -> list[Any]:
    """torch's own all_gather_object."""
    values: list[Any] = [None] * job.size
    job.torch.distributed.all_gather_object(values, value)
    return values


def choose_gatherer() -> tuple[Gatherer, str | None]:
    """torch's all_gather_object, or the same steps by hand where there is no NumPy for it."""
    try:
        import numpy  # noqa: F401
    except ImportError:
        return gather_values, (
            "there is no NumPy, which torch's all_gather_object needs: the same steps (pickle, "
            "sizes, padding, all_gather, unpickle) were timed by hand instead; pip install numpy"
        )
    return gather_objects, None


class Gathering:
    """All ranks get the numbers of all ranks."""

    def __init__(self, job: Job, gather: Gatherer, payload_bytes: int) -> None:
        self.job = job
        self.gather = gather
        self.count = payload_bytes // 8

    def prepare(self, turn: int) -> None:
        """Make the numbers of this rank, as a list and as a tensor, and a place for the answers."""
        torch, device = self.job.torch, self.job.device
        self.numbers = list_numbers(self.job.rank, self.count, turn)
        self.tensor = torch.tensor(self.numbers, dtype=torch.int64, device=device)
        self.gathered = [torch.zeros_like(self.tensor) for _ in range(self.job.size)]
        self.turn = turn

    def run_object(self) -> Any:
        """Gather the lists."""
        return self.gather(self.job, self.numbers)

    def run_tensor(self) -> Any:
        """Gather the tensors, and wait for the device."""
        self.job.torch.distributed.all_gather(self.gathered, self.tensor)
        if self.job.device.type != "cpu":
            self.job.torch.accelerator.synchronize(self.job.device)
        return self.gathered

    def is_right(self, answer: Sequence[Any]) -> bool:
        """Whether this is what all ranks gave, in their order."""
        expected = [list_numbers(rank, self.count, self.turn) for rank in range(self.job.size)]
        return [part if isinstance(part, list) else part.tolist() for part in answer] == expected


class Flagging:
    """All ranks learn whether all are done."""

    def __init__(self, job: Job, gather: Gatherer) -> None:
        self.job = job
        self.gather = gather

    def prepare(self, turn: int) -> None:
        """Whether this rank is done."""
        self.flag = is_done(self.job.rank, self.job.size, turn)
        self.expected = all(is_done(rank, self.job.size, turn) for rank in range(self.job.size))

    def run_object(self) -> Any:
        """Gather the flags of all."""
        return all(self.gather(self.job, self.flag))

    def run_tensor(self) -> Any:
        """The smallest of the flags of all."""
        torch, distributed = self.job.torch, self.job.torch.distributed
        flag = torch.tensor(int(self.flag), dtype=torch.int32, device=self.job.device)
        distributed.all_reduce(flag, op=distributed.ReduceOp.MIN)
        return bool(flag.item())

    def is_right(self, answer: Any) -> bool:
        """Whether this is what the ranks said together."""
        return answer is self.expected


def summarise_samples_of(name: str, samples: Sequence[float]) -> Row:
    """`NAME_median`, mean, iqr, min and max of the samples, their number, spread and drift.

    The quartiles are those of linear interpolation between the samples (numpy's default); fewer
    than QUARTILE_SAMPLES samples have none, so IQR and spread are None. `spread` is the IQR over
    the median. `drift` is the median of the second half over that of the first half, less one.
    """
    ordered = sorted(samples)
    median = statistics.median(ordered)
    iqr = None
    if len(ordered) >= QUARTILE_SAMPLES:
        low, _, high = statistics.quantiles(ordered, n=4, method="inclusive")
        iqr = high - low
    half = len(samples) // 2
    drift = None
    if half >= 5 and statistics.median(samples[:half]) > 0:
        drift = statistics.median(samples[-half:]) / statistics.median(samples[:half]) - 1
    return {
        "samples": len(ordered),
        f"{name}_median": median,
        f"{name}_mean": statistics.fmean(ordered),
        f"{name}_iqr": iqr,
        f"{name}_min": ordered[0],
        f"{name}_max": ordered[-1],
        "spread": iqr / median if iqr is not None and median > 0 else None,
        "drift": drift,
    }


def summarise_pairs(objects: Sequence[float], tensors: Sequence[float]) -> Row:
    """Statistics of both ways, and of the ratio of each pair; spread and drift are the ratio's."""
    row: Row = {}
    for name, samples in (("object_seconds", objects), ("tensor_seconds", tensors)):
        whole = summarise_samples_of(name, samples)
        row |= {key: whole[key] for key in whole if key.startswith(name) and "mean" not in key}
    ratios = [a / max(b, 1e-9) for a, b in zip(objects, tensors, strict=True)]
    return row | summarise_samples_of("ratio", ratios)


def measure_task(
    job: Job,
    meeting: Meeting,
    task: Gathering | Flagging,
    name: str,
    payload_bytes: int,
    options: argparse.Namespace,
) -> Row:
    """One row of results, the same on every rank. Raises Stopped on all ranks."""
    seconds: dict[str, list[float]] = {"object": [], "tensor": []}
    wrong = 0
    for turn in range(options.num_warmup_iterations + options.num_iterations):
        task.prepare(turn)
        # Neither way is always the first: it would have the colder caches.
        for way in ("object", "tensor") if turn % 2 else ("tensor", "object"):
            call = task.run_object if way == "object" else task.run_tensor
            meeting.hold()
            started = time.perf_counter_ns()
            answer = call()
            taken = (time.perf_counter_ns() - started) / 1e9
            wrong += not task.is_right(answer)
            if turn >= options.num_warmup_iterations:
                seconds[way].append(taken)
    gathered = gather_values(job, (seconds, wrong))
    means = {
        way: [
            statistics.fmean(of_all)
            for of_all in zip(*(of_rank[way] for of_rank, _ in gathered), strict=True)
        ]
        for way in seconds
    }
    row: Row = {"task": name, "payload_bytes": payload_bytes, "ranks": job.size}
    row |= summarise_pairs(means["object"], means["tensor"])
    row["wrong_answers"] = sum(of_rank for _, of_rank in gathered)
    row["answer_ok"] = not row["wrong_answers"]
    row["verdict"] = choose_pair_verdict(row)
    return row


def choose_pair_verdict(row: Row) -> str:
    """One word or two on how far to trust the row: the worst that applies."""
    if not row["answer_ok"]:
        return "WRONG ANSWER"
    if row["samples"] < QUARTILE_SAMPLES:
        return "one sample" if row["samples"] == 1 else "few samples"
    return "unsteady" if row["spread"] > WIDE_RATIO else "ok"


class Tally:
    """What was measured so far."""

    def __init__(self) -> None:
        self.header: dict[str, Any] = {}
        self.rows: list[Row] = []
        self.caveats: list[str] = []
        self.complete = False
        self.failure: str | None = None


def run_object_rank(
    options: argparse.Namespace, place: tuple[int, int, int], stop: StopSign
) -> Tally:
    """Measure as one of the ranks; what was found, whole or in part."""
    job = join_job(import_torch(), place, options.device, options.timeout)
    tally = Tally()
    tasks: list[tuple[str, int]] = [("done flag", 4)]
    tasks = [*(("gather", size // 8 * 8) for size in options.payload), *tasks]
    gather, caveat = choose_gatherer()
    if caveat:
        tally.caveats.append(caveat)
    try:
        meeting = Meeting(job, stop)
        hosts = gather_values(job, socket.gethostname())
        tally.header = {
            "device_kind": job.device.type,
            "device_model": describe_device(job.torch, job.device),
            "backend": job.backend,
            "ranks": job.size,
            "nodes": len(set(hosts)),
            "platform": f"{platform.system()} {platform.machine()}",
            "python": platform.python_version(),
            "torch": job.torch.__version__,
            "timer": "host clock",
            "object_gatherer": gather.__name__,
            "environment": read_network_environment(os.environ),
        }
        for name, size in tasks:
            is_gather = name == "gather"
            task = Gathering(job, gather, size) if is_gather else Flagging(job, gather)
            tally.rows.append(measure_task(job, meeting, task, name, size, options))
        tally.complete = True
    except Stopped as stopped:
        tally.caveats.append(f"{stopped}, after {len(tally.rows)} of {len(tasks)} rows")
        # A rank that heard of it from another one ends as that one does.
        stop.by_signal = stop.by_signal or stop.reason is None
    except (RuntimeError, NotImplementedError) as error:
        reason = str(error).strip().splitlines()[0] if str(error) else type(error).__name__
        tally.failure = f"rank {job.rank} failed: {reason}"
        tally.caveats.append(tally.failure)
    if tally.failure is None:
        leave_job(job)
    return tally


def hide_folders(text: str) -> str:
    """The text with absolute paths cut down to their last part: folders name people and hosts."""
    name, equals, value = text.partition("=")
    if equals and value.startswith(("/", "~")):
        return f"{name}={Path(value).name}"
    return Path(text).name if text.startswith(("/", "~")) else text


def make_portable_command(arguments: Sequence[str]) -> list[str]:
    """The command line as another machine would type it, without absolute paths."""
    script = Path(__file__)
    with contextlib.suppress(ValueError, OSError):  # a folder that was deleted has no name
        script = script.resolve().relative_to(Path.cwd().resolve())
    name = script.name if script.is_absolute() else script.as_posix()
    return ["python", name, *(hide_folders(argument) for argument in arguments)]


def read_network_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """The variables that steer the communication libraries, as far as they are set."""
    prefixes = ("NCCL_", "RCCL_", "GLOO_", "TORCH_NCCL_", "UCX_", "FI_", "CCL_", "HCCL_")
    names = (*("CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_MAX_CONNECTIONS"), "OMP_NUM_THREADS")
    hosts = ("NCCL_COMM_ID", "NCCL_HOSTID")  # these name machines
    return {
        name: hide_folders(value)
        for name, value in sorted(environ.items())
        if (name.startswith(prefixes) or name in names) and name not in hosts
    }


def describe_device(torch: Any, device: Any) -> str:
    """What the vendor calls the device."""
    if device.type == "cpu":
        return platform.machine() or "cpu"
    try:
        properties = torch.get_device_module(device.type).get_device_properties(device)
    except (AttributeError, RuntimeError, TypeError):
        return str(device.type)
    return str(getattr(properties, "name", None) or device.type)


def write_document(path: Path, document: Mapping[str, Any]) -> None:
    """Write the JSON whole: under another name, then moved; a pipe or a device is written to, and
    a symbolic link followed. Raises WrongUse where it cannot be."""
    text = json.dumps(document, indent=1, allow_nan=False) + "\n"
    target = path.resolve()
    partial = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        if path.exists() and not path.is_file():
            path.write_text(text, encoding="utf-8")
            return
        partial.write_text(text, encoding="utf-8")
        partial.replace(target)
    except OSError as error:
        partial.unlink(missing_ok=True)
        raise WrongUse(f"--json: could not write {path}: {error.strerror}") from error


def check_json_path(path: Path | None) -> None:
    """Raises WrongUse where --json names a folder, or a file in a folder that is not there or takes
    no files."""
    if path is None:
        return
    if path.is_dir():
        raise WrongUse(f"--json: {path} is a folder; name a file in it")
    target = path.resolve()
    if not target.parent.is_dir():
        raise WrongUse(f"--json: there is no folder {target.parent}")
    if path.exists() and not path.is_file():  # a pipe or a device, which writing shows
        return
    partial = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        partial.touch()
        partial.unlink()
    except OSError as error:
        raise WrongUse(f"--json: could not write {path}: {error.strerror}") from error


def make_document_head(
    tool: str, numbers: tuple[str, int], command: Sequence[str], origin: float
) -> dict[str, Any]:
    """The opening of the JSON: tool, version and method, command, start, and seconds until now.

    `origin` is the reading of time.monotonic() when the run began.
    """
    seconds = time.monotonic() - origin
    started = datetime.datetime.now(datetime.UTC) - datetime.timedelta(seconds=seconds)
    return {
        "tool": tool,
        "version": numbers[0],
        "method": numbers[1],
        "command": list(command),
        "started": started.strftime("%Y-%m-%dT%H:%M:%SZ"),
        "seconds": round(seconds, 3),
    }


def write_note(text: str) -> None:
    """One note for the reader, beside the table."""
    print(f"note: {text}", file=sys.stderr)


def import_torch() -> Any:
    """The torch module; raises WrongUse with what to do where there is none."""
    try:
        import torch
    except ImportError as error:
        raise WrongUse(
            f"torch does not import ({error}); install it: https://pytorch.org/get-started/locally"
        ) from error
    return torch


def format_time(seconds: float) -> str:
    """`12.0 µs`, `8.02 ms` or `2.3 s`: a time in a sentence, to about one percent."""
    factor, unit = next(
        ((f, u) for f, u in ((1.0, "s"), (1e-3, "ms")) if seconds >= 0.9995 * f), (1e-6, "µs")
    )
    return f"{format_earned(seconds / factor, 1e-2 * seconds / factor)} {unit}"


def format_earned(value: float | None, uncertainty: float | None) -> str:
    """The value with the digits that its uncertainty leaves, one per thousand at best.

    The last digit shown stands where the first digit of the uncertainty stands. Where the
    uncertainty is as large as the value it leaves none: then one digit after a `~` says how
    large the value is, roughly. Where nobody knows the uncertainty, it is two digits after a `~`.
    """
    if value is None or not math.isfinite(value):
        return "-"
    if value == 0:
        return "0"
    size = abs(value)
    doubt = 0.1 * size if uncertainty is None else max(abs(uncertainty), size * 1e-3)
    is_rough = uncertainty is None or doubt >= size
    decimals = -math.floor(math.log10(min(doubt, size)))
    # Rounding first: 9.99 to one digit is 10, and then no digit after the point.
    rounded = round(value, decimals)
    return f"{'~' if is_rough else ''}{rounded:.{max(decimals, 0)}f}"


def format_table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table, the first column to the left and all others to the right."""
    cells = [list(headings), *(list(row) for row in rows)]
    widths = [max(3, *(len(row[i]) for row in cells)) for i in range(len(headings))]

    def join(row: Sequence[str]) -> str:
        padded = [
            cell.ljust(width) if i == 0 else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        return f"| {' | '.join(padded)} |"

    rule = [f":{'-' * (w - 1)}" if i == 0 else f"{'-' * (w - 1)}:" for i, w in enumerate(widths)]
    return "\n".join([join(cells[0]), f"| {' | '.join(rule)} |", *map(join, cells[1:])])


def make_tally_document(tally: Tally, command: Sequence[str], origin: float) -> dict[str, Any]:
    """The JSON document: base units, no NaN."""
    head = make_document_head(
        "object_vs_tensor_collectives", (__version__, METHOD), command, origin
    )
    return {
        **head,
        "complete": tally.complete,
        "units": UNITS,
        "results": tally.rows,
        "caveats": tally.caveats,
        "details": {"header": tally.header},
    }


def print_report(tally: Tally, command: Sequence[str]) -> int:
    """The table to stdout, notes to stderr; the number of problems."""
    print(f"object_vs_tensor_collectives {__version__} (method {METHOD})", file=sys.stderr)
    print(f"command: {' '.join(command)}", file=sys.stderr)
    for name, value in tally.header.items():
        if name == "environment":
            value = " ".join(f"{k}={v}" for k, v in value.items()) or "nothing set"
        print(f"{name.replace('_', ' ')}: {value}", file=sys.stderr)
    lines = []
    for row in tally.rows:
        is_gather = row["task"] == "gather"
        half = None if row["ratio_iqr"] is None else row["ratio_iqr"] / 2
        lines.append(
            [
                f"gather {format_bytes(row['payload_bytes'])}" if is_gather else "done flag",
                format_time(row["object_seconds_median"]),
                f"{format_time(row['tensor_seconds_median'])}, "
                + ("all_gather" if is_gather else "all_reduce"),
                format_earned(row["ratio_median"], half),
                "-" if row["spread"] is None else f"{100 * row['spread']:.0f}",
                str(row["samples"]),
                row["verdict"],
            ]
        )
    if lines:
        headings = ["Task", "all_gather_object", "Tensor", "Ratio", "IQR of ratio, %"]
        print(format_table([*headings, "Samples", "Verdict"], lines))
    problems = [tally.failure] if tally.failure else []
    wrong = [row for row in tally.rows if not row["answer_ok"]]
    if wrong:
        problems.append(f"{len(wrong)} of {len(tally.rows)} rows have wrong answers")
    if not tally.rows:
        problems.append("nothing was measured")
    for text in tally.caveats:
        write_note(text)
    if any(row["verdict"] == "unsteady" for row in tally.rows):
        write_note(
            "some ratios vary widely from pair to pair: latencies are never very steady. Try: "
            "nothing else on these nodes, more --num_iterations"
        )
    for text in problems:
        print(f"problem: {text}", file=sys.stderr)
    return len(problems)


def find_free_port() -> int:
    """A TCP port of this machine that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def read_rank(environ: Mapping[str, str]) -> tuple[int, int, int] | None:
    """Rank, world size and local rank from torchrun, Slurm or Open MPI; None without a launcher."""
    for names in (
        ("RANK", "WORLD_SIZE", "LOCAL_RANK"),
        ("SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID"),
        ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK"),
    ):
        # A shell inside an allocation has SLURM_PROCID too: it is a rank only beside an address.
        if all(environ.get(name, "").isdigit() for name in names) and "MASTER_ADDR" in environ:
            rank, size, local = (int(environ[name]) for name in names)
            return rank, size, local
    return None


def count_local_ranks(wanted: int | None, device_name: str | None) -> int:
    """How many ranks to start here: as asked for, else one for each accelerator, or 2 on a CPU."""
    if wanted:
        return wanted
    if device_name is not None and device_name.startswith("cpu"):
        return 2
    torch = import_torch()
    if hasattr(torch, "accelerator") and torch.accelerator.is_available():
        return int(torch.accelerator.device_count())
    return 2


def launch_ranks(count: int, arguments: Sequence[str]) -> int:
    """Run this file once for each rank on this machine, and return the exit status of the job.

    The first rank that fails ends the others, and is named. A signal goes to all of them.
    """
    port = find_free_port()
    ranks: list[subprocess.Popen[bytes]] = []

    def pass_on(number: int, _frame: Any) -> None:
        for process in ranks:
            if process.poll() is None:
                process.send_signal(number)

    for name in ("SIGINT", "SIGTERM", "SIGUSR1"):
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), pass_on)
    for rank in range(count):
        environ = {
            **os.environ,
            "RANK": str(rank),
            "WORLD_SIZE": str(count),
            "LOCAL_RANK": str(rank),
            "LOCAL_WORLD_SIZE": str(count),
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": str(port),
        }
        environ.setdefault("OMP_NUM_THREADS", "1")
        # A group of its own: Ctrl-C at the terminal reaches a rank once, through pass_on.
        process = subprocess.Popen(
            [sys.executable, str(Path(__file__).resolve()), *arguments],
            env=environ,
            start_new_session=True,
        )
        ranks.append(process)
    failed: tuple[int, int] | None = None
    deadline: float | None = None
    while any(process.poll() is None for process in ranks):
        for rank, process in enumerate(ranks):
            if process.poll() and failed is None:
                failed = (rank, process.returncode)
                deadline = time.monotonic() + 5.0
        if deadline is not None and time.monotonic() > deadline:
            for process in ranks:
                if process.poll() is None:
                    process.kill()
        time.sleep(0.02)
    statuses = [process.returncode for process in ranks]
    if failed is None:
        failed = next(((rank, status) for rank, status in enumerate(statuses) if status), None)
    if failed is None:
        return 0
    rank, status = failed
    if status < 0:
        print(f"rank {rank} was ended by {signal.Signals(-status).name}", file=sys.stderr)
        return 1
    if status not in (1, 2):
        print(f"rank {rank} ended with status {status}", file=sys.stderr)
        return 1
    return status


def run_self_test() -> int:
    """Check the statistics, the answers and a real run of two ranks; 0, or 1 where one fails."""
    checks: list[tuple[str, bool]] = []

    def check(name: str, passed: bool) -> None:
        checks.append((name, passed))
        print(f"{'ok    ' if passed else 'FAILED'} {name}", file=sys.stderr)

    row = summarise_pairs([5.0, 6.0, 8.0, 20.0], [1.0, 2.0, 2.0, 4.0])
    check("5/1, 6/2, 8/2 and 20/4 have a median ratio of 4.5", row["ratio_median"] == 4.5)
    check("and medians of 7 and 2 seconds", row["object_seconds_median"] == 7.0)
    check("ranks give different numbers", list_numbers(0, 9, 1) != list_numbers(1, 9, 1))
    flags = [[is_done(rank, 3, turn) for rank in range(3)] for turn in range(6)]
    check("every second time one rank of 3 is not done", [sum(f) for f in flags] == [3, 2] * 3)
    with tempfile.TemporaryDirectory(prefix="objects_") as folder:
        path = Path(folder) / "run.json"
        command = [sys.executable, str(Path(__file__).resolve()), *PROFILES["toy"], "--ranks", "2"]
        environ = {k: v for k, v in os.environ.items() if k not in ("RANK", "SLURM_PROCID")}
        done = subprocess.run(
            [*command, "--json", str(path)],
            capture_output=True,
            text=True,
            timeout=240,
            check=False,
            env=environ,
        )
        if done.returncode:
            print(done.stderr, file=sys.stderr)
        document = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    rows = document.get("results", [])
    check("two payloads and the flag make three rows", len(rows) == 3)
    check("both answers are right in each", bool(rows) and all(r["answer_ok"] for r in rows))
    check("every ratio is above 0", bool(rows) and all(r["ratio_min"] > 0 for r in rows))
    failed = sum(not passed for _, passed in checks)
    print(f"self-test: {len(checks) - failed} of {len(checks)} checks passed", file=sys.stderr)
    return 1 if failed else 0


def build_parser() -> argparse.ArgumentParser:
    """The command line of this tool, for its own use and for checkers of documentation."""
    parser = argparse.ArgumentParser(
        prog="object_vs_tensor_collectives.py",
        description="Compare all_gather_object with all_gather, and with all_reduce for a flag.",
        epilog="The docstring at the top of this file tells what is timed and how to run it.",
        allow_abbrev=False,
    )
    parser.add_argument(
        "--payload",
        type=parse_bytes,
        nargs="+",
        default=[8, 1024, 64 * 1024],
        metavar="SIZE",
        help="bytes of each rank, in 8-byte numbers (default: 8 1KiB 64KiB)",
    )
    parser.add_argument(
        "--num_iterations", type=parse_count, default=100, metavar="N", help="pairs (default: 100)"
    )
    parser.add_argument(
        "--num_warmup_iterations",
        type=parse_count_or_none,
        default=10,
        metavar="N",
        help="first pairs, which do not count (default: 10)",
    )
    parser.add_argument("--device", metavar="KIND", help="cuda, xpu, cpu (default: what is there)")
    parser.add_argument(
        "--ranks",
        type=parse_count,
        metavar="N",
        help="without a launcher: start so many here (default: all accelerators, or 2 on a CPU)",
    )
    parser.add_argument(
        "--timeout",
        type=parse_duration,
        default=120.0,
        metavar="DURATION",
        help="what the other ranks, or one call, may take (default: 2m)",
    )
    # Old launchers add it; the environment says the same.
    parser.add_argument("--local_rank", "--local-rank", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--json", type=Path, metavar="PATH", help="write the results as JSON")
    parser.add_argument("--self-test", action="store_true", help="check this tool, then stop")
    parser.add_argument(
        "--version",
        action="version",
        version=f"object_vs_tensor_collectives {__version__} (method {METHOD})",
    )
    return parser


def main(arguments: list[str] | None = None) -> int:
    """Run the tool; the exit status."""
    origin = time.monotonic()
    arguments = sys.argv[1:] if arguments is None else arguments
    parser = build_parser()
    options = parser.parse_args(arguments)
    command = make_portable_command(arguments)
    stop = StopSign()
    place = read_rank(os.environ)
    try:
        if options.self_test:
            if arguments != ["--self-test"]:
                raise WrongUse("--self-test takes no other option")
            return run_self_test()
        check_json_path(options.json)
        if min(options.payload) < 8:
            raise WrongUse("--payload: a number has 8 bytes, so that is the smallest")
        stop.listen()
        if place is None:
            count = count_local_ranks(options.ranks, options.device)
            return 1 if stop.by_signal else launch_ranks(count, arguments)
        tally = run_object_rank(options, place, stop)
        if place[0] != 0:
            if tally.failure:
                print(tally.failure, file=sys.stderr)
            return 0 if tally.complete and not tally.failure else 1
        problems = run_to_stdout(lambda: print_report(tally, command))
        if options.json:
            write_document(options.json, make_tally_document(tally, command, origin))
    except WrongUse as error:
        if place is not None and place[0] != 0:
            print(f"rank {place[0]}: {error}", file=sys.stderr)
            return 2
        parser.error(str(error))
    except RuntimeError as error:
        words = str(error).strip().splitlines() or [type(error).__name__]
        print(f"the ranks did not come together: {words[0]}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:  # in a self-test: a run listens for signals itself
        print("stopped", file=sys.stderr)
        return 1
    return 0 if tally.complete and not problems else 1


def run_to_stdout(run: Callable[[], int]) -> int:
    """What `run` returns, once all that it printed is written; where stdout takes no more, a full
    disk or a closed pipe, one line says so, and it is 1."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # closed, by `>&-`: then nobody wants to read it
            setattr(sys, name, open(os.devnull, "w"))  # noqa: PTH123, SIM115 - to the end
    try:
        try:
            status = run()
        except SystemExit as ended:  # --help, --version, and wrong use
            status = int(ended.code or 0)
        sys.stdout.flush()
    except OSError as error:
        kinds = (errno.EPIPE, errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)
        if error.filename is not None or error.errno not in kinds:
            raise
        # What still waits would be complained of again at the end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        print(f"stdout could not be written: {error.strerror}", file=sys.stderr)
        return 1
    return status


if __name__ == "__main__":
    sys.exit(run_to_stdout(main))
