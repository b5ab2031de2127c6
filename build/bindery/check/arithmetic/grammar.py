"""Parse one side of an equation: from tokens to a tree.

Words for what is counted (`8 GPUs`) and remarks in brackets (`2 (bytes of bf16)`) are skipped.
"""

from __future__ import annotations

from collections.abc import Sequence

from bindery.check.arithmetic.tokens import Token
from bindery.check.arithmetic.trees import (
    Binary,
    Call,
    Measured,
    Negative,
    Node,
    Number,
    Percent,
    Side,
)

_LONGEST_LABEL = 4
_LARGEST_EXPONENT = 300
LONGEST = 80
"""Maximum number of tokens per side."""


_AFTER_LABEL = ("operator", "relation", "close", "unit", "open", "end")


NO_LABELS = frozenset(
    "and or so then thus hence therefore with without to from in on at by for but if when while "
    "as is are was were be been has have had gives give makes make we you they it its this that "
    "these those not no than which who where about around roughly nearly almost only just exactly "
    "up down mod modulo squared cubed half dozen hundred hundreds out versus vs via each "
    "per".split()
)
"""Words that do not name what is counted."""

_SHARERS = frozenset(
    "gpu tpu cpu accelerator device card chip core die node host server machine instance rack pod "
    "rank worker process thread replica switch port link lane nic channel direction user customer "
    "request query call job run step iteration iter epoch param parameter weight value element "
    "token word sample sequence seq example document image row layer head block page file drive "
    "disk".split()
)
"""What may follow the slash of a quantity: `2 bytes/param`."""


def read_side(tokens: Sequence[Token]) -> Side | None:
    """The side that these tokens form; None if they do not form one, or are too many."""
    if len(tokens) > LONGEST:
        return None
    reader = _Reader(tokens)
    try:
        node = reader.read_sum()
    except _NoExpressionError:
        return None
    if reader.at < len(tokens):
        return None
    has_remark_behind = reader.value_end < reader.at
    labels = frozenset(reader.labels)
    return Side(node, labels, reader.is_loose, reader.is_rough, has_remark_behind)


_END = Token("end", "", -1, -1)


class _NoExpressionError(Exception):
    """The tokens are not an expression."""


class _Reader:
    """Reads from left to right; `at` is the token that comes next."""

    def __init__(self, tokens: Sequence[Token]) -> None:
        self.tokens = (*tokens, _END, _END, _END)
        self.at = 0
        self.value_end = 0
        self.labels: set[str] = set()
        self.is_loose = False
        self.is_rough = False

    def peek(self, ahead: int = 0) -> Token:
        return self.tokens[self.at + ahead]

    def take_operator(self, *names: str) -> str | None:
        token = self.peek()
        if token.kind != "operator" or token.text not in names:
            return None
        self.is_loose |= token.is_loose or token.is_new_line
        self.at += 1
        return token.text

    def read_sum(self) -> Node:
        node = self.read_product()
        while operator := self.take_operator("+", "-"):
            node = Binary(operator, node, self.read_product())
        return node

    def read_product(self) -> Node:
        node = self.read_factor()
        while True:
            if operator := self.take_operator("*", "/", "//", "of"):
                node = Binary("*" if operator == "of" else operator, node, self.read_factor())
            elif self.is_remainder():
                self.at += 1
                node = Binary("%", node, self.read_factor())
            elif self.is_glued_bracket():
                node = Binary("*", node, self.read_factor())
            else:
                return node

    def is_remainder(self) -> bool:
        """Whether a percent sign followed by a value comes next: `10 % 3`."""
        return self.peek().text == "%" and self.peek(1).kind in ("number", "open")

    def is_glued_bracket(self) -> bool:
        """Whether a bracket is directly after a value: `8(2+1)`."""
        token = self.peek()
        before = self.tokens[self.at - 1]
        return (
            token.kind == "open"
            and before.kind in ("number", "close")
            and before.end == token.start
        )

    def read_factor(self) -> Node:
        if self.peek().kind == "tilde":
            self.at += 1
            self.is_rough = True
        was_loose = self.is_loose
        sign = self.take_operator("+", "-")
        if sign:
            self.is_loose = was_loose or self.at > 1  # in 8 -3 the minus may be a dash
            node = self.read_factor()
            return Negative(node) if sign == "-" else node
        return self.read_suffixes(self.read_power())

    def read_power(self) -> Node:
        node = self.read_atom()
        token = self.peek()
        if token.kind == "power":
            if len(token.text) > 4:
                raise _NoExpressionError
            self.at += 1
            return Binary("**", node, Number(int(token.text), 0, token.text))
        if self.take_operator("**"):
            sign = self.take_operator("+", "-")
            power = self.read_power()
            return Binary("**", node, Negative(power) if sign == "-" else power)
        return node

    def read_atom(self) -> Node:
        token = self.peek()
        self.at += 1
        match token.kind:
            case "number":
                self.is_loose |= token.is_loose
                return _read_number(token.text)
            case "currency" if token.unit:
                number = self.peek()
                if number.kind != "number" or number.start != token.end:
                    raise _NoExpressionError
                return Measured(self.read_atom(), token.unit)
            case "open":
                node = self.read_sum()
                self.close()
                return node
            case "root":
                return Call("sqrt", (self.read_atom(),))
            case "function":
                return self.read_call(token.text)
            case _:
                raise _NoExpressionError

    def read_call(self, name: str) -> Node:
        self.at += 1  # the tokenizer has seen the bracket
        arguments = [self.read_sum()]
        while self.peek().kind == "comma":
            self.at += 1
            arguments.append(self.read_sum())
        self.close()
        return Call(name, tuple(arguments))

    def close(self) -> None:
        if self.peek().kind != "close":
            raise _NoExpressionError
        self.at += 1

    def read_suffixes(self, node: Node) -> Node:
        self.value_end = self.at
        while (token := self.peek()).kind != "end":
            if token.kind == "unit" and token.unit:
                node = Measured(node, token.unit)
                self.at += 1
                self.value_end = self.at
            elif token.kind == "percent" and not self.is_remainder():
                node = Percent(node)
                self.at += 1
                self.value_end = self.at
            elif not self.skip_label() and not self.skip_remark():
                break
        return node

    def skip_label(self) -> bool:
        """Skip words that say what is counted, if an operator or the end follows."""
        if self.skip_share():
            return True
        words: list[str] = []
        while (token := self.peek(len(words))).kind == "word":
            words.append(token.text)
        if (
            not 0 < len(words) <= _LONGEST_LABEL
            or any(word.lower() in NO_LABELS for word in words[:1] + words[-1:])
            or any("_" in word or not word[0].isalpha() for word in words)
            or token.kind not in _AFTER_LABEL
        ):
            return False
        is_glued = self.tokens[self.at].start == self.tokens[self.at - 1].end
        if is_glued and words == ["x"]:
            self.is_loose = True  # three times, or a variable
        elif len(words[0]) < (3 if is_glued else 2):
            return False
        self.labels.update(word.lower().rstrip("s") for word in words)
        self.at += len(words)
        return True

    def skip_share(self) -> bool:
        """Skip what a quantity is given per: the `/param` of `2 bytes/param`, or `per
        parameter`."""
        sign, word = self.peek(), self.peek(1)
        if sign.text not in ("per", "/") or word.kind != "word":
            return False
        before = self.tokens[self.at - 1]
        is_glued = before.end == sign.start and sign.end == word.start
        if sign.text == "/" and not is_glued:
            return False
        if before.kind not in ("unit", "word") or not word.text.isalpha():
            return False
        is_name = len(word.text) > 2 and word.text.lower() not in NO_LABELS
        if not is_name or self.peek(2).kind not in _AFTER_LABEL:
            return False
        # 640 GB/ranks may be divided by their number
        self.is_loose |= sign.text == "/" and word.text.lower() not in _SHARERS
        self.labels.add(word.text.lower().rstrip("s"))
        self.at += 2
        return True

    def skip_remark(self) -> bool:
        """Skip a remark in brackets: `2 (bytes of bf16)`."""
        if self.peek().kind != "open" or self.is_glued_bracket():
            return False
        depth = 0
        for index in range(self.at, len(self.tokens)):
            kind = self.tokens[index].kind
            depth += (kind == "open") - (kind == "close")
            if not depth:
                break
        else:
            return False
        inside = self.tokens[self.at + 1 : index]
        if not any(token.kind == "word" for token in inside):
            return False
        self.is_loose |= any(token.kind == "number" for token in inside)
        self.at = index + 1
        return True


_SEPARATORS = dict.fromkeys(map(ord, ",_ \u00a0\u202f\u2009"))


def _read_number(text: str) -> Number:
    plain = text.translate(_SEPARATORS)
    mantissa, _, exponent = plain.lower().partition("e")
    if len(exponent) > 4:
        raise _NoExpressionError
    decimals = len(mantissa.partition(".")[2]) - int(exponent or 0)
    if abs(decimals) > _LARGEST_EXPONENT or len(mantissa) > _LARGEST_EXPONENT:
        raise _NoExpressionError
    value = int(plain) if plain.isdigit() else float(plain)
    if isinstance(value, float) and value.is_integer() and "." not in mantissa:
        value = int(mantissa) * 10 ** int(exponent)
    return Number(value, decimals, text)
