"""What is known of an address on the web, as it is remembered and as a book prints it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Literal, get_args

Verdict = Literal["live", "moved", "dead", "throttled", "gated", "unreachable"]
VERDICTS: tuple[Verdict, ...] = get_args(Verdict)
AnchorState = Literal["", "found", "missing", "unknown"]
"""Empty if the address asks for no anchor, unknown if the page cannot be judged."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What is known of an address."""

    url: str
    verdict: Verdict
    checked: datetime
    status: int = 0
    """The last HTTP status; 0 if there was no answer."""
    target: str = ""
    """The new address if it has moved, with the anchor that the author asked for."""
    anchor: AnchorState = ""
    nearest: str = ""
    """The anchor of the page that looks most like a missing one."""
    reason: str = ""
    archived: str = ""
    """The address of an archived copy, if one was looked for and found."""
