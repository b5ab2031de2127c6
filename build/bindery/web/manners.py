"""Good manners towards hosts: how often, how long and how much they are asked."""

from __future__ import annotations

import random
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

LEAST_DELAY = 1.0
"""Seconds between two requests to a host; no option goes below."""


@dataclass(frozen=True, slots=True)
class Manners:
    """The limits of what hosts are asked. Times are in seconds."""

    delay: float = LEAST_DELAY
    """From the end of one request to the start of the next one to the same host."""
    hosts: int = 32
    """Requests under way at once; never two to one host."""
    limit: float = 20.0
    """For one request, including the body."""
    page_bytes: int = 4 << 20
    """Of a page whose anchors are wanted."""
    head_bytes: int = 64 << 10
    """Of a page where only a refresh is wanted, which is near the start."""
    retries: int = 2
    back_off: float = 2.0
    """Before the first retry; it doubles with each further one."""
    longest_delay: float = 30.0
    """The longest delay that `robots.txt` may ask for; a host that asks for more is left alone."""
    patience: float = 120.0
    """The longest wait that a host may ask for; one that asks for more is left alone."""

    def choose_wait(self, attempt: int) -> float:
        """How long to wait after a failure, counted from 0. The wait is random, so that programs
        which failed together do not come back together."""
        wait = self.back_off * float(2**attempt) * random.uniform(0.5, 1.5)
        return max(wait, self.delay)


def read_retry_after(text: str, now: datetime) -> float | None:
    """The seconds that `Retry-After` asks for, as a number or as a date; None if it is neither."""
    text = text.strip()
    if text.isascii() and text.isdigit():
        return float(text[:9])
    try:
        then = parsedate_to_datetime(text)
        then = then if then.tzinfo else then.replace(tzinfo=UTC)
        return max((then - now).total_seconds(), 0.0)
    except (ValueError, OverflowError):  # a host may send a zone of any size
        return None
