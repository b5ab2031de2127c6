"""Rules whose findings earlier stages have made: loading, reading evidence, comparing quotations.

A check has only to pass them on, with the severity of the rule.
"""

from __future__ import annotations

from bindery.check.rules.rule import Rule
from bindery.core.model import Severity

BAD_DATA = Rule("bad-data", Severity.ERROR, "a data file breaks its schema")
BAD_RECORD = Rule("bad-record", Severity.ERROR, "a record breaks its schema")
BAD_VIEW = Rule("bad-view", Severity.ERROR, "a view cannot be evaluated")
EDITED_OUTPUT = Rule("edited-output", Severity.ERROR, "a generated table was edited by hand")
EDITED_RECORD = Rule("edited-record", Severity.ERROR, "a record was edited by hand")
MISSING_CHAPTER = Rule("missing-chapter", Severity.ERROR, "a listed chapter is not there")
NOT_UTF8 = Rule("not-utf8", Severity.ERROR, "a chapter is not UTF-8")
OLD_METHOD = Rule("old-method", Severity.WARNING, "a quoted record was made by an older method")
OLD_RECORD = Rule("old-record", Severity.WARNING, "a quoted record is past its shelf life")
STALE_OUTPUT = Rule("stale-output", Severity.ERROR, "a generated table is not what its view gives")
SWALLOWED_TAG = Rule("swallowed-tag", Severity.ERROR, "text is swallowed as an HTML tag")
UNCLOSED_REGION = Rule(
    "unclosed-region", Severity.ERROR, "a region has a marker without its partner"
)
UNKNOWN_RECORD = Rule("unknown-record", Severity.ERROR, "a view or chapter names a missing record")
UNKNOWN_VIEW = Rule("unknown-view", Severity.ERROR, "a chapter quotes a view that does not exist")
UNSOURCED_NUMBER = Rule(
    "unsourced-number", Severity.ERROR, "a number in a generated table has no source"
)
