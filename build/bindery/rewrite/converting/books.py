"""Convert a book of another tool: its chapters, their file names, and the links in them."""

from __future__ import annotations

import posixpath
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from bindery.book.markdown_files import (
    Document,
    Edit,
    apply_edits,
    find_typed,
    make_document,
    read_link_form,
)
from bindery.core.repository import Tree
from bindery.core.transaction import Texts
from bindery.core.wording import Wording, read_words
from bindery.evidence.excerpts import read_excerpts
from bindery.markdown.captions import name_exhibit
from bindery.markdown.link_typing import Form, write_form
from bindery.rewrite.converting.chapters import convert_text, find_labels
from bindery.rewrite.converting.inline import Places

_PAGES = (".html", ".htm", ".mdx", ".qmd", ".ipynb", ".rst")
"""Suffixes of pages and sources that links may have."""


class Conversion(Struct, frozen=True):
    """The changes to a book."""

    texts: Texts
    """The text of each changed chapter before and after."""
    moves: tuple[tuple[str, str], ...]
    """The chapters that get the suffix `.md`."""
    counts: Mapping[str, int]
    """How many times each kind of syntax was rewritten."""


def convert_book(tree: Tree, paths: Sequence[str], folder: str, language: str) -> Conversion:
    """Convert the chapters at these paths. Those that are not UTF-8 stay as they are. Captions of
    figures begin with the word for it in this language."""
    figure = name_exhibit("figure", Wording(read_words(language)))
    documents: dict[str, Document] = {}
    for path in paths:
        try:
            documents[path] = make_document(path, tree.read_bytes(path).decode())
        except UnicodeDecodeError:
            continue
    named = {path: f"{posixpath.splitext(path)[0]}.md" for path in documents}
    moved = {old: new for old, new in named.items() if old != new and not tree.find_kind(new)}
    labels = {
        label: (moved.get(path, path), title)
        for path, document in documents.items()
        for label, (_, title) in find_labels(path, document.chapter.source, figure)
    }
    titles = {moved.get(p, p): _read_title(document) for p, document in documents.items()}
    places = Places(labels, titles, folder, figure, lambda name: read_excerpts(tree, [name])[name])
    counts: Counter[str] = Counter()
    texts: dict[str, tuple[str, str]] = {}
    for path, document in documents.items():
        new_path = moved.get(path, path)
        text, rewritten = convert_text(document.chapter.source, new_path, places)
        if not rewritten:
            text = document.text
        elif "\r\n" in document.text:
            text = text.replace("\n", "\r\n")
        edits = list(_edit_links(make_document(new_path, text), places, moved, tree))
        counts += rewritten + Counter({"link": len(edits)})
        texts[path] = document.text, apply_edits(text, edits)
    changed = {path: pair for path, pair in texts.items() if pair[0] != pair[1]}
    return Conversion(changed, tuple(moved.items()), counts)


def _read_title(document: Document) -> str:
    """The title of a chapter without the syntax of other tools."""
    text, _ = convert_text(f"# {document.chapter.title}")
    return text.rpartition("\n")[2].removeprefix("# ")


def _edit_links(
    document: Document, places: Places, moved: Mapping[str, str], tree: Tree
) -> Iterator[Edit]:
    """Edits that make links to the other tool's pages and sources lead to the chapters."""
    chapter = document.chapter
    here = posixpath.dirname(chapter.path)
    slugs = {anchor.slug for anchor in chapter.anchors}
    for link in (*chapter.links, *(entry.link for entry in chapter.definitions)):
        typed = find_typed(link, chapter)
        if typed is None:
            continue
        form = read_link_form(link, chapter)
        label = link.destination.removeprefix("#")
        if form is not None and (meant := _find_meant(form, chapter.path, places, moved, tree)):
            wanted = write_form(replace(form, prefix=""), here, meant, slash=False)
            yield Edit(link.span, typed, wanted)
        elif link.destination.startswith("#") and label in places.labels and label not in slugs:
            path = posixpath.relpath(places.labels[label][0], here or ".")
            yield Edit(link.span, typed, f"{path}#{label}")


def _find_meant(form: Form, here: str, places: Places, moved: Mapping[str, str], tree: Tree) -> str:
    """The file that the other tool finds for a path; empty if that is the file at the path, or if
    there is none."""
    if form.path in moved:
        return moved[form.path]
    kind = tree.find_kind(form.path)
    readme = posixpath.join(form.path, "README.md")
    if kind == "file" or (readme in places.titles and not form.tail.startswith("#")):
        return ""
    starts = [form.path, *form.path.split("@site/", 1)[1:]]  # the root, for Docusaurus
    if form.prefix.startswith("/"):
        below = form.path.partition("/")[2]  # without the folder of the book on the web
        folders = (places.folder, "static")
        starts += [posixpath.join(f, path) for f in folders for path in (form.path, below) if path]
    else:  # as seen from the page `here/`, where a site has a folder per page
        folder, page = posixpath.dirname(here), posixpath.splitext(here)[0]
        starts.append(
            posixpath.normpath(posixpath.join(page, posixpath.relpath(form.path, folder or ".")))
        )
    for start in starts:
        stem, ending = posixpath.splitext(start)
        page = stem if ending in _PAGES else start
        folder = posixpath.dirname(page) if posixpath.basename(page) == "index" else page
        inside = (posixpath.join(folder, name) for name in ("README.md", "index.md"))
        choices = (f"{page}.md", *inside)
        if found := next((choice for choice in choices if choice in places.titles), ""):
            return found
        if not kind and not start.startswith("..") and tree.find_kind(start) == "file":
            return start
    return ""
