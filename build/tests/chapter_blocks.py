"""The blocks of code of the book's chapters, for tests that run what a reader would paste.

A block is named by its chapter and one line of it: the first that says what it does, which no other
block of its language in the chapter has. Comments do not count, nor imports where there is more. So
a name survives edits around the block.
"""

import functools
import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from markdown_it import MarkdownIt

ROOT = Path(__file__).resolve().parents[2]

_COMMENT = re.compile(r"(?:^|\s+)# .*$|^#.*$")
_IMPORT = re.compile(r"(?:import|from) \w")


@dataclass(frozen=True)
class Block:
    """A fenced block of a chapter."""

    chapter: str
    """The chapter's folder below book/, such as `training/memory`; `.` for the first page."""
    language: str
    name: str
    code: str
    line: int
    """The line in the chapter of the first line of code."""

    @property
    def place(self) -> str:
        return f"{Path('book', self.chapter, 'README.md')}:{self.line}"


@functools.cache
def read_blocks() -> tuple[Block, ...]:
    """Every fenced block that says its language, in the order of the chapters' paths."""
    reader = MarkdownIt("commonmark").enable("table").disable("inline")
    found: list[Block] = []
    for path in sorted((ROOT / "book").rglob("README.md")):
        chapter = path.parent.relative_to(ROOT / "book").as_posix()
        fences = [
            (token.info.split()[0], token.content.rstrip("\n"), token.map[0] + 2)
            for token in reader.parse(path.read_text(encoding="utf-8"))
            if token.type == "fence" and token.info.strip() and token.map
        ]
        for language, code, line in fences:
            others = {
                told
                for other, text, begin in fences
                if other == language and begin != line
                for told in list_lines(text)
            }
            found.append(Block(chapter, language, name_block(code, others), code, line))
    return tuple(found)


def list_lines(code: str) -> list[str]:
    """The lines without their comments and without what continues them; blank ones are left out."""
    lines = (_COMMENT.sub("", line).strip().removesuffix("\\").strip() for line in code.split("\n"))
    return [line for line in lines if line]


def name_block(code: str, others: set[str]) -> str:
    lines = list_lines(code) or [code.split("\n")[0]]
    own = [line for line in lines if line not in others] or lines
    return next((line for line in own if not _IMPORT.match(line)), own[0])


def find_block(chapter: str, begin: str, language: str) -> Block:
    """The block of a chapter whose name begins so. Fails with the names that there are."""
    blocks = [b for b in read_blocks() if (b.chapter, b.language) == (chapter, language)]
    found = [block for block in blocks if block.name.startswith(begin)]
    names = "".join(f"\n    {block.name}" for block in blocks)
    place = f"{language} blocks of book/{chapter}/README.md"
    assert len(found) == 1, f"{len(found)} {place} begin with {begin!r}; it has:{names}"
    return found[0]


def run_bash(code: str, folder: Path, status: int = 0, timeout: float = 600, **environ: str) -> str:
    """Run a block in a folder, with the book's tools in scripts/. Every command has to succeed,
    unless another exit status than 0 may be the answer. Returns what it printed."""
    if not (folder / "scripts").exists():
        (folder / "scripts").symlink_to(ROOT / "scripts")
    kept = {"PYTHONDONTWRITEBYTECODE": "1", "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
    programs = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-o", "pipefail", *([] if status else ["-e"]), "-c", code],
        cwd=folder,
        env={**os.environ, **kept, "PATH": programs, **environ},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )
    assert done.returncode in (0, status), done.stdout + done.stderr
    return done.stdout
