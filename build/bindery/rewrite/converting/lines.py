"""Take blocks out of the lines of a chapter."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

FENCE = re.compile(r"(?P<indent>\s*)(?P<marks>`{3,}(?!.*`)|~{3,}|:{3,}|/{3,})\s*(?P<info>.*?)\s*$")
OPTION = re.compile(r":(?P<key>[\w-]+):\s*(?P<value>.*?)\s*$")


def take_indented(lines: Sequence[str], start: int, indent: int) -> list[str]:
    """The lines from `start` that are blank or have this indent, without it."""
    end = start
    while end < len(lines) and (not lines[end].strip() or not lines[end][:indent].strip()):
        end += 1
    while end > start and not lines[end - 1].strip():
        end -= 1
    return [line[indent:] for line in lines[start:end]]


def take_fenced(lines: Sequence[str], at: int, opening: re.Match[str]) -> list[str] | None:
    """The dedented lines between a fence and its end; None if it is not closed. Colon fences can
    be nested."""
    marks, indent = opening["marks"], len(opening["indent"])
    depth = 1
    number = at + 1
    while number < len(lines):
        found = FENCE.match(lines[number])
        if found and len(found["indent"]) >= indent + 4:
            pass  # content
        elif found and found["marks"][0] == marks[0]:
            length = len(found["marks"])
            is_end = length == len(marks) if marks[0] == "/" else length >= len(marks)
            is_end = not found["info"] and (is_end or marks[0] == ":")
            depth += -1 if is_end else marks[0] == ":"
            if not depth:
                return [line[indent:] for line in lines[at + 1 : number]]
        elif found and found["info"] and marks[0] == ":":
            body = take_fenced(lines, number, found)
            number += len(body) + 1 if body is not None else 0
        number += 1
    return None


def take_options(body: list[str]) -> tuple[dict[str, str], list[str]]:
    """The options at the top of a directive, and the other lines."""
    options = {}
    rest = body
    while rest and (option := OPTION.match(rest[0])):
        options[option["key"]] = option["value"]
        rest = rest[1:]
    return options, rest


def is_code(lines: Sequence[str]) -> bool:
    """Whether the lines are a single code block."""
    fence = FENCE.match(lines[0])
    if fence is None or fence["marks"][0] not in "`~":
        return False
    body = take_fenced(lines, 0, fence)
    return body is not None and len(body) + 2 == len(lines)


def indent_lines(lines: Sequence[str], indent: str) -> list[str]:
    return [f"{indent}{line}" if line else "" for line in lines]


def find_line(lines: Sequence[str], at: int, fits: Callable[[str], bool]) -> int | None:
    """The number of the first line from `at` that fits."""
    return next((number for number in range(at, len(lines)) if fits(lines[number])), None)


def strip_blank(lines: list[str]) -> list[str]:
    """The lines without leading and trailing blank lines."""
    return "\n".join(lines).strip("\n").split("\n")
