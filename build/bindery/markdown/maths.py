"""Formulas between dollars, for books that ask for them. The typesetters are the extra `maths`.

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
"""Characters of a formula. A longer one does not fit on a page, and takes forever to draw."""
_BRACES = re.compile(r"\\.|%[^\n]*|[{}]", re.DOTALL)
"""Braces, and what has none that count: those behind a backslash or in a remark."""
_WORDS = re.compile(r"[A-Z][a-z]+")
_ALIKE = {
    **dict.fromkeys(("aligned", "align", "align*"), "split"),
    **dict.fromkeys(("gathered", "gather", "gather*", "multline", "multline*"), "array{c"),
    **dict.fromkeys(("equation", "equation*"), "array{c"),
    **dict.fromkeys(("eqnarray", "eqnarray*"), "array{rcl"),
    "dcases": "cases",
}
"""Environments that the typesetters lack, or number, and those they have that look the same."""
_KNOWN = {"split", "array", "cases", "smallmatrix", *(f"{kind}matrix" for kind in ("", *"pbBvV"))}
_ENVIRONMENT = re.compile(r"\\(begin|end)\{(\w+\*?)\}(?:\[[tbc]\])?")
_ROW_SPACE = re.compile(r"(\\\\)\s*\[[^\]]*\]")


class MathsError(ValueError):
    """A formula that cannot be set; the message says why."""


def find_missing_packages() -> list[str]:
    """The typesetters that are not installed."""
    return [name for name in PACKAGES if find_spec(name) is None]


@cache
def write_mathml(latex: str, *, is_block: bool) -> str:
    """A formula as MathML, with its source as alternative text.

    Raises MathsError if the formula is wrong or uses an unknown command.
    """
    plain = _spell_out(latex)
    display = "block" if is_block else "inline"
    try:
        import latex2mathml.converter

        text = latex2mathml.converter.convert(plain, display=display)
    except Exception as error:  # noqa: BLE001 - it stumbles in many ways over what it cannot read
        raise MathsError(_describe_error(error)) from None
    unknown = _UNKNOWN_COMMAND.search(text)
    if unknown:
        raise MathsError(f"there is no command {unknown[1]}")
    try:
        ElementTree.fromstring(text)
    except ElementTree.ParseError:
        raise MathsError(r"'&' is in no table of its own; the sign itself is \&") from None
    opening = f'<math class="maths" alttext="{html.escape(latex.strip())}"'
    return text.replace("<math", opening, 1)


@cache
def draw_maths(latex: str, *, is_block: bool) -> str:
    """A formula as an image that is on the line of its text, with its source as alternative.

    Raises MathsError if it cannot be drawn.
    """
    plain = _spell_out(latex)
    try:
        with warnings.catch_warnings():  # it finds its font in an old way
            warnings.simplefilter("ignore", DeprecationWarning)
            from ziamath.zmath import Latex
        drawing = Latex(plain, size=_FONT_SIZE, inline=not is_block).svg()
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


def _spell_out(latex: str) -> str:
    """The formula in words that both typesetters know. Raises MathsError for an environment that
    they would take for text, and as `_refuse_unfit`."""
    _refuse_unfit(latex)

    def replace(match: re.Match[str]) -> str:
        name, brace, columns = _ALIKE.get(match[2], match[2]).partition("{")
        if name not in _KNOWN:
            raise MathsError(f"there is no environment {match[2]}")
        wanted = f"{{{columns}}}" if brace and match[1] == "begin" else ""
        return f"\\{match[1]}{{{name}}}{wanted}"

    return _ENVIRONMENT.sub(replace, _ROW_SPACE.sub(r"\1 ", latex))


def _refuse_unfit(latex: str) -> None:
    """Raises MathsError for what the typesetters take for ever over, fail without a word for, or
    set as if it were whole."""
    if len(latex) > _LONGEST:
        raise MathsError(f"it is longer than {_LONGEST} characters")
    depth = 0
    for brace in _BRACES.findall(latex):
        depth += (brace == "{") - (brace == "}")
        if depth < 0:
            raise MathsError("a brace is closed that was not opened")
    if depth:
        raise MathsError("a brace is not closed")


def _describe_error(error: Exception) -> str:
    """What the name of an error says, for most of them carry no text: "missing end", say."""
    words = [word.lower() for word in _WORDS.findall(type(error).__name__) if word != "Error"]
    return " ".join(words) or "it cannot be read"


def find_fault(latex: str, *, is_block: bool) -> str:
    """Why a formula cannot be set in every output; empty where it can."""
    try:
        write_mathml(latex, is_block=is_block)
        draw_maths(latex, is_block=is_block)
    except MathsError as error:
        return str(error)
    return ""
