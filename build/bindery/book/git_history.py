"""Query git about a book: new lines since a revision, old versions of files, changes per commit."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import chain
from pathlib import Path

from msgspec import Struct

from bindery.core.control_characters import show_controls
from bindery.core.model import ConfigError, Finding, Span
from bindery.core.processes import GIT, CommandMissingError, CommandTimeoutError, run_command

_SECONDS = 60.0
# Override user settings so that no line of a file can look like a header.
_PATCH = (
    *("--unified=0", "--inter-hunk-context=0", "--relative"),
    *("--no-color", "--no-ext-diff", "--no-textconv", "--src-prefix=a/", "--dst-prefix=b/"),
    *("--output-indicator-new=>", "--output-indicator-old=<"),
)


def find_added_lines(root: Path, rev: str) -> Mapping[str, frozenset[int]]:
    """The lines below `root` added or changed since `rev`, by path, committed or not.

    If `rev` is on another branch, compare with the merge base, so that changes on that branch do
    not count. All lines of untracked files are new, unless ignored.

    Raises ConfigError if `root` is not in a git repository or the revision does not exist.
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
    """The files below `root` that differ from `rev`, by path, including untracked ones unless
    ignored.

    Raises ConfigError if `root` is not in a git repository or the revision does not exist.
    """
    options = ("--name-only", "--no-renames", "--no-ext-diff", "--relative", "-z")
    changed = ask_git(root, "diff", *options, _find_base(root, rev), "--", ".", must_work=True)
    return frozenset(filter(None, (*changed.split("\0"), *_list_unknown(root))))


def _list_unknown(root: Path) -> Iterable[str]:
    options = ("-z", "--others", "--exclude-standard")
    return filter(None, ask_git(root, "ls-files", *options, must_work=True).split("\0"))


def read_file_at(root: Path, rev: str, path: str) -> str:
    """The text of a file below `root` at `rev`; empty if it did not exist.

    Raises ConfigError if `root` is not in a git repository or the revision does not exist.
    """
    return ask_git(root, "cat-file", "blob", f"{_find_base(root, rev)}:./{path}")


def read_refs(root: Path) -> str:
    """All branches and tags with their commits, and whether the clone is shallow: the history is
    unchanged as long as this is. Empty outside a repository and without git."""
    try:
        refs = ask_git(root, "show-ref", "--head")
        return refs and refs + ask_git(root, "rev-parse", "--is-shallow-repository")
    except ConfigError:
        return ""


def is_shallow(refs: str) -> bool:
    """Whether a clone with these refs has only the newest commits."""
    return not refs.endswith("false\n")


@lru_cache(maxsize=2)  # in watch mode the history rarely changes
def read_names(root: Path, refs: str) -> Sequence[tuple[str, str, Sequence[str]]]:
    """The id of each commit to files below `root`, newest first, its date, as in 2026-11-20, and
    the paths of these files. `refs` are those of the repository; without any there are none."""
    form = ("--format=%x00%H %cs", "--name-only", "--relative", "--no-renames")
    if not refs:
        return ()
    text = ask_git(
        root, "-c", "core.quotePath=false", "log", *form, "--no-show-signature", "--", "."
    )
    commits = []
    for entry in text.split("\0")[1:]:
        head, *paths = entry.split("\n")
        commit, _, day = head.partition(" ")
        commits.append((commit, day, tuple(map(_read_name, filter(None, paths)))))
    return commits


def find_last_changes(root: Path, refs: str) -> dict[str, str]:
    """The date of the last commit to each file below `root`, by path. Empty without a history and
    in a shallow clone."""
    if not refs or is_shallow(refs):
        return {}
    days: dict[str, str] = {}
    for _, day, paths in read_names(root, refs):
        for path in paths:
            days.setdefault(path, day)
    return days


class Commit(Struct, frozen=True):
    """A commit. `time` is the committer's, as in 2026-11-20T10:30:00+01:00."""

    id: str
    time: str
    subject: str

    @property
    def short(self) -> str:
        """The short id that editions print."""
        return self.id[:10]

    @property
    def day(self) -> str:
        return self.time[:10]


class History(Struct, frozen=True):
    """The commits behind a build, newest first, and their tags."""

    commits: tuple[Commit, ...]
    tags: Mapping[str, tuple[str, ...]]
    """Tag names by commit id."""


class Hunk(Struct, frozen=True):
    """Lines that a commit removed from a file, and the lines that replaced them."""

    first: int
    """The number of the first new line."""
    removed: tuple[str, ...]
    added: tuple[str, ...]


def read_history(root: Path) -> History:
    """The commits behind a book. A shallow clone has only the newest ones. Raises ConfigError if
    git fails."""
    log = ("log", "--no-show-signature", "--format=%H%x00%cI%x00%s%x00")
    text = ask_git(root, *log, must_work=True)
    form = "--format=%(objectname) %(*objectname) %(refname:short)"
    tags = ask_git(root, "for-each-ref", form, "refs/tags/v*")
    fields = text.split("\0")[:-1]
    commits = tuple(
        Commit(fields[i].strip(), fields[i + 1], show_controls(fields[i + 2]))
        for i in range(0, len(fields), 3)
    )
    names: dict[str, tuple[str, ...]] = {}
    for line in tags.splitlines():
        *ids, name = line.split()
        # For an annotated tag, the second id is the commit's.
        names[ids[-1]] = (*names.get(ids[-1], ()), name)
    return History(commits, names)


def read_changes(root: Path, paths: Iterable[str]) -> Mapping[str, Mapping[str, Sequence[Hunk]]]:
    """What each commit changed in files or folders below `root`, by commit id and path. Merges have
    no changes of their own.

    Raises ConfigError if git fails.
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
    """Each file of a patch with its hunks; none for a binary file."""
    for file in f"\n{patch}".split("\ndiff --git ")[1:]:
        head, *hunks = file.split("\n@@ -")
        names = re.findall(r"^(?:---|\+\+\+) (.*?)\t?$", head, flags=re.MULTILINE)
        path = next((name for name in reversed(names) if name != "/dev/null"), "")
        if path:
            yield re.sub("^[ab]/", "", _read_name(path)), list(map(_read_hunk, hunks))


def _read_hunk(text: str) -> Hunk:
    """A hunk from what follows its `@@ -`."""
    head, *lines = text.split("\n")
    _, place, _ = head.split(" ", 2)
    return Hunk(
        int(place.removeprefix("+").partition(",")[0]),
        tuple(line[1:] for line in lines if line.startswith("<")),
        tuple(line[1:] for line in lines if line.startswith(">")),
    )


def _find_base(root: Path, rev: str) -> str:
    """The merge base of HEAD and a revision; the revision itself if there is none."""
    commit = _find_commit(root, rev)
    return ask_git(root, "merge-base", commit, "HEAD").strip() or commit


def _find_commit(root: Path, rev: str) -> str:
    if not ask_git(root, "rev-parse", "--git-dir").strip():
        message = f"'{root}' is not in a git repository, so nothing can be new since '{rev}'"
        raise ConfigError(Finding(Span.whole(str(root)), "config", message))
    commit = ""
    if rev and not rev.startswith("-"):  # git would parse it as an option
        commit = ask_git(root, "rev-parse", "--verify", "--quiet", f"{rev}^{{commit}}").strip()
    if not commit:
        message = f"git knows no revision '{rev}'"
        hint = "name a branch, tag or commit, such as origin/main; a shallow clone may lack it"
        raise ConfigError(Finding(Span.whole("--since"), "config", message, hint))
    return commit


def ask_git(folder: Path, *arguments: str, must_work: bool = False) -> str:
    """The output of git; empty if it fails, unless `must_work`.

    Raises ConfigError if it fails and must work, or if git is not installed.
    """
    try:
        ended = run_command((*GIT, *arguments), folder=folder, timeout=_SECONDS)
    except (CommandMissingError, CommandTimeoutError) as error:
        reason = f"git cannot be run: {error}"
        raise ConfigError(Finding(Span.whole(str(folder)), "config", reason)) from None
    if ended.returncode == 0:
        return ended.stdout
    if must_work:
        lines = ended.stderr.strip().splitlines() or ["no reason given"]
        message = f"`git {arguments[0]}` failed: {lines[-1]}"
        raise ConfigError(Finding(Span.whole(str(folder)), "config", message))
    return ""


def _read_name(written: str) -> str:
    """Decode a path in a diff, which git quotes with C escapes if it has unusual characters."""
    if written.startswith('"'):
        written = ast.literal_eval(f"b{written}").decode("utf-8", "replace")
    return written
