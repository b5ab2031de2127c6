"""What the tests of bindery share: fixture files, whole books, and the program itself.

A fixture file holds cases, each of them a title, an input and what is expected:

    title
    .
    input
    .
    expected
    .

`pytest build/tests --update` writes what came out over what was expected, here and in
`books/*/expected.txt`; read the diff before you commit it.
"""

import gc
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import bindery
import pytest
from bindery.cli import main as cli
from fixture_types import BookMaker, Case, Ended, Runner

pytest_plugins = ["needs", "examples", "slurm_cluster", "demo_runs", "whole_sites", "browsers"]

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
BOOKS = HERE / "books"
FIXTURES = HERE / "fixtures"


# --- expectations ---


_READ: dict[Path, list[Case]] = {}


def read_cases(path: Path, *, update: bool = False) -> list[Case]:
    """The cases of a fixture file. Lines between cases are comments."""
    if path not in _READ:
        lines = path.read_text(encoding="utf-8").split("\n")
        dots = [number for number, line in enumerate(lines) if line == "."]
        assert len(dots) % 3 == 0, f"{path.name}: a case lacks one of its three dots"
        _READ[path] = [
            Case(
                path,
                first,
                lines[first - 1],
                "\n".join(lines[first + 1 : second]),
                "\n".join(lines[second + 1 : third]),
                slice(second + 1, third),
                update,
            )
            for first, second, third in zip(dots[::3], dots[1::3], dots[2::3], strict=True)
        ]
    return _READ[path]


def _rewrite(path: Path, cases: list[Case]) -> None:
    lines = path.read_text(encoding="utf-8").split("\n")
    for case in reversed(cases):
        if case.actual is not None:
            lines[case.lines] = case.actual.split("\n")
    path.write_text("\n".join(lines), encoding="utf-8")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update", action="store_true", help="write what came out over what is expected"
    )


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "cases(name): run once for each case of a fixture file")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """A test that asks for `case` names its fixture file with the marker `cases`; one that asks
    for `broken_book` runs once for each folder of books/."""
    if "case" in metafunc.fixturenames:
        marker = metafunc.definition.get_closest_marker("cases")
        assert marker is not None, "name a fixture file with pytest.mark.cases"
        update = metafunc.config.getoption("--update")
        cases = read_cases(FIXTURES / marker.args[0], update=update)
        names = [f"{case.path.name}:{case.line} {case.title}" for case in cases]
        metafunc.parametrize("case", cases, ids=names)
    if "broken_book" in metafunc.fixturenames:
        books = sorted(path for path in BOOKS.iterdir() if path.is_dir())
        metafunc.parametrize("broken_book", books, ids=[path.name for path in books])


def pytest_sessionfinish(session: pytest.Session) -> None:
    if session.config.getoption("--update"):
        for path, cases in _READ.items():
            _rewrite(path, cases)


# --- books ---


@pytest.fixture(autouse=True, scope="session")
def own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """The tests do not use the cache of the user who runs them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture
def make_book(tmp_path: Path) -> BookMaker:
    """Write a book from texts by path. Where no chapters.yaml is among them, one that lists every
    Markdown file is added, `extra` being its further lines."""

    def make(files: Mapping[str, str | bytes], extra: str = "", name: str = "book") -> Path:
        root = tmp_path / name
        root.mkdir(exist_ok=True)
        chapters = "".join(f"      - {path}\n" for path in files if path.endswith(".md"))
        listed = f"title: A book\n{extra}parts:\n  - chapters:\n{chapters}"
        for path, content in {"chapters.yaml": listed, **files}.items():
            target = root / path
            target.parent.mkdir(parents=True, exist_ok=True)
            data = content.encode() if isinstance(content, str) else content
            target.write_bytes(data)
        return root

    return make


STAND_IN = """
import shutil
import sys

__version__ = {version!r}
METHOD = {method!r}
PROFILES = {{"demo": []}}
shutil.copyfile({facts!r}, sys.argv[sys.argv.index("--json") + 1])
"""


@pytest.fixture(scope="session")
def facts_tool(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A tool that tells the facts of this machine as env_report has told them once; env_report
    itself takes two seconds to import torch."""
    from whole_sites import make_once  # a plugin of pytest, which wants to import it first

    def tell(folder: Path) -> None:
        command = [sys.executable, str(ROOT / "scripts/env_report.py")]
        target = str(folder / "facts.json")
        subprocess.run([*command, "--json", target], check=True, capture_output=True, timeout=300)

    path = make_once(tmp_path_factory, "facts of this machine", tell) / "facts.json"
    facts = json.loads(path.read_text(encoding="utf-8"))
    return STAND_IN.format(version=facts["version"], method=facts["method"], facts=str(path))


# --- the program ---


@pytest.fixture
def run_bindery(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Runner:
    """Run the command line in this process, in a folder: quick, and otherwise as users do."""

    def run(*arguments: str, folder: Path) -> Ended:
        monkeypatch.chdir(folder)
        monkeypatch.setattr(sys, "argv", ["bindery", *arguments])
        capsys.readouterr()
        with pytest.raises(SystemExit) as stop:
            cli.main()
        gc.enable()  # the program does without it; the tests live longer
        out, err = capsys.readouterr()
        status = stop.value.code
        assert status is None or isinstance(status, int), status
        return Ended(status or 0, out, err)

    return run


@pytest.fixture
def child_environment() -> dict[str, str]:
    """The environment of a child process that is to find the same bindery as these tests."""
    package = str(Path(bindery.__file__).resolve().parents[1])
    paths = [package, os.environ.get("PYTHONPATH", "")]
    return {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(filter(None, paths)),
        "PYTHONWARNINGS": "error",
        "COLUMNS": "100",
        "NO_COLOR": "1",
    }


@pytest.fixture
def script_environment(child_environment: dict[str, str]) -> dict[str, str]:
    """The same for a script that imports modules of these tests too."""
    paths = os.pathsep.join((child_environment["PYTHONPATH"], str(HERE)))
    return {**child_environment, "PYTHONPATH": paths}


@pytest.fixture
def start_bindery(child_environment: dict[str, str]) -> Runner:
    """Run `python -m bindery` as a process of its own, as users do."""

    def run(*arguments: str, folder: Path) -> Ended:
        ended = subprocess.run(
            [sys.executable, "-m", "bindery", *arguments],
            cwd=folder,
            env=child_environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
        )
        return Ended(ended.returncode, ended.stdout, ended.stderr)

    return run


@pytest.fixture
def copy_book(tmp_path: Path) -> Callable[[Path], Path]:
    """A copy of a book that a test may change, symbolic links kept as they are."""

    def copy(source: Path) -> Path:
        target = tmp_path / source.name
        shutil.copytree(source, target, symlinks=True)
        return target

    return copy
