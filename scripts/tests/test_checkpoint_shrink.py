"""checkpoint_shrink: what is dragged along goes, everything else stays as it was."""

from __future__ import annotations

import contextlib
import math
import os
import pickle
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

SCRIPTS = Path(__file__).resolve().parent.parent
TOOL = "training/checkpoint_shrink.py"


@pytest.fixture(scope="module")
def shrink(load_tool: Callable[[str], Any]) -> Any:
    """The tool as a module."""
    return load_tool(TOOL)


@pytest.fixture(scope="module")
def torch() -> Any:
    """torch, where it is installed."""
    return pytest.importorskip("torch")


def list_names(folder: Path) -> list[str]:
    """Names in a folder, in order."""
    return sorted(path.name for path in folder.iterdir())


def save_state(torch: Any, path: Path, **options: Any) -> dict[str, Any]:
    """A checkpoint that drags storages along at every depth; what is in it."""
    torch.manual_seed(2)
    flat, table = torch.randn(100_000), torch.randn(2000, 50)
    table[0, 0] = math.nan
    model: OrderedDict[str, Any] = OrderedDict(
        weight=torch.nn.Parameter(flat[10:1010].view(20, 50)),
        tied=flat[10:1010].view(20, 50),
        part=flat[20:40],
        other=flat[5000:5010],
        column=table[:, :2],
        whole=torch.randn(30, 30),
        turned=torch.randn(40, 3).t(),
        none=flat[:0],
        one=flat[7],
    )
    model._metadata = OrderedDict({"": {"version": 1}})  # type: ignore[attr-defined]
    state = {
        "model": model,
        "optimizer": {
            "state": {0: {"step": torch.tensor(3.0), "exp_avg": torch.zeros(9000)[:5]}},
            "param_groups": [{"lr": 1e-3, "params": [0]}],
        },
        "rng": (torch.arange(1000, dtype=torch.uint8)[100:108], [torch.zeros(5000, 2)[3], "x"]),
        "epoch": 7,
    }
    torch.save(state, path, **options)
    return state


def check_state(torch: Any, state: dict[str, Any], path: Path) -> None:
    """The file holds the same as the state, tied as it was, and nothing too large."""
    new = torch.load(path, weights_only=True)
    model = new["model"]
    assert list(model) == list(state["model"])
    assert model._metadata == {"": {"version": 1}}
    for name, tensor in state["model"].items():
        assert type(model[name]) is type(tensor)
        assert model[name].requires_grad is tensor.requires_grad
        flat = [
            t.detach().contiguous().reshape(-1).view(torch.uint8) for t in (tensor, model[name])
        ]
        assert torch.equal(*flat), name
    assert model["weight"].data_ptr() == model["tied"].data_ptr()
    assert model["part"].data_ptr() == model["weight"].data_ptr() + 10 * 4
    assert model["weight"].untyped_storage().nbytes() <= 1000 * 4 + 16
    assert model["other"].untyped_storage().nbytes() <= 10 * 4 + 16
    assert model["column"].untyped_storage().nbytes() == 2000 * 2 * 4
    assert model["turned"].stride() == (1, 3)
    assert new["epoch"] == 7
    assert new["optimizer"]["param_groups"] == [{"lr": 1e-3, "params": [0]}]
    assert type(new["rng"]) is tuple
    assert new["rng"][0].tolist() == list(range(100, 108))
    assert new["rng"][1][1] == "x"
    assert new["optimizer"]["state"][0]["exp_avg"].untyped_storage().nbytes() <= 5 * 4 + 16


@pytest.mark.torch
@pytest.mark.parametrize("is_old", [False, True])
def test_what_is_dragged_along_goes(
    call_tool: Callable[..., Any],
    read_json: Callable[[Path], Any],
    torch: Any,
    tmp_path: Path,
    is_old: bool,
) -> None:
    """In dicts, lists, tuples and an optimizer's state, in files of today and of torch before 1.6:
    the file gets small, its mode stays, nothing is left behind, and a second run gains nothing."""
    folder, path = tmp_path / "c", tmp_path / "c" / "step_1" / "model_states.pt"
    path.parent.mkdir(parents=True)
    state = save_state(torch, path, _use_new_zipfile_serialization=not is_old)
    path.chmod(0o640)
    size = path.stat().st_size
    assert size > 800_000
    report = tmp_path / "x.json"
    done = call_tool(TOOL, str(folder), "--dry_run", "--json", str(report))
    assert done.returncode == 0, done.stderr
    (planned,) = read_json(report)["results"]
    assert planned["verdict"] == "would shrink"
    assert path.stat().st_size == size
    done = call_tool(TOOL, str(folder), "--json", str(report))
    assert done.returncode == 0, done.stderr
    (row,) = read_json(report)["results"]
    assert (row["verdict"], row["verified"], row["tensors"]) == ("shrunk", True, 13)
    assert row["dragged_bytes"] == planned["dragged_bytes"]
    assert row["target_bytes"] == path.stat().st_size < 40_000
    assert abs(size - row["dragged_bytes"] - path.stat().st_size) < 4000
    assert path.stat().st_mode & 0o777 == 0o640
    assert list_names(path.parent) == ["model_states.pt"]
    check_state(torch, state, path)
    done = call_tool(TOOL, str(folder), "--json", str(report))
    assert read_json(report)["results"][0]["verdict"] == "nothing to gain"


@pytest.mark.torch
@given(
    st.lists(
        st.tuples(st.integers(0, 60), st.integers(0, 20), st.integers(1, 4)), min_size=1, max_size=6
    )
)
def test_any_views_keep_their_values_and_ties(
    shrink: Any, torch: Any, views: list[tuple[int, int, int]]
) -> None:
    """Any views of one storage: the same values, a storage no larger, and a change of any element
    is seen by the same views as before."""

    def make() -> dict[str, Any]:
        base = torch.arange(200, dtype=torch.int32)
        return {f"v{i}": base[a : a + n * s : s] for i, (a, n, s) in enumerate(views)}

    old, new = make(), make()
    uses, _ = shrink.plan_checkpoint(torch, new)
    for use in uses:
        if use.dragged_bytes:
            shrink.cut_out(torch, use)
    shrink.match_checkpoints(torch, old, new, "x")
    storages = {t.untyped_storage()._cdata: t.untyped_storage().nbytes() for t in new.values()}
    assert sum(storages.values()) <= 800
    for name, tensor in old.items():
        if tensor.numel():
            tensor[0] = -1
            new[name][0] = -1
            values = [[t.tolist() for t in tree.values()] for tree in (old, new)]
            assert values[0] == values[1]


@pytest.mark.torch
def test_parts_are_worked_out_by_hand(shrink: Any, torch: Any) -> None:
    """What overlaps is one part, what skips is written without gaps, what is expanded stays."""
    base = torch.zeros(100, dtype=torch.float32)
    use = shrink.plan_storage(400, [("a", base[8:20]), ("b", base[12:16]), ("c", base[50:52])])
    assert [(part.begin, part.end) for part in use.parts] == [(32, 80), (192, 208)]
    assert use.dragged_bytes == 400 - 48 - 16
    assert shrink.plan_storage(400, [("a", base[::10])]).parts[0].new_bytes == 40
    tied = shrink.plan_storage(400, [("a", base[::10]), ("b", base[::10])])
    assert (len(tied.parts), tied.parts[0].is_compact) == (1, True)
    assert (
        shrink.plan_storage(400, [("a", base[::10]), ("b", base[::20])]).parts[0].new_bytes == 364
    )
    assert shrink.plan_storage(4, [("a", torch.zeros(1).expand(9))]).dragged_bytes == 0


@pytest.mark.torch
def test_difference_is_found(shrink: Any, torch: Any) -> None:
    """A value, a NaN, a type, a tie or a word that differs does not verify."""
    weight = torch.tensor([1.0, math.nan])
    good = {"a": weight, "b": weight, "c": [1, "x"]}
    shrink.match_checkpoints(torch, good, {"a": (w := weight.clone()), "b": w, "c": [1, "x"]}, "f")
    for bad in (
        {**good, "a": torch.tensor([1.0, 2.0])},
        {**good, "b": weight.clone()},
        {**good, "c": [1, "y"]},
        {**good, "c": (1, "x")},
        {"a": weight, "b": weight},
    ):
        with pytest.raises(shrink.Mismatch):
            shrink.match_checkpoints(torch, good, bad, "f")


class Evil:
    """Pickles as a call of os.mkdir."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __reduce__(self) -> Any:
        return os.mkdir, (str(self.folder),)


@pytest.mark.torch
@pytest.mark.parametrize("form", ["zip", "old", "bare", "late"])
def test_pickle_that_would_run_code_is_refused(
    call_tool: Callable[..., Any], torch: Any, tmp_path: Path, form: str
) -> None:
    """One line with the name of what it wanted; it was not run and is as it was; other files of
    the folder are done all the same."""
    folder, ran = tmp_path / "in", tmp_path / "ran"
    folder.mkdir()
    bad, good = folder / "bad.pt", folder / "good.pt"
    if form in ("bare", "late"):
        bad.write_bytes(pickle.dumps(Evil(ran), protocol=2 if form == "bare" else 5))
    else:
        torch.save({"x": Evil(ran)}, bad, _use_new_zipfile_serialization=form == "zip")
    torch.save(torch.zeros(10_000)[:3], good)
    content = bad.read_bytes()
    environ = {"TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD": "1"}
    done = call_tool(TOOL, str(folder), environ=environ)
    assert done.returncode == 1
    problems = [line for line in done.stderr.splitlines() if line.startswith("problem: ")]
    assert len(problems) == 1
    # Of later pickles torch reads nothing at all, so it does not know what they wanted.
    assert ("Unsupported operand" if form == "late" else "mkdir") in problems[0]
    assert "Traceback" not in done.stderr
    assert not ran.exists()
    assert bad.read_bytes() == content
    assert good.stat().st_size < 5000
    assert list_names(folder) == ["bad.pt", "good.pt"]
    with contextlib.suppress(RuntimeError, pickle.UnpicklingError):
        torch.load(bad, weights_only=False)
    assert ran.is_dir(), "the file is not what the test says it is"


@pytest.mark.torch
def test_backup_is_kept_if_asked(call_tool: Callable[..., Any], torch: Any, tmp_path: Path) -> None:
    """--keep_backup leaves the old file under its second name, and the next run does not write
    over it; the second name of a run that was killed before it changed anything goes."""
    path, backup = tmp_path / "a.pt", tmp_path / "a.pt.before_shrink"
    torch.save(torch.zeros(10_000)[:3], path)
    content = path.read_bytes()
    done = call_tool(TOOL, str(path), "--keep_backup")
    assert done.returncode == 0, done.stderr
    assert backup.read_bytes() == content
    done = call_tool(TOOL, str(path))
    assert done.returncode == 1
    assert "a.pt.before_shrink is there already" in done.stderr
    assert backup.read_bytes() == content
    backup.replace(path)
    os.link(path, backup)
    done = call_tool(TOOL, str(path))
    assert done.returncode == 0, done.stderr
    assert list_names(tmp_path) == ["a.pt"]
    assert path.stat().st_size < len(content)


@pytest.mark.torch
def test_what_does_not_verify_is_put_back(
    shrink: Any, torch: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A tree that is not what the file holds is never left in its place."""
    path = tmp_path / "a.pt"
    torch.save({"w": torch.zeros(10_000)[:3]}, path)
    content = path.read_bytes()
    with pytest.raises(shrink.Mismatch):
        shrink.replace_file(
            torch, path, "a.pt", path.stat(), {"w": torch.ones(3)}, False, shrink.StopSign()
        )
    assert path.read_bytes() == content
    assert list_names(tmp_path) == ["a.pt"]


@pytest.mark.torch
def test_newer_file_is_not_written_over(shrink: Any, torch: Any, tmp_path: Path) -> None:
    """A checkpoint that its program saves anew while this tool works stays; so does a second name
    that appears meanwhile."""
    path = tmp_path / "a.pt"
    torch.save({"w": torch.zeros(10_000)[:3]}, path)
    state = path.stat()
    tree = torch.load(path, weights_only=True)
    shrink.cut_out(torch, shrink.plan_checkpoint(torch, tree)[0][0])

    class SavesMeanwhile(shrink.StopSign):  # type: ignore[misc,name-defined]
        def check(self) -> None:
            """Called last before the file is replaced."""
            torch.save({"w": torch.zeros(10_000)[:4]}, tmp_path / "new")
            (tmp_path / "new").replace(path)

    with pytest.raises(shrink.Refused, match="somebody has written this file meanwhile"):
        shrink.replace_file(torch, path, "a.pt", state, tree, False, SavesMeanwhile())
    assert len(torch.load(path, weights_only=True)["w"]) == 4
    assert list_names(tmp_path) == ["a.pt"]
    backup = tmp_path / "a.pt.before_shrink"
    backup.write_text("precious")
    with pytest.raises(shrink.Refused, match="has appeared meanwhile"):
        shrink.give_second_name(path, backup)
    assert backup.read_text() == "precious"


@pytest.mark.torch
def test_newer_file_is_not_put_back(
    shrink: Any, torch: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A checkpoint that its program saves anew while the shrunk one is read once more stays: the
    old one does not come back over it."""
    path = tmp_path / "a.pt"
    torch.save({"w": torch.zeros(10_000)[:3]}, path)
    load = shrink.load_checkpoint

    def save_and_load(torch: Any, file: Path) -> Any:
        if file == path and (tmp_path / "a.pt.before_shrink").exists():
            torch.save({"w": torch.zeros(10_000)[:4]}, tmp_path / "new")
            (tmp_path / "new").replace(path)
        return load(torch, file)

    monkeypatch.setattr(shrink, "load_checkpoint", save_and_load)
    options = shrink.build_parser().parse_args(["x"])
    with pytest.raises(shrink.Refused, match="somebody has written this file meanwhile"):
        shrink.shrink_file(torch, path, "a.pt", options, shrink.StopSign())
    assert len(torch.load(path, weights_only=True)["w"]) == 4
    assert list_names(tmp_path) == ["a.pt"]


@pytest.mark.torch
@pytest.mark.usefixtures("can_mount")
def test_second_name_without_links_is_a_copy(shrink: Any, torch: Any, tmp_path: Path) -> None:
    """Where a second name cannot be a link the file keeps its own name all the time, and the
    backup is a whole copy: there is no moment without a checkpoint."""
    path, backup = tmp_path / "a.pt", tmp_path / "a.pt.before_shrink"
    torch.save({"w": torch.zeros(10_000)[:3]}, path)
    path.chmod(0o640)
    content = path.read_bytes()
    subprocess.run(["mount", "--bind", path, path], check=True, timeout=10)
    try:
        with pytest.raises(OSError, match="Invalid cross-device link"):
            os.link(path, tmp_path / "b")
        shrink.give_second_name(path, backup)
        assert path.read_bytes() == backup.read_bytes() == content
        assert backup.stat().st_mode & 0o777 == 0o640
        backup.unlink()
        # Nor can such a file be replaced: the whole run leaves it as it was.
        options = shrink.build_parser().parse_args(["x"])
        with pytest.raises(OSError, match="busy"):
            shrink.shrink_file(torch, path, "a.pt", options, shrink.StopSign())
        assert path.read_bytes() == content
        assert list_names(tmp_path) == ["a.pt"]
    finally:
        subprocess.run(["umount", path], check=True, timeout=10)


@pytest.mark.torch
def test_file_that_is_removed_meanwhile_is_told(torch: Any, tmp_path: Path) -> None:
    """A checkpoint that rotates away between the listing and its turn: a row, a line, and the
    others are done all the same. What is written is nobody else's to read meanwhile."""
    first, second, third = (tmp_path / f"{name}.pt" for name in "abc")
    torch.save({"w": torch.ones(12_000_000)[:11_000_000]}, first)
    first.chmod(0o600)
    for path in (second, third):
        torch.save({"w": torch.zeros(10_000)[:3]}, path)
    process = subprocess.Popen(
        [sys.executable, str(SCRIPTS / TOOL), str(tmp_path)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        umask=0,
    )
    modes = set()
    try:
        deadline = time.monotonic() + 60
        while process.poll() is None:
            assert time.monotonic() < deadline
            for path in tmp_path.glob(".a.pt.*.part"):
                with contextlib.suppress(FileNotFoundError):
                    modes.add(path.stat().st_mode & 0o777)
                second.unlink(missing_ok=True)
            time.sleep(0.001)
        table, notes = process.communicate(timeout=60)
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
    assert process.returncode == 1, notes
    assert "problem: b.pt: somebody has removed this file meanwhile" in notes
    assert "Traceback" not in notes
    assert [line.split("|")[-2].strip() for line in table.splitlines()[2:]] == [
        *("shrunk", "gone", "shrunk"),
    ]
    assert modes == {0o600}
    assert list_names(tmp_path) == ["a.pt", "c.pt"]


@pytest.mark.torch
def test_file_that_would_not_be_smaller_stays(shrink: Any, torch: Any, tmp_path: Path) -> None:
    """Many small tensors with small gaps: records of their own would take more than the gaps."""
    base = torch.arange(3200, dtype=torch.float32)
    path = tmp_path / "a.pt"
    torch.save([base[8 * n : 8 * n + 4] for n in range(400)], path)
    content = path.read_bytes()
    row = shrink.shrink_file(
        torch, path, "a.pt", shrink.build_parser().parse_args(["x"]), shrink.StopSign()
    )
    assert row["too_large"] == 1
    assert row["verdict"] == "nothing to gain"
    assert path.read_bytes() == content
    assert list_names(tmp_path) == ["a.pt"]


@pytest.mark.torch
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_other_kinds_of_tensors_are_compared_bit_by_bit(shrink: Any, torch: Any) -> None:
    """Sparse and quantised tensors of thousands of elements: one bit in their middle is found;
    what cannot be taken apart does not verify."""
    dense = torch.arange(1.0, 5001.0).reshape(50, 100)
    other = dense.clone()
    other[25, 50] += 1 / 64
    for make in (
        torch.Tensor.to_sparse,
        torch.Tensor.to_sparse_csr,
        torch.Tensor.to_sparse_csc,
        lambda t: torch.quantize_per_tensor(t, 1 / 64, 0, torch.qint32),
        lambda t: t.to(torch.complex64).conj(),
    ):
        shrink.match_checkpoints(torch, [make(dense)], [make(dense.clone())], "f")
        with pytest.raises(shrink.Mismatch, match="'0' is not what it was"):
            shrink.match_checkpoints(torch, [make(dense)], [make(other)], "f")
    scales = torch.ones(50), torch.zeros(50, dtype=torch.int64)
    odd = [torch.quantize_per_channel(dense, *scales, 0, torch.qint32)]
    with pytest.raises(shrink.Mismatch, match="cannot be compared"):
        shrink.match_checkpoints(torch, odd, odd, "f")


@pytest.mark.torch
def test_kept_backups_and_pipes_are_not_touched(
    call_tool: Callable[..., Any], torch: Any, tmp_path: Path
) -> None:
    """A pattern that fits all leaves the old files of --keep_backup alone; a pipe is not read."""
    torch.save(torch.zeros(10_000)[:3], tmp_path / "a.pt")
    done = call_tool(TOOL, str(tmp_path), "--keep_backup")
    assert done.returncode == 0, done.stderr
    content = (tmp_path / "a.pt.before_shrink").read_bytes()
    (tmp_path / "a.pt").rename(tmp_path / "b.pt")
    os.mkfifo(tmp_path / "pipe")
    done = call_tool(TOOL, str(tmp_path), str(tmp_path / "pipe"), "--patterns", "*")
    assert done.returncode == 0, done.stderr
    assert "no checkpoint" in done.stdout
    assert (tmp_path / "a.pt.before_shrink").read_bytes() == content


@pytest.mark.nightly
@pytest.mark.torch
def test_killed_run_leaves_every_file_whole(torch: Any, tmp_path: Path) -> None:
    """SIGKILL at many moments: each checkpoint is the old or the new one, and loads."""
    files = [tmp_path / f"{number}.pt" for number in range(12)]
    for path in files:
        torch.save({"w": torch.full((700_000,), 1.5)[5:200_005]}, path)
    sizes = {path.stat().st_size for path in files}
    command = [sys.executable, str(SCRIPTS / TOOL), str(tmp_path)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + 60
        while {path.stat().st_size for path in files} == sizes:
            assert process.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.001)
        process.send_signal(signal.SIGKILL)
    finally:
        process.kill()
        process.wait(timeout=10)
    assert {path.stat().st_size for path in files} > sizes, "it was done before it was killed"
    for path in files:
        tensor = torch.load(path, weights_only=True)["w"]
        assert torch.equal(tensor, torch.full((200_000,), 1.5))
    left = [name for name in list_names(tmp_path) if not name.endswith(".pt")]
    assert all(name.endswith((".part", ".before_shrink")) for name in left)


@pytest.mark.torch
@pytest.mark.usefixtures("can_mount")
def test_full_disk_leaves_the_file_as_it_was(
    call_tool: Callable[..., Any], torch: Any, tmp_path: Path
) -> None:
    """On a small tmpfs that has no room for the new file: a line, and the old file in its place."""
    command = ["mount", "-t", "tmpfs", "-o", "size=1m", "none", tmp_path]
    subprocess.run(command, check=True)
    try:
        path = tmp_path / "a.pt"
        torch.save({"w": torch.ones(200_000)[:150_000]}, path)
        content = path.read_bytes()
        done = call_tool(TOOL, str(path))
        assert done.returncode == 1
        assert "the file is as it was" in done.stderr
        assert "Traceback" not in done.stderr
        assert path.read_bytes() == content
        assert list_names(tmp_path) == ["a.pt"]
    finally:
        subprocess.run(["umount", tmp_path], check=True)


@pytest.mark.torch
def test_what_is_not_touched(
    call_tool: Callable[..., Any], read_json: Callable[[Path], Any], torch: Any, tmp_path: Path
) -> None:
    """Links, files that are no checkpoints, names that fit no pattern; sparse tensors stay."""
    folder = tmp_path / "in"
    folder.mkdir()
    large = torch.zeros(10_000)
    torch.save(large[:3], tmp_path / "far.pt")
    (folder / "link.pt").symlink_to(tmp_path / "far.pt")
    (folder / "data.bin").write_bytes(b"numbers and numbers")
    torch.save(large[:3], folder / "states.other")
    torch.save({"s": torch.eye(3).to_sparse(), "w": large[:3]}, folder / "sparse.pt")
    untouched = [tmp_path / "far.pt", folder / "data.bin", folder / "states.other"]
    before = [path.read_bytes() for path in untouched]
    report = tmp_path / "x.json"
    done = call_tool(TOOL, str(folder), "--json", str(report))
    assert done.returncode == 0, done.stderr
    verdicts = {row["file"]: row["verdict"] for row in read_json(report)["results"]}
    assert verdicts == {"link.pt": "a link", "data.bin": "no checkpoint", "sparse.pt": "shrunk"}
    assert [path.read_bytes() for path in untouched] == before
    new = torch.load(folder / "sparse.pt", weights_only=True)
    assert torch.equal(new["s"].to_dense(), torch.eye(3))
    done = call_tool(TOOL, str(folder), "--patterns", "*.other")
    assert done.returncode == 0, done.stderr
    assert (folder / "states.other").stat().st_size < 5000


@pytest.mark.torch
def test_files_of_one_name_are_told_apart(
    call_tool: Callable[..., Any], read_json: Callable[[Path], Any], torch: Any, tmp_path: Path
) -> None:
    """Rows, problems and the JSON call a file by its place below all that was named, however it
    was named, and one that was named twice is there once."""
    for name in ("a/step_1", "a/step_2", "b/step_1"):
        (tmp_path / name).mkdir(parents=True)
        torch.save({"w": torch.zeros(10_000)[:3]}, tmp_path / name / "model.pt")
    (tmp_path / "a/step_2/model.pt").write_bytes(b"cos\nmkdir\n(V/none\ntR.")
    report = tmp_path / "x.json"
    done = call_tool(TOOL, "a", "--json", str(report), cwd=tmp_path)
    assert done.returncode == 1
    verdicts = {row["file"]: row["verdict"] for row in read_json(report)["results"]}
    assert verdicts == {"step_1/model.pt": "shrunk", "step_2/model.pt": "refused"}
    assert "problem: step_2/model.pt: refused, because" in done.stderr
    named = ["a/step_1", str(tmp_path / "a/step_1/model.pt"), "b/step_1/model.pt"]
    done = call_tool(TOOL, *named, "--json", str(report), cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    names = [row["file"] for row in read_json(report)["results"]]
    assert names == ["a/step_1/model.pt", "b/step_1/model.pt"]
    assert all(f"| {name} " in done.stdout for name in names)
    done = call_tool(TOOL, "b/step_1/model.pt", "--json", str(report), cwd=tmp_path)
    assert [row["file"] for row in read_json(report)["results"]] == ["model.pt"]


# Run a tool on each of some paths as a user who is not root, for whom permissions hold.
AS_NOBODY = """
import os, runpy, sys
import torch  # its files may be for root alone
tool, *paths = sys.argv[1:]
if os.geteuid() == 0:
    os.setegid(65534)
    os.seteuid(65534)
for path in paths:
    sys.argv = [tool, path, "--dry_run"]
    try:
        runpy.run_path(tool, run_name="__main__")
    except SystemExit as ended:
        print("status", ended.code, file=sys.stderr)
"""


@pytest.mark.torch
@pytest.mark.parametrize(("mode", "place"), [(0o000, "closed"), (0o444, "closed/b.pt")])
def test_folder_that_cannot_be_read_is_named(torch: Any, mode: int, place: str) -> None:
    """A sub-folder without permission to read or to search: the others are done, and it is a
    problem by name; one that has nothing else is refused with its name and the reason."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name, "c")
        closed = folder / "step/closed"
        closed.mkdir(parents=True)
        Path(name).chmod(0o755)
        for path in (folder / "a.pt", closed / "b.pt"):
            torch.save({"w": torch.zeros(10_000)[:3]}, path)
            path.chmod(0o644)
        closed.chmod(mode)
        paths = [folder, folder / "step", closed, closed / "b.pt"]
        done = subprocess.run(
            [sys.executable, "-c", AS_NOBODY, str(SCRIPTS / TOOL), *map(str, paths)],
            capture_output=True,
            text=True,
            timeout=100,
            check=False,
        )
        closed.chmod(0o755)
    assert "Traceback" not in done.stderr
    assert done.stdout.count("| a.pt |") == 1
    lines = [line for line in done.stderr.splitlines() if re.search("Permission|status", line)]
    why = "could not be read: Permission denied"
    assert lines == [
        *(f"problem: step/{place}: {why}", "status 1"),
        *(f"checkpoint_shrink.py: error: {place}: {why}", "status 2"),
        *(f"checkpoint_shrink.py: error: {Path(place).name}: {why}", "status 2"),
        f"checkpoint_shrink.py: error: could not read {closed}/b.pt: Permission denied",
        "status 2",
    ]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "name checkpoints or a folder of them"),
        (["none"], "there is no none"),
        (["--demo", "x"], "--demo makes its own checkpoints"),
        (["--demo_size", "much"], "is no size"),
        (["x", "--demo_size", "1MiB"], "--demo_size belongs to --demo"),
        (["x", "--dry_run", "--keep_backup"], "--dry_run writes nothing"),
    ],
)
def test_wrong_use_is_told(
    call_tool: Callable[..., Any],
    tmp_path: Path,
    arguments: list[str],
    words: str,
) -> None:
    """What makes no sense ends with status 2 before torch is imported."""
    done = call_tool(TOOL, *arguments, without_torch=True, cwd=tmp_path)
    assert done.returncode == 2
    assert words in done.stderr
    assert "Traceback" not in done.stderr
