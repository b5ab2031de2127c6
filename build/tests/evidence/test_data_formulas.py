"""Arithmetic: what is evaluated, what is refused, and when a rounded number agrees."""

import pytest
from bindery.evidence.data_formulas import agrees, evaluate
from hypothesis import given
from hypothesis import strategies as st


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("2 * 7/8 * 16", 28.0),
        ("-(3 - 5) ** 3", 8.0),
        ("memory * 2**30 / (bandwidth * 1e9)", 80 * 2**30 / 2039e9),
        ("1_000 / 4", 250.0),
    ],
)
def test_arithmetic_is_evaluated(expression: str, value: float) -> None:
    """Numbers, names, the five operations and parentheses give their value."""
    assert evaluate(expression, {"memory": 80, "bandwidth": 2039}) == pytest.approx(value)


@given(st.floats(-1e6, 1e6), st.integers(0, 6))
def test_a_number_agrees_with_what_it_was_rounded_from(value: float, digits: int) -> None:
    """A number rounded to its digits agrees; one that is off by a unit of the last does not."""
    typed = f"{value:.{digits}f}"
    assert agrees(typed, value)
    assert not agrees(typed, value + 1.5 * 10.0**-digits)
