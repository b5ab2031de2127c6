"""Rate limits: how often, how long and how much hosts are asked."""

from __future__ import annotations

import random
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

from msgspec import Struct

LEAST_DELAY = 1.0
"""Minimum seconds between requests to the same host; no option goes lower."""


class Manners(Struct, frozen=True):
    """Limits on requests. Times are in seconds."""

    delay: float = LEAST_DELAY
    """From the end of a request to the start of the next to the same host."""
    hosts: int = 32
    """Concurrent requests; never two to the same host."""
    limit: float = 20.0
    """Timeout per request, including the body."""
    page_bytes: int = 4 << 20
    """Size limit of a page whose anchors are needed."""
    head_bytes: int = 64 << 10
    """Size limit if only a refresh is needed, which is near the start."""
    retries: int = 2
    back_off: float = 2.0
    """Before the first retry; doubles with each retry."""
    longest_delay: float = 30.0
    """Longest accepted delay in `robots.txt`; hosts that require more are skipped."""
    patience: float = 120.0
    """Longest accepted Retry-After; hosts that require more are skipped."""

    def choose_wait(self, attempt: int) -> float:
        """The wait after failure number `attempt`, from 0. It is random, so that clients which
        failed together do not retry together."""
        wait = self.back_off * float(2**attempt) * random.uniform(0.5, 1.5)
        return max(wait, self.delay)


def read_retry_after(text: str, now: datetime) -> float | None:
    """The seconds of a `Retry-After` header, given as a number or a date; None if invalid."""
    text = text.strip()
    if text.isascii() and text.isdigit():
        return float(text[:9])
    try:
        then = parsedate_to_datetime(text)
        then = then if then.tzinfo else then.replace(tzinfo=UTC)
        return max((then - now).total_seconds(), 0.0)
    except (ValueError, OverflowError):  # time zones can have any size
        return None
