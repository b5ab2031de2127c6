"""What every companion tool promises: found by glob, so that a new one cannot forget it."""

from __future__ import annotations

import argparse
import ast
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

SCRIPTS = Path(__file__).resolve().parent.parent

METADATA = re.compile(r"^# /// script\n((?:#(?: .*)?\n)+?)# ///$", re.MULTILINE)


def read_constants(tool: Path) -> dict[str, Any]:
    """The module-level constants that are plain literals, read without importing the tool."""
    constants = {}
    for node in ast.parse(tool.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            try:
                constants[node.targets[0].id] = ast.literal_eval(node.value)
            except ValueError:
                continue
    return constants


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


def test_help_needs_no_torch_and_less_than_a_second(
    tool: Path, run_tool: Callable[..., Any], torch_trap: dict[str, str]
) -> None:
    """--help answers in under a second and never imports torch."""
    seconds = []
    for _ in range(3):
        started = time.perf_counter()
        done = run_tool(tool, "--help", environ=torch_trap)
        seconds.append(time.perf_counter() - started)
        assert done.returncode == 0, done.stderr
        assert "--json" in done.stdout
        assert "--self-test" in done.stdout
    assert min(seconds) < 1.0


def test_version_needs_no_torch_and_tells_both_numbers(
    tool: Path, run_tool: Callable[..., Any], torch_trap: dict[str, str]
) -> None:
    """--version prints the tool, its __version__ and its METHOD."""
    constants = read_constants(tool)
    done = run_tool(tool, "--version", environ=torch_trap)
    assert done.returncode == 0, done.stderr
    version, method = constants["__version__"], constants["METHOD"]
    assert done.stdout.strip() == f"{tool.stem} {version} (method {method})"


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


def test_unknown_option_is_wrong_use(tool: Path, run_tool: Callable[..., Any]) -> None:
    """An unknown option ends with status 2 and a message, without a traceback."""
    done = run_tool(tool, "--no-such-option")
    assert done.returncode == 2
    assert "--no-such-option" in done.stderr
    assert "Traceback" not in done.stderr


def test_json_into_a_missing_folder_is_wrong_use(
    tool: Path, run_tool: Callable[..., Any], tmp_path: Path, torch_trap: dict[str, str]
) -> None:
    """A --json path in a folder that is not there is refused before anything is measured."""
    done = run_tool(tool, "--json", str(tmp_path / "none" / "x.json"), environ=torch_trap)
    assert done.returncode == 2
    assert "there is no folder" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.torch
def test_self_test_passes(tool: Path, run_tool: Callable[..., Any]) -> None:
    """--self-test proves the tool on this machine."""
    done = run_tool(tool, "--self-test")
    assert done.returncode == 0, done.stderr
    count, total = re.search(r"self-test: (\d+) of (\d+) checks passed", done.stderr).groups()
    assert count == total
    assert int(total) >= 5


@pytest.mark.torch
def test_toy_profile_leaves_good_json(
    tool: Path, run_tool: Callable[..., Any], read_json: Callable[[Path], Any], tmp_path: Path
) -> None:
    """The toy profile prints a table and leaves strict JSON that could become a record."""
    skip_without_program(tool)
    path = tmp_path / "out.json"
    done = run_tool(tool, *read_constants(tool)["PROFILES"]["toy"], "--json", str(path))
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("| ")
    assert "Traceback" not in done.stderr
    document = read_json(path)
    constants = read_constants(tool)
    assert document["tool"] == tool.stem
    assert document["version"] == constants["__version__"]
    assert document["method"] == constants["METHOD"]
    assert all(isinstance(caveat, str) for caveat in document["caveats"])
    assert list(path.parent.glob(".*")) == [], "a partial file was left behind"
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


# Finds no package but Python's and torch's own, as on a machine that has no other.
BARE = """
import importlib.machinery, sys
KNOWN = set(sys.stdlib_module_names) | set(
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


def test_one_file_answers_alone(
    lone_copy: tuple[Path, dict[str, str]], run_tool: Callable[..., Any]
) -> None:
    """--help and --version answer from a single copied file."""
    copy, environ = lone_copy
    for option in ("--help", "--version"):
        done = run_tool(copy, option, environ=environ, cwd=copy.parent)
        assert done.returncode == 0, done.stderr


@pytest.mark.torch
def test_one_file_proves_itself_alone(
    lone_copy: tuple[Path, dict[str, str]], run_tool: Callable[..., Any]
) -> None:
    """--self-test passes from a single copied file with torch and nothing else."""
    copy, environ = lone_copy
    done = run_tool(copy, "--self-test", environ=environ, cwd=copy.parent)
    assert done.returncode == 0, done.stderr
    assert [path.name for path in copy.parent.iterdir()] == [copy.name], "something was left behind"


@pytest.mark.torch
@pytest.mark.slow
def test_ctrl_c_keeps_what_was_measured(
    tool: Path, read_json: Callable[[Path], Any], tmp_path: Path
) -> None:
    """Ctrl-C in the middle of the toy run ends it with status 1 and JSON that says it is not
    complete, or comes too late to matter. It never leaves a traceback."""
    skip_without_program(tool)
    arguments = read_constants(tool)["PROFILES"]["toy"]
    seconds = time_toy_run(tool, arguments, tmp_path / "whole.json")
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


# What a tool drives and does not bring along.
PROGRAMS = {"fio_scan": "fio"}


def skip_without_program(tool: Path) -> None:
    """Skip where the program that the tool drives is not installed."""
    program = PROGRAMS.get(tool.stem)
    if program is not None and shutil.which(program) is None:
        pytest.skip(f"{program} is not installed")


def time_toy_run(tool: Path, arguments: list[str], path: Path) -> float:
    """The seconds that the toy run of a tool takes here."""
    started = time.perf_counter()
    subprocess.run(
        [sys.executable, str(tool), *arguments, "--json", str(path)],
        capture_output=True,
        cwd=path.parent,
        timeout=300,
        check=True,
    )
    return time.perf_counter() - started


def test_catalogue_lists_every_tool() -> None:
    """The catalogue has one row for each tool, linked by its path."""
    text = (SCRIPTS / "README.md").read_text(encoding="utf-8")
    tests = SCRIPTS / "tests"
    tools = {
        path.relative_to(SCRIPTS).as_posix()
        for path in SCRIPTS.rglob("*.py")
        if tests not in path.parents
    }
    listed = re.findall(r"^\| \[[^\]]+\]\(([^)]+\.py)\)", text, re.MULTILINE)
    assert sorted(listed) == sorted(tools)


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
