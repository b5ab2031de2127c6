"""The edition being built: version, commit, date, and where to find the newest one."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from bindery.book.git_history import ask_git
from bindery.core.build_date import read_epoch
from bindery.core.config import Config
from bindery.core.model import ConfigError


class Edition(Struct, frozen=True):
    """`date` is that of SOURCE_DATE_EPOCH if set, else of the commit, else today, in UTC."""

    version: str
    commit: str
    date: datetime
    newest: str

    @property
    def short_commit(self) -> str:
        return self.commit[:10]

    @property
    def name(self) -> str:
        """The edition in one word, to compare outputs. Outside git only outputs of one command are
        the same edition."""
        return "-".join(
            filter(None, (self.version, self.day, self.commit or f"{self.date:%H%M%S}"))
        )

    @property
    def of_the_day(self) -> Edition:
        """The edition as pages show it: outside git each command has its own time."""
        return replace(self, date=self.date.replace(hour=0, minute=0, second=0))

    @property
    def day(self) -> str:
        return self.date.date().isoformat()


def find_edition(config: Config) -> Edition:
    """The edition being built. Raises ConfigError if SOURCE_DATE_EPOCH is not a number."""
    commit, committed = _find_commit(config.root)
    date = read_epoch() or committed or datetime.now(UTC).replace(microsecond=0)
    return Edition(config.version, commit, date, config.newest)


def find_changes_url(config: Config, edition: Edition) -> str:
    """Where readers can see changes since this edition: on the book's site, or in the repository's
    comparison; empty if neither or the commit is known."""
    if not edition.commit:
        return ""
    commit = edition.short_commit
    if config.site:
        return f"{config.site}/changes/index.html?from={commit}#since-{commit}"
    if config.repository is not None:
        return f"{config.repository.url}/compare/{commit}...{config.repository.branch}"
    return ""


def _find_commit(root: Path) -> tuple[str, datetime | None]:
    try:
        answer = ask_git(root, "log", "-1", "--no-show-signature", "--format=%H %ct")
    except ConfigError:  # no git
        return "", None
    commit, _, seconds = answer.strip().partition(" ")
    return commit, datetime.fromtimestamp(int(seconds), UTC) if commit else None
