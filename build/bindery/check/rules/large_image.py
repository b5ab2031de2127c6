"""large-image: an image has more bytes or pixels than a reader can see: more than 500 kB, or more
than 2400 pixels across."""

from __future__ import annotations

from collections.abc import Iterator

from bindery.book.images import MAX_WIDTH, LargeImage, find_large, list_shown_images
from bindery.check.rules.rule import Rule, Scope
from bindery.core.model import Finding, Severity

RULE = Rule("large-image", Severity.WARNING, "an image is larger than any output displays it")


def check(scope: Scope) -> Iterator[Finding]:
    for path, span in list_shown_images(scope.config, scope.tree, scope.resolved).items():
        large = find_large(scope.tree, path)
        if large is not None:
            message = (
                f"'{path}' is large: {describe_bytes(large.bytes)}, "
                f"{large.width} × {large.height} pixels"
            )
            yield RULE.find(span, message, _advise(large))


def describe_bytes(count: int) -> str:
    return f"{count / 1e6:.1f} MB" if count >= 1_000_000 else f"{count / 1e3:.0f} kB"


def _advise(large: LargeImage) -> str:
    if large.is_wide:
        height = max(1, round(large.height * MAX_WIDTH / large.width))
        return f"scale it to {MAX_WIDTH} × {height} pixels, the widest that any output displays"
    if large.is_photo:
        return "save this photo as JPEG or WebP, about a tenth of the size"
    if large.is_png:
        return "compress it with oxipng or pngquant, or scale it down"
    return "save it with lower quality or fewer pixels, or excuse it and say why"
