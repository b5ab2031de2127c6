"""repeated-caption: a caption only repeats words of the heading above it.

Captions are the titles of views and of images that are a paragraph of their own. Outputs leave such
a caption out. Say what the reader should see in the table or image.
"""

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
    views = scope.facts.derive("titles", _ViewTitles, lambda: _list_view_titles(scope))
    of_views = {name: (path, title) for name, path, title in views}
    for region in scope.quotations[chapter.path].regions:
        if region.name in of_views and region.kind != "value":
            path, title = of_views[region.name]
            hint = f"in `-- title:` of {path}, say what the reader should see"
            yield region.opening, title, hint
    titles = chapter.facts.derive("titles", _Titles, lambda: tuple(_list_titles(chapter)))
    for span, title in titles:
        hint = "use the title to say what the reader should see, or remove it"
        yield span, title, hint


_Titles = tuple[tuple[Span, str], ...]
_ViewTitles = tuple[tuple[str, str, str], ...]


def _list_view_titles(scope: Scope) -> _ViewTitles:
    """Name, path and title of each view."""
    return tuple((name, view.path, view.title) for name, view in scope.evidence.views.items())


def _list_titles(chapter: Chapter) -> Iterator[tuple[Span, str]]:
    """The titles of images that are a paragraph of their own."""
    if not any(link.kind == "image" for link in chapter.links):
        return
    for token in chapter.tokens:
        pieces = token.children
        if not pieces or any(piece.type == "text" and piece.content.strip() for piece in pieces):
            continue  # inside a sentence, a title is not a caption
        for child in pieces:
            title = str(child.attrs.get("title") or "")
            if child.type == "image" and title:
                yield child.meta["link"].span, title
