"""`bindery serve`: a preview of the site. Pages are made on request, and again after a change."""

from __future__ import annotations

import gc
import json
import mimetypes
import sys
import threading
import time
import webbrowser
from collections.abc import Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, unquote, urlsplit

import click

from bindery.cli.console import explain_trouble, print_changes, print_troubles, root_option
from bindery.core.cache import LiveCache
from bindery.core.model import BookError, ConfigError, Finding, refuse
from bindery.core.report import format_head

if TYPE_CHECKING:
    from bindery.check.inspect import Inspection
    from bindery.check.watch import Known
    from bindery.render.site.model import Site

_HOST = "127.0.0.1"
_SCRIPT, _EVENTS, _PDF = "/-/preview.js", "/-/events", "/-/chapter.pdf"
_SHOWN = "/-/shown"
_PATIENCE_SECONDS = 0.3
_ALIVE_SECONDS = 15.0
"""How often a page that waits is told that the server is there, to find out whether the page is."""


@click.command("serve")
@root_option
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=8000,
    help="Port to listen on; 0 takes any free port.",
)
@click.option("--open", "opens", is_flag=True, help="Open the book in a browser.")
def serve(root: Path, port: int, opens: bool) -> None:
    """Show the book in a browser, and update it after each save.

    Pages keep their scroll position and show what `bindery check` finds below each block.
    """
    from bindery.check.watch import wait_for_changes

    book = _Book(root)
    try:
        server = _Server(book, port)
    except OSError as error:
        message = f"port {port} cannot be used: {(error.strerror or str(error)).lower()}"
        raise refuse("--port", message, "give another one, or 0 for any that is free") from None
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    try:
        for _ in wait_for_changes(root):
            try:
                book.read()
                if not thread.is_alive():
                    thread.start()
                    address = f"http://{_HOST}:{server.server_port}/"
                    print(f"{address} shows the book; press Ctrl-C to stop", flush=True)
                    if opens and not webbrowser.open(address):
                        print("no browser was found: open this address yourself", flush=True)
                book.shown.wait(_PATIENCE_SECONDS)  # the page you are looking at comes first
                book.check()
                if not gc.isenabled():
                    # A build ends before garbage matters, this does not; but most of a book stays.
                    gc.freeze()
                    gc.enable()
            except (BookError, OSError) as error:
                if not thread.is_alive():
                    raise
                book.report(error)
    except KeyboardInterrupt:
        pass
    finally:
        server.server_close()


class _Book:
    """The book as it was read last. What a page shows is made when a browser asks for it."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self.version = ""
        """Of the book that is shown: when it was read."""
        self.changed = threading.Condition()
        self.trouble: Sequence[Finding] = ()
        """Why the book could not be read again."""
        self.findings: Sequence[Finding] | None = None
        """What the check finds, once it has been made."""
        self._cache = LiveCache(root)
        self._inspection: Inspection | None = None
        self._site: Site | None = None
        self._known: Known | None = None
        self._making = threading.Lock()
        self._printing = threading.Lock()
        self.shown = threading.Event()
        """Whether a page shows the book as it was read."""

    def read(self) -> None:
        """Read the book. Raises BookError or OSError if that fails; pages stay as they were."""
        from bindery.book.this_edition import find_edition
        from bindery.check.inspect import read_book
        from bindery.render.appendix import append_appendix
        from bindery.render.site.building import find_clashes, gather_site

        began = time.perf_counter()
        inspection = read_book(self._root, before=self._inspection, cache=self._cache)
        if clashes := find_clashes(inspection.config):
            raise ConfigError(*clashes)
        edition, out = find_edition(inspection.config), self._root / "dist/site"
        whole = append_appendix(inspection, self._cache)
        site = gather_site(whole, edition, out, lambda _: None, self._cache)
        site.dialect.marks_lines = True
        with self.changed, self._making:
            self._inspection, self._site = inspection, site
            self.trouble, self.findings = (), None
            self.version = str(time.time_ns())
            self.shown.clear()
            self.changed.notify_all()
        seconds = time.perf_counter() - began
        print(f"{time.strftime('%H:%M:%S')} read in {seconds:.2f} s", flush=True)

    def check(self) -> None:
        """Check the book as it was read, and print what is found."""
        from bindery.check.baseline_use import sift_listed
        from bindery.check.inspect import find_faults
        from bindery.core.report import summarise
        from bindery.markdown.chapter_reader import parse_chapter

        assert self._inspection is not None
        inspection = find_faults(self._inspection)
        sifted = sift_listed(inspection)
        with self.changed:
            self.findings = sifted.fresh
            self.changed.notify_all()
        links, chapters = len(inspection.resolved.links), len(inspection.book.chapters)
        summary = summarise(sifted.fresh, links, chapters, len(sifted.accepted))
        self._known = print_changes(sifted.fresh, inspection, summary, self._known)
        self._cache.close()
        parse_chapter.cache_clear()  # or every version of a chapter would stay in memory
        _ = inspection.evidence.findings  # gather it now rather than when you save next

    def report(self, error: BookError | OSError) -> None:
        """Show why the book could not be read or checked, in the terminal and on its pages."""
        from bindery.core.repository import Tree

        if isinstance(error, OSError):
            error = explain_trouble(error)
        with self.changed:
            self.trouble = error.findings
            self.changed.notify_all()
        print_troubles(self.trouble, Tree(self._root))
        print("waiting for the next change", flush=True)

    def find(self, place: str) -> bytes | None:
        """What is at a place of the site; None where nothing is."""
        from bindery.render.site.building import list_files, write_text

        with self._making:
            if self._site is None:
                return None
            if place not in self._site.places.values():
                file = list_files(self._site).get(place)
                if file is not None:
                    return file.read_bytes() if isinstance(file, Path) else file
            text = write_text(self._site, place)
        return text.encode() if text is not None else None

    def print_pdf(self, place: str) -> bytes | None:
        """The PDF of the chapter at a place of the site; None where there is none."""
        from bindery.render.pdf.pdf import print_chapter

        with self._making:
            site = self._site
        for chapter in site.book.chapters if site else ():
            if site is not None and site.places[chapter.path] == place:
                last = self._root / "dist" / f"{site.config.name}.pdf"
                with self._printing:  # the engine is patched for one at a time
                    return print_chapter(site.inspection, site.edition, chapter, last)
        return None

    def describe(self, place: str) -> dict[str, object]:
        """What a page is told: which version of the book is there, why there is no newer one, and
        what is found in its chapter."""
        trouble = [format_head(one) for one in self.trouble]
        state: dict[str, object] = {"version": self.version, "trouble": trouble}
        if self.findings is not None:
            places = self._site.places if self._site is not None else {}
            own = [one for one in self.findings if places.get(one.span.path) == place]
            state["others"] = len(self.findings) - len(own)
            state["findings"] = [
                {
                    "line": one.span.line,
                    "kind": one.severity,
                    "text": f"{one.message} [{one.rule}]",
                    "help": one.help,
                }
                for one in own
            ]
        return state


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, book: _Book, port: int) -> None:
        self.book = book
        super().__init__((_HOST, port), _Handler)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Print a bug with its traceback; that a page has been left is none."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # or the text of an answer waits for the receipt of its head

    def log_message(self, *_: object) -> None:
        """Nothing: what is asked for is of no interest."""

    def do_GET(self) -> None:
        url = urlsplit(self.path)
        host = self.headers.get("Host", "").rpartition(":")[0]
        if host not in (_HOST, "localhost"):  # a page of the web, whose name leads here
            self._answer(403, b"this server answers to 127.0.0.1 and localhost only")
        elif url.path == _EVENTS:
            self._tell_events(parse_qs(url.query).get("page", [""])[0])
        elif url.path == _PDF:
            self._print(parse_qs(url.query).get("page", [""])[0])
        elif url.path == _SHOWN:
            self.server.book.shown.set()
            self._answer(200, b"")
        elif url.path == _SCRIPT:
            script = resources.files("bindery.render.site") / "preview.js"
            self._answer(200, script.read_bytes(), "text/javascript")
        else:
            self._show(unquote(url.path).lstrip("/"))

    def _show(self, path: str) -> None:
        place = f"{path}index.html" if not path or path.endswith("/") else path
        book, status = self.server.book, 200
        version, content = book.version, book.find(place)
        if content is None:
            status, place = 404, "404.html"
            content = book.find(place) or b"there is no such page"
        kind = mimetypes.guess_type(place)[0] or "application/octet-stream"
        if place.endswith(".html"):
            content += f'<script src="{_SCRIPT}" data-version="{version}"></script>'.encode()
        self._answer(status, content, kind)

    def _print(self, place: str) -> None:
        try:
            content = self.server.book.print_pdf(place)
        except BookError as error:
            self._answer(500, "\n".join(one.message for one in error.findings).encode())
            return
        if content is None:
            self._answer(404, b"there is no chapter at that place")
        else:
            self._answer(200, content, "application/pdf")

    def _answer(self, status: int, content: bytes, kind: str = "text/plain") -> None:
        text = kind.startswith("text/") or kind.endswith(("script", "json", "xml"))
        self.send_response(status)
        self.send_header("Content-Type", f"{kind}; charset=utf-8" if text else kind)
        self.send_header("Content-Length", str(len(content)))
        self.send_header("Cache-Control", "max-age=600" if kind.startswith("font/") else "no-store")
        self.end_headers()
        self.wfile.write(content)

    def _tell_events(self, place: str) -> None:
        """Server-sent events: the state now, and whenever it has changed."""
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Cache-Control", "no-store")
        self.send_header("Connection", "close")
        self.end_headers()
        book, told = self.server.book, ""
        try:
            while True:
                with book.changed:
                    state = json.dumps(book.describe(place))
                    if state == told:
                        book.changed.wait(_ALIVE_SECONDS)
                        state = json.dumps(book.describe(place))
                line = f"data: {state}\n\n" if state != told else ": alive\n\n"
                told = state
                self.wfile.write(line.encode())
                self.wfile.flush()
        except OSError:
            self.close_connection = True  # the page has gone
