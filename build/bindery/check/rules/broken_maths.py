r"""broken-maths: a formula cannot be typeset.

Checked only with `maths: true` in chapters.yaml. Write a dollar sign in prose as `\$`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial

from markdown_it.token import Token

from bindery.check.rules.rule import Rule, Scope
from bindery.core.model import Chapter, Finding, Severity

RULE = Rule("broken-maths", Severity.ERROR, "a formula cannot be typeset")


def check(scope: Scope) -> Iterator[Finding]:
    if not scope.config.maths:
        return
    chapters = [one for one in scope.book.chapters if _has_formulas(one)]
    if not chapters:
        return
    from bindery.markdown.maths import find_missing_packages

    missing = find_missing_packages()
    for chapter in chapters:
        find = partial(_list_faults, chapter, missing)
        found = chapter.facts.derive("formulas", tuple[Finding, ...], find, repr(missing))
        yield from found
        if missing and found:
            return  # one formula is enough to tell what is missing


def _has_formulas(chapter: Chapter) -> bool:
    return chapter.facts.derive(
        "formulas exist", bool, lambda: any(True for _ in _list_formulas(chapter.tokens))
    )


def _list_faults(chapter: Chapter, missing: Sequence[str]) -> tuple[Finding, ...]:
    from bindery.markdown.maths import find_fault

    found = []
    for token in _list_formulas(chapter.tokens):
        if missing:
            hint = "run `pip install 'bindery[maths]'`"
            message = f"formulas need {' and '.join(missing)} (not installed)"
            return (RULE.find(token.meta["span"], message, hint),)
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
        if "$" in token.content:
            yield from _list_formulas(token.children or ())
