"""What the tests of the companion tools share: finding them, loading them, running them."""

from __future__ import annotations

import contextlib
import importlib.util
import io
import json
import os
import signal
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

# The last is a companion tool itself: what it gives to tests, these tests use.
pytest_plugins = ["needs", "examples", "slurm_cluster", "slurm_user", "demo_runs", "testing_utils"]

SCRIPTS = Path(__file__).resolve().parent.parent

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1, signal.SIGHUP)

Completed = subprocess.CompletedProcess[str]


def find_tools() -> list[Path]:
    """Every companion tool: each Python file under scripts/ but for the kit, tests and examples."""
    others = {"kit", "tests", "launchers"}
    found = (p for p in SCRIPTS.rglob("*.py") if not others & set(p.relative_to(SCRIPTS).parts))
    return sorted(found)


def heed_signals() -> None:
    """Have signals heeded that tests send. A shell that starts pytest in the background, or by
    nohup, has it ignore some, and what it starts as well."""
    usual = {signal.SIGINT: signal.default_int_handler, signal.SIGHUP: signal.SIG_DFL}
    for number, handler in usual.items():
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, handler)


def pytest_configure() -> None:
    heed_signals()


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """A test that asks for `tool` runs once for each tool, so that a new one is never forgotten."""
    if "tool" in metafunc.fixturenames:
        tools = find_tools()
        names = [tool.relative_to(SCRIPTS).as_posix() for tool in tools]
        metafunc.parametrize("tool", tools, ids=names)


@pytest.fixture(scope="session")
def tools() -> list[Path]:
    """Every companion tool."""
    return find_tools()


@pytest.fixture(scope="session")
def load_tool() -> Callable[[str], ModuleType]:
    """Import a tool from its path under scripts/, as a module of its own."""
    loaded: dict[str, ModuleType] = {}

    def load(name: str) -> ModuleType:
        if name not in loaded:
            path = SCRIPTS / name
            spec = importlib.util.spec_from_file_location(f"tool_{path.stem}", path)
            assert spec is not None
            assert spec.loader is not None
            module = importlib.util.module_from_spec(spec)
            sys.modules[spec.name] = module
            spec.loader.exec_module(module)
            loaded[name] = module
        return loaded[name]

    return load


@pytest.fixture(scope="module")
def module(request: pytest.FixtureRequest, load_tool: Callable[[str], ModuleType]) -> ModuleType:
    """The tool that the test file names in TOOL, as a module."""
    return load_tool(request.module.TOOL)


@pytest.fixture(scope="module")
def cluster(request: pytest.FixtureRequest) -> Iterator[Any]:
    """A Slurm of two nodes, with what the test file says in CLUSTER."""
    from slurm_cluster import open_cluster  # a plugin, which pytest imports itself

    with open_cluster(2, **getattr(request.module, "CLUSTER", {})) as opened:
        yield opened


@pytest.fixture(scope="session")
def run_tool() -> Callable[..., Completed]:
    """Run a tool as a reader does: the exit status, stdout and stderr."""

    def run(
        tool: Path | str, *arguments: str, environ: dict[str, str] | None = None, **options: Any
    ) -> Completed:
        return subprocess.run(
            [sys.executable, str(SCRIPTS / tool), *arguments],
            capture_output=True,
            text=True,
            timeout=options.pop("timeout", 300),
            env={**os.environ, **(environ or {})},
            check=False,
            **options,
        )

    return run


@pytest.fixture
def call_tool(
    load_tool: Callable[[str], ModuleType], monkeypatch: pytest.MonkeyPatch
) -> Callable[..., Completed]:
    """Run a tool within this process, which saves the start of another one and its import of
    torch; else as run_tool does. What the tool changes of the process is put back."""

    def call(tool: str, *arguments: str, environ: dict[str, str] | None = None) -> Completed:
        module, torch = load_tool(tool), sys.modules.get("torch")
        threads = torch.get_num_threads() if torch else None
        handlers = {number: signal.getsignal(number) for number in SIGNALS}
        out, err = io.TextIOWrapper(io.BytesIO()), io.TextIOWrapper(io.BytesIO())
        with monkeypatch.context() as patch, warnings.catch_warnings():
            warnings.simplefilter("default")
            warnings.simplefilter("ignore", ResourceWarning)  # a process that ends closes all
            for name, value in (environ or {}).items():
                patch.setenv(name, value)
            patch.setattr(sys, "argv", [str(SCRIPTS / tool), *arguments])
            try:
                with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
                    status = module.main(list(arguments))
            except SystemExit as ended:
                status = ended.code
            finally:
                for number, handler in handlers.items():
                    signal.signal(number, handler)
                if torch:
                    torch.set_num_threads(threads)
        texts = []
        for stream in (out, err):
            stream.seek(0)
            texts.append(stream.read())
        return subprocess.CompletedProcess([tool, *arguments], status or 0, *texts)

    return call


@pytest.fixture
def mount_tmpfs(tmp_path: Path) -> Iterator[Callable[[str], Path]]:
    """Mounts a file system in memory; skips where this machine lets nobody mount."""
    from needs import need  # a plugin, which pytest imports itself

    need("root")
    point = tmp_path / "disk"
    point.mkdir()

    def mount(options: str) -> Path:
        command = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(point)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            pytest.skip(f"no tmpfs can be mounted here: {done.stderr.strip()}")
        return point

    yield mount
    subprocess.run(["umount", "--lazy", str(point)], capture_output=True, check=False)


class Wires:
    """Network namespaces on one switch, each with a NIC of the same rate."""

    def __init__(self, count: int, rate: str) -> None:
        hold = ["setpriv", "--pdeathsig", "KILL", "unshare", "--net", "sh", "-c"]
        script = "ip link set lo up; echo ready; exec sleep 600"
        self.holders = [
            subprocess.Popen([*hold, script], stdout=subprocess.PIPE, text=True)
            for _ in range(count + 1)
        ]
        for holder in self.holders:
            assert holder.stdout is not None
            assert holder.stdout.readline() == "ready\n"
        self.run(count, "ip link add switch type bridge && ip link set switch up")
        for node in range(count):
            peer = self.holders[node].pid
            self.run(count, f"ip link add v{node} type veth peer name eth0 netns {peer} && "
                            f"ip link set v{node} master switch up")  # fmt: skip
            self.run(node, f"ip addr add 10.79.0.{node + 1}/24 dev eth0; ip link set eth0 up")
            self.limit(node, "add", rate)

    def enter(self, node: int, command: list[str]) -> list[str]:
        return ["nsenter", f"--target={self.holders[node].pid}", "--net", *command]

    def run(self, node: int, script: str) -> None:
        subprocess.run(self.enter(node, ["sh", "-ec", script]), check=True, timeout=30)

    def limit(self, node: int, what: str, rate: str) -> None:
        limit = f"rate {rate} burst 256kb latency 500ms"
        self.run(node, f"tc qdisc {what} dev eth0 root handle 1: tbf {limit}")

    def play(self, tool: Path, *options: str) -> list[Completed]:
        """A rank of the tool in each namespace, on its CPU."""
        count = len(self.holders) - 1
        ranks = []
        for node in range(count):
            place = {"RANK": node, "WORLD_SIZE": count, "LOCAL_RANK": 0, "MASTER_PORT": 29511}
            environ = {**os.environ, **{name: str(value) for name, value in place.items()}}
            environ |= {"MASTER_ADDR": "10.79.0.1", "GLOO_SOCKET_IFNAME": "eth0"}
            environ["OMP_NUM_THREADS"] = "1"
            command = self.enter(node, [sys.executable, str(tool), "--device", "cpu", *options])
            pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
            ranks.append(subprocess.Popen(command, env=environ, **pipes))
        texts = [rank.communicate(timeout=400)[0] for rank in ranks]
        return [
            subprocess.CompletedProcess(rank.args, rank.returncode, text)
            for rank, text in zip(ranks, texts, strict=True)
        ]


@pytest.fixture
def make_wires() -> Iterator[Callable[[int, str], Wires]]:
    """Start a network of so many nodes with NICs of a rate."""
    made: list[Wires] = []

    def make(count: int, rate: str) -> Wires:
        made.append(Wires(count, rate))
        return made[-1]

    yield make
    for holder in [holder for wires in made for holder in wires.holders]:
        holder.kill()
        holder.communicate()


def refuse_constant(name: str) -> None:
    """Raise on NaN, Infinity and -Infinity, which Python reads and JSON does not have."""
    raise ValueError(f"{name} is not JSON")


@pytest.fixture(scope="session")
def read_json() -> Callable[[Path], Any]:
    """Read a JSON file as strictly as another language would."""

    def read(path: Path) -> Any:
        return json.loads(path.read_text(encoding="utf-8"), parse_constant=refuse_constant)

    return read


@pytest.fixture
def run_json(
    run_tool: Callable[..., Completed], read_json: Callable[[Path], Any], tmp_path: Path
) -> Callable[..., Any]:
    """Run a tool as a reader does, and have it write JSON, which is the result's `document`."""

    def run(tool: Path | str, *arguments: str, **options: Any) -> Any:
        path = tmp_path / "out.json"
        done: Any = run_tool(tool, *arguments, "--json", str(path), **options)
        done.document = read_json(path) if path.exists() else None
        return done

    return run


@pytest.fixture
def torch_trap(tmp_path: Path) -> dict[str, str]:
    """An environment in which `import torch` fails loudly."""
    package = tmp_path / "trap" / "torch"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("raise ImportError('torch was imported')\n")
    return {"PYTHONPATH": str(package.parent)}
