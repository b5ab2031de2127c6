"""`bindery import`: parts, chapters, order and titles from the contents of other tools."""

from pathlib import Path

import pytest
from bindery.check.rules import RULES
from bindery.core.config import load_config
from fixture_types import BookMaker, Runner

CHAPTERS = {
    "intro.md": "# Introduction\n\nOn to [use](guide/use.md).\n",
    "guide/index.md": "## The guide\n",
    "guide/use.md": "# How to use it\n",
    "notes.md": "Only words.\n",
    "draft.md": "# Not yet\n",
}
GUIDE = ("Guide", ["guide/index.md", "guide/use.md"])
SUMMARY = """\
# Summary

[Introduction](intro.md)

# Guide

- [All of it](guide/index.md)
  - [Use](./guide/use.md#first)
- [Later]()

# Rest

- [Notes & more](notes.md)
"""
MKDOCS = """\
site_name: Trial
theme: {icon: !!python/name:material.icon }
nav:
  - intro.md
  - Guide: [guide/index.md, Use: guide/use.md]
  - Rest:
      - Deep: [Notes & more: notes.md]
      - Elsewhere: https://example.org
"""
JUPYTER = """\
root: intro
parts:
  - caption: Guide
    chapters: [{file: guide/index, sections: [{file: guide/use}]}]
  - caption: Rest
    chapters: [{file: notes, title: Notes & more}, {url: "https://example.org"}, {file: run.ipynb}]
"""
MYST = """\
project:
  title: Trial
  toc:
    - file: intro.md
    - title: Guide
      children: [{file: guide/index.md, children: [{file: guide/use.md}]}]
    - {title: Rest, children: [{file: notes.md, title: Notes & more}]}
"""
QUARTO = """\
book:
  title: Trial
  chapters:
    - intro.md
    - {part: Guide, chapters: [guide/index.md, guide/use.md]}
    - {part: Rest, chapters: [{file: notes.md, title: Notes & more}, more.qmd]}
"""
HUGGING_FACE = """\
- {local: intro, title: Introduction}
- {title: Guide, sections: [{local: guide/index, title: All}, {local: guide/use, title: Use}]}
- {title: Rest, sections: [{local: notes, title: Notes & more}]}
"""


@pytest.mark.parametrize(
    ("folder", "files", "title", "missing"),
    [
        ("src", {"src/SUMMARY.md": SUMMARY, "book.toml": '[book]\ntitle = "Trial"\n'}, "Trial",
         ["Later (a draft)"]),
        ("", {"SUMMARY.md": SUMMARY}, "Introduction", ["Later (a draft)"]),
        ("docs", {"mkdocs.yml": MKDOCS}, "Trial", ["https://example.org"]),
        ("", {"_toc.yml": JUPYTER}, "Introduction", ["https://example.org", "run.ipynb"]),
        ("", {"myst.yml": MYST}, "Trial", []),
        ("", {"_quarto.yml": QUARTO}, "Trial", ["more.qmd"]),
        ("", {"_toctree.yml": HUGGING_FACE}, "Introduction", []),
    ],
)  # fmt: skip
def test_the_contents_of_other_tools_are_read(
    make_book: BookMaker,
    run_bindery: Runner,
    folder: str,
    files: dict[str, str],
    title: str,
    missing: list[str],
) -> None:
    """Same parts, order and titles; what is no chapter is named, and the book builds."""
    chapters = {str(Path(folder, name)): text for name, text in CHAPTERS.items()}
    root = make_book({**chapters, **files})
    (root / "chapters.yaml").unlink()
    ended = run_bindery("import", ".", folder=root)
    assert ended.status == 0, ended.stderr
    assert [line.partition(": ")[2] for line in ended.stdout.splitlines()[1:]] == missing
    config = load_config(root, RULES)
    prefix = f"{folder}/" if folder else ""
    parts = [
        (part.title, [one.path.removeprefix(prefix) for one in part.chapters])
        for part in config.parts
    ]
    assert parts == [("", ["intro.md"]), GUIDE, ("Rest", ["notes.md"])]
    assert (config.title, config.folder) == (title, folder)
    assert [chapter.title for chapter in config.chapters] == ["", "", "", "Notes & more"]
    assert run_bindery("check", folder=root).status == 0
    assert "complete: 5 headings" in run_bindery("html", folder=root).stdout


def test_a_folder_is_a_book(make_book: BookMaker, run_bindery: Runner) -> None:
    """Without contents, the folders at the top are the parts, and introductions come first."""
    files = {"README.md": "# A\n", "b.md": "# B\n", "deep-end/z.md": "# Z\n"}
    root = make_book({**files, "deep-end/index.md": "# Index\n", "deep-end/a/b.md": "# AB\n"})
    (root / "chapters.yaml").unlink()
    for command in (["import", "."], ["epub"], ["html"]):
        assert run_bindery(*command, folder=root).status == 0
    parts = load_config(root, RULES).parts
    assert [(part.title, [one.path for one in part.chapters]) for part in parts] == [
        ("", ["README.md", "b.md"]),
        ("Deep end", ["deep-end/index.md", "deep-end/z.md", "deep-end/a/b.md"]),
    ]


def test_a_new_author_has_a_book_in_three_commands(tmp_path: Path, run_bindery: Runner) -> None:
    """From nothing, or from a folder of Markdown; what is there stays as it is."""
    for folder, files in (("new", {}), ("old", {"notes.md": "# Notes\n", ".gitignore": "*.log\n"})):
        (tmp_path / folder).mkdir()
        for name, text in files.items():
            (tmp_path / folder / name).write_text(text)
        for command in ("init", "check", "html", "epub"):
            ended = run_bindery(command, folder=tmp_path / folder)
            assert ended.status == 0, ended.stderr + ended.stdout
        assert {name: (tmp_path / folder / name).read_text() for name in files} == files
        assert (tmp_path / folder / ".github/workflows/book.yml").exists()
        assert run_bindery("init", folder=tmp_path / folder).status == 2


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("_toc.yml", "root: [", "_toc.yml:1:1: error[config]: it cannot be read"),
        ("myst.yml", "version: 1\n", "it does not list chapters as expected: 'project'"),
        ("SUMMARY.md", "# Summary\n", "SUMMARY.md:1:1: error[config]: it names no chapter"),
    ],
)
def test_contents_that_are_none_are_errors(
    make_book: BookMaker, run_bindery: Runner, name: str, text: str, message: str
) -> None:
    root = make_book({"README.md": "# A\n", name: text})
    (root / "chapters.yaml").unlink()
    ended = run_bindery("import", ".", folder=root)
    assert (ended.status, message in ended.stderr) == (2, True), ended.stderr


# --- chapters-md.txt ---


def test_import_writes_a_list_of_chapters(make_book: BookMaker, run_bindery: Runner) -> None:
    """A book with a chapters-md.txt gets a chapters.yaml that bindery reads, parts by folder."""
    root = make_book(
        {
            "chapters-md.txt": "README.md\n# a comment\ncompute/README.md\n./compute/cpu.md\n",
            "README.md": "# Yes: a *book*\n",
            "compute/README.md": "# Compute\n",
            "compute/cpu.md": "# CPU\n",
            "notes.md": "# Notes\n",
            "images/cover.svg": "<svg xmlns='http://www.w3.org/2000/svg'/>",
        }
    )
    (root / "chapters.yaml").unlink()
    ended = run_bindery("import", ".", folder=root)
    assert ended.status == 0
    assert ended.stdout == "chapters.yaml: 3 chapters in 1 part, 1 Markdown file left out\n"
    text = (root / "chapters.yaml").read_text()
    assert "title: 'Yes: a book'\n" in text
    assert "cover: images/cover.svg\n" in text
    assert "  - title: Compute\n    chapters:\n      - compute/README.md\n" in text
    assert "not_chapters:\n  - notes.md\n" in text
    assert run_bindery("check", folder=root).status == 0


def test_import_replaces_nothing(run_bindery: Runner, make_book: BookMaker) -> None:
    """A chapters.yaml that is there is kept unless `--force` is given."""
    root = make_book({"README.md": "# A\n", "chapters-md.txt": "README.md\n"})
    before = (root / "chapters.yaml").read_text()
    ended = run_bindery("import", ".", folder=root)
    assert ended.status == 2
    assert "replace it with --force" in ended.stderr
    assert (root / "chapters.yaml").read_text() == before
    assert run_bindery("import", ".", "--force", folder=root).status == 0
    assert (root / "chapters.yaml").read_text() != before


@pytest.mark.parametrize(
    ("listed", "message"),
    [
        ("", "it names no chapter"),
        ("README.md\ngone.md\n", "there is no chapter 'gone.md'"),
        ("README.md\n./README.md\n", "the chapter 'README.md' is listed twice"),
    ],
)
def test_import_says_what_is_wrong(
    run_bindery: Runner, make_book: BookMaker, listed: str, message: str
) -> None:
    """A list that is empty or wrong is one clear error each."""
    root = make_book({"README.md": "# A\n", "chapters-md.txt": listed})
    (root / "chapters.yaml").unlink()
    ended = run_bindery("import", ".", folder=root)
    assert ended.status == 2
    assert message in ended.stderr
    assert not (root / "chapters.yaml").exists()
