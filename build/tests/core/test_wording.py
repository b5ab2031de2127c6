"""The words of the outputs that are not the author's: complete in every language, and used."""

import re
from pathlib import Path

import bindery
import pytest
from bindery.core.wording import Wording, read_words

PACKAGE = Path(bindery.__file__).parent
LANGUAGES = [path.stem for path in sorted((PACKAGE / "core/words").glob("*.toml"))]
SOURCES = [
    path
    for folder in ("markdown", "render", "check")
    for path in (PACKAGE / folder).rglob("*")
    if path.suffix in (".py", ".js", ".html", ".xhtml", ".xml")
    # What these two say is what their tool says in a terminal.
    and path.name not in ("calculator.js", "yours.js")
]
_CALL = re.compile(
    r"(?<![\w.])(?:t|say|words|wording|self\.words|config\.wording)\(\s*(\"[^\"]+\")"
)
_COUNT = re.compile(r"\bcount\([^\"']*[\"']([a-z ]+)[\"']\)")
_NAMES = frozenset("bindery compare yours json curl uv run demo python SHA LO".split())
_ALERTS = {"Caution", "Important", "Note", "Tip", "Warning"}
_MACHINE = re.compile(
    r"{#.*?#}|{%.*?%}|{{.*?}}|\$[a-z()-]+\$|<script\b(?![^>]*>\s*<).*?</script>|<!DOCTYPE[^>]*>"
    r"|<\?xml[^>]*>|<(?:generator|id|updated)>[^<]*",
    re.S,
)


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_language_has_every_word(language: str) -> None:
    """The same keys as German, and in each text the same names in braces."""
    words = read_words(language)
    assert words.keys() == read_words("de").keys()
    for english, text in words.items():
        assert sorted(re.findall(r"{\w*}", text)) == sorted(re.findall(r"{\w*}", english)), english


def test_what_is_asked_for_is_there_and_nothing_else() -> None:
    """Each text that code asks for has a translation, and each translation is asked for."""
    asked, said = set(), (PACKAGE / "evidence/provenance.py").read_text(encoding="utf-8")
    for path in SOURCES:
        source = path.read_text(encoding="utf-8")
        said += re.sub(r"\\\n", "", source)
        asked |= {found[1:-1] for found in _CALL.findall(source)}
        asked |= {f"{{n}} {noun}{end}" for noun in _COUNT.findall(source) for end in ("", "s")}
    known = read_words("de").keys()
    nouns = {key for key in known if key.startswith("{n} ")}
    assert asked - known == set()
    spoken = {key for key in known if any(mark + key in said for mark in "\"'\n")}
    assert known - spoken - nouns - _ALERTS == set()


@pytest.mark.parametrize(
    "path", [p for p in SOURCES if "templates" in p.parts], ids=lambda p: p.name
)
def test_no_template_holds_a_bare_word(path: Path) -> None:
    """Neither between elements nor in attributes that a reader is told."""
    text = _MACHINE.sub("", path.read_text(encoding="utf-8"))
    shown = [*re.findall(r">([^<>]*)", text), *re.findall(r'(?:title|alt|label)="([^"]*)"', text)]
    words = {word for part in shown for word in re.findall(r"[A-Za-z]{2,}", part)}
    assert words <= _NAMES


def test_numbers_are_written_as_in_the_language() -> None:
    assert Wording(read_words("de-AT")).number("1,234.5") == "1.234,5"
    assert Wording(read_words("en")).number("1,234.5") == "1,234.5"
    assert Wording(read_words("de")).count(2, "chapter") == "2 Kapitel"
