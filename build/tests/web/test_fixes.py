"""`--fix` writes new addresses into links, and changes nothing else."""

from __future__ import annotations

import re
import tempfile
from pathlib import Path

from bindery.check.inspect import inspect_book
from bindery.markdown.chapter_reader import parse_chapter
from bindery.web.fixing import plan_fixes, write_fixes
from hypothesis import given
from hypothesis import strategies as st

WORDS = st.sampled_from(
    ["word", "`https://h.org/a`", "https://h.org/a)", "**b**", "a|b", "\u00e4", "&amp;"]
)
PATHS = st.sampled_from(["a", "a/b", "a/b/c", "a(1)", "a?x=1&y=2", "a#f", "a/", "ab"])
FORMS = st.sampled_from(
    ["[t]({})", "[t](<{}> 'title')", "<{}>", '<a href="{}">x</a>', "![t]({})", "see {} there"]
)


@given(
    st.lists(
        st.tuples(WORDS, FORMS, PATHS, st.sampled_from([" ", "\n", "\r\n", "\n\n"])), max_size=8
    ),
    st.dictionaries(PATHS, PATHS),
)
def test_only_the_links_that_moved_are_written(
    pieces: list[tuple[str, str, str, str]], moves: dict[str, str]
) -> None:
    """Each link to an old address leads to the new one, every other link and the text between them
    stay the same."""
    text = "# A\n\n" + "".join(
        f"{word} {form.format(f'https://h.org/{path}')}{end}" for word, form, path, end in pieces
    )
    targets = {f"https://h.org/{old}": f"https://new.org/{new}" for old, new in moves.items()}
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        listed = "title: B\nparts:\n  - chapters:\n      - a.md\n"
        (root / "chapters.yaml").write_text(listed, "utf-8")
        (root / "a.md").write_bytes(text.encode())
        inspection = inspect_book(root)
        fixes = plan_fixes(inspection, targets)
        assert fixes.findings == ()
        write_fixes(root, fixes)
        after = (root / "a.md").read_bytes().decode()
    (chapter,) = inspection.book.chapters
    links = parse_chapter("a.md", after.replace("\r\n", "\n")).links
    for before, now in zip(chapter.links, links, strict=True):
        wanted = targets.get(before.destination, before.destination)
        assert _decode(now.destination) == _decode(wanted)
    address = re.compile(r"https://(h|new)\.org/[\w/?=&;#()%]*")
    assert address.sub("", after) == address.sub("", text)


def _decode(url: str) -> str:
    return url.replace("%28", "(").replace("%29", ")").replace("&amp;", "&")
