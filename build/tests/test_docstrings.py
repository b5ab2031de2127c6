"""What the docstring of a tool is cut into."""

from __future__ import annotations

from bindery.docstrings import Block, read_docstring, split_docstring


def test_a_docstring_has_a_question_headings_paragraphs_and_what_was_typed() -> None:
    """Lines set below each other stay as they are, all others flow."""
    question, blocks = split_docstring(
        read_docstring(
            '''r"""How fast?

A paragraph
of two lines.

Physics
    rate = work / seconds.  Hand check: one in 2 s is 0.5.
    It is so:
        deeper   line
        and more
How to run:
    here      tool.py
    a very long label tool.py
    there     tool.py \\\\
                  --more

Exit status: 0.
"""
'''
        )
    )
    assert question == "How fast?"
    assert blocks == [
        Block("paragraph", "A paragraph of two lines."),
        Block("heading", "Physics"),
        Block("paragraph", "rate = work / seconds.  Hand check: one in 2 s is 0.5. It is so:"),
        Block("typed", "deeper   line\nand more"),
        Block("heading", "How to run"),
        Block(
            "typed",
            "here      tool.py\na very long label tool.py\n"
            "there     tool.py \\\\\n              --more",
        ),
        Block("paragraph", "Exit status: 0."),
    ]


def test_sentences_in_two_columns_are_terms() -> None:
    """A label and its sentence flow; commands, and columns that do not hold, stay as typed."""
    text = """What?

All:
    output      lines
    --heartbeat every file has to change
    --log       files of which one has
                to grow

    here        tool.py \\
                --more
    there       tool.py

    a  one line
    b    another column
         that goes on
"""
    _, (heading, *blocks) = split_docstring(text)
    assert heading == Block("heading", "All")
    assert [block.kind for block in blocks] == ["terms", "typed", "typed"]
    assert blocks[0].terms == (
        ("output", "lines"),
        ("--heartbeat", "every file has to change"),
        ("--log", "files of which one has to grow"),
    )


def test_what_is_no_python_has_no_docstring() -> None:
    """A script of another language, a file with a NUL and one without a docstring give nothing."""
    for source in ("#!/bin/sh\necho 'hi\n", "a\0b", "x = 1\n", ""):
        assert read_docstring(source) == ""
    assert split_docstring("") == ("", [])
