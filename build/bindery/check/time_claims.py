"""Claims that time makes false: those that only say "now", and those whose date is long past.

A sentence that says "as of this writing" is as true as the day on which it was written, which no
reader knows. One that says "as of June 2024" can be judged, and grows old.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import date, timedelta
from functools import cache

from msgspec import Struct

from bindery.markdown.prose import to_lower

_MONTHS = "Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec".split()
_MONTH = rf"(?:{'|'.join(_MONTHS)})[a-z]*\.?"
_YEAR = r"20[0-4]\d"

_DATED = re.compile(
    rf"(?<![\d.,$#/-])(?:{_YEAR}-\d\d(?:-\d\d)?|(?:19[89]\d|20[0-3]\d))(?![\d%]|[.,]\d|\s?[KMGT]i?B)"
    rf"|\b{_MONTH}\s+\d{{1,2}}(?:st|nd|rd|th)?\b|\b(?:[QH][1-4]-|\d\d?/){_YEAR}\b"
)
"""Anything that dates a passage for a reader."""
_DIGIT = re.compile(r"\d")
"""In every date, and quick to look for."""

_MADE_KNOWN = "(?:renamed|announced|released|introduced|launched|acquired|bought|published|merged)"
_DONE = (
    rf"(?:{_MADE_KNOWN}|deprecated|added|developed|switched|changed|moved|fixed|improved|replaced"
    r"|started|begun|become|became|dropped)"
)
_TO_BE_DONE = (
    r"(?:released|available|supported|merged|deprecated|removed|launched|added|fixed|implemented"
    r"|announced|replaced|displaced|open[- ]sourced)"
)
_START = r"(?:^|(?<=[.!?:]\s))"
"""Where a sentence begins."""

WORDS_OF_NOW = {
    "writing": r"as\s+of\s+(?:(?:this|the\s+time\s+of(?:\s+this)?)\s+)?writing"
    r"|at\s+(?:the\s+)?(?:time|moment)\s+of\s+(?:this\s+|the\s+)?writing"
    r"(?!\s+(?:the|an?|to|data|files?|checkpoints?)\b)",
    "as of": r"as\s+of\s+(?:today|now|right\s+now|the\s+moment)",
    "nowadays": r"nowadays",
    "these days": r"these\s+days",
    "recent": rf"{_START}recently(?!,?\s+(?:used|opened)\b)"
    r"|until\s+recently|in\s+recent\s+(?:weeks|months|years)"
    r"|(?:(?:has|have|had|was|were|been|just|only)\s+(?:only\s+)?recently\s+(?:been\s+)?"
    rf"|(?<=[,.(]\s)recently\s+){_DONE}"
    rf"|(?P<known>recently\s+{_MADE_KNOWN})",
    " year": r"(?:earlier|later)\s+this\s+year|(?:last|next|this)\s+year(?![-'’\w])",
    " month": r"(?:last|next|this)\s+month(?![-'’\w])",
    "soon": rf"(?:will\s+soon\s+be|soon\s+to\s+be)\s+{_TO_BE_DONE}|coming\s+soon"
    rf"|(?:will|to|should)\s+be\s+{_TO_BE_DONE}\s+soon(?!\s+(?:after|as|enough)\b)",
    "yet": r"(?:is|are)\s+not\s+(?:yet\s+(?:supported|merged|announced|released|implemented)"
    r"|(?:supported|merged|announced|released|implemented)\s+yet)"
    r"|(?:does|do)(?:\s+not|n['’]t)\s+yet\s+(?:support|offer|provide|implement)",
    "just": r"(?:has|have|was|were)\s+(?:been\s+just|just\s+been|just)"
    r"\s+(?:announced|launched|unveiled|open[- ]sourced)",
    "currently": rf"{_START}currently(?!,?\s+(?:our|your|running|open|active|set|selected|loaded"
    r"|logged|used|unused|executing)\b)"
    r"|currently\s+(?:only|requires?|supports?|needs?|lacks?|offers?|provides?|costs?|does\s?n['’]t"
    r"|do\s?n['’]t|does\s+not|do\s+not|has\s+no|have\s+no|there\s+(?:is|are)|limited\s+to"
    r"|the\s+(?:\w+\s+)?(?:best|fastest|largest|cheapest|only|main|prevalent|dominant|leading"
    r"|latest|default|recommended|most\s+\w+)"
    r"|supported|unsupported|recommended|experimental|under\s+development|in\s+(?:beta|preview))"
    r"|(?:is|are)\s+currently\s+(?:not|no|only)",
    "latest": r"latest\s+(?:stable\s+)?(?:version|release)\s+is"
    r"(?!\s+(?:installed|used|loaded|running))",
    "the moment": rf"{_START}at\s+the\s+moment(?!,?\s+(?:of|when|that|our|we|your?)\b)"
    r"|(?:(?<=\bwhich\s)|(?<=\bbut\s)|(?<=\band\s)|(?<=ically\s))at\s+the\s+moment(?=\s+\w)",
    "today": rf"{_START}today,?\s+(?:most|many|almost|nearly|all|no|there|only)",
}
"""Patterns of what says "now", each with a word that every match contains. Like those below, they
are for text in lower case: `re` is slower when it ignores case."""

_MADE_KNOWN_NOW = re.compile(r"\s+(?:(?:an?|the|its|their|as|in|by|to)\b|[\dA-Z])")
"""What follows "recently released" when it is a verb, not an adjective; for text as it is typed."""
_TOLD = re.compile(r"\b(?:if|when|whether|that|which|who)\s+(?:\w+\s+){0,2}$")

_SHELF_WORDS = (
    r"(?:as\s+of|(?:last\s+)?(?:checked|verified|reviewed|updated|up\s+to\s+date|current|correct"
    r"|accurate|valid)(?:\s+(?:as\s+of|on|in|until))?)"
)
_DAY = (
    rf"(?P<y1>{_YEAR})-(?P<m1>\d\d)(?:-(?P<d1>\d\d))?"
    rf"|(?:(?P<d2>\d{{1,2}})\s+)?(?P<m2>{_MONTH.lower()})(?:\s+(?P<d3>\d{{1,2}})(?:st|nd|rd|th)?,?)?"
    rf"[\s-]+(?P<y2>{_YEAR})"
    rf"|(?P<part>q[1-4]|h[12]|early|mid|late|spring|summer|autumn|fall|winter)[\s-]+(?:of\s+)?"
    rf"(?P<y3>{_YEAR})"
    rf"|(?:the\s+(?P<edge>end|beginning|start)\s+of\s+)?(?P<y4>{_YEAR})(?![\d-])"
)
_TO_COME = (
    r"(?:(?:is|are)\s+(?:expected|planned|scheduled|slated|due|supposed|set)\s+"
    r"(?:to\s+\w+\s+(?:\w+\s+){0,2}?|for\s+(?:\w+\s+){0,2}?)?"
    r"|will\s+(?:be\s+(?:\w+ly\s+)?(?:launched|released|available|announced|shipped|supported|out|ga)"
    r"|launch|ship|arrive|emerge|appear|come|start\s+shipping)\s+(?:\w+\s+){0,4}?)"
    r"(?:in|by|on|from|around)?\s*"
)
_CLAIM = re.compile(rf"\b(?:(?P<since>{_SHELF_WORDS}[:,]?\s+(?:the\s+)?)|{_TO_COME})(?:{_DAY})\b")
_PAST = re.compile(r"\b(?:was|were|had|did)\b")
_NOW = re.compile(r"\b(?:is|are|has|have|does|do|can|cannot|costs?|supports?)\b")

_PARTS = {
    "q1": 3, "q2": 6, "q3": 9, "q4": 12, "h1": 6, "h2": 12,
    "early": 4, "mid": 8, "late": 12, "spring": 6, "summer": 9, "autumn": 12, "fall": 12,
    "winter": 12,
}  # fmt: skip
"""The last month of a part of a year."""


class DatedClaim(Struct, frozen=True):
    """The words that tie a sentence to a time, and the last day that they refer to."""

    start: int
    end: int
    words: str
    until: date
    is_promise: bool
    """Whether something is predicted."""


def has_date(prose: str) -> bool:
    """Whether a text says what time it is about."""
    return _DIGIT.search(prose) is not None and _DATED.search(prose) is not None


def find_undated(prose: str) -> Iterator[tuple[int, int, str]]:
    """The words that say "now", with their start and end; none in a text that has a date."""
    lowered = to_lower(prose)
    places = [
        match.span()
        for word in WORDS_OF_NOW
        if word in lowered
        for match in _compile_words(word).finditer(lowered)
        if _is_of_now(match, prose) and not _is_mentioned(*match.span(), prose)
    ]
    if not places or has_date(prose):
        return
    last = -1
    for start, end in sorted(places, key=lambda place: (place[0], -place[1])):
        if start >= last:
            last = end
            yield start, end, " ".join(prose[start:end].split())


@cache
def _compile_words(word: str) -> re.Pattern[str]:
    """Compiled when the word is met: all of them take longer than most chapters need."""
    return re.compile(rf"\b(?:{WORDS_OF_NOW[word]})\b")


def _is_mentioned(start: int, end: int, prose: str) -> bool:
    """Whether the words are in quotation marks: the text speaks of them."""
    before, behind = prose[max(start - 1, 0) : start], prose[end : end + 1]
    return bool(before) and before in "\"'“‘«„" and bool(behind) and behind in "\"'”’»“,."


def _is_of_now(match: re.Match[str], prose: str) -> bool:
    """Whether the words speak of the day of writing, unlike "if it was recently changed"."""
    words, before = match[0], match.string[max(match.start() - 80, 0) : match.start()]
    if match.groupdict().get("known") and not _MADE_KNOWN_NOW.match(prose, match.end()):
        return False
    may_be_of_any_time = "recently" in words or "yet" in words or "just" in words
    return not (may_be_of_any_time and _TOLD.search(before))


def find_dated(prose: str) -> Iterator[DatedClaim]:
    """The claims of a text that say since when they hold, and the promises that say until when."""
    lowered = to_lower(prose)
    for match in _CLAIM.finditer(lowered):
        start, end = match.span()
        until = _read_day(match)
        if until is None or _is_mentioned(start, end, prose):
            continue
        if match["since"]:
            rest = re.split(r"[.!?](?:\s|$)|\n", lowered[end : end + 300], maxsplit=1)[0]
            if _PAST.search(rest) and not _NOW.search(rest):
                continue  # history
        yield DatedClaim(start, end, " ".join(prose[start:end].split()), until, not match["since"])


def _read_day(match: re.Match[str]) -> date | None:
    """The last day of the time that is named; None if there is no such day."""
    year = int(match["y1"] or match["y2"] or match["y3"] or match["y4"])
    if match["m1"]:
        month = int(match["m1"])
    elif match["m2"]:
        month = _MONTHS.index(match["m2"][:3].title()) + 1
    else:
        is_start = match["edge"] in ("beginning", "start")
        month = _PARTS.get(match["part"] or "", 1 if is_start else 12)
    if not 1 <= month <= 12:
        return None
    day = match["d1"] or match["d2"] or match["d3"]
    if not day:
        return date(year + month // 12, month % 12 + 1, 1) - timedelta(days=1)
    try:
        return date(year, month, int(day))
    except ValueError:
        return None
