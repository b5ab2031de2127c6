"""Bundles: one file of a tool and the kit modules it uses."""

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import pytest
from bindery.tools.bundle import bundle_tool, hash_bundle
from fixture_types import BookMaker, Runner

TOOL = '''\
#!/usr/bin/env python3
# /// script
# requires-python = ">=3.11"
# ///
"""How much is it?"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from kit.sums import add

__version__ = "1.2.3"
METHOD = 4


def main():
    print(add(1, 2))


if __name__ == "__main__":
    main()
'''
SUMS = '''\
"""Sums."""

import math

from kit.words import SIGN


def add(first, second):
    """What two numbers make."""
    return f"{math.fsum([first, second]):g}{SIGN}"
'''
WORDS = '"""Words."""\n\nSIGN = "!"\n'
FILES = {
    "chapters.yaml": "title: B\nparts:\n  - chapters: [README.md]\n"
    "tools:\n  price:\n    path: scripts/shop/price.py\n",
    "README.md": "# B\n",
    "scripts/shop/price.py": TOOL,
    "scripts/kit/__init__.py": "",
    "scripts/kit/sums.py": SUMS,
    "scripts/kit/words.py": WORDS,
}


def test_a_bundle_runs_alone(make_book: BookMaker, run_bindery: Runner, tmp_path: Path) -> None:
    """It holds the tool first, then the modules it uses, and nothing is printed but its answer."""
    root = make_book(FILES)
    ended = run_bindery("bundle", folder=root)
    path = root / "dist/tools/price.py"
    text = path.read_text()
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    assert ended.stdout == f"{digest}  dist/tools/price.py\n"
    assert digest == hash_bundle(root, "scripts/shop/price.py")
    assert "# price 1.2.3 (method 4)\n# SPDX-License-Identifier: Apache-2.0\n" in text
    assert text.index("def main") < text.index("# --- kit/words.py") < text.index("# --- kit/sums")
    assert "from kit" not in text
    done = subprocess.run(
        [sys.executable, "-I", str(path)], capture_output=True, text=True, cwd=tmp_path, check=True
    )
    assert done.stdout == "3!\n"


def test_the_same_sources_give_the_same_bytes(make_book: BookMaker) -> None:
    """Whatever the hash seed is."""
    command = [sys.executable, "-m", "bindery", "bundle"]
    root = make_book(FILES)
    first, second = (
        subprocess.check_output(command, cwd=root, env={**os.environ, "PYTHONHASHSEED": seed})
        for seed in "12"
    )
    assert first == second


def test_a_tool_without_the_kit_is_left_as_it_is() -> None:
    """Snippets are copied byte by byte."""
    assert bundle_tool("x.py", lambda _: "print(1)\n") == "print(1)\n"


@pytest.mark.parametrize("verb", ["bundle", "run"])
@pytest.mark.parametrize("name", ["scripts/kit/words.py", "scripts/shop/price.py"])
def test_a_source_that_is_not_text_is_named(
    make_book: BookMaker, run_bindery: Runner, name: str, verb: str
) -> None:
    """With the line of its first wrong byte, whether it is the tool's or the kit's."""
    broken = FILES[name].encode().replace(b'"""', b'"""\xff', 1)
    ended = run_bindery(verb, "price", folder=make_book({**FILES, name: broken}))
    line = FILES[name].split('"""', 1)[0].count("\n") + 1
    assert ended.status == 2
    assert ended.stderr.startswith(f"{name}:{line}:1: error[config]: this is not UTF-8: byte 0xff")


@pytest.mark.parametrize(
    ("name", "before", "after", "message"),
    [
        ("scripts/kit/words.py", 'SIGN = "!"', 'SIGN = add = "!"',
         "scripts/kit/sums.py:1:1: error[config]: 'add' is in scripts/kit/words.py too"),
        ("scripts/shop/price.py", "import add\n", "import add as plus\n",
         "scripts/shop/price.py:13:1: error[config]: import from kit without `as`"),
        ("scripts/shop/price.py", "    print(", "    from kit.words import SIGN\n    print(",
         "scripts/shop/price.py:20:1: error[config]: import from kit at the top of the file"),
        ("scripts/kit/__init__.py", "", None,
         "it imports from kit, but no folder above it has kit/__init__.py"),
        ("scripts/kit/words.py", "", None, "No such file"),
        ("scripts/kit/words.py", "SIGN =", "SIGN = =",
         "scripts/kit/words.py:3:1: error[config]: this is not valid Python: invalid syntax"),
        ("scripts/shop/price.py", "METHOD = 4", "METHOD = int('4')",
         "error[config]: METHOD must be a literal: bindery reads it without running the tool"),
    ],
)  # fmt: skip
def test_what_cannot_be_one_file_is_refused(
    make_book: BookMaker, run_bindery: Runner, name: str, before: str, after: str | None,
    message: str,
) -> None:  # fmt: skip
    """With the file, the line and what to do."""
    files = {**FILES, name: FILES[name].replace(before, after or "")}
    if after is None:
        del files[name]
    ended = run_bindery("bundle", folder=make_book(files))
    assert ended.status == 2
    assert message in ended.stderr
