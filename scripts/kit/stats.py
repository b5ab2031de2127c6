"""Statistics of repeated measurements, and how many digits of a number they justify."""

import math
import statistics
from collections.abc import Sequence
from typing import Any

MIN_QUARTILE_SAMPLES = 4
"""Below this many samples, a quartile is an interpolation between two of them."""
WIDE_SPREAD = 0.05
"""An IQR above this share of the median is called unsteady."""
PARTIAL = ("all_gather", "reduce_scatter", "all_to_all", "gather", "scatter")
"""Collectives in which each rank keeps its own part."""


def summarize(name: str, samples: Sequence[float]) -> dict[str, Any]:
    """`NAME_median`, `_mean`, `_iqr`, `_min`, `_max` of the samples, and `samples`, `spread`,
    `drift`, `steady`.

    Quartiles interpolate linearly, as NumPy does by default; fewer than 4 samples have no IQR, no
    spread, and `steady` is None. `spread` is IQR / median. `drift` is the median of the second
    half over that of the first half, minus 1 (None below 10 samples). `steady` means that spread
    and drift are both within 5 %.
    """
    ordered = sorted(samples)
    median = statistics.median(ordered)
    iqr = spread = drift = None
    if len(ordered) >= MIN_QUARTILE_SAMPLES:
        low, _, high = statistics.quantiles(ordered, n=4, method="inclusive")
        iqr = high - low
        spread = iqr / median if median > 0 else None
    half = len(samples) // 2
    if half >= 5 and statistics.median(samples[:half]) > 0:
        drift = statistics.median(samples[-half:]) / statistics.median(samples[:half]) - 1
    steady = None
    if iqr is not None:
        steady = spread is not None and max(spread, abs(drift or 0.0)) <= WIDE_SPREAD
    return {
        "samples": len(ordered),
        f"{name}_median": median,
        f"{name}_mean": statistics.fmean(ordered),
        f"{name}_iqr": iqr,
        f"{name}_min": ordered[0],
        f"{name}_max": ordered[-1],
        "spread": spread,
        "drift": drift,
        "steady": steady,
    }


def verdict_of_samples(row: dict[str, Any]) -> str:
    """`ok`, `unsteady`, `few samples` or `one sample`, for a row made by `summarize`."""
    if row["samples"] < MIN_QUARTILE_SAMPLES:
        return "one sample" if row["samples"] == 1 else "few samples"
    return "ok" if row["steady"] else "unsteady"


def earned(value: float | None, uncertainty: float | None = None) -> str:
    """The value with the digits its uncertainty leaves, at most four.

    The last digit shown is the one where the first digit of the uncertainty is. A `~` marks a
    value whose uncertainty is unknown (two digits are shown) or as large as the value (one digit).
    """
    if value is None or not math.isfinite(value):
        return "-"
    if value == 0:
        return "0"
    magnitude = abs(value)
    doubt = 0.1 * magnitude if uncertainty is None else max(abs(uncertainty), 1e-3 * magnitude)
    mark = "~" if uncertainty is None or doubt >= magnitude else ""
    decimals = -math.floor(math.log10(min(doubt, magnitude)))
    return f"{mark}{round(value, decimals):.{max(decimals, 0)}f}"


def scaled(row: dict[str, Any], column: str, factor: float = 1.0) -> str:
    """A column of a row of `summarize`, over `factor`, with the digits its spread leaves."""
    value = row[column]
    if value is None:
        return "-"
    spread = row.get("spread")
    doubt = None if spread is None else spread / 2 * value / factor
    return earned(value / factor, doubt)


def bus_factor(collective: str, ranks: int) -> float:
    """busbw / algbw, as nccl-tests defines it."""
    part = (ranks - 1) / ranks
    return 2 * part if collective == "all_reduce" else part if collective in PARTIAL else 1.0
