"""directory-anchor: `folder#anchor` opens the folder on GitHub, not the place."""

from __future__ import annotations

from collections.abc import Iterator

from bindery.check.rules.rule import Rule, Scope
from bindery.core.model import Finding, FolderAnchor, Severity

RULE = Rule("directory-anchor", Severity.ERROR, "an anchor is asked of a folder")


def check(scope: Scope) -> Iterator[Finding]:
    for chapter, link, resolution in scope.iterate_links():
        match resolution:
            case FolderAnchor(readme=readme, written=written, slug=slug, target=target):
                message = "a folder has no anchors: GitHub does not follow this link to its place"
                hint = f"write '{written}'"
                if target is None:
                    hint = f"link a chapter, for '{readme}' is not listed in chapters.yaml"
                elif not target.slug:
                    hint += f"; mind that '{readme}' has no anchor '#{slug}' either"
                yield RULE.find_in_link(chapter, link, message, hint)
