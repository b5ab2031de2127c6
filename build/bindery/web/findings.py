"""Report web answers as findings at the positions of the addresses."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

from msgspec.structs import replace

from bindery.check.inspect import Inspection
from bindery.check.rules.rule import Rule
from bindery.check.rules.unused_excuse import apply_excuses
from bindery.core.model import Finding, Severity
from bindery.core.report import count_noun, sort_findings
from bindery.core.repository import MARKDOWN
from bindery.web.addresses import Address
from bindery.web.answers import VERDICTS, Answer

DEAD = Rule("web-dead", Severity.ERROR, "an address on the web is dead")
MOVED = Rule("web-moved", Severity.WARNING, "an address on the web has moved permanently")
ANCHOR = Rule("web-anchor", Severity.WARNING, "a page on the web lacks the anchor")
WEB_RULES: Mapping[str, Rule] = {rule.id: rule for rule in (DEAD, MOVED, ANCHOR)}


def find_faults(
    inspection: Inspection, addresses: Iterable[Address], answers: Mapping[str, Answer]
) -> list[Finding]:
    """The findings about some addresses, in reading order, with the severities and excuses of the
    book."""
    found = sort_findings(
        finding
        for address in addresses
        if address.url in answers
        for finding in _report(address, answers[address.url])
    )
    severities = inspection.config.severities
    weighed = (
        replace(finding, severity=severities.get(finding.rule, finding.severity))
        for finding in apply_excuses(found, inspection.book.chapters, WEB_RULES)
        # Skip findings about excuses: most runs do not request every address.
        if finding.rule in WEB_RULES
    )
    return [finding for finding in weighed if finding.severity is not Severity.OFF]


def _report(address: Address, answer: Answer) -> Iterator[Finding]:
    url = address.url
    for span in address.places:
        if answer.verdict == "dead":
            yield DEAD.find(span, f"'{url}' is dead: {answer.reason}", _help_dead(answer))
        if answer.verdict == "moved":
            hint = "`bindery links --external --fix` writes the new address"
            if answer.anchor == "missing":
                hint = "change it by hand: the new page lacks the anchor"
            elif not span.path.endswith(MARKDOWN):
                hint = "change it by hand: check that the new page still has the number"
            yield MOVED.find(span, f"'{url}' has moved to '{answer.target}'", hint)
        if answer.anchor == "missing":
            anchor = url.partition("#")[2]
            hint = "open the page and find where the section has moved"
            if answer.nearest:
                hint = f"did you mean '#{answer.nearest}'?"
            yield ANCHOR.find(span, f"the page has no anchor '#{anchor}'", hint)


def _help_dead(answer: Answer) -> str:
    if answer.archived:
        return f"there is an archived copy: {answer.archived}"
    url = answer.url
    if url.endswith(")") and url.count(")") > url.count("("):
        return f"did you mean '{url[:-1]}'? the closing bracket is part of the address"
    return "correct or remove it; --archive looks for a copy in the Wayback Machine"


def summarise(
    answers: Iterable[Answer],
    *,
    asked: int,
    hosts: int,
    known: int,
    left_out: Mapping[str, str],
    not_asked: int,
) -> str:
    """The last line of a report: requests, verdicts, and what was skipped and why."""
    kept = list(answers)
    counts = Counter(answer.verdict for answer in kept)
    parts = [f"{counts[verdict]} {verdict}" for verdict in VERDICTS if counts[verdict]]
    missing = sum(answer.anchor == "missing" for answer in kept)
    unknown = sum(answer.anchor == "unknown" for answer in kept)
    parts += [f"{count_noun(missing, 'anchor')} missing"] * bool(missing)
    parts += [f"{count_noun(unknown, 'anchor')} that cannot be judged"] * bool(unknown)
    line = f"checked {count_noun(asked, 'link')} on {count_noun(hosts, 'host')}"
    line += f", {known} known from earlier runs" if known else ""
    line += f": {', '.join(parts) or 'no verdicts'}"
    notes = [f"{not_asked} not checked yet"] * bool(not_asked)
    if left_out:
        reasons = Counter(left_out.values())
        told = [count_noun(count, reason) for reason, count in sorted(reasons.items())]
        notes.append(f"skipped: {', '.join(told)}")
    return "; ".join([line, *notes])
