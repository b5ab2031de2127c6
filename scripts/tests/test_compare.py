"""compare: two runs of one tool, like with like."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

TOOL = "compare.py"


@pytest.fixture
def write(tmp_path: Path, module: Any) -> Callable[..., str]:
    """A run like the demo's with some changes, as a file."""
    count = iter(range(9))

    def make(change: Callable[[dict[str, Any]], Any] = lambda _: None) -> str:
        document = copy.deepcopy(module.DEMO)
        change(document)
        path = tmp_path / f"{next(count)}.json"
        path.write_text(json.dumps(document))
        return str(path)

    return make


def slow_down(factor: float) -> Callable[[dict[str, Any]], None]:
    def change(document: dict[str, Any]) -> None:
        for row in document["results"]:
            row["rate"] *= factor

    return change


@pytest.mark.parametrize(
    ("factor", "verdict", "status"),
    [(0.97, "within", 0), (0.9, "below", 1), (0.5, "far below", 1), (1.1, "above", 0)],
)
def test_a_run_is_judged_by_its_ratio(
    module: Any,
    write: Callable[..., str],
    capsys: Any,
    factor: float,
    verdict: str,
    status: int,
) -> None:
    """5 % is within; three margins are far; only worse ends with status 1."""
    assert module.main([write(slow_down(factor)), write()]) == status
    out = capsys.readouterr()
    assert f"\n{verdict}: yours is at {100 * factor:.1f} % of the other run, over 2 rows" in out.out
    assert "1 rows left out" in out.err


def test_a_wide_spread_widens_the_margin(module: Any, write: Callable[..., str]) -> None:
    """A row that spreads by 30 % cannot be 10 % worse."""
    spread = write(lambda run: [row.update(spread=0.3) for row in run["results"]])
    assert module.main([write(slow_down(0.9)), spread]) == 0


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"method": 2}, "method is 2 in yours and 1 in the other"),
        ({"tool": "x"}, "tool is x in yours and demo in the other"),
        ({"results": []}, "no row that both runs measured well"),
        ({"details": {"compare": {"alike": ["details.dtype"]}, "dtype": "fp8"}},
         "dtype is fp8 in yours and None in the other"),
    ],
)  # fmt: skip
def test_unlike_runs_are_refused(
    module: Any, write: Callable[..., str], change: dict[str, Any], reason: str
) -> None:
    """With the reason; what has to be equal is what the tool of your run says."""
    with pytest.raises(module.UsageError, match=reason):
        module.main([write(lambda document: document.update(change)), write()])
