"""What every companion tool promises: found by glob, so that a new one cannot forget it."""

from __future__ import annotations

import argparse
import ast
import itertools
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from needs import need
from toy_runs import NEEDS, ToyRun, read_constants

SCRIPTS = Path(__file__).resolve().parent.parent

METADATA = re.compile(r"^# /// script\n((?:#(?: .*)?\n)+?)# ///$", re.MULTILINE)


def find_imports(nodes: list[ast.stmt]) -> set[str]:
    """Top-level names that the statements import, at any depth."""
    names = set()
    for node in nodes:
        for part in ast.walk(node):
            if isinstance(part, ast.Import):
                names |= {alias.name.split(".")[0] for alias in part.names}
            elif isinstance(part, ast.ImportFrom):
                names.add("." if part.level else (part.module or "").split(".")[0])
    return names


def test_method_is_an_integer_from_one(tool: Path) -> None:
    """METHOD is an integer from 1, and __version__ has three parts."""
    constants = read_constants(tool)
    assert type(constants["METHOD"]) is int
    assert constants["METHOD"] >= 1
    assert re.fullmatch(r"\d+\.\d+\.\d+", constants["__version__"])


def test_metadata_block_declares_what_is_imported(tool: Path) -> None:
    """The PEP 723 block is there, asks for Python 3.11, and names what cannot be done without."""
    found = METADATA.findall(tool.read_text(encoding="utf-8"))
    assert len(found) == 1
    block = "\n".join(line.removeprefix("#").strip() for line in found[0].splitlines())
    metadata = tomllib.loads(block)
    assert metadata["requires-python"] == ">=3.11"
    declared = {re.split(r"[<>=!~ \[]", name)[0] for name in metadata["dependencies"]}
    assert declared <= {"torch"}


def test_file_runs_on_its_own(tool: Path) -> None:
    """Importing the file takes the standard library alone, and no function imports a sibling."""
    tree = ast.parse(tool.read_text(encoding="utf-8"))
    outside = [n for n in tree.body if not isinstance(n, ast.FunctionDef | ast.ClassDef)]
    assert find_imports(outside) <= set(sys.stdlib_module_names)
    siblings = {path.stem for path in SCRIPTS.rglob("*.py")} | {"."}
    siblings |= {path.name for path in SCRIPTS.rglob("*") if path.is_dir()}
    assert not find_imports(tree.body) & siblings


def test_docstring_is_the_chapter_in_small(tool: Path) -> None:
    """The docstring opens with a question and tells how to run the tool and how to read it."""
    docstring = ast.get_docstring(ast.parse(tool.read_text(encoding="utf-8"))) or ""
    assert docstring.splitlines()[0].endswith("?")
    for part in ("How to run", "Slurm", "pdsh", "A good answer", "Exit status"):
        assert part in docstring


def test_profiles_parse(tool: Path, load_tool: Callable[[str], Any]) -> None:
    """PROFILES is a literal with toy and full, and each profile is a valid command line."""
    profiles = read_constants(tool)["PROFILES"]
    assert set(profiles) >= {"toy", "full"}
    parser = load_tool(tool.relative_to(SCRIPTS).as_posix()).build_parser()
    assert isinstance(parser, argparse.ArgumentParser)
    for arguments in profiles.values():
        parser.parse_args(arguments)


@pytest.mark.torch
def test_toy_profile_leaves_good_json(
    tool: Path, run_toy_once: Callable[[Path], ToyRun], read_json: Callable[[Path], Any]
) -> None:
    """The toy profile of the single file, alone in a folder, prints a table, leaves strict JSON
    that could become a record, and nothing else."""
    done = run_toy_once(tool)
    assert done.status == 0, done.stderr
    assert done.stdout.startswith("| ")
    assert "Traceback" not in done.stderr
    assert done.left == []
    document = read_json(done.json)
    constants = read_constants(tool)
    assert document["tool"] == tool.stem
    assert document["version"] == constants["__version__"]
    assert document["method"] == constants["METHOD"]
    assert all(isinstance(caveat, str) for caveat in document["caveats"])
    name = "machine-report" if tool.stem == "env_report" else "tool-output"
    schema = read_json(SCRIPTS / "schemas" / f"{name}-2.json")
    jsonschema.validate(document, schema, cls=jsonschema.Draft202012Validator)
    if tool.stem == "env_report":
        return
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", document["started"])
    assert document["seconds"] > 0
    assert document["complete"] is True
    assert document["command"][0] == "python"
    assert not [part for part in document["command"] if part.startswith(("/", "~"))]
    columns = [set(row) for row in document["results"]]
    assert columns
    assert all(names == columns[0] for names in columns)
    for row in document["results"]:
        for key, value in row.items():
            assert value is None or isinstance(value, str | bool | int | float)
            if isinstance(value, int | float) and not isinstance(value, bool):
                assert key in document["units"], f"'{key}' is a number without a unit"
    assert set(document["units"]) <= columns[0]
    compare = constants.get("COMPARE")
    if compare:
        assert {*compare["keys"], compare["value"], compare.get("spread")} - {None} <= columns[0]


# Functions that every tool has under the same name and fills with its own matter.
OWN_FUNCTIONS = frozenset(
    ("build_parser", "check_options", "describe_run", "main", "print_report", "run_self_test")
)


def read_definitions(tool: Path) -> dict[str, str]:
    """The source of each function and class at the top level of a tool, by name."""
    source = tool.read_text(encoding="utf-8")
    return {
        node.name: ast.unparse(node)
        for node in ast.parse(source).body
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and node.name not in OWN_FUNCTIONS
    }


def test_what_tools_share_is_the_same_text(tools: list[Path]) -> None:
    """Two tools that define a function of one name define the same function: a fault that is
    mended in one file is mended in all of them."""
    first: dict[str, tuple[str, str]] = {}
    unlike = []
    for tool in tools:
        name = tool.relative_to(SCRIPTS).as_posix()
        for function, source in read_definitions(tool).items():
            owner, text = first.setdefault(function, (name, source))
            if text != source:
                unlike.append(f"{function}: {owner} and {name}")
    assert not unlike, "\n".join(unlike)


# Finds no package but Python's own and, unless told otherwise, torch's.
BARE = """
import importlib.machinery, os, sys
KNOWN = set(sys.stdlib_module_names)
if "WITHOUT_TORCH" not in os.environ:
    KNOWN |= set(
        "torch torchgen functorch typing_extensions sympy mpmath networkx jinja2 markupsafe fsspec "
        "filelock triton nvidia cuda setuptools pkg_resources _distutils_hack distutils".split()
    )
class Bare(importlib.machinery.PathFinder):
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        known = name in KNOWN or name.startswith("_sysconfigdata") or name in sys.argv[0]
        return super().find_spec(name, path, target) if path is not None or known else None
sys.meta_path[:] = [Bare if f is importlib.machinery.PathFinder else f for f in sys.meta_path]
"""


@pytest.fixture
def lone_copy(tool: Path, tmp_path: Path) -> tuple[Path, dict[str, str]]:
    """The single file alone in an empty folder, and an environment that has torch and no other
    package: no NumPy, no psutil, no matplotlib."""
    folder = tmp_path / "node"
    folder.mkdir()
    trap = tmp_path / "bare"
    trap.mkdir()
    (trap / "sitecustomize.py").write_text(BARE)
    copy = folder / tool.name
    shutil.copyfile(tool, copy)
    return copy, {"PYTHONPATH": str(trap), "PYTHONDONTWRITEBYTECODE": "1"}


def test_help_and_version_need_no_package(
    tool: Path, lone_copy: tuple[Path, dict[str, str]], run_tool: Callable[..., Any]
) -> None:
    """--help and --version answer from a single copied file where no package is, torch neither."""
    copy, environ = lone_copy
    environ = {**environ, "WITHOUT_TORCH": "1"}
    done = run_tool(copy, "--help", environ=environ, cwd=copy.parent)
    assert done.returncode == 0, done.stderr
    assert "--json" in done.stdout
    done = run_tool(copy, "--version", environ=environ, cwd=copy.parent)
    assert done.returncode == 0, done.stderr
    constants = read_constants(tool)
    version, method = constants["__version__"], constants["METHOD"]
    assert done.stdout.strip() == f"{tool.stem} {version} (method {method})"


def test_wrong_use_is_refused(
    tool: Path,
    lone_copy: tuple[Path, dict[str, str]],
    run_tool: Callable[..., Any],
    load_tool: Callable[[str], Any],
) -> None:
    """An unknown option, and a --json path in a folder that is not there, end with status 2 and a
    message, before torch is imported and anything is measured."""
    parser = load_tool(tool.relative_to(SCRIPTS).as_posix()).build_parser()
    with pytest.raises(SystemExit) as ended:
        parser.parse_args(["--no-such-option"])
    assert ended.value.code == 2
    copy, environ = lone_copy
    arguments = [*read_constants(tool)["PROFILES"]["toy"], "--json", "none/x.json"]
    environ = {**environ, "WITHOUT_TORCH": "1"}
    done = run_tool(copy, *arguments, environ=environ, cwd=copy.parent)
    assert done.returncode == 2
    assert "error: --json: there is no folder" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.fixture(scope="session")
def other_pythons() -> list[str]:
    """The newer Pythons that the tools have to start on, those of them that are on this machine."""
    homes = [Path.home() / ".pyenv/versions", Path.home() / ".local/share/uv/python"]
    found = []
    for name in ("python3.12", "python3.13", "python3.14"):
        paths = [
            shutil.which(name),
            *(str(p) for h in homes for p in sorted(h.glob(f"*/bin/{name}"))),
        ]
        answers = (
            path
            for path in paths
            if path
            and subprocess.run(
                [path, "-c", ""], capture_output=True, timeout=60, check=False
            ).returncode
            == 0
        )
        found.extend(itertools.islice(answers, 1))
    return found


@pytest.mark.nightly
def test_newer_pythons_run_it(
    tool: Path, other_pythons: list[str], lone_copy: tuple[Path, dict[str, str]]
) -> None:
    """--help and --version answer under each newer Python at hand, and a tool that needs no torch
    proves itself there, without a warning."""
    if not other_pythons:
        pytest.skip("no Python from 3.12 to 3.14 is on this machine")
    copy, environ = lone_copy
    needs_torch = '"torch' in METADATA.findall(tool.read_text(encoding="utf-8"))[0]
    options = ("--help", "--version") if needs_torch else ("--help", "--version", "--self-test")
    for python in other_pythons:
        for option in options:
            done = subprocess.run(
                [python, "-W", "error", str(copy), option],
                capture_output=True,
                text=True,
                env=os.environ | environ,
                cwd=copy.parent,
                timeout=120,
                check=False,
            )
            assert done.returncode == 0, (python, option, done.stderr)


@pytest.mark.nightly
@pytest.mark.torch
def test_one_file_proves_itself_alone(
    lone_copy: tuple[Path, dict[str, str]], run_tool: Callable[..., Any]
) -> None:
    """--self-test, five checks at least, passes from a single copied file with torch alone."""
    copy, environ = lone_copy
    done = run_tool(copy, "--self-test", environ=environ, cwd=copy.parent)
    assert done.returncode == 0, done.stderr
    count, total = re.search(r"self-test: (\d+) of (\d+) checks passed", done.stderr).groups()
    assert count == total
    assert int(total) >= 5
    assert [path.name for path in copy.parent.iterdir()] == [copy.name], "something was left behind"


@pytest.mark.torch
@pytest.mark.nightly
def test_run_that_is_disturbed_keeps_what_was_measured(
    tool: Path, run_tool: Callable[..., Any], read_json: Callable[[Path], Any], tmp_path: Path
) -> None:
    """Where the JSON cannot be written, a line tells it, the status is not 0, and the table is
    printed all the same. Ctrl-C in the middle of the toy run ends it with status 1 and JSON that
    says it is not complete, or comes too late to matter. It never leaves a traceback."""
    need(*filter(None, [NEEDS.get(tool.stem)]))
    arguments = read_constants(tool)["PROFILES"]["toy"]
    started = time.perf_counter()
    done = run_tool(tool, *arguments, "--json", "/dev/full")
    seconds = time.perf_counter() - started
    assert done.returncode in (1, 2), done.stderr
    told = "--json: could not write /dev/full: No space left on device"
    assert done.stderr.count(told) == 1, done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout.startswith("| "), done.stderr

    path = tmp_path / "cut.json"
    process = subprocess.Popen(
        [sys.executable, str(tool), *arguments, "--json", str(path)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        cwd=tmp_path,
        start_new_session=True,
    )
    time.sleep(0.7 * seconds)
    process.send_signal(signal.SIGINT)
    try:
        _, notes = process.communicate(timeout=60)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        raise
    # Python itself was still starting, or had nothing left to do but to end.
    was_cut = process.returncode == -signal.SIGINT
    assert was_cut or process.returncode in (0, 1), notes
    assert was_cut or "Traceback" not in notes
    if path.exists() and tool.stem != "env_report":
        assert read_json(path)["complete"] is (process.returncode != 1)


def test_catalogue_lists_every_tool() -> None:
    """The catalogue has one row for each tool and batch script, linked by its path."""
    text = (SCRIPTS / "README.md").read_text(encoding="utf-8")
    tests = SCRIPTS / "tests"
    tools = {
        path.relative_to(SCRIPTS).as_posix()
        for path in SCRIPTS.rglob("*")
        if path.suffix in (".py", ".slurm", ".sbatch") and tests not in path.parents
    }
    listed = re.findall(r"^\| \[[^\]]+\]\(([^)]+\.\w+)\)", text, re.MULTILINE)
    assert sorted(listed) == sorted(tools)


def test_catalogue_names_the_last_record() -> None:
    """The last column of the catalogue leads to the newest record of the tool, of more than a toy
    run where there is one; it says "none" only where there is none."""
    text = (SCRIPTS / "README.md").read_text(encoding="utf-8")
    for path, cell in re.findall(
        r"^\| \[[^\]]+\]\(([^)]+\.py)\) .* \| ([^|]*) \|$", text, re.MULTILINE
    ):
        records = {
            record.relative_to(SCRIPTS).as_posix(): json.loads(record.read_text(encoding="utf-8"))
            for record in (SCRIPTS / "records" / Path(path).stem).glob("*.json")
        }
        whole = {name: record for name, record in records.items() if record["complete"]}
        full = {name: record for name, record in whole.items() if record["profile"] != "toy"}
        if not whole:
            assert cell.startswith("none"), path
            continue
        last = max(full or whole, key=lambda name: whole[name]["started"])
        assert f"]({last})" in cell, path
        assert whole[last]["started"][:10] in cell, path


def test_links_of_the_catalogue_lead_somewhere() -> None:
    """Every relative link of the catalogue names a file, and every anchor a heading."""
    text = (SCRIPTS / "README.md").read_text(encoding="utf-8")
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    anchors = {re.sub(r"[^\w\- ]", "", h.lower()).replace(" ", "-") for h in headings}
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if target.startswith("#"):
            assert target[1:] in anchors
        elif not target.startswith("http"):
            assert (SCRIPTS / target.split("#")[0]).exists(), target
