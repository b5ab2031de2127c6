"""Moves: no link breaks, nothing else changes, and there and back is as if nothing had been."""

import tempfile
from collections.abc import Mapping
from pathlib import Path

import pytest
from any_markdown import MARKDOWN
from bindery.book.load import load_book
from bindery.book.markdown_files import read_documents
from bindery.check.rules import RULES
from bindery.core.config import load_config
from bindery.core.model import BookError
from bindery.core.transaction import change_files
from bindery.rewrite.moving.arrange import arrange_moves, make_change, make_plan
from bindery.rewrite.moving.plan import Plan
from fixture_types import BookMaker, Runner
from hypothesis import given
from hypothesis import strategies as st
from killing import read_tree
from needs import git


def move(root: Path, old: str, new: str) -> Plan:
    """Move as the command does, and give the plan."""
    config = load_config(root, RULES)
    loaded = load_book(config)
    moves = arrange_moves(config, loaded.tree, old, new)
    documents = read_documents(loaded.tree, config, loaded.book.chapters)
    plan = make_plan(config, loaded.tree, documents, moves)
    change_files(root, make_change(plan))
    return plan


FORMS = """\
# Guide

[a](b.md) [b](./b.md#b) [c](<b.md>) [d](/docs/b.md) [f](sub/) [g](sub)
[h](sub#sub) [i][pic] ![j](../images/a%20b.png "title") [k](#guide) [l](https://example.org/b.md)

[pic]: ../images/a%20b.png
[unused]: sub/README.md 'a title'

<a href="b.md">m</a> <img src='../images/a b.png' alt="n">

| table | cells |
|---|---|
| [o](b.md) | `\\|` [p](sub/README.md) |

> - [q](b.md)

`[code](b.md)` and [dead](nowhere.md)
"""
FILES = {
    "README.md": "# Book\n\n[guide](docs/guide.md#guide) [folder](docs) [sub](docs/sub/)\n",
    "docs/README.md": "# Docs\n\n[guide](guide.md)\n",
    "docs/guide.md": FORMS,
    "docs/b.md": "# B\n\n[guide][g]\n\n[g]: <guide.md#guide> (B)\n",
    "docs/sub/README.md": "# Sub\n\n[up](../guide.md)\n",
    "images/a b.png": b"\x89PNG\r\n\x1a\n",
}


@pytest.fixture
def book(make_book: BookMaker) -> Path:
    """A book with links of every form."""
    root = make_book(FILES)
    (root / "CONTRIBUTING.md").write_text("[the guide](docs/guide.md)\n")
    return root


def test_links_out_of_a_chapter_follow_it(book: Path, run_bindery: Runner) -> None:
    """Each link of a moved chapter is typed again in its own way, and nothing else changes."""
    ended = run_bindery("mv", "docs/guide.md", "far/away/g.md", folder=book)
    assert ended.status == 0, ended.stderr
    assert ended.stdout == (
        "moved docs/guide.md to far/away/g.md: 20 links in 6 files, chapters.yaml\n"
    )
    assert (book / "far/away/g.md").read_text() == FORMS.replace(
        "[a](b.md) [b](./b.md#b) [c](<b.md>) [d](/docs/b.md) [f](sub/) [g](sub)\n[h](sub#sub)",
        "[a](../../docs/b.md) [b](./../../docs/b.md#b) [c](<../../docs/b.md>) [d](/docs/b.md) "
        "[f](../../docs/sub/) [g](../../docs/sub)\n"
        "[h](../../docs/sub#sub)",
    ).replace("../images", "../../images").replace(
        "unused]: sub", "unused]: ../../docs/sub"
    ).replace('href="b.md"', 'href="../../docs/b.md"').replace(
        "[o](b.md)", "[o](../../docs/b.md)"
    ).replace("[p](sub/", "[p](../../docs/sub/").replace(
        "[q](b.md)", "[q](../../docs/b.md)"
    ).replace("nowhere", "../../docs/nowhere")


def test_links_to_a_chapter_follow_it(book: Path) -> None:
    """Links to what moves lead to it, from chapters and from other Markdown files."""
    move(book, "docs/guide.md", "docs/sub/g.md")
    assert "[guide](docs/sub/g.md#guide) [folder](docs)" in (book / "README.md").read_text()
    assert "[guide](sub/g.md)" in (book / "docs/README.md").read_text()
    assert "[g]: <sub/g.md#guide> (B)" in (book / "docs/b.md").read_text()
    assert "[up](g.md)" in (book / "docs/sub/README.md").read_text()
    assert (book / "CONTRIBUTING.md").read_text() == "[the guide](docs/sub/g.md)\n"


def test_a_folder_takes_along_what_lies_in_it(book: Path) -> None:
    """What is together in a moved folder goes on linking as it did."""
    move(book, "docs", "manual")
    assert (book / "manual/b.md").read_text() == FILES["docs/b.md"]
    text = (book / "manual/guide.md").read_text()
    assert "[d](/manual/b.md) [f](sub/)" in text
    assert "(../images/a%20b.png" in text
    assert "[guide](manual/guide.md#guide) [folder](manual)" in (book / "README.md").read_text()


def test_a_folder_shown_by_its_readme_is_followed(book: Path) -> None:
    """A link to a folder leads to the chapter that it shows, wherever that goes."""
    move(book, "docs/sub/README.md", "parts/README.md")
    assert "[sub](parts/)" in (book / "README.md").read_text()
    assert "[f](../parts/) [g](../parts)\n[h](../parts#sub)" in (book / "docs/guide.md").read_text()
    plan = move(book, "parts/README.md", "parts/first.md")
    assert "[sub](parts/first.md)" in (book / "README.md").read_text()
    assert [note.message for note in plan.notes][:1] == [
        "'parts/' is now typed 'parts/first.md': moving back will not restore it"
    ]


def test_a_folder_that_gets_a_page_is_noted(book: Path) -> None:
    """A link to a folder leads to the chapter that comes to lie in it, and the author is told."""
    (book / "README.md").write_text("# Book\n\n[pictures](images)\n")
    plan = move(book, "docs/sub/README.md", "images/README.md")
    assert [note.message for note in plan.notes] == [
        "'images' now leads to 'images/README.md': moving back will not restore it"
    ]


def test_an_image_moves(book: Path) -> None:
    """Its name is typed as the author typed the old one: encoded, bare or in HTML."""
    move(book, "images/a b.png", "docs/c d.png")
    text = (book / "docs/guide.md").read_text()
    assert '![j](c%20d.png "title")' in text
    assert "[pic]: c%20d.png" in text
    assert "src='c%20d.png'" in text


def test_line_ends_stay(make_book: BookMaker) -> None:
    """A file with carriage returns, a byte order mark or no last line feed keeps them."""
    files = {
        "README.md": b"\xef\xbb\xbf# A\r\n\r\n[b](b.md)\r\nand\r[b](b.md)\n[b](b.md)",
        "b.md": b"# B\r\n",
    }
    root = make_book(files)
    move(root, "b.md", "c/b.md")
    assert (root / "README.md").read_bytes() == files["README.md"].replace(b"(b.md)", b"(c/b.md)")


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("docs/guide.md", "far/away/g.md"),
        ("docs/sub", "sub"),
        ("docs", "a/b/c"),
        ("images/a b.png", "pictures/a b.png"),
        ("docs/sub/README.md", "README/README.md"),
        ("README.md", "x/README.md"),
        ("CONTRIBUTING.md", ".github/CONTRIBUTING.md"),
    ],
)
def test_there_and_back_is_as_if_nothing_had_been(book: Path, old: str, new: str) -> None:
    """Moving back gives the same files, byte for byte, and the same folders."""
    before = read_tree(book)
    assert move(book, old, new).notes == ()
    assert read_tree(book) != before
    move(book, new, old)
    assert read_tree(book) == before


# --- chapters.yaml ---


LISTING = """\
# The book.
title: A book   # short
folder: "book"
cover: book/images/cover.png
interface: book/images/words.toml
style:
  logo: "book/images/logo.svg"  # drawn by hand
  accent: "#7a1f5c"
  fonts: {text: [book/images/a.ttf], code: book/images/b.ttf}
parts:
  - title: One
    chapters:
      - 'a.md'      # the first
      - {path: sub/b.md, title: B}
      - path: "c.md"
not_chapters: [drafts/*.md, sub/notes.md]
moved:
  oldest.md: a.md   # long ago
tools:
  timer: {path: scripts/timer.py, output: exact}
  # the last
"""
LISTED = {
    "chapters.yaml": LISTING,
    "book/a.md": "# A\n",
    "book/sub/b.md": "# B\n",
    "book/c.md": "# C\n",
    "book/sub/notes.md": "notes\n",
    "book/drafts/d.md": "draft\n",
    "book/images/cover.png": b"\x89PNG\r\n\x1a\n",
    "book/images/words.toml": "",
    "book/images/logo.svg": "<svg/>",
    "book/images/a.ttf": "",
    "book/images/b.ttf": "",
    "scripts/timer.py": "METHOD = 1\n",
}


@pytest.mark.parametrize(
    ("old", "new", "changes"),
    [
        (
            "book/a.md",
            "book/sub/a.md",
            {
                "'a.md'": "'sub/a.md'",
                "oldest.md: a.md   # long ago": "oldest.md: sub/a.md   # long ago\n"
                "  a.md: sub/a.md",
            },
        ),
        (
            "book/sub",
            "book/part: two",
            {
                "sub/b.md,": "'part: two/b.md',",
                "sub/notes.md": "'part: two/notes.md'",
                "# long ago": "# long ago\n  sub/b.md: 'part: two/b.md'",
            },
        ),
        ("book/c.md", "book/d.md", {'"c.md"': '"d.md"', "# long ago": "# long ago\n  c.md: d.md"}),
        ("book/drafts", "book/ideas", {"drafts/*.md": "ideas/*.md"}),
        ("book/images/cover.png", "book/cover.png", {"images/cover": "cover"}),
        ("book/images", "book/pictures", {"book/images": "book/pictures"}),
        ("scripts/timer.py", "scripts/clocks/timer.py", {"scripts/timer": "scripts/clocks/timer"}),
        (
            "book/a.md",
            "book/oldest.md",
            {"'a.md'": "'oldest.md'", "moved:\n  oldest.md: a.md   # long ago\n": ""},
        ),
    ],
)
def test_the_list_of_chapters_follows(
    make_book: BookMaker, old: str, new: str, changes: Mapping[str, str]
) -> None:
    """Paths change where they are; quotes, comments and order are the author's."""
    root = make_book(LISTED)
    expected = LISTING
    for before, after in changes.items():
        expected = expected.replace(before, after)
    move(root, old, new)
    assert (root / "chapters.yaml").read_text() == expected
    load_config(root, RULES)


@pytest.mark.parametrize("ending", ["\n", "", "\r\n"])
def test_a_first_move_is_noted_and_taken_back(make_book: BookMaker, ending: str) -> None:
    """`moved` is added at the end, follows each further move, and goes when all is as it was."""
    newline = ending or "\n"
    listed = newline.join(["title: A", "parts:", "- chapters:", "  - a.md", "  - z.md"]) + ending
    root = make_book({"chapters.yaml": listed.encode(), "a.md": "# A\n", "z.md": "# Z\n"})
    move(root, "a.md", "b.md")
    moved = {(entry.old, entry.new) for entry in load_config(root, RULES).moved}
    assert moved == {("a.md", "b.md")}
    move(root, "b.md", "c.md")
    move(root, "z.md", "y.md")
    moved = {(entry.old, entry.new) for entry in load_config(root, RULES).moved}
    assert moved == {("a.md", "c.md"), ("b.md", "c.md"), ("z.md", "y.md")}
    move(root, "c.md", "b.md")
    move(root, "b.md", "a.md")
    move(root, "y.md", "z.md")
    assert (root / "chapters.yaml").read_bytes() == listed.encode()


def test_a_plain_list_of_chapters_follows(make_book: BookMaker, run_bindery: Runner) -> None:
    """The list that `bindery import` reads names the new path; comments and line ends stay."""
    text = "  a.md # first\r\n# a.md\r\n\r\nsub/b.md\t\n./a.md"
    root = make_book({"a.md": "# A\n", "sub/b.md": "# B\n", "chapters-md.txt": text.encode()})
    ended = run_bindery("mv", "a.md", "sub/c.md", folder=root)
    assert ended.stdout == "moved a.md to sub/c.md: chapters-md.txt, chapters.yaml\n"
    expected = "  sub/c.md # first\r\n# a.md\r\n\r\nsub/b.md\t\nsub/c.md"
    assert (root / "chapters-md.txt").read_bytes() == expected.encode()


def test_places_in_data_follow(make_book: BookMaker) -> None:
    """A cell of the type `place` names the new path, anchor and all; the same words in other
    columns and the line ends stay."""
    schema = (
        "title: Words\nsource: https://example.org/a\ndate: 2026-11-20\nclass: assumed\ncolumns:\n"
        "  term: {type: text, description: the word}\n"
        "  meaning: {type: text, description: what it means}\n"
        "  place: {type: place, description: where it is explained}\n"
    )
    rows = (
        "term,meaning,place\r\n"
        'chip,"in a.md, not in a.md#chips",a.md#chips\r\n'
        'heat,"it is warm","sub/heat.md"\r\n'
    )
    root = make_book(
        {
            "a.md": "# A\n\n## Chips\n\nA chip.\n",
            "sub/heat.md": "# Heat\n\n[back](../a.md)\n",
            "data/words.csv": rows.encode(),
            "data/words.yaml": schema,
        }
    )
    before = read_tree(root)
    move(root, "a.md", "sub/chips.md")
    expected = rows.replace(",a.md#chips", ",sub/chips.md#chips")
    assert (root / "data/words.csv").read_bytes() == expected.encode()
    move(root, "sub/chips.md", "a.md")
    assert read_tree(root) == before


# --- generated parts ---


PLOTTED = {
    "README.md": """\
# Times

The first took <!-- value: times.seconds[a] --><!-- /value --> in all.

<!-- table: times -->
<!-- /table -->

<!-- plot: times -->
<!-- /plot -->
""",
    "data/runs.yaml": """\
title: Runs
source: https://example.org
date: 2026-11-20
class: vendor
columns:
  name: {type: text, description: its name}
  seconds: {type: number, unit: s, description: how long it took}
rows:
  - {name: a, seconds: 1.5}
  - {name: b, seconds: 2.5}
""",
    "views/times.sql": """\
-- title: How long each run took
-- column name: Name
-- column seconds: Time [s] .1
-- plot: bar
-- plot x: name
-- plot y: seconds
SELECT name, seconds FROM runs ORDER BY name
""",
}


def test_a_view_and_its_chapter_take_quotations_along(
    make_book: BookMaker, run_bindery: Runner
) -> None:
    """Regions and values name the view by its new name, its plots follow, and so do the links of a
    chapter to them; nothing is taken for stale or edited by hand."""
    root = make_book(PLOTTED)
    assert run_bindery("fill", folder=root).status == 0
    started, before = read_tree(root), run_bindery("check", folder=root)
    assert before.status == 0, before.stdout
    ended = run_bindery("mv", "views/times.sql", "views/durations.sql", folder=root)
    assert ended.stdout.startswith("moved views/times.sql to views/durations.sql, with figures/")
    run_bindery("mv", "README.md", "deep/er/README.md", folder=root)
    text = (root / "deep/er/README.md").read_text()
    assert "<!-- value: durations.seconds[a] -->" in text
    assert "../../figures/durations.svg" in text
    assert run_bindery("check", folder=root).stdout == before.stdout
    run_bindery("mv", "deep/er/README.md", "README.md", folder=root)
    run_bindery("mv", "views/durations.sql", "views/times.sql", folder=root)
    assert read_tree(root) == started


def test_code_that_names_the_old_path_is_shown(book: Path, run_bindery: Runner) -> None:
    """A command is not a link and stays as it is, so the author is told where it is."""
    (book / "CONTRIBUTING.md").write_text("Run `spell docs/guide.md` and not adocs/guide.md\n")
    ended = run_bindery("mv", "docs/guide.md", "g.md", folder=book)
    place = "CONTRIBUTING.md:1:12: 'docs/guide.md' is not a link"
    assert ended.stdout.splitlines()[1:] == [
        f"{place} and was not changed: check whether it is right"
    ]


# --- what is refused ---


@pytest.mark.parametrize("cover", ["&c a.png", "!!str a.png", ">-\n  a.png"])
def test_a_path_that_is_not_plain_is_refused(
    make_book: BookMaker, run_bindery: Runner, cover: str
) -> None:
    """An anchor, a tag and a block of text stay as the author wrote them."""
    listed = f"title: A\ncover: {cover}\nparts: [{{chapters: [a.md]}}]\n"
    root = make_book({"chapters.yaml": listed, "a.md": "# A\n", "a.png": b"\x89PNG\r\n\x1a\n"})
    before = read_tree(root)
    ended = run_bindery("mv", "a.png", "b.png", folder=root)
    assert ended.status == 1
    assert "write the paths plainly" in ended.stderr
    assert read_tree(root) == before


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("nothing.md", "x.md", "there is nothing at 'nothing.md'"),
        ("docs/guid.md", "x.md", "did you mean 'docs/guide.md'?"),
        (".", "x", "the root cannot be moved"),
        ("chapters.yaml", "x.yaml", "'chapters.yaml' cannot be moved"),
        ("docs", "docs/sub/docs", "'docs' cannot be moved into itself"),
        ("docs/guide.md", "docs/b.md", "'docs/b.md' already exists"),
        ("docs/guide.md", "docs", "'docs/guide.md' already exists"),
        ("docs/guide.md", "../g.md", "'../g.md' is outside the book's folder"),
        ("/etc/hostname", "x", "is outside the book's folder"),
        ("docs/guide.md", "docs/b.md/g.md", "'docs/b.md' is a file, not a folder"),
        ("docs/guide.md", "docs/guide.txt", "a chapter, so its name must end in .md"),
    ],
)
def test_a_move_that_cannot_be_is_refused(
    book: Path, run_bindery: Runner, old: str, new: str, says: str
) -> None:
    """What cannot be moved there is a usage error, and nothing changes."""
    before = read_tree(book)
    ended = run_bindery("mv", old, new, folder=book)
    assert ended.status == 2, ended.stdout
    assert says in ended.stderr
    assert read_tree(book) == before


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("book", "text", "'book' is the chapters' folder"),
        ("book/a.md", "a.md", "chapters must be in the folder 'book'"),
        ("scripts/timer.py", "scripts/clock.py", "records and views know"),
        ("scripts", "tools", "'scripts/records' is reserved"),
        ("scripts/records/timer/x_20261120.json", "x.json", "bindery finds records there"),
        ("book/data/d.csv", "book/data/e.csv", "views use data files by name"),
        ("book/sub/notes.md", "scripts/records/notes.md", "'scripts/records' is reserved"),
        ("book/views/v.sql", "book/v.sql", "chapters quote views by name"),
        ("book/views/v.sql", "book/views/v-dark.sql", "'v-dark' is not a valid view name"),
        ("book/figures/v.svg", "book/v.svg", "`bindery fill` draws plots there"),
    ],
)
def test_what_has_its_place_stays(
    make_book: BookMaker, run_bindery: Runner, old: str, new: str, says: str
) -> None:
    """What is found by its name is not moved away."""
    root = make_book(
        {
            **LISTED,
            "scripts/records/timer/x_20261120.json": "{}",
            "book/data/d.csv": "",
            "book/views/v.sql": "",
            "book/figures/v.svg": "",
        }
    )
    before = read_tree(root)
    ended = run_bindery("mv", old, new, folder=root)
    assert (ended.status, ended.stdout) == (2, "")
    assert says in ended.stderr
    assert read_tree(root) == before


def test_a_link_that_would_break_stops_the_move(make_book: BookMaker, run_bindery: Runner) -> None:
    """A link to a folder that would be gone is named with its place."""
    root = make_book({"README.md": "# A\n\n[all](logs)\n", "logs/x.txt": b"x"})
    before = read_tree(root)
    ended = run_bindery("mv", "logs/x.txt", "x.txt", folder=root)
    assert ended.status == 1
    assert "README.md:3:7: error[refused-move]: 'logs' would lead elsewhere" in ended.stderr
    assert "the folder 'logs' would be removed because it becomes empty" in ended.stderr
    assert read_tree(root) == before


def test_a_dry_run_shows_and_changes_nothing(make_book: BookMaker, run_bindery: Runner) -> None:
    """A dry run prints the renames and a diff, and leaves everything as it is."""
    root = make_book({"a.md": "# A\n\n[b](b.md)", "b.md": "# B\n"})
    before = read_tree(root)
    ended = run_bindery("mv", "b.md", "c.md", "--dry-run", folder=root)
    assert ended.status == 0
    assert ended.stdout.startswith("rename b.md => c.md\n--- a/a.md\n+++ b/a.md\n@@ -1,3 +1,3 @@\n")
    assert "-[b](b.md)\n\\ No newline at end of file\n+[b](c.md)\n" in ended.stdout
    assert "-      - b.md\n+      - c.md\n+\n+moved:\n+  b.md: c.md\n" in ended.stdout
    assert ended.stdout.endswith("would move b.md to c.md: 1 link in 1 file, chapters.yaml\n")
    assert read_tree(root) == before


def test_paths_start_where_one_stands(book: Path, run_bindery: Runner) -> None:
    """Paths are relative to the current folder, and to the root from elsewhere."""
    ended = run_bindery("mv", "guide.md", "sub", "--root", "..", folder=book / "docs")
    assert ended.stdout.startswith("moved docs/guide.md to docs/sub/guide.md: "), ended.stderr
    ended = run_bindery("mv", "docs/sub/guide.md", "new/", "--root", str(book), folder=book.parent)
    assert ended.stdout.startswith("moved docs/sub/guide.md to new/guide.md: "), ended.stderr


# --- git ---


def test_git_is_told(book: Path) -> None:
    """A file that git knows is moved by git; one that it does not know stays unknown to it."""
    git(book, "init", "--quiet")
    git(book, "add", "docs", "README.md")
    git(book, "commit", "--quiet", "--message", "start")
    move(book, "docs/guide.md", "docs/g.md")
    move(book, "images", "pictures")
    status = git(book, "status", "--short").splitlines()
    assert "RM docs/guide.md -> docs/g.md" in status
    assert "?? pictures/" in status


# --- any move ---


LINKS = st.sampled_from(
    ["a.md", "./a.md", "/a.md#a", "sub/", "sub", "p q.png", "p%20q.png", ".", "#a"]
)
SHAPES = st.sampled_from(
    ["[x]({})", "![x](<{}>)", "[r]: {}\n", "[r]", "<img src='{}'>", "| {} | [x]({}) |\n|-|-|\n"]
)
WRITTEN = st.lists(
    st.tuples(SHAPES, LINKS).map(lambda pair: pair[0].replace("{}", pair[1])) | MARKDOWN, max_size=6
).map(" ".join)


@given(WRITTEN, st.sampled_from(["README.md", "a.md", "sub", "p q.png"]))
def test_any_text_moves_or_is_refused(text: str, old: str) -> None:
    """Whatever a chapter holds, a move is made, proved and can be taken back, or it is refused."""
    with tempfile.TemporaryDirectory() as name:
        root = Path(name, "book").resolve()
        for path, content in {
            "README.md": text,
            "a.md": "# A\n\n[x](README.md)\n",
            "sub/README.md": "# Sub\n",
            "p q.png": "",
            "chapters.yaml": "title: A\nparts:\n- chapters: [README.md, a.md, sub/README.md]\n",
        }.items():
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_bytes(content.encode("utf-8", "surrogatepass"))
        before = read_tree(root)
        try:
            plan = move(root, old, f"deep/er/{old}")
        except BookError:
            assert read_tree(root) == before
            return
        move(root, f"deep/er/{old}", old)
        assert read_tree(root) == before or plan.notes
