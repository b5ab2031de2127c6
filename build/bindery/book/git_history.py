"""What git remembers of a book: the lines that are new since a revision, files as they were, and
what each commit changed."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain
from pathlib import Path

from bindery.core.control_characters import show_controls
from bindery.core.model import ConfigError, Finding, Span
from bindery.core.processes import GIT, CommandMissingError, CommandTimeoutError, run_command

_SECONDS = 60.0
# Whatever the settings of a user; no line of a file can look like a header.
_PATCH = (
    *("--unified=0", "--inter-hunk-context=0", "--relative"),
    *("--no-color", "--no-ext-diff", "--no-textconv", "--src-prefix=a/", "--dst-prefix=b/"),
    *("--output-indicator-new=>", "--output-indicator-old=<"),
)


def find_added_lines(root: Path, rev: str) -> Mapping[str, frozenset[int]]:
    """The lines below `root` that were added or changed since `rev`, by path, committed or not.

    Where `rev` is on another branch, the point counts at which the two went apart, so that what
    the other branch has changed since is not taken for ours. All lines of a file that git does
    not know yet, and does not ignore, are new.

    Raises ConfigError where `root` is in no repository of git or has no such revision.
    """
    base = _find_base(root, rev)
    text = ask_git(root, "diff", *_PATCH, "--find-renames", base, "--", ".", must_work=True)
    added: dict[str, frozenset[int]] = {}
    for path, hunks in _read_patch(text):
        ranges = [range(hunk.first, hunk.first + len(hunk.added)) for hunk in hunks]
        if any(ranges):
            added[path] = frozenset(chain(*ranges))
    for path in _list_unknown(root):
        file = root / path
        if file.is_file():
            added[path] = frozenset(range(1, file.read_bytes().count(b"\n") + 2))
    return added


def find_changed_files(root: Path, rev: str) -> frozenset[str]:
    """The files below `root` that are not what they were at `rev`, by path; those that git does
    not know yet, and does not ignore, among them.

    Raises ConfigError where `root` is in no repository of git or has no such revision.
    """
    options = ("--name-only", "--no-renames", "--no-ext-diff", "--relative", "-z")
    changed = ask_git(root, "diff", *options, _find_base(root, rev), "--", ".", must_work=True)
    return frozenset(filter(None, (*changed.split("\0"), *_list_unknown(root))))


def _list_unknown(root: Path) -> Iterable[str]:
    options = ("-z", "--others", "--exclude-standard")
    return filter(None, ask_git(root, "ls-files", *options, must_work=True).split("\0"))


def read_file_at(root: Path, rev: str, path: str) -> str:
    """The text of a file below `root` as it was at `rev`; empty where it was not there.

    Raises ConfigError where `root` is in no repository of git or has no such revision.
    """
    return ask_git(root, "cat-file", "blob", f"{_find_base(root, rev)}:./{path}")


def find_last_changes(root: Path) -> Mapping[str, str]:
    """The day, as in 2026-11-20, on which each file below `root` was last changed by a commit, by
    path. Empty where git does not know: no repository, no git, or a clone without its history."""
    try:
        return _read_days(root, read_refs(root))
    except ConfigError:
        return {}


def read_refs(root: Path) -> str:
    """All branches and tags and where they are: what has been read of a history is true as long as
    this is the same. Raises ConfigError where git is not there."""
    return ask_git(root, "show-ref", "--head")


@lru_cache(maxsize=2)
def _read_days(root: Path, _refs: str) -> Mapping[str, str]:
    log = ("log", "--format=%x00%cs", "--name-only", "--relative", "--no-renames", "--", ".")
    if ask_git(root, "rev-parse", "--is-shallow-repository").strip() != "false":
        return {}
    text = ask_git(root, "-c", "core.quotePath=false", *log)
    days: dict[str, str] = {}
    for entry in text.split("\0")[1:]:
        day, *paths = entry.split("\n")
        for path in filter(None, paths):
            days.setdefault(_read_name(path), day)
    return days


@dataclass(frozen=True, slots=True)
class Commit:
    """A commit. `time` is that of the committer, as in 2026-11-20T10:30:00+01:00."""

    id: str
    time: str
    subject: str

    @property
    def short(self) -> str:
        """Its id as editions print it."""
        return self.id[:10]

    @property
    def day(self) -> str:
        return self.time[:10]


@dataclass(frozen=True, slots=True)
class History:
    """The commits that led to what is built, newest first, and the names that tags give to some.
    A shallow clone has the newest commits only."""

    commits: tuple[Commit, ...]
    tags: Mapping[str, tuple[str, ...]]
    """Names of tags by the id of their commit."""
    is_shallow: bool


@dataclass(frozen=True, slots=True)
class Hunk:
    """Lines of a file that a commit took out, and those that it put in their place."""

    first: int
    """The line at which the latter begin."""
    removed: tuple[str, ...]
    added: tuple[str, ...]


def read_history(root: Path) -> History | None:
    """The commits behind a book; None where it is in no repository, or there is no git."""
    try:
        text = ask_git(root, "log", "--no-show-signature", "--format=%H%x00%cI%x00%s%x00")
        shallow = ask_git(root, "rev-parse", "--is-shallow-repository").strip()
        form = "--format=%(objectname) %(*objectname) %(refname:short)"
        tags = ask_git(root, "for-each-ref", form, "refs/tags/v*")
    except ConfigError:
        return None
    fields = text.split("\0")[:-1]
    commits = tuple(
        Commit(fields[i].strip(), fields[i + 1], show_controls(fields[i + 2]))
        for i in range(0, len(fields), 3)
    )
    names: dict[str, tuple[str, ...]] = {}
    for line in tags.splitlines():
        *ids, name = line.split()
        # Of a tag with a text the second id is the commit.
        names[ids[-1]] = (*names.get(ids[-1], ()), name)
    return History(commits, names, shallow != "false") if commits else None


def read_changes(root: Path, paths: Iterable[str]) -> Mapping[str, Mapping[str, Sequence[Hunk]]]:
    """What each commit changed in files or folders below `root`, by the id of the commit and the
    path of the file. What merges bring is told of the commits that they bring.

    Raises ConfigError where git does not answer.
    """
    wanted = [f":(literal){path}" for path in paths]
    if not wanted:
        return {}
    form = ("--format=%x00%H", "--patch", "--no-renames", "--no-show-signature")
    text = ask_git(root, "log", *form, *_PATCH, "--", *wanted)
    changes: dict[str, Mapping[str, Sequence[Hunk]]] = {}
    for entry in text.split("\0")[1:]:
        commit, _, patch = entry.partition("\n")
        changes[commit.strip()] = dict(_read_patch(patch))
    return changes


def _read_patch(patch: str) -> Iterator[tuple[str, Sequence[Hunk]]]:
    """Each file of a patch with its hunks; none for a file that is not a text."""
    for file in re.split(r"^diff --git .*\n", patch, flags=re.MULTILINE)[1:]:
        head, *hunks = re.split(r"^@@ -\S+ \+(\d+).*\n", file, flags=re.MULTILINE)
        names = re.findall(r"^(?:---|\+\+\+) (.*?)\t?$", head, flags=re.MULTILINE)
        path = next((name for name in reversed(names) if name != "/dev/null"), "")
        if path:
            pairs = zip(hunks[::2], hunks[1::2], strict=True)
            yield re.sub("^[ab]/", "", _read_name(path)), [_read_hunk(*pair) for pair in pairs]


def _read_hunk(first: str, text: str) -> Hunk:
    lines = text.split("\n")
    return Hunk(
        int(first),
        tuple(line[1:] for line in lines if line.startswith("<")),
        tuple(line[1:] for line in lines if line.startswith(">")),
    )


def _find_base(root: Path, rev: str) -> str:
    """The commit at which HEAD and a revision went apart; the revision itself where there is
    none."""
    commit = _find_commit(root, rev)
    return ask_git(root, "merge-base", commit, "HEAD").strip() or commit


def _find_commit(root: Path, rev: str) -> str:
    if not ask_git(root, "rev-parse", "--git-dir").strip():
        message = f"'{root}' is in no repository of git, which would know what is new since '{rev}'"
        raise ConfigError(Finding(Span.whole(str(root)), "config", message))
    commit = ""
    if rev and not rev.startswith("-"):  # git would take it for an option
        commit = ask_git(root, "rev-parse", "--verify", "--quiet", f"{rev}^{{commit}}").strip()
    if not commit:
        message = f"git knows no revision '{rev}'"
        hint = "a branch, a tag or a commit, such as origin/main; a shallow clone may lack it"
        raise ConfigError(Finding(Span.whole("--since"), "config", message, hint))
    return commit


def ask_git(folder: Path, *arguments: str, must_work: bool = False) -> str:
    """What git prints; nothing where it fails, unless it has to work.

    Raises ConfigError where it has to and does not, and where git is not installed.
    """
    try:
        ended = run_command((*GIT, *arguments), folder=folder, timeout=_SECONDS)
    except (CommandMissingError, CommandTimeoutError) as error:
        reason = f"git does not answer: {error}"
        raise ConfigError(Finding(Span.whole(str(folder)), "config", reason)) from None
    if ended.returncode == 0:
        return ended.stdout
    if must_work:
        lines = ended.stderr.strip().splitlines() or ["it says no reason"]
        message = f"`git {arguments[0]}` fails: {lines[-1]}"
        raise ConfigError(Finding(Span.whole(str(folder)), "config", message))
    return ""


def _read_name(written: str) -> str:
    """A path as git writes it into a diff: between quotes where a character is out of the
    ordinary, with the escapes of C."""
    if written.startswith('"'):
        written = ast.literal_eval(f"b{written}").decode("utf-8", "replace")
    return written
