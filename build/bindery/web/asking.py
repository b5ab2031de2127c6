"""Asking hosts: each has a queue of its own, in which nobody pushes.

No two requests of one host are under way at once, a least time lies between them, and what a host
says about robots and about coming back later is kept. A host that does not answer several times in
a row is not asked again.
"""

from __future__ import annotations

import asyncio
import socket
import time
from dataclasses import dataclass, field
from datetime import UTC, datetime
from urllib.parse import urljoin, urlsplit
from urllib.request import getproxies

import httpx

from bindery.web.addresses import ReasonNotToAsk, find_host
from bindery.web.fetch import Fault, Method, Reply, fetch, open_client
from bindery.web.manners import Manners, read_retry_after
from bindery.web.robots import MAX_BYTES, Robots, parse_robots
from bindery.web.walls import find_wall

_MOST_FAILURES = 3
_ROBOTS_HOPS = 5
_PASSING = (429, 500, 502, 503, 504)
"""Answers that may be others a little later."""


@dataclass(slots=True)
class _Queue:
    """What is known of a host, and whose turn it is."""

    turn: asyncio.Lock = field(default_factory=asyncio.Lock)
    reading_robots: asyncio.Lock = field(default_factory=asyncio.Lock)
    ready: float = 0.0
    """When the next request may begin, on the clock of `time.monotonic`."""
    delay: float = 0.0
    """What the host itself asks for."""
    failed: list[str] = field(default_factory=list)
    """What was asked in vain since the last good answer."""
    closed: Fault | None = None
    """Why it is not asked any more."""
    robots: Robots | Fault | None = None
    is_known: bool = False
    """Whether its name has been found."""
    client: httpx.AsyncClient | None = None

    @property
    def is_failing(self) -> bool:
        """Whether it is the host that fails, and not a page of it: it has failed several times in
        a row, and on more than one page."""
        return len(self.failed) >= _MOST_FAILURES and len(set(self.failed)) > 1


class Asker:
    """Asks, one request at a time of each host."""

    def __init__(self, agent: str, manners: Manners, find_reason: ReasonNotToAsk) -> None:
        self.manners = manners
        self._agent = agent
        self._context = httpx.create_ssl_context()
        self._find_reason = find_reason
        self._queues: dict[str, _Queue] = {}
        self._slots = asyncio.Semaphore(manners.hosts)
        # Behind a proxy it is the proxy that does.
        self._looks_up_names = not {"http", "https", "all"} & getproxies().keys()
        self.answered: set[str] = set()
        """Hosts that have answered anything at all."""

    async def ask(self, method: Method, url: str, *, max_bytes: int) -> Reply | Fault:
        """Ask where robots are allowed to. Comes back when the host has been given its time, and
        what passes has had its retries."""
        if reason := self._find_reason(url):
            return Fault("private", f"'{url}' is not on the web: {reason}")
        robots = await self._find_robots(url)
        if isinstance(robots, Fault):
            return robots
        if not robots.allows(url):
            return Fault("robots", f"{find_host(url)}/robots.txt asks programs to stay away")
        return await self._request(method, url, max_bytes=max_bytes)

    async def close(self) -> None:
        """End all connections."""
        for queue in self._queues.values():
            if queue.client is not None:
                await queue.client.aclose()

    async def _find_robots(self, url: str) -> Robots | Fault:
        queue = self._find_queue(url)
        async with queue.reading_robots:
            if queue.robots is None:
                queue.robots = await self._read_robots(url)
                if isinstance(queue.robots, Robots):
                    queue.delay = queue.robots.delay
        return queue.robots

    async def _read_robots(self, url: str) -> Robots | Fault:
        parts = urlsplit(url)
        address = f"{parts.scheme}://{parts.netloc}/robots.txt"
        for _ in range(_ROBOTS_HOPS):
            reply = await self._request("GET", address, max_bytes=MAX_BYTES)
            if isinstance(reply, Fault):
                return reply
            location = reply.headers.get("location")
            if location is None or not 300 <= reply.status < 400:
                break
            address = urljoin(address, location)
            if self._find_reason(address):
                return Robots()
        else:
            return Robots()
        if reply.status >= 500:  # the host may well have rules, so nothing is allowed for now
            return Fault("connection", f"robots.txt answers {reply.status}")
        if reply.status >= 300 or reply.is_page:
            return Robots()
        return parse_robots(reply.body.decode("utf-8", "replace"))

    def _find_queue(self, url: str) -> _Queue:
        return self._queues.setdefault(find_host(url), _Queue())

    async def _request(self, method: Method, url: str, *, max_bytes: int) -> Reply | Fault:
        queue = self._find_queue(url)
        attempt = 0
        while True:
            async with queue.turn:
                if queue.closed:
                    return queue.closed
                await asyncio.sleep(queue.ready - time.monotonic())
                result = await self._look_up(queue, url) or await self._fetch(
                    queue, method, url, max_bytes
                )
                wait = self._note(queue, url, result, attempt)
                queue.ready = time.monotonic() + max(wait or 0.0, self.manners.delay, queue.delay)
                if wait is None:
                    return queue.closed or result
            attempt += 1

    async def _fetch(
        self, queue: _Queue, method: Method, url: str, max_bytes: int
    ) -> Reply | Fault:
        limit = self.manners.limit
        if queue.client is None:
            queue.client = open_client(self._agent, limit, self._context)
        async with self._slots:
            return await fetch(queue.client, method, url, seconds=limit, max_bytes=max_bytes)

    async def _look_up(self, queue: _Queue, url: str) -> Fault | None:
        """Look for the host by its name, once: what httpx says of names does not tell one that
        does not exist from one that cannot be found just now."""
        host = urlsplit(url).hostname or ""
        if queue.is_known or not self._looks_up_names:
            return None
        try:
            loop = asyncio.get_running_loop()
            name = host if host.isascii() else host.encode("idna").decode("ascii")
            found = await loop.getaddrinfo(name, None, type=socket.SOCK_STREAM)
        except socket.gaierror as error:
            if error.errno in (socket.EAI_NONAME, getattr(socket, "EAI_NODATA", None)):
                return Fault("no-host", f"there is no host '{host}'")
            return Fault("connection", f"the host '{host}' cannot be looked up just now")
        except UnicodeError:
            return Fault("no-host", f"'{host}' cannot be the name of a host")
        queue.is_known = True
        if any(self._find_reason(_write_url(str(entry[4][0]))) for entry in found):
            return Fault(
                "private", f"the host '{host}' is not on the web, but in a private network"
            )
        return None

    def _note(self, queue: _Queue, url: str, result: Reply | Fault, attempt: int) -> float | None:
        """Keep what an answer says of its host. Gives the seconds to wait before it is asked the
        same again; None where it is not."""
        if isinstance(result, Reply):
            return self._note_reply(queue, url, result, attempt)
        if result.kind == "redirect":  # the address is at fault and not the host
            return None
        queue.failed.append(url)
        if result.kind in ("certificate", "private") or (result.kind == "no-host" and attempt):
            queue.closed = result
        elif queue.is_failing:
            queue.closed = Fault(result.kind, f"{result.reason}; nor to other questions before")
        # What is slow once is mostly slow again, and a slow host has others to serve.
        is_enough = attempt >= (1 if result.kind == "timeout" else self.manners.retries)
        return None if queue.closed or is_enough else self.manners.choose_wait(attempt)

    def _note_reply(self, queue: _Queue, url: str, reply: Reply, attempt: int) -> float | None:
        self.answered.add(find_host(url))
        if reply.status not in _PASSING or find_wall(reply):
            queue.failed.clear()
            return None
        asked = read_retry_after(reply.headers.get("retry-after", ""), datetime.now(UTC))
        if asked is not None and asked > self.manners.patience:
            queue.closed = Fault("throttled", f"asks to come back in {asked:.0f} s")
            return None
        if reply.status == 429:
            queue.failed.append(url)
            if queue.is_failing:
                queue.closed = Fault("throttled", "answers 429, and did so before")
        else:
            queue.failed.clear()
        if queue.closed or attempt >= self.manners.retries:
            return None
        return self.manners.choose_wait(attempt) if asked is None else asked


def _write_url(address: str) -> str:
    return f"http://[{address}]/" if ":" in address else f"http://{address}/"
