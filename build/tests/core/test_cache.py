"""The cache makes builds quicker and changes no byte of what they print and write."""

import hashlib
import os
import random
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from bindery.core.cache import Cache, find_folder
from bindery.core.second_process import share_work, talk_to_copy
from evidence_book import EPOCH, FILES
from fixture_types import BookMaker, Runner
from msgspec import msgpack
from previews import Preview, start_preview, write
from whole_sites import copy_reference_book, run_bindery_apart

__all__ = ["start_preview"]

Build = Callable[[Path], dict[str, bytes]]
Edit = Callable[[Path, random.Random], None]

GLOSSARY = """\
# Glossary

| Term | Meaning |
|:-----|:--------|
| warp | 32 threads |
| tile | a part of a [matrix](text.md) |
"""
TEXT = """\
# A warp and a tile

See [the chips](chips/README.md#lengths), [a page](https://example.org/page), [this file](data.txt)
and ![a drawing](a.svg "Drawn").

## Sums

1 + 1 = 3, and [nothing](nowhere.md). It costs $x$ today.

![a drawing](a.svg "Another")

- [x] measured

> [!NOTE]
> A note.

```python
print("a tile")
```
"""
SVG = '<svg xmlns="http://www.w3.org/2000/svg" width="{}" height="9"><path d="M0 0"/></svg>\n'
MEMORY = '{{"url":"https://example.org/page","verdict":"live","checked":"2026-11-{}T09:00:00Z"}}\n'
LISTED = """\
      - text.md
      - glossary.md
      - plain.md
"""
BOOK = {
    **FILES,
    "chapters.yaml": FILES["chapters.yaml"].replace("tools:\n", f"{LISTED}tools:\n"),
    "text.md": TEXT,
    "glossary.md": GLOSSARY,
    "plain.md": "# Plain\n\n> [!NOTE]\n> Only its title depends on the language.\n",
    "data.txt": "1\n",
    "a.svg": SVG.format(20),
    "links.jsonl": MEMORY.format(20),
}


@pytest.fixture(autouse=True)
def settings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A fixed day, and a cache that is empty when a test begins."""
    monkeypatch.setenv("SOURCE_DATE_EPOCH", EPOCH)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture
def build(run_bindery: Runner) -> Build:
    """Check a book and build the EPUB and the site. Returns all that is printed and written."""

    def run(root: Path) -> dict[str, bytes]:
        given = {"check": run_bindery("check", folder=root).stdout.encode()}
        for verb in ("epub", "html"):
            ended = run_bindery(verb, "--lenient", "--quiet", folder=root)
            assert ended.status == 0, ended.stderr
            given[verb] = (ended.stdout + ended.stderr).encode()
        files = [path for path in (root / "dist").rglob("*") if path.is_file()]
        return given | {str(path.relative_to(root)): path.read_bytes() for path in files}

    return run


@pytest.fixture
def build_clean(build: Build, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Build:
    """The same with an empty cache."""
    folders = (tmp_path / f"empty cache {number}" for number in range(1000))

    def run(root: Path) -> dict[str, bytes]:
        with monkeypatch.context() as patch:
            patch.setenv("XDG_CACHE_HOME", str(next(folders)))
            return build(root)

    return run


# --- edits as authors make them ---


def change_chapter(root: Path, chance: random.Random) -> None:
    chapters = [path for path in sorted(root.rglob("*.md")) if "dist" not in path.parts]
    path = chance.choice(chapters)
    text = path.read_text(encoding="utf-8")
    words = [match.span() for match in re.finditer(r"(?<=[a-z] )[a-z]{3,}(?= [a-z])", text)]
    start, end = chance.choice(words or [(len(text), len(text))])
    changed = [
        text[:start] + f"word{chance.random()}" + text[end:],
        re.sub(r"^(#+ \w+)", r"\1 new", text, count=2, flags=re.M),
        f"{text}\n## More {chance.random()}\n\nA tile, 2 + 2 = 5.\n",
        f"{text}\n[there]({chance.choice(chapters).name}#sums), $y^{chance.randrange(9)}$\n",
        text.rstrip("\n").rpartition("\n")[0] + "\n",
    ]
    path.write_text(chance.choice(changed), encoding="utf-8")


def change_glossary(root: Path, chance: random.Random) -> None:
    row = f"| {chance.choice(('note', 'drawing', 'step'))} | meaning {chance.random()} |\n"
    path = root / "glossary.md"
    path.write_text(path.read_text(encoding="utf-8") + row, encoding="utf-8")


def change_image(root: Path, chance: random.Random) -> None:
    (root / "a.svg").write_text(SVG.format(chance.randrange(1, 90)), encoding="utf-8")


def change_answer(root: Path, chance: random.Random) -> None:
    (root / "links.jsonl").write_text(MEMORY.format(chance.randrange(10, 28)), encoding="utf-8")


def change_order(root: Path, _: random.Random) -> None:
    path = root / "chapters.yaml"
    text = path.read_text(encoding="utf-8")
    path.write_text(re.sub(r"(      - .*\n)(      - .*\n)", r"\2\1", text), encoding="utf-8")


def change_settings(root: Path, chance: random.Random) -> None:
    path = root / "chapters.yaml"
    kept, _, settings = path.read_text(encoding="utf-8").partition("language: ")
    language = chance.choice([one for one in ("de", "ja") if not settings.startswith(one)])
    maths = chance.choice(("true", "false"))
    word = chance.choice(("drawing", "tile", "note"))
    path.write_text(
        f"{kept}language: {language}\nmaths: {maths}\nwords:\n  {word}: a thing\n",
        encoding="utf-8",
    )


def change_data(root: Path, chance: random.Random) -> None:
    path = root / "data/chips.csv"
    text = path.read_text(encoding="utf-8")
    changed = re.sub(r"(?<=C3,)\d+", str(chance.randrange(99)), text)
    path.write_text(changed, encoding="utf-8")


def change_view(root: Path, chance: random.Random) -> None:
    path = root / "views/times.sql"
    text = path.read_text(encoding="utf-8")
    title = f"-- title: Times {chance.randrange(9)}"
    changed = [
        re.sub("^-- title: .*$", title, text, flags=re.M),
        re.sub(r"(?<=SELECT name, )\S+", f"seconds * {chance.randrange(1, 4)} AS seconds,", text),
    ]
    path.write_text(chance.choice(changed), encoding="utf-8")


EDITS = (
    change_chapter,
    change_glossary,
    change_image,
    change_answer,
    change_order,
    change_settings,
    change_data,
    change_view,
)


def list_edits(count: int, chance: random.Random) -> Iterator[Edit]:
    """Every edit once, as far as the count goes, and then any, most of them in chapters."""
    first = list(EDITS)
    chance.shuffle(first)
    yield from first[:count]
    for _ in range(count - len(first)):
        yield chance.choice((*EDITS, change_chapter, change_chapter, change_chapter))


# --- what is built from the cache ---


@pytest.mark.parametrize("count", [len(EDITS), pytest.param(100, marks=pytest.mark.nightly)])
def test_random_edits(
    make_book: BookMaker, run_bindery: Runner, build: Build, build_clean: Build, count: int
) -> None:
    root = make_book(BOOK)
    run_bindery("fill", folder=root)
    chance = random.Random(count)
    build(root)
    for number, edit in enumerate(list_edits(count, chance)):
        edit(root, chance)
        if chance.random() < 0.5:
            run_bindery("fill", folder=root)
        assert build(root) == build_clean(root), f"edit {number}: {edit.__name__}"


@pytest.mark.nightly
def test_random_edits_of_a_book_that_is_served(
    make_book: BookMaker,
    run_bindery: Runner,
    build_clean: Build,
    start_preview: Callable[..., Preview],
) -> None:
    """After each edit, each page and all findings become those of a clean build."""
    root = make_book(BOOK)
    run_bindery("fill", folder=root)
    build_clean(root)
    preview = start_preview(root, seconds=600)
    chance = random.Random(5)
    listing = (root / "chapters.yaml").read_text(encoding="utf-8")

    def rename(_root: Path, _chance: random.Random) -> None:
        (root / "plain.md").rename(root / "moved.md")
        write(root / "chapters.yaml", listing.replace("plain.md", "moved.md"))

    def delete(_root: Path, _chance: random.Random) -> None:
        (root / "data.txt").unlink()

    for number, edit in enumerate((*list_edits(len(EDITS), chance), rename, delete)):
        edit(root, chance)
        built = build_clean(root)
        pages = {name[10:]: text.decode() for name, text in built.items() if name[-5:] == ".html"}
        pages.pop("index.html")  # it shows the size of the EPUB, which the build has written
        summary = built["check"].decode().splitlines()[-1]
        expected = sum(map(int, re.findall(r"(\d+) (?:error|warning)", summary)))
        while True:  # until the test is ended
            shown = {page: preview.read_page(page) for page in pages}
            with preview.listen("index.html") as states:
                last = next(state for state in states if "findings" in state)
            found = len(last["findings"]) + last["others"]
            if shown == pages and found == expected:
                break
            assert preview.process.poll() is None, f"edit {number}: {edit.__name__}"


@pytest.mark.nightly
def test_edits_of_the_reference_book(tmp_path: Path, build: Build, build_clean: Build) -> None:
    root = tmp_path / "book"
    copy_reference_book(root)
    run_bindery_apart("import", str(root), folder=tmp_path)
    chance = random.Random(3)
    build(root)
    for number in range(10):
        change_chapter(root, chance)
        assert build(root) == build_clean(root), f"edit {number}"


def test_why(make_book: BookMaker, run_bindery: Runner, monkeypatch: pytest.MonkeyPatch) -> None:
    """Outside git each build has a time of its own, but pages show only the day."""
    root = make_book({"a.md": "# A\n\nSee [B](b.md#b).\n", "b.md": "# B\n"})

    def explain(verb: str = "html") -> list[str]:
        return run_bindery(verb, "--why", folder=root).stderr.splitlines()

    assert explain("check") == [
        "rebuilt text of a.md: not in the cache",
        "rebuilt text of b.md: not in the cache",
        "rebuilt 2 results, reused 0",
    ]
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "86400")
    run_bindery("html", "--quiet", folder=root)
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "86401")
    assert explain() == ["rebuilt 0 results, reused 8"]
    (root / "b.md").write_text("# C\n\nMore.\n", encoding="utf-8")
    assert explain("check") == [
        "rebuilt text of b.md: its text changed",
        "rebuilt 1 results, reused 1",
    ]
    listing = root / "chapters.yaml"
    words = listing.read_text(encoding="utf-8") + "words:\n  more: less\n"
    listing.write_text(words, encoding="utf-8")
    assert explain("check") == [
        "rebuilt findings of a.md: its inputs changed",
        "rebuilt findings of b.md: its inputs changed",
        "rebuilt 2 results, reused 2",
    ]


# --- a cache in trouble ---


def test_random_damage(make_book: BookMaker, build: Build, build_clean: Build) -> None:
    root = make_book(BOOK)
    build(root)
    chance = random.Random(4)
    expected = build_clean(root)
    for path in find_folder().iterdir():
        data = bytearray(path.read_bytes())
        place = chance.randrange(len(data))
        data[place] ^= 1 << chance.randrange(8)
        path.write_bytes(data if chance.random() < 0.7 else data[:place])
    assert build(root) == expected


@pytest.mark.parametrize("value", [None, 1, [[]], {}, {"facts": []}])
def test_another_shape(make_book: BookMaker, build: Build, value: object) -> None:
    """A result with the right checksum that is not what this version stores."""
    root = make_book(BOOK)
    expected = build(root)
    for path in find_folder().iterdir():
        entry = msgpack.decode(path.read_bytes().partition(b"\n")[2])
        inputs = entry["inputs"]
        path.unlink()
        write_entry(path, {"inputs": inputs, "value": value})
    assert build(root) == expected


def write_entry(path: Path, entry: object) -> None:
    text = msgpack.encode(entry)
    path.write_bytes(hashlib.sha256(text).hexdigest().encode() + b"\n" + text)


def test_full_disk(make_book: BookMaker, child_environment: dict[str, str], tmp_path: Path) -> None:
    """`check` needs no room: it finds the same and leaves no unfinished file."""
    root = make_book(BOOK)
    command = [sys.executable, "-m", "bindery", "check"]
    no_room = ["sh", "-c", 'ulimit -f 0; exec "$@"', "sh", *command]
    environment = {**child_environment, "XDG_CACHE_HOME": str(tmp_path / "another cache")}
    full, expected = (
        subprocess.run(each, cwd=root, env=environment, capture_output=True, check=False)
        for each in (no_room, command)
    )
    assert (full.returncode, full.stdout, full.stderr) == (1, expected.stdout, b"")


def test_clock_set_back(make_book: BookMaker, build: Build, build_clean: Build) -> None:
    """The times of files do not count: an edit that is older than the build is seen."""
    root = make_book(BOOK)
    before = build(root)
    path = root / "text.md"
    path.write_text(TEXT.replace("1 + 1 = 3", "1 + 1 = 4"), encoding="utf-8")
    for each in (path, *find_folder().iterdir()):
        os.utime(each, (0, 0))
    after = build(root)
    assert before != after == build_clean(root)


def test_two_at_once(
    make_book: BookMaker, build_clean: Build, child_environment: dict[str, str]
) -> None:
    root = make_book(BOOK)
    expected = build_clean(root)["check"]
    command = [sys.executable, "-m", "bindery", "check"]
    for _ in range(2):
        running = [
            subprocess.Popen(command, cwd=root, env=child_environment, stdout=subprocess.PIPE)
            for _ in range(2)
        ]
        assert [process.communicate()[0] for process in running] == [expected] * 2


@pytest.mark.skipif(sys.platform != "linux", reason="only on Linux, two processes share the work")
def test_two_processes_make_what_one_makes(
    make_book: BookMaker, child_environment: dict[str, str], tmp_path: Path
) -> None:
    """Of a book with many chapters; with one processor, one process reads and renders them all."""
    text = "# {0}\n\n1 + 1 = {0}\n\nA [warp](glossary.md).\n\n| a |\n|---|\n| {0} |\n"
    wrong = {f"{number}.md": text.format(number) for number in range(3, 15)}
    root = make_book({**wrong, "glossary.md": GLOSSARY.replace("text.md", "3.md")})
    alone = "import os; os.sched_setaffinity(0, {min(os.sched_getaffinity(0))}); "
    made = []
    for name, before in (("two", ""), ("one", alone)):
        run = f"import runpy; {before}runpy.run_module('bindery', run_name='__main__')"
        environment = {**child_environment, "XDG_CACHE_HOME": str(tmp_path / f"cache of {name}")}
        environment["SOURCE_DATE_EPOCH"] = str(EPOCH)
        build = ("--lenient", "--out", str(tmp_path / name))
        printed = [
            subprocess.run(
                [sys.executable, "-c", run, *arguments],
                cwd=root,
                env=environment,
                stdout=subprocess.PIPE,
                check=False,
            ).stdout
            for arguments in (("check",), ("html", *build), ("epub", *build))
        ]
        files = sorted(path for path in (tmp_path / name).rglob("*") if path.is_file())
        made.append((printed[0], [path.read_bytes() for path in files]))
    assert made[0][0].count(b"error[wrong-arithmetic]") == len(wrong)
    assert made[0] == made[1]


def _fail_in_a_copy(item: int) -> int:
    raise ValueError(item)


def test_what_fails_in_the_second_process_is_done_by_the_first() -> None:
    """The result is the same, whichever of the two fails to send its own."""
    results = share_work(range(20), str, _fail_in_a_copy, lambda item, _: f"of the copy: {item}")
    assert results == [str(number) for number in range(20)]


def test_a_copy_that_fails_closes_the_connection() -> None:
    with talk_to_copy(lambda connection: connection.send(1 // 0)) as copy, pytest.raises(EOFError):
        copy.recv()


def test_oldest_are_deleted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bindery.core.cache.MAX_BYTES", 1000)
    for number in range(5):
        cache = Cache(tmp_path, tmp_path / "stored")
        cache.store(f"result {number}", {}, "x" * 100)
        cache.close()
    cache = Cache(tmp_path, tmp_path / "stored")
    found = [cache.read(f"result {number}", {}, str) is not None for number in range(5)]
    assert found[-1]
    assert not found[0]
