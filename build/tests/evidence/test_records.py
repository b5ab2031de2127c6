"""Records: what is taken, and that nothing half true gets in."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from bindery.core.model import Finding
from bindery.evidence import seals
from bindery.evidence.records import (
    Machine,
    Record,
    UnlikeMachinesError,
    format_record,
    merge_machines,
    parse_record,
)

NEW: dict[str, Any] = {
    "schema": 2,
    "tool": "timer",
    "version": "0.1.0",
    "method": 1,
    "sha256": "0" * 64,
    "profile": "demo",
    "command": ["python", "timer.py"],
    "started": "2026-11-20T17:00:00Z",
    "seconds": 1.5,
    "exit_status": 0,
    "complete": True,
    "machine": {"label": "cpu", "cpu": {"model": None}, "memory_bytes": 1024},
    "software": {"torch": None},
    "results": [{"name": "a", "seconds": 0.25, "good": True, "spare": None}],
    "caveats": ["could not read clocks"],
    "environment": {"OMP_NUM_THREADS": "2"},
    "ended": "done",
    "nodes": 2,
    "ranks": 4,
    "units": {"seconds": "s"},
    "log": "cpu_20261120.log",
}


def make_record(base: Mapping[str, Any] = NEW, **changes: Any) -> str:
    """A record as it would be written, `...` standing for a field that is not there; of schema 2
    it is sealed."""
    record = {key: value for key, value in {**base, **changes}.items() if value is not ...}
    if record.get("schema") == 2 and isinstance(record.get("results"), list):
        rows = record["results"]
        record = seals.seal_record({**record, "results": [r for r in rows if isinstance(r, dict)]})
        record = {**record, "results": rows, **changes.get("over", {})}
        record.pop("over", None)
        record["seal"].pop("over", None)
    return json.dumps(record, indent=1)


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
        ({"seconds": ...}, "seconds"),
        ({"seconds": -1}, "seconds"),
        ({"sha256": "abc"}, "sha256"),
        ({"tool": "Timer!"}, "tool"),
        ({"started": "yesterday"}, "started"),
        ({"method": "1"}, "method"),
        ({"ended": "exploded"}, "ended"),
        ({"ended": "timeout"}, "complete"),
        ({"ended": "failed"}, "ended"),
        ({"ranks": 1}, "ranks"),
        ({"results": [{"seconds": 1}, {"seconds": True}]}, "units.seconds"),
        ({"log": "../x.log"}, "log"),
        ({"machine": {"label": "cpu", "cpu": {}, "owner": "me"}}, "machine.owner"),
        ({"results": [{"seconds": 1}, {"seconds": {}}]}, "results.1.seconds"),
        ({"results": [{"a": 10**30}]}, "results.0.a"),
        ({"results": [{"a": [1, 2]}]}, "results.0.a"),
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
    assert f'"{words[-1]}"' in line or changes.get(key) is ...


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
        ({"results": [{"a": 10**30}]}, "measure again, and let the tool write it as 1.5e20"),
        ({"units": {}}, "measure again, and let the tool write 's'"),
        (
            {"user": "me"},
            "the schema is scripts/schemas/record-2.json in the repository of bindery",
        ),
    ],
)
def test_no_hint_asks_to_edit_a_record(changes: dict[str, Any], hint: str) -> None:
    """What is wrong in a record is mended by its tool, for an edit would break its seal."""
    assert read_finding(make_record(**changes)).help == hint


def test_how_to_measure_again_is_told() -> None:
    """A run with added arguments has no profile that could be named."""
    assert read_record(make_record()).again == "`bindery run timer --profile demo`"
    custom = read_record(make_record(profile="custom")).again
    assert custom == "`bindery run timer -- ...` and the arguments of its command"


@pytest.mark.parametrize("text", ["", "{", "[]", "null", '"record"', '{"schema": 1,}'])
def test_what_is_no_record_is_refused(text: str) -> None:
    """Anything but a JSON object of the schema is one finding, and no traceback."""
    read_finding(text)


# --- schemas ---


@pytest.mark.parametrize("number", [1, "2", None])
def test_another_schema_is_refused(number: object) -> None:
    """A record of a later schema is refused, and its reader is told what may help."""
    text = make_record(schema=number)
    finding = read_finding(text)
    assert finding.message == f"'schema' is {json.dumps(number)}, and this bindery reads schema 2"
    assert '"schema"' in text.split("\n")[finding.span.line - 1]


# --- units ---


@pytest.mark.parametrize(
    ("results", "units", "message"),
    [
        ([{"time": 1}], {}, "'units': the column 'time' has no unit; one of: 1, s, B, FLOP, "),
        ([{"t": 1}], {"t": "ms"}, "'units.t': 'ms' is not a base unit; store seconds, with the "),
        ([{"r": 1}], {"r": "gb/s"}, "'units.r': 'gb/s' is not a base unit; store bytes per sec"),
        ([{"r_gbps": 1}], {"r_gbps": "B/s"}, "'units.r_gbps': the name says 'gbps', which is n"),
        ([{"x": 1}, {"t_ms": 2}], {"x": "1"}, "'results.1.t_ms': the name says 'ms', which is "),
        ([{"seconds": 1}], {"seconds": "B"}, "'units.seconds': the name says seconds, and the "),
        ([{"share": 1}], {"share": "%"}, "'units.share': '%' is not a base unit; store the rat"),
        ([{"rate": 1}], {"rate": "hertz"}, "'units.rate': 'hertz' is not a known unit"),
        ([{"bits_per_second": 1}], {"bits_per_second": "1"}, "'units.bits_per_second': the name"),
        ([{"a": 1}], {"a": "1", "b": "1"}, "'units.b': no row of the results has such a column"),
        ([{"a": "x"}], {"a": "1"}, "'units.a': this column has text, which needs no unit"),
    ],
)
def test_a_wrong_unit_is_refused(
    results: list[dict[str, Any]], units: dict[str, str], message: str
) -> None:
    """Every column of numbers has a base unit that its name does not contradict; what is wrong is
    named with what to write."""
    text = make_record(results=results, units=units)
    finding = read_finding(text)
    assert finding.message.startswith(message)


@pytest.mark.parametrize(
    ("column", "unit"),
    [
        ("seconds_per_step", "s"),
        ("tokens_per_second", "1/s"),
        ("bus_bytes_per_second_median", "B/s"),
        ("flops_per_byte", "1"),
        ("seconds_spread", "1"),
        ("good", None),
        ("weight_bits", "1"),
    ],
)
def test_units_that_names_do_not_contradict(column: str, unit: str | None) -> None:
    """A rate, a share and a count have the units that they have; true and false have none."""
    value = 1 if unit else True
    units = {column: unit} if unit else {}
    assert read_record(make_record(results=[{column: value}], units=units)).units == units


# --- seals ---

ROWS = [{"name": "a", "seconds": 0.25, "n": 5}, {"name": "b", "seconds": 0.5, "n": 5}]


@pytest.mark.parametrize(
    ("over", "message", "line"),
    [
        (
            {"results": [ROWS[0], {**ROWS[1], "seconds": 0.4}]},
            "'results.1.seconds' was changed",
            "",
        ),
        ({"results": ROWS[:1]}, "'results' has 1 rows, and 2 were measured", ""),
        ({"results": ROWS[::-1]}, "'results.0' was changed after it was measured, and so were", ""),
        (
            {"results": [{"name": "b", "seconds": 9, "n": 5}, ROWS[1]]},
            "'results.0' was changed",
            "",
        ),
        ({"complete": False}, "'complete' was changed", '"complete"'),
        ({"details": {"more": 1}}, "'details' was added after it was measured", '"details"'),
    ],
)
def test_an_edit_by_hand_is_named(over: dict[str, Any], message: str, line: str) -> None:
    """A sealed record that is changed afterwards is refused, with the row and the column where
    that can be told, and with what undoes the edit."""
    units = {"seconds": "s", "n": "1"}
    text = make_record(results=ROWS, units=units, over=over)
    finding = read_finding(text, "edited-record")
    assert finding.message.startswith(message)
    assert finding.help == (
        "undo the edit with `git checkout -- r.json`, or measure again with "
        "`bindery run timer --profile demo`"
    )
    assert line in text.split("\n")[finding.span.line - 1]


def test_a_field_that_was_taken_out_is_named() -> None:
    """A caveat that is gone is an edit like any other."""
    data = json.loads(make_record())
    del data["caveats"]
    message = read_finding(json.dumps(data), "edited-record").message
    assert message == "'caveats' was taken out after it was measured"


@pytest.mark.parametrize("seal", [..., None, {"tool": 5}, {"results": "0" * 16}])
def test_a_record_without_a_good_seal_is_refused(seal: Any) -> None:
    """Nobody gets rid of a seal by taking it out."""
    data = {**json.loads(make_record()), "seal": seal}
    text = json.dumps({key: value for key, value in data.items() if value is not ...})
    assert isinstance(parse_record("r.json", text), Finding)


def test_layout_is_no_edit() -> None:
    """Indents, the order of keys and the spelling of numbers and letters may change."""
    data = json.loads(make_record(caveats=["é"]))
    text = json.dumps(dict(reversed(data.items())), ensure_ascii=False).replace("0.25", "2.5e-1")
    read_record(text)


def test_what_is_written_is_read_again() -> None:
    """A record that is formatted and read is the same, and sealed."""
    record = read_record(make_record(started="2026-11-20T18:00:00+01:00"))
    again = read_record(format_record(record.model_copy(update={"seal": None})))
    assert again.model_copy(update={"seal": None}) == record.model_copy(update={"seal": None})
    assert again.seal is not None


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
    return Machine.model_validate({**data, **changes})


def test_hardware_is_what_is_compared() -> None:
    """Accelerators with their count, and the processor only where there is none."""
    assert make_machine(8).hardware == "8 x NVIDIA H100 80GB HBM3"
    assert make_machine().hardware == "AMD EPYC, 1 socket, 2 cores"
    fast = {**CPU, "instruction_sets": ["avx2", "amx_bf16"]}
    assert make_machine(cpu=fast).hardware == "AMD EPYC with amx_bf16, 1 socket, 2 cores"
    assert make_machine(cpu={}).hardware == "unknown processor"
    assert make_machine(1, {"vendor": "amd"}).hardware == "1 x amd"
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
    message = rf"'{re.escape(field)}' is '.*' on node 1, and '.*' on node 3"
    with pytest.raises(UnlikeMachinesError, match=message):
        merge_machines([same, same, other])
