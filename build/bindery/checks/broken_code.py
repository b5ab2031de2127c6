"""broken-code: a block of code that breaks off where the reader copies it: Python, shell, YAML,
JSON and TOML by their labels."""

from __future__ import annotations

from collections.abc import Iterator

from bindery.checks.rule import Rule, Scope
from bindery.model import Finding, Severity

RULE = Rule("broken-code", Severity.ERROR, "a block of code is not in the language of its label")

_JUDGED = {
    "python": "Python", "py": "Python", "python3": "Python", "ipython": "Python",
    "pycon": "Python", "bash": "shell code", "sh": "shell code", "shell": "shell code",
    "console": "shell code", "shell-session": "shell code", "terminal": "shell code",
    "yaml": "YAML", "yml": "YAML", "json": "JSON", "jsonc": "JSON", "jsonl": "JSON",
    "toml": "TOML",
}  # fmt: skip


def check(scope: Scope) -> Iterator[Finding]:
    for _, fence in scope.iterate_fences():
        if fence.language not in _JUDGED:
            continue
        # Imported here: a book without such a block need not wait for what reads them.
        from bindery.code_syntax import find_fault

        fault = find_fault(fence.language, fence.code)
        if fault is not None:
            span = fence.place(fault.row, fault.col, fault.width)
            message = f"this {_JUDGED[fence.language]} is broken: {fault.message}"
            yield RULE.find(span, message, fault.help)
