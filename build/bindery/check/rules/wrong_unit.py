"""wrong-unit: the words around a number contradict its unit.

`B` is bytes and `b` bits, `GB` an amount and `GBps` a rate, `FLOP` a count and `FLOPS` a rate.
Reported are, for example, "80 Gb of memory" and "a bandwidth of 900 GB". Not reported are spellings
that leave the meaning clear, product names, quotations and link texts.
"""

from __future__ import annotations

from collections.abc import Iterator

from bindery.check.rules.rule import Rule, Scope
from bindery.check.units_in_prose import find_slips
from bindery.core.model import Finding, Severity

RULE = Rule("wrong-unit", Severity.WARNING, "a number has the wrong unit")


def check(scope: Scope) -> Iterator[Finding]:
    for chapter, passage in scope.iterate_passages():
        if passage.is_quoted:
            continue
        for slip in find_slips(passage):
            if any(start <= slip.start < end for start, end in passage.links):
                continue  # link texts are often titles by others
            span = passage.place(slip.start, slip.end)
            if not scope.is_generated(chapter.path, span.line):
                yield RULE.find(span, slip.message, slip.advice)
