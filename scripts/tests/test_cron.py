"""cron/daily.slurm and cron/hourly.slurm: the jobs that submit themselves, on a real Slurm."""

from __future__ import annotations

import datetime
import itertools
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from slurm_cluster import Cluster
from slurm_user import Login

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
    """Below their EDIT blocks the two files are one text: what is fixed in one is fixed in both."""
    daily, hourly = (
        (CRON / name).read_text().replace(name, "NAME.slurm").partition(END)[2]
        for name in ("daily.slurm", "hourly.slurm")
    )
    assert daily == hourly != ""


# --- when the next one begins ---


def find_next(when: str, zone: str, start: int, delays: list[int]) -> list[int]:
    """When the job begins that is submitted at `start`, and those that follow, each submitted so
    many seconds after the one before should have begun."""
    text = (CRON / "daily.slurm").read_text()
    (function,) = re.findall(r"^find_next\(\) \{\n.*?^\}\n", text, re.MULTILINE | re.DOTALL)
    follow = "for delay in DELAYS; do at=$(find_next $now); echo $at; now=$((at + delay)); done"
    follow = follow.replace("DELAYS", " ".join(map(str, delays)))
    done = subprocess.run(
        ["bash", "-c", f"set -eo pipefail\nWHEN={when}\n{function}\nnow={start}\n{follow}\n"],
        env={"PATH": "/usr/bin:/bin", "TZ": zone},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    return [int(line) for line in done.stdout.split()]


needs_gnu_date = pytest.mark.skipif(
    subprocess.run(["date", "--date=@0"], capture_output=True, check=False).returncode != 0
    or not Path("/usr/share/zoneinfo/Europe/Berlin").exists(),
    reason="needs GNU date, which Slurm's nodes have, and the time zones (Debian: tzdata)",
)


@needs_gnu_date
def test_the_next_one_is_on_the_clock() -> None:
    """By hand: a quarter to three has 03:00 today; at 02:59 the next one is that of tomorrow,
    because a start may come a little early; and late starts do not move it."""
    day, hour = 1_795_210_200, 1_795_291_200  # 21 November 2026, 03:00 in Kolkata; a full hour
    days = [day + 86400 * number for number in range(4)]
    assert find_next("03:00", "Asia/Kolkata", day - 900, [-60, 0, 6 * 3600, 0]) == days
    hours = [hour + 3600 * number for number in range(4)]
    assert find_next("3600", "UTC", hour - 90, [-2, 0, 5, 0]) == hours


@needs_gnu_date
@pytest.mark.parametrize("zone", ["Europe/Berlin", "America/New_York", "Africa/Cairo"])
def test_no_day_has_it_twice(zone: str) -> None:
    """From one to the next it is a day, give or take an hour where the clocks change."""
    for clock, month in itertools.product(("00:00", "02:30", "23:59"), (3, 4, 10)):
        start = datetime.datetime(2026, month, 5, 12, 0, tzinfo=ZoneInfo(zone))
        times = find_next(clock, zone, int(start.timestamp()), [-30, 7200] * 14)
        gaps = [second - first for first, second in itertools.pairwise(times)]
        assert (len(gaps), min(gaps) >= 23 * 3600, max(gaps) <= 25 * 3600) == (27, True, True)


@pytest.mark.parametrize("when", ["25:00", "3:5", "0", "daily", ""])
def test_a_time_that_is_none_is_refused(tmp_path: Path, when: str) -> None:
    """One line says what WHEN may be, before anything is submitted."""
    file = tmp_path / "daily.slurm"
    file.write_text((CRON / "daily.slurm").read_text().replace("WHEN=03:00 ", f"WHEN={when} "))
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


# --- on a cluster ---


class Chain(Login):
    """The hourly file with 2 seconds for an hour, as a reader edits it, and one command."""

    def __init__(self, cluster: Cluster, folder: Path) -> None:
        folder = folder / "my cron"
        self.commands = folder / "commands"
        self.commands.mkdir(parents=True)
        super().__init__(cluster, folder)
        changes = {
            "WHEN=3600 ": "WHEN=2 ",
            r"FOLDER=\$HOME/cron/cron.hourly": f"FOLDER='{self.commands}'",
            "--mem=1G": "--mem=100M",
            "LIMIT=30m ": "LIMIT=20s ",
        }
        self.copy(CRON / "hourly.slurm", changes)
        self.add("20_note", NOTE)
        self.write("commands/notes.txt", "neither executable nor a job\n")

    def add(self, name: str, text: str) -> None:
        self.write(f"commands/{name}", text.replace("FOLDER", f'"{self.folder}"')).chmod(0o755)

    def start(self, *options: str) -> str:
        return self.ask("sbatch", "--parsable", *options, "hourly.slurm").strip()

    def runs(self) -> list[list[str]]:
        """Which jobs have begun the command, and when."""
        path = self.folder / "runs"
        return [line.split() for line in path.read_text().splitlines()] if path.exists() else []

    def waiting(self) -> list[str]:
        return [job.number for job in self.cluster.queue() if job.state == "PENDING"]

    def log(self) -> str:
        return (self.folder / "cron_hourly.log").read_text()

    def wait_for_runs(self, count: int) -> None:
        self.cluster.wait_for(lambda: len(self.runs()) >= count, f"no {count} runs", 60)


@pytest.fixture
def chain(cluster: Cluster, tmp_path: Path) -> Iterator[Chain]:
    yield Chain(cluster, tmp_path)
    cluster.ask("scancel", "--me", "--name=cron_hourly")
    cluster.wait_for(lambda: not cluster.queue(), "scancel does not end it")


def test_the_chain_goes_on_and_stays_one(chain: Chain) -> None:
    """A command that fails is noted and ends nothing; submitting twice does not double it; a job in
    the folder is submitted with a shape of its own."""
    chain.add("10_fails", "#!/bin/sh\necho I fail\nexit 3\n")
    chain.add("30_job.slurm", SUBMITTED)
    first, second = chain.start("--hold"), chain.start()
    chain.ask("scontrol", "release", first)
    chain.wait_for_runs(3)
    runs = chain.runs()
    assert runs[0][0] == second
    assert len({job for job, _ in runs}) == 3
    assert int(runs[2][1]) > int(runs[1][1])
    log = chain.log()
    assert f"job {first}: already waiting: {second}; nothing to do\n" in log
    assert log.count("nothing to do") == 1
    assert "I fail\n" in log
    assert f"job {second}: {chain.commands}/10_fails: ended with 3\n" in log
    assert f"job {second}: {chain.commands}/20_note: ended with 0\n" in log
    assert "notes.txt: skipped, because it is not executable" in log
    shape = (chain.folder / "jobs").read_text().splitlines()[0]
    assert shape == "memory per node: , per CPU: 100"


def test_one_that_is_cancelled_leaves_no_gap(chain: Chain) -> None:
    """Whether it is the one that runs or the one that waits meanwhile: another one follows, also
    while the file is not there to be read."""
    stay = chain.write("stay", "")
    first = chain.start()
    chain.wait_for_runs(1)
    chain.ask("scancel", first)
    chain.wait_for_runs(2)
    second, (following,) = chain.runs()[1][0], chain.waiting()
    file = chain.folder / "hourly.slurm"
    file.rename(chain.folder / "moved")
    chain.ask("scancel", following)
    assert chain.waiting() == []
    stay.unlink()
    chain.wait_for_runs(3)
    assert len({first, second, following, chain.runs()[2][0]}) == 4
    assert f"job {second}: {file} cannot be read: the next is a copy of this one\n" in chain.log()
    chain.commands.rename(chain.folder / "elsewhere")
    chain.cluster.wait_for(lambda: "there is no folder" in chain.log(), "the folder is not missed")


def test_a_node_that_dies_does_not_double_it(chain: Chain) -> None:
    """Slurm starts the job of the dead node again; it finds the next one waiting, and leaves."""
    stay = chain.write("stay", "")
    first = chain.start()
    chain.wait_for_runs(1)
    chain.cluster.wait_for(chain.waiting, "the next is not submitted")
    (node,) = (job.nodes for job in chain.cluster.queue() if job.number == first)
    chain.cluster.cut(node)
    stay.unlink()
    chain.wait_for_runs(2)
    second = chain.runs()[1][0]
    assert f"job {first}: already waiting: {second}; nothing to do\n" in chain.log()
    assert [job for job, _ in chain.runs()].count(first) == 1
    assert len(chain.waiting()) <= 1
