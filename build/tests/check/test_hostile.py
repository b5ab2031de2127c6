"""A book of strangers cannot crash the check, nor make it run for ever."""

import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest
from fixture_types import BookMaker

LONG_ENOUGH = 60
"""Seconds of CPU time; most of these texts took minutes or crashed when they were found."""

ALIASES = "\n".join(
    ["a0: &a0 {x: 1}", *(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 9))]
)


def make_texts(length: int) -> dict[str, str]:
    """Hard texts by their names, of about so many thousand characters each."""

    def many(text: str) -> str:
        return text * (1000 * length // len(text))

    def number(text: str, count: int) -> str:
        return "".join(text.replace("{i}", str(i)) for i in range(count * length))

    return {
        "an alias of itself": "```yaml\n&a [*a]\n```\n",
        "aliases of aliases": f"```yaml\n{ALIASES}\n```\n",
        "a long number in TOML": f"```toml\na = {'9' * 5000}\n```\n",
        "deep brackets": f"It gives 3 ({many('(')}2*3{many(')')}).\n",
        "a long sum": f"It gives 6 = 1*2{many('+1')}.\n",
        "a link of blanks": f"[a]({many(' ')}x y(z\n",
        "many sums": f"{many('1 + 1 = 3 - ')}\n",
        "many claims": f"{many('Currently, only a. ')}\n",
        "many old names": f"{many('Set `NCCL_ASYNC_ERROR_HANDLING`. ')}\n",
        "a long ragged table": "| a | b |\n|---|---|\n" + many("| 1 | 2 | 3 |\n"),
        "much of all in a line": many(
            "[x](a.md) *w* `c` <b>t</b> ![i](p.png) <http://e.org> &amp; b "
        )
        + "\n",
        "many addresses": many("www.a.org a@b.org http: mailto: https://a.org/%C3%A9 ") + "\n",
        "addresses without blanks": f"{many('a@')}\n\n{many('http:')}\n\n{many('a@b.c')}\n",
        "many blocks of HTML": many("<p>x</p>\n\n"),
        "headings without an end": many("<h1>a\n\n"),
        "many dead anchors": number(
            "# Head word number {i}x\n\n[a](#head-wxrd-nxmber-{i}y)\n\n", 50
        ),
        "many dead links": number("[a](some-fxle-name-{i}.md)\n\n", 80),
        "many labels": number("[text][label {i}]\n\n", 50)
        + number("\n[lebal {i}x]: README.md", 50),
        "many equal headings": many("# A\n\n# A-1\n\n") + many("[a](#a-99999) ") + "\n",
        "many excuses": many("<!-- bindery: allow dead-link because x -->\n"),
        "many footnotes": number("a[^{i}]\n\n[^{i}]: x\n\n", 80),
        "comments without an end": f"{many('<div><!-- a ')}\n",
        "code over two lines": f"{many('`a⏎b` c ')}\n".replace("⏎", "\n"),
        "a wide table": f"|{many('[a](b.md)|')}\n|{many('-|')}\n",
        "a prompt without an end": f"```console\n$ ls '\n{many('out⏎')}```\n".replace("⏎", "\n"),
        "brackets in a command": f"```bash\necho {many('[')}\n```\n",
        "deep arithmetic": f"```bash\n{many('((')}\n```\n",
        "signs of money": f"{many('$')}\n",
        "a deep formula": f"${many('{')}$\n",
    }


@pytest.mark.parametrize(
    "length", [pytest.param(5), pytest.param(40, marks=pytest.mark.nightly)], ids=["short", "long"]
)
def test_the_check_of_hard_texts_ends(
    length: int, make_book: BookMaker, child_environment: dict[str, str]
) -> None:
    """A book of such texts is checked to its end, without a bug of ours."""
    texts = make_texts(length)
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
    for output in ("text", "sarif"):
        ended = _check(book, environment, "--format", output)
        assert ended.returncode == 1, ended.stderr
        assert "\x1b" not in ended.stdout


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


def _limit_cpu() -> None:
    resource.setrlimit(resource.RLIMIT_CPU, (LONG_ENOUGH, LONG_ENOUGH))


def _check(
    book: Path, environment: dict[str, str], *arguments: str
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "bindery", "check", *arguments],
        cwd=book,
        env=environment,
        capture_output=True,
        text=True,
        preexec_fn=_limit_cpu,
    )
