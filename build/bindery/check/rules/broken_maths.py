"""broken-maths: a formula cannot be typeset. Checked only if chapters.yaml turns formulas on."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from markdown_it.token import Token

from bindery.check.rules.rule import Rule, Scope
from bindery.core.model import Finding, Severity

RULE = Rule("broken-maths", Severity.ERROR, "a formula cannot be typeset")


def check(scope: Scope) -> Iterator[Finding]:
    if not scope.config.maths:
        return
    from bindery.markdown.maths import find_fault, find_missing_packages

    missing = find_missing_packages()
    for chapter in scope.book.chapters:
        for token in _list_formulas(chapter.tokens):
            if missing:
                message = f"formulas need {' and '.join(missing)} (not installed)"
                hint = "run `pip install 'bindery[maths]'`"
                yield RULE.find(token.meta["span"], message, hint)
                return
            fault = find_fault(token.content, is_block=token.type != "math_inline")
            if fault:
                message = f"this formula cannot be typeset: {fault}"
                hint = "fix the LaTeX"
                if token.markup.startswith("$"):
                    hint += "; if this is not a formula, write the dollar sign as \\$"
                yield RULE.find(token.meta["span"], message, hint)


def _list_formulas(tokens: Iterable[Token]) -> Iterator[Token]:
    for token in tokens:
        if token.type.startswith("math_"):
            yield token
        yield from _list_formulas(token.children or ())
