"""Published figures: schemas, sources of tables, rows and cells, and formulas of derived ones."""

from pathlib import Path

import pytest
from bindery.core.model import Finding
from bindery.core.repository import Tree
from bindery.evidence.published_data import Citation, DataTable, load_data
from msgspec.structs import replace

SCHEMA = """title: Links
source: https://example.org/table
date: 2026-01-02
class: vendor
columns:
  name: {type: text}
  both: {type: number, unit: GBps}
  one_way: {type: number, unit: GBps}
"""
DERIVED_SCHEMA = SCHEMA + "".join(
    f"  {name}: {{type: text}}\n" for name in ("formula", "class", "both_class")
)


def load(folder: Path, **files: str) -> DataTable | list[Finding]:
    """The one table that these files make, or what is wrong with it."""
    for name, text in files.items():
        (folder / name.replace("_dot_", ".")).write_text(text, encoding="utf-8")
    (result,) = load_data(Tree(folder), "")
    return result if isinstance(result, DataTable) else result[1]


def test_tables_rows_and_cells_have_sources(tmp_path: Path) -> None:
    """Source, date and class may stand once, in the schema; `COLUMN_source`, `COLUMN_class` and the
    like speak of one cell."""
    schema = SCHEMA + "  both_class: {type: text}\n  both_unconfirmed: {type: text}\n"
    rows = "name,both,one_way,both_class,both_unconfirmed\na,900,,reported,yes\n"
    table = load(tmp_path, links_dot_yaml=schema, links_dot_csv=rows)
    assert isinstance(table, DataTable)
    assert table.rows[0].cells[:3] == ("a", 900, None)
    whole = Citation("https://example.org/table", "2026-01-02", "vendor")
    assert table.cite(0, "one_way") == table.rows[0].citation == whole
    assert table.cite(0, "both") == replace(whole, number_class="reported", unconfirmed=True)


def test_rows_may_stand_in_the_yaml(tmp_path: Path) -> None:
    """A small table is one YAML file."""
    text = (
        f"{SCHEMA}rows:\n  - {{name: a, both: 900, one_way: 450.5}}\n  - name: b\n    both: 800\n"
    )
    table = load(tmp_path, links_dot_yaml=text)
    assert isinstance(table, DataTable)
    assert [row.cells for row in table.rows] == [("a", 900, 450.5), ("b", 800, None)]
    assert [row.line for row in table.rows] == [10, 11]


def test_a_derived_figure_keeps_its_formula(tmp_path: Path) -> None:
    """The formula of a derived cell is evaluated, held against the cell, and kept."""
    schema = DERIVED_SCHEMA
    rows = (
        "name,both,one_way,class,both_class,formula\na,900,450,derived,vendor,one_way = both / 2\n"
    )
    table = load(tmp_path, links_dot_yaml=schema, links_dot_csv=rows)
    assert isinstance(table, DataTable)
    assert table.rows[0].formulas == {"one_way": "both / 2"}


@pytest.mark.parametrize(
    ("row", "message", "hint"),
    [
        ("a,900,451,derived,vendor,one_way = both / 2",
         "'one_way' is 451, but `both / 2` gives 450", ""),
        ("a,900,450,derived,vendor,", "'one_way' is derived but has no formula",
         "write `one_way = EXPRESSION` into a column 'formula'"),
        ("a,900,450,derived,vendor,half = both / 2",
         "'formula': 'half = both / 2' names no column in this row", "write `COLUMN = EXPRESSION`"),
        ("a,900,450,derived,vendor,one_way = bth / 2", "'formula': 'bth' has no number here", ""),
        ("a,900,450,derived,vendor,one_way = open('x')",
         "'formula': 'open('x')' is not arithmetic", ""),
        ("a,900,450,derived,vendor,one_way = both / 0",
         "'formula': 'both / 0' has no value: float division by zero", ""),
        ("a,900,450,measured,vendor,",
         "'class': measured values come from records, not from data",
         "record a run with `bindery run`, or use one of: vendor, reported, derived, assumed"),
        ("a,900,450,vendr,vendor,",
         "'class': 'vendr' is not a class", "one of: vendor, reported, derived, assumed"),
    ],
)  # fmt: skip
def test_formulas_that_do_not_hold_are_refused(
    tmp_path: Path, row: str, message: str, hint: str
) -> None:
    """A derived figure without a formula, or with one that gives something else, is bad data."""
    schema = DERIVED_SCHEMA
    header = "name,both,one_way,class,both_class,formula\n"
    findings = load(tmp_path, links_dot_yaml=schema, links_dot_csv=header + row + "\n")
    assert isinstance(findings, list)
    assert (findings[0].message, findings[0].help) == (message, hint)
    assert (findings[0].span.path, findings[0].span.line) == ("links.csv", 2)


@pytest.mark.parametrize(
    ("text", "line", "message", "hint"),
    [
        (SCHEMA.replace("title", "titel"), 1, "the schema has no 'titel'", "did you mean 'title'?"),
        (SCHEMA.replace("unit: GBps}", "units: GBps}", 1), 7, "the column 'both' has no 'units'",
         "did you mean 'unit'?"),
        (SCHEMA, 1, "the schema has no 'rows', and there is no 'links.csv' next to it",
         "add `rows:` to the schema, or the CSV file"),
        (SCHEMA + "rows: 5\n", 9, "'rows' must be a list of mappings from columns to cells",
         "write one row per line, such as `- {name: first, seconds: 1.5}`"),
        (SCHEMA + "rows:\n- {name: a, bth: 5}\n", 10, "the column 'bth' is not in the schema",
         "did you mean 'both'?"),
    ],
)  # fmt: skip
def test_a_schema_that_is_wrong_is_refused(
    tmp_path: Path, text: str, line: int, message: str, hint: str
) -> None:
    """Misspelt keys and rows that do not fit are reported with their line."""
    findings = load(tmp_path, links_dot_yaml=text)
    assert isinstance(findings, list)
    assert (findings[0].message, findings[0].help, findings[0].span.line) == (message, hint, line)


@pytest.mark.parametrize(
    ("text", "cell"),
    [
        ("9007199254740993", 9007199254740993),
        ("-9223372036854775808", -(2**63)),
        ("1.5e20", 1.5e20),
        ("1e20", 1e20),
        ("1e3", 1000),
        ("1e400", "'1e400' is too large; use a larger unit"),
        ("9223372036854775808", ("'9223372036854775808' has more than 64 bits; "
         "write a number such as 1.5e20")),
    ],
)  # fmt: skip
def test_numbers_keep_what_they_are(tmp_path: Path, text: str, cell: object) -> None:
    """A whole number keeps all its digits, and one that cannot be kept is refused."""
    rows = f"name,both,one_way\na,{text},\n"
    table = load(tmp_path, links_dot_yaml=SCHEMA, links_dot_csv=rows)
    if isinstance(cell, str):
        assert isinstance(table, list)
        assert [f"{finding.message}; {finding.help}".rstrip("; ") for finding in table] == [
            f"'both': {cell}"
        ]
    else:
        assert isinstance(table, DataTable)
        assert table.rows[0].cells[1] == cell
        assert type(table.rows[0].cells[1]) is type(cell)
