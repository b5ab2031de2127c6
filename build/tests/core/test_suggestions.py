"""The word that was meant: a near one is offered, and nonsense is not."""

import pytest
from bindery.core.suggestions import find_nearest


@pytest.mark.parametrize(
    ("word", "choice"),
    [
        ("intor.md", "intro.md"),
        ("log.md", "long.md"),
        ("long.md", "log.md"),
        ("nxme.md", "name.md"),
        ("net.md", "network.md"),
        ("here/io.md", "there/io.md"),
        ("network/READNE.md", "network/README.md"),
        ("warn", "warning"),
    ],
)
def test_a_slip_of_the_pen_is_understood(word: str, choice: str) -> None:
    """A letter missing, added, wrong or swapped, the end left out, or another folder."""
    assert find_nearest(word, ["elsewhere.txt", choice]) == choice


@pytest.mark.parametrize(
    ("word", "choice"),
    [
        ("none.md", "long.md"),
        ("chap1.md", "chap2.md"),
        ("a.md", "b.md"),
        ("x.png", "y.png"),
        ("../img/oven-dark.png", "../img/cover.png"),
        ("figures/loss.svg.png", "figures/speedup.png"),
    ],
)
def test_an_ending_makes_no_likeness(word: str, choice: str) -> None:
    """Short names of files that share little but their ending are not taken for each other."""
    assert find_nearest(word, [choice]) == ""
