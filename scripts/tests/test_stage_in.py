"""stage_in: whole and checked on each node, by one process of it, or not there at all."""

from __future__ import annotations

import gzip
import hashlib
import importlib
import io
import json
import os
import pty
import re
import signal
import subprocess
import sys
import tarfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from slurm_cluster import open_cluster
from testing_utils import read_file_tree, write_file_tree

SCRIPTS = Path(__file__).resolve().parent.parent
TOOL = "orchestration/stage_in.py"
PATH = SCRIPTS / TOOL


@pytest.fixture(scope="module")
def stage_in(load_tool: Callable[[str], ModuleType]) -> ModuleType:
    """The tool as a module."""
    return load_tool(TOOL)


@pytest.fixture
def local(tmp_path: Path) -> Path:
    """A folder to stage to."""
    folder = tmp_path / "local"
    folder.mkdir()
    return folder


def pack(path: Path, contents: dict[str, bytes], mode: str = "w") -> Path:
    """A tar archive of these files."""
    with tarfile.open(path, mode) as archive:
        for name, content in contents.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return path


def make_contents(files: int, size: int = 1000) -> dict[str, bytes]:
    """Files that no two of are the same."""
    return {
        f"d{number % 5}/{number:05d}": (hashlib.sha256(str(number).encode()).digest() * 40)[:size]
        for number in range(files)
    }


def list_names(folder: Path) -> set[str]:
    """What is in a folder, the lock left out."""
    return {path.name for path in folder.iterdir() if not path.name.endswith(".lock")}


@pytest.mark.parametrize(
    ("ending", "mode"),
    [("tar", "w"), ("tar.gz", "w:gz"), ("tgz", "w:gz"), ("tar.bz2", "w:bz2"), ("tar.xz", "w:xz")],
)
def test_each_kind_of_archive_is_staged(
    call_tool: Callable[..., Any], tmp_path: Path, local: Path, ending: str, mode: str
) -> None:
    """Whatever it is packed with, all files are there with their bytes, and then found there."""
    contents = make_contents(30)
    source = pack(tmp_path / f"data.{ending}", contents, mode)
    done = call_tool(TOOL, str(source), "--to", str(local))
    assert done.returncode == 0, done.stderr
    assert "staged" in done.stdout
    assert "the archive was not" in done.stderr
    assert read_file_tree(local / "data") == contents
    again = call_tool(TOOL, str(source), "--to", str(local))
    assert (again.returncode, "was there" in again.stdout) == (0, True)
    assert list_names(local) == {"data", ".data.staged.json"}


def compress_zstd(data: bytes) -> bytes | None:
    """The bytes packed with zstd; None where nothing here can do that."""
    for name in ("compression.zstd", "zstandard"):
        try:
            packed: bytes = importlib.import_module(name).compress(data)
        except ImportError:
            continue
        return packed
    return None


def test_zstd_is_staged_or_told(call_tool: Callable[..., Any], tmp_path: Path, local: Path) -> None:
    """With what unpacks zstd the files are there; without it one line says what is missing."""
    contents = make_contents(10)
    plain = pack(tmp_path / "plain.tar", contents)
    packed = compress_zstd(plain.read_bytes())
    source = tmp_path / "data.tar.zst"
    source.write_bytes(packed or b"\x28\xb5\x2f\xfd nothing")
    done = call_tool(TOOL, str(source), "--to", str(local))
    if packed is None:
        assert done.returncode == 2
        assert "takes Python 3.14 or the package zstandard" in done.stderr
        assert list_names(local) == set()
        return
    assert done.returncode == 0, done.stderr
    assert read_file_tree(local / "data") == contents
    source.write_bytes(packed[: len(packed) // 2])
    done = call_tool(TOOL, str(source), "--to", str(local), "--name", "cut")
    assert (done.returncode, "cut off, damaged or no tar" in done.stderr) == (1, True), done.stderr


def test_an_archive_of_gnu_tar_comes_out_as_tar_has_it(
    call_tool: Callable[..., Any], tmp_path: Path, local: Path
) -> None:
    """Long names, links, holes, modes and times of a real tree are those that tar unpacks, without
    the setuid bit."""
    tree = tmp_path / "tree"
    long = tree / ("x" * 120) / ("y" * 120)
    long.mkdir(parents=True)
    (long / "deep").write_text("deep")
    (tree / "empty").mkdir(mode=0o750)
    (tree / "link").symlink_to("empty")
    (tree / "run").write_text("#!/bin/sh\n")
    (tree / "run").chmod(0o4755)
    os.link(tree / "run", tree / "same")
    with (tree / "holes").open("wb") as opened:
        opened.seek(1 << 20)
        opened.write(b"end")
    os.utime(tree / "run", (1e9, 1e9))
    source = tmp_path / "tree.tar"
    command = ["tar", "--sparse", "-C", str(tree), "-cf", str(source), "."]
    subprocess.run(command, check=True)
    done = call_tool(TOOL, str(source), "--to", str(local))
    assert done.returncode == 0, done.stderr
    staged = local / "tree"
    assert read_file_tree(staged) == read_file_tree(tree)
    assert (staged / "link").readlink() == Path("empty")
    assert (staged / "run").stat().st_mode & 0o7777 == 0o755
    assert (staged / "run").stat().st_mtime == 1e9
    assert (staged / "same").stat().st_ino == (staged / "run").stat().st_ino
    assert (staged / "empty").is_dir()


NAMES = st.from_regex(r"[a-z]{1,3}(/[a-z]{1,3}){0,2}", fullmatch=True)


@given(contents=st.dictionaries(NAMES, st.binary(max_size=50), max_size=8))
@settings(max_examples=25)
def test_any_tree_is_whole_or_refused(
    stage_in: ModuleType,
    tmp_path_factory: pytest.TempPathFactory,
    contents: dict[str, bytes],
) -> None:
    """Either all files are there with their bytes, or a name is a file and a folder at once and
    nothing is there."""
    base = tmp_path_factory.mktemp("any")
    source = pack(base / "data.tar", contents)
    request = stage_in.StageRequest(source, base, "out", None, False, 0, False, 9.0)
    clash = any(f"{other}/".startswith(f"{name}/") for name in contents for other in contents
                if name != other)  # fmt: skip
    if clash:
        with pytest.raises(stage_in.StageRefused, match="folder"):
            stage_in.stage_once(request, stage_in.StopSign(), True)
        assert list_names(base) == {"data.tar"}
    else:
        result = stage_in.stage_once(request, stage_in.StopSign(), True)
        assert result.files == len(contents)
        assert read_file_tree(base / "out") == contents


def test_the_checksum_beside_the_archive_counts(
    call_tool: Callable[..., Any], tmp_path: Path, local: Path
) -> None:
    """A file of sha256sum is believed: the right one stages, a wrong one leaves nothing."""
    source = pack(tmp_path / "data.tar", make_contents(5))
    beside = tmp_path / "data.tar.sha256"
    right = hashlib.sha256(source.read_bytes()).hexdigest()
    beside.write_text(f"{'0' * 64}  data.tar\n")
    done = call_tool(TOOL, str(source), "--to", str(local))
    assert done.returncode == 1
    assert f"has the SHA-256 {right[:16]}..., and should have 0000000000000000" in done.stderr
    assert list_names(local) == set()
    beside.write_text(f"{right}  other.tar\n")
    done = call_tool(TOOL, str(source), "--to", str(local))
    assert "has no SHA-256 of data.tar" in done.stderr
    beside.write_text(f"{right} *data.tar\n")
    done = call_tool(TOOL, str(source), "--to", str(local))
    assert done.returncode == 0, done.stderr
    assert "the archive was not" not in done.stderr


def test_the_archive_itself_may_be_kept(
    call_tool: Callable[..., Any], read_json: Callable[[Path], Any], tmp_path: Path, local: Path
) -> None:
    """--keep_archive copies the file, and the JSON has bytes, seconds and no path."""
    source = pack(tmp_path / "shards.tar", make_contents(50))
    out = tmp_path / "out.json"
    options = ("--keep_archive", "--name", "mine.tar", "--json", str(out))
    done = call_tool(TOOL, str(source), "--to", str(local), *options)
    assert done.returncode == 0, done.stderr
    assert (local / "mine.tar").read_bytes() == source.read_bytes()
    (row,) = read_json(out)["results"]
    assert (row["files"], row["bytes"]) == (1, source.stat().st_size)
    assert row["sha256"] == hashlib.sha256(source.read_bytes()).hexdigest()
    assert row["rate"] == pytest.approx(row["archive_bytes"] / row["seconds"])
    assert str(tmp_path) not in out.read_text()


def add_member(archive: tarfile.TarFile, name: str, kind: bytes, link: str = "") -> None:
    """A member without content."""
    member = tarfile.TarInfo(name)
    member.type, member.linkname, member.mode = kind, link, 0o755
    archive.addfile(member)


SYM, LNK, REG, DIR = tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.REGTYPE, tarfile.DIRTYPE


@pytest.mark.parametrize(
    "members",
    [
        [("../out", REG, "")],
        [("a/../../out", REG, "")],
        [("/tmp/stage_in_out", REG, "")],
        [("..", DIR, "")],
        [("in", SYM, "/etc/passwd")],
        [("in", SYM, "../out")],
        [("a", DIR, ""), ("a/in", SYM, "../../out")],
        [("in", LNK, "/etc/passwd")],
        [("in", LNK, "../out")],
        # Through a link that is itself inside: writing, and reading.
        [("d", DIR, ""), ("in", SYM, "d"), ("in/file", REG, "")],
        [("a", DIR, ""), ("a/b", DIR, ""), ("a/b/up", SYM, "../.."), ("x", SYM, "a/b/up/../out")],
        [("a", REG, ""), ("a/b", REG, "")],
        [("null", tarfile.CHRTYPE, "")],
        [("pipe", tarfile.FIFOTYPE, "")],
        [("in", LNK, "none")],
    ],
)
@pytest.mark.parametrize("mode", ["w", "w:gz"])
def test_what_leads_out_is_refused(
    stage_in: ModuleType,
    tmp_path: Path,
    local: Path,
    members: list[tuple[str, bytes, str]],
    mode: str,
) -> None:
    """A member with business elsewhere refuses the archive, and nothing of it is left anywhere."""
    source = tmp_path / "evil.tar"
    with tarfile.open(source, mode) as archive:
        add_member(archive, "good", REG)
        for member in members:
            add_member(archive, *member)
    before = sorted(tmp_path.rglob("*"))
    request = stage_in.StageRequest(source, local, "evil", None, False, 0, False, 9.0)
    with pytest.raises(stage_in.StageRefused, match=r"refused|no file|then something else"):
        stage_in.stage_once(request, stage_in.StopSign(), True)
    assert sorted(tmp_path.rglob("*")) == before
    assert not Path("/tmp/stage_in_out").exists()


def test_links_inside_and_rings_are_kept(stage_in: ModuleType, tmp_path: Path, local: Path) -> None:
    """Links that stay inside, lead nowhere or to each other harm nobody."""
    source = tmp_path / "links.tar"
    links = {"a/up": "../b", "none": "b/gone", "one": "two", "two": "one", "here": "."}
    with tarfile.open(source, "w") as archive:
        add_member(archive, "a", DIR)
        add_member(archive, "b", DIR)
        for name, link in links.items():
            add_member(archive, name, SYM, link)
    request = stage_in.StageRequest(source, local, "links", None, False, 0, False, 9.0)
    stage_in.stage_once(request, stage_in.StopSign(), True)
    for name, link in links.items():
        assert (local / "links" / name).readlink() == Path(link)


@pytest.mark.parametrize(
    ("ending", "mode"), [("tar", "w"), ("tar.gz", "w:gz"), ("tar.bz2", "w:bz2")]
)
@pytest.mark.parametrize("share", [0.0, 0.3, 0.6, 0.97])
def test_a_cut_archive_is_refused(
    call_tool: Callable[..., Any], tmp_path: Path, local: Path, ending: str, mode: str, share: float
) -> None:
    """Wherever an archive ends too early, it is one line and status 1, and nothing is left."""
    source = pack(tmp_path / f"data.{ending}", make_contents(200), mode)
    data = source.read_bytes()
    # Between two members a tar looks whole but for its end mark.
    cut = int(len(data) * share) // 512 * 512 if ending == "tar" else int(len(data) * share)
    source.write_bytes(data[:cut] if share < 0.9 or ending != "tar" else data.rstrip(b"\0"))
    done = call_tool(TOOL, str(source), "--to", str(local))
    assert done.returncode == 1
    assert done.stderr.startswith("problem: data.tar")
    assert "Traceback" not in done.stderr
    assert list_names(local) == set()


def test_a_changed_archive_replaces_only_when_told(
    call_tool: Callable[..., Any], tmp_path: Path, local: Path
) -> None:
    """What was staged of an older archive stays until --replace; then it is the newer one alone."""
    source = pack(tmp_path / "data.tar", {"old": b"1"})
    assert call_tool(TOOL, str(source), "--to", str(local)).returncode == 0
    pack(source, {"new": b"2"})
    done = call_tool(TOOL, str(source), "--to", str(local))
    assert done.returncode == 1
    assert "--replace puts this one there" in done.stderr
    assert read_file_tree(local / "data") == {"old": b"1"}
    for _ in range(2):
        done = call_tool(TOOL, str(source), "--to", str(local), "--replace")
        assert done.returncode == 0, done.stderr
        assert read_file_tree(local / "data") == {"new": b"2"}
    assert "was there" in done.stdout
    assert list_names(local) == {"data", ".data.staged.json"}


def test_what_is_not_its_own_is_left_alone(
    call_tool: Callable[..., Any], tmp_path: Path, local: Path
) -> None:
    """A folder of that name that somebody else made is neither used, nor replaced, nor removed."""
    source = pack(tmp_path / "data.tar", {"a": b"1"})
    (local / "data").mkdir()
    (local / "data" / "mine").write_text("mine")
    for options in ((), ("--replace",), ("--remove",)):
        done = call_tool(TOOL, str(source), "--to", str(local), *options)
        assert done.returncode == 1
        assert "was not put there by this tool" in done.stderr
    assert read_file_tree(local / "data") == {"mine": b"mine"}


def test_what_lost_files_is_not_used(
    call_tool: Callable[..., Any], tmp_path: Path, local: Path
) -> None:
    """Files that a cleaner took are missed: the first names at once, all others within the hour."""
    source = pack(tmp_path / "data.tar", {"a/x": b"1", "a/y": b"22", "b": b"3"})
    assert call_tool(TOOL, str(source), "--to", str(local)).returncode == 0
    marker = local / ".data.staged.json"
    (local / "data" / "a" / "y").unlink()
    assert call_tool(TOOL, str(source), "--to", str(local)).returncode == 0
    os.utime(marker, (time.time() - 4000,) * 2)
    done = call_tool(TOOL, str(source), "--to", str(local))
    assert done.returncode == 1
    assert "has 2 files in 2 bytes, and had 3 in 4: --replace" in done.stderr
    (local / "data" / "b").unlink()
    done = call_tool(TOOL, str(source), "--to", str(local))
    assert "is not what was staged any more" in done.stderr
    done = call_tool(TOOL, str(source), "--to", str(local), "--replace")
    assert done.returncode == 0, done.stderr
    assert len(read_file_tree(local / "data")) == 3


def test_a_restart_of_the_machine_stages_anew(
    call_tool: Callable[..., Any], tmp_path: Path, local: Path
) -> None:
    """What was staged before the machine started is not trusted, because nobody synced it."""
    source = pack(tmp_path / "data.tar", {"a": b"1"})
    assert call_tool(TOOL, str(source), "--to", str(local)).returncode == 0
    marker = local / ".data.staged.json"
    document = json.loads(marker.read_text())
    marker.write_text(json.dumps(document | {"boot": "another"}))
    (local / "data" / "a").write_bytes(b"!")
    done = call_tool(TOOL, str(source), "--to", str(local))
    assert (done.returncode, "staged" in done.stdout) == (0, True), done.stderr
    assert read_file_tree(local / "data") == {"a": b"1"}


@pytest.mark.parametrize("moment", ["before the first", "between"])
def test_no_moment_of_replacing_lies(
    call_tool: Callable[..., Any], tmp_path: Path, local: Path, moment: str
) -> None:
    """Killed when the marker was new and the folder was old or gone, the next run stages anew."""
    source = pack(tmp_path / "data.tar", {"a": b"1"})
    assert call_tool(TOOL, str(source), "--to", str(local)).returncode == 0
    marker = local / ".data.staged.json"
    document = json.loads(marker.read_text())
    old = (local / "data").stat().st_ino
    marker.write_text(json.dumps(document | {"inode": old + 1_000_000, "replaced": old}))
    (local / "data" / "a").write_bytes(b"old")
    if moment == "between":
        (local / "data").rename(local / ".data.old")
    done = call_tool(TOOL, str(source), "--to", str(local))
    assert (done.returncode, "staged" in done.stdout) == (0, True), done.stderr
    assert read_file_tree(local / "data") == {"a": b"1"}
    assert list_names(local) == {"data", ".data.staged.json"}


def test_bytes_that_changed_on_disk_are_found(stage_in: ModuleType, tmp_path: Path) -> None:
    """Reading back compares every byte with what was written."""
    (tmp_path / "a").write_bytes(b"right")
    written = stage_in.StagedFile(5, stage_in.zlib.crc32(b"right"))
    stage_in.verify_files(tmp_path, {"a": written}, stage_in.StopSign())
    (tmp_path / "a").write_bytes(b"wrong")
    with pytest.raises(stage_in.StageRefused, match="reads back otherwise"):
        stage_in.verify_files(tmp_path, {"a": written}, stage_in.StopSign())


def start(source: Path, local: Path, *options: str, **more: Any) -> subprocess.Popen[str]:
    """A run in the background."""
    return subprocess.Popen(
        [sys.executable, str(PATH), str(source), "--to", str(local), *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **more,
    )


def wait_for_partial(local: Path, process: subprocess.Popen[str]) -> None:
    """Wait until some files are unpacked. Fails where the run ends before."""
    deadline = time.monotonic() + 60
    while len(list(local.glob(".data.partial/d0/*"))) < 5:
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.005)


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, bytes]]:
    """An archive that takes a while."""
    contents = make_contents(4000, 300)
    return pack(tmp_path_factory.mktemp("large") / "data.tar", contents), contents


@pytest.mark.nightly
def test_after_a_kill_the_one_that_waits_takes_over(
    large: tuple[Path, dict[str, bytes]], local: Path
) -> None:
    """The process that copies is killed half-way: nothing half is there, and the one that waited
    stages all of it."""
    source, contents = large
    first = start(source, local)
    try:
        wait_for_partial(local, first)
        second = start(source, local)
        time.sleep(0.3)
        first.kill()
        first.communicate(timeout=30)
        assert not (local / "data").exists()
        out, notes = second.communicate(timeout=120)
    finally:
        first.kill()
    assert second.returncode == 0, notes
    assert "staged" in out
    assert read_file_tree(local / "data") == contents
    assert list_names(local) == {"data", ".data.staged.json"}


@pytest.mark.nightly
@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM", "SIGUSR1"])
def test_a_signal_leaves_nothing_half(
    large: tuple[Path, dict[str, bytes]],
    local: Path,
    tmp_path: Path,
    read_json: Callable[[Path], Any],
    name: str,
) -> None:
    """A signal ends the run with status 1, one line, and an empty folder."""
    out = tmp_path / "out.json"
    process = start(large[0], local, "--json", str(out))
    wait_for_partial(local, process)
    process.send_signal(getattr(signal, name))
    _, notes = process.communicate(timeout=60)
    assert process.returncode == 1
    assert notes == f"problem: stopped by {name}\n"
    assert list_names(local) == set()
    assert read_json(out)["complete"] is False


@pytest.mark.nightly
def test_many_at_once_copy_once(large: tuple[Path, dict[str, bytes]], local: Path) -> None:
    """Of five processes one copies, four wait, and all say that it is there."""
    source, contents = large
    runs = [
        start(source, local, env={**os.environ, "SLURM_LOCALID": str(rank)}) for rank in range(5)
    ]
    answers = [run.communicate(timeout=180) for run in runs]
    assert [run.returncode for run in runs] == [0] * 5, answers
    assert sum("staged" in out for out, _ in answers) == 1
    # Besides the copier only local rank 0 prints a table.
    assert sum(bool(out) for out, _ in answers) <= 2
    assert read_file_tree(local / "data") == contents


def test_waiting_has_an_end(call_tool: Callable[..., Any], tmp_path: Path, local: Path) -> None:
    """A lock that is never given up is a problem with status 1 after --wait."""
    import fcntl

    source = pack(tmp_path / "data.tar", {"a": b"1"})
    with (local / ".data.lock").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        done = call_tool(TOOL, str(source), "--to", str(local), "--wait", "1s")
    assert done.returncode == 1
    assert "for longer than --wait 1s" in done.stderr


@pytest.mark.parametrize("keeps", [False, True])
def test_an_inode_that_was_given_again_is_no_proof(
    stage_in: ModuleType, call_tool: Callable[..., Any], tmp_path: Path, local: Path, keeps: bool
) -> None:
    """What a user has put there by hand after removing the dataset is left alone, though the file
    system gave it the dataset's inode."""
    source = pack(tmp_path / "data.tar", {"a": b"1"})
    options = ["--keep_archive"] if keeps else []
    assert call_tool(TOOL, str(source), "--to", str(local), *options).returncode == 0
    target = local / ("data.tar" if keeps else "data")
    stage_in.remove_whole(target)
    if keeps:
        target.write_bytes(b"mine")
    else:
        target.mkdir()
        (target / "mine").write_bytes(b"mine")
    marker = local / f".{target.name}.staged.json"
    # Whether it is the same inode again is the file system's choice: here it is.
    document = json.loads(marker.read_text()) | {"inode": target.stat().st_ino}
    marker.write_text(json.dumps(document))
    for more in ([], ["--replace"], ["--remove"]):
        done = call_tool(TOOL, str(source), "--to", str(local), *options, *more)
        assert done.returncode == 1
        assert "was not put there by this tool" in done.stderr
    assert (target if keeps else target / "mine").read_bytes() == b"mine"


@pytest.mark.parametrize("mode", ["w", "w:gz"])
def test_headers_without_end_are_refused(
    call_tool: Callable[..., Any], tmp_path: Path, local: Path, mode: str
) -> None:
    """An archive of nothing but headers for headers is damaged, and no traceback."""
    header = tarfile.TarInfo("././@LongLink")
    header.type, header.size = tarfile.GNUTYPE_LONGNAME, 2
    block = header.tobuf(tarfile.GNU_FORMAT) + b"a\0".ljust(512, b"\0")
    source = tmp_path / "evil.tar"
    source.write_bytes(gzip.compress(block * 5000) if mode == "w:gz" else block * 5000)
    done = call_tool(TOOL, str(source), "--to", str(local))
    assert done.returncode == 1
    assert re.search("is no tar archive that can be read|cut off, damaged or no tar", done.stderr)
    assert "Traceback" not in done.stderr
    assert list_names(local) == set()


def test_remove_takes_all_of_it(call_tool: Callable[..., Any], tmp_path: Path, local: Path) -> None:
    """--remove leaves the folder as it was before, also where nothing was staged, and needs no
    archive any more."""
    source = pack(tmp_path / "data.tar", {"a": b"1"})
    assert call_tool(TOOL, str(source), "--to", str(local)).returncode == 0
    source.unlink()
    for verdict in ("removed", "was not there"):
        done = call_tool(TOOL, str(source), "--to", str(local), "--remove")
        assert (done.returncode, verdict in done.stdout) == (0, True), done.stderr
        assert list(local.iterdir()) == []


def test_remove_asks_whose_it_is(
    call_tool: Callable[..., Any], tmp_path: Path, local: Path
) -> None:
    """What was staged from another archive, or from this one before it was changed, is refused as
    it is in staging; --replace takes it away."""
    source = pack(tmp_path / "data.tar", {"a": b"1"})
    other = pack(tmp_path / "other.tar", {"b": b"2"})
    options = ("--to", str(local), "--name", "x")
    assert call_tool(TOOL, str(source), *options).returncode == 0
    gone = tmp_path / "gone.tar"
    for path in (other, gone):
        done = call_tool(TOOL, str(path), *options, "--remove")
        assert done.returncode == 1
        assert "x is of another archive, data.tar, or of this one before" in done.stderr
    pack(source, {"c": b"3"})
    assert call_tool(TOOL, str(source), *options, "--remove").returncode == 1
    assert (local / "x" / "a").read_bytes() == b"1"
    done = call_tool(TOOL, str(other), *options, "--remove", "--replace")
    assert (done.returncode, list(local.iterdir())) == (0, []), done.stderr


def test_what_was_not_counted_is_not_called_whole(
    call_tool: Callable[..., Any], tmp_path: Path, local: Path
) -> None:
    """Between two counts the answer says how old the last one is, and does not say whole."""
    source = pack(tmp_path / "data.tar", {"d/a": b"1", "d/b": b"2"})
    assert "data is whole" in call_tool(TOOL, str(source), "--to", str(local)).stderr
    (local / "data" / "d" / "a").unlink()
    path = tmp_path / "out.json"
    done = call_tool(TOOL, str(source), "--to", str(local), "--json", str(path))
    assert done.returncode == 0
    assert "whole" not in done.stderr
    assert re.search(r"note: its files were last counted \d+ s ago, and not again", done.stderr)
    assert "last counted" in " ".join(json.loads(path.read_text())["caveats"])


def test_member_larger_than_any_file_is_told(
    call_tool: Callable[..., Any], tmp_path: Path, local: Path
) -> None:
    """A header that tells of 10^15 bytes is named as what is wrong, and nothing stays."""
    member = tarfile.TarInfo("huge.bin")
    member.size = 10**15
    source = tmp_path / "huge.tar"
    source.write_bytes(member.tobuf(tarfile.GNU_FORMAT) + b"x" * 2048)
    done = call_tool(TOOL, str(source), "--to", str(local))
    assert done.returncode == 1
    assert re.search("'huge.bin', of 1000 TB|no tar archive that can be read", done.stderr)
    assert "Invalid argument" not in done.stderr
    assert list(local.iterdir()) == []


@pytest.fixture
def mount_small(tmp_path: Path, can_mount: None) -> Iterator[Callable[..., Path]]:
    """Mounts a small file system in memory, and takes it down."""
    mounted: list[Path] = []

    def mount(**options: str) -> Path:
        folder = tmp_path / f"small{len(mounted)}"
        folder.mkdir()
        words = ",".join(f"{name}={value}" for name, value in options.items())
        command = ["mount", "-t", "tmpfs", "-o", words, "tmpfs", str(folder)]
        subprocess.run(command, timeout=30, check=True)
        mounted.append(folder)
        return folder

    yield mount
    for folder in mounted:
        subprocess.run(["umount", str(folder)], timeout=30, check=True)


@pytest.mark.parametrize(("ending", "mode"), [("tar", "w"), ("tar.gz", "w:gz")])
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"size": "200k"}, r"does not fit: it takes \d\d\d kB in .* are free"),
        ({"size": "10M", "nr_inodes": "40"}, r"does not fit: it takes \d+ inodes in .* are free"),
    ],
)
def test_what_does_not_fit_is_refused(
    call_tool: Callable[..., Any],
    mount_small: Callable[..., Path],
    tmp_path: Path,
    ending: str,
    mode: str,
    options: dict[str, str],
    message: str,
) -> None:
    """On a file system with too few bytes or inodes nothing is left; what fits fits."""
    source = pack(tmp_path / f"data.{ending}", make_contents(100), mode)
    small = mount_small(**options)
    done = call_tool(TOOL, str(source), "--to", str(small))
    assert done.returncode == 1
    # A packed archive is refused at the member that does not fit any more.
    assert re.search(message if mode == "w" else "does not fit: it takes", done.stderr), done.stderr
    assert list_names(small) == set()
    few = pack(tmp_path / "few.tar", make_contents(10))
    assert call_tool(TOOL, str(few), "--to", str(small)).returncode == 0
    assert len(read_file_tree(small / "few")) == 10


def test_what_is_kept_free_and_what_memory_has_counts(
    call_tool: Callable[..., Any], mount_small: Callable[..., Path], tmp_path: Path
) -> None:
    """--leave keeps bytes free; a tmpfs larger than the machine is no room."""
    source = pack(tmp_path / "data.tar", make_contents(10))
    small = mount_small(size="1M")
    done = call_tool(TOOL, str(source), "--to", str(small), "--leave", "1000KiB")
    assert (done.returncode, "1.02 MB are kept free" in done.stderr) == (1, True), done.stderr
    assert call_tool(TOOL, str(source), "--to", str(small), "--leave", "500KiB").returncode == 0
    huge = mount_small(size="100T")
    with (tmp_path / "huge.tar").open("wb") as opened:
        member = tarfile.TarInfo("huge")
        member.size = 10 << 40
        header = member.tobuf()
        opened.write(header)
        opened.truncate(len(header) + member.size)  # holes: it takes no place
    done = call_tool(TOOL, str(tmp_path / "huge.tar"), "--to", str(huge))
    assert done.returncode == 1
    assert "11 TB of memory" in done.stderr
    assert list_names(huge) == set()


def test_limits_of_cgroups_count(stage_in: ModuleType, tmp_path: Path) -> None:
    """What a job may still use is the least that any of its cgroups leaves."""
    files = {
        "proc/self/cgroup": "0::/slurm/job_1\n",
        "sys/fs/cgroup/slurm/job_1/memory.max": "max\n",
        "sys/fs/cgroup/slurm/job_1/memory.current": "5\n",
        "sys/fs/cgroup/slurm/memory.max": "1000\n",
        "sys/fs/cgroup/slurm/memory.current": "400\n",
    }
    write_file_tree(tmp_path, files)
    assert stage_in.read_cgroup_room(tmp_path / "sys", tmp_path / "proc") == 600
    assert stage_in.read_cgroup_room(tmp_path / "none", tmp_path / "none") is None


@pytest.mark.parametrize("controllers", ["memory", "cpu,memory", "memory,hugetlb"])
def test_limits_of_older_cgroups_count(
    stage_in: ModuleType, tmp_path: Path, controllers: str
) -> None:
    """Version 1, alone or beside version 2: its folder is that of the memory controller, and the
    largest number it knows is no limit."""
    files = {
        "proc/self/cgroup": f"7:{controllers}:/slurm/job_1\n3:cpuset:/elsewhere\n0::/init\n",
        "sys/fs/cgroup/memory/slurm/job_1/memory.limit_in_bytes": "3000\n",
        "sys/fs/cgroup/memory/slurm/job_1/memory.usage_in_bytes": "1000\n",
        "sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n",
        "sys/fs/cgroup/memory/memory.usage_in_bytes": "5000\n",
    }
    write_file_tree(tmp_path, files)
    room = stage_in.read_cgroup_room
    assert room(tmp_path / "sys", tmp_path / "proc") == 2000
    limit = tmp_path / "sys/fs/cgroup/memory/slurm/job_1/memory.limit_in_bytes"
    limit.write_text("9223372036854771712\n")
    assert room(tmp_path / "sys", tmp_path / "proc") is None


@pytest.mark.needs("/dev/pts/ptmx")
def test_progress_is_shown_on_a_terminal(tmp_path: Path, local: Path) -> None:
    """On a terminal a line of megabytes and MB/s is rewritten."""
    contents = {f"{number}": os.urandom(4 << 20) for number in range(4)}
    source = pack(tmp_path / "data.tar", contents)
    leader, follower = pty.openpty()
    command = [sys.executable, str(PATH), str(source), "--to", str(local)]
    subprocess.run(command, stdout=subprocess.DEVNULL, stderr=follower, timeout=60, check=True)
    os.close(follower)
    said = os.read(leader, 100_000).decode()
    os.close(leader)
    assert re.search(r"\d+/17 MB, \d+ MB/s", said)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "name the archive"),
        (("SOURCE",), "name the archive"),
        (("SOURCE", "--to", "/no/where"), "there is no folder /no/where"),
        (("none.tar", "--to", "."), "there is no file none.tar"),
        (("SOURCE", "--to", ".", "--sha256", "abc"), "is no SHA-256"),
        (("SOURCE", "--to", ".", "--name", "a/b"), "is no plain name"),
        (("SOURCE", "--to", ".", "--name", ".."), "is no plain name"),
        (("SOURCE", "--to", ".", "--leave", "much"), "is no size"),
        (("SOURCE", "--to", ".", "--remove", "--sha256", "0" * 64), "--remove copies nothing"),
        (("SOURCE", "--toy"), "--toy has an archive of its own"),
        (("SOURCE", "--to", "/proc/sys"), "cannot be opened"),
    ],
)
def test_wrong_use_is_told(
    call_tool: Callable[..., Any], tmp_path: Path, arguments: tuple[str, ...], message: str
) -> None:
    """What cannot be done is one line, without a traceback."""
    source = pack(tmp_path / "data.tar", {"a": b"1"})
    given = [str(source) if part == "SOURCE" else part for part in arguments]
    done = call_tool(TOOL, *given, cwd=tmp_path)
    assert done.returncode == (1 if "/proc/sys" in arguments else 2)
    assert message in done.stderr
    assert "Traceback" not in done.stderr


def test_shared_file_systems_are_refused(stage_in: ModuleType, tmp_path: Path) -> None:
    """A folder on NFS is told from one on a local disk by the kernel's list of mounts."""
    mounts = tmp_path / "mountinfo"
    mounts.write_text(
        "1 0 8:1 / / rw - ext4 /dev/sda rw\n2 1 0:5 / /shared rw shared:1 - nfs4 server:/x rw\n"
    )
    assert stage_in.find_file_system(Path("/shared/data"), mounts) in stage_in.SHARED_FILE_SYSTEMS
    assert stage_in.find_file_system(Path("/scratch"), mounts) == "ext4"


@pytest.mark.nightly
def test_each_node_of_a_job_has_its_own_copy(tmp_path: Path) -> None:
    """srun with two nodes of two ranks: on each node, whose memory is its own, one rank copies."""
    contents = make_contents(500)
    source = pack(tmp_path / "data.tar", contents)
    local = tmp_path / "local"
    local.mkdir()
    with open_cluster(2) as cluster:
        for node in cluster.nodes:
            mounted = cluster.run(["mount", "-t", "tmpfs", "tmpfs", local], on=node)
            assert mounted.returncode == 0, mounted.stderr
        command = ["srun", "--nodes=2", "--ntasks=4", "--label", sys.executable, PATH, source]
        done = cluster.run([*command, "--to", local], folder=tmp_path)
        assert done.returncode == 0, done.stderr
        assert done.stdout.count(" staged |") == 2
        for node in cluster.nodes:
            names = cluster.run(["find", local / "data", "-type", "f"], on=node).stdout.split()
            assert len(names) == len(contents)
        assert list(local.iterdir()) == [], "nothing is on the disk that the nodes share"
        again = cluster.run([*command, "--to", local, "--remove"], folder=tmp_path)
        assert again.returncode == 0, again.stderr
        assert again.stdout.count(" removed |") == 2
