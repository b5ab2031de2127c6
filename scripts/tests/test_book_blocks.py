"""Every command block of the book: book_blocks.csv says what is done with each, all are parsed, and
those that a CPU finishes within seconds are run as they are printed.

The classes of book_blocks.csv:

run     executed by the test that is named, here or in test_book_on_slurm.py
parsed  read by `bash -n`, and the options of companion tools by `bindery check`; not executed: it
        changes the machine, takes long, or drives something that is not here
gpu     the same: it needs a GPU, or the network or storage of a cluster
"""

from __future__ import annotations

import csv
import io
import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from bindery.tools.command_lines.shell import read_shell
from chapter_blocks import Block, find_blocks, read_blocks
from needs import need
from ruamel.yaml import YAML

HERE = Path(__file__).resolve().parent
SCRIPTS = HERE.parent
LIST = HERE / "book_blocks.csv"
COLUMNS = ["chapter", "command", "class", "test"]
CLASSES = ("run", "parsed", "gpu")
NO_COMMANDS = {"python", "text", "markdown"}
"""Languages that are no commands; Python has test_book_snippets.py."""
NEVER = re.compile(
    r"\b(sudo|apt|apt-get|pip3? install|rm(?! -f .\$leave)|mkfs\S*|curl|wget|docker|nvidia-smi"
    r"|kubectl)(?= )"
)
"""Commands that change the machine, or that no machine of tests has."""


def list_commands() -> list[Block]:
    return [block for block in read_blocks() if block.language not in NO_COMMANDS]


def read_list() -> list[dict[str, str]]:
    with LIST.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def pick(test: str) -> list[tuple[str, str]]:
    """Chapter and command of each block that this test runs."""
    return [(row["chapter"], row["command"]) for row in read_list() if row["test"] == test]


def write_row(*values: str) -> str:
    out = io.StringIO()
    csv.writer(out, lineterminator="").writerow(values)
    return out.getvalue()


# --- the list ---


def test_every_block_is_in_the_list() -> None:
    """One row for each block, in the order of the book; no row for a block that is gone."""
    rows = [(row["chapter"], row["command"]) for row in read_list()]
    assert [row for row, count in Counter(rows).items() if count > 1] == []
    blocks = {(block.chapter, block.name): block for block in list_commands()}
    told = [
        f"{block.place}: add to {LIST.name}: {write_row(*key, 'parsed', '')}"
        for key, block in blocks.items()
        if key not in set(rows)
    ]
    told += [f"remove from {LIST.name}: {write_row(*row)}" for row in rows if row not in blocks]
    assert not told, "\n".join(("the book and the list differ", *told))
    assert rows == list(blocks), f"the rows of {LIST.name} are not in the order of the book"


def test_every_row_says_what_is_done() -> None:
    """The columns, the classes, and for `run` a test that is there."""
    sources = [path.read_text() for path in HERE.glob("test_book_*.py")]
    tests = {name for source in sources for name in re.findall(r"^def (test_\w+)", source, re.M)}
    for row in read_list():
        assert list(row) == COLUMNS
        assert row["class"] in CLASSES, row
        assert (row["test"] in tests) if row["class"] == "run" else row["test"] == "", row


def test_nothing_that_changes_the_machine_is_run() -> None:
    blocks = {(block.chapter, block.name): block for block in list_commands()}
    for row in read_list():
        if row["class"] == "run":
            assert NEVER.search(blocks[row["chapter"], row["command"]].code) is None, row


# --- parsed ---


def test_bash_reads_every_block() -> None:
    """One bash for all of them; what a reader fills in, such as <name>, counts as a word."""
    broken = []
    for block in find_blocks("bash").values():
        code = re.sub(r"^> ", "", block.code, flags=re.M)
        code = re.sub(r"<([A-Za-z_][\w -]*)>", r"\1", code)
        done = subprocess.run(
            ["bash", "-n"], input=code, capture_output=True, text=True, check=False
        )
        if done.stderr:
            broken.append(f"{block.place}: {done.stderr.strip()}")
        assert read_shell(block.code) is not None
    assert not broken, "\n".join(broken)


def test_data_blocks_can_be_read() -> None:
    """YAML, JSON and TOML by their parsers."""
    readers: dict[str, Callable[[str], object]] = {
        "yaml": lambda text: list(YAML(typ="safe").load_all(text)),
        "json": json.loads,
        "toml": tomllib.loads,
    }
    for block in list_commands():
        if reader := readers.get(block.language):
            assert reader(block.code), block.place


# --- run ---


def give_shared_reports(folder: Path) -> None:
    """What `nvidia-smi -q` printed on one node, under the name of the node."""
    (folder / "shared").mkdir()
    report = HERE / "fixtures/gpu_health/nvidia_q.txt"
    shutil.copy(report, folder / "shared/node01.txt")


def give_amd_reports(folder: Path) -> None:
    (folder / "shared").mkdir()
    shutil.copy(HERE / "fixtures/gpu_health/amd_smi.txt", folder / "shared/node01.txt")


def give_train_log(folder: Path) -> None:
    lines = (f"[rank{rank}]: [Rank {rank}] Watchdog caught collective" for rank in range(512))
    (folder / "train.log").write_text(
        "\n".join(line for rank, line in enumerate(lines) if rank not in (17, 300)) + "\n"
    )


def give_nccl_logs(folder: Path) -> None:
    for rank in range(3):
        head = f"node01:{100 + rank}:{200 + rank} [{rank}] NCCL INFO"
        lines = [f"{head} Channel 00/0 : 0[0] -> 1[1] via NET/IB/{rank}(1)/GDRDMA"]
        lines += [f"{head} comm 0x55 Init COMPLETE"] if rank < 2 else []
        lines += [f"node01:1:2 [{rank}] NCCL WARN NET/IB : Got completion"] if rank == 2 else []
        (folder / f"nccl.node01.{100 + rank}.log").write_text("\n".join(lines) + "\n")


def give_train_log_of_nccl(folder: Path) -> None:
    step = "iteration {}\n" + "n:1:2 [0] NCCL INFO AllGather: opCount 1 count 512 datatype 7\n" * 3
    (folder / "train.log").write_text("start\n" + "".join(step.format(i) for i in range(4)))


def give_traces(folder: Path) -> None:
    (folder / "traces").mkdir()
    for rank in (0, 7):
        lines = [f"12:00:0{i} 0.1 1 train.py:{i} backward" for i in range(3 + rank)]
        (folder / f"traces/trace.node01.{rank}.0").write_text("\n".join(lines) + "\n")


def give_images(folder: Path) -> None:
    (folder / "images").mkdir()
    for number in range(5):
        for ending in ("jpg", "cls"):
            (folder / f"images/{number}.{ending}").write_text(str(number))


def give_shared_files(folder: Path) -> None:
    (folder / "mnt/shared/you/checkpoints/global_step10").mkdir(parents=True)
    (folder / "mnt/shared/you/model.pt").write_bytes(bytes(1000))


def give_program(name: str, chapter: str, begin: str) -> Callable[[Path], None]:
    """Writes a program that the chapter prints, under the name that the command uses."""

    def give(folder: Path) -> None:
        (block,) = (
            b
            for b in (*find_blocks("python").values(), *find_blocks("bash").values())
            if b.chapter == chapter and b.name.startswith(begin)
        )
        (folder / name).write_text(block.code)

    return give


def give_namespaces(folder: Path) -> None:
    need("unshare", "ip", "nsenter")
    give_program("namespaces.sh", "training/emulate-multi-node", "set -eu")(folder)
    give_hello(folder)


def give_weights(folder: Path) -> None:
    """A model in float32, in the files that transformers writes."""
    need("python:safetensors")
    import torch
    from safetensors.torch import save_file

    (folder / "model-fp32").mkdir()
    save_file({"weight": torch.ones(64, 64)}, folder / "model-fp32/model.safetensors")
    (folder / "model-fp32/config.json").write_text('{"dtype": "float32"}')


def give_views(folder: Path) -> None:
    """A checkpoint that keeps a whole tensor for a slice of it."""
    import torch

    (folder / "checkpoints").mkdir()
    torch.save({"w": torch.ones(1000)[:10]}, folder / "checkpoints/mp_rank_00_model_states.pt")


def give_distributed_checkpoint(folder: Path) -> None:
    import warnings

    import torch
    import torch.distributed.checkpoint as dcp

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        dcp.save({"w": torch.ones(4)}, checkpoint_id=folder / "step-100", no_dist=True)


def give_config(folder: Path) -> None:
    need("python:transformers")
    from transformers import LlamaConfig

    sizes = {"hidden_size": 64, "intermediate_size": 128, "vocab_size": 100}
    config = LlamaConfig(num_attention_heads=4, num_hidden_layers=1, **sizes)
    config.save_pretrained(folder)


def give_training(folder: Path) -> None:
    (folder / "train.py").write_text("import time\ntime.sleep(0.5)\n")


def give_records(folder: Path) -> None:
    need("python:datasets")
    from datasets import Dataset

    texts = [f"record {number}" for number in range(100)]
    Dataset.from_dict({"text": texts}).to_parquet(str(folder / "train.parquet"))


def give_corpus(folder: Path) -> None:
    words = "the quick brown fox jumps over a lazy dog while training models of all sizes".split()
    lines = (" ".join(words[i % 7 :] + words[: i % 5]) + f" {i * 7919}" for i in range(3000))
    (folder / "my_text.txt").write_text("\n".join(lines))


give_hello = give_program(
    "hello.py", "training/emulate-multi-node", 'dist.init_process_group("gloo'
)
give_hang = give_program("hang.py", "debug/hangs", 'dist.init_process_group("gloo')
give_hsdp = give_program("hsdp.py", "training/model-parallelism", "device = ")

GIVEN: dict[tuple[str, str], Callable[[Path], None]] = {
    ("compute/debug-amd", "python scripts/compute/gpu_health.py"): give_amd_reports,
    ("compute/debug-nvidia", "python scripts/compute/gpu_health.py"): give_shared_reports,
    ("debug", "tail -qn 1 traces/*"): give_traces,
    ("debug/hangs", "WORLD=512"): give_train_log,
    ("network/benchmarks", "grep -hoE 'via NET"): give_nccl_logs,
    ("network/debug", "grep -l 'NCCL WARN'"): give_nccl_logs,
    ("network/debug", "csplit"): give_train_log_of_nccl,
    ("storage", "for d in "): give_shared_files,
    ("storage", "find /mnt/shared -xdev"): give_shared_files,
    ("storage", "find /mnt/shared/you/checkpoints"): give_shared_files,
    ("storage", "df -h /mnt/shared"): give_shared_files,
    ("training/datasets", "mkdir -p shards"): give_images,
    ("debug", "python scripts/debug/mem_watch.py"): give_training,
    ("debug/hangs", "export OMP_NUM_THREADS=1"): give_hang,
    (
        "debug/tiny",
        "python scripts/debug/tiny/make_tiny_model.py --models llama gpt2",
    ): give_records,
    ("debug/tiny", "python scripts/debug/tiny/make_tiny_model.py --models gpt2 --hid"): give_corpus,
    ("training/benchmarks", "python scripts/training/activation_memory.py"): give_config,
    ("training/checkpoints", "python -m torch.distributed"): give_distributed_checkpoint,
    ("training/checkpoints", "python scripts/training/checkpoint_shrink"): give_views,
    ("training/checkpoints", "python scripts/training/checkpoint_to_bf16"): give_weights,
    ("training/emulate-multi-node", "first=$((2 * node))"): give_hello,
    ("training/emulate-multi-node", "unshare"): give_namespaces,
    ("training/model-parallelism", "torchrun"): give_hsdp,
}
"""Chapter and beginning of a block -> what writes the files that it reads."""

SHOWS = {
    ("network/debug", "python scripts/debug/torch_distributed_check.py"): "never arrived",
    ("debug/hangs", "WORLD=512"): "17\n300\n",
    ("network/benchmarks", "grep -hoE 'via NET"): "/GDRDMA",
    ("network/debug", "csplit"): "3  count 512",
    ("network/debug", "grep -l 'NCCL WARN'"): "nccl.node01.102.log",
    ("storage", "find /mnt/shared -xdev"): "1 files",
    (
        "training/emulate-multi-node",
        "first=$((2 * node))",
    ): "node 1, local 1 of 2, sees GPUs 2,3, sum 6",
    ("training/emulate-multi-node", "unshare"): "node1 rank 3 of 4, node 1, local 1 of 2",
    ("training/number-formats", "python scripts"): "448",
}
"""What the chapter promises, where it is one text: a part of the output."""

STATUS = {
    # A finding: GPUs that are not there, traces that differ, a slow node, a hang.
    ("compute/debug-amd", "python scripts/compute/gpu_health.py"): 1,
    ("compute/debug-nvidia", "python scripts/compute/gpu_health.py"): 1,
    ("debug", "tail -qn 1 traces/*"): 1,
    ("debug/hangs", "export OMP_NUM_THREADS=1"): 1,
    ("network/benchmarks", "python scripts/network/node_pairs.py --simulate"): 1,
    ("network/debug", "python scripts/debug/torch_distributed_check.py"): 1,
    # A process may end between two of its commands.
    ("compute/cpu-memory", "for pid in"): 2,
}
"""Exit status where it may be another than 0."""

QUICK = "test_commands_run"
SLOW = "test_slow_commands_run"


def look_up(table: dict[tuple[str, str], object], key: tuple[str, str]) -> object | None:
    chapter, command = key
    found = [v for (c, begin), v in table.items() if c == chapter and command.startswith(begin)]
    assert len(found) < 2, key
    return found[0] if found else None


def run_block(key: tuple[str, str], folder: Path, timeout: float = 60, **environ: str) -> str:
    """Run a block as it is printed, in a folder that has scripts/ and what the block reads. Only
    absolute folders of a cluster are replaced by folders in there."""
    give = look_up(GIVEN, key)
    if give is not None:
        give(folder)  # type: ignore[operator]
    (folder / "scripts").symlink_to(SCRIPTS)
    code = {(b.chapter, b.name): b.code for b in list_commands()}[key]
    code = re.sub(r"(?<![\w/])/(?=(?:mnt/)?shared/)", f"{folder}/", code)
    code = re.sub(r"/mnt/shared(?![\w/])", f"{folder}/mnt/shared", code)
    expected = look_up(STATUS, key)
    if re.search(r"\bless\b", code):
        need("less")
    programs = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-o", "pipefail", *([] if expected else ["-e"]), "-c", code],
        cwd=folder,
        env={
            **os.environ,
            "PATH": programs,
            "PYTHONDONTWRITEBYTECODE": "1",
            "OMP_NUM_THREADS": "1",
            "HF_HUB_OFFLINE": "1",
            **environ,
        },
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )
    assert done.returncode in (0, expected), done.stdout + done.stderr
    assert str(look_up(SHOWS, key) or "") in done.stdout
    return done.stdout


@pytest.mark.parametrize("key", pick(QUICK), ids=lambda key: f"{key[0]}: {key[1]}")
def test_commands_run(key: tuple[str, str], tmp_path: Path) -> None:
    """Calculators, simulations, and what reads texts: the exit status, and the promised output."""
    run_block(key, tmp_path)


@pytest.mark.nightly
@pytest.mark.torch
@pytest.mark.parametrize("key", pick(SLOW), ids=lambda key: f"{key[0]}: {key[1]}")
def test_slow_commands_run(key: tuple[str, str], tmp_path: Path) -> None:
    """The same, for those that import torch or take longer."""
    run_block(key, tmp_path, timeout=600)
