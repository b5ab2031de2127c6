"""bad-calculator: a tool has `calculators: true` in chapters.yaml, but the site cannot offer any.

The tool declares no calculator, or one uses Python that the site cannot translate to JavaScript.
The check reads the tool's source and does not run it.
"""

from __future__ import annotations

from collections.abc import Iterator

from bindery.check.rules.rule import Rule, Scope
from bindery.core.model import Finding, Severity, Span

RULE = Rule("bad-calculator", Severity.ERROR, "a tool's calculator cannot be translated")
_HELP = "use only Python that the site can translate, or remove `calculators`"


def check(scope: Scope) -> Iterator[Finding]:
    for tool in scope.config.tools:
        if tool.calculators:
            for line, message in scope.tree.derive(tool.path, "calculators", _Faults, _list_faults):
                yield RULE.find(Span(tool.path, line), message, _HELP)


_Faults = tuple[tuple[int, str], ...]
"""Line and message of each."""


def _list_faults(content: bytes) -> _Faults:
    # Imported here because most books have no calculators.
    from bindery.tools.calculators import read_calculators
    from bindery.tools.python_to_js import TranslationError

    try:
        read_calculators(content.decode("utf-8", "replace"))
    except TranslationError as error:
        return ((error.line, str(error)),)
    return ()
