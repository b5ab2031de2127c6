"""Request pages politely, with a queue per host.

Requests to a host never overlap, and there is a delay between them. robots.txt and Retry-After are
obeyed. A host that fails several times in a row is not asked again.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from typing import Self
from urllib.parse import urljoin, urlsplit

import httpx
from msgspec import Struct, field

from bindery.web.addresses import ReasonNotToAsk, find_host
from bindery.web.fetch import Fault, Reply, fetch, open_client
from bindery.web.manners import Manners, read_retry_after
from bindery.web.network import (
    JudgedTransport,
    LookUp,
    find_proxy,
    look_up,
    open_context,
    refuse_proxies,
)
from bindery.web.robots import MAX_BYTES, Robots, parse_robots

_MOST_FAILURES = 3
_ROBOTS_HOPS = 5
_PASSING = (429, 500, 502, 503, 504)
"""Statuses that may change when retried."""


class Clock(Struct, frozen=True):
    """The time in seconds, and a way to sleep. Tests use their own."""

    now: Callable[[], float] = time.monotonic
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep


class _Queue(Struct):
    """The state of a host's queue."""

    turn: asyncio.Lock = field(default_factory=asyncio.Lock)
    reading_robots: asyncio.Lock = field(default_factory=asyncio.Lock)
    ready: float = 0.0
    """When the next request may start, by the Asker's clock."""
    delay: float = 0.0
    """The delay that robots.txt requests."""
    failed: list[str] = field(default_factory=list)
    """The addresses that failed since the last good response."""
    closed: Fault | None = None
    """Why the host is not asked again."""
    robots: Robots | Fault | None = None
    clients: dict[str, httpx.AsyncClient] = field(default_factory=dict)
    """By proxy; empty for direct connections."""

    @property
    def is_failing(self) -> bool:
        """Whether the host itself fails: several failures in a row, on more than one page."""
        return len(self.failed) >= _MOST_FAILURES and len(set(self.failed)) > 1


class Asker:
    """Sends one request per host at a time. `agent` is the User-Agent."""

    def __init__(
        self,
        agent: str,
        manners: Manners,
        find_reason: ReasonNotToAsk,
        look_up: LookUp = look_up,
        clock: Clock | None = None,
    ) -> None:
        """Raises ConfigError if a proxy or certificates named in the environment cannot be used."""
        refuse_proxies()
        self.manners = manners
        self._agent = agent
        self._context = open_context()
        self._find_reason = find_reason
        self._look_up = look_up
        self._clock = clock or Clock()
        self._queues: dict[str, _Queue] = {}
        self._slots = asyncio.Semaphore(manners.hosts)
        self.answered: set[str] = set()
        """Hosts that have sent any response."""

    async def __aenter__(self) -> Self:
        # A thread per host, so that a slow DNS lookup does not delay other hosts.
        threads = ThreadPoolExecutor(self.manners.hosts)
        asyncio.get_running_loop().set_default_executor(threads)
        return self

    async def __aexit__(self, *error: object) -> None:
        for queue in self._queues.values():
            for client in queue.clients.values():
                await client.aclose()

    async def ask(self, url: str, *, max_bytes: int) -> Reply | Fault:
        """Request a page if robots.txt allows it. Includes the host's delay and any retries."""
        if reason := self._find_reason(url):
            return Fault("private", f"'{url}' is not on the web: {reason}")
        robots = await self._find_robots(url)
        if isinstance(robots, Fault):
            return robots
        if not robots.allows(url):
            return Fault("robots", f"{find_host(url)}/robots.txt disallows it")
        if robots.delay > self.manners.longest_delay:
            reason = f"{find_host(url)}/robots.txt requires a delay of {robots.delay:.0f} s"
            return Fault("robots", reason)
        return await self._request(url, max_bytes=max_bytes)

    async def _find_robots(self, url: str) -> Robots | Fault:
        queue = self._find_queue(url)
        async with queue.reading_robots:
            if queue.robots is None:
                queue.robots = await self._read_robots(url)
                if isinstance(queue.robots, Robots):
                    queue.delay = min(queue.robots.delay, self.manners.longest_delay)
                    queue.ready = max(queue.ready, self._clock.now() + queue.delay)
        return queue.robots

    async def _read_robots(self, url: str) -> Robots | Fault:
        parts = urlsplit(url)
        address = f"{parts.scheme}://{parts.netloc}/robots.txt"
        for _ in range(_ROBOTS_HOPS):
            reply = await self._request(address, max_bytes=MAX_BYTES, reads_all=True)
            if isinstance(reply, Fault):
                return Robots() if reply.kind == "redirect" else reply
            location = reply.headers.get("location")
            if location is None or not 300 <= reply.status < 400:
                break
            # As in RFC 9309, a broken redirect means no rules.
            try:
                address = urljoin(address, location)
                find_host(address)
            except ValueError:
                return Robots()
            if self._find_reason(address):
                return Robots()
        else:
            return Robots()
        # The host probably has rules, so nothing is allowed for now.
        if reply.status == 429:
            return Fault("throttled", "robots.txt returned status 429")
        if reply.status >= 500:
            return Fault("connection", f"robots.txt returned status {reply.status}")
        if reply.status >= 300:
            return Robots()
        if not reply.is_whole and len(reply.body) < MAX_BYTES:
            return Fault("connection", "robots.txt could not be read completely")
        return parse_robots(reply.body.decode("utf-8", "replace"))

    def _find_queue(self, url: str) -> _Queue:
        return self._queues.setdefault(find_host(url), _Queue())

    async def _request(self, url: str, *, max_bytes: int, reads_all: bool = False) -> Reply | Fault:
        queue = self._find_queue(url)
        attempt = 0
        while True:
            async with queue.turn:
                if queue.closed:
                    return queue.closed
                await self._clock.sleep(queue.ready - self._clock.now())
                async with self._slots:
                    result = await fetch(
                        self._find_client(queue, url),
                        url,
                        seconds=self.manners.limit,
                        max_bytes=max_bytes,
                        reads_all=reads_all,
                    )
                wait = self._note(queue, url, result, attempt)
                delay = max(wait or 0.0, self.manners.delay, queue.delay)
                queue.ready = self._clock.now() + delay
                if wait is None:
                    return queue.closed or result
            attempt += 1

    def _find_client(self, queue: _Queue, url: str) -> httpx.AsyncClient:
        # A proxy resolves names itself, so the host name is judged as written.
        proxy = find_proxy(url)
        if proxy not in queue.clients:
            transport = (
                httpx.AsyncHTTPTransport(verify=self._context, proxy=proxy)
                if proxy
                else JudgedTransport(self._context, self._look_up, self._find_reason)
            )
            queue.clients[proxy] = open_client(self._agent, self.manners.limit, transport)
        return queue.clients[proxy]

    def _note(self, queue: _Queue, url: str, result: Reply | Fault, attempt: int) -> float | None:
        """Record what a response says about its host. Returns the seconds before a retry, or
        None for no retry."""
        if isinstance(result, Reply):
            return self._note_reply(queue, url, result, attempt)
        if result.kind == "redirect":  # the fault of the address, not of the host
            return None
        queue.failed.append(url)
        if result.kind in ("certificate", "private") or (result.kind == "no-host" and attempt):
            queue.closed = result
        elif queue.is_failing:
            queue.closed = Fault(result.kind, f"{result.reason}; earlier requests failed too")
        # What timed out once usually does so again.
        is_enough = attempt >= (1 if result.kind == "timeout" else self.manners.retries)
        return None if queue.closed or is_enough else self.manners.choose_wait(attempt)

    def _note_reply(self, queue: _Queue, url: str, reply: Reply, attempt: int) -> float | None:
        self.answered.add(find_host(url))
        if reply.status not in _PASSING:
            queue.failed.clear()
            return None
        asked = read_retry_after(reply.headers.get("retry-after", ""), datetime.now(UTC))
        if asked is not None and asked > self.manners.patience:
            queue.closed = Fault("throttled", f"asks to retry after {asked:.0f} s")
            return None
        if reply.status == 429:
            queue.failed.append(url)
            if queue.is_failing:
                queue.closed = Fault("throttled", "returned status 429 again")
        else:
            queue.failed.clear()
        if queue.closed or attempt >= self.manners.retries:
            return None
        return self.manners.choose_wait(attempt) if asked is None else asked
