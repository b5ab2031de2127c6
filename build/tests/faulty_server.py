"""A web on this machine with the faults of the real one, and a way to ask it.

Each address of the loopback network is a host. `Answer` says what a path answers. Every request is
recorded with the times at which it came and was answered, by a clock that a test may pass in.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
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

Fault = Literal[
    "",
    "reset",
    "silent",
    "truncated",
    "endless",
]
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
        self.paths: dict[str, Answers] = {}
        self.requests: list[Request] = []
        self.port = 0
        self._tls = tls
        self._now = now
        self._counts: dict[str, int] = {}
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._ready = threading.Event()
        self._stop: asyncio.Event | None = None

    def url(self, path: str, host: str = "") -> str:
        scheme = "https" if self._tls else "http"
        return f"{scheme}://{host or self.hosts[0]}:{self.port}{path}"

    def count(self, path: str, host: str = "") -> int:
        """How many requests a path had."""
        return sum(r.path == path and host in ("", r.host) for r in self.requests)

    def start(self) -> None:
        self._thread.start()
        assert self._ready.wait(10)

    def stop(self) -> None:
        stop = self._stop
        assert stop is not None
        self._loop.call_soon_threadsafe(stop.set)
        self._thread.join(10)
        assert not self._thread.is_alive()

    def _serve(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_until_complete(self._run())
        finally:
            self._loop.close()

    async def _run(self) -> None:
        self._stop = asyncio.Event()
        first = socket.create_server((self.hosts[0], 0))
        self.port = first.getsockname()[1]
        others = [socket.create_server((host, self.port)) for host in self.hosts[1:]]
        servers = [
            await asyncio.start_server(self._answer, sock=sock, ssl=self._tls)
            for sock in (first, *others)
        ]
        self._ready.set()
        await self._stop.wait()
        for server in servers:
            server.close()
        tasks = [t for t in asyncio.all_tasks() if t is not asyncio.current_task()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while await self._answer_one(reader, writer):
                pass
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        finally:
            writer.close()

    async def _answer_one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """Answer one request. Returns whether the connection can be used again."""
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        _, path, _ = head[0].split(" ")
        agent = next((h[12:] for h in head if h.lower().startswith("user-agent:")), "")
        host = writer.get_extra_info("sockname")[0]
        asked = next((h[5:].strip() for h in head if h.lower().startswith("host:")), "")
        request = Request(host, path, agent, asked, self._now())
        self.requests.append(request)
        answer = self._choose(host, path)
        request.ended = self._now()
        return await self._write(answer, writer)

    def _choose(self, host: str, path: str) -> Answer:
        key = f"{host}{path}" if f"{host}{path}" in self.paths else path
        answers = self.paths.get(key, Answer(404, "<p>not here"))
        if isinstance(answers, Answer):
            return answers
        number = self._counts.get(f"{host}{path}", 0)
        self._counts[f"{host}{path}"] = number + 1
        return answers[min(number, len(answers) - 1)]

    async def _write(self, answer: Answer, writer: asyncio.StreamWriter) -> bool:
        body = answer.body.encode() if isinstance(answer.body, str) else answer.body
        if answer.fault == "reset":
            writer.transport.abort()
            return False
        if answer.fault == "silent":
            await asyncio.sleep(3600)
        lines = [f"HTTP/1.1 {answer.status} X"]
        lines += [f"{name}: {value}" for name, value in answer.headers.items()]
        lines.append(f"Content-Type: {answer.kind}")
        is_endless = answer.fault == "endless"
        length = len(body) + (1000 if answer.fault == "truncated" else 0)
        lines.append("Connection: close" if is_endless else f"Content-Length: {length}")
        writer.write("\r\n".join([*lines, "", ""]).encode())
        writer.write(body)
        await writer.drain()
        while answer.fault == "endless":
            writer.write(b"<p>and on" * 1000)
            await writer.drain()
        return not answer.fault


@contextmanager
def serve(
    *hosts: str, tls: ssl.SSLContext | None = None, now: Callable[[], float] = time.monotonic
) -> Iterator[FaultyServer]:
    """A server on these addresses of the loopback network."""
    server = FaultyServer(hosts or ("127.0.0.1",), tls, now)
    server.start()
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
    report: Callable[[Verdict], object] = lambda answer: None,
) -> dict[str, Verdict]:
    """The verdicts on some addresses, in the order in which they arrive."""
    answers: dict[str, Verdict] = {}

    def note(answer: Verdict) -> None:
        answers[answer.url] = answer
        report(answer)

    async def run() -> None:
        async with Asker("tests", manners, find_reason, look_up or know(), clock) as asker:
            await sweep(asker, [Address(url, ()) for url in urls], note)

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
