"""The inline parser: it asks each rule only where that rule can begin.

markdown-it-py stops the text at some thirty characters and then tries every rule at each of them.
Most of these stops serve rules that GitHub's dialect has not. Here the text stops where a rule of
ours can begin, and only the rules that can begin with that character are tried, in their order.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from markdown_it.parser_inline import ParserInline
from markdown_it.rules_inline import StateInline

InlineRule = Callable[[StateInline, bool], bool]

_FIRST = {
    "newline": "\n",
    "math_inline": "$",
    "escape": "\\",
    "backticks": "`",
    "strikethrough": "~",
    "emphasis": "*_",
    "link": "[",
    "image": "!",
    "footnote_ref": "[",
    "autolink": "<",
    "html_inline": "<",
    "entity": "&",
    "gfm_autolink_www": "w",
    "gfm_autolink_protocol": ":",
    "gfm_autolink_email": "@",
}
"""The characters with which each rule can begin."""
_PROTOCOLS = ("http", "https", "mailto", "xmpp")


class InlineParser(ParserInline):
    """A parser with the rules of another one, which must all be known here."""

    def __init__(self, other: ParserInline) -> None:
        super().__init__()
        self.ruler, self.ruler2 = other.ruler, other.ruler2
        names = self.ruler.get_active_rules()
        rules: Sequence[InlineRule] = self.ruler.getRules("")
        self._rules: dict[str, tuple[InlineRule, ...]] = {}
        for name, rule in zip(names[1:], rules[1:], strict=True):
            for first in _FIRST[name]:
                self._rules[first] = (*self._rules.get(first, ()), rule)
        # The search for the end of a label asks at each closing bracket.
        self.terminator_re = re.compile(rf"[\]{re.escape(''.join(self._rules))}]")

    def skipToken(self, state: StateInline) -> None:  # noqa: N802
        """Go behind the token at the place of the state, without making it."""
        place = state.pos
        if place in state.cache:
            state.pos = state.cache[place]
            return
        if state.level >= state.md.options["maxNesting"]:
            state.pos = state.posMax + 1
        else:
            state.level += 1
            if not self._try_rules(state, True):
                state.pos += 1
            state.level -= 1
        state.cache[place] = state.pos

    def tokenize(self, state: StateInline) -> None:
        """Make the tokens of the text that the state is in."""
        end = state.posMax
        is_shallow = state.level < state.md.options["maxNesting"]
        while state.pos < end:
            if not (is_shallow and self._try_rules(state, False)):
                state.append_pending(state.src[state.pos])
                state.pos += 1
        if state.pending:
            state.pushPending()

    def _try_rules(self, state: StateInline, silent: bool) -> bool:
        src, start = state.src, state.pos
        stop = self._find_stop(src, start, state.posMax)
        if stop == start:
            return any(rule(state, silent) for rule in self._rules.get(src[start], ()))
        if not silent:
            state.append_pending(src[start:stop])
        state.pos = stop
        return True

    def _find_stop(self, src: str, start: int, end: int) -> int:
        """Where the text ends that begins at `start`: at the next place where a rule may begin."""
        search = self.terminator_re.search
        while (found := search(src, start, end)) is not None:
            start = found.start()
            match src[start]:  # three characters are common and rarely begin anything
                case "w":
                    is_stop = src.startswith("www.", start)
                case ":":
                    is_stop = src.endswith(_PROTOCOLS, 0, start)
                case "!":
                    is_stop = src.startswith("![", start)
                case _:
                    is_stop = True
            if is_stop:
                return start
            start += 1
        return end
