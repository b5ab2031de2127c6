"""The guide for authors and the example of published figures: what they print works."""

import re
import shlex
import subprocess
from pathlib import Path

import pytest
from fixture_types import Runner

DOCS = Path(__file__).parents[2] / "docs"
GUIDE = DOCS / "guide.md"
GIT = ("git", "-c", "user.name=a", "-c", "user.email=a@example.org")
BLOCK = re.compile(r"(?:<!-- guide: (\S+) -->\n)?```(\w+)\n(.*?)```\n", re.DOTALL)


def put(path: Path, text: str) -> None:
    """Write a block of the guide into its file; keys of chapters.yaml replace those there."""
    if path.name == "chapters.yaml":
        keys = re.findall(r"^(\w+):", text, re.MULTILINE)
        kept = re.sub(rf"^(?:{'|'.join(keys)}):.*\n", "", path.read_text(), flags=re.MULTILINE)
        text += kept
    path.write_text(text)


def save(folder: Path) -> None:
    """Commit everything, as the guide asks before a move."""
    subprocess.run([*GIT, "add", "."], cwd=folder, check=True)
    subprocess.run([*GIT, "commit", "--quiet", "-m", "draft"], cwd=folder, check=True)


@pytest.mark.needs("git")
def test_the_book_of_the_guide(tmp_path: Path, run_bindery: Runner) -> None:
    """Block by block, as an author would; what is meant for the terminal ends well."""
    subprocess.run([*GIT, "init", "--quiet"], cwd=tmp_path, check=True)
    ran = []
    for name, language, text in BLOCK.findall(GUIDE.read_text(encoding="utf-8")):
        if name:
            put(tmp_path / name, text)
        if language != "bash":
            continue
        for line in text.splitlines():
            program, *arguments = shlex.split(line)
            if program == "pip":
                continue
            assert program == "bindery"
            if arguments[0] == "mv":
                save(tmp_path)
            ended = run_bindery(*arguments, folder=tmp_path)
            assert ended.status == 0, f"{line}\n{ended.stdout}{ended.stderr}"
            ran.append(arguments[0])
    assert {"new", "run", "submit", "bundle", "links"} <= set(ran)
    chapter = (tmp_path / "storage/local-disks.md").read_text()
    assert "| SATA SSD | 20.0 |" in re.sub(" +", " ", chapter)
    assert (tmp_path / "dist/disks.pdf").exists()
    assert "[Disks](storage/local-disks.md)" in (tmp_path / "SKILL.md").read_text()
    assert run_bindery("check", folder=tmp_path).status == 0


def test_what_the_guide_promises_of_check(tmp_path: Path, run_bindery: Runner) -> None:
    """The wrong sum that it tells authors to try is found."""
    (chapter,) = (
        text for name, _, text in BLOCK.findall(GUIDE.read_text()) if name == "storage/disks.md"
    )
    assert run_bindery("init", folder=tmp_path).status == 0
    (tmp_path / "beginnings.md").write_text(chapter.replace("= 20`", "= 25`").split(" More on")[0])
    assert "error[wrong-arithmetic]" in run_bindery("check", folder=tmp_path).stdout


def test_the_example_of_published_figures(tmp_path: Path, run_bindery: Runner) -> None:
    """Its figures, schema and view, copied as they are, fill the table of the first example."""
    assert run_bindery("init", folder=tmp_path).status == 0
    blocks = {
        language: text for _, language, text in BLOCK.findall((DOCS / "evidence.md").read_text())
    }
    (tmp_path / "data/accelerators.csv").write_text(blocks["csv"])
    (tmp_path / "data/accelerators.yaml").write_text(blocks["yaml"])
    (tmp_path / "views/accelerator_comparison.sql").write_text(blocks["sql"])
    with (tmp_path / "beginnings.md").open("a") as chapter:
        chapter.write("\n" + blocks["markdown"])
    assert run_bindery("fill", folder=tmp_path).status == 0
    assert "| A100 SXM " in (tmp_path / "beginnings.md").read_text()
    ended = run_bindery("check", folder=tmp_path)
    assert ended.stdout.endswith("0 errors, 0 warnings\n"), ended.stdout
