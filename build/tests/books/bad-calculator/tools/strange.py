"""A tool with a calculator that no page can compute."""

from typing import NamedTuple


class Calculator(NamedTuple):
    name: str


CALCULATORS = [Calculator("loaf")]
