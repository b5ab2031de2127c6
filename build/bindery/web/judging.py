"""Judge an answer: live, moved, dead, gated, or currently unknown."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime
from itertools import takewhile
from urllib.parse import parse_qsl, urldefrag, urlsplit, urlunsplit

from msgspec.structs import replace

from bindery.web.answers import Answer, Verdict
from bindery.web.fetch import Fault, FaultKind, Reply
from bindery.web.pages import cut_fragment, find_nearest_anchor, has_anchor
from bindery.web.trails import Trail

_OF_FAULTS: Mapping[FaultKind, Verdict] = {
    "no-host": "dead",
    "robots": "gated",
    "throttled": "throttled",
}
_GATES = {
    401: "it requires a password",
    402: "it requires payment",
    403: "it rejects automated requests",
    407: "a proxy requires a password",
    451: "it is blocked for legal reasons",
    999: "it rejects automated requests",
}
_ALIASES = frozenset(("stable", "latest", "current", "newest", "nightly", "lts"))
_PERMALINK_HOSTS = frozenset(
    ("doi.org", "dx.doi.org", "hdl.handle.net", "purl.org", "w3id.org", "n2t.net")
)
_SIGNS = frozenset("awsaccesskeyid expires key-pair-id policy se sig signature sp sv token".split())
_LOGIN = re.compile(
    r"(^|/)(log-?_?in|sign-?_?in|sso|oauth2?|authorize|consent|saml2?)(\.\w+)?(/|$)", re.IGNORECASE
)
_LOGIN_HOSTS = re.compile(r"^(accounts?|auth|consent|idp?|login|signin|sso)\.", re.IGNORECASE)
_LOCALE = re.compile(r"[a-z]{2}([-_][a-z]{2,4})?", re.IGNORECASE)
_FRONT = re.compile(r"|(index|default|home)(\.\w+)?", re.IGNORECASE)


def judge(url: str, trail: Trail, checked: datetime) -> Answer:
    """The verdict on an address, given its trail of redirects."""
    end = trail.end
    if isinstance(end, Fault):
        return Answer(url, _OF_FAULTS.get(end.kind, "unreachable"), checked, reason=end.reason)
    status = end.status
    verdict: Verdict = "unreachable"
    reason = f"returns status {status}"
    if status in _GATES:
        verdict, reason = "gated", f"returns status {status}: {_GATES[status]}"
    elif status in (404, 410):
        verdict = "dead"
    elif status == 429:
        verdict = "throttled"
    elif 400 <= status < 500:
        verdict, reason = "gated", f"returns status {status} to automated requests"
    elif 200 <= status < 400:
        return _judge_living(Answer(url, "live", checked, status), url, trail)
    if trail.hops:
        reason = f"redirects to '{trail.last_url}', which {reason}"
    return Answer(url, verdict, checked, status, reason=reason)


def _judge_living(base: Answer, url: str, trail: Trail) -> Answer:
    """The verdict on an address that leads to a page, possibly a different one."""
    if trail.hops and _leads_to_login(url, trail.last_url):
        login = urldefrag(trail.last_url).url.partition("?")[0]
        reason = f"redirects to a login, '{login}'"
        return replace(base, verdict="gated", reason=reason)
    target = _find_new_address(url, trail)
    answer = _judge_anchor(base, url, trail)
    if not target:
        return answer
    if _leads_to_front(url, target):
        reason = f"redirects to the front page '{target}', so the page is gone"
        return replace(base, verdict="dead", reason=reason)
    return replace(answer, verdict="moved", target=target)


def _find_new_address(url: str, trail: Trail) -> str:
    """The permanent new address; empty if the old one remains valid."""
    target = ""
    for hop in takewhile(lambda hop: hop.is_permanent, trail.hops):
        target = hop.target
    old, new = urlsplit(url), urlsplit(target)
    if not target or old.hostname in _PERMALINK_HOSTS or _is_signed(target):
        return ""
    if old.scheme == "https" and new.scheme == "http":
        return ""
    before, after = old.path.split("/"), new.path.split("/")
    if any(name in _ALIASES and name not in after for name in before):
        return ""
    if old.hostname == new.hostname and _is_localised(before, after):
        return ""
    if old.path.endswith(".git") and not new.path.endswith(".git"):
        target = urlunsplit(new._replace(path=f"{new.path.rstrip('/')}.git"))
    if not urlsplit(target).fragment and old.fragment:
        target = f"{target.rstrip('#')}#{old.fragment}"
    return "" if target == url else target


def _judge_anchor(base: Answer, url: str, trail: Trail) -> Answer:
    anchor = cut_fragment(urlsplit(url).fragment)
    end, page = trail.end, trail.page
    if not anchor or (isinstance(end, Reply) and not end.is_page):
        return base
    if page is not None and has_anchor(page, anchor):
        return replace(base, anchor="found")
    if page is None or page.is_by_script or not (isinstance(end, Reply) and end.is_whole):
        return replace(base, anchor="unknown")
    return replace(base, anchor="missing", nearest=find_nearest_anchor(page, anchor))


def _is_signed(url: str) -> bool:
    """Whether an address is signed for one reader and expires."""
    names = [name.lower() for name, _ in parse_qsl(urlsplit(url).query, keep_blank_values=True)]
    return any(name in _SIGNS or name.startswith("x-amz-") for name in names)


def _is_localised(before: list[str], after: list[str]) -> bool:
    """Whether only a language in the path changes, which depends on the reader."""
    if len(after) != len(before) + 1:
        return False
    place = next((n for n, name in enumerate(after) if before[n : n + 1] != [name]), 0)
    return (
        _LOCALE.fullmatch(after[place]) is not None and after[:place] + after[place + 1 :] == before
    )


def _leads_to_login(url: str, target: str) -> bool:
    old, new = urlsplit(url), urlsplit(target)
    if _LOGIN.search(old.path) or _LOGIN_HOSTS.match(old.hostname or ""):
        return False
    return bool(_LOGIN.search(new.path) or _LOGIN_HOSTS.match(new.hostname or ""))


def _leads_to_front(url: str, target: str) -> bool:
    """Whether a page was replaced by a front page: of its own host, or of another host if the page
    was too deep in its site to be a front page."""
    old, new = urlsplit(url), urlsplit(target)
    names = [name for name in old.path.split("/") if name]
    if not _FRONT.fullmatch(new.path.strip("/")) or new.query or not names:
        return False
    if _FRONT.fullmatch(names[-1]) or _LOCALE.fullmatch(names[-1]):
        return False
    hosts = [(parts.hostname or "").removeprefix("www.") for parts in (old, new)]
    return hosts[0] == hosts[1] or len(names) > 1
