#!/usr/bin/env python3
# /// script
# requires-python = ">=3.11"
# dependencies = []
# ///
r"""What do these fio results say, and how do they compare?

Reads the JSON of one or more runs of fio 3 (`--output-format=json` or `json+`) and prints one
Markdown table: a row per job, direction and file, with the files of one job below each other.
Warnings around the JSON do not matter, nor do several results in one file, or fio's client mode.

## What is added up

Jobs of one name and group that ran at the same time become one row: rates are added, the mean
latency (clat) is over all requests, percentiles come from the histograms of json+ (a dash without
them). Jobs that did not run at the same time keep their own rows and are named as a problem,
because the sum of their rates means nothing.

Files that fio_scan kept (`NAME.run1.json`) are repeats of one load: their row shows the medians.

## How to run

    python fio_report.py run.json
    python fio_report.py nvme.json shared.json --json both.json
    python fio_report.py run.json --each-job    # a row per job, even if they ran together
    python fio_scan.py /mnt/shared --keep runs; python fio_report.py runs/*.json
    fio --output-format=json+ job.fio | python fio_report.py -

## A good answer

Every row is `ok`: direct I/O and no error. `buffered` rows measure the page cache.

Exit status: 0 done; 1 a file without results, a job that failed, or jobs that did not run at the
same time; 2 usage error.
"""

import os
import re
import statistics
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from kit.cli import Parser, UsageError, start
from kit.fio import add_jobs, explain_not_simultaneous, list_jobs, parse_fio, read_job, round_digits
from kit.report import Report, Row, format_bytes, format_table

__version__ = "0.2.0"

PROFILES = {"demo": ["--demo"], "full": ["run.json"]}
DEMO = """note: both iodepth >= 1 and synchronous I/O engine are selected
{"fio version" : "fio-3.36", "global options" : {"direct" : "1", "bs" : "4k"}, "jobs" : [
  {"jobname" : "demo", "groupid" : 0, "error" : 0, "job options" : {"rw" : "randread"},
   "read" : {"io_bytes" : 40960000, "bw_bytes" : 4096000, "iops" : 1000.0, "runtime" : 10000,
             "total_ios" : 10000, "bw_dev" : nan,
             "clat_ns" : {"mean" : 2000.0, "percentile" : {"50.000000" : 2000, "99.000000" : 9000},
                          "bins" : {"2000" : 9800, "9000" : 200}}}},
  {"jobname" : "demo", "groupid" : 0, "error" : 0, "job options" : {"rw" : "randread"},
   "read" : {"io_bytes" : 81920000, "bw_bytes" : 8192000, "iops" : 2000.0, "runtime" : 10000,
             "total_ios" : 20000,
             "clat_ns" : {"mean" : 1400.0, "percentile" : {"50.000000" : 1000, "99.000000" : 2000},
                          "bins" : {"1000" : 18000, "2000" : 2000}}}}
]}
slurmstepd: error: not from fio
"""
DEMO_ANSWER = {"jobs": 2, "bytes_per_second": 12_288_000.0, "requests_per_second": 3000.0}
"""4.096 and 8.192 MB/s together, and 3000 requests per second of 4096 bytes."""


def read_result(
    source: str, document: Mapping[str, Any], each_job: bool
) -> tuple[list[Row], list[str]]:
    """The rows of one result of fio, and what is wrong with it."""
    groups: dict[tuple[Any, Any], list[dict[str, Any]]] = {}
    for job in list_jobs(document):
        groups.setdefault((job.get("groupid"), job.get("jobname")), []).append(job)
    rows: list[Row] = []
    problems = [] if groups else [f"{source}: this result of fio has no job"]
    for (_, name), jobs in groups.items():
        errors = sorted({os.strerror(job["error"]) for job in jobs if job.get("error")})
        count = len(rows)
        for direction in ("read", "write", "trim", "mixed"):
            parts = [part for job in jobs if (part := read_job(job, direction))]
            late = explain_not_simultaneous(parts) if parts else None
            if late and not each_job:
                problems.append(f"{source}, {name}, {direction}: {late}; they are not added")
            for added in [[part] for part in parts] if late or each_job else [parts]:
                if added:
                    own = jobs[0].get("job options", {})
                    row = describe_job(document.get("global options", {}) | own, len(added))
                    row |= {"source": source, "job": str(name), "direction": direction}
                    row |= {k: v for k, v in add_jobs(added).items() if k != "bins"}
                    verdict = "ok" if row["access"] == "direct" else row["access"]
                    row["verdict"] = "FAILED" if errors else verdict
                    rows.append(row | {"verdict_reason": ", ".join(errors) or None})
        if errors or len(rows) == count:
            problems.append(f"{source}, {name}: {', '.join(errors) or 'it did nothing'}")
    return rows, problems


def describe_job(options: Mapping[str, Any], count: int) -> Row:
    """What fio was asked to do, from the options in its JSON.

    fio does not write whether it has added jobs itself (`--group_reporting`), but a single job
    with `numjobs` above 1 is such a sum.
    """
    direct = str(options.get("direct", "0")) != "0"
    text = str(options.get("bs", options.get("blocksize", "4k")))
    block = re.match(r"(\d+)([kmgt]?)", text, re.I)
    many = str(options.get("numjobs", "1"))
    return {
        "pattern": options.get("rw") or options.get("readwrite"),
        "access": "direct" if direct else "buffered",
        "engine": options.get("ioengine"),
        "jobs": int(many) if count == 1 and many.isdigit() else count,
        "iodepth": int(options.get("iodepth", 1)),
        "block_bytes": block and int(block[1]) << (10 * " kmgt".index(block[2].lower() or " ")),
    }


def print_rows(rows: Sequence[Row]) -> None:
    """Print one table: the files of a job below each other, repeats as one row of medians."""
    groups: dict[tuple[str, str], list[Row]] = {}
    seen: dict[tuple[str, str, str], int] = {}
    for row in rows:
        key = (row["source"], row["job"], row["direction"])
        seen[key] = seen.get(key, 0) + 1
        number = f" #{seen[key]}" if seen[key] > 1 else ""
        load = re.sub(r"\.run\d+$", "", row["source"])
        groups.setdefault((f"{row['job']}, {row['direction']}{number}", load), []).append(row)

    def show(runs: Sequence[Row], column: str, factor: float = 1.0) -> str:
        values = [run[column] for run in runs if run[column] is not None]
        return round_digits(statistics.median(values) if values else None, factor)

    order = {job: number for number, job in enumerate(dict.fromkeys(job for job, _ in groups))}
    cells = [
        (
            load, job, f"{runs[0]['jobs']}x{runs[0]['iodepth']}",
            format_bytes(runs[0]["block_bytes"] or 0), show(runs, "seconds"),
            show(runs, "bytes_per_second", 1e-6), show(runs, "requests_per_second"),
            *(show(runs, f"latency_seconds_{name}", 1e3) for name in ("mean", "p50", "p99")),
            len(runs), ", ".join(sorted({run["verdict"] for run in runs})),
        )
        for (job, load), runs in sorted(groups.items(), key=lambda item: order[item[0][0]])
    ]  # fmt: skip
    headings = ("file", "job", "jobs x depth", "block", "s", "MB/s", "IOPS", "mean ms", "p50 ms",
                "p99 ms", "n", "verdict")  # fmt: skip
    print(format_table(headings, cells))


def read_files(paths: Sequence[Path]) -> list[tuple[str, str]]:
    """Label and text of each file; the label has as many directories as tell the files apart."""
    if len(set(paths)) < len(paths):
        raise UsageError("a file is given twice")
    depth, labels = 0, [""] * len(paths)
    while len(set(labels)) < len(labels) or not depth:
        depth += 1
        labels = ["/".join(path.parts[-depth:]).removesuffix(".json") for path in paths]
    texts = [sys.stdin.read() if str(p) == "-" else p.read_text(errors="replace") for p in paths]
    return list(zip(labels, texts, strict=True))


def build_parser() -> Parser:
    parser = Parser(__doc__, tool="fio_report", version=__version__, demo=PROFILES["demo"])
    add = parser.add_argument
    add("files", nargs="*", type=Path, metavar="FILE", help="JSON of fio; - for standard input")
    add("--each-job", action="store_true", help="a row per job, even if they ran together")
    return parser


def main(arguments: list[str] | None = None) -> int:
    options = build_parser().parse_args(arguments)
    if options.demo == bool(options.files):
        raise UsageError("name JSON files of fio, or - for standard input, or use --demo")
    report = Report("fio_report", __version__, 1, options.json)
    texts = [("demo", DEMO)] if options.demo else read_files(options.files)
    problems = []
    for label, text in texts:
        documents, noise = parse_fio(text)
        if not documents:
            problems.append(f"{label}: no result of fio in it")
        elif noise:
            report.note(f"{label}: {len(noise)} lines are not JSON: {noise[0][:80]}")
        for number, document in enumerate(documents, start=1):
            name = label if len(documents) == 1 else f"{label} #{number}"
            rows, wrong = read_result(name, document, options.each_job)
            report.rows += rows
            problems += wrong
    if options.demo and DEMO_ANSWER.items() - report.rows[0].items():
        problems.append(f"demo: wrong answer, expected {DEMO_ANSWER}")
    if report.rows:
        print_rows(report.rows)
    for problem in problems:
        print(f"problem: {problem}", file=sys.stderr)
    report.notes += problems
    report.details["sources"] = [label for label, _ in texts]
    report.complete = True
    report.save()
    return int(bool(problems))


if __name__ == "__main__":
    start(main)
