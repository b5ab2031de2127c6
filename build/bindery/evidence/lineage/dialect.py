"""Parse and write SQL in SQLite's dialect with sqlglot."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar

from bindery.evidence.lineage.model import UntraceableError

if TYPE_CHECKING:
    # Import sqlglot only to trace a query: it takes longer than checking a whole book.
    from sqlglot.dialects.dialect import Dialect
    from sqlglot.expressions import Expr
    from sqlglot.generator import Generator


@cache
def _load_dialect() -> Dialect:
    """SQLite's dialect, but functions keep their names as typed."""
    from sqlglot import exp
    from sqlglot.dialects.sqlite import SQLite
    from sqlglot.generators.sqlite import SQLiteGenerator
    from sqlglot.parsers.sqlite import SQLiteParser

    class PlainParser(SQLiteParser):
        FUNCTIONS: ClassVar[dict[str, Callable[..., Any]]] = {}
        FUNCTION_PARSERS: ClassVar[dict[str, Callable[..., Any]]] = {
            "CAST": SQLiteParser.FUNCTION_PARSERS["CAST"]
        }
        NO_PAREN_FUNCTION_PARSERS: ClassVar[dict[str, Callable[..., Any]]] = {
            "CASE": SQLiteParser.NO_PAREN_FUNCTION_PARSERS["CASE"]
        }

    class PlainGenerator(SQLiteGenerator):
        TYPE_MAPPING: ClassVar[dict[exp.DType, str]] = {
            **SQLiteGenerator.TYPE_MAPPING,
            exp.DType.DECIMAL: "NUMERIC",
        }

    class PlainSQLite(SQLite):
        Parser = PlainParser
        Generator = PlainGenerator

    return PlainSQLite()


@cache
def _load_generator(functions: str | bool) -> Generator:
    from sqlglot import ErrorLevel

    return _load_dialect().generator(
        comments=False, normalize_functions=functions, unsupported_level=ErrorLevel.RAISE
    )


def write(node: Expr) -> str:
    """The SQL of a node."""
    # Without a copy: what the generator changes in a node, SQLite does not accept anyway.
    return _load_generator(False).generate(node, copy=False)


def write_lower(node: Expr) -> str:
    """The SQL of a node with functions in lower case."""
    return _load_generator("lower").generate(node, copy=False)


def read_select(sql: str) -> Expr:
    """The tree of a view that SQLite accepts. Raises UntraceableError if sqlglot does not."""
    from sqlglot.errors import ParseError

    try:
        (tree,) = filter(None, _load_dialect().parse(sql))
    except ParseError as error:
        detail = error.errors[0] if error.errors else {}
        near = f" near '{detail['highlight']}'" if detail.get("highlight") else ""
        raise UntraceableError(
            f"the query cannot be parsed{near}", int(detail.get("line") or 1)
        ) from None
    return tree


def quote_name(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def quote_text(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def join_terms(terms: Sequence[str]) -> str:
    """All origins of several terms."""
    if not terms:
        return "NULL"
    if len(terms) == 1:
        return terms[0]
    return "(" + " || ".join(f"coalesce({term} || ' ', '')" for term in terms) + ")"


def gather(term: str) -> str:
    """The origins of all rows of a group."""
    # SQLite does not support DISTINCT with a separator, and items contain no commas.
    return f"replace(group_concat(DISTINCT {term}), ',', ' ')"


def make_raw(sql: str) -> Expr:
    """A node written verbatim."""
    from sqlglot import exp

    return exp.Var(this=sql)


def make_alias(name: str) -> Expr:
    """The name of a source."""
    from sqlglot import exp

    return exp.TableAlias(this=exp.Identifier(this=name, quoted=True))


def make_column(name: str, table: str, line: int) -> Expr:
    """A column on that line; without a table if `table` is empty."""
    from sqlglot import exp

    parts = {"table": table, "this": name} if table else {"this": name}
    column = exp.Column(**{k: exp.Identifier(this=v, quoted=True) for k, v in parts.items()})
    column.meta["line"] = line
    return column


# --- nodes of a tree ---


def fail(message: str, node: Expr) -> UntraceableError:
    """An error about a node, to be raised."""
    return UntraceableError(message, find_line(node))


def find_line(node: Expr) -> int:
    """The line of a node, or of its nearest parent that has one."""
    place: Expr | None = node
    while place is not None:
        for part in place.walk():
            if "line" in part.meta:
                return int(part.meta["line"])
        place = place.parent
    return 1


def is_query(node: Expr) -> bool:
    return node.key in ("select", "union", "except", "intersect", "values")


def is_whole(node: Expr) -> bool:
    """Whether a node is an integer, which means a column in ORDER BY."""
    return node.key == "literal" and node.name.isdigit() and not node.args.get("is_string")


def list_terms(query: Expr, clause: str) -> list[Expr]:
    """The terms of ORDER BY or GROUP BY."""
    found = query.args.get(clause)
    return list(found.expressions) if found else []
