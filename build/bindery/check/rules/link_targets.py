"""Rules about where a link or an image leads, each for a way in which the resolver can fail."""

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
    "A path leaves the repository by `..` or through a symbolic link.",
)
DEAD_LINK = Rule(
    "dead-link",
    Severity.ERROR,
    "a link leads to nothing",
    "A link leads to a file that is not there, or to nothing at all.",
)
DEAD_ANCHOR = Rule(
    "dead-anchor",
    Severity.ERROR,
    "a link leads to an anchor that no heading has",
    "The chapter is there, the anchor is not.",
)
DIRECTORY_ANCHOR = Rule(
    "directory-anchor",
    Severity.ERROR,
    "an anchor is asked of a folder",
    "`folder#anchor` opens the folder on GitHub, not the place.",
)
CASE_MISMATCH = Rule(
    "case-mismatch",
    Severity.ERROR,
    "a path differs from the file in upper and lower case",
    "Such a path works on a forgiving file system and nowhere else.",
)
NESTED_URL = Rule(
    "nested-url",
    Severity.ERROR,
    "a URL is inside another",
    "A URL is wrapped in a URL, as a careless replacement leaves it.",
)
MISSING_IMAGE = Rule("missing-image", Severity.ERROR, "an image is not there")
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
        if found := _judge(link, resolution):
            rule, message, hint = found
            yield rule.find_in_link(chapter, link, message, hint)


def _judge(link: Link, resolution: Resolution) -> tuple[Rule, str, str] | None:
    """The rule that a link breaks, what is wrong and what to do."""
    match resolution:
        case NothingThere(nearest=nearest):
            rule = MISSING_IMAGE if link.is_image else DEAD_LINK
            message = f"there is no {'image' if link.is_image else 'file'} '{link.destination}'"
            hint = "correct the path" + ("" if link.is_image else ", or take the link out")
            hint = f"did you mean '{nearest}'?" if nearest else hint
            return rule, message, hint
        case NoDestination(reason=reason) if link.is_image:
            hint = "name the file of an image"
            return MISSING_IMAGE, f"this image shows nothing: {reason}", hint
        case NoDestination(reason, nearest, repair):
            hint = f"did you mean '{nearest}'?" if nearest else repair
            return DEAD_LINK, f"this link leads nowhere: {reason}", hint
        case ToFile(is_folder=True, path=path) if link.is_image:
            return MISSING_IMAGE, f"'{path}' is a folder, not an image", "name a file in it"
        case Outside(path=path, through_link=True):
            message = f"'{path}' is a symbolic link out of the repository"
            return OUTSIDE_BOOK, message, "put the file itself into the repository"
        case Outside():
            message = "this path leaves the repository, so no reader can follow it"
            return OUTSIDE_BOOK, message, "link something that readers have"
        case NoAnchor(chapter=path, slug=slug, reason=reason) as failure:
            where = "this chapter" if path == link.span.path else f"'{path}'"
            message = f"{where} has no anchor '#{slug}'" + (f": {reason}" if reason else "")
            nearest = failure.elsewhere or (failure.nearest and f"#{failure.nearest}")
            hint = f"did you mean '{nearest}'?" if nearest else "name a heading that is there"
            return DEAD_ANCHOR, message, hint
        case FolderAnchor(readme=readme, written=written, slug=slug, target=target):
            message = "a folder has no anchors: GitHub does not follow this link to its place"
            hint = f"write '{written}'"
            if target is None:
                hint = f"link a chapter, for '{readme}' is not listed in chapters.yaml"
            elif not target.slug:
                hint += f"; mind that '{readme}' has no anchor '#{slug}' either"
            return DIRECTORY_ANCHOR, message, hint
        case WrongCase(actual=actual, lost_anchor=lost):
            hint = f"write '{actual}'"
            if lost:
                hint += f"; mind that it has no anchor '#{lost}' either"
            return CASE_MISMATCH, f"the file is called otherwise: '{actual}'", hint
        case NestedUrl(inner=inner, url=url):
            meant = _ONE_SLASH.sub("//", inner, count=1)
            hint = f"write '{meant}'"
            if inner != url and _OUTER.match(url):
                scheme = meant.partition(":")[0]
                hint += f", or '{scheme}%3A' for its '{scheme}:' if the outer address takes it"
            return NESTED_URL, f"this address holds a second one, '{inner}'", hint
        case _:
            return None
