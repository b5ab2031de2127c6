"""Slurm: node lists, counts per node, and what its commands print."""

import itertools
import os
import re
import subprocess

from kit.cli import UsageError

ASK_SECONDS = 60.0
"""What a command of Slurm may take."""


def expand_nodelist(text: str) -> list[str]:
    """The hosts of `node[01-03,7],login`, in the order of `scontrol show hostnames`.

    Raises UsageError where the text is not a node list.
    """
    part = r"(?:[^,\[\]\s]|\[[^\[\]\s]+\])+"
    if not re.fullmatch(rf"{part}(?:,+{part})*,*", text.strip()):
        raise UsageError(f"'{text}' is not a node list: write node[01-04,7] or a,b,c")
    hosts: list[str] = []
    for pieces in (re.split(r"\[(.+?)\]", found) for found in re.findall(part, text)):
        brackets = [_expand_bracket(bracket) for bracket in pieces[1::2]]
        # Slurm counts the last bracket fastest, then the first, the second and so on.
        for numbers in itertools.product(*brackets[-2::-1], *brackets[-1:]):
            ordered = (*numbers[-2::-1], *numbers[-1:], "")
            hosts.append("".join(map("".join, zip(pieces[::2], ordered, strict=True))))
    return hosts


def _expand_bracket(text: str) -> list[str]:
    numbers: list[str] = []
    for item in text.split(","):
        found = re.fullmatch(r"(\d{1,9})(?:-(\d{1,9}))?", item)
        first, last = (int(found[1]), int(found[2] or found[1])) if found else (1, 0)
        if last < first:
            raise UsageError(f"'{item}' in [{text}] is not a range of node numbers")
        width = len(item.partition("-")[0])
        numbers += [str(number).zfill(width) for number in range(first, last + 1)]
    return numbers


def expand_counts(text: str) -> list[int]:
    """Numbers per node: `8(x3),4` is 8, 8, 8, 4. Raises UsageError where it is something else."""
    counts: list[int] = []
    for part in text.split(","):
        found = re.fullmatch(r"(\d{1,9})(?:\(x(\d{1,6})\))?", part.strip())
        if found is None:
            raise UsageError(f"'{text}' is not a list of numbers per node: write 8(x3),4")
        counts += [int(found[1])] * int(found[2] or 1)
    return counts


def call_slurm(*command: str) -> str:
    """The output of a Slurm command. Raises OSError where Slurm does not answer, and UsageError
    where the command is missing."""
    environ = {name: value for name, value in os.environ.items() if name[:7] != "SQUEUE_"}
    environ["LC_ALL"] = "C"
    try:
        done = subprocess.run(command, capture_output=True, check=False, env=environ, text=True,
                              errors="replace", timeout=ASK_SECONDS)  # fmt: skip
    except FileNotFoundError as error:
        text = f"there is no {command[0]} here: run this where Slurm's commands are"
        raise UsageError(text) from error
    except subprocess.TimeoutExpired as error:
        raise OSError(f"{command[0]}: no answer within {ASK_SECONDS:g} s") from error
    if done.returncode:
        raise OSError(done.stderr.strip() or f"{command[0]}: status {done.returncode}")
    return done.stdout
