"""Quantities as people write and read them."""

from __future__ import annotations

import argparse

import pytest
from kit.quantities import format_quantity, parse_quantity, parse_seconds, yes_or_no


@pytest.mark.parametrize(
    ("text", "value"),
    [("7.5e9", 7.5e9), ("7.5G", 7.5e9), ("7.5GB", 7.5e9), ("80Gi", 80 * 2**30),
     (" 80GiB ", 80 * 2**30), ("400k", 4e5)],
)  # fmt: skip
def test_quantities(text: str, value: float) -> None:
    """Decimal prefixes, and binary ones with an i."""
    assert parse_quantity(text) == value


def test_seconds_and_switches() -> None:
    """Plain numbers, zero too, and durations; 8B could be 8 bytes or 8 billion."""
    with pytest.raises(argparse.ArgumentTypeError, match="is not a number"):
        parse_quantity("8B")
    assert [parse_seconds(text) for text in ("0", "5e-6", "1h30m", "30d")] == [
        0, 5e-6, 5400, 2_592_000,
    ]  # fmt: skip
    assert [yes_or_no(text) for text in ("yes", "no")] == [True, False]
    with pytest.raises(ValueError, match="not in"):
        yes_or_no("maybe")


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (120e9, "B", "120.0 GB (111.8 GiB)"),
        (4e11, "B/s", "400.0 GB/s"),
        (0.0, "B", "0 B"),
        (352_133.6, "1", "352,134"),
        (70_553_706_496, "1", "70,553,706,496"),
        (3.3895313892515355e38, "1", "3.39e+38"),
        (5_425_347.5, "1/s", "5.425 M/s"),
        (4_951_878.7, "s", "57.31 days"),
        (90.0, "s", "1.500 min"),
        (5e-6, "s", "5.000 µs"),
        (True, "1", "yes"),
        ("ring", "1", "ring"),
    ],
)
def test_values_as_people_read_them(value: object, unit: str, text: str) -> None:
    """Four digits, prefixes for units, commas in counts, what an electricity bill has."""
    assert format_quantity(value, unit) == text
