"""What the outputs say about links to the web: when an address was asked, and what it answered.

Nothing is asked here. What a run of `bindery links --external` has remembered is printed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date

from bindery.check.inspect import Inspection
from bindery.check.quoted_numbers import is_address
from bindery.web.addresses import Address, gather_addresses
from bindery.web.answers import Answer, Verdict
from bindery.web.memory import read_memory

_MOST_DAYS = 7
"""Days that are named one by one."""
_COUNTED: Mapping[Verdict, tuple[str, str]] = {
    "live": ("answered", "answered"),
    "moved": ("has moved", "have moved"),
    "dead": ("is gone", "are gone"),
    "gated": ("refused automated requests", "refused automated requests"),
    "throttled": ("asked us to slow down", "asked us to slow down"),
    "unreachable": ("did not answer", "did not answer"),
}
"""The words for one address and for several."""


@dataclass(frozen=True, slots=True)
class WebNotes:
    """What is known of the addresses of a book, in the order of the book."""

    count: int
    """All addresses, those that were never asked included."""
    answers: Sequence[tuple[Address, Answer]]

    def list_answers(self, verdict: Verdict) -> Sequence[tuple[Address, Answer]]:
        return [entry for entry in self.answers if entry[1].verdict == verdict]

    def tell_days(self) -> str:
        """The days on which addresses were asked."""
        days = Counter(find_day(answer) for _, answer in self.answers)
        if len(days) == 1:
            return f"on {next(iter(days))}"
        if len(days) <= _MOST_DAYS:
            *others, last = (f"{day} ({count})" for day, count in sorted(days.items()))
            return f"on {', '.join(others)} and {last}"
        return f"on {len(days)} days from {min(days)} to {max(days)}"

    def tell_verdicts(self) -> str:
        """How many answered, have moved and so on."""
        counts = Counter(answer.verdict for _, answer in self.answers)
        return ", ".join(
            f"{counts[verdict]} {words[counts[verdict] > 1]}"
            for verdict, words in _COUNTED.items()
            if counts[verdict]
        )


def find_web_notes(inspection: Inspection) -> WebNotes:
    """What is known of the addresses of a book.

    Raises ConfigError if a line of the link memory cannot be read.
    """
    answers = read_memory(inspection.tree, inspection.config)
    if not answers:
        return WebNotes(0, ())
    addresses = gather_addresses(inspection).addresses
    known = [(entry, answers[entry.url]) for entry in addresses if entry.url in answers]
    return WebNotes(len(addresses), known)


def write_titles(inspection: Inspection) -> Mapping[str, str]:
    """The titles of links to the web without a title by their author, by address.

    Raises ConfigError if a line of the link memory cannot be read.
    """
    answers = read_memory(inspection.tree, inspection.config)
    return {url: tell_answer(answer) for url, answer in answers.items()}


def tell_answer(answer: Answer) -> str:
    """An answer in a few words, with its day."""
    day = find_day(answer)
    match answer.verdict:
        case "live":
            lost = "; the page had no such anchor" if answer.anchor == "missing" else ""
            return f"answered on {day}{lost}"
        case "moved":
            return f"moved to {answer.target}, as of {day}"
        case "dead":
            copy = f"; archived copy: {answer.archived}" if is_address(answer.archived) else ""
            return f"gone, as of {day}{copy}"
        case "gated":
            return f"refused an automated request on {day}"
        case "throttled" | "unreachable":
            return f"did not answer on {day}"


def find_day(answer: Answer) -> date:
    """The day on which an address was asked, in UTC."""
    return answer.checked.date()
