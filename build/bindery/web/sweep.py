"""All addresses of a book asked, host by host, and each verdict told as it comes."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from dataclasses import replace
from datetime import UTC, datetime

from bindery.web.addresses import (
    Address,
    ReasonNotToAsk,
    find_host,
    find_reason_not_to_ask,
)
from bindery.web.answers import Answer
from bindery.web.asking import Asker, Clock
from bindery.web.fetch import Fault
from bindery.web.judging import judge
from bindery.web.manners import Manners
from bindery.web.network import LookUp, look_up
from bindery.web.trails import Trail, follow

Tell = Callable[[Answer], None]


@contextlib.asynccontextmanager
async def open_asker(
    agent: str,
    manners: Manners,
    find_reason: ReasonNotToAsk = find_reason_not_to_ask,
    look_up: LookUp = look_up,
    clock: Clock | None = None,
) -> AsyncIterator[Asker]:
    """Open an Asker. `agent` is the name by which hosts know it.

    Raises ConfigError where the environment names a proxy or certificates that cannot be used.
    """
    asker = Asker(agent, manners, find_reason, look_up, clock)
    try:
        yield asker
    finally:
        await asker.close()


async def sweep(asker: Asker, addresses: Iterable[Address], tell: Tell) -> None:
    """Ask every address and tell each verdict as soon as it is known.

    A page is asked once for all its anchors. That a host does not exist is told last, for where
    no name at all is found it is this machine that has no web.
    """
    pages: dict[str, list[Address]] = {}
    for address in addresses:
        pages.setdefault(address.page, []).append(address)
    queues: dict[str, list[str]] = {}
    for page in pages:
        queues.setdefault(find_host(page), []).append(page)
    lost: dict[str, Trail] = {}

    async def work(queue: Sequence[str]) -> None:
        for page in queue:
            wants_anchors = any(address.fragment for address in pages[page])
            try:
                trail = await follow(asker, page, wants_anchors=wants_anchors)
            except ValueError as error:
                # An address that nobody foresaw is no reason to leave all others unasked.
                trail = Trail((), Fault("redirect", f"leads to what cannot be read: {error}"))
            if isinstance(trail.end, Fault) and trail.end.kind == "no-host":
                lost[page] = trail
            else:
                report(page, trail)

    def report(page: str, trail: Trail) -> None:
        now = datetime.now(UTC).replace(microsecond=0)
        for address in pages[page]:
            tell(judge(address.url, trail, now))

    async with asyncio.TaskGroup() as group:
        for queue in queues.values():
            group.create_task(work(queue))
    for page, trail in lost.items():
        if not asker.answered and isinstance(trail.end, Fault):
            reason = (
                f"{trail.end.reason}, as far as this machine can tell: it reaches no other either"
            )
            trail = replace(trail, end=Fault("connection", reason))
        report(page, trail)
