"""Connections to hosts: a name is looked up, judged and connected to in one step.

Between a judgement and a second look a name could be given another address, so that a page of the
web asks the network of its reader. Here no name is looked up twice for one connection.
"""

from __future__ import annotations

import asyncio
import ipaddress
import os
import socket
import ssl
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import zip_longest
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import httpcore
import httpx

from bindery.core.model import ConfigError, Finding, Span
from bindery.web.addresses import ReasonNotToAsk

LookUp = Callable[[str], Sequence[str]]
"""All addresses of a host by its name. Raises OSError where there are none."""

_MOST_ADDRESSES = 4
"""Of a host that are tried before it counts as not there."""
_PATIENCE = 3.0
"""Seconds for a connection to an address that is not the last one of its host."""


class NoHostError(Exception):
    """No host has this name."""


class PrivateHostError(Exception):
    """A name of the web leads into a private network."""


def look_up(name: str) -> Sequence[str]:
    """The addresses of a host as the system knows them."""
    found = socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)
    return tuple(dict.fromkeys(str(entry[4][0]) for entry in found))


class JudgedNetwork(httpcore.AsyncNetworkBackend):
    """Connects to hosts whose addresses may all be asked, and to nothing else."""

    def __init__(self, look_up: LookUp, find_reason: ReasonNotToAsk, threads: int) -> None:
        self._look_up = look_up
        self._find_reason = find_reason
        # Of its own: a name that takes minutes shall keep nothing else waiting.
        self._executor = ThreadPoolExecutor(threads, "look-up")
        self._network = httpcore.AnyIOBackend()

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[httpcore.SOCKET_OPTION] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        """Raises NoHostError, PrivateHostError, OSError where the name cannot be looked up just
        now, and what httpcore raises where no address answers."""
        *others, last = _mix_families(await self._find_addresses(host))[:_MOST_ADDRESSES]
        for address in others:
            try:
                return await self._network.connect_tcp(
                    address, port, _PATIENCE, local_address, socket_options
                )
            except (httpcore.ConnectError, httpcore.ConnectTimeout):
                continue
        return await self._network.connect_tcp(last, port, timeout, local_address, socket_options)

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    def close(self) -> None:
        """Wait for no look-up any more."""
        self._executor.shutdown(wait=False, cancel_futures=True)

    async def _find_addresses(self, host: str) -> Sequence[str]:
        loop = asyncio.get_running_loop()
        try:
            ipaddress.ip_address(host)
            found: Sequence[str] = (host,)
        except ValueError:
            try:
                found = await loop.run_in_executor(self._executor, self._look_up, host)
            except socket.gaierror as error:
                if error.errno in (socket.EAI_NONAME, getattr(socket, "EAI_NODATA", None)):
                    raise NoHostError(f"there is no host '{host}'") from None
                raise OSError(f"the host '{host}' cannot be looked up just now") from None
            except UnicodeError:
                raise NoHostError(f"'{host}' cannot be the name of a host") from None
        # One private address is enough: which one is connected to is not for the host to choose.
        if not found or any(self._find_reason(_write_url(address)) for address in found):
            message = f"the host '{host}' is not on the web, but in a private network"
            raise PrivateHostError(message)
        return found


class JudgedTransport(httpx.AsyncBaseTransport):
    """What httpx asks one host through, without a proxy. Errors are those of httpcore."""

    def __init__(self, context: ssl.SSLContext, network: JudgedNetwork) -> None:
        self._pool = httpcore.AsyncConnectionPool(context, http2=True, network_backend=network)

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        url = request.url
        reply = await self._pool.handle_async_request(
            httpcore.Request(
                request.method,
                httpcore.URL(
                    scheme=url.raw_scheme, host=url.raw_host, port=url.port, target=url.raw_path
                ),
                headers=request.headers.raw,
                extensions=request.extensions,
            )
        )
        return httpx.Response(
            reply.status,
            headers=reply.headers,
            stream=_Body(reply),
            extensions=reply.extensions,
        )

    async def aclose(self) -> None:
        await self._pool.aclose()


class _Body(httpx.AsyncByteStream):
    """The body of an answer as it comes."""

    def __init__(self, reply: httpcore.Response) -> None:
        self._reply = reply

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self._reply.aiter_stream()

    async def aclose(self) -> None:
        await self._reply.aclose()


def open_context() -> ssl.SSLContext:
    """What vouches for hosts: the certificates that `SSL_CERT_FILE` or `SSL_CERT_DIR` names, or
    those that come with httpx.

    Raises ConfigError where the environment names what cannot be read.
    """
    try:
        return httpx.create_ssl_context()
    except OSError:
        name = "SSL_CERT_FILE" if os.environ.get("SSL_CERT_FILE") else "SSL_CERT_DIR"
        message = f"the certificates that '{name}' names cannot be read"
        hint = "name a file of certificates in PEM, or unset the variable"
        raise ConfigError(Finding(Span.whole(name), "config", message, hint)) from None


def find_proxy(url: str) -> str:
    """The proxy that the environment names for an address; nothing where it is asked without."""
    parts = urlsplit(url)
    proxies = getproxies()
    proxy = proxies.get(parts.scheme) or proxies.get("all") or ""
    if not proxy or proxy_bypass(parts.hostname or ""):
        return ""
    return proxy if "://" in proxy else f"http://{proxy}"


def refuse_proxies() -> None:
    """Raise ConfigError where the environment names a proxy that cannot be used."""
    for scheme in ("http", "https"):
        proxy = find_proxy(f"{scheme}://bindery/")
        try:
            if proxy:
                httpx.AsyncHTTPTransport(proxy=proxy)
        except (ImportError, ValueError, httpx.InvalidURL):
            # Not what it is: there may be a password in it.
            name = scheme if getproxies().get(scheme) else "all"
            message = f"the proxy in '{name}_proxy' cannot be used"
            hint = "write http://HOST:PORT; one that begins with socks5:// needs `httpx[socks]`"
            span = Span.whole(f"{name}_proxy")
            raise ConfigError(Finding(span, "config", message, hint)) from None


def _mix_families(addresses: Iterable[str]) -> Sequence[str]:
    """IPv6 and IPv4 by turns, the family of the first address first: a machine may have a way to
    one of them only."""
    families: dict[bool, list[str]] = {}
    for address in addresses:
        families.setdefault(":" in address, []).append(address)
    return [address for turn in zip_longest(*families.values()) for address in turn if address]


def _write_url(address: str) -> str:
    return f"http://[{address}]/" if ":" in address else f"http://{address}/"
