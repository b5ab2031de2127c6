"""Follow an address through its redirects, distinguishing permanent and temporary ones."""

from __future__ import annotations

from urllib.parse import urldefrag, urljoin

from msgspec import Struct

from bindery.web.addresses import find_host
from bindery.web.asking import Asker
from bindery.web.fetch import Fault, Reply
from bindery.web.pages import Page, read_page

MOST_HOPS = 10
_PERMANENT = (301, 308)
_REDIRECTS = (301, 302, 303, 307, 308)


class Hop(Struct, frozen=True):
    """One redirect."""

    target: str
    is_permanent: bool


class Trail(Struct, frozen=True):
    """The redirects from an address to the final response, or to a failure."""

    hops: tuple[Hop, ...]
    end: Reply | Fault
    page: Page | None = None
    """The content of the last response, if it is a readable page."""

    @property
    def last_url(self) -> str:
        return self.hops[-1].target if self.hops else ""


async def follow(asker: Asker, url: str, *, wants_anchors: bool) -> Trail:
    """Follow an address for at most ten redirects. Raises ValueError if a redirect's target is not
    an address."""
    limit = asker.manners.page_bytes if wants_anchors else asker.manners.head_bytes
    hops: list[Hop] = []
    current = url
    while True:
        reply = await asker.ask(current, max_bytes=limit)
        if isinstance(reply, Fault):
            return Trail(tuple(hops), reply)
        page = _read_page(reply)
        hop = _read_hop(current, reply, page)
        if hop is None:
            return Trail(tuple(hops), reply, page)
        hops.append(hop)
        current = urldefrag(hop.target).url
        if len(hops) == MOST_HOPS:
            return Trail(tuple(hops), Fault("redirect", f"redirects more than {MOST_HOPS} times"))


def _read_page(reply: Reply) -> Page | None:
    if not (200 <= reply.status < 300 and reply.is_page and reply.body):
        return None
    return read_page(reply)


def _read_hop(url: str, reply: Reply, page: Page | None) -> Hop | None:
    location = reply.headers.get("location")
    if reply.status in _REDIRECTS and location:
        hop = Hop(urljoin(url, location.strip()), reply.status in _PERMANENT)
        # Hosts upgrade http to https with any status.
        if url.startswith("http://") and hop.target == f"https://{url.removeprefix('http://')}":
            hop = Hop(hop.target, is_permanent=True)
    elif page and page.refresh and urldefrag(page.refresh.url).url != url:
        hop = Hop(page.refresh.url, page.refresh.seconds == 0)
    else:
        return None
    find_host(hop.target)  # raises ValueError if it is not an address
    return hop
