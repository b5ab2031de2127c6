"""The prose and the code that rules read, and where in the file each word of it is."""

import string

from bindery.core.model import Span
from bindery.markdown.chapter_reader import parse_chapter
from bindery.markdown.prose import Passage, read_fences, read_passages
from hypothesis import given
from hypothesis import strategies as st

SOURCE = """\
# The *title* `x = 1`

Text with **bold words**, a [link](other.md "tip"), ![an image](a.png) and `a code span`,
over two lines<br>and an escaped \\* star &amp; more.

> Somebody &lt;else&gt; said so.

| a | b `c` |
|---|---|
| 12 | 12 and 13 \\| 14 |

- an item

  ```bash
  echo one
  echo two
  ```

<!-- nothing of this -->
<div>nor of this</div>

    indented code
"""


def read(source: str) -> tuple[Passage, ...]:
    return read_passages(parse_chapter("README.md", source))


def cut(source: str, span: Span) -> str:
    return source.split("\n")[span.line - 1][span.col - 1 : span.col - 1 + span.width]


def test_the_prose_of_a_chapter() -> None:
    """Passages are what a reader reads: no addresses, no images, no comments, no raw HTML."""
    assert [(p.kind, p.line, p.text, p.is_quoted) for p in read(SOURCE)] == [
        ("heading", 1, "The title x = 1", False),
        (
            "paragraph",
            3,
            """Text with bold words, a link,  and a code span,
over two lines
and an escaped * star & more.""",
            False,
        ),
        ("paragraph", 6, "Somebody <else> said so.", True),
        ("cell", 8, "a", False),
        ("cell", 8, "b c", False),
        ("cell", 10, "12", False),
        ("cell", 10, "12 and 13 | 14", False),
        ("paragraph", 12, "an item", False),
    ]


def test_words_are_placed_where_they_were_typed() -> None:
    """Marks, links, escapes, entities and the cells before move a word; its place tells."""
    passages = read(SOURCE)
    for index, word, place in (
        (0, "title", (1, 8)),
        (1, "bold", (3, 13)),
        (1, "link", (3, 30)),
        (1, "code", (3, 79)),
        (1, "lines", (4, 10)),
        (1, "star", (4, 37)),
        (1, "more", (4, 48)),
        (2, "said", (6, 25)),
        (6, "12", (10, 8)),
        (6, "14", (10, 21)),
    ):
        start = passages[index].text.index(word)
        span = passages[index].place(start, start + len(word))
        assert (span.line, span.col) == place, word
        assert cut(SOURCE, span) == word


def test_fences_know_their_lines() -> None:
    """A row of code is placed in the file, whatever it is indented by."""
    bash, plain = read_fences(parse_chapter("README.md", SOURCE))
    assert (bash.language, bash.line, bash.code) == ("bash", 15, "echo one\necho two\n")
    assert cut(SOURCE, bash.place(1)) == "echo two"
    assert cut(SOURCE, bash.place(1, 5, 3)) == "two"
    assert cut(SOURCE, bash.opening) == "```bash"
    assert (plain.language, cut(SOURCE, plain.place(0))) == ("", "indented code")


WORDS = st.text(string.ascii_letters, min_size=1, max_size=6)
DRESSES = st.sampled_from(("{}", "*{}*", "**{}**", "`{}`", "[{}](a.md)", "\\_{}", "&lt;{}", "{}  "))


@given(st.lists(st.tuples(WORDS, DRESSES), min_size=1, max_size=8), st.sampled_from(" \n"))
def test_each_word_is_found_again(words: list[tuple[str, str]], gap: str) -> None:
    """However words are dressed up, each is placed on its own letters, in their order."""
    source = gap.join(dress.format(word) for word, dress in words) + "\n"
    passage = read(source)[0]
    read_to = 0
    behind = (0, 0)
    for word, _ in words:
        start = passage.text.index(word, read_to)
        read_to = start + len(word)
        span = passage.place(start, read_to)
        assert cut(source, span) == word
        assert (span.line, span.col) > behind
        behind = (span.line, span.col)
