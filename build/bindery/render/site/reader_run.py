"""The data of a tool's page for its script, which compares a reader's run with the records."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from bindery.check.inspect import Inspection

if TYPE_CHECKING:
    from bindery.evidence.compare.declaration import Terms
    from bindery.evidence.compare.judge import Reference
    from bindery.evidence.records import Record


def find_references(
    inspection: Inspection, records: Mapping[str, Record], terms: Terms | None
) -> list[Reference]:
    """The records to compare with, the newest first."""
    if terms is None or not records:
        return []
    from bindery.evidence.compare.judge import make_references

    stale = {name: entry.reason for name, entry in inspection.evidence.stale.items()}
    references = make_references(records, terms, stale)
    return sorted(references, key=lambda r: (r.started, r.name), reverse=True)


def share_references(
    terms: Terms, references: Sequence[Reference], units: Mapping[str, str]
) -> dict[str, object]:
    """Terms and records as the page's script reads them."""
    from bindery.evidence.compare.judge import FAR, TOLERANCE, describe_power_limit

    return {
        "tool": terms.tool,
        "keys": list(terms.keys),
        "value": terms.value,
        "unit": units.get(terms.value, "1"),
        "higherIsBetter": terms.higher_is_better,
        "member": terms.member,
        "trusted": {column: list(values) for column, values in terms.trusted.items()},
        "alike": list(terms.alike),
        "hasRanks": terms.has_ranks,
        "tolerance": TOLERANCE,
        "far": FAR,
        "records": [
            {
                "name": reference.name,
                "started": reference.started,
                "method": reference.record.method,
                "hardware": reference.record.machine.hardware,
                "powerLimit": describe_power_limit(reference.record.machine),
                "nodes": reference.record.nodes,
                "ranks": reference.record.ranks,
                "settings": dict(reference.settings),
                "rows": [
                    [[value for _, value in key], recorded.value, recorded.spread]
                    for key, recorded in reference.rows.items()
                ],
                "untrusted": [
                    [[value for _, value in key], reason]
                    for key, reason in reference.untrusted.items()
                ],
            }
            for reference in references
        ],
    }
