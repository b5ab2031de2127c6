"""Changes of several files: all of them or none, also if a signal comes in between."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from bindery.core.model import BookError
from bindery.core.transaction import Change, change_files, find_obstacle
from fixture_types import BookMaker, Runner
from killing import read_tree
from needs import git

FILES = {
    "README.md": "# Book\n\n[one](docs/one.md) and\n[two](docs/two.md)\n",
    "docs/one.md": "# One\n\n[two](two.md)\nand [gone](gone.md)\n",
    "docs/two.md": "# Two\n\n[one](one.md)\n",
    "docs/notes.txt": "notes\n",
}
MOVE = Change(
    "refused-move",
    {
        "README.md": (FILES["README.md"], "# Book\n\n[one](far/off/one.md)\n"),
        "docs/one.md": (FILES["docs/one.md"], "# One\n\n[two](../../docs/two.md)\n"),
    },
    (("docs/one.md", "far/off/one.md"), ("docs/notes.txt", "far/notes.txt")),
)


# --- ended in the middle ---


ENDED_AT_EACH_STEP = """
import os, signal, sys
from pathlib import Path
import bindery.check.baseline_use, bindery.check.inspect
import bindery.rewrite.moving.arrange, bindery.rewrite.moving.wording
import bindery.rewrite.formatting.chapters, bindery.book.markdown_files
from bindery.cli.commands.format import format_sources
from bindery.cli.commands.mv import mv
from killing import is_killed, read_tree

def change():
    if verb == "mv":
        mv.callback("docs", "far/off/docs", False, False, root)
    else:
        format_sources.callback((), False, root)

verb, root = sys.argv[1], Path(sys.argv[2])
os.chdir(root)
before = read_tree(root)
step = undone = 0
while is_killed(change, step := step + 1, ".bindery-", signal.SIGTERM):
    if read_tree(root) != before:
        break  # it came after the last step, when all was done
    undone += 1
assert read_tree(root) != before
print(undone)
"""


def make_listed(make_book: BookMaker, *, known_to_git: bool) -> Path:
    """A book with a list of accepted findings that moves and formatting rewrite."""
    root = make_book(FILES, extra="baseline: accepted.jsonl\n")
    row = {"path": "docs/one.md", "rule": "dead-link", "text": "and [gone](gone.md)", "count": 1}
    (root / "accepted.jsonl").write_text(f"{json.dumps(row)}\n")
    if known_to_git:
        git(root, "init", "--quiet")
        git(root, "add", ".")
        git(root, "commit", "--quiet", "--message", "start")
    return root


@pytest.mark.parametrize(("verb", "known_to_git"), [("mv", False), ("mv", True), ("format", False)])
def test_a_signal_at_any_step_undoes_everything(
    make_book: BookMaker, script_environment: dict[str, str], verb: str, known_to_git: bool
) -> None:
    """A command that gets SIGTERM before any of its steps leaves every file as it was."""
    root = make_listed(make_book, known_to_git=known_to_git)
    ended = subprocess.run(
        [sys.executable, "-c", ENDED_AT_EACH_STEP, verb, str(root)],
        env=script_environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    assert int(ended.stdout) >= 6
    assert not list(root.rglob(".bindery-*"))


def test_a_step_that_fails_undoes_everything(make_book: BookMaker) -> None:
    """If the last step raises, everything goes back."""
    root = make_book(FILES)
    before = read_tree(root)

    def fail() -> dict[str, tuple[str, str]]:
        assert (root / "far/off/one.md").exists()
        raise BookError

    with pytest.raises(BookError):
        change_files(root, MOVE, fail)
    assert read_tree(root) == before


def test_uncommitted_files_move_only_by_force(make_book: BookMaker, run_bindery: Runner) -> None:
    """git could not bring back an edit, so the move is refused; other edits do not matter."""
    root = make_listed(make_book, known_to_git=True)
    (root / "docs/notes.txt").write_text("more notes\n")
    assert run_bindery("mv", "docs/one.md", "one.md", folder=root).status == 0
    refused = run_bindery("mv", "docs/notes.txt", "notes.txt", folder=root)
    assert refused.status == 2
    assert "'docs/notes.txt' has uncommitted changes" in refused.stderr
    assert "commit or stash them first, or add --force" in refused.stderr
    assert run_bindery("mv", "docs/notes.txt", "notes.txt", "--force", folder=root).status == 0
    assert (root / "notes.txt").read_text() == "more notes\n"


def test_late_edits_stop_a_change(make_book: BookMaker) -> None:
    """What has been edited since the plan was made is not overwritten."""
    root = make_book({**FILES, "README.md": "mine\n"})
    before = read_tree(root)
    with pytest.raises(BookError, match="has changed meanwhile"):
        change_files(root, MOVE)
    assert read_tree(root) == before


# --- what may not be written ---


def test_files_that_are_locked_or_elsewhere_are_passed_over(
    make_book: BookMaker, run_bindery: Runner, tmp_path: Path
) -> None:
    """Formatting writes neither through a link out of the book nor into a read-only file, says so,
    and does the rest."""
    root = make_book({"README.md": "a\nb\n", "locked.md": "a\nb\n", "out/x.md": "a\nb\n"})
    (root / "out").rename(tmp_path / "elsewhere")
    (root / "out").symlink_to(tmp_path / "elsewhere")
    (root / "locked.md").chmod(0o444)
    ended = run_bindery("format", folder=root)
    assert ended.status == 1
    assert "'out/x.md' is a link out of the book" in ended.stdout
    assert "'locked.md' is read-only" in ended.stdout
    assert ended.stdout.endswith("formatted 1 of 3 files\n")
    assert (root / "README.md").read_text() == "a b\n"
    assert (root / "locked.md").read_text() == (tmp_path / "elsewhere/x.md").read_text() == "a\nb\n"


def test_a_move_into_locked_files_is_refused(make_book: BookMaker, run_bindery: Runner) -> None:
    """Where a link is in a read-only file, nothing is moved; without one it may move itself."""
    root = make_book(FILES)
    (root / "README.md").chmod(0o444)
    before = read_tree(root)
    ended = run_bindery("mv", "docs/one.md", "one.md", folder=root)
    assert ended.status == 1
    assert "error[refused-move]: 'README.md' is read-only" in ended.stderr
    assert "`chmod u+w README.md` first" in ended.stderr
    assert read_tree(root) == before
    (root / "docs/notes.txt").chmod(0o444)
    assert run_bindery("mv", "docs/notes.txt", "notes.txt", folder=root).status == 0


def test_permissions_and_names_are_kept(make_book: BookMaker, run_bindery: Runner) -> None:
    """A chapter that is also a symbolic link inside the book is written where it is."""
    root = make_book({"README.md": "# A\n", "a.md": "a\nb\n", "b.md": ""})
    (root / "b.md").unlink()
    (root / "b.md").symlink_to("a.md")
    (root / "a.md").chmod(0o750)
    ended = run_bindery("format", folder=root)
    assert ended.stdout.endswith("formatted 2 of 3 files\n"), ended.stderr
    assert (root / "b.md").is_symlink()
    assert (root / "a.md").read_text() == "a b\n"
    assert (root / "a.md").stat().st_mode & 0o777 == 0o750
    assert find_obstacle(root, "b.md") is None
