"""Changes of several files: all of it or nothing, whenever and however the process is ended."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from bindery.check.inspect import inspect_book
from bindery.core.model import BookError, ConfigError
from bindery.core.transaction import JOURNAL, Change, change_files, find_obstacle, take_back
from bindery.web.mending import plan_mending, write_mending
from killing import read_tree
from needs import need

if TYPE_CHECKING:
    from conftest import BookMaker, Runner

FILES = {
    "README.md": "# Book\n\n[one](docs/one.md) and\n[two](docs/two.md)\n",
    "docs/one.md": "# One\n\n[two](two.md)\nand [gone](gone.md)\n",
    "docs/two.md": "# Two\n\n[one](one.md)\n",
    "docs/notes.txt": "notes\n",
}
MOVE = Change(
    "mv",
    "refused-move",
    {
        "README.md": (FILES["README.md"], "# Book\n\n[one](far/off/one.md)\n"),
        "docs/one.md": (FILES["docs/one.md"], "# One\n\n[two](../../docs/two.md)\n"),
    },
    (("docs/one.md", "far/off/one.md"), ("docs/notes.txt", "far/notes.txt")),
)


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the key lies that journals are sealed with; that of the user stays untouched."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return tmp_path / "state"


def git(root: Path, *arguments: str) -> str:
    need("git")
    identity = ["-c", "user.name=A", "-c", "user.email=a@b.c"]
    command = ["git", *identity, *arguments]
    return subprocess.run(command, cwd=root, check=True, capture_output=True, text=True).stdout


# --- killed at each step ---


KILLED_AT_EACH_STEP = """
import os, sys
from pathlib import Path
import bindery.check.baseline_use, bindery.check.inspect
import bindery.rewrite.moving.transfer, bindery.rewrite.moving.wording
import bindery.rewrite.formatting.chapters, bindery.book.markdown_files
from bindery.core.transaction import JOURNAL, take_back
from bindery.cli.commands.format import format_sources
from bindery.cli.commands.mv import mv
from killing import is_killed, read_tree

def change():
    if verb == "mv":
        mv.callback("docs", "far/off/docs", False, False, root)
    else:
        format_sources.callback((), False, False, root)

verb, root = sys.argv[1], Path(sys.argv[2])
os.chdir(root)
before = read_tree(root)
step = undone = 0
while is_killed(change, step := step + 1, ".bindery-"):
    undone += (root / JOURNAL).exists()
    # Going back is killed as well, at one step after the other, until it comes to its end.
    back = 0
    while is_killed(lambda: take_back(root), back := back + 1, ".bindery-"):
        pass
    assert read_tree(root) == before, step
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
def test_killed_at_any_step_all_goes_back(
    make_book: BookMaker, script_environment: dict[str, str], verb: str, known_to_git: bool
) -> None:
    """Killed before any of its steps, a change is taken back by the next command, byte for byte,
    though that one is killed at each of its steps too."""
    root = make_listed(make_book, known_to_git=known_to_git)
    ended = subprocess.run(
        [sys.executable, "-c", KILLED_AT_EACH_STEP, verb, str(root)],
        env=script_environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    assert int(ended.stdout) >= 8
    assert not list(root.rglob(".bindery-*"))
    if known_to_git:
        assert "R  docs/notes.txt -> far/off/docs/notes.txt" in git(root, "status", "--short")


@pytest.mark.nightly
@pytest.mark.parametrize("verb", ["mv", "format"])
def test_killed_at_any_moment_all_goes_back(
    make_book: BookMaker, child_environment: dict[str, str], verb: str
) -> None:
    """Killed at random moments, a change is done, or the next command takes it back."""
    text = "# C\n\none\ntwo [x](/docs/c1.md)\n"
    chapters = {f"docs/c{number}.md": text for number in range(100)}
    files = {"README.md": "# A\n", **chapters}
    command = [sys.executable, "-m", "bindery"]
    command += ["mv", "docs", "text"] if verb == "mv" else ["format"]

    def start(root: Path) -> subprocess.Popen[bytes]:
        """The command, when it has begun to change files."""
        null = subprocess.DEVNULL
        process = subprocess.Popen(
            command, cwd=root, env=child_environment, stdout=null, stderr=null
        )
        while not (root / JOURNAL).exists() and process.poll() is None:
            time.sleep(0.001)
        return process

    whole = make_book(files, name="whole")
    process = start(whole)
    began = time.monotonic()
    assert process.wait(timeout=60) == 0
    seconds = time.monotonic() - began

    root = make_book(files)
    before = read_tree(root)
    moments = random.Random(verb)
    undone = 0
    for number in range(8):
        process = start(root)
        time.sleep(seconds * moments.uniform(0, 0.8))
        process.kill()
        process.wait()
        undone += (root / JOURNAL).exists()
        take_back(root)
        if read_tree(root) != before:
            assert read_tree(root) == read_tree(whole)
            root = make_book(files, name=f"again{number}")
    assert undone >= 2
    assert not list(root.rglob(".bindery-*"))


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_a_signal_takes_all_back(make_book: BookMaker, number: signal.Signals) -> None:
    """Asked to stop between two steps, a change goes back by itself."""
    root = make_book(FILES)
    before = read_tree(root)

    def get_signal() -> dict[str, tuple[str, str]]:
        assert (root / "far/off/one.md").exists()
        os.kill(os.getpid(), number)
        return {}

    former = signal.getsignal(number)
    with pytest.raises(KeyboardInterrupt):
        change_files(root, MOVE, get_signal)
    assert read_tree(root) == before
    assert signal.getsignal(number) is former


TERMINATED = """
import signal, sys
from bindery.cli.main import main
from killing import signal_at

signal_at(int(sys.argv.pop()), ".bindery-", signal.SIGTERM)
main()
"""


def test_a_command_that_is_ended_leaves_all_as_it_was(
    make_book: BookMaker, script_environment: dict[str, str]
) -> None:
    """`bindery mv` that gets SIGTERM in the middle leaves everything as it was, and ends as if by
    Ctrl-C."""
    root = make_book(FILES)
    before = read_tree(root)
    ended = subprocess.run(
        [sys.executable, "-c", TERMINATED, "mv", "docs", "text", "8"],
        cwd=root,
        env=script_environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (ended.returncode, "Traceback" in ended.stderr) == (130, False), ended.stderr
    assert read_tree(root) == before


# --- what cannot be done, and what cannot be undone ---


def kill_in_the_middle(root: Path) -> None:
    """Make the move up to its end, and leave the journal as if the process had been killed."""
    journal = ""

    def keep() -> dict[str, tuple[str, str]]:
        nonlocal journal
        journal = (root / JOURNAL).read_text()
        return {}

    change_files(root, MOVE, keep)
    (root / JOURNAL).write_text(journal)


def test_the_next_command_takes_back_and_goes_on(make_book: BookMaker, run_bindery: Runner) -> None:
    """A move that finds a half one undoes it in one line, and is made itself."""
    root = make_book(FILES)
    kill_in_the_middle(root)
    ended = run_bindery("mv", "docs/two.md", "two.md", folder=root)
    assert ended.status == 0, ended.stderr
    assert ended.stderr == (
        "`bindery mv` was ended before it was done; "
        "took it back, the move of docs/one.md to far/off/one.md\n"
    )
    assert (root / "docs/one.md").exists()
    assert not (root / "far").exists()
    assert "[two](two.md)" in (root / "README.md").read_text()


@pytest.mark.parametrize(
    "arguments",
    [
        ("mv", "docs/two.md", "two.md", "--dry-run"),
        ("format", "--check"),
        ("fill", "--check"),
        ("html",),
    ],
)
def test_what_must_not_write_says_what_to_do(
    make_book: BookMaker, run_bindery: Runner, arguments: tuple[str, ...]
) -> None:
    """What only shows or builds takes nothing back, and does not go on either."""
    root = make_book(FILES)
    kill_in_the_middle(root)
    before = read_tree(root)
    ended = run_bindery(*arguments, folder=root)
    assert ended.status in (1, 2)
    assert "the book is half changed" in ended.stderr
    assert "take it back with `bindery mv --undo`" in ended.stderr
    assert read_tree(root) == before


def test_an_edit_since_then_is_kept(make_book: BookMaker, run_bindery: Runner) -> None:
    """A file that the author has edited since is never overwritten, and is named."""
    root = make_book(FILES)
    before = read_tree(root)
    kill_in_the_middle(root)
    (root / "far/off/one.md").write_text("mine\n")
    ended = run_bindery("mv", "--undo", folder=root)
    assert ended.status == 1
    assert (
        "docs/one.md:1:1: error[unfinished-change]: 'docs/one.md' has been edited" in ended.stderr
    )
    assert read_tree(root) == {**before, "docs/one.md": b"mine\n"}


@pytest.mark.parametrize(
    ("spoil", "says"),
    [
        (lambda root: (root / "docs/one.md").write_text("new\n"), "both are there"),
        (lambda root: (root / "far/off/one.md").unlink(), "neither is there"),
    ],
)
def test_a_move_that_cannot_be_taken_back_changes_nothing(
    make_book: BookMaker, run_bindery: Runner, spoil: Callable[[Path], object], says: str
) -> None:
    """Where the way back is blocked, nothing is touched, and the way out is named."""
    root = make_book(FILES)
    kill_in_the_middle(root)
    spoil(root)
    before = read_tree(root)
    ended = run_bindery("mv", "--undo", folder=root)
    assert ended.status == 1
    assert says in ended.stderr
    assert f"or delete {JOURNAL} to keep all as it is" in ended.stderr
    assert read_tree(root) == before


@pytest.mark.parametrize(
    "edit",
    [
        {"format": 9},
        {"token": "../x"},
        {"texts": [{"path": "../out.md", "before": "a", "after": "b"}]},
        {"texts": [{"path": "a.md", "before": 1, "after": "b"}]},
        {"moves": [["README.md", ".git/hooks/x"]]},
        {"moves": [["README.md", "docs/.Git/hooks/x"]]},
        {"moves": [["README.md", "linked/x"]]},
        {"moves": [["a.md", "b.md"], ["a.md", "c.md"]]},
        {"moves": [["round/a.md", "b.md"]]},
        {"moves": [["a\0.md", "b.md"]]},
        {"made": ["\ud800/x"]},
        {"made": ["/somewhere"]},
        {"token": 12345678},
        {"token": "abcd123"},
        {"command": "\ud800"},
        {"texts": [{"path": "README.md", "before": "\ud800", "after": "b"}]},
        "[",
        "[" * 100_000,
        "9" * 10_000,
        "null",
    ],
)
def test_a_journal_of_somebody_else_does_nothing(
    make_book: BookMaker, run_bindery: Runner, edit: dict[str, object] | str
) -> None:
    """A journal that is none of ours, or that leads out of the book, is refused and touches
    nothing."""
    root = make_book(FILES)
    kill_in_the_middle(root)
    (root / "linked").symlink_to("docs")
    (root / "round").symlink_to("round")
    row = json.loads((root / JOURNAL).read_text())
    (root / JOURNAL).write_text(edit if isinstance(edit, str) else json.dumps({**row, **edit}))
    before = read_tree(root)
    ended = run_bindery("mv", "--undo", folder=root)
    assert ended.status == 2
    assert "this is no journal of a change that can be taken back" in ended.stderr
    assert read_tree(root) == before
    assert "[unfinished-change]: this is no journal" in run_bindery("check", folder=root).stdout


def bring_journal(root: Path, **edit: object) -> None:
    """Lay a journal into a book as one who does not have the key would."""
    row = {
        "format": 1,
        "command": "mv",
        "rule": "refused-move",
        "token": "0a1b2c3d",
        "moves": [],
        "made": [],
        "emptied": [],
        "texts": [],
    }
    (root / JOURNAL).write_text(json.dumps({**row, **edit}))


@pytest.mark.parametrize(
    "arguments", [("format",), ("fill",), ("mv", "a.md", "b.md"), ("links", "--external", "--fix")]
)
def test_a_journal_that_came_with_a_book_waits_for_a_word(
    make_book: BookMaker, run_bindery: Runner, arguments: tuple[str, ...]
) -> None:
    """What this user has not written on this machine is taken back by `mv --undo` alone."""
    root = make_book({"a.md": "after\n"})
    text = {"path": "a.md", "before": "before\n", "after": "after\n"}
    bring_journal(root, texts=[text], command="mv\x1b[2J\x9b")
    before = read_tree(root)
    ended = run_bindery(*arguments, folder=root)
    assert ended.status == 2
    assert "[unfinished-change]: this journal of a half made change was not written" in ended.stderr
    assert "then take it back with `bindery mv --undo`" in ended.stderr
    assert read_tree(root) == before
    ended = run_bindery("mv", "--undo", folder=root)
    assert (ended.status, ended.stderr.isascii()) == (0, False)
    assert not {"\x1b", "\x9b"} & set(ended.stderr)
    assert (root / "a.md").read_text() == "before\n"


@pytest.mark.parametrize("spoil", ["edited", "elsewhere", "readable", "gone", "short"])
def test_a_journal_is_ours_only_with_our_key(make_book: BookMaker, state: Path, spoil: str) -> None:
    """A journal that was edited, that comes from another folder, or whose key is not ours alone,
    is not believed."""
    root = make_book(FILES)
    kill_in_the_middle(root)
    key = state / "bindery/journal.key"
    assert key.stat().st_mode & 0o777 == 0o600
    assert [path.name for path in key.parent.iterdir()] == ["journal.key"]
    match spoil:
        case "edited":
            row = json.loads((root / JOURNAL).read_text())
            (root / JOURNAL).write_text(json.dumps({**row, "command": "format"}))
        case "elsewhere":
            root = root.rename(root.with_name("other"))
        case "readable":
            key.chmod(0o644)
        case "gone":
            key.unlink()
        case "short":
            key.write_bytes(b"")
    with pytest.raises(ConfigError, match="was not written by you on this machine"):
        take_back(root)
    assert "took it back" in take_back(root, is_asked=True)


def test_without_a_key_only_undo_takes_back(
    make_book: BookMaker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the key would lie in the book, or cannot be made, a change is made, and one that was
    killed waits for `mv --undo`."""
    for state in ("book/state", "file"):
        root = make_book(FILES)
        (root.parent / "file").touch()
        monkeypatch.setenv("XDG_STATE_HOME", str(root.parent / state))
        before = read_tree(root)
        kill_in_the_middle(root)
        with pytest.raises(ConfigError, match="was not written by you on this machine"):
            take_back(root)
        assert "took it back" in take_back(root, is_asked=True)
        assert read_tree(root) == before


def test_going_back_writes_through_no_link(
    make_book: BookMaker, run_bindery: Runner, tmp_path: Path
) -> None:
    """A journal whose text is a link out of the book, or whose texts are first written to one,
    changes nothing outside."""
    root = make_book({"README.md": "# A\n", "b.md": "after\n"})
    outside = tmp_path / "outside.md"
    outside.write_text("after\n")
    (root / "a.md").symlink_to(outside)
    (root / ".bindery-making-0a1b2c3d").symlink_to(outside)
    (root / f"{JOURNAL}.part").symlink_to(outside)
    texts = [{"path": p, "before": "before\n", "after": "after\n"} for p in ("a.md", "b.md")]
    bring_journal(root, texts=texts)
    ended = run_bindery("mv", "--undo", folder=root)
    assert ended.status == 1
    assert "a.md:1:1: error[unfinished-change]: 'a.md' has been edited" in ended.stderr
    assert (root / "b.md").read_text() == "before\n"
    (root / f"{JOURNAL}.part").symlink_to(outside)
    text = {"b.md": ("before\n", "now\n")}
    change_files(root, Change("format", "unformatted", text))
    assert outside.read_text() == "after\n"


@pytest.mark.parametrize("target", [".git", "../outside"])
def test_going_back_moves_nothing_past_a_link(
    make_book: BookMaker, run_bindery: Runner, tmp_path: Path, target: str
) -> None:
    """Neither a link that is there nor one that an earlier move puts there leads a later one into
    the folder of git or out of the book."""
    root = make_book({"a.md": "# A\n", "hook": "echo\n"})
    git(root, "init", "--quiet")
    (tmp_path / "outside/hooks").mkdir(parents=True)
    (root / "g").symlink_to(target)
    git(root, "add", ".")
    bring_journal(root, moves=[["g/hooks/pre-commit", "hook"]])
    ended = run_bindery("mv", "--undo", folder=root)
    assert (ended.status, "this is no journal" in ended.stderr) == (2, True)
    (root / "g").rename(root / "x")
    git(root, "add", ".")
    # Going back starts with the last move.
    bring_journal(
        root,
        moves=[["g/hooks/pre-commit", "hook"], ["g", "x"]],
        made=["g/hooks/made"],
        texts=[{"path": "g/hooks/text", "before": "b", "after": "a"}],
    )
    ended = run_bindery("mv", "--undo", folder=root)
    assert ended.status == 1
    assert (root / "g").is_symlink()
    for path in ("g/hooks/pre-commit", "g/hooks/made", "g/hooks/text"):
        assert f"'{path}' leads elsewhere, and was not put back" in ended.stderr
    for folder in (root / ".git/hooks", tmp_path / "outside/hooks"):
        assert not {"pre-commit", "made", "text"} & {path.name for path in folder.iterdir()}
    assert (root / "hook").exists()


def test_a_link_that_a_move_puts_in_the_way_is_named(
    make_book: BookMaker, run_bindery: Runner, tmp_path: Path
) -> None:
    """What would be put back past a link that is put back before it stays, and is named."""
    root = make_book({"a.md": "# A\n", "hook": "echo\n"})
    (tmp_path / "outside").mkdir()
    (root / "x").symlink_to(tmp_path / "outside")
    bring_journal(root, moves=[["g/hook", "hook"], ["g", "x"]])
    ended = run_bindery("mv", "--undo", folder=root)
    assert ended.status == 1
    assert "g/hook:1:1: error[unfinished-change]: 'g/hook' leads elsewhere" in ended.stderr
    assert (root / "g").is_symlink()
    assert (root / "hook").exists()
    assert not (root / JOURNAL).exists()


def test_going_back_puts_nothing_over_anything(make_book: BookMaker) -> None:
    """A folder that is made anew where something is to go back keeps its place, and is named."""
    root = make_book({"a.md": "# A\n", "x.md": "# X\n"})
    bring_journal(root, moves=[["g", "x.md"]], emptied=["g"])
    with pytest.raises(BookError, match="something else is at 'g'"):
        take_back(root, is_asked=True)
    assert (root / "x.md").read_text() == "# X\n"


def test_what_links_lead_to_goes_back_as_well(make_book: BookMaker) -> None:
    """A change of our own by paths with links on them is undone where those lead."""
    root = make_book(FILES)
    (root / "linked").symlink_to("docs")
    (root / "two.md").symlink_to("docs/two.md")
    before = read_tree(root)
    texts = {
        "linked/one.md": (FILES["docs/one.md"], "# 1\n"),
        "two.md": (FILES["docs/two.md"], "# 2\n"),
    }
    change = Change("mv", "refused-move", texts, (("linked/notes.txt", "linked/far/notes.txt"),))

    def fail() -> dict[str, tuple[str, str]]:
        assert (root / "docs/far/notes.txt").exists()
        assert (root / "docs/two.md").read_text() == "# 2\n"
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        change_files(root, change, fail)
    assert read_tree(root) == before
    assert (root / "two.md").is_symlink()


@pytest.mark.parametrize("name", ["missing", "empty"])
def test_where_no_book_is_nothing_is_taken_back(
    tmp_path: Path, run_bindery: Runner, name: str
) -> None:
    """`mv --undo` in a folder that is no book is wrong use, and nothing is swept there."""
    (tmp_path / "empty").mkdir()
    leftover = tmp_path / "empty/.bindery-making-abcd1234"
    leftover.touch()
    os.utime(leftover, (0, 0))
    ended = run_bindery("mv", "--undo", "--root", str(tmp_path / name), folder=tmp_path)
    assert ended.status == 2
    assert "there is no chapters.yaml in the folder" in ended.stderr
    assert take_back(tmp_path / "empty") == ""
    assert leftover.exists()


def test_a_step_that_fails_takes_all_back(make_book: BookMaker) -> None:
    """Where a folder is in the way at the last moment, everything goes back."""
    root = make_book(FILES)
    before = read_tree(root)

    def fail() -> dict[str, tuple[str, str]]:
        raise BookError

    with pytest.raises(BookError):
        change_files(root, MOVE, fail)
    assert read_tree(root) == before


def test_one_at_a_time(make_book: BookMaker) -> None:
    """While a change is under way, another process may neither change nor take back."""
    root = make_book(FILES)

    def try_another() -> dict[str, tuple[str, str]]:
        for attempt in (lambda: take_back(root), lambda: change_files(root, MOVE)):
            with pytest.raises(ConfigError, match="another bindery is changing files"):
                attempt()
        return {}

    change_files(root, MOVE, try_another)
    assert (root / "far/off/one.md").exists()


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
    assert "'out/x.md' leads out of the book, and stays as it is" in ended.stdout
    assert "'locked.md' is read-only, and stays as it is" in ended.stdout
    assert ended.stdout.endswith("formatted 1 of 3 files\n")
    assert (root / "README.md").read_text() == "a b\n"
    assert (root / "locked.md").read_text() == (tmp_path / "elsewhere/x.md").read_text() == "a\nb\n"


def test_a_move_into_locked_files_is_refused(make_book: BookMaker, run_bindery: Runner) -> None:
    """Where a link stands in a read-only file, nothing is moved; without one it may move itself."""
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


def test_a_move_past_a_link_out_of_the_book_is_refused(
    make_book: BookMaker, run_bindery: Runner, tmp_path: Path
) -> None:
    """Where a link to what moves stands in a file outside the book, nothing is moved."""
    root = make_book({"README.md": "# A\n", "out/x.md": "# X\n\n[a](../README.md)\n"})
    (root / "out").rename(tmp_path / "elsewhere")
    (root / "out").symlink_to(tmp_path / "elsewhere")
    before = read_tree(root)
    ended = run_bindery("mv", "README.md", "a.md", folder=root)
    assert ended.status == 1
    assert "error[refused-move]: 'out/x.md' leads out of the book" in ended.stderr
    assert read_tree(root) == before


def test_an_image_that_is_locked_stays(make_book: BookMaker, run_bindery: Runner) -> None:
    """A read-only image is not shrunk, and is named."""
    root = make_book({"README.md": "# A\n", "a.png": b"none"})
    (root / "a.png").chmod(0o444)
    ended = run_bindery("format", "--images", "a.png", folder=root)
    assert ended.status == 1
    assert "'a.png' is read-only, and stays as it is" in ended.stdout


def test_new_addresses_are_not_written_into_locked_files(make_book: BookMaker) -> None:
    """`links --external --fix` names a read-only chapter, and writes the others."""
    old, new = "https://example.org/old", "https://example.org/new"
    root = make_book({"a.md": f"# A\n\n<{old}>\n", "b.md": f"# B\n\n<{old}>\n"})
    (root / "a.md").chmod(0o444)
    mending = plan_mending(inspect_book(root), {old: new})
    write_mending(root, mending)
    assert [finding.message for finding in mending.findings] == [
        "'a.md' is read-only, and stays as it is"
    ]
    assert old in (root / "a.md").read_text()
    assert new in (root / "b.md").read_text()
    assert (root / "b.md").stat().st_mode & 0o777 == 0o644


def test_permissions_and_names_are_kept(make_book: BookMaker, run_bindery: Runner) -> None:
    """A chapter that is also a symbolic link inside the book is written once, where it lies."""
    root = make_book({"README.md": "# A\n", "a.md": "a\nb\n", "b.md": ""})
    (root / "b.md").unlink()
    (root / "b.md").symlink_to("a.md")
    (root / "a.md").chmod(0o750)
    ended = run_bindery("format", folder=root)
    assert ended.stdout.endswith("formatted 1 of 2 files\n"), ended.stderr
    assert (root / "b.md").is_symlink()
    assert (root / "a.md").read_text() == "a b\n"
    assert (root / "a.md").stat().st_mode & 0o777 == 0o750
    assert find_obstacle(root, "b.md") is None


def test_one_file_cannot_become_two(make_book: BookMaker) -> None:
    """Two names of one file with two texts to write stop the change."""
    root = make_book({"a.md": "a\n"})
    (root / "b.md").symlink_to("a.md")
    change = Change("mv", "refused-move", {"a.md": ("a\n", "1\n"), "b.md": ("a\n", "2\n")})
    with pytest.raises(BookError, match="is another name of a file"):
        change_files(root, change)
    assert (root / "a.md").read_text() == "a\n"


def test_old_leftovers_are_swept(make_book: BookMaker) -> None:
    """What a process that was killed long ago has left beside chapters goes; what is new stays."""
    root = make_book(FILES)
    old, new = root / "docs/.bindery-making-abcd1234", root / ".bindery-making-efgh5678"
    for path in (old, new):
        path.touch()
    os.utime(old, (0, 0))
    (root / f"{JOURNAL}.part").touch()
    assert take_back(root) == ""
    assert not old.exists()
    assert new.exists()
    assert not (root / f"{JOURNAL}.part").exists()
