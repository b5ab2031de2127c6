"""One request: what comes back within the limits of time and size, or why nothing does."""

from __future__ import annotations

import asyncio
import ssl
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

import httpcore
import httpx

from bindery.web.addresses import leads_to_web, write_request_url
from bindery.web.network import JudgedNetwork, JudgedTransport, NoHostError, PrivateHostError

Method = Literal["HEAD", "GET"]
_READ = ("text/html", "application/xhtml+xml", "text/plain", "application/json")
"""What is read; of everything else its being there is enough."""
_BROKEN = (httpcore.NetworkError, httpcore.ProtocolError)
_NO_ADDRESS = (httpx.InvalidURL, httpx.UnsupportedProtocol, httpcore.UnsupportedProtocol)

FaultKind = Literal[
    "no-host", "connection", "timeout", "certificate", "throttled", "robots", "private", "redirect"
]


@dataclass(frozen=True, slots=True)
class Reply:
    """What a host answers. The names of headers are in small letters."""

    url: str
    status: int
    headers: Mapping[str, str]
    body: bytes = b""
    is_whole: bool = True
    """Whether the body is all there: it may be too long, too slow, or break off."""

    @property
    def media_type(self) -> str:
        return self.headers.get("content-type", "").partition(";")[0].strip().lower()

    @property
    def is_page(self) -> bool:
        return self.media_type in ("text/html", "application/xhtml+xml")


@dataclass(frozen=True, slots=True)
class Fault:
    """Why there is no answer."""

    kind: FaultKind
    reason: str


def open_client(
    agent: str, seconds: float, context: ssl.SSLContext, network: JudgedNetwork, proxy: str = ""
) -> httpx.AsyncClient:
    """A client for one host, which follows no redirect by itself. For many hosts its pool of
    connections is slow: each request looks at all."""
    headers = {
        "User-Agent": agent,
        "Accept": "text/html,application/xhtml+xml,*/*;q=0.8",
        "Accept-Encoding": "gzip, deflate",
        "Accept-Language": "en,*;q=0.5",
    }
    transport = None if proxy else JudgedTransport(context, network)
    return httpx.AsyncClient(
        http2=True,
        verify=context,
        headers=headers,
        timeout=httpx.Timeout(seconds),
        event_hooks={"response": [_set_location_aside]},
        transport=transport,
        proxy=proxy or None,
        trust_env=False,
    )


async def _set_location_aside(response: httpx.Response) -> None:
    """Take the address of a redirect out of the headers: httpx would read it even where it is not
    to follow it, and gives up the whole answer where it is no address."""
    location = response.headers.pop("location", None)
    if location is not None:
        response.extensions["location"] = location


async def fetch(
    client: httpx.AsyncClient,
    method: Method,
    url: str,
    *,
    seconds: float,
    max_bytes: int,
    reads_all: bool = False,
) -> Reply | Fault:
    """Ask once. The body is read where it is text, or in any case, up to `max_bytes`; where it
    breaks off, the answer counts with what has come."""
    if not leads_to_web(url):  # what connects knows further schemes
        return Fault("redirect", f"'{url}' does not lead to the web")
    reply: Reply | None = None
    body = bytearray()
    try:
        async with (
            asyncio.timeout(seconds),
            client.stream(method, write_request_url(url), follow_redirects=False) as response,
        ):
            headers = {name.lower(): value for name, value in response.headers.items()}
            if "location" in response.extensions:
                headers["location"] = str(response.extensions["location"])
            reply = Reply(url, response.status_code, headers, is_whole=False)
            if method == "GET" and (reads_all or reply.media_type in _READ):
                unpack = _open_coding(headers.get("content-encoding", ""))
                async for chunk in response.aiter_raw():
                    # One byte more than wanted tells that there is more.
                    body += unpack(chunk, max_bytes + 1 - len(body))
                    if response.num_bytes_downloaded > max_bytes or len(body) > max_bytes:
                        return _complete(reply, body[:max_bytes], is_whole=False)
            return _complete(reply, body, is_whole=True)
    except (TimeoutError, httpx.TimeoutException, httpcore.TimeoutException):
        fault = Fault("timeout", f"no answer within {seconds:g} s")
    except NoHostError as error:
        fault = Fault("no-host", str(error))
    except PrivateHostError as error:
        fault = Fault("private", str(error))
    except (ValueError, *_NO_ADDRESS) as error:
        fault = Fault("redirect", f"'{url}' is no address that can be asked: {error}")
    except (httpx.HTTPError, OSError, zlib.error, *_BROKEN) as error:
        fault = _explain(error)
    return fault if reply is None else _complete(reply, body, is_whole=False)


Unpack = Callable[[bytes, int], bytes]
"""The next bytes of a body as they were before they were packed, so many at most."""


def _open_coding(name: str) -> Unpack:
    """What undoes a coding of bodies. It is done here and not by httpx, which unpacks all at
    once: some bytes can be so packed that the memory of no machine holds them.

    Raises zlib.error where it is none that was asked for.
    """
    name = name.strip().lower()
    if name in ("", "identity"):
        return lambda data, most: data[:most]
    if name in ("gzip", "x-gzip", "deflate"):
        return _Inflation().unpack
    raise zlib.error(f"a coding that was not asked for: {name}")


class _Inflation:
    """A body packed by zlib, whatever is around it: nothing, its own head, or that of gzip."""

    def __init__(self) -> None:
        self._zlib = zlib.decompressobj(zlib.MAX_WBITS | 32)
        self._is_begun = False

    def unpack(self, data: bytes, most: int) -> bytes:
        try:
            return self._zlib.decompress(data, most)
        except zlib.error:
            if self._is_begun:
                raise
            self._zlib = zlib.decompressobj(-zlib.MAX_WBITS)
            return self._zlib.decompress(data, most)
        finally:
            self._is_begun = True


def _complete(reply: Reply, body: bytearray, *, is_whole: bool) -> Reply:
    return Reply(reply.url, reply.status, reply.headers, bytes(body), is_whole)


def _explain(error: Exception) -> Fault:
    causes = list(_iterate_causes(error))
    for cause in causes:
        if isinstance(cause, ssl.SSLError):
            reason = getattr(cause, "verify_message", "") or cause.reason or str(cause)
            return Fault("certificate", f"no safe connection: {reason.lower().replace('_', ' ')}")
    for cause in reversed(causes):
        if isinstance(cause, OSError) and cause.strerror:
            return Fault("connection", cause.strerror.lower())
    return Fault(
        "connection", str(error).strip().rstrip(".").lower() or "the connection breaks off"
    )


def _iterate_causes(error: BaseException) -> Iterator[BaseException]:
    """The errors that led to an error, the error itself first."""
    waiting: list[BaseException] = [error]
    while waiting:
        cause = waiting.pop(0)
        yield cause
        following = cause.__cause__ or cause.__context__
        if following is not None:
            waiting.append(following)
        if isinstance(cause, BaseExceptionGroup):
            waiting += cause.exceptions
