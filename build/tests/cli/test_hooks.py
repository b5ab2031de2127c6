"""What other books run with pre-commit and in GitHub Actions are commands that work."""

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from fixture_types import Runner
from ruamel.yaml import YAML

ROOT = Path(__file__).resolve().parents[3]
BOOKS = Path(__file__).parents[1] / "books"
ACTION = YAML(typ="safe").load(ROOT / "action.yml")
REPORT = YAML(typ="safe").load(ROOT / ".github/workflows/links.yml")["jobs"]["report"]["steps"]
GH = """\
#!/bin/sh
echo "$@" >> calls.txt
case "$1 $2" in "issue list") cat open-issue.txt 2>/dev/null; exit 0;; esac
"""
HOOKS = {hook["id"]: hook for hook in YAML(typ="safe").load(ROOT / ".pre-commit-hooks.yaml")}


@pytest.mark.parametrize("name", list(HOOKS))
def test_a_hook_passes_a_clean_book(
    name: str, run_bindery: Runner, copy_book: Callable[[Path], Path]
) -> None:
    """What a hook enters is a command of ours, about the whole book, and 0 where all is well."""
    hook = HOOKS[name]
    program, *arguments = hook["entry"].split()
    assert program == "bindery"
    assert arguments[0] == name.removeprefix("bindery-")
    assert (hook["language"], hook["pass_filenames"]) == ("python", False)
    # pre-commit names no deleted file: a hook that waits for names misses what is broken by it.
    assert hook.get("always_run", False) is (name != "bindery-format")
    assert run_bindery(*arguments, folder=copy_book(BOOKS / "clean")).status == 0


@pytest.mark.nightly  # installs bindery with all that it needs
@pytest.mark.needs("python:uv")
def test_the_action_builds_a_book(copy_book: Callable[[Path], Path]) -> None:
    """Its last step, with its own inputs, leaves site and ebooks in the book's folder."""
    book = copy_book(BOOKS / "clean")
    inputs = {name: value["default"] for name, value in ACTION["inputs"].items()}
    step = ACTION["runs"]["steps"][-1]
    environ = {name: inputs[name.lower()] for name in step["env"]}
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", step["run"]],
        cwd=book,
        env={**os.environ, **environ, "GITHUB_ACTION_PATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert (book / "dist/site/index.html").exists()
    assert {path.suffix for path in (book / "dist").glob("*.*")} >= {".epub", ".pdf"}


@pytest.mark.needs("git")
@pytest.mark.parametrize(
    ("outcome", "number", "call"),
    [
        ("failure", "", "issue create --title T --body-file body.md"),
        ("failure", "7", "issue edit 7 --body-file body.md"),
        ("success", "7", "issue close 7 --comment All links answer."),
        ("success", "", None),
    ],
)
def test_links_of_the_week_are_one_issue_and_one_pull_request(
    outcome: str, number: str, call: str | None, tmp_path: Path
) -> None:
    """With a repository of its own and a program in place of gh that notes what it is told."""
    book, remote = tmp_path / "book", tmp_path / "remote.git"
    (book / "book").mkdir(parents=True)
    (book / "findings.txt").write_text("README.md:1:1: error[web-dead]: gone\n")
    (book / "open-issue.txt").write_text(number)
    (tmp_path / "gh").write_text(GH)
    (tmp_path / "gh").chmod(0o755)
    environ = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}", "TITLE": "T"}
    environ |= {"OUTCOME": outcome, "REMOTE": str(remote)}

    def run(command: str) -> str:
        words = ["bash", "-euo", "pipefail", "-c", command]
        return subprocess.run(words, cwd=book, env=environ, check=True, stdout=-1, text=True).stdout

    run(f"git init -q --bare {remote}; git init -q")
    (book / "book/links.jsonl").write_text('{"url": "https://example.org/"}\n')
    for step in REPORT:
        run(step.get("run", "true"))
    calls = (book / "calls.txt").read_text().splitlines()
    assert calls[1:] == [
        *([call] if call else []),
        "pr list --head web-answers --json number --jq .[].number",
        "pr create --head web-answers --fill",
    ]
    assert run(f"git -C {remote} show web-answers:book/links.jsonl").startswith('{"url"')
    if outcome == "failure":
        assert (book / "body.md").read_text().startswith("```text\nREADME.md:1:1: error[web-dead]")


UV = """\
#!/bin/sh
case "$4 $6" in
  *broken*) exit 1;;
  run*) mkdir -p "scripts/records/$6"; echo "$@" > "scripts/records/$6/x.json"; echo x > out.txt;;
  fill*) echo filled >> book/README.md;;
esac
"""


@pytest.mark.needs("git")
def test_records_of_a_runner_are_a_pull_request(tmp_path: Path) -> None:
    """A tool that fails does not cost the records of the others, and only book and records get
    from the runner into the branch."""
    jobs = YAML(typ="safe").load(ROOT / ".github/workflows/records.yml")["jobs"]
    book, remote = tmp_path / "book", tmp_path / "remote.git"
    (book / "book").mkdir(parents=True)
    (book / "book/README.md").write_text("# T\n")
    for name, text in (("uv", UV), ("gh", GH)):
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
    inputs = {"TOOLS": "disk_speed broken", "PROFILE": "full", "OPTIONS": "--on slurm"}
    environ = {**os.environ, **inputs, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    environ |= {"BRANCH": "records-1", "REMOTE": str(remote)}

    def run(command: str, folder: Path = book) -> str:
        words = ["bash", "-euo", "pipefail", "-c", command]
        done = subprocess.run(words, cwd=folder, env=environ, check=True, stdout=-1, text=True)
        return done.stdout

    identity = "-c user.name=a -c user.email=a@example.org"
    run(f"git init -q --bare {remote}; git init -q; git add .; git {identity} commit -qm book")
    run(f"git clone -q {book} {tmp_path}/clone")
    run(jobs["measure"]["steps"][-2]["run"])
    run("echo x > evil.yml; git add evil.yml; git diff --cached --binary > records.patch")
    run(f"cp records.patch body.md {tmp_path}/clone")
    run(jobs["propose"]["steps"][-1]["run"], tmp_path / "clone")
    assert (book / "body.md").read_text() == (
        "New records of disk_speed broken.\nFailed: broken.\n"
    )
    changed = run(f"git -C {remote} show --name-only --format= records-1").split()
    assert changed == ["book/README.md", "scripts/records/disk_speed/x.json"]
    shown = run(f"git -C {remote} show records-1:{changed[1]}")
    expected = "run noxfile.py -s run -- disk_speed --profile full --timeout 6h --on slurm\n"
    assert shown == expected
    calls = (tmp_path / "clone/calls.txt").read_text()
    assert calls.startswith("pr create --head records-1 --title Records from")
