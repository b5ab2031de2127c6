#!/usr/bin/env python3
# /// script
# requires-python = ">=3.11"
# dependencies = ["torch>=2.6"]
# ///
"""How does one rank download or tokenize the data while the others wait for it?

    from main_process_first import main_process_first

    with main_process_first():          # files that all nodes see: rank 0 first
        dataset = load_and_prepare("/shared/data")
    with main_process_first("node"):    # files on each node's own disk: local rank 0 first
        dataset = load_and_prepare("/scratch/data")

The first rank runs the block; then the others run it, and find what the first one made. They wait
on the store at MASTER_ADDR:MASTER_PORT, not in a barrier, so no NCCL timeout ends a long
preparation. An error in the first rank is raised in the waiting ranks too. If it is killed, the
launcher has to end the others (torchrun does; srun with `--kill-on-bad-exit`).

## How to run

Copy this file next to your script. torchrun sets what it reads; srun needs two more variables:

    MASTER_ADDR=$(scontrol show hostnames $SLURM_JOB_NODELIST | head -n 1) MASTER_PORT=29500 \\
        srun --kill-on-bad-exit python train.py

Exit status of --demo: 0 the right rank went first, 1 not, 2 usage error.
"""

import argparse
import collections
import contextlib
import functools
import multiprocessing
import os
import socket
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

__version__ = "0.2.0"
entries: collections.Counter[str] = collections.Counter()


@contextlib.contextmanager
def main_process_first(scope: str = "global") -> Iterator[bool]:
    """Run the block on rank 0 ("global") or local rank 0 of each node ("node"), then on the others;
    the block gets True where it runs first. Raises RuntimeError where the first rank failed."""
    names = ("RANK", "WORLD_SIZE", "LOCAL_RANK")
    if "RANK" not in os.environ:
        names = ("SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID")
    if "MASTER_ADDR" not in os.environ or names[0] not in os.environ:  # without a launcher
        yield True
        return
    rank, size, local_rank = (int(os.environ[name]) for name in names)
    store = connect(rank, size)
    node = f"{socket.gethostname()} {os.environ.get('GROUP_RANK')}" if scope == "node" else ""
    entries[scope] += 1
    key = f"main_process_first {scope} {node} {entries[scope]}"
    if (local_rank if scope == "node" else rank) == 0:
        try:
            yield True
        except BaseException as error:
            store.set(key, f"{type(error).__name__}: {error}")
            raise
        store.set(key, "")
        return
    while not store.check([key]):
        time.sleep(max(0.05, size / 2000))  # all ranks together ask 2,000 times per second
    if failure := store.get(key).decode():
        raise RuntimeError(f"the first rank ({scope}) failed: {failure}")
    yield False


@functools.cache
def connect(rank: int, size: int) -> Any:
    """The job's store, the one of init_process_group: torchrun hosts it, or rank 0."""
    from torch.distributed import PrefixStore, TCPStore

    hosts = rank == 0 and os.environ.get("TORCHELASTIC_USE_AGENT_STORE") != "True"
    address = os.environ["MASTER_ADDR"], int(os.environ.get("MASTER_PORT", "29500"))
    store = TCPStore(*address, size, hosts, wait_for_workers=False, multi_tenant=True)
    return PrefixStore(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0"), store)


def run_demo_rank(rank: int, port: int, folder: str) -> None:
    """Be one of two ranks, and print what this rank finds."""
    os.environ |= {"RANK": str(rank), "WORLD_SIZE": "2", "LOCAL_RANK": str(rank)}
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    os.environ.pop("TORCHELASTIC_USE_AGENT_STORE", None)  # of a torchrun that started the demo
    data = Path(folder) / "data"
    with main_process_first() as is_first:
        if not data.exists():
            data.write_text(f"made by rank {rank}")
        print(f"rank {rank}: first {is_first}, the data was {data.read_text()}")
        if is_first != (rank == 0) or data.read_text() != "made by rank 0":
            raise SystemExit(1)


def main() -> int:
    raw = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser("main_process_first.py", None, __doc__, formatter_class=raw)
    parser.add_argument("--version", action="version", version=f"main_process_first {__version__}")
    parser.add_argument("--demo", action="store_true", required=True, help="show it with 2 ranks")
    parser.parse_args()
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    with tempfile.TemporaryDirectory() as folder:
        fork = multiprocessing.get_context("fork")
        other = fork.Process(target=run_demo_rank, args=(1, port, folder))
        other.start()
        run_demo_rank(0, port, folder)  # this process: it hosts the store, and ends last
        other.join()
    return other.exitcode


if __name__ == "__main__":
    raise SystemExit(main())
