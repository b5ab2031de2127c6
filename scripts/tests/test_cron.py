"""cron/daily.slurm and cron/hourly.slurm: the jobs that submit themselves, on a real Slurm."""

from __future__ import annotations

import datetime
import itertools
import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from slurm_cluster import Cluster

CRON = Path(__file__).resolve().parent.parent / "orchestration" / "cron"
END = "# ==== EDIT to here ====\n"

# Writes which job ran it and when, and stays as long as a file says so.
NOTE = """#!/bin/bash
echo "$SLURM_JOB_ID $(date +%s)" >>FOLDER/runs
for i in {1..300}; do
  [[ -e FOLDER/stay ]] || exit 0
  sleep 0.1
done
"""
SUBMITTED = """#!/bin/bash
#SBATCH --mem-per-cpu=100M --output=/dev/null
echo "memory per node: ${SLURM_MEM_PER_NODE-}, per CPU: ${SLURM_MEM_PER_CPU-}" >>FOLDER/jobs
"""


def test_the_two_files_do_the_same() -> None:
    """Below their EDIT blocks the two files are one text: what is mended in one is mended in
    both."""
    daily, hourly = ((CRON / f"{name}.slurm").read_text() for name in ("daily", "hourly"))
    assert (
        daily.partition(END)[2].replace("daily.slurm", "hourly.slurm") == hourly.partition(END)[2]
    )
    assert daily.partition(END)[2]


# --- when the next one begins ---


def call_find_next(when: str, zone: str, commands: str) -> list[int]:
    """What commands of bash print that call the function of that name in the files."""
    text = (CRON / "daily.slurm").read_text()
    (function,) = re.findall(r"^find_next\(\) \{\n.*?^\}\n", text, re.MULTILINE | re.DOTALL)
    done = subprocess.run(
        ["bash", "-c", f"set -eo pipefail\nWHEN={when}\n{function}\n{commands}\n"],
        env={"PATH": "/usr/bin:/bin", "TZ": zone},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    return [int(line) for line in done.stdout.split()]


def find_next(when: str, zone: str, *times: int) -> list[int]:
    """When the next one begins, for each of the times."""
    return call_find_next(when, zone, "\n".join(f"find_next {at}" for at in times))


def seconds_at(zone: str, *parts: int) -> int:
    return int(datetime.datetime(*parts, tzinfo=ZoneInfo(zone)).timestamp())


needs_gnu_date = pytest.mark.skipif(
    subprocess.run(["date", "--date=@0"], capture_output=True, check=False).returncode != 0
    or not Path("/usr/share/zoneinfo/Europe/Berlin").exists(),
    reason="needs GNU date, which Slurm's nodes have, and the time zones (Debian: tzdata)",
)


@needs_gnu_date
def test_the_next_one_is_on_the_clock() -> None:
    """By hand: at 02:59 and at 03:00 the next 03:00 is that of tomorrow, because a start may come a
    little early; a quarter to three has it today, and late starts do not move it."""
    zone = "Asia/Kolkata"
    at = [seconds_at(zone, 2026, 11, 21, *clock) for clock in ((2, 45), (2, 59), (3, 0), (9, 30))]
    today, tomorrow = (seconds_at(zone, 2026, 11, day, 3, 0) for day in (21, 22))
    assert find_next("03:00", zone, *at) == [today, tomorrow, tomorrow, tomorrow]
    hour = 1_795_291_200  # divisible by 3600
    assert find_next("3600", zone, hour, hour + 5, hour - 2, hour - 90) == [
        *(hour + 3600, hour + 3600, hour + 3600, hour),
    ]


@needs_gnu_date
@hypothesis_settings(max_examples=20)
@given(
    zone=st.sampled_from(("Europe/Berlin", "America/New_York", "Africa/Cairo", "UTC")),
    clock=st.times().filter(lambda t: t.hour < 4 or t.hour > 20),
    start=st.sampled_from(
        ((2026, 3, 6), (2026, 3, 27), (2026, 4, 22), (2026, 10, 23), (2026, 10, 30))
    ),
    delay=st.integers(-30, 7200),
)
def test_no_day_has_it_twice(
    zone: str, clock: datetime.time, start: tuple[int, int, int], delay: int
) -> None:
    """From one to the next it is a day, give or take an hour where the clocks change, though each
    starts late, or a little early by another clock."""
    now = seconds_at(zone, *start, 12, 0)
    follow = f"for i in {{1..6}}; do at=$(find_next $now); echo $at; now=$((at + {delay})); done"
    times = call_find_next(f"{clock.hour:02}:{clock.minute:02}", zone, f"now={now}\n{follow}")
    assert len(times) == 6
    for first, second in itertools.pairwise(times):
        assert 23 * 3600 <= second - first <= 25 * 3600


# --- on a cluster ---


@dataclass
class Chain:
    """A folder of commands, a file that runs them every few seconds, and its name in the queue."""

    cluster: Cluster
    folder: Path
    name: str

    def submit(self, *options: str) -> str:
        command = ("sbatch", "--parsable", f"--job-name={self.name}", *options, "hourly.slurm")
        return self.cluster.ask("env", f"--chdir={self.folder}", *command).strip()

    def runs(self) -> list[tuple[str, int]]:
        """Which jobs have begun the command, and when."""
        path = self.folder / "runs"
        lines = path.read_text().splitlines() if path.exists() else []
        return [(job, int(at)) for job, at in (line.split() for line in lines)]

    def jobs(self, states: str = "all") -> list[tuple[str, str]]:
        """Number and state of the jobs of the chain."""
        options = (f"--states={states}", f"--name={self.name}", "--format=%i %T")
        text = self.cluster.ask("squeue", "--noheader", *options)
        return [(number, state) for number, state in (line.split() for line in text.splitlines())]

    def waiting(self) -> list[str]:
        return [number for number, _ in self.jobs("PENDING")]

    def log(self) -> str:
        return (self.folder / f"{self.name}.log").read_text()

    def wait_for_runs(self, count: int) -> None:
        self.cluster.wait_for(lambda: len(self.runs()) >= count, f"no {count} runs", 60)


def make_chain(cluster: Cluster, folder: Path, name: str) -> Chain:
    """The hourly file with 2 seconds for an hour, as a reader edits it, and one command."""
    commands = folder / "commands"
    commands.mkdir(parents=True)
    text = (CRON / "hourly.slurm").read_text()
    for old, new in {
        "WHEN=3600 ": "WHEN=2 ",
        "FOLDER=$HOME/cron/cron.hourly": f"FOLDER='{commands}'",
        "--mem=1G": "--mem=100M",
        "LIMIT=30m ": "LIMIT=20s ",
    }.items():
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    (folder / "hourly.slurm").write_text(text)
    (commands / "20_note").write_text(NOTE.replace("FOLDER", f'"{folder}"'))
    (commands / "20_note").chmod(0o755)
    (commands / "notes.txt").write_text("neither executable nor a job\n")
    return Chain(cluster, folder, name)


@pytest.fixture(scope="module")
def bereaved(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Chain:
    """A chain whose node has died in the middle of its first job. It is made before all others: it
    takes Slurm a dozen seconds to get over that, and the other tests do not wait for it."""
    made = make_chain(cluster, tmp_path_factory.mktemp("bereaved") / "my cron", "cron_bereaved")
    (made.folder / "stay").touch()
    first = made.submit()
    made.wait_for_runs(1)
    cluster.wait_for(made.waiting, "the next is not submitted")
    (node,) = (job.nodes for job in cluster.queue() if job.number == first)
    cluster.cut(node)
    (made.folder / "stay").unlink()
    return made


@pytest.fixture
def chain(bereaved: Chain, tmp_path: Path) -> Iterator[Chain]:
    made = make_chain(bereaved.cluster, tmp_path / "my cron", "cron_hourly")
    yield made
    made.cluster.ask("scancel", "--me", f"--name={made.name}")
    made.cluster.wait_for(lambda: not made.jobs("PENDING,RUNNING"), "a job stays in the queue")


@pytest.mark.nightly
def test_the_chain_goes_on_and_stays_one(chain: Chain) -> None:
    """A command that fails is noted and ends nothing; submitting twice does not double it; a job in
    the folder is submitted with a shape of its own; scancel by name ends it."""
    commands = chain.folder / "commands"
    (commands / "10_fails").write_text("#!/bin/sh\necho I fail\nexit 3\n")
    (commands / "10_fails").chmod(0o755)
    (commands / "30_job.slurm").write_text(SUBMITTED.replace("FOLDER", f'"{chain.folder}"'))
    first, second = chain.submit("--hold"), chain.submit()
    chain.cluster.ask("scontrol", "release", first)
    together = []

    def have_three_run() -> bool:
        together.append(len(chain.jobs("RUNNING")))
        return len(chain.runs()) >= 3

    chain.cluster.wait_for(have_three_run, "no three runs", 60)
    assert max(together) == 1
    runs = chain.runs()
    assert runs[0][0] == second
    assert len({job for job, _ in runs}) == 3
    assert runs[2][1] > runs[1][1]
    log = chain.log()
    assert f"job {first}: already waiting: {second}; nothing to do\n" in log
    assert log.count("nothing to do") == 1
    assert "I fail\n" in log
    assert f"job {second}: {commands}/10_fails: ended with 3\n" in log
    assert f"job {second}: {commands}/20_note: ended with 0\n" in log
    assert "notes.txt: skipped, because it is not executable" in log
    shape = (chain.folder / "jobs").read_text().splitlines()[0]
    assert shape == "memory per node: , per CPU: 100"
    chain.cluster.ask("scancel", "--me", f"--name={chain.name}")
    chain.cluster.wait_for(lambda: not chain.jobs("PENDING,RUNNING"), "scancel does not end it")


@pytest.mark.nightly
def test_one_that_is_cancelled_leaves_no_gap(chain: Chain) -> None:
    """Whether it is the one that runs or the one that waits meanwhile: another one follows, also
    while the file is not there to be read."""
    stay = chain.folder / "stay"
    stay.touch()
    first = chain.submit()
    chain.wait_for_runs(1)
    chain.cluster.ask("scancel", first)
    chain.wait_for_runs(2)
    (second, following) = (chain.runs()[1][0], chain.waiting())
    assert len(following) == 1
    file = chain.folder / "hourly.slurm"
    file.rename(chain.folder / "moved")
    chain.cluster.ask("scancel", *following)
    assert chain.waiting() == []
    stay.unlink()
    chain.wait_for_runs(3)
    assert len({first, second, *following, chain.runs()[2][0]}) == 4
    assert f"job {second}: {file} cannot be read: the next is a copy of this one\n" in chain.log()
    (chain.folder / "commands").rename(chain.folder / "elsewhere")
    chain.cluster.wait_for(lambda: "there is no folder" in chain.log(), "the folder is not missed")


@pytest.mark.nightly
def test_a_node_that_dies_does_not_double_it(bereaved: Chain) -> None:
    """Slurm starts the job of the dead node again; it finds the next one waiting, and leaves."""
    bereaved.wait_for_runs(2)
    (first, second, *_) = (job for job, _ in bereaved.runs())
    assert "Restarts=1" in bereaved.cluster.ask("scontrol", "show", "job", first)
    assert f"job {first}: already waiting: {second}; nothing to do\n" in bereaved.log()
    assert [job for job, _ in bereaved.runs()].count(first) == 1
    assert len(bereaved.waiting()) <= 1
    bereaved.cluster.ask("scancel", "--me", f"--name={bereaved.name}")


@pytest.mark.parametrize("when", ["25:00", "3:5", "0", "daily", ""])
def test_a_time_that_is_none_is_refused(tmp_path: Path, when: str) -> None:
    """One line says what WHEN may be, before anything is submitted."""
    file = tmp_path / "daily.slurm"
    text = (CRON / "daily.slurm").read_text()
    assert text.count("WHEN=03:00 ") == 1
    file.write_text(text.replace("WHEN=03:00 ", f"WHEN={when} "))
    done = subprocess.run(
        ["bash", str(file)],
        env={"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "SLURM_JOB_ID": "1"},
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert (done.returncode, done.stdout) == (2, "")
    message = "is not a time: write a time of day such as 03:00, or a number of seconds\n"
    assert done.stderr == f"daily.slurm: WHEN={when} {message}"
