"""remote-image: an image is loaded from the web. The site shows it, but ebooks cannot include it.

Save the image in the book.
"""

from __future__ import annotations

from collections.abc import Iterator

from bindery.check.rules.rule import Rule, Scope
from bindery.core.model import Finding, Severity, ToWeb

RULE = Rule("remote-image", Severity.WARNING, "an image is on the web, so ebooks cannot include it")


def check(scope: Scope) -> Iterator[Finding]:
    for _, link, target in scope.iterate_links():
        if link.is_image and isinstance(target, ToWeb):
            message = f"PDF and EPUB show a link instead of the image '{target.url}'"
            yield RULE.find(link.span, message, "save the image in the book and link that file")
