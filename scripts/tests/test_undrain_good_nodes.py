"""undrain_good_nodes: what Slurm has drained is looked at, ended and resumed, and nothing is done
unless it is asked for."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from slurm_cluster import Cluster

SCRIPTS = Path(__file__).resolve().parent.parent
TOOL = "orchestration/undrain_good_nodes.py"


def make_process(pid: int, name: str, **more: Any) -> dict[str, Any]:
    process = {"pid": pid, "name": name, "state": "S", "uid": 0, "job": "",
               "started": 5, "seconds": 1.0, "gpu": False, "command": name}  # fmt: skip
    return process | more


def make_answer(*processes: dict[str, Any]) -> dict[str, Any]:
    """What the probe prints on a node with services and with the tool's own ssh session."""
    base = [
        make_process(1, "systemd"), make_process(50, "slurmd"), make_process(800, "sshd"),
        make_process(850, "sshd", uid=1000), make_process(900, "python3", uid=1000),
        make_process(70, "systemd", uid=1000), make_process(72, "dnsmasq", uid=65534),
        make_process(90, "slurmstepd", command="/usr/sbin/slurmstepd infinity"),
    ]  # fmt: skip
    return {"me": 900, "processes": [*base, *processes]}


@pytest.mark.parametrize(
    ("processes", "verdict"),
    [
        ([], "clean"),
        ([make_process(99, "nv-hostengine", gpu=True)], "clean"),
        ([make_process(99, "python", uid=1000, state="Z")], "clean"),
        ([make_process(99, "python", uid=1000)], "leftovers"),
        ([make_process(99, "sh", job="7")], "leftovers"),
        ([make_process(99, "sh", job="7", state="D")], "stuck"),
    ],
)
def test_verdicts(module: ModuleType, processes: list[dict[str, Any]], verdict: str) -> None:
    """Processes of users and jobs count; not services, logins, this tool, and what has ended."""
    left = module.choose_left(make_answer(*processes))
    assert left == (processes if verdict != "clean" else [])
    assert module.judge(left)[0] == verdict


@pytest.mark.parametrize(
    ("state", "script", "advice"),
    [
        ("drained*", "true", "slurmd does not respond"),
        ("drained", "exec sleep 60", "no answer within 500 ms"),
        ("drained", "echo no such host >&2; exit 255", "no such host"),
        ("drained", "echo banner", "its answer is cut off"),
    ],
)
def test_nodes_that_cannot_be_looked_at(
    module: ModuleType, monkeypatch: pytest.MonkeyPatch, state: str, script: str, advice: str
) -> None:
    """Down, hanging and unreachable nodes: a verdict, and no numbers."""
    monkeypatch.setattr(module, "TIMEOUT_SECONDS", 0.5)
    node = module.Node("n1", state, "before", module.REASON)
    row = module.treat_node(node, ("sh", "-c", script), False, True)
    assert (row["verdict"], row["advice"], row["processes"]) == ("no answer", advice, None)


# Takes a name with an end of line in it.
NAMED = "import ctypes, time; ctypes.CDLL(None).prctl(15, b'a\\n) Z 1', 0, 0, 0); "
NAMED += "print('named', flush=True); time.sleep(60)"


def test_a_process_is_ended_only_if_it_is_the_one_that_was_seen(module: ModuleType) -> None:
    """Whatever it calls itself; the number of a process that ended may belong to another one."""
    child = subprocess.Popen(
        [sys.executable, "-c", NAMED], env={**os.environ, "SLURM_JOB_ID": "1"},
        stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        assert child.stdout is not None
        assert child.stdout.readline() == "named\n"
        (seen,) = [one for one in module.look_at("", ())[0] if one["pid"] == child.pid]
        assert module.look_at("", (), [{**seen, "started": seen["started"] + 1}])[1] == 0
        assert child.poll() is None
        left, killed = module.look_at("", (), [seen])
        assert (killed, [one for one in left if one["pid"] == child.pid]) == (1, [])
        assert child.wait(timeout=10) == -signal.SIGTERM
    finally:
        child.kill()
        child.communicate(timeout=10)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        # An empty variable does not mean all nodes.
        (("--nodes", "", "--kill", "--undrain"), "is not a node list"),
        (("--connect", "ssh gateway"), "names no node: write {node} in it"),
        ((), "there is no sinfo here: run this where Slurm's commands are"),
    ],
)
def test_wrong_use(
    call_tool: Callable[..., Any], module: ModuleType, monkeypatch: pytest.MonkeyPatch,
    arguments: tuple[str, ...], message: str,
) -> None:  # fmt: skip
    """One line, before any node is touched."""
    monkeypatch.setattr(module, "treat_node", None)
    with pytest.raises(module.UsageError, match=re.escape(message)):
        call_tool(TOOL, *arguments, environ={"PATH": "/none"})


def test_what_is_left_is_ended_only_when_asked(
    cluster: Cluster, module: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A user's process that ignores SIGTERM is named and stays until --kill; other nodes and other
    reasons are respected, also one that is given in the meantime."""
    # The remote shell enters the namespaces of the node.
    first = cluster.processes["node2"].pid
    target = Path(f"/proc/{first}/task/{first}/children").read_text().split()[0]
    reach = f"nsenter --target={target} --net --uts --mount --pid env --unset=SLURM_JOB_ID"

    def run(*arguments: str) -> tuple[int, str, str]:
        tool = [sys.executable, SCRIPTS / TOOL, "--connect", f"{reach} NODE={{node}}"]
        done = cluster.run([*tool, *arguments])
        return done.returncode, done.stdout, done.stderr

    def drain(reason: str) -> None:
        command = ("scontrol", "update", "nodename=node2", "state=drain", f"reason={reason}")
        cluster.ask(*command)
        cluster.wait_for(lambda: cluster.state("node2") == "drained", "it is not drained")

    code = "import signal, time; signal.signal(15, signal.SIG_IGN); print(1, flush=True)"
    command = ["setpriv", "--reuid=4242", "--clear-groups", sys.executable, "-c"]
    script = 'nohup "$@" > "$0" 2> /dev/null & until test -s "$0"; do sleep 0.1; done; echo $!'
    left = ["sh", "-c", script, tmp_path / "up", *command, f"{code}; time.sleep(600)"]
    number = cluster.run(left, on="node2").stdout.strip()
    alive = ["test", "-d", f"/proc/{number}/fd"]
    drain("Kill task failed")
    status, out, notes = run("--undrain")
    assert (status, "leftovers" in out) == (1, True), out + notes
    assert re.search(f"node2: {number} of job -, user 4242, state [RS]", notes), notes
    notes = 'no node is drained for "Kill task failed"\n'
    assert run("--nodes", "node1", "--kill", "--undrain") == (0, "", notes)
    drain("Kill task failed, and a bad disk")
    assert run("--kill", "--undrain") == (0, "", notes)
    assert cluster.run(alive, on="node2").returncode == 0
    drain("Kill task failed")
    status, out, notes = run("--kill", "--undrain")
    assert (status, "undrained" in out) == (0, True), out + notes
    assert cluster.run(alive, on="node2").returncode == 1
    cluster.wait_for(lambda: cluster.state("node2") == "idle", "it is not resumed")

    # The commands are real; they are only started on the login node.
    monkeypatch.setattr(module, "call_slurm", lambda *command: cluster.ask(*command))
    drain("Kill task failed")
    (node,) = module.list_nodes(["node2"])
    drain("bad disk")
    assert module.undrain(node) == "its state or reason changed in the meantime"
    assert cluster.state("node2") == "drained"
