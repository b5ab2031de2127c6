"""Node lists and counts per node."""

from __future__ import annotations

import pytest
from kit.cli import UsageError
from kit.slurm import expand_counts, expand_nodelist


@pytest.mark.parametrize(
    ("text", "hosts"),
    [
        ("n[09-11]", "n09 n10 n11"),
        ("n[01,1,1-2]", "n01 n1 n1 n2"),
        ("a[1-2]-ib,b", "a1-ib a2-ib b"),
        # As Slurm 22.05 printed it: the last bracket fastest, then the first.
        ("r[0-1]n[8-9]x[1-2]", "r0n8x1 r0n8x2 r1n8x1 r1n8x2 r0n9x1 r0n9x2 r1n9x1 r1n9x2"),
        ("[1-2],", "1 2"),
    ],
)
def test_node_lists(text: str, hosts: str) -> None:
    """Leading zeros, endings and several brackets."""
    assert expand_nodelist(text) == hosts.split()


@pytest.mark.parametrize("text", ["", "n[", "n[3-1]", "n[a-b]", "n[1,]", "a b"])
def test_what_is_not_a_node_list(text: str) -> None:
    """A UsageError."""
    with pytest.raises(UsageError, match="not a"):
        expand_nodelist(text)


def test_counts_per_node() -> None:
    """`8(x3),4` is three nodes with 8 and one with 4."""
    assert expand_counts("8(x3),4") == [8, 8, 8, 4]
    with pytest.raises(UsageError, match="write 8"):
        expand_counts("8(x")
