"""The program as users run it: exit statuses, formats, paths, and no traceback for bad input."""

import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest
from bindery import __version__
from bindery.check import inspect as pipeline
from fixture_types import BookMaker, Runner

BOOKS = Path(__file__).parents[1] / "books"


def test_a_clean_book_gives_0(start_bindery: Runner) -> None:
    """`python -m bindery check` of a clean book prints one line and ends with 0."""
    ended = start_bindery("check", folder=BOOKS / "clean")
    assert (ended.status, ended.stderr) == (0, "")
    assert re.fullmatch(r"checked \d+ links in 3 chapters: 0 errors, 0 warnings\n", ended.stdout)


@pytest.mark.parametrize(
    ("book", "arguments", "status"),
    [
        ("missing-alt", (), 1),  # a warning is a finding too
        ("directory-anchor", ("network/README.md",), 0),
        ("clean", ("--format", "json"), 0),
    ],
)
def test_the_exit_status_tells_whether_there_are_findings(
    run_bindery: Runner, book: str, arguments: tuple[str, ...], status: int
) -> None:
    """Of a clean chapter in a broken book it is 0."""
    ended = run_bindery("check", *arguments, folder=BOOKS / book)
    assert ended.status == status
    assert "json" not in arguments or json.loads(ended.stdout) == []


def test_a_reader_that_stops_is_not_a_finding(child_environment: dict[str, str]) -> None:
    """`bindery records | true` ends as SIGPIPE would end it, not with 1."""
    command = [sys.executable, "-m", "bindery", "check", "--format", "json"]
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(
        command, cwd=BOOKS / "dead-link", env=child_environment, stdout=writer, stderr=-1, text=True
    )
    os.close(writer)
    assert (done.returncode, done.stderr) == (141, "")


@pytest.mark.parametrize(
    "arguments",
    [
        ("check", "--nosuch"),
        ("check", "--format", "xml"),
        ("nosuch",),
        ("import",),
        ("check", "--root"),
    ],
)
def test_wrong_use_gives_2(run_bindery: Runner, arguments: tuple[str, ...]) -> None:
    """An option or a command that does not exist is a usage error, and says which."""
    ended = run_bindery(*arguments, folder=BOOKS / "clean")
    assert ended.status == 2
    assert arguments[-1].lstrip("-") in ended.stderr.lower() or "Missing argument" in ended.stderr


def test_the_version_is_printed(start_bindery: Runner) -> None:
    """`--version` prints the name and the version, and ends with 0."""
    ended = start_bindery("--version", folder=BOOKS)
    assert (ended.status, ended.stdout) == (0, f"bindery {__version__}\n")


def test_a_bug_gives_70(run_bindery: Runner, monkeypatch: pytest.MonkeyPatch) -> None:
    """An error of our own ends with 70 and a traceback, never with the 1 of findings."""

    def fail(_root: Path, **_options: object) -> None:
        raise RuntimeError("this should not happen")

    monkeypatch.setattr(pipeline, "inspect_book", fail)
    ended = run_bindery("check", folder=BOOKS / "clean")
    assert ended.status == 70
    assert "RuntimeError: this should not happen" in ended.stderr
    assert "this is a bug in bindery" in ended.stderr


def test_json_is_for_programs(run_bindery: Runner) -> None:
    """`--format json` gives an array with every field of every finding, and nothing else."""
    ended = run_bindery("check", "--format", "json", folder=BOOKS / "dead-anchor")
    rows = json.loads(ended.stdout)
    assert ended.status == 1
    assert len(rows) == 17
    assert rows[0] == {
        "path": "README.md",
        "line": 9,
        "col": 18,
        "rule": "dead-anchor",
        "severity": "error",
        "message": "this chapter has no anchor '#bus-bandwith'",
        "help": "did you mean '#bus-bandwidth'?",
    }


def test_github_gets_annotations(copy_book, run_bindery: Runner) -> None:
    """`--format github` gives one workflow command a finding, escaped as GitHub asks."""
    book = copy_book(BOOKS / "missing-image")
    ended = run_bindery("check", "--format", "github", folder=book)
    lines = ended.stdout.splitlines()
    assert len(lines) == 8
    assert lines[0] == (
        "::error file=README.md,line=3,col=9,endColumn=24,title=missing-image"
        "::there is no image 'images/gone.svg'%0Acorrect the path"
    )
    book = copy_book(BOOKS / "orphan-file")
    warning = run_bindery("check", "--format", "github", folder=book).stdout
    assert warning.startswith("::warning file=images/forgotten.svg,line=1,")


def test_github_escapes_percent_and_commas(make_book: BookMaker, run_bindery: Runner) -> None:
    """A comma, a colon or a percent sign in a path does not end an annotation."""
    root = make_book({"a,b.md": "# A\n\n[x](100%25.md)\n"})
    ended = run_bindery("check", "--format", "github", folder=root)
    assert ended.stdout.startswith("::error file=a%2Cb.md,line=3,")
    assert "there is no file '100%2525.md'" in ended.stdout


def test_paths_choose_findings(run_bindery: Runner) -> None:
    """With a path, read from the current folder, only what is there is reported and counted; a path
    without a chapter is a mistake, not a clean report."""
    book = BOOKS / "dead-link"
    for arguments, folder in ((("network",), book), (("--root", "..", "."), book / "network")):
        ended = run_bindery("check", *arguments, folder=folder)
        assert ended.status == 1
        assert "network/README.md:3:39" in ended.stdout
        assert ended.stdout.endswith(" 1 error, 0 warnings\n")
    ended = run_bindery("check", "nowhere", folder=book)
    assert ended.status == 2
    assert "there is no chapter of the book at 'nowhere'" in ended.stderr
    ended = run_bindery("check", folder=book / "network")
    assert ended.status == 2
    assert "did you mean `--root ..`?" in ended.stderr


def test_errors_stop_a_build_unless_it_is_lenient(copy_book, run_bindery: Runner) -> None:
    """Nothing is built from a book with errors, and the report says how to build anyway; a dead
    link keeps its text then."""
    book = copy_book(BOOKS / "dead-link")
    ended = run_bindery("html", folder=book)
    assert ended.status == 1
    assert "--lenient" in ended.stderr
    assert not (book / "dist").exists()
    ended = run_bindery("html", "--lenient", folder=book)
    assert ended.status == 0
    assert "error[dead-link]" in ended.stderr
    page = (book / "dist/site/index.html").read_text(encoding="utf-8")
    assert '<span class="dead">tools</span>' in page


@pytest.mark.parametrize(
    "name", [p.name for p in sorted(BOOKS.iterdir()) if not p.name.startswith("config-")]
)
def test_every_broken_book_can_be_built_leniently(
    name: str, run_bindery: Runner, tmp_path: Path
) -> None:
    """Whatever is wrong with a book, a lenient build ends in a site and not in a traceback."""
    ended = run_bindery("html", "--lenient", "--out", str(tmp_path), folder=BOOKS / name)
    assert ended.status == 0, ended.stderr
    assert (tmp_path / "site").is_dir()


def test_a_book_without_a_chapter_left_is_not_built(
    make_book: BookMaker, run_bindery: Runner
) -> None:
    """Where no chapter can be read there is nothing to build, also leniently."""
    root = make_book({"gone.md": ""})
    (root / "gone.md").unlink()
    ended = run_bindery("html", "--lenient", folder=root)
    assert ended.status == 1
    assert "no chapter could be read" in ended.stderr


def test_a_wrong_date_is_wrong_use(
    run_bindery: Runner, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A SOURCE_DATE_EPOCH that is not a number is one clear error."""
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "yesterday")
    ended = run_bindery("html", "--out", str(tmp_path), folder=BOOKS / "clean")
    assert ended.status == 2
    assert "SOURCE_DATE_EPOCH is 'yesterday', which is not a number of seconds" in ended.stderr


@pytest.mark.parametrize("name", ["book.pdf", "book.epub", "taken"])
def test_out_is_a_folder(copy_book, run_bindery: Runner, name: str) -> None:
    """The name of a file behind --out is refused, and nothing is made of it."""
    book = copy_book(BOOKS / "clean")
    (book / "taken").write_text("mine")

    ended = run_bindery("html", "--out", name, folder=book)

    assert ended.status == 2
    assert "--out takes a folder" in ended.stderr
    assert not (book / "book.pdf").exists()
    assert (book / "taken").read_text() == "mine"


def test_an_output_that_the_book_does_not_list_is_not_built(
    make_book: BookMaker, run_bindery: Runner
) -> None:
    """`outputs: formats:` says what a book has; asking for another is a usage error. `build`
    builds these."""
    config = "title: T\nparts:\n  - chapters: [README.md]\noutputs:\n  formats: [epub]\n"
    book = make_book({"chapters.yaml": config, "README.md": "# T\n"})

    ended = run_bindery("html", folder=book)

    assert ended.status == 2
    assert "this book has no output 'html'" in ended.stderr
    assert not (book / "dist").exists()
    assert run_bindery("build", folder=book).status == 0
    assert (book / "dist/book.epub").exists()
    assert not (book / "dist/site").exists()


_WITH_SMALL_FILES = """
import resource, sys
resource.setrlimit(resource.RLIMIT_FSIZE, (16, 16))
from bindery.cli.main import main
main()
"""


@pytest.mark.parametrize(
    ("arguments", "path"),
    [
        (("html", "--out", "new"), "new/site"),
        (("pdf", "--out", "new"), tempfile.gettempdir()),
        (("epub", "--out", "new"), "new/clean-book.epub"),
        (("fill",), "README.md"),
    ],
    ids=lambda value: value[0] if isinstance(value, tuple) else "",
)
def test_a_disk_that_takes_no_more_is_told_with_the_file(
    copy_book: Callable[[Path], Path], arguments: tuple[str, ...], path: str
) -> None:
    """A write that fails in the middle names what was to be made, or the folder of the engine's own
    files, says what to do, and leaves what was there."""
    book = copy_book(BOOKS / ("stale-output" if arguments == ("fill",) else "clean"))
    before = {path: path.read_bytes() for path in book.rglob("*.md")}
    command = (sys.executable, "-c", _WITH_SMALL_FILES, *arguments)

    ended = subprocess.run(command, cwd=book, capture_output=True, text=True, check=False)

    assert ended.returncode == 2, ended.stderr
    head = f"{book / path}: error[disk]: cannot be read or written: file too large"
    assert head in ended.stderr
    assert ("--out for another output folder" in ended.stderr) == (arguments[0] != "fill")
    assert {path: path.read_bytes() for path in book.rglob("*.md")} == before
    assert list(book.glob("**/.bindery-making-*")) == []
