"""Rules whose findings come from earlier stages: loading, reading evidence, comparing tables."""

from __future__ import annotations

from bindery.check.rules.rule import Rule
from bindery.core.model import Severity

RULES = (
    Rule("bad-data", Severity.ERROR, "a data file breaks its schema"),
    Rule("bad-record", Severity.ERROR, "a record breaks its schema"),
    Rule("bad-view", Severity.ERROR, "a view cannot be evaluated"),
    Rule("edited-output", Severity.ERROR, "a generated table was edited by hand"),
    Rule("edited-record", Severity.ERROR, "a record was edited by hand"),
    Rule("missing-chapter", Severity.ERROR, "a listed chapter does not exist"),
    Rule("not-utf8", Severity.ERROR, "a chapter is not UTF-8"),
    Rule("old-method", Severity.WARNING, "a quoted record was made by an older method"),
    Rule("old-record", Severity.WARNING, "a quoted record is past its shelf life"),
    Rule("stale-output", Severity.ERROR, "a generated table does not match its view"),
    Rule("swallowed-tag", Severity.ERROR, "text disappears because it looks like an HTML tag"),
    Rule("unclosed-region", Severity.ERROR, "a generated region lacks its start or end marker"),
    Rule(
        "undrawn-diagram",
        Severity.WARNING,
        "a diagram is not drawn",
        "A block of code in the language `mermaid` has no drawing in `figures/`, beside the "
        "chapters, so the outputs show its source. `bindery fill` draws it with `mmdc`.",
    ),
    Rule("unknown-excerpt", Severity.ERROR, "an excerpt names a file or lines that are not there"),
    Rule("unknown-record", Severity.ERROR, "a view or chapter names a missing record"),
    Rule("unknown-view", Severity.ERROR, "a chapter quotes a view that does not exist"),
    Rule("unsourced-number", Severity.ERROR, "a number in a generated table has no source"),
)
