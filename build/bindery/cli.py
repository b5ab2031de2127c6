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
from typing import TYPE_CHECKING, Annotated, Literal, NoReturn

import typer

from bindery import __version__
from bindery.model import BookError, ConfigError, Finding, Severity, Span

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from bindery.cluster import Collected
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


Place = Literal["local", "slurm"]
Via = Literal["sbatch", "submitit"]
Runtime = Literal["pyxis", "apptainer"]

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
        bool, typer.Option("--check", help="Compare, and write nothing; `check` looks deeper.")
    ] = False,
) -> None:
    """Write the tables, values and plots that views give into the chapters, or compare them."""
    from bindery.pipeline import inspect_book
    from bindery.report import count_noun

    inspection = inspect_book(root, follows=not only_check)
    if not only_check and _fill_book(inspection):
        inspection = inspect_book(root, follows=not only_check)
    chosen = [f for f in inspection.findings if f.rule in _EVIDENCE_RULES]
    entries = inspection.quotations.values()
    regions = [region for entry in entries for region in entry.regions]
    counts = [
        count_noun(sum(region.kind == kind for region in regions), kind)
        for kind in ("table", "plot", "output")
        if kind == "table" or any(region.kind == kind for region in regions)
    ]
    if values := sum(len(entry.values) for entry in entries):
        counts.append(count_noun(values, "value"))
    errors = sum(finding.severity is Severity.ERROR for finding in chosen)
    summary = f"compared {', '.join(counts)}: {count_noun(errors, 'error')}"
    _print_findings(chosen, inspection, Format.TEXT, summary=summary)
    raise typer.Exit(FINDINGS if chosen else CLEAN)


def _fill_book(inspection: Inspection) -> bool:
    """Write what is not as it should be, and say so. Gives whether anything was written."""
    from bindery.figures import draw_figures
    from bindery.regions import fill_chapter
    from bindery.render.output import write_whole
    from bindery.report import count_noun

    folder = inspection.config.figures
    tree, evidence, quotations = inspection.tree, inspection.evidence, inspection.quotations
    written = False
    for name, content in draw_figures(tree, folder, evidence, quotations):
        (tree.root / name).parent.mkdir(parents=True, exist_ok=True)
        write_whole(tree.root / name, content)
        print(f"{name}: drawn")
        written = True
    for name, content in inspection.baselines.items():
        path = tree.root / name
        if not path.is_file() or path.read_bytes() != content:
            write_whole(path, content)
            print(f"{name}: written")
            written = True
    for chapter in inspection.book.chapters:
        text, changed = fill_chapter(chapter, quotations[chapter.path], evidence, folder)
        if changed:
            path = tree.root / chapter.path
            newline = b"\r\n" if b"\r\n" in path.read_bytes() else b"\n"
            write_whole(path, text.encode().replace(b"\n", newline))
            what = ", ".join(count_noun(number, kind) for kind, number in changed.items())
            print(f"{chapter.path}: filled {what}")
            written = True
    return written


_EVIDENCE_RULES = frozenset(
    """bad-data bad-record edited-record bad-view unclosed-region unknown-view unknown-record
    edited-output stale-output old-method old-record unsourced-number""".split()
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


@app.command(context_settings={"allow_extra_args": True})
def run(
    context: typer.Context,
    tool: Annotated[
        str | None, typer.Argument(help="A tool that chapters.yaml names.", show_default=False)
    ] = None,
    profile: Annotated[str, typer.Option(help="Which set of arguments: toy or full.")] = "toy",
    timeout: Annotated[
        str, typer.Option(metavar="TIME", help="The run is ended after it: 90, 10m, 2h.")
    ] = "1h",
    memory: Annotated[
        str | None,
        typer.Option(
            metavar="SIZE",
            help="The run is ended above it: 8, 8GiB, 500MiB. Nine tenths of what is free else.",
        ),
    ] = None,
    output: Annotated[
        str, typer.Option(metavar="SIZE", help="The run is ended when it has printed more.")
    ] = "16MiB",
    ranks: Annotated[
        int | None, typer.Option(min=1, help="Ranks on each node, started by torchrun.")
    ] = None,
    env: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="An environment variable to hand on; repeatable."),
    ] = None,
    text: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Store what the tool prints for this text instead."),
    ] = None,
    texts: Annotated[
        bool, typer.Option("--texts", help="Store what the tool prints for each of its texts.")
    ] = False,
    on: Annotated[
        Place, typer.Option(help="Where it runs: on this machine, or on a cluster.")
    ] = "local",
    nodes: Annotated[int, typer.Option(min=1, help="Slurm: number of nodes.")] = 1,
    cpus: Annotated[int | None, typer.Option(min=1, help="Slurm: CPUs on each node.")] = None,
    gpus: Annotated[int | None, typer.Option(min=1, help="Slurm: GPUs on each node.")] = None,
    partition: Annotated[str, typer.Option(help="Slurm: the partition.")] = "",
    account: Annotated[str, typer.Option(help="Slurm: the account.")] = "",
    qos: Annotated[str, typer.Option(help="Slurm: the quality of service.")] = "",
    sbatch: Annotated[
        list[str] | None,
        typer.Option(metavar="OPTION", help="Slurm: a further option of sbatch; repeatable."),
    ] = None,
    container: Annotated[
        str, typer.Option(metavar="IMAGE", help="Slurm: the container that it runs in.")
    ] = "",
    container_runtime: Annotated[
        Runtime | None, typer.Option(help="Slurm: what starts the container.")
    ] = None,
    python: Annotated[
        str,
        typer.Option(
            metavar="PATH",
            help="Slurm: Python on the nodes; this one by default, python3 in a container.",
        ),
    ] = "",
    sweep: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=V1,V2",
            help="Slurm: a task for each value, given as --NAME V; repeatable: each combination.",
        ),
    ] = None,
    repeat: Annotated[int, typer.Option(min=1, help="Slurm: so many tasks of each kind.")] = 1,
    via: Annotated[Via, typer.Option(help="Slurm: how the job is submitted.")] = "sbatch",
    folder: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Slurm: the folder of the run, which the nodes see too; below dist/runs/ else.",
        ),
    ] = None,
    no_wait: Annotated[
        bool, typer.Option("--no-wait", help="Slurm: submit the job, and leave it to itself.")
    ] = False,
    collect: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Make the records of a run that was not waited for."),
    ] = None,
    root: Root = Path(),
    quiet: Quiet = False,
) -> None:
    """Run a companion tool within limits and leave a record. Arguments behind -- go to the tool."""
    if on == "local":
        _refuse_cluster_options(context)
    if collect is not None:
        from bindery.cluster import collect_run

        _print_collected(collect_run(root, collect))
        return
    if tool is None:
        hint = "`bindery run TOOL`; chapters.yaml lists the tools under `tools:`"
        raise ConfigError(Finding(Span.whole("run"), "config", "no tool is named", hint))
    if text or texts:
        from bindery.verify import record_texts

        paths = record_texts(root, tool, () if texts else text or ())
        for path in paths:
            print(f"recorded {path}")
        if not paths:
            print("every text is as it was stored")
        return
    from bindery.recording import Limits, plan_run, record_run
    from bindery.units import parse_bytes, parse_seconds

    limits = Limits(
        _read_amount("--timeout", timeout, parse_seconds),
        None if memory is None else int(_read_amount("--memory", memory, parse_bytes, "GiB")),
        int(_read_amount("--output", output, parse_bytes, "MiB")),
    )
    plan = plan_run(root, tool, profile, context.args, ranks=ranks, passed=env or ())
    if on == "slurm":
        from bindery.cluster import run_on_slurm
        from bindery.jobs import Request

        if bool(container) != bool(container_runtime):
            message = "--container and --container-runtime belong together"
            hint = "the runtimes are pyxis and apptainer"
            raise ConfigError(Finding(Span.whole("--container"), "config", message, hint))
        request = Request(
            seconds=limits.seconds,
            log_bytes=limits.output_bytes,
            nodes=nodes,
            cpus=cpus,
            gpus=gpus,
            memory_bytes=limits.memory_bytes,
            partition=partition,
            account=account,
            qos=qos,
            options=tuple(sbatch or ()),
            container=container,
            runtime=container_runtime,
            python=python or ("python3" if container else sys.executable),
        )
        collected = run_on_slurm(
            plan,
            request,
            (lambda _line: None) if quiet else lambda line: print(line, file=sys.stderr),
            tasks=_read_tasks(sweep or [], repeat),
            folder=folder,
            via=via,
            waits=not no_wait,
        )
        _print_collected(collected)
        return
    with _show_run(tool, limits.seconds, quiet) as (show, watch):
        recorded = record_run(plan, limits, show=show, watch=watch)
    if recorded.record:
        print(f"recorded {recorded.record}")
    if recorded.finding:
        raise BookError(recorded.finding)


# What makes sense on a cluster alone.
_CLUSTER_OPTIONS = """nodes cpus gpus partition account qos sbatch container container_runtime
python sweep repeat via folder no_wait""".split()


def _refuse_cluster_options(context: typer.Context) -> None:
    for name in _CLUSTER_OPTIONS:
        source = context.get_parameter_source(name)
        if source is not None and source.name == "COMMANDLINE":
            option = f"--{name.replace('_', '-')}"
            message = f"{option} is for runs on a cluster"
            raise ConfigError(Finding(Span.whole(option), "config", message, "add `--on slurm`"))


def _read_tasks(sweeps: Sequence[str], repeat: int) -> tuple[tuple[str, ...], ...]:
    from bindery.jobs import parse_sweep, spread_tasks

    try:
        return spread_tasks([parse_sweep(text) for text in sweeps], repeat)
    except ValueError as error:
        raise ConfigError(Finding(Span.whole("--sweep"), "config", str(error))) from None


def _print_collected(collected: Collected) -> None:
    for path in collected.records:
        print(f"recorded {path}")
    if collected.findings:
        raise BookError(*collected.findings)


def _read_amount(option: str, text: str, parse: Callable[..., float], *default: str) -> float:
    try:
        return parse(text, *default)
    except ValueError as error:
        raise ConfigError(Finding(Span.whole(option), "config", str(error))) from None


@contextmanager
def _show_run(
    tool: str, seconds: float, quiet: bool
) -> Iterator[tuple[Callable[[str, str], None] | None, Callable[[float, int], None] | None]]:
    """What shows a run: its lines on standard error, and on a terminal how long it has run and
    how much memory it has."""
    if quiet:
        yield None, None
        return
    if not sys.stderr.isatty():
        yield lambda _stream, line: print(line, end="", file=sys.stderr, flush=True), None
        return
    from rich.console import Console
    from rich.text import Text

    console = Console(stderr=True)
    with console.status(f"{tool} begins") as status:

        def show(_stream: str, line: str) -> None:
            console.print(Text.from_ansi(line.rstrip("\r\n")))

        def watch(passed: float, memory: int) -> None:
            status.update(f"{tool}: {passed:.0f} s of {seconds:.0f} s, {memory / 2**30:.2f} GiB")

        yield show, watch


@app.command()
def verify(
    tools: Annotated[
        list[str] | None, typer.Argument(help="Tools of the book; all of them if none is named.")
    ] = None,
    root: Root = Path(),
) -> None:
    """Run again what can be run again: texts to the letter, toy results in value or shape."""
    from bindery.report import count_noun
    from bindery.verify import verify_tools

    verified = verify_tools(root, tools or ())
    errors = count_noun(len(verified.findings), "error")
    counts = ((verified.tools, "tool"), (verified.texts, "text"), (verified.runs, "run"))
    what = ", ".join(count_noun(number, noun) for number, noun in counts)
    print(f"verified {what}: {errors}")
    if verified.findings:
        raise BookError(*verified.findings)


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


class ListFormat(enum.StrEnum):
    """How a list is printed."""

    TEXT = "text"
    JSON = "json"


ListAs = Annotated[ListFormat, typer.Option("--format", help="How it is printed.")]


@app.command()
def records(
    name: Annotated[
        str | None, typer.Argument(metavar="[NAME]", help="One record, shown in full.")
    ] = None,
    stale: Annotated[
        bool, typer.Option("--stale", help="Only stale ones; exit status 1 if there are any.")
    ] = False,
    unused: Annotated[
        bool, typer.Option("--unused", help="Only unused ones; exit status 1 if there are any.")
    ] = False,
    tool: Annotated[str, typer.Option(metavar="TOOL", help="Only those of this tool.")] = "",
    machine: Annotated[
        str, typer.Option(metavar="TEXT", help="Only those whose machine or hardware has this.")
    ] = "",
    output: ListAs = ListFormat.TEXT,
    root: Root = Path(),
) -> None:
    """List the records of runs: what was measured when and on what, and whether it still holds."""
    from bindery import record_list
    from bindery.clock import read_today
    from bindery.freshness import read_methods
    from bindery.pipeline import inspect_book
    from bindery.report import count_noun

    inspection = inspect_book(root)
    evidence, tools = inspection.evidence, inspection.config.tools
    methods = read_methods(inspection.tree, tools)
    listed = record_list.list_records(evidence, inspection.quotations, methods, read_today())
    if name is not None:
        entry = record_list.find_record(name, listed)
        listed = (entry,)
        text = record_list.format_record(entry, evidence.records.get(entry.name))
    else:
        listed = record_list.choose_records(
            listed, tools, tool=tool, machine=machine, stale=stale, unused=unused
        )
        text = record_list.format_list(listed) + f"{count_noun(len(listed), 'record')}\n"
    if output is ListFormat.JSON:
        text = record_list.format_list_json(listed)
    sys.stdout.write(text)
    raise typer.Exit(FINDINGS if (stale or unused) and listed and name is None else CLEAN)


@app.command()
def compare(
    target: Annotated[
        str,
        typer.Argument(
            metavar="RECORD", help="A record of the book, or a file that a tool wrote with --json."
        ),
    ],
    against: Annotated[
        str, typer.Option(metavar="NAME", help="Only with this record of the book.")
    ] = "",
    tolerance: Annotated[
        str, typer.Option(metavar="SHARE", help="The least that may differ: 5% or 0.05.")
    ] = "5%",
    facts: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="JSON of env_report.py on the machine of the run."),
    ] = None,
    hardware: Annotated[
        str, typer.Option(metavar="TEXT", help="The hardware of the run: '8 x NVIDIA H200'.")
    ] = "",
    output: ListAs = ListFormat.TEXT,
    root: Root = Path(),
) -> None:
    """Compare a run with the newest record that is like it. 1: worse than expected; 2: nothing
    is like it, and why."""
    import json

    from bindery import compare as comparing
    from bindery import verdicts
    from bindery.comparison import NothingAlikeError

    share = _read_amount("--tolerance", tolerance, comparing.parse_share)
    try:
        comparison = comparing.compare_with_book(
            root, target, against=against, hardware=hardware, facts=facts, tolerance=share
        )
    except NothingAlikeError as error:
        if output is ListFormat.JSON:
            print(json.dumps({"record": None, "sentences": error.reasons}, indent=1))
        else:
            print("\n".join(("nothing to compare with", *error.reasons)))
        raise typer.Exit(WRONG_USE) from None
    if output is ListFormat.JSON:
        document = verdicts.make_document(comparison, share)
        print(json.dumps(document, indent=1, ensure_ascii=False))
    else:
        sentences = "\n".join(verdicts.write_sentences(comparison))
        print(f"{sentences}\n\n{verdicts.format_cells(verdicts.make_cells(comparison))}")
    raise typer.Exit(FINDINGS if comparison.is_worse else CLEAN)


# --- what the commands share ---


def _begin_build(
    output: str, root: Path, out: Path | None, lenient: bool
) -> tuple[Inspection, Edition, Path]:
    """Inspect the book and stop at its errors, or where chapters.yaml does not list the output,
    before anything is made."""
    from bindery.edition import find_edition
    from bindery.pipeline import inspect_book
    from bindery.render.appendix import append_appendix

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
    edition = find_edition(inspection.config)
    return append_appendix(inspection, edition), edition, _find_out(root, out)


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
    except OSError as error:
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
