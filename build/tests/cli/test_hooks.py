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
