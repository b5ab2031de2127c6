"""Runs on a cluster: the texts of a job, and a real Slurm of two nodes that runs them."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from bindery.core.model import ConfigError
from bindery.evidence.records import Record, parse_record
from bindery.runs.jobs import Job, Request, parse_sweep, spread_tasks, write_texts
from bindery.runs.plan_run import Plan, ToolFacts, plan_run
from bindery.runs.slurm_run import write_run
from bindery.tools.bundle import bundle_tool
from fixture_types import BookMaker
from slurm_cluster import Cluster, open_cluster

ROOT = Path(__file__).resolve().parents[3]
TOOLS = Path(__file__).resolve().parents[1] / "fixtures" / "slurm"
EXTRA = """tools:
  env_report: {path: scripts/env_report.py, output: shape}
  counter: {path: scripts/counter.py, output: measured}
  reduce_bench: {path: scripts/reduce_bench.py, output: measured}
"""


# --- the texts of a job ---


TOOL = ToolFacts("counter", "scripts/counter.py", "0.1.0", 1, "0" * 64, {}, {}, {})


def make_job(folder: Path, *tasks: tuple[str, ...], ranks: int = 0) -> Job:
    plan = Plan(folder, TOOL, TOOL, "demo", (), None)
    keeps = ("PATH", "LC_*", "SLURM_*")
    return Job(folder, plan, tasks or ((),), ranks, ("LANG", "PATH"), keeps, {"NO_COLOR": "1"})


def list_directives(job: Job, request: Request) -> list[str]:
    lines = write_texts(job, request)["job.sbatch"].splitlines()
    return [line.removeprefix("#SBATCH ") for line in lines if line.startswith("#SBATCH")]


def test_a_sweep_is_every_combination_and_a_repeat_every_one_again() -> None:
    """The tasks of a job are the product of its sweeps, each as often as it is repeated."""
    sweeps = [parse_sweep("size=1,2"), parse_sweep("--dtype=bf16, fp8")]
    assert sweeps[1] == ("dtype", ("bf16", "fp8"))
    assert spread_tasks(sweeps, 1) == (
        ("--size", "1", "--dtype", "bf16"),
        ("--size", "1", "--dtype", "fp8"),
        ("--size", "2", "--dtype", "bf16"),
        ("--size", "2", "--dtype", "fp8"),
    )
    assert spread_tasks(sweeps[:1], 2) == (("--size", "1"),) * 2 + (("--size", "2"),) * 2
    assert spread_tasks([], 3) == ((), (), ())


def test_the_batch_file_asks_for_what_was_asked() -> None:
    """Each part of a request is one option of sbatch; what was not asked for is not there."""
    job = make_job(Path("/shared/100% runs"), ("--size", "1"), ("--size", "2"))
    request = Request(
        seconds=600,
        log_bytes=1000,
        nodes=4,
        cpus=8,
        gpus=2,
        memory_bytes=3 * 1024**3 + 1,
        partition="h100",
        account="research",
        qos="high",
        options=("--constraint=nvme",),
    )
    assert list_directives(job, request) == [
        "--job-name=counter",
        "--nodes=4",
        "--ntasks-per-node=1",
        "--time=13",
        "--signal=TERM@60",
        "--no-requeue",
        "--export=LANG,PATH",
        "--output='/shared/100%% runs/slurm_%A_%a.out'",
        "--cpus-per-task=8",
        "--gpus-per-node=2",
        "--mem=3145729K",
        "--partition=h100",
        "--account=research",
        "--qos=high",
        "--array=0-1",
        "--constraint=nvme",
    ]
    plain = list_directives(make_job(Path("/shared/run")), Request(seconds=60, log_bytes=1000))
    assert not any(text.startswith(("--gpus", "--array", "--partition")) for text in plain)


def test_containers_are_entered_on_the_nodes() -> None:
    """Pyxis gets image and mount as options of srun; apptainer is started by a script, with the
    drivers of the node. Only the texts are looked at: neither runs here."""
    job = make_job(Path("/shared/run"))
    pyxis = Request(seconds=60, log_bytes=1000, container="nvcr.io#a/b:1", runtime="pyxis")
    texts = write_texts(job, pyxis)
    assert texts["job.sbatch"].splitlines()[-1] == (
        "exec srun --export=ALL --kill-on-bad-exit=1 '--container-image=nvcr.io#a/b:1'"
        " --container-mounts=/shared/run:/shared/run bash /shared/run/node.sh"
    )
    assert "python=python3\n" in texts["node.sh"]
    assert "unset" not in texts["node.sh"], "a container's own variables are part of it"
    apptainer = Request(seconds=60, log_bytes=1000, container="/i m.sif", runtime="apptainer")
    texts = write_texts(job, apptainer)
    assert texts["job.sbatch"].splitlines()[-1].endswith(" bash /shared/run/enter.sh")
    assert texts["enter.sh"].splitlines()[-1] == (
        "exec apptainer exec \"${options[@]}\" --bind /shared/run '/i m.sif'"
        " bash /shared/run/node.sh"
    )


@pytest.mark.needs("shellcheck")
@pytest.mark.parametrize("ranks", [0, 8])
def test_shellcheck_has_nothing_to_say(tmp_path: Path, ranks: int) -> None:
    """The scripts of a job are clean shell."""
    job = make_job(tmp_path / "a run", ("--size", "it's"), (), ranks=ranks)
    request = Request(seconds=60, log_bytes=1000, container="a.sif", runtime="apptainer")
    for kind in (request, Request(seconds=60, log_bytes=1000)):
        texts = write_texts(job, kind)
        for name, text in texts.items():
            (tmp_path / name).write_text(text)
        found = subprocess.run(
            ["shellcheck", *texts], cwd=tmp_path, capture_output=True, text=True, check=False
        )
        assert found.stdout == ""


def test_a_node_runs_the_tool_in_a_clean_environment(tmp_path: Path) -> None:
    """Arguments are left alone, whatever is in them. Variables that are not named stay behind; home
    and temporary files are in a folder that is gone when the tool has ended."""
    folder, echo = tmp_path / "a $run", tmp_path / "echo.sh"
    (folder / "task_0").mkdir(parents=True)
    echo.write_text('#!/bin/bash\nprintf "%s\\0" "$@"\nprintf "\\0"\nenv -0\n')
    echo.chmod(0o755)
    arguments = ("--size", 'it\'s "$HOME"\n', "*", "\\", "模型")
    request = Request(seconds=60, log_bytes=100_000, python=str(echo))
    (folder / "node.sh").write_text(write_texts(make_job(folder, arguments), request)["node.sh"])
    environment = {
        "PATH": os.environ["PATH"],
        "LC_TIME": "C",
        "SECRET": "a\nb",
        "HTTP_PROXY": "x",
        "SLURM_NODEID": "0",
        "SLURM_JOB_ID": "7",
        "SLURM_JOB_NUM_NODES": "1",
        "RENDEZVOUS": "node1",
    }
    subprocess.run(["bash", folder / "node.sh"], env=environment, check=True)
    log = (folder / "task_0/node_0/run.log").read_bytes().decode()
    called, _, rest = log.partition("\0\0")
    results = str(folder / "task_0/results.json")
    assert called.split("\0") == [str(folder / "counter.py"), *arguments, "--json", results]
    variables = dict(entry.split("=", 1) for entry in rest.split("\0") if entry)
    assert set(variables) - {"_", "SHLVL", "PWD", "OLDPWD"} == {
        *("PATH", "LC_TIME", "NO_COLOR", "HOME", "TMPDIR"),
        *("SLURM_NODEID", "SLURM_JOB_ID", "SLURM_JOB_NUM_NODES"),
    }
    assert variables["HOME"] == variables["TMPDIR"] == variables["PWD"]
    assert not Path(variables["HOME"]).exists()


# --- what makes no sense ---


@pytest.fixture
def book(make_book: BookMaker) -> Path:
    scripts = ROOT / "scripts"
    files = {
        "scripts/env_report.py": scripts / "env_report.py",
        "scripts/counter.py": TOOLS / "counter.py",
        "scripts/reduce_bench.py": TOOLS / "reduce_bench.py",
    }
    texts = {
        name: bundle_tool(str(path), lambda p: Path(p).read_text()) for name, path in files.items()
    }
    return make_book({"README.md": "# Preface\n", **texts}, extra=EXTRA)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["counter", "--nodes", "2"], "--nodes is for runs on a cluster"),
        (["counter", "--on", "slurm", "--nodes", "2"], "cannot use 2 nodes"),
        (["counter", "--on", "slurm", "--sweep", "steps"], "'steps' is not a sweep"),
        (["counter", "--on", "slurm", "--sweep", "n="], "the sweep of 'n' has an empty value"),
        (["counter", "--on", "slurm", "--sweep", "n=1,1"], "the sweep of 'n' repeats a value"),
        (["counter", "--on", "slurm", "--container", "a.sif"], "must be given together"),
        (["counter", "--on", "slurm", "--sbatch", "C=x"], "'C=x' is not an sbatch option"),
        (["--collect", "scripts"], "'scripts' is not a run folder"),
        ([], "no tool is named"),
    ],
)
def test_wrong_use_is_told_before_anything_is_made(
    book: Path, run_bindery: Any, arguments: list[str], message: str
) -> None:
    """An option that makes no sense is an error of one line, and leaves nothing."""
    ended = run_bindery("run", *arguments, folder=book)
    assert ended.status == 2, ended.stderr
    assert message in ended.stderr
    assert not (book / "dist").exists()


def test_a_rank_for_each_accelerator_needs_their_number(book: Path) -> None:
    """The login node cannot know how many accelerators a node has."""
    tool = book / "scripts" / "counter.py"
    tool.write_text(tool.read_text() + '\nRANKS = {"demo": "accelerators"}\n')
    plan = plan_run(book, "counter", "demo")
    with pytest.raises(ConfigError, match="starts one rank per accelerator"):
        write_run(plan, Request(seconds=60, log_bytes=1000))
    job = write_run(plan, Request(seconds=60, log_bytes=1000, gpus=4))
    assert "--nproc-per-node 4" in (job.folder / "node.sh").read_text()


# --- a real cluster ---


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    with open_cluster(2, gpus=2) as running:
        yield running


class Login:
    """A user on the login node, in the folder of a book."""

    def __init__(self, cluster: Cluster, book: Path, environment: dict[str, str]) -> None:
        self.cluster = cluster
        self.book = book
        self.environment = environment

    def run(self, *arguments: str) -> tuple[int, str, str]:
        """`bindery run` to its end."""
        ended = self.cluster.run(
            self._complete(arguments), folder=self.book, env=self.environment, timeout=120
        )
        return ended.returncode, ended.stdout, ended.stderr

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        return self.cluster.start(self._complete(arguments), folder=self.book, env=self.environment)

    def records(self) -> list[dict[str, Any]]:
        """The records of the book, each of which has to be valid and to have its log."""
        found = []
        for path in sorted((self.book / "scripts/records").rglob("*.json")):
            record = parse_record(path.name, path.read_text())
            assert isinstance(record, Record), record
            assert record.log is not None
            assert (path.parent / record.log).exists()
            found.append(json.loads(path.read_text()))
        return found

    def folder(self) -> Path:
        """The folder of the only run."""
        (folder,) = (self.book / "dist/runs").iterdir()
        return folder

    def wait_for_results(self, tasks: int = 1) -> None:
        self.cluster.wait_for(
            lambda: len(list(self.book.glob("dist/runs/*/task_*/results.json"))) == tasks,
            "no results",
            60,
        )

    def _complete(self, arguments: tuple[str, ...]) -> list[str]:
        return [sys.executable, "-m", "bindery", "run", *arguments]


@pytest.fixture
def login(cluster: Cluster, book: Path, child_environment: dict[str, str]) -> Iterator[Login]:
    yield Login(cluster, book, child_environment)
    for job in cluster.queue():
        # At once: a tool that is told to end may take all of KillWait for it.
        cluster.run(["scancel", "--full", "--signal=KILL", job.number])
        cluster.run(["scancel", job.number])
    cluster.wait_for(lambda: not cluster.queue(), "a job stays in the queue")


@pytest.mark.torch
def test_a_run_over_two_nodes_leaves_one_record(login: Login) -> None:
    """Ranks on two nodes meet, and the facts of both nodes are in one record."""
    status, out, err = login.run("reduce_bench", "--on", "slurm", "--nodes", "2")
    assert (status, err.splitlines()[-1]) == (0, "completed on node[1-2]"), err
    (record,) = login.records()
    assert out == f"recorded scripts/records/reduce_bench/{record['log'][:-4]}.json\n"
    assert (record["nodes"], record["ranks"], record["ended"]) == (2, 2, "done")
    assert record["complete"] is True
    assert record["details"] == {"ranks": 2, "hosts": 2}
    assert record["machine"]["slurm"]["nodes"] == 2
    assert record["command"] == [
        *("python", "-m", "torch.distributed.run", "--nnodes", "2", "--nproc-per-node", "1"),
        *("scripts/reduce_bench.py", "--rounds", "5"),
    ]
    log = next((login.book / "scripts/records").rglob("*.log")).read_text()
    assert "rank 0 of 2" in log
    assert str(login.book) not in json.dumps(record) + log


@pytest.mark.parametrize("how", [pytest.param("ctrl-c", marks=pytest.mark.torch), "scancel"])
def test_a_run_that_is_cancelled_leaves_a_partial_record(login: Login, how: str) -> None:
    """Ctrl-C cancels the job; what the tool has by then is kept, and marked, also where somebody
    else cancels it."""
    several = ("reduce_bench", "--nodes", "2") if how == "ctrl-c" else ("counter",)
    bindery = login.start(*several, "--on", "slurm", "--profile", "long")
    login.wait_for_results()
    if how == "scancel":
        login.cluster.ask("scancel", login.cluster.queue()[0].number)
    else:
        bindery.send_signal(signal.SIGINT)
    out, err = bindery.communicate(timeout=60)
    assert bindery.returncode == 1, err
    (record,) = login.records()
    assert (record["ended"], record["complete"]) == ("cancelled", False)
    assert record["results"]
    assert out.startswith("recorded scripts/records/")
    assert f"error[failed-run]: '{several[0]}' was cancelled\n" in err
    assert "its results so far are in 'scripts/records/" in err
    assert login.cluster.queue() == []


@pytest.mark.torch
def test_a_node_that_dies_is_named(login: Login) -> None:
    """Where a node dies in mid-run, bindery says which, keeps what was measured, and comes to an
    end although ranks still wait for the dead one."""
    bindery = login.start("reduce_bench", "--nodes", "2", "--on", "slurm", "--profile", "long")
    login.wait_for_results()
    login.cluster.cut("node2")
    try:
        _, err = bindery.communicate(timeout=90)
    finally:
        login.cluster.restore("node2")
    assert bindery.returncode == 1
    message = "error[failed-run]: 'reduce_bench' lost a node: node2 (Not responding)\n"
    assert message in err
    (record,) = login.records()
    assert (record["ended"], record["complete"], record["nodes"]) == ("node-failure", False, 2)
    assert record["exit_status"] != 0


def test_a_task_that_fails_does_not_take_the_others_along(login: Login) -> None:
    """Each task ends for itself: with its results, with a status, by a signal, or by its limit."""
    status, out, err = login.run(
        "counter", "--on", "slurm", "--output", "50KiB",
        "--sweep", "end=well,status,signal,chatter", "--", "--pause", "0.2",
    )  # fmt: skip
    assert status == 1, err
    assert out.count("recorded ") == 3
    endings = {record["ended"]: record for record in login.records()}
    assert set(endings) == {"done", "crashed", "output"}
    assert endings["crashed"]["exit_status"] == -9
    for message in (
        "'counter' --end status (task 1) ended with status 1 and left no results\n",
        "'counter' --end signal (task 2) was ended by the signal SIGKILL\n",
        "'counter' --end chatter (task 3) was stopped: it printed more than 0.05 MiB\n",
    ):
        assert f"error[failed-run]: {message}" in err
    log = login.folder() / "task_1/node_0/run.log"
    assert log.read_text() == "cannot count here\n"
    assert f"its log: '{log.relative_to(login.book)}'" in err


def test_a_run_ends_when_its_time_is_up(login: Login) -> None:
    """The limit holds to the second, although Slurm counts in minutes; what the tool has is
    kept."""
    arguments = ("--on", "slurm", "--profile", "long", "--timeout", "2")
    status, _, err = login.run("counter", *arguments)
    assert status == 1
    assert "'counter' was stopped after its limit of 2 s\n" in err
    (record,) = login.records()
    assert (record["ended"], record["complete"]) == ("timeout", False)
    assert record["seconds"] >= 1


def test_a_run_can_be_collected_later(login: Login) -> None:
    """What was not waited for is collected when it has ended, once, though asked for twice, and
    though Slurm has forgotten the job."""
    status, out, err = login.run("counter", "--on", "slurm", "--no-wait", "--", "--pause", "1")
    assert (status, out) == (0, "")
    folder = str(login.folder().relative_to(login.book))
    assert err.endswith(f"bindery run --collect {folder}\n")
    status, out, err = login.run("--collect", folder)
    assert (status, out) == (1, "")
    assert "'counter' has not ended: it is " in err
    assert f"collect it later: `bindery run --collect {folder}`" in err
    login.cluster.wait_for(lambda: not login.cluster.queue(), "the job does not end")
    (login.folder() / "job").write_text("999999\n")  # a number that Slurm does not know
    first = login.run("--collect", folder)
    second = login.run("--collect", folder)
    (record,) = login.records()
    path = f"scripts/records/counter/{record['log'][:-4]}.json"
    assert first == second == (0, f"recorded {path}\n", "")


def test_accounting_knows_what_slurm_has_forgotten(
    book: Path, child_environment: dict[str, str]
) -> None:
    """Where the cluster keeps accounts, a run is judged by them, however long ago it ended."""
    with open_cluster(1, accounting=True, settings=("MinJobAge=2",)) as accounted:
        login = Login(accounted, book, child_environment)
        login.run("counter", "--on", "slurm", "--no-wait", "--profile", "long", "--repeat", "2")
        login.wait_for_results(2)
        accounted.ask("scancel", accounted.queue()[0].number.partition("_")[0])
        accounted.wait_for(lambda: not accounted.jobs(), "Slurm does not forget", 60)
        status, _, err = login.run("--collect", str(login.folder()))
    assert status == 1
    assert "'counter' (task 1) was cancelled" in err
    assert [record["ended"] for record in login.records()] == ["cancelled"] * 2


def test_the_batch_file_can_be_submitted_by_hand(login: Login) -> None:
    """job.sbatch is a plain file for sbatch, and the run that it starts can be collected."""
    plan = plan_run(login.book, "counter", "demo")
    job = write_run(plan, Request(seconds=60, log_bytes=10_000, python=sys.executable))
    folder = str(job.folder.relative_to(login.book))
    status, _, err = login.run("--collect", folder)
    assert status == 1
    assert f"submit it with `sbatch {folder}/job.sbatch`" in err
    login.cluster.ask("sbatch", "--wait", str(job.folder / "job.sbatch"))
    status, _, err = login.run("--collect", folder)
    assert status == 0, err
    assert [record["ended"] for record in login.records()] == ["done"]


def test_an_impossible_request_is_told_in_slurms_words(login: Login) -> None:
    """What no partition has ends at once, and nothing of it stays in the queue or on disk."""
    status, out, err = login.run("counter", "--on", "slurm", "--gpus", "3")
    assert (status, out) == (1, "")
    assert "Slurm rejected the run of 'counter': Batch job submission failed: " in err
    assert "sinfo" in err
    assert login.cluster.queue() == []
    assert list((login.book / "dist/runs").iterdir()) == []
