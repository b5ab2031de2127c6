"""Calculations in inline code, set as mathematics: 6 × 8e9 = 48e9."""

from __future__ import annotations

import re

_NUMBER = r"\d[\d,]*(?:\.\d+)?(?:e-?\d+)?"
_SUM = re.compile(rf"(?:{_NUMBER}|\*\*(?=[-\d])|[-+*/=~()%]| )+")
_OPERATION = re.compile(r"\d\)*(?: [-+*/] |\*\*)[-(\d]")
_POWER = re.compile(r"\*\*(-?[\d.]+)")
_SIGNS = {"*": "\N{MULTIPLICATION SIGN}", "-": "\N{MINUS SIGN}", "/": "/", "+": "+"}
_THIN = "\N{THIN SPACE}"


def write_sum(code: str) -> str | None:
    """The HTML of an equation whose sides are not wrapped; None if the code is something else."""
    if not _SUM.fullmatch(code) or not _OPERATION.search(code):
        return None
    text = _POWER.sub(r"<sup>\1</sup>", code)
    text = re.sub(r" ([-+*/]) ", lambda match: f"{_THIN}{_SIGNS[match[1]]}{_THIN}", text)
    first, *others = re.split(r" ([=~]) ", text)
    sides = [first, *(f"{sign} {side}" for sign, side in zip(*[iter(others)] * 2, strict=True))]
    return '<span class="sum">{}</span>'.format(
        " ".join(f'<span class="word">{side}</span>' for side in sides)
    )
