"""bad-calculator: a tool that is said to have calculators and has none, or one of which the site
can make no page. Its source is read; the tool is not run."""

from __future__ import annotations

from collections.abc import Iterator

from bindery.check.rules.rule import Rule, Scope
from bindery.core.model import Finding, Severity, Span

RULE = Rule("bad-calculator", Severity.ERROR, "a calculator of a tool cannot be read")
_HELP = "write it within what the site can translate, or take `calculators` out"


def check(scope: Scope) -> Iterator[Finding]:
    for tool in scope.config.tools:
        if tool.calculators:
            for line, message in scope.tree.derive(tool.path, "calculators", _Faults, _list_faults):
                yield RULE.find(Span(tool.path, line), message, _HELP)


_Faults = tuple[tuple[int, str], ...]
"""Line and message of each."""


def _list_faults(content: bytes) -> _Faults:
    # Imported here: a book without calculators need not wait for what translates them.
    from bindery.tools.calculators import read_calculators
    from bindery.tools.python_to_js import TranslationError

    try:
        read_calculators(content.decode("utf-8", "replace"))
    except TranslationError as error:
        return ((error.line, str(error)),)
    return ()
