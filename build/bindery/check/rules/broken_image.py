"""broken-image: an image file is damaged, or is not PNG, JPEG, GIF, WebP or SVG.

Checks the beginning and the end of the file and does not decode pixels. An SVG must not run scripts
or load other files, because the site also offers the file itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from bindery.check.rules.rule import Rule, Scope
from bindery.core.model import Finding, Severity, Span, ToFile
from bindery.core.repository import Tree

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element

RULE = Rule("broken-image", Severity.ERROR, "an image file is damaged or not an image")

_MAGIC = (
    (b"\x89PNG\r\n\x1a\n", "png"),
    (b"\xff\xd8\xff", "jpeg"),
    (b"GIF87a", "gif"),
    (b"GIF89a", "gif"),
)


def find_image_format(head: bytes) -> str:
    """The image format by magic number: png, jpeg, gif, webp, svg, or empty."""
    for magic, name in _MAGIC:
        if head.startswith(magic):
            return name
    if head[:4] == b"RIFF" and head[8:12] == b"WEBP":
        return "webp"
    text = head.lstrip(b"\xef\xbb\xbf \t\r\n")
    return "svg" if text.startswith(b"<") and b"<svg" in text else ""


def _find_fault(tree: Tree, path: str) -> str:
    """Why a file is not a complete image, or empty.

    Looks for the end marker and does not decode pixels: images break in interrupted copies.
    """
    beginning, end = tree.read_ends(path, 4096, 1024)
    kind = find_image_format(beginning)
    if not kind:
        return "is not an image: its first bytes match no known format"
    if kind == "svg":
        return tree.derive(path, "fault", str, find_drawing_fault)
    whole = {"png": b"IEND" in end, "jpeg": b"\xff\xd9" in end}
    return "" if whole.get(kind, True) else f"is truncated: {kind.upper()} without an end marker"


def find_drawing_fault(data: bytes) -> str:
    """Why an SVG is not a harmless drawing, or empty."""
    from xml.etree import ElementTree  # many books have no drawing

    try:
        return _find_active_part(ElementTree.fromstring(data))
    except ElementTree.ParseError as error:
        return f"is not well-formed SVG: {error}"


def _find_active_part(drawing: Element) -> str:
    """What an SVG does beyond drawing. Harmless in <img>, but the site also offers the file."""
    for element in drawing.iter():
        tag = str(element.tag).rpartition("}")[2]
        if tag == "script":
            return f"is an SVG with <{tag}>"
        for key, value in element.attrib.items():
            name = key.rpartition("}")[2].lower()
            if name.startswith("on"):
                return f"is an SVG with the event handler {name}"
            address = value.strip().lower()
            loads = name in ("href", "src") and tag != "a"
            if address.startswith("javascript:") or (
                loads and address and not address.startswith(("#", "data:"))
            ):
                return f"is an SVG that loads '{value}'"
    return ""


def check(scope: Scope) -> Iterator[Finding]:
    faults: dict[str, str] = {}

    def find_fault(path: str) -> str:
        if path not in faults:
            faults[path] = _find_fault(scope.tree, path)
        return faults[path]

    shown: list[tuple[Span, str]] = [
        (link.span, resolution.path)
        for _, link, resolution in scope.iterate_links()
        if link.is_image and isinstance(resolution, ToFile) and not resolution.is_folder
    ]
    shown += [(Span.whole(path), path) for path in scope.resolved.drawings.values()]
    cover = scope.config.cover
    if cover and scope.config.cover_span and scope.tree.find_kind(cover) == "file":
        shown.append((scope.config.cover_span, cover))
    for span, path in shown:
        if fault := find_fault(path):
            hint = "use PNG, JPEG, GIF, WebP or SVG"
            if fault.startswith("is an SVG with"):
                hint = "remove it: it would run when someone opens the file directly"
            elif " loads " in fault:
                hint = "remove it, or embed it as a data URL: browsers load nothing from an image"
            elif "first bytes" not in fault:
                hint = "save or download it again: browsers cannot show it"
            yield RULE.find(span, f"'{path}' {fault}", hint)
