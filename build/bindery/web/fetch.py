"""One request: what comes back within the limits of time and size, or why nothing does."""

from __future__ import annotations

import asyncio
import os
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

import httpx

from bindery.web.addresses import leads_to_web
from bindery.web.network import NoHostError, PrivateHostError

_READ = ("text/html", "application/xhtml+xml", "text/plain", "application/json")
"""The media types whose bodies are read."""

FaultKind = Literal[
    "no-host", "connection", "timeout", "certificate", "throttled", "robots", "private", "redirect"
]


@dataclass(frozen=True, slots=True)
class Reply:
    """What a host answers. The names of headers are in lower case."""

    url: str
    status: int
    headers: Mapping[str, str]
    body: bytes = b""
    is_whole: bool = True
    """False if the body is too long, too slow, compressed, or breaks off."""

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
    agent: str, seconds: float, transport: httpx.AsyncBaseTransport
) -> httpx.AsyncClient:
    """A client for one host that follows no redirect by itself."""
    headers = {
        "User-Agent": agent,
        "Accept": "text/html,application/xhtml+xml,*/*;q=0.8",
        "Accept-Encoding": "identity",
        "Accept-Language": "en,*;q=0.5",
    }
    return httpx.AsyncClient(
        headers=headers,
        timeout=httpx.Timeout(seconds),
        transport=transport,
        trust_env=False,
    )


async def fetch(
    client: httpx.AsyncClient,
    url: str,
    *,
    seconds: float,
    max_bytes: int,
    reads_all: bool = False,
) -> Reply | Fault:
    """Ask once. The body is read up to `max_bytes` if it is text, or if `reads_all`. If it breaks
    off, the answer counts with what has arrived."""
    if not leads_to_web(url):
        return Fault("redirect", f"'{url}' does not lead to the web")
    reply: Reply | None = None
    body = bytearray()
    try:
        async with (
            asyncio.timeout(seconds),
            client.stream("GET", url, follow_redirects=False) as response,
        ):
            headers = {name.lower(): value for name, value in response.headers.items()}
            reply = Reply(url, response.status_code, headers, is_whole=False)
            # A compressed body that we did not ask for is not read: a small one could unpack to
            # more than fits into memory.
            is_plain = headers.get("content-encoding", "identity") == "identity"
            if is_plain and (reads_all or reply.media_type in _READ):
                async for chunk in response.aiter_raw():
                    body += chunk
                    if len(body) > max_bytes:
                        return replace(reply, body=bytes(body[:max_bytes]))
            return replace(reply, body=bytes(body), is_whole=is_plain)
    except (TimeoutError, httpx.TimeoutException):
        fault = Fault("timeout", f"no answer within {seconds:g} s")
    except NoHostError as error:
        fault = Fault("no-host", str(error))
    except PrivateHostError as error:
        fault = Fault("private", str(error))
    except (ValueError, httpx.InvalidURL) as error:
        fault = Fault("redirect", f"'{url}' is not an address: {error}")
    except (httpx.HTTPError, OSError) as error:
        fault = _explain(error)
    return fault if reply is None else replace(reply, body=bytes(body))


def _explain(error: Exception) -> Fault:
    causes: list[BaseException] = [error]
    while (cause := causes[-1].__cause__ or causes[-1].__context__) is not None:
        causes.append(cause)
    for cause in causes:
        if isinstance(cause, ssl.SSLError):
            reason = getattr(cause, "verify_message", "") or cause.reason or str(cause)
            return Fault("certificate", f"no safe connection: {reason.lower().replace('_', ' ')}")
    for cause in reversed(causes):
        if isinstance(cause, OSError) and cause.errno:
            return Fault("connection", os.strerror(cause.errno).lower())
    return Fault("connection", str(error).rstrip(".").lower() or "the connection breaks off")
