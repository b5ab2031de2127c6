"""Check all addresses of a book, host by host, and report verdicts as they arrive."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime

from msgspec.structs import replace

from bindery.web.addresses import Address, find_host
from bindery.web.answers import Answer
from bindery.web.asking import Asker
from bindery.web.fetch import Fault
from bindery.web.judging import judge
from bindery.web.trails import Trail, follow


async def sweep(
    asker: Asker, addresses: Iterable[Address], report: Callable[[Answer], None]
) -> None:
    """Check every address and report each verdict as soon as it is known.

    A page is requested once for all its anchors. Missing hosts are reported last: if no name
    resolves at all, this machine is offline.
    """
    pages: dict[str, list[Address]] = {}
    for address in addresses:
        pages.setdefault(address.page, []).append(address)
    queues: dict[str, list[str]] = {}
    for page in pages:
        queues.setdefault(find_host(page), []).append(page)
    lost: dict[str, Fault] = {}

    async def work(queue: Sequence[str]) -> None:
        for page in queue:
            wants_anchors = any(address.fragment for address in pages[page])
            try:
                trail = await follow(asker, page, wants_anchors=wants_anchors)
            except ValueError as error:
                trail = Trail((), Fault("redirect", f"redirects to a broken URL: {error}"))
            if isinstance(trail.end, Fault) and trail.end.kind == "no-host":
                lost[page] = trail.end
            else:
                report_page(page, trail)

    def report_page(page: str, trail: Trail) -> None:
        now = datetime.now(UTC).replace(microsecond=0)
        for address in pages[page]:
            report(judge(address.url, trail, now))

    async with asyncio.TaskGroup() as group:
        for queue in queues.values():
            group.create_task(work(queue))
    for page, fault in lost.items():
        if not asker.answered:
            reason = f"{fault.reason}, but this machine cannot reach any other host either"
            fault = replace(fault, kind="connection", reason=reason)
        report_page(page, Trail((), fault))
