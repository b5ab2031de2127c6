"""missing-alt: an image has no alternative text, so readers who cannot see it miss its content.

Say what the image shows: `![The loss spikes at step 900](loss.png)`.
"""

from __future__ import annotations

from collections.abc import Iterator

from bindery.check.rules.rule import Rule, Scope
from bindery.core.model import Finding, Severity

RULE = Rule("missing-alt", Severity.WARNING, "an image has no alt text")


def check(scope: Scope) -> Iterator[Finding]:
    for _, link, _ in scope.iterate_links():
        if link.is_image and not (link.is_alternative or link.text.strip()):
            message = f"the image '{link.destination}' has no alt text"
            hint = "describe the image between the brackets"
            if link.kind == "html-image":
                hint = 'describe the image in alt="..."'
            yield RULE.find(link.span, message, hint)
