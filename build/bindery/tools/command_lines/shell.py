"""Parse shell text without running it: the words of each command, and the first syntax error.

The grammar is that of bash. A placeholder such as `<host>` or `[options]` is a word, not an error.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import NoReturn

from msgspec import Struct, field

_BLANK = " \t"
_META = " \t\n;&|<>()"
_ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(?:\[[^\]\n]*\])?\+?=")
_LETTERS = re.compile(r"[^\s;&|<>()\\'\"$`]+")
_TO_LOOK_AT = re.compile(r"[\"\\$`]")
_PLACEHOLDER = re.compile(r"<[A-Za-z_][^<>\n`$;&\"']*(?<! )>(?![&>])")
_PARENTHESIS = re.compile("[()]")
_PARAMETERS = re.compile(r"\([ \t]*\)")
_PREFIX = re.compile(r"(?:!|time(?: +-p)?|coproc(?: +\w+(?= +[{(]))?)(?=[ \t])")
"""Prefixes of a command; after `coproc`, a name before a compound command."""
_REDIRECTION = re.compile(r"(?:\d+|\{\w+\})?(?:<<<|<<-?|<>|<&|>>|>&|>\||&>>|&>|<|>)")
_VARIABLE = re.compile(r"\$(?:[A-Za-z_][A-Za-z0-9_]*|[0-9@*#?$!-])")
_MAYBE_MANY = re.compile(r"[\[\]*?{…]|\.{3}")
"""Part of every word that stands for others, as those of the next three patterns do."""
_ELLIPSIS = re.compile(r"\[?(?:\.{3}|…)\]?")
_OPTIONAL = re.compile(r"\[[^\]\sA-Za-z]*[A-Za-z][^\]]*\]?|[^\[]*[A-Za-z.…]\]")
_GLOB = re.compile(r"[*?]|\[[^\]]{1,99}\]|\{(?=[^{}]{0,99}?(?:,|\.\.))[^{}]{0,200}\}")

_OPERATOR = re.compile(r";;&|;&|;;|&&|&>|\|\||\|&|<<|>>|\(\(|\)\)|[ \t\n;&|<>()]")
_ENDS = (";;&", ";;", ";&")
"""Terminators of the commands of a case."""


class Word(Struct, frozen=True):
    """A word of a command."""

    text: str
    """Without quotes and backslashes; variables and substitutions as typed."""
    start: int
    end: int
    """Where it is in the shell text."""
    is_open: bool = False
    """Whether a part of it is known only at run time, or is a placeholder."""
    is_many: bool = False
    """Whether it may expand to any number of words, including none."""
    is_quoted: bool = False
    """Whether the whole word is between quotes."""

    @property
    def is_plain(self) -> bool:
        return not (self.is_open or self.is_many)


class Command(Struct):
    """A simple command: its words, without redirections. `NAME=value` alone has no words."""

    words: list[Word] = field(default_factory=list)
    assignments: list[Word] = field(default_factory=list)
    """The assignments before them: `NAME=value`."""
    heredoc: str = ""
    heredoc_start: int = 0
    """Where the text for its standard input begins."""


class ShellFault(Struct, frozen=True):
    """A syntax error: where and why."""

    start: int
    end: int
    message: str
    help: str = ""


class ShellText(Struct, frozen=True):
    commands: tuple[Command, ...]
    """The commands before the fault, in the order in which they end."""
    fault: ShellFault | None


@lru_cache(maxsize=16384)
def read_shell(text: str) -> ShellText:
    """Read shell text up to its end or its first fault."""
    reader = _Reader(text)
    fault = None
    try:
        reader.read_script()
    except _Broken as broken:
        fault = broken.fault
    except RecursionError:
        pass
    return ShellText(tuple(reader.commands), fault)


_PROMPT = re.compile(r"^(?:\([\w.-]+\) ?)?(?:\[?[\w.-]+@[\w.-]+[^$#%\n]{0,60})?[$%] ", re.MULTILINE)


def iterate_prompted(text: str) -> Iterator[tuple[int, str]]:
    """The commands typed after prompts, with their offsets.

    A command goes on in the next line behind a backslash, and up to the line that ends an open
    quote, heredoc or loop, if that comes before the next prompt.
    """
    if not _PROMPT.search(text):
        return
    lines = text.split("\n")
    offsets = [0]
    for line in lines:
        offsets.append(offsets[-1] + len(line) + 1)
    index = 0
    while index < len(lines):
        prompt = _PROMPT.match(lines[index])
        if prompt is None:
            index += 1
            continue
        start = offsets[index] + prompt.end()
        while lines[index].endswith("\\") and index + 1 < len(lines):
            index += 1
        last = index
        while fault := read_shell(text[start : offsets[last + 1] - 1]).fault:
            last += 1
            is_open = fault.message.endswith(_OPEN_END) and last - index < _LONGEST
            if not is_open or last == len(lines) or _PROMPT.match(lines[last]):
                last = index
                break
        # Lines that did not complete the command are its output.
        if last > index and not read_shell(text[start : offsets[last + 1] - 1]).fault:
            index = last
        yield start, text[start : offsets[index + 1] - 1]
        index += 1


_LONGEST = 100
"""Lines of a command after a prompt."""


_OPEN_END = "is never closed"


class _Broken(Exception):
    def __init__(self, fault: ShellFault) -> None:
        super().__init__(fault.message)
        self.fault = fault


class _Heredoc(Struct, frozen=True):
    delimiter: str
    strips_tabs: bool
    start: int
    end: int
    command: Command


class _Block(Struct):
    """An open compound command or list in brackets."""

    opening: str
    start: int
    word: str
    """Its last reserved word so far, such as the `else` of an `if`."""
    count: int = 0
    """Number of commands after that word."""


_FOLLOWING = {
    "if": ("then",), "elif": ("then",), "then": ("elif", "else", "fi"), "else": ("fi",),
    "while": ("do",), "until": ("do",), "for": ("do",), "select": ("do",), "do": ("done",),
    "case": ("esac",), "{": ("}",), "(": (")",), "$(": (")",), "<(": (")",), ">(": (")",),
}  # fmt: skip
"""What may follow the commands after a word or bracket; the last closes it or must come."""
_CLOSERS = frozenset(word for words in _FOLLOWING.values() for word in words)
_MAY_BE_EMPTY = frozenset(("for", "select", "case", "$(", "<(", ">("))


class _Reader:
    """Reads from left to right; `at` is the current offset."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.commands: list[Command] = []
        self.heredocs: list[_Heredoc] = []

    def read_script(self) -> None:
        self._read_list([])
        self._read_heredocs()

    # --- faults ---

    def _break(self, start: int, end: int, message: str, hint: str = "") -> NoReturn:
        raise _Broken(ShellFault(start, max(end, start + 1), message, hint))

    def _break_at_token(self) -> NoReturn:
        start = self.at
        if start >= len(self.text):
            start = len(self.text.rstrip())
            self._break(max(start - 1, 0), start, "the code breaks off here")
        token = self._peek_token().replace("((", "(")
        hints = {
            "then": "a 'then' belongs to an 'if'",
            "do": "a 'do' belongs to a 'for' or 'while'",
            "(": "put the word that contains it in quotes",
        }
        self._break(
            start,
            start + len(token),
            f"'{token}' cannot be here",
            hints.get(token, "remove it, or add what is missing before it"),
        )

    def _peek_token(self) -> str:
        """The next operator, or the plain letters of the next word."""
        if self.at >= len(self.text):
            return ""
        found = _OPERATOR.match(self.text, self.at)
        if found:
            return found[0]
        end = self.at
        while end < len(self.text) and self.text[end] not in _META and self.text[end] not in "\"'`":
            end += 1
        if self.text[end : end + 1] in ('"', "'", "`"):
            end += 1  # if the word continues, it is not a reserved word
        return self.text[self.at : end]

    # --- lists ---

    def _read_list(self, blocks: list[_Block]) -> None:
        """Read commands up to the end, or up to the bracket that closes the first block."""
        is_nested = bool(blocks)
        operator = ""
        while True:
            start = self.at
            self._skip_blank(newlines=True)
            token = self._peek_token()
            if not token:
                if operator:
                    at = self.text.rfind(operator, 0, start)
                    hint = "add the command, or remove the operator"
                    self._break(at, at + len(operator), f"nothing follows '{operator}'", hint)
                if blocks:
                    self._break_open(blocks[-1])
                return
            token = ")" if token == "))" else token
            if token in _CLOSERS:
                if operator or not blocks or not self._go_on(blocks, token):
                    self._break_at_token()
                if is_nested and not blocks:
                    return
                if blocks and blocks[-1].word == token:
                    continue  # commands follow
            elif token in _ENDS and blocks and blocks[-1].word == "case" and not operator:
                self.at += len(token)
                self._read_pattern()
                continue
            elif (token[0] in ";&|" and token != "&>") or self._is_in_head(blocks):
                self._break_at_token()
            else:
                head = self._read_command(blocks)
                if head is not None:
                    operator = head
                    continue
            operator = self._read_operator(blocks)

    def _is_in_head(self, blocks: Sequence[_Block]) -> bool:
        """Whether the `do` of a loop has to be next."""
        return bool(blocks) and blocks[-1].word in ("for", "select")

    def _go_on(self, blocks: list[_Block], word: str) -> bool:
        """Read a word or bracket that continues or closes the last block, if it may."""
        block = blocks[-1]
        following = _FOLLOWING[block.word]
        if word not in following:
            return False
        if not block.count and block.word not in _MAY_BE_EMPTY:
            if block.word in "({":
                return False
            self._break(
                self.at,
                self.at + len(word),
                f"there is no command between '{block.word}' and '{word}'",
                "a comment does not count; write ':' for a command that does nothing",
            )
        self.at += len(word)
        if word in _FOLLOWING:
            block.word, block.count = word, 0
            return True
        blocks.pop()
        if blocks:
            blocks[-1].count += 1
        if block.opening not in ("$(", "<(", ">("):
            self._read_redirections()
        return True

    def _break_open(self, block: _Block) -> NoReturn:
        word = _FOLLOWING[block.word][-1]
        hint = f"continue it with '{word}'" if word in _FOLLOWING else f"close it with '{word}'"
        end = block.start + len(block.opening)
        self._break(block.start, end, f"'{block.opening}' {_OPEN_END}", hint)

    def _read_operator(self, blocks: Sequence[_Block]) -> str:
        """Read the operator after a command; returned if another command must follow it."""
        self._skip_blank()
        token = self._peek_token()
        if token in ("&&", "||", "|&", "|"):
            self.at += len(token)
            return token
        if token in (";", "&"):
            self.at += 1
        # After a compound command a closing word needs no semicolon.
        following = _FOLLOWING[blocks[-1].word] if blocks else ()
        if token not in ("", ";", "&", "\n", ")", "))", *_ENDS, *following):
            self._break_at_token()
        return ""

    def _skip_blank(self, *, newlines: bool = False) -> None:
        """Skip spaces, continuations and comments, and the ends of lines if asked to."""
        text = self.text
        while self.at < len(text):
            if text[self.at] in _BLANK:
                self.at += 1
            elif text.startswith("\\\n", self.at):
                self.at += 2
            elif text[self.at] == "#" and (self.at == 0 or text[self.at - 1] in _META):
                end = text.find("\n", self.at)
                self.at = len(text) if end < 0 else end
            elif newlines and text[self.at] == "\n":
                self.at += 1
                self._read_heredocs()
            else:
                return

    # --- commands ---

    def _read_command(self, blocks: list[_Block]) -> str | None:
        """Read a command, or the head of a compound command. The head of a function is returned,
        because a command must follow; for other heads, nothing is."""
        while found := _PREFIX.match(self.text, self.at):
            self.at = found.end()
            self._skip_blank()
        start, token = self.at, self._peek_token()
        if token in _CLOSERS:
            self._break_at_token()
        if token == "((" and self._skip_arithmetic():
            self._read_redirections()
        elif token == "[[":
            self._read_condition()
        elif token == "function":
            self.at += len(token)
            self._skip_blank()
            self._read_word()
            self._skip_blank()
            self._skip_parameters()
            return self.text[start : self.at]
        elif (word := token.replace("((", "(")) in _FOLLOWING and token not in _CLOSERS:
            self.at += len(word)
            blocks.append(_Block(word, start, word))
            if word in ("for", "select"):
                self._read_for(blocks)
            elif word == "case":
                self._read_case()
            return ""
        elif self._read_simple():
            return self.text[start : self.at]
        if blocks:
            blocks[-1].count += 1
        return None

    def _skip_arithmetic(self) -> bool:
        """Skip `(( ... ))`; false if the two parentheses are two subshells."""
        depth = 0
        for found in _PARENTHESIS.finditer(self.text, self.at):
            depth += 1 if found[0] == "(" else -1
            if not depth:
                is_double = self.text[found.start() - 1] == ")"
                self.at = found.end() if is_double else self.at
                return is_double
        return self._break(self.at, self.at + 2, f"'((' {_OPEN_END}", "close it with '))'")

    def _read_condition(self) -> None:
        start = self.at
        self.at += 2
        while True:
            self._skip_blank(newlines=True)
            if self.at >= len(self.text):
                self._break(start, start + 2, f"'[[' {_OPEN_END}", "close it with ']]'")
            if self.text.startswith("]]", self.at):
                self.at += 2
                break
            if self.text[self.at] in "()<>&|;":
                self.at += 1
            else:
                self._read_word()
        self._read_redirections()

    def _read_for(self, blocks: list[_Block]) -> None:
        """The head of a loop, up to its `do` or `{`."""
        self._skip_blank()
        if self.text.startswith("((", self.at):
            self._skip_arithmetic()
        else:
            self._read_word()
            self._skip_blank(newlines=True)
            if self._peek_token() == "in":
                self.at += 2
                self._skip_blank()
                while self.at < len(self.text) and self.text[self.at] not in "\n;&|":
                    if self._read_word() is None:
                        self._break_at_token()
                    self._skip_blank()
        self._skip_blank()
        if self.text.startswith(";", self.at):
            self.at += 1
        self._skip_blank(newlines=True)
        if self._peek_token() == "{":
            blocks[-1] = _Block("{", self.at, "{")
            self.at += 1

    def _read_case(self) -> None:
        self._skip_blank()
        self._read_word()
        self._skip_blank(newlines=True)
        if self._peek_token() == "in":
            self.at += 2
            self._read_pattern()
        elif self.at < len(self.text):
            self._break_at_token()

    def _read_pattern(self) -> None:
        """The pattern before the `)` of a case; nothing at the end of the cases."""
        self._skip_blank(newlines=True)
        if self._peek_token() in ("", "esac"):
            return
        depth = 0 if self.text[self.at] == "(" else 1
        while True:
            self._skip_blank()
            sign = self.text[self.at : self.at + 1]
            if sign not in ("(", ")", "|") and self._read_word() is None:
                self._break_at_token()
            elif sign in ("(", ")", "|"):
                self.at += 1
                depth += {"(": 1, ")": -1}.get(sign, 0)
                if not depth:
                    return

    def _skip_parameters(self) -> None:
        """Skip the `()` after the name of a function."""
        if found := _PARAMETERS.match(self.text, self.at):
            self.at = found.end()
        elif self.text.startswith("(", self.at):
            self._break_at_token()

    def _read_simple(self) -> bool:
        """Read a simple command; true for the head of a function instead."""
        command = Command()
        words, assignments = command.words, command.assignments
        is_redirected = False
        while True:
            self._skip_blank()
            if self.at >= len(self.text) or self.text[self.at] in "\n;|)":
                break
            if self.text[self.at] == "&" and not self.text.startswith("&>", self.at):
                break
            if self._read_redirection(command):
                is_redirected = True
                continue
            if self.text[self.at] == "(":
                if len(words) != 1 or assignments:
                    self._break_at_token()
                self._skip_parameters()
                return True
            word = self._read_word(may_assign=True)
            assert word is not None
            if not words and _ASSIGNMENT.match(self.text, word.start):
                assignments.append(word)
            else:
                words.append(word)
        if not (words or assignments or is_redirected):
            self._break_at_token()
        self.commands.append(command)
        return False

    # --- redirections and heredocs ---

    def _read_redirections(self) -> None:
        """Read redirections after a compound command."""
        self._skip_blank()
        while self.at < len(self.text) and self._read_redirection(Command()):
            self._skip_blank()

    def _read_redirection(self, command: Command) -> bool:
        found = _REDIRECTION.match(self.text, self.at)
        if (
            found is None
            or _PLACEHOLDER.match(self.text, self.at)
            or self.text.startswith(("<(", ">("), self.at)
        ):
            return False
        start, sign = self.at, found[0].lstrip("0123456789")
        self.at = found.end()
        self._skip_blank()
        word = self._read_word()
        if word is None:
            self._break(
                start,
                found.end(),
                f"nothing follows '{found[0]}'",
                "name a file, or quote the operator",
            )
        if sign in ("<<", "<<-"):
            delimiter = re.sub(r"[\"'\\]", "", self.text[word.start : word.end])
            self.heredocs.append(_Heredoc(delimiter, sign == "<<-", start, word.end, command))
        return True

    def _read_heredocs(self) -> None:
        """At the start of a line, read the bodies of the heredocs of the previous line."""
        waiting, self.heredocs = self.heredocs, []
        for heredoc in waiting:
            start = self.at
            while True:
                end = self.text.find("\n", self.at)
                end = len(self.text) if end < 0 else end
                line = self.text[self.at : end]
                if (line.lstrip("\t") if heredoc.strips_tabs else line) == heredoc.delimiter:
                    break
                if end == len(self.text):
                    self._break_heredoc(heredoc, start)
                self.at = end + 1
            heredoc.command.heredoc = self.text[start : self.at]
            heredoc.command.heredoc_start = start
            self.at = min(end + 1, len(self.text))

    def _break_heredoc(self, heredoc: _Heredoc, start: int) -> None:
        hint = f"close it with '{heredoc.delimiter}' alone on a line"
        body = self.text[start:]
        if re.search(rf"^[ \t]*{re.escape(heredoc.delimiter)}[ \t]*$", body, re.MULTILINE):
            hint = f"'{heredoc.delimiter}' must be alone on its line, without spaces around it"
        self._break(
            heredoc.start,
            heredoc.end,
            f"the heredoc '{heredoc.delimiter}' {_OPEN_END}",
            hint,
        )

    # --- words ---

    def _read_word(self, *, may_assign: bool = False) -> Word | None:
        """The word that begins here; None if there is an operator."""
        text, start = self.text, self.at
        pieces: list[str] = []
        is_open = is_many = is_split = False
        plain: list[str] = []
        while self.at < len(text):
            character = text[self.at]
            if found := _LETTERS.match(text, self.at):
                pieces.append(found[0])
                plain.append(found[0])
                self.at = found.end()
            elif character == "\\":
                if self.at + 1 < len(text) and text[self.at + 1] != "\n":
                    pieces.append(text[self.at + 1])
                self.at += 2
            elif character == "'":
                pieces.append(self._read_single_quotes())
            elif character == '"':
                piece, is_variable, every = self._read_double_quotes()
                pieces.append(piece)
                is_open, is_many = is_open or is_variable, is_many or every
            elif character in "$`":
                if text.startswith(("$'", '$"'), self.at):
                    self.at += 1
                    continue
                begin = self.at
                if self._skip_expansion():
                    is_open, is_split = True, True
                pieces.append(text[begin : self.at])
            elif character in "<>" and text.startswith("(", self.at + 1):
                self._skip_commands()
                is_open = True
            elif placeholder := _PLACEHOLDER.match(text, self.at):
                is_open = True
                pieces.append(placeholder[0])
                self.at = placeholder.end()
            elif character == "(" and may_assign and self._skip_array(start):
                is_open = True
            elif character in _META:
                break
            else:
                pieces.append(character)
                plain.append(character)
                self.at += 1
        self.at = min(self.at, len(text))
        if self.at == start:
            return None
        word = "".join(pieces)
        bare = "".join(plain)
        if not _MAYBE_MANY.search(bare):
            pass  # most words
        elif _ELLIPSIS.fullmatch(bare) or _OPTIONAL.fullmatch(bare):
            is_many = True
        elif _ELLIPSIS.search(bare) or (_GLOB.search(bare) and not _ASSIGNMENT.match(bare)):
            is_open, is_split = True, True
        is_many = is_many or (is_split and not word.startswith("-"))
        is_quoted = text[start] in "\"'" and text[self.at - 1] == text[start] and not plain
        return Word(word, start, self.at, is_open, is_many, is_quoted)

    def _read_single_quotes(self) -> str:
        start = self.at
        end = self.text.find("'", start + 1)
        if end < 0:
            self._break(start, start + 1, f"the quote ' {_OPEN_END}", "close it, or write \\'")
        self.at = end + 1
        return self.text[start + 1 : end]

    def _read_double_quotes(self) -> tuple[str, bool, bool]:
        """The text between the quotes, whether it has an expansion, and whether that may become
        any number of words."""
        text, start = self.text, self.at
        self.at += 1
        pieces: list[str] = []
        is_open = is_many = False
        while self.at < len(text):
            character = text[self.at]
            if character == '"':
                self.at += 1
                return "".join(pieces), is_open, is_many
            if character == "\\" and text[self.at + 1 : self.at + 2] in tuple('"\\$`\n'):
                pieces.append(text[self.at + 1].strip("\n"))
                self.at += 2
            elif character in "$`":
                begin = self.at
                is_open = self._skip_expansion() or is_open
                piece = text[begin : self.at]
                is_many = is_many or piece == "$@" or "[@]" in piece
                pieces.append(piece)
            else:
                found = _TO_LOOK_AT.search(text, self.at + 1)
                end = found.start() if found else len(text)
                pieces.append(text[self.at : end])
                self.at = end
        return self._break(start, start + 1, f'the quote " {_OPEN_END}', 'close it, or write \\"')

    def _skip_expansion(self) -> bool:
        """Skip an expansion after a dollar or backtick; false if there is only that character."""
        text, start = self.text, self.at
        if text[start] == "`":
            end = start + 1
            while end < len(text) and text[end] != "`":
                end += 2 if text[end] == "\\" else 1
            if end >= len(text):
                self._break(start, start + 1, f"the ` {_OPEN_END}", "close it, or quote it")
            inner = _Reader(text[:end])
            inner.at, inner.commands = start + 1, self.commands
            inner.read_script()
            self.at = end + 1
            return True
        if text.startswith("$((", start):
            self.at = start + 1
            if self._skip_arithmetic():
                return True
            self.at = start
        if text.startswith("$(", start):
            self._skip_commands()
            return True
        if text.startswith("${", start):
            self._skip_parameter()
            return True
        found = _VARIABLE.match(text, start)
        self.at = found.end() if found else start + 1
        return found is not None

    def _skip_parameter(self) -> None:
        start = self.at
        self.at += 2
        while self.at < len(self.text):
            character = self.text[self.at]
            if character == "}":
                self.at += 1
                return
            if character == "\\":
                self.at += 2
            elif character == '"':
                self._read_double_quotes()
            elif character in "$`":
                self._skip_expansion()
            else:
                self.at += 1
        self._break(start, start + 2, f"'${{' {_OPEN_END}", "close it with '}'")

    def _skip_commands(self) -> None:
        """Skip `$(...)`, `<(...)` or `>(...)`, and read the commands in it."""
        opening = self.text[self.at : self.at + 2]
        block = _Block(opening, self.at, opening)
        self.at += 2
        self._read_list([block])

    def _skip_array(self, start: int) -> bool:
        """Skip the values of an array, `NAME=(...)`."""
        if not _ASSIGNMENT.fullmatch(self.text[start : self.at]):
            return False
        opening = self.at
        self.at += 1
        while True:
            self._skip_blank(newlines=True)
            if self.at >= len(self.text):
                self._break(opening, opening + 1, f"'(' {_OPEN_END}", "close it with ')'")
            if self.text[self.at] == ")":
                self.at += 1
                return True
            if self._read_word() is None:
                self._break_at_token()
