r"""broken-maths: a formula cannot be typeset.

Checked only with `maths: true` in chapters.yaml. Write a dollar sign in prose as `\$`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial

from markdown_it.token import Token

from bindery.check.rules.rule import Rule, Scope
from bindery.core.model import Chapter, Finding, Severity

RULE = Rule("broken-maths", Severity.ERROR, "a formula cannot be typeset")


def check(scope: Scope) -> Iterator[Finding]:
    if not scope.config.maths:
        return
    from bindery.markdown.maths import find_missing_packages

    missing = find_missing_packages()
    for chapter in scope.book.chapters:
        if missing:
            hint = "run `pip install 'bindery[maths]'`"
            message = f"formulas need {' and '.join(missing)} (not installed)"
            for token in _list_formulas(chapter.tokens):
                yield RULE.find(token.meta["span"], message, hint)
                return
        else:
            faults = partial(_list_faults, chapter)
            yield from chapter.facts.derive("formulas", tuple[Finding, ...], faults)


def _list_faults(chapter: Chapter) -> tuple[Finding, ...]:
    from bindery.markdown.maths import find_fault

    found = []
    for token in _list_formulas(chapter.tokens):
        fault = find_fault(token.content, is_block=token.type != "math_inline")
        if fault:
            hint = "fix the LaTeX"
            if token.markup.startswith("$"):
                hint += "; if this is not a formula, write the dollar sign as \\$"
            message = f"this formula cannot be typeset: {fault}"
            found.append(RULE.find(token.meta["span"], message, hint))
    return tuple(found)


def _list_formulas(tokens: Iterable[Token]) -> Iterator[Token]:
    for token in tokens:
        if token.type.startswith("math_"):
            yield token
        yield from _list_formulas(token.children or ())
