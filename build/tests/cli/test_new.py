"""`bindery init` and `new`: what they write is clean, listed and works."""

from pathlib import Path

import pytest
from fixture_types import BookMaker, Runner

FLOW = """\
title: T # mine
folder: text
parts:
  - chapters: [README.md, "net/a.md"] # in order
  - title: Rest
    chapters:
      - notes.md # last
tools: # those of the book
  old:
    path: scripts/old.py
    output: exact

outputs: {formats: [epub]}
"""
FILES = {
    "text/README.md": "# T\n",
    "text/net/a.md": "# A\n",
    "text/notes.md": "# Notes\n",
    "scripts/old.py": '"""Old."""\n',
}


def test_a_new_author_has_a_book_in_two_commands(tmp_path: Path, run_bindery: Runner) -> None:
    """From nothing, or from a folder of Markdown; what is there stays as it is."""
    for folder, files in (("new", {}), ("old", {"notes.md": "# Notes\n", ".gitignore": "*.log\n"})):
        root = tmp_path / folder
        root.mkdir()
        for name, text in files.items():
            (root / name).write_text(text)
        for command in ("init", "build"):
            ended = run_bindery(command, folder=root)
            assert (ended.status, ended.stderr) == (0, ""), ended.stderr
        for output in ("pdf", "epub"):
            assert f'href="downloads/book.{output}"' in (root / "dist/site/index.html").read_text()
        assert run_bindery("check", folder=root).stdout.endswith(" 0 errors, 0 warnings\n")
        assert run_bindery("fill", "--check", folder=root).status == 0
        assert {name: (root / name).read_text() for name in files} == files
        assert (root / ".github/workflows/book.yml").exists()
        assert run_bindery("init", folder=root).status == 2
        assert run_bindery("import", ".", folder=root).stdout == "chapters.yaml: up to date\n"


def test_new_parts_are_listed_where_they_belong(make_book: BookMaker, run_bindery: Runner) -> None:
    """Comments, quotes and layout of chapters.yaml stay, and the book is clean with them."""
    root = make_book({"chapters.yaml": FLOW, **FILES})
    for arguments in (
        ("chapter", "net/slow-links"),
        ("chapter", "close.md"),
        ("tool", "net/ping_time"),
        ("view", "speeds", "--in", "text/net/slow-links.md"),
    ):
        ended = run_bindery("new", *arguments, folder=root)
        assert ended.status == 0, ended.stderr
    listed = FLOW.replace('"net/a.md"', '"net/a.md", net/slow-links.md')
    listed = listed.replace("# last\n", "# last\n      - close.md\n")
    tools = "    output: exact\n"
    for name, path, output in (
        ("env_report", "env_report.py", "shape"),
        ("ping_time", "net/ping_time.py", "measured"),
    ):
        tools += f"  {name}:\n    path: scripts/{path}\n    output: {output}\n"
        tools += "    texts: {help: [--help]}\n"
    listed = listed.replace("    output: exact\n", tools)
    assert (root / "chapters.yaml").read_text() == listed
    chapter = (root / "text/net/slow-links.md").read_text()
    assert chapter.startswith("# Slow links\n")
    assert chapter.endswith("<!-- table: speeds -->\n<!-- /table -->\n")
    found = run_bindery("check", folder=root).stdout
    assert "speeds.yaml:2:1: error[bad-data]: 'source': it is empty" in found
    data = root / "text/data/speeds.yaml"
    data.write_text(data.read_text().replace("source: ", "source: the manual "))
    assert run_bindery("fill", folder=root).status == 0
    assert run_bindery("check", folder=root).stdout.endswith(" 0 errors, 0 warnings\n")
    (root / "text/close.md").write_text("# Close\n\n`python scripts/net/ping_time.py --cuont 5`\n")
    assert "error[unknown-flag]" in run_bindery("check", folder=root).stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("chapter", "net/a"), "text/net/a.md: error[config]: this file already exists"),
        (("chapter", "../up"), "it is outside the book's folder"),
        (("tool", "old"), "there is a tool 'old' already"),
        (("tool", "../x"), "it is not in scripts/"),
        (("tool", "json"), "'json' is already a Python module, an SQL keyword or a table"),
        (("tool", "records"), "'records' is already a Python module, an SQL keyword or a table"),
        (("chapter", "net/"), "'net/': error[config]: this is not the path of a chapter"),
        (("chapter", "/net/a"), "'/net/a': error[config]: this is not the path of a chapter"),
        (("tool", "Ping"), "a name has only lower-case letters, digits and _"),
        (("view", "a-b"), "a name has only lower-case letters, digits and _"),
        (("view", "old"), "'old' is already a table of records"),
        (("view", "select"), "'select' is an SQL keyword"),
        (("view", "a", "--in", "text/gone.md"), "'text/gone.md' cannot quote the new view"),
    ],
)
def test_what_cannot_be_begun_is_refused(
    make_book: BookMaker, run_bindery: Runner, arguments: tuple[str, ...], message: str
) -> None:
    """With the reason, and without a change."""
    root = make_book({"chapters.yaml": FLOW, **FILES})
    before = {path: path.read_bytes() for path in root.rglob("*") if path.is_file()}
    ended = run_bindery("new", *arguments, folder=root)
    assert (ended.status, message in ended.stderr) == (2, True), ended.stderr
    assert {path: path.read_bytes() for path in root.rglob("*") if path.is_file()} == before
