"""loose-caption: a caption is not directly above a table or image, or a link asks for a number that
its target has not.

`**Figure:** text` above an image and `**Table:** text` above a table are captions, and the outputs
number them. `<a id="fig-x"></a>` in front gives the caption an anchor, and `[Figure](#fig-x)` is a
reference, in which the outputs show the number. The words are those of the book's language.
"""

from __future__ import annotations

from collections.abc import Iterator

from bindery.check.rules.rule import Rule, Scope
from bindery.core.model import Finding, Severity, ToChapter
from bindery.markdown.captions import name_exhibit, read_captions, read_references

RULE = Rule("loose-caption", Severity.WARNING, "a caption or a reference to one gets no number")


def check(scope: Scope) -> Iterator[Finding]:
    words = scope.config.wording
    captions = {chapter.path: read_captions(chapter, words) for chapter in scope.book.chapters}
    labels = {
        (path, caption.anchor, caption.kind)
        for path, found in captions.items()
        for caption in found
    }
    anchors = {
        (chapter.path, anchor.slug)
        for chapter in scope.book.chapters
        for anchor in chapter.anchors
        if not anchor.level
    }
    for chapter in scope.book.chapters:
        for caption in captions[chapter.path]:
            if not caption.shown:
                below = "a table" if caption.kind == "table" else "an image"
                message = f"this caption is not directly above {below}, so it gets no number"
                yield RULE.find(caption.span, message, f"move it above {below}, or reword it")
        targets = {link.span: scope.resolved.links[link] for link in chapter.links}
        for reference in read_references(chapter, words):
            match targets[reference.span]:
                case ToChapter(path, slug) if (path, slug) in anchors and (
                    (path, slug, reference.kind) not in labels
                ):
                    word = name_exhibit(reference.kind, words)
                    message = f"'{slug}' is not the anchor of a {reference.kind} with a caption"
                    hint = (
                        f"write '<a id=\"{slug}\"></a>**{word}:**' and its caption"
                        f" above the {reference.kind}, or say more than '{word}' in the link"
                    )
                    yield RULE.find(reference.span, message, hint)
                case _:
                    pass
