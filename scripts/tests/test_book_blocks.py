"""Every block of code in the book. Python and commands run as printed if a CPU can do that within
seconds; the rest is parsed.

book_blocks.csv lists the commands by class:

run     run as printed
slow    the same, in the nightly tests: it imports torch or takes longer
cell    run by a cell of book_cells.py or slurm_cells.py, which sets up what it needs
parsed  not run, because it changes the machine, takes long, drives something that is not here, or
        only calls a companion tool that has its own tests; read by `bash -n`, and its options by
        `bindery check`
gpu     the same, because it needs a GPU, or a cluster's network or storage
"""

from __future__ import annotations

import ast
import builtins
import csv
import io
import multiprocessing
import re
import runpy
import subprocess
import sys
from collections.abc import Mapping
from multiprocessing import forkserver
from pathlib import Path
from typing import Any

import pytest
from chapter_blocks import ROOT, Block, find_block, read_blocks, run_bash
from needs import need
from slurm_user import Login

HERE = Path(__file__).resolve().parent
LIST = HERE / "book_blocks.csv"
CLASSES = {"run", "slow", "cell", "parsed", "gpu"}
NO_COMMANDS = {"python", "text", "markdown"}
NEVER = re.compile(
    r"\b(sudo|apt|apt-get|pip3? install|rm(?! -f .\$leave)|mkfs\S*|curl|wget|docker|nvidia-smi"
    r"|kubectl)(?= )"
)
"""Commands that change the machine, or that no machine of tests has."""

NEEDS_GPU = {
    ("inference", "llm = LLM("): "vLLM",
    ("network/debug", "options = dist.ProcessGroupNCCL.Options()"): "NCCL",
    ("training/model-parallelism", 'mesh = init_device_mesh("cuda", (8,))'): "context parallelism",
    ("training/number-formats", "layer = te.Linear("): "Transformer Engine",
}
"""Python that is not run: chapter and beginning of the block -> what it drives."""

IMPORTED = """
datasets markdown_it pytest torch._dynamo torch.distributed.checkpoint torch.distributed.fsdp
transformers.models.auto.modeling_auto transformers.models.llama.modeling_llama
""".split()
"""What the processes of the cells have imported when they start, as far as it is installed."""


CLUSTER = {"cores": 96, "gpus": 8, "settings": ["DefMemPerCPU=40"]}
SMALLER = {
    # eight tasks of a node: two; eight GPUs, ranks of torchrun, ranks of a node in pairs: one
    r"(--ntasks-per-node[= ])8": r"\g<1>2",
    r"(--ntasks \$\(\()8 ": r"\g<1>2 ",
    r"(--gpus-per-node[= ]|--nproc-per-node[= ]|--ranks-per-node )8": r"\g<1>1",
    # nodes: two, and where a run may lose some, one or two
    r"--nnodes 60:64": "--nnodes 1:2",
    r"(--nodes[= ])(?:40|64)(?= --n| )": r"\g<1>2",
    r"--ntasks[= ]40": "--ntasks=2",
    r"NumNodes=16 NumTasks=16": "NumNodes=2 NumTasks=2",
    # hours: minutes, for the partition has a limit
    r"--time=(\d+):00:00": r"--time=\1",
    r"TimeLimit=10:00:00": "TimeLimit=10",
    # payloads
    r"--max-size \d+GiB": "--max-size 64KiB",
}
"""Replacements in a block on the cluster. Without GPUs the tools and train.py use the CPU and gloo
anyway."""


def list_commands() -> list[Block]:
    return [block for block in read_blocks() if block.language not in NO_COMMANDS]


def read_list() -> dict[tuple[str, str], str]:
    """The class of each command, by chapter and name."""
    with LIST.open(encoding="utf-8", newline="") as file:
        return {(row["chapter"], row["command"]): row["class"] for row in csv.DictReader(file)}


def pick(*kinds: str) -> list[Block]:
    """The commands of some classes."""
    return [b for b in list_commands() if read_list().get((b.chapter, b.name)) in kinds]


# --- cells ---


def read_cells(name: str) -> tuple[str, list[tuple[str, str]]]:
    """The head of a file of cells, and of each cell what it needs, its chapter first, and its
    code."""
    head, *parts = re.split(r"^# %% (.*)\n", (HERE / name).read_text(), flags=re.MULTILINE)
    return head, list(zip(parts[::2], parts[1::2], strict=True))


HEAD, CELLS = read_cells("book_cells.py")
SLURM_HEAD, SLURM_CELLS = read_cells("slurm_cells.py")
LANGUAGES = {"snippet": "python", "text": "python", "shell": "bash", "block": "bash"}
"""What a cell calls to name a block, and the block's language."""


def list_blocks(title: str, code: str) -> list[tuple[ast.Call, str, Block]]:
    """The blocks of a cell: the call that names it, how the block begins, and the block."""
    calls = [node for node in ast.walk(ast.parse(code)) if isinstance(node, ast.Call)]
    found = []
    for call in calls:
        match call:
            case ast.Call(ast.Name(name), [ast.Constant(begin), *_]) if name in LANGUAGES:
                found.append((call, begin, find_block(title.split()[0], begin, LANGUAGES[name])))
    return found


def write_cell(path: Path, head: str, cell: tuple[str, str], changes: Mapping[str, str]) -> None:
    """Write a cell as a program, with its blocks. Blocks are changed only by `changes`, and from
    GPU to CPU unless they ask whether there is a GPU. A name that a snippet reads has to be
    bound in the cell: the imports of the head do not count."""
    blocks = {}
    bound, read = list_names(cell[1], bound=True) | {*dir(builtins)}, set()
    for call, begin, block in list_blocks(*cell):
        code = block.code
        if "cuda.is_available()" not in code:
            code = code.replace('"cuda"', '"cpu"').replace(".cuda()", ".cpu()")
        for pattern, new in changes.items():
            code = re.sub(pattern, new, code)
        blocks[begin] = code
        if call.func.id == "snippet":
            bound |= list_names(code, bound=True) | {name.value for name in call.args[1:]}
            read |= list_names(code, bound=False)
    assert read <= bound, read - bound
    path.write_text(f"BLOCKS = {blocks!r}\n{head}{cell[1]}")


def list_names(code: str, *, bound: bool) -> set[str]:
    """The names that code binds anywhere, or the names that it reads."""
    names = set()
    for node in ast.walk(ast.parse(code)):
        match node:
            case ast.Name(name, context) if isinstance(context, ast.Load) != bound:
                names.add(name)
            case ast.FunctionDef(name) | ast.ClassDef(name) | ast.arg(name) if bound:
                names.add(name)
            case ast.ExceptHandler(_, str(name)) if bound:
                names.add(name)
            case ast.alias(name, alias) if bound:
                names.add(alias or name.split(".")[0])
    return names


@pytest.fixture(scope="session")
def processes(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Start a process per cell that has imported torch and done nothing else."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(IMPORTED)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OMP_NUM_THREADS", "1")
        patch.setenv("HF_HUB_OFFLINE", "1")
        patch.setenv("HF_HOME", str(tmp_path_factory.mktemp("huggingface")))
        forkserver.ensure_running()
    return context


@pytest.fixture(scope="session")
def tiny_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model with its tokenizer, made by the book's own tool."""
    folder = tmp_path_factory.mktemp("models")
    tool = ROOT / "scripts/debug/tiny/make_tiny_model.py"
    sizes = ["--hidden", "64", "--heads", "4", "--layers", "5"]
    command = [sys.executable, tool, "--models", "llama", *sizes, "--out", folder]
    subprocess.run(command, check=True, capture_output=True)
    return folder / "llama-bpe"


def each_of(cells: list[tuple[str, str]]) -> pytest.MarkDecorator:
    """Run a test once per cell, under the name of its first block."""
    name = re.compile(r"\b(?:snippet|text|shell|block)\((\"+|'+)(.*?)\1")
    parameters = [
        pytest.param(
            cell,
            id=f"{cell[0].split()[0]}: {name.search(cell[1])[2]}",
            marks=[pytest.mark.nightly] if "nightly" in cell[0] else [],
        )
        for cell in cells
    ]
    return pytest.mark.parametrize("cell", parameters)


@pytest.mark.torch
@each_of(CELLS)
def test_cells_run(
    cell: tuple[str, str], tmp_path: Path, processes: Any, request: pytest.FixtureRequest
) -> None:
    """Each in its own process, with the folders of a cluster below its own folder."""
    things = cell[0].split()[1:]
    need("python:torch", *(thing for thing in things if thing != "nightly"))
    if "python:transformers" in things:
        for owner, name in (("your", "model"), ("facebook", "opt-1.3b")):
            (tmp_path / owner).mkdir()
            (tmp_path / owner / name).symlink_to(request.getfixturevalue("tiny_model"))
    places = r"(?<![\w/])/(?=(?:mnt/shared|shared|local|dev/shm|data|tmp)\b)"
    path = tmp_path / "cell.py"
    write_cell(path, HEAD, cell, {places: f"{tmp_path}/"})
    process = processes.Process(target=runpy.run_path, args=(str(path), None, "__main__"))
    process.start()
    process.join(600)
    status = process.exitcode
    process.kill()
    process.join()
    assert status == 0, (tmp_path / "stderr").read_text()


@pytest.mark.torch
@each_of(SLURM_CELLS)
def test_slurm_cells_run(cell: tuple[str, str], login: Login) -> None:
    """Each by a user of a real Slurm of two nodes."""
    need("python:torch", *cell[0].split()[1:])
    path = login.folder / "cell.py"
    write_cell(path, SLURM_HEAD, cell, SMALLER)
    runpy.run_path(str(path), {"login": login})


# --- commands ---


@pytest.mark.parametrize(
    "block",
    [
        *pick("run"),
        *(pytest.param(b, marks=[pytest.mark.nightly, pytest.mark.torch]) for b in pick("slow")),
    ],
    ids=lambda block: f"{block.chapter}: {block.name}",
)
def test_commands_run(block: Block, tmp_path: Path) -> None:
    run_bash(block.code, tmp_path)


def test_bash_reads_every_block() -> None:
    """What a reader fills in, such as <name>, counts as a word. Other languages are read by
    `bindery check`."""
    for block in list_commands():
        if block.language == "bash":
            code = re.sub(r"^> ", "", block.code, flags=re.MULTILINE)
            code = re.sub(r"<([A-Za-z_][\w -]*)>", r"\1", code)
            done = subprocess.run(
                ["bash", "-n"], input=code, capture_output=True, text=True, check=False
            )
            assert done.stderr == "", block.place


# --- the list ---


def test_every_command_is_in_the_list() -> None:
    """One row per block, in the order of the book. A new block is `parsed` until you change its
    class."""
    kinds = read_list()
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(["chapter", "command", "class"])
    for block in list_commands():
        writer.writerow(
            [block.chapter, block.name, kinds.get((block.chapter, block.name), "parsed")]
        )
    assert LIST.read_text().splitlines() == out.getvalue().splitlines()


def test_every_block_is_where_the_list_says() -> None:
    """The commands of the class `cell` and all Python are in cells, and nothing that is run changes
    the machine."""
    assert {*read_list().values()} == CLASSES
    used = [find_block(*key, "python") for key in NEEDS_GPU]
    used += [block for cell in CELLS + SLURM_CELLS for _, _, block in list_blocks(*cell)]
    missing = [b for b in read_blocks() if b.language == "python" and b not in used]
    advice = "these snippets have no cell: write one in scripts/tests/book_cells.py"
    assert not missing, "\n".join((advice, *(f"{b.place}: {b.name}" for b in missing)))
    assert [block.place for block in pick("cell") if block not in used] == []
    for block in pick("run", "slow", "cell"):
        assert NEVER.search(block.code) is None, block.place
