"""Links to the web against a web of our own: what each fault of a host makes of a link."""

from __future__ import annotations

import asyncio
import gzip
import itertools
import ssl
import subprocess
from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path

import pytest
from bindery.web.addresses import Address, find_reason_not_to_ask
from bindery.web.answers import Answer as Verdict
from bindery.web.archive import find_copies
from bindery.web.asking import Clock
from bindery.web.manners import Manners, read_retry_after
from bindery.web.robots import parse_robots
from bindery.web.sweep import open_asker, sweep
from faulty_server import (
    PROXY_VARIABLES,
    Answer,
    FakeTime,
    FaultyServer,
    allow_loopback,
    redirect,
    refresh,
    serve,
)

HASTY = Manners(delay=0.0, back_off=0.01, limit=30.0, patience=2.0)
BRIEF = replace(HASTY, limit=1.0)
"""Where a host never answers, or never comes to the end of its answer."""
LONG = "words of a page that is written by hand and no script " * 20


@pytest.fixture(autouse=True)
def without_proxies(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is on this machine is not reached through a proxy."""
    for name in PROXY_VARIABLES:
        monkeypatch.delenv(name, raising=False)


def ask(
    urls: Iterable[str], manners: Manners = HASTY, clock: Clock | None = None
) -> dict[str, Verdict]:
    answers: dict[str, Verdict] = {}

    async def run() -> None:
        async with open_asker("tests", manners, allow_loopback, clock=clock) as asker:
            addresses = [Address(url, ()) for url in urls]
            await sweep(asker, addresses, lambda answer: answers.update({answer.url: answer}))

    asyncio.run(run())
    return answers


def ask_paths(
    paths: Mapping[str, Answer | list[Answer]],
    *,
    fragment: str = "",
    manners: Manners = HASTY,
) -> tuple[Verdict, FaultyServer]:
    """The verdict on the first path, and the server that was asked."""
    time = FakeTime()
    with serve("127.0.0.1", "127.0.0.2", now=time.clock.now) as server:
        server.paths.update(paths)
        url = server.url(next(iter(paths))) + fragment
        answer = ask([url], manners, time.clock)[url]
    return answer, server


# --- verdicts ---


@pytest.mark.parametrize(
    ("answer", "verdict", "reason"),
    [
        (Answer(body="<p>hello"), "live", ""),
        (Answer(204), "live", ""),
        (Answer(404), "dead", "answers 404"),
        (Answer(410), "dead", "answers 410"),
        (Answer(401), "gated", "answers 401: it wants a password"),
        (Answer(403), "gated", "answers 403: it does not answer programs"),
        (Answer(405), "gated", "answers 405 to programs"),
        (Answer(451), "gated", "answers 451: it is barred by law here"),
        (Answer(999), "gated", "answers 999: it does not answer programs"),
        (Answer(500), "unreachable", "answers 500"),
        (Answer(429), "throttled", "answers 429"),
        (Answer(body=b"\xff\xfe\x00bad", kind="text/html; charset=no-such"), "live", ""),
        (Answer(body=b"<html", kind="application/octet-stream"), "live", ""),
        (Answer(body="<p>ab", fault="truncated"), "live", ""),
        (Answer(body="<p>ab", fault="endless"), "live", ""),
        (Answer(body="<p>ab", fault="slow-body"), "live", ""),
        (Answer(body=b"no gzip", headers={"Content-Encoding": "gzip"}), "live", ""),
        (Answer(fault="reset"), "unreachable", None),
        (Answer(fault="silent"), "unreachable", "no answer within 1 s"),
    ],
)  # fmt: skip
def test_each_answer_has_its_verdict(answer: Answer, verdict: str, reason: str | None) -> None:
    """What a host answers, or fails to, decides what a link is called, and why."""
    manners = BRIEF if answer.fault in ("silent", "slow-body") else HASTY
    judged, _ = ask_paths({"/a": answer}, manners=manners)
    assert judged.verdict == verdict
    assert reason is None or judged.reason == reason


@pytest.mark.parametrize(
    ("status", "headers", "who"),
    [
        (404, {"cf-mitigated": "challenge"}, "Cloudflare"),
        (503, {"Server": "cloudflare"}, "Cloudflare"),
        (429, {"x-vercel-mitigated": "challenge"}, "Vercel"),
        (202, {"x-amzn-waf-action": "challenge"}, "the firewall of Amazon"),
        (403, {"Server": "AkamaiGHost"}, "Akamai"),
        (403, {"x-datadome": "protected"}, "DataDome"),
    ],
)
def test_a_wall_against_programs_is_not_dead(
    status: int, headers: Mapping[str, str], who: str
) -> None:
    """What stands behind the wall of a bot defence is gated, and it is not asked again."""
    judged, server = ask_paths({"/a": Answer(status, headers=headers)})
    assert (judged.verdict, judged.reason) == ("gated", f"{who} answers {status} to programs")
    assert server.count("/a") == 1


def test_a_host_that_comes_back_is_waited_for() -> None:
    """After 503 with Retry-After the host is asked again, and not before the time it named."""
    busy = Answer(503, headers={"Retry-After": "1"})
    judged, server = ask_paths({"/a": [busy, Answer()]})
    assert judged.verdict == "live"
    first, second = (request for request in server.requests if request.path == "/a")
    assert second.begun - first.ended >= 1.0


@pytest.mark.parametrize(
    "wait",
    ["3600", format_datetime(datetime.now(UTC) + timedelta(days=1), usegmt=True)],
    ids=("seconds", "date"),
)
def test_a_host_that_wants_more_time_is_left_for_today(wait: str) -> None:
    """A Retry-After beyond our patience ends the questions to that host at once."""
    with serve() as server:
        server.paths["/a"] = Answer(429, headers={"Retry-After": wait})
        urls = [server.url("/a"), server.url("/b")]
        answers = ask(urls)
        assert [answers[url].verdict for url in urls] == ["throttled", "throttled"]
        assert (server.count("/a"), server.count("/b")) == (1, 0)


@pytest.mark.parametrize(
    ("fault", "verdict"),
    [(Answer(429), "throttled"), (Answer(fault="reset"), "unreachable")],
)
def test_a_host_that_fails_in_a_row_is_not_asked_again(fault: Answer, verdict: str) -> None:
    """Where a second page fails as the first one did, the host is left alone for this run."""
    with serve() as server:
        server.paths |= {"/a": fault, "/b": fault, "/c": Answer()}
        answers = ask(server.url(path) for path in ("/a", "/b", "/c"))
        assert {answer.verdict for answer in answers.values()} == {verdict}
        assert [server.count(path) for path in ("/a", "/b", "/c")] == [3, 1, 0]


@pytest.mark.parametrize("fault", [Answer(429), Answer(fault="reset"), Answer(500)])
def test_a_page_that_fails_does_not_stand_for_its_host(fault: Answer) -> None:
    """One page that never answers well leaves the others of its host to be asked."""
    with serve() as server:
        server.paths |= {"/a": fault, "/b": Answer(), "/c": Answer()}
        answers = ask(server.url(path) for path in ("/a", "/b", "/c"))
        assert [answer.verdict for answer in answers.values()][1:] == ["live", "live"]


def test_a_fault_that_passes_is_none() -> None:
    """A connection that breaks once, or an answer of 500, is asked again."""
    judged, server = ask_paths({"/a": [Answer(fault="reset"), Answer(500), Answer()]})
    assert judged.verdict == "live"
    assert server.count("/a") == 3


def test_a_port_where_nobody_listens_is_unreachable() -> None:
    """A refused connection is no proof that a page is dead."""
    with serve() as server:
        url = server.url("/a")
    assert ask([url])[url].verdict == "unreachable"


def test_a_host_that_does_not_exist_is_dead() -> None:
    """A name that nobody knows is dead where another host answers."""
    with serve() as server:
        server.paths["/a"] = Answer()
        lost = "http://name.invalid/a"
        assert ask([lost, server.url("/a")])[lost].verdict == "dead"


def test_a_machine_without_a_web_calls_nothing_dead() -> None:
    """Where no host answers, it is this machine that is cut off."""
    assert ask(["http://one.invalid/"])["http://one.invalid/"].verdict == "unreachable"
    answers = ask(["http://one.invalid/", "http://two.invalid/"])
    assert {answer.verdict for answer in answers.values()} == {"unreachable"}


@pytest.mark.needs("openssl")
def test_a_certificate_that_is_not_trusted_is_unreachable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A host that nobody vouches for is not asked, and not called dead; one that is trusted is."""
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"),
            *("-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1"),
            *("-keyout", str(key), "-out", str(certificate)),
        ],
        check=True,
        capture_output=True,
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    with serve(tls=context) as server:
        urls = [server.url("/a"), server.url("/b")]
        answers = ask(urls)
        assert {answer.verdict for answer in answers.values()} == {"unreachable"}
        assert "self-signed certificate" in answers[urls[0]].reason
        assert server.requests == []
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
        server.paths |= {"/a": Answer(), "/b": Answer()}
        assert {answer.verdict for answer in ask(urls).values()} == {"live"}


# --- HEAD and GET ---


@pytest.mark.parametrize("status", [403, 404, 405, 501])
def test_a_file_that_refuses_head_is_asked_by_get(status: int) -> None:
    """Only GET decides that a file is not there."""
    judged, server = ask_paths({"/a.pdf": Answer(to_head=status, kind="application/pdf")})
    assert judged.verdict == "live"
    assert [request.method for request in server.requests[1:]] == ["HEAD", "GET"]


def test_a_file_is_not_fetched() -> None:
    """HEAD is enough for a file, and a page is asked for once."""
    _, server = ask_paths({"/a.pdf": Answer(kind="application/pdf")})
    assert [request.method for request in server.requests[1:]] == ["HEAD"]
    _, server = ask_paths({"/a": Answer()})
    assert [request.method for request in server.requests[1:]] == ["GET"]


# --- redirects ---


@pytest.mark.parametrize("status", [301, 308])
def test_a_permanent_redirect_is_a_move(status: int) -> None:
    """What is redirected for good has a new address."""
    judged, server = ask_paths({"/a": redirect(status, "/b"), "/b": Answer()})
    assert (judged.verdict, judged.target) == ("moved", server.url("/b"))


@pytest.mark.parametrize("status", [302, 303, 307])
def test_a_temporary_redirect_changes_nothing(status: int) -> None:
    """What is redirected for now keeps its address."""
    judged, _ = ask_paths({"/a": redirect(status, "/b"), "/b": Answer()})
    assert (judged.verdict, judged.target) == ("live", "")


CHAINS = {
    "all for good": (["301 /b", "308 /c", "refresh0 /d"], "moved", "/d"),
    "for now at the end": (["301 /b", "302 /c"], "moved", "/b"),
    "for now at the beginning": (["302 /b", "301 /c"], "live", ""),
    "a refresh at once": (["refresh0 /b", "refresh0 /c"], "moved", "/c"),
    "a refresh after a while": (["refresh5 /b"], "live", ""),
    "a refresh of the page itself": (["refresh30 /b"], "live", ""),
    "another host": (["301 http://127.0.0.2:{port}/x"], "moved", "http://127.0.0.2:{port}/x"),
    "a fragment of its own": (["301 /b#there"], "moved", "/b#there"),
}


@pytest.mark.parametrize("name", CHAINS)
def test_chains_of_redirects_are_followed(name: str) -> None:
    """The new address is the last one that was reached for good."""
    steps, verdict, target = CHAINS[name]
    with serve("127.0.0.1", "127.0.0.2") as server:
        path = "/a"
        for step in steps:
            kind, _, to = step.format(port=server.port).partition(" ")
            is_refresh = kind.startswith("refresh")
            server.paths[path] = (
                refresh(int(kind[7:]), to) if is_refresh else redirect(int(kind), to)
            )
            path = to.partition("#")[0].removeprefix(f"http://127.0.0.2:{server.port}")
        server.paths[path] = Answer(body="<p>here")
        url = server.url("/a")
        judged = ask([url])[url]
        wanted = target.format(port=server.port)
        wanted = server.url(wanted) if wanted.startswith("/") else wanted
    assert (judged.verdict, judged.target) == (verdict, wanted)


def test_a_circle_is_told_and_ends() -> None:
    """Redirects that lead back are followed no more than twice round."""
    judged, server = ask_paths({"/a": redirect(301, "/b"), "/b": redirect(301, "/a")})
    assert (judged.verdict, judged.reason) == ("unreachable", "redirects in a circle")
    assert len(server.requests) < 6


def test_a_long_way_ends_after_ten_steps() -> None:
    """Nobody is followed for ever."""
    judged, server = ask_paths({f"/{n}": redirect(301, f"/{n + 1}") for n in range(20)})
    assert (judged.verdict, judged.reason) == ("unreachable", "redirects more than 10 times")
    assert server.count("/10") == 0


def test_a_redirect_to_a_dead_page_is_dead() -> None:
    """Where a redirect leads to counts, and the reader is told."""
    judged, server = ask_paths({"/a": redirect(301, "/b"), "/b": Answer(410)})
    assert judged.verdict == "dead"
    assert judged.reason == f"redirects to '{server.url('/b')}', which answers 410"


@pytest.mark.parametrize(
    ("path", "target", "verdict", "written"),
    [
        ("/stable/a.html", "/v2.1/a.html", "live", ""),
        ("/en/latest/a", "/en/v2/a", "live", ""),
        ("/latest/a", "/latest/b", "moved", "/latest/b"),
        ("/a", "/b?X-Amz-Signature=1&x=2", "live", ""),
        ("/a", "/b?Expires=1", "live", ""),
        ("/a", "/b?token=1", "live", ""),
        ("/docs/a", "/", "dead", ""),
        ("/docs", "/index.html", "dead", ""),
        ("/index.html", "/", "moved", "/"),
        ("/a", "/login?next=%2Fa", "gated", ""),
        ("/a", "/accounts/signin/", "gated", ""),
        ("/a/b", "/a/en-us/b", "live", ""),
        ("/x.git", "/x", "live", ""),
        ("/x.git", "/y", "moved", "/y.git"),
        ("/a", "/a/", "moved", "/a/"),
    ],
)
def test_not_every_redirect_is_a_move(path: str, target: str, verdict: str, written: str) -> None:
    """Rolling names, signed addresses, logins, languages and clones keep the address they have."""
    end = Answer(body="<p>here")
    paths = {
        path: redirect(301, target),
        "/y": end,
        "/b": end,
        target.partition("?")[0]: end,
        target: end,
    }
    judged, server = ask_paths(paths)
    assert (judged.verdict, judged.target) == (verdict, server.url(written) if written else "")


def test_a_redirect_out_of_our_reach_is_not_followed() -> None:
    """What is not on the web is not asked, whoever sends us there."""
    judged, _ = ask_paths({"/a": redirect(301, "http://192.168.0.1/")})
    assert judged.verdict == "unreachable"
    assert judged.reason == "'http://192.168.0.1/' is not on the web: private host"
    judged, _ = ask_paths({"/a": redirect(302, "mailto:somebody")})
    assert judged.reason == "redirects out of the web, to 'mailto:somebody'"


def test_a_refresh_for_browsers_without_scripts_does_not_count() -> None:
    """Within noscript a refresh speaks to almost nobody."""
    page = "<noscript><meta http-equiv=refresh content='0; url=/b'></noscript><p>here"
    judged, server = ask_paths({"/a": Answer(body=page)})
    assert (judged.verdict, server.count("/b")) == ("live", 0)


# --- anchors ---


@pytest.mark.parametrize(
    ("body", "fragment", "anchor"),
    [
        (f"<h1 id=there>{LONG}", "#there", "found"),
        (f"<a name='there'></a>{LONG}", "#there", "found"),
        (f"<h1 id='user-content-there'>{LONG}", "#there", "found"),
        (f"<h1 id='\u00fcber'>{LONG}", "#%C3%BCber", "found"),
        (f'<script>{{"id":\\"there\\"}}</script>{LONG}', "#there", "found"),
        (f"<h1 id=here>{LONG}", "#there", "missing"),
        (f"<h1 id=here>{LONG}<a href='#there'>x</a>", "#there", "missing"),
        (f"<h1 id=here>{LONG}", "#L10-L20", ""),
        (f"<h1 id=here>{LONG}", "#:~:text=words", ""),
        (f"<h1 id=here>{LONG}", "#here:~:text=words", "found"),
        (f"<h1 id=here>{LONG}", "#/route", ""),
        (f"<h1 id=here>{LONG}", "#issuecomment-12", ""),
        ("<script src=x></script><div id=root></div>", "#there", "unknown"),
        (f"<script></script><div id=app></div><nav>{LONG}", "#there", "unknown"),
    ],
)
def test_anchors_are_looked_up_on_the_page(body: str, fragment: str, anchor: str) -> None:
    """An anchor is found, missing, or cannot be judged where a script writes the page."""
    judged, _ = ask_paths({"/a": Answer(body=body)}, fragment=fragment)
    assert (judged.verdict, judged.anchor) == ("live", anchor)


def test_the_nearest_anchor_is_named() -> None:
    """A missing anchor comes with the one that looks most like it."""
    judged, _ = ask_paths(
        {"/a": Answer(body=f"<h1 id=user-content-installing>{LONG}")}, fragment="#install"
    )
    assert (judged.anchor, judged.nearest) == ("missing", "installing")


def test_a_page_that_breaks_off_cannot_be_judged() -> None:
    """The anchor may stand in what did not come."""
    judged, _ = ask_paths({"/a": Answer(body=f"<h1 id=a>{LONG}", fault="truncated")}, fragment="#b")
    assert (judged.verdict, judged.anchor) == ("live", "unknown")


def test_a_compressed_page_is_read() -> None:
    """Pages come compressed."""
    body = gzip.compress(f"<h1 id=there>{LONG}".encode())
    page = Answer(body=body, headers={"Content-Encoding": "gzip"})
    assert ask_paths({"/a": page}, fragment="#there")[0].anchor == "found"


@pytest.mark.parametrize(
    ("kind", "head", "encoding"),
    [
        ("text/html", "", "utf-8"),
        ("text/html; charset=iso-8859-1", "", "latin-1"),
        ("text/html", "<meta charset='windows-1252'>", "cp1252"),
        ("text/html; charset=no-such", "<meta charset=utf-8>", "utf-8"),
        ("application/xhtml+xml", "<?xml version='1.0' encoding='utf-8'?>", "utf-8"),
    ],
)
def test_a_page_is_read_in_its_letters(kind: str, head: str, encoding: str) -> None:
    """The header says how a page is encoded, then the page itself, then UTF-8 is taken for it."""
    body = f"{head}<h1 id='\u00fcber'>{LONG}".encode(encoding)
    judged, _ = ask_paths({"/a": Answer(body=body, kind=kind)}, fragment="#\u00fcber")
    assert judged.anchor == "found"


def test_the_anchor_of_an_author_moves_along() -> None:
    """The new address keeps the anchor, and whether it is there is said."""
    page = Answer(body=f"<h1 id=there>{LONG}")
    judged, server = ask_paths({"/a": redirect(301, "/b"), "/b": page}, fragment="#there")
    assert (judged.target, judged.anchor) == (server.url("/b#there"), "found")
    judged, _ = ask_paths({"/a": redirect(301, "/b"), "/b": page}, fragment="#gone")
    assert (judged.verdict, judged.anchor) == ("moved", "missing")


def test_a_page_is_asked_once_for_all_its_anchors() -> None:
    """Ten links into one page are one request."""
    with serve() as server:
        server.paths["/a"] = Answer(body=f"<h1 id=x1>{LONG}")
        answers = ask(server.url(f"/a#x{n}") for n in range(10))
        assert server.count("/a") == 1
    assert sorted(answer.anchor for answer in answers.values()) == ["found", *["missing"] * 9]


# --- robots ---


def test_robots_are_obeyed() -> None:
    """Where robots.txt asks programs to stay away, a page is not asked, and gated."""
    robots = Answer(body="User-agent: *\nDisallow: /private", kind="text/plain")
    with serve() as server:
        server.paths |= {"/robots.txt": robots, "/open": Answer(), "/private/a": Answer()}
        urls = [server.url("/open"), server.url("/private/a")]
        answers = ask(urls)
        assert [answers[url].verdict for url in urls] == ["live", "gated"]
        assert "robots.txt" in answers[urls[1]].reason
        assert (server.count("/robots.txt"), server.count("/private/a")) == (1, 0)


def test_robots_of_a_host_in_trouble_allow_nothing() -> None:
    """A host that cannot tell its rules is not asked for more."""
    with serve() as server:
        server.paths |= {"/robots.txt": Answer(500), "/a": Answer()}
        url = server.url("/a")
        assert ask([url])[url].verdict == "unreachable"
        assert server.count("/a") == 0


@pytest.mark.parametrize(
    ("text", "path", "allowed"),
    [
        ("", "/a", True),
        ("User-agent: *\nDisallow: /", "/a", False),
        ("User-agent: *\nDisallow:", "/a", True),
        ("User-agent: other\nDisallow: /", "/a", True),
        ("User-agent: bindery\nAllow: /\n\nUser-agent: *\nDisallow: /", "/a", True),
        ("User-agent: *\nUser-agent: bindery\nDisallow: /a", "/a", False),
        ("User-agent: *\nDisallow: /a\nAllow: /a/b", "/a/b/c", True),
        ("User-agent: *\nAllow: /a\nDisallow: /a", "/a", True),
        ("User-agent: *\nDisallow: /*/tree/", "/o/r/tree/main", False),
        ("User-agent: *\nDisallow: /*.pdf$", "/a.pdf?x", True),
        ("User-agent: *\nDisallow: /a$", "/a", False),
        ("User-agent: *\nDisallow: /a$", "/ab", True),
        ("User-agent: *\nDisallow: /ab*b$", "/ab", True),
        ("User-agent: *\nDisallow: *a*a*a*a*a*a*a*a*a*a*a*a*b", "/" + "a" * 2000, True),
        ("User-agent: *\nDisallow: /*.pdf$", "/a.pdf", False),
        ("user-agent : * # all\n disallow : /%7Ea", "/~a/b", False),
        ("\ufeffUser-agent: *\r\nDisallow: /a\r\n", "/a", False),
        ("Disallow: /", "/a", True),
    ],
)
def test_rules_for_robots_are_read_as_their_standard_says(
    text: str, path: str, allowed: bool
) -> None:
    """The longest rule decides, a tie allows, our own name comes before the star."""
    assert parse_robots(text).allows(f"https://host.org{path}") is allowed


def test_a_wait_that_robots_ask_for_is_kept() -> None:
    """Crawl-delay makes us slower."""
    assert parse_robots("User-agent: *\nCrawl-delay: 2.5").delay == 2.5
    assert parse_robots("User-agent: *\nCrawl-delay: 900").delay == 900.0
    assert parse_robots("User-agent: *\nCrawl-delay: soon").delay == 0.0


# --- manners ---


def test_who_asks_says_so() -> None:
    """Each request names the program that asks."""
    _, server = ask_paths({"/a": Answer()})
    assert {request.agent.strip() for request in server.requests} == {"tests"}


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("120", 120.0),
        (" 0 ", 0.0),
        ("Sat, 21 Nov 2026 12:01:00 GMT", 60.0),
        ("Sat, 21 Nov 2026 11:00:00 GMT", 0.0),
        ("soon", None),
        ("-5", None),
        ("", None),
        ("99999999999999999999", 999999999.0),
    ],
)
def test_retry_after_is_seconds_or_a_date(text: str, seconds: float | None) -> None:
    """Both forms of the header are understood, and what is neither is no wait at all."""
    assert read_retry_after(text, datetime(2026, 11, 21, 12, tzinfo=UTC)) == seconds


def test_one_host_is_asked_one_thing_at_a_time() -> None:
    """Redirects from everywhere to one host wait for their turn, and for the delay."""
    hosts = [f"127.0.0.{n}" for n in range(1, 9)]
    time = FakeTime()
    with serve(*hosts, now=time.clock.now) as server:
        for host in hosts[1:]:
            server.paths[f"{host}/a"] = redirect(301, server.url("/b", hosts[0]))
        server.paths["/b"] = Answer()
        ask((server.url("/a", host) for host in hosts[1:]), Manners(delay=1.0), time.clock)
        times = sorted((r.begun, r.ended) for r in server.requests if r.host == hosts[0])
    assert len(times) == 8  # the rules for robots, and seven visitors
    for (_, ended), (begun, _) in itertools.pairwise(times):
        assert begun - ended >= 1.0


def test_a_host_that_is_waited_for_holds_up_no_other() -> None:
    """While one host has its delay, all questions to another one are asked."""
    rules = Answer(body="User-agent: *\nCrawl-delay: 9", kind="text/plain")
    with serve("127.0.0.1", "127.0.0.2") as server:
        server.paths |= {"127.0.0.1/robots.txt": rules, "/a": Answer(), "/b": Answer()}
        urls = [server.url(path, host) for host in server.hosts for path in ("/a", "/b")]
        other_is_done = asyncio.Event()

        async def wait(seconds: float) -> None:
            if seconds > 1:
                await asyncio.wait_for(other_is_done.wait(), 60)

        def tell(answer: Verdict) -> None:
            told.append(answer.url)
            if {*urls[2:]} <= {*told}:
                other_is_done.set()

        async def run() -> None:
            clock = Clock(sleep=wait)
            async with open_asker("tests", HASTY, allow_loopback, clock=clock) as asker:
                await sweep(asker, [Address(url, ()) for url in urls], tell)

        told: list[str] = []
        asyncio.run(run())
    assert [*told[2:]] == urls[:2]


@pytest.mark.nightly
def test_many_hosts_are_asked_at_once() -> None:
    """700 links on 120 hosts: those with few are done before the one with the longest queue, and
    each host has its delay."""
    hosts = [f"127.0.1.{n}" for n in range(1, 121)]
    delay, longest = 0.5, 40
    with serve(*hosts) as server:
        urls = [server.url(f"/{n}", hosts[0]) for n in range(longest)]
        urls += [server.url(f"/{n}", hosts[1 + n % 119]) for n in range(700 - longest)]
        server.paths |= {f"/{n}": Answer(body="<p>here") for n in range(700)}
        answers = ask(urls, Manners(delay=delay))
        requests = list(server.requests)
    assert len(answers) == len(set(urls)) == 700
    assert {answer.verdict for answer in answers.values()} == {"live"}
    for host in hosts:
        times = sorted((r.begun, r.ended) for r in requests if r.host == host)
        for (_, ended), (next_begun, _) in itertools.pairwise(times):
            assert next_begun - ended >= delay
    ends = [max(r.ended for r in requests if r.host == host) for host in hosts]
    assert max(ends) == ends[0]


# --- what is not asked, and copies ---


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("https://docs.python.org/3/", ""),
        ("//docs.python.org/3/", ""),
        ("https://8.8.8.8/", ""),
        ("http://localhost:8080/", "private host"),
        ("http://127.0.0.1/", "private host"),
        ("http://[::1]:80/", "private host"),
        ("http://10.0.0.1/", "private host"),
        ("http://169.254.169.254/latest", "private host"),
        ("http://node-1:9000/", "private host"),
        ("http://printer.local/", "private host"),
        ("https://example.com/a", "example host"),
        ("https://www.example.org/", "example host"),
        ("https://a.test/", "example host"),
        ("https://{host}/", "broken URL"),
        ("https://host:port/", "broken URL"),
        ("http://[::1/", "broken URL"),
    ],
)
def test_what_is_not_on_the_web_is_not_asked(url: str, reason: str) -> None:
    """Examples, private hosts and what is no address are left out, with the reason."""
    assert find_reason_not_to_ask(url) == reason


def test_the_archive_is_asked_for_copies() -> None:
    """A copy that is there and was alive is found, and its address is a safe one."""
    copy = '{"archived_snapshots": {"closest": {"available": true, "status": "200", "url": "%s"}}}'
    found = copy % "http://web.archive.org/web/2024/http://a.org/"
    with serve() as server:
        server.paths |= {
            "/w?url=http%3A%2F%2Fa.org%2F": Answer(body=found, kind="application/json"),
            "/w?url=http%3A%2F%2Fb.org%2F": Answer(body='{"archived_snapshots": {}}'),
            "/w?url=http%3A%2F%2Fc.org%2F": Answer(body="<html>down</html>"),
        }

        async def run() -> Mapping[str, str]:
            async with open_asker("tests", HASTY, allow_loopback) as asker:
                urls = [f"http://{name}.org/" for name in "abcd"]
                return await find_copies(asker, urls, server.url("/w"))

        copies = asyncio.run(run())
    assert copies == {"http://a.org/": "https://web.archive.org/web/2024/http://a.org/"}
