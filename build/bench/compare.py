"""Times bindery side by side with its peers, on one book, in one run, and prints the ratios.

usage: nox -s bench -- [--book DIR] [--runs N] [--only check,html,pdf,epub] [--keep]

Each pair is run in turn, ours, theirs, ours, theirs, so that a machine that drifts drifts for
both; the ratio is that of the medians, and the range that of the pairs. Whole processes are
timed, from start to exit. The peers:

- check: linkchecker over plain pages of the chapters, all of them given to it, AnchorCheck on,
         threads 0; cold and after a word has changed, though it keeps nothing from its last run;
- html:  Zensical, cold and after a word has changed, and Sphinx with MyST, cold; their standard
         settings;
- pdf:   WeasyPrint on the joined book: one document, no tags, no contents, no page numbers;
- epub:  pandoc on the same joined book, split by chapter.

Cold runs start without outputs and caches. After a word: the same command again, in the place of
the last run, with a word more in one chapter.

`--keep` adds the ratios to ratios.json. A ratio that is more than 15 % worse than the last kept
one of the same book is an error, with exit status 1.
"""

from __future__ import annotations

import argparse
import datetime
import itertools
import json
import os
import platform
import posixpath
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pypandoc
from bindery.check.rules import RULES
from bindery.core.config import load_config
from markdown_it import MarkdownIt
from mdit_py_plugins.anchors import anchors_plugin

RATIOS = Path(__file__).with_name("ratios.json")
WORSE = 1.15
GOALS = {
    ("check", "linkchecker"): 0.1,
    ("check, a word", "linkchecker"): 0.1,
    ("html", "Zensical"): 1.0,
    ("html, a word", "Zensical"): 0.7,
    ("pdf", "WeasyPrint"): 1.3,
    ("epub", "pandoc"): 0.8,
    ("epub, a word", "pandoc"): 0.5,
}
"""Ratios that a book of some fifty chapters should reach; in a small one most of the time is that
of starting Python, and ratios say little."""


@dataclass(frozen=True, slots=True)
class Contest:
    """A command of ours and one of a peer's. `prepare` makes both start alike."""

    verb: str
    work: str
    peer: str
    ours: list[str]
    theirs: list[str]
    prepare: Callable[[], None]
    good: tuple[int, ...] = (0,)
    """Exit statuses of a run that did its work; findings are work done."""
    is_warm: bool = False
    """Whether both have run once before the first run that counts."""


Row = dict[str, Any]


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--book", type=Path, default=Path(), help="folder with chapters.yaml, or a chapters-md.txt"
    )
    parser.add_argument("--runs", type=int, default=3, help="pairs of runs of each contest")
    parser.add_argument("--only", default="check,html,pdf,epub", help="contests, by comma")
    parser.add_argument("--keep", action="store_true", help="add the ratios to ratios.json")
    options = parser.parse_args()
    if options.runs < 1:
        parser.error("--runs counts from 1")
    wanted = options.only.split(",")
    unknown = set(wanted) - {"check", "html", "pdf", "epub"}
    if unknown:
        parser.error(f"no such contest: {', '.join(sorted(unknown))}")
    with tempfile.TemporaryDirectory(prefix="bindery-bench-") as name:
        work = Path(name)
        os.environ["XDG_CACHE_HOME"] = str(work / "cache")
        book = copy_book(options.book, work)
        title = load_config(book, RULES).title
        rows = [
            race(contest, options.runs)
            for contest in make_contests(book, work)
            if contest.verb in wanted
        ]
    print_rows(rows)
    kept = json.loads(RATIOS.read_text()) if RATIOS.exists() else []
    worse = find_worse(kept, title, rows)
    for line in worse:
        print(f"error: {line}", file=sys.stderr)
    if options.keep:
        kept.append(describe_run(title, options.runs, rows))
        RATIOS.write_text(json.dumps(kept, indent=1) + "\n")
    return int(bool(worse))


def find_worse(kept: list[Row], title: str, rows: list[Row]) -> list[str]:
    """What is more than 15 % worse than the last kept ratio of this book, a line each."""
    last = {
        (row["work"], row["peer"]): row["ratio"]
        for run in kept
        if run["book"] == title
        for row in run["ratios"]
    }
    return [
        f"{row['work']} against {row['peer']}: {row['ratio']:.2f}, last kept {before:.2f}"
        for row in rows
        if (before := last.get((row["work"], row["peer"]))) and row["ratio"] > WORSE * before
    ]


def describe_run(title: str, runs: int, rows: list[Row]) -> Row:
    """An entry of ratios.json: when, on what, with which versions, and the medians."""
    packages = ("linkchecker", "zensical", "sphinx", "myst-parser", "weasyprint", "pypandoc_binary")
    cpus = re.search(r"^model name\s*: (.*)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    return {
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "book": title,
        "machine": f"{os.cpu_count()} x {cpus[1] if cpus else platform.machine()}",
        "python": platform.python_version(),
        "peers": {name: version(name) for name in packages},
        "runs": runs,
        "ratios": [
            {
                "work": row["work"],
                "peer": row["peer"],
                "seconds": round(statistics.median(row["ours"]), 2),
                "peer_seconds": round(statistics.median(row["theirs"]), 2),
                "ratio": round(row["ratio"], 3),
            }
            for row in rows
        ],
    }


def copy_book(source: Path, work: Path) -> Path:
    """A copy of the book to work in, with a chapters.yaml."""
    if not source.is_dir():
        sys.exit(f"there is no folder '{source}'")
    skip = shutil.ignore_patterns(".git", ".nox", ".venv", "dist", "node_modules", "__pycache__")
    book = work / "book"
    shutil.copytree(source, book, ignore=skip)
    for path in (book, *book.rglob("*")):
        path.chmod(path.stat().st_mode | 0o200)
    if not (book / "chapters.yaml").is_file():
        run([sys.executable, "-m", "bindery", "import", str(book)], (0,))
    return book


def make_contests(book: Path, work: Path) -> Iterator[Contest]:
    config = load_config(book, RULES)
    python = sys.executable
    bindery = [python, "-m", "bindery"]
    dist = work / "dist"
    build = ["--root", str(book), "--out", str(dist), "--lenient", "--quiet"]

    def clean() -> None:
        shutil.rmtree(dist, ignore_errors=True)
        shutil.rmtree(work / "cache", ignore_errors=True)

    chapters = [entry.path for entry in config.chapters]
    sources = work / "sources"
    copy_sources(book, config.folder, chapters, sources)
    inside = [
        path.removeprefix(f"{config.folder}/") if config.folder else path for path in chapters
    ]
    pages = write_plain_pages(sources, inside, work / "crawled")
    linkchecker_config = work / "linkcheckerrc"
    linkchecker_config.write_text("[checking]\nthreads=0\n[AnchorCheck]\n[filtering]\n")
    crawl = [python, "-m", "linkcheck", "--no-status", "--no-warnings"]
    crawl += [f"--config={linkchecker_config}", *pages]
    verify_crawl(crawl, len(pages))
    words = itertools.count()

    def add_word() -> None:
        number = next(words)
        for chapter in (sources / inside[-1], book / chapters[-1]):
            with chapter.open("a") as file:
                file.write(f"\nWord {number}.\n")

    check = [*bindery, "check", "--root", str(book)]
    yield Contest("check", "check", "linkchecker", check, crawl, clean, (0, 1))
    yield Contest(
        "check", "check, a word", "linkchecker", check, crawl, add_word, (0, 1), is_warm=True
    )

    settings = work / "mkdocs.yml"
    settings.write_text(
        "site_name: Bench\ndocs_dir: sources\nsite_dir: zensical\ntheme:\n  font: false\n"
    )

    def clean_zensical() -> None:
        clean()
        shutil.rmtree(work / "zensical", ignore_errors=True)
        shutil.rmtree(work / ".cache", ignore_errors=True)

    build_site = [python, "-m", "zensical", "build", "--config-file", str(settings)]
    html = [*bindery, "html", *build]
    yield Contest("html", "html", "Zensical", html, build_site, clean_zensical)
    yield Contest("html", "html, a word", "Zensical", html, build_site, add_word, is_warm=True)
    conf = work / "sphinx"
    conf.mkdir()
    (conf / "conf.py").write_text(
        "project = 'Bench'\nextensions = ['myst_parser']\nroot_doc = 'README'\n"
        "myst_heading_anchors = 6\nsuppress_warnings = ['*']\n"
    )

    def clean_sphinx() -> None:
        clean()
        shutil.rmtree(work / "sphinx-out", ignore_errors=True)

    yield Contest(
        "html",
        "html",
        "Sphinx + MyST",
        html,
        [
            python, "-m", "sphinx", "-q", "-b", "html", "-c", str(conf),
            str(sources), str(work / "sphinx-out"),
        ],
        clean_sphinx,
    )  # fmt: skip

    joined = work / "joined.html"
    joined.write_text(join_chapters(sources, inside), encoding="utf-8")
    script = work / "plain.py"
    script.write_text(
        "import sys, weasyprint\nweasyprint.HTML(sys.argv[1]).write_pdf(sys.argv[2])\n"
    )
    yield Contest(
        "pdf",
        "pdf",
        "WeasyPrint",
        [*bindery, "pdf", *build],
        [python, str(script), str(joined), str(work / "plain.pdf")],
        clean,
    )
    pack = [
        pypandoc.get_pandoc_path(), "--from=html", "--to=epub3", "--split-level=1",
        f"--output={work / 'plain.epub'}", str(joined),
    ]  # fmt: skip
    epub = [*bindery, "epub", *build]
    yield Contest("epub", "epub", "pandoc", epub, pack, clean)
    yield Contest("epub", "epub, a word", "pandoc", epub, pack, add_word, is_warm=True)


def verify_crawl(command: list[str], pages: int) -> None:
    """A peer that looks at nothing is quick: linkchecker has to have followed links."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    match = re.search(r"(\d+) links? in \d+ URLs? checked", done.stdout)
    if match is None or int(match[1]) <= pages:
        sys.exit(f"linkchecker looked at nothing:\n{done.stdout[-1000:]}{done.stderr[-1000:]}")


def copy_sources(book: Path, folder: str, chapters: list[str], target: Path) -> None:
    """The chapters and images of the book, as a generator that knows nothing else finds them."""
    base = book / folder
    images = (".png", ".jpg", ".jpeg", ".gif", ".svg", ".webp")
    for path in base.rglob("*"):
        relative = path.relative_to(book).as_posix()
        if relative in chapters or path.suffix.lower() in images:
            copy = target / path.relative_to(base)
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, copy)


def make_plain_parser() -> MarkdownIt:
    parser = MarkdownIt("commonmark").enable(["table", "strikethrough"])
    return parser.use(anchors_plugin, max_level=6)


def write_plain_pages(sources: Path, chapters: list[str], target: Path) -> list[str]:
    """Each chapter as a page without a frame, which is the least that linkchecker can crawl: a
    menu on every page would make it ten times slower. Readable for "nobody", which it becomes."""
    shutil.copytree(sources, target)
    parser = make_plain_parser()
    for path in chapters:
        tokens = parser.parse((sources / path).read_text(encoding="utf-8"))
        for token in tokens:
            for child in token.children or []:
                href = str(child.attrs.get("href", ""))
                if href and "://" not in href:
                    file, hash_mark, anchor = href.partition("#")
                    child.attrs["href"] = re.sub(r"\.md$", ".html", file) + hash_mark + anchor
        body = parser.renderer.render(tokens, parser.options, {})
        page = target / path.replace(".md", ".html")
        page.write_text(f"<!DOCTYPE html><meta charset='utf-8'>{body}", encoding="utf-8")
    for folder in (target.parent, target, *target.rglob("*")):
        folder.chmod(0o755 if folder.is_dir() else 0o644)
    return [str(target / path.replace(".md", ".html")) for path in chapters]


def join_chapters(sources: Path, chapters: list[str]) -> str:
    """The book as one plain page: Markdown with tables, ids unlike in each chapter, links and
    images made to work. This is what one would write in an afternoon."""
    parser = make_plain_parser()
    bodies = []
    for number, path in enumerate(chapters):
        tokens = parser.parse((sources / path).read_text(encoding="utf-8"))
        here = posixpath.dirname(path)
        for token in tokens:
            if "id" in token.attrs:
                token.attrs["id"] = f"c{number}-{token.attrs['id']}"
            for child in token.children or []:
                source = str(child.attrs.get("src", ""))
                if source and "://" not in source:
                    image = (sources / posixpath.normpath(posixpath.join(here, source))).resolve()
                    child.attrs["src"] = image.as_uri()
                href = str(child.attrs.get("href", ""))
                if href.startswith("#"):
                    child.attrs["href"] = f"#c{number}-{href[1:]}"
                elif href and "://" not in href and ".md" in href:
                    target, _, anchor = href.partition("#")
                    target = posixpath.normpath(posixpath.join(here, target))
                    if target in chapters:
                        child.attrs["href"] = f"#c{chapters.index(target)}-{anchor}"
        bodies.append(parser.renderer.render(tokens, parser.options, {}))
    style = (
        "body { font: 10pt/1.4 serif } pre { white-space: pre-wrap; font-size: 8pt } "
        "img { max-width: 100% } h1 { break-before: page } "
        "table { border-collapse: collapse; font-size: 8.5pt }"
    )
    return (
        f"<!DOCTYPE html><html lang='en'><head><meta charset='utf-8'><title>Bench</title>"
        f"<style>{style}</style></head><body>{''.join(bodies)}</body></html>"
    )


def race(contest: Contest, runs: int) -> Row:
    ours, theirs = [], []
    if contest.is_warm:
        run(contest.ours, contest.good)
        run(contest.theirs, contest.good)
    for _ in range(runs):
        contest.prepare()
        ours.append(run(contest.ours, contest.good))
        contest.prepare()
        theirs.append(run(contest.theirs, contest.good))
    pairs = sorted(a / b for a, b in zip(ours, theirs, strict=True))
    ratio = statistics.median(ours) / statistics.median(theirs)
    print(f"{contest.work} against {contest.peer}: {ratio:.2f}", file=sys.stderr, flush=True)
    return {
        "work": contest.work,
        "peer": contest.peer,
        "ours": ours,
        "theirs": theirs,
        "ratio": ratio,
        "least": pairs[0],
        "most": pairs[-1],
    }


def run(command: list[str], good: tuple[int, ...]) -> float:
    """Seconds that a command took. A command that fails ends the benchmark, and says why."""
    started = time.perf_counter()
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONHASHSEED": "0"},
    )
    seconds = time.perf_counter() - started
    if done.returncode not in good:
        sys.exit(f"{' '.join(command)[:300]}\nended with {done.returncode}:\n{done.stderr[-2000:]}")
    return seconds


def print_rows(rows: list[Row]) -> None:
    print("| what | peer | ours, s | theirs, s | ratio | range | goal |")
    print("|:-----|:-----|--------:|----------:|------:|:------|-----:|")
    for row in rows:
        ours, theirs = statistics.median(row["ours"]), statistics.median(row["theirs"])
        goal = GOALS.get((row["work"], row["peer"]), "")
        print(
            f"| {row['work']} | {row['peer']} | {ours:.2f} | {theirs:.2f} | {row['ratio']:.2f} "
            f"| {row['least']:.2f} to {row['most']:.2f} | {goal} |"
        )


if __name__ == "__main__":
    sys.exit(main())
