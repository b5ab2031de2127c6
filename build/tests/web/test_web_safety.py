"""That no book and no host makes `bindery links --external` ask a private network, hang, or fill
the memory of a machine."""

from __future__ import annotations

import asyncio
import gzip
import ipaddress
import itertools
import socket
import ssl
import subprocess
import threading
import tracemalloc
import zlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from bindery.check.inspect import inspect_book
from bindery.cli.commands.links_external import Web, Wishes, ask_web, check_web
from bindery.core.model import ConfigError
from bindery.web import pages
from bindery.web.addresses import Address, find_host, find_reason_not_to_ask, is_on_web
from bindery.web.answers import Answer as Verdict
from bindery.web.asking import Clock
from bindery.web.fetch import Fault, Reply
from bindery.web.manners import Manners
from bindery.web.network import LookUp
from bindery.web.pages import read_page, read_refresh_header
from bindery.web.robots import parse_robots
from bindery.web.sweep import open_asker, sweep
from faulty_server import (
    PROXY_VARIABLES,
    Answer,
    FakeTime,
    FaultyServer,
    Request,
    redirect,
    serve,
)
from hypothesis import given
from hypothesis import strategies as st

HASTY = Manners(delay=0.0, back_off=0.01, limit=30.0, patience=2.0, retries=0)
BRIEF = replace(HASTY, limit=1.0)
"""Where a host never answers, or never comes to the end of its answer."""
TOO_LONG = 120.0
"""Seconds after which a run that has not come to its end never will."""
LONG = "words of a page that is written by hand and no script " * 20
BookMaker = Callable[..., Path]


@pytest.fixture(autouse=True)
def without_proxies(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is on this machine is not reached through a proxy."""
    for name in (*PROXY_VARIABLES, "no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)


def allow_first(url: str) -> str:
    """As the rules of the web are, but 127.0.0.1 is a host of it and 127.0.0.2 is not."""
    host = find_host(url).partition(":")[0]
    return "" if host == "127.0.0.1" else find_reason_not_to_ask(url)


def know(**names: str | Sequence[str]) -> LookUp:
    """A look-up of names that knows these, `a_b` being `a.b`, and no others."""

    def look_up(name: str) -> Sequence[str]:
        found = names.get(name.replace(".", "_"))
        if found is None:
            raise socket.gaierror(socket.EAI_NONAME, "no such name")
        return (found,) if isinstance(found, str) else found

    return look_up


def ask(
    urls: Iterable[str], look_up: LookUp, manners: Manners = HASTY, clock: Clock | None = None
) -> dict[str, Verdict]:
    answers: dict[str, Verdict] = {}

    async def run() -> None:
        async with open_asker("tests", manners, allow_first, look_up, clock) as asker:
            addresses = [Address(url, ()) for url in urls]
            await sweep(asker, addresses, lambda answer: answers.update({answer.url: answer}))

    asyncio.run(asyncio.wait_for(run(), TOO_LONG))
    return answers


def ask_page(answer: Answer, manners: Manners = HASTY) -> Verdict:
    """The verdict on a page, when its anchor `there` is asked for."""
    with serve() as server:
        server.paths["/a"] = answer
        url = server.url("/a#there")
        return ask([url], know(), manners)[url]


def list_asked(server: FaultyServer) -> list[Request]:
    return [request for request in server.requests if request.path != "/robots.txt"]


# --- private networks ---


@pytest.mark.parametrize(
    ("address", "is_public"),
    [
        ("8.8.8.8", True),
        ("0.0.0.0", False),
        ("10.1.2.3", False),
        ("100.64.0.1", False),
        ("169.254.169.254", False),
        ("224.0.0.1", False),
        ("239.255.255.250", False),
        ("255.255.255.255", False),
        ("2606:4700::1111", True),
        ("::", False),
        ("::1", False),
        ("::127.0.0.1", False),
        ("::ffff:8.8.8.8", True),
        ("::ffff:10.0.0.1", False),
        ("64:ff9b::8.8.8.8", True),
        ("64:ff9b::10.0.0.1", False),
        ("64:ff9b:1::8.8.8.8", False),
        ("2002:808:808::1", True),
        ("2002:a00:1::1", False),
        ("fc00::1", False),
        ("fe80::1", False),
        ("fec0::1", False),
        ("ff0e::1", False),
    ],
)
def test_only_addresses_of_the_internet_are_asked(address: str, is_public: bool) -> None:
    """An address is judged by what it leads to, however it is written."""
    assert is_on_web(ipaddress.ip_address(address)) is is_public


@given(st.ip_addresses(v=4))
def test_an_address_inside_another_is_judged_as_itself(address: object) -> None:
    """No way of writing an address of IPv4 as one of IPv6 makes a private one public."""
    inner = ipaddress.IPv4Address(str(address))
    number = int(inner)
    outer = [
        ipaddress.IPv6Address(0xFFFF << 32 | number),
        ipaddress.IPv6Address(0x64FF9B << 96 | number),
        ipaddress.IPv6Address(0x2002 << 112 | number << 80),
    ]
    assert {is_on_web(entry) for entry in outer} == {is_on_web(inner)}


@pytest.mark.parametrize(
    "host",
    [
        *("router.lan", "files.corp", "nas.home", "x.internal", "a.localhost", "p.local"),
        *("x.home.arpa.", "x.localdomain", "wiki.intranet", "x.onion", "node", "node."),
        *("127.1", "0x7f000001", "2130706433", "0177.0.0.1", "1.0x0", "127.0.0.1."),
        *("\uff11\uff12\uff17.0.0.1", "\u24db\u24de\u24d2\u24d0\u24db\u24d7\u24de\u24e2\u24e3"),
        *("a\u3002lan", "%31%32%37.0.0.1", "book.org\\@127.0.0.1", "127.0.0.1\\.book.org"),
    ],
)
def test_no_way_of_writing_makes_a_private_host_public(host: str) -> None:
    """Endings of private networks, single words and numbers are left out in all their letters."""
    assert find_reason_not_to_ask(f"http://{host}/") in ("private host", "broken URL")


def test_a_name_that_changes_its_address_reaches_nothing_private() -> None:
    """The address that was judged is the one that is connected to; the next one is judged anew."""
    seen = itertools.chain(["127.0.0.1", "127.0.0.1"], itertools.repeat("127.0.0.2"))
    asked: list[str] = []

    def look_up(name: str) -> Sequence[str]:
        asked.append(name)
        return (next(seen),)

    with serve("127.0.0.1", "127.0.0.2") as server:
        closing = {"Connection": "close"}
        server.paths |= {
            "/robots.txt": Answer(404, headers=closing, fault="truncated"),
            "/a": Answer(body="<p>here", headers=closing, fault="truncated"),
            "/b": Answer(body="<p>here"),
        }
        urls = [f"http://book.org:{server.port}/{name}" for name in "ab"]
        answers = ask(urls, look_up)
        assert [answers[url].verdict for url in urls] == ["live", "unreachable"]
        assert "private network" in answers[urls[1]].reason
        assert {request.host for request in server.requests} == {"127.0.0.1"}
    assert asked == ["book.org"] * 3, "a name is looked up once for a connection"


def test_one_private_address_is_enough() -> None:
    """A name with a public and a private address is not asked at all."""
    with serve("127.0.0.1", "127.0.0.2") as server:
        url = f"http://book.org:{server.port}/"
        answers = ask([url], know(book_org=("127.0.0.1", "127.0.0.2")))
        assert answers[url].verdict == "unreachable"
        assert server.requests == []


def test_an_address_that_does_not_answer_is_not_the_last_word() -> None:
    """Where a host has several addresses the others are tried."""

    def allow(url: str) -> str:
        return ""

    async def run(url: str) -> Verdict:
        told: list[Verdict] = []
        look_up = know(book_org=("127.0.0.3", "127.0.0.1"))
        async with open_asker("tests", HASTY, allow, look_up) as asker:
            await sweep(asker, [Address(url, ())], told.append)
        return told[0]

    with serve("127.0.0.1") as server:
        server.paths["/"] = Answer()
        assert asyncio.run(run(f"http://book.org:{server.port}/")).verdict == "live"


def test_a_host_with_many_addresses_is_asked_in_both_ways() -> None:
    """However many addresses of IPv6 come first, one of IPv4 is among those that are tried."""

    def allow(url: str) -> str:
        return ""

    async def run(url: str) -> Verdict:
        told: list[Verdict] = []
        look_up = know(book_org=[*(f"::ffff:127.0.0.{n}" for n in range(3, 9)), "127.0.0.1"])
        async with open_asker("tests", HASTY, allow, look_up) as asker:
            await sweep(asker, [Address(url, ())], told.append)
        return told[0]

    with serve("127.0.0.1") as server:
        server.paths["/"] = Answer()
        assert asyncio.run(run(f"http://book.org:{server.port}/")).verdict == "live"


def test_the_host_is_asked_by_its_name() -> None:
    """The request names the host as its author does, in the letters of the network."""
    with serve() as server:
        server.paths["/a"] = Answer()
        urls = [f"http://{name}:{server.port}/a" for name in ("Book.org", "\u00e4.de")]
        answers = ask(urls, know(book_org="127.0.0.1", **{"xn--4ca_de": "127.0.0.1"}))
        assert {answer.verdict for answer in answers.values()} == {"live"}
        names = {request.asked_host.partition(":")[0] for request in server.requests}
        assert names == {"book.org", "xn--4ca.de"}


def test_a_redirect_is_judged_hop_by_hop() -> None:
    """A public host that sends us to a private one, by address or by name, is not followed."""
    with serve("127.0.0.1", "127.0.0.2") as server:
        port = server.port
        server.paths |= {
            "/a": redirect(302, f"http://127.0.0.2:{port}/secret"),
            "/b": redirect(302, f"http://inside.org:{port}/secret"),
            "/c": redirect(302, f"http://[::ffff:127.0.0.2]:{port}/secret"),
            "/robots.txt": redirect(302, f"http://inside.org:{port}/secret"),
            "/secret": Answer(),
        }
        urls = [server.url(f"/{name}") for name in "abc"]
        answers = ask(urls, know(inside_org="127.0.0.2"))
        assert {answer.verdict for answer in answers.values()} == {"unreachable"}
        assert {request.host for request in server.requests} == {"127.0.0.1"}


@pytest.mark.needs("openssl")
def test_a_certificate_is_that_of_the_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A safe connection is asked for by name, and a certificate of another name is refused."""
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"),
            *("-subj", "/CN=book.org", "-addext", "subjectAltName=DNS:book.org"),
            *("-keyout", str(key), "-out", str(certificate)),
        ],
        check=True,
        capture_output=True,
    )
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    names: list[str | None] = []
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    context.sni_callback = lambda _socket, name, _context: names.append(name)
    with serve(tls=context) as server:
        server.paths["/a"] = Answer()
        urls = [f"https://{name}:{server.port}/a" for name in ("book.org", "other.org")]
        answers = ask(urls, know(book_org="127.0.0.1", other_org="127.0.0.1"))
    assert [answers[url].verdict for url in urls] == ["live", "unreachable"]
    assert "hostname mismatch" in answers[urls[1]].reason
    assert set(names) == {"book.org", "other.org"}


# --- proxies ---


def test_behind_a_proxy_names_are_judged_as_written(monkeypatch: pytest.MonkeyPatch) -> None:
    """A proxy is asked for names of the web, and never for a private name or address."""
    with serve() as proxy:
        monkeypatch.setenv("http_proxy", proxy.url(""))
        proxy.paths["http://book.org/a"] = Answer()
        proxy.paths["http://book.org/b"] = redirect(302, "http://10.0.0.1/")
        urls = ["http://book.org/a", "http://book.org/b", "http://10.0.0.1/", "http://x.lan/"]
        answers = ask(urls, know())
        assert [answers[url].verdict for url in urls] == ["live", *["unreachable"] * 3]
        asked = {request.path for request in list_asked(proxy)}
        assert asked == {f"http://book.org/{name}" for name in ("a", "b", "robots.txt")}


def test_what_goes_round_the_proxy_is_judged_by_its_address(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A host in `no_proxy` is looked up and judged, as without any proxy."""
    with serve("127.0.0.1", "127.0.0.2") as server:
        monkeypatch.setenv("http_proxy", "http://127.0.0.9:9")
        monkeypatch.setenv("no_proxy", "inside.org")
        url = f"http://inside.org:{server.port}/"
        assert "private network" in ask([url], know(inside_org="127.0.0.2"))[url].reason
        assert server.requests == []


@pytest.mark.parametrize("proxy", ["ftp://p:1", "http://p:port", "http://u:secret@p:x"])
def test_a_proxy_that_cannot_be_used_is_told(
    make_book: BookMaker, monkeypatch: pytest.MonkeyPatch, proxy: str
) -> None:
    """A mistake in the environment is told by the name of the variable, without passwords."""
    monkeypatch.setenv("https_proxy", proxy)
    inspection = inspect_book(make_book({"a.md": "# A\n\n<https://book.org/>\n"}))
    with pytest.raises(ConfigError, match="the proxy in 'https_proxy' cannot be used") as caught:
        ask_web(inspection, Wishes(quiet=True), Web(HASTY, allow_first, know()))
    assert "secret" not in str(caught.value.findings)


@pytest.mark.parametrize("content", [None, "no certificate"])
def test_certificates_that_cannot_be_read_are_told(
    make_book: BookMaker, monkeypatch: pytest.MonkeyPatch, content: str | None
) -> None:
    """A mistake in the variable that names certificates is told by its name."""
    root = make_book({"a.md": "# A\n\n<https://book.org/>\n"})
    path = root.parent / "certificates.pem"
    if content is not None:
        path.write_text(content, "utf-8")
    monkeypatch.setenv("SSL_CERT_FILE", str(path))
    with pytest.raises(ConfigError, match="'SSL_CERT_FILE' names cannot be read"):
        ask_web(inspect_book(root), Wishes(quiet=True), Web(HASTY, allow_first, know()))


# --- hosts that never end ---


@pytest.mark.parametrize(
    ("answer", "verdict"),
    [
        (Answer(fault="endless"), "live"),
        (Answer(fault="drops-of-body"), "live"),
        (Answer(fault="drops-of-head"), "unreachable"),
        (Answer(fault="flood-of-headers"), "unreachable"),
        (Answer(fault="flood-of-beginnings"), "unreachable"),
    ],
)
def test_an_answer_that_never_ends_is_left(answer: Answer, verdict: str) -> None:
    """However a host draws its answer out, the limits of time and size hold."""
    judged = ask_page(answer, replace(BRIEF, page_bytes=1 << 17))
    assert judged.verdict == verdict
    assert judged.anchor in ("", "unknown")


@pytest.mark.parametrize("coding", ["gzip", "gzip, gzip", "br", "zstd"])
def test_a_bomb_does_not_go_off(coding: str) -> None:
    """What is packed is unpacked up to the limit and no further, and only what we asked for."""
    body = gzip.compress(bytes(1 << 28), 1)
    if coding == "gzip, gzip":
        body = gzip.compress(body)
    tracemalloc.start()
    try:
        judged = ask_page(Answer(body=body, headers={"Content-Encoding": coding}))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert (judged.verdict, judged.anchor) == ("live", "unknown")
    assert peak < 64 << 20


@pytest.mark.parametrize(
    "pack", [gzip.compress, zlib.compress, lambda data: zlib.compress(data)[2:-4]]
)
@pytest.mark.parametrize("name", ["gzip", "deflate", "X-GZIP"])
def test_packed_pages_are_read(pack: Callable[[bytes], bytes], name: str) -> None:
    """Hosts do not agree on what the names of codings mean, and browsers read them all."""
    page = Answer(body=pack(f"<h1 id=there>{LONG}".encode()), headers={"Content-Encoding": name})
    assert ask_page(page).anchor == "found"


NOWHERE = ("http://[", "http://x:99999/", "//[", "ftp://127.0.0.1/", "ws://127.0.0.1/", "data:x")


@pytest.mark.parametrize("target", NOWHERE)
def test_rules_that_lead_nowhere_are_none(target: str) -> None:
    """Where robots.txt is sent to what is no address of the web, the host has no rules, and
    nothing but the web is asked for them."""
    with serve() as server:
        server.paths |= {"/robots.txt": redirect(302, target), "/a": Answer(), "/b": Answer()}
        urls = [server.url("/a"), server.url("/b")]
        answers = ask(urls, know())
        assert [answers[url].verdict for url in urls] == ["live", "live"]
        assert [request.path for request in server.requests] == ["/robots.txt", "/a", "/b"]


@pytest.mark.parametrize("target", NOWHERE)
def test_a_page_that_leads_nowhere_is_the_only_one_that_is_lost(target: str) -> None:
    """A redirect to what is no address of the web is told, and the next page is asked."""
    with serve() as server:
        server.paths |= {"/a": redirect(302, target), "/b": Answer()}
        urls = [server.url("/a"), server.url("/b")]
        answers = ask(urls, know())
        assert [answers[url].verdict for url in urls] == ["unreachable", "live"]
        assert answers[urls[0]].reason.startswith("redirects ")


@pytest.mark.parametrize("scheme", ["ftp", "ws", "wss", "file"])
def test_nothing_but_the_web_is_asked(scheme: str) -> None:
    """Who asks connects to no address of another scheme, whoever wants it."""

    async def run(port: int) -> Reply | Fault:
        async with open_asker("tests", HASTY, allow_first, know()) as asker:
            return await asker.ask("GET", f"{scheme}://127.0.0.1:{port}/a", max_bytes=9)

    with serve() as server:
        result = asyncio.run(run(server.port))
        assert isinstance(result, Fault)
        assert result.kind == "redirect"
        assert server.requests == []


def test_what_nobody_foresaw_ends_one_page_only() -> None:
    """Where an address cannot be read in a way that nobody thought of, all others are asked."""

    def allow(url: str) -> str:
        if url.endswith("/a"):
            raise ValueError("no such address")
        return allow_first(url)

    told: list[Verdict] = []

    async def run(urls: Iterable[str]) -> None:
        async with open_asker("tests", HASTY, allow, know()) as asker:
            await sweep(asker, [Address(url, ()) for url in urls], told.append)

    with serve() as server:
        server.paths["/b"] = Answer()
        asyncio.run(run([server.url("/a"), server.url("/b")]))
    assert [answer.verdict for answer in told] == ["unreachable", "live"]
    assert told[0].reason == "leads to what cannot be read: no such address"


def test_two_hosts_that_send_us_to_and_fro_are_left() -> None:
    """A circle across hosts ends as one within a host does."""
    with serve() as server:
        port = server.port
        server.paths |= {
            "/x": redirect(301, f"http://two.org:{port}/y"),
            "/y": redirect(301, f"http://one.org:{port}/x"),
        }
        url = f"http://one.org:{port}/x"
        answers = ask([url], know(one_org="127.0.0.1", two_org="127.0.0.1"))
        assert answers[url].reason == "redirects in a circle"
        assert len(list_asked(server)) <= 4


def test_a_hundred_redirects_are_not_followed() -> None:
    """Nor are those of robots.txt, of which five are."""
    with serve() as server:
        server.paths |= {f"/{n}": redirect(302, f"/{n + 1}") for n in range(100)}
        server.paths |= {"/robots.txt": redirect(302, "/r0")}
        server.paths |= {f"/r{n}": redirect(302, f"/r{n + 1}") for n in range(100)}
        url = server.url("/0")
        assert ask([url], know())[url].reason == "redirects more than 10 times"
        assert len(server.requests) == 15


def test_a_name_that_is_looked_up_for_ever_is_left() -> None:
    """The limit of a request counts the look-up, and others do not wait for it."""

    is_over = threading.Event()

    def look_up(name: str) -> Sequence[str]:
        if name == "slow.org":
            is_over.wait(TOO_LONG)
        return ("127.0.0.1",)

    with serve() as server:
        server.paths["/"] = Answer()
        urls = [f"http://{name}.org:{server.port}/" for name in ("slow", "quick")]
        answers = ask(urls, look_up, BRIEF)
        is_over.set()
    assert [answers[url].verdict for url in urls] == ["unreachable", "live"]
    assert answers[urls[0]].reason == "no answer within 1 s"


# --- pages that are hard to read ---


@pytest.mark.parametrize(
    "body",
    [
        "<script></script>" + "<div id=root>" * 250 + "<b>x</b>" * 20_000,
        "<script></script>" + "<div>x" * 100_000,
        "<script></script>" + "<div id=root>x</div>" * 50_000,
    ],
)
def test_a_page_of_many_elements_is_read(body: str) -> None:
    """Elements within elements cost no more than others: read anew for each of them, these pages
    would take hours."""
    assert read_page(Reply("http://book.org/", 200, {}, body.encode())).anchors <= {"root"}


@pytest.mark.parametrize("base", ["http://[", "//[", "http://a.org/"])
@pytest.mark.parametrize("target", ["/x", "http://["])
def test_a_refresh_to_what_is_no_address_is_none(base: str, target: str) -> None:
    """A page may say whatever it likes of its base and of where it sends its reader."""
    is_whole = (base, target) == ("http://a.org/", "/x")
    body = f'<base href="{base}"><meta http-equiv="refresh" content="0;url={target}">'
    headers = {"refresh": f"0;url={base}"}
    reply = Reply("http://book.org/", 200, headers, body.encode())
    refresh = read_page(reply).refresh
    assert (refresh.url if refresh else "") == ("http://a.org/x" if is_whole else "")
    assert (read_refresh_header(reply) is None) is (base != "http://a.org/")


def test_a_page_that_takes_the_parser_too_long_cannot_be_judged(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The parser is not waited for longer than a host is."""
    is_over = threading.Event()
    monkeypatch.setattr(pages, "read_page", lambda reply: is_over.wait(TOO_LONG))

    async def run() -> pages.Page:
        page = await pages.read_page_within(Reply("http://book.org/", 200, {}, b"<p>"), 0.01)
        is_over.set()
        return page

    page = asyncio.run(run())
    assert (page.is_by_script, page.anchors) == (True, frozenset())


@pytest.mark.parametrize(
    ("body", "by_script"),
    [
        (f"<div id=app><div></div><div><b></b></div></div><nav>{LONG}", True),
        (f"<div id=app><div id=root></div><p>{LONG}</div>", False),
        (f"<div id=app><!-- a --> {LONG}</div>", False),
        (f"<div id=root><div id=app><p>{LONG}</div></div>", False),
        (f"<div id=app><script>{LONG}</script></div><p>{LONG}", True),
        (f"<p>{LONG}", False),
        ("<p>little", True),
    ],
)
def test_a_page_that_a_script_writes_is_told_by_its_text(body: str, by_script: bool) -> None:
    """An empty element for a script counts where it is the outermost one."""
    page = read_page(Reply("http://book.org/", 200, {}, f"<script></script>{body}".encode()))
    assert page.is_by_script is by_script


@pytest.mark.parametrize(
    "name",
    [
        *("idna", "punycode", "unicode_escape", "raw_unicode_escape", "undefined", "hex", "rot13"),
        *("zlib", "base64", "mbcs", "no-such", "\u00e4", "utf-8-", "..", "x" * 5000),
    ],
)
def test_names_of_encodings_that_are_none_are_passed_over(name: str) -> None:
    """What Python takes for an encoding and no browser does is not used on a page."""
    body = f"<h1 id='\u00fcber'>\\q {LONG}".encode()
    reply = Reply("http://a.org/", 200, {"content-type": f"text/html; charset={name}"}, body)
    assert "\u00fcber" in read_page(reply).anchors
    declared = f"<meta charset={name.encode('ascii', 'replace').decode()}>".encode() + body
    assert "\u00fcber" in read_page(Reply("http://a.org/", 200, {}, declared)).anchors


# --- manners ---


@pytest.mark.parametrize(
    ("answer", "verdict"),
    [
        (Answer(429), "throttled"),
        (Answer(500), "unreachable"),
        (Answer(503), "unreachable"),
        (Answer(403), "live"),
        (Answer(404), "live"),
        (
            Answer(body="User-agent: *\nAllow: /", fault="slow-body", kind="text/plain"),
            "unreachable",
        ),
        (Answer(body="User-agent: *\nDisallow: /", kind="text/html"), "gated"),
        (Answer(body="User-agent: *\nDisallow: /", kind="application/octet-stream"), "gated"),
        (Answer(body="User-agent: *\nDISALLOW: /\nALLOW: /a", kind="text/plain"), "live"),
    ],
)
def test_robots_that_cannot_be_had_allow_nothing(answer: Answer, verdict: str) -> None:
    """A host that is in trouble or wants to be left alone is not asked for pages; one that has no
    rules is, and rules count whatever they are said to be."""
    manners = BRIEF if answer.fault else HASTY
    with serve() as server:
        server.paths |= {"/robots.txt": answer, "/a": Answer()}
        url = server.url("/a")
        assert ask([url], know(), manners)[url].verdict == verdict
        assert server.count("/a") == (verdict == "live")


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("2.5", 2.5),
        (".5", 0.5),
        ("30", 30.0),
        ("900", 900.0),
        ("99999999999999999999", 999999999.0),
        ("-5", 0.0),
        ("soon", 0.0),
        (".", 0.0),
        ("1e9", 0.0),
    ],
)
def test_a_delay_is_read_as_it_is(text: str, seconds: float) -> None:
    """However long a delay is, it is not taken for none."""
    assert parse_robots(f"User-agent: *\nCRAWL-DELAY: {text}").delay == seconds


def test_a_delay_that_is_too_long_for_us_is_told() -> None:
    """A host that wants to be asked once in an hour is not asked, and its link is gated."""
    rules = Answer(body="User-agent: *\nCrawl-delay: 3600", kind="text/plain")
    with serve() as server:
        server.paths |= {"/robots.txt": rules, "/a": Answer()}
        url = server.url("/a")
        judged = ask([url], know())[url]
        assert judged.verdict == "gated"
        assert judged.reason.endswith("/robots.txt asks for a delay of 3600 s")
        assert server.count("/a") == 0


def test_a_delay_that_robots_ask_for_is_kept() -> None:
    """What a host asks for comes before what we would do."""
    rules = Answer(body="User-agent: *\nCrawl-delay: 25", kind="text/plain")
    time = FakeTime()
    with serve(now=time.clock.now) as server:
        server.paths |= {"/robots.txt": rules, "/a": Answer(), "/b": Answer()}
        ask([server.url("/a"), server.url("/b")], know(), clock=time.clock)
        pairs = itertools.pairwise(server.requests)
        assert [after.begun - before.ended for before, after in pairs] == [25, 25]


@pytest.mark.parametrize(
    "names", [("\u00e4.de", "xn--4ca.de"), ("Book.org", "book.org."), ("a:@book.org", "book.org")]
)
def test_a_host_has_one_queue_under_all_its_names(names: tuple[str, str]) -> None:
    """Two ways of writing a host are one host, which is asked one thing at a time."""
    assert len({find_host(f"https://{name}/") for name in names}) == 1
    time = FakeTime()
    with serve(now=time.clock.now) as server:
        server.paths["/a"] = server.paths["/b"] = Answer()
        first, second = names
        urls = [f"http://{first}:{server.port}/a", f"http://{second}:{server.port}/b"]

        def look_up(name: str) -> Sequence[str]:
            return ("127.0.0.1",)

        answers = ask(urls, look_up, Manners(), time.clock)
        assert {answer.verdict for answer in answers.values()} == {"live"}
        assert server.count("/robots.txt") == 1
        times = sorted((request.begun, request.ended) for request in server.requests)
    for (_, ended), (begun, _) in itertools.pairwise(times):
        assert begun - ended == 1.0


@pytest.mark.parametrize("delay", [0.0, 0.999, 1e-300, -0.0, float("-inf"), float("nan")])
def test_no_delay_switches_manners_off(make_book: BookMaker, delay: float) -> None:
    """A delay below a second is refused before anybody is asked."""
    inspection = inspect_book(make_book({"a.md": "# A\n"}))
    with pytest.raises(ConfigError, match="--delay cannot be"):
        check_web(inspection, delay=delay)


@pytest.mark.parametrize(
    "text",
    ["links: {delay: 0}", "links: {robots: false}", "links: {shelf_life: 0}", "delay: 0"],
)
def test_no_key_switches_manners_off(make_book: BookMaker, text: str) -> None:
    """chapters.yaml has no key for manners, and says so."""
    root = make_book({"a.md": "# A\n"}, extra=f"{text}\n")
    with pytest.raises(ConfigError):
        inspect_book(root)
