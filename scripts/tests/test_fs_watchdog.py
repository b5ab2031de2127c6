"""fs_watchdog: numbers as df and du have them, disks that really fill, forecasts by hand."""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

SCRIPTS = Path(__file__).resolve().parent.parent
TOOL = "training/fs_watchdog.py"
DAY = 86400.0


@pytest.fixture
def look(run_tool: Callable[..., Any], tmp_path: Path) -> Callable[[str], Any]:
    """Look once with this file, as cron would: a process of its own. The alerts are in `alerts`."""

    def run(text: str) -> Any:
        config = tmp_path / "watch.toml"
        config.write_text(text)
        done = run_tool(TOOL, str(config))
        assert "Traceback" not in done.stderr, done.stderr
        lines = done.stdout.splitlines()
        done.alerts = [line for line in lines if line.startswith("ALERT")]
        return done

    return run


QUOTA = """#!/bin/sh
case $(cat "$0.mode") in
  fine) echo "  /home   900*  2000  4000  -  17  100";;
  over) echo "  /home  3900*  2000  4000  -  17  100";;
  none) echo "  /home  3900   2000     0  -  17    0";;
  else) echo "no quotas for you";;
  fails) echo "lfs: cannot connect" >&2; exit 5;;
  hangs) sleep 60;;
esac
"""


def test_quota_by_a_command(look: Callable[[str], Any], tmp_path: Path) -> None:
    """Its numbers, limits and failures; a limit of 0 is none."""
    program = tmp_path / "quota"
    program.write_text(QUOTA)
    program.chmod(0o755)
    text = rf"""[[path]]
path = "/home"
method = "quota"
command = "'{program}' -u me"
pattern = 'me +(?P<bytes>\S+) +\S+ +(?P<bytes_limit>\S+) +- +(?P<inodes>\d+) +(?P<inodes_limit>.+)'
unit = "KiB"
timeout = "2s"
inodes = "90%"
bytes = "90%"
"""

    def see(mode: str) -> Any:
        (tmp_path / "quota.mode").write_text(mode)
        return look(text)

    table = see("fine").stdout
    assert re.search(r"home bytes +\| quota \| 921.6 kB \| 4.096 MB \| 22.5 ", table)
    assert re.search(r"home inodes +\| quota \| +17 \| +100 \| 17.0 ", table)
    assert "over its limit: 3.994 MB used of 4.096 MB (97.5 %)" in see("over").alerts[0]
    assert "ok again: 3.994 MB used" in see("none").alerts[0]
    failures = {"else": "the pattern does not match", "fails": "lfs: cannot connect",
                "hangs": "no answer within 2 s"}  # fmt: skip
    for mode, message in failures.items():
        assert see(mode).alerts == []  # the second in a row counts
        assert message in see(mode).alerts[0]
        assert len(see("fine").alerts) == 2


def test_ok_again_only_with_a_margin(module: Any) -> None:
    """A tenth of the 100 above the limit: 891 is still over after an alert, 889 is not."""
    watched = module.Watched("/", {})
    states = [
        module.judge(module.Finding("", watched, "bytes", "", used, 1000, 900.0), before)
        for used, before in ((899, "ok"), (900, "ok"), (891, "over"), (889, "over"))
    ]
    assert states == ["ok", "over", "over", "ok"]


def test_a_disk_that_fills(look: Callable[[str], Any], mount_tmpfs: Callable[[str], Path]) -> None:
    """Bytes up to the real end, then inodes while bytes are free; each change is told once."""
    disk = mount_tmpfs("size=4m,nr_inodes=64")
    text = f'[[path]]\npath = "{disk}"\nbytes = "50%"\ninodes = "10 free"\n'
    assert look(text).alerts == []
    (disk / "a").write_bytes(bytes(3 << 20))
    first, second = look(text), look(text)
    assert "disk bytes: over its limit: 3.146 MB used of 4.194 MB (75.0 %)" in first.alerts[0]
    assert (first.returncode, second.returncode, second.alerts) == (1, 1, [])
    (disk / "a").unlink()
    for number in range(55):
        (disk / f"f{number}").touch()
    bytes_ok, inodes_over = look(text).alerts
    assert "disk bytes: ok again" in bytes_ok
    assert "disk inodes: over its limit: 56 used of 64" in inodes_over


def test_forecast_by_hand(module: Any) -> None:
    """100 GB a day and 300 GB free are 3 days; four samples tell nothing, nor does noise."""
    samples = [(day * DAY, 100e9 * day) for day in range(8)]
    assert module.make_forecast(samples, 300e9) == pytest.approx(3 * DAY)
    assert module.make_forecast(samples[:4], 300e9) is None
    assert module.make_forecast(samples, 8000e9) is None  # further ahead than ten times 7 days
    assert module.make_forecast([(day * DAY, 5.0 + (-1) ** day) for day in range(8)], 1) is None


def test_soon_is_told_before_it_is_full(look: Callable[[str], Any], tmp_path: Path) -> None:
    """Samples of the days before say that the limit comes within 3 days, but not within 1."""
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "a").write_bytes(os.urandom(8_000_000))
    text = '[[path]]\npath = "data"\nmethod = "du"\nbytes = "10MB used"\nforecast = "3d"\n'
    now = time.time()
    samples = [[now - day * DAY, 8e6 - day * 1e6] for day in range(7, 0, -1)]
    entry = {"state": "ok", "seen": "ok", "since": 0, "count": 1, "told": {}, "samples": samples}
    document = {"entries": {f"{tmp_path}/data bytes": entry}}
    (tmp_path / "watch.state.json").write_text(json.dumps(document))
    (alert,) = look(text).alerts
    assert re.search(r"data bytes: full soon: .*; full about \d{4}-\d\d-\d\d, in ", alert)
    assert look(text).alerts == []
    assert "ok again" in look(text.replace("3d", "1d")).alerts[0]


def test_the_example_is_right(module: Any, run_tool: Callable[..., Any], tmp_path: Path) -> None:
    """Also with its comments taken in; its pattern fits the line beside it."""
    text = run_tool(TOOL, "--example").stdout
    for name, secret in (("mail.login", "dog\nwoof\n"), ("webhook.url", "https://example.org/x\n")):
        (tmp_path / name).write_text(secret)
        (tmp_path / name).chmod(0o600)
    config = tmp_path / "watch.toml"
    config.write_text(re.sub(r"^#(?=[\[a-z])", "", text, flags=re.MULTILINE))
    notifier, watched = module.read_config(str(config))
    login, server = ["dog", "woof"], ("mail.example.org", 587)
    assert [tuple(channel) for channel in notifier.channels] == [
        ("stdout",),
        (["you@example.org"], server, login, "watchdog@example.org", "mail"),
        ("https://example.org/x", "webhook"),
    ]
    (line,) = re.findall(r"^# +prints: (.*)$", text, re.MULTILINE)
    quota = next(one for one in watched if one.method == "quota")
    seen = module.measure_quota(quota._replace(command=["echo", line]))
    assert seen == {"bytes": [1024 * 1024, 4096 * 1024], "inodes": [17, None]}
