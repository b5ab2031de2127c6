"""A web on this machine with the faults of the real one, and a way to ask it.

Each address of the loopback network is a host. `Answer` says what a path answers. Every request is
recorded with the times at which it came and was answered, by a clock that a test may pass in.
"""

import asyncio
import socket
import ssl
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Literal

from bindery.web.addresses import Address, ReasonNotToAsk
from bindery.web.answers import Answer as Verdict
from bindery.web.asking import Asker, Clock
from bindery.web.manners import Manners
from bindery.web.network import LookUp
from bindery.web.sweep import sweep

HASTY = Manners(delay=0.0, back_off=0.01, limit=30.0, patience=2.0)
BRIEF = Manners(delay=0.0, back_off=0.01, limit=1.0, page_bytes=1 << 17)
"""For hosts that never answer, or never end their answer."""
LONG = "words of a page that is written by hand and not by a script " * 20

Fault = Literal["", "reset", "silent", "truncated", "endless"]
HTML = "text/html; charset=utf-8"


@dataclass(frozen=True)
class Answer:
    """What a path answers. A fault replaces the body, or everything."""

    status: int = 200
    body: bytes | str = b""
    headers: Mapping[str, str] = field(default_factory=dict)
    kind: str = HTML
    fault: Fault = ""


@dataclass
class Request:
    """A request as it was received."""

    host: str
    path: str
    agent: str
    asked_host: str
    """The host that the request names."""
    begun: float
    ended: float = 0.0
    """When the answer was ready."""


class FakeTime:
    """A time that passes only while a program waits."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.clock = Clock(lambda: self.seconds, self._sleep)

    async def _sleep(self, seconds: float) -> None:
        self.seconds += max(seconds, 0.0)
        await asyncio.sleep(0)


Answers = Answer | Sequence[Answer]
"""One per request in turn, the last one for all further requests."""


class FaultyServer:
    """Serves the same paths on all its hosts, except paths that are given with a host."""

    def __init__(
        self,
        hosts: Sequence[str],
        tls: ssl.SSLContext | None = None,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self.hosts = hosts
        self.now = now
        self.paths: dict[str, Answers] = {}
        self.requests: list[Request] = []
        self.stopped = threading.Event()
        self.port = 0
        self._scheme = "https" if tls else "http"
        self._counts: Counter[str] = Counter()
        self._listeners = []
        for host in hosts:
            listener = _Listener((host, self.port), _Handler)
            listener.web, self.port = self, listener.server_port
            if tls:
                listener.socket = tls.wrap_socket(listener.socket, server_side=True)
            threading.Thread(target=listener.serve_forever, args=(0.01,), daemon=True).start()
            self._listeners.append(listener)

    def url(self, path: str, host: str = "") -> str:
        return f"{self._scheme}://{host or self.hosts[0]}:{self.port}{path}"

    def count(self, path: str) -> int:
        """How many requests a path had."""
        return sum(request.path == path for request in self.requests)

    def stop(self) -> None:
        self.stopped.set()
        for listener in self._listeners:
            listener.shutdown()
            listener.server_close()

    def choose(self, host: str, path: str) -> Answer:
        key = f"{host}{path}" if f"{host}{path}" in self.paths else path
        answers = self.paths.get(key, Answer(404, "<p>not here"))
        if isinstance(answers, Answer):
            return answers
        self._counts[f"{host}{path}"] += 1
        return answers[min(self._counts[f"{host}{path}"], len(answers)) - 1]


class _Listener(ThreadingHTTPServer):
    web: FaultyServer

    def handle_error(self, *_: object) -> None:
        """Clients that go away are no news."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Listener

    def do_GET(self) -> None:
        web, host = self.server.web, str(self.server.server_address[0])
        names = self.headers["User-Agent"], self.headers["Host"]
        request = Request(host, self.path, *names, web.now())
        web.requests.append(request)
        answer = web.choose(host, self.path)
        request.ended = web.now()
        self.close_connection = bool(answer.fault)
        if answer.fault == "silent":
            web.stopped.wait()
        if answer.fault in ("silent", "reset"):
            return
        body = answer.body.encode() if isinstance(answer.body, str) else answer.body
        self.send_response_only(answer.status)
        for name, value in {**answer.headers, "Content-Type": answer.kind}.items():
            self.send_header(name, value)
        if answer.fault == "endless":
            body = b"<p>and on" * 1000
        else:
            missing = 1000 if answer.fault == "truncated" else 0
            self.send_header("Content-Length", str(len(body) + missing))
        self.end_headers()
        self.wfile.write(body)
        while answer.fault == "endless":
            self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Requests are in `FaultyServer.requests`."""


@contextmanager
def serve(
    *hosts: str, tls: ssl.SSLContext | None = None, now: Callable[[], float] = time.monotonic
) -> Iterator[FaultyServer]:
    """A server on these addresses of the loopback network."""
    server = FaultyServer(hosts or ("127.0.0.1",), tls, now)
    try:
        yield server
    finally:
        server.stop()


def redirect(status: int, target: str) -> Answer:
    return Answer(status, headers={"Location": target})


def refresh(seconds: int, target: str) -> Answer:
    return Answer(body=f'<meta http-equiv="refresh" content="{seconds}; url={target}">')


def allow_loopback(url: str) -> str:
    """Allow this machine only, so that no test reaches the real web."""
    host = url.partition("://")[2].partition("/")[0].partition(":")[0]
    return "" if host.startswith("127.") or host.endswith(".invalid") else "private host"


def know(**names: str | Sequence[str]) -> LookUp:
    """A look-up that knows these names, `a_b` being `a.b`, and no others."""

    def look_up(name: str) -> Sequence[str]:
        found = names.get(name.replace(".", "_"))
        if found is None:
            raise socket.gaierror(socket.EAI_NONAME, "no such name")
        return (found,) if isinstance(found, str) else found

    return look_up


def ask(
    urls: Iterable[str],
    manners: Manners = HASTY,
    *,
    look_up: LookUp | None = None,
    find_reason: ReasonNotToAsk = allow_loopback,
    clock: Clock | None = None,
) -> dict[str, Verdict]:
    """The verdicts on some addresses, in the order in which they arrive."""
    answers: dict[str, Verdict] = {}

    def report(answer: Verdict) -> None:
        answers[answer.url] = answer

    async def run() -> None:
        async with Asker("tests", manners, find_reason, look_up or know(), clock) as asker:
            await sweep(asker, [Address(url, ()) for url in urls], report)

    asyncio.run(asyncio.wait_for(run(), 120))
    return answers


def ask_paths(
    paths: Mapping[str, Answers], *, fragment: str = "", manners: Manners = HASTY
) -> tuple[Verdict, FaultyServer]:
    """The verdict on the first path, and the server that was asked. No time passes."""
    time = FakeTime()
    with serve("127.0.0.1", "127.0.0.2", now=time.clock.now) as server:
        server.paths.update(paths)
        url = server.url(next(iter(paths))) + fragment
        answer = ask([url], manners, clock=time.clock)[url]
    return answer, server
