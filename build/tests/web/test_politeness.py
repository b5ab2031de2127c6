"""How hosts are treated: robots.txt, delays, retries, one request at a time."""

import itertools
from datetime import UTC, datetime

import pytest
from bindery.web.addresses import find_host
from bindery.web.manners import Manners, read_retry_after
from bindery.web.robots import parse_robots
from faulty_server import (
    Answer,
    FakeTime,
    FaultyServer,
    ask,
    ask_paths,
    redirect,
    serve,
)

RULES = "User-agent: *\nDisallow: /"


def list_gaps(server: FaultyServer, host: str) -> list[float]:
    """The seconds between each answer of a host and the next request."""
    times = sorted((r.begun, r.ended) for r in server.requests if r.host == host)
    return [begun - ended for (_, ended), (begun, _) in itertools.pairwise(times)]


def test_a_passing_fault_is_retried() -> None:
    """After a broken connection or a 5xx the page is asked for again, and not before the time that
    Retry-After names."""
    busy = Answer(503, headers={"Retry-After": "1"})
    judged, server = ask_paths({"/a": [Answer(fault="reset"), busy, Answer()]})
    assert judged.verdict == "live"
    assert {request.agent.strip() for request in server.requests} == {"tests"}
    assert list_gaps(server, "127.0.0.1")[2] > 0.99


def test_a_host_that_wants_more_time_is_left_for_today() -> None:
    """A Retry-After beyond our patience ends the requests to that host at once."""
    with serve() as server:
        server.paths["/a"] = Answer(429, headers={"Retry-After": "3600"})
        answers = ask([server.url("/a"), server.url("/b")])
        assert [answer.verdict for answer in answers.values()] == ["throttled", "throttled"]
        assert (server.count("/a"), server.count("/b")) == (1, 0)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        (" 120 ", 120.0),
        ("Sat, 21 Nov 2026 12:01:00 GMT", 60.0),
        ("Sat, 21 Nov 2026 11:00:00 GMT", 0.0),
        ("soon", None),
        ("-5", None),
    ],
)
def test_retry_after_is_seconds_or_a_date(text: str, seconds: float | None) -> None:
    """Both forms of the header are read; anything else is ignored."""
    assert read_retry_after(text, datetime(2026, 11, 21, 12, tzinfo=UTC)) == seconds


@pytest.mark.parametrize(
    ("fault", "verdict"),
    [(Answer(429), "throttled"), (Answer(fault="reset"), "unreachable")],
)
def test_a_host_that_fails_in_a_row_is_not_asked_again(fault: Answer, verdict: str) -> None:
    """If a second page fails like the first, the host is left alone for this run."""
    with serve() as server:
        server.paths |= {"/a": fault, "/b": fault, "/c": Answer()}
        answers = ask(server.url(path) for path in ("/a", "/b", "/c"))
        assert {answer.verdict for answer in answers.values()} == {verdict}
        assert [server.count(path) for path in ("/a", "/b", "/c")] == [3, 1, 0]


def test_one_failing_page_does_not_stop_its_host() -> None:
    """The other pages of the host are asked."""
    with serve() as server:
        server.paths |= {"/a": Answer(429), "/b": Answer(), "/c": Answer()}
        answers = ask(server.url(path) for path in ("/a", "/b", "/c"))
        assert [answer.verdict for answer in answers.values()][1:] == ["live", "live"]


# robots.txt.


@pytest.mark.parametrize(
    ("answer", "verdict"),
    [
        (Answer(429), "throttled"),
        (Answer(500), "unreachable"),
        (Answer(body=RULES, headers={"Content-Encoding": "gzip"}), "unreachable"),
        (Answer(403), "live"),
        (Answer(404), "live"),
        (Answer(body=RULES, kind="application/octet-stream"), "gated"),
        (Answer(body=f"{RULES}\nALLOW: /a", kind="text/html"), "live"),
        (Answer(body="User-agent: *\nCrawl-delay: 3600"), "gated"),
    ],
)
def test_robots_that_cannot_be_read_allow_nothing(answer: Answer, verdict: str) -> None:
    """A host in trouble, or one that asks for a very long delay, is not asked for pages. A host
    without rules is, and rules count whatever their type."""
    with serve() as server:
        server.paths |= {"/robots.txt": answer, "/a": Answer()}
        url = server.url("/a")
        judged = ask([url], clock=FakeTime().clock)[url]
        assert judged.verdict == verdict
        assert ("/robots.txt requires" in judged.reason or "disallows" in judged.reason) == (
            verdict == "gated"
        )
        assert server.count("/a") == (verdict == "live")


@pytest.mark.parametrize(
    ("text", "path", "allowed"),
    [
        ("", "/a", True),
        ("User-agent: bindery\nAllow: /\n\nUser-agent: *\nDisallow: /", "/a", True),
        ("User-agent: *\nUser-agent: bindery\nDisallow: /a", "/a", False),
        ("User-agent: *\nDisallow: /a\nAllow: /a/b", "/a/b/c", True),
        ("User-agent: *\nAllow: /a\nDisallow: /a", "/a", True),
        ("User-agent: *\nDisallow: /*/tree/", "/o/r/tree/main", False),
        ("User-agent: *\nDisallow: /*.pdf$", "/a.pdf", False),
        ("User-agent: *\nDisallow: /ab*b$", "/ab", True),
        ("User-agent: *\nDisallow: *a*a*a*a*a*a*a*a*a*a*a*a*b", "/" + "a" * 2000, True),
        ("user-agent : * # all\n disallow : /%7Ea", "/~a/b", False),
        ("\ufeffUser-agent: *\r\nDisallow: /a\r\n", "/a", False),
    ],
)
def test_robots_are_read_as_in_rfc_9309(text: str, path: str, allowed: bool) -> None:
    """The longest rule decides, a tie allows, our own name comes before the star."""
    assert parse_robots(text).allows(f"https://host.org{path}") is allowed


def test_a_crawl_delay_is_kept() -> None:
    """The delay that a host asks for replaces ours."""
    rules = Answer(body="User-agent: *\nCRAWL-DELAY: 2.5", kind="text/plain")
    time = FakeTime()
    with serve(now=time.clock.now) as server:
        server.paths |= {"/robots.txt": rules, "/a": Answer(), "/b": Answer()}
        ask([server.url("/a"), server.url("/b")], clock=time.clock)
        assert list_gaps(server, "127.0.0.1") == [2.5, 2.5]


# Queues.


def test_one_host_is_asked_one_thing_at_a_time() -> None:
    """Redirects from several hosts to one host wait for their turn and for the delay."""
    hosts = [f"127.0.0.{n}" for n in range(1, 9)]
    time = FakeTime()
    with serve(*hosts, now=time.clock.now) as server:
        for host in hosts[1:]:
            server.paths[f"{host}/a"] = redirect(301, server.url("/b", hosts[0]))
        server.paths["/b"] = Answer()
        urls = [server.url("/a", host) for host in hosts[1:]]
        ask(urls, Manners(delay=1.0), clock=time.clock)
        gaps = list_gaps(server, hosts[0])
    assert len(gaps) == 7  # after robots.txt, seven visitors
    assert min(gaps) >= 1.0


@pytest.mark.parametrize(
    "names", [("\u00e4.de", "xn--4ca.de"), ("Book.org", "book.org."), ("a:@book.org", "book.org")]
)
def test_a_host_has_one_queue_under_all_its_names(names: tuple[str, str]) -> None:
    """Two spellings of a host are one host, which is asked one thing at a time."""
    assert len({find_host(f"https://{name}/") for name in names}) == 1
