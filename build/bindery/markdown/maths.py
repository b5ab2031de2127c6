"""Formulas between dollars, for books with `maths: true`. The typesetters are the extra `maths`.

The site and the EPUB get MathML. The PDF gets a drawing, because its engine sets a fraction in
MathML as two digits side by side.
"""

from __future__ import annotations

import base64
import html
import re
import warnings
from functools import cache
from importlib.util import find_spec
from xml.etree import ElementTree

PACKAGES = ("latex2mathml", "ziamath")
_UNKNOWN_COMMAND = re.compile(r"<m[io]>(\\[A-Za-z]+)</m[io]>")
_FONT_SIZE = 24.0
"""Size at which ziamath draws; its lengths are divided by it to give ems."""
_LONGEST = 2000
"""Maximum characters of a formula. A longer one does not fit on a page and is slow to draw."""
_BRACES = re.compile(r"\\.|%[^\n]*|[{}]", re.DOTALL)
"""Braces, and text whose braces do not count: escaped ones and comments."""
_WORDS = re.compile(r"[A-Z][a-z]+")
_ENVIRONMENTS = {
    **dict.fromkeys(("align", "aligned", "alignat", "alignedat", "flalign", "split"), "align*"),
    **dict.fromkeys(("equation", "gather", "gathered", "multline"), "displaylines"),
    "eqnarray": "array",
    "dcases": "cases",
    **{name: name for name in ("array", "cases", "matrix", "smallmatrix")},
    **{name: name for name in ("pmatrix", "bmatrix", "Bmatrix")},
    **dict.fromkeys(("vmatrix", "Vmatrix"), "matrix"),
}
"""GitHub's environments that can be set, and the latex2mathml environment for each."""
_AROUND = {
    ("begin", "eqnarray"): ("", "{rcl}"),
    ("begin", "vmatrix"): (r"\left|", ""),
    ("end", "vmatrix"): ("", r"\right|"),
    ("begin", "Vmatrix"): (r"\left\|", ""),
    ("end", "Vmatrix"): ("", r"\right\|"),
}
"""What to put around them: the bars of latex2mathml do not grow."""
_PARTS = re.compile(
    r"%[^\n]*"
    r"|\\(?P<edge>begin|end)\s*\{(?P<name>[^{}*]*)\*?\}"
    r"(?:(?<=at\}|t\*\})\s*\{\d+\})?(?:\s*\[[tbc]\])?"
    r"|\\(?P<word>label|tag\*?|text[a-z]*|mbox)\s*\{(?P<text>(?:[^{}\\]|\\.)*)\}"
    r"|\\(?:(?P<row>\\)(?:\*|\s*\[\s*-?[\d.]+\s*[a-z]{2}\s*\])?|[A-Za-z]+|.)",
    re.DOTALL,
)
"""Comments, environments, text and row ends; other commands, so that none is split."""
_SIGN = re.compile(r"\\[&%#_$]|[&<>]")
_HIDDEN = 0xE000
"""Private characters that stand for special ones in text during conversion, because latex2mathml
does not escape those."""


class MathsError(ValueError):
    """The formula cannot be typeset; the message says why."""


def find_missing_packages() -> list[str]:
    """The required packages that are not installed."""
    return [name for name in PACKAGES if find_spec(name) is None]


@cache
def write_mathml(latex: str, *, is_block: bool) -> str:
    """A formula as MathML, with its source as alternative text.

    Raises MathsError if the formula is wrong or uses an unknown command.
    """
    _refuse_unfit(latex)
    display = "block" if is_block else "inline"
    try:
        import latex2mathml.converter

        text = _show_signs(latex2mathml.converter.convert(_rewrite(latex), display=display))
    except Exception as error:  # noqa: BLE001 - it stumbles in many ways over what it cannot read
        raise MathsError(_describe_error(error)) from None
    unknown = _UNKNOWN_COMMAND.search(text)
    if unknown:
        raise MathsError(f"there is no command {unknown[1]}")
    opening = f'<math alttext="{html.escape(latex.strip())}"'
    return text.replace("<math", opening, 1)


@cache
def draw_maths(latex: str, *, is_block: bool) -> str:
    """A formula as an inline image, with its source as alternative text.

    Raises MathsError if it cannot be drawn.
    """
    _refuse_unfit(latex)
    try:
        with warnings.catch_warnings():  # it uses a deprecated function to find its font
            warnings.simplefilter("ignore", DeprecationWarning)
            from ziamath.tex import tex2mml
            from ziamath.zmath import Math
        mathml = _show_signs(tex2mml(_rewrite(latex), inline=not is_block))
        drawing = Math(mathml, size=_FONT_SIZE).svg()
    except Exception as error:  # noqa: BLE001 - as above
        raise MathsError(_describe_error(error)) from None
    root = ElementTree.fromstring(drawing)
    _, top, width, height = (float(number) for number in root.get("viewBox", "0 0 1 1").split())
    depth = height + top
    style = (
        f"width: {width / _FONT_SIZE:.3f}em; height: {height / _FONT_SIZE:.3f}em; "
        f"vertical-align: {-depth / _FONT_SIZE:.3f}em"
    )
    data = base64.b64encode(drawing.encode()).decode()
    alt = html.escape(latex.strip())
    return (
        f'<img class="maths" src="data:image/svg+xml;base64,{data}" alt="{alt}" style="{style}"/>'
    )


def _refuse_unfit(latex: str) -> None:
    """Raises MathsError for input on which the typesetters hang, fail without a message, or
    silently lose something."""
    if len(latex) > _LONGEST:
        raise MathsError(f"it is longer than {_LONGEST} characters")
    depth = 0
    for brace in _BRACES.findall(latex):
        depth += (brace == "{") - (brace == "}")
        if depth < 0:
            raise MathsError("a closing brace has no opening brace")
    if depth:
        raise MathsError("a brace is not closed")


def _rewrite(latex: str) -> str:
    """A formula in the LaTeX that latex2mathml reads, with the same meaning.

    Raises MathsError for an environment or a command that the outputs do not support.
    """
    return _PARTS.sub(_rewrite_part, latex)


def _rewrite_part(part: re.Match[str]) -> str:
    if part["row"]:
        return r"\\ "
    if part["edge"]:
        if part["name"] not in _ENVIRONMENTS:
            known = "aligned, gathered, cases, array or a matrix"
            raise MathsError(f"the environment {part['name']} is unknown; use {known}")
        before, behind = _AROUND.get((part["edge"], part["name"]), ("", ""))
        return rf"{before}\{part['edge']}{{{_ENVIRONMENTS[part['name']]}}}{behind}"
    match part["word"]:
        case None:
            if part[0] == r"\href":
                raise MathsError(r"GitHub does not allow \href")
            is_shown = part[0][0] != "%" and part[0] not in (r"\nonumber", r"\notag")
            return part[0] if is_shown else ""
        case "label":
            return ""
        case "tag":
            return rf"\qquad {_write_words('text', '(' + part['text'] + ')')}"
        case "tag*":
            return rf"\qquad {_write_words('text', part['text'])}"
        case word:
            return _write_words(word, part["text"])


def _write_words(command: str, text: str) -> str:
    """The text in a formula, and formulas between dollars in it."""
    return "".join(
        f"{{{piece}}}" if position % 2 else rf"\{command}{{{_SIGN.sub(_hide_sign, piece)}}}"
        for position, piece in enumerate(re.split(r"(?<!\\)\$", text))
        if piece
    )


def _hide_sign(match: re.Match[str]) -> str:
    return chr(_HIDDEN + ord(match[0][-1]))


def _show_signs(mathml: str) -> str:
    """MathML with the special characters restored. Raises MathsError unless it is well formed."""
    if "<mi>&</mi>" in mathml:
        raise MathsError("'&' is not in a table such as aligned; the sign itself is written \\&")
    text = re.sub("[\ue000-\ue07f]", lambda sign: html.escape(chr(ord(sign[0]) - _HIDDEN)), mathml)
    try:
        ElementTree.fromstring(text)
    except ElementTree.ParseError:
        raise MathsError("it contains characters that it cannot show as text") from None
    return text


def _describe_error(error: Exception) -> str:
    """The name of an error as words, such as "missing end": most errors have no message."""
    if isinstance(error, MathsError):
        return str(error)
    words = [word.lower() for word in _WORDS.findall(type(error).__name__) if word != "Error"]
    return " ".join(words) or "it cannot be read"


def find_fault(latex: str, *, is_block: bool) -> str:
    """Why a formula cannot be typeset in every output; empty if it can."""
    try:
        write_mathml(latex, is_block=is_block)
        draw_maths(latex, is_block=is_block)
    except MathsError as error:
        return str(error)
    return ""
