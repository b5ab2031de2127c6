"""What each answer, redirect and anchor makes of a link, on a web on this machine."""

import gzip

import pytest
from faulty_server import (
    BRIEF,
    HASTY,
    LONG,
    Answer,
    ask,
    ask_paths,
    redirect,
    refresh,
    serve,
)


@pytest.mark.parametrize(
    ("answer", "verdict", "reason"),
    [
        (Answer(body="<p>hello"), "live", ""),
        (Answer(404), "dead", "returns status 404"),
        (Answer(403), "gated", "returns status 403: it rejects automated requests"),
        (Answer(405), "gated", "returns status 405 to automated requests"),
        (Answer(500), "unreachable", "returns status 500"),
        (Answer(429), "throttled", "returns status 429"),
        (Answer(body=b"\xff\xfe\x00bad", kind="text/html; charset=no-such"), "live", ""),
        (Answer(body=b"<html", kind="application/octet-stream"), "live", ""),
        (Answer(body="<p>ab", fault="truncated"), "live", ""),
        (Answer(fault="reset"), "unreachable", None),
        (Answer(fault="silent"), "unreachable", "no response within 1 s"),
    ],
)  # fmt: skip
def test_each_answer_has_its_verdict(answer: Answer, verdict: str, reason: str | None) -> None:
    """The answer of a host decides the verdict on a link, and the reason."""
    manners = BRIEF if answer.fault == "silent" else HASTY
    judged, _ = ask_paths({"/a": answer}, manners=manners)
    assert judged.verdict == verdict
    assert reason is None or judged.reason == reason


def test_a_refused_connection_is_unreachable() -> None:
    """A refused connection does not prove that a page is dead."""
    with serve() as server:
        url = server.url("/a")
    judged = ask([url])[url]
    assert (judged.verdict, judged.reason) == ("unreachable", "connection refused")


def test_an_unknown_name_is_dead_if_another_host_answers() -> None:
    """If no host answers at all, this machine is offline, and nothing is called dead."""
    with serve() as server:
        server.paths["/a"] = Answer()
        lost = "http://name.invalid/a"
        assert ask([lost, server.url("/a")])[lost].verdict == "dead"
    assert ask([lost])[lost].verdict == "unreachable"


# Redirects.

CHAINS = {
    "301": (["301 /b"], "moved", "/b"),
    "302": (["302 /b"], "live", ""),
    "all permanent": (["301 /b", "308 /c", "refresh0 /d"], "moved", "/d"),
    "temporary at the end": (["301 /b", "302 /c"], "moved", "/b"),
    "temporary at the start": (["307 /b", "301 /c"], "live", ""),
    "a refresh after a while": (["refresh5 /b"], "live", ""),
    "a refresh of the page itself": (["refresh30 /b"], "live", ""),
    "another host": (["301 http://127.0.0.2:{port}/x"], "moved", "http://127.0.0.2:{port}/x"),
    "with a fragment": (["301 /b#there"], "moved", "/b#there"),
}


@pytest.mark.parametrize("name", CHAINS)
def test_chains_of_redirects_are_followed(name: str) -> None:
    """The new address is the last one that permanent redirects lead to."""
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


def test_a_redirect_to_a_dead_page_is_dead() -> None:
    """The page at the end of the redirects counts, and the reason names it."""
    judged, server = ask_paths({"/a": redirect(301, "/b"), "/b": Answer(410)})
    assert judged.verdict == "dead"
    assert judged.reason == f"redirects to '{server.url('/b')}', which returns status 410"


def test_redirects_are_followed_ten_times() -> None:
    """The redirects of robots.txt are followed five times."""
    paths = {f"/{n}": redirect(302, f"/{n + 1}") for n in range(20)}
    paths |= {"/robots.txt": redirect(302, "/r0")}
    paths |= {f"/r{n}": redirect(302, f"/r{n + 1}") for n in range(20)}
    judged, server = ask_paths(paths)
    assert (judged.verdict, judged.reason) == ("unreachable", "redirects more than 10 times")
    assert len(server.requests) == 15


@pytest.mark.parametrize(
    ("path", "target", "verdict", "written"),
    [
        ("/en/latest/a", "/en/v2/a", "live", ""),
        ("/latest/a", "/latest/b", "moved", "/latest/b"),
        ("/a", "/b?X-Amz-Signature=1&x=2", "live", ""),
        ("/docs/a", "/", "dead", ""),
        ("/index.html", "/", "moved", "/"),
        ("/a", "/login?next=%2Fa", "gated", ""),
        ("/a/b", "/a/en-us/b", "live", ""),
        ("/x.git", "/x", "live", ""),
        ("/x.git", "/y", "moved", "/y.git"),
    ],
)
def test_not_every_redirect_is_a_move(path: str, target: str, verdict: str, written: str) -> None:
    """Rolling names, signed addresses, logins, languages and clones keep their address."""
    end = Answer(body="<p>here")
    paths = {path: redirect(301, target), "/y": end, target.partition("?")[0]: end, target: end}
    judged, server = ask_paths(paths)
    assert (judged.verdict, judged.target) == (verdict, server.url(written) if written else "")


NOWHERE = ("ftp://127.0.0.1/", "ws://127.0.0.1/", "mailto:a@b.c")


@pytest.mark.parametrize("target", NOWHERE)
def test_a_redirect_to_a_broken_address_fails_one_page_only(target: str) -> None:
    """The next page of the host is asked, and nothing is connected to but the web. A robots.txt
    that redirects so means no rules."""
    with serve() as server:
        server.paths |= {"/a": redirect(302, target), "/b": Answer()}
        server.paths["/robots.txt"] = redirect(302, target)
        answers = ask([server.url("/a"), server.url("/b")])
        assert [answer.verdict for answer in answers.values()] == ["unreachable", "live"]
        assert [request.path for request in server.requests] == ["/robots.txt", "/a", "/b"]


# Anchors.


@pytest.mark.parametrize(
    ("body", "fragment", "anchor"),
    [
        (f"<h1 id=there>{LONG}", "#there", "found"),
        (f"<a name='there'></a>{LONG}", "#there", "found"),
        (f"<h1 id='user-content-there'>{LONG}", "#there", "found"),
        (f"<h1 id='\u00fcber'>{LONG}", "#%C3%BCber", "found"),
        (f'<script>{{"id":\\"there\\"}}</script>{LONG}', "#there", "found"),
        (f"<h1 id=here>{LONG}<a href='#there'>x</a>", "#there", "missing"),
        (f"<h1 id=here>{LONG}", "#L10-L20", ""),
        (f"<h1 id=here>{LONG}", "#here:~:text=words", "found"),
        (f"<h1 id=here>{LONG}", "#/route", ""),
        ("<script src=x></script><p>little", "#there", "unknown"),
        (f"<script></script><div id=app> <!-- x --></div><nav>{LONG}", "#there", "unknown"),
        (f"<script></script><div id=app><script>{LONG}</script></div>{LONG}", "#there", "unknown"),
        (f"<script></script><div id=app>x<div id=root></div>{LONG}</div>", "#there", "missing"),
    ],
)
def test_anchors_are_looked_up_on_the_page(body: str, fragment: str, anchor: str) -> None:
    """An anchor is found or missing, or cannot be judged because a script writes the page."""
    judged, _ = ask_paths({"/a": Answer(body=body)}, fragment=fragment)
    assert (judged.verdict, judged.anchor) == ("live", anchor)


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
def test_a_page_is_read_in_its_encoding(kind: str, head: str, encoding: str) -> None:
    """The header names the encoding, then the page itself; otherwise it is UTF-8."""
    page = Answer(body=f"{head}<h1 id='\u00fcber'>{LONG}".encode(encoding), kind=kind)
    assert ask_paths({"/a": page}, fragment="#\u00fcber")[0].anchor == "found"


def test_a_packed_page_that_nobody_asked_for_is_not_read() -> None:
    """Its anchors cannot be judged."""
    page = Answer(body=gzip.compress(b"<p>x"), headers={"Content-Encoding": "gzip"})
    judged, _ = ask_paths({"/a": page}, fragment="#there")
    assert (judged.verdict, judged.anchor) == ("live", "unknown")


@pytest.mark.parametrize(("fragment", "anchor"), [("#there", "found"), ("#gone", "missing")])
def test_the_anchor_moves_along(fragment: str, anchor: str) -> None:
    """The new address keeps the anchor of the author, and the answer says whether it exists."""
    page = Answer(body=f"<h1 id=there>{LONG}")
    judged, server = ask_paths({"/a": redirect(301, "/b"), "/b": page}, fragment=fragment)
    assert (judged.target, judged.anchor) == (server.url(f"/b{fragment}"), anchor)
