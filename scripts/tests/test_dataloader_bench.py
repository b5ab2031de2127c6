"""dataloader_bench: what it recommends by hand, real workers, and none of them left over."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

SCRIPTS = Path(__file__).resolve().parent.parent
TOOL = "training/dataloader_bench.py"

QUICK = ["--device", "cpu", "--batch_size", "2", "--item_cost_ms", "1", "--item_size", "64"]
QUICK += ["--blocks", "4", "--block_steps", "2", "--warmup_steps", "2"]


@pytest.fixture(scope="module")
def loader(load_tool: Callable[[str], Any]) -> Any:
    """The tool as a module."""
    return load_tool(TOOL)


def make_row(workers: int, seconds: float, **more: Any) -> dict[str, Any]:
    """A row of results with what a recommendation looks at."""
    row: dict[str, Any] = {"workers": workers, "step_seconds_median": seconds, "verdict": "ok"}
    row |= {"pin_memory": False, "non_blocking": False, "wrong_batches": 0, "wait_share": 0.5}
    return row | more


def test_fewest_workers_within_two_percent(loader: Any) -> None:
    """Of 100, 50, 25.4 and 25 ms with 1, 2, 4 and 8 workers it is 4; 25.6 ms would be too slow."""
    rows = [make_row(1, 0.1), make_row(2, 0.05), make_row(4, 0.0254), make_row(8, 0.025)]
    best, chosen = loader.recommend_setting(rows)
    assert (best["workers"], chosen["workers"]) == (8, 4)
    rows[2]["step_seconds_median"] = 0.0256
    assert loader.recommend_setting(rows)[1]["workers"] == 8
    rows[3]["wrong_batches"] = 1
    assert loader.recommend_setting(rows)[1]["workers"] == 4
    assert loader.recommend_setting([]) is None


def test_pinning_is_recommended_only_where_it_gains(loader: Any) -> None:
    """With as many workers the simplest within 2 % is taken."""
    rows = [
        make_row(2, 0.0500),
        make_row(2, 0.0499, pin_memory=True),
        make_row(2, 0.0498, pin_memory=True, non_blocking=True),
    ]
    assert not loader.recommend_setting(rows)[1]["pin_memory"]
    rows[0]["step_seconds_median"] = 0.06
    chosen = loader.recommend_setting(rows)[1]
    assert (chosen["pin_memory"], chosen["non_blocking"]) == (True, False)
    texts = loader.describe_recommendation(rows, 0.0, True)
    name = "num_workers=2, pin_memory=True, non_blocking=False"
    assert texts[0].startswith(f"recommended: {name}: 49.9 ms a step, within 2 %")


def test_a_loader_that_keeps_up_is_no_bottleneck(loader: Any) -> None:
    """Steps of 100 ms that take 101 ms are fed, those that take 103 ms are not."""
    assert not loader.is_bottleneck(make_row(2, 0.101), 0.1)
    assert loader.is_bottleneck(make_row(2, 0.103), 0.1)
    told = loader.describe_recommendation([make_row(2, 0.101)], 100.0, False)
    assert "the loader is not the bottleneck for steps of 100 ms" in told
    told = loader.describe_recommendation([make_row(2, 0.2)], 100.0, False)
    assert any("waiting for data takes 50 % of the time" in text for text in told)


def test_the_share_of_waiting_is_that_of_the_row_it_names(loader: Any) -> None:
    """Where a row with longer steps waits for less of them, the share told is named as that of the
    recommended setting, and not as the least."""
    fast = make_row(2, 0.2) | {"wait_share": 0.47}
    slow = make_row(1, 0.25) | {"wait_share": 0.43}
    told = loader.describe_recommendation([slow, fast], 100.0, False)
    assert "with num_workers=2 waiting for data takes 47 % of the time" in told[1]
    assert "at best" not in " ".join(told)


@given(st.lists(st.floats(1e-4, 10, allow_nan=False), min_size=1, max_size=8, unique=True))
def test_no_setting_with_fewer_workers_is_as_good(loader: Any, seconds: list[float]) -> None:
    """The chosen one is within 2 % of the best, and any with fewer workers is not."""
    rows = [make_row(workers, value) for workers, value in enumerate(seconds)]
    best, chosen = loader.recommend_setting(rows)
    assert best["step_seconds_median"] == min(seconds)
    limit = best["step_seconds_median"] * 1.02
    assert chosen["step_seconds_median"] <= limit
    fewer = [row for row in rows if row["workers"] < chosen["workers"]]
    assert all(row["step_seconds_median"] > limit for row in fewer)


@given(st.integers(1, 64), st.integers(0, 33))
def test_blocks_are_whole_rounds(loader: Any, wanted: int, workers: int) -> None:
    """A block is no shorter than asked for, and each worker gives equally many of its batches."""
    steps = loader.count_block_steps(wanted, workers)
    assert steps >= wanted
    assert steps % max(workers, 1) == 0
    assert steps < wanted + 3 * max(workers, 1)


def test_memory_of_this_process_is_read(loader: Any) -> None:
    """RSS is at least PSS, and both are more than nothing."""
    if not Path("/proc/self/smaps_rollup").exists():
        pytest.skip("this system has no smaps_rollup")
    rss, pss = loader.read_process_memory(os.getpid())
    assert rss >= pss > 0
    assert loader.read_process_memory(2**22 + 1) is None


def run_json(run_tool: Callable[..., Any], path: Path, *arguments: str, **more: Any) -> Any:
    """The document of a run that has to end well."""
    done = run_tool(TOOL, *arguments, "--json", str(path), timeout=120, **more)
    assert done.returncode == 0, done.stderr
    return json.loads(path.read_text())


@pytest.mark.torch
def test_real_workers_take_and_give(run_tool: Callable[..., Any], tmp_path: Path) -> None:
    """A batch of 8 items of 5 ms costs 40 ms without workers; with one its memory is counted."""
    arguments = [*QUICK, "--num_workers", "0", "1", "--item_cost_ms", "5", "--batch_size", "8"]
    document = run_json(
        run_tool, tmp_path / "out.json", *arguments, "--plot", str(tmp_path / "p.svg")
    )
    alone, one = document["results"]
    assert alone["step_seconds_min"] >= 0.040
    assert (alone["worker_pss_bytes"], alone["worker_start_seconds"]) == (0, None)
    assert 0.9 < alone["wait_share"] <= 1.0
    assert one["worker_rss_bytes"] >= one["worker_pss_bytes"] > 2**20
    assert one["first_batch_seconds"] > one["worker_start_seconds"] > 0
    assert one["step_seconds_median"] >= 0.039
    assert all(row["answer_ok"] and row["workers_left"] == 0 for row in (alone, one))
    assert (tmp_path / "p.svg").read_text().startswith("<?xml")


@pytest.mark.nightly
@pytest.mark.torch
def test_items_that_wait_gain_from_workers(run_tool: Callable[..., Any], tmp_path: Path) -> None:
    """Items that only wait 20 ms need no CPU: four workers are more than twice as fast as one."""
    arguments = [*QUICK, "--num_workers", "1", "4", "--item_wait_ms", "20", "--item_cost_ms", "0"]
    one, four = run_json(run_tool, tmp_path / "out.json", *arguments)["results"]
    assert one["step_seconds_median"] >= 0.039
    assert four["step_seconds_median"] < one["step_seconds_median"] / 2


@pytest.mark.nightly
@pytest.mark.torch
def test_workers_may_be_spawned(run_tool: Callable[..., Any], tmp_path: Path) -> None:
    """The synthetic dataset and what workers do first can be pickled."""
    arguments = [*QUICK, "--num_workers", "1", "--start_method", "spawn"]
    document = run_json(run_tool, tmp_path / "out.json", *arguments)
    assert document["results"][0]["answer_ok"] is True
    assert document["details"]["header"]["start_method"] == "spawn"


OWN = """
import os, time
import torch

class Items:
    def __init__(self, count):
        self.count = count
    def __len__(self):
        return self.count
    def __getitem__(self, n):
        if n >= self.count:
            raise IndexError
        return {"x": torch.full((4,), n), "name": str(n)}

def make_items(count=5):
    return Items(count)

def make_arguments():
    return {"dataset": Items(6), "shuffle": True, "drop_last": True,
            "worker_init_fn": lambda number: open(f"started{number}", "w").close()}

def make_broken():
    class Broken(Items):
        def __getitem__(self, n):
            raise RuntimeError("this file is broken")
    return Broken(4)

def make_killed():
    class Killed(Items):
        def __getitem__(self, n):
            os.kill(os.getpid(), 9)
    return Killed(4)

def make_slow():
    class Slow(Items):
        def __getitem__(self, n):
            time.sleep(0.05)
            return torch.zeros(4)
    return Slow(10_000)

def fail():
    raise KeyError("root")
"""


@pytest.fixture
def own(tmp_path: Path) -> Path:
    """A folder with somebody's module of datasets."""
    (tmp_path / "my_data.py").write_text(OWN)
    return tmp_path


@pytest.mark.torch
def test_a_dataset_of_ones_own(run_tool: Callable[..., Any], own: Path) -> None:
    """A factory's dataset is read for as many epochs as it takes; its last batch may be smaller."""
    arguments = ["--device", "cpu", "--batch_size", "2", "--blocks", "4", "--num_workers", "0", "2"]
    arguments += ["--dataset", "my_data:make_items", "--dataset_arguments", '{"count": 7}']
    document = run_json(run_tool, own / "out.json", *arguments, cwd=own)
    assert [row["answer_ok"] for row in document["results"]] == [None, None]
    assert document["results"][0]["batch_bytes"] == 2 * 4 * 8
    assert document["details"]["header"]["dataset"] == "my_data:make_items"


@pytest.mark.torch
def test_arguments_of_a_dataloader_from_a_factory(run_tool: Callable[..., Any], own: Path) -> None:
    """A dict of DataLoader's arguments is used, and its worker_init_fn still runs."""
    arguments = ["--device", "cpu", "--batch_size", "4", "--blocks", "4", "--num_workers", "1"]
    arguments += ["--dataset", "my_data:make_arguments", "--start_method", "fork"]
    document = run_json(run_tool, own / "out.json", *arguments, cwd=own)
    assert document["results"][0]["batch_bytes"] == 4 * 4 * 8
    assert (own / "started0").exists()


@pytest.mark.torch
@pytest.mark.parametrize(
    ("factory", "message"),
    [
        ("make_broken", "loading failed: RuntimeError: this file is broken"),
        ("make_killed", "loading failed: RuntimeError: DataLoader worker"),
    ],
)
def test_workers_that_fail_are_told_and_gone(
    call_tool: Callable[..., Any], own: Path, factory: str, message: str
) -> None:
    """An item that raises, or kills its worker, ends with status 1 and one line."""
    arguments = ["--device", "cpu", "--num_workers", "2", "--batch_size", "2"]
    arguments += ["--dataset", f"my_data:{factory}", "--start_method", "fork"]
    done = call_tool(TOOL, *arguments, cwd=own)
    assert done.returncode == 1, done.stderr
    assert message in done.stderr
    assert "Traceback" not in done.stderr
    assert "did not end by themselves" not in done.stderr
    assert not find_processes_in(own)


def find_processes_in(folder: Path) -> list[int]:
    """The processes that work in a folder: those of a run that was started there."""
    found = []
    for place in Path("/proc").glob("[0-9]*"):
        try:
            if (place / "cwd").readlink() == folder.resolve():
                found.append(int(place.name))
        except OSError:
            continue
    return found


@pytest.mark.nightly
@pytest.mark.torch
@pytest.mark.parametrize("sign", [signal.SIGINT, signal.SIGTERM])
def test_a_stop_leaves_no_worker_over(own: Path, sign: signal.Signals) -> None:
    """A signal to all processes, as Ctrl-C sends it: the results so far, and nobody is left."""
    path = own / "out.json"
    arguments = ["--dataset", "my_data:make_slow", "--num_workers", "3", "0", "--batch_size", "2"]
    arguments += ["--device", "cpu", "--start_method", "fork", "--json", str(path)]
    process = subprocess.Popen(
        [sys.executable, str(SCRIPTS / TOOL), *arguments, "--blocks", "1000"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        cwd=own,
        start_new_session=True,
    )
    deadline = time.monotonic() + 60
    while len(find_processes_in(own)) < 4 and time.monotonic() < deadline:
        time.sleep(0.1)
    assert len(find_processes_in(own)) == 4
    time.sleep(0.5)
    if sign == signal.SIGINT:
        os.killpg(process.pid, sign)
    else:
        process.send_signal(sign)
    try:
        _, notes = process.communicate(timeout=60)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        raise
    assert process.returncode == 1, notes
    assert f"stopped by {sign.name}" in notes
    assert "Traceback" not in notes
    assert "did not end by themselves" not in notes
    assert find_processes_in(own) == []
    assert json.loads(path.read_text())["complete"] is False


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--num_workers", "2", "2"], "--num_workers names something twice"),
        (["--num_workers", "-1"], "a whole number from 0"),
        (["--item_size", "4"], "so at least 8 bytes"),
        (["--dataset", "nothing"], "write MODULE:FACTORY"),
        (
            ["--dataset", "x:y", "--item_cost_ms", "3"],
            "--item_cost_ms is for the synthetic dataset",
        ),
        (["--dataset_arguments", "{}x"], "is no JSON object"),
        (["--dataset_arguments", '{"a": 1}'], "are for the factory of --dataset"),
        (["--plot", "x.pdf"], "has to end in .svg or .png"),
    ],
)
def test_wrong_use_is_told(
    call_tool: Callable[..., Any], arguments: list[str], message: str
) -> None:
    """What makes no sense ends with status 2 before torch is imported."""
    done = call_tool(TOOL, *arguments, without_torch=True)
    assert done.returncode == 2, done.stderr
    assert message in " ".join(done.stderr.split())
    assert "Traceback" not in done.stderr


@pytest.mark.torch
@pytest.mark.parametrize(
    ("factory", "message"),
    [
        ("no_module:f", "no_module does not import"),
        ("my_data:f", "my_data has no f"),
        ("my_data:fail", "my_data:fail failed with KeyError: 'root'"),
    ],
)
def test_a_factory_that_fails_is_wrong_use(
    loader: Any, own: Path, monkeypatch: pytest.MonkeyPatch, factory: str, message: str
) -> None:
    """What is wrong with the module or its factory is said in one line."""
    monkeypatch.chdir(own)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.delitem(sys.modules, "my_data", raising=False)
    with pytest.raises(loader.WrongUse, match=message):
        loader.load_factory(*factory.split(":"), {})
    sys.modules.pop("my_data", None)
