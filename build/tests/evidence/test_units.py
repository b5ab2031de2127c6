"""Units as readers see them, and that a view cannot show a number in another unit than it has."""

import pytest
from bindery.check.inspect import inspect_book
from bindery.core.units import read_unit
from fixture_types import BookMaker

SCHEMA = """title: Disks
source: https://example.org/
date: 2026-01-02
class: vendor
columns:
  name: {type: text}
  speed: {type: number, unit: GB/s}
  power: {type: number, unit: W}
  odd: {type: number, unit: banana}
  plain: {type: number}
"""


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("GBps", ("B/s", 1e9)),
        ("GB/s", ("B/s", 1e9)),
        ("Gbps", ("B/s", 0.125e9)),
        ("MiB", ("B", 2.0**20)),
        ("TFLOPS", ("FLOP/s", 1e12)),
        ("µs", ("s", 1e-6)),
        ("%", ("1", 0.01)),
        ("kWh", ("J", 3.6e6)),
        ("banana", None),
        ("mB", None),
        ("", None),
    ],
)
def test_units_are_read(name: str, expected: tuple[str, float] | None) -> None:
    """Decimal and binary sizes, bits and bytes, rates and times are told apart."""
    unit = read_unit(name)
    assert (unit and (unit.base, unit.size)) == expected


@pytest.mark.parametrize(
    ("expression", "unit", "first", "second"),
    [
        ("speed", "GB/s", "vendor", ""),
        ("speed", "GBps", "vendor", ""),
        ("speed * 1000", "MB/s", "vendor", ""),
        ("speed * 8", "Gbps", "vendor", ""),
        ("speed * 60", "", "derived", "speed * 60"),
        ("power * 8", "", "derived", "power * 8"),
        ("plain * 100", "%", "derived", "plain * 100"),
        ("odd", "banana", "vendor", ""),
        ("speed / power", "GB/s per W", "derived", "speed / power"),
        ("speed", "MB/s", "MB/s, but its values are in GB/s", "multiply it by 1000 in the query"),
        ("speed", "kg", "kg, but its values are in GB/s", "use the unit of the data in the header"),
        ("speed", "W", "W, but its values are in GB/s", "the units are incompatible"),
        ("speed * 1000", "GB/s", "GB/s, but its values are in GB/s times 1000", "multiply it"),
    ],
)
def test_only_a_change_of_unit_keeps_its_class(
    make_book: BookMaker, expression: str, unit: str, first: str, second: str
) -> None:
    """A number in another unit is as it was found; one times a factor that no unit explains was
    computed, and has a formula. In a unit that it is not in, it cannot be shown."""
    header = f"-- title: T\n-- column x: X {f'[{unit}]' if unit else ''}\n"
    files = {
        "README.md": "# Preface\n\n<!-- table: v -->\n<!-- /table -->\n",
        "data/disks.yaml": f"{SCHEMA}rows:\n- {{name: a, speed: 7, power: 5, odd: 3, plain: 2}}\n",
        "views/v.sql": f"{header}SELECT {expression} AS x FROM disks ORDER BY 1\n",
    }
    evidence = inspect_book(make_book(files)).evidence
    if evidence.findings:
        (finding,) = evidence.findings
        assert finding.message == f"the column 'x' is labeled {first}"
        assert finding.help.startswith(second)
        return
    provenance = evidence.provenance["v"].cells[0][0]
    assert provenance is not None
    assert (provenance.number_class, provenance.formula) == (first, second)
