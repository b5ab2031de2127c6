"""No book and no host makes `bindery links --external` ask a private network, hang, or fill the
memory."""

import ipaddress
import ssl
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from bindery.check.inspect import inspect_book
from bindery.cli.commands.links_external import Web, Wishes, ask_web
from bindery.core.model import ConfigError
from bindery.web.addresses import find_host, find_reason_not_to_ask, is_on_web
from faulty_server import BRIEF, HASTY, Answer, ask, ask_paths, know, redirect, serve

BookMaker = Callable[..., Path]


def allow_first(url: str) -> str:
    """The real rules, but 127.0.0.1 is a public host and 127.0.0.2 is not."""
    host = find_host(url).partition(":")[0]
    return "" if host == "127.0.0.1" else find_reason_not_to_ask(url)


# Private networks.


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("https://docs.python.org/3/", ""),
        ("//docs.python.org/3/", ""),
        ("https://8.8.8.8/", ""),
        ("http://[::1]:80/", "private host"),
        ("http://169.254.169.254/latest", "private host"),
        ("http://node-1:9000/", "private host"),
        ("http://router.lan/", "private host"),
        ("http://a.localhost/", "private host"),
        ("http://127.0.0.1./", "private host"),
        ("http://10.1.2.3/", "private host"),
        ("http://\uff11\uff12\uff17.0.0.1/", "private host"),
        ("http://[ff0e::1]/", "private host"),
        ("https://www.example.org/", "example host"),
        ("https://{host}/", "broken URL"),
        ("http://[::1/", "broken URL"),
        ("http://127.1/", "broken URL"),
        ("http://0x7f000001/", "broken URL"),
        ("http://2130706433/", "broken URL"),
        ("http://%31%32%37.0.0.1/", "broken URL"),
    ],
)
def test_some_addresses_are_never_asked(url: str, reason: str) -> None:
    """Examples, private hosts and broken addresses are left out, with the reason; so are numbers
    that stand for a private address."""
    assert find_reason_not_to_ask(url) == reason


@pytest.mark.parametrize(
    ("address", "is_public"),
    [
        ("8.8.8.8", True),
        ("100.64.0.1", False),
        ("2606:4700::1111", True),
        ("::ffff:10.0.0.1", False),
        ("64:ff9b::8.8.8.8", True),
        ("64:ff9b::10.0.0.1", False),
        ("2002:a00:1::1", False),
        ("fc00::1", False),
    ],
)
def test_only_addresses_of_the_internet_are_asked(address: str, is_public: bool) -> None:
    """Private, local and multicast addresses are not, nor tunnels to them."""
    assert is_on_web(ipaddress.ip_address(address)) is is_public


def test_a_name_is_looked_up_once() -> None:
    """The judged address is the one that is connected to, for every request of the run, and the
    host is asked by its name."""
    asked: list[str] = []

    def look_up(name: str) -> Sequence[str]:
        asked.append(name)
        return ("127.0.0.1",) if len(asked) == 1 else ("127.0.0.2",)

    with serve("127.0.0.1", "127.0.0.2") as server:
        closing = Answer(body="<p>here", headers={"Connection": "close"}, fault="truncated")
        server.paths |= {"/a": closing, "/b": closing}
        urls = [f"http://book.org:{server.port}/{name}" for name in "ab"]
        answers = ask(urls, look_up=look_up, find_reason=allow_first)
        assert {answer.verdict for answer in answers.values()} == {"live"}
        assert {request.host for request in server.requests} == {"127.0.0.1"}
        assert {request.asked_host for request in server.requests} == {f"book.org:{server.port}"}
    assert asked == ["book.org"]


def test_one_private_address_is_enough() -> None:
    """A name with a public and a private address is not asked at all."""
    with serve("127.0.0.1", "127.0.0.2") as server:
        url = f"http://book.org:{server.port}/"
        names = know(book_org=("127.0.0.1", "127.0.0.2"))
        judged = ask([url], look_up=names, find_reason=allow_first)[url]
        assert judged.verdict == "unreachable"
        assert judged.reason == "the host 'book.org' is in a private network"
        assert server.requests == []


def test_a_host_is_tried_over_ipv4_too() -> None:
    """However many IPv6 addresses come first, one IPv4 address is tried."""
    names = know(book_org=[*(f"::ffff:127.0.0.{n}" for n in range(3, 9)), "127.0.0.1"])
    with serve("127.0.0.1") as server:
        server.paths["/"] = Answer()
        url = f"http://book.org:{server.port}/"
        judged = ask([url], look_up=names, find_reason=lambda url: "")[url]
    assert judged.verdict == "live"


def test_a_redirect_is_judged_hop_by_hop() -> None:
    """A public host that redirects to a private one, by address or by name, is not followed."""
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
        answers = ask(urls, look_up=know(inside_org="127.0.0.2"), find_reason=allow_first)
        assert {answer.verdict for answer in answers.values()} == {"unreachable"}
        assert {request.host for request in server.requests} == {"127.0.0.1"}


@pytest.mark.needs("openssl")
def test_a_certificate_has_to_be_trusted_and_of_the_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A host with an untrusted certificate, or that of another name, is asked nothing."""
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
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    names = know(book_org="127.0.0.1", other_org="127.0.0.1")
    with serve(tls=context) as server:
        server.paths["/a"] = Answer()
        urls = [f"https://{name}:{server.port}/a" for name in ("book.org", "other.org")]
        judged = ask(urls, look_up=names, find_reason=allow_first)[urls[0]]
        assert judged.verdict == "unreachable"
        assert "self-signed certificate" in judged.reason
        assert server.requests == []
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
        answers = ask(urls, look_up=names, find_reason=allow_first)
    assert [answers[url].verdict for url in urls] == ["live", "unreachable"]
    assert "hostname mismatch" in answers[urls[1]].reason


# The environment.


def test_behind_a_proxy_names_are_judged_as_written(monkeypatch: pytest.MonkeyPatch) -> None:
    """A proxy is asked for public names, and never for a private name or address."""
    with serve() as proxy:
        monkeypatch.setenv("http_proxy", proxy.url(""))
        proxy.paths["http://book.org/a"] = Answer()
        proxy.paths["http://book.org/b"] = redirect(302, "http://10.0.0.1/")
        urls = ["http://book.org/a", "http://book.org/b", "http://10.0.0.1/", "http://x.lan/"]
        answers = ask(urls, find_reason=allow_first)
        assert [answers[url].verdict for url in urls] == ["live", *["unreachable"] * 3]
        asked = {request.path for request in proxy.requests}
        assert asked == {f"http://book.org/{name}" for name in ("a", "b", "robots.txt")}


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("https_proxy", "http://u:secret@p:x", "the proxy for https in the environment"),
        ("SSL_CERT_FILE", "/no/such/file", "SSL_CERT_FILE or SSL_CERT_DIR cannot be read"),
    ],
)
def test_a_broken_environment_is_reported(
    make_book: BookMaker, monkeypatch: pytest.MonkeyPatch, name: str, value: str, message: str
) -> None:
    """The message names the variable, without passwords."""
    monkeypatch.setenv(name, value)
    inspection = inspect_book(make_book({"a.md": "# A\n\n<https://book.org/>\n"}))
    with pytest.raises(ConfigError, match=message) as caught:
        ask_web(inspection, Wishes(quiet=True), Web(HASTY, allow_first, know()))
    assert "secret" not in str(caught.value.findings)


# Endless and huge answers.


def test_an_endless_answer_is_cut() -> None:
    """It counts with what has arrived."""
    judged, _ = ask_paths({"/a": Answer(fault="endless")}, fragment="#there", manners=BRIEF)
    assert (judged.verdict, judged.anchor) == ("live", "unknown")


def test_a_slow_look_up_is_left() -> None:
    """The limit of a request includes the look-up, and other hosts do not wait for it."""

    def look_up(name: str) -> Sequence[str]:
        if name == "slow.org":
            time.sleep(3)
        return ("127.0.0.1",)

    with serve() as server:
        server.paths["/"] = Answer()
        urls = [f"http://{name}.org:{server.port}/" for name in ("slow", "quick")]
        answers = ask(urls, BRIEF, look_up=look_up, find_reason=allow_first)
    assert [answers[url].verdict for url in urls] == ["unreachable", "live"]
    assert answers[urls[0]].reason == "no response within 1 s"
