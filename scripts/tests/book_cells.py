# ruff: noqa: E402, E731, F811, F821, SIM115
"""Set up what a block of the book needs, run it, and check the result.

Each cell starts with a line `# %%` with its chapter and what it needs: `nightly`, or a thing of
needs.py. test_book_blocks.py runs each cell in its own process and an empty folder, after the code
above the first cell. A block is named by how it begins, see chapter_blocks.py:

    snippet("...")   runs a Python block; the other arguments are imports that the chapter takes
                     for granted
    text("...")      returns the code of a Python block, block("...") that of a bash block
    shell("...")     runs a bash block and returns its output
"""

import contextlib
import json
import logging
import math
import os
import re
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from chapter_blocks import ROOT, run_bash

os.chdir(Path(__file__).parent)
for number, name in enumerate(("stdout", "stderr"), 1):
    os.dup2(os.open(name, os.O_CREAT | os.O_WRONLY), number)
OUTPUT = Path("stdout").open()
for folder in ("shared/you", "local", "dev/shm", "data", "tmp"):
    Path(folder).mkdir(parents=True)
TOOLS = [str(ROOT / "scripts" / topic) for topic in ("debug", "training", "testing")]
sys.path[:0] = [str(Path.cwd()), *TOOLS]
os.environ["PYTHONPATH"] = os.pathsep.join(TOOLS)


def show(output):
    """Return the output, and print it where a failing cell shows it."""
    sys.stderr.write(output)
    return output


def printed():
    """Return what was printed since the last call."""
    sys.stdout.flush()
    return show(OUTPUT.read())


def snippet(begin, *_imports):
    exec(compile(BLOCKS[begin], begin, "exec"), globals())


def shell(begin, status=0):
    return show(run_bash(BLOCKS[begin], Path.cwd(), status))


text = block = BLOCKS.get


def start(*command, stdin=""):
    """Run a Python program, which must succeed, and return what it printed."""
    done = subprocess.run(
        [sys.executable, *command], input=stdin, stdout=subprocess.PIPE, text=True, timeout=120
    )
    assert done.returncode == 0
    return show(done.stdout)


def torchrun(ranks, *command, stdin=""):
    launcher = ("-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={ranks}")
    return start(*launcher, *command, stdin=stdin)


def init_one_rank():
    """Make a gloo process group of this process alone."""
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)


# %% compute/cpu
loader = torch.utils.data.DataLoader(range(400), batch_size=4)
snippet("batches = iter(loader)")
assert re.fullmatch(r"0\.\d{3} s per batch over 50 batches\n", printed())

# %% compute/cpu-memory
weights = {"weight": torch.arange(1000.0)}
torch.save(weights, "model.pt")
snippet("state = torch.load(", "torch")
assert torch.equal(state["weight"], weights["weight"])
assert "model.pt" in Path("/proc/self/maps").read_text()

# %% compute/cpu-memory nightly
# A list of strings is copied nearly whole, one buffer not at all.
Path("cow.py").write_text(text('"""How much memory'))
grown = {}
for kind in ("list", "buffer"):
    parent, before, after = map(int, re.findall(r"(\d+) MiB", start("cow.py", kind)))
    grown[kind] = (after - before) / parent
assert grown["list"] > 0.7
assert grown["buffer"] < 0.05

# %% compute/cpu-memory pgrep
# A process may end between two commands of the block.
assert re.search(rf"^{os.getpid()} .*: Pss \d", shell("for pid in $(pgrep", status=2), re.M)

# %% debug
snippet("@record")
assert main() is None

# %% debug
rank = 3
snippet('print(f"{rank}: passed')
assert printed() == "3: passed stage 0\n"
assert print.__module__ == "printflock"

# %% debug nightly
# Rank 3 answers to commands; the others wait for it and go on.
before = "import torch, torch.distributed as dist\ndist.init_process_group('gloo')\n"
loss = "loss = torch.tensor(float('nan'))\n"
after = "\nprint(f'goes on {dist.get_rank()}\\n', end='')\ndist.destroy_process_group()"
Path("train.py").write_text(before + loss + text("if loss.isnan():") + after)
shown = torchrun(4, "train.py", stdin="up\np 'loss:', loss\nc\n")
assert "('loss:', tensor(nan))" in shown
assert sorted(re.findall(r"goes on (\d)", shown)) == list("0123")

# %% debug
debugger = text("class TerminalPdb")
Path("train.py").write_text(f"answer = 6 * 7\n{debugger}\nprint('goes on')\n")
shown = start("train.py", stdin="p f'{answer=}'\nc\n")
assert "answer=42" in shown
assert "goes on" in shown

# %% debug
Path("mypkg.py").write_text("def step():\n    return 1 + 1\n")
from mypkg import step

snippet("with Tracer(")
(trace,) = Path("local/traces").iterdir()
assert "return 1 + 1" in trace.read_text()

# %% debug/hangs nightly
# One rank loads, the others wait for it: the watchdog finds a hang, in which none comes to step 4.
Path("hang.py").write_text(text('dist.init_process_group("gloo")'))
shown = shell("export OMP_NUM_THREADS=1", status=1)
assert (shown.count("step 3"), shown.count("step 4")) == (4, 0)
(report,) = Path("hang_dumps").glob("*/report.txt")
if Path(sys.executable).with_name("py-spy").exists():
    summary = "rank 2 in load_shard at hang.py:8; ranks 0-1,3 in all_reduce at hang.py:15\n"
    assert report.read_text().startswith(summary)
    assert summary in (ROOT / "book/debug/hangs/README.md").read_text()

# %% debug/hangs
lines = (f"[rank{rank}]: [Rank {rank}] Watchdog caught collective" for rank in range(512))
late = [line for rank, line in enumerate(lines) if rank not in (17, 300)]
Path("train.log").write_text("\n".join(late) + "\n")
assert shell("WORLD=512") == "17\n300\n"

# %% debug/hangs
snippet("stacks = open(")
os.kill(os.getpid(), signal.SIGUSR1)
assert "Current thread" in Path(f"tmp/stacks.{os.getpid()}").read_text()

# %% debug/hangs
os.environ["TORCH_FR_BUFFER_SIZE"] = "2000"
init_one_rank()
dist.all_reduce(torch.ones(4))
rank, dumps = 0, Path("shared/fr/4711")
dumps.mkdir(parents=True)
snippet('keep_ready("/shared/fr/4711", rank)')
(dumps / "dump_now").touch()
for _ in range(100):
    time.sleep(0.1)
    if (dumps / "rank_0").exists():
        break
shown = start(ROOT / "scripts/debug/collective_mismatch.py", "read", dumps)
assert "all ranks call all_reduce [4] Float" in shown

# %% debug/overflow
model = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Linear(2, 2))
snippet("debug = DebugUnderflowOverflow(model)")
model(torch.ones(1, 2))
model[1].bias.data.fill_(math.inf)
with pytest.raises(Exception, match=r"1|Linear") as caught:
    model(torch.ones(1, 2))
assert caught.type.__name__ == "NonFiniteDetected"

# %% debug/overflow python:safetensors
from safetensors.torch import save_file

for value, told in ((1.0, "all finite"), (math.nan, "['b']")):
    save_file({"a": torch.ones(2), "b": torch.tensor([1.0, value])}, "model.safetensors")
    snippet("with safe_open(")
    assert printed() == f"{told}\n"

# %% debug/overflow
layer = SimpleNamespace(act=torch.exp, wi_0=lambda x: x, wi_1=lambda x: x, wo=lambda x: x * 0)
snippet("hidden = self.act(")
with contextlib.redirect_stderr(sys.stdout):
    forward(layer, torch.tensor([1.0, 200.0]))
assert printed() == "after the gate has inf\nafter wo has nan\n"

# %% debug/overflow
linear, seen = torch.nn.Linear(2, 2), []
layer = SimpleNamespace(_forward=lambda x: seen.append(linear(x).dtype) or x)
snippet("with torch.autocast(device_type", "torch")
with torch.autocast("cpu", dtype=torch.bfloat16):
    back = forward(layer, torch.ones(1, 2, dtype=torch.bfloat16))
assert (seen, back.dtype) == ([torch.float32], torch.bfloat16)

# %% debug/overflow
model = torch.nn.Linear(2, 1, bias=False)
model(torch.tensor([[0.0, 1.0]])).backward()
snippet("gradients = [p.grad")
assert printed() == "50.0% of the gradients are zero\n"

# %% debug/overflow
# Of two steps the first overflows: it is skipped, and the scale halved.
model = torch.nn.Linear(2, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
loader = [torch.full((1, 2), math.inf), torch.ones(1, 2)]
first = model.weight.detach().clone()
snippet("scaler = torch.amp.GradScaler(", "torch")
assert scaler.get_scale() == 2.0**15
assert model.weight.isfinite().all()
assert not torch.equal(model.weight, first)

# %% debug/overflow
model = torch.nn.Linear(1, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
step = textwrap.indent(text("norm = torch.nn.utils.clip_grad_norm_"), "    ")
stepped = []
backward = "for x in (1.0, math.inf):\n    model(torch.tensor([x])).backward()\n"
exec(f"{backward}{step}\n    stepped.append(x)")
assert stepped == [1.0]
assert model.weight.grad is None

# %% debug/tiny python:transformers
snippet("config = AutoConfig.from_pretrained(")
assert printed().endswith(f"\n{model.num_parameters():,}\n")
back = AutoModelForCausalLM.from_pretrained("tiny")
assert back.config.num_hidden_layers == 2
assert back.num_parameters() < 250_000

# %% debug/tiny python:transformers
snippet("old = AutoTokenizer.from_pretrained(")
back = AutoTokenizer.from_pretrained("tiny")
assert len(back) <= 1000
assert back.decode(back("A few lines")["input_ids"], skip_special_tokens=True) == "A few lines"

# %% inference/benchmarks
import urllib.request


def answer(request):
    """An inference engine that streams four chunks."""
    assert json.loads(request.data)["stream"]
    assert request.headers == {"Content-type": "application/json"}
    for _ in range(4):
        time.sleep(0.02)
        yield b'data: {"choices": [{"text": " word"}]}\n'
        yield b"\n"


urllib.request.urlopen = answer
snippet('prompt = " ".join(')
assert len(times) == 4
assert re.fullmatch(r"TTFT 0\.\d{3} s, then \d+\.\d ms per chunk\n", printed())

# %% network/benchmarks
line = "node01:{0}:2 [{0}] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via NET/IB/{0}(1)/GDRDMA\n"
for rank in range(3):
    Path(f"nccl.node01.{rank}.log").write_text(line.format(rank))
assert "1 via NET/IB/2/GDRDMA\n" in shell("grep -hoE 'via NET")

# %% network/comms nightly
Path("collectives.py").write_text(text('dist.init_process_group("gloo")'))
shown = torchrun(4, "collectives.py")
assert shown == "all-reduce [60.0, 64.0, 68.0, 72.0] piece of rank 0 [60.0]\n"

# %% network/debug less
for rank, line in enumerate(("INFO comm Init COMPLETE", "WARN NET/IB : Got completion")):
    Path(f"nccl.node01.{rank}.log").write_text(f"node01:1:2 [{rank}] NCCL {line}\n")
assert shell("grep -l 'NCCL WARN'").startswith("nccl.node01.1.log\n")

# %% network/debug
step = "iteration {}\n" + "n:1:2 [0] NCCL INFO AllGather: opCount 1 count 512 datatype 7\n" * 3
Path("train.log").write_text("start\n" + "".join(step.format(i) for i in range(4)))
assert "3  count 512" in shell("csplit")

# %% orchestration/slurm
init_one_rank()
os.environ["SLURM_JOB_ID"] = "87"
Path("switches").mkdir()
Path("switches/leave-86").touch()
device, loader, done = "cpu", range(9), []


def train_step(batch):
    done.append(batch)
    if batch == 2:
        Path("switches/leave-87").touch()


save_checkpoint = lambda: done.append("saved")
snippet('leave = Path("switches"')
assert done == [0, 1, 2, "saved"]

# %% storage
Path("mnt/shared/you/checkpoints/global_step10").mkdir(parents=True)
Path("mnt/shared/you/model.pt").write_bytes(bytes(1000))
shell("for d in /mnt/shared")
assert "1 files" in shell("find /mnt/shared -xdev")
assert shell("find /mnt/shared/you/checkpoints") == ""
shell("df -h /mnt/shared")

# %% testing nightly
Path("tests").mkdir()
Path("tests/reduce_worker.py").write_text(text('dist.init_process_group("gloo")'))
Path("tests/test_reduce.py").write_text(text("TORCHRUN = "))
Path("conftest.py").write_text('pytest_plugins = ["testing_utils"]\n')
assert "2 passed" in start("-m", "pytest", "-q", "tests")

# %% testing
snippet('dist.init_process_group("fake"')

# %% testing
snippet("@require_torch_multi_gpu")
is_skipped = getattr(test_two_gpus_share, "__unittest_skip__", False)
assert is_skipped == (torch.cuda.device_count() < 2)

# %% testing
train_one_step = lambda: print("loss 2", file=sys.stderr)
save_checkpoint = lambda: logging.getLogger("mypkg").info("saved step-1")
snippet("with CaptureStd() as streams:", "logging")
train_one_step = lambda: print("overflow", file=sys.stderr)
with pytest.raises(AssertionError):
    snippet("with CaptureStd() as streams:")

# %% testing
Path("test_names.py").write_text("import pytest\n" + text('@pytest.mark.parametrize("dtype"'))
shown = start("-m", "pytest", "--collect-only", "-q", "test_names.py")
assert shown.count("test_sharding[") == 4
assert "test_sharding[full-float32]" in shown

# %% training/benchmarks
snippet("if torch.cuda.is_available():")

# %% training/checkpoints
init_one_rank()
state = {"weight": torch.ones(100)}
snippet("gpu = torch.cuda.is_available()")
for step in (1, 2):
    save_async(state, f"step-{step}")
    state["weight"].add_(1)
saving.result()
for step in (1, 2):
    back = {"weight": torch.zeros(100)}
    dcp.load(back, checkpoint_id=f"step-{step}")
    assert (back["weight"] == step).all()
snippet("for path in (")
assert len(re.findall(r"/save-test \d+\.\d s\n", printed())) == 2

# %% training/checkpoints
# Only a whole checkpoint has the name; what had it before is kept.
init_one_rank()
snippet("def save_whole(")
for step in (9, 100, 100):
    save_whole({"step": torch.tensor(step)}, Path(), step)
assert len([*Path().glob("step-*")]) == 2
assert len([*Path().glob(".step-00000100.bad-*")]) == 1
Path("step-00000200").symlink_to("nowhere")
with pytest.raises(RuntimeError, match=r"step 200 was not saved: .*Not a directory"):
    save_whole({"step": torch.tensor(200)}, Path(), 200)

# %% training/checkpoints
init_one_rank()
snippet("def load_newest(")
state = {"step": torch.tensor(0)}
assert load_newest(state, Path()) is None
folders = [Path(f"step-{step:08}") for step in (9, 100, 200)]
for folder, step in zip(folders, (9, 100, 200), strict=True):
    dcp.save({"step": torch.tensor(step)}, checkpoint_id=folder)
(folders[2] / ".metadata").unlink()  # a save that was cut short
assert load_newest(state, Path()) == folders[1]
assert state["step"] == 100
shard = folders[1] / "__0_0.distcp"
shard.write_bytes(shard.read_bytes()[:100])
assert load_newest(state, Path()) == folders[0]
assert state["step"] == 9
assert f"skipped {folders[1]}" in printed()
(folders[0] / "__0_0.distcp").unlink()
with pytest.raises(RuntimeError, match="can be read"):
    load_newest(state, Path())

# %% training/checkpoints
import argparse

torch.save({"args": argparse.Namespace(lr=1)}, "model.pt")
snippet("print(torch.serialization.get_unsafe_globals")
assert printed() == "['argparse.Namespace']\n"

# %% training/checkpoints python:safetensors
from safetensors.torch import save_file

save_file({"a": torch.ones(4)}, "model.safetensors", metadata={"format": "pt"})
whole = Path("model.safetensors").read_bytes()
for size, told in ((len(whole), "complete"), (len(whole) - 3, f"{len(whole) - 3} bytes instead")):
    Path("model.safetensors").write_bytes(whole[:size])
    sys.argv = ["header.py", "model.safetensors"]
    snippet('with open(sys.argv[1], "rb") as file:')
    assert re.match(rf"a \{{'dtype': 'F32', 'shape': \[4\].*\n{told}", printed())

# %% training/checkpoints python:transformers
snippet("def is_tied(model):")
from transformers import AutoConfig, AutoModelForCausalLM

for tied in (True, False):
    config = AutoConfig.from_pretrained("your/model", tie_word_embeddings=tied)
    assert is_tied(AutoModelForCausalLM.from_config(config)) == tied

# %% training/checkpoints nightly
# Two ranks save and three load. Their lines may interleave.
Path("reshard.py").write_text(text('dist.init_process_group("gloo")'))
torchrun(2, "reshard.py", "save")
shown = torchrun(3, "reshard.py", "load")
assert shown.count("(4, 8)") == 3
(total,) = set(re.findall(r"tensor\(([\d.]+)\)", shown))
assert float(total) > 0
shell("python -m torch.distributed.checkpoint.format_utils")

# %% training/checkpoints
torch.save(torch.nn.Linear(4, 4).state_dict(), "model.pt")
make_model = lambda: torch.nn.Linear(4, 4)
snippet('with torch.device("meta"):')
assert model.weight.device.type == "cpu"
assert model.weight.data_ptr() == state["weight"].data_ptr()

# %% training/datasets
init_one_rank()
seen = []
load_and_prepare = lambda path: seen.append(path) or "data"
snippet('with main_process_first("global")')
assert (dataset, seen) == ("data", [str(Path("data/set").resolve())])

# %% training/datasets openssl python:datasets
# Packed by the command of the chapter, streamed by its snippet.
Path("images").mkdir()
for number in range(5):
    for ending in ("txt", "cls"):
        Path(f"images/{number}.{ending}").write_text(str(number))
shell("mkdir -p shards")
snippet("rank, world_size = 0, 1")
assert printed() == "1 shards\n"
assert sorted(record["txt"] for record in images) == list("01234")

# %% training/datasets python:datasets
snippet("def open_stream(")
from datasets import Dataset

for shard in range(3):
    Dataset.from_dict({"n": [2 * shard, 2 * shard + 1]}).to_parquet(f"train-{shard}.parquet")
seen = [[r["n"] for r in open_stream(rank, 2, "train-*.parquet")] for rank in (0, 1)]
assert sorted(seen[0] + seen[1]) == list(range(6))
assert sorted(map(len, seen)) == [2, 4]
assert "3 shards on 2 ranks: ranks get unequal numbers\n" in printed()

# %% training/emulate-multi-node nightly
Path("hello.py").write_text(text('dist.init_process_group("gloo"'))
shown = shell("first=$((2 * node))")
assert "rank 3 of 4, node 1, local 1 of 2, sees GPUs 2,3, sum 6" in shown

# %% training/emulate-multi-node nightly unshare ip nsenter
Path("hello.py").write_text(text('dist.init_process_group("gloo"'))
Path("namespaces.sh").write_text(block("set -eu"))
assert "node1 rank 3 of 4, node 1, local 1 of 2" in shell("unshare")

# %% training/emulate-multi-node
snippet('dist.init_process_group("fake"')
assert "65552 of 67125248" in printed()

# %% training/fault-tolerance
init_one_rank()
os.environ.pop("SLURM_JOB_ID", None)
Path("switches").mkdir()
snippet("SWITCHES = ")
assert agree("cpu") == GO_ON
(SWITCHES / "save").touch()
assert [agree("cpu"), agree("cpu")] == [SAVE, GO_ON]
(SWITCHES / "leave-here").touch()
assert agree("cpu") == STOP
(SWITCHES / "leave-here").unlink()
DEADLINE = time.time() + 500
assert agree("cpu") == STOP
DEADLINE = math.inf
os.kill(os.getpid(), signal.SIGUSR1)
assert agree("cpu") == STOP
assert os.getpgrp() != os.getpid()
own_group(0)
assert os.getpgrp() == os.getpid()

# %% training/fault-tolerance
snippet("def memory_left():")
(total,) = re.findall(r"MemTotal: +(\d+) kB", Path("/proc/meminfo").read_text())
assert 0 < memory_left() < int(total) * 1024

# %% training/hyperparameters
# Muon gets the hidden matrices, and its updates have the size of AdamW's.
snippet("model = torch.nn.ModuleDict(")
assert matrices == [model["hidden"].weight]
assert len(others) == 3
for parameter in model.parameters():
    parameter.grad = parameter.detach().clone()
before = model["hidden"].weight.detach().clone()
for optimizer in optimizers:
    optimizer.step()
change = model["hidden"].weight.detach() - before * (1 - 3e-4 * 0.1)
assert float(change.square().mean().sqrt()) == pytest.approx(0.2 * 3e-4, rel=0.3)

# %% training/hyperparameters
snippet("@torch.no_grad()")
torch.manual_seed(0)
heads, size, hidden = 4, 8, 32
query, key = torch.randn(2, heads * size, hidden)
x = 3 * torch.randn(16, hidden)


def find_largest():
    q, k = ((x @ w.T).view(16, heads, size) for w in (query, key))
    return (torch.einsum("ihd,jhd->hij", q, k) / size**0.5).abs().flatten(1).amax(1)


largest = find_largest()
assert (largest > 100).any()
qk_clip(query, key, largest)
torch.testing.assert_close(find_largest(), largest.clamp(max=100.0))

# %% training/instabilities
start, total, seen = 41_098, 41_402, []
batches, train = iter(range(start, total)), seen.append
snippet("skip = range(")
assert seen == [41_098, 41_099, 41_400, 41_401]

# %% training/instabilities
snippet("def step_or_skip(")
model = torch.nn.Linear(1, 1, bias=False)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for gradient, moves in ((2.0, True), (3.1, False), (math.nan, False)):
    before = model.weight.detach().clone()
    model.weight.grad = torch.full((1, 1), gradient)
    norm = step_or_skip(model, optimizer, usual=1.0)
    assert norm == pytest.approx(gradient, nan_ok=True)
    assert model.weight.grad is None
    assert torch.equal(before, model.weight) != moves

# %% training/memory
# What is kept and what is computed again give the same gradients.
snippet("aten = torch.ops.aten")
first = layer[0].weight.grad.clone()
layer.zero_grad()
layer(x).sum().backward()
torch.testing.assert_close(first, layer[0].weight.grad)

# %% training/memory
snippet("def log_memory(")  # what its functions call needs a GPU

# %% training/memory
# Parameters take 2.75 GiB and Adam's states twice that.
snippet("with FakeTensorMode():")
shown = printed()
assert "2.75 GiB" in shown
assert "5.5 GiB" in shown

# %% training/model-parallelism nightly
Path("hsdp.py").write_text(text('device = "cuda" if'))
# On a CPU, a thread of gloo aborts a rank at its very end in one of ten runs (torch 2.13).
assert re.fullmatch(r"(0 \d+\.\d{3}\n1 \d+\.\d{3}\n){2}", shell("torchrun", 1))

# %% training/number-formats
snippet("weights = torch.tensor([208.0])")
assert printed() == "104.0\n"

# %% training/number-formats
model = torch.nn.Linear(2, 1, bias=False)
model.weight.grad = torch.tensor([[1e-8, 1.0]])
snippet("gradients = [p.grad", "torch")
lines = printed().splitlines()
assert [line.split()[0] for line in lines] == ["0", "4", "8", "12", "16", "20", "24"]
assert lines[0] == "0 Lost(values=2, zero=1, subnormal=0, too_large=0)"
assert lines[-1] == "24 Lost(values=2, zero=0, subnormal=0, too_large=1)"

# %% training/number-formats
# The closest bfloat16 loses every small update, rounding by chance keeps them on average.
snippet("def round_stochastically(")
assert printed().startswith("tensor(1.)\n")
assert float(stochastic.float().mean()) == pytest.approx(2, abs=0.02)

# %% training/number-formats
snippet("total = torch.tensor(0.0")
assert printed() == "256.0\n8192.0\n"

# %% training/number-formats
snippet("torch.backends.cuda.matmul.fp32_precision")
assert torch.backends.cuda.matmul.fp32_precision == "tf32"
assert torch.backends.fp32_precision == "ieee"

# %% training/number-formats
snippet("E2M1 = ")
assert quantize(numbers, 8)[:4].tolist() == [0.0] * 4
assert (quantize(numbers, 4)[:4] != 0).all()
assert quantize(torch.tensor([6.1, 5.0]), 2, up=False).tolist()[0] == 6.0

# %% training/performance
snippet('with torch.device("meta"):')
assert printed() == "1.924e+12\n5.772e+12\n6.735e+12\n"

# %% training/performance
snippet("rank, batches, train_step = 0")
assert Path("trace_0.json.gz").exists()
assert re.search(r"ProfilerStep\* .* 3 ", printed())

# %% training/performance
import gc

snippet("train_step, batches = (")
assert not gc.isenabled()
assert gc.get_freeze_count() > 0

# %% training/re-train-hub-models python:transformers
snippet("name, folder = ")
back = AutoModelForCausalLM.from_pretrained("opt-1.3b-fresh")
for one, other in zip(model.parameters(), back.parameters(), strict=True):
    assert torch.equal(one, other)

# %% training/re-train-hub-models python:transformers
snippet('name = "your/model"')
back = AutoModelForCausalLM.from_pretrained("every-second-layer")
assert kept == [0, 2, 4]
last = large.model.layers[4].mlp.up_proj.weight
assert torch.equal(back.model.layers[2].mlp.up_proj.weight, last)

# %% training/re-train-hub-models python:datasets
snippet("domain = Dataset.from_dict(")
texts = [record["text"] for record in mixed]
assert texts.count("domain") / len(texts) == pytest.approx(0.8, abs=0.05)

# %% training/re-train-hub-models python:transformers
from transformers import AutoModelForCausalLM, AutoTokenizer

model = AutoModelForCausalLM.from_pretrained("your/model")
tokenizer = AutoTokenizer.from_pretrained("your/model")
snippet("model.requires_grad_(False)", "torch")
assert len(trained) == 4 * 9
snippet("print({(p.dtype,")
shown = printed()
assert all(f"(torch.float32, {trained})" in shown for trained in (True, False))
snippet("added = tokenizer.add_tokens(")
assert added == 2
rows = model.get_input_embeddings().weight
assert len(rows) % 64 == 0
snippet("old = len(tokenizer) - added")
torch.testing.assert_close(rows[len(tokenizer) - 1], rows[:old].mean(dim=0))

# %% training/re-train-hub-models python:transformers python:peft
from transformers import AutoModelForCausalLM, AutoTokenizer

model = AutoModelForCausalLM.from_pretrained("your/model")
tokenizer = AutoTokenizer.from_pretrained("your/model")
tokenizer.add_tokens(["<|tool|>", "<|result|>"], special_tokens=True)
model.resize_token_embeddings(len(tokenizer))
snippet("new = tokenizer.convert_tokens_to_ids(")
trained = [name for name, p in model.named_parameters() if p.requires_grad]
assert any("token_adapter" in name or "trainable_tokens" in name for name in trained)

# %% training/reproducibility
os.environ.pop("CUBLAS_WORKSPACE_CONFIG", None)
snippet("def seed_all(")
draws = []
for rank in (0, 0, 1):
    assert seed_all(7, rank) == 7
    draws.append((random.random(), numpy.random.rand(), float(torch.rand(1))))
assert draws[0] == draws[1]
assert all(one != other for one, other in zip(draws[0], draws[2], strict=True))
assert torch.are_deterministic_algorithms_enabled()
assert os.environ["CUBLAS_WORKSPACE_CONFIG"] == ":4096:8"
assert seed_all() != seed_all()
