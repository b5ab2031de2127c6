"""Align the numbers of a column at their decimal points."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence

_NUMBER = re.compile(
    r"[~\u2248<>\u2264\u2265\u00b1]?\s*[+\u2212-]?\d[\d,\u202f\u00a0]*(?P<fraction>\.\d+)?"
    r"(?P<sign>\s?[%\u00d7x])?"
)


def find_pads(
    rows: Sequence[Sequence[str]], columns: Collection[int]
) -> Mapping[tuple[int, int], str]:
    """What each number of these right-aligned columns lacks after its decimal point, as text of
    that width, by row and column. Rows are counted from 0, which is the head.

    A column in which only some numbers have a sign after them is left unchanged.
    """
    pads = {}
    for column in columns:
        found = {
            row: match
            for row, cells in enumerate(rows)
            if row and column < len(cells) and (match := _NUMBER.fullmatch(cells[column].strip()))
        }
        if len({match["sign"] for match in found.values()}) > 1:
            continue
        fractions = {row: match["fraction"] or "" for row, match in found.items()}
        longest = max(fractions.values(), key=len, default="")
        for row, fraction in fractions.items():
            if lacking := longest[len(fraction) :]:
                pads[row, column] = re.sub(r"\d", "0", lacking)
    return pads
