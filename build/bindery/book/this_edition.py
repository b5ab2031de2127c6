"""Which edition a build makes: version, commit, date, and where the newest one is."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from bindery.book.git_history import ask_git
from bindery.core.build_date import read_epoch
from bindery.core.config import Config
from bindery.core.model import ConfigError


@dataclass(frozen=True, slots=True)
class Edition:
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
        """The edition in one word, to tell whether two outputs are of the same. Outside git only
        those are that one command has built."""
        return "-".join(
            filter(None, (self.version, self.day, self.commit or f"{self.date:%H%M%S}"))
        )

    @property
    def day(self) -> str:
        return self.date.date().isoformat()


def find_edition(config: Config) -> Edition:
    """Find out what is being built. Raises ConfigError where SOURCE_DATE_EPOCH is not a number."""
    commit, committed = _find_commit(config.root)
    date = read_epoch() or committed or datetime.now(UTC).replace(microsecond=0)
    return Edition(config.version, commit, date, config.newest)


def find_changes_url(config: Config, edition: Edition) -> str:
    """Where a reader of this edition finds what has changed since: on the site of the book, else
    where the repository compares; empty where neither is known, or the commit is not."""
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
