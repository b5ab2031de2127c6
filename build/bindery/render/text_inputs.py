"""The inputs of a chapter's text in an output: the cache reuses a text while none has changed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bindery.core.model import Chapter, ResolvedBook, ToFile, ToWeb
from bindery.markdown.prose import read_diagrams
from bindery.render.text.content import Additions


def list_inputs(
    chapter: Chapter,
    resolved: ResolvedBook,
    dialect: Any,
    additions: Additions,
    web_titles: Mapping[str, str],
) -> dict[str, str]:
    """Everything that `render_chapter` reads, by what the user calls it. Of the dialect, this is
    what it answers for this chapter; what it does in every book is part of bindery."""
    targets = [resolved.find_target(link) for link in chapter.links]
    found = [target for target in targets if target is not None]
    hrefs = [dialect.write_href(target, chapter) for target in found]
    images = [dialect.write_image(target, chapter) for target in found]
    titles = [web_titles.get(target.url) for target in found if isinstance(target, ToWeb)]
    drawings = [resolved.drawings.get(fence.code) for fence in read_diagrams(chapter)]
    drawn = [dialect.write_image(ToFile(path), chapter) for path in drawings if path]
    return {
        "its text": chapter.source,
        "its entry in chapters.yaml": f"{dialect.config.maths} {chapter.title}",
        "its place in the book": dialect.write_id(chapter, ""),
        "the target of a link": repr((targets, hrefs)),
        "an image": repr((images, drawn)),
        "a note on its numbers": repr(additions),
        "what is known of a web page": repr(titles),
        "the language of the outputs": repr(sorted(dialect.words.texts.items())),
        "the preview": str(dialect.marks_lines),
    }
