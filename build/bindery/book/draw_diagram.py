"""Draw a diagram with `mmdc`, Mermaid's command-line program."""

from __future__ import annotations

import json
import re
import tempfile
from pathlib import Path

from bindery.book.diagrams import name_drawing, seal_drawing
from bindery.core.processes import CommandTimeoutError, run_command

_STYLE = {
    "theme": "neutral",
    "deterministicIds": True,
    "htmlLabels": False,  # HTML in a drawing is shown by browsers only
    "flowchart": {"htmlLabels": False},
    "class": {"htmlLabels": False},
}
_SECONDS = 120.0
_ROOT = re.compile(r"<svg\b[^>]*>")
_BOX = re.compile(r'viewBox="\S+ \S+ (?P<width>[\d.]+) (?P<height>[\d.]+)"')


class NotDrawnError(Exception):
    """A diagram could not be drawn; the message explains why."""


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
    return name_drawing(folder, source), seal_drawing(data)


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
