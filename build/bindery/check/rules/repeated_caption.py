"""repeated-caption: a caption repeats the heading above it. Outputs omit such captions."""

from __future__ import annotations

import re
from collections.abc import Iterator

from bindery.check.rules.rule import Rule, Scope
from bindery.core.model import Chapter, Finding, Severity, Span

RULE = Rule("repeated-caption", Severity.WARNING, "a caption repeats the heading above it")

_WORD = re.compile(r"\w+")


def repeats(caption: str, heading: str) -> bool:
    """Whether the heading contains every word of the caption."""
    return set(_WORD.findall(caption.casefold())) <= set(_WORD.findall(heading.casefold()))


def check(scope: Scope) -> Iterator[Finding]:
    for chapter in scope.book.chapters:
        headings = [(anchor.span.line, anchor.title) for anchor in chapter.anchors if anchor.level]
        for span, caption, hint in sorted(_list_captions(scope, chapter)):
            above = [title for line, title in headings if line < span.line]
            heading = above[-1] if above else chapter.title
            if repeats(caption, heading):
                message = f"the caption '{caption}' repeats the heading '{heading}'"
                yield RULE.find(span, message, hint)


def _list_captions(scope: Scope, chapter: Chapter) -> Iterator[tuple[Span, str, str]]:
    """The place and text of each caption, and a hint where to change it."""
    for region in scope.quotations[chapter.path].regions:
        view = scope.evidence.views.get(region.name)
        if view is not None and region.kind != "value":
            hint = f"in `-- title:` of {view.path}, say what the reader should see"
            yield region.opening, view.title, hint
    for token in chapter.tokens:
        pieces = token.children or []
        if any(piece.type == "text" and piece.content.strip() for piece in pieces):
            continue  # inside a sentence, a title is not a caption
        for child in pieces:
            title = str(child.attrs.get("title") or "")
            if child.type == "image" and title:
                hint = "use the title to say what the reader should see, or remove it"
                yield child.meta["link"].span, title, hint
