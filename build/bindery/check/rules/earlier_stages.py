"""Rules whose findings come from earlier stages: loading, reading evidence, comparing tables."""

from __future__ import annotations

from bindery.check.rules.rule import Rule
from bindery.core.model import Severity

RULES = (
    Rule(
        "bad-data",
        Severity.ERROR,
        "a data file breaks its schema",
        "Checks the files in `data/`: every row needs a source, a date and a class, cells have "
        "the type of their column, and formulas give the number beside them.",
    ),
    Rule(
        "bad-record",
        Severity.ERROR,
        "a record breaks its schema",
        "Checks the files in `scripts/records/`. Record the run again with `bindery run`; do not "
        "edit the file.",
    ),
    Rule(
        "bad-view",
        Severity.ERROR,
        "a view cannot be evaluated",
        "The query fails, its header does not fit its columns, a unit is not that of the data, "
        "the rows have no fixed order, or a quoted view has no rows. `bindery fill` leaves tables "
        "of such a view as they are.",
    ),
    Rule(
        "edited-output",
        Severity.ERROR,
        "a generated table was edited by hand",
        "The text between the two comments is not what `bindery fill` wrote. Undo the edit, and "
        "change the data, the record or the view instead. Plots, values, texts of tools and "
        "excerpts are checked too.",
    ),
    Rule(
        "edited-record",
        Severity.ERROR,
        "a record was edited by hand",
        "A record contains digests of its fields and rows, and some no longer match. Restore the "
        "file, or record the run again.",
    ),
    Rule("missing-chapter", Severity.ERROR, "a listed chapter does not exist"),
    Rule("not-utf8", Severity.ERROR, "a chapter is not UTF-8"),
    Rule(
        "old-method",
        Severity.WARNING,
        "a quoted record was made by an older method",
        "The constant METHOD of the tool has been raised since, so new results are not comparable "
        "with this record. Measure again; if you cannot, `bindery fill` adds a note to the table.",
    ),
    Rule(
        "old-record",
        Severity.WARNING,
        "a quoted record is past its shelf life",
        "`shelf_life` of the tool in chapters.yaml sets how long its records are good for, 2 "
        "years by default. Measure again; if you cannot, `bindery fill` adds a note to the table.",
    ),
    Rule(
        "stale-output",
        Severity.ERROR,
        "a generated table does not match its view",
        "The view, data, records or file have changed since the table, plot, value or excerpt was "
        "filled in. Run `bindery fill`, and read the change before you commit it.",
    ),
    Rule(
        "swallowed-tag",
        Severity.ERROR,
        "text disappears because it looks like an HTML tag",
        "Browsers and GitHub hide what looks like a tag, such as `<model>` or `<rank>` in prose. "
        "Put it in inline code, or write `&lt;`.",
    ),
    Rule(
        "unclosed-region",
        Severity.ERROR,
        "a generated region lacks its start or end marker",
        "A generated table is between `<!-- table: NAME -->` and `<!-- /table -->`, each on a "
        "line of its own and outside of raw HTML and quotes.",
    ),
    Rule(
        "undrawn-diagram",
        Severity.WARNING,
        "a diagram is not drawn",
        "A code block in the language `mermaid` has no drawing in `figures/`, next to the "
        "chapters, so the outputs show its source. `bindery fill` draws it with `mmdc`.",
    ),
    Rule(
        "unknown-excerpt",
        Severity.ERROR,
        "an excerpt names a file or lines that do not exist",
        "An excerpt names a path from the root, such as `scripts/x.py`, `scripts/x.py#loop` or "
        "`scripts/x.py#L10-L20`.",
    ),
    Rule("unknown-record", Severity.ERROR, "a view or chapter names a missing record"),
    Rule("unknown-view", Severity.ERROR, "a chapter quotes a view that does not exist"),
    Rule(
        "unsourced-number",
        Severity.ERROR,
        "a number in a generated table has no source",
        "The number comes from no row of a record or data file, or bindery cannot follow the "
        "query to it. Put constants into a data file with their source.",
    ),
)
