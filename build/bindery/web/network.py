"""What connections go through: judged addresses, proxies and certificates."""

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
"""All addresses of a host by its name. Raises OSError if there are none."""

_FIRST_SECONDS = 3.0
"""For a connection to the first of two addresses."""


class NoHostError(Exception):
    """No host has this name."""


class PrivateHostError(Exception):
    """A public name leads into a private network."""


def look_up(name: str) -> Sequence[str]:
    """The addresses of a host, as the system knows them."""
    found = socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)
    return tuple(dict.fromkeys(str(entry[4][0]) for entry in found))


class JudgedTransport(httpx.AsyncHTTPTransport):
    """Looks up its one host once, judges the addresses, and connects to nothing else.

    If the name were looked up again for the connection, it could lead to another address by then.
    """

    def __init__(
        self, context: ssl.SSLContext, look_up: LookUp, find_reason: ReasonNotToAsk
    ) -> None:
        super().__init__(verify=context)
        self._look_up = look_up
        self._find_reason = find_reason
        self._addresses: Sequence[str] = ()

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Raises NoHostError, PrivateHostError, OSError if the name cannot be looked up just now,
        and what httpx raises if no address answers."""
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
            headers=request.headers,  # among them the name of the host
            extensions={
                "sni_hostname": host,
                "timeout": limits | ({"connect": seconds} if seconds else {}),
            },
        )
        return await super().handle_async_request(judged)

    async def _find_addresses(self, host: str) -> Sequence[str]:
        """At most one address per family: some machines reach only one of the two."""
        try:
            ipaddress.ip_address(host)
            found: Sequence[str] = (host,)
        except ValueError:
            try:
                found = await asyncio.to_thread(self._look_up, host)
            except socket.gaierror as error:
                if error.errno in (socket.EAI_NONAME, getattr(socket, "EAI_NODATA", None)):
                    raise NoHostError(f"there is no host '{host}'") from None
                raise OSError(f"the host '{host}' cannot be looked up just now") from None
        # One private address is enough to refuse the host, so the order cannot be exploited.
        if any(self._find_reason(_write_url(address)) for address in found):
            raise PrivateHostError(f"the host '{host}' is in a private network")
        families = {":" in address: address for address in reversed(found)}
        return sorted(families.values(), key=found.index)


def open_context() -> ssl.SSLContext:
    """The certificates that `SSL_CERT_FILE` or `SSL_CERT_DIR` names, or those of httpx.

    Raises ConfigError if they cannot be read.
    """
    try:
        return httpx.create_ssl_context()
    except OSError as error:
        message = f"SSL_CERT_FILE or SSL_CERT_DIR cannot be read: {error.strerror}"
        raise ConfigError(Finding(Span.whole("SSL_CERT_FILE"), "config", message)) from None


def find_proxy(url: str) -> str:
    """The proxy that the environment names for an address, or nothing."""
    parts = urlsplit(url)
    proxies = getproxies()
    proxy = proxies.get(parts.scheme) or proxies.get("all") or ""
    if not proxy or proxy_bypass(parts.hostname or ""):
        return ""
    return proxy if "://" in proxy else f"http://{proxy}"


def refuse_proxies() -> None:
    """Raise ConfigError if the environment names a proxy that cannot be used."""
    for scheme in ("http", "https"):
        try:
            if proxy := find_proxy(f"{scheme}://bindery/"):
                httpx.AsyncHTTPTransport(proxy=proxy)
        except (ImportError, ValueError, httpx.InvalidURL):
            # The error of httpx would print the password in it.
            message = f"the proxy that the environment names for {scheme} cannot be used"
            hint = "write http://HOST:PORT; one that begins with socks5:// needs `httpx[socks]`"
            span = Span.whole(f"{scheme}_proxy")
            raise ConfigError(Finding(span, "config", message, hint)) from None


def _write_url(address: str) -> str:
    return f"http://[{address}]/" if ":" in address else f"http://{address}/"
