"""Blocks of code: where they break off, and what a book may leave out."""

import pytest
from bindery.check.rules.broken_code import find_fault
from hypothesis import example, given
from hypothesis import strategies as st

WHOLE = [
    ("python", "x = 1\n"),
    ("python", "    def f(self):\n        return 1\n    y = 2\n"),
    ("python", "def f(x):\n    # as before\n\ny = 1\n"),
    ("python", "@mark\ndef f():\n"),
    ("python", "def f():  # see above\n"),
    ("python", "f(a=1, ...)\n"),
    ("python", "x = <your path>\n"),
    ("python", "%timeit f()\n!ls\nf?\nx = 5 % 3\n"),
    ("python", "print('\\d')\nassert (1, 'x')\n"),
    ("python", 'Traceback (most recent call last):\n  File "a.py", line 1\nKeyError\n'),
    ("python", ">>> x = (1,\n"),
    ("json", '{"a": 1} // not for the parser\n'),
    ("bash", "echo 'it is' | tee a\n"),
    ("bash", "squeue -j <jobid>\n"),
    ("bash", "python a.py \\\n  --x 1 \\\n  # --y 2\n"),
    ("bash", "$ echo 1\nsome (output)\n"),
    ("bash", "--x 1\n--y 2\n"),
    ("bash", "run --x\n\n--y\n"),
    ("console", "output (here\n"),
    ("yaml", "a: 1\n---\nb: [x, {y: 2}]\n"),
    ("yaml", "image: {{ name }}\n{% if x %}\ntag: <tag>\n{% endif %}\n"),
    ("yaml", "a:\n  b: 1\n  ...\nc: 2\n"),
    ("yaml", "a: *base\n"),
    ("yaml", "- !env X\n- <<: {a: 1}\n  <<: {b: 2}\n"),
    ("json", '{"a": [1, 2.5, null]}\n'),
    ("json", '{"a": 1}\n{"a": 2}\n'),
    ("json", '{"a": <path>}\n'),
    ("json", '"a": 1,\n"b": "// no comment"\n'),
    ("toml", "[a]\nb = 1\n"),
]


@pytest.mark.parametrize(("language", "code"), WHOLE)
def test_what_is_whole_or_a_part_is_let_be(language: str, code: str) -> None:
    """Sound code, parts of a file and what is left out on purpose have no fault."""
    assert find_fault(language, code) is None


BROKEN = [
    ("python", "f(1\nx = 2\n", 0, "(", "'(' was never closed"),
    ("python", "x = 1\nif x\n    y\n", 1, "\n", "expected ':'"),
    ("python", "x = 'a\n", 0, "'", "unterminated string literal (detected at line 1)"),
    ("python", "def f():\nx = 1\n", 1, "x", "expected an indented block after function"),
    ("python", "x = 1\n  y = 2\n", 1, "y", "unexpected indent"),
    ("python", "    def f(self):\n        g(]\n", 1, "]", "closing parenthesis ']' does not"),
    ("python", "$ ls\n", 0, "$", "it breaks off here"),
    ("bash", "ls\necho 'a\n", 1, "'", "the quote ' is never closed"),
    ("bash", "cat <<EOT > f\na\n EOT\n", 0, "<<EOT", "the heredoc 'EOT' is never closed"),
    ("bash", "run \\ \n  --x\n", 0, "\\", "a space follows the backslash"),
    ("bash", "run a\n--x 1\n", 1, "--x", "'--x' starts a new command"),
    ("bash", "run \\\n# why\n--x 1\n", 2, "--x", "'--x' starts a new command"),
    ("sh", "$ ls\nout (\n$ a )\n", 2, ")", "')' cannot be here"),
    ("console", "$ a && && b\n", 0, "&&", "'&&' cannot be here"),
    ("yaml", "a: 1\n\tb: 2\n", 1, "\t", "found character '\\t'"),
    ("yaml", "a: [1, 2\nb: 3\n", 1, ":", ""),
    ("yaml", "a:\n  b: 1\n  b: 2\n", 2, "b", "'b' appears twice in one mapping"),
    ("json", '{"a": 1,\n "b": 2,\n}\n', 1, ",", "there is a comma before the closing bracket"),
    ("json", '{"a": 1\n "b": 2}\n', 1, '"', "expecting ',' delimiter"),
    ("json", "{'a': 1}\n", 0, "'", "expecting property name"),
    ("json", '{"a": 1}}\n', 0, "}", "something follows the end"),
    ("toml", "[a\nb = 1\n", 0, "", ""),
    ("toml", "a = 1\na = 2\n", 1, "", "cannot overwrite a value"),
]


@pytest.mark.parametrize(("language", "code", "row", "place", "message"), BROKEN)
def test_faults_have_their_place(
    language: str, code: str, row: int, place: str, message: str
) -> None:
    """A fault is told in plain words, at the row and column where it is."""
    fault = find_fault(language, code)
    assert fault is not None
    assert fault.row == row
    assert f"{code.splitlines()[row]}\n"[fault.col :].startswith(place)
    assert fault.message.startswith(message)


@example("python", "@1\\")
@given(
    st.sampled_from(["python", "bash", "console", "yaml", "json", "toml"]),
    st.text(alphabet="ab:1 \t\n'\"([{}])#=,.>$@%\\-<!&|*", max_size=60),
)
def test_any_block_can_be_judged(language: str, code: str) -> None:
    """Whatever is in a block, it is judged without an error of ours, and inside its rows."""
    fault = find_fault(language, code)
    assert fault is None or (0 <= fault.row < len(code.split("\n")) and fault.col >= 0)
