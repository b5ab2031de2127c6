"""unused-record: no view that a chapter quotes shows a result of a record.

A record may stay as history if a later complete run of the same kind has replaced it. Demo records
need not be quoted: they only show that a tool runs. A view that reads only the table `records`
(machine, date and so on) shows no results.
"""

from __future__ import annotations

from collections.abc import Iterator

from bindery.check.rules.rule import Rule, Scope
from bindery.core.model import Finding, Severity, Span
from bindery.core.repository import RECORDS_FOLDER

RULE = Rule("unused-record", Severity.WARNING, "no table quotes a record")

_UNREAD = frozenset(("missing-chapter", "not-utf8", "outside-book"))


def check(scope: Scope) -> tuple[Finding, ...]:
    if any(finding.rule in _UNREAD for finding in scope.found):
        return ()  # quotations in a chapter that cannot be read are unknown
    return scope.facts.derive(RULE.id, tuple[Finding, ...], lambda: tuple(_check(scope)))


def _check(scope: Scope) -> Iterator[Finding]:
    evidence = scope.evidence
    cells = (cell for table in evidence.provenance.values() for cell in table.numbers)
    quoted = {name for cell in cells for name in cell.results}
    views = {view for entry in scope.quotations.values() for view in entry.views}
    if views & (set(evidence.views) | evidence.broken) - set(evidence.provenance):
        return  # so are the records behind a broken view
    demos = {name for name, record in evidence.records.items() if record.is_demo}
    for name in sorted(evidence.newest - quoted - demos):
        record = evidence.records[name]
        reading = [
            view
            for view, provenance in sorted(evidence.provenance.items())
            if any(one.partition("/")[0] == record.tool for one in provenance.records)
        ]
        span = Span.whole(f"{RECORDS_FOLDER}/{name}.json")
        message = f"no table quotes the record '{name}' of {record.machine.hardware}"
        could = f" ({', '.join(reading)} could)" if reading else ""
        yield RULE.find(span, message, f"quote it in a view{could}, or delete the file")
