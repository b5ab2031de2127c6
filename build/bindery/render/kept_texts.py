"""What the text of a chapter in an output is made from, so that one that was written before can be
used again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bindery.core.model import Chapter, ResolvedBook, ToWeb
from bindery.render.text.content import Additions


def list_parts(
    chapter: Chapter,
    resolved: ResolvedBook,
    dialect: Any,
    additions: Additions,
    web_titles: Mapping[str, str],
) -> dict[str, str]:
    """All that `render_chapter` looks at, by what a person calls it. What a dialect says of links
    and images is asked of it; what it always says is part of bindery."""
    targets = [resolved.find_target(link) for link in chapter.links]
    there = [target for target in targets if target is not None]
    hrefs = [dialect.write_href(target, chapter) for target in there]
    images = [dialect.write_image(target, chapter) for target in there]
    titles = [web_titles.get(target.url) for target in there if isinstance(target, ToWeb)]
    return {
        "its text": f"{dialect.config.maths} {chapter.title}\n{chapter.source}",
        "its place in the book": dialect.write_id(chapter, ""),
        "where its links lead": repr((targets, hrefs)),
        "its images": repr(images),
        "the notes on its numbers": repr(additions),
        "titles of pages of the web": repr(titles),
        "marks of lines": str(dialect.marks_lines),
    }
