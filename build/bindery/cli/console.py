"""Shared by the commands: common options, exit statuses, and output of findings and progress."""

from __future__ import annotations

import enum
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import click

from bindery.core.model import BookError, Finding, Span, refuse

if TYPE_CHECKING:
    from bindery.check.inspect import Inspection
    from bindery.check.watch import Known
    from bindery.core.cache import Cache
    from bindery.core.repository import Tree

CLEAN, FINDINGS, USAGE_ERROR, BUG = 0, 1, 2, 70
BROKEN_PIPE = 141
"""The status that shells report for a program killed by SIGPIPE."""


class Format(enum.StrEnum):
    """Output formats for findings."""

    TEXT = "text"
    JSON = "json"
    GITHUB = "github"
    SARIF = "sarif"


class ListFormat(enum.StrEnum):
    """Output formats for lists."""

    TEXT = "text"
    JSON = "json"


F = TypeVar("F", bound=Callable[..., object])


def _offer(values: type[enum.StrEnum], help_text: str) -> Callable[[F], F]:
    return click.option(
        "--format",
        "output",
        type=click.Choice([str(value) for value in values]),
        default=str(next(iter(values))),
        callback=lambda _context, _parameter, value: values(value),
        help=help_text,
    )


format_option = _offer(Format, "Output format for findings.")
list_format_option = _offer(ListFormat, "Output format.")
root_option = click.option(
    "--root",
    type=click.Path(path_type=Path),
    default=Path(),
    metavar="DIR",
    help="Folder that contains chapters.yaml.",
)
out_option = click.option(
    "--out",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Output folder.  [default: dist]",
)
python_option = click.option(
    "--python",
    default="",
    metavar="PATH",
    show_default=False,
    help="Python interpreter for the tools, such as one that has torch.  [default: the one that"
    " runs bindery; python3 in a container]",
)
why_option = click.option(
    "--why", is_flag=True, help="Show what was rebuilt instead of taken from the cache, and why."
)
quiet_option = click.option("--quiet", "-q", is_flag=True, help="No progress bar.")


def explain_trouble(error: OSError) -> BookError:
    """What the operating system refused, and what to do."""
    path = error.filename2 or error.filename
    name = os.fsdecode(path) if isinstance(path, str | bytes) else "a file"
    hint = "free disk space, fix permissions, or correct the path"
    if isinstance(error, FileNotFoundError | NotADirectoryError | IsADirectoryError):
        hint = "correct the path"
    elif isinstance(error, PermissionError):
        hint = "fix its permissions"
    if sys.argv[1:2] and sys.argv[1] in ("build", "html", "pdf", "epub"):
        hint += "; use --out for another output folder, TMPDIR for another temporary folder"
    message = f"cannot be read or written: {(error.strerror or str(error)).lower()}"
    return BookError(Finding(Span.whole(name), "disk", message, hint))


@contextmanager
def open_cache(root: Path, *, why: bool) -> Iterator[Cache]:
    """The cache of a book. With `why`, what was rebuilt is printed at the end."""
    from bindery.core.cache import Cache

    cache = Cache(root)
    try:
        yield cache
    finally:
        cache.close()
        if why:
            print(cache.explain(), file=sys.stderr)


def refuse_given(context: click.Context, names: Iterable[str], problem: str, hint: str) -> None:
    """Raise ConfigError if one of these options was given on the command line."""
    for name in names:
        source = context.get_parameter_source(name)
        if source is not None and source.name == "COMMANDLINE":
            option = f"--{name.replace('_', '-')}"
            message = f"{option} {problem}"
            raise refuse(option, message, hint)


def find_out(root: Path, out: Path | None) -> Path:
    """The output folder. A name that looks like a file is refused, because outputs have their own
    names."""
    folder = (out or root / "dist").resolve()
    is_file = folder.exists() and not folder.is_dir()
    if is_file or folder.suffix.lower() in (".pdf", ".epub", ".html", ".zip"):
        message = f"--out takes a folder, but '{out}' names a file"
        hint = "to name an ebook, set `outputs: name:` in chapters.yaml"
        raise refuse(str(out), message, hint)
    return folder


def find_path(typed: str, root: Path, *, must_exist: bool = True) -> str:
    """A path from the command line, relative to the root.

    It is resolved against the current folder, or against the root if it exists only there. Raises
    ConfigError outside the root.
    """
    starts = (Path.cwd(), root)
    chosen = next((start for start in starts if os.path.lexists(start / typed)), None)
    if chosen is None and must_exist:
        chosen = root
    elif chosen is None:
        inside = [start for start in starts if start.resolve().is_relative_to(root)]
        chosen = next((s for s in inside if (s / typed).parent.is_dir()), inside[0])
    path = Path(os.path.normpath(chosen / typed))  # keep symbolic links: they may be the target
    path = path.parent.resolve() / path.name
    if not path.is_relative_to(root):
        message = f"'{typed}' is outside the book's folder '{root}'"
        raise refuse(typed, message, "name a path in the book's folder")
    relative = path.relative_to(root).as_posix()
    return "" if relative == "." else relative


def read_amount(option: str, text: str, parse: Callable[..., float], *default: str) -> float:
    try:
        return parse(text, *default)
    except ValueError as error:
        raise refuse(option, str(error)) from None


def print_changes(
    findings: Sequence[Finding], inspection: Inspection, summary: str, known: Known | None
) -> Known:
    """Print new findings and those that are gone since the last call; all of them at first."""
    from bindery.check.finding_identity import identify_finding
    from bindery.check.watch import leave_out
    from bindery.core.report import format_head

    tree = inspection.tree
    found = {f: identify_finding(f, tree.read_line(f.span)) for f in findings}
    new: Sequence[Finding] = findings
    if known is not None:
        new, gone = leave_out(found, known), leave_out(known, found)
        print()
        for finding in gone:
            print(f"gone: {format_head(finding)}")
        if gone:
            print()
    print_findings(new, inspection, Format.TEXT, summary=summary)
    sys.stdout.flush()
    return found


def print_findings(
    findings: Sequence[Finding],
    inspection: Inspection,
    output: Format,
    *,
    summary: str = "",
    accepted: int = 0,
    to_stderr: bool = False,
) -> None:
    from bindery.core.report import format_github, format_json, format_text, summarise

    chapters = len(inspection.book.chapters)
    last = summary or summarise(findings, len(inspection.resolved.links), chapters, accepted)
    stream = sys.stderr if to_stderr else sys.stdout
    match output:
        case Format.JSON:
            stream.write(format_json(findings))
        case Format.GITHUB:
            stream.write(format_github(findings, _find_prefix(inspection.config.root)))
            print(last, file=sys.stderr)
        case Format.SARIF:
            from bindery.check.sarif import format_sarif

            prefix = _find_prefix(inspection.config.root)
            stream.write(format_sarif(findings, inspection.tree.read_line, prefix))
            print(last, file=sys.stderr)
        case Format.TEXT:
            stream.write(format_text(findings, inspection.tree.read_line, last))


def _find_prefix(root: Path) -> str:
    """The book's folder in its repository: GitHub's paths start at the repository."""
    root = root.resolve()
    top = next((folder for folder in (root, *root.parents) if (folder / ".git").exists()), root)
    prefix = root.relative_to(top).as_posix()
    return "" if prefix == "." else prefix


def print_troubles(findings: Sequence[Finding], tree: Tree) -> None:
    """Print findings to standard error, without a summary."""
    from bindery.core.report import format_finding

    for finding in findings:
        print(format_finding(finding, tree.read_line), file=sys.stderr)


@contextmanager
def show_progress(title: str, steps: int, quiet: bool) -> Iterator[Callable[[str], None]]:
    """A progress bar with the current item; on terminals only."""
    if quiet or not sys.stderr.isatty():
        yield lambda name: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.fields[name]}"),
    )
    console = Console(stderr=True)
    # Without a thread: a process with several cannot be copied for a second processor.
    with Progress(*columns, console=console, transient=True, auto_refresh=False) as bar:
        task = bar.add_task(title, total=steps, name="")

        def advance(name: str) -> None:
            bar.update(task, advance=1, name=name, refresh=True)

        yield advance
