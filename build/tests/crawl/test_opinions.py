"""Promised links compared with written ones."""

from __future__ import annotations

from bindery.core.model import Link, Span
from bindery.crawl.comparing import Promise, compare_links
from bindery.crawl.reading import Written
from hypothesis import given
from hypothesis import strategies as st

_PLACES = st.lists(st.sampled_from(("a", "b", "c#d", "https://example.org/")), max_size=12)


def _promise(places: list[str]) -> list[Promise]:
    return [
        Promise(Link(place, place, Span("a.md", number, 1, 1), "link"), place)
        for number, place in enumerate(places, 1)
    ]


def _write(places: list[str]) -> list[tuple[Written, str]]:
    return [(Written("page", place), place) for place in places]


@given(_PLACES, _PLACES)
def test_what_differs_is_the_difference(places: list[str], written: list[str]) -> None:
    """Each link is kept, lost or extra, once; a lost one has no extra one of the same place."""
    differences = compare_links(_promise(places), _write(written))
    kept = [promise.place for promise, _ in differences.kept]
    lost = [promise.place for promise, _ in differences.lost]
    instead = [w.address for _, w in differences.lost if w is not None]
    extra = [w.address for w in differences.extra]

    assert sorted(kept + lost) == sorted(places)
    assert sorted(kept + instead + extra) == sorted(written)
    assert not set(lost) & set(instead + extra)


def test_a_link_broken_over_lines_is_one_link() -> None:
    """A PDF has one link per line of its text."""
    differences = compare_links(_promise(["a", "b"]), _write(["a", "a", "b"]), repeats=True)

    assert (differences.lost, differences.extra) == ([], [])
