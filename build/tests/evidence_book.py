"""A small book that quotes records and published figures, as an author would have filled it."""

import json
from collections.abc import Mapping
from typing import Any

from bindery.evidence.seals import seal_record

EPOCH = "1796083200"
"""The day of its edition, 2026-12-01, as SOURCE_DATE_EPOCH."""
MODEL = "A <processor & co. [x][y] *z*"
"""A name that Markdown and HTML would read as something else, were it not escaped."""

LISTING = """\
title: A book
parts:
  - chapters:
      - README.md
  - title: Hardware
    chapters:
      - chips/README.md
tools:
  timer:
    path: scripts/timer.py
  ruler:
    path: scripts/ruler.py
"""
PREFACE = """\
# Preface

The second step took <!-- value: times.seconds[second] --><!-- /value --> and that is
[**<!-- value: times.per_hour[second] --><!-- /value -->**](chips/README.md).

## Measured

<!-- table: times -->
<!-- /table -->

A table of the author: no note belongs to it.

| a | b |
| - | - |
| 1 | 2 |
"""
CHIPS = """\
# Chips

See [the source of A100](https://example.org/a100).

1. In a list:

   <!-- table: chips -->
   <!-- /table -->

## Lengths

<!-- table: lengths -->
<!-- /table -->
"""
CHIPS_CSV = """\
name,memory,power,source,date,class,power_source,power_class,unconfirmed,via
A100,80,400,https://example.org/a100,2026-11-20,vendor,,,no,
B200,192,1000,https://example.org/b200,2026-11-20,vendor,https://example.com/power,reported,yes,https://example.net/list
C3,64,,A letter of the vendor,2026-01-15,vendor,,,no,
"""
CHIPS_YAML = """\
title: Chips & boards
columns:
  name: {type: text, description: name}
  memory: {type: number, unit: GB, description: memory}
  power: {type: number, unit: W, description: power}
  source: {type: text, description: source}
  date: {type: date, description: date}
  class: {type: text, description: class}
  power_source: {type: text, description: source}
  power_class: {type: text, description: class}
  unconfirmed: {type: boolean, description: whether no second source agrees}
  via: {type: url, description: where it was found}
"""
TIMES = """\
-- title: Times
-- column name: Name
-- column seconds: Time [s] .2
-- column per_hour: Runs in an hour .0
SELECT name, seconds, 3600 / seconds AS per_hour FROM timer
WHERE record IN (SELECT record FROM records WHERE machine = 'cpu-x86_64-2core')
ORDER BY name
"""
CHIPS_SQL = """\
-- title: Chips and boards
-- column name: Name
-- column memory: Memory [GB]
-- column power: Power [W]
SELECT name, memory, power FROM chips ORDER BY name
"""
LENGTHS = """\
-- title: Names by length
-- column name: Name
-- column bytes: Size [B]
SELECT name, bytes FROM ruler
WHERE record IN (SELECT record FROM records WHERE machine = 'cpu-x86_64-2core')
ORDER BY name
"""


def make_record(tool: str, **changes: Any) -> str:
    """The JSON of a sealed record, as a run leaves it."""
    record = {
        "schema": 2,
        "tool": tool,
        "version": "0.1.0",
        "method": 1,
        "sha256": "0123456789abcdef" * 4,
        "profile": "full",
        "command": ["python", f"scripts/{tool}.py", "--name", "two words"],
        "environment": {"OMP_NUM_THREADS": "2"},
        "started": "2026-11-20T17:00:00Z",
        "seconds": 1.5,
        "exit_status": 0,
        "ended": "done",
        "complete": True,
        "nodes": 1,
        "ranks": 1,
        "machine": {
            "label": "cpu-x86_64-2core",
            "cpu": {"model": MODEL, "architecture": "x86_64", "sockets": 1, "cores": 2},
            "memory_bytes": 2**33,
            "accelerators": [],
        },
        "software": {"python": "3.11.2", "torch": None},
        "units": {"seconds": "s"},
        "results": [{"name": "first", "seconds": 0.25}, {"name": "second", "seconds": 0.5}],
        "details": {},
        "caveats": ["the clock | was not *sampled*"],
        "log": None,
    }
    return json.dumps(seal_record({**record, **changes}))


FILES: Mapping[str, str] = {
    "chapters.yaml": LISTING,
    "README.md": PREFACE,
    "chips/README.md": CHIPS,
    "data/chips.csv": CHIPS_CSV,
    "data/chips.yaml": CHIPS_YAML,
    "views/times.sql": TIMES,
    "views/chips.sql": CHIPS_SQL,
    "views/lengths.sql": LENGTHS,
    "scripts/timer.py": "METHOD = 1\n",
    "scripts/ruler.py": "METHOD = 2\n",
    "scripts/records/timer/cpu-x86_64-2core_20261120.json": make_record("timer"),
    "scripts/records/ruler/cpu-x86_64-2core_20261120.json": make_record(
        "ruler",
        ended="timeout",
        complete=False,
        exit_status=None,
        nodes=2,
        ranks=4,
        units={"bytes": "B"},
        results=[{"name": "long", "bytes": 4096}, {"name": "short", "bytes": 16}],
        caveats=[],
    ),
}
