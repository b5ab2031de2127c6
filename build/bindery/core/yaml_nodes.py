"""Read YAML as nodes, which know their places. What is wrong with it is told with what to do."""

from __future__ import annotations

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.nodes import Node

from bindery.core.model import Span, refuse

_HINTS = {
    "mapping values are not allowed here": "put text that contains a colon in quotes",
    "found character '\\t' that cannot start any token": "indent with spaces, not with tabs",
}
_CONTEXTS = {
    "while parsing a flow sequence": "close the bracket that is opened on line {}",
    "while parsing a flow mapping": "close the brace that is opened on line {}",
    "while parsing a block mapping": "indent it like line {}, where its block begins",
    "while parsing a block collection": "indent it like line {}, where its block begins",
    "while scanning a quoted scalar": "close the quote that is opened on line {}",
}
"""What to do where the YAML breaks off inside of something, by the words for it."""


def read_nodes(path: str, text: str) -> Node | None:
    """The root node of a YAML text; None where it is empty. Tags such as `!!python/name:...` mean
    nothing. Raises ConfigError with the place in the file `path`."""
    try:
        try:
            node: Node | None = YAML(typ="safe").compose(text)
        except YAMLError:  # libyaml is quick, and ruamel says better what is wrong
            node = YAML(typ="safe", pure=True).compose(text)
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line, col = (mark.line + 1, mark.column + 1) if mark else (1, 1)
        problem = error.problem or "it is not YAML"
        hint = _HINTS.get(problem) or _hint_at_beginning(error)
        message = f"the YAML is invalid: {problem}"
        raise refuse(Span(path, line, col), message, hint) from None
    except YAMLError as error:
        raise refuse(path, str(error).splitlines()[0]) from None
    return node


def _hint_at_beginning(error: MarkedYAMLError) -> str:
    """What to do about a break inside of something that begins earlier."""
    hint = _CONTEXTS.get(error.context or "", "")
    return hint.format(error.context_mark.line + 1) if error.context_mark else ""
