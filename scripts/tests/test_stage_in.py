"""stage_in: complete and verified on each node, by one process of it, or not there at all."""

from __future__ import annotations

import fcntl
import hashlib
import io
import json
import os
import signal
import sys
import tarfile
import threading
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from slurm_cluster import open_cluster
from testing_utils import write_file_tree

SCRIPTS = Path(__file__).resolve().parent.parent
TOOL = "orchestration/stage_in.py"
PATH = SCRIPTS / TOOL


@pytest.fixture
def local(tmp_path: Path) -> Path:
    """A folder to stage to."""
    folder = tmp_path / "local"
    folder.mkdir()
    return folder


@pytest.fixture
def run(call_tool: Callable[..., Any], local: Path) -> Callable[..., tuple[int, str]]:
    """Stage an archive to `local`: the status, and what was printed."""

    def stage(source: Path, *arguments: str) -> tuple[int, str]:
        done = call_tool(TOOL, str(source), "--to", str(local), *arguments)
        assert "Traceback" not in done.stderr
        return done.returncode, done.stdout + done.stderr

    return stage


def pack(path: Path, contents: dict[str, bytes], mode: str = "w") -> Path:
    """A tar archive of these files."""
    with tarfile.open(path, mode) as archive:
        for name, content in contents.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return path


def make_contents(files: int) -> dict[str, bytes]:
    """Different files of 1000 bytes."""
    return {
        f"d{n % 5}/{n:05d}": (hashlib.sha256(str(n).encode()).digest() * 40)[:1000]
        for n in range(files)
    }


def read_tree(folder: Path) -> dict[str, bytes]:
    files = (path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}


def list_names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.parametrize(
    ("ending", "mode"),
    [("tar", "w"), ("tgz", "w:gz"), ("tar.bz2", "w:bz2"), ("tar.xz", "w:xz")],
)
def test_each_kind_of_archive(
    run: Callable[..., Any], tmp_path: Path, local: Path, ending: str, mode: str
) -> None:
    """All files are there, and found there the second time; nothing is left after --remove."""
    contents = make_contents(30)
    source = pack(tmp_path / f"data.{ending}", contents, mode)
    status, text = run(source)
    assert (status, "| staged " in text) == (0, True), text
    assert f"the archive was not verified: there is no data.{ending}.sha256" in text
    assert read_tree(local / "data") == contents
    assert "| was there " in run(source)[1]
    assert list_names(local) == [".data.staged.json", "data"]
    source.unlink()
    for verdict in ("removed", "was not there"):
        assert f"| {verdict} " in run(source, "--remove")[1]
        assert list_names(local) == []


def test_the_checksum_beside_the_archive(
    run: Callable[..., Any], tmp_path: Path, local: Path
) -> None:
    """The right one verifies, a wrong one leaves nothing."""
    source = pack(tmp_path / "data.tar", make_contents(5))
    beside = tmp_path / "data.tar.sha256"
    right = hashlib.sha256(source.read_bytes()).hexdigest()
    beside.write_text(f"{'0' * 64}  data.tar\n")
    status, text = run(source)
    assert (status, f"data.tar is {right[:16]}... instead of 0000" in text) == (1, True), text
    assert list_names(local) == []
    beside.write_text(f"{right}  data.tar\n")
    status, text = run(source)
    assert (status, "not verified" in text) == (0, False), text


SYM, LNK, REG = tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.REGTYPE


@pytest.mark.parametrize(
    ("name", "kind", "link"),
    [("../out", REG, ""), ("in", SYM, "/etc/passwd"), ("in", LNK, "../out"),
     ("null", tarfile.CHRTYPE, "")],
)  # fmt: skip
def test_what_leads_out_is_refused(
    run: Callable[..., Any], tmp_path: Path, local: Path, name: str, kind: bytes, link: str
) -> None:
    """Nothing of such an archive is left anywhere."""
    source = pack(tmp_path / "evil.tar", {"good": b"1"})
    with tarfile.open(source, "a") as archive:
        member = tarfile.TarInfo(name)
        member.type, member.linkname = kind, link
        archive.addfile(member)
    status, text = run(source)
    assert (status, "evil.tar is refused or damaged: " in text) == (1, True), text
    assert list_names(local) == []
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(("ending", "mode"), [("tar", "w"), ("tar.gz", "w:gz")])
@pytest.mark.parametrize("share", [0.0, 0.6, 0.97])
def test_a_truncated_archive_is_refused(
    run: Callable[..., Any], tmp_path: Path, local: Path, ending: str, mode: str, share: float
) -> None:
    """Wherever it ends, also between two members, without a checksum."""
    source = pack(tmp_path / f"data.{ending}", make_contents(200), mode)
    data = source.read_bytes()
    cut = int(len(data) * share)
    cut = cut // 512 * 512 if ending == "tar" else cut
    source.write_bytes(data[:cut] if share < 0.9 or ending != "tar" else data.rstrip(b"\0"))
    status, text = run(source)
    assert (status, text.startswith("problem: data.tar")) == (1, True), text
    assert list_names(local) == []


def test_a_changed_archive(run: Callable[..., Any], tmp_path: Path, local: Path) -> None:
    """What was staged before stays until --remove; then only the new one is there."""
    source = pack(tmp_path / "data.tar", {"old": b"1"})
    assert run(source)[0] == 0
    pack(source, {"new": b"2"})
    status, text = run(source)
    assert (status, "--remove it first" in text) == (1, True), text
    assert read_tree(local / "data") == {"old": b"1"}
    assert [run(source, "--remove")[0], run(source)[0]] == [0, 0]
    assert read_tree(local / "data") == {"new": b"2"}


def test_only_its_own_of_this_boot_counts(
    run: Callable[..., Any], tmp_path: Path, local: Path
) -> None:
    """Other files are neither used nor removed. What it staged is staged again after a reboot,
    because what was not synced to disk may be damaged."""
    source = pack(tmp_path / "data.tar", {"a": b"1"})
    (local / "data").mkdir()
    for options in ((), ("--remove",)):
        status, text = run(source, *options)
        assert (status, "was not put there by this tool" in text) == (1, True), text
    (local / "data").rmdir()
    assert run(source)[0] == 0
    marker = local / ".data.staged.json"
    marker.write_text(json.dumps(json.loads(marker.read_text()) | {"boot": "another"}))
    (local / "data/a").write_bytes(b"")
    assert "| staged " in run(source)[1]
    assert read_tree(local / "data") == {"a": b"1"}


def test_a_run_that_is_stopped(
    module: ModuleType, run: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, tmp_path: Path,
    local: Path,
) -> None:  # fmt: skip
    """By SIGTERM, while it reads: nothing of it is left."""
    source = pack(tmp_path / "data.tar", make_contents(50))
    monkeypatch.setattr(module.Source, "read", lambda *_: os.kill(os.getpid(), signal.SIGTERM))
    with pytest.raises(KeyboardInterrupt):
        run(source)
    assert list_names(local) == []


def test_the_others_wait(call_tool: Callable[..., Any], tmp_path: Path, local: Path) -> None:
    """A process that finds the lock held waits for it, and then finds the dataset."""
    source = pack(tmp_path / "data.tar", {"a": b"1"})
    assert call_tool(TOOL, str(source), "--to", str(local)).returncode == 0
    held = os.open(local, os.O_RDONLY)
    fcntl.flock(held, fcntl.LOCK_EX)
    threading.Timer(0.3, os.close, (held,)).start()
    done = call_tool(TOOL, str(source), "--to", str(local))
    assert (done.returncode, "| waited for " in done.stdout) == (0, True)
    quiet = call_tool(TOOL, str(source), "--to", str(local), environ={"LOCAL_RANK": "1"})
    assert (quiet.returncode, quiet.stdout) == (0, "")


@pytest.mark.parametrize(
    ("mount", "options"),
    [("size=100k", ()), ("size=10M,nr_inodes=40", ()), ("size=1M", ("--leave", "1000KiB"))],
)
def test_what_does_not_fit_is_refused(
    call_tool: Callable[..., Any], mount_tmpfs: Callable[[str], Path], tmp_path: Path, mount: str,
    options: tuple[str, ...],
) -> None:  # fmt: skip
    """Too few bytes or inodes, or bytes that are to be left free: nothing is there."""
    zeros = {name: bytes(1000) for name in make_contents(100)}
    source = pack(tmp_path / "data.tar.gz", zeros, "w:gz")
    small = mount_tmpfs(mount)
    done = call_tool(TOOL, str(source), "--to", str(small), *options)
    assert (done.returncode, "does not fit" in done.stderr) == (1, True), done.stderr
    assert list_names(small) == []
    few = pack(tmp_path / "few.tar", make_contents(5))
    assert call_tool(TOOL, str(few), "--to", str(small)).returncode == 0


def test_limits_of_cgroups_count(module: ModuleType, tmp_path: Path) -> None:
    """The least that any cgroup of the job leaves, or the machine."""
    write_file_tree(tmp_path, {"proc/meminfo": "MemAvailable:   2 kB"})
    assert module.read_free_memory(tmp_path) == 2048
    groups = "sys/fs/cgroup/slurm"
    write_file_tree(
        tmp_path,
        {"proc/self/cgroup": "0::/slurm/job_1", f"{groups}/job_1/memory.max": "max",
         f"{groups}/memory.max": "1000", f"{groups}/memory.current": "400"},
    )  # fmt: skip
    assert module.read_free_memory(tmp_path) == 600


def test_each_node_of_a_job_has_a_copy(tmp_path: Path) -> None:
    """srun with two nodes of two ranks: on each node, whose memory is its own, one rank copies."""
    source = pack(tmp_path / "data.tar", make_contents(500))
    local = tmp_path / "local"
    local.mkdir()
    with open_cluster(2) as cluster:
        for node in cluster.nodes:
            assert cluster.run(["mount", "-t", "tmpfs", "tmpfs", local], on=node).returncode == 0
        command = ["srun", "--nodes=2", "--ntasks=4", "--label", sys.executable, PATH, source]
        done = cluster.run([*command, "--to", local], folder=tmp_path)
        assert (done.returncode, done.stdout.count("| staged ")) == (0, 2), done.stderr
        for node in cluster.nodes:
            names = cluster.run(["find", local / "data", "-type", "f"], on=node).stdout.split()
            assert len(names) == 500
        assert list_names(local) == [], "nothing is on the disk that the nodes share"
