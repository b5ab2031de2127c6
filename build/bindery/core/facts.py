"""What follows from one value alone, worked out once and written as JSON: frozen values of
dataclasses, tuples, and what JSON has itself."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, is_dataclass
from enum import Enum
from functools import cache
from types import UnionType
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

T = TypeVar("T")
Reader = Callable[[Any], Any]


class Facts:
    """Facts by name, those of an earlier process among them; these are read when asked for."""

    def __init__(self, kept: dict[str, list[Any]] | None = None) -> None:
        self._kept = kept or {}
        self._known: dict[str, tuple[str, object]] = {}
        self.grown: list[str] = []
        """Names of those that were not known before."""

    def derive(self, name: str, kind: type[T], make: Callable[[], T], given: str = "") -> T:
        """The fact of a name and a kind. Where it depends on more than its value, `given` says on
        what; a fact that was worked out from something else is made again."""
        if name in self._known and self._known[name][0] == given:
            return self._known[name][1]  # type: ignore[return-value]
        if name in self._kept and self._kept[name][0] == given:
            fact: T = make_reader(kind)(self._kept[name][1])
        else:
            fact = make()
            self.grown.append(name)
        self._known[name] = given, fact
        return fact

    def write(self) -> dict[str, list[Any]]:
        """All of them as JSON has them."""
        known = {name: [given, write_value(fact)] for name, (given, fact) in self._known.items()}
        return self._kept | known


def write_value(value: Any) -> Any:
    """A value as JSON has it; `make_reader` makes what reads it."""
    if isinstance(value, tuple | list):
        return [write_value(item) for item in value]
    if is_dataclass(value):
        return [write_value(getattr(value, field.name)) for field in fields(value)]
    return value.value if isinstance(value, Enum) else value


def _pass(value: Any) -> Any:
    return value


def _make_reader(kind: Any) -> Reader:
    """What makes a value of this kind again from what `write_value` has written."""
    if isinstance(kind, type) and is_dataclass(kind):
        hints = get_type_hints(kind)
        return _read_each(kind, [make_reader(hints[field.name]) for field in fields(kind)])
    if isinstance(kind, type) and issubclass(kind, Enum):
        return kind
    if get_origin(kind) is tuple:
        items = get_args(kind)
        if items[-1] is Ellipsis:
            read = make_reader(items[0])
            return tuple if read is _pass else lambda value: tuple(map(read, value))
        return _read_each(lambda *values: values, [make_reader(item) for item in items])
    if get_origin(kind) is UnionType:
        assert all(make_reader(item) is _pass for item in get_args(kind))
    return _pass


make_reader: Callable[[Any], Reader] = cache(_make_reader)


def _read_each(make: Callable[..., Any], readers: list[Reader]) -> Reader:
    """Makes something of values each of which has a reader of its own."""
    if all(reader is _pass for reader in readers):
        return lambda value: make(*value)
    changed = [(index, reader) for index, reader in enumerate(readers) if reader is not _pass]

    def read(value: list[Any]) -> Any:
        for index, reader in changed:
            value[index] = reader(value[index])
        return make(*value)

    return read
