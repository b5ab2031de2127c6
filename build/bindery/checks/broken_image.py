"""broken-image: a file that is shown as an image and is none, or of a kind no ebook can show."""

from __future__ import annotations

from collections.abc import Iterator

from bindery.checks.rule import Rule, Scope
from bindery.model import Finding, Severity, Span, ToFile

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


def check(scope: Scope) -> Iterator[Finding]:
    formats: dict[str, str] = {}

    def find_format(path: str) -> str:
        if path not in formats:
            with (scope.tree.root / path).open("rb") as file:
                formats[path] = find_image_format(file.read(4096))
        return formats[path]

    shown: list[tuple[Span, str]] = [
        (link.span, resolution.path)
        for _, link, resolution in scope.iterate_links()
        if link.is_image and isinstance(resolution, ToFile) and not resolution.is_folder
    ]
    cover = scope.config.cover
    if cover and scope.config.cover_span and scope.tree.find_kind(cover) == "file":
        shown.append((scope.config.cover_span, cover))
    for span, path in shown:
        if not find_format(path):
            message = f"'{path}' is not an image: its first bytes are of no known format"
            yield RULE.find(span, message, "use PNG, JPEG, GIF, WebP or SVG")
