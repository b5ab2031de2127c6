"""slurm_status: what a real Slurm says of running, waiting, failed, array and dependent jobs."""

from __future__ import annotations

import email
import email.policy
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from slurm_cluster import Cluster, open_cluster

SCRIPTS = Path(__file__).resolve().parent.parent
TOOL = "training/slurm_status.py"
PATH = SCRIPTS / TOOL


@pytest.fixture(scope="module")
def status(load_tool: Callable[[str], ModuleType]) -> ModuleType:
    """The tool as a module."""
    return load_tool(TOOL)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """Two nodes with accounting, whose controller soon forgets a job that has ended."""
    with open_cluster(2, accounting=True, settings=("MinJobAge=2",)) as opened:
        yield opened


@pytest.fixture
def empty(cluster: Cluster) -> Iterator[Cluster]:
    """The cluster, with nothing in its queue before and after."""
    yield cluster
    for job in cluster.queue():
        cluster.ask("scancel", job.number)
    cluster.wait_for(lambda: not cluster.queue(), "a job stays in the queue")


def submit(cluster: Cluster, name: str, command: str, *options: str, user: int = 0) -> str:
    """Submit a job; its number."""
    become = (
        [] if user == 0 else ["setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups"]
    )
    words = ["sbatch", "--parsable", f"--job-name={name}", "--output=/dev/null", "--chdir=/"]
    done = cluster.run([*become, *words, *options, f"--wrap={command}"], folder=Path("/"))
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def wait_for_state(cluster: Cluster, number: str, *states: str) -> None:
    def is_there() -> bool:
        return any(job.number == number and job.state in states for job in cluster.jobs())

    cluster.wait_for(is_there, f"job {number} is not {states}")


def look(
    cluster: Cluster, *arguments: str | Path, env: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """A run of the tool on the login node, a process of its own each time."""
    done = cluster.run([sys.executable, PATH, *arguments], env=env)
    assert "Traceback" not in done.stderr, done.stderr
    return done


def read_rows(path: Path) -> dict[str, dict[str, Any]]:
    return {row["watch"]: row for row in json.loads(path.read_text())["results"]}


@pytest.mark.nightly
def test_every_state_of_a_real_queue(empty: Cluster, tmp_path: Path) -> None:
    """Running, an array, a dependency, one that can never be met, held, later, failed: each is what
    it is, by JSON and, where squeue has none, by its text."""
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
        "Slurm does not see that it can never start",
    )
    # The database hears of names some seconds after the rest.
    told = ("sacct", "--noheader", "--allocations", "--user=root", "--format=jobname,exitcode")
    cluster.wait_for(
        lambda: re.search(r"fails +3:0", cluster.ask(*told)), "the accounts do not know it"
    )
    names = ("train-.*", "arr", "dep", "never", "held", "later", "fails", "train")
    asked = [word for name in names for word in ("--name", name)]
    output = tmp_path / "x.json"
    tables = []
    bare = tmp_path / "bin"
    bare.mkdir()
    real = subprocess.run(["which", "squeue"], capture_output=True, text=True, check=True).stdout
    (bare / "squeue").write_text(
        '#!/bin/sh\ncase $1 in --json) echo "squeue: error: no plugin" >&2; exit 1;; esac\n'
        f'exec {real.strip()} "$@"\n'
    )
    (bare / "squeue").chmod(0o755)
    for path in (os.environ["PATH"], f"{bare}:{os.environ['PATH']}"):
        environ = {"PATH": path, "SQUEUE_STATES": "CANCELLED", "SQUEUE_FORMAT": "%i"}
        done = look(cluster, *asked, "--json", output, env=environ)
        assert done.returncode == 1
        assert ("squeue gives no JSON here" in done.stderr) is (str(bare) in path)
        rows = read_rows(output)
        keys = ("state", "running", "pending", "job", "reason")
        tables.append({name: tuple(row[key] for key in keys) for name, row in rows.items()})
        assert rows["train-.*"]["end_seconds"] > 3600
        assert 3000 < rows["later"]["start_seconds"] <= 3600
        assert rows["dep"]["dependency"] == f"afterok:{train}(unfulfilled)"
        assert (rows["fails"]["last_job"], rows["fails"]["last_state"]) == (failed, "FAILED")
        assert rows["fails"]["last_exit_code"] == "3:0"
    by_json, by_text = tables
    assert by_json == by_text
    assert by_json["train-.*"] == ("running", 1, 0, train, "")
    assert by_json["arr"][:4] == ("running", 1, 5, f"{array}_1")
    assert by_json["dep"] == ("pending", 0, 1, dependent, "Dependency")
    assert by_json["never"][0::4] == ("stuck", "DependencyNeverSatisfied")
    assert by_json["held"][0::4] == ("stuck", "JobHeldUser")
    assert by_json["later"][0::4] == ("pending", "BeginTime")
    assert by_json["fails"][0] == by_json["train"][0] == "missing"
    saved = tmp_path / "queue.json"
    saved.write_text(cluster.ask("squeue", "--json"))
    # And elsewhere, from what was saved.
    done = subprocess.run(
        [sys.executable, PATH, *asked[:6], "--queue", saved, "--pulse"],
        env={"PATH": "/nowhere"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert re.search(rf"^slurm_status pulse time=\S+ watch=arr state=running running=1 pending=5 "
                     rf"job={array}_1 nodes=1 ", done.stdout, re.MULTILINE)  # fmt: skip


@pytest.mark.nightly
def test_what_sacct_remembers(empty: Cluster, tmp_path: Path) -> None:
    """A job that the controller has forgotten is told by the accounts, with its exit code; other
    users' jobs are found where they are asked for, and not otherwise."""
    cluster = empty
    number = submit(cluster, "gone", "exit 7")
    other = submit(cluster, "theirs", "sleep 300", user=65534)
    wait_for_state(cluster, other, "RUNNING")
    output = tmp_path / "x.json"

    def is_forgotten() -> bool:
        return not any(job.number == number for job in cluster.jobs())

    cluster.wait_for(is_forgotten, "the controller does not forget", 60)

    def is_told() -> bool:
        look(cluster, "--name", "gone", "--json", output)
        return bool(read_rows(output)["gone"]["last_state"])

    cluster.wait_for(is_told, "the accounts do not know it")
    row = read_rows(output)["gone"]
    told = (row["last_job"], row["last_state"], row["last_exit_code"])
    assert told == (number, "FAILED", "7:0")
    for arguments, code in (
        ((), 1),
        (("--user", "nobody"), 0),
        (("--group", "nogr.*"), 0),
        (("--partition", "main"), 0),
        (("--user", "nobod"), 1),
        (("--user", "nobody", "--partition", "gpu"), 1),
    ):
        assert look(cluster, "--name", "theirs", *arguments).returncode == code, arguments


@pytest.mark.nightly
def test_alerts_once_for_each_change(empty: Cluster, tmp_path: Path) -> None:
    """Missing and well again are told once each, by a real mail, though each look is a process of
    its own; a Slurm that does not answer is told at the second time."""
    pytest.importorskip("aiosmtpd")
    cluster = empty
    server = cluster.start(
        [sys.executable, "-m", "aiosmtpd", "-n", "-l", "127.0.0.1:2525",
         "-c", "aiosmtpd.handlers.Mailbox", tmp_path / "mails"]
    )  # fmt: skip
    config = tmp_path / "watch.toml"
    config.write_text(
        'title = "x"\n[mail]\nto = "a@example.org"\nfrom = "b@example.org"\n'
        'server = "127.0.0.1:2525"\n[[job]]\nname = "train"\nlabel = "my train"\n'
    )
    log = tmp_path / "main.log"

    def read_mails() -> list[Any]:
        files = sorted((tmp_path / "mails" / "new").iterdir(), key=lambda f: f.stat().st_mtime_ns)
        return [
            email.message_from_bytes(file.read_bytes(), policy=email.policy.default)
            for file in files
        ]

    def read_subjects() -> list[str]:
        return [str(mail["Subject"]) for mail in read_mails()]

    try:
        cluster.wait_for(
            lambda: cluster.run(["bash", "-c", "exec 3<>/dev/tcp/127.0.0.1/2525"]).returncode == 0,
            "no mail server",
        )
        number = submit(cluster, "train", "sleep 300")
        wait_for_state(cluster, number, "RUNNING")
        assert look(cluster, config, "--log", log).returncode == 0
        cluster.ask("scancel", number)
        wait_for_state(cluster, number, "CANCELLED")
        for _ in range(2):
            done = look(cluster, config, "--log", log)
            assert (done.returncode, "problem" in done.stderr) == (1, False), done.stderr
        assert read_subjects() == ["[x] my train missing"]
        text = read_mails()[0].get_content()
        assert f"my train: MISSING: no such job runs or waits; the last was {number}: CANC" in text
        submit(cluster, "train", "true", "--hold")
        for _ in range(2):
            assert look(cluster, config).returncode == 1
        assert read_subjects()[1:] == ["[x] my train stuck"]
        number = submit(cluster, "train", "sleep 300")
        wait_for_state(cluster, number, "RUNNING")
        for _ in range(2):
            assert look(cluster, config, "--log", log).returncode == 0
        assert read_subjects()[2:] == ["[x] my train ok"]
        # The same cluster, asked where nobody listens.
        elsewhere = tmp_path / "slurm.conf"
        conf = (cluster.folder / "slurm.conf").read_text()
        elsewhere.write_text(f"{conf}\nSlurmctldPort=1\n")
        for count in (3, 4):
            done = look(cluster, config, env={"SLURM_CONF": str(elsewhere)})
            assert done.returncode == 1
            assert "Unable to contact slurm controller" in done.stdout
            assert len(read_subjects()) == count
        assert look(cluster, config).returncode == 0
    finally:
        server.send_signal(signal.SIGTERM)
        server.communicate(timeout=20)
    pulses = log.read_text().splitlines()
    assert [re.findall(r" state=(\w+)", line) for line in pulses] == [
        *(["running"], ["missing"], ["missing"], ["running"], ["running"]),
    ]
    assert all(" watch=my_train " in line for line in pulses)


@pytest.mark.nightly
def test_the_job_comes_again(tmp_path: Path) -> None:
    """On a real Slurm without accounting: it looks, tells once, writes the pulse, and has submitted
    itself for the next time; after an edit of WHEN=0 it ends."""
    config = tmp_path / "watch.toml"
    config.write_text('[[job]]\nname = "train"\n')
    text = (SCRIPTS / "training" / "slurm_status.slurm").read_text()
    for key, value in (
        ("PYTHON", sys.executable),
        ("TOOL", PATH),
        ("CONFIG", config),
        ("LOG", tmp_path / "pulse"),
        ("WHEN", 1),
    ):
        text, count = re.subn(rf"^{key}=\S+", f"{key}={value}", text, flags=re.MULTILINE)
        assert count == 1
    script = tmp_path / "slurm_status.slurm"
    script.write_text(text)
    log = tmp_path / "slurm_status.log"
    with open_cluster(1) as cluster:
        cluster.ask("env", f"--chdir={tmp_path}", "sbatch", "slurm_status.slurm")

        def count_in_log(words: str) -> int:
            return log.read_text().count(words) if log.exists() else 0

        cluster.wait_for(lambda: count_in_log("ended with 1") >= 2, "it does not look")
        submit(cluster, "train", "sleep 300")
        cluster.wait_for(lambda: count_in_log("ended with 0") >= 1, "it does not see the job")
        script.write_text(re.sub("^WHEN=1", "WHEN=0", text, flags=re.MULTILINE))
        cluster.wait_for(
            lambda: [job.state for job in cluster.queue()] == ["RUNNING"], "the chain does not end"
        )
    assert count_in_log("ALERT slurm_status: train: MISSING") == 1
    assert count_in_log("ALERT slurm_status: train: well again") == 1
    assert (tmp_path / "pulse").read_text().count("state=missing") >= 2
    assert (tmp_path / "pulse").read_text().count("state=running") >= 1


# --- reading ---


def test_json_of_newer_versions(status: ModuleType) -> None:
    """Numbers with a word on whether they are set, and lists of states, as from 23.11 on."""

    def number(value: int, is_set: bool = True) -> dict[str, Any]:
        return {"set": is_set, "infinite": False, "number": value}

    job = {
        "job_id": 44,
        "array_job_id": number(41),
        "array_task_id": number(3),
        "array_task_string": "",
        "name": "n",
        "user_name": "u",
        "group_name": "g",
        "account": "a",
        "partition": "p",
        "job_state": ["RUNNING", "CONFIGURING"],
        "state_reason": "None",
        "start_time": number(1800000000),
        "end_time": number(0, is_set=False),
        "node_count": number(2),
        "nodes": "n[1-2]",
        "dependency": "",
        "exit_code": {
            "status": ["SIGNALED"],
            "return_code": number(0),
            "signal": {"id": number(9), "name": "KILL"},
        },
    }
    waiting = {**job, "array_task_id": number(0, is_set=False), "array_task_string": "4-9%1",
               "job_state": ["PENDING"]}  # fmt: skip
    first, second = status.read_squeue_json(json.dumps({"jobs": [job, waiting]}))
    assert (first.number, first.state, first.nodes, first.tasks) == ("41_3", "RUNNING", 2, 1)
    assert (first.start, first.end, first.exit_code, first.reason) == (1800000000, None, "0:9", "")
    assert (second.number, second.state, second.tasks) == ("41_[4-9%1]", "PENDING", 6)


@given(st.lists(st.tuples(st.integers(0, 999), st.integers(0, 50), st.integers(1, 7)), min_size=1))
def test_tasks_are_counted(status: ModuleType, parts: list[tuple[int, int, int]]) -> None:
    """Ranges with steps, as Slurm writes them, have as many tasks as Python counts."""
    text = ",".join(f"{first}-{first + more}:{step}" for first, more, step in parts)
    expected = sum(len(range(first, first + more + 1, step)) for first, more, step in parts)
    assert status.count_tasks(f"[{text}%2]") == expected


@given(st.text(max_size=300))
def test_no_text_is_an_error(status: ModuleType, text: str) -> None:
    """Whatever a command prints, reading it is no traceback."""
    status.read_squeue_text(text)
    status.read_sacct(text)


@pytest.mark.parametrize(
    "change",
    [
        {"end_time": 10**18, "job_state": "FAILED"},
        {"start_time": 10**11, "job_state": "PENDING"},
        {"job_state": "PENDING", "array_job_id": 7, "array_task_string": "1-" + "9" * 40},
        {"job_state": "PENDING", "array_job_id": 7, "array_task_string": "1-9:0"},
        {"job_state": []},
    ],
)
def test_numbers_that_nobody_has_are_none(
    call_tool: Callable[..., Any], tmp_path: Path, change: dict[str, Any]
) -> None:
    """Times after the last day and arrays without end in a saved answer are no traceback."""
    queue = tmp_path / "queue.json"
    queue.write_text(json.dumps({"jobs": [{"job_id": 7, "name": "x", "user_name": "u", **change}]}))
    arguments = ("--name", "x", "--user", "u", "--queue", str(queue))
    done = call_tool(TOOL, *arguments)
    assert done.returncode in (0, 1)
    assert done.stderr == ""
    assert call_tool(TOOL, *arguments, "--pulse").stderr == ""


def test_brackets_without_end_are_told(call_tool: Callable[..., Any], tmp_path: Path) -> None:
    """A saved answer of nothing but brackets is neither of the two forms."""
    queue = tmp_path / "queue.json"
    queue.write_text("[" * 100_000)
    done = call_tool(TOOL, "--name", "x", "--queue", str(queue))
    assert done.returncode == 2
    assert f"{queue} is neither squeue --json nor" in done.stderr


def test_a_name_may_have_anything_in_it(status: ModuleType) -> None:
    """A name with the separator in it stays whole."""
    line = "7|u|g|a|p|RUNNING|None|N/A|N/A|1|n1|(null)|odd | name|x"
    (job,) = status.read_squeue_text(line)
    assert job.name == "odd | name|x"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "there is no [[job]] in it, so there is nothing to watch"),
        ('[[job]]\nuser = "x"\n', "line 1: job.name: this is needed and is not there"),
        ('[[job]]\nname = "("\n', "line 2: job.name: '(' is no regular expression"),
        ('[[job]]\nname = "x"\n[[job]]\nname = "x"\n', "line 3: job.label: 'x' is there twice"),
        ('[[job]]\nname = "x"\nusr = "y"\n', "line 3: job.usr: there is no such key; do you mean"),
    ],
)
def test_faults_are_told_with_their_line(
    call_tool: Callable[..., Any], tmp_path: Path, text: str, message: str
) -> None:
    """Wrong use: the file, the line, the key."""
    config = tmp_path / "watch.toml"
    config.write_text(text)
    done = call_tool(TOOL, str(config))
    assert done.returncode == 2
    assert message in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "name a file that says what to watch"),
        (("--user", "x"), "name a file that says what to watch"),
        (("x.toml", "--name", "x"), "name x.toml or --name, not both"),
        (("--name", "x", "--queue", "/dev/null"), "/dev/null is empty, so it is no answer"),
        (("x.toml", "--user", "x"), "--user, --group, --account and --partition go with --name"),
        (("--name", "("), "is no regular expression"),
        (("--name", "x", "--queue", "none"), "--queue: none cannot be read: No such file"),
        (("--toy", "--pulse"), "are for looking"),
    ],
)
def test_wrong_use_is_told(
    call_tool: Callable[..., Any], arguments: tuple[str, ...], message: str
) -> None:
    """What cannot be meant ends with status 2 and one line."""
    done = call_tool(TOOL, *arguments)
    assert done.returncode == 2
    assert message in done.stderr
    assert "Traceback" not in done.stderr


def test_without_slurm_it_is_one_line(call_tool: Callable[..., Any], tmp_path: Path) -> None:
    """Where there is no squeue, that is said."""
    done = call_tool(TOOL, "--name", "x", environ={"PATH": str(tmp_path)})
    assert done.returncode == 2
    assert "squeue is not here: run this where Slurm's commands are" in done.stderr


def test_the_example_is_right(
    status: ModuleType, call_tool: Callable[..., Any], tmp_path: Path
) -> None:
    """What --example prints can be read, also with its comments taken in."""
    text = call_tool(TOOL, "--example").stdout
    config = tmp_path / "watch.toml"
    config.write_text(text)
    settings, (watch,) = status.read_slurm_config(config)
    assert [way.name for way in settings.ways] == ["stdout"]
    assert [key for key, _ in watch.others] == ["user"]
    for name in ("mail.login", "webhook.url"):
        (tmp_path / name).write_text("https://example.org/x\npassword\n")
        (tmp_path / name).chmod(0o600)
    config.write_text(re.sub(r"^#(?=[\[a-z])", "", text, flags=re.MULTILINE))
    settings, (watch,) = status.read_slurm_config(config)
    assert [way.name for way in settings.ways] == ["mail", "webhook", "stdout"]
    assert [key for key, _ in watch.others] == ["user", "group", "account", "partition"]
