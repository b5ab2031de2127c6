"""Tables of figures as Markdown: what a reader of the source and a parser see."""

import json
import re

import pytest
from bindery.evidence.tables import Column, Table, format_markdown
from fixture_types import Case

COLUMN = re.compile(r"(?P<key>\w+): (?P<heading>.*?)(?: \[(?P<unit>.*)\])?(?: \.(?P<digits>\d))?")


def read_table(text: str) -> Table:
    head, body, *rest = re.split(r"^---\n?", text + "\n", flags=re.MULTILINE)
    columns = []
    for line in head.splitlines():
        match = COLUMN.fullmatch(line)
        assert match, line
        digits = int(match["digits"]) if match["digits"] else None
        columns.append(Column(match["key"], match["heading"], match["unit"] or "", digits))
    rows = tuple(tuple(json.loads(line)) for line in body.splitlines())
    notes = tuple(line for part in rest for line in part.splitlines() if line)
    return Table("A table", tuple(columns), rows, notes)


@pytest.mark.cases("tables.txt")
def test_a_table_is_written_as_github_reads_it(case: Case) -> None:
    """A table is padded Markdown with units in its headings and notes below it."""
    case.expect(format_markdown(read_table(case.given)))
