"""Quantities with units, as people write and read them: `80Gi`, `30d`, `1.875 GB`, `57.31 days`."""

import argparse
import math
from typing import Any

from kit.cli import duration, large_number


def parse_quantity(text: str) -> float:
    """A number with its unit: `7.5e9`, `7.5G` or `7.5GB`, `80Gi`."""
    text = text.strip()
    if text.endswith(("K", "B")) and text[-2:-1].isdigit():
        raise argparse.ArgumentTypeError(f"'{text}' is not a number: write 7.5e9, 7.5G or 80Gi")
    return large_number(text.removesuffix("B"))


def parse_seconds(text: str) -> float:
    """Seconds from `90`, `1e-5`, `10m`, `1h30m` or `30d`."""
    try:
        return float(text)
    except ValueError:
        return duration(text)


def yes_or_no(text: str) -> bool:
    """True from `yes`, False from `no`; ValueError otherwise."""
    return ("no", "yes").index(text) == 1


def format_significant(value: float) -> str:
    """Four significant digits, all of them before the point, with commas."""
    if value == 0:
        return "0"
    digits = max(0, 3 - math.floor(math.log10(abs(value))))
    return f"{value:,.{digits}f}" if digits <= 8 else f"{value:.4g}"


def format_prefixed(value: float, unit: str, base: int = 1000) -> str:
    """`1.875 GB`, or with a base of 1024 `1.746 GiB`."""
    power = 0
    while abs(value) >= base and power < 8:
        value, power = value / base, power + 1
    prefix = ("", "k" if base == 1000 else "K", "M", "G", "T", "P", "E", "Z", "Y")[power]
    binary = "i" if base == 1024 and power else ""
    return f"{format_significant(value)} {prefix}{binary}{unit}".rstrip()


def format_quantity(value: Any, unit: str) -> str:
    """A value as people read it: prefixes, days and hours, commas, and GiB beside GB."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, str):
        return value
    if unit == "s" and value >= 60:
        for seconds, name in ((86400.0, "days"), (3600.0, "h"), (60.0, "min")):
            if value >= 2 * seconds or name == "min":
                return f"{format_significant(value / seconds)} {name}"
    if unit == "s" and 0 < value < 1:
        scale, name = (1e3, "ms") if value >= 1e-3 else (1e6, "µs")
        return f"{format_significant(value * scale)} {name}"
    if unit == "1":
        if abs(value) >= 1e21:
            return f"{value:.4g}"
        if float(value).is_integer():
            return f"{int(value):,}"
        return f"{value:,.0f}" if abs(value) >= 1000 else format_significant(value)
    if unit == "1/s" and abs(value) < 1e6:
        return f"{format_quantity(value, '1')} /s"
    text = format_prefixed(value, unit.removeprefix("1"))
    return (
        f"{text} ({format_prefixed(value, 'B', 1024)})" if unit == "B" and value >= 1024 else text
    )
