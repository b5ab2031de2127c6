#!/usr/bin/env python3
# /// script
# requires-python = ">=3.11"
# dependencies = []
# ///
"""How do I print from many ranks without interleaved lines?

printflock() is a print() that waits for a lock first, one per user and node. C++ libraries and
threads of one process do not wait for it. Where the launcher gives each rank its own pipe, use the
launcher's labels instead: `srun --label` or `torchrun --tee 3`.

## How to run

Copy this file next to your script, or paste it down to printflock(). `--demo` shows the difference.

    from printflock import printflock as print

Exit status of --demo: 0 all lines arrived whole, 1 not, 2 usage error.
"""

import fcntl
import os

__version__ = "0.2.0"
lock = os.open(f"/tmp/printflock-{os.getuid()}", os.O_RDWR | os.O_CREAT, 0o600)


def printflock(*values, **options) -> None:
    """print() and flush, while no other process of this user on this node is in printflock()."""
    values = [str(value) for value in values]  # before the lock: this may print, too
    fcntl.lockf(lock, fcntl.LOCK_EX)  # not flock(): a forked process would share that lock
    try:
        print(*values, **options | {"flush": True})
    finally:
        fcntl.lockf(lock, fcntl.LOCK_UN)


def main() -> int:
    """Have 8 processes write long lines into one pipe, with print() and with printflock()."""
    import argparse

    raw = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser("printflock.py", None, __doc__, formatter_class=raw)
    parser.add_argument("--version", action="version", version=f"printflock {__version__}")
    parser.add_argument("--demo", action="store_true", required=True, help="compare with print()")
    parser.parse_args()
    for write in (print, printflock):
        reader, writer = os.pipe()
        for letter in "abcdefgh":
            if os.fork() == 0:
                with os.fdopen(writer, "w") as pipe:
                    for _ in range(100):
                        write(letter * 9999, file=pipe)
                os._exit(0)
        os.close(writer)
        with os.fdopen(reader) as pipe:
            whole = sum(len(line) == 10000 and len(set(line)) == 2 for line in pipe)
        print(f"{write.__name__}: {whole} of 800 long lines arrived whole")
    return int(whole < 800)


if __name__ == "__main__":
    raise SystemExit(main())
