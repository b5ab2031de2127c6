"""Diagrams: code blocks in the language `mermaid`, which GitHub draws.

`bindery fill` runs `mmdc` to draw each of them into `figures/mermaid-HASH.svg`. HASH is that of the
source, so an outdated drawing is never shown. A checksum at the end of the file reveals edits.
Builds only read these files and never run `mmdc`.
"""

from __future__ import annotations

import hashlib
import json
import re
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from bindery.core.model import Chapter, Finding, Span
from bindery.core.processes import CommandTimeoutError, run_command
from bindery.core.repository import Tree
from bindery.markdown.prose import read_diagrams

DRAWING = re.compile(r"mermaid-[0-9a-f]{16}\.svg")
"""The file name of a drawing."""
_STYLE = {
    "theme": "neutral",
    "deterministicIds": True,
    "htmlLabels": False,  # HTML in a drawing is shown by browsers only
    "flowchart": {"htmlLabels": False},
    "class": {"htmlLabels": False},
}
_SECONDS = 120.0
_SEAL = re.compile(rb"<!-- checksum (?P<sum>[0-9a-f]{16}) -->\n?\Z")
_ROOT = re.compile(r"<svg\b[^>]*>")
_BOX = re.compile(r'viewBox="\S+ \S+ (?P<width>[\d.]+) (?P<height>[\d.]+)"')


class NotDrawnError(Exception):
    """A diagram could not be drawn; the message explains why."""


def list_diagrams(chapters: Iterable[Chapter]) -> Mapping[str, Span]:
    """The source of each diagram, and its first position."""
    diagrams: dict[str, Span] = {}
    for chapter in chapters:
        for fence in read_diagrams(chapter):
            diagrams.setdefault(fence.code, fence.opening)
    return diagrams


def find_drawings(tree: Tree, folder: str, diagrams: Iterable[str]) -> Mapping[str, str]:
    """The path of each diagram's drawing in the figures folder, if it exists."""
    paths = {source: _name_drawing(folder, source) for source in diagrams}
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


def draw_diagram(folder: str, source: str) -> tuple[str, bytes]:
    """The path and content of a diagram's drawing. Raises NotDrawnError, and CommandMissingError if
    mmdc is not installed."""
    with tempfile.TemporaryDirectory() as name:
        work = Path(name)
        (work / "diagram.mmd").write_text(source, encoding="utf-8")
        (work / "style.json").write_text(json.dumps(_STYLE), encoding="utf-8")
        command = ("mmdc", "-q", "-c", "style.json", "-i", "diagram.mmd", "-o", "diagram.svg")
        try:
            ended = run_command(command, folder=work, timeout=_SECONDS)
        except CommandTimeoutError as error:
            raise NotDrawnError(str(error)) from None
        drawing = work / "diagram.svg"
        if ended.returncode or not drawing.is_file():
            said = (ended.stderr + ended.stdout).strip().splitlines()
            raise NotDrawnError(f"mmdc: {said[0] if said else f'status {ended.returncode}'}")
        text = drawing.read_text(encoding="utf-8")
    if "<foreignObject" in text:
        raise NotDrawnError("mmdc writes the text of this kind of diagram as HTML, for browsers")
    text = _drop_repeated_ids(_ROOT.sub(_set_size, text, count=1))
    data = f"{text.rstrip()}\n".encode()
    return _name_drawing(folder, source), data + f"<!-- checksum {_hash(data)} -->\n".encode()


def _set_size(root: re.Match[str]) -> str:
    """The root element with the drawing's own size instead of the page's."""
    box = _BOX.search(root[0])
    if box is None:
        return root[0]
    plain = re.sub(r'\s(?:width|height|style)="[^"]*"', "", root[0])
    return f'{plain[:-1]} width="{box["width"]}" height="{box["height"]}">'


def _drop_repeated_ids(text: str) -> str:
    """Remove repeated ids; references use the first."""
    seen: set[str] = set()

    def keep_first(match: re.Match[str]) -> str:
        is_new = match[1] not in seen
        seen.add(match[1])
        return match[0] if is_new else ""

    return re.sub(r'\sid="([^"]*)"', keep_first, text)


def _name_drawing(folder: str, source: str) -> str:
    return f"{folder}/mermaid-{_hash(source.encode('utf-8', 'surrogatepass'))}.svg"


def _hash(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:16]
