"""mamf_finder: formulas and verdicts by hand, planted faults, and real runs on a CPU."""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from testing_utils import execute_subprocess_async

TOOL = Path(__file__).resolve().parents[1] / "compute/mamf_finder.py"
SMALL = [
    *("--device", "cpu", "--m", "48", "64", "--n", "32", "--k", "64", "--num-iterations", "6"),
    *("--num-warmup-iterations", "1", "--accelerator-warmup-seconds", "0"),
]


@pytest.fixture(scope="module")
def mamf(load_tool: Callable[[str], Any]) -> Any:
    return load_tool("compute/mamf_finder.py")


def make_row(mamf: Any, seconds: list[float], **changes: Any) -> dict[str, Any]:
    """A right result of 12 FLOPs, judged."""
    peak = changes.pop("peak", None)
    row = {"m": 1, "n": 2, "k": 3, "device": "cuda:0", "stopped_early": False, "answer_ok": True}
    row |= {**mamf.summarize("seconds", seconds), **changes}
    row["flops_per_second_median"] = 12 / row["seconds_median"]
    row["flops_per_second_max"] = 12 / row["seconds_min"]
    return row | mamf.judge(row, peak)


def test_flops_by_hand(mamf: Any) -> None:
    """Four cells of 3 multiplications and 3 additions; a cube of 8192 at 989 TFLOPS: 1.11 ms."""
    assert mamf.Shape(2, 2, 3).flops == 24
    assert mamf.Shape(1024, 1024, 1024).flops == 2_147_483_648
    assert round(mamf.Shape(8192, 8192, 8192).flops / 989e12 * 1e3, 2) == 1.11


@pytest.mark.parametrize(
    ("seconds", "changes", "verdict"),
    [
        ([1.0] * 8, {}, "ok"),
        ([1.0, 1.2] * 4, {}, "unsteady"),
        ([1.0] * 3, {}, "few samples"),
        ([1.0] * 8, {"stopped_early": True}, "stopped early"),
        ([5.0] * 7 + [1.0], {}, "suspect"),
        ([4.9] * 7 + [1.0], {}, "ok"),
        ([1.0] * 8, {"peak": 13.0}, "ok"),
        ([1.0] * 8, {"peak": 11.0}, "above peak"),
        ([1.0] * 8, {"peak": 11.0, "answer_ok": False}, "WRONG ANSWER"),
    ],
)
def test_verdicts(mamf: Any, seconds: list[float], changes: Any, verdict: str) -> None:
    """The worst that applies; only a row that can be believed can be the best."""
    row = make_row(mamf, seconds, **changes)
    assert row["verdict"] == verdict
    best = mamf.find_best([row])
    assert (best is None) == (verdict in ("stopped early", "above peak", "WRONG ANSWER"))


def test_devices_are_compared_over_common_shapes(mamf: Any) -> None:
    """Rates 10, 9 and 10: cuda:1 is 10 % below the median device, whatever it did besides."""
    rows = [
        make_row(mamf, [12 / rate] * 4, device=device, m=m)
        for device, rate in (("cuda:0", 10.0), ("cuda:1", 9.0), ("cuda:2", 10.0))
        for m in (1, 2)
    ]
    rows.append(make_row(mamf, [0.001] * 4, device="cuda:1", m=5))
    compared = mamf.compare_devices(rows)
    assert next(iter(compared)) == "cuda:1"
    assert compared == pytest.approx({"cuda:1": -0.1, "cuda:0": 0.0, "cuda:2": 0.0})
    assert mamf.compare_devices([]) == {}


@pytest.mark.parametrize(
    ("hip", "facts", "dtype", "complaint"),
    [
        (None, {"major": 9, "minor": 0}, "float8_e4m3fn", None),
        (None, {"major": 9, "minor": 0}, "float8_e4m3fnuz", "use float8_e4m3fn"),
        (None, {"major": 8, "minor": 0}, "float8_e4m3fn", "compute capability 8.9"),
        (None, {"major": 8, "minor": 0}, "tf32", None),
        (None, {"major": 7, "minor": 0}, "tf32", "use float32"),
        ("7", {"gcnArchName": "gfx942:sramecc+"}, "float8_e4m3fnuz", None),
        ("7", {"gcnArchName": "gfx942:sramecc+"}, "float8_e4m3fn", "use float8_e4m3fnuz"),
        ("7", {"gcnArchName": "gfx950"}, "float8_e4m3fn", None),
        ("7", {"gcnArchName": "gfx942", "major": 9}, "tf32", "use float32"),
    ],
)
def test_each_vendor_has_its_own_float8(
    mamf: Any, hip: str | None, facts: dict[str, Any], dtype: str, complaint: str | None
) -> None:
    """The other one is refused by name, and so are sizes that the kernels do not take."""
    properties = SimpleNamespace(name="a GPU", **facts)
    cuda = SimpleNamespace(get_device_properties=lambda _: properties)
    torch = SimpleNamespace(cuda=cuda, version=SimpleNamespace(hip=hip))
    gpu = SimpleNamespace(type="cuda")
    if complaint:
        with pytest.raises(mamf.UsageError, match=complaint):
            mamf.check_dtype(torch, gpu, dtype, ([7], [32], [48]))
        return
    mamf.check_dtype(torch, gpu, dtype, ([7], [32], [48]))
    if dtype != "tf32":
        with pytest.raises(mamf.UsageError, match="multiples of 16, not 24"):
            mamf.check_dtype(torch, gpu, dtype, ([7], [32], [16, 24]))
    assert bool(mamf.find_traps(torch, {})) == bool(hip)


@pytest.mark.torch
def test_wrong_results_are_found(mamf: Any) -> None:
    """A matmul that does nothing, one wrong corner, a NaN anywhere, and tf32 as float32."""
    import torch

    torch.manual_seed(0)
    a, b = torch.randn(64, 4096), torch.randn(48, 4096)
    right = a @ b.t()
    limit = mamf.ERROR_LIMITS["float32"]
    assert mamf.measure_error(a, b, right) < limit
    assert mamf.measure_error(a, b, torch.rand(64, 48)) > 0.1
    corner, nan = right.clone(), right.clone()
    corner[-1, -1] += 10
    nan[20, 21] = math.nan
    assert mamf.measure_error(a, b, corner) > limit
    assert mamf.measure_error(a, b, nan) == math.inf
    cut = [(x.view(torch.int32) & -8192).view(torch.float32) for x in (a, b)]
    assert limit < mamf.measure_error(a, b, cut[0] @ cut[1].t()) < mamf.ERROR_LIMITS["tf32"]


@pytest.mark.torch
@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float32", "float8_e4m3fn"])
def test_run_of_each_dtype(
    mamf: Any, dtype: str, read_json: Callable[[Path], Any], tmp_path: Path
) -> None:
    """Right answers, and rates that are FLOPs over seconds; going on measures only the rest."""
    path = tmp_path / "out.json"
    again = [*SMALL, "--dtype", dtype, "--json", str(path), "--resume", str(path)]
    assert mamf.main([*again, "--m", "48"]) == 0
    first = read_json(path)["results"]
    assert mamf.main(again) == 0
    document = read_json(path)
    assert document["complete"] is True
    kept, new = document["results"]
    assert kept == {**first[0], "resumed": True}
    assert (new["m"], new["samples"], new["answer_ok"]) == (64, 6, True)
    assert new["operations"] == 2 * 64 * 32 * 64
    rate = new["operations"] / new["seconds_median"]
    assert new["flops_per_second_median"] == pytest.approx(rate)
    with pytest.raises(mamf.UsageError, match="has num_iterations 6, this run has 7"):
        mamf.main([*again, "--num-iterations", "7"])


@pytest.mark.torch
def test_rates_above_the_peak_are_a_problem(mamf: Any, capsys: pytest.CaptureFixture[str]) -> None:
    """Exit status 1, and no best."""
    assert mamf.main([*SMALL, "--peak", "0.0000001"]) == 1
    out = capsys.readouterr()
    assert "problem: 2 results above --peak" in out.err
    assert "best median" not in out.out


@pytest.mark.torch
def test_a_budget_ends_an_adaptive_search(
    mamf: Any, read_json: Callable[[Path], Any], tmp_path: Path
) -> None:
    """Of a million shapes those seen are kept, the most promising in full, and drawn."""
    pytest.importorskip("matplotlib")
    path, plot = tmp_path / "out.json", tmp_path / "map.png"
    ranges = [text for name in "mnk" for text in (f"--{name}-range", "0", "808", "8")]
    more = ["--device", "cpu", "--budget", "3s", "--num-iterations", "4", "--plot", str(plot)]
    few = ["--num-warmup-iterations", "0", "--accelerator-warmup-seconds", "0"]
    assert mamf.main([*ranges, *more, *few, "--json", str(path)]) == 0
    document = read_json(path)
    assert document["details"]["search"] == {"kind": "adaptive", "grid_shapes": 1_000_000}
    assert any("adaptive search on cpu" in note for note in document["caveats"])
    assert {row["stopped_early"] for row in document["results"]} == {True, False}
    assert plot.read_bytes().startswith(b"\x89PNG")


@pytest.mark.torch
def test_a_shape_without_memory_is_skipped(
    mamf: Any, read_json: Callable[[Path], Any], tmp_path: Path
) -> None:
    """And the run says that it is not complete."""
    path = tmp_path / "out.json"
    assert mamf.main([*SMALL, "--m", "48", "10000000000", "--json", str(path)]) == 0
    document = read_json(path)
    assert document["complete"] is False
    assert len(document["results"]) == 1
    assert document["details"]["shapes_skipped"] == [[10_000_000_000, 32, 64]]


@pytest.mark.torch
def test_two_ranks_measure_at_once(read_json: Callable[[Path], Any], tmp_path: Path) -> None:
    """One JSON of both, and the slower one is named."""
    path = tmp_path / "out.json"
    launch = "import sys; from kit.ranks import launch_ranks; sys.argv.pop(0); "
    command = [sys.executable, "-c", launch + "sys.exit(launch_ranks(2, sys.argv[1:]))", str(TOOL)]
    environ = {**os.environ, "PYTHONPATH": str(TOOL.parents[1])}
    execute_subprocess_async([*command, *SMALL, "--json", str(path)], environ, timeout=120)
    document = read_json(path)
    assert document["complete"] is True
    names = ["rank 0, cpu", "rank 1, cpu"]
    assert [row["device"] for row in document["results"]] == [n for n in names for _ in range(2)]
    assert [entry["device"] for entry in document["details"]["devices"]] == names
    assert any(note.startswith("slowest device first") for note in document["caveats"])


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--m-range", "0", "64", "64"], "--m-range 0 64 64 is empty: STOP is excluded"),
        (["--resume", "nowhere.json"], "there is no nowhere.json"),
    ],
)
def test_what_makes_no_sense_is_refused(mamf: Any, arguments: list[str], complaint: str) -> None:
    """Before anything is measured."""
    with pytest.raises(mamf.UsageError, match=complaint):
        mamf.main(arguments)
