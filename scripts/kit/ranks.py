"""Ranks: find out which one this is, start some on this machine, meet the others, end together."""

import argparse
import contextlib
import datetime
import os
import pickle
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from kit.cli import UsageError, duration, positive_int
from kit.device import choose_device, import_torch, is_out_of_memory
from kit.report import Report, check_writable
from kit.stop import Stop, Stopped

LAUNCHERS = (
    ("RANK", "WORLD_SIZE", "LOCAL_RANK"),
    ("SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID"),
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK"),
)
GRACE_SECONDS = 5.0
"""How long the other ranks have to end after one has failed."""


class Place(NamedTuple):
    """Where a process is among all ranks."""

    rank: int
    size: int
    local_rank: int


class Job(NamedTuple):
    """A rank that has met the others: its place, its device, and what they talk through."""

    torch: Any
    device: Any
    backend: str
    rank: int
    size: int
    local_rank: int


def read_place(environ: Mapping[str, str] = os.environ) -> Place | None:
    """The place that torchrun, Slurm or Open MPI gave to this process; None without a launcher.

    A shell inside a Slurm allocation has SLURM_PROCID too, so it counts only with MASTER_ADDR.
    """
    for names in LAUNCHERS:
        if all(environ.get(name, "").isdigit() for name in names) and "MASTER_ADDR" in environ:
            return Place(*(int(environ[name]) for name in names))
    return None


def launch_ranks(
    count: int, arguments: Sequence[str] | None = None, grace: float = GRACE_SECONDS
) -> int:
    """Run this program again as `count` ranks on this machine, and pass signals on to them; their
    exit status. The first rank that fails is named and ends the others after `grace` seconds."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, *(sys.argv if arguments is None else [sys.argv[0], *arguments])]
    ranks: list[subprocess.Popen[bytes]] = []

    def pass_on(number: int, _frame: Any) -> None:
        for process in ranks:
            if process.poll() is None:
                process.send_signal(number)

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1):
        signal.signal(number, pass_on)
    for rank in range(count):
        place = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": count, "LOCAL_WORLD_SIZE": count}
        environ = {**os.environ, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
        environ |= {name: str(value) for name, value in place.items()}
        environ.setdefault("OMP_NUM_THREADS", "1")
        # In its own session, so that Ctrl-C reaches a rank once, through pass_on.
        ranks.append(subprocess.Popen(command, env=environ, start_new_session=True))
    failed: int | None = None
    deadline = 0.0
    while True:
        statuses = [process.poll() for process in ranks]
        if failed is None:
            failed = next((rank for rank, status in enumerate(statuses) if status), None)
            deadline = time.monotonic() + grace
        elif time.monotonic() > deadline:
            for process in ranks:
                process.kill()
        if None not in statuses:
            break
        time.sleep(0.02)
    if failed is None:
        return 0
    status = ranks[failed].returncode
    if status in (1, 2):
        return status
    how = f"status {status}" if status >= 0 else signal.Signals(-status).name
    print(f"rank {failed} ended with {how}", file=sys.stderr)
    return 1


def add_rank_options(parser: argparse.ArgumentParser) -> None:
    """Add --device, --ranks, --budget, --timeout, and --local-rank, which old launchers pass."""
    add = parser.add_argument
    # fmt: off
    add("--device", help="cuda, xpu, cpu (default: the accelerator, else the CPU)")
    add("--ranks", type=positive_int, metavar="N",
        help="ranks to start where no launcher did (default: one per accelerator, 2 on a CPU)")
    add("--budget", type=duration, metavar="TIME",
        help="stop after this long with the results so far")
    add("--timeout", type=duration, default=300.0, metavar="TIME",
        help="timeout for rendezvous and each collective (default: 5m)")
    add("--local-rank", type=int, help=argparse.SUPPRESS)
    # fmt: on


def place_or_launch(
    options: argparse.Namespace,
    arguments: Sequence[str] | None,
    least: int = 2,
    grace: float = GRACE_SECONDS,
) -> Place:
    """The place that a launcher gave to this process; only rank 0 keeps `options.json`. Without a
    launcher, run this program as several ranks here, and exit with their status. `options` has
    `device`, `ranks` and `json`. Raises UsageError below `least` ranks."""
    place = read_place()
    count = place.size if place else options.ranks
    if count is None:
        count = 2
        if not (options.device or "").startswith("cpu"):
            accelerator = import_torch().accelerator
            count = accelerator.device_count() if accelerator.is_available() else 2
    if count < least:
        raise UsageError(f"needs at least {least} ranks: use --ranks {least}, or more nodes")
    if options.json:
        check_writable("--json", options.json)
    if place is None:
        sys.exit(launch_ranks(count, arguments, grace))
    options.json = None if place.rank else options.json
    return place


def begin_ranks(
    options: argparse.Namespace, arguments: Sequence[str] | None, least: int = 2
) -> tuple[Job, Stop]:
    """Find or launch the ranks as `place_or_launch` does, meet the others, and listen for signals
    and the budget. `options` are those of `add_rank_options`, and `json`."""
    place = place_or_launch(options, arguments, least)
    stop = Stop(options.budget)
    stop.listen(quiet=place.rank > 0)
    return join_ranks(import_torch(), place, options.device, options.timeout), stop


def find_store() -> tuple[str, int]:
    """Address and port of rank 0."""
    return os.environ["MASTER_ADDR"], int(os.environ.get("MASTER_PORT", "29500"))


def open_store(torch: Any, place: Place, name: str, timeout: float, *, hosts: bool = True) -> Any:
    """A connection to the store of rank 0, which rank 0 `hosts` unless torchrun has one. Raises
    RuntimeError where it cannot be reached within `timeout` seconds."""
    by_agent = os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True"
    is_host = hosts and place.rank == 0 and not by_agent
    limit = datetime.timedelta(seconds=timeout)
    address = find_store()
    store = torch.distributed.TCPStore(*address, place.size, is_host, limit, wait_for_workers=False)
    attempt = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
    return torch.distributed.PrefixStore(f"{name}{attempt}", store)


def choose_backend(torch: Any, device: Any) -> str:
    """The backend for this kind of device: gloo for a CPU, nccl for CUDA and ROCm, xccl for XPU.
    Raises UsageError where this torch was built without it."""
    distributed = torch.distributed
    if not distributed.is_available():
        raise UsageError("this torch was built without torch.distributed")
    backend = distributed.Backend.default_device_backend_map.get(device.type)
    is_built = getattr(distributed, f"is_{backend}_available", lambda: True)
    if backend is None or not is_built():
        raise UsageError(f"torch has no backend for {device.type} here; use --device cpu")
    return str(backend)


def can_bind_device(torch: Any, backend: str) -> bool:
    """Whether init_process_group may be given a device_id. Before torch 2.8 that made NCCL hang
    now and then (pytorch issue 153960)."""
    version = tuple(map(int, re.findall(r"\d+", torch.__version__)[:2]))
    return backend == "nccl" and version >= (2, 8)


def join_ranks(
    torch: Any, place: Place, device_name: str | None = None, timeout: float = 300.0
) -> Job:
    """Meet the other ranks; `timeout` (seconds) bounds the meeting and each collective. Raises
    UsageError where the device or its backend is missing, RuntimeError where ranks are missing."""
    device = choose_device(torch, device_name, place.local_rank)
    backend = choose_backend(torch, device)
    os.environ.setdefault("MASTER_PORT", "29500")
    torch.distributed.init_process_group(
        backend,
        init_method="env://",
        rank=place.rank,
        world_size=place.size,
        timeout=datetime.timedelta(seconds=timeout),
        device_id=device if can_bind_device(torch, backend) else None,
    )
    return Job(torch, device, backend, *place)


def leave_ranks(job: Job) -> None:
    """Leave the group. A rank that has left already is not an error, and a signal from here on
    is too late to matter."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1):
        signal.signal(number, signal.SIG_IGN)
    with contextlib.suppress(RuntimeError, ValueError):
        job.torch.distributed.destroy_process_group()


def meet(job: Job, stop: Stop) -> None:
    """A barrier of all ranks. Raises Stopped on every rank if one of them has to stop; then
    `stop.by_signal` is the same on all."""
    due = int(stop.is_due()) + int(stop.by_signal)
    flag = job.torch.full((1,), due, dtype=job.torch.int32, device=job.device)
    job.torch.distributed.all_reduce(flag, job.torch.distributed.ReduceOp.MAX)
    if most := int(flag.item()):
        stop.by_signal = most == 2
        raise Stopped(stop.reason or "another rank was stopped")


@contextlib.contextmanager
def end_together(job: Job, stop: Stop, report: Report) -> Iterator[None]:
    """Measure as one of the ranks, set `report.complete`, and leave the group. Where Stopped ends
    the block, its reason is a note; where an error of torch does, the rank is named and
    `report.failed` is set."""
    try:
        yield
        report.complete = True
    except Stopped as stopped:
        if job.rank == 0:
            report.note(f"{stopped}, after {len(report.rows)} rows")
    except (RuntimeError, NotImplementedError) as error:
        advice = "; use a smaller payload" if is_out_of_memory(error) else ""
        print(f"rank {job.rank} failed: {first_line(error)}{advice}", file=sys.stderr)
        report.failed = True
        return  # the other ranks may be waiting: leaving in order could wait for them
    leave_ranks(job)


def exit_status(report: Report, stop: Stop, *, usable: bool = True) -> int:
    """Save the JSON; 1 where the numbers are not usable, a rank failed, or a signal ended it."""
    report.save()
    return int(report.failed or not usable or (stop.by_signal and not report.complete))


def gather(job: Job, value: Any) -> list[Any]:
    """The value of every rank, on every rank, in rank order (all_gather_object needs NumPy)."""
    torch, distributed = job.torch, job.torch.distributed
    data = pickle.dumps(value)
    length = torch.tensor([len(data)], dtype=torch.int64, device=job.device)
    lengths = [torch.zeros_like(length) for _ in range(job.size)]
    distributed.all_gather(lengths, length)
    sizes = [int(one.item()) for one in lengths]
    mine = torch.frombuffer(bytearray(data.ljust(max(sizes), b"\0")), dtype=torch.uint8)
    theirs = [torch.empty_like(mine, device=job.device) for _ in range(job.size)]
    distributed.all_gather(theirs, mine.to(job.device))
    return [
        pickle.loads(bytes(one[:size].tolist())) for size, one in zip(sizes, theirs, strict=True)
    ]


def first_line(error: BaseException) -> str:
    """The first line of an error, without C++ source positions and addresses of hosts."""
    text = (str(error).strip().splitlines() or [type(error).__name__])[0]
    text = re.sub(r"\[[^\]]*\.(?:cc|cpp|h):\d+\]\s*", "", text)
    return re.sub(r"\[?(?:\d{1,3}\.){3}\d{1,3}\]?(?::\d+)?", "a host", text)[:120]
