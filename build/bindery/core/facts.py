"""Facts: what can be worked out from one chapter or file, computed once and stored as JSON.

A fact is made of frozen dataclasses, tuples, mappings, enums and what JSON has itself.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from functools import cache
from types import UnionType
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

T = TypeVar("T")
Reader = Callable[[Any], Any]

MISFITS = (AttributeError, IndexError, KeyError, TypeError, ValueError)
"""What reading stored JSON raises if it is not what was expected."""


_AS_IT_IS = frozenset((str, int, float, bool, type(None)))


class Facts:
    """Facts by name. Those of an earlier build are decoded when they are first needed."""

    def __init__(self, stored: dict[str, list[Any]] | None = None) -> None:
        self._stored = dict(stored or {})
        self._known: dict[str, tuple[str, object]] = {}
        self.rebuilt: dict[str, str] = {}
        """The reason for each fact that had to be worked out."""

    def derive(self, name: str, kind: type[T], make: Callable[[], T], given: str = "") -> T:
        """The fact of this name and type, worked out with `make` unless it is known. If it depends
        on more than what the facts are about, `given` is that input: when it changes, the fact is
        worked out again."""
        if name in self._known and self._known[name][0] == given:
            return self._known[name][1]  # type: ignore[return-value]
        fact: T | None = self._recall(name, kind, given)
        if fact is None:
            fact = make()
        self._known[name] = given, fact
        return fact

    def _recall(self, name: str, kind: Any, given: str) -> Any:
        try:
            before, value = self._stored[name]
            if before == given:
                return make_reader(kind)(value)
            self.rebuilt[name] = "its inputs changed"
        except MISFITS:
            self.rebuilt[name] = "not in the cache"
        return None

    def write(self) -> dict[str, list[Any]]:
        """All facts as JSON."""
        known = {name: [given, write_value(fact)] for name, (given, fact) in self._known.items()}
        return self._stored | known


def write_value(value: Any) -> Any:
    """A value as JSON, which a reader of `make_reader` turns back into the value."""
    if type(value) in _AS_IT_IS:
        return value
    if isinstance(value, (tuple, list)):
        return [write_value(item) for item in value]
    if isinstance(value, Mapping):
        return [[write_value(key), write_value(item)] for key, item in value.items()]
    if is_dataclass(value):
        kind: Any = type(value)
        return [write_value(getattr(value, name)) for name in _name_fields(kind)]
    return value.value if isinstance(value, Enum) else value


@cache
def _name_fields(kind: Any) -> tuple[str, ...]:
    return tuple(field.name for field in fields(kind))


def _pass(value: Any) -> Any:
    return value


def _make_reader(kind: Any) -> Reader:
    if isinstance(kind, type) and is_dataclass(kind):
        hints = get_type_hints(kind)
        return _read_each(kind, [make_reader(hints[field.name]) for field in fields(kind)])
    if isinstance(kind, type) and issubclass(kind, Enum | str) and kind is not str:
        return kind
    if get_origin(kind) is tuple:
        items = get_args(kind)
        if items[-1] is Ellipsis:
            read = make_reader(items[0])
            if read is _pass:
                return lambda value: tuple(_expect_list(value))
            return lambda value: tuple(map(read, _expect_list(value)))
        return _read_each(lambda *values: values, [make_reader(item) for item in items])
    if get_origin(kind) in (dict, Mapping):
        read_pairs = make_reader(tuple[tuple[get_args(kind)], ...])  # type: ignore[misc]
        return lambda value: dict(read_pairs(value))
    if get_origin(kind) is UnionType:
        readers = [make_reader(item) for item in get_args(kind) if make_reader(item) is not _pass]
        if readers:
            (read_some,) = readers
            return lambda value: None if value is None else read_some(value)
    return _pass


make_reader: Callable[[Any], Reader] = cache(_make_reader)
"""The function that turns what `write_value` wrote back into a value of this type. It raises one of
`MISFITS` on anything else."""


def _read_each(make: Callable[..., Any], readers: list[Reader]) -> Reader:
    """Calls `make` with the values of a list, each of which has a reader of its own."""
    changed = [(index, reader) for index, reader in enumerate(readers) if reader is not _pass]

    def read(value: Any) -> Any:
        values = _expect_list(value)
        for index, reader in changed:
            values[index] = reader(values[index])
        return make(*values)

    return read


def _expect_list(value: Any) -> list[Any]:
    if type(value) is not list:
        raise TypeError("not a list")
    return value
