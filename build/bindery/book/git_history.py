"""What git remembers of a book: the lines that are new since a revision, files as they were, and
what each commit changed."""

from __future__ import annotations

import ast
import re
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from bindery.core.control_characters import show_controls
from bindery.core.model import ConfigError, Finding, Span
from bindery.core.processes import GIT, CommandMissingError, CommandTimeoutError, run_command

_SECONDS = 60.0
_HUNK = re.compile(r"@@ -\d+(?:,\d+)? \+(?P<first>\d+)(?:,(?P<count>\d+))? @@")


def find_added_lines(root: Path, rev: str) -> Mapping[str, frozenset[int]]:
    """The lines below `root` that were added or changed since `rev`, by path, committed or not.

    Where `rev` is on another branch, the point counts at which the two went apart, so that what
    the other branch has changed since is not taken for ours. All lines of a file that git does
    not know yet, and does not ignore, are new.

    Raises ConfigError where `root` is in no repository of git or has no such revision.
    """
    base = _find_base(root, rev)
    # Of what a file holds no line can be taken for a header, whatever it begins with.
    marks = ("--output-indicator-new=>", "--output-indicator-old=<")
    plain = ("--no-color", "--no-ext-diff", "--no-textconv", "--find-renames")
    prefixes = ("--src-prefix=a/", "--dst-prefix=b/")
    options = ("--unified=0", "--inter-hunk-context=0", "--relative", *plain, *prefixes, *marks)
    text = _ask_git(root, "diff", *options, base, "--", ".", must_work=True)
    added = {path: frozenset(lines) for path, lines in _read_diff(text).items() if lines}
    listed = _ask_git(root, "ls-files", "-z", "--others", "--exclude-standard", must_work=True)
    for path in filter(None, listed.split("\0")):
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
    changed = _ask_git(root, "diff", *options, _find_base(root, rev), "--", ".", must_work=True)
    listed = _ask_git(root, "ls-files", "-z", "--others", "--exclude-standard", must_work=True)
    return frozenset(filter(None, (*changed.split("\0"), *listed.split("\0"))))


def read_file_at(root: Path, rev: str, path: str) -> bytes | None:
    """A file below `root` byte by byte as it was at `rev`; None where it was not there.

    Raises ConfigError where `root` is in no repository of git or has no such revision.
    """
    base = _find_base(root, rev)
    name = _ask_git(root, "rev-parse", "--verify", "--quiet", f"{base}:./{path}").strip()
    if not name or _ask_git(root, "cat-file", "-t", name).strip() != "blob":
        return None
    store = _ask_git(root, "rev-parse", "--absolute-git-dir").strip()
    with tempfile.TemporaryDirectory() as folder:
        # It writes the bytes into a file of the folder that it runs in; through a pipe that is
        # read as text they would not stay what they are.
        written = _ask_git(Path(folder), f"--git-dir={store}", "unpack-file", name, must_work=True)
        return Path(folder, written.strip()).read_bytes()


def find_last_changes(root: Path) -> Mapping[str, str]:
    """The day, as in 2026-11-20, on which each file below `root` was last changed by a commit, by
    path. Empty where git does not know: no repository, no git, or a clone without its history."""
    log = ("log", "--format=%x00%cs", "--name-only", "--relative", "--no-renames", "--", ".")
    try:
        if _ask_git(root, "rev-parse", "--is-shallow-repository").strip() != "false":
            return {}
        text = _ask_git(root, "-c", "core.quotePath=false", *log)
    except ConfigError:
        return {}
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

    removed: tuple[str, ...]
    added: tuple[str, ...]


def read_history(root: Path) -> History | None:
    """The commits behind a book; None where it is in no repository, or there is no git."""
    try:
        text = _ask_git(root, "log", "--no-show-signature", "--format=%H%x00%cI%x00%s%x00")
        shallow = _ask_git(root, "rev-parse", "--is-shallow-repository").strip()
        form = "--format=%(objectname) %(*objectname) %(refname:short)"
        tags = _ask_git(root, "for-each-ref", form, "refs/tags/v*")
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
    plain = ("--no-color", "--no-ext-diff", "--no-textconv", "--no-renames", "--no-show-signature")
    marks = ("--output-indicator-new=>", "--output-indicator-old=<")
    form = ("--format=%x00%H", "--patch", "--unified=0", "--inter-hunk-context=0", "--relative")
    names = ("--src-prefix=a/", "--dst-prefix=b/")
    wanted = [f":(literal){path}" for path in paths]
    if not wanted:
        return {}
    text = _ask_git(root, "log", *form, *names, *plain, *marks, "--", *wanted)
    changes: dict[str, Mapping[str, Sequence[Hunk]]] = {}
    for entry in text.split("\0")[1:]:
        commit, _, patch = entry.partition("\n")
        changes[commit.strip()] = dict(_read_patch(patch))
    return changes


def _read_patch(patch: str) -> Iterator[tuple[str, Sequence[Hunk]]]:
    """Each file of a patch with its hunks; none for a file that is not a text."""
    for file in re.split(r"^diff --git .*\n", patch, flags=re.MULTILINE)[1:]:
        head, *hunks = re.split(r"^@@ .*\n", file, flags=re.MULTILINE)
        names = re.findall(r"^(?:---|\+\+\+) (.*?)\t?$", head, flags=re.MULTILINE)
        path = next((name for name in reversed(names) if name != "/dev/null"), "")
        if path:
            yield _read_name(path).removeprefix("a/"), [_read_hunk(hunk) for hunk in hunks]


def _read_hunk(text: str) -> Hunk:
    lines = text.split("\n")
    return Hunk(
        tuple(line[1:] for line in lines if line.startswith("<")),
        tuple(line[1:] for line in lines if line.startswith(">")),
    )


def _find_base(root: Path, rev: str) -> str:
    """The commit at which HEAD and a revision went apart; the revision itself where there is
    none."""
    commit = _find_commit(root, rev)
    return _ask_git(root, "merge-base", commit, "HEAD").strip() or commit


def _find_commit(root: Path, rev: str) -> str:
    if not _ask_git(root, "rev-parse", "--git-dir").strip():
        message = f"'{root}' is in no repository of git, which would know what is new since '{rev}'"
        raise ConfigError(Finding(Span.whole(str(root)), "config", message))
    commit = ""
    if rev and not rev.startswith("-"):  # git would take it for an option
        commit = _ask_git(root, "rev-parse", "--verify", "--quiet", f"{rev}^{{commit}}").strip()
    if not commit:
        message = f"git knows no revision '{rev}'"
        hint = "a branch, a tag or a commit, such as origin/main; a shallow clone may lack it"
        raise ConfigError(Finding(Span.whole("--since"), "config", message, hint))
    return commit


def _ask_git(folder: Path, *arguments: str, must_work: bool = False) -> str:
    """What git prints; nothing where it fails, unless it has to work."""
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


def _read_diff(text: str) -> Mapping[str, set[int]]:
    added: dict[str, set[int]] = {}
    path = ""
    for line in text.split("\n"):
        if line.startswith("+++ "):
            path = _read_name(line.removeprefix("+++ ").rstrip("\t"))
        elif hunk := _HUNK.match(line):
            first, count = int(hunk["first"]), int(hunk["count"] or 1)
            added.setdefault(path, set()).update(range(first, first + count))
    return added


def _read_name(written: str) -> str:
    """A path as git writes it into a diff: between quotes where a character is out of the
    ordinary, with the escapes of C."""
    if written.startswith('"'):
        written = ast.literal_eval(f"b{written}").decode("utf-8", "replace")
    return written.removeprefix("b/")
