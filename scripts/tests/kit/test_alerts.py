"""Alerts: they arrive, and failures are named without secrets."""

from __future__ import annotations

import email
import email.policy
import json
import socket
import ssl
import subprocess
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from kit import alerts
from kit.cli import UsageError

ALERT = ("disk\nfull", "99 % of\nall")


class MailBox:
    """What a real mail server received."""

    def __init__(self) -> None:
        self.mails: list[Any] = []

    async def handle_DATA(self, _server: Any, session: Any, envelope: Any) -> str:  # noqa: N802
        mail = email.message_from_bytes(envelope.content, policy=email.policy.default)
        mail["X-Encrypted"] = str(session.ssl is not None)
        self.mails.append(mail)
        return "250 OK"


@pytest.fixture
def serve_mail() -> Iterator[Callable[..., tuple[MailBox, tuple[str, int]]]]:
    """Start a real mail server."""
    controllers = pytest.importorskip("aiosmtpd.controller")
    started = []

    def serve(**options: Any) -> tuple[MailBox, tuple[str, int]]:
        box = MailBox()
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        started.append(controllers.Controller(box, hostname="127.0.0.1", port=port, **options))
        started[-1].start()
        return box, ("127.0.0.1", port)

    yield serve
    for controller in started:
        controller.stop()


@pytest.fixture
def hook(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[list[int], list[Any], str]]:
    """A real web server: its answers, one per request and 200 at the end, what it was sent, and
    its address."""
    monkeypatch.setenv("no_proxy", "*")
    answers: list[int] = []
    posts: list[Any] = []

    class Hook(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            status = answers.pop(0) if answers else 200
            posts.extend([body] if status == 200 else [])
            self.send_response(status)
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Hook) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield answers, posts, f"http://127.0.0.1:{server.server_port}/secret-token"
        server.shutdown()
        thread.join()


def test_a_mail_arrives(serve_mail: Callable[..., Any]) -> None:
    """With its subject in one line."""
    box, server = serve_mail()
    assert alerts.send_alert(alerts.Mail(["a@x.org", "b@x.org"], server), *ALERT) is None
    (mail,) = box.mails
    assert (mail["Subject"], mail["To"]) == ("disk full", "a@x.org, b@x.org")
    assert mail.get_content().splitlines() == ["99 % of", "all"]


@pytest.mark.nightly
@pytest.mark.needs("openssl")
def test_mail_with_starttls_and_login(
    serve_mail: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Encrypted, with the password; a wrong one and an unknown
    certificate are failures."""
    smtp = pytest.importorskip("aiosmtpd.smtp")
    key, certificate = tmp_path / "key.pem", tmp_path / "cert.pem"
    command = "openssl req -x509 -newkey rsa:2048 -nodes -subj /CN=mail -days 2".split()
    command += ["-addext", "subjectAltName=IP:127.0.0.1", "-keyout", str(key)]
    subprocess.run([*command, "-out", str(certificate)], check=True, capture_output=True)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate, key)

    def check(_server: Any, _session: Any, _envelope: Any, _how: str, data: Any) -> Any:
        is_right = (data.login, data.password) == (b"dog", b"woof")
        return smtp.AuthResult(success=is_right, handled=False)

    box, server = serve_mail(tls_context=context, require_starttls=True, authenticator=check,
                             auth_required=True)  # fmt: skip

    def send(password: str) -> str | None:
        mail = alerts.Mail(["a@x.org"], server, ["dog", password], "b@x.org")
        return alerts.send_alert(mail, *ALERT)

    assert "CERTIFICATE_VERIFY_FAILED" in str(send("woof"))
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    assert "535" in str(send("miau"))
    assert send("woof") is None
    assert [mail["X-Encrypted"] for mail in box.mails] == ["True"]


def test_a_webhook_gets_the_text(hook: tuple[list[int], list[Any], str]) -> None:
    """As JSON."""
    _, posts, url = hook
    assert alerts.send_alert(alerts.Webhook(url), *ALERT) is None
    assert posts == [{"text": "disk\nfull\n99 % of\nall"}]


def test_a_failing_webhook_keeps_its_secret(
    hook: tuple[list[int], list[Any], str], capsys: pytest.CaptureFixture[str]
) -> None:
    """Whatever went wrong; a test alert goes to every channel, and names the one that failed."""
    answers, _, url = hook
    answers.append(404)
    elsewhere = alerts.Webhook("http://127.0.0.1:9/secret-token")
    assert alerts.send_test([alerts.Stdout(), alerts.Webhook(url), elsewhere], "x") == 1
    shown = capsys.readouterr()
    assert shown.out.startswith("ALERT a test alert of x on ")
    assert "webhook: not sent: HTTP Error 404: Not Found" in shown.err
    assert "Connection refused" in shown.err
    assert "secret-token" not in shown.out + shown.err


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[mail]", "x.toml: mail.to: missing"),
        ('[mail]\nto = "a@b"', "x.toml: mail.to: has to be a list"),
        ('[mail]\nto = ["a@b"]\nserver = "x:y"', "mail.server: 'x:y' is not a mail server"),
        ('[mail]\nto = ["a@b"]\nlogin_file = "url"', "mail.login_file: needs user and password"),
        ('[webhook]\nurl_file = "url"', "webhook.url_file: has to name a file with the address"),
        ('[webhook]\nurl_file = "none"', "webhook.url_file: .*none: No such file"),
        ("", r"x.toml: disk: missing"),
    ],
)
def test_mistakes_are_named(tmp_path: Path, text: str, message: str) -> None:
    """By file and key."""
    (tmp_path / "url").write_text("ftp://x\n")
    (tmp_path / "url").chmod(0o600)
    disks = "[[disk]]\n" if text.startswith("[") else ""
    (tmp_path / "x.toml").write_text(disks + text)
    with pytest.raises(UsageError, match=message):
        alerts.read_notifier(str(tmp_path / "x.toml"), "dog", "disk")
