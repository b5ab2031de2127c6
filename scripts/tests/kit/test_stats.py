"""Statistics and digits."""

from __future__ import annotations

import pytest
from kit.stats import earned, scaled, summarize, verdict_of_samples


def test_summary_by_hand() -> None:
    """1, 2, 3, 4, 10: quartiles 2 and 4, so the IQR is 2 and the spread 2/3."""
    assert summarize("seconds", [10, 1, 2, 3, 4]) == {
        "samples": 5, "seconds_median": 3, "seconds_mean": 4, "seconds_iqr": 2, "seconds_min": 1,
        "seconds_max": 10, "spread": 2 / 3, "drift": None, "steady": False,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("samples", "verdict"),
    [
        ([1.0, 2.0, 3.0], "few samples"),
        ([1.0, 1.01] * 5, "ok"),
        ([1.0] * 5 + [1.2] * 5, "unsteady"),
    ],
)
def test_verdicts(samples: list[float], verdict: str) -> None:
    """Three samples have no spread; samples that grow from half to half are unsteady."""
    assert verdict_of_samples(summarize("seconds", samples)) == verdict


def test_digits() -> None:
    """As many as the uncertainty leaves, or half of the spread."""
    assert scaled({"x": 2.345e9, "spread": 0.02}, "x", 1e9) == "2.35"
    assert earned(123.456, 0.5) == "123.5"
    assert earned(123.456, 50) == "120"
    assert earned(123.456, 500) == "~100"
    assert earned(123.456) == "~120"
    assert earned(9.999, 0.1) == "10.0"
    assert (earned(None), earned(0.0), earned(float("nan"))) == ("-", "0", "-")
