"""Times `bindery fill --check` of a book with much evidence, on one core, beyond start-up.

usage: python build/bench/evidence.py [--records N] [--views N] [--runs N] [--profile]

The book has 1,000 records of 8 rows and 25 columns, and 100 views that its chapters quote: some
over records, some over published figures, with joins and aggregates. Start-up is the same command
on a book without evidence. Both are run in turn, whole processes from start to exit; the answer is
the difference of their medians.
"""

from __future__ import annotations

import argparse
import cProfile
import os
import pstats
import random
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import msgspec
from bindery.evidence.records import Record, format_record

GOAL_SECONDS = 1.0
ROWS = 8
TOOLS = 5
RECORDS_PER_MACHINE = 20
VIEWS_PER_CHAPTER = 5
FIGURES = 60
TOOL = """METHOD = 1
COMPARE = {
    "keys": ["dtype", "payload_bytes"],
    "value": "bytes_per_second_median",
    "better": "higher",
    "spread": "spread",
    "member": "device",
    "trusted": {"verdict": ["ok"]},
    "alike": ["details.settings.iterations"],
}
"""
GPUS = ("NVIDIA A100", "NVIDIA H100", "NVIDIA H200", "AMD Instinct MI300X", "Intel Gaudi 3")


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--records", type=int, default=1000)
    parser.add_argument("--views", type=int, default=100)
    parser.add_argument("--runs", type=int, default=5, help="pairs of runs")
    parser.add_argument("--profile", action="store_true", help="print where the time goes too")
    options = parser.parse_args()
    if min(options.records, options.views, options.runs) < 1:
        parser.error("--records, --views and --runs count from 1")
    with tempfile.TemporaryDirectory(prefix="bindery-evidence-") as name:
        full, empty = Path(name) / "full", Path(name) / "empty"
        write_book(full, options.records, options.views)
        write_book(empty, 0, 0)
        bindery = [sys.executable, "-m", "bindery"]
        subprocess.run([*bindery, "fill", "--root", str(full)], check=True, capture_output=True)
        fill = [*bindery, "fill", "--check", "--root"]
        seconds: dict[str, list[float]] = {"full": [], "empty": []}
        for _ in range(options.runs):
            for book in (full, empty):
                seconds[book.name].append(time_command([*fill, str(book)]))
        if options.profile:
            print_profile(full)
    start_up, whole = (statistics.median(seconds[name]) for name in ("empty", "full"))
    beyond = whole - start_up
    print(
        f"{options.records} records, {options.views} views: {beyond:.2f} s beyond a start-up of "
        f"{start_up:.2f} s (fastest {min(seconds['full']) - min(seconds['empty']):.2f} s, "
        f"{options.runs} runs); goal {GOAL_SECONDS:.1f} s"
    )
    return int(beyond > GOAL_SECONDS)


def time_command(command: list[str]) -> float:
    """Seconds that a command takes on one core. A command that fails ends the benchmark."""
    pin = (lambda: os.sched_setaffinity(0, {0})) if hasattr(os, "sched_setaffinity") else None
    started = time.perf_counter()
    done = subprocess.run(command, check=False, capture_output=True, text=True, preexec_fn=pin)
    seconds = time.perf_counter() - started
    if done.returncode:
        sys.exit(f"ended with {done.returncode}:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return seconds


def print_profile(book: Path) -> None:
    from bindery.check.inspect import inspect_book

    profile = cProfile.Profile()
    profile.runcall(inspect_book, book)
    pstats.Stats(profile).sort_stats("cumulative").print_stats(45)
    pstats.Stats(profile).sort_stats("tottime").print_stats(25)


# --- the book ---


def write_book(root: Path, records: int, views: int) -> None:
    """A book with so much evidence, the same each time, its tables still empty."""
    chance = random.Random(0)
    chapters = [f"chapter{n}.md" for n in range(max(1, -(-views // VIEWS_PER_CHAPTER)))]
    lines = ["title: A book", "tools:"] if records else ["title: A book"]
    for tool in range(TOOLS if records else 0):
        lines += [f"  tool{tool}: {{path: tool{tool}.py, output: measured, shelf_life: 50 years}}"]
        write(root / f"tool{tool}.py", TOOL)
    lines += ["rules: {unused-record: off}", "parts:", "  - chapters:"]
    write(root / "chapters.yaml", "\n".join([*lines, *(f"      - {c}" for c in chapters), ""]))
    names = []
    for number in range(records):
        tool = f"tool{number % TOOLS}"
        record = make_record(chance, tool, number)
        name = f"{tool}/{record.machine.label}_{number:05d}"
        names.append(name)
        write(root / f"scripts/records/{name}.json", format_record(record))
    if views:
        write_data(root, chance)
    for number in range(views):
        write(root / f"views/view{number}.sql", make_view(number, names))
    for number, chapter in enumerate(chapters):
        body = [f"# Chapter {number}"]
        for view in range(number * VIEWS_PER_CHAPTER, min(views, (number + 1) * VIEWS_PER_CHAPTER)):
            body += ["", f"## Table {view}", "", "What was measured.", ""]
            body += [f"<!-- table: view{view} -->", "<!-- /table -->"]
        write(root / chapter, "\n".join([*body, ""]))


def make_record(chance: random.Random, tool: str, number: int) -> Record:
    """A record as the tools leave them: 8 rows of 25 columns, and what stands around them."""
    gpu = GPUS[number // RECORDS_PER_MACHINE % len(GPUS)]
    rows = [make_row(chance, index) for index in range(ROWS)]
    day = f"20{20 + number % 6}-{1 + number % 12:02d}-{1 + number % 28:02d}"
    accelerator = {
        "vendor": gpu.split()[0].lower(),
        "model": gpu,
        "memory_bytes": 85899345920,
        "power_limit_watts": 700.0,
        "clock_max_hertz": 1980000000,
        "throttle_reasons": [],
        "driver": "580.65.06",
        "source": "nvml",
    }
    data = {
        "schema": 2,
        "tool": tool,
        "version": "0.1.0",
        "method": 1,
        "sha256": f"{number:064x}",
        "profile": "full",
        "command": ["python", f"{tool}.py", "--sizes", *map(str, range(ROWS))],
        "environment": {"NCCL_DEBUG": "WARN", "OMP_NUM_THREADS": "8"},
        "started": f"{day}T{number % 24:02d}:00:00Z",
        "seconds": 61.25,
        "exit_status": 0,
        "ended": "done",
        "complete": True,
        "nodes": 1 + number % 4,
        "ranks": 8 * (1 + number % 4),
        "machine": {
            "label": f"{gpu.split()[-1].lower()}-x8",
            "cpu": {"model": "AMD EPYC 9654", "sockets": 2, "cores": 192, "threads": 384},
            "memory_bytes": 1622723702784,
            "accelerators": [accelerator] * 8,
            "kernel": "6.8.0",
            "os": "Ubuntu 24.04",
        },
        "software": {"python": "3.12.3", "torch": "2.13.0", "cuda": "13.0", "nccl": "2.28.3"},
        "units": {key: unit_of(key) for key in rows[0] if unit_of(key)},
        "results": rows,
        "details": {"settings": {"iterations": 100, "warmup": 50}},
        "caveats": ["clocks were sampled every 0.1 s"],
        "seal": {},
    }
    return msgspec.convert(data, Record)


def make_row(chance: random.Random, index: int) -> dict[str, object]:
    seconds = chance.uniform(0.9, 1.1) * 1e-3 * 2**index
    row: dict[str, object] = {
        "dtype": "bfloat16",
        "device": f"cuda:{index % 8}",
        "verdict": "ok",
        "steady": True,
        "answer_ok": True,
        "throttle_reasons": None,
        "payload_bytes": 2 ** (20 + index),
        "samples": 100,
    }
    for statistic in ("median", "mean", "min", "max"):
        row[f"seconds_{statistic}"] = seconds * chance.uniform(0.99, 1.01)
        row[f"bytes_per_second_{statistic}"] = 2 ** (20 + index) / seconds
        row[f"flops_per_second_{statistic}"] = 1e12 / seconds
    for name in ("spread", "drift", "answer_error"):
        row[name] = chance.uniform(0, 0.01)
    row["clock_hertz"] = 1.98e9
    row["power_watts"] = chance.uniform(500, 700)
    return row


def unit_of(column: str) -> str:
    """The base unit of a column of the rows above; empty for text and truth."""
    for start, unit in (
        ("seconds", "s"),
        ("bytes_per", "B/s"),
        ("flops_per", "FLOP/s"),
        ("payload", "B"),
        ("samples", "1"),
        ("spread", "1"),
        ("drift", "1"),
        ("answer_error", "1"),
        ("clock", "Hz"),
        ("power", "W"),
    ):
        if column.startswith(start):
            return unit
    return ""


def write_data(root: Path, chance: random.Random) -> None:
    """Published figures: what each accelerator is said to reach."""
    lines = ["name,memory,peak,source,date,class"]
    for number in range(FIGURES):
        name = GPUS[number] if number < len(GPUS) else f"Accelerator {number}"
        peak = chance.randrange(100, 2500)
        lines.append(f"{name},{16 + number},{peak},https://example.org/{number},2026-01-02,vendor")
    write(root / "data/accelerators.csv", "\n".join([*lines, ""]))
    columns = {
        "name": "{type: text, description: as the vendor calls it}",
        "memory": "{type: number, unit: GB, description: capacity}",
        "peak": "{type: number, unit: TFLOPS, description: dense peak}",
        "source": "{type: url, description: where it stands}",
        "date": "{type: date, description: when it was read}",
        "class": "{type: text, description: of what kind it is}",
    }
    schema = ["title: Accelerators", "columns:", *(f"  {k}: {v}" for k, v in columns.items()), ""]
    write(root / "data/accelerators.yaml", "\n".join(schema))


def make_view(number: int, records: list[str]) -> str:
    """Four kinds of tables in turn: one record, the newest records, a join, published figures."""
    tool = f"tool{number % TOOLS}"
    mine = [name for name in records if name.startswith(f"{tool}/")]
    name = mine[number % len(mine)] if mine else f"{tool}/none"
    title = f"-- title: Table {number}\n"
    match number % 4 if mine else 3:
        case 0:
            return title + (
                "-- column payload: Payload [MiB] .0\n-- column rate: Bandwidth [GBps] .1\n"
                "-- column spread: Spread [%] .1\n"
                "SELECT payload_bytes / 1048576.0 AS payload,\n"
                "  bytes_per_second_median / 1e9 AS rate, 100 * spread AS spread\n"
                f"FROM {tool} WHERE record = '{name}' ORDER BY payload_bytes\n"
            )
        case 1:
            return title + (
                "-- column hardware: Hardware\n-- column best: Best [TFLOPS] .1\n"
                "-- column runs: Runs\n"
                "SELECT r.hardware, max(t.flops_per_second_median) / 1e12 AS best,\n"
                "  count(DISTINCT r.record) AS runs\n"
                f"FROM {tool} AS t JOIN records AS r ON r.record = t.record\n"
                "WHERE r.newest AND r.complete GROUP BY r.hardware ORDER BY r.hardware\n"
            )
        case 2:
            return title + (
                "-- column name: Accelerator\n-- column reached: Reached [TFLOPS] .1\n"
                "-- column share: Share of peak [%] .1\n"
                "WITH best AS (SELECT r.accelerator AS name,\n"
                "  avg(t.flops_per_second_mean) / 1e12 AS reached\n"
                f"  FROM {tool} AS t JOIN records AS r ON r.record = t.record\n"
                "  WHERE r.newest AND t.verdict = 'ok' GROUP BY r.accelerator)\n"
                "SELECT b.name, b.reached, 100 * b.reached / a.peak AS share\n"
                "FROM best AS b JOIN accelerators AS a ON a.name = b.name ORDER BY b.name\n"
            )
        case _:
            return title + (
                "-- column name: Accelerator\n-- column memory: Memory [GB] .0\n"
                "-- column knee: Knee [FLOP/B] .1\n"
                "SELECT name, memory, peak * 1.0 / memory AS knee FROM accelerators\n"
                f"WHERE memory > {number % 20} ORDER BY name\n"
            )


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
