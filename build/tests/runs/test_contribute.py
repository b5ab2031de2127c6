"""`bindery submit`: a record of someone else's machine is checked, cleaned and marked."""

import json
import subprocess
from pathlib import Path

import pytest
from evidence_book import FILES, make_record
from fixture_types import BookMaker, Runner

NAME = "timer/cpu-x86_64-2core_20261125"
PATH = f"scripts/records/{NAME}.json"
RESULTS = [{"name": "third", "seconds": 0.5}]


@pytest.fixture
def clone(make_book: BookMaker) -> Path:
    """A clone of a book with a record that git does not know yet."""
    root = make_book(FILES)
    for command in (
        ("init", "--quiet"),
        ("add", "."),
        ("-c", "user.name=a", "-c", "user.email=a@example.org", "commit", "-qm", "book"),
    ):
        subprocess.run(["git", *command], cwd=root, check=True)
    command = ["python", "scripts/timer.py", "--name", f"{Path.home()}/data"]
    changes = {"command": command, "results": RESULTS, "log": "a.log"}
    (root / PATH).write_text(make_record("timer", started="2026-11-25T17:00:00Z", **changes))
    (root / PATH).with_name("a.log").write_text(f"writing to {Path.home()}/data\n")
    return root


@pytest.mark.needs("git")
def test_a_new_record_is_ready_for_a_pull_request(clone: Path, run_bindery: Runner) -> None:
    """Names are gone, the mark is there, the book takes the record, and says whose it is."""
    ended = run_bindery("submit", "--by", "Some-One", folder=clone)
    assert ended.status == 0, ended.stderr
    assert ended.stdout == (
        f"ready: {PATH}\n"
        "the text of the pull request: dist/pull-request.md\n"
        "next: read these files, then\n"
        "  git switch --create records\n"
        f"  git add {PATH} scripts/records/timer/a.log\n"
        "  git commit --message "
        "'Records of timer on A <processor & co. [x][y] *z*, 1 socket, 2 cores'\n"
        "  gh pr create --title "
        "'Records of timer on A <processor & co. [x][y] *z*, 1 socket, 2 cores'"
        " --body-file dist/pull-request.md\n"
    )
    record = json.loads((clone / PATH).read_text())
    assert record["command"][-1] == "~/data"
    assert (record["contributor"], record["results"]) == ("Some-One", RESULTS)
    assert (clone / PATH).with_name("a.log").read_text() == "writing to ~/data\n"
    request = (clone / "dist/pull-request.md").read_text()
    assert request.startswith("- [ ] Nothing else ran on the machine")
    assert "contributor  Some-One\n" in request
    assert "third  0.5\n" in request
    assert "contributor  Some-One\n" in run_bindery("records", NAME, folder=clone).stdout
    for command in ("fill", "html"):
        assert run_bindery(command, folder=clone).status == 0
    assert "2026-11-25, contributed by Some-One" in (clone / "dist/site/index.html").read_text()


@pytest.mark.needs("git")
@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"method": 7}, f"{PATH}: error[old-method]: method 7, but timer is now at 1"),
        ({"caveats": ["</td>"]}, "'caveats.0': '</' is HTML, which no record may carry"),
        ({"seconds": 2.5, "seal": {}}, "error[edited-record]"),
    ],
)
def test_a_record_that_the_book_cannot_use_is_refused(
    clone: Path, run_bindery: Runner, changes: dict[str, object], message: str
) -> None:
    """As it is, and with what to do."""
    text = make_record("timer", **{"started": "2026-11-25T17:00:00Z", **changes})
    if "seal" in changes:
        text = text.replace('"seconds": 2.5', '"seconds": 1.25')
    (clone / PATH).write_text(text)
    ended = run_bindery("submit", folder=clone)
    assert (ended.status, message in ended.stderr) == (1, True), ended.stderr
    assert (clone / PATH).read_text() == text


@pytest.mark.needs("git")
def test_a_pull_request_shows_the_first_rows_of_a_long_record(
    clone: Path, run_bindery: Runner
) -> None:
    """And how many more the record has, which `records` shows."""
    rows = [{"name": f"row-{number}", "seconds": 0.5} for number in range(1, 23)]
    (clone / PATH).write_text(make_record("timer", started="2026-11-25T17:00:00Z", results=rows))
    assert run_bindery("submit", folder=clone).status == 0
    request = (clone / "dist/pull-request.md").read_text()
    assert "row-20  0.5\nand 2 more rows in the file of the record\n~~~~" in request
    assert "row-22  0.5\n" in run_bindery("records", NAME, folder=clone).stdout


@pytest.mark.needs("git")
def test_a_demo_record_is_left_out(clone: Path, run_bindery: Runner) -> None:
    """And where there is nothing else, that is an error."""
    demo = PATH.replace("1125", "1124")
    (clone / demo).write_text(make_record("timer", started="2026-11-24T17:00:00Z", profile="demo"))
    ended = run_bindery("submit", folder=clone)
    said = f"left out: {demo}, a demo record: it only shows that the tool runs\nready: {PATH}\n"
    assert (ended.status, ended.stdout.startswith(said)) == (0, True)
    (clone / PATH).unlink()
    ended = run_bindery("submit", folder=clone)
    assert (ended.status, "there are only demo records to submit" in ended.stderr) == (2, True)


@pytest.mark.needs("git")
def test_without_a_new_record_there_is_nothing_to_send(clone: Path, run_bindery: Runner) -> None:
    """And a name that GitHub would not give is refused."""
    (clone / PATH).unlink()
    ended = run_bindery("submit", folder=clone)
    assert (ended.status, "there are no new records" in ended.stderr) == (2, True)
    ended = run_bindery("submit", "--by", "<b>", folder=clone)
    assert (ended.status, "'<b>' is not a name on GitHub" in ended.stderr) == (2, True)


@pytest.mark.parametrize("ending", ["json", "log"])
def test_a_file_of_absurd_size_is_not_read(
    make_book: BookMaker, run_bindery: Runner, ending: str
) -> None:
    """A record of more than a MiB, or with such a log, is left out."""
    root = make_book(FILES)
    (root / PATH).write_text(make_record("timer", started="2026-11-25T17:00:00Z"))
    (root / PATH).with_suffix(f".{ending}").write_text("0" * 1_200_000)
    ended = run_bindery("check", folder=root)
    shown = f"scripts/records/{NAME}.{ending}: error[bad-record]: it has 1.2 MB, but the limit"
    assert shown in ended.stdout
