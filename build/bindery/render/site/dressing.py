"""What the site adds to the text of a chapter: numbers and captions of tables and figures, terms
that show their meaning, drawings that follow the theme. The author's text is not changed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from lxml import etree

from bindery.render.glossary import Term, collect_terms, mark_terms
from bindery.render.numbering import Exhibit
from bindery.render.text.captions import caption_exhibit, mark_table_notes, name_references

_XHTML = "{http://www.w3.org/1999/xhtml}"
_IN_SIGHT = 8
"""Blocks of a page that a reader may see at once."""
_OPEN, _CLOSE = '<article xmlns="http://www.w3.org/1999/xhtml">', "</article>"
_PARSER = etree.XMLParser(huge_tree=True)
_VOID = frozenset(
    f"{_XHTML}{name}"
    for name in "area br col embed hr img input link meta source track wbr".split()
)
_LONG_GLOSSARY = 40
"""Terms above which a reader wants to jump to a letter."""
_LONGEST_NAME = 24
"""Characters of a name that stays on one line."""


class DressedText:
    """The text of a chapter as a tree that is being dressed."""

    def __init__(self, body: str, *, is_glossary: bool) -> None:
        self._root: Any = etree.fromstring(f"{_OPEN}{body}{_CLOSE}", _PARSER)
        self._is_glossary = is_glossary
        self._place_lines()
        self.terms: Sequence[Term] = collect_terms(self._root, is_glossary=is_glossary)
        """The terms that the chapter explains."""

    def _place_lines(self) -> None:
        """Make attributes of what names the lines of blocks, where the dialect has asked for it."""
        for mark in self._root.iterchildren(etree.ProcessingInstruction):
            block = mark.getnext()
            if block is not None and isinstance(block.tag, str):
                block.set("data-line", mark.text)
        etree.strip_tags(self._root, etree.ProcessingInstruction)

    def caption(self, exhibits: Iterable[Exhibit], known: Mapping[str, Exhibit]) -> None:
        """Give the tables and figures of the chapter their numbers and titles, and references to
        those that are known by an address their numbers."""
        name_references(self._root, known)
        by_id = {exhibit.slug: exhibit for exhibit in exhibits}
        for element in list(self._root.iter(f"{_XHTML}table", f"{_XHTML}img")):
            exhibit = by_id.get(element.get("id", ""))
            if exhibit is None:
                continue
            caption_exhibit(element, exhibit)
            box = element.getparent()
            if element.tag == f"{_XHTML}table" and box.get("role") == "region":
                box.set("aria-label", f"{exhibit.label}: {exhibit.title}".removesuffix(": "))

    def mark_tables(self) -> None:
        """Mark tables whose rows begin with short names, which stay on a line, and the notes below
        tables."""
        for table in self._root.iter(f"{_XHTML}table"):
            rows = [row for row in table.iter(f"{_XHTML}tr") if len(row)]
            if all(len("".join(row[0].itertext()).strip()) <= _LONGEST_NAME for row in rows):
                table.set("class", "named")
            for cell in table.iter(f"{_XHTML}td"):
                if len("".join(cell.itertext()).strip()) > _LONGEST_NAME:
                    cell.set("class", f"{cell.get('class', '')} prose".strip())
        mark_table_notes(self._root)

    def mark_terms(self, terms: Mapping[str, Sequence[Term]], letters: str) -> bool:
        """Mark the terms of the glossaries; returns whether there are any. The glossary itself gets
        a line of letters, each a link to its first term, which is called `letters`."""
        if self._is_glossary and len(self.terms) > _LONG_GLOSSARY:
            self._add_letters(letters)
        return mark_terms(self._root, terms, is_glossary=self._is_glossary)

    def _add_letters(self, label: str) -> None:
        first: dict[str, str] = {}
        for term in self.terms:
            first.setdefault(term.name[0].upper(), term.anchor)
        nav = etree.Element(f"{_XHTML}nav", {"class": "letters", "aria-label": label})
        for letter, anchor in sorted(first.items()):
            link = etree.SubElement(nav, f"{_XHTML}a", {"href": f"#{anchor}"})
            link.text, link.tail = letter, " "
        start = next(e for e in self._root.iter() if e.get("id") == self.terms[0].anchor)
        while start.getparent() is not self._root:
            start = start.getparent()
        start.addprevious(nav)

    def mark_drawings(self, sources: Iterable[str]) -> None:
        """Mark the images with these addresses as drawings that know one theme only. Where an
        author gives a picture for each theme, these are left as they are."""
        known = frozenset(sources)
        for image in self._root.iter(f"{_XHTML}img"):
            if image.get("src") in known and image.getparent().tag != f"{_XHTML}picture":
                image.set("class", "drawing")

    def delay_images(self) -> None:
        """Load images when a reader comes near, except one in sight at the top."""
        images = list(self._root.iter(f"{_XHTML}img"))
        in_sight = [image for block in self._root[:_IN_SIGHT] for image in block.iter()]
        for number, image in enumerate(images):
            if number or image not in in_sight:
                image.set("loading", "lazy")

    def write(self) -> str:
        """The text as XHTML that HTML parsers read alike."""
        for element in self._root.iter():
            if not len(element) and element.text is None and element.tag not in _VOID:
                element.text = ""  # gets a closing tag
        written = etree.tostring(self._root, encoding="unicode")
        return str(written)[len(_OPEN) : -len(_CLOSE)]
