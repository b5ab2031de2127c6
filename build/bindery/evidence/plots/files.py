"""The image files of the plots of a book: which should exist, and whether they are up to date.

A plot is drawn twice, for light and for dark pages, as `figures/VIEW.svg` and
`figures/VIEW-dark.svg` in the folder of the chapters. Each file has a stamp of its data, so
it can be compared without drawing it again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from bindery.core.model import Finding, Span
from bindery.core.repository import Tree
from bindery.evidence.evidence import Evidence
from bindery.evidence.quotations import FILL_COMMAND, Quotations, Region


class _State(NamedTuple):
    """One file that a quoted plot needs."""

    path: str
    region: Region
    is_dark: bool
    problem: str
    """Empty, or `missing`, `edited`, `stale`."""


def _inspect_figures(
    tree: Tree, folder: str, evidence: Evidence, quotations: Mapping[str, Quotations]
) -> Iterator[_State]:
    seen = set()
    for entry in quotations.values():
        for region in entry.regions:
            view = evidence.views.get(region.name)
            if region.kind != "plot" or region.name in seen or view is None:
                continue
            if view.plot is None or region.name not in evidence.tables:
                continue
            seen.add(region.name)
            from bindery.evidence.plots.spec import compute_stamp, read_stamp

            wanted = compute_stamp(view.plot, evidence.tables[region.name])
            for is_dark in (False, True):
                path = f"{folder}/{region.name}{'-dark' if is_dark else ''}.svg"
                problem = "missing"
                if tree.find_kind(path) == "file":
                    text = tree.read_bytes(path).decode("utf-8", "replace")
                    found, is_intact = read_stamp(text)
                    problem = "" if found == wanted else "stale"
                    problem = problem if is_intact else "edited"
                yield _State(path, region, is_dark, problem)


def compare_figures(
    tree: Tree, folder: str, evidence: Evidence, quotations: Mapping[str, Quotations]
) -> Iterator[Finding]:
    """Findings for image files that do not match their view."""
    for state in _inspect_figures(tree, folder, evidence, quotations):
        if state.problem == "edited":
            message = f"the plot '{state.path}' was edited by hand"
            hint = f"delete the file and run `{FILL_COMMAND}`"
            yield Finding(Span.whole(state.path), "edited-output", message, hint)
        elif state.problem:
            message = f"the plot '{state.path}' does not show what its view gives"
            if state.problem == "missing":
                message = f"the plot '{state.path}' is not drawn yet"
            hint = f"run `{FILL_COMMAND}` and commit the result"
            yield Finding(state.region.opening, "stale-output", message, hint)


def draw_figures(
    tree: Tree, folder: str, evidence: Evidence, quotations: Mapping[str, Quotations]
) -> Iterator[tuple[str, bytes]]:
    """Path and content of each drawn file that is missing or stale. One that was edited by hand
    is left alone. Raises BookError if the library that draws is not installed."""
    for state in _inspect_figures(tree, folder, evidence, quotations):
        if state.problem in ("missing", "stale"):
            from bindery.evidence.plots.spec import draw_plot

            plot = evidence.views[state.region.name].plot
            assert plot is not None
            yield (
                state.path,
                draw_plot(plot, evidence.tables[state.region.name], dark=state.is_dark),
            )
