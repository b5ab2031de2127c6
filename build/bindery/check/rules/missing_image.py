"""missing-image: an image file that is not there."""

from __future__ import annotations

from collections.abc import Iterator

from bindery.check.rules.rule import Rule, Scope
from bindery.core.model import Finding, NoDestination, NothingThere, Severity, ToFile

RULE = Rule("missing-image", Severity.ERROR, "an image is not there")


def check(scope: Scope) -> Iterator[Finding]:
    yield from scope.take_found(RULE)
    for chapter, link, resolution in scope.iterate_links():
        if not link.is_image:
            continue
        match resolution:
            case NothingThere(nearest=nearest):
                hint = f"did you mean '{nearest}'?" if nearest else "correct the path"
                message = f"there is no image '{link.destination}'"
                yield RULE.find_in_link(chapter, link, message, hint)
            case NoDestination(reason=reason):
                message = f"this image shows nothing: {reason}"
                yield RULE.find_in_link(chapter, link, message, "name the file of an image")
            case ToFile(is_folder=True, path=path):
                yield RULE.find_in_link(
                    chapter, link, f"'{path}' is a folder, not an image", "name a file in it"
                )
