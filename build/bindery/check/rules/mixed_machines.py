"""mixed-machines: a view would mix records of different machines.

A new record from other hardware must not change a table. A view over records therefore selects a
machine in its WHERE clause, shows the hardware in a column, or names its records.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from bindery.check.rules.rule import Rule, Scope
from bindery.core.model import Finding, Severity, Span
from bindery.evidence.evidence import Evidence
from bindery.evidence.views import blank_quoted

RULE = Rule("mixed-machines", Severity.ERROR, "a view can mix records of different machines")

_MACHINES = r"(?:machine|hardware|cpu|accelerator)\b"
_RECORDS = re.compile(
    r"\b(?:FROM|JOIN)\s+records\s+(?:AS\s+)?(?!(?:ON|USING|WHERE|ORDER|GROUP|JOIN|LEFT|INNER|CROSS)\b)"
    r"(\w+)",
    re.IGNORECASE,
)
"""A table of records under a name of its own."""
_NAMES_RECORDS = re.compile(r"\brecord\s*(?:=|IN\b|LIKE\b)\s*\(?\s*'", re.IGNORECASE)


def check(scope: Scope) -> tuple[Finding, ...]:
    return scope.facts.derive(RULE.id, tuple[Finding, ...], lambda: tuple(_check(scope.evidence)))


def _check(evidence: Evidence) -> Iterator[Finding]:
    for view_name, provenance in sorted(evidence.provenance.items()):
        view = evidence.views[view_name]
        query = blank_quoted(view.sql, "comment")
        untold = _find_untold(query)
        if not untold:
            continue
        records = [evidence.records[one] for one in provenance.records if one in evidence.records]
        # A table of words alone has no number that leads to a record.
        words = set(re.findall(r"\w+", blank_quoted(query, "text")))
        records += [one for one in evidence.records.values() if one.tool in words]
        if not records:
            continue
        name, label = untold[0], records[0].machine.label
        span = Span(view.path, view.find_line("WHERE"))
        message = "this table would mix in records of another machine"
        hint = (
            f"add `AND {name}.machine = '{label}'` to the WHERE clause, where {name} is `records`,"
            f" or show the machine: `{name}.hardware AS hardware` and"
            " `-- column hardware: Hardware`"
        )
        yield RULE.find(span, message, hint)


def _find_untold(query: str) -> list[str]:
    """The names under which a query joins records and tells neither their machine nor which ones
    they are."""
    names = _RECORDS.findall(query)
    if names:
        told = [re.search(rf"\b{name}\.{_MACHINES}", query, re.IGNORECASE) for name in names]
    else:
        names, told = ["r"], [re.search(rf"\b{_MACHINES}", query, re.IGNORECASE)]
    untold = [name for name, match in zip(names, told, strict=True) if match is None]
    return untold[len(_NAMES_RECORDS.findall(query)) :]
