"""Tell people once when a state changes: what watchdogs share that look again and again."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from kit.alerts import Channel, read_channels, send_alert
from kit.cli import UsageError
from kit.report import read_json, write_json
from kit.settings import Settings


class Notifier:
    """States by key ("ok" is the good one), and which channel was told of which, kept in a file.

    A state counts at once, but "unknown" only if it was seen twice in a row: one look without an
    answer may be a restart. A channel that failed is tried again at the next look, and the other
    channels do not hear of it twice.
    """

    def __init__(
        self, tool: str, channels: Sequence[Channel], title: str = "", path: Path | None = None
    ) -> None:
        self.tool = tool
        self.channels = channels
        self.title = title or tool
        self.path = path
        self.entries: dict[str, dict[str, Any]] = {}
        self.sent: list[dict[str, str]] = []
        self.problems: list[str] = []

    def load(self) -> None:
        """Begin a look with what the file holds. Raises UsageError where it is some other file."""
        self.sent, self.problems = [], []
        if self.path is None or not self.path.exists():
            return
        kind = f"state of {self.tool}"
        document = read_json("state", self.path)
        if not isinstance(document, dict) or document.get("kind") != kind:
            raise UsageError(f"{self.path} is not the {kind}: name another file, or remove it")
        self.entries = document["entries"]

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
        self._save()  # before anything that may take long
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
                self._complain(f"{problem}; it will be sent at the next look")
                continue
            for key in due:
                state = self.entries[key]["state"]
                self.sent.append({"channel": channel.name, "about": key, "state": state})
                self.entries[key]["told"][channel.name] = state
            self._save()

    def _save(self) -> None:
        if self.path is None:
            return
        try:
            write_json(self.path, {"kind": f"state of {self.tool}", "entries": self.entries})
        except OSError as error:
            self._complain(f"the state was not saved, so alerts may come again: {error.strerror}")

    def _complain(self, problem: str) -> None:
        if problem not in self.problems:
            self.problems.append(problem)
            print(f"problem: {problem}", file=sys.stderr)


def read_notifier(top: Settings, tool: str) -> Notifier:
    """The notifier of a file: title, state and channels. Raises UsageError."""
    state = top.find_file(top.take("state", str, f"{top.file.stem}.state.json"))
    return Notifier(tool, read_channels(top), top.take("title", str, tool), state)
