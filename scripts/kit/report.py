"""What a tool writes: a Markdown table on stdout, notes on stderr, and JSON in base units."""

import datetime
import json
import math
import os
import sys
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from kit.cli import UsageError

Row = dict[str, Any]

UNIT_WORDS = {
    "bytes_per_second": "B/s", "flops_per_second": "FLOP/s", "per_second": "1/s", "seconds": "s",
    "bytes": "B", "watts": "W", "hertz": "Hz", "celsius": "degC",
}  # fmt: skip
"""Words in the name of a column, and its base unit."""
SAVE_INTERVAL = 5.0
"""Seconds between two writes of a JSON file while a run goes on."""


class Report:
    """The rows, notes and details of a run, and the JSON file that holds them.

    Numbers are in base units: 1, s, B, B/s, FLOP, FLOP/s, W, degC, Hz, 1/s. `units` has those of
    columns whose name does not show it. A run that ends early keeps `complete` False; `failed` is
    set where an error ended it. `path` None writes no file; ranks other than the first pass None.
    Raises UsageError where `path` cannot be written.
    """

    def __init__(
        self,
        tool: str,
        version: str,
        method: int,
        path: str | Path | None = None,
        compare: Mapping[str, Any] | None = None,
        units: Mapping[str, str] | None = None,
    ) -> None:
        self.head = {"tool": tool, "version": version, "method": method}
        self.units = dict(units or {})
        self.path = check_writable("--json", path) if path else None
        self.rows: list[Row] = []
        self.notes: list[str] = []
        self.details: dict[str, Any] = {"compare": dict(compare)} if compare else {}
        self.complete = False
        self.failed = False
        self.origin = time.monotonic()
        self.saved = -math.inf

    def note(self, text: str) -> None:
        """Print a note beside the table, once, and keep it in the JSON."""
        if text not in self.notes:
            self.notes.append(text)
            print(f"note: {text}", file=sys.stderr)

    def document(self) -> dict[str, Any]:
        """The JSON document, as scripts/schemas/tool-output-2.json describes it."""
        seconds = time.monotonic() - self.origin
        began = datetime.datetime.now(datetime.UTC) - datetime.timedelta(seconds=seconds)
        return {
            **self.head,
            "command": ["python", Path(sys.argv[0]).name, *map(_hide_folder, sys.argv[1:])],
            "started": began.strftime("%Y-%m-%dT%H:%M:%SZ"),
            "seconds": round(seconds, 3),
            "complete": self.complete,
            "units": {
                name: self.units.get(name) or find_unit(name)
                for row in self.rows
                for name, value in row.items()
                if type(value) in (int, float)
            },
            "results": self.rows,
            "caveats": self.notes,
            "details": self.details,
        }

    def save(self, *, force: bool = True) -> None:
        """Write the JSON file; without `force` only if the last write is 5 s old."""
        now = time.monotonic()
        if self.path and (force or now - self.saved > SAVE_INTERVAL):
            write_json(self.path, self.document())
            self.saved = now


def find_unit(column: str) -> str:
    """The base unit of a column of numbers, by its name: `B` of `size_bytes`, `1` of `ranks`."""
    return next((unit for words, unit in UNIT_WORDS.items() if words in column), "1")


def write_json(path: Path, document: Mapping[str, Any]) -> None:
    """Write JSON under a temporary name and move it into place. NaN and infinity are errors."""
    text = json.dumps(document, indent=1, allow_nan=False) + "\n"
    if path.exists() and not path.is_file():  # /dev/stdout or a named pipe
        path.write_text(text, encoding="utf-8")
        return
    partial = path.with_name(f".{path.name}.{os.getpid()}")
    partial.write_text(text, encoding="utf-8")
    partial.replace(path)


def check_writable(option: str, path: str | Path) -> Path:
    """The path, made absolute, before anything is measured. Raises UsageError where it is a
    folder, or is in a folder that is missing or read-only."""
    target = Path(path).expanduser().resolve()
    if target.is_dir():
        raise UsageError(f"{option}: {path} is a folder; name a file in it")
    if not target.parent.is_dir():
        raise UsageError(f"{option}: there is no folder {target.parent}")
    if not os.access(target if target.exists() else target.parent, os.W_OK):
        raise UsageError(f"{option}: no permission to write {target}")
    return target


def read_json(option: str, path: str | Path) -> Any:
    """The content of a JSON file. Raises UsageError that names the option, file and reason."""
    try:
        return json.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"{option}: {path}: {error.strerror}") from error
    except ValueError as error:
        raise UsageError(f"{option}: {path} is not JSON: {error}") from error


def format_table(headings: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A Markdown table with aligned columns; a column of numbers is aligned right."""
    cells = [[_escape(cell) for cell in row] for row in rows]
    head = [_escape(name) for name in headings]
    widths = [max(3, *(len(row[i]) for row in [head, *cells])) for i in range(len(head))]
    right = [all(_is_number(row[i]) for row in cells) and bool(cells) for i in range(len(head))]

    def join(row: Sequence[str]) -> str:
        texts = (
            t.rjust(w) if r else t.ljust(w) for t, w, r in zip(row, widths, right, strict=True)
        )
        return f"| {' | '.join(texts)} |"

    rule = ["-" * (w - 1) + (":" if r else "-") for w, r in zip(widths, right, strict=True)]
    return "\n".join([join(head), join(rule), *map(join, cells)])


def format_bytes(count: float) -> str:
    """`32 KiB`, `1.5 GiB`, `4 MB` where decimal is exact: the shortest of the exact forms, else
    binary with three digits."""
    exact = [f"{count:.0f} B"] if count == int(count) else []
    for base, units in ((1024, ("KiB", "MiB", "GiB", "TiB")), (1000, ("kB", "MB", "GB", "TB"))):
        for power, unit in enumerate(units, start=1):
            if count and count % base**power == 0:
                exact.append(f"{count / base**power:.0f} {unit}")
    shortest = min(exact, key=len, default="")
    if shortest and len(shortest.split()[0]) <= 4:
        return shortest
    power = min(4, max(0, int(math.log(abs(count) or 1, 1024))))
    return f"{count / 1024**power:.3g} {('B', 'KiB', 'MiB', 'GiB', 'TiB')[power]}"


def format_seconds(seconds: float) -> str:
    """`12 µs`, `8.02 ms`, `2.3 s`, `5.4 min`, `3.1 h` or `12.5 d`, to three digits."""
    for factor, unit in ((86400.0, "d"), (3600.0, "h"), (60.0, "min"), (1.0, "s"), (1e-3, "ms")):
        if seconds >= factor * (2 if factor > 1 else 0.9995):
            return f"{seconds / factor:.3g} {unit}"
    return f"{seconds / 1e-6:.3g} µs"


def format_spans(numbers: Iterable[int]) -> str:
    """`0-2,5`: whole numbers, such as ranks, in as few words as they take."""
    spans: list[list[int]] = []
    for number in sorted(set(numbers)):
        if spans and number == spans[-1][1] + 1:
            spans[-1][1] = number
        else:
            spans.append([number, number])
    return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in spans)


def name_ranks(ranks: Collection[int]) -> str:
    """`rank 3` or `ranks 0-2,5`."""
    return f"rank{'' if len(ranks) == 1 else 's'} {format_spans(ranks)}"


class Progress:
    """A line on the terminal that is rewritten; in a log, a line every 30 seconds."""

    def __init__(self, total: int, noun: str, *, quiet: bool = False) -> None:
        self.total, self.noun, self.quiet = total, noun, quiet
        self.shown = time.monotonic()

    def show(self, done: int, text: str = "") -> None:
        """Show how far the run is."""
        line = f"{done}/{self.total} {self.noun}" + (f", {text}" if text else "")
        if sys.stderr.isatty() and not self.quiet:
            print(f"\r\033[K{line}", end="", file=sys.stderr, flush=True)
        elif time.monotonic() - self.shown > 30 and not self.quiet:
            print(line, file=sys.stderr, flush=True)
            self.shown = time.monotonic()

    def close(self) -> None:
        """Clear the line."""
        if sys.stderr.isatty() and not self.quiet:
            print("\r\033[K", end="", file=sys.stderr, flush=True)


def _hide_folder(argument: str) -> str:
    """An argument without the folders of an absolute path: they name people and machines."""
    name, equals, value = argument.rpartition("=")
    return name + equals + Path(value).name if value.startswith(("/", "~")) else argument


def _escape(cell: object) -> str:
    return "-" if cell is None else str(cell).replace("|", "\\|").replace("\n", " ")


def _is_number(cell: str) -> bool:
    return cell == "-" or cell.lstrip("~<>±+-")[:1].isdigit()
