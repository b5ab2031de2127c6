"""Clusters of the tests: nothing of them stays, however the tests end, and none meets another."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from cluster_traces import (
    Trace,
    find_leftovers,
    find_processes,
    find_shared,
    note_namespaces,
    wait_for_end,
)
from slurm_cluster import explain_refusal, skip_without_cluster

HERE = Path(__file__).resolve().parents[1]
ROOT = HERE.parents[1]

pytestmark = pytest.mark.nightly

SETTINGS = f"""
[pytest]
pythonpath = {HERE}
markers =
    slurm: starts a cluster
    nightly: starts real systems
addopts = --strict-markers -p no:cacheprovider -p no:randomly -ra
"""

# A cluster with a job on both nodes and a program on the login node, which have forgotten whose
# children they are. It stays until it is told how to end.
BUSY = """
import time
from pathlib import Path

from slurm_cluster import open_cluster

FORGETFUL = "env -i setsid sleep 600"


def test_busy():
    with open_cluster(2, accounting=HAS_ACCOUNTS) as cluster:
        cluster.start(FORGETFUL.split())
        cluster.ask("sbatch", "--nodes=2", "--output=/dev/null", f"--wrap=srun {FORGETFUL}")
        look = ["pgrep", "sleep"]
        cluster.wait_for(
            lambda: all(cluster.run(look, on=n).stdout.count("\\n") > 1 for n in cluster.nodes),
            "no job",
        )
        Path("partial").write_text(str(cluster.folder))
        Path("partial").rename("folder")
        while not Path("end").exists():
            time.sleep(0.02)
        assert Path("end").read_text() == "well"
"""

DAEMONS = {"munged", "slurmctld", "slurmd", "slurmstepd", "sleep"}
ACCOUNTING_DAEMONS = {"mariadbd", "slurmdbd"}

# One test leaves a process, of which the cluster knows nothing, on its network; the other one hides
# what it opens from whoever marks it.
CARELESS = """
import os
import subprocess
from slurm_cluster import open_cluster


def test_careless():
    with open_cluster(1) as cluster:
        login = f"--target={cluster.processes['login'].pid}"
        command = ["nsenter", login, "--net", "sleep", "600"]
        child = subprocess.Popen(command, env={"PATH": os.environ["PATH"]})
        cluster.wait_for(lambda: "sleep" in open(f"/proc/{child.pid}/comm").read(), "no sleep")
        print("child", child.pid)


def open_one():
    with open_cluster(1):
        pass


def test_hidden():
    open_one()
"""

TWO = """
import time
from pathlib import Path

import pytest
from slurm_cluster import open_cluster


@pytest.mark.parametrize("name", ["one", "other"])
def test_alone(name):
    with open_cluster(2) as cluster:
        job = cluster.ask("sbatch", "--parsable", "--nodes=2", f"--job-name={name}",
                          "--output=/dev/null", "--wrap=srun sleep 600").strip()
        cluster.wait_for(lambda: [j.state for j in cluster.queue()] == ["RUNNING"], "no job")
        Path(f"{name}.up").touch()
        cluster.wait_for(lambda: Path("one.up").exists() and Path("other.up").exists(), "alone")
        assert cluster.ask("squeue", "--noheader", "--format=%i %j").split() == [job, name]
        cluster.cut("node2")
        Path(f"{name}.cut").touch()
        cluster.wait_for(lambda: Path("one.cut").exists() and Path("other.cut").exists(), "alone")
        cluster.wait_for(lambda: cluster.state("node2").startswith("down"), "not missed", 60)
        cluster.restore("node2")
"""

PLANTED = """
import json, os, shutil, subprocess, sys, time
from pathlib import Path
from cluster_traces import Trace, find_leftovers, find_shared, note_namespaces

folder = Path(sys.argv[1])
def run(*command):
    subprocess.run(command, check=True)
for place in ("/run", "/sys/fs/cgroup"):
    run("mount", "-t", "tmpfs", "none", place)
run("ip", "link", "add", "node1", "type", "bridge")
trace = Trace(folder, find_shared())
folder.mkdir()
found = {"at first": find_leftovers(trace)}
shutil.rmtree(folder)
found["of the folder"] = find_leftovers(trace)

folder.mkdir()
(folder / "hosts").touch()
def start(*command, **environ):
    return subprocess.Popen(command, env={"PATH": os.environ["PATH"], **environ})
told = start("sleep", "600", SLURM_CONF=f"{folder}/slurm.conf")
hosts = f"mount --bind {folder}/hosts /etc/hosts && exec sleep 600"
inside = start("unshare", "--net", "--mount", "sh", "-c", hosts)
while Path(f"/proc/{inside.pid}/comm").read_text() != "sleep\\n":
    time.sleep(0.01)
guest = start("nsenter", f"--target={inside.pid}", "--net", "sleep", "600")
while Path(f"/proc/{guest.pid}/comm").read_text() != "sleep\\n":
    time.sleep(0.01)
trace = note_namespaces(trace)
shutil.rmtree(folder)
names = {told.pid: "told", inside.pid: "inside", guest.pid: "guest"}
def read():
    return [names.get(int(text.split()[2]), text) for text in find_leftovers(trace)]
found["of processes"] = read()
inside.kill()
inside.wait()
told.kill()
told.wait()
found["of a namespace"] = read()
guest.kill()
guest.wait()
found["of no process"] = read()

folder.mkdir()
run("mount", "-t", "tmpfs", "none", folder)
run("ip", "link", "add", "node2", "type", "veth", "peer", "name", "switch")
run("ip", "link", "add", "other", "type", "bridge")
run("ip", "netns", "add", "book")
Path("/sys/fs/cgroup/cpu/slurm/job_1").mkdir(parents=True)
found["of all"] = find_leftovers(trace)
print(json.dumps(found))
"""


def make_project(folder: Path, **texts: str) -> Path:
    """A folder of tests by their names, which pytest runs with the plugin of clusters."""
    (folder / "pytest.ini").write_text(SETTINGS)
    (folder / "conftest.py").write_text('pytest_plugins = ["slurm_cluster"]\n')
    for name, text in texts.items():
        (folder / f"test_{name}.py").write_text(text)
    return folder


def start_pytest(
    folder: Path, *arguments: str, before: tuple[str, ...] = (), **environ: str
) -> subprocess.Popen[str]:
    """pytest in a process of its own, as a person starts it."""
    kept = {name: text for name, text in os.environ.items() if not name.startswith("PYTEST_")}
    return subprocess.Popen(
        [*before, sys.executable, "-m", "pytest", *arguments],
        cwd=folder,
        env={**kept, "CI": "", "PYTHONDONTWRITEBYTECODE": "1", **environ},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def run_pytest(folder: Path, *arguments: str, **more: str) -> tuple[int, str]:
    """Exit status and output of pytest."""
    process = start_pytest(folder, *arguments, **more)
    out, _ = process.communicate(timeout=120)
    return process.returncode, out


def wait_until(holds: Callable[[], object], seconds: float = 60) -> bool:
    """Whether something came to hold in time."""
    deadline = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


def name_processes(folder: Path) -> set[str]:
    """The names of the processes of a cluster."""
    return {Path(f"/proc/{process}/comm").read_text().strip() for process in find_processes(folder)}


ENDS: Mapping[str, tuple[str, int | None, int]] = {
    "closed": ("well", None, 0),
    "failed": ("badly", None, 1),
    "interrupted": ("", signal.SIGINT, 2),
    "terminated": ("", signal.SIGTERM, -signal.SIGTERM),
    "killed": ("", signal.SIGKILL, -signal.SIGKILL),
    "killed with workers": ("", signal.SIGKILL, -signal.SIGKILL),
}
"""What the test in the subprocess is told, the signal it gets, and the status it ends with."""


@pytest.mark.slurm
@pytest.mark.parametrize("how", ENDS)
def test_nothing_of_a_cluster_stays(tmp_path: Path, how: str) -> None:
    """However the tests end that use a cluster, none of its processes, mounts, namespaces, links,
    control groups and files is there afterwards."""
    has_accounts = how == "killed"
    skip_without_cluster(accounting=has_accounts)
    before = find_shared()
    word, number, status = ENDS[how]
    workers = ("-n", "1") if how == "killed with workers" else ()
    test = BUSY.replace("HAS_ACCOUNTS", str(has_accounts))
    process = start_pytest(make_project(tmp_path, busy=test), "-v", *workers)
    try:
        assert wait_until(lambda: (tmp_path / "folder").exists() or process.poll() is not None)
        assert process.poll() is None, process.communicate()[0]
        folder = Path((tmp_path / "folder").read_text())
        trace = note_namespaces(Trace(folder, before))
        daemons = DAEMONS | (ACCOUNTING_DAEMONS if has_accounts else set())
        assert name_processes(folder) >= daemons
        assert len([name for name in trace.namespaces if name.startswith("net:")]) == 3
        assert len(find_leftovers(trace)) > len(DAEMONS)
        if number is None:
            (tmp_path / "partial").write_text(word)
            (tmp_path / "partial").rename(tmp_path / "end")
        else:
            process.send_signal(number)
        out, _ = process.communicate(timeout=60)
    finally:
        process.kill()
        process.communicate()
    assert process.returncode == status, out
    if process.returncode >= 0:
        assert find_leftovers(trace) == []
    # Nobody was there to wait for the end of it.
    assert wait_for_end(trace, 30) == []


@pytest.mark.needs("root", "unshare", "ip")
def test_whatever_stays_is_named(tmp_path: Path) -> None:
    """A process is found by what it was told, by its mounts and by its namespaces; mounts, links,
    control groups, named networks and files by their names. What was there before is no matter."""
    if refusal := explain_refusal():
        pytest.skip(f"namespaces need {refusal}")
    folder = tmp_path / "slurm-planted"
    command = ["unshare", "--net", "--mount", sys.executable, "-c", PLANTED, str(folder)]
    done = subprocess.run(
        command, env={**os.environ, "PYTHONPATH": str(HERE)}, capture_output=True, text=True,
        timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {
        "at first": [f"the folder {folder}"],
        "of the folder": [],
        "of processes": ["told", "inside", "guest"],
        "of a namespace": ["guest"],
        "of no process": [],
        "of all": [
            f"the mount {folder}",
            "the control group /sys/fs/cgroup/cpu/slurm",
            "the named network book",
            "the network link node2",
            "the network link switch",
            f"the folder {folder}",
        ],
    }


@pytest.mark.slurm
def test_a_run_that_leaves_something_fails(tmp_path: Path) -> None:
    """At its end a run of pytest names what its clusters have left; a test that opens a cluster
    unseen, and so without the mark, is told to carry it."""
    status, out = run_pytest(make_project(tmp_path, careless=CARELESS), "-rA")
    left = int(out.partition("\nchild ")[2].split()[0])
    os.kill(left, signal.SIGKILL)
    assert status == 1
    assert f"left of a Slurm cluster: the process {left} (sleep)\n" in out
    assert "\nthis test opens a cluster: mark it with pytest.mark.slurm\n" in out
    assert "1 failed, 1 passed, 1 error" in out


@pytest.mark.slurm
def test_clusters_do_not_meet(tmp_path: Path) -> None:
    """Two workers each have a cluster, at the same time and with the same names and addresses;
    each sees its own job alone, and loses its own node."""
    status, out = run_pytest(make_project(tmp_path, two=TWO), "-n", "2")
    assert status == 0, out
    assert "2 passed" in out
