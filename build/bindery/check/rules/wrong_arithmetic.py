"""wrong-arithmetic: a calculation in prose, inline code or a text block is wrong.

Checked are equations between numbers, such as `8 x 80 GB = 640 GB`, `16 GB / 320 GBps = 50 ms` and
`320 GB (80 * 4)`, with units, percentages and functions such as `sqrt` and `log2`. A result may be
rounded or cut off at its last digit. After `≈`, `~` or "about" it may be off by 5 %. A unit may be
read in every usual way: GB as 10^9 or 2^30 bytes, B as bytes or billions.

Not checked are equations with variables, blocks of program code, generated tables, and text that
may not be an equation, such as "part 1 (1/2)".

For `8 x 80 GB = 540 GB` the finding is "the left side gives 640 GB". Correct one of the sides; if
the sides are meant to differ, excuse the finding.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from bindery.check.rules.rule import Rule, Scope
from bindery.core.model import Chapter, Finding, Severity, Span
from bindery.markdown.prose import JoinedProse

if TYPE_CHECKING:
    from bindery.check.arithmetic.statements import Statement

RULE = Rule("wrong-arithmetic", Severity.ERROR, "a calculation is wrong")

TEXT_LANGUAGES = frozenset(("", "text", "txt", "plain", "plaintext", "math"))
"""Languages of fences that hold worked examples, not programs."""
_EMPHASIS = re.compile(r"(?<![\w)*])\*{1,3}(?=[\w(~$€£])|(?<=[\w)%])\*{1,3}(?![\w(*])")


def check(scope: Scope) -> Iterator[Finding]:
    # Imported here because other commands do not need it.
    from bindery.check.arithmetic.judging import Verdict
    from bindery.check.arithmetic.statements import SIGNS, has_sign, read_statements

    passages = list(scope.iterate_passages())
    prose = JoinedProse([passage.text for _, passage in passages])
    for number in sorted({number for sign in (*SIGNS, " (") for number in prose.find(sign)}):
        chapter, passage = passages[number]
        for statement in read_statements(passage.text, passage.codes):
            if statement.verdict is Verdict.FAILS:
                span = passage.place(statement.start, statement.end)
                if _is_as_typed(chapter, span, statement):
                    yield from _report(scope, span, statement)
    for _, fence in scope.iterate_fences():
        if fence.language not in TEXT_LANGUAGES or not has_sign(fence.code):
            continue
        for row, line in enumerate(fence.code.split("\n")):
            for statement in read_statements(line, ((0, len(line)),)):
                if statement.verdict is Verdict.FAILS:
                    width = statement.end - statement.start
                    yield from _report(scope, fence.place(row, statement.start, width), statement)


def _is_as_typed(chapter: Chapter, span: Span, statement: Statement) -> bool:
    """Whether readers see what the author typed: in 3*8*4 Markdown takes the stars as emphasis."""
    typed = chapter.lines[span.line - 1][span.col - 1 : span.col - 1 + span.width]
    plain = html.unescape(typed.replace("`", "").replace("\\", ""))
    shown = statement.text.split("\n")[0].rstrip()
    return shown in (plain.rstrip(), _EMPHASIS.sub("", plain).rstrip())


def _report(scope: Scope, span: Span, statement: Statement) -> Iterator[Finding]:
    if scope.is_generated(span.path, span.line):
        return
    left, right = statement.left, statement.right
    if statement.is_bracketed:
        gives, hint = f"the brackets give {right}", f"write '{right}', or correct the brackets"
    elif left and right:
        gives, hint = f"the left side gives {left}, the right side {right}", "correct one side"
    elif left:
        gives, hint = f"the left side gives {left}", f"write '{left}', or correct the left side"
    else:
        gives, hint = f"the right side gives {right}", f"write '{right}', or correct the right side"
    text = " ".join(statement.text.split())
    yield RULE.find(span, f"'{text}' is wrong: {gives}", hint)
