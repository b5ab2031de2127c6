"""The sites of whole books, built once for a run of tests, however many processes it has: our own
book, and the reference book, which is looked for beside the repository or where
BINDERY_REFERENCE_BOOK says."""

import fcntl
import functools
import gzip
import http.server
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import bindery
import pytest
from bindery.core.config import load_config
from bindery.render.addresses import find_page

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class WholeSite:
    """A site as it was built."""

    name: str
    folder: Path
    chapters: tuple[str, ...]
    """The pages of the chapters, in their order."""

    @property
    def pages(self) -> list[str]:
        """Every page, but for those that only lead to where a chapter has moved."""
        found = sorted(str(path.relative_to(self.folder)) for path in self.folder.rglob("*.html"))
        return [page for page in found if 'http-equiv="refresh"' not in self.read(page)]

    @property
    def largest(self) -> str:
        """The chapter with the most HTML."""
        return max(self.chapters, key=lambda page: len(self.read(page)))

    def read(self, page: str) -> str:
        return (self.folder / page).read_text(encoding="utf-8")


def copy_reference_book(target: Path) -> None:
    """Copy the reference book to a folder that is not there yet; a test without it is skipped."""
    named = os.environ.get("BINDERY_REFERENCE_BOOK", "")
    source = Path(named) if named else ROOT.parent / "shared/reference/ml-engineering"
    if not (source / "chapters-md.txt").is_file():
        pytest.skip("the reference book is missing: name its folder in BINDERY_REFERENCE_BOOK")
    shutil.copytree(source, target, copy_function=shutil.copyfile)
    for folder in (target, *(path for path in target.rglob("*") if path.is_dir())):
        folder.chmod(0o755)


def run_bindery_apart(*arguments: str, folder: Path) -> None:
    """Run the program of the package that is tested; it has to succeed."""
    package = str(Path(bindery.__file__).resolve().parents[1])
    paths = os.pathsep.join(filter(None, (package, os.environ.get("PYTHONPATH", ""))))
    ended = subprocess.run(
        [sys.executable, "-m", "bindery", *arguments],
        cwd=folder, env={**os.environ, "PYTHONPATH": paths},
        capture_output=True, text=True, timeout=600, check=False,
    )  # fmt: skip
    assert ended.returncode == 0, ended.stdout + ended.stderr


def make_once(
    tmp_path_factory: pytest.TempPathFactory, name: str, fill: Callable[[Path], None]
) -> Path:
    """A folder that is filled once for a run of tests, however many processes it has."""
    shared = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        shared = shared.parent
    folder = shared / name
    with (shared / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        mark = shared / f"{name}.whole"
        if not mark.exists():
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
            fill(folder)
            mark.touch()
    return folder


def place_book(name: str, work: Path) -> Path:
    """The folder of our own book, or of a copy of the reference book with a chapters.yaml."""
    if name == "own":
        return ROOT
    copy_reference_book(work / "book")
    run_bindery_apart("import", str(work / "book"), folder=work)
    return work / "book"


def open_whole_site(tmp_path_factory: pytest.TempPathFactory, name: str) -> WholeSite:
    """The site of our own book or of the reference book; report.json lies beside its folder."""

    def build(work: Path) -> None:
        root = place_book(name, work)
        run_bindery_apart("html", "--quiet", "--lenient", "--out", str(work), folder=root)

    work = make_once(tmp_path_factory, f"site of the {name} book", build)
    config = load_config(ROOT if name == "own" else work / "book", ())
    pages = tuple(find_page(entry.path, config.folder) for entry in config.chapters)
    return WholeSite(name, work / "site", pages)


@pytest.fixture(scope="session")
def own_site(tmp_path_factory: pytest.TempPathFactory) -> WholeSite:
    """The site of our own book."""
    return open_whole_site(tmp_path_factory, "own")


@pytest.fixture(scope="session", params=["own", "reference"])
def whole_site(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> WholeSite:
    """The site of a whole book."""
    return open_whole_site(tmp_path_factory, request.param)


class _Handler(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_: Any) -> None:
        pass

    def do_GET(self) -> None:
        path = Path(self.translate_path(self.path))
        path = path / "index.html" if path.is_dir() and self.path.endswith("/") else path
        if path.suffix not in (".html", ".css", ".js", ".svg") or not path.is_file():
            super().do_GET()
            return
        body = gzip.compress(path.read_bytes(), 6)
        self.send_response(http.HTTPStatus.OK)
        self.send_header("Content-Type", self.guess_type(str(path)))
        self.send_header("Content-Encoding", "gzip")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


@contextmanager
def serve_folder(folder: Path) -> Iterator[str]:
    """Serve a folder on loopback, texts compressed as any server of the web does; gives its
    address."""
    handler = functools.partial(_Handler, directory=str(folder))
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
