"""Notifying: once per change and channel, also over restarts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from kit.alerts import Notifier


class Channel:
    """A channel that keeps what it is sent, or fails."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.is_down = False
        self.alerts: list[tuple[str, str]] = []

    def send(self, subject: str, text: str) -> None:
        if self.is_down:
            raise OSError("it is down")
        self.alerts.append((subject, text))

    def subjects(self) -> list[str]:
        return [subject for subject, _ in self.alerts]


@pytest.fixture
def channels() -> list[Any]:
    return [Channel("mail"), Channel("webhook")]


@pytest.fixture
def look(tmp_path: Path, channels: list[Any]):
    """One look by a process of its own that sees these states; what went wrong."""

    def make(**states: str) -> list[str]:
        notifier = Notifier("x", channels, tmp_path / "s.json")
        notifier.load()
        for key, state in states.items():
            notifier.settle(key, state)
        notifier.notify({key: f"{key} is {state}" for key, state in states.items()})
        return notifier.problems

    return make


def test_a_look_without_an_answer(look, channels: list[Any]) -> None:
    """It counts when it was the second in a row; every other state counts at once."""
    for state in ("unknown", "ok", "unknown", "unknown", "ok"):
        look(disk=state)
    assert channels[0].subjects() == ["[x] disk unknown", "[x] disk ok"]


def test_a_channel_that_was_down_is_told_later(look, channels: list[Any]) -> None:
    """And the other one not twice; what has passed meanwhile is not told at all."""
    mail, webhook = channels
    webhook.is_down = True
    (problem,) = look(disk="over")
    assert problem == "webhook: not sent: it is down; it will be sent at the next look"
    webhook.is_down = False
    assert look(disk="over") == []
    assert mail.subjects() == webhook.subjects() == ["[x] disk over"]
    webhook.is_down = True
    look(disk="full")
    webhook.is_down = False
    look(disk="over")
    assert mail.subjects()[1:] == ["[x] disk full", "[x] disk over"]
    assert webhook.subjects()[1:] == []


def test_many_changes_are_one_alert(look, channels: list[Any]) -> None:
    """With the first three in the subject; told once, and not at all of what has been good."""
    for _ in range(2):
        look(a="bad", b="bad", c="bad", d="bad", e="ok")
    assert channels[0].subjects() == ["[x] a bad, b bad, c bad and 1 more"]
    assert len(channels[0].alerts[0][1].splitlines()) == 4
