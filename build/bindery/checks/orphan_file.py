"""orphan-file: an image in the folder of the book that nothing points to."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator

from bindery.checks.rule import Rule, Scope
from bindery.load import is_left_out
from bindery.model import Finding, Severity, Span, ToFile, WrongCase

RULE = Rule("orphan-file", Severity.WARNING, "an image of the book is shown nowhere")

_IMAGES = (".png", ".jpg", ".jpeg", ".gif", ".svg", ".webp", ".avif")


def check(scope: Scope) -> Iterator[Finding]:
    used = {scope.config.cover}
    for _, _, resolution in scope.iterate_links():
        match resolution:
            case ToFile(path=path) | WrongCase(target=ToFile(path=path)):
                used.add(path)
            case _:
                pass
    for path in scope.tree.walk_files(scope.config.folder):
        is_image = path.lower().endswith(_IMAGES)
        # A cover may lie there in several formats, for shelves that show only some of them.
        is_cover = posixpath.splitext(path)[0] == posixpath.splitext(scope.config.cover)[0]
        if is_image and path not in used and not (is_cover or is_left_out(path, scope.config)):
            message = f"no chapter shows '{path}'"
            yield RULE.find(
                Span.whole(path), message, "show it, remove it, or name it under 'not_chapters'"
            )
