"""Files that are put in place whole, or not at all."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from bindery.core.whole_files import make_folder, sweep_leftovers, write_whole


def test_a_file_is_replaced_whole(tmp_path: Path) -> None:
    """A file gets its new content, readable for others as the umask allows, and nothing is left."""
    path = tmp_path / "deep" / "a.txt"
    write_whole(path, b"one")
    write_whole(path, b"two")
    assert path.read_bytes() == b"two"
    mask = os.umask(0)
    os.umask(mask)
    assert path.stat().st_mode & 0o777 == 0o666 & ~mask
    assert [entry.name for entry in path.parent.iterdir()] == ["a.txt"]


def test_a_folder_that_fails_leaves_the_old_one(tmp_path: Path) -> None:
    """An error while a folder is filled leaves the old folder and no scrap."""
    path = tmp_path / "site"
    for _ in range(2):
        with make_folder(path) as work:
            (work / "one").write_text("one")
    assert path.stat().st_mode & 0o777 == 0o755

    def fail() -> None:
        with make_folder(path) as work:
            (work / "two").write_text("two")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert [entry.name for entry in path.iterdir()] == ["one"]
    assert [entry.name for entry in tmp_path.iterdir()] == ["site"]


def test_leftovers_of_dead_builds_are_swept(tmp_path: Path) -> None:
    """What a killed build left is removed when it is old; what may be in use is not."""
    prefix = ".bindery-making-"
    old, young, stray = f"{prefix}1", f"{prefix}2", f"{prefix}3"
    for name in (old, young, "site"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "a").write_text("a")
    (tmp_path / stray).write_text("a")
    for name in (old, stray, "site"):
        os.utime(tmp_path / name, (0, 0))
    sweep_leftovers(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {young, "site"}


KILLED_AT_EACH_STEP = """
import sys
from pathlib import Path
from bindery.core.whole_files import make_folder, write_whole
from killing import is_killed, read_tree

def make(path, text):
    if kind == "file":
        write_whole(path, text)
        return
    with make_folder(path) as work:
        (work / "a").write_bytes(text)
        (work / "sub").mkdir()
        (work / "sub/b").write_bytes(text)

def read():
    return read_tree(path) if kind == "folder" else path.read_bytes()

kind, path = sys.argv[1], Path(sys.argv[2]) / "dist/book"
make(path, b"new")
new = read()
step = left = 0
while True:
    make(path, b"old")
    old = read()
    if not is_killed(lambda: make(path, b"new"), step := step + 1, "bindery-making-"):
        break
    assert read() in (old, new), step
    left += read() == old
assert read() == new != old
print(left, step)
"""


@pytest.mark.parametrize(("kind", "at_least"), [("file", 3), ("folder", 5)])
def test_killed_at_any_step_an_output_is_the_old_or_the_new_one(
    tmp_path: Path, script_environment: dict[str, str], kind: str, at_least: int
) -> None:
    """A build that is killed while it writes leaves the former file or folder, or the new one."""
    ended = subprocess.run(
        [sys.executable, "-c", KILLED_AT_EACH_STEP, kind, str(tmp_path)],
        env=script_environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    left, steps = map(int, ended.stdout.split())
    assert at_least <= left < steps
