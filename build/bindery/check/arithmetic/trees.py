"""The tree of one side of an equation, and queries on it."""

from __future__ import annotations

import re
from collections.abc import Iterator

from msgspec import Struct
from msgspec.structs import replace

from bindery.check.arithmetic.measures import Unit


class Number(Struct, frozen=True):
    """A number as typed."""

    value: int | float
    decimals: int
    """How many decimals are shown; negative where an exponent takes digits from the end."""
    text: str


class Measured(Struct, frozen=True):
    """A value with a unit or a scale."""

    content: Node
    unit: Unit


class Percent(Struct, frozen=True):
    """A value with a percent sign."""

    content: Node


class Negative(Struct, frozen=True):
    """A value with a minus before it."""

    content: Node


class Binary(Struct, frozen=True):
    """Two operands and the operator between them."""

    operator: str
    left: Node
    right: Node


class Call(Struct, frozen=True):
    """A function call; `log` may lack its base."""

    name: str
    arguments: tuple[Node, ...]


Node = Number | Measured | Percent | Negative | Binary | Call


class Side(Struct, frozen=True):
    """A tree, and the words around its numbers."""

    node: Node
    labels: frozenset[str] = frozenset()
    """The words after its numbers that are not units: `GPUs`, `nodes`."""
    is_loose: bool = False
    """Whether it may also be read in another way."""
    is_rough: bool = False
    """Whether one of its numbers is marked as rough."""
    has_remark_behind: bool = False
    """Whether words or brackets follow the last of its values."""

    @property
    def has_operator(self) -> bool:
        return has_operator(self.node)


def iterate_nodes(node: Node) -> Iterator[Node]:
    """A node and all below it."""
    yield node
    match node:
        case Measured(content=content) | Percent(content=content) | Negative(content=content):
            yield from iterate_nodes(content)
        case Binary(left=left, right=right):
            yield from iterate_nodes(left)
            yield from iterate_nodes(right)
        case Call(arguments=arguments):
            for argument in arguments:
                yield from iterate_nodes(argument)


def has_operator(node: Node) -> bool:
    """Whether a tree has an operator or a function."""
    return any(isinstance(below, Binary | Call) for below in iterate_nodes(node))


def has_scale(node: Node) -> bool:
    """Whether a number of a tree has a unit or a scale."""
    return any(isinstance(below, Measured) for below in iterate_nodes(node))


def find_typed_number(node: Node) -> Number | None:
    """The number of a tree that is a single number, with any unit and sign; else None."""
    while isinstance(node, Measured | Percent | Negative):
        node = node.content
    return node if isinstance(node, Number) else None


def count_digits(number: Number) -> int:
    """The number of significant digits: 2 in 0.0420, 4200 and 42e9."""
    mantissa = re.split("[eE]", number.text)[0]
    return len(re.sub(r"\D", "", mantissa).strip("0"))


def substitute(node: Node, old: Number, new: Number) -> Node:
    """The same tree with one number replaced."""
    match node:
        case Number():
            return new if node is old else node
        case Measured(content=content) | Percent(content=content) | Negative(content=content):
            return replace(node, content=substitute(content, old, new))
        case Binary(left=left, right=right):
            return replace(node, left=substitute(left, old, new), right=substitute(right, old, new))
        case Call(arguments=arguments):
            return replace(
                node, arguments=tuple(substitute(argument, old, new) for argument in arguments)
            )
