"""Send one request, with limits on time and size."""

from __future__ import annotations

import asyncio
import os
import ssl
from collections.abc import Mapping
from typing import Literal

import httpx
from msgspec import Struct
from msgspec.structs import replace

from bindery.web.addresses import leads_to_web
from bindery.web.network import NoHostError, PrivateHostError

_READ = ("text/html", "application/xhtml+xml", "text/plain", "application/json")
"""Media types whose bodies are read."""

FaultKind = Literal[
    "no-host", "connection", "timeout", "certificate", "throttled", "robots", "private", "redirect"
]


class Reply(Struct, frozen=True):
    """A host's response. Header names are in lower case."""

    url: str
    status: int
    headers: Mapping[str, str]
    body: bytes = b""
    is_whole: bool = True
    """False if the body is too long, too slow, compressed, or truncated."""

    @property
    def media_type(self) -> str:
        return self.headers.get("content-type", "").partition(";")[0].strip().lower()

    @property
    def is_page(self) -> bool:
        return self.media_type in ("text/html", "application/xhtml+xml")


class Fault(Struct, frozen=True):
    """Why there is no response."""

    kind: FaultKind
    reason: str


def open_client(
    agent: str, seconds: float, transport: httpx.AsyncBaseTransport
) -> httpx.AsyncClient:
    """A client for one host that does not follow redirects."""
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
    """Send one request. Reads the body up to `max_bytes` if it is text, or if `reads_all`. A
    truncated body counts with what has arrived."""
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
            # Skip a compressed body, which we did not request: a small one could expand to more
            # than fits into memory.
            is_plain = headers.get("content-encoding", "identity") == "identity"
            if is_plain and (reads_all or reply.media_type in _READ):
                async for chunk in response.aiter_raw():
                    body += chunk
                    if len(body) > max_bytes:
                        return replace(reply, body=bytes(body[:max_bytes]))
            return replace(reply, body=bytes(body), is_whole=is_plain)
    except (TimeoutError, httpx.TimeoutException):
        fault = Fault("timeout", f"no response within {seconds:g} s")
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
            return Fault("certificate", f"TLS failed: {reason.lower().replace('_', ' ')}")
    for cause in reversed(causes):
        if isinstance(cause, OSError) and cause.errno:
            return Fault("connection", os.strerror(cause.errno).lower())
    return Fault("connection", str(error).rstrip(".").lower() or "the connection was closed")
