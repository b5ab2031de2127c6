"""broken-image: a file that is shown as an image and is none, or of a kind no ebook can show."""

from __future__ import annotations

from collections.abc import Iterator
from xml.etree import ElementTree

from bindery.check.rules.rule import Rule, Scope
from bindery.core.model import Finding, Severity, Span, ToFile

RULE = Rule("broken-image", Severity.ERROR, "a file shown as an image is none")

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
    """Why these bytes are no whole image; empty where they look like one.

    The end of the file is looked at, not every pixel: what breaks images is a copy or a download
    that stopped half way.
    """
    kind = find_image_format(data[:4096])
    if not kind:
        return "is not an image: its first bytes are of no known format"
    if kind == "svg":
        try:
            ElementTree.fromstring(data)
        except ElementTree.ParseError as error:
            return f"is a drawing that is not well formed: {error}"
        return ""
    end = data[-1024:]
    whole = {"png": b"IEND" in end, "jpeg": b"\xff\xd9" in end}
    return "" if whole.get(kind, True) else f"breaks off: it is a {kind.upper()} without its end"


def check(scope: Scope) -> Iterator[Finding]:
    faults: dict[str, str] = {}

    def find_fault(path: str) -> str:
        if path not in faults:
            faults[path] = find_image_fault(scope.tree.read_bytes(path))
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
            if "first bytes" not in fault:
                hint = "save or download it again: no browser can show it so"
            yield RULE.find(span, f"'{path}' {fault}", hint)
