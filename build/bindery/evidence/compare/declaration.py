"""Terms of comparison: a tool's constant COMPARE, which says which of its results are alike."""

from __future__ import annotations

import ast
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from bindery.evidence.records import Scalar, describe_error
from bindery.tools.tool_source import read_constants


class TermsError(ValueError):
    """The constant COMPARE of a tool cannot be used. `line` is that of its source."""

    def __init__(self, reason: str, line: int) -> None:
        super().__init__(reason)
        self.line = line


class Terms(BaseModel):
    """Which results of a tool can be compared, and by which column."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    tool: str
    keys: tuple[str, ...] = Field(min_length=1)
    """Columns that are equal in rows that are alike."""
    value: str
    """The column that is compared."""
    better: Literal["higher", "lower"]
    spread: str = ""
    """The column with the relative spread of the value, if there is one."""
    member: str = ""
    """The column that differs between rows with equal keys, such as the device."""
    trusted: dict[str, tuple[Scalar, ...]] = {}
    """Values that a row must have to be compared at all, by column."""
    alike: tuple[str, ...] = ()
    """What else must be equal: places in a tool's JSON, such as `details.settings.dtype`."""
    has_ranks: bool = False
    """Whether the tool is started with several ranks, so that one rank cannot be assumed."""

    @property
    def higher_is_better(self) -> bool:
        return self.better == "higher"


def read_terms(tool: str, source: str) -> Terms | None:
    """The terms of a tool from its source, which is not run; None if it declares none.

    Raises TermsError if COMPARE cannot be used.
    """
    try:
        constants = read_constants(source)
    except SyntaxError as error:
        raise TermsError(f"this is not Python: {error.msg}", error.lineno or 1) from None
    node = constants.get("COMPARE")
    if node is None:
        return None
    try:
        literal = ast.literal_eval(node)
        return Terms.model_validate({**literal, "tool": tool, "has_ranks": "RANKS" in constants})
    except ValidationError as error:
        raise TermsError(f"COMPARE has a wrong {describe_error(error)}", node.lineno) from None
    except (ValueError, TypeError):
        reason = "COMPARE has to be a plain dictionary, which can be read without running the tool"
        raise TermsError(reason, node.lineno) from None
