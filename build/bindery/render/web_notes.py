"""What the outputs say about links to the web: when an address was asked, and what it answered.

Sends no requests: it shows what `bindery links --external` has remembered.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import date

from msgspec import Struct, field

from bindery.check.inspect import Inspection
from bindery.check.quoted_numbers import is_address
from bindery.core.wording import Wording
from bindery.web.addresses import Address, gather_addresses
from bindery.web.answers import Answer, Verdict
from bindery.web.memory import read_memory

_MOST_DAYS = 7
"""Maximum number of days that are listed individually."""
_COUNTED: Mapping[Verdict, str] = {
    "live": "{n} answered",
    "moved": "{n} moved",
    "dead": "{n} gone",
    "gated": "{n} refused automated requests",
    "throttled": "{n} asked us to slow down",
    "unreachable": "{n} did not answer",
}


class WebNotes(Struct, frozen=True):
    """What is known about the addresses of a book, in the order of the book."""

    count: int
    """All addresses, including those never requested."""
    answers: Sequence[tuple[Address, Answer]]
    words: Wording = field(default_factory=Wording)

    def list_answers(self, verdict: Verdict) -> Sequence[tuple[Address, Answer]]:
        return [entry for entry in self.answers if entry[1].verdict == verdict]

    def tell_days(self) -> str:
        """The days of the requests."""
        days = Counter(find_day(answer) for _, answer in self.answers)
        if len(days) == 1:
            return self.words("on {day}", day=next(iter(days)))
        if len(days) <= _MOST_DAYS:
            listed = ", ".join(f"{day} ({count})" for day, count in sorted(days.items()))
            return self.words("on {day}", day=listed)
        said = "on {n} days from {first} to {last}"
        return self.words(said, n=len(days), first=min(days), last=max(days))

    def tell_verdicts(self) -> str:
        """How many answered, have moved and so on."""
        counts = Counter(answer.verdict for _, answer in self.answers)
        return ", ".join(
            self.words(told, n=counts[verdict])
            for verdict, told in _COUNTED.items()
            if counts[verdict]
        )


def find_web_notes(inspection: Inspection) -> WebNotes:
    """What is known about the addresses of a book.

    Raises ConfigError if a line of the link memory cannot be read.
    """
    answers = read_memory(inspection.tree, inspection.config)
    if not answers:
        return WebNotes(0, ())
    addresses = gather_addresses(inspection).addresses
    known = [(entry, answers[entry.url]) for entry in addresses if entry.url in answers]
    return WebNotes(len(addresses), known, inspection.config.wording)


def write_titles(inspection: Inspection) -> Mapping[str, str]:
    """The titles of links to the web without a title by their author, by address.

    Raises ConfigError if a line of the link memory cannot be read.
    """
    answers = read_memory(inspection.tree, inspection.config)
    return {url: tell_answer(answer, inspection.config.wording) for url, answer in answers.items()}


def tell_answer(answer: Answer, words: Wording) -> str:
    """An answer in a few words, with its day."""
    day = find_day(answer)
    match answer.verdict:
        case "live":
            lost = words("the page had no such anchor") if answer.anchor == "missing" else ""
            return "; ".join(filter(None, (words("answered on {day}", day=day), lost)))
        case "moved":
            return words("moved to {address}, as of {day}", address=answer.target, day=day)
        case "dead":
            said = words("gone, as of {day}", day=day)
            if is_address(answer.archived):
                said += "; " + words("archived copy: {address}", address=answer.archived)
            return said
        case "gated":
            return words("refused an automated request on {day}", day=day)
        case "throttled" | "unreachable":
            return words("did not answer on {day}", day=day)


def find_day(answer: Answer) -> date:
    """The day on which an address was asked, in UTC."""
    return answer.checked.date()
