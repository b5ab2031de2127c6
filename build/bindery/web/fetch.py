"""One request: what comes back within the limits of time and size, or why nothing does."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

import httpx

Method = Literal["HEAD", "GET"]
_READ = ("text/html", "application/xhtml+xml", "text/plain", "application/json")
"""What is read; of everything else its being there is enough."""

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


def open_client(agent: str, seconds: float, context: ssl.SSLContext) -> httpx.AsyncClient:
    """A client for one host, which follows no redirect by itself and goes through the proxies of
    the environment. For many hosts its pool of connections is slow: each request looks at all."""
    headers = {
        "User-Agent": agent,
        "Accept": "text/html,application/xhtml+xml,*/*;q=0.8",
        "Accept-Language": "en,*;q=0.5",
    }
    return httpx.AsyncClient(
        http2=True,
        verify=context,
        headers=headers,
        timeout=httpx.Timeout(seconds),
        event_hooks={"response": [_set_location_aside]},
    )


async def _set_location_aside(response: httpx.Response) -> None:
    """Take the address of a redirect out of the headers: httpx would read it even where it is not
    to follow it, and gives up the whole answer where it is no address."""
    location = response.headers.pop("location", None)
    if location is not None:
        response.extensions["location"] = location


async def fetch(
    client: httpx.AsyncClient, method: Method, url: str, *, seconds: float, max_bytes: int
) -> Reply | Fault:
    """Ask once. The body is read where it is text, up to `max_bytes`; where it
    breaks off, the answer counts with what has come."""
    reply: Reply | None = None
    body = bytearray()
    try:
        async with (
            asyncio.timeout(seconds),
            client.stream(method, url, follow_redirects=False) as response,
        ):
            headers = {name.lower(): value for name, value in response.headers.items()}
            if "location" in response.extensions:
                headers["location"] = str(response.extensions["location"])
            reply = Reply(url, response.status_code, headers, is_whole=False)
            if method == "GET" and reply.media_type in _READ:
                async for chunk in response.aiter_bytes():
                    body += chunk
                    if len(body) > max_bytes:
                        return _complete(reply, body[:max_bytes], is_whole=False)
            return _complete(reply, body, is_whole=True)
    except (TimeoutError, httpx.TimeoutException):
        fault = Fault("timeout", f"no answer within {seconds:g} s")
    except (httpx.InvalidURL, httpx.UnsupportedProtocol, UnicodeError, ValueError) as error:
        fault = Fault("redirect", f"'{url}' is no address that can be asked: {error}")
    except httpx.HTTPError as error:
        fault = _explain(error)
    return fault if reply is None else _complete(reply, body, is_whole=False)


def _complete(reply: Reply, body: bytearray, *, is_whole: bool) -> Reply:
    return Reply(reply.url, reply.status, reply.headers, bytes(body), is_whole)


def _explain(error: httpx.HTTPError) -> Fault:
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
