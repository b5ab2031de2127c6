"""A book of strangers cannot crash the check, nor make it run for ever."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from conftest import BookMaker

LONG_ENOUGH = 60
"""Seconds; most of these take one or two, and took minutes or crashed when they were found."""

ALIASES = "\n".join(
    ["a0: &a0 {x: 1}", *(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 9))]
)
TEXTS = {
    "an alias of itself": "```yaml\n&a [*a]\n```\n",
    "aliases of aliases": f"```yaml\n{ALIASES}\n```\n",
    "deep YAML": "```yaml\n" + "[" * 2_000 + "\n```\n",
    "a long number in TOML": "```toml\na = " + "9" * 5_000 + "\n```\n",
    "deep brackets": "It gives 3 (" + "(" * 3_000 + "2*3" + ")" * 3_000 + ").\n",
    "a long sum": "It gives 6 (1*2" + "+1" * 5_000 + ").\n",
    "a link of blanks": "[a](" + " " * 60_000 + "x y(z\n",
    "many brackets": "1 (1× " * 30_000 + "\n",
    "many sums": "1 + 1 = 3 - " * 16_000 + "\n",
    "many claims": "Currently, only a. " * 2_000 + "\n",
    "many dates": "as of 2023 " * 4_000 + "\n",
    "many old names": "Set `NCCL_ASYNC_ERROR_HANDLING`. " * 3_000 + "\n",
    "many old names in code": "```sh\n" + "export NCCL_ASYNC_ERROR_HANDLING=1\n" * 4_000 + "```\n",
    "a long ragged table": "| a | b |\n|---|---|\n" + "| 1 | 2 | 3 |\n" * 5_000,
}


@pytest.mark.slow
@pytest.mark.parametrize("name", TEXTS)
def test_the_check_ends(name: str, make_book: BookMaker, child_environment: dict[str, str]) -> None:
    """It ends with its findings, or without any, and never with a bug of ours."""
    book = make_book({"README.md": f"# T\n\n{TEXTS[name]}"})
    ended = subprocess.run(
        [sys.executable, "-m", "bindery", "check"],
        cwd=book,
        env=child_environment,
        capture_output=True,
        text=True,
        timeout=LONG_ENOUGH,
    )
    assert ended.returncode in (0, 1), ended.stderr
    assert ended.stderr == ""
