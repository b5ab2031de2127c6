"""Tables on paper: widths that add up, and no column narrower than its longest word."""

import pytest
from bindery.render.text.table_layout import (
    CELL_PADDING,
    ZERO_WIDTH_SPACE,
    PageRoom,
    _measure,
    layout_table,
    split_long_words,
)
from hypothesis import given
from hypothesis import strategies as st

ROOMS = (PageRoom("normal", 60), PageRoom("small", 80), PageRoom("turned", 120))


NUMBERS = st.text("0123456789.", min_size=1, max_size=9)


PROSE = st.integers(0, 40).map(lambda count: "words " * count)
ROW = st.tuples(NUMBERS, NUMBERS, NUMBERS, NUMBERS, PROSE)


@given(st.lists(ROW, min_size=1, max_size=6))
def test_no_number_is_split(rows: list[tuple[str, ...]]) -> None:
    """Where the words fit the page at all, each column has room for its longest number."""
    layout = layout_table(rows, ROOMS)
    room = next(room.characters for room in ROOMS if room.name == layout.size) * layout.share
    for index, width in enumerate(layout.widths):
        longest = max(_measure(word) for row in rows for word in [*row[index].split(), ""])
        assert room * width / 100 >= longest + CELL_PADDING - 0.2  # percentages are rounded


def test_a_wide_table_gets_smaller_type_and_then_turns() -> None:
    """The first room that holds the longest words is taken, and the last in any case."""
    sizes = [layout_table([["accelerator"] * count], ROOMS).size for count in (2, 5, 7, 30)]
    assert sizes == ["normal", "small", "turned", "turned"]


@pytest.mark.parametrize(("words", "size"), [(3, "small"), (30, "turned")])
def test_a_page_is_turned_for_prose_only(words: int, size: str) -> None:
    """Many columns of short cells get small type and cells of a few lines; a cell of many lines
    turns the page."""
    row = [*["BF16 TFLOPS"] * 6, "word " * words]
    assert layout_table([row], ROOMS).size == size


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("short_word", "short_word"),
        ("a/very/long/path/of/files", "a/|very/|long/|path/|of/|files"),
        ("1234567890.1234567890", "1234567890.1234567890"),
        ("all-reduce-scatter-gather", "all-|reduce-|scatter-|gather"),
    ],
)
def test_long_words_break_where_a_reader_expects_it(text: str, shown: str) -> None:
    """A long word may be broken behind a separator or before a capital, a number never."""
    assert split_long_words(text).replace(ZERO_WIDTH_SPACE, "|") == shown


@given(st.text())
def test_marks_of_breaks_change_no_word(text: str) -> None:
    """Without the marks, the text is what it was."""
    text = text.replace(ZERO_WIDTH_SPACE, "")
    assert split_long_words(text).replace(ZERO_WIDTH_SPACE, "") == text
