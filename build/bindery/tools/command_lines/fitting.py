"""Check the words of a command against the tool's parser, by argparse's rules.

Whatever depends on words that only the shell or the reader knows is not judged.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from msgspec import Struct, field

from bindery.core.report import count_noun
from bindery.core.suggestions import find_nearest, suggest
from bindery.tools.command_lines.shell import Word
from bindery.tools.command_lines.stored_parsers import Option, Parser

# Newer Python versions accept more negative numbers, such as `-1e-3`.
_NUMBER = re.compile(r"-\.?\d[\d_.eE+-]*")
_STAND_IN = re.compile(
    r"<.*>|\[.*\]|\{.*\}|(?:[A-Z]+[0-9]?[_-]?)+|.*(?:\.\.\.|…).*|[Xx]{2,}|path/to/.*|\?+|_+"
)


class Misuse(Struct, frozen=True):
    """An error that the tool would report: its word and the option it is about."""

    word: Word
    message: str
    help: str = ""


class _Reading(Struct):
    """The state of reading a command line."""

    misuses: list[Misuse] = field(default_factory=list)
    given: list[tuple[Option, Word]] = field(default_factory=list)
    positional: list[Word] = field(default_factory=list)
    is_loose: bool = False
    """Whether words may be unknown, so that nothing can be reported as missing."""
    has_ended: bool = False
    """Whether another parser reads the rest."""


def judge_words(
    parser: Parser, program: Word, words: Sequence[Word], *, is_whole: bool = True
) -> tuple[Misuse, ...]:
    """What `program` would reject in these arguments. Without `is_whole` they are part of a
    command, so nothing is missing."""
    reading = _Reading(is_loose=not is_whole)
    _read_words(parser, program, words, reading)
    return tuple(reading.misuses)


def _read_words(parser: Parser, program: Word, words: Sequence[Word], reading: _Reading) -> None:
    index = 0
    while index < len(words) and not reading.has_ended:
        word = words[index]
        index += 1
        if word.text == "--" and word.is_plain:
            reading.positional.extend(words[index:])
            break
        if word.is_many:
            reading.is_loose = True
        elif _is_option(word):
            index = _read_option(parser, words, index, reading)
        else:
            reading.positional.append(word)
            if _takes_over(parser, program, words, index, reading):
                return
    if not reading.has_ended:
        _judge_positionals(parser, reading)
        _judge_missing(parser, program, reading)
        _judge_rivals(reading)


def _is_option(word: Word) -> bool:
    text = word.text
    if not text.startswith("-") or text == "-" or (word.is_quoted and " " in text):
        return False
    return not _NUMBER.fullmatch(text)


def _takes_over(
    parser: Parser, program: Word, words: Sequence[Word], index: int, reading: _Reading
) -> bool:
    """Whether this word starts a subcommand, or an argument that takes all the rest."""
    given = len(reading.positional)
    fixed = all(one.least == one.most == 1 for one in parser.positionals)
    if any(one.takes_rest for one in parser.positionals):
        reading.has_ended = given >= sum(not one.takes_rest for one in parser.positionals)
        return False
    if parser.commands is None or not fixed or given <= len(parser.positionals):
        return False
    word = words[index - 1]
    reading.has_ended = True
    if reading.is_loose or not word.is_plain or _STAND_IN.fullmatch(word.text):
        return True
    chosen = parser.commands.get(word.text)
    if chosen is None:
        known = ", ".join(f"'{name}'" for name in parser.commands)
        hint = suggest(word.text, parser.commands, f"commands: {known}")
        message = f"'{_name(program)}' has no command '{word.text}'"
        reading.misuses.append(Misuse(word, message, hint))
        return True
    inner = _Reading(is_loose=reading.is_loose)
    _read_words(chosen, program, words[index:], inner)
    reading.misuses.extend(inner.misuses)
    return True


# --- options ---


def _read_option(parser: Parser, words: Sequence[Word], index: int, reading: _Reading) -> int:
    """Read the option before `index` and its values; returns the index after them."""
    word = words[index - 1]
    name, sign, value = word.text.partition("=")
    option = parser.find(word.text) or (parser.find(name) if sign else None)
    if option is None and name.startswith("--") and parser.takes_abbreviations:
        names = ((one, known) for one in parser.options for known in one.names)
        option = next((one for one, known in names if known.startswith(name)), None)
    is_cluster = bool(re.match("-[^-].", name)) and not parser.find(f"-{name}")
    if option is None and is_cluster and parser.find(name[:2]):
        reading.is_loose = True  # -n3, or several flags combined
        return index
    if option is None or (word.is_open and not sign):
        _report_unknown(parser, word, name, reading)
        return index
    reading.given.append((option, word))
    if sign and word.text not in option.names:
        _judge_joined(option, name, value, word, reading)
        return index
    return _read_values(option, words, index, reading)


def _report_unknown(parser: Parser, word: Word, name: str, reading: _Reading) -> None:
    reading.is_loose = True
    if word.is_open and not re.match(r"--?[A-Za-z][\w-]*=", word.text):
        return
    if parser.is_open or _STAND_IN.fullmatch(name.lstrip("-")) or name in ("-", "--"):
        return
    if any(one.takes_rest for one in parser.positionals):
        return
    shown = [n for one in parser.options if not one.is_hidden for n in one.names]
    swapped = name.replace("_", "-") if "_" in name else f"--{name[2:].replace('-', '_')}"
    nearest = swapped if swapped in shown else find_nearest(name, shown)
    if not nearest and name.startswith("-") and f"-{name}" in shown:
        nearest = f"-{name}"
    hint = f"did you mean '{nearest}'?" if nearest else "'--help' lists the options"
    reading.misuses.append(Misuse(word, f"there is no option '{name}'", hint))


def _read_values(option: Option, words: Sequence[Word], index: int, reading: _Reading) -> int:
    name = words[index - 1]
    reading.has_ended = option.ends_run or option.takes_rest
    count = 0
    is_blurred = False
    while index < len(words) and (option.most is None or count < option.most):
        word = words[index]
        if word.is_many and not _STAND_IN.fullmatch(word.text.strip("[]")):
            is_blurred = reading.is_loose = True
            break
        if word.text == "--" or _is_option(word):
            break
        if word.is_many:
            reading.is_loose = True
        else:
            _judge_value(option, name.text, word.text, word, reading)
        count += 1
        index += 1
    if count < option.least and not is_blurred and not (reading.is_loose and index >= len(words)):
        wanted = "a value" if option.least == 1 else f"{option.least} values"
        has = (
            "none follows" if not count else f"only {count} {'follow' if count > 1 else 'follows'}"
        )
        message = f"'{name.text}' takes {wanted}, but {has}"
        reading.misuses.append(Misuse(name, message, _list_choices(option)))
        reading.is_loose = True
    return index


def _judge_joined(option: Option, name: str, value: str, word: Word, reading: _Reading) -> None:
    """`--name=value`."""
    reading.has_ended = option.ends_run
    if option.most == 0:
        message = f"'{name}' takes no value"
        reading.misuses.append(Misuse(word, message, f"write '{name}'"))
    elif option.least > 1:
        message = f"'{name}' takes {option.least} values"
        reading.misuses.append(Misuse(word, message, "write them after it, separated by spaces"))
    else:
        _judge_value(option, name, value, word, reading)


def _judge_value(option: Option, name: str, value: str, word: Word, reading: _Reading) -> None:
    if not word.is_plain or (_STAND_IN.fullmatch(value) and not _is_choice(option, value.lower())):
        return
    about = name if name.startswith("-") else option.names[0]
    if option.kind in ("int", "float"):
        try:
            (int if option.kind == "int" else float)(value)
        except ValueError:
            wanted = "an integer" if option.kind == "int" else "a number"
            message = f"'{about}' takes {wanted}, not '{value}'"
            reading.misuses.append(Misuse(word, message, f"write {wanted}"))
            return
    if option.choices is not None and not _is_choice(option, value):
        texts = [str(choice) for choice in option.choices]
        hint = suggest(value, texts, _list_choices(option))
        reading.misuses.append(Misuse(word, f"'{about}' cannot be '{value}'", hint))


def _is_choice(option: Option, value: str) -> bool:
    if option.choices is None:
        return False
    match option.kind:
        case "int" | "float":
            try:
                return float(value) in option.choices
            except ValueError:
                return False
        case _:
            return value in option.choices


def _list_choices(option: Option) -> str:
    if not option.choices:
        return "write it after the option"
    shown = [f"'{choice}'" for choice in option.choices[:12]]
    more = ", ..." if len(option.choices) > 12 else ""
    return f"choices: {', '.join(shown)}{more}"


# --- the whole line ---


def _judge_positionals(parser: Parser, reading: _Reading) -> None:
    words = reading.positional
    if parser.commands is not None:
        return
    if any(word.is_many for word in words):
        reading.is_loose = True
    expected = parser.positionals
    if all(one.most is not None for one in expected) and not (parser.is_open or reading.is_loose):
        most = sum(one.most or 0 for one in expected)
        if len(words) > most:
            extra = words[most]
            takes = count_noun(most, "positional argument") if most else "no positional arguments"
            message = f"'{extra.text}' is one argument too many: the tool takes {takes}"
            hint = "remove it, or write its option before it"
            reading.misuses.append(Misuse(extra, message, hint))
            reading.is_loose = True
    if all(one.least == one.most == 1 for one in expected) and not reading.is_loose:
        for one, word in zip(expected, words, strict=False):
            _judge_value(one, one.names[0], word.text, word, reading)


def _judge_missing(parser: Parser, program: Word, reading: _Reading) -> None:
    if reading.is_loose or reading.misuses:
        return
    given = {option.names for option, _ in reading.given}
    missing = [
        one.names[-1] for one in parser.options if one.is_required and one.names not in given
    ]
    least = 0
    for one in parser.positionals:
        least += one.least
        if len(reading.positional) < least:
            missing.append(one.names[0])
    if parser.commands is not None and parser.is_command_required:
        missing.append("a command")
    if missing:
        names = ", ".join(name if name == "a command" else f"'{name}'" for name in missing)
        message = f"'{_name(program)}' needs {names}"
        reading.misuses.append(Misuse(program, message, "add it, or '...' if it is omitted"))


def _judge_rivals(reading: _Reading) -> None:
    first: dict[int, Option] = {}
    for option, word in reading.given:
        rival = first.setdefault(option.rivals, option) if option.rivals else option
        if rival.names != option.names:
            message = f"'{option.names[-1]}' and '{rival.names[-1]}' exclude each other"
            reading.misuses.append(Misuse(word, message, "remove one of them"))
            return


def _name(program: Word) -> str:
    return program.text.rpartition("/")[2]
