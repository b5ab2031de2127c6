"""Reports: the caret is under the offending text, whatever the line is made of."""

import pytest
from bindery.core.model import Finding, Severity, Span
from bindery.core.report import (
    format_finding,
    format_github,
    format_text,
    summarise,
)


def show(line: str, col: int, width: int) -> list[str]:
    finding = Finding(Span("a.md", 12, col, width), "dead-link", "gone", "mend it")
    return format_finding(finding, lambda span: line).split("\n")


def test_a_finding_is_place_line_caret_and_help() -> None:
    """The first line alone is enough for an editor; the others show and advise."""
    assert show("See [x](y.md)", 9, 4) == [
        "a.md:12:9: error[dead-link]: gone",
        "   |",
        "12 | See [x](y.md)",
        "   |         ^^^^",
        "   = help: mend it",
    ]


@pytest.mark.parametrize(
    ("line", "col", "width", "carets"),
    [
        ("大模型 [x](y)", 9, 1, "           ^"),
        ("e\u0301te\u0301 y", 7, 1, "    ^"),
        ("\tab", 2, 2, "\t^^"),
        ("模型", 1, 2, "^^^^"),
        ("short", 3, 40, "  ^^^"),
        ("short", 9, 1, "     ^"),
    ],
)
def test_the_caret_counts_as_a_terminal_does(line: str, col: int, width: int, carets: str) -> None:
    """Wide characters take two columns, marks none, and a tab is a tab."""
    assert show(line, col, width)[3].removeprefix("   | ").rstrip() == carets


@pytest.mark.parametrize("col", [1, 40, 150, 290])
def test_a_long_line_is_cut_around_the_place(col: int) -> None:
    """Of a long line a part is shown, with the offending text in it and marked."""
    line = "".join(f"{n:05}" for n in range(60))
    _, _, shown, carets, _ = show(line, col, 5)
    shown, carets = shown.removeprefix("12 | "), carets.removeprefix("   | ")
    assert len(shown) <= 102
    assert shown[carets.index("^") :].startswith(line[col - 1 : col + 4])
    assert carets.strip() == "^^^^^"


@pytest.mark.parametrize(
    ("severities", "links", "chapters", "line"),
    [
        ("e", 1, 1, "checked 1 link in 1 chapter: 1 error, 0 warnings"),
        ("ewew", 2104, 61, "checked 2\u00a0104 links in 61 chapters: 2 errors, 2 warnings"),
    ],
)
def test_the_last_line_counts(severities: str, links: int, chapters: int, line: str) -> None:
    """The summary counts links, chapters, errors and warnings, with a space between thousands."""
    kinds = {"e": Severity.ERROR, "w": Severity.WARNING}
    findings = [Finding(Span("a.md", 1), "x", "y", "", kinds[s]) for s in severities]
    assert summarise(findings, links, chapters) == line
    assert format_text(findings, lambda span: "", line).endswith(f"{line}\n")


def annotate(errors: int, warnings: int) -> list[str]:
    severities = [Severity.WARNING] * warnings + [Severity.ERROR] * errors
    findings = [
        Finding(Span("a.md", line, 1), "x", f"message {line}", "", severity)
        for line, severity in enumerate(severities, start=1)
    ]
    return format_github(findings).splitlines()


def test_github_is_told_of_what_it_does_not_show() -> None:
    """Of more than ten findings of a level nine are annotated, the tenth annotation counts the
    others, and a group of the log lists them."""
    assert len(annotate(10, 10)) == 20
    lines = annotate(12, 11)
    assert [line.split(" ")[0] for line in lines[:20]] == ["::error"] * 10 + ["::warning"] * 10
    assert lines[9] == ("::error title=bindery::3 more errors in 1 file: see the log of this step")
    assert lines[20] == "::group::more findings"
    assert lines[21] == "a.md:21:1: error[x]: message 21"
    assert lines[-1] == "::endgroup::"
    assert len(lines) == 20 + 1 + 5 + 1
