"""SQL that gives the origins of cells."""

from __future__ import annotations

from collections.abc import Sequence

from bindery.evidence.lineage.dialect import quote_name, quote_text
from bindery.evidence.lineage.scopes import Source


def write_cell(source: Source, name: str) -> str:
    """The origin of a cell of a base table; an empty cell has none."""
    alias = quote_name(source.alias)
    item = f"{quote_text(source.table + ':')} || {alias}.{source.row} || {quote_text(':' + name)}"
    return f"CASE WHEN {alias}.{quote_name(name)} IS NOT NULL THEN {item} END"


def write_sister(source: Source, sister: str) -> str:
    return f"{quote_name(source.alias)}.{quote_name(sister)}"


def list_rows(sources: Sequence[Source]) -> list[str]:
    """The origins of a count: the rows of all sources."""
    terms = []
    for source in sources:
        if source.table:
            row = f"{quote_name(source.alias)}.{source.row}"
            terms.append(f"{quote_text(source.table + ':')} || {row} || ':*'")
        else:
            sisters = (output.sister for output in source.outputs.values() if output.sister)
            terms += [write_sister(source, sister) for sister in sisters]
    return terms


def join_terms(terms: Sequence[str]) -> str:
    """All origins that some terms give."""
    if not terms:
        return "NULL"
    if len(terms) == 1:
        return terms[0]
    return "(" + " || ".join(f"coalesce({term} || ' ', '')" for term in terms) + ")"


def gather(term: str) -> str:
    """The origins of all rows of a group."""
    # SQLite takes no separator beside DISTINCT, and no item has a comma.
    return f"replace(group_concat(DISTINCT {term}), ',', ' ')"
