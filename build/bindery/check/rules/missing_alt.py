"""missing-alt: an image without alternative text says nothing to who cannot see it."""

from __future__ import annotations

from collections.abc import Iterator

from bindery.check.rules.rule import Rule, Scope
from bindery.core.model import Finding, Severity

RULE = Rule("missing-alt", Severity.WARNING, "an image has no alternative text")


def check(scope: Scope) -> Iterator[Finding]:
    for _, link, _ in scope.iterate_links():
        if link.is_image and not (link.is_alternative or link.text.strip()):
            message = f"the image '{link.destination}' has no alternative text"
            hint = "say between the brackets what the image shows"
            if link.kind == "html-image":
                hint = 'say in alt="..." what the image shows'
            yield RULE.find(link.span, message, hint)
