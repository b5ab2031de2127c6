"""Connections: checked IP addresses, proxies and certificates."""

from __future__ import annotations

import asyncio
import ipaddress
import socket
import ssl
from collections.abc import Callable, Sequence
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import httpx

from bindery.core.model import ConfigError, Finding, Span
from bindery.web.addresses import ReasonNotToAsk

LookUp = Callable[[str], Sequence[str]]
"""Resolves a name to all IP addresses. Raises OSError if there are none."""

_FIRST_SECONDS = 3.0
"""Seconds to connect to the first of two IP addresses."""


class NoHostError(Exception):
    """The host name does not exist."""


class PrivateHostError(Exception):
    """A public name resolves to a private network."""


def look_up(name: str) -> Sequence[str]:
    """Resolve a name with the operating system."""
    found = socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)
    return tuple(dict.fromkeys(str(entry[4][0]) for entry in found))


class JudgedTransport(httpx.AsyncHTTPTransport):
    """Resolves its host once, checks the IP addresses, and connects only to those.

    If the name were resolved again for the connection, the result could be different.
    """

    def __init__(
        self, context: ssl.SSLContext, look_up: LookUp, find_reason: ReasonNotToAsk
    ) -> None:
        super().__init__(verify=context)
        self._look_up = look_up
        self._find_reason = find_reason
        self._addresses: Sequence[str] = ()

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Raises NoHostError, PrivateHostError, OSError for temporary DNS failures, and httpx's
        exceptions if no IP address responds."""
        host = request.url.raw_host.decode("ascii")
        self._addresses = self._addresses or await self._find_addresses(host)
        *others, last = self._addresses
        for address in others:
            try:
                return await self._connect(address, host, request, _FIRST_SECONDS)
            except (httpx.ConnectError, httpx.ConnectTimeout):
                continue
        return await self._connect(last, host, request)

    async def _connect(
        self, address: str, host: str, request: httpx.Request, seconds: float | None = None
    ) -> httpx.Response:
        limits = request.extensions["timeout"]
        judged = httpx.Request(
            request.method,
            request.url.copy_with(host=address),
            headers=request.headers,  # includes the host name
            extensions={
                "sni_hostname": host,
                "timeout": limits | ({"connect": seconds} if seconds else {}),
            },
        )
        return await super().handle_async_request(judged)

    async def _find_addresses(self, host: str) -> Sequence[str]:
        """At most one IP address per family: some machines can reach only one family."""
        try:
            ipaddress.ip_address(host)
            found: Sequence[str] = (host,)
        except ValueError:
            try:
                found = await asyncio.to_thread(self._look_up, host)
            except socket.gaierror as error:
                if error.errno in (socket.EAI_NONAME, getattr(socket, "EAI_NODATA", None)):
                    raise NoHostError(f"there is no host '{host}'") from None
                raise OSError(f"DNS lookup of '{host}' failed temporarily") from None
        # Reject the host for a single private IP address, so the order cannot be exploited.
        if any(self._find_reason(_write_url(address)) for address in found):
            raise PrivateHostError(f"the host '{host}' is in a private network")
        families = {":" in address: address for address in reversed(found)}
        return sorted(families.values(), key=found.index)


def open_context() -> ssl.SSLContext:
    """The certificates in `SSL_CERT_FILE` or `SSL_CERT_DIR`, or those of httpx.

    Raises ConfigError if they cannot be read.
    """
    try:
        return httpx.create_ssl_context()
    except OSError as error:
        message = f"SSL_CERT_FILE or SSL_CERT_DIR cannot be read: {error.strerror}"
        raise ConfigError(Finding(Span.whole("SSL_CERT_FILE"), "config", message)) from None


def find_proxy(url: str) -> str:
    """The proxy for an address from the environment, or empty."""
    parts = urlsplit(url)
    proxies = getproxies()
    proxy = proxies.get(parts.scheme) or proxies.get("all") or ""
    if not proxy or proxy_bypass(parts.hostname or ""):
        return ""
    return proxy if "://" in proxy else f"http://{proxy}"


def refuse_proxies() -> None:
    """Raise ConfigError if a proxy from the environment cannot be used."""
    for scheme in ("http", "https"):
        try:
            if proxy := find_proxy(f"{scheme}://bindery/"):
                httpx.AsyncHTTPTransport(proxy=proxy)
        except (ImportError, ValueError, httpx.InvalidURL):
            # httpx's error would print the password in the address.
            message = f"the proxy for {scheme} in the environment cannot be used"
            hint = "write http://HOST:PORT; socks5:// addresses need `httpx[socks]`"
            span = Span.whole(f"{scheme}_proxy")
            raise ConfigError(Finding(span, "config", message, hint)) from None


def _write_url(address: str) -> str:
    return f"http://[{address}]/" if ":" in address else f"http://{address}/"
