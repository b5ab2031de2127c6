"""Lays out and draws a long book in two halves at the same time, one per processor.

The second half begins with the opener of a part, which starts a new page. Its page numbers are
known once the first half is laid out, and the page numbers beside links once both are. Then both
are drawn, and `joining` merges them. With one processor the halves are made one after the other,
and the file has the same bytes.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from itertools import accumulate
from multiprocessing.connection import Connection
from typing import Any
from xml.etree import ElementTree

from bindery.core.second_process import has_second_processor, talk_to_copy
from bindery.render.pdf.joining import join_files
from bindery.render.pdf.page_numbers import find_page_numbers, write_page_numbers
from bindery.render.pdf.proof import BoxReader
from bindery.render.pdf.typesetting import Typesetter, keep_log, write_plain

_CHARACTERS_OF_PAGE = 1500
"""Estimated characters per page, for the number of digits of page numbers: too many digits leave a
gap after links, too few need a second layout."""
_LONG = 40
"""A book with fewer estimated pages is made in one piece."""
Numbers = Mapping[str, int]


class Half:
    """A half of a book, or the whole of a short one."""

    def __init__(
        self,
        root: ElementTree.Element,
        setter: Typesetter,
        read: Callable[[Sequence[Any]], BoxReader],
        index: Callable[[Numbers], ElementTree.Element | None] | None = None,
    ) -> None:
        """`read` reads the pages for the proof; `index` makes the index, which comes last."""
        self._root = root
        self._setter = setter
        self._read = read
        self._index = index
        self._first = 1

    def lay_out(self, digits: int, find_first: Callable[[], int]) -> tuple[int, Numbers]:
        """The number of pages, and the page of each anchor. `find_first` is asked for the number
        of the first page when all pages are laid out."""

        def keep_first() -> int:
            self._first = find_first()
            return self._first

        self._document = self._setter.lay_out(self._root, digits=digits, find_first=keep_first)
        pages = self._document.pages
        return len(pages), find_page_numbers(pages, self._first)

    def draw(self, numbers: Numbers) -> tuple[bytes, BoxReader]:
        """The pages as a PDF that is not compressed, and what the proof needs to know of them.
        `numbers` are those of all pages that links lead to."""
        document = self._document
        tree = self._index(numbers) if self._index else None
        if tree is not None:
            pages = document.pages
            next_page = self._first + len(pages)
            digits = len(str(next_page - 1))
            index = self._setter.lay_out(tree, first_page=next_page, digits=digits)
            document = document.copy([*pages, *index.pages])
            numbers = {**find_page_numbers(index.pages, next_page), **numbers}
        write_page_numbers(document.pages, numbers)
        reader = self._read(document.pages)
        mark = f"{self._first}-" if self._first > 1 else ""
        return write_plain(document, numbers, mark), reader


def write_book(
    root: ElementTree.Element,
    setter: Typesetter,
    read: Callable[[Sequence[Any]], BoxReader],
    index: Callable[[Numbers], ElementTree.Element | None],
) -> tuple[bytes, BoxReader]:
    """The book as a PDF with page numbers beside links, and what the proof needs to know of it."""
    sizes = [sum(map(len, section.itertext())) for section in root.iterfind("body/*")]
    pages = sum(sizes) // _CHARACTERS_OF_PAGE
    middle = _find_middle(root, sizes) if pages >= _LONG and not setter.has_own_style else 0
    trees = _split(root, middle) if middle else [root]
    halves = [Half(tree, setter, read) for tree in trees[:-1]]
    halves.append(Half(trees[-1], setter, read, index))
    digits = len(str(pages))
    written = None
    while written is None:
        in_two = len(halves) == 2 and has_second_processor()
        write = _write_in_two if in_two else _write_in_turn
        written = write(halves, digits)
        digits += 1
    files, readers = zip(*written, strict=True)
    for reader in readers[1:]:
        readers[0].add(reader)
    return join_files(files), readers[0]


def _find_middle(root: ElementTree.Element, sizes: Sequence[int]) -> int:
    """Which section of the body begins a part nearest to the middle of the text; 0 without parts
    that begin a page."""
    before = [0, *accumulate(sizes)]
    openers = [n for n, s in enumerate(root.iterfind("body/*")) if s.get("class") == "part"]
    return min(openers, key=lambda n: abs(before[-1] / 2 - before[n]), default=0)


def _split(root: ElementTree.Element, middle: int) -> list[ElementTree.Element]:
    """Two trees with the sections before and from `middle`."""
    trees = []
    for part in (slice(middle), slice(middle, None)):
        tree = ElementTree.Element(root.tag, root.attrib)
        for child in root:
            if child.tag == "body":
                body = ElementTree.SubElement(tree, "body", child.attrib)
                body.extend(child[part])
            else:
                tree.append(child)
        trees.append(tree)
    return trees


Written = list[tuple[bytes, BoxReader]]


def _write_in_turn(halves: Sequence[Half], digits: int) -> Written | None:
    """Write each half; None if page numbers have more digits."""
    count, numbers = 0, dict[str, int]()

    def find_first() -> int:
        return count + 1

    for half in halves:
        more, places = half.lay_out(digits, find_first)
        count += more
        numbers = {**places, **numbers}
    if len(str(count)) > digits:
        return None
    numbers.setdefault("index.", count + 1)
    return [half.draw(numbers) for half in halves]


def _write_in_two(halves: Sequence[Half], digits: int) -> Written | None:
    """The same, with the second half in a copy of this process."""
    first, second = halves

    def write_second(connection: Connection) -> None:
        with keep_log() as log:
            connection.send(second.lay_out(digits, connection.recv))
            written = second.draw(connection.recv())
        connection.send((written, [record.getMessage() for record in log]))

    try:
        with talk_to_copy(write_second) as copy:
            count, numbers = first.lay_out(digits, lambda: 1)
            copy.send(count + 1)
            more, places = copy.recv()
            count += more
            if len(str(count)) > digits:
                return None
            numbers = {"index.": count + 1, **places, **numbers}
            copy.send(numbers)
            drawn = first.draw(numbers)
            written, messages = copy.recv()
    except (EOFError, ConnectionError):  # the copy failed, and so will this, but with an error
        return _write_in_turn(halves, digits)
    for message in messages:
        logging.getLogger("weasyprint").warning("%s", message)
    return [drawn, written]
