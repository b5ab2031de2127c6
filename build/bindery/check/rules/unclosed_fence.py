"""unclosed-fence: no line closes a code block or a comment, so the rest of the chapter is shown as
code or not at all.

The closing line has nothing but backticks or tildes, at least as many as the opening line. In a
list item it is indented like the opening line, and in a quote it starts with `>` too. A comment
ends with `-->`.

Not reported is a code block that the end of its list item or quote closes.
"""

from __future__ import annotations

from collections.abc import Iterator

from bindery.check.rules.rule import Rule, Scope
from bindery.core.model import Chapter, Finding, Severity, Span

RULE = Rule("unclosed-fence", Severity.ERROR, "a code block or a comment is never closed")


def check(scope: Scope) -> Iterator[Finding]:
    for _, fence in scope.iterate_fences():
        if fence.is_unclosed:
            hint = "close it below the code"
            if not fence.info:
                hint += "; if this line should close a block, compare it with the fences above"
            yield RULE.find(fence.opening, "this code block is never closed", hint)
    for chapter in scope.book.chapters:
        for span in _find_unclosed_comments(chapter):
            hint = "close it with '-->': GitHub hides the text below it"
            yield RULE.find(span, "this comment is never closed", hint)


def _find_unclosed_comments(chapter: Chapter) -> Iterator[Span]:
    if "<!--" not in chapter.source:
        return
    for token in chapter.tokens:
        at = token.content.rfind("<!--") if token.type == "html_block" else -1
        if at > token.content.rfind("-->") and token.map is not None:
            line = token.map[0] + token.content.count("\n", 0, at)
            yield Span(chapter.path, line + 1, chapter.lines[line].rfind("<!--") + 1, 4)
