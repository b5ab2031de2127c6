"""SKILL.md: what `bindery fill` writes into it can be a chapter, and follows the book."""

from fixture_types import BookMaker, Runner

HEAD = "---\nname: a\ndescription: b\n---\n\nMine.\r\n\n"
SKILL = f"{HEAD}<!-- contents -->\n<!-- /contents -->\n\nToo.\n"
CHAPTER = "# The `a|b` [c] & <d>\n\n## Größe\n\n## Same\n\n## Same\n"
TOOL = '"""How *fast* is it?\n\nMore."""\n'


def test_what_is_written_is_a_clean_chapter(make_book: BookMaker, run_bindery: Runner) -> None:
    """The author's words stay, and titles with signs of Markdown are read as titles."""
    files = {"a b.md": CHAPTER, "SKILL.md": SKILL, "scripts/t.py": TOOL}
    root = make_book(files, extra="tools: {t: {path: scripts/t.py}}\n")
    listed = (root / "chapters.yaml").read_text()
    (root / "chapters.yaml").write_text(listed.replace("      - SKILL.md\n", ""))
    assert run_bindery("fill", folder=root).stdout.startswith("SKILL.md: filled\n")
    text = (root / "SKILL.md").read_text()
    assert text == SKILL.replace("\r\n", "\n").replace(
        "<!-- contents -->\n",
        "<!-- contents -->\n"
        "## Chapters\n\n"
        r"- [The a\|b \[c\] & \<d\>](a%20b.md): [Größe](a%20b.md#gr%C3%B6%C3%9Fe), "
        "[Same](a%20b.md#same), [Same](a%20b.md#same-1)\n\n"
        "## Tools\n\n"
        "`bindery run TOOL --profile demo` runs a tool within limits and records it, `full` "
        "measures. Each has `--help`, and runs alone with `python`.\n\n"
        r"- [t](scripts/t.py): How \*fast\* is it?" + "\n",
    )
    assert run_bindery("check", "SKILL.md", folder=root).status == 2  # nothing to say about it
    (root / "chapters.yaml").write_text(listed)
    assert "0 errors, 0 warnings" in run_bindery("check", "SKILL.md", folder=root).stdout


def test_a_new_chapter_is_in_it(make_book: BookMaker, run_bindery: Runner) -> None:
    """What `bindery new` lists, and what an edit of a chapter makes stale."""
    root = make_book({"README.md": "# T\n"})
    (root / "SKILL.md").write_text(SKILL)
    assert run_bindery("new", "chapter", "disks", folder=root).status == 0
    assert "- [Disks](disks.md)\n" in (root / "SKILL.md").read_text()
    assert run_bindery("check", folder=root).status == 0
    (root / "disks.md").write_text("# Disks\n\n## Local\n")
    assert "SKILL.md:8:1: error[stale-skill]" in run_bindery("check", folder=root).stdout
