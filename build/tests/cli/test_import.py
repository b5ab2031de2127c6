"""`bindery import`: parts, chapters, order and titles from the contents of other tools."""

import subprocess
from pathlib import Path

import pytest
from bindery.check.rules import RULES
from bindery.core.config import Repository, load_config
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


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("src/SUMMARY.md", "# Summary\n\n- [A](a.md)\n"),
        (
            "mkdocs.yml",
            (
                "site_name: T\nsite_author: Ada L\nsite_description: >-\n  D:\n  e\n"
                "site_url: https://a.org/\n"
                "repo_url: https://b.org/c\ndocs_dir: src\ntheme: {language: de}\n"
            ),
        ),
        (
            "_quarto.yml",
            (
                "lang: de\nbook:\n  title: T\n  author: [name: Ada L]\n  description: 'D: e'\n"
                "  site-url: https://a.org/\n  repo-url: https://b.org/c\n  chapters: [src/a.md]\n"
            ),
        ),
    ],
)
def test_what_the_other_tool_knows_of_the_book(
    name: str, text: str, make_book: BookMaker, run_bindery: Runner
) -> None:
    """Authors, description, language and addresses go into chapters.yaml."""
    toml = (
        '[book]\ntitle = "T"\nauthors = ["Ada L"]\ndescription = "D: e"\nlanguage = "de"\n'
        '[output.html]\ngit-repository-url = "https://b.org/c"\n'
    )
    root = make_book({"src/a.md": "# A\n", "book.toml": toml, name: text})
    (root / "chapters.yaml").unlink()
    assert run_bindery("import", ".", folder=root).status == 0
    config = load_config(root, RULES)
    assert (config.title, config.authors, config.language) == ("T", ("Ada L",), "de")
    assert (config.description, config.repository) == ("D: e", Repository("https://b.org/c"))
    assert config.site == ("" if name == "src/SUMMARY.md" else "https://a.org")


def test_a_book_of_bindery_has_its_chapters_below_its_folder(
    make_book: BookMaker, run_bindery: Runner
) -> None:
    """Without a list of another tool, an import adds new files there and no others."""
    listed = "title: B\nfolder: book\nparts:\n  - chapters:\n      - a.md\nnot_chapters: [o.md]\n"
    names = ("README.md", "docs/d.md", "book/a.md", "book/b.md", "book/o.md")
    root = make_book({"chapters.yaml": listed, **dict.fromkeys(names, "# A\n")})
    assert run_bindery("import", ".", folder=root).stdout == "chapters.yaml: added: book/b.md\n"
    (root / "SUMMARY.md").write_text("# Summary\n\n- [D](docs/d.md)\n")
    ended = run_bindery("import", ".", folder=root)
    message = "listed in SUMMARY.md, but not below 'book': docs/d.md"
    assert ended.stdout == f"chapters.yaml: {message}\n"


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("book.toml", "[", "book.toml: error[config]: it cannot be read"),
        ("_toc.yml", "root: [", "_toc.yml:1:8: error[config]: the YAML is invalid: expected"),
        ("myst.yml", "version: 1\n", "myst.yml: error[config]: it has no 'project'"),
        ("SUMMARY.md", "# Summary\n", "SUMMARY.md: error[config]: it lists no chapters"),
    ],
)
def test_contents_that_are_none_are_errors(
    make_book: BookMaker, run_bindery: Runner, name: str, text: str, message: str
) -> None:
    files = {"src/SUMMARY.md": ""} if name == "book.toml" else {}
    root = make_book({"README.md": "# A\n", **files, name: text})
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


def test_a_later_import_keeps_edits(run_bindery: Runner, make_book: BookMaker) -> None:
    """New chapters go beside their neighbours and lost ones are taken out; nothing else changes,
    unless `--force` is given."""
    listed = """\
title: Mine  # the author's
parts:
  - title: First
    chapters:
      # before a
      - path: a.md
        title: An A
      - gone.md
  - chapters:
      - lost.md
not_chapters: [out.md]
"""
    summary = "# First\n- [A](a.md)\n- [B](b.md)\n- [O](out.md)\n# Second\n- [C](c.md)\n"
    texts = {name: f"# {name}\n" for name in ("a.md", "b.md", "c.md", "out.md")}
    root = make_book({**texts, "SUMMARY.md": summary, "chapters.yaml": listed})
    ended = run_bindery("import", ".", folder=root)
    assert ended.stdout == (
        "chapters.yaml: removed, because the file is gone: gone.md\n"
        "removed, because the file is gone: lost.md\n"
        "added: b.md\n"
        "listed in SUMMARY.md, but left out by 'not_chapters': out.md\n"
        "added: c.md\n"
    ), ended.stderr
    kept, _, _ = listed.partition("      - gone.md")
    added = "      - b.md\n  - title: Second\n    chapters:\n      - c.md\n"
    assert (root / "chapters.yaml").read_text() == f"{kept}{added}not_chapters: [out.md]\n"
    assert run_bindery("import", ".", "--force", folder=root).status == 0
    assert "the author's" not in (root / "chapters.yaml").read_text()


# --- conversion ---

CONVERTED = {
    "mdbook": {
        "src/SUMMARY.md": "# Summary\n\n- [A](a.md)\n- [B](b/README.md)\n",
        "src/a.md": "# A {#first}\n\n[B](b/index.html#b)\n\n```rust\n{{#include ../x.rs:p}}\n```\n",
        "x.rs": "// ANCHOR: p\nlet x = 1;\n// ANCHOR_END: p\n",
        "src/b/README.md": "# B\n\n[A](../a.html#first)\n\n> **Note**: \\\\(x^2\\\\).\n",
    },
    "mkdocs": {
        "mkdocs.yml": "site_name: M\nnav: [index.md, b.md]\n",
        "docs/index.md": "# A\n\n!!! note\n    See [B](b/#b) and [B](/b/).\n",
        "docs/b.md": '# B\n\n=== "Tab"\n    `x`\n\nH~2~O\n\n```py title="x.py"\nx = 1\n```\n\n'
        '```py\n--8<-- "x.py:part"\n```\n',
        "x.py": "# --8<-- [start:part]\nx = 1\n# --8<-- [end:part]\n",
    },
    "zensical": {
        "zensical.yml": "site_name: Z\nnav: [index.md, b.md]\n",
        "docs/index.md": "# A\n\n/// note | T\n[B](b.md)\n///\n\nPress ++ctrl+c++.\n",
        "docs/b.md": "# B { #bee }\n\n[B](#bee)\n",
    },
    "jupyter-book": {
        "_toc.yml": "format: jb-book\nroot: a\nchapters: [file: b]\n",
        "_config.yml": "title: J\nauthor: Ada\n",
        "a.md": "# A\n\n```{admonition} T\n:class: tip\n{doc}`b`\n```\n",
        "b.md": "(bee)=\n# B\n\n```{code-cell} python\nx = 1\n```\n\n{ref}`bee`\n",
    },
    "myst": {
        "index.md": "# A\n\n```{toctree}\nb\n```\n\n{ref}`place`, {doc}`b`, [](b.md), "
        "{math}`a_1`\n",
        "b.md": "(place)=\n# B\n\n:::{tip}\nX\n:::\n",
    },
    "quarto": {
        "_quarto.yml": "book:\n  title: Q\n  chapters: [index.qmd, b.qmd]\n",
        "index.qmd": "# A {#sec-a}\n\n[B](b.qmd)\n\n::: {.callout-tip}\n## T\nX\n:::\n",
        "b.qmd": "# B\n\nSee @sec-a.\n\n```{python}\nx = 1\n```\n",
    },
    "hugging-face": {
        "_toctree.yml": "- title: P\n  sections: [{local: a}, {local: b}]\n",
        "a.mdx": "<CourseFloatingBanner\n  chapter={1}\n  notebooks={[{a: 'b'}]}\n/>\n\n"
        "# A[[a]]\n\n<Tip warning={true}>\n\n[B](/course/b)\n\n</Tip>\n",
        "b.mdx": '<FrameworkSwitchCourse {fw} />\n\n# B[[b]]\n\n<Youtube id="x"/>\n',
    },
    "d2l": {
        "index.md": "# A\n\n```toc\nb\n```\n",
        "b.md": "# B\n:label:`sec_b`\n\nSee :ref:`sec_b`.\n",
    },
    "docusaurus": {
        "static/x.svg": "<svg xmlns='http://www.w3.org/2000/svg'/>",
        "a.md": "# A\n\n![X](@site/static/x.svg) ![X](/x.svg)\n\n:::note\nX\n:::\n\n[B](./b.mdx)\n",
        "b.mdx": "import Tabs from '@theme/Tabs';\n\n# B\n\n{/* c */}\n\n<Tabs>\n"
        '<TabItem value="a" label="A">\n\nx\n\n</TabItem>\n</Tabs>\n',
    },
}


@pytest.mark.parametrize("tool", CONVERTED)
def test_a_converted_book_is_clean(tool: str, make_book: BookMaker, run_bindery: Runner) -> None:
    """A book of each tool: first it is only shown, then rewritten; then nothing is left to report,
    it builds, and a second conversion finds nothing."""
    root = make_book(CONVERTED[tool])
    (root / "chapters.yaml").unlink()
    shown = run_bindery("import", ".", "--convert", "--dry-run", folder=root)
    assert {name: (root / name).read_text() for name in CONVERTED[tool]} == CONVERTED[tool]
    ended = run_bindery("import", ".", "--convert", "--force", folder=root)
    assert (ended.status, "0 kinds of syntax left" in ended.stdout) == (0, True), ended
    assert shown.stdout.partition("--- a/chapters.yaml")[0] in ended.stdout
    checked = run_bindery("check", folder=root)
    assert (checked.status, ", 0 warnings" in checked.stdout) == (0, True), checked.stdout
    assert [chapter.path[-3:] for chapter in load_config(root, RULES).chapters] == [".md", ".md"]
    for output in ("html", "epub"):
        assert "complete: 2 headings" in run_bindery(output, folder=root).stdout
    again = run_bindery("import", ".", "--convert", "--force", folder=root).stdout
    assert again.startswith("rewrites 0 files: nothing\nchapters.yaml: up to date\n")


@pytest.mark.parametrize("first", [["import", "."], ["--version"]])
def test_a_converted_formula_is_read(
    first: list[str], make_book: BookMaker, run_bindery: Runner
) -> None:
    """`maths: true` is set, in a new chapters.yaml and in one that an import wrote before."""
    root = make_book({"SUMMARY.md": "- [A](a.md)\n", "a.md": "# A\n\nSquared: \\\\(x^2\\\\)\n"})
    (root / "chapters.yaml").unlink()
    run_bindery(*first, folder=root)
    assert run_bindery("import", ".", "--convert", "--force", folder=root).status == 0
    assert (root / "a.md").read_text() == "# A\n\nSquared: $x^2$\n"
    assert load_config(root, RULES).maths
    assert run_bindery("check", folder=root).status == 0


@pytest.mark.needs("git")
def test_a_conversion_can_be_undone(make_book: BookMaker, run_bindery: Runner) -> None:
    """What git could not restore is converted only with `--force`."""
    root = make_book({"SUMMARY.md": "- [A](a.md)\n", "a.md": "# A {#a}\n"})

    def refuse() -> str:
        ended = run_bindery("import", ".", "--convert", folder=root)
        assert (ended.status, (root / "a.md").read_text()) == (2, "# A {#a}\n")
        return ended.stderr

    assert refuse().startswith(
        ".: error[convert]: this book is not in a git repository, so you could not undo this\n"
        "  = help: run `git init` and commit the book first, or add --force\n"
    )
    subprocess.run(["git", "init", "--quiet", "."], cwd=root, check=True)
    assert "a.md: error[convert]: 'a.md' has uncommitted changes\n" in refuse()
    subprocess.run(["git", "add", "."], cwd=root, check=True)
    assert run_bindery("import", ".", "--convert", folder=root).status == 0


@pytest.mark.parametrize(
    ("listed", "message"),
    [
        ("", "it lists no chapters"),
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
