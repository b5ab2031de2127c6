"""broken-code: a code block does not parse in the language of its label, so a reader who copies it
gets an error. Checked are Python, shell, YAML, JSON and TOML.

Not reported are excerpts of larger files, text left out with `...`, placeholders such as
`<your bucket>`, and blocks labeled as output, such as `python out`.
"""

from __future__ import annotations

import ast
import itertools
import re
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache

from msgspec import Struct
from msgspec.structs import replace

from bindery.check.rules.rule import Rule, Scope
from bindery.core.model import Finding, Severity
from bindery.markdown.prose import Fence
from bindery.tools.command_lines.shell import Command, ShellFault, iterate_prompted, read_shell

RULE = Rule(
    "broken-code", Severity.ERROR, "a code block does not parse in the language of its label"
)

_SHOWS_OUTPUT = re.compile(r"[\s.](?:out|output|console|stdout|stderr|traceback)(?=[\s}]|$)", re.I)

_READS_AS_PYTHON = re.compile(
    r"^(?:import \w|from [\w.]+ import |def \w+\(|class \w+[(:]|@\w|print\(|[\w.]+ = \S"
    r"|(?:for|with|while|if|try)\b[^\n]*:[ \t]*$)",
    re.M,
)
_READS_AS_SHELL = re.compile(
    r"^(?:\$ |(?:sudo |env |[A-Z_]+=\S+ )*(?:pip|python3?|torchrun|srun|sbatch|salloc|export|cd|ls"
    r"|mkdir|wget|curl|git|apt|apt-get|conda|docker|echo|cat|chmod|ssh|scp|rsync|make)\s)",
    re.M,
)


def check(scope: Scope) -> Iterator[Finding]:
    for _, fence in scope.iterate_fences():
        if fence.language not in _LANGUAGES or _SHOWS_OUTPUT.search(fence.info):
            continue
        if fence.is_unclosed:  # and contains the rest of the chapter
            continue
        if scope.is_generated(fence.opening.path, fence.opening.line):  # a part of a file
            continue
        fault = find_fault(fence.language, fence.code)
        other = _find_other_language(fence) if fault is not None else ""
        if other:
            message = f"this looks like {_LANGUAGES[other][0]}, but its label is '{fence.language}'"
            yield RULE.find(fence.opening, message, f"label the block '{other}'")
        elif fault is not None:
            span = fence.place(fault.row, fault.col, fault.width)
            message = f"this {_LANGUAGES[fence.language][0]} is broken: {fault.message}"
            yield RULE.find(span, message, fault.help)


def _find_other_language(fence: Fence) -> str:
    """The label under which a block that is broken under its own would be whole, if it reads so."""
    kind, _ = _LANGUAGES[fence.language]
    if kind == "shell code" and _READS_AS_PYTHON.search(fence.code):
        return "" if find_fault("python", fence.code) else "python"
    if kind == "Python" and _READS_AS_SHELL.search(fence.code):
        return "" if find_fault("bash", fence.code) else "bash"
    return ""


class CodeFault(Struct, frozen=True):
    """Rows and columns are counted from 0."""

    row: int
    col: int
    width: int
    message: str
    help: str = ""


@lru_cache(maxsize=16384)
def find_fault(language: str, code: str) -> CodeFault | None:
    """The first fault of a block of code in one of the languages that are checked."""
    fault = _LANGUAGES[language][1](code) if code.strip() else None
    if fault is None:
        return None
    return None if _LEFT_OUT.search(code.split("\n")[fault.row]) else fault


_LEFT_OUT = re.compile(r"\.{3}|…|(?<!<)<[A-Za-z][\w -]*(?<! )>|\[\s*(?:snip|elided|omitted)")
"""What is left out in a line, or is for the reader to fill in."""

# --- Python ----------------------------------------------------------------------------------

_MAGIC = re.compile(r"^([ \t]*)(?:[%!]\S.*|\w[\w.]*\?{1,2}[ \t]*)$", re.MULTILINE)
_OUTPUT = re.compile(
    r"^(?:>>>|In \[\d+\]:)(?: |$)|^Traceback \(most recent call last\)|^  File \".*\", line \d",
    re.MULTILINE,
)
"""What shows that a block is a session or a traceback."""
_NEWER = re.compile(r"""\b(?:[rR]?[fFtT]|[fFtT][rR])["']|^\s*type \w|\b(?:def|class) \w+\[""")
_DOTS = re.compile(r"^[ \t]*(?:#.*)?(?:\.{3}|…|\[\.{3}\]|\[…\])", re.MULTILINE)


def _find_in_python(code: str) -> CodeFault | None:
    if _OUTPUT.search(code) or _parse_python(code) is None:
        return None
    last_row = code.count("\n")  # Python may name the row after it
    added = 1 if code.lstrip("\n").startswith((" ", "\t")) else 0
    code = _fill_bodies(_MAGIC.sub(r"\1pass", "if True:\n" * added + code))
    error = _parse_python(code)
    if error is None:
        return None
    row = max((error.lineno or 1) - 1, added)
    line = code.split("\n")[row]
    if sys.version_info < (3, 14) and _NEWER.search(line):
        return None  # syntax that came after this Python
    return replace(_describe_python(error, line), row=min(row - added, last_row))


def _parse_python(code: str) -> SyntaxError | None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            ast.parse(code)
        except SyntaxError as error:
            return error
        except (ValueError, RecursionError, MemoryError):
            return None
    return None


def _describe_python(error: SyntaxError, line: str) -> CodeFault:
    problem = re.split(r"\. [A-Z]", error.msg)[0]
    problem = problem[:1].lower() + problem[1:]
    if problem == "invalid syntax":
        problem = "it breaks off here"
    hint = "correct it, or label the block 'text' if it is not Python"
    row = (error.lineno or 1) - 1
    if isinstance(error, IndentationError):
        col = len(line) - len(line.lstrip())
        return CodeFault(row, col, max(len(line.rstrip()) - col, 1), problem, hint)
    col = min(max((error.offset or 1) - 1, 0), len(line))
    end = (error.end_offset or 0) - 1 if error.end_lineno == error.lineno else 0
    return CodeFault(row, col, max(min(end, len(line)) - col, 1), problem, hint)


def _fill_bodies(code: str) -> str:
    """A body that is left out as an empty one: where the block ends with the head of a definition
    or its decorators, or where a comment is instead."""
    lines = code.rstrip().split("\n")
    if re.match(r"[ \t]*@\w", lines[-1]):
        margin = lines[-1][: len(lines[-1]) - len(lines[-1].lstrip())]
        lines.append(f"{margin}def _(): pass")
    for _ in range(20):
        error = _parse_python("\n".join(lines))
        if error is None or not (error.msg or "").startswith("expected an indented block"):
            break
        opening = re.search(r"on line (\d+)$", error.msg)
        row = int(opening[1]) - 1 if opening else 0
        while row < len(lines) and not lines[row].split("#")[0].rstrip().endswith(":"):
            row += 1
        below = lines[row + 1 : max(error.lineno or 1, row + 1)]
        if row < len(lines) - 1 and not any("#" in line or _DOTS.match(line) for line in below):
            break
        if row == len(lines):
            break
        lines[row] = lines[row].split("#")[0].rstrip() + " pass"
    return "\n".join(lines)


# --- shell -----------------------------------------------------------------------------------


def _find_in_shell(code: str) -> CodeFault | None:
    prompted = list(iterate_prompted(code))
    for offset, piece in prompted or [(0, code)]:
        shell = read_shell(piece)
        lost = _find_lost_continuation(piece, shell.commands)
        faults = [one for one in (shell.fault, lost) if one]
        if faults:
            fault = min(faults, key=lambda one: one.start)
            start = fault.start + offset
            row = code.count("\n", 0, start)
            col = start - (code.rfind("\n", 0, start) + 1)
            width = min(fault.end - fault.start, max(len(code.split("\n")[row]) - col, 1))
            is_misplaced = fault.message.endswith("cannot be here")
            hint = _NO_SHELL if is_misplaced else fault.help
            return CodeFault(row, col, width, fault.message, hint)
    return None


_NO_SHELL = "correct it, or label the block 'text' if it is not shell code"


def _find_in_console(code: str) -> CodeFault | None:
    return _find_in_shell(code) if any(iterate_prompted(code)) else None


_LOST_BLANK = re.compile(r"(?<=[ \t])\\[ \t]+$", re.MULTILINE)
_LONG_OPTION = re.compile(r"--[a-z][\w-]*(?=[\s=]|$)")


def _find_lost_continuation(code: str, commands: Sequence[Command]) -> ShellFault | None:
    """A command that ends before its author thought: a blank behind the backslash, or an option
    that begins a line because the line above it has no backslash or is a comment."""
    if "\\" not in code and "--" not in code:
        return None
    if (lost := _LOST_BLANK.search(code)) and "\n" in code[lost.end() :].rstrip():
        return ShellFault(
            lost.start(),
            lost.start() + 1,
            "a space follows the backslash, so the command ends here",
            "remove the space",
        )
    filled = [command for command in commands if command.words]
    for previous, command in itertools.pairwise(filled):
        word = command.words[0]
        if not _LONG_OPTION.match(word.text) or previous.words[0].text.startswith("-"):
            continue
        end = code.rfind("\n", 0, word.start)
        above = code[code.rfind("\n", 0, max(end, 0)) + 1 : max(end, 0)]
        if above.strip():
            is_comment = above.lstrip().startswith("#")
            return ShellFault(
                word.start,
                word.end,
                f"'{word.text}' starts a new command",
                "move the comment above the command"
                if is_comment
                else "end the line above with a backslash",
            )
    return None


# --- YAML ------------------------------------------------------------------------------------

_TEMPLATE_LINE = re.compile(r"^[ \t]*\{[%#].*[%#]\}[ \t]*$", re.MULTILINE)
_TEMPLATE = re.compile(r"\{\{(?:(?!\{\{).)*?\}\}|\{%(?:(?!\{%).)*?%\}")
_YAML_DOTS = re.compile(r"^([ \t]+|(?=.*\n[ \t]*\S))(?:\.{3}|…)[ \t]*$", re.MULTILINE)


def _find_in_yaml(code: str) -> CodeFault | None:
    # Imported here: it takes longer to load than most books take to check.
    from ruamel.yaml import YAML
    from ruamel.yaml.composer import ComposerError
    from ruamel.yaml.constructor import DuplicateKeyError
    from ruamel.yaml.error import MarkedYAMLError, YAMLError

    if "{{" in code or "{%" in code:
        code = _TEMPLATE_LINE.sub("", code)
        code = _TEMPLATE.sub(lambda found: "x" * len(found[0]), code)
    code = _YAML_DOTS.sub(lambda found: f"{found[1]}#", code)
    try:
        list(YAML(pure=True).load_all(code))
    except (ComposerError, RecursionError, ValueError):
        return None  # an alias whose anchor is in a part that is not shown, or a strange date
    except DuplicateKeyError as error:
        found, mark = re.search(r'key "(.*?)"', error.problem or ""), error.problem_mark
        if found is None or found[1] == "<<" or mark is None:
            return None
        message = f"'{found[1]}' appears twice in one mapping"
        hint = "only the last one counts: remove one"
        return CodeFault(mark.line, mark.column, len(found[1]), message, hint)
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        row, col = (mark.line, mark.column) if mark else (0, 0)
        lines = code.split("\n")
        row = min(row, len(lines) - 1)
        while row and not lines[row].strip():
            row, col = row - 1, 0
        problem = error.problem or "it breaks off here"
        return CodeFault(row, min(col, len(lines[row])), 1, problem, _YAML_HINTS.get(problem, ""))
    except YAMLError as error:
        return CodeFault(0, 0, 1, str(error).splitlines()[0])
    return None


_YAML_HINTS = {
    "mapping values are not allowed here": "put text that contains a colon in quotes, and"
    " align the keys of one mapping",
    "found character '\\t' that cannot start any token": "indent with spaces, not with tabs",
}

# --- JSON and TOML ---------------------------------------------------------------------------

_JSON_COMMENT = re.compile(r"(?:^|\s)(?://|#|/\*)", re.MULTILINE)


def _find_in_json(code: str) -> CodeFault | None:
    import json

    def load(text: str) -> json.JSONDecodeError | None:
        try:
            json.loads(text)
        except json.JSONDecodeError as error:
            return error
        except (ValueError, RecursionError):
            return None
        return None

    error = load(code)
    if error is None or _LEFT_OUT.search(code) or _JSON_COMMENT.search(code):
        return None
    member = code.strip().removesuffix(",")
    if load(f"{{{member}}}") is None or load(f"[{member}]") is None:
        return None
    if all(load(line) is None for line in code.splitlines() if line.strip()):
        return None
    problem = error.msg[:1].lower() + error.msg[1:]
    at = error.pos
    comma = re.compile(r",\s*(?=[\]}])").search(code, max(code.rfind(",", 0, at + 1), 0))
    if comma and comma.start() <= at <= comma.end():
        problem, at = "there is a comma before the closing bracket", comma.start()
    elif problem.startswith("extra data"):
        problem = "something follows the end of the value"
    at = min(at, len(code.rstrip()) - 1)
    row, col = code.count("\n", 0, at), at - (code.rfind("\n", 0, at) + 1)
    return CodeFault(row, col, 1, problem, "correct it, or write '...' where something is left out")


def _find_in_toml(code: str) -> CodeFault | None:
    import tomllib

    try:
        tomllib.loads(code)
    except tomllib.TOMLDecodeError as error:
        text = str(error)
        if "twice" in text or "overwrite" in text:  # several files, each below a comment
            parts = re.split(r"^#.*$", code, flags=re.M)
            if len(parts) > 1 and not any(map(_find_in_toml, parts)):
                return None
        place = re.search(r" \(at (?:line (\d+), column (\d+)|end of document)\)$", text)
        lines = code.rstrip("\n").split("\n")
        row = int(place[1]) - 1 if place and place[1] else len(lines) - 1
        col = int(place[2]) - 1 if place and place[2] else 0
        row = min(row, len(lines) - 1)
        problem = text[: place.start()] if place else text
        problem = problem[:1].lower() + problem[1:]
        col = min(col, max(len(lines[row]) - 1, 0))
        return CodeFault(row, col, 1, problem)
    except (RecursionError, ValueError):  # a number of thousands of digits
        return None
    return None


_LANGUAGES: Mapping[str, tuple[str, Callable[[str], CodeFault | None]]] = {
    label: (name, find)
    for name, find, labels in (
        ("Python", _find_in_python, ("python", "py", "python3", "ipython")),
        ("shell code", _find_in_shell, ("bash", "sh", "shell")),
        ("shell code", _find_in_console, ("console", "shell-session", "terminal")),
        ("YAML", _find_in_yaml, ("yaml", "yml")),
        ("JSON", _find_in_json, ("json", "jsonl")),
        ("TOML", _find_in_toml, ("toml",)),
    )
    for label in labels
}
