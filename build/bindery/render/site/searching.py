"""The index for the search of a site."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence

from bindery.render.addresses import quote_path
from bindery.render.site.model import Page

INDEX = "search-index.js"


def write_index(pages: Iterable[Page], synonyms: Sequence[Sequence[str]]) -> str:
    """A script that holds the text of every section: for each page its address, its title, its
    sections as [anchor, heading, prose, tables and code, headings above], and its weight; and the
    names that mean the same. A page opened as a file can load only scripts."""
    entries = [
        [
            quote_path(page.place),
            page.title,
            [[s.slug, s.title, s.prose, s.rest, s.above] for s in page.sections],
            page.weight,
        ]
        for page in pages
        if page.sections is not None
    ]
    index = {"pages": entries, "synonyms": synonyms}
    text = json.dumps(index, ensure_ascii=False, separators=(",", ":"))
    # These two end a line in JavaScript, but not in JSON.
    text = text.replace("\N{LINE SEPARATOR}", " ").replace("\N{PARAGRAPH SEPARATOR}", " ")
    return f"window.searchIndex = {text};\n"
