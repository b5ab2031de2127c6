"""The answer of a web address, as stored and printed."""

from __future__ import annotations

from datetime import datetime
from typing import Literal, get_args

from msgspec import Struct

Verdict = Literal["live", "moved", "dead", "throttled", "gated", "unreachable"]
VERDICTS: tuple[Verdict, ...] = get_args(Verdict)
AnchorState = Literal["", "found", "missing", "unknown"]
"""Empty if the address has no anchor, unknown if the page cannot be judged."""


class Answer(Struct, frozen=True):
    """The answer of an address."""

    url: str
    verdict: Verdict
    checked: datetime
    status: int = 0
    """The last HTTP status; 0 without a response."""
    target: str = ""
    """The new address if it has moved, with the original anchor."""
    anchor: AnchorState = ""
    nearest: str = ""
    """The page's anchor most similar to a missing one."""
    reason: str = ""
    archived: str = ""
    """The address of an archived copy, if one was found."""
