"""Terms of comparison: what a tool says about its results with its constant COMPARE, so that like
is compared with like."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from bindery.core.config import ToolEntry
from bindery.core.model import ConfigError, Finding, Span
from bindery.core.repository import Tree
from bindery.core.suggestions import find_nearest
from bindery.tools.tool_source import read_constants

if TYPE_CHECKING:
    from bindery.evidence.records import Scalar


class TermsError(ValueError):
    """The constant COMPARE of a tool cannot be used. `line` is that of its source."""

    def __init__(self, reason: str, line: int = 1) -> None:
        super().__init__(reason)
        self.line = line


@dataclass(frozen=True, slots=True)
class Terms:
    """Which results of a tool can be compared, and by which column."""

    tool: str
    keys: tuple[str, ...]
    """Columns that are equal in rows that are alike."""
    value: str
    """The column that is the answer."""
    higher_is_better: bool
    spread: str = ""
    """The column of the relative spread of the answer, if there is one."""
    member: str = ""
    """The column that tells rows with equal keys apart, such as the device."""
    trusted: Mapping[str, tuple[Scalar, ...]] = field(default_factory=dict)
    """Values that a row has to have to be compared at all, by column."""
    alike: tuple[str, ...] = ()
    """What else has to be equal: places in a tool's JSON, such as `details.settings.dtype`."""
    has_ranks: bool = False
    """Whether the tool is started with several ranks, so that a run of one is not to be assumed."""


def read_terms(tool: str, source: str) -> Terms | None:
    """The terms of a tool from its source, which is not run; None where it declares none.

    Raises TermsError where COMPARE is not what it has to be.
    """
    if "COMPARE" not in source:
        return None
    try:
        constants = read_constants(source)
    except SyntaxError as error:
        raise TermsError(f"this is not Python: {error.msg}", error.lineno or 1) from None
    if "COMPARE" not in constants:
        return None
    node = constants["COMPARE"]
    try:
        terms = parse_terms(tool, ast.literal_eval(node))
    except TermsError as error:
        raise TermsError(str(error), node.lineno) from None
    except (ValueError, TypeError):
        reason = "COMPARE has to be a plain literal, so that it can be read"
        raise TermsError(reason, node.lineno) from None
    return replace(terms, has_ranks="RANKS" in constants)


def parse_terms(tool: str, literal: object) -> Terms:
    """The terms that a literal gives. Raises TermsError with the key and the reason.

    `{"keys": ["dtype", "m"], "value": "flops_per_second", "better": "higher"}` and if wanted
    `"spread": "spread", "member": "device", "trusted": {"verdict": ["ok"]},
    "alike": ["details.settings.threads"]`.
    """
    known = ("keys", "value", "better", "spread", "member", "trusted", "alike")
    if not isinstance(literal, dict):
        raise TermsError("COMPARE has to be a dictionary")
    for key in literal:
        if key not in known:
            nearest = find_nearest(str(key), known)
            advice = f"did you mean '{nearest}'?" if nearest else f"it has: {', '.join(known)}"
            raise TermsError(f"COMPARE has no key '{key}'; {advice}")
    for key in ("keys", "value", "better"):
        if not literal.get(key):
            raise TermsError(f"COMPARE has no '{key}'")
    trusted = literal.get("trusted", {})
    if not isinstance(trusted, dict) or not all(
        isinstance(k, str) and isinstance(v, list) for k, v in trusted.items()
    ):
        raise TermsError("'trusted' of COMPARE has to give a list of values for each column")
    if literal["better"] not in ("higher", "lower"):
        raise TermsError("'better' of COMPARE has to be 'higher' or 'lower'")
    return Terms(
        tool,
        _read_names(literal, "keys"),
        _read_name(literal, "value"),
        literal["better"] == "higher",
        _read_name(literal, "spread"),
        _read_name(literal, "member"),
        {column: tuple(values) for column, values in trusted.items()},
        _read_names(literal, "alike"),
    )


def _read_name(literal: Mapping[str, Any], key: str) -> str:
    value = literal.get(key, "")
    if not isinstance(value, str):
        raise TermsError(f"'{key}' of COMPARE has to be the name of a column")
    return value


def _read_names(literal: Mapping[str, Any], key: str) -> tuple[str, ...]:
    values = literal.get(key, [])
    if not isinstance(values, list) or not all(isinstance(v, str) and v for v in values):
        raise TermsError(f"'{key}' of COMPARE has to be a list of names")
    return tuple(values)


def load_terms(tree: Tree, tools: Iterable[ToolEntry]) -> Mapping[str, Terms]:
    """The terms of each tool that has some. Raises ConfigError where they cannot be used."""
    found = {}
    for tool in tools:
        if tree.find_kind(tool.path) == "file":
            source = tree.read_bytes(tool.path).decode("utf-8", "replace")
            try:
                terms = read_terms(tool.name, source)
            except TermsError as error:
                span = Span(tool.path, error.line)
                raise ConfigError(Finding(span, "config", str(error))) from None
            if terms is not None:
                found[tool.name] = terms
    return found
