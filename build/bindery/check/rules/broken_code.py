"""broken-code: a block of code that breaks off where the reader copies it: Python, shell, YAML,
JSON and TOML by their labels."""

from __future__ import annotations

import re
from collections.abc import Iterator

from bindery.check.rules.rule import Rule, Scope
from bindery.core.model import Finding, Severity
from bindery.markdown.prose import Fence

RULE = Rule("broken-code", Severity.ERROR, "a block of code is not in the language of its label")

_JUDGED = {
    "python": "Python", "py": "Python", "python3": "Python", "ipython": "Python",
    "bash": "shell code", "sh": "shell code", "shell": "shell code",
    "console": "shell code", "shell-session": "shell code", "terminal": "shell code",
    "yaml": "YAML", "yml": "YAML", "json": "JSON", "jsonl": "JSON",
    "toml": "TOML",
}  # fmt: skip

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
        if fence.language not in _JUDGED:
            continue
        # Imported here: a book without such a block need not wait for what reads them.
        from bindery.check.code_fences import find_fault

        fault = find_fault(fence.language, fence.code)
        other = _find_other_language(fence) if fault is not None else ""
        if other:
            message = f"this reads as {_JUDGED[other]}, and its label says '{fence.language}'"
            yield RULE.find(fence.opening, message, f"label the block '{other}'")
        elif fault is not None:
            span = fence.place(fault.row, fault.col, fault.width)
            message = f"this {_JUDGED[fence.language]} is broken: {fault.message}"
            yield RULE.find(span, message, fault.help)


def _find_other_language(fence: Fence) -> str:
    """The label under which a block that is broken under its own would be whole, if it reads so."""
    from bindery.check.code_fences import find_fault

    kind = _JUDGED[fence.language]
    if kind == "shell code" and _READS_AS_PYTHON.search(fence.code):
        return "" if find_fault("python", fence.code) else "python"
    if kind == "Python" and _READS_AS_SHELL.search(fence.code):
        return "" if find_fault("bash", fence.code) else "bash"
    return ""
