"""The Markdown parser: GitHub's dialect, with positions.

markdown-it-py gives only the lines of blocks, so some of its rules are wrapped here. Inline rules
write the offset of each link, image and raw tag in the inline text into `token.meta`. `Notes` keeps
what has no token: definitions, and brackets that are not a link. Inline tokens have theirs as
`brackets`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from typing import Any, Literal

from markdown_it import MarkdownIt
from markdown_it.common.utils import normalizeReference
from markdown_it.helpers import parseLinkDestination
from markdown_it.rules_block import StateBlock
from markdown_it.rules_core import StateCore
from markdown_it.rules_inline import StateInline
from markdown_it.token import Token
from mdit_py_plugins.dollarmath import dollarmath_plugin
from mdit_py_plugins.gfm import gfm_plugin
from msgspec import Struct, field

from bindery.core.model import BracketShape
from bindery.core.repository import join_lines
from bindery.markdown.emoji import read_emoji
from bindery.markdown.sorted_rules import (
    BlockRule,
    InlineRule,
    SortedBlockRuler,
    SortedInlineRuler,
)

Mark = Callable[[StateInline, int, int], None]
Place = tuple[int, int]
"""Line and column, from 1."""

_DEFINITION = re.compile(r"\[(?P<label>(?:[^\[\]\\]|\\.)+)\]:\s*", re.DOTALL)
_PATH = r"(?P<path>https?://[^\s()<>\]]+|[\w./%-]+\.(?:md|py|sh|png|svg|jpg|html)(?:#[\w-]+)?)"
_OPEN_PATH = re.compile(rf"\(<?{_PATH}")
_PATH_APART = re.compile(rf" \({_PATH}\)")
_STOPS = re.compile(
    r"[\n\\`~*_\[\]<&@^$!w:]"
    r"(?:(?<![!w:])|(?<=!)(?=\[)|(?<=w)(?=ww\.)|(?<=http:)|(?<=https:)|(?<=mailto:)|(?<=xmpp:))"
)
"""Characters at which our inline rules can begin: far fewer than in the parser's own pattern, which
also stops for other plugins' rules and at every w. The set comes first because `re` finds a set
several times faster than alternatives."""
_UNDERLINE = re.compile(r"\n[ \t>]*(?:=+|-+)[ \t]*(?:\n|$)")
"""What may underline a heading: also a thematic break, or the end of front matter."""
_PROSE_LINK = re.compile(r"\[([^\[\]\n]*)\]\((?=[^()\s]*\s)([^()\n]*(?:\n[^()\n]*)?)\)")


class DefinitionNote(Struct, frozen=True):
    """A link definition, and where its label and destination begin."""

    key: str
    label: str
    raw: str
    destination: str
    place: Place
    destination_place: Place


class BracketNote(Struct, frozen=True):
    """Brackets that are not a link, and their offsets in the inline text. A shape of "prose" is
    `[words](more words)`, with the latter as `label`; "open" is `[words](path` without an end, and
    "apart" is `[words] (path)`."""

    shape: BracketShape | Literal["prose", "open", "apart"]
    start: int
    end: int
    text: str
    label: str
    before: str
    after: str


class Notes(Struct):
    """What a text contains that has no token."""

    definitions: list[DefinitionNote] = field(default_factory=list)
    footnotes: list[tuple[Place, str]] = field(default_factory=list)
    """Label of each, and where it begins."""
    brackets: list[tuple[list[Token], BracketNote]] = field(default_factory=list)
    """With the list of tokens that they belong to; the parser later replaces that list."""
    used: set[str] = field(default_factory=set)
    """The labels that links use."""
    used_footnotes: set[str] = field(default_factory=set)


def tokenise(source: str, *, maths: bool) -> tuple[list[Token], Notes]:
    """The tokens of a text, and its notes."""
    notes = Notes()
    env: dict[str, Any] = {"notes": notes}
    tokens = make_parser(maths).parse(source, env)
    refs: dict[str, int] = env.get("footnotes", {}).get("refs", {})
    notes.used_footnotes = {label[1:] for label, number in refs.items() if number >= 0}
    return tokens, notes


_PLAIN_URL = re.compile(r"(?:https?://[a-z0-9.-]{1,60}/)?[\w./#?=&-]*", re.ASCII)
_PLAIN_LINK = re.compile(r"\[(?P<text>[^\[\]]+)\]\((?P<url>[^\s()<>\\&\x00-\x1f\x7f]+)\)")
"""A link as most are; a plain one if no inline rule can begin in its text."""


class _Parser(MarkdownIt):
    def normalizeLink(self, url: str) -> str:  # noqa: N802
        """A plain address needs no change, and most are plain."""
        return url if _PLAIN_URL.fullmatch(url) else super().normalizeLink(url)

    def validateLink(self, url: str) -> bool:  # noqa: N802
        """Accept links with a dangerous scheme: they are reported later."""
        return True


@cache
def make_parser(maths: bool = False) -> MarkdownIt:
    """The Markdown parser for GitHub's dialect; with dollar maths only if the book uses it."""
    parser = _Parser("commonmark")
    gfm_plugin(parser, front_matter=True)
    if maths:
        add_maths(parser)
        parser.core.ruler.after("block", "maths_fences", _read_maths_fences)
    _wrap_rules(parser)
    parser.inline.terminator_re = _STOPS
    parser.inline.ruler = SortedInlineRuler(parser.inline.ruler, _INLINE_BEGINNINGS)
    parser.block.ruler = SortedBlockRuler(parser.block.ruler, _LINE_BEGINNINGS)
    parser.core.ruler.at("normalize", _normalise)
    parser.core.ruler.at("inline", _read_inlines)
    parser.core.ruler.after("inline", "brackets", _attach_brackets)
    parser.core.ruler.before("text_join", "emoji", read_emoji)
    return parser


def _normalise(state: StateCore) -> None:
    """Normalise as the parser's own rule does, but faster, and note whether any heading may be
    underlined."""
    state.src = join_lines(state.src).replace("\0", "\N{REPLACEMENT CHARACTER}")
    state.env["may_have_underlines"] = _UNDERLINE.search(state.src) is not None


# --- links, images and tags ------------------------------------------------------------------


_MARKED = frozenset(
    ("link_open", "image", "html_inline", "code_inline", "math_inline", "math_inline_double")
)


def _mark_tokens(name: str, rule: InlineRule, mark: Mark) -> InlineRule:
    """Make an inline rule note the offset of its token in the inline text."""
    is_address = name.startswith("gfm_autolink")

    def marked(state: StateInline, silent: bool) -> bool:
        if is_address and silent:
            return False
        start = state.pos
        tokens = state.tokens
        count = len(tokens)
        if not rule(state, silent):
            if name == "link" and not silent:
                _note_brackets(state, start)
            return False
        if not silent:
            index = next((i for i in range(count, len(tokens)) if tokens[i].type in _MARKED), None)
            if index is not None and "at" not in tokens[index].meta:
                mark(state, start, index)
        return True

    return marked


def _read_inlines(state: StateCore) -> None:
    """Parse inline text as the parser's own rule does, but take plain text, as in most table cells,
    as it is."""
    for token in state.tokens:
        if token.type != "inline":
            continue
        token.children = []
        if _STOPS.search(token.content):
            state.md.inline.parse(token.content, state.md, state.env, token.children)
        elif token.content:
            token.children.append(Token("text", "", 0, content=token.content))


def add_maths(parser: MarkdownIt) -> None:
    """Have a parser read formulas between dollars where GitHub does: not where a space is
    inside at a dollar, nor where a letter or a digit is outside, for that is money."""
    parser.use(dollarmath_plugin, allow_blank_lines=False, double_inline=True)
    ruler = parser.inline.ruler
    rule: InlineRule = next(entry.fn for entry in ruler.__rules__ if entry.name == "math_inline")

    def read_formula(state: StateInline, silent: bool) -> bool:
        # The rule's own tests look at the end of the text instead.
        start, src = state.pos, state.src
        if start and (src[start - 1].isalnum() or src[start - 1] == "$"):
            return False
        if not rule(state, True):
            return False
        text, behind = src[start : state.pos].strip("$"), src[state.pos : state.pos + 1]
        state.pos = start
        if text[:1].isspace() or text[-1:].isspace() or behind.isalnum() or behind == "$":
            return False
        return rule(state, silent)

    ruler.at("math_inline", read_formula)


def _read_maths_fences(state: StateCore) -> None:
    """Turn code blocks with the language `math` into formulas, as GitHub does."""
    for token in state.tokens:
        if token.type == "fence" and token.info.strip() == "math":
            token.type = "math_block"


def _read_plain_links(rule: InlineRule) -> InlineRule:
    """Read a plain link with one match, and leave the others to the rule."""

    def read(state: StateInline, silent: bool) -> bool:
        plain = _PLAIN_LINK.match(state.src, state.pos, state.posMax)
        if plain is None or _STOPS.search(plain["text"]):
            return rule(state, silent)
        if not silent:
            url, (at, end) = plain["url"], plain.span("url")
            token = state.push("link_open", "a", 1)
            token.attrs = {"href": state.md.normalizeLink(url)}
            token.meta = {"at": at, "end": end, "typed": url, "destination": url, "how": "inline"}
            state.push("text", "", 0).content = plain["text"]
            state.push("link_close", "a", -1)
        state.pos = plain.end()
        return True

    return read


def _mark_link(state: StateInline, start: int, index: int) -> None:
    token = state.tokens[index]
    src, helpers = state.src, state.md.helpers
    is_image = token.type == "image"
    end = state.pos
    label_end = helpers.parseLinkLabel(state, start + is_image, not is_image)
    meta = {"at": start, "end": end, "typed": "", "destination": "", "how": "reference"}
    position = label_end + 1
    if position < end and src[position] == "(" and src[end - 1] == ")":
        position += 1
        while src[position].isspace():
            position += 1
        result = helpers.parseLinkDestination(src, position, end)
        stop = result.pos if result.ok else position
        meta |= {
            "at": position,
            "end": stop,
            "typed": src[position:stop],
            "destination": result.str,
            "how": "inline",
        }
        if stop == position:  # nothing between the parentheses: point at the whole link
            meta |= {"at": start, "end": end}
    else:
        label = src[position + 1 : end - 1] or src[start + is_image + 1 : label_end]
        key = normalizeReference(label)
        _find_notes(state).used.add(key)
        href = token.attrs.get("src" if is_image else "href", "")
        meta |= {"typed": src[start:end], "destination": str(href), "label": key}
    token.meta.update(meta)


def _mark_autolink(state: StateInline, start: int, index: int) -> None:
    token, text = state.tokens[index], state.tokens[index + 1].content
    # For a mailbox, the rule sees the @ first and then the name before it.
    at = state.src.rfind(text, max(start - len(text), 0), start + len(text) + 1)
    typed = text if at >= 0 else str(token.attrs["href"])
    at = at if at >= 0 else start
    token.meta.update(
        at=at, end=at + len(typed), typed=typed, destination=token.attrs["href"], how="autolink"
    )


def _mark_tag(state: StateInline, start: int, index: int) -> None:
    state.tokens[index].meta["at"] = start


def _mark_code(state: StateInline, start: int, index: int) -> None:
    """A code span: where its text begins, after the marks and the space that goes with them."""
    token = state.tokens[index]
    width = state.pos - start - 2 * len(token.markup) - len(token.content)
    token.meta["at"] = start + len(token.markup) + width // 2


def _mark_formula(state: StateInline, start: int, index: int) -> None:
    token = state.tokens[index]
    token.meta["at"] = start + len(token.markup)


# --- what has no token --------------------------------------------------------------------


def _find_notes(state: StateInline | StateBlock) -> Notes:
    notes: Notes = state.env.setdefault("notes", Notes())
    return notes


def _note_brackets(state: StateInline, start: int) -> None:
    """Note brackets that are not a link, in case they were meant as one."""
    src, brackets = state.src, _find_notes(state).brackets
    if brackets and brackets[-1][0] is state.tokens and start < brackets[-1][1].end:
        return  # the second half of `[text][label]`
    stop = state.md.helpers.parseLinkLabel(state, start)
    if stop < 0:
        return
    text, label, end = src[start + 1 : stop], "", stop + 1
    shape: BracketShape | Literal["prose", "open", "apart"] = "shortcut"
    follows = src[end : end + 1]
    if follows == "(":
        if prose := _PROSE_LINK.match(src, start):
            shape, label, end = "prose", prose[2], prose.end()
        elif opened := _OPEN_PATH.match(src, end):
            shape, label, end = "open", opened["path"], opened.end()
        else:
            return
    elif follows == " " and (apart := _PATH_APART.match(src, end)):
        shape, label, end = "apart", apart["path"], apart.end("path")
    elif text.startswith("^"):
        shape, label = "footnote", text[1:]
    elif follows == "[":
        second = state.md.helpers.parseLinkLabel(state, end)
        if second >= 0:
            label, end = src[end + 1 : second], second + 1
            shape = "full" if label else "collapsed"
    brackets.append(
        (
            state.tokens,
            BracketNote(
                shape,
                start,
                end,
                text,
                label or text,
                src[start - 1 : start] if start else "",
                src[end : end + 1],
            ),
        )
    )


def _attach_brackets(state: StateCore) -> None:
    """Store the brackets that are not a link in their inline tokens, as `brackets`."""
    notes: Notes = state.env.setdefault("notes", Notes())
    found: dict[int, list[BracketNote]] = {}
    for tokens, note in notes.brackets:
        found.setdefault(id(tokens), []).append(note)
    if not found:
        return
    for token in state.tokens:
        if token.type == "inline" and id(token.children) in found:
            token.meta["brackets"] = found[id(token.children)]


def _note_what_is_read(rule: BlockRule, note: Callable[[StateBlock, int], None]) -> BlockRule:
    def noted(state: StateBlock, line: int, end: int, silent: bool) -> bool:
        is_read = rule(state, line, end, silent)
        if is_read and not silent:
            note(state, line)
        return is_read

    return noted


def _look_for_underlines(rule: BlockRule) -> BlockRule:
    """Skip the rule for underlined headings, which reads every paragraph to its end, in a text that
    cannot have one."""

    def looked(state: StateBlock, line: int, end: int, silent: bool) -> bool:
        return bool(state.env.get("may_have_underlines", True)) and rule(state, line, end, silent)

    return looked


def _note_definition(state: StateBlock, first: int) -> None:
    """Read the definition that a rule has just found. Its lines may each be after the marks of
    quotes and lists, so they are joined without these."""
    starts, text = [], ""
    for line in range(first, state.line):
        start = state.bMarks[line] + state.tShift[line]
        starts.append((len(text), line, start))
        text += state.src[start : state.eMarks[line]] + "\n"

    def place(offset: int) -> Place:
        behind, line, start = next(entry for entry in reversed(starts) if entry[0] <= offset)
        at = start + offset - behind
        return line + 1, at - state.src.rfind("\n", 0, at)

    match = _DEFINITION.match(text)
    if match is None:
        return
    result = parseLinkDestination(text, match.end(), len(text))
    _find_notes(state).definitions.append(
        DefinitionNote(
            normalizeReference(match["label"]),
            match["label"],
            text[match.end() : result.pos],
            result.str,
            place(0),
            place(match.end()),
        )
    )


def _note_footnote(state: StateBlock, line: int) -> None:
    start = state.bMarks[line] + state.tShift[line]
    label = state.src[start + 2 : state.src.index("]", start)]
    column = start - state.src.rfind("\n", 0, start)
    _find_notes(state).footnotes.append(((line + 1, column), label))


# --- the rules ----------------------------------------------------------------------------


_INLINE_BEGINNINGS = {
    "text": "",
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
"""The characters that each inline rule begins with."""
_LINE_BEGINNINGS = {
    "front_matter": "-",
    "math_block": "$",
    "fence": "`~",
    "blockquote": ">",
    "hr": "*-_",
    "list": "*+-0123456789",
    "footnote_def": "[",
    "reference": "[",
    "html_block": "<",
    "heading": "#",
}
"""The characters that a line begins with for each block rule. Tables may begin with any."""
_MARKS = {
    "math_inline": _mark_formula,
    "backticks": _mark_code,
    "link": _mark_link,
    "image": _mark_link,
    "autolink": _mark_autolink,
    "html_inline": _mark_tag,
    "gfm_autolink_www": _mark_autolink,
    "gfm_autolink_protocol": _mark_autolink,
    "gfm_autolink_email": _mark_autolink,
}
_NOTES = {"footnote_def": _note_footnote, "reference": _note_definition}


def _wrap_rules(parser: MarkdownIt) -> None:
    """Make inline rules record where each token is, and block rules what has no token."""
    for inline in parser.inline.ruler.__rules__:
        if inline.name in _MARKS:
            inline.fn = _mark_tokens(inline.name, inline.fn, _MARKS[inline.name])
        if inline.name == "link":
            inline.fn = _read_plain_links(inline.fn)
    for block in parser.block.ruler.__rules__:
        if block.name in _NOTES:
            block.fn = _note_what_is_read(block.fn, _NOTES[block.name])
        elif block.name == "lheading":
            block.fn = _look_for_underlines(block.fn)
