"""The build date: the day of SOURCE_DATE_EPOCH, for reproducible builds, or today."""

from __future__ import annotations

import os
from datetime import UTC, date, datetime, timedelta

from bindery.core.model import refuse


def read_today() -> date:
    """The day of SOURCE_DATE_EPOCH if set, else today, in UTC.

    Raises ConfigError if SOURCE_DATE_EPOCH is not a number of seconds.
    """
    return (read_epoch() or datetime.now(UTC)).date()


def read_latest_start() -> datetime:
    """A day from now, because clocks differ, or after SOURCE_DATE_EPOCH if that is later."""
    now = datetime.now(UTC)
    return max(now, read_epoch() or now) + timedelta(days=1)


def read_epoch() -> datetime | None:
    """The time of SOURCE_DATE_EPOCH, or None if it is not set.

    Raises ConfigError if it is not a number of seconds.
    """
    epoch = os.environ.get("SOURCE_DATE_EPOCH", "")
    if not epoch:
        return None
    try:
        return datetime.fromtimestamp(int(epoch), UTC)
    except (ValueError, OverflowError, OSError):
        message = f"SOURCE_DATE_EPOCH is '{epoch}', which is not a number of seconds"
        raise refuse("SOURCE_DATE_EPOCH", message) from None
