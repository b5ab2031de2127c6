"""unclosed-fence: no line closes a code block, so the rest of the chapter is shown as code.

The closing line has nothing but backticks or tildes, at least as many as the opening line. In a
list item it is indented like the opening line, and in a quote it starts with `>` too.

Not reported is a block that the end of its list item or quote closes.
"""

from __future__ import annotations

from collections.abc import Iterator

from bindery.check.rules.rule import Rule, Scope
from bindery.core.model import Finding, Severity

RULE = Rule("unclosed-fence", Severity.ERROR, "a code block is never closed")


def check(scope: Scope) -> Iterator[Finding]:
    for _, fence in scope.iterate_fences():
        if fence.is_unclosed:
            hint = "close it below the code"
            if not fence.info:
                hint += "; if this line should close a block, compare it with the fences above"
            yield RULE.find(fence.opening, "this code block is never closed", hint)
