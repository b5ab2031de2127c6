"""Terms of comparison: a tool's constant COMPARE, which declares its comparable results."""

from __future__ import annotations

import ast
from typing import Annotated, Literal

import msgspec
from msgspec import Meta, Struct

from bindery.evidence.records import Scalar, describe_error
from bindery.tools.tool_source import read_constants


class TermsError(ValueError):
    """A tool's COMPARE is invalid; `line` is its line in the source."""

    def __init__(self, reason: str, line: int) -> None:
        super().__init__(reason)
        self.line = line


class Terms(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Which results of a tool are comparable, and by which column."""

    tool: str
    keys: Annotated[tuple[str, ...], Meta(min_length=1)]
    """Columns that must be equal in comparable rows."""
    value: str
    """The column to compare."""
    better: Literal["higher", "lower"]
    spread: str = ""
    """The column with the value's relative spread, if any."""
    member: str = ""
    """The column that distinguishes rows with equal keys, such as the device."""
    trusted: dict[str, tuple[Scalar, ...]] = {}
    """Values that a comparable row must have, by column."""
    alike: tuple[str, ...] = ()
    """What else must be equal: paths in the tool's JSON, such as `details.settings.dtype`."""
    has_ranks: bool = False
    """Whether the tool runs with several ranks, so that one rank cannot be assumed."""

    @property
    def higher_is_better(self) -> bool:
        return self.better == "higher"


def read_terms(tool: str, source: str) -> Terms | None:
    """Read a tool's terms from its source, without running it; None if it declares none.

    Raises TermsError if COMPARE is invalid.
    """
    try:
        constants = read_constants(source)
    except SyntaxError as error:
        raise TermsError(f"this is not valid Python: {error.msg}", error.lineno or 1) from None
    node = constants.get("COMPARE")
    if node is None:
        return None
    try:
        literal = ast.literal_eval(node)
        return msgspec.convert({**literal, "tool": tool, "has_ranks": "RANKS" in constants}, Terms)
    except msgspec.ValidationError as error:
        raise TermsError(f"COMPARE has an invalid {describe_error(error)}", node.lineno) from None
    except (ValueError, TypeError):
        reason = "COMPARE must be a literal dictionary, readable without running the tool"
        raise TermsError(reason, node.lineno) from None
