"""Code blocks: colours, and lines broken with a mark and without losing a character."""

from xml.etree import ElementTree

import pytest
from bindery.render.text.highlighting import WRAP_MARK, highlight_code, measure_text, read_language
from bindery.render.text.markup import show_controls
from hypothesis import given
from hypothesis import strategies as st

MARK = "\N{RIGHTWARDS ARROW WITH HOOK}"


def read_shown(xhtml: str) -> str:
    """The text that a reader sees, marks included."""
    return "".join(ElementTree.fromstring(f"<pre>{xhtml}</pre>").itertext())


@pytest.mark.parametrize(
    ("info", "language"),
    [
        ("python", "python"),
        ("{.python}", "python"),
        ("bash,norun", "bash"),
        ("", ""),
    ],
)
def test_the_language_is_the_first_word(info: str, language: str) -> None:
    """A fence names its language first; what follows is for other programs."""
    assert read_language(info) == language


def test_words_of_one_colour_are_one_piece() -> None:
    """With the spaces between and behind them; what has no colour is plain text."""
    shown = highlight_code('print("a" "b")  # why\nx = not None', "python")
    assert shown == (
        '<span class="n">print</span>(<span class="s">"a" "b"</span>)  '
        '<span class="c"># why</span>\nx = <span class="k">not None</span>'
    )


def test_a_long_line_breaks_behind_a_separator() -> None:
    """A break comes behind a space, a comma or a slash where one is near, and shows a mark."""
    text = highlight_code("alpha beta gamma delta", "", columns=12)
    assert text == f"alpha beta \n{WRAP_MARK}gamma \n{WRAP_MARK}delta"


LANGUAGES = st.sampled_from(["", "python", "bash", "json", "yaml", "c", "text", "console", "diff"])
CODE = st.lists(
    st.text(st.characters(codec="utf-8", exclude_characters=f"\r\n{MARK}"))
    | st.sampled_from(
        ["--flag=value,other /a/very/long/path", "x" * 90, "\tindented", "模型" * 30]
    ),
    max_size=6,
).map(lambda lines: "\n".join(lines).rstrip("\n"))


@given(CODE, LANGUAGES, st.integers(12, 100))
def test_broken_lines_keep_every_character(code: str, language: str, columns: int) -> None:
    """Without its marks, broken code is the code itself, and no line is longer than asked."""
    shown = read_shown(highlight_code(code, language, columns))
    assert all(measure_text(line) <= columns for line in shown.split("\n"))
    assert shown.replace(f"\n{MARK}", "") == show_controls(code)
