"""The command line: arguments, progress and exit statuses, and nothing else.

0 clean, 1 findings, 2 wrong use or configuration, 70 a bug of ours.
"""

from __future__ import annotations

import enum
import gc
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from bindery import __version__
from bindery.model import BookError, ConfigError, Finding, Severity, Span

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from bindery.edition import Edition
    from bindery.pipeline import Inspection
    from bindery.render.completeness import Proof

CLEAN, FINDINGS, WRONG_USE, BUG = 0, 1, 2, 70

app = typer.Typer(
    name="bindery",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


class Format(enum.StrEnum):
    """How findings are printed."""

    TEXT = "text"
    JSON = "json"
    GITHUB = "github"


Root = Annotated[
    Path, typer.Option("--root", metavar="DIR", help="The folder that holds chapters.yaml.")
]
Out = Annotated[
    Path | None, typer.Option("--out", metavar="DIR", help="Where outputs go; dist/ by default.")
]
Lenient = Annotated[
    bool, typer.Option("--lenient", help="Build in spite of errors, and list them.")
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress bar.")]


@app.callback(invoke_without_command=True)
def start(
    version: Annotated[bool, typer.Option("--version", help="Print the version and stop.")] = False,
) -> None:
    """Bind a book of GitHub Markdown into a site, a PDF and an EPUB, every link checked."""
    if version:
        print(f"bindery {__version__}")
        raise typer.Exit(CLEAN)


@app.command()
def check(
    paths: Annotated[
        list[str] | None, typer.Argument(help="Only findings in these files and folders.")
    ] = None,
    root: Root = Path(),
    output: Annotated[
        Format, typer.Option("--format", help="How findings are printed.")
    ] = Format.TEXT,
) -> None:
    """Report everything in the sources that is false: links, anchors, images, tables."""
    from bindery.pipeline import inspect_book

    inspection = inspect_book(root)
    chosen = _choose_findings(inspection, root, paths or [])
    _print_findings(chosen, inspection, output)
    raise typer.Exit(FINDINGS if chosen else CLEAN)


@app.command()
def html(
    root: Root = Path(), out: Out = None, lenient: Lenient = False, quiet: Quiet = False
) -> None:
    """Build the site."""
    from bindery.render.html import build_site, find_clashes

    inspection, edition, folder = _begin_build("html", root, out, lenient)
    if clashes := find_clashes(inspection.config):
        raise ConfigError(*clashes)
    with _show_progress("site", len(inspection.book.chapters), quiet) as progress:
        proof = build_site(inspection, edition, folder / "site", progress)
    _end_build(proof, folder, folder / "site", root)


@app.command()
def pdf(
    root: Root = Path(), out: Out = None, lenient: Lenient = False, quiet: Quiet = False
) -> None:
    """Build the PDF."""
    from bindery.render.pdf import STEPS, build_pdf

    inspection, edition, folder = _begin_build("pdf", root, out, lenient)
    path = folder / f"{inspection.config.name}.pdf"
    with _show_progress("PDF", len(inspection.book.chapters) + STEPS, quiet) as progress:
        proof, findings = build_pdf(inspection, edition, path, progress, lenient=lenient)
    _print_warnings(findings, inspection)
    _end_build(proof, folder, path, root)


@app.command()
def epub(
    root: Root = Path(), out: Out = None, lenient: Lenient = False, quiet: Quiet = False
) -> None:
    """Build the EPUB."""
    from bindery.render.epub import STEPS, build_epub

    inspection, edition, folder = _begin_build("epub", root, out, lenient)
    path = folder / f"{inspection.config.name}.epub"
    with _show_progress("EPUB", len(inspection.book.chapters) + STEPS, quiet) as progress:
        proof, findings = build_epub(inspection, edition, path, progress, lenient=lenient)
    _print_warnings(findings, inspection)
    _end_build(proof, folder, path, root)


@app.command()
def fill(
    root: Root = Path(),
    only_check: Annotated[
        bool, typer.Option("--check", help="Compare, and write nothing.")
    ] = False,
) -> None:
    """Write the tables that views give into the chapters, or compare them."""
    from bindery.pipeline import inspect_book
    from bindery.regions import fill_chapter, find_regions
    from bindery.render.output import write_whole
    from bindery.report import count_noun

    inspection = inspect_book(root)
    if not only_check:
        for chapter in inspection.book.chapters:
            text, changed = fill_chapter(chapter, inspection.evidence)
            if changed:
                path = inspection.tree.root / chapter.path
                newline = b"\r\n" if b"\r\n" in path.read_bytes() else b"\n"
                write_whole(path, text.encode().replace(b"\n", newline))
                tables = "table" if changed == 1 else "tables"
                print(f"{chapter.path}: filled {changed} {tables}")
        inspection = inspect_book(root)
    chosen = [f for f in inspection.findings if f.rule in _REGION_RULES]
    regions = sum(len(find_regions(chapter)[0]) for chapter in inspection.book.chapters)
    errors = sum(finding.severity is Severity.ERROR for finding in chosen)
    summary = f"compared {count_noun(regions, 'table')}: {count_noun(errors, 'error')}"
    _print_findings(chosen, inspection, Format.TEXT, summary=summary)
    raise typer.Exit(FINDINGS if chosen else CLEAN)


_REGION_RULES = frozenset(
    "bad-data bad-record bad-view unclosed-region unknown-record edited-output stale-output".split()
)


@app.command()
def links(
    root: Root = Path(),
    out: Out = None,
    quiet: Quiet = False,
    external: Annotated[
        bool, typer.Option("--external", help="Follow links to the web too, one a second.")
    ] = False,
) -> None:
    """Crawl the built outputs: the second opinion on every link, from linkchecker."""
    from bindery.crawl import crawl_outputs
    from bindery.edition import find_edition
    from bindery.pipeline import inspect_book

    inspection = inspect_book(root)
    edition = find_edition(inspection.config)
    folder = _find_out(root, out)
    with _show_progress("links", len(inspection.book.chapters), quiet) as progress:
        findings, summary = crawl_outputs(inspection, edition, folder, progress, external=external)
    _print_findings(findings, inspection, Format.TEXT, summary=summary)
    raise typer.Exit(FINDINGS if findings else CLEAN)


@app.command(
    context_settings={"allow_extra_args": True, "ignore_unknown_options": True},
)
def run(
    context: typer.Context,
    tool: Annotated[str, typer.Argument(help="A tool that chapters.yaml names.")],
    profile: Annotated[str, typer.Option(help="Which set of arguments: toy or full.")] = "toy",
    timeout: Annotated[float, typer.Option(help="Seconds after which the run is ended.")] = 3600.0,
    root: Root = Path(),
) -> None:
    """Run a companion tool and leave a record of it. Arguments behind -- go to the tool."""
    from bindery.recording import record_run

    path = record_run(root, tool, profile, tuple(context.args), timeout)
    print(f"recorded {path}")


@app.command(name="import")
def import_book(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="The folder of the book.")],
    out: Annotated[
        Path | None,
        typer.Option("--out", metavar="FILE", help="Where to write; DIR/chapters.yaml by default."),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace a file that is there.")] = False,
) -> None:
    """Write chapters.yaml for a book that has a chapters-md.txt."""
    from bindery.importing import import_chapter_list
    from bindery.render.output import write_whole

    target = out or folder / "chapters.yaml"
    if target.exists() and not force:
        message = f"'{target}' is there already"
        raise ConfigError(
            Finding(Span.whole(str(target)), "config", message, "replace it with --force")
        )
    text, summary = import_chapter_list(folder)
    write_whole(target, text.encode())
    print(f"{target}: {summary}")


# --- what the commands share ---


def _begin_build(
    output: str, root: Path, out: Path | None, lenient: bool
) -> tuple[Inspection, Edition, Path]:
    """Inspect the book and stop at its errors, or where chapters.yaml does not list the output,
    before anything is made."""
    from bindery.edition import find_edition
    from bindery.pipeline import inspect_book

    inspection = inspect_book(root)
    if output not in inspection.config.formats:
        message = f"this book has no output '{output}'"
        hint = "add it to `outputs: formats:`"
        raise ConfigError(Finding(Span.whole(inspection.config.file), "config", message, hint))
    if inspection.findings:
        _print_findings(list(inspection.findings), inspection, Format.TEXT, to_stderr=True)
    if inspection.errors and not lenient:
        hint = "nothing was built: mend the errors, or build anyway with --lenient"
        print(hint, file=sys.stderr)
        raise typer.Exit(FINDINGS)
    if not inspection.book.chapters:
        print("nothing was built: no chapter could be read", file=sys.stderr)
        raise typer.Exit(FINDINGS)
    return inspection, find_edition(inspection.config), _find_out(root, out)


def _find_out(root: Path, out: Path | None) -> Path:
    """The folder for outputs. A name that looks like that of a file is refused, for the files in
    it have names of their own."""
    folder = (out or root / "dist").resolve()
    is_file = folder.exists() and not folder.is_dir()
    if is_file or folder.suffix.lower() in (".pdf", ".epub", ".html", ".zip"):
        message = f"--out takes a folder, and '{out}' is the name of a file"
        hint = "the name of an ebook is `outputs: name:` in chapters.yaml"
        raise ConfigError(Finding(Span.whole(str(out)), "config", message, hint))
    return folder


def _end_build(proof: Proof, folder: Path, path: Path, root: Path) -> None:
    from bindery.render.completeness import write_proof

    write_proof(folder / "report.json", proof)
    try:
        shown = path.relative_to(root.resolve())
    except ValueError:
        shown = path
    print(f"{shown}: {proof.summarise()}")


def _choose_findings(inspection: Inspection, root: Path, paths: Sequence[str]) -> list[Finding]:
    """The findings under the given paths. A path that holds nothing of the book is wrong use."""
    if not paths:
        return list(inspection.findings)
    wanted = []
    known = [
        *(entry.path for entry in inspection.config.chapters),
        *(finding.span.path for finding in inspection.findings),
    ]
    for path in paths:
        try:
            relative = Path(path).resolve().relative_to(root.resolve()).as_posix()
        except ValueError:
            relative = Path(path).as_posix()
        relative = "" if relative == "." else relative
        if not any(_is_under(name, relative) for name in known):
            raise ConfigError(
                Finding(
                    Span.whole(path),
                    "config",
                    f"no chapter of the book lies at '{path}'",
                    "name chapters or folders of this book, relative to the folder you are in",
                )
            )
        wanted.append(relative)
    return [f for f in inspection.findings if any(_is_under(f.span.path, w) for w in wanted)]


def _is_under(path: str, folder: str) -> bool:
    return not folder or path == folder or path.startswith(f"{folder}/")


def _print_findings(
    findings: Sequence[Finding],
    inspection: Inspection,
    output: Format,
    *,
    summary: str = "",
    to_stderr: bool = False,
) -> None:
    from bindery.load import read_line
    from bindery.report import format_github, format_json, format_text, summarise

    chapters = len(inspection.book.chapters)
    last = summary or summarise(findings, len(inspection.resolved.links), chapters)
    stream = sys.stderr if to_stderr else sys.stdout
    match output:
        case Format.JSON:
            stream.write(format_json(findings))
        case Format.GITHUB:
            stream.write(format_github(findings))
            print(last, file=sys.stderr)
        case Format.TEXT:
            stream.write(format_text(findings, lambda s: read_line(inspection.tree, s), last))


def _print_warnings(findings: Sequence[Finding], inspection: Inspection) -> None:
    """What an engine has said while it made an output."""
    from bindery.load import read_line
    from bindery.report import format_finding

    for finding in findings:
        text = format_finding(finding, lambda s: read_line(inspection.tree, s))
        print(text, file=sys.stderr)


@contextmanager
def _show_progress(title: str, steps: int, quiet: bool) -> Iterator[Callable[[str], None]]:
    """A bar with the name of what is under way; on a terminal only."""
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
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(title, total=steps, name="")

        def advance(name: str) -> None:
            bar.update(task, advance=1, name=name)

        yield advance


def _stop(error: BookError, status: int) -> NoReturn:
    from bindery.report import format_finding

    for finding in error.findings:
        print(format_finding(finding, _read_file_line), file=sys.stderr)
    errors = sum(finding.severity is Severity.ERROR for finding in error.findings)
    print(f"stopped: {errors} error{'' if errors == 1 else 's'}", file=sys.stderr)
    sys.exit(status)


def _read_file_line(span: Span) -> str:
    """The line of a finding that came up before there was a book to read it from."""
    try:
        lines = (
            (_find_root_argument() / span.path).read_text("utf-8", errors="replace").splitlines()
        )
    except OSError:
        return ""
    return lines[span.line - 1] if 0 < span.line <= len(lines) else ""


def _find_root_argument() -> Path:
    arguments = sys.argv[1:]
    for position, argument in enumerate(arguments):
        if argument == "--root" and position + 1 < len(arguments):
            return Path(arguments[position + 1])
        if argument.startswith("--root="):
            return Path(argument.removeprefix("--root="))
    return Path()


def main() -> None:
    """Run the program and end with its exit status."""
    # A build makes millions of objects that live to its end: looking for garbage among them takes
    # a seventh of the time and finds nothing.
    gc.disable()
    try:
        app()
    except ConfigError as error:
        _stop(error, WRONG_USE)
    except BookError as error:
        _stop(error, FINDINGS)
    except (PermissionError, FileNotFoundError, NotADirectoryError, IsADirectoryError) as error:
        path = error.filename or "a file"
        reason = (error.strerror or str(error)).lower()
        print(f"{path}: cannot be read or written: {reason}", file=sys.stderr)
        sys.exit(WRONG_USE)
    except KeyboardInterrupt:
        print("interrupted; what was there before is as it was", file=sys.stderr)
        sys.exit(130)
    except Exception:  # noqa: BLE001 - nothing above it could say more than the traceback
        traceback.print_exc()
        print("this is a bug of bindery; please report it with the lines above", file=sys.stderr)
        sys.exit(BUG)
