"""Whole runs of `bindery links --external` against a web on this machine: what they print, remember
and write, and what is left of them when they are killed."""

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from bindery.check.baseline_use import sift_listed
from bindery.check.inspect import inspect_book
from bindery.cli.commands.links_external import Web, Wishes, ask_web
from bindery.core.model import ConfigError
from bindery.web.answers import Answer as Verdict
from bindery.web.memory import parse_memory
from faulty_server import HASTY, LONG, Answer, FaultyServer, allow_loopback, redirect, serve
from fixture_types import Runner
from msgspec.structs import replace
from needs import git

WEB = Web(HASTY, allow_loopback)
BookMaker = Callable[..., Path]

RUN = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[2])
from bindery.cli.commands.links_external import Web, Wishes, ask_web
from bindery.check.inspect import inspect_book
from faulty_server import HASTY, allow_loopback
web = Web(HASTY, allow_loopback)
sys.exit(ask_web(inspect_book(Path(sys.argv[1])), Wishes(), web))
"""


def run(root: Path, wishes: Wishes | None = None, web: Web = WEB) -> int:
    return ask_web(inspect_book(root), wishes or Wishes(quiet=True), web)


def recall(root: Path) -> dict[str, Verdict]:
    return parse_memory("links.jsonl", (root / "links.jsonl").read_bytes())


def pages(server: FaultyServer) -> list[str]:
    """The paths that were asked for, without robots.txt."""
    return [request.path for request in server.requests if request.path != "/robots.txt"]


def test_a_run_reports_what_it_found(
    make_book: BookMaker, capsys: pytest.CaptureFixture[str]
) -> None:
    """Verdicts are printed as they arrive, and findings at the end, with place and advice. An
    excuse silences a finding; a page is asked once for all its anchors."""
    with serve() as server:
        server.paths |= {
            "/live": Answer(body=f"<h1 id=installing>{LONG}"),
            "/old": redirect(301, "/new"),
            "/new": Answer(),
            "/wall": Answer(403),
        }
        text = """# Links

See [this](@/live) and [that](@/old), and [another][gone] on @/wall.
[A place](@/live#install), [an example](http://localhost/), not `/code`.

<@/lost)>

<!-- bindery: allow web-dead because it shows how -->
[Excused](@/excused)

[gone]: @/gone
"""
        at = server.url("")
        status = run(make_book({"a.md": text.replace("@", at)}), Wishes())
        out, err = (text.replace(at, "@") for text in capsys.readouterr())
        found = [line.strip() for line in out.splitlines() if line and " |" not in line[:5]]
        assert status == 1
        assert found == EXPECTED.splitlines()
        assert err.replace(f"127.0.0.1:{server.port}", "HOST") == PROGRESS
        asked = ["/excused", "/gone", "/live", "/lost)", "/new", "/old", "/wall"]
        assert sorted(pages(server)) == asked


EXPECTED = """\
a.md:3:52: warning[web-moved]: '@/old' has moved to '@/new'
= help: `bindery links --external --fix` writes the new address
a.md:4:11: warning[web-anchor]: the page has no anchor '#install'
= help: did you mean '#installing'?
a.md:6:2: error[web-dead]: '@/lost)' is dead: returns status 404
= help: did you mean '@/lost'? the closing bracket is part of the address
a.md:11:9: error[web-dead]: '@/gone' is dead: returns status 404
= help: correct or remove it; --archive looks for a copy in the Wayback Machine
checked 7 links on 1 host: 2 live, 1 moved, 3 dead, 1 gated, 1 anchor missing; skipped: 1 private host
"""  # noqa: E501 - a report is not wrapped
PROGRESS = """\
checking 7 links on 1 host; the longest queue is HOST: 6 pages, at least 0 s
1/7 live        @/live
2/7 live        @/live#install (the page has no such anchor)
3/7 moved       @/old -> @/new
4/7 gated       @/wall (returns status 403: it rejects automated requests)
5/7 dead        @/lost) (returns status 404)
6/7 dead        @/excused (returns status 404)
7/7 dead        @/gone (returns status 404)
"""


def test_an_offline_machine_is_not_a_success(
    make_book: BookMaker, capsys: pytest.CaptureFixture[str]
) -> None:
    """If nothing answers at all, the run fails."""
    root = make_book({"a.md": "# A\n\n<http://one.invalid/> <http://two.invalid/>\n"})
    assert run(root) == 1
    out, err = capsys.readouterr()
    assert "2 unreachable" in out
    assert "is this machine online?" in err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--delay", "0.5"], "0.5 is not in the range"),
        (["--dry-run"], "--dry-run shows what --fix would change"),
        (["--out", "dist"], "--out is for the built outputs"),
    ],
)
def test_options_that_cannot_be_followed_are_refused(
    make_book: BookMaker, run_bindery: Runner, options: list[str], message: str
) -> None:
    """The delay can be raised and not lowered; options that have no effect are refused."""
    ended = run_bindery("links", "--external", *options, folder=make_book({"a.md": "# A\n"}))
    assert ended.status == 2
    assert message in ended.stderr


def test_addresses_in_data_are_asked_too(
    make_book: BookMaker, capsys: pytest.CaptureFixture[str]
) -> None:
    """The source of a number is a link too, at the place of its cell."""
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


def test_what_is_known_is_not_asked_again(
    make_book: BookMaker, capsys: pytest.CaptureFixture[str]
) -> None:
    """A second run asks nothing, and reports the same."""
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
        assert second[-1].startswith(
            "checked 0 links on 0 hosts, 3 known from earlier runs: 1 live"
        )
        lines = (root / "links.jsonl").read_text("utf-8").splitlines()
        assert [json.loads(line)["url"] for line in lines] == sorted(urls)


@pytest.mark.parametrize("kill", [signal.SIGKILL, signal.SIGINT])
def test_a_killed_run_goes_on_where_it_was(
    make_book: BookMaker, child_environment: dict[str, str], kill: signal.Signals
) -> None:
    """What was known when the run was killed is not asked a second time."""
    hosts = [f"127.0.2.{n}" for n in range(1, 5)]
    with serve(*hosts) as server:
        here = {f"/{n}": Answer(body="<p>here") for n in range(15)}
        # The run cannot end before it is killed.
        server.paths |= here | {f"/{n}": Answer(fault="silent") for n in range(5, 15)}
        urls = [server.url(f"/{n}", host) for n in range(15) for host in hosts]
        root = make_book({"a.md": "# A\n\n" + "\n".join(f"<{url}>" for url in urls)})
        memory = root / "links.jsonl"
        command = [sys.executable, "-c", RUN, str(root), str(Path(__file__).parents[1])]
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
        # At most one request per host was under way.
        assert len(pages(server)) <= len(urls) + len(hosts)


def test_moved_links_are_written(make_book: BookMaker, capsys: pytest.CaptureFixture[str]) -> None:
    """New addresses are written in place of links, and nowhere else."""
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


def test_a_chapter_that_has_changed_stays(
    make_book: BookMaker, capsys: pytest.CaptureFixture[str]
) -> None:
    """A change that an author makes while the web is asked is not overwritten, nor is a read-only
    chapter; the others are."""
    with serve() as server:
        server.paths |= {"/a": redirect(301, "/b"), "/b": Answer()}
        files = {f"{name}.md": f"# A\n\n<{server.url('/a')}>\n" for name in "abc"}
        root = make_book(files)
        (root / "b.md").chmod(0o444)
        inspection = inspect_book(root)
        changed = f"# A\n\nNew words.\n\n<{server.url('/a')}>\n"
        (root / "a.md").write_text(changed, "utf-8")
        assert ask_web(inspection, Wishes(fix=True, quiet=True), WEB) == 1
        assert (root / "a.md").read_text("utf-8") == changed
        assert (root / "b.md").read_text("utf-8") == files["b.md"]
        assert server.url("/b") in (root / "c.md").read_text("utf-8")
        out = capsys.readouterr().out
        assert "'a.md' has changed during the run" in out
        assert "'b.md' is read-only" in out


LISTED = "baseline: accepted.jsonl\n"


def test_accepted_findings_follow_new_addresses(
    make_book: BookMaker, capsys: pytest.CaptureFixture[str]
) -> None:
    """A finding that was accepted on a line with an old address is accepted with the new one."""
    with serve() as server:
        server.paths |= {"/a": redirect(301, "/b"), "/b": Answer()}
        line = f"[gone](gone.md) <{server.url('/a')}>"
        row = {"path": "a.md", "rule": "dead-link", "text": line, "count": 1}
        files = {"a.md": f"# A\n\n{line}\n", "accepted.jsonl": f"{json.dumps(row)}\n"}
        root = make_book(files, extra=LISTED)
        assert sift_listed(inspect_book(root)).fresh == ()
        assert run(root, Wishes(fix=True)) == 0
        assert "\naccepted.jsonl: updated the accepted findings\nwrote " in capsys.readouterr().err
        sifted = sift_listed(inspect_book(root))
        assert (sifted.fresh, sifted.gone) == ((), ())
        assert [finding.rule for finding in sifted.accepted] == ["dead-link"]
        assert server.url("/b") in (root / "accepted.jsonl").read_text("utf-8")


def test_only_new_links_are_asked(make_book: BookMaker) -> None:
    """With a revision, only the links on lines added since then are asked."""
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


def test_copies_of_dead_pages_are_looked_for_on_request(
    make_book: BookMaker, capsys: pytest.CaptureFixture[str]
) -> None:
    """The archive is asked with --archive only, and its answer is remembered."""
    copy = "web.archive.org/web/2024/x"
    body = {
        "archived_snapshots": {
            "closest": {"available": True, "status": "200", "url": f"http://{copy}"}
        }
    }
    with serve("127.0.0.1", "127.0.0.2") as server:
        url = server.url("/a")
        question = f"/w?url={url.replace(':', '%3A').replace('/', '%2F')}"
        server.paths[question] = Answer(body=json.dumps(body), kind="application/json")
        root = make_book({"a.md": f"# A\n\n<{url}>\n"})
        web = replace(WEB, wayback=server.url("/w", "127.0.0.2"))
        assert run(root, web=web) == 1
        assert server.count(question) == 0
        assert run(root, Wishes(archive=True, quiet=True), web) == 1
        assert f"there is an archived copy: https://{copy}" in capsys.readouterr().out
        assert recall(root)[url].archived == f"https://{copy}"
