"""Whole runs of `bindery links --external` against a web of our own: what they print, what they
remember, what they write, and what is left of them when they are ended."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from bindery.check.baseline_use import sift_listed
from bindery.check.inspect import inspect_book
from bindery.cli.commands.links_external import Web, Wishes, ask_web, check_web
from bindery.cli.console import Format
from bindery.core.config import load_config
from bindery.core.model import ConfigError
from bindery.core.repository import Tree
from bindery.web.answers import Answer as Verdict
from bindery.web.manners import Manners
from bindery.web.memory import format_memory, open_memory, parse_memory, read_memory
from faulty_server import PROXY_VARIABLES, Answer, FaultyServer, allow_loopback, redirect, serve
from needs import need

if TYPE_CHECKING:
    from conftest import Runner

HASTY = Manners(delay=0.0, back_off=0.01, limit=30.0, patience=2.0)
WEB = Web(HASTY, allow_loopback)
LONG = "words of a page that is written by hand and no script " * 20
BookMaker = Callable[..., Path]

RUN = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[2])
from bindery.cli.commands.links_external import Web, Wishes, ask_web
from bindery.check.inspect import inspect_book
from bindery.web.manners import Manners
from faulty_server import allow_loopback
web = Web(Manners(delay=float(sys.argv[3]), back_off=0.01, limit=300.0), allow_loopback)
sys.exit(ask_web(inspect_book(Path(sys.argv[1])), Wishes(), web))
"""


@pytest.fixture(autouse=True)
def without_proxies(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is on this machine is not reached through a proxy."""
    for name in PROXY_VARIABLES:
        monkeypatch.delenv(name, raising=False)


def run(root: Path, wishes: Wishes | None = None, web: Web = WEB) -> int:
    return ask_web(inspect_book(root), wishes or Wishes(quiet=True), web)


def recall(root: Path) -> Mapping[str, Verdict]:
    return read_memory(Tree(root), load_config(root, ()))


def pages(server: FaultyServer) -> list[str]:
    """The paths that were asked for, without the rules for robots."""
    return [request.path for request in server.requests if request.path != "/robots.txt"]


def git(root: Path, *arguments: str) -> None:
    who = ("-c", "user.name=A", "-c", "user.email=a@b.c", "-c", "commit.gpgsign=false")
    need("git")
    subprocess.run(["git", *who, *arguments], cwd=root, check=True, capture_output=True)


# --- what is printed ---


def test_a_run_tells_what_it_found(
    make_book: BookMaker, capsys: pytest.CaptureFixture[str]
) -> None:
    """Verdicts come as they are known; findings stand at the end, with place and advice."""
    with serve("127.0.0.1") as server:
        at = f"http://127.0.0.1:{server.port}"
        server.paths |= {
            "/live": Answer(body=f"<h1 id=installing>{LONG}"),
            "/old": redirect(301, "/live"),
            "/wall": Answer(403),
        }
        text = f"""# Links

See [this]({at}/live) and [that]({at}/old),
and [another][gone] on {at}/wall.
[A place]({at}/live#install), [an example](http://localhost/), not `/code`.

<{at}/lost)>

[gone]: {at}/gone
"""
        status = run(make_book({"a.md": text}), Wishes())
        out, err = (text.replace(str(server.port), "PORT_") for text in capsys.readouterr())
        assert status == 1
        assert out == EXPECTED
        assert err == PROGRESS
        assert sorted(set(pages(server))) == ["/gone", "/live", "/lost)", "/old", "/wall"]


EXPECTED = """\
a.md:3:52: warning[web-moved]: 'http://127.0.0.1:PORT_/old' has moved to 'http://127.0.0.1:PORT_/live'
  |
3 | See [this](http://127.0.0.1:PORT_/live) and [that](http://127.0.0.1:PORT_/old),
  |                                                    ^^^^^^^^^^^^^^^^^^^^^^^^^^
  = help: `bindery links --external --fix` writes it

a.md:5:11: warning[web-anchor]: the page has no anchor '#install'
  |
5 | [A place](http://127.0.0.1:PORT_/live#install), [an example](http://localhost/), not `/code`.
  |           ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  = help: did you mean '#installing'?

a.md:7:2: error[web-dead]: 'http://127.0.0.1:PORT_/lost)' is dead: answers 404
  |
7 | <http://127.0.0.1:PORT_/lost)>
  |  ^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  = help: did you mean 'http://127.0.0.1:PORT_/lost'? the bracket at the end is part of the address

a.md:9:9: error[web-dead]: 'http://127.0.0.1:PORT_/gone' is dead: answers 404
  |
9 | [gone]: http://127.0.0.1:PORT_/gone
  |         ^^^^^^^^^^^^^^^^^^^^^^^^^^^
  = help: correct it or take it out; with --archive a copy in the Wayback Machine is looked for

asked 6 links on 1 host: 2 live, 1 moved, 2 dead, 1 gated, 1 anchor missing; left out: 1 private host
"""  # noqa: E501 - a report is not wrapped
PROGRESS = """\
asking 6 links on 1 host; the longest queue is that of 127.0.0.1:PORT_: 5 pages, 0 s at least
1/6 live        http://127.0.0.1:PORT_/live
2/6 live        http://127.0.0.1:PORT_/live#install (the page has no such anchor)
3/6 moved       http://127.0.0.1:PORT_/old -> http://127.0.0.1:PORT_/live
4/6 gated       http://127.0.0.1:PORT_/wall (answers 403: it does not answer programs)
5/6 dead        http://127.0.0.1:PORT_/lost) (answers 404)
6/6 dead        http://127.0.0.1:PORT_/gone (answers 404)
"""


def test_findings_can_be_excused_and_weighed_otherwise(
    make_book: BookMaker, capsys: pytest.CaptureFixture[str]
) -> None:
    """An excuse beside the link silences one finding, as it does for other rules."""
    with serve() as server:
        text = f"# A\n\n<!-- bindery: allow web-dead because it shows how -->\n{server.url('/a')}\n"
        assert run(make_book({"a.md": text})) == 0
        assert "1 dead" in capsys.readouterr().out


def test_findings_come_as_json_too(
    make_book: BookMaker, capsys: pytest.CaptureFixture[str]
) -> None:
    """Other programs read the same findings."""
    with serve() as server:
        root = make_book({"a.md": f"# A\n\n<{server.url('/a')}>\n"})
        assert run(root, Wishes(output=Format.JSON, quiet=True)) == 1
        (finding,) = json.loads(capsys.readouterr().out)
        assert (finding["rule"], finding["line"], finding["severity"]) == ("web-dead", 3, "error")


def test_a_machine_without_a_web_is_no_success(
    make_book: BookMaker, capsys: pytest.CaptureFixture[str]
) -> None:
    """Where nothing answers at all, a run does not end as if all were well."""
    root = make_book({"a.md": "# A\n\n<http://one.invalid/> <http://two.invalid/>\n"})
    assert run(root) == 1
    out, err = capsys.readouterr()
    assert "2 unreachable" in out
    assert "is this machine on the web?" in err


@pytest.mark.parametrize("delay", [0.0, 0.99, -1.0, float("nan"), float("inf")])
def test_nobody_can_ask_more_hastily(make_book: BookMaker, delay: float) -> None:
    """The delay can be raised and not lowered."""
    inspection = inspect_book(make_book({"a.md": "# A\n"}))
    with pytest.raises(ConfigError, match="--delay cannot be"):
        check_web(inspection, delay=delay)


def test_without_links_nothing_is_left_behind(
    make_book: BookMaker, capsys: pytest.CaptureFixture[str]
) -> None:
    """A book without links to the web gets no memory of them."""
    root = make_book({"a.md": "# A\n\n<http://localhost/>\n"})
    assert check_web(inspect_book(root)) == 0
    assert not (root / "links.jsonl").exists()
    assert capsys.readouterr().out == (
        "asked 0 links on 0 hosts: nothing to tell; left out: 1 private host\n"
    )


def test_addresses_in_data_are_asked_too(
    make_book: BookMaker, capsys: pytest.CaptureFixture[str]
) -> None:
    """The source of a figure is a link like others, and its place is that of its cell."""
    with serve() as server:
        source = server.url("/sheet")
        data = f"name,memory,source,date,class\nA,80,{source},2026-11-20,vendor\n"
        schema = """title: T
columns:
  name: {type: text, description: n}
  memory: {type: number, unit: GB, description: m}
  source: {type: url, description: s}
  date: {type: date, description: d}
  class: {type: text, description: c}
"""
        root = make_book({"a.md": "# A\n", "data/t.csv": data, "data/t.yaml": schema})
        assert run(root) == 1
        assert "data/t.csv:2:6: error[web-dead]" in capsys.readouterr().out


# --- what is remembered ---


def test_what_is_known_is_not_asked_again(
    make_book: BookMaker, capsys: pytest.CaptureFixture[str]
) -> None:
    """A second run asks nothing, and tells the same."""
    with serve() as server:
        server.paths |= {"/a": Answer(), "/b": redirect(301, "/a")}
        urls = [server.url(path) for path in ("/a", "/b", "/c")]
        root = make_book({"a.md": "# A\n\n" + "\n".join(f"<{url}>" for url in urls)})
        assert run(root) == 1
        first = capsys.readouterr().out.split("\n\n")
        count = len(server.requests)
        assert run(root) == 1
        second = capsys.readouterr().out.split("\n\n")
        assert len(server.requests) == count
        assert second[:-1] == first[:-1]
        assert second[-1].startswith("asked 0 links on 0 hosts, 3 known from before: 1 live")
        lines = (root / "links.jsonl").read_text("utf-8").splitlines()
        assert [json.loads(line)["url"] for line in lines] == sorted(urls)


@pytest.mark.parametrize(
    ("verdict", "days", "asked"),
    [
        ("live", 29, False),
        ("live", 31, True),
        ("moved", 29, False),
        ("gated", 29, False),
        ("dead", 0.5, False),
        ("dead", 2, True),
        ("throttled", 0, True),
        ("unreachable", 0, True),
    ],
)
def test_answers_count_for_their_shelf_life(
    make_book: BookMaker, verdict: str, days: float, asked: bool
) -> None:
    """Good news counts for a month, bad news for a day, and no answer not at all."""
    with serve() as server:
        server.paths["/a"] = Answer()
        url = server.url("/a")
        checked = datetime.now(UTC) - timedelta(days=days)
        known = Verdict(url, verdict, checked, 200, target="x" if verdict == "moved" else "")  # type: ignore[arg-type]
        root = make_book({"a.md": f"# A\n\n<{url}>\n", "links.jsonl": format_memory([known])})
        run(root)
        assert pages(server) == (["/a"] if asked else [])


def test_what_left_the_book_is_forgotten(make_book: BookMaker) -> None:
    """The memory holds the addresses of the book, and no others."""
    with serve() as server:
        server.paths["/a"] = Answer()
        url = server.url("/a")
        checked = datetime(2026, 11, 1, tzinfo=UTC)
        known = format_memory([Verdict("https://gone.org/", "live", checked, 200)])
        root = make_book({"a.md": f"# A\n\n<{url}>\n", "links.jsonl": known})
        run(root)
        assert list(recall(root)) == [url]


def test_a_broken_line_is_told_and_a_torn_one_is_not(make_book: BookMaker) -> None:
    """What a killed run leaves is no fault; anything else that is no answer has its line named."""
    good = format_memory([Verdict("https://a.org/", "live", datetime(2026, 11, 1, tzinfo=UTC))])
    assert list(parse_memory("links.jsonl", f'{good}{{"url": "https://b'.encode())) == [
        "https://a.org/"
    ]
    root = make_book({"a.md": "# A\n", "links.jsonl": f"{good}<<<<<<< HEAD\n"})
    with pytest.raises(ConfigError) as stop:
        run(root)
    (finding,) = stop.value.findings
    assert (finding.span.path, finding.span.line) == ("links.jsonl", 2)
    for wrong in ("[]", "1", "{}", '{"url": 1, "verdict": "live", "checked": "2026-11-01"}'):
        with pytest.raises(ConfigError):
            parse_memory("links.jsonl", f"{wrong}\n".encode())


def test_two_runs_do_not_meet(make_book: BookMaker) -> None:
    """While one run writes the memory, another one is refused."""
    root = make_book({"a.md": "# A\n\n<http://127.0.0.1/>\n"})
    with (
        open_memory(root / "links.jsonl", "links.jsonl"),
        pytest.raises(ConfigError, match="another run"),
    ):
        run(root)


@pytest.mark.parametrize("kill", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_a_run_that_is_ended_goes_on_where_it_was(
    make_book: BookMaker, child_environment: dict[str, str], kill: signal.Signals
) -> None:
    """What was known when a run was ended is not asked a second time."""
    hosts = [f"127.0.2.{n}" for n in range(1, 5)]
    with serve(*hosts) as server:
        here = {f"/{n}": Answer(body="<p>here") for n in range(15)}
        # The run cannot come to its end before it is ended.
        server.paths |= here | {f"/{n}": Answer(fault="silent") for n in range(5, 15)}
        urls = [server.url(f"/{n}", host) for n in range(15) for host in hosts]
        root = make_book({"a.md": "# A\n\n" + "\n".join(f"<{url}>" for url in urls)})
        memory = root / "links.jsonl"
        command = [sys.executable, "-c", RUN, str(root), str(Path(__file__).parents[1]), "0.0"]
        process = subprocess.Popen(
            command, env=child_environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        until = time.monotonic() + 60
        while not memory.exists() or memory.read_bytes().count(b"\n") < 20:
            assert time.monotonic() < until
            assert process.poll() is None, process.communicate()
            time.sleep(0.02)
        process.send_signal(kill)
        _, err = process.communicate(timeout=60)
        server.paths |= here
        assert process.returncode == (130 if kill == signal.SIGINT else -kill), err
        known = set(parse_memory("links.jsonl", memory.read_bytes()))
        assert 20 <= len(known) < len(urls)
        before = len(server.requests)
        assert run(root) == 0
        again = {server.url(r.path, r.host) for r in server.requests[before:]}
        assert not known & again
        assert known | again >= set(urls)
        assert set(recall(root)) == set(urls)
        # Of each host one request at most was under way when the run was ended.
        assert len(pages(server)) <= len(urls) + len(hosts)


# --- what is mended ---


def test_what_has_moved_is_mended(make_book: BookMaker, capsys: pytest.CaptureFixture[str]) -> None:
    """New addresses are written in the place of links, and nowhere else."""
    with serve() as server:
        server.paths |= {
            "/a": redirect(301, "/new"),
            "/a/b": redirect(301, "/new_(1)?x=1&y=2"),
            "/new": Answer(body=f"<h1 id=there>{LONG}"),
            "/new_(1)?x=1&y=2": Answer(),
        }
        a, ab = server.url("/a"), server.url("/a/b")
        text = f"""\ufeff# A\r
\r
[one]({a}) [two](<{ab}> "title") [{a}]({a}#there) [gone]({a}#nowhere)\r
<a href="{ab}">html</a> and {a} and `{a}` and [by label][l], [l].\r
| {a} | {ab} |\r
|---|---|\r
\r
[l]: {a}\r
"""
        root = make_book({"a.md": text})
        assert run(root, Wishes(fix=True, dry_run=True, quiet=True)) == 1
        assert (root / "a.md").read_bytes() == text.encode()
        assert f"-[l]: {a}\r\n+[l]: {server.url('/new')}\r\n" in capsys.readouterr().out
        assert run(root, Wishes(fix=True, quiet=True)) == 1  # one anchor is not there
        new, other = server.url("/new"), server.url("/new_(1)?x=1&y=2")
        html = other.replace("&", "&amp;")
        expected = f"""\ufeff# A\r
\r
[one]({new}) [two](<{other}> "title") [{a}]({new}#there) [gone]({a}#nowhere)\r
<a href="{html}">html</a> and {new} and `{a}` and [by label][l], [l].\r
| {new} | {other} |\r
|---|---|\r
\r
[l]: {new}\r
"""
        assert (root / "a.md").read_bytes().decode() == expected
        count = len(server.requests)
        assert run(root) == 1
        assert len(server.requests) == count, "new addresses are known to be alive"


def test_an_old_answer_is_verified_before_it_is_written(make_book: BookMaker) -> None:
    """A new address that has died since it was found is not written."""
    with serve() as server:
        server.paths |= {"/a": redirect(301, "/b"), "/b": [Answer(), Answer(404)]}
        text = f"# A\n\n<{server.url('/a')}>\n"
        root = make_book({"a.md": text})
        assert run(root) == 1
        assert run(root, Wishes(fix=True, quiet=True)) == 1
        assert (root / "a.md").read_text("utf-8") == text
        server.paths["/b"] = Answer()
        assert run(root, Wishes(fix=True, quiet=True)) == 0
        assert server.url("/b") in (root / "a.md").read_text("utf-8")


def test_a_chapter_that_changed_meanwhile_stays(
    make_book: BookMaker, capsys: pytest.CaptureFixture[str]
) -> None:
    """What an author writes while the web is asked is not written over."""
    with serve() as server:
        server.paths |= {"/a": redirect(301, "/b"), "/b": Answer()}
        root = make_book({"a.md": f"# A\n\n<{server.url('/a')}>\n"})
        inspection = inspect_book(root)
        changed = f"# A\n\nNew words.\n\n<{server.url('/a')}>\n"
        (root / "a.md").write_text(changed, "utf-8")
        assert ask_web(inspection, Wishes(fix=True, quiet=True), WEB) == 1
        assert (root / "a.md").read_text("utf-8") == changed
        assert "'a.md' has changed meanwhile" in capsys.readouterr().out


# --- accepted findings, and changes that were not finished ---

LISTED = "baseline: accepted.jsonl\n"


def test_accepted_findings_follow_new_addresses(
    make_book: BookMaker, capsys: pytest.CaptureFixture[str]
) -> None:
    """What was accepted beside an old address is accepted beside the new one."""
    with serve() as server:
        server.paths |= {"/a": redirect(301, "/b"), "/b": Answer()}
        line = f"[gone](gone.md) <{server.url('/a')}>"
        row = {"path": "a.md", "rule": "dead-link", "text": line, "count": 1}
        files = {"a.md": f"# A\n\n{line}\n", "accepted.jsonl": f"{json.dumps(row)}\n"}
        root = make_book(files, extra=LISTED)
        assert sift_listed(inspect_book(root)).fresh == ()
        assert run(root, Wishes(fix=True)) == 0
        assert "\naccepted.jsonl: the accepted findings follow\nwrote " in capsys.readouterr().err
        sifted = sift_listed(inspect_book(root))
        assert (sifted.fresh, sifted.gone) == ((), ())
        assert [finding.rule for finding in sifted.accepted] == ["dead-link"]
        assert server.url("/b") in (root / "accepted.jsonl").read_text("utf-8")


def test_a_broken_list_is_told_before_the_web_is_asked(make_book: BookMaker) -> None:
    """Nobody waits for the web to learn that the list of accepted findings cannot be read."""
    with serve() as server:
        files = {"a.md": f"# A\n\n<{server.url('/a')}>\n", "accepted.jsonl": "<<<<<<< HEAD\n"}
        with pytest.raises(ConfigError, match="this line is no accepted finding"):
            run(make_book(files, extra=LISTED))
        assert server.requests == []


def test_a_broken_list_is_told_before_outputs_are_looked_for(
    make_book: BookMaker, run_bindery: Runner
) -> None:
    """The second opinion on outputs reads the list first as well."""
    root = make_book({"a.md": "# A\n", "accepted.jsonl": "<<<<<<< HEAD\n"}, extra=LISTED)
    ended = run_bindery("links", folder=root)
    assert ended.status == 2
    assert "accepted.jsonl:1:1: error[config]: this line is no accepted finding" in ended.stderr


# --- which links, and copies of them ---


def test_only_new_links_are_asked(make_book: BookMaker) -> None:
    """With a revision only the links on lines that are new since then are asked."""
    with serve() as server:
        server.paths |= {f"/{n}": Answer() for n in range(5)}
        root = make_book({"a.md": f"# A\n\n<{server.url('/0')}>\n"})
        git(root, "init", "-q")
        git(root, "add", ".")
        git(root, "commit", "-qm", "first")
        chapter = root / "a.md"
        chapter.write_text(f"{chapter.read_text('utf-8')}\n<{server.url('/1')}>\n", "utf-8")
        git(root, "commit", "-qam", "second")
        assert run(root, Wishes(since="HEAD~1", quiet=True)) == 0
        assert pages(server) == ["/1"]
        chapter.write_text(f"{chapter.read_text('utf-8')}\n<{server.url('/2')}>\n", "utf-8")
        assert run(root, Wishes(since="HEAD", quiet=True)) == 0
        assert pages(server) == ["/1", "/2"]
        with pytest.raises(ConfigError, match="git knows no revision 'nowhere'"):
            run(root, Wishes(since="nowhere"))


def test_copies_of_dead_pages_are_looked_for_when_asked(
    make_book: BookMaker, capsys: pytest.CaptureFixture[str]
) -> None:
    """The archive is asked with --archive and not otherwise, and its answer is remembered."""
    copy = "https://web.archive.org/web/2024/x"
    body = {"archived_snapshots": {"closest": {"available": True, "status": "200", "url": copy}}}
    with serve("127.0.0.1", "127.0.0.2") as server:
        url = server.url("/a")
        question = f"/w?url={url.replace(':', '%3A').replace('/', '%2F')}"
        server.paths[question] = Answer(body=json.dumps(body), kind="application/json")
        root = make_book({"a.md": f"# A\n\n<{url}>\n"})
        web = replace(WEB, wayback=server.url("/w", "127.0.0.2"))
        assert run(root, web=web) == 1
        assert server.count(question) == 0
        assert run(root, Wishes(archive=True, quiet=True), web) == 1
        assert f"there is an archived copy: {copy}" in capsys.readouterr().out
        assert recall(root)[url].archived == copy


def test_a_check_does_not_wait_for_what_asks_the_web(child_environment: dict[str, str]) -> None:
    """Nothing of the web is loaded by `bindery check`."""
    code = (
        "import sys, bindery.cli.main, bindery.check.inspect; "
        "print([name for name in sys.modules if name.startswith(('bindery.web', 'httpx'))])"
    )
    command = [sys.executable, "-c", code]
    ended = subprocess.run(
        command, env=child_environment, capture_output=True, text=True, check=True
    )
    assert ended.stdout == "[]\n"
