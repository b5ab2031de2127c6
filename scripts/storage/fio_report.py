#!/usr/bin/env python3
# /// script
# requires-python = ">=3.11"
# dependencies = []
# ///
r"""What do these results of fio say, and how do they stand beside each other?

Reads the JSON of one or several runs of fio (--output-format=json or json+) and prints Markdown
tables: one row for each job and direction of a single file; for several files one table for each
quantity, with a column for each file.

Physics
    bandwidth = operations per second * block size, and by Little's law
    operations per second * latency = requests in flight.
    Hand check: 1000 reads a second of 4096 bytes are 4.1 MB/s.
What is read
    fio 2 (latencies in µs, bytes in KiB) and fio 3 (ns, bytes), jobs of a client and server run,
    files with several results, with warnings before, between or after the JSON, and with the nan
    and inf that some versions write. Latency is from submission to completion (clat).
What is added up and what is not
    Jobs of one name in one group that ran at the same time become one row: rates added, mean
    latency over all requests, percentiles from the histograms of json+, else a dash. Jobs that
    did not run at the same time stay apart and are named: the sum of their rates is the rate of
    nothing. Rows of runs without direct I/O say `buffered`: they hold the page cache's numbers.

How to run
    one             python fio_report.py run.json
    side by side    python fio_report.py nvme.json shared.json --json both.json
    each job        python fio_report.py run.json --each_job
    straight on     fio --output-format=json+ job.fio | python fio_report.py -
    Slurm, pdsh     not needed: it only reads files. Many nodes: each writes its JSON to a shared
                    folder, then  python fio_report.py /shared/node*.json

A good answer: every row direct and without error, jobs that ran together, p99 latencies not more
than some times the median.

Exit status: 0 done, 1 a file without results, a job that failed, or jobs that were not
simultaneous, 2 wrong use.
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
import re
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

__version__ = "0.1.0"
METHOD = 1

# Plain literals: a runner reads them without importing this file.
# fmt: off
PROFILES = {
    "toy": ["--toy"],
    "full": ["run.json"],
}
# fmt: on

# The unit of each column of the JSON's results that holds numbers.
UNITS = {
    "jobs": "1",
    "iodepth": "1",
    "block_bytes": "B",
    "bytes": "B",
    "seconds": "s",
    "requests": "1",
    "bytes_per_second": "B/s",
    "requests_per_second": "1/s",
    "latency_seconds_mean": "s",
    "latency_seconds_p50": "s",
    "latency_seconds_p99": "s",
}

DIRECTIONS = ("read", "write", "trim", "mixed")
# Jobs whose times differ by more than this, in share and in seconds, did not run together.
SIMULTANEOUS_SHARE = 0.9
SIMULTANEOUS_SLACK = 0.25
# The name of what comes from a pipe.
PIPE = Path("-")

Row = dict[str, Any]


class WrongUse(Exception):
    """The command line asks for what this tool or this device cannot do; exit status 2."""


class Source(NamedTuple):
    """One input: what it is called in the tables, and its text."""

    label: str
    text: str


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


def print_to_stdout(text: str) -> bool:
    """Print at once; False, with a line that says so, where stdout could not be written."""
    try:
        print(text, flush=True)
    except OSError as error:
        # Python would write once more what is left, as it ends: that goes nowhere now.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        print(f"problem: stdout could not be written: {error.strerror}", file=sys.stderr)
        return False
    return True


def write_note(text: str) -> None:
    """One note for the reader, beside the table."""
    print(f"note: {text}", file=sys.stderr)


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


def parse_fio_text(text: str) -> tuple[list[dict[str, Any]], list[str]]:
    """The results of fio in a text, and the lines around them: warnings, progress, shell noise.

    fio's warnings may stand before or after the JSON, and a file may hold several results. `nan`
    and `inf`, which some versions write and JSON does not have, become null.
    """
    healed = re.sub(r'("\s*:\s*)-?(?:nan|inf(?:inity)?)\b', r"\1null", text, flags=re.IGNORECASE)
    decoder = json.JSONDecoder()
    documents: list[dict[str, Any]] = []
    around: list[str] = []
    place = 0
    for found in re.finditer(r"^\s*\{", healed, re.MULTILINE):
        if found.start() < place:
            continue
        try:
            document, end = decoder.raw_decode(healed, found.end() - 1)
        except ValueError:
            continue
        if isinstance(document, dict) and ("jobs" in document or "client_stats" in document):
            around += healed[place : found.start()].splitlines()
            documents.append(document)
            place = end
    around += healed[place:].splitlines()
    return documents, [line.strip() for line in around if line.strip()]


def list_fio_jobs(document: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The jobs of a result; of a client and server run those of all clients, not their sum."""
    jobs = document.get("jobs") or document.get("client_stats")
    if not isinstance(jobs, list):
        return []
    return [job for job in jobs if isinstance(job, dict) and job.get("jobname") != "All clients"]


def read_fio_direction(job: Mapping[str, Any], direction: str) -> Row | None:
    """Bytes, rates and latencies of one job in one direction, in base units; None: it did none.

    fio 3 counts latencies in ns (`clat_ns`) and bytes in bytes, fio 2 in µs (`clat`) and KiB. The
    latency is that of completion where fio has its percentiles, else the total one.
    """
    numbers = job.get(direction)
    if not isinstance(numbers, dict) or not (numbers.get("io_bytes") or numbers.get("total_ios")):
        return None
    rate = float(numbers.get("bw_bytes") or 1024 * (numbers.get("bw") or 0))
    # Versions that write io_kbytes too count io_bytes in bytes; those before it in KiB.
    moved = float(numbers.get("io_bytes") or 0) * (1 if "io_kbytes" in numbers else 1024)
    latency: Mapping[str, Any] = {}
    unit = 1e-9
    for name, seconds in (("clat_ns", 1e-9), ("lat_ns", 1e-9), ("clat", 1e-6), ("lat", 1e-6)):
        found = numbers.get(name)
        has_more = isinstance(found, dict) and "percentile" in found and "percentile" not in latency
        if isinstance(found, dict) and found.get("mean") and (has_more or not latency):
            latency, unit = found, seconds
    percentiles = {float(key): value for key, value in latency.get("percentile", {}).items()}
    bins = {int(key) * unit: int(count) for key, count in latency.get("bins", {}).items()}
    return {
        "bytes": moved,
        "seconds": float(numbers.get("runtime") or 0) / 1e3,
        "start": job["job_start"] / 1e3 if job.get("job_start") else None,
        "requests": int(numbers.get("total_ios") or 0),
        "bytes_per_second": rate,
        "requests_per_second": float(numbers.get("iops") or 0),
        "latency_seconds_mean": latency["mean"] * unit if latency else None,
        "latency_seconds_p50": percentiles[50.0] * unit if 50.0 in percentiles else None,
        "latency_seconds_p99": percentiles[99.0] * unit if 99.0 in percentiles else None,
        "bins": bins,
    }


def find_bin_percentile(bins: Mapping[float, int], share: float) -> float | None:
    """The value that so great a share of the samples does not exceed, as fio finds it in bins."""
    total = sum(bins.values())
    seen = 0
    for value, count in sorted(bins.items()):
        seen += count
        if seen >= share * total:
            return value
    return None


def find_unsimultaneous(parts: Sequence[Row]) -> str | None:
    """Why the rates of these jobs cannot be added: they did not run at the same time; or None."""
    seconds = [part["seconds"] for part in parts]
    least = min(SIMULTANEOUS_SHARE * max(seconds), max(seconds) - SIMULTANEOUS_SLACK)
    if min(seconds) < least:
        return f"its jobs ran between {min(seconds):.3g} s and {max(seconds):.3g} s"
    starts = [part["start"] for part in parts]
    if all(start is not None for start in starts):
        ends = [part["start"] + part["seconds"] for part in parts]
        shared = max(0.0, min(ends) - max(starts))
        if shared < least:
            return f"its jobs ran together for {shared:.3g} s of {max(seconds):.3g} s"
    return None


def combine_fio_jobs(parts: Sequence[Row], whole_files: bool = False) -> Row:
    """The sum of jobs that ran at the same time: rates added, latencies over all requests.

    With `whole_files` each job had the same amount to do, so that the slowest decides: the rates
    are all bytes and requests over its time. Percentiles of several jobs need their bins.
    """
    bins: dict[float, int] = {}
    for part in parts:
        for value, count in part["bins"].items():
            bins[value] = bins.get(value, 0) + count
    total = {name: sum(part[name] for part in parts) for name in ("bytes", "requests")}
    longest = max(part["seconds"] for part in parts)
    row: Row = {**total, "seconds": longest, "bins": bins}
    for name, amount in (("bytes_per_second", "bytes"), ("requests_per_second", "requests")):
        row[name] = sum(part[name] for part in parts)
        if whole_files:
            row[name] = total[amount] / longest if longest else 0.0
    known = [part for part in parts if part["latency_seconds_mean"] is not None]
    requests = sum(part["requests"] for part in known)
    row["latency_seconds_mean"] = (
        sum(part["latency_seconds_mean"] * part["requests"] for part in known) / requests
        if requests and len(known) == len(parts)
        else None
    )
    for name, share in (("latency_seconds_p50", 0.5), ("latency_seconds_p99", 0.99)):
        if len(parts) == 1:
            row[name] = parts[0][name]
        else:
            whole = bins and all(part["bins"] for part in parts)
            row[name] = find_bin_percentile(bins, share) if whole else None
    return row


def parse_fio_bytes(text: Any) -> int | None:
    """Bytes from an option of fio: `4k`, `4096`, `4KiB`, `1m`, `4k,8k` (the first); None else."""
    found = re.fullmatch(r"(\d+)\s*([kmgt]?)(?:i?b)?", str(text).split(",")[0].strip().lower())
    return int(found[1]) << (10 * " kmgt".index(found[2] or " ")) if found else None


def parse_whole(text: Any) -> int | None:
    """A whole number from an option of fio; None where there is none."""
    return int(text) if isinstance(text, int | str) and str(text).isdigit() else None


def read_options(job: Mapping[str, Any], document: Mapping[str, Any]) -> dict[str, Any]:
    """The options of a job, with those for all jobs below them; empty for versions before 2.99."""
    everywhere = document.get("global options")
    own = job.get("job options")
    return {
        **(everywhere if isinstance(everywhere, dict) else {}),
        **(own if isinstance(own, dict) else {}),
    }


def name_access(options: Mapping[str, Any]) -> str:
    """`direct` or `buffered`; `unknown` for versions of fio that do not write their options."""
    if not options:
        return "unknown"
    if "direct" in options:
        return "direct" if str(options["direct"]) != "0" else "buffered"
    return "direct" if str(options.get("buffered", "1")) == "0" else "buffered"


def make_job_row(
    source: str,
    jobs: Sequence[Mapping[str, Any]],
    direction: str,
    numbers: Row,
    options: Row,
    is_alone: bool,
) -> Row:
    """One row of results: a job, or several that were added up; alone where no other has its name.

    fio does not say whether it has added jobs up (--group_reporting), but one that is alone though
    numjobs is more than 1 is such a sum.
    """
    failed = sorted({os.strerror(job["error"]) for job in jobs if job.get("error")})
    access = name_access(options)
    verdict = "FAILED" if failed else ("ok" if access == "direct" else access)
    many = (parse_whole(options.get("numjobs")) or 1) if is_alone else len(jobs)
    row = {
        "source": source,
        "job": str(jobs[0].get("jobname", "")),
        "direction": direction,
        "pattern": options.get("rw") or options.get("readwrite"),
        "access": access,
        "engine": options.get("ioengine"),
        "jobs": many,
        "iodepth": parse_whole(options.get("iodepth", 1)) if options else None,
        "block_bytes": parse_fio_bytes(options.get("bs", options.get("blocksize", "4k")))
        if options
        else None,
    }
    row |= {name: numbers[name] for name in UNITS if name not in row}
    return row | {"verdict": verdict, "verdict_reason": ", ".join(failed) or None}


def read_document_rows(
    source: str, document: Mapping[str, Any], each_job: bool
) -> tuple[list[Row], list[str]]:
    """The rows of one result of fio, and what is wrong with it."""
    groups: dict[tuple[Any, Any], list[dict[str, Any]]] = {}
    for job in list_fio_jobs(document):
        groups.setdefault((job.get("groupid"), job.get("jobname")), []).append(job)
    rows: list[Row] = []
    problems = [] if groups else [f"{source}: there is no job in this result of fio"]
    for (_, name), jobs in groups.items():
        before = len(rows)
        for direction in DIRECTIONS:
            known = [(job, read_fio_direction(job, direction)) for job in jobs]
            parts = [(job, part) for job, part in known if part is not None]
            if not parts:
                continue
            late = find_unsimultaneous([part for _, part in parts])
            if late and not each_job:
                problems.append(f"{source}, {name}, {direction}: {late}; they are not added up")
            apart = [[pair] for pair in parts] if late or each_job else [parts]
            for pairs in apart:
                of_jobs = [job for job, _ in pairs]
                numbers = combine_fio_jobs([part for _, part in pairs])
                options = read_options(of_jobs[0], document)
                alone = len(jobs) == 1
                rows.append(make_job_row(source, of_jobs, direction, numbers, options, alone))
        if len(rows) == before:
            failed = sorted({os.strerror(job["error"]) for job in jobs if job.get("error")})
            problems.append(f"{source}, {name}: {', '.join(failed) or 'it did nothing'}")
    problems += [
        f"{row['source']}, {row['job']}, {row['direction']}: {row['verdict_reason']}"
        for row in rows
        if row["verdict"] == "FAILED"
    ]
    return rows, problems


def read_results(
    sources: Sequence[Source], each_job: bool
) -> tuple[list[Row], list[str], list[str]]:
    """The rows of all inputs, what is wrong with them, and notes on them."""
    rows: list[Row] = []
    problems: list[str] = []
    notes: list[str] = []
    for source in sources:
        documents, around = parse_fio_text(source.text)
        if not documents:
            problems.append(f"{source.label}: there is no result of fio in it")
            continue
        if around:
            lines = "1 line is" if len(around) == 1 else f"{len(around)} lines are"
            notes.append(f"{source.label}: {lines} no JSON: {around[0][:80]}")
        for number, document in enumerate(documents, 1):
            label = source.label if len(documents) == 1 else f"{source.label} #{number}"
            found, wrong = read_document_rows(label, document, each_job)
            rows += found
            problems += wrong
    return rows, problems, notes


def format_bandwidth(row: Row) -> str:
    """MB/s to about one part in a hundred: one run does not earn more."""
    return format_earned(row["bytes_per_second"] / 1e6, row["bytes_per_second"] / 1e8)


def format_operations(row: Row) -> str:
    """Operations per second to about one part in a hundred."""
    return format_earned(row["requests_per_second"], row["requests_per_second"] / 100)


def format_latency(value: float | None) -> str:
    """Milliseconds to about one part in a hundred; a dash where fio did not say."""
    return format_earned(None if value is None else 1e3 * value, (value or 0.0) * 10)


def format_jobs(rows: Sequence[Row]) -> str:
    """The table of one file: a row for each job and direction."""
    head = ["job", "jobs", "depth", "s", "MB/s", "IOPS", "mean ms", "p50 ms", "p99 ms", "verdict"]
    cells = [
        [
            f"{row['job']}, {row['direction']}",
            str(row["jobs"]),
            "-" if row["iodepth"] is None else str(row["iodepth"]),
            format_earned(row["seconds"], row["seconds"] / 100),
            format_bandwidth(row),
            format_operations(row),
            *(format_latency(row[f"latency_seconds_{name}"]) for name in ("mean", "p50", "p99")),
            row["verdict"],
        ]
        for row in rows
    ]
    return format_table(head, cells)


def label_rows(rows: Sequence[Row]) -> list[tuple[str, Row]]:
    """Each row with the name of its line; a number where a source has the name already."""
    seen: dict[tuple[str, str], int] = {}
    labelled = []
    for row in rows:
        name = f"{row['job']}, {row['direction']}"
        seen[row["source"], name] = seen.get((row["source"], name), 0) + 1
        count = seen[row["source"], name]
        labelled.append((name if count == 1 else f"{name} #{count}", row))
    return labelled


def format_side_by_side(rows: Sequence[Row]) -> str:
    """Four tables: bandwidth, operations, mean and p99 latency; a column for each source."""
    labelled = label_rows(rows)
    sources = list(dict.fromkeys(row["source"] for row in rows))
    lines = list(dict.fromkeys(name for name, _ in labelled))
    cells = {(name, row["source"]): row for name, row in labelled}
    tables = []
    for title, show in (
        ("MB/s", format_bandwidth),
        ("IOPS", format_operations),
        ("mean ms", lambda row: format_latency(row["latency_seconds_mean"])),
        ("p99 ms", lambda row: format_latency(row["latency_seconds_p99"])),
    ):
        body = [
            [name, *(show(cells[name, s]) if (name, s) in cells else "-" for s in sources)]
            for name in lines
        ]
        tables.append(format_table([title, *sources], body))
    verdicts = {row["source"]: set[str]() for row in rows}
    for row in rows:
        verdicts[row["source"]].add(row["verdict"])
    kinds = [", ".join(sorted(verdicts[source])) for source in sources]
    tables.append(format_table(["verdict", *sources], [["all jobs", *kinds]]))
    return "\n\n".join(tables)


def label_paths(paths: Sequence[Path]) -> list[str]:
    """The shortest ends of the paths that tell them apart: of equal names also the folders."""
    labels = []
    for path in paths:
        depth = 1
        ends = [other.parts[-depth:] for other in paths]
        while ends.count(path.parts[-depth:]) > 1 and depth < len(path.parts):
            depth += 1
            ends = [other.parts[-depth:] for other in paths]
        label = "/".join(part for part in path.parts[-depth:] if part != "/")
        labels.append(label.removesuffix(".json"))
    return labels


def read_inputs(paths: Sequence[Path]) -> list[Source]:
    """The texts of all inputs. Raises WrongUse where one cannot be read."""
    if len(set(paths)) != len(paths):
        raise WrongUse("a file is given twice")
    sources = []
    for path, label in zip(paths, label_paths(paths), strict=True):
        try:
            text = (
                sys.stdin.read()
                if path == PIPE
                else path.read_text(encoding="utf-8", errors="replace")
            )
        except OSError as error:
            raise WrongUse(f"could not read {path}: {error.strerror}") from error
        sources.append(Source("stdin" if path == PIPE else label, text))
    return sources


# Made up, in the form of fio 3 and of fio 2.
SAMPLE_3 = """note: both iodepth >= 1 and synchronous I/O engine are selected
{
  "fio version" : "fio-3.36",
  "global options" : {"direct" : "1", "bs" : "4k"},
  "jobs" : [
    {"jobname" : "toy", "groupid" : 0, "error" : 0,
     "job options" : {"rw" : "randread", "iodepth" : "16"},
     "read" : {"io_bytes" : 40960000, "io_kbytes" : 40000, "bw_bytes" : 4096000, "bw" : 4000,
       "iops" : 1000.0, "runtime" : 10000, "total_ios" : 10000, "bw_dev" : nan,
       "clat_ns" : {"min" : 900, "max" : 90000, "mean" : 2000.0, "N" : 10000,
         "percentile" : {"50.000000" : 1900, "99.000000" : 9000}}},
     "write" : {"io_bytes" : 0, "total_ios" : 0}}
  ]
}
"""
SAMPLE_2 = """{
  "fio version" : "fio-2.2.10",
  "jobs" : [
    {"jobname" : "toy", "groupid" : 0, "error" : 0,
     "read" : {"io_bytes" : 20000, "bw" : 2000, "iops" : 500.0, "runtime" : 10000,
       "total_ios" : 5000,
       "clat" : {"min" : 1, "max" : 90, "mean" : 4.0,
         "percentile" : {"50.000000" : 3, "99.000000" : 18}}},
     "write" : {"io_bytes" : 0, "bw" : 0, "iops" : 0.0, "runtime" : 0, "total_ios" : 0}}
  ]
}
fio: terminating on signal 2
"""


def run_self_test() -> int:
    """Check reading of old and new results, sums and refusals; 0, or 1 where a check fails."""
    checks: list[tuple[str, bool]] = []

    def check(name: str, passed: bool) -> None:
        checks.append((name, passed))
        print(f"{'ok    ' if passed else 'FAILED'} {name}", file=sys.stderr)

    rows, problems, notes = read_results(
        [Source("three", SAMPLE_3), Source("two", SAMPLE_2)], each_job=False
    )
    check("two results, each with a line that is no JSON", len(rows) == len(notes) == 2)
    check("nothing is wrong with them", not problems)
    three, two = rows
    check("fio 3: 4.096 MB/s", three["bytes_per_second"] == 4_096_000)
    check("fio 2: 2000 KiB/s are 2.048 MB/s", two["bytes_per_second"] == 2_048_000)
    check("fio 2: 20000 KiB are 20.48 MB", two["bytes"] == 20_480_000)
    check("fio 3: 9000 ns", math.isclose(three["latency_seconds_p99"], 9e-6))
    check("fio 2: 18 us", math.isclose(two["latency_seconds_p99"], 18e-6))
    check("options of all jobs count", (three["block_bytes"], three["access"]) == (4096, "direct"))
    check("unknown options are said to be", two["access"] == two["verdict"] == "unknown")
    document = json.loads(SAMPLE_3[SAMPLE_3.index("{") :].replace("nan", "null"))
    late = json.loads(json.dumps(document["jobs"][0]))
    late["read"]["runtime"] = 4000
    found, wrong = read_document_rows("x", {**document, "jobs": [*document["jobs"], late]}, False)
    check("jobs of 10 s and 4 s are not added up", len(found) == 2 and len(wrong) == 1)
    again, none = read_document_rows("x", {**document, "jobs": 2 * document["jobs"]}, False)
    check(
        "jobs that ran together are",
        not none and again[0]["bytes_per_second"] == 2 * 4_096_000 and again[0]["jobs"] == 2,
    )
    failed = sum(not passed for _, passed in checks)
    print(f"self-test: {len(checks) - failed} of {len(checks)} checks passed", file=sys.stderr)
    return 1 if failed else 0


def build_parser() -> argparse.ArgumentParser:
    """The command line of this tool, for its own use and for checkers of documentation."""
    parser = argparse.ArgumentParser(
        prog="fio_report.py",
        description="Turn JSON of fio into Markdown tables, several results side by side.",
        epilog="The docstring at the top of this file tells what is read and added up.",
        allow_abbrev=False,
    )
    parser.add_argument(
        "files", nargs="*", type=Path, metavar="FILE", help="JSON of fio; - for standard input"
    )
    parser.add_argument(
        "--each_job", action="store_true", help="a row for each job, even if they ran together"
    )
    parser.add_argument("--json", type=Path, metavar="PATH", help="write the results as JSON")
    parser.add_argument("--toy", action="store_true", help="read two results that are built in")
    parser.add_argument("--self-test", action="store_true", help="check this tool, then stop")
    parser.add_argument(
        "--version", action="version", version=f"fio_report {__version__} (method {METHOD})"
    )
    return parser


def main(arguments: list[str] | None = None) -> int:
    """Run the tool; the exit status."""
    origin = time.monotonic()
    arguments = sys.argv[1:] if arguments is None else arguments
    parser = build_parser()
    options = parser.parse_args(arguments)
    try:
        if options.self_test:
            if arguments != ["--self-test"]:
                raise WrongUse("--self-test takes no other option")
            return run_self_test()
        check_json_path(options.json)
        if options.toy == bool(options.files):
            raise WrongUse("name the JSON files of fio, or - for standard input, or give --toy")
        toy = [Source("fio-3", SAMPLE_3), Source("fio-2", SAMPLE_2)]
        sources = toy if options.toy else read_inputs(options.files)
        rows, problems, notes = read_results(sources, options.each_job)
        several = len({row["source"] for row in rows}) > 1
        format_rows = format_side_by_side if several else format_jobs
        is_printed = not rows or print_to_stdout(format_rows(rows))
        for text in notes:
            write_note(text)
        for text in problems:
            print(f"problem: {text}", file=sys.stderr)
        if options.json:
            command = make_portable_command(arguments)
            head = make_document_head("fio_report", (__version__, METHOD), command, origin)
            document = {
                **head,
                "complete": True,
                "units": UNITS,
                "results": rows,
                "caveats": [*problems, *notes],
                "details": {"sources": [source.label for source in sources]},
            }
            write_document(options.json, document)
    except WrongUse as error:
        parser.error(str(error))
    except KeyboardInterrupt:  # while waiting for standard input
        print("stopped", file=sys.stderr)
        return 1
    return 0 if is_printed and not problems else 1


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
