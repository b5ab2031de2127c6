"""Units as readers see them, and that a view cannot show a number in another unit than it has."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest
from bindery.check.inspect import inspect_book
from bindery.core.units import read_unit

if TYPE_CHECKING:
    from conftest import BookMaker

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


@pytest.fixture
def judge(make_book: BookMaker) -> Callable[[str, str], tuple[str, str]]:
    """Class and formula of a number in a view, or the finding and its advice."""

    def judge_expression(expression: str, unit: str) -> tuple[str, str]:
        header = f"-- title: T\n-- column x: X {f'[{unit}]' if unit else ''}\n"
        root = make_book(
            {
                "README.md": "# Preface\n\n<!-- table: v -->\n<!-- /table -->\n",
                "data/disks.yaml": f"{SCHEMA}rows:\n"
                "- {name: a, speed: 7, power: 5, odd: 3, plain: 2}\n",
                "views/v.sql": f"{header}SELECT {expression} AS x FROM disks ORDER BY 1\n",
            }
        )
        inspection = inspect_book(root)
        if found := inspection.evidence.findings:
            return found[0].message, found[0].help
        provenance = inspection.evidence.provenance["v"].cells[0][0]
        assert provenance is not None
        return provenance.number_class, provenance.formula

    return judge_expression


@pytest.mark.parametrize(
    ("expression", "unit", "told"),
    [
        ("speed", "GB/s", ("vendor", "")),
        ("speed", "GBps", ("vendor", "")),
        ("speed * 1000", "MB/s", ("vendor", "")),
        ("speed * 8", "Gbps", ("vendor", "")),
        ("speed * 60", "", ("derived", "speed * 60")),
        ("power * 8", "", ("derived", "power * 8")),
        ("plain * 100", "%", ("derived", "plain * 100")),
        ("odd", "banana", ("vendor", "")),
        ("odd", "", ("vendor", "")),
        ("speed / power", "GB/s per W", ("derived", "speed / power")),
    ],
)
def test_only_a_change_of_unit_keeps_its_class(
    judge: Callable[[str, str], tuple[str, str]], expression: str, unit: str, told: tuple[str, str]
) -> None:
    """A number in another unit is as it was found; one times a factor that no unit explains was
    computed, and has a formula."""
    assert judge(expression, unit) == told


@pytest.mark.parametrize(
    ("expression", "unit", "message", "advice"),
    [
        ("speed", "MB/s", "shown in MB/s, and what it shows is in GB/s", "multiply it by 1000 in"),
        ("speed", "kg", "shown in kg, and what it shows is in GB/s", "give the column the unit"),
        ("speed", "W", "shown in W, and what it shows is in GB/s", "units of different things"),
        ("speed * 1000", "GB/s", "is in GB/s times 1000", "multiply it by 1 in the query"),
        ("odd", "apple", "shown in apple, and what it shows is in banana", "give the column"),
    ],
)
def test_a_wrong_unit_in_a_header_is_an_error(
    judge: Callable[[str, str], tuple[str, str]],
    expression: str,
    unit: str,
    message: str,
    advice: str,
) -> None:
    """A number cannot be shown in a unit that it is not in."""
    found, hint = judge(expression, unit)
    assert message in found
    assert advice in hint
