"""Facts: what can be worked out from one chapter or file, computed once and stored with it."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, TypeVar

import msgspec
from msgspec import Raw
from msgspec.msgpack import Decoder, Encoder

T = TypeVar("T")


def _encode_markup(value: object) -> str:
    if isinstance(value, str):
        return str(value)
    raise NotImplementedError


encode = Encoder(enc_hook=_encode_markup).encode
"""A value as MessagePack. Raises one of `UNSTORABLE` for what the format cannot hold."""
UNSTORABLE = (UnicodeEncodeError, OverflowError)
"""What `encode` raises on half a surrogate pair, and on an integer of more than 64 bits."""

StoredFacts = dict[str, tuple[str, Raw]]


@cache
def _find_decoder(kind: Any) -> Decoder[Any]:
    # msgspec asks the hook for subclasses of str, such as Markup.
    return Decoder(kind, dec_hook=lambda kind, value: kind(value))


def decode(text: Raw | bytes, kind: Any) -> Any:
    """The value of this type from what `encode` wrote. Raises msgspec.DecodeError on anything
    else."""
    return _find_decoder(kind).decode(text)


class Facts:
    """Facts by name. Those of an earlier build are decoded when they are first needed."""

    def __init__(self, stored: StoredFacts | None = None) -> None:
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
        before, text = self._stored.get(name, (None, b""))
        try:
            if before == given:
                return decode(text, kind)
        except msgspec.DecodeError:
            before = None
        self.rebuilt[name] = "not in the cache" if before is None else "its inputs changed"
        return None

    def write(self) -> dict[str, tuple[str, object]]:
        """All facts, for `encode`."""
        return {**self._stored, **self._known}
