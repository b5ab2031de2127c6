"""Comparing a run with recorded ones: like with like only, the verdict, and the words of it."""

import json
from pathlib import Path
from typing import Any

import evidence_book
import msgspec
import pytest
from bindery.check.rules import RULES
from bindery.core.config import load_config
from bindery.core.repository import Tree
from bindery.evidence.compare.declaration import Terms, read_terms
from bindery.evidence.compare.judge import (
    Comparison,
    NothingAlikeError,
    compare_run,
    judge_ratio,
    make_references,
    make_run,
)
from bindery.evidence.compare.words import write_sentences, write_table
from bindery.evidence.records import (
    Record,
    ToolOutput,
    format_record,
    load_records,
    parse_record,
)
from fixture_types import BookMaker, Runner

ROOT = Path(__file__).resolve().parents[3]

FABRIC = Terms(
    tool="fabric",
    keys=("op", "payload_bytes"),
    value="bytes_per_second",
    better="higher",
    spread="spread",
    trusted={"verdict": ("ok",)},
    alike=("details.settings.algorithm",),
)
WAIT = Terms(tool="wait", keys=("op",), value="seconds", better="lower")
H100 = [{"vendor": "nvidia", "model": "NVIDIA H100"}] * 8
UNITS = {"bytes_per_second": "B/s", "payload_bytes": "B", "seconds": "s", "spread": "1"}


def make_row(**changes: Any) -> dict[str, Any]:
    row = {"op": "all_reduce", "payload_bytes": 2**30, "bytes_per_second": 366e9}
    return {**row, "spread": 0.02, "verdict": "ok", **changes}


def make_machine(watts: float) -> dict[str, Any]:
    """A node of eight accelerators with this power limit."""
    accelerators = [{**H100[0], "power_limit_watts": watts}] * 8
    return {"label": "h100-x8", "cpu": {"model": "Xeon"}, "accelerators": accelerators}


def make_record(rows: list[dict[str, Any]], tool: str = "fabric", **changes: Any) -> Record:
    data = {
        "started": "2026-08-01T10:00:00Z",
        "environment": {},
        "machine": {"label": "h100-x8", "cpu": {"model": "Xeon"}, "accelerators": H100},
        "units": {key: UNITS[key] for row in rows for key in row if key in UNITS},
        "results": rows,
        "details": {"settings": {"algorithm": "ring"}},
    }
    record = parse_record("r.json", evidence_book.make_record(tool, **{**data, **changes}))
    assert isinstance(record, Record), record
    return record


def make_output(rows: list[dict[str, Any]], **changes: Any) -> ToolOutput:
    record = make_record(rows, **changes)
    known = {key: getattr(record, key) for key in ToolOutput.__struct_fields__}
    return ToolOutput(**known)


def compare(run: Record | ToolOutput, *others: Record, terms: Terms = FABRIC) -> Comparison:
    """A run beside records with the names r0, r1, ..."""
    records = {f"r{number}": other for number, other in enumerate(others)}
    return compare_run(make_run(run, terms), make_references(records, terms, {}), terms)


def say(run: Record, *others: Record) -> list[str]:
    return write_sentences(compare(run, *others))


def explain(run: Record, *others: Record) -> tuple[str, ...]:
    """Why a run cannot be compared."""
    with pytest.raises(NothingAlikeError) as error:
        compare(run, *others)
    return error.value.reasons


# --- the verdict ---


def test_several_rows_are_judged_together_and_one_by_one() -> None:
    """The run is the geometric mean of its rows; each row has its verdict, the worst first."""
    sizes = [2**20, 2**25, 2**30]
    recorded = [make_row(payload_bytes=size, spread=0.1) for size in sizes]
    rates = [366e9 * share for share in (1.02, 0.8, 0.6)]
    yours = [{**row, "bytes_per_second": r} for row, r in zip(recorded, rates, strict=True)]
    shape = {"nodes": 4, "ranks": 32}
    comparison = compare(make_record(yours, **shape), make_record(recorded, **shape))
    assert comparison.ratio == pytest.approx((1.02 * 0.8 * 0.6) ** (1 / 3))
    assert write_sentences(comparison) == [
        (
            "your run is at 78.8 % of the recorded 4-node run of 2026-08-01 on "
            "8 x NVIDIA H100 (r0), the geometric mean of 3 rows; expected 90.0 to 110.0 %: below"
        ),
        "rows: 1 far below, 1 below, 1 within",
    ]
    rows = [line.split(" | ")[-4:] for line in write_table(comparison).splitlines()]
    assert [[cell.strip(" |") for cell in row] for row in rows if "-" not in row[0]] == [
        ["recorded", "%", "expected", "verdict"],
        ["370", "60.0", "329 to 403", "far below"],
        ["370", "80.0", "329 to 403", "below"],
        ["370", "102.0", "329 to 403", "within"],
    ]
    assert comparison.is_worse


@pytest.mark.parametrize(
    ("ratio", "margin", "verdict"),
    [
        (0.96, 0.05, "within"),
        (0.84, 0.05, "far below"),
        (1.1, 0.05, "above"),
        (0.01, 0.4, "below"),
    ],
)
def test_verdict_by_hand(ratio: float, margin: float, verdict: str) -> None:
    """Within the margin, beyond it, or beyond three times it; a spread as wide as the value has
    no lower bound."""
    assert judge_ratio(ratio, margin) == verdict


@pytest.mark.parametrize(("seconds", "verdict", "worse"), [(1.2, "far above", True),
                                                           (0.8, "far below", False)])  # fmt: skip
def test_where_lower_is_better_above_is_worse(seconds: float, verdict: str, worse: bool) -> None:
    """A time above the recorded one is worse, and the table says which way is better."""
    recorded = make_record([{"op": "a", "seconds": 1.0}], tool="wait")
    run = make_record([{"op": "a", "seconds": seconds}], tool="wait")
    comparison = compare(run, recorded, terms=WAIT)
    assert (comparison.verdict, comparison.is_worse) == (verdict, worse)
    assert "| yours, s (lower is better) |" in write_table(comparison)
    warned = "a result far better than recorded needs an explanation too"
    assert (warned in write_sentences(comparison)) is not worse


def test_devices_of_a_node_are_pooled_in_the_record_and_apart_in_yours() -> None:
    """Rows that differ in the member only are one recorded value, whose spread is their range."""
    terms = Terms(
        tool="fabric", keys=("op",), value="bytes_per_second", better="higher", member="device"
    )
    rates = {"cuda:0": 100e9, "cuda:1": 90e9, "cuda:2": 102e9}
    recorded = make_record([make_row(device=d, bytes_per_second=r) for d, r in rates.items()])
    slow = [make_row(device="cuda:0"), make_row(device="cuda:5", bytes_per_second=50e9)]
    first, _ = compare(make_record(slow), recorded, terms=terms).rows
    assert first.recorded == (100e9, 0.12)
    assert (first.member, first.verdict) == ("cuda:5", "far below")


# --- like with like ---


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        (
            {"machine": {"label": "h200", "cpu": {}, "accelerators": [{"model": "NVIDIA H200"}]}},
            "r0 is on 8 x NVIDIA H100, yours is on 1 x NVIDIA H200: not compared",
        ),
        (
            {"machine": make_machine(500)},
            "r0 is at a power limit of 700 W, yours is at one of 500 W: not compared",
        ),
        (
            {"nodes": 2, "ranks": 2},
            "r0 is of 1 node, of 1 rank, yours is of 2 nodes, of 2 ranks: not compared",
        ),
        (
            {"details": {"settings": {"algorithm": "tree"}}},
            "r0 is with algorithm ring, yours is with algorithm tree: not compared",
        ),
    ],
)
def test_unlike_runs_are_not_compared(changes: dict[str, Any], reason: str) -> None:
    """Another method, hardware, number of nodes or ranks, or setting is named, and ends it."""
    recorded = make_record([make_row()], machine=make_machine(700))
    own = make_record([make_row()], **{"machine": make_machine(700), **changes})
    assert explain(own, recorded) == (reason,)


def test_what_is_open_and_what_differs_is_told() -> None:
    """An unknown power limit and other variables that steer a run do not end a comparison."""
    known = make_record([make_row()], machine=make_machine(700))
    assert say(make_record([make_row()]), known)[1:] == [
        "not checked: whether yours also has a power limit of 700 W"
    ]
    recorded = make_record([make_row()], environment={"NCCL_ALGO": "Ring", "OMP_NUM_THREADS": "8"})
    run = make_record([make_row()], environment={"NCCL_PROTO": "LL", "OMP_NUM_THREADS": "8"})
    assert say(run, recorded)[1:] == [
        "NCCL_ALGO is not set in yours and 'Ring' in the record",
        "NCCL_PROTO is 'LL' in yours and not set in the record",
    ]


def test_the_newest_record_with_a_common_row_is_taken() -> None:
    """A newer record of other shapes does not stand in the way of an older one."""
    old = make_record([make_row()], started="2026-01-01T00:00:00Z")
    newer = make_record([make_row()], started="2026-02-01T00:00:00Z")
    other = make_record([make_row(op="broadcast")], started="2026-03-01T00:00:00Z")
    (sentence,) = say(make_record([make_row()]), old, newer, other)
    assert "(r1)" in sentence
    assert explain(make_record([make_row()]), other) == (
        "none of your rows can be compared with one of r0",
        "left out: op all_reduce, payload_bytes 1073741824: the record has no such row",
    )


def test_untrusted_rows_are_named_and_left_out() -> None:
    """A row that its tool does not trust is not compared, in the run nor in the record."""
    rows = [make_row(payload_bytes=size) for size in (1, 2, 3)]
    recorded = [rows[0], rows[1], {**rows[2], "verdict": None}]
    rows[1] = {**rows[1], "verdict": "suspect"}
    assert say(make_record(rows), make_record(recorded))[1:] == [
        "left out: op all_reduce, payload_bytes 2: verdict is 'suspect' in yours",
        "left out: op all_reduce, payload_bytes 3: verdict is 'null' in the record",
    ]


# --- with a book ---

TOOL_SOURCE = (
    "METHOD = 1\n"
    'RANKS = {"demo": 2}\n'
    'COMPARE = {"keys": ["op", "payload_bytes"], "value": "bytes_per_second",\n'
    '           "better": "higher", "spread": "spread"}\n'
)
NAME = "fabric/h100-x8_20260801"


@pytest.fixture
def book(make_book: BookMaker) -> Path:
    """A book with a tool and two records of it, the second of a day later and a little faster."""
    later = make_record([make_row(bytes_per_second=380e9)], started="2026-08-02T10:00:00Z")
    return make_book(
        {
            "README.md": "# Preface\n",
            "scripts/fabric.py": TOOL_SOURCE,
            "scripts/plain.py": "METHOD = 1\n",
            "scripts/broken.py": "METHOD = 1\nCOMPARE = {}\n",
            f"scripts/records/{NAME}.json": format_record(make_record([make_row()])),
            "scripts/records/fabric/h100-x8_20260802.json": format_record(later),
        },
        "tools:\n  fabric: {path: scripts/fabric.py, output: measured}\n"
        "  plain: {path: scripts/plain.py, output: measured}\n"
        "  broken: {path: scripts/broken.py, output: measured}\n",
    )


def test_a_record_is_compared_with_the_newest_other(book: Path, run_bindery: Runner) -> None:
    """A record of the book, by name or by path, stands beside the newest other one like it."""
    for target in (NAME, f"scripts/records/{NAME}.json"):
        ended = run_bindery("compare", target, folder=book)
        assert ended.status == 0
        assert ended.stdout.splitlines()[0] == (
            "your 366 GBps is at 96.3 % of the recorded run of 2026-08-02 on 8 x NVIDIA H100 "
            "(fabric/h100-x8_20260802); expected 361 to 399: within"
        )
    strict = run_bindery("compare", NAME, "--tolerance", "3%", folder=book)
    assert strict.status == 1
    assert strict.stdout.splitlines()[0].endswith("expected 369 to 391: below")


def test_the_output_of_a_tool_is_compared(book: Path, run_bindery: Runner) -> None:
    """A file of --json is compared; its hardware comes from --facts. Without, it is not judged."""
    output = make_output([make_row(bytes_per_second=200e9)])
    (book / "mine.json").write_text(msgspec.json.encode(output).decode())
    machine = msgspec.to_builtins(make_record([]).machine)
    facts = {"tool": "env_report", "version": "1", "method": 1, "software": {}}
    (book / "facts.json").write_text(json.dumps({**facts, "machine": machine}))
    ended = run_bindery("compare", "mine.json", "--facts", "facts.json", folder=book)
    assert ended.status == 1
    assert ended.stdout.startswith("your 200 GBps is at 52.6 % of")
    assert "your hardware is unknown" not in ended.stdout
    ended = run_bindery("compare", "mine.json", folder=book)
    assert ended.status == 0
    assert ended.stdout.split("\n")[0].endswith("expected 361 to 399: not judged")
    message = "not judged: your hardware is unknown, the record's is 8 x NVIDIA H100; run"
    assert message in ended.stdout
    assert "not checked: whether yours also has 1 node and 1 rank" in ended.stdout


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        (
            {"ended": "timeout", "exit_status": None, "complete": False},
            "yours is partial: it ended as 'timeout'",
        ),
        (
            {"ended": "failed", "exit_status": 1},
            "your run exited with status 1: the tool found a problem",
        ),
    ],
)
def test_a_run_that_went_wrong_is_no_reference(
    book: Path, run_bindery: Runner, changes: dict[str, Any], words: str
) -> None:
    """A partial record and that of a failed run can be compared; nothing is compared with them."""
    name = "fabric/h100-x8_20260803"
    record = make_record([make_row()], started="2026-08-03T10:00:00Z", **changes)
    (book / f"scripts/records/{name}.json").write_text(format_record(record))
    ended = run_bindery("compare", NAME, folder=book)
    assert "(fabric/h100-x8_20260802)" in ended.stdout
    ended = run_bindery("compare", NAME, "--against", name, folder=book)
    assert ended.status == 2
    assert f"'{name}' is not another complete, successful record of 'fabric'" in ended.stderr
    ended = run_bindery("compare", name, folder=book)
    assert ended.status == 0
    assert words in ended.stdout


def test_a_stale_reference_is_named_as_such(
    book: Path, run_bindery: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The reason for which `check` calls a record stale stands behind its date."""
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "2000000000")
    ended = run_bindery("compare", NAME, folder=book)
    assert (
        "of 2026-08-02 (stale: measured on 2026-08-02, shelf life 730 days) on 8 x" in ended.stdout
    )


def test_json_is_the_whole_comparison(book: Path, run_bindery: Runner) -> None:
    """--format json gives rows in base units, and where nothing is alike the reasons."""
    ended = run_bindery("compare", NAME, "--format", "json", folder=book)
    document = json.loads(ended.stdout)
    assert document["rows"][0]["recorded"] == 380e9
    assert document["verdict"] == "within"
    assert document["hardware_checked"] is True
    (book / "scripts/records/fabric/h100-x8_20260802.json").unlink()
    ended = run_bindery("compare", NAME, "--format", "json", folder=book)
    assert ended.status == 2
    reasons = [f"there is no complete record of fabric except {NAME} itself"]
    assert json.loads(ended.stdout) == {"record": None, "sentences": reasons}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["fabric/h100-x8_2026080"], "did you mean 'fabric/h100-x8_2026080"),
        (["none.json"], "'none.json' is neither a file nor a record of the book"),
        ([NAME, "--facts", "mine.json"], "a record already names its hardware"),
        ([NAME, "--tolerance", "much"], "'much' is not a share: write 5% or 0.05"),
        (["text.json"], "this is not valid JSON: expecting value"),
        (["plain.json"], "runs of 'plain' cannot be compared"),
        (["broken.json"], "scripts/broken.py:2:1: error[config]: COMPARE has an invalid 'keys'"),
        (
            ["mine.json", "--facts", "mine.json"],
            "'tool': 'fabric' is not one of the values the schema allows",
        ),
    ],
)
def test_wrong_use_is_told(
    book: Path, run_bindery: Runner, arguments: list[str], message: str
) -> None:
    """What cannot be compared ends with status 2 and a reason, without a traceback."""
    data = msgspec.to_builtins(make_output([make_row()]))
    for name, tool in (("mine", "fabric"), ("plain", "plain"), ("broken", "broken")):
        (book / f"{name}.json").write_text(json.dumps({**data, "tool": tool}))
    (book / "text.json").write_text("hello")
    ended = run_bindery("compare", *arguments, folder=book)
    assert ended.status == 2
    assert message in ended.stderr
    assert "Traceback" not in ended.stderr


def test_the_terms_of_every_tool_can_be_used() -> None:
    """The COMPARE of each tool of this book names columns that its results have."""
    config = load_config(ROOT, RULES)
    tree = Tree(config.root)
    columns: dict[str, set[str]] = {}
    for item in load_records(tree):
        assert isinstance(item, tuple), item
        columns.setdefault(item[1].tool, set()).update(*item[1].results)
    sources = {tool.name: tree.read_bytes(tool.path).decode() for tool in config.tools}
    every = [terms for name in sources if (terms := read_terms(name, sources[name]))]
    assert "mamf_finder" in [terms.tool for terms in every]
    for terms in every:
        asked = {*terms.keys, terms.value, terms.spread, terms.member, *terms.trusted} - {""}
        assert asked <= columns.get(terms.tool, asked), terms.tool
