"""Where an address leads: its redirects one by one, those for good and those for now apart."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import urldefrag, urljoin, urlsplit

from bindery.web.addresses import find_host
from bindery.web.asking import Asker
from bindery.web.fetch import Fault, Method, Reply
from bindery.web.pages import Page, read_page_within, read_refresh_header

MOST_HOPS = 10
_FOR_GOOD = (301, 308)
_REDIRECTS = (301, 302, 303, 307, 308)
# Files that are no page: their host need not send them to say that they are there.
_FILE_ENDINGS = tuple(
    ".7z .avi .bin .bz2 .csv .deb .dmg .docx .epub .exe .gif .gz .ipynb .iso .jar .jpeg .jpg .json "
    ".mov .mp3 .mp4 .onnx .parquet .pdf .png .pptx .pt .rpm .safetensors .svg .tar .tgz .tif .tiff "
    ".wav .webm .webp .whl .xlsx .xz .zip .zst".split()
)


@dataclass(frozen=True, slots=True)
class Hop:
    """One redirect."""

    source: str
    target: str
    is_for_good: bool


@dataclass(frozen=True, slots=True)
class Trail:
    """The way from an address to what answers in the end, or to where it breaks off."""

    hops: tuple[Hop, ...]
    end: Reply | Fault
    page: Page | None = None
    """What the last answer says, where it is a page."""

    @property
    def last_url(self) -> str:
        return self.hops[-1].target if self.hops else ""


async def follow(asker: Asker, url: str, *, wants_anchors: bool) -> Trail:
    """Follow an address to its end, at most ten hops far.

    A file is asked for by HEAD, and by GET where the answer to that is no good one; everything
    else by GET at once, for only its text tells whether a page sends its reader on.
    """
    hops: list[Hop] = []
    visits = {url: 1}
    current = url
    while True:
        reply = await _ask(asker, current, wants_anchors=wants_anchors)
        if isinstance(reply, Fault):
            return Trail(tuple(hops), reply)
        is_read = 200 <= reply.status < 300 and reply.is_page and bool(reply.body)
        page = await read_page_within(reply, asker.manners.limit) if is_read else None
        try:
            hop = _read_hop(current, reply, page)
        except ValueError:
            return Trail(tuple(hops), Fault("redirect", "redirects to what is no address"))
        if hop is None:
            return Trail(tuple(hops), reply, page)
        hops.append(hop)
        current = urldefrag(hop.target).url
        if urlsplit(current).scheme not in ("http", "https"):
            return Trail(
                tuple(hops), Fault("redirect", f"redirects out of the web, to '{current}'")
            )
        visits[current] = visits.get(current, 0) + 1
        # Once is allowed: some set a cookie and send the reader to where he is.
        if visits[current] > 2:
            return Trail(tuple(hops), Fault("redirect", "redirects in a circle"))
        if len(hops) == MOST_HOPS:
            return Trail(tuple(hops), Fault("redirect", f"redirects more than {MOST_HOPS} times"))


async def _ask(asker: Asker, url: str, *, wants_anchors: bool) -> Reply | Fault:
    limit = asker.manners.page_bytes if wants_anchors else asker.manners.head_bytes
    methods: tuple[Method, ...] = ("GET",)
    if urlsplit(url).path.lower().endswith(_FILE_ENDINGS):
        methods = ("HEAD", "GET")
    result: Reply | Fault = Fault("redirect", "it was not asked")
    for method in methods:
        result = await asker.ask(method, url, max_bytes=limit)
        if (
            isinstance(result, Reply)
            and result.status < 400
            and not (
                method == "HEAD" and result.is_page  # a page in the place of a file
            )
        ):
            break
    return result


def _read_hop(url: str, reply: Reply, page: Page | None) -> Hop | None:
    location = reply.headers.get("location")
    if reply.status in _REDIRECTS and location:
        target = urljoin(url, location.strip())
        is_for_good = reply.status in _FOR_GOOD or _is_same_but_safe(url, target)
        return _make_hop(url, target, is_for_good=is_for_good)
    if not 200 <= reply.status < 300:
        return None
    refresh = read_refresh_header(reply) or (page.refresh if page else None)
    if refresh is None or urldefrag(refresh.url).url == url:
        return None
    return _make_hop(url, refresh.url, is_for_good=refresh.seconds == 0)


def _make_hop(url: str, target: str, *, is_for_good: bool) -> Hop:
    find_host(target)  # raises ValueError where it is no address
    return Hop(url, target, is_for_good)


def _is_same_but_safe(url: str, target: str) -> bool:
    """Whether https takes the place of http and nothing else changes: hosts say so with any
    status."""
    return url.startswith("http://") and target == f"https://{url.removeprefix('http://')}"
