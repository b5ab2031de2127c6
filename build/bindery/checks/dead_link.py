"""dead-link: a link leads to a file that is not there, or to nothing at all."""

from __future__ import annotations

import re
from collections.abc import Iterator

from bindery.checks.rule import Rule, Scope
from bindery.model import Finding, NoDestination, NothingThere, Severity, ToWeb

RULE = Rule("dead-link", Severity.ERROR, "a link leads to nothing")

_NO_MAILBOX = re.compile(r"mailto:[^@]+@[\w.-]+\.\d+$")
"""No name of a host ends in a number: `SLURM@22.05.09` is a version."""


def check(scope: Scope) -> Iterator[Finding]:
    yield from scope.take_found(RULE)
    for chapter, link, resolution in scope.iterate_links():
        match resolution:
            case NothingThere(nearest=nearest, reason=reason) if not link.is_image:
                message = f"there is no file '{link.destination}'"
                hint = "correct the path, or take the link out"
                if nearest:
                    hint = f"did you mean '{nearest}'?"
                yield RULE.find_in_link(
                    chapter, link, f"{message}: {reason}" if reason else message, hint
                )
            case NoDestination(reason=reason, nearest=nearest) if not link.is_image:
                message = f"this link leads nowhere: {reason}"
                hint = f"did you mean '{nearest}'?" if nearest else _advise(reason)
                yield RULE.find_in_link(chapter, link, message, hint)
            case ToWeb(url=url) if link.kind == "autolink" and _NO_MAILBOX.match(url):
                message = f"'{link.raw}' is shown as a link to a mail address, and is none"
                hint = f"put it in a code span: `{link.raw}`"
                yield RULE.find_in_link(chapter, link, message, hint)


def _advise(reason: str) -> str:
    """What to write where a link has a destination that can be none."""
    if "scheme" in reason:
        return "link something else, or allow the scheme: 'links: schemes' in chapters.yaml"
    if "host" in reason:
        return "write the whole address, such as 'https://example.org/page'"
    if "mailbox" in reason:
        return "write 'mailto:' and the mail address"
    if "prose" in reason:
        return "put a path or an address here, and the words outside of the link"
    return "write the path or address to which it leads, or take the link out"
