"""Diagrams: code blocks in the language `mermaid`, which GitHub draws.

`bindery fill` runs `mmdc` to draw each of them into `figures/mermaid-HASH.svg`. HASH is that of the
source, so an outdated drawing is never shown. A checksum at the end of the file reveals edits.
Builds only read these files and never run `mmdc`.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping

from bindery.core.model import Chapter, Finding, Span
from bindery.core.repository import Tree
from bindery.markdown.prose import read_diagrams

DRAWING = re.compile(r"mermaid-[0-9a-f]{16}\.svg")
"""The file name of a drawing."""
_SEAL = re.compile(rb"<!-- checksum (?P<sum>[0-9a-f]{16}) -->\n?\Z")


def list_diagrams(chapters: Iterable[Chapter]) -> Mapping[str, Span]:
    """The source of each diagram, and its first position."""
    diagrams: dict[str, Span] = {}
    for chapter in chapters:
        for fence in read_diagrams(chapter):
            diagrams.setdefault(fence.code, fence.opening)
    return diagrams


def find_drawings(tree: Tree, folder: str, diagrams: Iterable[str]) -> Mapping[str, str]:
    """The path of each diagram's drawing in the figures folder, if it exists."""
    paths = {source: name_drawing(folder, source) for source in diagrams}
    return {source: path for source, path in paths.items() if tree.find_kind(path) == "file"}


def compare_drawings(
    tree: Tree, diagrams: Mapping[str, Span], drawings: Mapping[str, str]
) -> Iterator[Finding]:
    """Findings about diagrams without a drawing and drawings that were edited by hand."""
    for source, place in diagrams.items():
        if source not in drawings:
            message = "this diagram is not drawn, so the outputs show its source"
            hint = (
                "install mmdc (`npm install -g @mermaid-js/mermaid-cli`), run `bindery fill` and"
                " commit the drawing"
            )
            yield Finding(place, "undrawn-diagram", message, hint)
    for path in sorted(drawings.values()):
        data = tree.read_bytes(path).replace(b"\r\n", b"\n")
        seal = _SEAL.search(data)
        if seal is None or seal["sum"].decode() != _hash(data[: seal.start()]):
            message, hint = f"the drawing '{path}' was edited by hand", "delete the file and run"
            yield Finding(Span.whole(path), "edited-output", message, f"{hint} `bindery fill`")


def name_drawing(folder: str, source: str) -> str:
    """The path of the drawing of a diagram."""
    return f"{folder}/mermaid-{_hash(source.encode('utf-8', 'surrogatepass'))}.svg"


def seal_drawing(data: bytes) -> bytes:
    """A drawing with its checksum at the end."""
    return data + f"<!-- checksum {_hash(data)} -->\n".encode()


def _hash(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:16]
