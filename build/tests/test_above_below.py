"""Words of place that point across headings: which do, and that nobody is told unasked."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from conftest import BookMaker, Runner

ON = "rules: {above-below: warning}\n"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("# A\n\n## B\n\nAs shown above, it is.\n", "shown above"),
        ("# A\n\n## B\n\nThe above table has it.\n", "The above"),
        ("# A\n\n## B\n\nSee below.\n\n## C\n\nText.\n", "See below"),
        ("# A\n\nText.\n\nAs we saw earlier, it is.\n", "As we saw earlier"),
        ("# A\n\nText.\n\nMore in the next section.\n\n# B\n", "next section"),
        ("# A\n\nText.\n\nThe section above, too.\n", "section above"),
        ("# A\n\n<!-- a note -->\n\n- see above\n", "see above"),
        ("<h2>A</h2>\n\nText.\n\n<h2>B</h2>\n\nSee above.\n", "See above"),
    ],
)
def test_words_that_point_across_a_heading_are_told(
    text: str, words: str, make_book: BookMaker, run_bindery: Runner
) -> None:
    """What is above the first block of a section, or below its last, is in another section."""
    root = make_book({"README.md": text}, ON)
    found = run_bindery("check", folder=root).stdout
    assert f"warning[above-below]: '{words}' points across a heading" in found


@pytest.mark.parametrize(
    "text",
    [
        "# A\n\nText.\n\nSee above.\n",
        "# A\n\n```\ncode\n```\n\nThe code above does.\n",
        "# A\n\nThe list below:\n\n- one\n",
        "# A\n\nThe parts below tell.\n\n## B\n",
        "# A\n\n## B\n\nAbove 700 W it is hot, far above the limit, and below it is not.\n",
        "# A\n\n## B\n\nSee [the section above](#a).\n",
        "# A\n\n## B\n\n> As shown above.\n",
        "# A\n\n## See above\n\nText.\n",
    ],
)
def test_words_that_point_inside_a_section_are_left_alone(
    text: str, make_book: BookMaker, run_bindery: Runner
) -> None:
    """What the reader of the section sees may be called above or below."""
    root = make_book({"README.md": text}, ON)
    assert "above-below" not in run_bindery("check", folder=root).stdout


def test_the_rule_is_off_unless_a_book_asks_for_it(
    make_book: BookMaker, run_bindery: Runner
) -> None:
    """It is advice, which nobody is given unasked."""
    root = make_book({"README.md": "# A\n\n## B\n\nSee above.\n"})
    assert "above-below" not in run_bindery("check", folder=root).stdout
