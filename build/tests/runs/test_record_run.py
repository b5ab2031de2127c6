"""From a run to a record: what is kept, and what a run that goes wrong leaves behind."""

import getpass
import json
import platform
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from bindery.core.model import Finding
from bindery.evidence.records import Record, parse_record
from bindery.runs.anonymize import clean_values, hide_folders
from bindery.runs.plan_run import plan_run
from bindery.runs.record_run import keep_record, make_record
from demo_runs import write_bundle
from fixture_types import BookMaker, Runner

ROOT = Path(__file__).resolve().parents[3]
EXTRA = """tools:
  env_report: {path: scripts/env_report.py, output: shape}
  timer: {path: scripts/timer.py, output: measured}
"""
TIMER = '''"""Times nothing, quickly."""

import json
import os
import signal
import sys
import time

__version__ = "0.1.0"
METHOD = 3
PROFILES = {"demo": ["--count", "2"], "slow": ["--sleep"], "stubborn": ["--sleep", "--silent"],
            "broken": ["--fail"], "mute": ["--mute"], "nan": ["--nan"], "milli": ["--milli"],
            "loud": ["--loud", "--sleep"], "signal": ["--signal"],
            "torn": ["--torn"], "method": ["--method"], "ranks": [], "every": []}
RANKS = {"ranks": 2, "every": "accelerators"}


def write(**changes):
    rows = [{"name": "first", "n": 2, "seconds_median": 0.25, "good": True}]
    results = {
        "tool": "timer", "version": __version__, "method": METHOD,
        "started": "2026-11-20T17:00:00Z", "seconds": 0.5, "complete": True, "caveats": ["a demo"],
        "units": {"n": "1", "seconds_median": "s"}, "results": rows, "details": {}, **changes,
    }
    path = sys.argv[sys.argv.index("--json") + 1]
    with open(path, "w") as file:
        json.dump(results, file)


def stop(number, frame):
    sys.exit(1)


def main() -> int:
    arguments = sys.argv[1:]
    print("timing nothing in", os.getcwd(), flush=True)
    print("of the book in", os.path.dirname(os.path.dirname(__file__)), file=sys.stderr)
    if "--fail" in arguments:
        print("no accelerator here", file=sys.stderr)
        return 1
    if "--mute" in arguments:
        return 0
    if "--torn" in arguments:
        with open(arguments[-1], "w") as file:
            file.write('{"tool": "timer",\\n "results": [')
        return 0
    if "--sleep" in arguments:
        signal.signal(signal.SIGTERM, stop)
        if "--silent" not in arguments:
            write(complete=False)
        while "--loud" in arguments:
            print("x" * 1000)
        print("waiting", file=sys.stderr, flush=True)
        time.sleep(60)
        return 0
    rank = int(os.environ.get("RANK", 0))
    if "--nan" in arguments:
        write(results=[{"seconds_median": float("nan")}])
    elif "--milli" in arguments:
        write(results=[{"time": 5}], units={"time": "ms"})
    elif "--method" in arguments:
        write(method=4)
    elif rank == 0:
        names = ("NCCL_ALGO", "OMP_NUM_THREADS", "SECRET", "HOME", "WANTED", "WORLD_SIZE")
        details = {name: os.environ.get(name) for name in names}
        write(details=details)
    if "--signal" in arguments:
        os.kill(os.getpid(), signal.SIGSEGV)
    return 0


sys.exit(main())
'''


@pytest.fixture
def book(make_book: BookMaker, facts_tool: str) -> Path:
    return make_book(
        {
            "README.md": "# Preface\n",
            "scripts/env_report.py": facts_tool,
            "scripts/timer.py": TIMER,
        },
        extra=EXTRA,
    )


def list_records(book: Path) -> list[str]:
    folder = book / "scripts" / "records"
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*.json"))


def read_record(book: Path) -> tuple[dict[str, Any], str]:
    (name,) = list_records(book)
    text = (book / "scripts/records" / name).read_text(encoding="utf-8")
    return json.loads(text), text


def test_a_run_leaves_a_record(book: Path, run_bindery: Runner) -> None:
    """A record has command, method, machine and results, and names no person and no folder."""
    write_bundle(ROOT / "scripts/env_report.py", book / "scripts")
    ended = run_bindery("run", "timer", folder=book)
    assert ended.status == 0, ended.stderr
    data, text = read_record(book)
    recorded, advice = ended.stdout.splitlines()
    assert recorded == f"recorded scripts/records/{list_records(book)[0]}"
    assert advice.startswith("next: nothing; a demo record")
    assert data["command"] == ["python", "scripts/timer.py", "--count", "2"]
    assert (data["method"], data["profile"], data["complete"]) == (3, "demo", True)
    assert data["results"] == [{"name": "first", "n": 2, "seconds_median": 0.25, "good": True}]
    assert data["units"] == {"n": "1", "seconds_median": "s"}
    assert (data["ended"], data["exit_status"], data["nodes"], data["ranks"]) == ("done", 0, 1, 1)
    assert data["caveats"][0] == "a demo"
    assert isinstance(parse_record("r.json", text), Record)
    log = book / "scripts/records/timer" / data["log"]
    lines = log.read_text(encoding="utf-8").splitlines()
    assert {"timing nothing in TMP", "of the book in ."} <= set(lines)
    assert str(book) not in text
    values = json.dumps([data["machine"], data["software"], data["caveats"]])
    assert f'"{platform.node()}"' not in values
    assert f'"{getpass.getuser()}"' not in values
    assert list((book / "dist/runs").iterdir()) == []
    assert ": 0 errors, 0 warnings" in run_bindery("check", folder=book).stdout


def test_the_python_that_is_named_runs_the_tool(
    book: Path, run_bindery: Runner, tmp_path: Path
) -> None:
    """With its own packages, such as a build of torch for other hardware. Its path starts at the
    current folder."""
    python, note = book / "python", tmp_path / "used"
    python.write_text(f'#!/bin/sh\ntouch {note}\nexec {sys.executable} "$@"\n')
    python.chmod(0o755)
    ended = run_bindery("run", "timer", "--python", "./nope", folder=book)
    assert (ended.status, "there is no program './nope'" in ended.stderr) == (2, True)
    ended = run_bindery("run", "timer", "--python", "./python", folder=book)
    assert ended.status == 0, ended.stderr
    assert note.exists()
    assert read_record(book)[0]["results"]


ENDINGS = {
    "slow": (("--timeout", "2"), "timeout", 1, "was stopped after its limit of 2 s"),
    "loud": (("--output", "0.1"), "output", 1, "was stopped: it printed more than 0.10 MiB"),
    "signal": ((), "crashed", -11, "was ended by the signal SIGSEGV"),
}


@pytest.mark.parametrize("profile", ENDINGS)
def test_a_run_that_ends_early_leaves_a_partial_record(
    book: Path, run_bindery: Runner, profile: str
) -> None:
    """At a limit or in a crash, the results so far are kept and marked, and the user learns why and
    where they are."""
    options, how, status, message = ENDINGS[profile]
    ended = run_bindery("run", "timer", "--profile", profile, *options, folder=book)
    assert ended.status == 1, ended.stderr
    data, text = read_record(book)
    assert (data["complete"], data["ended"], data["exit_status"]) == (False, how, status)
    assert isinstance(parse_record("r.json", text), Record)
    assert f"scripts/timer.py: error[failed-run]: 'timer' {message}" in ended.stderr
    assert f"so far are in 'scripts/records/{list_records(book)[0]}'" in ended.stderr
    assert (book / "scripts/records/timer" / data["log"]).stat().st_size > 0


def test_ctrl_c_leaves_a_partial_record(book: Path, child_environment: dict[str, str]) -> None:
    """Who interrupts bindery gets what there is."""
    command = [sys.executable, "-m", "bindery", "run", "timer", "--profile", "slow"]
    process = subprocess.Popen(
        command, cwd=book, env=child_environment, stderr=subprocess.PIPE, text=True
    )
    assert process.stderr is not None
    for line in process.stderr:
        if line == "waiting\n":
            break
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 1, errors
    assert "error[failed-run]: 'timer' was interrupted" in errors
    data, _ = read_record(book)
    assert (data["ended"], data["complete"]) == ("interrupted", False)


def test_results_that_do_not_fit_a_record_are_not_lost(book: Path, run_bindery: Runner) -> None:
    """Log and results of a long run are kept even if one of its units is wrong."""
    ended = run_bindery("run", "timer", "--profile", "milli", folder=book)
    assert "'units.time': 'ms' is not a base unit; store seconds" in ended.stderr
    (folder,) = (book / "dist/runs").iterdir()
    assert f"'dist/runs/{folder.name}/run.log', with the results next to it" in ended.stderr
    results = json.loads((folder / "results.json").read_text(encoding="utf-8"))
    assert results["results"] == [{"time": 5}]


def test_a_record_that_cannot_be_written_is_not_lost(book: Path, run_bindery: Runner) -> None:
    """Where the folder of the records takes no file, what was measured stays where it is."""
    (book / "scripts/records").mkdir()
    (book / "scripts/records/timer").write_text("in the way", encoding="utf-8")
    ended = run_bindery("run", "timer", folder=book)
    assert ended.status == 1
    assert "error[failed-run]: the record cannot be written: file exists" in ended.stderr
    (folder,) = (book / "dist/runs").iterdir()
    assert sorted(path.name for path in folder.iterdir()) == ["results.json", "run.log"]


def test_the_environment_is_clean_and_what_steers_is_recorded(
    book: Path, run_bindery: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A tool sees what it needs, what steers it and what was asked for; only what steers it stands
    in the record, without folders and serial numbers."""
    monkeypatch.setenv("NCCL_ALGO", "Ring")
    monkeypatch.setenv("NCCL_TOPO_FILE", "/home/alice/topo.xml")
    monkeypatch.setenv("NCCL_COMM_ID", "10.1.2.3:4000")
    monkeypatch.setenv("CUDA_HOME", "/opt/cuda")
    monkeypatch.setenv("TORCH_TRACE", "/home/alice/a.so:/home/alice/b.so http://x.org/y")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "GPU-8932f937-d72c-4106-c12f-20bd9faed9f6")
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    monkeypatch.delenv("OMP_WAIT_POLICY", raising=False)  # the session tests sets it
    monkeypatch.setenv("SECRET", "hush")
    for name in ("TORCH_TOKEN", "CUDA_API_KEY", "NCCL_MASTER_ADDR", "NCCL_HOSTNAME"):
        monkeypatch.setenv(name, "hush")
    monkeypatch.setenv("WANTED", "yes")
    assert run_bindery("run", "timer", "--env", "WANTED", folder=book).status == 0
    data, text = read_record(book)
    seen = data["details"]
    assert (seen["NCCL_ALGO"], seen["OMP_NUM_THREADS"], seen["WANTED"]) == ("Ring", "3", "yes")
    assert seen["SECRET"] is None
    assert seen["HOME"] == "TMP", "the home of a run is a temporary folder"
    chosen = {
        k: v for k, v in data["environment"].items() if k[:4] in ("NCCL", "CUDA", "OMP_", "TORC")
    }
    assert chosen == {
        "CUDA_VISIBLE_DEVICES": "GPU",
        "NCCL_ALGO": "Ring",
        "NCCL_TOPO_FILE": "topo.xml",
        "OMP_NUM_THREADS": "3",
        "TORCH_TRACE": "a.so:b.so http://x.org/y",
    }
    assert "8932f937" not in text


def test_added_arguments_are_recorded_without_folders(book: Path, run_bindery: Runner) -> None:
    """Arguments after -- go to the tool and into the record, without folders of this machine."""
    inside, outside = str(book / "data" / "in.txt"), "/home/alice/secret/out.txt"
    run_bindery("run", "timer", "--", "--in", inside, f"--out={outside}", folder=book)
    data, text = read_record(book)
    assert data["command"][2:] == ["--count", "2", "--in", "data/in.txt", "--out=out.txt"]
    assert data["profile"] == "custom"
    assert "alice" not in text


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        (("timr",), 2, "did you mean 'timer'?"),
        (("timer", "--profile", "huge"), 2, "profiles: demo, slow, stubborn, broken, mute"),
        (("env_report",), 2, "all other records include its facts"),
        (("timer", "--timeout", "soon"), 2, "'soon' is not a positive amount"),
        (("timer", "--profile", "every"), 2, "the profile 'every' of 'timer' needs an accelerator"),
        (("timer", "--profile", "stubborn", "--timeout", "1.5"), 1, "and left no results"),
        (("timer", "--profile", "nan"), 1, "it is NaN, which cannot be compared; write null"),
        (
            ("timer", "--profile", "torn"),
            1,
            "are not valid JSON: Expecting value: line 2 column 14",
        ),
        (("timer", "--profile", "method"), 1, "reports method 4, but its constant METHOD is 3"),
        (("timer", "--profile", "broken"), 1, "left no results\n  = help: the log is '"),
        (("timer", "--profile", "mute"), 1, "the tool must write results to the path given with"),
    ],
)
def test_a_run_that_goes_wrong_leaves_no_record(
    book: Path, run_bindery: Runner, arguments: tuple[str, ...], status: int, message: str
) -> None:
    """A wrong name, a crash, a run without end and results that are none are one error each."""
    ended = run_bindery("run", *arguments, folder=book)
    assert ended.status == status, ended.stderr
    assert message in ended.stderr
    assert "Traceback" not in ended.stderr
    assert list_records(book) == []


@pytest.mark.parametrize(
    ("constant", "message"),
    [
        (
            "METHOD = 'one'",
            "the constant METHOD of 'timer' is invalid: expected an integer, got text",
        ),
        ("PROFILES = {'demo': '--x'}", "PROFILES of 'timer' is invalid: expected a list, got text"),
        ("RANKS = {'tiny': 2}", "RANKS of 'timer' names a profile 'tiny' that does not exist"),
        ("METHOD = time.daylight + 1", "METHOD of 'timer' must be a literal: bindery reads it"),
        ("PROFILES = {'demo': [], 'custom': []}", "PROFILES of 'timer' cannot have 'custom', the"),
    ],
)
def test_constants_of_a_tool_are_checked(
    book: Path, run_bindery: Runner, constant: str, message: str
) -> None:
    """A constant that cannot be used is named with its line, before anything runs."""
    path = book / "scripts/timer.py"
    source = path.read_text(encoding="utf-8").replace("sys.exit(main())", f"{constant}\n")
    path.write_text(source, encoding="utf-8")
    ended = run_bindery("run", "timer", folder=book)
    assert ended.status == 2
    line = source[: source.index(constant)].count("\n") + 1
    assert ended.stderr.startswith(f"scripts/timer.py:{line}:")
    assert message in ended.stderr


OUTPUT = {
    "tool": "timer", "version": "1", "method": 3, "started": "2026-11-20T17:00:00Z",
    "seconds": 1, "complete": True, "units": {}, "results": [],
}  # fmt: skip


def test_records_that_end_at_once_are_all_kept(book: Path) -> None:
    """Many runs of one day that end in the same moment each have a record and a log."""
    plan = plan_run(book, "timer", "demo")
    facts = {"tool": "env_report", "version": "1", "method": 1, "software": {}}
    machine = {"label": "cpu", "cpu": {}}
    record = make_record(
        plan, OUTPUT, [{**facts, "machine": machine}] * 2, ended="done", exit_status=0, ranks=4
    )
    assert isinstance(record, Record)
    assert (record.nodes, record.ranks) == (2, 8)
    with ThreadPoolExecutor(8) as pool:
        paths = list(pool.map(lambda n: keep_record(book, record, f"log {n}"), range(24)))
    assert list_records(book) == sorted(path.removeprefix("scripts/records/") for path in paths)
    for number, path in enumerate(paths):
        kept = json.loads((book / path).read_text(encoding="utf-8"))
        assert (book / path).with_name(kept["log"]).read_text() == f"log {number}"


def test_nodes_that_are_not_alike_give_no_record(book: Path) -> None:
    """Numbers of unlike machines are not mixed, nor those of unlike software."""
    plan = plan_run(book, "timer", "demo")
    first = {
        "tool": "env_report", "version": "1", "method": 1, "software": {"torch": "2.13"},
        "machine": {"label": "cpu", "cpu": {"cores": 2}},
    }  # fmt: skip
    other = {**first, "machine": {"label": "cpu", "cpu": {"cores": 4}}}
    newer = {**first, "software": {"torch": "2.14"}}
    for facts, words in (
        (other, "'cpu.cores' is '2' on node 1, but '4' on node 2"),
        (newer, "'torch' is '2.13' on node 1, but '2.14' on node 2"),
    ):
        finding = make_record(plan, OUTPUT, [first, facts], ended="done", exit_status=0)
        assert isinstance(finding, Finding)
        assert finding.message == f"the nodes of this run differ: {words}"


@pytest.mark.torch
def test_ranks_are_started_by_torchrun(book: Path, run_bindery: Runner) -> None:
    """A tool that declares ranks is started by torchrun, and the record says how many."""
    ended = run_bindery("run", "timer", "--profile", "ranks", folder=book)
    assert ended.status == 0, ended.stderr
    data, _ = read_record(book)
    assert (data["ranks"], data["details"]["WORLD_SIZE"]) == (2, "2")
    assert data["command"][:6] == (
        "python -m torch.distributed.run --standalone --nproc-per-node 2".split()
    )
    assert data["command"][6] == "scripts/timer.py"
    assert data["environment"]["OMP_NUM_THREADS"] == "1"


def test_a_book_without_facts_is_told_how_to_get_them(book: Path, run_bindery: Runner) -> None:
    """The tool that tells the facts of the machine is named, and where it comes from."""
    listing = (book / "chapters.yaml").read_text(encoding="utf-8")
    kept = [line for line in listing.splitlines() if "env_report" not in line]
    (book / "chapters.yaml").write_text("\n".join(kept), encoding="utf-8")
    ended = run_bindery("run", "timer", folder=book)
    assert ended.status == 2
    assert "no tool 'env_report', which reports the facts about the machine" in ended.stderr
    assert "write env_report.py with `bindery bundle env_report`" in ended.stderr


def test_values_are_cleaned_and_none_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only texts change: of hosts, users and folders; two names with one stand-in stay two."""
    monkeypatch.setattr(platform, "node", lambda: "kite7.example.org")
    monkeypatch.setattr(getpass, "getuser", lambda: "berta")
    assert clean_values(["on kite7", {"a": "of berta"}], {}) == ["on HOST", {"a": "of USER"}]
    values = {"n1": [1, True, None, 2.5, "n1:/a"], "n2": {"n1": "n2"}, "HOST": 3}
    assert clean_values(values, {"n1": "HOST", "n2": "HOST"}) == {
        "HOST": [1, True, None, 2.5, "HOST:/a"],
        "HOST_": {"HOST": "HOST"},
        "HOST__": 3,
    }


@pytest.mark.parametrize(
    ("text", "hidden"),
    [
        ("/home/alice", "~"),
        ("file:///home/alice/x", "file://~/x"),
        ("/people/of/mine", "~"),
        ("-I/people/of/mine/inc", "-I~/inc"),
        ("https://example.org/home/alice", "https://example.org/home/alice"),
        ("/usr/lib/x.so", "x.so"),
    ],
)
def test_homes_are_hidden(text: str, hidden: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The home of a user names a user, wherever in a word it stands."""
    monkeypatch.setenv("HOME", "/people/of/mine")
    assert hide_folders(text) == hidden
