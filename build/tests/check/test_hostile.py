"""A book of strangers cannot crash the check, nor make it run for ever."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from conftest import BookMaker

LONG_ENOUGH = 60
"""Seconds; most of these take one or two, and took minutes or crashed when they were found."""

ALIASES = "\n".join(
    ["a0: &a0 {x: 1}", *(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 9))]
)


def make_texts(part: int) -> dict[str, str]:
    """Hard texts by their names, in full or each to one of so many parts."""

    def n(count: int) -> int:
        return count // part

    return {
        "an alias of itself": "```yaml\n&a [*a]\n```\n",
        "aliases of aliases": f"```yaml\n{ALIASES}\n```\n",
        "deep YAML": "```yaml\n" + "[" * n(2_000) + "\n```\n",
        "a long number in TOML": "```toml\na = " + "9" * n(5_000) + "\n```\n",
        "deep brackets": "It gives 3 (" + "(" * n(3_000) + "2*3" + ")" * n(3_000) + ").\n",
        "a long sum": "It gives 6 (1*2" + "+1" * n(5_000) + ").\n",
        "a link of blanks": "[a](" + " " * n(60_000) + "x y(z\n",
        "many brackets": "1 (1× " * n(30_000) + "\n",
        "many sums": "1 + 1 = 3 - " * n(16_000) + "\n",
        "many claims": "Currently, only a. " * n(2_000) + "\n",
        "many dates": "as of 2023 " * n(4_000) + "\n",
        "many old names": "Set `NCCL_ASYNC_ERROR_HANDLING`. " * n(3_000) + "\n",
        "many old names in code": "```sh\n"
        + "export NCCL_ASYNC_ERROR_HANDLING=1\n" * n(4_000)
        + "```\n",
        "a long ragged table": "| a | b |\n|---|---|\n" + "| 1 | 2 | 3 |\n" * n(5_000),
        "many links in a line": "[x](a.md) w " * n(16_000) + "\n",
        "much of all in a line": "[x](a.md) *w* `c` <b>t</b> ![i](p.png) <http://e.org> a &amp; b "
        * n(3_000)
        + "\n",
        "many bare addresses": "www.a.org a@b.org https://a.org/x " * n(5_000) + "\n",
        "many colons": "http: mailto: " * n(2_000) + "\n",
        "signs behind an address": "www.a.b" + ")" * n(100_000) + "\n",
        "addresses without blanks": "a@" * n(40_000)
        + "\n\n"
        + "http:" * n(4_000)
        + "\n\n"
        + "a@b.c" * n(16_000),
        "many images": "![](a.png) " * n(16_000) + "\n",
        "many blocks of HTML": "<p>x</p>\n\n" * n(16_000),
        "many tags in a block": "<p>\n" + '<a href="x.md">x</a>' * n(8_000) + "\n</p>\n",
        "headings without an end": "<h1>a\n\n" * n(20_000),
        "many dead anchors": "".join(
            f"# Head word number {i}x\n\n[a](#head-wxrd-nxmber-{i * 7}y)\n\n" for i in range(n(400))
        ),
        "many dead links": "".join(f"[a](some-fxle-name-{i}.md)\n\n" for i in range(n(5_000))),
        "many labels": "".join(f"[text][label {i}]\n\n" for i in range(n(400)))
        + "".join(f"\n[lebal {i}x]: README.md" for i in range(n(400))),
        "many equal headings": "# A\n\n# A-1\n\n" * n(10_000) + "[a](#a-99999) " * n(1_000) + "\n",
        "many excuses": "<!-- bindery: allow dead-link because x -->\n" * n(4_000),
        "many footnotes": "".join(f"a[^{i}]\n\n[^{i}]: x\n\n" for i in range(n(5_000))),
        "comments without an end": "<div><!-- a " * n(16_000) + "\n",
        "a long srcset": '<img src="a.png" alt="a" srcset="' + "," * n(100_000) + 'x">\n',
        "many opening brackets": "[" * n(50_000) + "\n",
        "code over two lines": "`a\nb` c " * n(20_000) + "\n",
        "addresses with escapes": "https://a.org/%C3%A9%C3%A8 " * n(6_000) + "\n",
        "backticks in a table": "| a |\n|---|\n| " + "`a ``b " * n(20_000) + " |\n",
        "a wide table": "|" + "[a](b.md)|" * n(2_000) + "\n|" + "-|" * n(2_000) + "\n",
        "texts without an end in HTML": "<div>\n" + "<pre>|" * n(2_000) + "\n",
        "comments without an end in JSON": "```json\n" + "/*" * n(60_000) + "\n```\n",
        "quotes without an end in JSON": '```json\n"' + '\\"' * n(60_000) + "\n```\n",
        "a prompt without an end": "```console\n$ ls '\n" + "out\n" * n(20_000) + "```\n",
        "brackets in a command": "```bash\necho " + "[" * n(60_000) + "\n```\n",
        "braces in a command": "```bash\necho {" + "," * n(60_000) + "\n```\n",
        "deep arithmetic": "```bash\n" + "((" * n(10_000) + "\n```\n",
        "templates without an end": "```yaml\n" + "{{" * n(30_000) + "\n```\n",
        "a long key in TOML": "```toml\n" + "a." * n(30_000) + "a = 1\n```\n",
        "signs of money": "$" * n(20_000) + "\n",
        "sums of money": "$a " * n(20_000) + "\n",
        "a deep formula": "$" + "{" * n(20_000) + "$\n",
        "options on lines of their own": "```bash\n" + "a\n\n--bc\n" * n(15_000) + "```\n",
    }


@pytest.mark.nightly
@pytest.mark.parametrize("name", make_texts(1))
def test_the_check_ends(name: str, make_book: BookMaker, child_environment: dict[str, str]) -> None:
    """It ends with its findings, or without any, and never with a bug of ours."""
    book = make_book({"README.md": f"# T\n\n{make_texts(1)[name]}"}, extra="maths: true\n")
    ended = _check(book, child_environment)
    assert ended.returncode in (0, 1), ended.stderr
    assert ended.stderr == ""


def test_the_check_of_hard_texts_ends(
    make_book: BookMaker, child_environment: dict[str, str]
) -> None:
    """A book with an eighth of each text is checked to its end; none is a bug of ours."""
    texts = make_texts(8)
    files = {
        f"{number}.md": f"# {name}\n\n{text}" for number, (name, text) in enumerate(texts.items())
    }
    ended = _check(make_book(files, extra="maths: true\n"), child_environment)
    assert ended.returncode == 1, ended.stderr
    assert ended.stderr == ""
    assert f" in {len(texts)} chapters" in ended.stdout


def test_names_of_files_may_be_no_text(
    make_book: BookMaker, child_environment: dict[str, str]
) -> None:
    """A name that is not UTF-8, or holds an end of line or an escape, is shown and harms nothing,
    in every format and on a terminal that knows ASCII only."""
    book = make_book({"README.md": "# T\n\n[a](gone.md)\n", "sub/README.md": "# S\n"})
    for name in (b"bad\xff.txt", b"bad\xff.md", b"nl\nx.png", b"esc\x1b[31m.png", b"sub/y\xff.py"):
        Path(os.fsdecode(os.fsencode(book) + b"/" + name)).write_bytes(b"")
    environment = child_environment | {"PYTHONIOENCODING": "ascii"}
    for output in ("text", "json", "sarif", "github"):
        ended = _check(book, environment, "--format", output)
        assert ended.returncode == 1, ended.stderr
        assert "\x1b" not in ended.stdout
        if output in ("json", "sarif"):
            json.loads(ended.stdout)


@pytest.mark.parametrize(
    ("source", "place"),
    [
        ("# T\r\r[a](gone.md)\r", "README.md:3:5: "),
        ("\ufeff# T [a](gone.md)\n", "README.md:1:9: "),
        ("# T\n\n\u202e[a](g\u200bone.md)\n", "README.md:3:6: "),
        ("# T\n\n\x1b\x9b[a](gone.md)\n", "README.md:3:7: "),
    ],
    ids=("old ends of lines", "byte order mark", "hidden", "escapes"),
)
def test_a_report_shows_every_sign(
    source: str, place: str, make_book: BookMaker, child_environment: dict[str, str]
) -> None:
    """The source line is shown, its place is exact, and no sign in it is obeyed or hidden."""
    book = make_book({"README.md": ""})
    (book / "README.md").write_bytes(source.encode())
    ended = _check(book, child_environment)
    assert ended.stdout.startswith(place)
    assert " | " in ended.stdout
    assert all(
        sign == "\n" or sign.isprintable() for sign in ended.stdout.partition("\nchecked")[0]
    )


def _check(
    book: Path, environment: dict[str, str], *arguments: str
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "bindery", "check", *arguments],
        cwd=book,
        env=environment,
        capture_output=True,
        text=True,
        timeout=LONG_ENOUGH,
    )
