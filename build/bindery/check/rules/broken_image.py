"""broken-image: a file that is shown as an image but is not one, is of a kind that no ebook can
show, or is a drawing that runs scripts or loads other files when it is opened alone."""

from __future__ import annotations

import re
from collections.abc import Iterator
from xml.etree import ElementTree

from bindery.check.rules.rule import Rule, Scope
from bindery.core.model import Finding, Severity, Span, ToFile

RULE = Rule("broken-image", Severity.ERROR, "a file shown as an image is not one")

_OUTSIDE = re.compile(r"\s*(?:[a-z][a-z0-9+.-]*:)?//|\s*(?:file|javascript):", re.I)
_MAGIC = (
    (b"\x89PNG\r\n\x1a\n", "png"),
    (b"\xff\xd8\xff", "jpeg"),
    (b"GIF87a", "gif"),
    (b"GIF89a", "gif"),
)


def find_image_format(head: bytes) -> str:
    """The format of an image by its first bytes: png, jpeg, gif, webp, svg, or nothing."""
    for magic, name in _MAGIC:
        if head.startswith(magic):
            return name
    if head[:4] == b"RIFF" and head[8:12] == b"WEBP":
        return "webp"
    text = head.lstrip(b"\xef\xbb\xbf \t\r\n")
    return "svg" if text.startswith(b"<") and b"<svg" in text else ""


def find_image_fault(data: bytes) -> str:
    """Why these bytes are not a complete image; empty if they look like one.

    The end of the file is looked at, not every pixel: what breaks images is a copy or a download
    that stopped half way.
    """
    kind = find_image_format(data[:4096])
    if not kind:
        return "is not an image: its first bytes are of no known format"
    if kind == "svg":
        try:
            return _find_active_part(ElementTree.fromstring(data))
        except ElementTree.ParseError as error:
            return f"is a drawing that is not well formed: {error}"
    end = data[-1024:]
    whole = {"png": b"IEND" in end, "jpeg": b"\xff\xd9" in end}
    return "" if whole.get(kind, True) else f"breaks off: it is a {kind.upper()} without its end"


def _find_active_part(drawing: ElementTree.Element) -> str:
    """What an SVG does beyond drawing. In <img> it is harmless, but the site offers the file."""
    for element in drawing.iter():
        tag = str(element.tag).rpartition("}")[2]
        if tag == "script":
            return f"is a drawing with <{tag}>"
        for key, value in element.attrib.items():
            name = key.rpartition("}")[2].lower()
            if name.startswith("on"):
                return f"is a drawing with the event handler {name}"
            loads = name in ("href", "src") and tag != "a"
            if (loads and _OUTSIDE.match(value)) or value.strip().lower().startswith("javascript:"):
                return f"is a drawing that loads '{value}'"
    return ""


def check(scope: Scope) -> Iterator[Finding]:
    faults: dict[str, str] = {}

    def find_fault(path: str) -> str:
        if path not in faults:
            faults[path] = scope.tree.derive(path, "fault", str, find_image_fault)
        return faults[path]

    shown: list[tuple[Span, str]] = [
        (link.span, resolution.path)
        for _, link, resolution in scope.iterate_links()
        if link.is_image and isinstance(resolution, ToFile) and not resolution.is_folder
    ]
    cover = scope.config.cover
    if cover and scope.config.cover_span and scope.tree.find_kind(cover) == "file":
        shown.append((scope.config.cover_span, cover))
    for span, path in shown:
        if fault := find_fault(path):
            hint = "use PNG, JPEG, GIF, WebP or SVG"
            if fault.startswith("is a drawing with") or " loads " in fault:
                hint = "take that out: it would run when someone opens the file alone"
            elif "first bytes" not in fault:
                hint = "save or download it again: no browser can show it so"
            yield RULE.find(span, f"'{path}' {fault}", hint)
