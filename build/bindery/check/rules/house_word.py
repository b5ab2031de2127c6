"""house-word: the text uses a word that `words` in chapters.yaml replaces by another.

Quotations, link texts and code are not checked.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from bindery.check.rules.rule import Rule, Scope
from bindery.core.model import Finding, Severity

RULE = Rule("house-word", Severity.WARNING, "a word that the book avoids")

_QUOTED = re.compile(r"“[^”]*”|\"[^\"\n]*\"")


def check(scope: Scope) -> Iterator[Finding]:
    if not scope.config.words:
        return
    text = "\n".join(passage.prose for _, passage in scope.iterate_passages()).casefold()
    words = [word for word in scope.config.words if word.casefold() in text]
    if not words:
        return
    alternatives = "|".join(re.escape(word) for word in sorted(words, key=len, reverse=True))
    pattern = re.compile(rf"(?<![\w-])(?:{alternatives})(?![\w-])", re.IGNORECASE)
    advice = {word.casefold(): scope.config.words[word] for word in words}
    for chapter, passage in scope.iterate_passages():
        if passage.is_quoted or not pattern.search(passage.prose):
            continue
        spared = [*passage.links, *(found.span() for found in _QUOTED.finditer(passage.prose))]
        for match in pattern.finditer(passage.prose):
            if any(start <= match.start() < end for start, end in spared):
                continue
            span = passage.place(*match.span())
            if not scope.is_generated(chapter.path, span.line):
                message = f"this book avoids '{match[0]}'"
                yield RULE.find(span, message, f"write {advice[match[0].casefold()]}")
