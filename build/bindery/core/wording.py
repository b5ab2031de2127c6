"""The words of the outputs that are not the author's, in the language of the book.

The code has them in English. `words/LANGUAGE.toml` translates each; a book can add a language or
change words with a file of its own, `interface` in chapters.yaml.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path

from msgspec import Struct, field


class Wording(Struct, frozen=True):
    """Gives the words of a language for those in English, which it gives where it has no others."""

    texts: Mapping[str, str] = field(default_factory=dict)

    def __call__(self, english: str, **values: object) -> str:
        """The words, with values at the names in braces."""
        text = self.texts.get(english, english)
        return text.format(**values) if values else text

    def count(self, number: int, noun: str) -> str:
        """A number of things: `3 tables`."""
        return self(f"{{n}} {noun}" if number == 1 else f"{{n}} {noun}s", n=number)

    def number(self, text: str) -> str:
        """A number that was formatted as in English."""
        signs = {",": self.texts.get(",", ","), ".": self.texts.get(".", ".")}
        return "".join(signs.get(sign, sign) for sign in text)


@cache
def read_words(language: str) -> Mapping[str, str]:
    """The words that bindery has for a language such as `de` or `de-AT`; none for English and for
    languages that it does not know."""
    name = f"{language.lower().partition('-')[0]}.toml"
    file = Path(__file__).with_name("words") / name
    if not file.is_file():
        return {}
    import tomllib  # a book in English does not need it

    return tomllib.loads(file.read_text(encoding="utf-8"))
