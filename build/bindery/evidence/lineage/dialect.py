"""Reading and writing SQL: SQLite's dialect, through sqlglot."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar

from bindery.evidence.lineage.model import UntraceableError
from bindery.evidence.lineage.nodes import is_query

if TYPE_CHECKING:
    # Never imported before a query is traced: that takes longer than the check of a whole book.
    from sqlglot.dialects.dialect import Dialect
    from sqlglot.expressions import Expr
    from sqlglot.generator import Generator


@cache
def _load_dialect() -> Dialect:
    """SQLite as sqlglot reads it, but functions keep the names they were given."""
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
    # Uncopied: what writing changes in a node is nothing that SQLite takes.
    return _load_generator(False).generate(node, copy=False)


def write_lower(node: Expr) -> str:
    """The SQL of a node, functions in lower case."""
    return _load_generator("lower").generate(node, copy=False)


def read_select(sql: str) -> Expr:
    """The tree of a view. Raises UntraceableError where it is not one query."""
    from sqlglot.errors import ParseError, TokenError

    try:
        trees = [tree for tree in _load_dialect().parse(sql) if tree]
    except ParseError as error:
        detail = error.errors[0] if error.errors else {}
        near = f" near '{detail['highlight']}'" if detail.get("highlight") else ""
        line = int(detail.get("line") or 1)
        raise UntraceableError(f"the query cannot be read{near}", line) from None
    except TokenError:
        raise UntraceableError("the query cannot be read: a quote is not closed", 1) from None
    if len(trees) != 1 or trees[0].key == "values" or not is_query(trees[0]):
        raise UntraceableError("a view is one SELECT", 1)
    return trees[0]


def quote_name(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def quote_text(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def make_raw(sql: str) -> Expr:
    """A node that is written as it is given."""
    from sqlglot import exp

    return exp.Var(this=sql)


def make_alias(name: str) -> Expr:
    """The name of a source."""
    from sqlglot import exp

    return exp.TableAlias(this=exp.Identifier(this=name, quoted=True))


def make_column(name: str, table: str, line: int) -> Expr:
    """A column as it would stand in that line; `table` is empty where it is not named."""
    from sqlglot import exp

    parts = {"table": table, "this": name} if table else {"this": name}
    column = exp.Column(**{k: exp.Identifier(this=v, quoted=True) for k, v in parts.items()})
    column.meta["line"] = line
    return column


class NewNames:
    """Names for what is added to a query, none of them in these texts."""

    def __init__(self, texts: Iterable[str]) -> None:
        taken = " ".join(texts).lower()
        self._prefix = "__"
        while self._prefix in taken:
            self._prefix += "_"
        self._count = 0

    def make(self, letter: str) -> str:
        self._count += 1
        return f"{self._prefix}{letter}{self._count}"
