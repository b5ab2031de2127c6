"""Records: what is taken, and that nothing half true gets in."""

import json
import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import evidence_book
import msgspec
import pytest
from bindery.core.model import Finding
from bindery.evidence.records import (
    Machine,
    Record,
    UnlikeMachinesError,
    format_record,
    merge_machines,
    parse_record,
)
from msgspec.structs import replace


def make_record(over: Mapping[str, Any] | None = None, **changes: Any) -> str:
    """The JSON of a record, `over` put over its fields after it was sealed."""
    record = json.loads(evidence_book.make_record("timer", **changes))
    return json.dumps({**record, **(over or {})}, indent=1)


def read_finding(text: str, rule: str = "bad-record") -> Finding:
    finding = parse_record("r.json", text)
    assert isinstance(finding, Finding)
    assert finding.rule == rule, finding
    return finding


def read_record(text: str) -> Record:
    record = parse_record("r.json", text)
    assert isinstance(record, Record), record
    return record


@pytest.mark.parametrize(
    ("changes", "key"),
    [
        ({"seconds": -1}, "seconds"),
        ({"started": "yesterday"}, "started"),
        ({"ended": "timeout"}, "complete"),
        ({"ended": "failed"}, "ended"),
        ({"nodes": 2}, "ranks"),
        ({"results": [{"seconds": 1}, {"seconds": True}]}, "units.seconds"),
        ({"log": "../x.log"}, "log"),
        ({"results": [{"a": 10**30}]}, "results.0.a"),
        ({"user": "me"}, "user"),
    ],
)
def test_a_wrong_value_is_named_with_its_line(changes: dict[str, Any], key: str) -> None:
    """What is wrong is named by its key, on the line where that stands."""
    text = make_record(**changes)
    finding = read_finding(text)
    assert finding.message.startswith(f"'{key}': ")
    words = [word for word in key.split(".") if not word.isdigit()]
    line = text.split("\n")[finding.span.line - 1]
    assert f'"{words[-1]}"' in line


@pytest.mark.parametrize("text", ["[" * 100_000, '{"seconds": ' + "9" * 5000 + "}"])
def test_a_record_that_no_tool_writes_is_refused(text: str) -> None:
    """Python's reader of JSON gives up on both."""
    assert read_finding(text).message == "this JSON is nested too deeply, or has too long a number"


def test_a_run_of_the_future_is_refused() -> None:
    """The caller says how late a run can have started; clocks differ by less than a day."""
    latest = datetime(2026, 11, 20, 17, tzinfo=UTC)
    assert isinstance(parse_record("r.json", make_record(), latest), Record)
    finding = parse_record("r.json", make_record(), latest - timedelta(seconds=1))
    assert isinstance(finding, Finding)
    assert finding.message.startswith("'started': this is in the future")


@pytest.mark.parametrize(
    ("changes", "hint"),
    [
        ({"results": [{"a": 10**30}]}, "make the tool write it as 1.5e20, then measure again"),
        ({"user": "me"}, "see the schema scripts/schemas/record-2.json in the bindery repository"),
    ],
)
def test_no_hint_asks_to_edit_a_record(changes: dict[str, Any], hint: str) -> None:
    """What is wrong in a record is mended by its tool, for an edit would break its seal."""
    assert read_finding(make_record(**changes)).help.startswith(hint)


def test_how_to_measure_again_is_told() -> None:
    """A run with added arguments has no profile that could be named."""
    assert read_record(make_record()).again == "`bindery run timer --profile full`"
    custom = read_record(make_record(profile="custom")).again
    assert custom == "`bindery run timer -- ...` and the arguments of its command"


# --- units ---


@pytest.mark.parametrize(
    ("results", "units", "message"),
    [
        ([{"time": 1}], {}, "'units': the column 'time' has no unit; one of: 1, s, B, FLOP, "),
        ([{"t": 1}], {"t": "ms"}, "'units.t': 'ms' is not a base unit; store seconds, with the "),
        ([{"rate": 1}], {"rate": "banana"}, "'units.rate': 'banana' is not a base unit; one of"),
        ([{"a": 1}], {"a": "1", "b": "1"}, "'units.b': no row of the results has this column"),
        ([{"a": "x"}], {"a": "1"}, "'units.a': only a column of numbers can have a unit"),
    ],
)
def test_a_wrong_unit_is_refused(
    results: list[dict[str, Any]], units: dict[str, str], message: str
) -> None:
    """Every column of numbers has a base unit, and no other column has one."""
    assert read_finding(make_record(results=results, units=units)).message.startswith(message)


# --- seals ---

ROWS = [{"name": "a", "seconds": 0.25, "n": 5}, {"name": "b", "seconds": 0.5, "n": 5}]


@pytest.mark.parametrize(
    ("over", "message"),
    [
        ({"results": [ROWS[0], {**ROWS[1], "seconds": 0.4}]}, "'results.1.seconds' was changed"),
        ({"results": ROWS[:1]}, "'results' has 1 rows, but 2 were measured"),
        ({"results": ROWS[::-1]}, "'results.0' was changed after it was measured, and so were"),
        ({"complete": False}, "'complete' was changed"),
    ],
)
def test_an_edit_by_hand_is_named(over: dict[str, Any], message: str) -> None:
    """A sealed record that is changed afterwards is refused, with the row and the column where
    that can be told, and with what undoes the edit."""
    units = {"seconds": "s", "n": "1"}
    finding = read_finding(make_record(over, results=ROWS, units=units), "edited-record")
    assert finding.message.startswith(message)
    assert finding.help == (
        "undo the edit with `git checkout -- r.json`, or measure again with "
        "`bindery run timer --profile full`"
    )


def test_a_field_that_was_taken_out_is_named() -> None:
    """A caveat that is gone is an edit like any other."""
    data = json.loads(make_record())
    del data["caveats"]
    message = read_finding(json.dumps(data), "edited-record").message
    assert message == "'caveats' was removed after it was measured"


def test_layout_is_no_edit() -> None:
    """Indents, the order of keys and the spelling of numbers and letters may change."""
    data = json.loads(make_record(caveats=["é"]))
    text = json.dumps(dict(reversed(data.items())), ensure_ascii=False).replace("0.25", "2.5e-1")
    assert isinstance(parse_record("r.json", text), Record)


def test_what_is_written_is_read_again() -> None:
    """A record that is formatted and read is the same, and sealed."""
    record = read_record(make_record(started="2026-11-20T18:00:00+01:00"))
    again = read_record(format_record(replace(record, seal={})))
    assert replace(again, seal={}) == replace(record, seal={})
    assert again.seal


# --- machines ---


GPU = {
    "vendor": "nvidia",
    "model": "NVIDIA H100 80GB HBM3",
    "memory_bytes": 85520809984,
    "power_limit_watts": 700.0,
    "clock_hertz": 1755000000,
    "temperature_celsius": 41.0,
    "throttle_reasons": ["gpu_idle"],
}
CPU = {"model": "AMD EPYC", "architecture": "x86_64", "sockets": 1, "cores": 2, "threads": 4}


def make_machine(gpus: int = 0, gpu: Mapping[str, Any] = GPU, **changes: Any) -> Machine:
    data = {"label": "m", "cpu": CPU, "memory_bytes": 10**12, "accelerators": [gpu] * gpus}
    return msgspec.convert({**data, **changes}, Machine)


def test_hardware_is_what_is_compared() -> None:
    """Accelerators with their count, and the processor only where there is none."""
    assert make_machine(8).hardware == "8 x NVIDIA H100 80GB HBM3"
    assert make_machine().hardware == "AMD EPYC, 1 socket, 2 cores"
    fast = {**CPU, "instruction_sets": ["avx2", "amx_bf16"]}
    assert make_machine(cpu=fast).hardware == "AMD EPYC with amx_bf16, 1 socket, 2 cores"
    other = {**GPU, "model": "NVIDIA T4"}
    assert make_machine(accelerators=[GPU, other]).hardware == (
        "1 x NVIDIA H100 80GB HBM3, 1 x NVIDIA T4"
    )


def test_alike_machines_become_one_with_the_worst_of_the_moment() -> None:
    """Clocks, temperatures and throttle reasons may differ: the lowest, the highest, and all."""
    hot = {
        **GPU,
        "clock_hertz": 1000000000,
        "temperature_celsius": 90,
        "throttle_reasons": ["hw_thermal_slowdown"],
    }
    job = {"nodes": 2, "cpus_on_node": 8}
    first = make_machine(2, hostname="a", slurm=job)
    second = make_machine(2, hot, memory_bytes=10**12 + 10**9, slurm={**job, "cpus_on_node": 4})
    merged = merge_machines([first, second])
    gpu = merged.accelerators[0]
    assert (gpu.clock_hertz, gpu.temperature_celsius) == (1000000000, 90)
    assert gpu.throttle_reasons == ("gpu_idle", "hw_thermal_slowdown")
    assert merged.hostname is None
    assert merged.slurm is None
    assert merge_machines([first]) == first


@pytest.mark.parametrize(
    ("other", "field"),
    [
        (make_machine(1, memory_bytes=98 * 10**10), "memory_bytes"),
        (make_machine(2), "number of accelerators"),
        (make_machine(1, {**GPU, "power_limit_watts": 500.0}), "accelerators.0.power_limit_watts"),
        (make_machine(1, cpu={**CPU, "cores": 64}), "cpu.cores"),
    ],
)
def test_unlike_machines_are_never_merged(other: Machine, field: str) -> None:
    """What decides speed has to be the same on all nodes; the node that differs is named."""
    same = make_machine(1)
    message = rf"'{re.escape(field)}' is '.*' on node 1, but '.*' on node 3"
    with pytest.raises(UnlikeMachinesError, match=message):
        merge_machines([same, same, other])
