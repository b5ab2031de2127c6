"""Plots as SVG or PNG, by matplotlib."""

import importlib
import math
from collections.abc import Mapping
from typing import Any

from kit.cli import UsageError


def new_figure() -> Any:
    """An empty figure. Raises UsageError without matplotlib."""
    try:
        return importlib.import_module("matplotlib.figure").Figure()
    except ImportError as error:
        raise UsageError("--plot needs matplotlib: pip install matplotlib") from error


def draw_curves(
    path: str, curves: Mapping[str, Mapping[int, float]], ylabel: str, xlabel: str = "size, bytes"
) -> None:
    """Plot values over sizes in bytes, or over something else, a curve per name."""
    axes = (figure := new_figure()).subplots()
    for name, points in curves.items():
        axes.plot(points.keys(), points.values(), marker="o", label=name)
    scale = "log" if xlabel == "size, bytes" else "linear"
    axes.set(xscale=scale, xlabel=xlabel, ylabel=ylabel, ylim=(0, None))
    axes.legend()
    axes.grid(alpha=0.3)
    figure.savefig(path, bbox_inches="tight")


def draw_map(path: str, cells: Mapping[tuple[int, int], float], names: str, label: str) -> None:
    """Draw a heat map of values at (x, y). `names` are those of the two axes: `m n`."""
    across, down = (sorted(set(places)) for places in zip(*cells, strict=True))
    axes = (figure := new_figure()).subplots()
    grid = [[cells.get((x, y), math.nan) for x in across] for y in down]
    image = axes.imshow(grid, origin="lower", aspect="auto")
    for axis, places, name in zip(
        (axes.xaxis, axes.yaxis), (across, down), names.split(), strict=True
    ):
        shown = range(0, len(places), 1 + len(places) // 20)
        axis.set_ticks(shown, [str(places[i]) for i in shown])
        axis.set_label_text(name)
    figure.colorbar(image, ax=axes, label=label)
    figure.savefig(path, bbox_inches="tight")
