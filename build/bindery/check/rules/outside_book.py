"""outside-book: a path that leaves the repository, by `..` or through a symbolic link."""

from __future__ import annotations

from collections.abc import Iterator

from bindery.check.rules.rule import Rule, Scope
from bindery.core.model import Finding, Outside, Severity

RULE = Rule("outside-book", Severity.ERROR, "a path leaves the repository")


def check(scope: Scope) -> Iterator[Finding]:
    yield from scope.take_found(RULE)
    for chapter, link, resolution in scope.iterate_links():
        match resolution:
            case Outside(path=path, through_link=True):
                message = f"'{path}' is a symbolic link out of the repository"
                yield RULE.find_in_link(
                    chapter, link, message, "put the file itself into the repository"
                )
            case Outside():
                message = "this path leaves the repository, so no reader can follow it"
                yield RULE.find_in_link(chapter, link, message, "link something that readers have")
