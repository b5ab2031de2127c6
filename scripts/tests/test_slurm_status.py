"""slurm_status: what a real Slurm says about running, waiting, failed, array and dependent jobs."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from slurm_cluster import Cluster, open_cluster

SCRIPTS = Path(__file__).resolve().parent.parent
PATH = SCRIPTS / "training/slurm_status.py"


@pytest.fixture
def empty(cluster: Cluster) -> Iterator[Cluster]:
    """The cluster, with nothing in its queue before and after."""
    yield cluster
    for job in cluster.queue():
        cluster.ask("scancel", job.number)
    cluster.wait_for(lambda: not cluster.queue(), "a job stays in the queue")


def submit(cluster: Cluster, name: str, command: str, *options: str, user: int = 0) -> str:
    """Submit a job; its number."""
    become = ["setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups"] if user else []
    words = ["sbatch", "--parsable", f"--job-name={name}", "--output=/dev/null", "--chdir=/"]
    done = cluster.run([*become, *words, *options, f"--wrap={command}"], folder=Path("/"))
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def wait_for_state(cluster: Cluster, number: str, *states: str) -> None:
    cluster.wait_for(
        lambda: any(job.number == number and job.state in states for job in cluster.jobs()),
        f"job {number} is not {states}",
    )


def look(cluster: Cluster, *arguments: str | Path, env: dict[str, str] | None = None) -> Any:
    """Run the tool on the login node; its result, with the rows of the JSON by watch."""
    path = cluster.folder / "out.json"
    done = cluster.run([sys.executable, PATH, *arguments, "--json", path], env=env)
    assert "Traceback" not in done.stderr, done.stderr
    done.rows = {row["watch"]: row for row in json.loads(path.read_text())["results"]}
    return done


@pytest.mark.nightly
def test_every_state_of_a_real_queue(empty: Cluster) -> None:
    """Running, an array, a dependency, one that can never be met, held, later, failed."""
    cluster = empty
    failed = submit(cluster, "fails", "exit 3")
    train = submit(cluster, "train-1", "sleep 300")
    array = submit(cluster, "arr", "sleep 300", "--array=1-6%1")
    dependent = submit(cluster, "dep", "true", f"--dependency=afterok:{train}")
    submit(cluster, "never", "true", f"--dependency=afterok:{failed}")
    submit(cluster, "held", "true", "--hold")
    submit(cluster, "later", "true", "--begin=now+3600")
    wait_for_state(cluster, f"{array}_1", "RUNNING")
    wait_for_state(cluster, train, "RUNNING")
    cluster.wait_for(
        lambda: any(job.reason == "DependencyNeverSatisfied" for job in cluster.queue()),
        "Slurm does not see what has failed",
    )
    names = ("train-.*", "arr", "dep", "never", "held", "later", "fails", "train")
    asked = [word for name in names for word in ("--name", name)]
    done = look(cluster, *asked, env={"SQUEUE_STATES": "CANCELLED", "SQUEUE_FORMAT": "%i"})
    keys = ("state", "running", "pending", "job", "reason")
    seen = {name: tuple(row[key] for key in keys) for name, row in done.rows.items()}
    assert done.returncode == 1
    assert done.rows["train-.*"]["end_seconds"] > 3600
    assert 3000 < done.rows["later"]["start_seconds"] <= 3600
    assert done.rows["dep"]["dependency"] == f"afterok:{train}(unfulfilled)"
    assert (done.rows["fails"]["last_job"], done.rows["fails"]["last_state"]) == (failed, "FAILED")
    assert seen["train-.*"] == ("running", 1, 0, train, "")
    assert seen["arr"][:4] == ("running", 1, 1, f"{array}_1")
    assert seen["dep"] == ("pending", 0, 1, dependent, "Dependency")
    assert seen["never"][::4] == ("stuck", "DependencyNeverSatisfied")
    assert seen["held"][::4] == ("stuck", "JobHeldUser")
    assert seen["later"][::4] == ("pending", "BeginTime")
    assert seen["fails"][0] == seen["train"][0] == "missing"


@pytest.mark.nightly
def test_what_sacct_remembers_and_whose_jobs() -> None:
    """A job that the controller has forgotten, with its exit code; jobs of other users only where
    they are asked for."""
    with open_cluster(1, accounting=True, settings=("MinJobAge=2",)) as cluster:
        number = submit(cluster, "gone", "exit 7")
        other = submit(cluster, "theirs", "sleep 300", user=65534)
        wait_for_state(cluster, other, "RUNNING")
        cluster.wait_for(
            lambda: (
                not any(job.number == number for job in cluster.jobs())
                and look(cluster, "--name", "gone").rows["gone"]["last_state"]
            ),
            "the controller does not forget, or the accounts do not know it",
        )
        row = look(cluster, "--name", "gone").rows["gone"]
        last = (row["last_job"], row["last_state"], row["last_exit_code"])
        assert last == (number, "FAILED", "7:0")
        for arguments, code in (
            ((), 1),
            (("--user", "nobody"), 0),
            (("--group", "nogr.*"), 0),
            (("--user", "nobod"), 1),
        ):
            assert look(cluster, "--name", "theirs", *arguments).returncode == code, arguments


@pytest.mark.nightly
def test_alerts_once_per_change(empty: Cluster, tmp_path: Path) -> None:
    """Missing, stuck and good again; a Slurm that does not answer at the second time; a pulse for
    each look."""
    cluster = empty
    config, log = tmp_path / "watch.toml", tmp_path / "main.log"
    config.write_text('title = "x"\n[[job]]\nname = "train"\nlabel = "my train"\n')
    elsewhere = tmp_path / "slurm.conf"
    conf = (cluster.folder / "slurm.conf").read_text()
    elsewhere.write_text(f"{conf}\nSlurmctldPort=1\n")

    def find_alerts(**environ: str) -> list[str]:
        lines = look(cluster, config, "--log", log, env=environ).stdout.splitlines()
        return [line.removeprefix("ALERT x: my train: ") for line in lines if "ALERT" in line]

    number = submit(cluster, "train", "sleep 300")
    wait_for_state(cluster, number, "RUNNING")
    assert find_alerts() == []
    cluster.ask("scancel", number)
    wait_for_state(cluster, number, "CANCELLED")
    (alert,) = find_alerts()
    assert alert.startswith(f"MISSING: no job runs or waits; the last was {number}: CANCELLED")
    assert find_alerts() == []
    held = submit(cluster, "train", "true", "--hold")
    (alert,) = find_alerts()
    assert alert.startswith(f"STUCK: job {held} is PENDING, JobHeldUser; scontrol release")
    number = submit(cluster, "train", "sleep 300")
    wait_for_state(cluster, number, "RUNNING")
    assert find_alerts() == [f"ok again: job {number} is RUNNING"]
    counts = [len(find_alerts(SLURM_CONF=str(elsewhere))) for _ in range(3)]
    assert counts == [0, 1, 0]
    states = [json.loads(line)["state"] for line in log.read_text().splitlines()]
    assert states == ["running", "missing", "missing", "stuck", "running", *["unknown"] * 3]
