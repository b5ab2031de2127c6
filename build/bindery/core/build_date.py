"""What day it is: that of SOURCE_DATE_EPOCH, so that a build can be repeated, else today."""

from __future__ import annotations

import os
from datetime import UTC, date, datetime

from bindery.core.model import ConfigError, Finding, Span


def read_today() -> date:
    """The day on which a book is looked at: of SOURCE_DATE_EPOCH if set, else today, in UTC.

    Raises ConfigError where SOURCE_DATE_EPOCH is not a number.
    """
    return (read_epoch() or datetime.now(UTC)).date()


def read_epoch() -> datetime | None:
    """The time of SOURCE_DATE_EPOCH, None where it is not set.

    Raises ConfigError where it is not a number of seconds.
    """
    epoch = os.environ.get("SOURCE_DATE_EPOCH", "")
    if not epoch:
        return None
    try:
        return datetime.fromtimestamp(int(epoch), UTC)
    except (ValueError, OverflowError, OSError):
        message = f"SOURCE_DATE_EPOCH is '{epoch}', which is not a number of seconds"
        raise ConfigError(Finding(Span.whole("SOURCE_DATE_EPOCH"), "config", message)) from None
