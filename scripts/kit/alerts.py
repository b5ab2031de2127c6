"""Alerts by mail, webhook or stdout, sent once per change, and the TOML file that asks for them."""

import argparse
import getpass
import http.client
import json
import socket
import sys
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from kit.cli import UsageError
from kit.report import read_json, write_json

KINDS = {str: "text in quotes", dict: "a table", list: "a list"}

Readers = Mapping[str, type | Callable[[str], Any]]
"""By key: a type of KINDS, or what makes a value of a text, as a type of argparse does."""
SECONDS = 30.0
"""What a server may take to answer."""

CHANNELS_EXAMPLE = """\
#[mail]
#to = ["you@example.org"]
#from = "watchdog@example.org"
#server = "mail.example.org:587"    # default: localhost:25
#login_file = "mail.login"          # user and password, one per line; chmod 600; needs STARTTLS

#[webhook]
#url_file = "webhook.url"           # gets a POST of {"text": ...}, as Slack takes it; chmod 600
"""


class Mail(NamedTuple):
    """Alerts by SMTP; with a login over STARTTLS."""

    to: Sequence[str]
    server: tuple[str, int]
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
        message.set_content(text)
        with smtplib.SMTP(*self.server, timeout=SECONDS) as client:
            if self.login:
                client.starttls(context=ssl.create_default_context())
                client.login(*self.login)
            client.send_message(message)


class Webhook(NamedTuple):
    """Alerts by a POST of `{"text": ...}`, as Slack and others take it."""

    url: str
    name: str = "webhook"

    def send(self, subject: str, text: str) -> None:
        """Post. Raises OSError, without the address in it: that is a secret."""
        import urllib.request

        body = {"text": f"{subject}\n{text}"}
        headers = {"Content-Type": "application/json", "User-Agent": "watchdog"}
        request = urllib.request.Request(self.url, json.dumps(body).encode(), headers)
        urllib.request.urlopen(request, timeout=SECONDS).close()


class Stdout(NamedTuple):
    """Alerts as lines that begin with ALERT."""

    name: str = "stdout"

    def send(self, subject: str, text: str) -> None:
        """Print."""
        for line in text.splitlines():
            print(f"ALERT {line}", flush=True)


Channel = Mail | Webhook | Stdout


def read_toml(path: str) -> dict[str, Any]:
    """The content of a TOML file. Raises UsageError."""
    try:
        return tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except ValueError as error:  # not TOML, or not UTF-8
        raise UsageError(f"{path}: {error}") from error


def read_table(place: str, table: Any, readers: Readers, needed: str = "") -> dict[str, Any]:
    """What the readers make of the values of a table. Raises UsageError, which begins with `place`,
    for a key without a reader, for a wrong value, and where the needed key is missing."""
    if not isinstance(table, dict):
        raise UsageError(f"{place}has to be a table")
    found = {}
    for key, value in table.items():
        if key not in readers:
            raise UsageError(f"{place}{key}: no such key; known: {', '.join(readers)}")
        kind = readers[key] if readers[key] in KINDS else str
        if type(value) is not kind:
            raise UsageError(f"{place}{key}: has to be {KINDS[kind]}")
        try:
            found[key] = readers[key](value)
        except (argparse.ArgumentTypeError, ValueError) as error:
            raise UsageError(f"{place}{key}: {error}") from error
    if needed and needed not in found:
        raise UsageError(f"{place}{needed}: missing")
    return found


def read_secret(path: Path) -> list[str]:
    """The lines of a file that others may not read. Raises ArgumentTypeError."""
    try:
        if path.stat().st_mode & 0o077:
            raise argparse.ArgumentTypeError(f"others can read {path}: chmod 600 it")
        return path.read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise argparse.ArgumentTypeError(f"{path}: {error.strerror}") from error


def mail_server(text: str) -> tuple[str, int]:
    """`HOST:PORT`."""
    host, _, port = text.partition(":")
    if not host or not port.isdecimal():
        raise argparse.ArgumentTypeError(f"'{text}' is not a mail server: write HOST:587")
    return host, int(port)


def send_alert(channel: Channel, subject: str, text: str) -> str | None:
    """Send; None, or why it failed."""
    try:
        channel.send(subject, text)
    except (OSError, ValueError, http.client.HTTPException) as error:
        return f"{channel.name}: not sent: {' '.join(str(error).split()) or type(error).__name__}"
    return None


def send_test(channels: Sequence[Channel], tool: str) -> int:
    """Send a test alert to every channel and print what came of it; the exit status."""
    text = f"a test alert of {tool} on {socket.gethostname()}: nothing is wrong"
    problems = [send_alert(channel, f"[{tool}] test alert", text) for channel in channels]
    for channel, problem in zip(channels, problems, strict=True):
        print(problem or f"{channel.name}: sent", file=sys.stderr if problem else sys.stdout)
    return int(any(problems))


@dataclass
class Notifier:
    """States by key ("ok" is the good one), and which channel was told of which, kept in a file.

    A state counts at once, but "unknown" only if it was seen twice in a row: one look without an
    answer may be a restart. A channel that failed is tried again at the next look, and the other
    channels do not hear of it twice.
    """

    title: str
    channels: Sequence[Channel]
    path: Path | None = None
    entries: dict[str, dict[str, Any]] = field(default_factory=dict)
    sent: list[dict[str, str]] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    def load(self) -> None:
        """Begin a look with what the file holds. Raises UsageError where it is not JSON."""
        self.sent, self.problems = [], []
        if self.path and self.path.exists():
            self.entries = read_json("state", self.path)["entries"]

    def settle(self, key: str, seen: str) -> dict[str, Any]:
        """The entry of a key after a look; its `state` is what counts now."""
        fresh = {"state": "ok", "seen": "ok", "told": {}, "samples": []}
        entry = self.entries.setdefault(key, fresh)
        if seen != "unknown" or entry["seen"] == seen:
            entry["state"] = seen
        entry["seen"] = seen
        return entry

    def notify(self, sentences: Mapping[str, str]) -> None:
        """Send what the channels were not told yet, and forget keys without a sentence."""
        self.entries = {key: self.entries[key] for key in sentences}
        for channel in self.channels:
            due = [
                key
                for key, entry in self.entries.items()
                if entry["seen"] == entry["state"] != entry["told"].get(channel.name, "ok")
            ]
            if not due:
                continue
            names = [f"{key} {self.entries[key]['state']}" for key in due[:3]]
            more = f" and {len(due) - 3} more" if len(due) > 3 else ""
            text = "\n".join(f"{self.title}: {sentences[key]}" for key in due)
            subject = f"[{self.title}] {', '.join(names)}{more}"
            if problem := send_alert(channel, subject, text):
                self.problems.append(f"{problem}; it will be sent at the next look")
                continue
            for key in due:
                state = self.entries[key]["state"]
                self.sent.append({"channel": channel.name, "about": key, "state": state})
                self.entries[key]["told"][channel.name] = state
        try:
            if self.path:
                write_json(self.path, {"entries": self.entries})
        except OSError as error:
            text = f"the state was not saved, so alerts may come again: {error.strerror}"
            self.problems.append(text)
        for problem in self.problems:
            print(f"problem: {problem}", file=sys.stderr)


def read_notifier(
    file: str, tool: str, watched: str
) -> tuple[Notifier, list[tuple[str, dict[str, Any]]]]:
    """The notifier of a file, and its tables `[[watched]]`, each with its place for messages.
    Alerts go to stdout, and to the channels of the file. Raises UsageError."""

    def find_file(name: str) -> Path:
        return Path(file).parent / Path(name).expanduser()

    def login(name: str) -> list[str]:
        if len(lines := read_secret(find_file(name))) != 2:
            raise argparse.ArgumentTypeError("needs user and password on two lines")
        return lines

    def url(name: str) -> str:
        address = "".join(read_secret(find_file(name))).strip()
        if not address.startswith(("https://", "http://")) or " " in address:
            raise argparse.ArgumentTypeError("has to name a file with the address: https://...")
        return address

    readers = {"title": str, "state": find_file, "mail": dict, "webhook": dict}
    top = read_table(f"{file}: ", read_toml(file), {**readers, watched: list}, watched)
    channels: list[Channel] = [Stdout()]
    if "mail" in top:
        readers = {"to": list, "from": str, "server": mail_server, "login_file": login}
        mail = read_table(f"{file}: mail.", top["mail"], readers, "to")
        server, words = mail.get("server", ("localhost", 25)), mail.get("login_file", ())
        channels.append(Mail(mail["to"], server, words, mail.get("from")))
    if "webhook" in top:
        hook = read_table(f"{file}: webhook.", top["webhook"], {"url_file": url}, "url_file")
        channels.append(Webhook(hook["url_file"]))
    state = top.get("state", Path(file).with_suffix(".state.json"))
    tables = [(f"{file}: {watched} {i}: ", one) for i, one in enumerate(top[watched], start=1)]
    return Notifier(top.get("title", tool), channels, state), tables
