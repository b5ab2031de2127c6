"""What every companion tool promises: found by glob, so that a new one cannot forget it."""

from __future__ import annotations

import ast
import hashlib
import os
import re
import signal
import subprocess
import sys
import time
import tomllib
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from demo_runs import read_constants, write_bundle
from ruamel.yaml import YAML

SCRIPTS = Path(__file__).resolve().parent.parent
NO_TOOLS = {"kit", "tests", "launchers"}
TOOLS = sorted(
    path for path in SCRIPTS.rglob("*.py") if not NO_TOOLS & {*path.relative_to(SCRIPTS).parts}
)
ENTRIES = YAML(typ="safe").load((SCRIPTS.parent / "chapters.yaml").read_text())["tools"]
METADATA = re.compile(r"^# /// script\n((?:#(?: .*)?\n)+?)# ///$", re.MULTILINE)
TIMING = ("device", "ranks", "stats", "timing")
"""Kit modules that decide what a number means."""


@pytest.fixture(params=TOOLS, ids=lambda tool: tool.relative_to(SCRIPTS).as_posix())
def tool(request: pytest.FixtureRequest) -> Any:
    """Each companion tool, so that a new one is never forgotten."""
    return request.param


def leaves_records(tool: Path) -> bool:
    """Whether chapters.yaml says that runs of the tool become records."""
    return ENTRIES[tool.stem].get("output") != "text"


def test_what_a_tool_says_of_itself(tool: Path, load_tool: Any) -> None:
    """The PEP 723 block asks for Python 3.11, and torch at most. The docstring opens with a
    question, and says how to run the tool and what its exit status means. __version__ has three
    parts, and METHOD, of a tool that measures, is an integer from 1. A tool that leaves records
    has the profiles `demo` and `full`, and each profile is a valid command line."""
    source = tool.read_text(encoding="utf-8")
    (block,) = METADATA.findall(source)
    metadata = tomllib.loads("\n".join(line.removeprefix("#") for line in block.splitlines()))
    assert metadata["requires-python"] == ">=3.11"
    assert {re.split(r"[<>=]", name)[0] for name in metadata["dependencies"]} <= {"torch"}
    docstring = ast.get_docstring(ast.parse(source)) or ""
    assert docstring.splitlines()[0].endswith("?")
    assert "\n## How to run\n" in docstring
    assert "Exit status" in docstring
    constants = read_constants(tool)
    assert re.fullmatch(r"\d+\.\d+\.\d+", constants["__version__"])
    assert constants.get("METHOD", 1) >= 1
    if leaves_records(tool):
        assert set(constants["PROFILES"]) >= {"demo", "full"}
        parser = load_tool(tool.relative_to(SCRIPTS).as_posix()).build_parser()
        for arguments in constants["PROFILES"].values():
            parser.parse_args(arguments)


@pytest.mark.torch
def test_demo_of_the_single_file(tool: Path, run_demo_once: Any, read_json: Any) -> None:
    """The bundle, alone in an empty folder, runs its demo, finds its answers right, writes JSON
    that could become a record, and leaves nothing else."""
    done = run_demo_once(tool, writes_json=leaves_records(tool))
    assert done.status == 0, done.stderr
    assert done.stdout
    assert "Traceback" not in done.stderr
    assert done.left == []
    if not leaves_records(tool):
        return
    document = read_json(done.json)
    constants = read_constants(tool)
    assert document["tool"] == tool.stem
    assert document["version"] == constants["__version__"]
    assert document["method"] == constants.get("METHOD", 1)
    name = "machine-report" if tool.stem == "env_report" else "tool-output"
    schema = read_json(SCRIPTS / "schemas" / f"{name}-2.json")
    jsonschema.validate(document, schema, cls=jsonschema.Draft202012Validator)
    if tool.stem == "env_report":
        return
    assert document["complete"] is True
    columns = set(document["results"][0])
    for row in document["results"]:
        assert set(row) == columns
        for key, value in row.items():
            if isinstance(value, int | float) and not isinstance(value, bool):
                assert key in document["units"], f"'{key}' is a number without a unit"
    compare = constants.get("COMPARE")
    if compare:
        assert {*compare["keys"], compare["value"], compare.get("spread")} - {None} <= columns


def test_the_single_file_answers_without_a_package(tool: Path, tmp_path: Path) -> None:
    """--help prints the docstring, and --version the version, where not even torch is there. A
    --json path in a folder that is missing, or an unknown option, ends with status 2 before
    anything is measured."""
    copy = write_bundle(tool, tmp_path)

    def call(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-ES", copy, *arguments]
        return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)

    done = call("--help")
    assert done.returncode == 0, done.stderr
    docstring = ast.get_docstring(ast.parse(tool.read_text(encoding="utf-8"))) or ""
    assert docstring.splitlines()[0] in done.stdout
    assert "--demo" in done.stdout
    assert ("\n  --json " in done.stdout) == leaves_records(tool)
    constants = read_constants(tool)
    method = f" (method {constants['METHOD']})" if "METHOD" in constants else ""
    assert call("--version").stdout == f"{tool.stem} {constants['__version__']}{method}\n"
    wrong = ["--demo", "--json", "none/x.json"] if leaves_records(tool) else ["--no-such-option"]
    done = call(*wrong)
    assert done.returncode == 2
    assert "error: " in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.torch
def test_a_signal_keeps_what_was_measured(read_json: Any, tmp_path: Path) -> None:
    """SIGTERM after the first row ends all ranks of a tool, with JSON that says it is incomplete;
    nothing else is left in the folder."""
    path = tmp_path / "cut.json"
    tool = SCRIPTS / "network/all_reduce_bench.py"
    command = [sys.executable, tool, "--demo", "--num-iterations", "100", "--json", path]
    process = subprocess.Popen(
        command, cwd=tmp_path, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    try:
        while not path.exists():
            assert process.poll() is None, process.communicate()[1]
            time.sleep(0.05)
        process.send_signal(signal.SIGTERM)
        _, errors = process.communicate(timeout=120)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
    assert process.returncode == 1, errors
    assert "Traceback" not in errors
    assert read_json(path)["complete"] is False
    assert list(tmp_path.iterdir()) == [path]


def test_changed_measuring_code_is_confirmed() -> None:
    """methods.txt pins METHOD and the code of each tool that measures. If you change the code,
    raise METHOD, or confirm that numbers stay comparable by writing the new line."""
    kit = {f"kit.{name}": (SCRIPTS / f"kit/{name}.py").read_bytes() for name in TIMING}
    lines = []
    for tool in TOOLS:
        method = read_constants(tool).get("METHOD")
        if method is None:
            continue
        source = tool.read_bytes()
        used = [code for name, code in kit.items() if f"from {name} ".encode() in source]
        digest = hashlib.sha256(b"".join([source, *used])).hexdigest()[:16]
        lines.append(f"{tool.stem} {method} {digest}")
    path = SCRIPTS / "tests" / "methods.txt"
    pinned = path.read_text(encoding="utf-8").splitlines()
    changed = [line for line in lines if line not in pinned]
    gone = [line for line in pinned if line.split()[0] not in {one.split()[0] for one in lines}]
    advice = f"raise METHOD, or confirm that numbers stay comparable, in {path.name}:"
    assert not changed, "\n".join([advice, *changed])
    assert not gone, "\n".join([f"remove from {path.name}:", *gone])


def test_tools_stay_small() -> None:
    """A tool can be read in a sitting, half of them in minutes; `pytest -s` prints the numbers."""

    def count(*paths: Path) -> int:
        return sum(len(path.read_text().splitlines()) for path in paths)

    sizes = {path.stem: count(path) for path in TOOLS}
    kit, tests = count(*SCRIPTS.glob("kit/*.py")), count(*SCRIPTS.glob("tests/**/*.py"))
    both, small = sum(sizes.values()) + kit, sum(size < 300 for size in sizes.values())
    largest = sorted(sizes, key=lambda name: -sizes[name])[:2]
    print(
        f"\ntools and kit {both:,} lines, kit {kit:,}; tests {tests:,}; {small} of {len(sizes)} "
        f"tools below 300; the largest: {', '.join(f'{n} {sizes[n]:,}' for n in largest)}"
    )
    assert {n: s for n, s in sizes.items() if s > (1200 if n == "calculators" else 900)} == {}
    assert small >= len(sizes) / 2
    assert both <= 16_000
    assert tests <= 9_000


def test_catalogue_lists_every_tool() -> None:
    """One row per tool and batch script, linked by its path; every link leads somewhere."""
    text = (SCRIPTS / "README.md").read_text(encoding="utf-8")
    tools = {
        path.relative_to(SCRIPTS).as_posix()
        for path in SCRIPTS.rglob("*")
        if path.suffix in (".py", ".slurm", ".sbatch")
        and not {"tests", "kit"} & set(path.relative_to(SCRIPTS).parts)
        and path.name != "train.py"
    }
    listed = re.findall(r"^\| \[[^\]]+\]\(([^)]+\.\w+)\)", text, re.MULTILINE)
    assert sorted(listed) == sorted(tools)
    for target in re.findall(r"\]\(([^)\s#]+)", text):
        assert (SCRIPTS / target).exists(), target
    for path in listed:
        if path.endswith(".py"):
            question = ast.get_docstring(ast.parse((SCRIPTS / path).read_bytes())).splitlines()[0]
            assert f"]({path}) | {question} |" in text
