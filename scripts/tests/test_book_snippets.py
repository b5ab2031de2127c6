"""Every Python snippet of the book runs: each is taken from its chapter and given what it takes for
granted there, a model, a data set, a process group, files, at a small size and on the CPU."""

from __future__ import annotations

import builtins
import faulthandler
import gc
import http.server
import io
import logging
import math
import os
import re
import signal
import socket
import subprocess
import sys
import tarfile
import textwrap
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from chapter_blocks import ROOT, Block, find_blocks
from needs import need

pytestmark = pytest.mark.torch

SCRIPTS = ROOT / "scripts"

NEEDS_GPU = {
    ("inference", "llm = LLM("): "vLLM",
    ("network/debug", "options = dist.ProcessGroupNCCL.Options()"): "NCCL",
    ("training/model-parallelism", 'mesh = init_device_mesh("cuda", (8,))'): "context parallelism",
    ("training/number-formats", "layer = te.Linear("): "Transformer Engine",
}
"""Compiled and not run: chapter and beginning of the snippet -> what it drives."""


def replace_devices_and_places(code: str, folder: Path) -> str:
    """The only things that are changed in a snippet: the CPU for the GPU, unless it asks itself
    whether there is one, and one folder of the test for the file systems of a cluster."""
    if "cuda.is_available()" not in code:
        code = code.replace('"cuda"', '"cpu"').replace(".cuda()", ".cpu()")
    return re.sub(r'(?<=")/(?=(?:shared|local|dev/shm|data|tmp)/)', f"{folder}/", code)


class Page:
    """A chapter that is open beside the keyboard: its snippets run in one set of names."""

    def __init__(self, chapter: str, folder: Path) -> None:
        self.chapter = chapter
        self.folder = folder
        self.names: dict[str, Any] = {"__name__": "__main__"}

    def find(self, begin: str) -> str:
        """The snippet whose name begins so."""
        code = find_snippet(self.chapter, begin).code
        return replace_devices_and_places(code, self.folder)

    def run(self, begin: str, within: str = "", **names: Any) -> SimpleNamespace:
        """Run a snippet, within a loop where it needs one around it, and return all names."""
        block = find_snippet(self.chapter, begin)
        code = self.find(begin)
        if within:
            code = f"{within}\n{textwrap.indent(code, '    ')}"
        self.names |= names
        path = f"book/{self.chapter}/README.md"
        exec(compile("\n" * (block.line - 1 - bool(within)) + code, path, "exec"), self.names)
        return SimpleNamespace(**self.names)

    def write(self, name: str, begin: str, before: str = "", after: str = "") -> Path:
        """Write a snippet as a file, with code around it."""
        path = self.folder / name
        path.write_text("\n".join((before, self.find(begin), after)))
        return path

    def start(self, *command: Any, stdin: str = "", **environ: str) -> str:
        """Run a program to its end, which has to be a good one, and return what it printed."""
        done = subprocess.run(
            [str(word) for word in command],
            input=stdin,
            cwd=self.folder,
            env=make_environment(**environ),
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == 0, done.stderr[-3000:]
        return done.stdout

    def torchrun(self, ranks: int, *command: Any, stdin: str = "", **environ: str) -> str:
        return self.start(*list_launcher(ranks), *command, stdin=stdin, **environ)


def list_launcher(ranks: int) -> list[str]:
    return [
        sys.executable,
        "-m",
        "torch.distributed.run",
        "--standalone",
        f"--nproc-per-node={ranks}",
    ]


def make_environment(**more: str) -> dict[str, str]:
    folders = (SCRIPTS / "debug", SCRIPTS / "training", SCRIPTS / "testing")
    path = os.pathsep.join(map(str, folders))
    return {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1", **more}


def find_snippet(chapter: str, begin: str) -> Block:
    blocks = [block for block in find_blocks("python").values() if block.chapter == chapter]
    found = [block for block in blocks if block.name.startswith(begin)]
    if len(found) != 1:
        names = "\n".join(f"    {block.name}" for block in blocks)
        pytest.fail(
            f"{len(found)} Python snippets of book/{chapter}/README.md begin with {begin!r}; "
            f"it has:\n{names}",
            pytrace=False,
        )
    return found[0]


TRIED = list(NEEDS_GPU)
"""Chapter and beginning of each snippet that a test here runs."""


def snippet(chapter: str, *begins: str) -> Callable[[Callable[..., None]], Any]:
    """Say which snippets of a chapter a test runs; its `page` is that chapter."""
    TRIED.extend((chapter, begin) for begin in begins)
    return pytest.mark.parametrize("page", [chapter], indirect=True)


@pytest.fixture
def page(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Page]:
    """The chapter, in an empty folder. What a snippet changes of this process is put back."""
    torch = pytest.importorskip("torch", reason="torch is missing: pip install torch")
    monkeypatch.chdir(tmp_path)
    for folder in ("debug", "training", "testing"):
        monkeypatch.syspath_prepend(SCRIPTS / folder)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("HF_HOME", str(tmp_path / "huggingface"))
    for place in ("shared/you", "local", "dev/shm", "data", "tmp"):
        (tmp_path / place).mkdir(parents=True)
    handlers = {number: signal.getsignal(number) for number in (signal.SIGUSR1, signal.SIGTERM)}
    opened = Page(request.param, tmp_path)
    with torch.random.fork_rng(devices=[]), warnings.catch_warnings():
        yield opened
    for value in opened.names.values():
        if isinstance(value, io.IOBase):
            value.close()
    for number, handler in handlers.items():
        signal.signal(number, handler)
    if torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()
    gc.enable()
    gc.unfreeze()


@pytest.fixture
def one_rank() -> Iterator[None]:
    """A process group of gloo with one rank, this process."""
    import torch.distributed as dist

    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    yield
    dist.destroy_process_group()


# --- the list ---


def test_every_snippet_is_run() -> None:
    """Each Python block of the book has its test here, or its line in NEEDS_GPU; no line is of a
    snippet that is gone."""
    tried = [find_snippet(*pair) for pair in TRIED]
    assert [block.name for block in tried if tried.count(block) > 1] == []
    missing = [f"{b.place}: {b.name}" for b in find_blocks("python").values() if b not in tried]
    message = "these snippets have no test: write one in scripts/tests/test_book_snippets.py"
    assert not missing, "\n".join((message, *missing))


@pytest.mark.parametrize(("chapter", "begin"), NEEDS_GPU, ids=NEEDS_GPU.values())
def test_gpu_snippets_compile(chapter: str, begin: str) -> None:
    compile(find_snippet(chapter, begin).code, chapter, "exec")


# --- compute ---


@snippet("compute/cpu", "batches = iter(loader)")
def test_batches_of_a_loader_are_timed(page: Page, capsys: pytest.CaptureFixture[str]) -> None:
    from torch.utils.data import DataLoader

    page.run("batches = iter(loader)", loader=DataLoader(range(400), batch_size=4))
    assert re.fullmatch(r"0\.\d{3} s per batch over 50 batches\n", capsys.readouterr().out)


@snippet("compute/cpu-memory", "state = torch.load(")
def test_weights_are_mapped(page: Page) -> None:
    import torch

    weights = {"weight": torch.arange(1000.0)}
    torch.save(weights, "model.pt")
    state = page.run("state = torch.load(", torch=torch).state
    assert torch.equal(state["weight"], weights["weight"])
    assert "model.pt" in Path("/proc/self/maps").read_text()


@pytest.mark.nightly
@snippet("compute/cpu-memory", '"""How much memory')
def test_reading_objects_makes_their_pages_private(page: Page) -> None:
    """A list of strings is copied nearly whole, one buffer not at all."""
    path = page.write("cow.py", '"""How much memory')
    grown = {}
    for kind in ("list", "buffer"):
        out = page.start(sys.executable, path, kind)
        parent, before, after = map(int, re.findall(r"(\d+)(?: MiB)?(?=,| MiB)", out))
        grown[kind] = (after - before) / parent
    assert grown["list"] > 0.7
    assert grown["buffer"] < 0.05


# --- debug ---


@snippet("debug", "@record")
def test_main_is_recorded(page: Page) -> None:
    assert page.run("@record").main() is None


@snippet("debug", 'print(f"{rank}: passed')
def test_print_takes_a_lock(page: Page, capsys: pytest.CaptureFixture[str]) -> None:
    names = page.run('print(f"{rank}: passed', rank=3)
    assert names.print is not builtins.print
    assert capsys.readouterr().out == "3: passed stage 0\n"


@pytest.mark.nightly
@snippet("debug", "if loss.isnan():")
def test_one_rank_stops_in_the_debugger(page: Page) -> None:
    """Rank 3 answers to commands; the others wait for it and go on."""
    before = "import torch, torch.distributed as dist; dist.init_process_group('gloo')\n"
    before += "loss = torch.tensor(float('nan'))"
    after = "print('goes on', dist.get_rank(), flush=True)\ndist.destroy_process_group()"
    path = page.write("train.py", "if loss.isnan():", before, after)
    out = page.torchrun(4, path, stdin="up\np 'loss:', loss\nc\n")
    assert "('loss:', tensor(nan))" in out
    assert sorted(re.findall(r"goes on (\d)", out)) == list("0123")


@snippet("debug", "class TerminalPdb")
def test_debugger_takes_the_terminal(page: Page) -> None:
    path = page.write("train.py", "class TerminalPdb", "answer = 6 * 7", "print('goes on')")
    out = page.start(sys.executable, path, stdin="p f'{answer=}'\nc\n")
    assert "answer=42" in out
    assert "goes on" in out


@snippet("debug", "with Tracer(")
def test_tracer_writes_a_file(page: Page, monkeypatch: pytest.MonkeyPatch) -> None:
    package = page.folder / "mypkg"
    package.mkdir()
    (package / "__init__.py").write_text("def step():\n    return 1 + 1\n")
    monkeypatch.syspath_prepend(page.folder)
    import mypkg  # type: ignore[import-not-found]

    page.run("with Tracer(", step=mypkg.step)
    (trace,) = (page.folder / "local/traces").iterdir()
    assert "return 1 + 1" in trace.read_text()


@pytest.mark.nightly
@snippet("debug/hangs", 'dist.init_process_group("gloo")')
def test_one_rank_that_loads_hangs_all(page: Page) -> None:
    """All four come to step 3, and none beyond it."""
    path = page.write("hang.py", 'dist.init_process_group("gloo")')
    with (page.folder / "log").open("w") as log:
        process = subprocess.Popen(
            [*list_launcher(4), path], stdout=log, stderr=log, env=make_environment()
        )
        try:
            for _ in range(600):
                time.sleep(0.1)
                if (page.folder / "log").read_text().count("step 3") == 4:
                    break
            time.sleep(1)
        finally:
            process.terminate()
            process.wait(timeout=60)
    text = (page.folder / "log").read_text()
    assert (text.count("step 3"), text.count("step 4")) == (4, 0)


@snippet("debug/hangs", "stacks = open(")
def test_stacks_come_at_a_signal(page: Page) -> None:
    page.run("stacks = open(")
    try:
        os.kill(os.getpid(), signal.SIGUSR1)
        text = (page.folder / "tmp" / f"stacks.{os.getpid()}").read_text()
    finally:
        faulthandler.unregister(signal.SIGUSR1)
    assert "test_stacks_come_at_a_signal" in text


@pytest.mark.nightly
@snippet("debug/hangs", 'keep_ready("/shared/fr/4711", rank)')
def test_dump_is_written_when_asked_for(page: Page) -> None:
    before = """
import time, pathlib, torch, torch.distributed as dist
dist.init_process_group("gloo")
rank = dist.get_rank()
dist.all_reduce(torch.ones(4))
"""
    folder = page.folder / "shared/fr/4711"
    folder.mkdir(parents=True)
    after = f"""
folder = pathlib.Path({str(folder)!r})
(folder / "dump_now").touch()
for _ in range(100):
    time.sleep(0.1)
    if (folder / "rank_0").exists():
        break
dist.destroy_process_group()
"""
    path = page.write("train.py", "keep_ready(", before, after)
    page.torchrun(1, path, TORCH_FR_BUFFER_SIZE="2000")
    out = page.start(sys.executable, SCRIPTS / "debug/collective_mismatch.py", "read", folder)
    assert "all ranks call all_reduce [4] Float" in out


@snippet("debug/overflow", "debug = DebugUnderflowOverflow(model)")
def test_first_overflow_is_found(page: Page) -> None:
    import torch

    model = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Linear(2, 2))
    page.run("debug = DebugUnderflowOverflow(model)", model=model)
    model(torch.ones(1, 2))
    with torch.no_grad():
        model[1].bias.fill_(math.inf)
    with pytest.raises(Exception, match=r"1|Linear") as caught:
        model(torch.ones(1, 2))
    assert type(caught.value).__name__ == "NonFiniteDetected"


@snippet("debug/overflow", "with safe_open(")
def test_bad_weights_of_a_file_are_named(page: Page, capsys: pytest.CaptureFixture[str]) -> None:
    need("python:safetensors")
    import torch
    from safetensors.torch import save_file

    for value, told in ((1.0, "all finite"), (math.nan, "['b']")):
        save_file({"a": torch.ones(2), "b": torch.tensor([1.0, value])}, "model.safetensors")
        page.run("with safe_open(")
        assert capsys.readouterr().out == f"{told}\n"


@snippet("debug/overflow", "hidden = self.act(")
def test_forward_names_the_tensor(page: Page, capsys: pytest.CaptureFixture[str]) -> None:
    import torch

    layer = SimpleNamespace(act=torch.exp, wi_0=lambda x: x, wi_1=lambda x: x, wo=lambda x: x * 0)
    page.run("hidden = self.act(").forward(layer, torch.tensor([1.0, 200.0]))
    assert capsys.readouterr().err == "after the gate has inf\nafter wo has nan\n"


@snippet("debug/overflow", "with torch.autocast(device_type")
def test_block_runs_in_float32(page: Page) -> None:
    import torch

    seen = []
    linear = torch.nn.Linear(2, 2)
    layer = SimpleNamespace(_forward=lambda x: seen.append(linear(x).dtype) or x)
    forward = page.run("with torch.autocast(device_type", torch=torch).forward
    with torch.autocast("cpu", dtype=torch.bfloat16):
        back = forward(layer, torch.ones(1, 2, dtype=torch.bfloat16))
    assert (seen, back.dtype) == ([torch.float32], torch.bfloat16)


@snippet("debug/overflow", "gradients = [p.grad")
def test_zero_gradients_are_counted(page: Page, capsys: pytest.CaptureFixture[str]) -> None:
    import torch

    model = torch.nn.Linear(2, 1, bias=False)
    model(torch.tensor([[0.0, 1.0]])).backward()
    page.run("gradients = [p.grad", model=model)
    assert capsys.readouterr().out == "50.0% of the gradients are zero\n"


@snippet("debug/overflow", "scaler = torch.amp.GradScaler(")
def test_scaler_skips_an_overflow(page: Page) -> None:
    import torch

    class Model(torch.nn.Linear):
        def forward(self, batch: Any) -> Any:
            return super().forward(batch).sum()

    model = Model(2, 1)
    start = model.weight.detach().clone()
    names = page.run(
        "scaler = torch.amp.GradScaler(",
        torch=torch,
        loader=[torch.full((1, 2), math.inf), torch.ones(1, 2)],
        model=model,
        optimizer=torch.optim.SGD(model.parameters(), lr=0.1),
    )
    assert names.scaler.get_scale() == 2.0**15
    assert model.weight.isfinite().all()
    assert not torch.equal(model.weight, start)


@snippet("debug/overflow", "norm = torch.nn.utils.clip_grad_norm_")
def test_bad_step_is_skipped(page: Page) -> None:
    import torch

    model = torch.nn.Linear(1, 1)
    steps = []
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    page.names |= {"torch": torch, "model": model, "optimizer": optimizer, "steps": steps}
    code = page.find("norm = torch.nn.utils.clip_grad_norm_")
    loop = "for x in (1.0, float('inf')):\n    model(torch.tensor([x])).backward()\n"
    exec(f"{loop}{textwrap.indent(code, '    ')}\n    steps.append(x)", page.names)
    assert steps == [1.0]
    assert model.weight.grad is None


# --- tiny models ---


def make_tokenizer(folder: Path) -> Any:
    """A tokenizer that a reader might have, saved in the folder."""
    need("python:transformers", "python:tokenizers")
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    inner = Tokenizer(models.BPE())
    inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    inner.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    special = ["<|begin|>", "<|end|>"]
    trainer = trainers.BpeTrainer(
        vocab_size=400, special_tokens=special, initial_alphabet=alphabet, show_progress=False
    )
    inner.train_from_iterator(["some words, and some more words of a corpus"] * 20, trainer)
    names = dict(zip(("bos_token", "eos_token"), special, strict=True))
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=inner, pad_token="<|end|>", **names)
    tokenizer.save_pretrained(folder)
    return tokenizer


def make_llama(folder: Path, **options: Any) -> Any:
    """A model like Llama, far smaller, saved in the folder."""
    need("python:transformers")
    from transformers import AutoModelForCausalLM, LlamaConfig

    sizes = {"hidden_size": 128, "intermediate_size": 256, "vocab_size": 400}
    heads = {"num_attention_heads": 8, "num_key_value_heads": 2, "num_hidden_layers": 5}
    config = LlamaConfig(**{**sizes, **heads, "tie_word_embeddings": False, **options})
    model = AutoModelForCausalLM.from_config(config)
    model.save_pretrained(folder)
    return model


@pytest.mark.nightly
@snippet("debug/tiny", "config = AutoConfig.from_pretrained(")
def test_config_becomes_a_tiny_model(page: Page, capsys: pytest.CaptureFixture[str]) -> None:
    from transformers import AutoModelForCausalLM

    make_llama(page.folder / "your/model")
    capsys.readouterr()
    model = page.run("config = AutoConfig.from_pretrained(").model
    assert capsys.readouterr().out.endswith(f"\n{model.num_parameters():,}\n")
    back = AutoModelForCausalLM.from_pretrained("tiny")
    assert back.config.num_hidden_layers == 2
    assert back.num_parameters() < 250_000


@snippet("debug/tiny", "old = AutoTokenizer.from_pretrained(")
def test_tokenizer_is_trained_anew(page: Page) -> None:
    from transformers import AutoTokenizer

    make_tokenizer(page.folder / "your/model")
    page.run("old = AutoTokenizer.from_pretrained(")
    back = AutoTokenizer.from_pretrained("tiny")
    assert len(back) <= 1000
    assert back.decode(back("A few lines")["input_ids"], skip_special_tokens=True) == "A few lines"


# --- inference and network ---


class Stream(http.server.BaseHTTPRequestHandler):
    """An inference engine that answers with four chunks."""

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.end_headers()
        for _ in range(4):
            self.wfile.write(b'data: {"choices": [{"text": " word"}]}\n\n')
            time.sleep(0.02)
        self.wfile.write(b"data: [DONE]\n\n")

    def log_message(self, *_: Any) -> None:
        pass


@snippet("inference/benchmarks", 'prompt = " ".join(')
def test_one_request_is_timed(page: Page, capsys: pytest.CaptureFixture[str]) -> None:
    """With a port that is free in place of 8000."""
    with http.server.HTTPServer(("127.0.0.1", 0), Stream) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        code = page.find('prompt = " ".join(')
        exec(code.replace("127.0.0.1:8000", f"127.0.0.1:{server.server_port}"), page.names)
        server.shutdown()
    gc.collect()
    assert len(page.names["times"]) == 4
    assert re.fullmatch(r"TTFT 0\.\d{3} s, then \d+\.\d ms per chunk\n", capsys.readouterr().out)


@pytest.mark.nightly
@snippet("network/comms", 'dist.init_process_group("gloo")')
def test_reduce_scatter_and_all_gather_are_an_all_reduce(page: Page) -> None:
    path = page.write("collectives.py", 'dist.init_process_group("gloo")')
    out = page.torchrun(4, path)
    assert out == "all-reduce [60.0, 64.0, 68.0, 72.0] piece of rank 0 [60.0]\n"


# --- orchestration and testing ---


@snippet("orchestration/slurm", 'leave = Path("switches"')
def test_warning_saves_and_stops(
    page: Page, one_rank: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLURM_JOB_ID", "87")
    switches = page.folder / "switches"
    switches.mkdir()
    (switches / "leave-86").touch()
    done: list[str] = []

    def train_step(batch: int) -> None:
        done.append(f"step {batch}")
        if batch == 2:
            (switches / "leave-87").touch()

    page.run(
        'leave = Path("switches"',
        device="cpu",
        loader=range(9),
        train_step=train_step,
        save_checkpoint=lambda: done.append("saved"),
    )
    assert done == ["step 0", "step 1", "step 2", "saved"]


@pytest.mark.nightly
@snippet("testing", 'dist.init_process_group("gloo")', "TORCHRUN = ")
def test_test_of_ranks_passes(page: Page) -> None:
    tests = page.folder / "tests"
    tests.mkdir()
    page.write("tests/reduce_worker.py", 'dist.init_process_group("gloo")')
    page.write("tests/test_reduce.py", "TORCHRUN = ")
    (page.folder / "conftest.py").write_text('pytest_plugins = ["testing_utils"]\n')
    out = page.start(sys.executable, "-m", "pytest", "-q", "tests")
    assert "2 passed" in out


@snippet("testing", 'dist.init_process_group("fake"')
def test_layout_of_a_thousand_ranks(page: Page) -> None:
    """The snippet asserts by itself."""
    page.run('dist.init_process_group("fake"')


@snippet("testing", "@require_torch_multi_gpu")
def test_test_of_two_gpus_is_skipped_without(page: Page) -> None:
    import torch

    function = page.run("@require_torch_multi_gpu").test_two_gpus_share
    is_skipped = getattr(function, "__unittest_skip__", False)
    assert is_skipped == (torch.cuda.device_count() < 2)


@snippet("testing", "with CaptureStd() as streams:")
def test_output_and_logs_are_captured(page: Page) -> None:
    logger = logging.getLogger("mypkg")
    page.run(
        "with CaptureStd() as streams:",
        logging=logging,
        train_one_step=lambda: print("loss 2", file=sys.stderr),
        save_checkpoint=lambda: logger.info("saved step-1"),
    )
    with pytest.raises(AssertionError):
        page.run(
            "with CaptureStd() as streams:",
            train_one_step=lambda: print("overflow", file=sys.stderr),
        )


@snippet("testing", '@pytest.mark.parametrize("dtype"')
def test_two_decorators_multiply(page: Page) -> None:
    page.write("test_names.py", '@pytest.mark.parametrize("dtype"', "import pytest")
    out = page.start(sys.executable, "-m", "pytest", "--collect-only", "-q", "test_names.py")
    assert out.count("test_sharding[") == 4
    assert "test_sharding[full-float32]" in out


# --- training: memory, checkpoints ---


@snippet("training/benchmarks", "if torch.cuda.is_available():")
def test_memory_outside_the_allocator(page: Page) -> None:
    page.run("if torch.cuda.is_available():")


@snippet("training/checkpoints", "gpu = torch.cuda.is_available()", "for path in (")
def test_checkpoints_are_saved_in_the_background(
    page: Page, one_rank: None, capsys: pytest.CaptureFixture[str]
) -> None:
    import torch
    import torch.distributed.checkpoint as dcp

    warnings.simplefilter("ignore", UserWarning)
    state = {"weight": torch.ones(100)}
    names = page.run("gpu = torch.cuda.is_available()", state=state)
    for step in (1, 2):
        names.save_async(state, page.folder / f"step-{step}")
        state["weight"].add_(1)
    page.names["saving"].result()
    for step in (1, 2):
        back = {"weight": torch.zeros(100)}
        dcp.load(back, checkpoint_id=page.folder / f"step-{step}")
        assert torch.equal(back["weight"], torch.full((100,), float(step)))
    page.run("for path in (")
    shown = re.findall(r"/save-test \d+\.\d s\n", capsys.readouterr().out)
    assert len(shown) == 2


@snippet("training/checkpoints", "def save_whole(")
def test_only_whole_checkpoints_have_the_name(
    page: Page, one_rank: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    import torch

    warnings.simplefilter("ignore", UserWarning)
    names = page.run("def save_whole(")
    for step in (9, 100, 100):
        names.save_whole({"step": torch.tensor(step)}, page.folder, step)
    assert len(list(page.folder.glob(".step-00000100.bad-*"))) == 1

    rename = Path.rename

    def refuse(path: Path, target: Path) -> Path:
        if target.name.startswith("step-"):
            raise OSError("read-only")
        return rename(path, target)

    monkeypatch.setattr(Path, "rename", refuse)
    with pytest.raises(RuntimeError, match="step 200 was not saved: read-only"):
        names.save_whole({"step": torch.tensor(200)}, page.folder, 200)


@snippet("training/checkpoints", "def load_newest(")
def test_newest_checkpoint_that_can_be_read_is_loaded(
    page: Page, one_rank: None, capsys: pytest.CaptureFixture[str]
) -> None:
    import torch
    import torch.distributed.checkpoint as dcp

    warnings.simplefilter("ignore", UserWarning)
    load_newest = page.run("def load_newest(").load_newest
    state = {"step": torch.tensor(0)}
    assert load_newest(state, page.folder) is None
    folders = [page.folder / f"step-{step:08d}" for step in (9, 100, 200)]
    for step, folder in zip((9, 100, 200), folders, strict=True):
        dcp.save({"step": torch.tensor(step)}, checkpoint_id=folder)
    (folders[2] / ".metadata").unlink()  # a save that was cut short
    assert load_newest(state, page.folder) == folders[1]
    assert state["step"] == 100
    shard = folders[1] / "__0_0.distcp"
    shard.write_bytes(shard.read_bytes()[:100])
    assert load_newest(state, page.folder) == folders[0]
    assert state["step"] == 9
    assert f"skipped {folders[1]}" in capsys.readouterr().out
    (folders[0] / "__0_0.distcp").unlink()
    with pytest.raises(RuntimeError, match="can be read"):
        load_newest(state, page.folder)


@snippet("training/checkpoints", "print(torch.serialization.get_unsafe_globals")
def test_unsafe_globals_are_listed(page: Page, capsys: pytest.CaptureFixture[str]) -> None:
    import argparse

    import torch

    torch.save({"args": argparse.Namespace(lr=1)}, "model.pt")
    page.run("print(torch.serialization.get_unsafe_globals")
    assert capsys.readouterr().out == "['argparse.Namespace']\n"


@snippet("training/checkpoints", 'with open(sys.argv[1], "rb") as file:')
def test_header_shows_whether_a_file_is_whole(page: Page) -> None:
    need("python:safetensors")
    import torch
    from safetensors.torch import save_file

    save_file({"a": torch.ones(4)}, "model.safetensors", metadata={"format": "pt"})
    path = page.write("header.py", 'with open(sys.argv[1], "rb") as file:')
    out = page.start(sys.executable, path, "model.safetensors")
    assert out.startswith("a {'dtype': 'F32', 'shape': [4]")
    assert out.endswith("\ncomplete\n")
    whole = Path("model.safetensors").read_bytes()
    Path("model.safetensors").write_bytes(whole[:-3])
    out = page.start(sys.executable, path, "model.safetensors")
    assert out.endswith(f"\n{len(whole) - 3} bytes instead of {len(whole)}\n")


@snippet("training/checkpoints", "def is_tied(model):")
def test_tied_matrices_are_seen(page: Page) -> None:
    is_tied = page.run("def is_tied(model):").is_tied
    for tied in (True, False):
        assert is_tied(make_llama(page.folder / "model", tie_word_embeddings=tied)) == tied


@pytest.mark.nightly
@snippet("training/checkpoints", 'dist.init_process_group("gloo")')
def test_two_ranks_save_and_three_load(page: Page) -> None:
    path = page.write("reshard.py", 'dist.init_process_group("gloo")')
    page.torchrun(2, path, "save")
    out = page.torchrun(3, path, "load")  # lines of ranks may interleave
    assert out.count("(4, 8)") == 3
    sums = re.findall(r"tensor\(([\d.]+)\)", out)
    assert len(sums) == 3
    assert len(set(sums)) == 1
    assert float(sums[0]) > 0
    for command in (("dcp_to_torch", "step-100", "all.pt"), ("torch_to_dcp", "all.pt", "again")):
        page.start(sys.executable, "-m", "torch.distributed.checkpoint.format_utils", *command)


@snippet("training/checkpoints", 'with torch.device("meta"):')
def test_model_takes_over_the_loaded_tensors(page: Page) -> None:
    import torch

    torch.save(torch.nn.Linear(4, 4).state_dict(), "model.pt")
    names = page.run('with torch.device("meta"):', make_model=lambda: torch.nn.Linear(4, 4))
    assert names.model.weight.device.type == "cpu"
    assert names.model.weight.data_ptr() == names.state["weight"].data_ptr()


@snippet("training/memory", "aten = torch.ops.aten")
def test_matmuls_are_kept_and_the_rest_computed_again(page: Page) -> None:
    import torch

    names = page.run("aten = torch.ops.aten")
    first = names.layer[0].weight.grad.clone()
    names.layer.zero_grad()
    names.layer(names.x).sum().backward()
    torch.testing.assert_close(first, names.layer[0].weight.grad)


@snippet("training/memory", "def log_memory(")
def test_memory_log_is_defined(page: Page) -> None:
    """What the functions call needs a GPU."""
    page.run("def log_memory(")


@pytest.mark.nightly
@snippet("training/memory", "with FakeTensorMode():")
def test_memory_is_tracked_without_any(page: Page, capsys: pytest.CaptureFixture[str]) -> None:
    """Parameters take 2.75 GiB and Adam's states twice that."""
    warnings.simplefilter("ignore")
    page.run("with FakeTensorMode():")
    out = capsys.readouterr().out
    assert "2.75 GiB" in out
    assert "5.5 GiB" in out


# --- training: data ---


@snippet("training/datasets", 'with main_process_first("global")')
def test_first_rank_works_and_the_rest_find_it(page: Page, one_rank: None) -> None:
    seen: list[str] = []
    names = page.run(
        'with main_process_first("global")', load_and_prepare=lambda p: seen.append(p) or "data"
    )
    assert (names.dataset, seen) == ("data", [f"{page.folder}/data/set"])


@snippet("training/datasets", "rank, world_size = 0, 1")
def test_shards_are_streamed(page: Page, capsys: pytest.CaptureFixture[str]) -> None:
    need("python:datasets")
    (page.folder / "shards").mkdir()
    for shard in range(4):
        with tarfile.open(f"shards/train-{shard:06}.tar", "w") as tar:
            for number in range(3):
                info = tarfile.TarInfo(f"{shard}{number}.txt")
                info.size = 2
                tar.addfile(info, io.BytesIO(b"ok"))
    names = page.run("rank, world_size = 0, 1")
    assert "4 shards\n" in capsys.readouterr().out
    assert len({record["__key__"] for record in names.images}) == 12


@snippet("training/datasets", "def open_stream(")
def test_each_rank_streams_its_shards(page: Page, capsys: pytest.CaptureFixture[str]) -> None:
    need("python:datasets")
    from datasets import Dataset

    for shard in range(3):
        Dataset.from_dict({"n": [2 * shard, 2 * shard + 1]}).to_parquet(f"train-{shard}.parquet")
    open_stream = page.run("def open_stream(").open_stream
    seen = [[r["n"] for r in open_stream(rank, 2, "train-*.parquet")] for rank in (0, 1)]
    assert sorted(seen[0] + seen[1]) == list(range(6))
    assert sorted(map(len, seen)) == [2, 4]
    assert "3 shards on 2 ranks: ranks get unequal numbers\n" in capsys.readouterr().out


# --- training: ranks ---


@pytest.mark.nightly
@snippet("training/emulate-multi-node", 'dist.init_process_group("gloo")')
def test_ranks_say_hello(page: Page) -> None:
    out = page.torchrun(2, page.write("hello.py", 'dist.init_process_group("gloo")'))
    for rank in (0, 1):
        line = f"{socket.gethostname()} rank {rank} of 2, node 0, local {rank} of 2, sees GPUs "
        assert line in out
    assert out.count("sum 1") == 2


@pytest.mark.nightly
@snippet("training/emulate-multi-node", 'dist.init_process_group("fake"')
def test_a_thousandth_is_kept(page: Page, capsys: pytest.CaptureFixture[str]) -> None:
    page.run('dist.init_process_group("fake"')
    assert capsys.readouterr().out == "rank 0 keeps 65552 of 67125248 parameters\n"


class Groups:
    """A data set of two items: is this process, a worker, the first of its process group?"""

    def __len__(self) -> int:
        return 2

    def __getitem__(self, index: int) -> int:
        return int(os.getpgrp() == os.getpid())


@snippet("training/fault-tolerance", "SWITCHES = ")
def test_ranks_agree_to_save_and_to_stop(
    page: Page, one_rank: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SLURM_JOB_ID", raising=False)
    import torch

    agree = page.run("SWITCHES = ").agree
    switches = page.folder / "switches"
    switches.mkdir()
    assert agree("cpu") == 0
    (switches / "save").touch()
    assert [agree("cpu"), agree("cpu")] == [1, 0]
    (switches / "leave-here").touch()
    assert agree("cpu") == 2
    (switches / "leave-here").unlink()
    page.names["DEADLINE"] = time.time() + 500
    assert agree("cpu") == 2
    page.names["DEADLINE"] = math.inf
    os.kill(os.getpid(), signal.SIGUSR1)
    assert agree("cpu") == 2
    workers = {"num_workers": 1, "worker_init_fn": page.names["own_group"]}
    loader = torch.utils.data.DataLoader(Groups(), multiprocessing_context="fork", **workers)
    assert [int(item) for item in loader] == [1, 1]


@snippet("training/fault-tolerance", "def memory_left():")
def test_memory_that_is_left(page: Page) -> None:
    left = page.run("def memory_left():").memory_left()
    total = re.search(r"MemTotal: +(\d+) kB", Path("/proc/meminfo").read_text())
    assert total is not None
    assert 0 < left < int(total[1]) * 1024


@pytest.mark.nightly
@snippet("training/model-parallelism", 'device = "cuda" if')
def test_two_replicas_of_two_train(page: Page) -> None:
    path = page.write("hsdp.py", 'device = "cuda" if')
    out = page.torchrun(4, path, SHARD_GROUP="2")
    assert re.fullmatch(r"0 \d+\.\d{3}\n1 \d+\.\d{3}\n", out)


# --- training: numbers ---


@snippet("training/hyperparameters", "model = torch.nn.ModuleDict(")
def test_muon_gets_the_hidden_matrices(page: Page) -> None:
    names = page.run("model = torch.nn.ModuleDict(")
    assert names.matrices == [names.model["hidden"].weight]
    assert len(names.others) == 3
    for parameter in names.model.parameters():
        parameter.grad = parameter.detach().clone()
    before = names.model["hidden"].weight.detach().clone()
    for optimizer in names.optimizers:
        optimizer.step()
    change = names.model["hidden"].weight.detach() - before * (1 - 3e-4 * 0.1)
    assert float(change.square().mean().sqrt()) == pytest.approx(0.2 * 3e-4, rel=0.3)


@snippet("training/hyperparameters", "@torch.no_grad()")
def test_logits_are_clipped_to_tau(page: Page) -> None:
    import torch

    torch.manual_seed(0)
    heads, size, hidden = 4, 8, 32
    query, key = torch.randn(2, heads * size, hidden)
    x = 3 * torch.randn(16, hidden)

    def find_largest() -> Any:
        q, k = ((x @ w.T).view(16, heads, size) for w in (query, key))
        return (torch.einsum("ihd,jhd->hij", q, k) / size**0.5).abs().flatten(1).amax(1)

    largest = find_largest()
    assert (largest > 100).any()
    page.run("@torch.no_grad()").qk_clip(query, key, largest)
    torch.testing.assert_close(find_largest(), largest.clamp(max=100.0))


@snippet("training/instabilities", "skip = range(")
def test_batches_are_drawn_and_dropped(page: Page) -> None:
    seen: list[int] = []
    batches = iter(range(41_098, 41_402))
    page.run("skip = range(", start=41_098, total=41_402, batches=batches, train=seen.append)
    assert seen == [41_098, 41_099, 41_400, 41_401]


@snippet("training/instabilities", "def step_or_skip(")
def test_large_gradients_are_skipped(page: Page) -> None:
    import torch

    step_or_skip = page.run("def step_or_skip(").step_or_skip
    model = torch.nn.Linear(1, 1, bias=False)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    moved = []
    for gradient in (2.0, 3.1, math.nan):
        before = model.weight.detach().clone()
        model.weight.grad = torch.full((1, 1), gradient)
        norm = step_or_skip(model, optimizer, usual=1.0)
        assert norm == pytest.approx(gradient, nan_ok=True)
        assert model.weight.grad is None
        moved.append(not torch.equal(before, model.weight))
    assert moved == [True, False, False]


@snippet("training/number-formats", "weights = torch.tensor([208.0])")
def test_float8_misread_is_half(page: Page, capsys: pytest.CaptureFixture[str]) -> None:
    page.run("weights = torch.tensor([208.0])")
    assert capsys.readouterr().out == "104.0\n"


@snippet("training/number-formats", "gradients = [p.grad")
def test_what_float16_loses_is_counted(page: Page, capsys: pytest.CaptureFixture[str]) -> None:
    import torch

    model = torch.nn.Linear(2, 1, bias=False)
    model.weight.grad = torch.tensor([[1e-8, 1.0]])
    page.run("gradients = [p.grad", torch=torch, model=model)
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == ["0", "4", "8", "12", "16", "20", "24"]
    assert lines[0] == "0 Lost(values=2, zero=1, subnormal=0, too_large=0)"
    assert lines[-1] == "24 Lost(values=2, zero=0, subnormal=0, too_large=1)"


@snippet("training/number-formats", "def round_stochastically(")
def test_small_updates_survive_by_chance(page: Page, capsys: pytest.CaptureFixture[str]) -> None:
    names = page.run("def round_stochastically(")
    assert capsys.readouterr().out.startswith("tensor(1.)\n")
    assert float(names.stochastic.float().mean()) == pytest.approx(2, abs=0.02)


@snippet("training/number-formats", "total = torch.tensor(0.0")
def test_sum_of_bfloat16_stops(page: Page, capsys: pytest.CaptureFixture[str]) -> None:
    page.run("total = torch.tensor(0.0")
    assert capsys.readouterr().out == "256.0\n8192.0\n"


@pytest.mark.nightly
@snippet("training/number-formats", "torch.backends.cuda.matmul.fp32_precision")
def test_switches_of_float32_are_there(page: Page) -> None:
    """Each by itself, as the comments say; in a process of its own, for they are global."""
    after = "print(torch.backends.cuda.matmul.fp32_precision, torch.backends.fp32_precision)"
    path = page.write("tf32.py", "torch.backends.cuda.matmul.fp32_precision", after=after)
    assert page.start(sys.executable, path) == "tf32 ieee\n"


@snippet("training/number-formats", "E2M1 = ")
def test_blocks_keep_small_numbers(page: Page, capsys: pytest.CaptureFixture[str]) -> None:
    import torch

    names = page.run("E2M1 = ")
    whole = names.quantize(names.numbers, 8)
    assert whole[:4].tolist() == [0.0] * 4
    halves = names.quantize(names.numbers, 4)
    assert (halves[:4] != 0).all()
    pair = torch.tensor([6.1, 5.0])
    assert names.quantize(pair, 2, up=False).tolist()[0] == 6.0


# --- training: performance ---


@snippet("training/performance", 'with torch.device("meta"):')
def test_flops_are_counted(page: Page, capsys: pytest.CaptureFixture[str]) -> None:
    page.run('with torch.device("meta"):')
    assert capsys.readouterr().out == "1.924e+12\n5.772e+12\n6.735e+12\n"


@snippet("training/performance", "rank, batches, train_step = 0")
def test_three_steps_are_profiled(page: Page, capsys: pytest.CaptureFixture[str]) -> None:
    import torch

    weight = torch.ones(8, 8)
    code = page.find("rank, batches, train_step = 0").replace("lambda batch: None", "step")
    page.names["step"] = lambda batch: weight @ weight
    warnings.simplefilter("ignore", UserWarning)
    exec(code, page.names)
    assert Path("trace_0.json.gz").exists()
    row = re.search(r"aten::mm .* 3 ", capsys.readouterr().out)
    assert row is not None


@snippet("training/performance", "train_step, batches = (")
def test_garbage_is_collected_between_steps(page: Page) -> None:
    page.run("train_step, batches = (")
    assert not gc.isenabled()
    assert gc.get_freeze_count() > 0


# --- training: models of others ---


@snippet("training/re-train-hub-models", "name, folder = ")
def test_architecture_gets_fresh_weights(page: Page) -> None:
    need("python:transformers")
    import torch
    from transformers import AutoModelForCausalLM, OPTConfig

    folder = page.folder / "facebook/opt-1.3b"
    make_tokenizer(folder)
    sizes = {"hidden_size": 32, "ffn_dim": 64, "num_hidden_layers": 2, "num_attention_heads": 4}
    OPTConfig(vocab_size=400, word_embed_proj_dim=32, **sizes).save_pretrained(folder)
    model = page.run("name, folder = ").model
    back = AutoModelForCausalLM.from_pretrained("opt-1.3b-fresh")
    for one, other in zip(model.parameters(), back.parameters(), strict=True):
        assert torch.equal(one, other)


@snippet("training/re-train-hub-models", 'name = "your/model"')
def test_every_second_layer_is_kept(page: Page) -> None:
    need("python:transformers")
    import torch
    from transformers import AutoModelForCausalLM

    make_llama(page.folder / "your/model")
    names = page.run('name = "your/model"')
    back = AutoModelForCausalLM.from_pretrained("every-second-layer")
    assert names.kept == [0, 2, 4]
    last = names.large.model.layers[4].mlp.up_proj.weight
    assert torch.equal(back.model.layers[2].mlp.up_proj.weight, last)


@snippet("training/re-train-hub-models", "domain = Dataset.from_dict(")
def test_sources_are_mixed(page: Page) -> None:
    need("python:datasets")
    texts = [record["text"] for record in page.run("domain = Dataset.from_dict(").mixed]
    assert texts.count("domain") / len(texts) == pytest.approx(0.8, abs=0.05)


@snippet(
    "training/re-train-hub-models",
    "model.requires_grad_(False)",
    "added = tokenizer.add_tokens(",
    "old = len(tokenizer) - added",
    "print({(p.dtype,",
)
def test_layers_are_frozen_and_tokens_added(page: Page, capsys: pytest.CaptureFixture[str]) -> None:
    import torch

    model = make_llama(page.folder / "your/model")
    names = page.run("model.requires_grad_(False)", torch=torch, model=model)
    assert len(names.trained) == 4 * 9
    capsys.readouterr()
    page.run("print({(p.dtype,")
    shown = capsys.readouterr().out
    assert all(f"(torch.float32, {trained})" in shown for trained in (True, False))
    tokenizer = make_tokenizer(page.folder / "your/model")
    model.resize_token_embeddings(len(tokenizer))
    names = page.run("added = tokenizer.add_tokens(", tokenizer=tokenizer)
    assert names.added == 2
    rows = model.get_input_embeddings().weight
    assert len(rows) % 64 == 0
    page.run("old = len(tokenizer) - added")
    mean = rows[: names.tokenizer.vocab_size].mean(dim=0)
    torch.testing.assert_close(rows[len(tokenizer) - 1], mean)


@snippet("training/re-train-hub-models", "new = tokenizer.convert_tokens_to_ids(")
def test_adapters_train_the_new_rows(page: Page) -> None:
    pytest.importorskip("peft", reason="peft is missing: pip install peft")
    warnings.simplefilter("ignore", FutureWarning)  # names of transformers that peft still uses
    tokenizer = make_tokenizer(page.folder / "your/model")
    tokenizer.add_tokens(["<|tool|>", "<|result|>"], special_tokens=True)
    model = make_llama(page.folder / "your/model", vocab_size=len(tokenizer))
    names = page.run("new = tokenizer.convert_tokens_to_ids(", tokenizer=tokenizer, model=model)
    trained = [name for name, p in names.model.named_parameters() if p.requires_grad]
    assert any("token_adapter" in name or "trainable_tokens" in name for name in trained)


@snippet("training/reproducibility", "def seed_all(")
def test_seeds_are_all_set(page: Page, monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    monkeypatch.delenv("CUBLAS_WORKSPACE_CONFIG", raising=False)
    names = page.run("def seed_all(")
    draws = []
    try:
        for rank in (0, 0, 1):
            assert names.seed_all(7, rank) == 7
            draws.append((names.random.random(), names.numpy.random.rand(), float(torch.rand(1))))
        assert torch.are_deterministic_algorithms_enabled()
        assert os.environ["CUBLAS_WORKSPACE_CONFIG"] == ":4096:8"
    finally:
        torch.use_deterministic_algorithms(False)
        os.environ.pop("CUBLAS_WORKSPACE_CONFIG", None)
    assert draws[0] == draws[1]
    assert all(one != other for one, other in zip(draws[0], draws[2], strict=True))
    assert names.seed_all() != names.seed_all()
