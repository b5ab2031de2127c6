"""Tables, notes and JSON files."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest
from kit.cli import UsageError
from kit.report import (
    Report,
    check_writable,
    format_bytes,
    format_seconds,
    format_spans,
    format_table,
    read_json,
    write_json,
)

SCHEMAS = Path(__file__).resolve().parents[2] / "schemas"


def test_a_table_aligns_numbers_right() -> None:
    """Pipes in cells are escaped, None is a dash."""
    table = format_table(["name", "n"], [["a|b", 5], ["c", None]])
    assert table == "| name |   n |\n| ---- | --: |\n| a\\|b |   5 |\n| c    |   - |"


def test_a_report_fits_the_schema(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What `save` writes is what `bindery run` accepts; a note is printed once."""
    path = tmp_path / "out.json"
    report = Report("x", "1.0.0", 2, path, {"keys": ["size"]})
    report.rows.append({"size": "1 MiB", "seconds": 0.5, "ok": True})
    report.note("mind the gap")
    report.note("mind the gap")
    report.complete = True
    report.save()
    document = read_json("--json", path)
    jsonschema.validate(document, json.loads((SCHEMAS / "tool-output-2.json").read_text()))
    assert document["units"] == {"seconds": "s"}
    assert document["caveats"] == ["mind the gap"]
    assert capsys.readouterr().err == "note: mind the gap\n"
    assert [p.name for p in tmp_path.iterdir()] == ["out.json"]


def test_a_file_is_whole_or_untouched(tmp_path: Path) -> None:
    """What cannot be written as JSON leaves the old file as it was."""
    path = tmp_path / "out.json"
    write_json(path, {"a": 1})
    with pytest.raises(ValueError, match="not JSON compliant"):
        write_json(path, {"a": float("nan")})
    assert json.loads(path.read_text()) == {"a": 1}
    assert [p.name for p in tmp_path.iterdir()] == ["out.json"]


def test_where_nothing_can_be_written_is_found_before_the_run(tmp_path: Path) -> None:
    """A folder; what is read is named too."""
    with pytest.raises(UsageError, match=r"--json: .* is a folder"):
        check_writable("--json", tmp_path)
    with pytest.raises(UsageError, match=r"--resume: .*x: No such file"):
        read_json("--resume", tmp_path / "x")


def test_units() -> None:
    """Three digits in the unit that fits; neighbours of a list of ranks are joined."""
    assert format_spans([5, 0, 2, 1, 1]) == "0-2,5"
    assert format_bytes(32768) == "32 KiB"
    assert format_bytes(4_000_000_000) == "4 GB"
    assert format_bytes(1.5 * 1024**3) == "1536 MiB"
    assert format_bytes(123_456_789) == "118 MiB"
    assert format_seconds(8.02e-3) == "8.02 ms"
    assert format_seconds(0.9996) == "1 s"
    assert format_seconds(12e-6) == "12 µs"
    assert format_seconds(7200) == "2 h"
