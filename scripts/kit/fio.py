"""fio's JSON: results found in any text around them, jobs as rows of base units, and their sum."""

import itertools
import json
import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

Job = dict[str, Any]

SIMULTANEOUS_SHARE = 0.9
SIMULTANEOUS_SLACK = 0.25
"""Jobs ran at the same time if they overlap for this share of the longest, or miss it by fewer
seconds than this."""


def parse_fio(text: str) -> tuple[list[dict[str, Any]], list[str]]:
    """The results of fio in a text, and the other lines: warnings, progress, shell noise. `nan` and
    `inf`, which some versions of fio write although JSON does not have them, become null."""
    text = re.sub(r'("\s*:\s*)-?(?:nan|inf(?:inity)?)\b', r"\1null", text, flags=re.IGNORECASE)
    decoder = json.JSONDecoder()
    documents: list[dict[str, Any]] = []
    noise: list[str] = []
    position = 0
    for found in re.finditer(r"^\s*\{", text, re.MULTILINE):
        if found.start() < position:
            continue
        try:
            document, end = decoder.raw_decode(text, found.end() - 1)
        except ValueError:
            continue
        if "fio version" in document:
            noise += text[position : found.start()].splitlines()
            documents.append(document)
            position = end
    noise += text[position:].splitlines()
    return documents, [line.strip() for line in noise if line.strip()]


def list_jobs(document: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The jobs of a result; in client mode those of all clients, without fio's own sum."""
    jobs = document.get("jobs") or document.get("client_stats") or []
    return [job for job in jobs if job.get("jobname") != "All clients"]


def read_job(job: Mapping[str, Any], direction: str) -> Job | None:
    """What a job did in one direction ("read", "write", "trim"), in bytes and seconds; None if it
    did nothing. Latency is from submission to completion (clat)."""
    numbers = job.get(direction, {})
    if not numbers.get("io_bytes"):
        return None
    latency = numbers.get("clat_ns") or {}
    percentiles = {float(key): value * 1e-9 for key, value in latency.get("percentile", {}).items()}
    return {
        "bytes": int(numbers["io_bytes"]),
        "seconds": numbers["runtime"] / 1e3,
        "start": job["job_start"] / 1e3 if job.get("job_start") else None,
        "requests": int(numbers["total_ios"]),
        "bytes_per_second": float(numbers["bw_bytes"]),
        "requests_per_second": float(numbers["iops"] or 0),
        "latency_seconds_mean": latency["mean"] * 1e-9 if latency.get("mean") else None,
        "latency_seconds_p50": percentiles.get(50.0),
        "latency_seconds_p99": percentiles.get(99.0),
        "bins": {int(ns) * 1e-9: int(count) for ns, count in latency.get("bins", {}).items()},
    }


def explain_not_simultaneous(jobs: Sequence[Job]) -> str | None:
    """Why the rates of these jobs must not be added: they did not run at the same time. Or None."""
    seconds = [job["seconds"] for job in jobs]
    enough = min(SIMULTANEOUS_SHARE * max(seconds), max(seconds) - SIMULTANEOUS_SLACK)
    if min(seconds) < enough:
        return f"its jobs ran for between {min(seconds):.3g} s and {max(seconds):.3g} s"
    if all(job["start"] is not None for job in jobs):
        ends = [job["start"] + job["seconds"] for job in jobs]
        overlap = max(0.0, min(ends) - max(job["start"] for job in jobs))
        if overlap < enough:
            return f"its jobs ran together for only {overlap:.3g} s of {max(seconds):.3g} s"
    return None


def add_jobs(jobs: Sequence[Job], *, whole_files: bool = False) -> Job:
    """Jobs that ran at the same time as one: rates added, latencies over all requests.

    With `whole_files` each job had the same work, so the slowest decides: the rates are all bytes
    and requests over its time. Percentiles of several jobs need the histograms of json+.
    """
    longest = max(job["seconds"] for job in jobs)
    total: Job = {"seconds": longest, "bins": Counter()}
    for amount, rate in (("bytes", "bytes_per_second"), ("requests", "requests_per_second")):
        total[amount] = sum(job[amount] for job in jobs)
        total[rate] = sum(job[rate] for job in jobs)
        if whole_files:
            total[rate] = total[amount] / longest if longest else 0.0
    for job in jobs:
        total["bins"].update(job["bins"])
    means = [job["latency_seconds_mean"] for job in jobs]
    weighed = [mean * job["requests"] for mean, job in zip(means, jobs, strict=True) if mean]
    total["latency_seconds_mean"] = None if None in means else sum(weighed) / total["requests"]
    for name, share in (("latency_seconds_p50", 0.5), ("latency_seconds_p99", 0.99)):
        total[name] = jobs[0][name] if len(jobs) == 1 else None
        if len(jobs) > 1 and all(job["bins"] for job in jobs):
            total[name] = find_percentile(total["bins"], share)
    return total


def find_percentile(bins: Mapping[float, int], share: float) -> float:
    """The smallest value that at least this share of the samples does not exceed, as in fio."""
    values = sorted(bins)
    seen = itertools.accumulate(bins[value] for value in values)
    enough = share * sum(bins.values())
    return next(value for value, count in zip(values, seen, strict=True) if count >= enough)


def round_digits(value: float | None, factor: float = 1.0) -> str:
    """The value times a factor to three significant digits: `2860`, `0.37`; `-` for None."""
    if not value:
        return "-" if value is None else "0"
    decimals = 2 - math.floor(math.log10(abs(value * factor)))
    return f"{round(value * factor, decimals):.{max(decimals, 0)}f}"
