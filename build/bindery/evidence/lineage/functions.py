"""What is known of SQLite's functions, by their names."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bindery.evidence.lineage.nodes import is_query

if TYPE_CHECKING:
    from sqlglot.expressions import Expr

_AGGREGATES = frozenset(
    "avg count group_concat json_group_array json_group_object string_agg sum total".split()
)
EXTREMES = frozenset(("min", "max"))
"""With one argument they take rows together, with more they do not."""
COUNTERS = frozenset("row_number rank dense_rank percent_rank cume_dist ntile".split())
"""Windows that give the place of a row."""
TEXT_AGGREGATES = frozenset("group_concat json_group_array json_group_object string_agg".split())
TEXT_FUNCTIONS = frozenset("lower quote upper".split())
"""They can leave values as they are."""


def is_aggregate(function: Expr) -> bool:
    name = function.name.lower()
    return name in _AGGREGATES or (name in EXTREMES and len(strip_arguments(function)) == 1)


def strip_arguments(aggregate: Expr) -> list[Expr]:
    """The arguments of an aggregate without DISTINCT and ORDER BY."""
    arguments: list[Expr] = []
    for argument in aggregate.expressions:
        bare = argument.this if argument.key == "order" else argument
        arguments += bare.expressions if bare.key == "distinct" else [bare]
    return arguments


def has_aggregate(tree: Expr) -> bool:
    """Whether an expression takes rows together, not counting windows and inner queries."""
    if is_query(tree):
        return False
    if tree.key == "window":
        function = tree.this.this if tree.this.key == "filter" else tree.this
        parts = [*function.expressions, *(tree.args.get("partition_by") or ())]
        parts += [part for part in (tree.args.get("order"),) if part]
        return any(map(has_aggregate, parts))
    if tree.key == "anonymous" and is_aggregate(tree):
        return True
    return any(map(has_aggregate, tree.iter_expressions()))
