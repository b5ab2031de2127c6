"""Look up archived copies of dead pages in the Wayback Machine."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from urllib.parse import quote, urlsplit

from bindery.web.asking import Asker
from bindery.web.fetch import Fault

WAYBACK = "https://archive.org/wayback/available"
_MAX_BYTES = 64 << 10


async def find_copies(
    asker: Asker, urls: Iterable[str], service: str = WAYBACK
) -> Mapping[str, str]:
    """The newest archived copy of each page that has one. `service` speaks the availability API of
    the Wayback Machine."""
    copies = {}
    for url in urls:
        question = f"{service}?url={quote(url, safe='')}"
        reply = await asker.ask(question, max_bytes=_MAX_BYTES)
        if isinstance(reply, Fault) or reply.status != 200:
            continue
        if copy := _read_copy(reply.body):
            copies[url] = copy
    return copies


def _read_copy(body: bytes) -> str:
    try:
        closest = json.loads(body)["archived_snapshots"]["closest"]
        url, status, is_there = closest["url"], closest["status"], closest["available"]
    except (ValueError, KeyError, TypeError):
        return ""
    if not is_there or status != "200" or not isinstance(url, str):
        return ""
    parts = urlsplit(url)
    return parts._replace(scheme="https").geturl() if parts.scheme in ("http", "https") else ""
