"""Alerts by mail, webhook or stdout, as a small TOML file asks for them."""

from __future__ import annotations

import argparse
import getpass
import json
import socket
import sys
import time
from collections.abc import Sequence
from typing import NamedTuple

from kit.settings import Settings

TRIES = 3
"""How often an alert is sent before that counts as failed."""
PAUSE_SECONDS = 2.0
"""Between two tries."""
SECONDS = 30.0
"""What a server may take to answer."""
PORTS = {"none": 25, "starttls": 587, "tls": 465}

CHANNELS_EXAMPLE = """\
stdout = true                       # alerts on stdout too

#[mail]
#to = ["you@example.org"]
#from = "watchdog@example.org"
#server = "mail.example.org:587"    # default: localhost
#security = "starttls"              # none, starttls or tls
#login_file = "mail.login"          # user and password, one per line; chmod 600

#[webhook]
#url_file = "webhook.url"           # chmod 600; or url = "https://..."
#text_key = "text"                  # the key that gets the text in the JSON that is posted
"""


class Mail(NamedTuple):
    """Alerts by SMTP."""

    to: Sequence[str]
    server: tuple[str, int] = ("localhost", 0)
    security: str = "none"
    login: Sequence[str] = ()
    sender: str | None = None
    name: str = "mail"

    def send(self, subject: str, text: str) -> None:
        """Send a mail. Raises OSError."""
        import smtplib
        import ssl
        from email.message import EmailMessage
        from email.utils import localtime

        message = EmailMessage()
        message["Subject"] = " ".join(subject.split())[:200]
        message["From"] = self.sender or f"{getpass.getuser()}@{socket.gethostname()}"
        message["To"] = ", ".join(self.to)
        message["Date"] = localtime()
        message["Auto-Submitted"] = "auto-generated"
        message.set_content(text.encode("utf-8", "replace").decode())
        host, port = self.server[0], self.server[1] or PORTS[self.security]
        client: smtplib.SMTP = (
            smtplib.SMTP_SSL(host, port, timeout=SECONDS, context=ssl.create_default_context())
            if self.security == "tls"
            else smtplib.SMTP(host, port, timeout=SECONDS)
        )
        with client:
            if self.security == "starttls":
                client.starttls(context=ssl.create_default_context())
            if self.login:
                client.login(self.login[0], self.login[1])
            client.send_message(message)


class Webhook(NamedTuple):
    """Alerts by a POST of JSON with the text under one key, as Slack and others take it."""

    url: str
    text_key: str = "text"
    name: str = "webhook"

    def send(self, subject: str, text: str) -> None:
        """Post. Raises OSError, without the address in it: that is a secret."""
        import urllib.error
        import urllib.request

        body = {self.text_key: f"{subject}\n{text}"}
        headers = {"Content-Type": "application/json", "User-Agent": "watchdog"}
        request = urllib.request.Request(self.url, json.dumps(body).encode(), headers)
        try:
            urllib.request.urlopen(request, timeout=SECONDS).close()
        except urllib.error.HTTPError as error:
            error.close()
            raise OSError(f"it answered {error.code} {error.reason}") from None
        except urllib.error.URLError as error:
            raise OSError(f"no connection: {error.reason}") from None


class Stdout(NamedTuple):
    """Alerts as lines that begin with ALERT."""

    name: str = "stdout"

    def send(self, subject: str, text: str) -> None:
        """Print."""
        for line in text.splitlines():
            print(f"ALERT {line}", flush=True)


Channel = Mail | Webhook | Stdout


def mail_server(text: str) -> tuple[str, int]:
    """`HOST` or `HOST:PORT`; port 0 stands for the usual one."""
    host, colon, port = text.partition(":")
    if not host or (colon and not (port.isdecimal() and 0 < int(port) < 65536)):
        raise argparse.ArgumentTypeError(f"'{text}' is not a mail server: write HOST or HOST:587")
    return host, int(port or 0)


def read_channels(top: Settings) -> list[Channel]:
    """The channels that a file asks for; stdout where it names no other. Raises UsageError."""
    channels: list[Channel] = []
    if table := top.take_table("mail"):
        login = table.read_secret("login_file") or []
        mail = Mail(
            to=table.take("to", list, []),
            server=table.parse("server", mail_server, "localhost"),
            security=table.take("security", str, "none"),
            login=login,
            sender=table.take("from"),
        )
        if mail.security not in PORTS:
            raise table.error("security", "has to be none, starttls or tls")
        if login and (mail.security == "none" or len(login) < 2):
            raise table.error("login_file", "needs security, and user and password on two lines")
        if not mail.to:
            raise table.error("to", "missing")
        table.close()
        channels.append(mail)
    if table := top.take_table("webhook"):
        url = (table.read_secret("url_file") or [table.take("url", str, "")])[0].strip()
        if not url.startswith(("https://", "http://")):
            raise table.error("url", "give url or url_file: https://...")
        text_key = table.take("text_key", str, "text")
        table.close()
        channels.append(Webhook(url, text_key))
    if top.take("stdout", bool, not channels):
        channels.append(Stdout())
    return channels


def send_alert(channel: Channel, subject: str, text: str) -> str | None:
    """Send, three times if need be; None, or why it failed."""
    reason = ""
    for number in range(TRIES):
        time.sleep(PAUSE_SECONDS if number else 0)
        try:
            channel.send(subject, text)
            return None
        except (OSError, ValueError) as error:
            reason = " ".join(str(error).split()) or type(error).__name__
    return f"{channel.name}: not sent in {TRIES} tries: {reason}"


def send_test(channels: Sequence[Channel], tool: str) -> int:
    """Send a test alert to every channel and print what came of it; the exit status."""
    text = f"a test alert of {tool} on {socket.gethostname()}: nothing is wrong"
    problems = [send_alert(channel, f"[{tool}] test alert", text) for channel in channels]
    for channel, problem in zip(channels, problems, strict=True):
        print(problem or f"{channel.name}: sent", file=sys.stderr if problem else sys.stdout)
    return int(any(problems))
