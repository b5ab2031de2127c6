"""foreign-syntax: the text uses syntax of another book tool, which readers see as it is typed.

Each kind is reported once per chapter, at its first use. Code and comments may contain it.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import NamedTuple

from msgspec.structs import replace

from bindery.check.rules.rule import Rule, Scope
from bindery.core.model import Finding, Severity, Span
from bindery.core.report import list_more
from bindery.markdown.chapter_reader import COMPONENT_HINT
from bindery.markdown.prose import HIDDEN, INSERTED, MARKED, RAISED, JoinedProse

RULE = Rule("foreign-syntax", Severity.WARNING, "syntax of another book tool is shown as text")


class _Kind(NamedTuple):
    marks: str
    """Marks, separated by spaces. Every text that the pattern matches has at least one, when a line
    feed is put before it. Kinds share marks, because all prose is searched for each."""
    pattern: str
    what: str
    instead: str


_OR_CONVERT = "; `bindery import . --convert` does what it can"
_ALERT = "write an alert: '> [!NOTE]', and '> ' before each line of its text"
_INCLUDED = (
    "copy the text here, or link to the file; for code, write '<!-- excerpt: PATH#REGION -->' and"
    " '<!-- /excerpt -->', and run `bindery fill`"
)
_ID = r"#(?!if\b|each\b)[A-Za-z]"
_CLASS = r"\.[A-Za-z][\w-]*(?=[\s}])"
_KEY = r"(?:width|height|target|style|class|align|rel|loading|lang|scale|(?:fig|tbl|data)-[\w-]+)="

_LATEX = _Kind(
    "[",
    r"^\\?\[(?:$|(?=[^\n]*[\\^_=])[^\n]*\]$)",
    "a formula of LaTeX",
    "put it between '$$', and write 'maths: true' in chapters.yaml",
)
"""Its brackets are typed behind a backslash, which readers do not see."""

_INCLUDE = _Kind("{", r"\{\{#\w[^{}\n]*\}\}", "an include of mdBook", _INCLUDED + _OR_CONVERT)
_SNIPPET = _Kind(
    "<", r'^-+8<-+(?:[ \t]+"[^"\n]*")?$', "a snippet of MkDocs", _INCLUDED + _OR_CONVERT
)
_IN_PROSE = (
    _Kind("{", r"\{\{#title\b[^{}\n]*\}\}", "a page title of mdBook",
          "remove it: the title of a chapter is its first heading"),
    _INCLUDE,
    _SNIPPET,
    _Kind("{",
          r"\{(?:\+\+|--|==)[^{}\n]+(?:\+\+|--|==)\}|\{>>[^{}\n]+<<\}|\{[^{}\n]+~>[^{}\n]+\}",
          "a change or comment of CriticMarkup", "accept or reject it"),
    _Kind("{", r"\{\{[<%][^{}\n]*\}\}",
          "a shortcode of Quarto or Hugo", "write what it shows, or link to it"),
    _Kind("\n:", r"^::: (?:[\w-]+\.[\w.-]+|mkdocs-[\w-]+)$",
          "what a plugin of MkDocs generates", "write what it generates, or link to it"),
    _Kind("\n:", r"^:{3,}[ \t]*\{?[A-Za-z.#][^\n]*(?:\n:[\w-]+:[^\n]*)*",
          "a container of Docusaurus, Quarto, Pandoc or MyST", _ALERT + _OR_CONVERT),
    _Kind(f":{HIDDEN} }}", rf"(?::[\w:+.-]{{1,40}}:|\{{[\w:+.-]{{1,40}}\}})(?={HIDDEN})",
          "a role of Sphinx or MyST",
          "write a link, '[text](path.md#anchor)', or just the code" + _OR_CONVERT),
    _Kind("! ?",
          r'^(?:!!!|\?\?\?\+?) [a-z][\w-]*(?: inline)?(?: end)?(?: "[^"\n]*")?[ \t]*$',
          "an admonition of MkDocs",
          _ALERT + ", or use '<details><summary>' if it folds" + _OR_CONVERT),
    _Kind("\n///", r"^/{3,}[ \t]+[a-z][\w-]*(?:[ \t]*\|[^\n]*)?(?:\n[ \t]+[\w-]+:[^\n]*)*$",
          "a block of PyMdown", _ALERT + _OR_CONVERT),
    _Kind("<", r"^<{7}(?: \S[^\n]*)?$", "a conflict marker of git",
          "keep one version, and delete the lines with '<<<<<<<', '=======' and '>>>>>>>'"),
    _Kind("=", r'^===[!+]? "[^"\n]*"',
          "a tab of MkDocs", "write a heading, or '<details><summary>', per tab" + _OR_CONVERT),
    _Kind("{ =", rf"(?<!\{{)\{{:?[ \t]*{_ID}[^{{}}\n]*\}}|^\([\w:.-]+\)=$",
          "an anchor of Pandoc, Quarto, MkDocs, mdBook or MyST",
          "remove it, and link to the anchor that GitHub derives from the heading,"
          " or write '<a id=\"NAME\"></a>' above" + _OR_CONVERT),
    _Kind("{", rf"(?<!\{{)\{{:?[ \t]*(?:toc(?=\}})|{_CLASS}|(?:[\w-]+[ \t]+)?{_KEY})[^{{}}\n]*\}}",
          "a list of attributes for Pandoc, Quarto, MkDocs or Jekyll",
          'remove it; for the size of an image write \'<img src="PATH" alt="TEXT" width="400">\''),
    _Kind("@", r"\[(?:\w+ )*-?@[A-Za-z\d][^\[\]\n]*\]|(?<![\w@/])@(?:fig|tbl|sec|eq|lst)-[\w-]+",
          "a citation or reference of Pandoc or Quarto",
          "link to the source or section, or write a footnote: '[^1]'"),
    _Kind("*", r"^\*\[[^\]\n]+\]:[ \t]\S[^\n]*", "an abbreviation of MkDocs",
          "remove it, and explain the term in the text or in a glossary"),
    _Kind("+", r'(?<![\w+])\+\+(?:[a-z0-9-]+|"[^"\n]+")(?:\+(?:[a-z0-9-]+|"[^"\n]+"))*\+\+(?!\w)',
          "a key of MkDocs", "write '<kbd>Ctrl</kbd>+<kbd>C</kbd>'" + _OR_CONVERT),
    _Kind("[", r"^\[![A-Za-z]+\][^\n]*",
          "a callout of Obsidian, which GitHub does not show as an alert",
          "write '> [!NOTE]' (or TIP, IMPORTANT, WARNING, CAUTION) alone on its line, and below it"
          " the title in bold, '> **Title**'"),
    _Kind("[", r"^\[(?:toc|TOC|\[(?:toc|TOC)\])\]$",
          "a table of contents of MkDocs or GitLab",
          "remove it: GitHub and the outputs list the headings themselves"),
    _Kind("\n:", r"^:[ \t]+\S+",
          "a definition of Pandoc, MkDocs or Jekyll",
          "write a list, '- **term**: text', or '<dl>'"),
    _LATEX,
    _Kind("{", r"\{%-?[ \t]*[a-z]\w*|\{\{-?[ \t]+[\w.][^{}\n]*\}\}",
          "a tag of Liquid or Jinja, for Jekyll, MyST or Hugging Face",
          "write what it produces"),
    _Kind("\nimport < {",
          r"^import [\w{}, *]+ from [\"'][^\n]*|^</?[A-Z][a-z][\w.]*(?=\s|$)|\{/\*"
          r"|\{#(?:if|each) [^{}\n]*\}|\{:else(?: if)?\b[^{}\n]*\}|\{/(?:if|each)\}",
          "MDX, for Docusaurus or Hugging Face",
          COMPONENT_HINT + "; a comment goes between '<!--' and '-->'"),
    _Kind(":", r":(?<![\w:/.]:)(?:[+-]1|100|[a-z][a-z0-9_+-]+):(?![\w:])",
          "the name of an icon, which the outputs do not draw",
          "use an emoji that GitHub knows, such as ':rocket:', or remove it"),
    _Kind("= ^", rf"{MARKED}|{INSERTED}|{RAISED}", "a text style of MkDocs or Pandoc",
          "write '<mark>', '<ins>' or '<sup>'" + _OR_CONVERT),
)  # fmt: skip
"""In this order: what one has matched is no longer there for the next."""

_DOLLARS = _Kind(
    "$",
    r"\$\$(?=\n|[^$]*[\\^_={])[^$]+\$\$"
    r"|(?<![\w$\\])\$(?=[^\s$])(?=[^$\n]*[\\^_=])[^$\n]*[^\s$\\]\$(?![\w$])",
    "a formula, which only GitHub draws",
    "write 'maths: true' in chapters.yaml",
)
_ON_FENCES = (
    _DOLLARS._replace(marks="math", pattern="^math$"),
    _Kind("{", r"^\{(?:include|literalinclude)\}[^\n]*", "an include of MyST", _INCLUDED),
    _Kind(
        "{",
        r"^\{[A-Za-z][\w:-]*\}?",
        "a directive of MyST or a code cell of Quarto",
        "write as Markdown what it shows: an alert ('> [!NOTE]'), a table, an image or code"
        " labelled '```python'; `bindery import . --convert` does what it can",
    ),
    _Kind(
        "toc eval",
        "^(?:toc|eval_rst)$",
        "a list of contents or a raw block of d2l",
        "remove it: chapters.yaml lists the chapters",
    ),
)


def check(scope: Scope) -> Iterator[Finding]:
    used: dict[tuple[str, str], list[tuple[Span, str, str]]] = {}
    for kind, span, words in chain(_find_in_prose(scope), _find_on_fences(scope)):
        if not scope.is_generated(span.path, span.line):
            used.setdefault((span.path, kind.what), []).append((span, words, kind.instead))
    for (_, what), places in used.items():
        places.sort()
        span, words, instead = places[0]
        more = list_more([place.line for place, _, _ in places])
        message = f"'{words}' is {what}; it is shown as text{more}"
        yield RULE.find(span, message, instead)


def _find_in_prose(scope: Scope) -> Iterator[tuple[_Kind, Span, str]]:
    kinds = _IN_PROSE if scope.config.maths else (*_IN_PROSE, _DOLLARS)
    passages = list(scope.iterate_passages())
    grouped = _group_by_text(kinds, [passage.prose for _, passage in passages])
    for number, possible in grouped.items():
        chapter, passage = passages[number]
        for kind, start, end in _find_kinds(possible, passage.prose):
            span = passage.place(start, end)
            line, at = chapter.lines[span.line - 1], span.col - 1
            is_escaped = line[:at].endswith("\\")
            if is_escaped is not (kind is _LATEX):
                continue
            if is_escaped:
                span, at = replace(span, col=at, width=span.width + 1), at - 1
            yield kind, span, line[at : at + span.width]


def _find_on_fences(scope: Scope) -> Iterator[tuple[_Kind, Span, str]]:
    fences = [fence for _, fence in scope.iterate_fences()]
    grouped = _group_by_text(_ON_FENCES, [fence.info for fence in fences])
    for number, possible in grouped.items():
        fence = fences[number]
        for kind, _, end in _find_kinds(possible, fence.info):
            yield kind, fence.opening, f"```{fence.info[:end]}"
    for fence in fences:
        include = fence.code.strip()
        for kind in (_INCLUDE, _SNIPPET):
            if re.fullmatch(kind.pattern, include):  # the block contains nothing else
                yield kind, fence.place(0, 0, len(include)), include


def _group_by_text(kinds: Sequence[_Kind], texts: Sequence[str]) -> Mapping[int, Sequence[_Kind]]:
    """The kinds that each text may contain, by its index; most contain none."""
    joined = JoinedProse(texts)
    marks = {mark for kind in kinds for mark in kind.marks.split(" ")}
    marked = {mark: list(joined.find(mark)) for mark in marks}
    found: dict[int, list[_Kind]] = defaultdict(list)
    for kind in kinds:
        for number in {place for mark in kind.marks.split(" ") for place in marked[mark]}:
            found[number].append(kind)
    return found


def _find_kinds(kinds: Iterable[_Kind], text: str) -> Iterator[tuple[_Kind, int, int]]:
    for kind in kinds:
        matches = list(re.finditer(kind.pattern, text, re.M))
        yield from ((kind, *match.span()) for match in matches)
        if matches:
            text = re.sub(kind.pattern, lambda match: " " * len(match[0]), text, flags=re.M)
