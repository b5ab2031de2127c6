"""How far an excuse reaches: the block below it, or its own line, and one finding of its rule."""

import pytest
from bindery.check.rules.unused_excuse import apply_excuses
from bindery.core.model import Finding, Span
from bindery.markdown.chapter_reader import parse_chapter
from hypothesis import given
from hypothesis import strategies as st

EXCUSE = "<!-- bindery: allow dead-link because it is so -->"
OTHER = "<!-- bindery: allow missing-alt because it is so -->"
RULES = ("dead-link", "missing-alt")


def excuse(source: str, *lines: int, rule: str = "dead-link") -> list[tuple[int, str]]:
    """Line and rule of what is left of findings in these lines of a chapter."""
    findings = [Finding(Span("a.md", line), rule, "gone") for line in lines]
    left = apply_excuses(findings, [parse_chapter("a.md", source)], RULES)
    return [(finding.span.line, finding.rule) for finding in left]


def reach(source: str, rule: str = "dead-link") -> list[int]:
    """The lines in which the excuse of a chapter covers a finding."""
    count = source.count("\n") + 1
    return [line for line in range(1, count + 1) if excuse(source, line, rule=rule) == []]


@pytest.mark.parametrize(
    ("source", "lines"),
    [
        (f"{EXCUSE}\none\ntwo\n\nthree\n", [2, 3]),  # a paragraph, to its end
        (f"text\n\n{EXCUSE}\n```bash\na\n\nb\n```\nmore\n", [4, 5, 6, 7, 8]),  # a block of code
        (f"{EXCUSE}\n\n| a |\n|---|\n| b |\n| c |\n\ntext\n", [3, 4, 5, 6]),  # a table
        (f"{EXCUSE}\n<!-- table: v -->\n| a |\n|---|\n| b |\n<!-- /table -->\n", [2, 3, 4, 5]),
        (f"one\ntwo {EXCUSE}\nthree\n", [2]),  # inside a line: that line
        (f"{EXCUSE}\n<div>\n<a href='x'>\n</div>\n\ntext\n", [2, 3, 4]),  # raw HTML
        (f"<table>\n<tr>\n{EXCUSE}\n<td>\n</tr>\n</table>\n", [4]),
        (f"{EXCUSE}\n- one\n  more\n- two\n", [2, 3]),  # of a list one item
        (f"- one\n\n  {EXCUSE}\n  two\n  more\n- three\n", [4, 5]),
        (f"> one\n>\n> {EXCUSE}\n> two\n> more\n\nthree\n", [4, 5]),
    ],
)
def test_an_excuse_covers_the_block_below_or_its_line(source: str, lines: list[int]) -> None:
    """Above a block an excuse covers all of it, inside a line that line, and nothing else."""
    assert reach(source) == lines


def test_one_excuse_is_for_one_finding() -> None:
    """Of two findings in a block the second needs its own excuse, above the first or in its
    line, where it is used first."""
    source = f"{EXCUSE}\none\ntwo\n"
    assert excuse(source, 2, 3) == [(3, "dead-link")]
    assert excuse(f"{EXCUSE}\n{source}", 3, 4) == []
    assert excuse(f"{EXCUSE}\none {EXCUSE}\ntwo\n", 2, 3) == []


def test_what_excuses_nothing_is_told_with_its_lines() -> None:
    """The lines that were looked at are named."""
    chapter = parse_chapter("a.md", f"{EXCUSE}\none\ntwo\n\n{EXCUSE}\nthree\n")
    messages = [finding.message for finding in apply_excuses([], [chapter], RULES)]
    assert messages == [
        "lines 2 to 3 have no finding of 'dead-link' to excuse",
        "line 6 has no finding of 'dead-link' to excuse",
    ]


blocks = st.lists(
    st.sampled_from(
        ["text", "- item", "> quote", "| a |\n|---|", "```\ncode\n```", "<b>", "", "# h"]
    )
    | st.just(EXCUSE)
    | st.just(OTHER),
    max_size=12,
)


@given(blocks, st.sampled_from(["\n", "\n\n"]))
def test_no_excuse_is_lost(pieces: list[str], gap: str) -> None:
    """In any text each excuse either covers a finding or is reported, never both, never neither."""
    chapter = parse_chapter("a.md", gap.join(pieces))
    lines = range(1, len(chapter.lines) + 1)
    findings = [Finding(Span("a.md", line), "dead-link", "gone") for line in lines]
    left = list(apply_excuses(findings, [chapter], RULES))
    unused = [finding for finding in left if finding.rule == "unused-excuse"]
    excused = len(findings) - (len(left) - len(unused))
    assert excused + len(unused) == len(chapter.excuses)
