"""bad-calculator: a tool that is said to have calculators and has none, or one of which the site
can make no page. Its source is read; the tool is not run."""

from __future__ import annotations

from collections.abc import Iterator

from bindery.check.rules.rule import Rule, Scope
from bindery.core.model import Finding, Severity, Span

RULE = Rule("bad-calculator", Severity.ERROR, "a calculator of a tool cannot be read")
_HELP = "write it within what the site can translate, or take `calculators` out"


def check(scope: Scope) -> Iterator[Finding]:
    tools = [tool for tool in scope.config.tools if tool.calculators]
    if not tools:
        return
    # Imported here: a book without calculators need not wait for what translates them.
    from bindery.tools.calculators import read_calculators
    from bindery.tools.python_to_js import TranslationError

    for tool in tools:
        try:
            read_calculators(scope.tree.read_bytes(tool.path).decode("utf-8", "replace"))
        except TranslationError as error:
            yield RULE.find(Span(tool.path, error.line), str(error), _HELP)
