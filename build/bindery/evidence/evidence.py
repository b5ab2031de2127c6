"""The evidence of a book: records, published figures, and the tables that views make of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from msgspec import Struct, field

from bindery.core.model import Finding

if TYPE_CHECKING:
    from bindery.evidence.excerpts import Excerpt
    from bindery.evidence.provenance import TableProvenance
    from bindery.evidence.published_data import DataTable
    from bindery.evidence.records import Record
    from bindery.evidence.stale_records import Staleness
    from bindery.evidence.tables import Table
    from bindery.evidence.views import View


class Evidence(Struct, frozen=True):
    """All tables that the book's views return, their sources, and findings about them."""

    tables: Mapping[str, Table] = field(default_factory=dict)
    views: Mapping[str, View] = field(default_factory=dict)
    records: Mapping[str, Record] = field(default_factory=dict)
    data: Mapping[str, DataTable] = field(default_factory=dict)
    provenance: Mapping[str, TableProvenance] = field(default_factory=dict)
    """Provenance of the tables that chapters quote."""
    stale: Mapping[str, Staleness] = field(default_factory=dict)
    methods: Mapping[str, int | None] = field(default_factory=dict)
    """The current METHOD of each tool with records, from its source; None if it cannot be read."""
    newest: frozenset[str] = frozenset()
    """Records not superseded by a later complete one of the same kind (see `stale_records`)."""
    """Calculators: tools whose results are the same on every machine."""
    computed: frozenset[str] = frozenset()
    """The tools whose results are the same on every machine: they compute, and measure nothing."""
    texts: Mapping[str, str] = field(default_factory=dict)
    """Tool output, verbatim, by `<tool>/<text>`."""
    excerpts: Mapping[str, Excerpt] = field(default_factory=dict)
    """The files of the repository that chapters quote, by what the markers say."""
    findings: tuple[Finding, ...] = ()
    broken: frozenset[str] = frozenset()
    """Views that could not be evaluated."""

    def find_stale_records(self, view: str) -> tuple[str, ...]:
        """The stale records quoted in a table."""
        provenance = self.provenance.get(view)
        return tuple(n for n in provenance.records if n in self.stale) if provenance else ()
