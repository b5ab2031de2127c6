"""Times bindery side by side with its peers, on one book, in one run, and prints the ratios.

usage: nox -s bench -- [--book DIR] [--runs N] [--only check,html,pdf,epub]

Each pair is run in turn, ours, theirs, ours, theirs, so that a machine that drifts drifts for
both; the ratio is that of the medians, and the range that of the pairs. Whole processes are
timed, from start to exit. The peers:

- check: linkchecker over plain pages of the chapters, all of them given to it, AnchorCheck on,
         threads 0;
- html:  MkDocs with the Material theme, and Sphinx with MyST, their standard settings, cold;
- pdf:   WeasyPrint on the joined book: one document, no tags, no contents, no page numbers;
- epub:  pandoc on the same joined book, split by chapter.

Building a book twice in one folder would let caches help, so each run starts from a clean one.
"""

from __future__ import annotations

import argparse
import json
import os
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
from pathlib import Path

import pypandoc
from bindery.check.rules import RULES
from bindery.core.config import load_config
from markdown_it import MarkdownIt
from mdit_py_plugins.anchors import anchors_plugin

GOALS = {"linkchecker": 0.2, "MkDocs Material": 1.0, "WeasyPrint": 1.6, "pandoc": 1.2}
"""Largest ratio to each peer that this project accepts for a book of some fifty chapters; in a
small one most of the time is that of starting Python, and ratios say little."""


@dataclass(frozen=True, slots=True)
class Contest:
    """A command of ours and one of a peer's. `prepare` brings both back to the start."""

    verb: str
    peer: str
    ours: list[str]
    theirs: list[str]
    prepare: Callable[[], None]
    good: tuple[int, ...] = (0,)
    """Exit statuses of a run that did its work; findings are work done."""


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--book", type=Path, default=Path(), help="folder with chapters.yaml, or a chapters-md.txt"
    )
    parser.add_argument("--runs", type=int, default=3, help="pairs of runs of each contest")
    parser.add_argument("--only", default="check,html,pdf,epub", help="contests, by comma")
    parser.add_argument("--json", type=Path, help="write the seconds here")
    options = parser.parse_args()
    if options.runs < 1:
        parser.error("--runs counts from 1")
    wanted = options.only.split(",")
    unknown = set(wanted) - {"check", "html", "pdf", "epub"}
    if unknown:
        parser.error(f"no such contest: {', '.join(sorted(unknown))}")
    with tempfile.TemporaryDirectory(prefix="bindery-bench-") as name:
        work = Path(name)
        book = copy_book(options.book, work)
        rows = [
            race(contest, options.runs)
            for contest in make_contests(book, work)
            if contest.verb in wanted
        ]
    print_rows(rows)
    if options.json:
        options.json.write_text(json.dumps(rows, indent=2) + "\n")
    return 0


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
    yield Contest(
        "check",
        "linkchecker",
        [*bindery, "check", "--root", str(book)],
        crawl,
        clean,
        (0, 1),
    )

    mkdocs = work / "mkdocs.yml"
    mkdocs.write_text(
        f"site_name: Bench\ndocs_dir: {sources}\nsite_dir: {work / 'mkdocs'}\n"
        "theme:\n  name: material\n  font: false\n"
    )

    def clean_mkdocs() -> None:
        clean()
        shutil.rmtree(work / "mkdocs", ignore_errors=True)

    yield Contest(
        "html",
        "MkDocs Material",
        [*bindery, "html", *build],
        [python, "-m", "mkdocs", "build", "--quiet", "--config-file", str(mkdocs)],
        clean_mkdocs,
    )
    settings = work / "sphinx"
    settings.mkdir()
    (settings / "conf.py").write_text(
        "project = 'Bench'\nextensions = ['myst_parser']\nroot_doc = 'README'\n"
        "myst_heading_anchors = 6\nsuppress_warnings = ['*']\n"
    )

    def clean_sphinx() -> None:
        clean()
        shutil.rmtree(work / "sphinx-out", ignore_errors=True)

    yield Contest(
        "html",
        "Sphinx + MyST",
        [*bindery, "html", *build],
        [
            python, "-m", "sphinx", "-q", "-b", "html", "-c", str(settings),
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
        "WeasyPrint",
        [*bindery, "pdf", *build],
        [python, str(script), str(joined), str(work / "plain.pdf")],
        clean,
    )
    yield Contest(
        "epub",
        "pandoc",
        [*bindery, "epub", *build],
        [
            pypandoc.get_pandoc_path(), "--from=html", "--to=epub3", "--split-level=1",
            f"--output={work / 'plain.epub'}", str(joined),
        ],
        clean,
    )  # fmt: skip


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


def race(contest: Contest, runs: int) -> dict[str, object]:
    ours, theirs = [], []
    for _ in range(runs):
        contest.prepare()
        ours.append(run(contest.ours, contest.good))
        contest.prepare()
        theirs.append(run(contest.theirs, contest.good))
    pairs = sorted(a / b for a, b in zip(ours, theirs, strict=True))
    ratio = statistics.median(ours) / statistics.median(theirs)
    goal = GOALS.get(contest.peer)
    print(f"{contest.verb} against {contest.peer}: {ratio:.2f}", file=sys.stderr, flush=True)
    return {
        "verb": contest.verb,
        "peer": contest.peer,
        "ours": ours,
        "theirs": theirs,
        "ratio": ratio,
        "least": pairs[0],
        "most": pairs[-1],
        "goal": goal,
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


def print_rows(rows: list[dict[str, object]]) -> None:
    print("| what | peer | ours, s | theirs, s | ratio | range | goal |")
    print("|:-----|:-----|--------:|----------:|------:|:------|-----:|")
    for row in rows:
        ours = statistics.median(row["ours"])  # type: ignore[arg-type]
        theirs = statistics.median(row["theirs"])  # type: ignore[arg-type]
        goal = f"{row['goal']}" if row["goal"] is not None else ""
        print(
            f"| {row['verb']} | {row['peer']} | {ours:.2f} | {theirs:.2f} | {row['ratio']:.2f} "
            f"| {row['least']:.2f} to {row['most']:.2f} | {goal} |"
        )


if __name__ == "__main__":
    sys.exit(main())
