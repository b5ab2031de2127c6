"""fs_watchdog: disks that really fill, alerts that really arrive, once for each change."""

from __future__ import annotations

import contextlib
import email
import email.policy
import json
import math
import os
import re
import signal
import ssl
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from needs import need
from slurm_cluster import open_cluster

SCRIPTS = Path(__file__).resolve().parent.parent
TOOL = "training/fs_watchdog.py"
PATH = SCRIPTS / TOOL
DAY = 86400.0


@pytest.fixture(scope="module")
def watchdog(load_tool: Callable[[str], ModuleType]) -> ModuleType:
    """The tool as a module."""
    return load_tool(TOOL)


# --- a mail server, a web server, a disk ---


class MailBox:
    """What a real mail server received; `answer` refuses what comes."""

    def __init__(self) -> None:
        self.mails: list[Any] = []
        self.answer = "250 OK"
        self.was_encrypted: list[bool] = []
        self.port = 0

    async def handle_DATA(self, _server: Any, session: Any, envelope: Any) -> str:  # noqa: N802
        if self.answer.startswith("250"):
            mail = email.message_from_bytes(envelope.content, policy=email.policy.default)
            self.mails.append(mail)
            self.was_encrypted.append(session.ssl is not None)
        return self.answer

    def subjects(self) -> list[str]:
        return [str(mail["Subject"]) for mail in self.mails]


@contextlib.contextmanager
def serve_mail(box: MailBox, **options: Any) -> Iterator[MailBox]:
    """A real SMTP server on a free port of this machine."""
    controller_class = pytest.importorskip("aiosmtpd.controller").Controller
    controller = controller_class(box, hostname="127.0.0.1", port=box.port, **options)
    if box.port == 0:
        # The controller asks itself whether it is up, and has to know where.
        import socket

        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            box.port = controller.port = free.getsockname()[1]
    controller.start()
    try:
        yield box
    finally:
        controller.stop()


@pytest.fixture
def mailbox() -> Iterator[MailBox]:
    with serve_mail(MailBox()) as box:
        yield box


class Hook:
    """A real web server: `mode` says how it answers."""

    def __init__(self) -> None:
        self.posts: list[dict[str, Any]] = []
        self.mode = "200"
        hook = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                if hook.mode == "slow":
                    # A byte now and then: no single wait is long, the whole never ends.
                    with contextlib.suppress(OSError):
                        for _ in range(300):
                            self.wfile.write(b"H")
                            self.wfile.flush()
                            time.sleep(0.1)
                    return
                self.send_response(int(hook.mode))
                if hook.mode == "302":
                    self.send_header("Location", "/elsewhere")
                self.end_headers()
                if hook.mode == "200":
                    hook.posts.append(json.loads(body))

            def do_GET(self) -> None:
                self.send_response(200)
                self.end_headers()

            def log_message(self, *_: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.server.server_port}/secret-token"
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.05,))
        self.thread.start()

    def close(self) -> None:
        self.server.shutdown()
        self.thread.join(timeout=10)
        self.server.socket.close()


@pytest.fixture
def hook() -> Iterator[Hook]:
    one = Hook()
    yield one
    one.close()


@pytest.fixture
def disk(tmp_path: Path, can_mount: None) -> Iterator[Path]:
    """A file system of 4 MiB and 64 inodes."""
    point = tmp_path / "disk"
    point.mkdir()
    options = ["-t", "tmpfs", "-o", "size=4m,nr_inodes=64", "tmpfs", str(point)]
    subprocess.run(["mount", *options], timeout=30, check=True)
    try:
        yield point
    finally:
        subprocess.run(["umount", "--lazy", str(point)], check=True, timeout=30)


def run(config: Path, *arguments: str, timeout: float = 60) -> subprocess.CompletedProcess[str]:
    """A run of the tool, as cron would have it: a process of its own each time."""
    done = subprocess.run(
        [sys.executable, str(PATH), str(config), *arguments],
        capture_output=True,
        text=True,
        timeout=timeout,
        env={**os.environ, "no_proxy": "*", "NO_PROXY": "*"},
        check=False,
    )
    assert "Traceback" not in done.stderr, done.stderr
    return done


def find_alerts(done: subprocess.CompletedProcess[str]) -> list[str]:
    return [line for line in done.stdout.splitlines() if line.startswith("ALERT ")]


def write_config(folder: Path, text: str) -> Path:
    path = folder / "watch.toml"
    path.write_text(text)
    return path


def make_ways(mailbox: MailBox, hook: Hook) -> str:
    return f"""
[mail]
to = ["ops@example.org", "me@example.org"]
from = "dog@example.org"
server = "127.0.0.1:{mailbox.port}"
timeout = "10s"
[webhook]
url = "{hook.url}"
timeout = "1s"
"""


# --- what is told ---


def test_a_disk_that_fills_with_bytes(
    tmp_path: Path, disk: Path, mailbox: MailBox, hook: Hook
) -> None:
    """Each change is told once by each way: beyond the limit, full, well again; a look that finds
    nothing new tells nothing, though each is a process of its own."""
    path = f'[[path]]\npath = "{disk}"\nname = "ckpt"\nbytes = "50%"\ninodes = "90%"\n'
    config = write_config(tmp_path, f'title = "x"\n{make_ways(mailbox, hook)}{path}')
    assert run(config).returncode == 0
    assert mailbox.mails == []
    (disk / "a").write_bytes(bytes(3 << 20))
    for _ in range(2):
        done = run(config)
        assert done.returncode == 1, done.stderr
        assert mailbox.subjects() == ["[x] ckpt bytes over"]
    (mail,) = mailbox.mails
    assert mail["To"] == "ops@example.org, me@example.org"
    assert "ckpt bytes: over its limit: 3.15 MB used of 4.19 MB (75.0 %)" in mail.get_content()
    (post,) = hook.posts
    assert post["alerts"] == [{"about": "ckpt bytes", "state": "over"}]
    assert "ckpt bytes: over its limit" in post["text"]
    with pytest.raises(OSError, match="No space left"):
        (disk / "b").write_bytes(bytes(3 << 20))
    for _ in range(2):
        assert run(config).returncode == 1
    (disk / "a").unlink()
    (disk / "b").unlink()
    for _ in range(2):
        assert run(config).returncode == 0
    assert mailbox.subjects() == [f"[x] ckpt bytes {s}" for s in ("over", "full", "ok")]
    assert [p["alerts"][0]["state"] for p in hook.posts] == ["over", "full", "ok"]
    assert sorted(p.name for p in tmp_path.iterdir() if "state" in p.name) == [
        ".watch.state.json.lock",
        "watch.state.json",
    ]


def test_a_disk_that_fills_with_files(tmp_path: Path, disk: Path) -> None:
    """Inodes run out while bytes are free: only inodes are told, up to the real end."""
    text = f'[[path]]\npath = "{disk}"\ninodes = "10 free"\nbytes = "50%"\n'
    config = write_config(tmp_path, text)
    assert find_alerts(run(config)) == []
    for number in range(55):
        (disk / f"f{number}").touch()
    (alert,) = find_alerts(run(config))
    assert "disk inodes: over its limit: 56 used of 64" in alert
    for number in range(55, 63):
        (disk / f"f{number}").touch()
    with pytest.raises(OSError, match="No space left"):
        (disk / "one more").touch()
    (alert,) = find_alerts(run(config))
    assert "disk inodes: FULL: 64 used of 64" in alert
    for file in disk.iterdir():
        file.unlink()
    (alert,) = find_alerts(run(config))
    assert "disk inodes: well again" in alert


def test_a_state_on_the_disk_that_fills(tmp_path: Path, disk: Path) -> None:
    """The alert goes out though it cannot be remembered, and that is said; the old state stays."""
    text = f'state = "{disk}/s.json"\n[[path]]\npath = "{disk}"\nbytes = "50%"\n'
    config = write_config(tmp_path, text)
    assert run(config).returncode == 0
    before = (disk / "s.json").read_text()
    with contextlib.suppress(OSError), (disk / "a").open("wb") as file:
        while True:
            file.write(bytes(4096))
            file.flush()
    done = run(config)
    assert len(find_alerts(done)) == 1
    assert "alerts may come again: No space left" in done.stderr
    assert (disk / "s.json").read_text() == before
    assert [p.name for p in disk.glob(".s.json.*")] == [".s.json.lock"]


def test_what_could_not_be_sent_is_tried_again(
    tmp_path: Path, mailbox: MailBox, hook: Hook
) -> None:
    """A mail server that refuses, or is not there, and a webhook that answers 500 or elsewhere,
    hear of it at the next look; the other one not twice."""
    (tmp_path / "data").mkdir()
    path = f'[[path]]\npath = "{tmp_path}/data"\nmethod = "du"\ninodes = "1 used"\n'
    config = write_config(tmp_path, f"{make_ways(mailbox, hook)}{path}")
    mailbox.answer = "451 greylisted"
    done = run(config)
    assert "problem: mail: not sent, comes again at the next look: the server said 451" in (
        done.stderr
    )
    assert len(hook.posts) == 1
    mailbox.answer = "250 OK"
    assert "problem" not in run(config).stderr
    assert mailbox.subjects() == ["[fs_watchdog] data inodes over"]
    config.write_text(config.read_text().replace('"1 used"', '"9 used"'))
    for mode in ("500", "302"):
        hook.mode = mode
        done = run(config)
        assert f"webhook: not sent, comes again at the next look: the webhook answered {mode}" in (
            done.stderr
        )
        assert "secret-token" not in done.stdout + done.stderr
    hook.mode = "200"
    assert run(config).returncode == 0
    assert len(hook.posts) == len(mailbox.mails) == 2


def test_what_has_passed_is_not_told_late(tmp_path: Path, hook: Hook) -> None:
    """A webhook that was dead from the change on until all was well again hears nothing."""
    (tmp_path / "data").mkdir()
    text = f"""[webhook]\nurl = "{hook.url}"\n[[path]]\npath = "data"\nmethod = "du"
inodes = "2 used"\n"""
    config = write_config(tmp_path, text)
    hook.mode = "500"
    (tmp_path / "data" / "a").touch()
    assert run(config).returncode == 1
    (tmp_path / "data" / "a").unlink()
    hook.mode = "200"
    assert run(config).returncode == 0
    assert hook.posts == []


def test_a_slow_webhook_ends_in_its_time(tmp_path: Path, mailbox: MailBox, hook: Hook) -> None:
    """One that sends a byte now and then is left after its time, and told again later."""
    (tmp_path / "data").mkdir()
    path = f'[[path]]\npath = "{tmp_path}/data"\nmethod = "du"\ninodes = "1 used"\n'
    config = write_config(tmp_path, f"{make_ways(mailbox, hook)}{path}")
    hook.mode = "slow"
    done = run(config)
    assert "webhook: not sent, comes again at the next look: no answer within 1 s" in done.stderr
    assert len(mailbox.mails) == 1
    hook.mode = "200"
    run(config)
    assert (len(mailbox.mails), len(hook.posts)) == (1, 1)


def test_mail_by_starttls_and_login(tmp_path: Path) -> None:
    """Encrypted and with the password of a file; a wrong password, a certificate that nobody
    signed, and a server without STARTTLS are one line each, and nothing is sent openly."""
    need("openssl", "python:aiosmtpd")
    key, certificate = tmp_path / "key.pem", tmp_path / "cert.pem"
    subject = ["-subj", "/CN=mail", "-addext", "subjectAltName=IP:127.0.0.1", "-days", "2"]
    kind = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes"]
    made = [*kind, *subject, "-keyout", str(key), "-out", str(certificate)]
    subprocess.run(made, check=True, capture_output=True, timeout=60)
    smtp = pytest.importorskip("aiosmtpd.smtp")
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate, key)

    def check(_server: Any, _session: Any, _envelope: Any, _how: str, data: Any) -> Any:
        is_right = (data.login, data.password) == (b"dog", b"woof woof")
        return smtp.AuthResult(success=is_right, handled=False)

    login = tmp_path / "login"
    login.write_text("dog\nwoof woof\n")
    login.chmod(0o600)
    (tmp_path / "data").mkdir()

    def configure(port: int, more: str = 'ca_file = "cert.pem"') -> Path:
        return write_config(
            tmp_path,
            f'[mail]\nto = "a@example.org"\nfrom = "b@example.org"\nserver = "127.0.0.1:{port}"\n'
            f'security = "starttls"\nlogin_file = "login"\n{more}\n'
            '[[path]]\npath = "data"\nmethod = "du"\ninodes = "1 used"\n',
        )

    tls = {"tls_context": context, "require_starttls": True}
    with serve_mail(MailBox(), authenticator=check, auth_required=True, **tls) as box:
        assert "CERTIFICATE_VERIFY_FAILED" in run(configure(box.port, "")).stderr
        login.write_text("dog\nmiau\n")
        assert "the server said 535" in run(configure(box.port)).stderr
        login.write_text("dog\nwüf wüf\n")
        assert "user and password have to be ASCII" in run(configure(box.port)).stderr
        login.write_text("dog\nwoof woof\n")
        assert "problem" not in run(configure(box.port)).stderr
        assert box.was_encrypted == [True]
        login.chmod(0o644)
        done = run(configure(box.port))
        assert done.returncode == 2
        assert re.search(r"watch\.toml, line 6: mail\.login_file: .*chmod 600 it", done.stderr)
        login.chmod(0o600)
    (tmp_path / "watch.state.json").unlink()
    with serve_mail(MailBox()) as box:
        done = run(configure(box.port))
        assert "mail: not sent" in done.stderr
        assert "STARTTLS" in done.stderr
        assert box.mails == []


def test_alerts_can_be_tried(tmp_path: Path, mailbox: MailBox, hook: Hook) -> None:
    """--test_alerts sends by all ways, whatever was told, and says what failed."""
    config = write_config(tmp_path, f'{make_ways(mailbox, hook)}[[path]]\npath = "/"\n')
    for _ in range(2):
        done = run(config, "--test_alerts")
        assert done.returncode == 0, done.stderr
    assert (len(mailbox.mails), len(hook.posts)) == (2, 2)
    hook.mode = "500"
    done = run(config, "--test_alerts")
    assert done.returncode == 1
    assert re.search(r"\| webhook +\| +failed \|", done.stdout)
    assert "problem: webhook: not sent: the webhook answered 500" in done.stderr


def test_a_state_that_cannot_be_written_is_told_once(
    tmp_path: Path, mailbox: MailBox, hook: Hook
) -> None:
    """However many alerts go out in a look, one line says that they may come again."""
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "a").write_bytes(b"x" * 9000)
    ways, state = make_ways(mailbox, hook), "s" * 250
    table = '[[path]]\npath = "data"\nmethod = "du"\nbytes = "1KB used"\n'
    # A name that nothing can have beside it: the hidden one that is written first is too long.
    config = write_config(tmp_path, f"state = '{state}'\nstdout = true\n{ways}{table}")
    done = run(config)
    assert done.stderr.count("the state could not be written") == 1, done.stderr
    assert (len(mailbox.mails), len(hook.posts)) == (1, 1)


# --- what is measured ---


def test_du_agrees_with_du(watchdog: ModuleType, tmp_path: Path) -> None:
    """Bytes and inodes are those of the real du: hard links once, holes not at all."""
    need("du")
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / "x").write_bytes(os.urandom(100_000))
    os.link(tmp_path / "a" / "x", tmp_path / "a" / "b" / "y")
    with (tmp_path / "a" / "hole").open("wb") as file:
        file.truncate(50 << 20)
    (tmp_path / "a" / "link").symlink_to("/")
    seen = watchdog.look_by_du(watchdog.WatchedPath("t", str(tmp_path), "du"))
    for key, option in (("bytes", "--block-size=1"), ("inodes", "--inodes")):
        command = ["du", "--summarize", option, str(tmp_path)]
        said = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
        assert seen[key] == [int(said.stdout.split()[0]), None]


def test_du_of_what_it_may_not_read_is_not_ok(
    tmp_path: Path, read_json: Callable[[Path], Any]
) -> None:
    """A tree with a part that cannot be read is `ok in part`, with a note and a caveat; one that is
    beyond its limit already is over; a tree of which nothing can be read is not measured."""
    need("root", "setpriv")
    tmp_path.chmod(0o755)
    for folder in tmp_path.parents:
        if folder.is_relative_to(tempfile.gettempdir()) and folder != Path(tempfile.gettempdir()):
            folder.chmod(folder.stat().st_mode | 0o055)
    data = tmp_path / "data"
    for name in ("open", "shut"):
        (data / name).mkdir(parents=True)
        (data / name / "file").write_bytes(os.urandom(9000))
    (data / "shut").chmod(0o700)
    table = '[[path]]\npath = "{}"\nmethod = "du"\nbytes = "{} used"\npatience = 1\n'
    text = "".join(
        table.replace("patience = 1\n", f'name = "{name}"\n').format(path, limit)
        for name, path, limit in (
            ("part", data, "1MB"), ("over", data, "1KB"), ("shut", data / "shut", "1MB"),
        )
    )  # fmt: skip
    home = tmp_path / "home"
    home.mkdir()
    home.chmod(0o777)
    config = write_config(home, f"patience = 1\n{text}")
    config.chmod(0o644)
    path = home / "out.json"
    words = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", sys.executable, PATH]
    done = subprocess.run(
        [*words, config, "--json", path], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 1, done.stderr
    document = read_json(path)
    states = {
        row["name"]: row["state"] for row in document["results"] if row["quantity"] == "bytes"
    }
    assert states == {"part": "ok in part", "over": "over", "shut": "unknown"}
    message = "part: at least: 1 folders or files could not be read"
    assert f"note: {message}\n" in done.stderr
    assert any("at least: 1 folders" in caveat for caveat in document["caveats"])
    assert "shut bytes: Permission denied" in " ".join(document["caveats"])


def test_statvfs_agrees_with_df(watchdog: ModuleType, tmp_path: Path) -> None:
    """Used and free to users are those of the real df."""
    watched = watchdog.WatchedPath("t", str(tmp_path))
    command = ["df", "--block-size=1", "--output=used,avail,iused,iavail", str(tmp_path)]
    for _ in range(5):  # others write to this disk, too
        before = watchdog.look_by_statvfs(watched)
        said = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
        used, free, *inodes = (int(word) for word in said.stdout.split()[4:] if word != "-")
        if before == watchdog.look_by_statvfs(watched):
            break
    assert before["bytes"] == [used, used + free]
    if before["inodes"]:
        assert before["inodes"] == [inodes[0], sum(inodes)]


QUOTA = """#!/bin/sh
case $(cat "$0.mode") in
  fine) echo "     /home     900*   2000   4000   -   17   0   100   -";;
  over) echo "     /home    3900*   2000   4000   -   17   0   100   -";;
  none) echo "     /home    3900    2000      0   -   17   0     0   -";;
  odd) echo "no quotas for you";;
  fails) echo "lfs: cannot connect" >&2; exit 5;;
  hangs) sleep 600 & echo $! > "$0.pid"; wait;;
esac
"""


def test_quota_by_a_command(tmp_path: Path) -> None:
    """A real command is run and read; one that fails, hangs, or says something else is told after
    the second time, and what it has started is ended."""
    program = tmp_path / "quota"
    program.write_text(QUOTA)
    program.chmod(0o755)
    mode = tmp_path / "quota.mode"
    pattern = r"/home +(?P<bytes>\S+) +\S+ +(?P<bytes_limit>\S+) +\S+ +(?P<inodes>\d+) +\S+ +"
    text = f"""[[path]]\npath = "/home"\nmethod = "quota"\ncommand = "'{program}' -u me"
pattern = '{pattern}(?P<inodes_limit>\\d+)'\nunit = "KiB"\ntimeout = "1s"\n"""
    config = write_config(tmp_path, text)
    mode.write_text("fine")
    done = run(config)
    assert done.returncode == 0, done.stderr
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in done.stdout.splitlines()]
    assert rows[2][:5] == ["home bytes", "quota", "922 kB", "4.1 MB", "22.5"]
    assert rows[3][:5] == ["home inodes", "quota", "17", "100", "17.0"]
    mode.write_text("over")
    assert "home bytes: over its limit: 3.99 MB used of 4.1 MB" in run(config).stdout
    mode.write_text("none")
    assert "well again" in find_alerts(run(config))[0]
    for word, message in (
        ("odd", "the pattern fits nowhere"),
        ("fails", "ended with 5: lfs: cannot connect"),
        ("hangs", "no answer within 1 s"),
    ):
        mode.write_text(word)
        first, second, third = run(config), run(config), run(config)
        assert [len(find_alerts(done)) for done in (first, second, third)] == [0, 2, 0]
        assert message in second.stdout
        mode.write_text("fine")
        assert len(find_alerts(run(config))) == 2
    number = int((tmp_path / "quota.pid").read_text())
    assert (
        not Path(f"/proc/{number}/fd").exists()
        or "Z" in (Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()[0])
    )


def test_a_path_that_goes_and_comes_back(tmp_path: Path) -> None:
    """A path that is not there is told at the second look, and told as well when it is back."""
    config = write_config(tmp_path, f'[[path]]\npath = "{tmp_path}/gone"\nbytes = "100%"\n')
    counts = [len(find_alerts(run(config))) for _ in range(3)]
    assert counts == [0, 1, 0]
    (tmp_path / "gone").mkdir()
    (alert,) = find_alerts(run(config))
    assert "gone bytes: well again" in alert


# --- the state ---


def test_a_broken_state_is_kept_aside(tmp_path: Path) -> None:
    """It begins anew, the old one stays beside it; another program's file is left alone."""
    config = write_config(tmp_path, '[[path]]\npath = "/"\nbytes = "100%"\n')
    state = tmp_path / "watch.state.json"
    entry = '{"state": "ok", "seen": "ok", "since": %s, "count": 1, "told": {}, "samples": []}'
    for text in (
        '{"kind": "state of fs_w',
        '{"kind": "state of fs_watchdog", "entries": [1]}',
        '{"kind": "state of fs_watchdog", "entries": {"/ bytes": ' + entry % "NaN" + "}}",
        '{"kind": "state of fs_watchdog", "entries": {"/ bytes": ' + entry % ("9" * 400) + "}}",
        "[" * 100_000,
    ):
        state.write_text(text)
        done = run(config)
        assert "the state was broken and begins anew" in done.stderr
        assert (tmp_path / "watch.state.json.broken").read_text() == text
        assert "broken" not in run(config).stderr
    state.write_text('{"mine": 1}')
    done = run(config)
    assert done.returncode == 2
    assert "is another file, not the state of fs_watchdog" in done.stderr
    assert state.read_text() == '{"mine": 1}'


@pytest.mark.nightly
def test_it_runs_for_long(tmp_path: Path, read_json: Callable[[Path], Any]) -> None:
    """With --every it looks again and again; with another one beside it, on the same state, each
    change is told once in all; SIGTERM ends it with what it has."""
    (tmp_path / "data").mkdir()
    text = '[[path]]\npath = "data"\nmethod = "du"\ninodes = "1 used"\n'
    config = write_config(tmp_path, text)
    output = tmp_path / "x.json"
    command = [sys.executable, str(PATH), str(config), "--every", "0.01s", "--json", str(output)]
    first = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    try:
        beside = [run(config) for _ in range(3)]
        time.sleep(1.0)
        first.send_signal(signal.SIGTERM)
        out, notes = first.communicate(timeout=20)
    finally:
        first.kill()
    assert first.returncode == 1, notes
    assert out.count("| what ") >= 3
    assert out.count("ALERT") + sum(len(find_alerts(done)) for done in beside) == 1
    assert "stopped by SIGTERM: the results so far" in notes
    assert read_json(output)["complete"] is False


def test_one_state_is_for_one(watchdog: ModuleType, tmp_path: Path) -> None:
    """Where another one works with the state for long, that is said."""
    state = tmp_path / "s.json"
    refused = pytest.raises(watchdog.WrongUse, match="another watchdog works with")
    with watchdog.claim_state(state), refused, watchdog.claim_state(state, 0.2):
        pass
    with watchdog.claim_state(state, 0.0):
        pass


# --- the file ---


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "there is no [[path]] in it, so there is nothing to watch"),
        ('[[path]]\npath = "/"\nbytes = "90%\n', "watch.toml, line 3: "),
        ('[[path]]\npath = "/"\n[[path]]\nname = "x"\n', "line 3: path.path: this is needed"),
        ('[[path]]\npath = "/"\n\nbites = "9%"\n', "line 4: path.bites: there is no such key; do"),
        ('[[path]]\npath = "/"\nbytes = 90\n', "line 3: path.bytes: this has to be a text"),
        ('[[path]]\npath = "/"\nbytes = "90"\n', "line 3: path.bytes: '90' is no limit: write"),
        ('[[path]]\npath = "/"\nbytes = "190%"\n', "line 3: path.bytes: '190%' is no limit"),
        ('[[path]]\npath = "/"\nmethod = "df"\n', "line 3: path.method: this has to be one of"),
        ('[[path]]\npath = "/"\nmethod = "du"\n', "line 1: path.bytes: du knows no capacity"),
        (
            '[[path]]\npath = "/"\nmethod = "du"\nbytes = "9%"\n',
            'line 4: path.bytes: du knows no capacity: write "2TB used", or add capacity_bytes',
        ),
        ('[[path]]\npath = "/"\n[[path]]\npath = "/"\n', "line 3: path.name: '/' is there twice"),
        ('[[path]]\npath = "/"\nunit = "KiB"\n', 'line 3: path.unit: this is for method = "quota"'),
        (
            '[[path]]\npath = "/"\nmethod = "quota"\ncommand = "x"\npattern = "(?P<byte>1)"\n',
            "line 5: path.pattern: name its groups bytes",
        ),
        (
            '[[path]]\npath = "/"\nmethod = "quota"\ncommand = "x"\npattern = "("\n',
            "line 5: path.pattern: this is no regular expression",
        ),
        ('[mail]\nto = "me"\n[[path]]\npath = "/"\n', "line 2: mail.to: 'me' is no mail address"),
        ('[mail]\n[[path]]\npath = "/"\n', "line 1: mail.to: this is needed and is not there"),
        (
            '[mail]\nto = "a@b"\nserver = "x:y"\n[[path]]\npath = "/"\n',
            "line 3: mail.server: 'x:y' is no mail server",
        ),
        ('[webhook]\nurl = "ftp://x"\n[[path]]\npath = "/"\n', "line 2: webhook.url: this is no"),
        ('[webhook]\nurl = "https://[x"\n[[path]]\npath = "/"\n', "line 2: webhook.url: this is"),
        ('[webhook]\nurl = "https://:9/"\n[[path]]\npath = "/"\n', "line 2: webhook.url: this is"),
        ('[webhook]\n[[path]]\npath = "/"\n', "line 1: webhook.url: give either url or url_file"),
        ("x = " + "[" * 100_000, "has brackets in brackets without end"),
        (f'[[path]]\npath = "/"\nbytes = "{"9" * 400} used"\n', "line 3: path.bytes: '99"),
        ('mail = 3\n[[path]]\npath = "/"\n', "line 1: mail: this has to be a table, [mail]"),
        ('patience = 0\n[[path]]\npath = "/"\n', "line 1: patience: this has to be a number"),
        ('history = "long"\n[[path]]\npath = "/"\n', "line 1: history: 'long' is no duration"),
        ('state = "none/x"\n[[path]]\npath = "/"\n', "line 1: state: there is no folder"),
        ('title = "a\\nb"\n[[path]]\npath = "/"\n', "line 1: title: this is empty, or has"),
    ],
)
def test_faults_are_told_with_their_line(tmp_path: Path, text: str, message: str) -> None:
    """Wrong use: the file, the line, the key, and what to write instead."""
    done = run(write_config(tmp_path, text))
    assert done.returncode == 2
    assert message in done.stderr
    assert [p.name for p in tmp_path.iterdir()] == ["watch.toml"]


def test_the_example_is_right(watchdog: ModuleType, tmp_path: Path) -> None:
    """What --example prints can be read, also with its comments taken in; its pattern fits the
    line beside it."""
    text = subprocess.run(
        [sys.executable, str(PATH), "--example"], capture_output=True, text=True, check=True
    ).stdout
    config = write_config(tmp_path, text)
    settings, watched, history = watchdog.read_fs_config(config)
    assert [way.name for way in settings.ways] == ["stdout"]
    assert history == 14 * DAY
    for name in ("mail.login", "webhook.url"):
        (tmp_path / name).write_text("https://example.org/x\npassword\n")
        (tmp_path / name).chmod(0o600)
    config.write_text(re.sub(r"^#(?=[\[a-z])", "", text, flags=re.MULTILINE))
    settings, _, _ = watchdog.read_fs_config(config)
    assert [way.name for way in settings.ways] == ["mail", "webhook", "stdout"]
    assert settings.ways[0].login == ("https://example.org/x", "password")
    (line,) = re.findall(r"^# +prints: (.*)$", text, re.MULTILINE)
    quota = next(one for one in watched if one.method == "quota")
    seen = watchdog.read_quota(line, quota)
    assert seen == {"bytes": [1024 * 1024, 4096 * 1024], "inodes": [17, None]}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "name a file that says what to watch"),
        (("x.toml", "--path", "/"), "name x.toml or --path, not both"),
        (("--path", "/", "--test_alerts"), "--test_alerts needs the file"),
        (("none.toml",), "none.toml cannot be read: No such file"),
        (("--every", "0s", "--path", "/"), "'0s' is no duration"),
    ],
)
def test_wrong_use_is_told(
    call_tool: Callable[..., Any], arguments: tuple[str, ...], message: str
) -> None:
    """What cannot be meant ends with status 2 and one line."""
    done = call_tool(TOOL, *arguments)
    assert done.returncode == 2
    assert message in done.stderr
    assert "Traceback" not in done.stderr


# --- the forecast ---


def test_soon_is_told_before_it_is_full(watchdog: ModuleType, tmp_path: Path) -> None:
    """Samples of the days before, kept in the state, say that the limit comes within 3 days."""
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "a").write_bytes(os.urandom(8_000_000))
    text = '[[path]]\npath = "data"\nmethod = "du"\nbytes = "10MB used"\nforecast = "3d"\n'
    config = write_config(tmp_path, text)
    book = watchdog.AlertBook("fs_watchdog", tmp_path / "watch.state.json")
    now = time.time()
    entry = book.settle("data bytes", "ok", 1, now)
    entry["samples"] = [(now - day * DAY, 8e6 - day * 1e6) for day in range(7, 0, -1)]
    assert book.save() == ""
    (alert,) = find_alerts(run(config))
    assert "data bytes: full soon" in alert
    assert "in 48 h" in alert or "in 2.0 days" in alert
    assert find_alerts(run(config)) == []
    config.write_text(text.replace("3d", "1d"))
    assert "well again" in find_alerts(run(config))[0]


@given(
    slope=st.floats(1.0, 1e9),
    start=st.floats(0, 1e15),
    count=st.integers(5, 60),
    free=st.floats(0, 1e13),
)
def test_a_straight_line_has_no_spread(
    watchdog: ModuleType, slope: float, start: float, count: int, free: float
) -> None:
    """Time = free / slope, but never further ahead than ten times the span of the samples."""
    samples = [(at * 3600.0, start + slope * at * 3600.0) for at in range(count)]
    forecast = watchdog.fit_growth(samples)
    middle, early, late = watchdog.find_fill_times(forecast, free)
    if early is None:
        assert free / slope > 9 * (count - 1) * 3600.0
    elif middle is not None:
        assert early <= middle * (1 + 1e-9)
        # Rounding of large numbers is a spread, too.
        assert math.isclose(middle, free / slope, rel_tol=1e-2, abs_tol=1.0)
        assert late is None or middle <= late * (1 + 1e-9)


def test_growth_that_has_just_begun_is_not_denied(watchdog: ModuleType, tmp_path: Path) -> None:
    """Nothing for four days, then 1 GB a day: neighbours resemble each other so much that nine
    samples are hardly one, and it is not said that there is time left."""
    samples = [(at * DAY, 1e9 * max(0, at - 4)) for at in range(9)]
    forecast = watchdog.fit_growth(samples)
    watched = watchdog.WatchedPath("data", str(tmp_path))
    finding = watchdog.FillFinding(
        "data bytes", watched, "bytes", int(4e9), int(8e9), None, forecast, "ok", ""
    )
    assert forecast.high == math.inf
    assert watchdog.format_forecast(finding) == "too early to tell"


def test_the_spread_covers_the_truth(watchdog: ModuleType) -> None:
    """Of 200 random histories with a known slope, about 95 % have it in their range: with noise of
    its own at each sample, and nearly so with noise that lingers."""
    import random

    chance = random.Random(1)
    for memory, least in ((0.0, 180), (0.6, 160)):
        hits = 0
        for _ in range(200):
            noise, samples = 0.0, []
            for at in range(60):
                noise = memory * noise + chance.gauss(0, 5.0)
                samples.append((float(at), 2.0 * at + noise))
            forecast = watchdog.fit_growth(samples)
            hits += forecast.low <= 2.0 <= forecast.high
        assert least <= hits, (memory, hits)


def test_samples_stay_few_and_young(watchdog: ModuleType) -> None:
    """A year of looks every five minutes is some hundred samples of the last 14 days."""
    samples: list[tuple[float, float]] = []
    for at in range(0, 60 * 86400, 300):
        samples = watchdog.add_sample(samples, float(at), float(at), 14 * DAY)
    assert 100 < len(samples) <= watchdog.KEPT_SAMPLES + 2
    assert samples[-1][0] - samples[0][0] <= 14 * DAY
    assert samples[-1] == (60 * DAY - 300, 60 * DAY - 300)


@pytest.mark.parametrize(
    ("text", "expected"),
    [("3TB", 3 * 10**12), ("512GiB", 512 << 30), ("16G", 16 << 30), ("1.5kB", 1500), ("7", 7)],
)
def test_sizes(watchdog: ModuleType, text: str, expected: int) -> None:
    """Decimal with B, binary with iB or a letter alone."""
    assert watchdog.parse_storage(text) == expected


# --- the batch file ---


@pytest.mark.nightly
def test_the_job_comes_again(tmp_path: Path) -> None:
    """On a real Slurm: it looks, tells once, and has submitted itself for the next time; there is
    never more than one that waits; a fault in TOOL is said and does not break the chain."""
    (tmp_path / "data").mkdir()
    write_config(tmp_path, '[[path]]\npath = "data"\nmethod = "du"\ninodes = "1 used"\n')
    text = (SCRIPTS / "training" / "fs_watchdog.slurm").read_text()
    for key, value in (
        ("PYTHON", sys.executable),
        ("TOOL", PATH),
        ("CONFIG", tmp_path / "watch.toml"),
        ("WHEN", 1),
    ):
        text, count = re.subn(rf"^{key}=\S+", f"{key}={value}", text, flags=re.MULTILINE)
        assert count == 1
    script = tmp_path / "fs_watchdog.slurm"
    script.write_text(text)
    log = tmp_path / "fs_watchdog.log"
    with open_cluster(1) as cluster:
        for _ in range(2):
            cluster.ask("env", f"--chdir={tmp_path}", "sbatch", "fs_watchdog.slurm")

        def read_log() -> str:
            return log.read_text() if log.exists() else ""

        cluster.wait_for(lambda: read_log().count("ended with 1") >= 2, f"no looks: {read_log()}")
        assert read_log().count("ALERT") == 1
        waiting = [job for job in cluster.queue() if job.state == "PENDING"]
        assert len(waiting) <= 2
        script.write_text(re.sub(r"^TOOL=.*$", "TOOL=/none", text, flags=re.MULTILINE))
        cluster.wait_for(lambda: read_log().count("there is no /none") >= 2, "the chain breaks")
        cluster.ask("scancel", "--name=fs_watchdog")
    assert "fs_watchdog.slurm: there is no /none: change TOOL in the file" in read_log()
