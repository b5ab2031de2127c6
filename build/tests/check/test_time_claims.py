"""Claims of today and claims with a date: which words make one, and when it ends."""

from datetime import UTC, date, datetime

import pytest
from bindery.check.time_claims import find_dated, find_undated
from fixture_types import BookMaker, Runner

UNDATED = [
    ("As of this writing there is one.", "As of this writing"),
    ("Nowadays it is fast.", "Nowadays"),
    ("Many programs these days do.", "these days"),
    ("Until recently we had none.", "Until recently"),
    ("It came out earlier this year.", "earlier this year"),
    ("It will soon be replaced.", "will soon be replaced"),
    ("NVIDIA recently announced a card.", "recently announced"),
    ("This currently requires root.", "currently requires"),
    ("The latest version is 2.3.", "latest version is"),
    ("Currently, it is one.", "Currently"),
    ("It is dense, which at the moment nobody is.", "at the moment"),
    ("Today, most are dense.", "Today, most"),
    ("vLLM is currently the leading engine.", "currently the leading"),
    ("FP4 will be added soon.", "will be added soon"),
    ("It is planned to be open sourced soon.", "to be open sourced soon"),
    ("FP8 is not yet supported.", "is not yet supported"),
    ("Nested types are not supported yet.", "are not supported yet"),
]


@pytest.mark.parametrize(("text", "words"), UNDATED)
def test_words_of_now_are_found(text: str, words: str) -> None:
    """What says "now" without a date is found, with the words that say so."""
    ((start, end, found),) = find_undated(text)
    assert found == words
    assert " ".join(text[start:end].split()) == words


@pytest.mark.parametrize(
    ("words", "dated"),
    [
        ("(2026-11)", True),
        ("on 2026-11-20", True),
        ("in Q3-2025", True),
        ("in Nov 2026", True),
        ("on March 3", True),
        ("2024 GB of it, $2024, 2024 MiB and 1,2024", False),
        ("a batch of 2048 with version 2.2024.1", False),
    ],
)
def test_a_date_makes_a_claim_that_can_be_judged(words: str, dated: bool) -> None:
    """The same words are fine in a passage with a date, where a reader would take it for one."""
    assert bool(list(find_undated(f"Nowadays it is fast: {words}."))) is not dated


@pytest.mark.parametrize(
    "text",
    [
        "The currently running job and the currently unused layers.",
        "If it was recently changed, it is read again.",
        "when a file has recently been moved",
        "the state at the moment of saving, which is not available at the moment",
        "as soon as it can, as of the first step",
        "The latest model is loaded, and the latest release is installed.",
        "A rank that is currently the leader sends the data.",
        "The memory will be released soon after the step.",
        "If the type is not yet supported, it fails.",
        "files which are not yet merged, and the lock was just released",
        'dates, not "as of this writing", and “nowadays”.',
    ],
)
def test_what_speaks_of_any_time_is_left_alone(text: str) -> None:
    """The same words are often no claim about the day of writing."""
    assert list(find_undated(text)) == []


@pytest.mark.parametrize(
    ("text", "until", "is_promise"),
    [
        ("as of 2024", date(2024, 12, 31), False),
        ("as of Sept. 2024", date(2024, 9, 30), False),
        ("as of June 3rd, 2024", date(2024, 6, 3), False),
        ("as of 2024-02", date(2024, 2, 29), False),
        ("as of Q1-2024", date(2024, 3, 31), False),
        ("as of early 2024", date(2024, 4, 30), False),
        ("Last updated: 2024-02-07", date(2024, 2, 7), False),
        ("verified on\n2024-02-07", date(2024, 2, 7), False),
        ("is expected in H1 2025", date(2025, 6, 30), True),
        ("is expected to ship in mid 2025", date(2025, 8, 31), True),
        ("will be launched by Cornelis Networks in Q2-2025", date(2025, 6, 30), True),
        ("will be available by the end of 2025", date(2025, 12, 31), True),
    ],
)
def test_a_dated_claim_holds_up_to_the_end_of_what_it_names(
    text: str, until: date, is_promise: bool
) -> None:
    """A claim as of a year, a month or a day is as old as its last day; a promise ends on it."""
    (claim,) = find_dated(f"There is one, {text}, and no more.")
    assert (claim.until, claim.is_promise) == (until, is_promise)
    assert claim.words == " ".join(text.split())


@pytest.mark.parametrize(
    "text",
    [
        "As of 2019 there was one.",
        "It was launched in 2019, and measured on 2019-05-01.",
        "as of 2024-02-30",
        "as of 2024-13",
        "It will take 2025 steps.",
        "The paper of 2019 says so.",
        'a claim ("as of 2024-05") and “will ship in 2024”',
    ],
)
def test_history_and_no_dates_are_left_alone(text: str) -> None:
    """What was, and what names no day that there is, does not grow old."""
    assert list(find_dated(text)) == []


@pytest.mark.parametrize(
    ("shelf_life", "day", "is_old"),
    [
        ("", date(2025, 12, 15), False),
        ("", date(2026, 1, 15), True),
        ("claims: {shelf_life: 90 days}\n", date(2024, 9, 28), False),
        ("claims: {shelf_life: 90 days}\n", date(2024, 9, 29), True),
    ],
)
def test_a_book_says_how_long_its_claims_hold(
    shelf_life: str,
    day: date,
    is_old: bool,
    make_book: BookMaker,
    run_bindery: Runner,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A claim is old the day after its shelf life, 18 months unless the book says otherwise."""
    seconds = datetime(day.year, day.month, day.day, tzinfo=UTC).timestamp()
    monkeypatch.setenv("SOURCE_DATE_EPOCH", str(int(seconds)))
    root = make_book({"README.md": "# A\n\nThere is one as of June 2024.\n"}, shelf_life)
    assert ("[old-claim]" in run_bindery("check", folder=root).stdout) is is_old


@pytest.mark.parametrize(
    ("text", "is_told"),
    [
        ("# A\n\nNowadays it is so.\n", True),
        ("---\ndate: 2026-11-01\n---\n\n# A\n\nNowadays it is so.\n", False),
        ("# A in 2026\n\n## B\n\nNowadays it is so.\n", False),
        ("# A\n\n## B in 2026\n\nText.\n\n## C\n\nNowadays it is so.\n", True),
        ("# A\n\nWritten in May 2026.\n\nText.\n\n## B\n\nNowadays it is so.\n", False),
        ("# A\n\nIn May 2026 we ran it.\n\nNowadays it is so.\n", True),
    ],
)
def test_a_section_can_have_the_date_of_all_its_claims(
    text: str, is_told: bool, make_book: BookMaker, run_bindery: Runner
) -> None:
    """The date of a heading, or a first line that says when it was written, holds for all below."""
    found = run_bindery("check", folder=make_book({"README.md": text})).stdout
    assert ("[undated-claim]" in found) is is_told
