"""The second opinion: linkchecker over a built site, and the targets inside the ebooks."""

from __future__ import annotations

import threading
import zipfile
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from bindery.crawl import crawl_outputs
from bindery.edition import find_edition
from bindery.model import BookError
from bindery.pipeline import inspect_book
from bindery.render.epub import build_epub
from bindery.render.epub import list_link_faults as list_epub_faults
from bindery.render.html import build_site


class _Pages(BaseHTTPRequestHandler):
    """A web with one page that is there; the others are gone."""

    def do_GET(self) -> None:
        found = self.path == "/there"
        body = b"<!DOCTYPE html><title>There</title><p id='part'>There" if found else b"Gone"
        self.send_response(200 if found else 404)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_HEAD = do_GET  # noqa: N815 - the name is given by http.server

    def log_message(self, *arguments: object) -> None:
        """Nothing: the tests look at the findings."""


@pytest.fixture
def web() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Pages)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def _make_book(root: Path, text: str) -> Path:
    root.mkdir(parents=True)
    (root / "chapters.yaml").write_text("title: T\nparts:\n  - chapters: [README.md, b.md]\n")
    (root / "README.md").write_text(text)
    (root / "b.md").write_text("# B\n\n## Part\n\nBack to [A](README.md#a).\n")
    return root


def _build_and_crawl(root: Path, *, external: bool = False) -> tuple[list[str], str]:
    inspection = inspect_book(root)
    edition = find_edition(inspection.config)
    build_site(inspection, edition, root / "dist" / "site", lambda name: None)
    findings, summary = crawl_outputs(
        inspection, edition, root / "dist", lambda name: None, external=external
    )
    places = [
        f"{f.span.path}:{f.span.line}:{f.span.col} {f.severity} {f.message}" for f in findings
    ]
    return places, summary


def test_both_opinions_agree_on_a_clean_book(tmp_path: Path) -> None:
    """A book that passes the check is crawled without a finding, and links were looked at."""
    root = _make_book(tmp_path / "book", "# A\n\nSee [B](b.md#part).\n")
    findings, summary = _build_and_crawl(root)

    assert findings == []
    assert summary.startswith("crawled ")
    assert not summary.startswith("crawled 0 ")


def test_a_page_that_lost_its_anchor_is_found(tmp_path: Path) -> None:
    """What the site breaks after the resolver spoke is reported at the author's own link."""
    root = _make_book(tmp_path / "book", "# A\n\nSee [B](b.md#part).\n")
    inspection = inspect_book(root)
    edition = find_edition(inspection.config)
    build_site(inspection, edition, root / "dist" / "site", lambda name: None)
    page = root / "dist" / "site" / "b.html"
    page.write_text(page.read_text().replace('id="part"', 'id="other"'))

    findings, _ = crawl_outputs(inspection, edition, root / "dist", lambda name: None)

    places = {(f.span.path, f.span.line, f.span.col) for f in findings}
    assert ("README.md", 3, 9) in places
    assert any("part" in f.message for f in findings)


def test_links_to_the_web_are_followed_when_asked(tmp_path: Path, web: str) -> None:
    """A page that is gone is a warning at its link; one that is there, and one that was not to be
    asked, are not."""
    text = f"# A\n\n[Here]({web}/there) and\n[gone]({web}/gone), [B](b.md).\n"
    root = _make_book(tmp_path / "book", text)

    assert _build_and_crawl(root)[0] == []
    findings, _ = _build_and_crawl(root, external=True)

    assert len(findings) == 1
    assert findings[0].startswith("README.md:4:8 warning linkchecker")
    assert "404" in findings[0]


def test_without_a_site_there_is_nothing_to_crawl(tmp_path: Path) -> None:
    """The check says what to build, and does not pass in silence."""
    root = _make_book(tmp_path / "book", "# A\n")
    inspection = inspect_book(root)
    with pytest.raises(BookError, match="no site to crawl"):
        crawl_outputs(inspection, find_edition(inspection.config), root / "dist", lambda name: None)


def test_an_ebook_with_a_dead_target_is_found(tmp_path: Path) -> None:
    """A link of the EPUB whose id is gone is named with its page."""
    root = _make_book(tmp_path / "book", "# A\n\nSee [B](b.md#part).\n")
    inspection = inspect_book(root)
    path = root / "dist" / "book.epub"
    build_epub(inspection, find_edition(inspection.config), path, lambda name: None)
    assert list_epub_faults(path)[0] == []

    with zipfile.ZipFile(path) as archive:
        members = {info.filename: archive.read(info) for info in archive.infolist()}
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in members.items():
            archive.writestr(name, data.replace(b'id="b--part"', b'id="b--gone"'))

    faults = list_epub_faults(path)[0]
    assert any("b--part" in fault for fault in faults)
