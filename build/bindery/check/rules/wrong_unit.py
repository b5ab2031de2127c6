"""wrong-unit: the words around a number contradict its unit.

`B` is bytes and `b` bits, `GB` an amount and `GBps` a rate, `FLOP` a count and `FLOPS` a rate.
Reported are, for example, "80 Gb of memory" and "a bandwidth of 900 GB". Not reported are spellings
that leave the meaning clear, product names, quotations and link texts.
"""

from __future__ import annotations

from collections.abc import Iterator

from bindery.check.rules.rule import Rule, Scope
from bindery.check.units_in_prose import UNIT_LIKE, find_slips
from bindery.core.model import Finding, Severity
from bindery.markdown.prose import JoinedProse

RULE = Rule("wrong-unit", Severity.WARNING, "a number has the wrong unit")


def check(scope: Scope) -> Iterator[Finding]:
    passages = list(scope.iterate_passages())
    for number in JoinedProse([passage.text for _, passage in passages]).search(UNIT_LIKE):
        chapter, passage = passages[number]
        if passage.is_quoted:
            continue
        for slip in find_slips(passage):
            if any(start <= slip.start < end for start, end in passage.links):
                continue  # link texts are often titles by others
            span = passage.place(slip.start, slip.end)
            if not scope.is_generated(chapter.path, span.line):
                yield RULE.find(span, slip.message, slip.advice)
