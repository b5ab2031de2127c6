"""The author's own style sheets, one for each output, which come after ours."""

from __future__ import annotations

import base64
import mimetypes
import posixpath
import re
from urllib.parse import unquote

from bindery.core.config import Config
from bindery.core.model import Span, refuse
from bindery.core.repository import Tree

_URL = re.compile(r"""url\(\s*(["']?)(?!data:|#)([^"')\s]+)\1\s*\)""")


def read_author_style(config: Config, tree: Tree, output: str) -> str:
    """The author's style sheet for an output, with the fonts and pictures that it names inside it;
    empty without one. Raises ConfigError where one of them is not in the book."""
    path = config.style.get(output)
    if path is None:
        return ""
    text = tree.read_bytes(path).decode("utf-8", errors="replace")

    def embed(match: re.Match[str]) -> str:
        file = posixpath.normpath(posixpath.join(posixpath.dirname(path), unquote(match[2])))
        if tree.find_kind(file) != "file":
            place = Span(path, text.count("\n", 0, match.start()) + 1, 1)
            message = f"the style sheet names '{match[2]}', and there is no such file"
            raise refuse(place, message, "fonts and pictures of a style lie in the book")
        kind = mimetypes.guess_type(file)[0] or "application/octet-stream"
        data = base64.b64encode(tree.read_bytes(file)).decode()
        return f'url("data:{kind};base64,{data}")'

    return f"\n{_URL.sub(embed, text)}"
