"""The program: the console script, and `python -m bindery`."""

from __future__ import annotations

import gc
import os
import sys
from contextlib import suppress


def start() -> None:
    """Run the program and end its process at once. Python's own way out first frees millions of
    objects."""
    # A build keeps millions of objects until it ends. Garbage collection would take a seventh of
    # the time and free nothing. The imports below make many objects too.
    gc.disable()
    from bindery.cli.main import main

    try:
        main()
    except SystemExit as end:
        with suppress(OSError):  # Python then reports what could not be written
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(end.code if isinstance(end.code, int) else 0)
        raise


if __name__ == "__main__":
    start()
