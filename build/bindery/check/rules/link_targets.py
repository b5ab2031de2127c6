"""Rules for link and image targets, one for each way in which a link fails to resolve."""

from __future__ import annotations

import re
from collections.abc import Iterator

from bindery.check.rules.rule import Rule, Scope
from bindery.core.model import (
    Finding,
    FolderAnchor,
    Link,
    NestedUrl,
    NoAnchor,
    NoDestination,
    NothingThere,
    Outside,
    Resolution,
    Severity,
    ToFile,
    WrongCase,
)

OUTSIDE_BOOK = Rule(
    "outside-book",
    Severity.ERROR,
    "a path leaves the repository",
    "A path leaves the repository through `..` or a symbolic link.",
)
DEAD_LINK = Rule(
    "dead-link",
    Severity.ERROR,
    "a link target does not exist",
    "A link leads to a file that does not exist, or has no target.",
)
DEAD_ANCHOR = Rule(
    "dead-anchor",
    Severity.ERROR,
    "a link leads to an anchor that no heading has",
    "The file exists, but no heading or `<a id>` in it has this anchor. Anchors are those of "
    "GitHub: `## Set up NCCL` is `#set-up-nccl`.",
)
DIRECTORY_ANCHOR = Rule(
    "directory-anchor",
    Severity.ERROR,
    "a link asks for an anchor in a folder",
    "GitHub opens `folder#anchor` and ignores the anchor. Link to `folder/README.md#anchor`.",
)
CASE_MISMATCH = Rule(
    "case-mismatch",
    Severity.ERROR,
    "a path differs from the file name in case",
    "Such a path works only on file systems that ignore case, as on macOS and Windows.",
)
NESTED_URL = Rule(
    "nested-url",
    Severity.ERROR,
    "a URL contains another URL",
    "One URL is inside another, usually after a careless search and replace.",
)
MISSING_IMAGE = Rule("missing-image", Severity.ERROR, "an image does not exist")
RULES = (
    OUTSIDE_BOOK,
    DEAD_LINK,
    DEAD_ANCHOR,
    DIRECTORY_ANCHOR,
    CASE_MISMATCH,
    NESTED_URL,
    MISSING_IMAGE,
)

_ONE_SLASH = re.compile(r"(?<=:)/(?!/)")
_OUTER = re.compile(r"(?:https?:)?//[\w-]+(?:\.[\w-]+)+(?::\d+)?/", re.I)


def check(scope: Scope) -> Iterator[Finding]:
    for chapter, link, resolution in scope.iterate_links():
        if found := _judge(scope, link, resolution):
            rule, message, hint = found
            yield rule.find_in_link(chapter, link, message, hint)


def _judge(scope: Scope, link: Link, resolution: Resolution) -> tuple[Rule, str, str] | None:
    match resolution:
        case NothingThere(nearest=nearest):
            rule = MISSING_IMAGE if link.is_image else DEAD_LINK
            file = link.destination.partition("#")[0]
            message = f"there is no {'image' if link.is_image else 'file'} '{file}'"
            hint = "correct the path" + ("" if link.is_image else ", or remove the link")
            hint = f"did you mean '{nearest}'?" if nearest else hint
            return rule, message, hint
        case NoDestination(reason=reason) if link.is_image:
            hint = "name an image file"
            return MISSING_IMAGE, f"this image has no target: {reason}", hint
        case NoDestination(reason, nearest, repair):
            hint = f"did you mean '{nearest}'?" if nearest else repair
            return DEAD_LINK, f"this link has no target: {reason}", hint
        case ToFile(is_folder=True, path=path) if link.is_image:
            return MISSING_IMAGE, f"'{path}' is a folder, not an image", "name a file in it"
        case Outside(path=path, through_link=True):
            message = f"'{path}' is a symbolic link out of the repository"
            return OUTSIDE_BOOK, message, "replace the link by the file itself"
        case Outside():
            message = "this path leaves the repository, so readers cannot follow it"
            return OUTSIDE_BOOK, message, "link to a file in the repository"
        case NoAnchor(chapter=path, slug=slug, reason=reason) as failure:
            where = "this chapter" if path == link.span.path else f"'{path}'"
            message = f"{where} has no anchor '#{slug}'" + (f": {reason}" if reason else "")
            nearest = failure.elsewhere or (failure.nearest and f"#{failure.nearest}")
            hint = f"did you mean '{nearest}'?" if nearest else "name an existing heading"
            return DEAD_ANCHOR, message, hint
        case FolderAnchor(readme=readme, written=written, slug=slug, target=target):
            message = "a folder has no anchors: GitHub opens the folder and ignores the anchor"
            hint = f"write '{written}'"
            if target is None:
                exists = scope.tree.find_kind(readme)
                lack = "is not listed in chapters.yaml" if exists else "does not exist"
                hint = f"link to a chapter: '{readme}' {lack}"
            elif not target.slug:
                hint += f"; note that '{readme}' has no anchor '#{slug}' either"
            return DIRECTORY_ANCHOR, message, hint
        case WrongCase(actual=actual, lost_anchor=lost):
            hint = f"write '{actual}'"
            if lost:
                hint += f"; note that it has no anchor '#{lost}' either"
            return CASE_MISMATCH, f"the file name differs in case: '{actual}'", hint
        case NestedUrl(inner=inner, url=url):
            meant = _ONE_SLASH.sub("//", inner, count=1)
            hint = f"write '{meant}'"
            if inner != url and _OUTER.match(url):
                scheme = meant.partition(":")[0]
                hint += f", or '{scheme}%3A' for its '{scheme}:' if the outer URL needs it"
            return NESTED_URL, f"this URL contains a second one, '{inner}'", hint
        case _:
            return None
