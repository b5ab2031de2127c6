"""The command line: its verbs, and the exit status that an error becomes.

0 clean, 1 findings, 2 wrong use or configuration, 70 a bug of ours.
"""

from __future__ import annotations

import gc
import io
import sys
import traceback
from collections.abc import Iterable
from importlib import import_module
from pathlib import Path
from typing import Annotated, NoReturn

import typer

from bindery import __version__
from bindery.console import BUG, CLEAN, FINDINGS, WRONG_USE
from bindery.model import BookError, ConfigError, Severity, Span

VERBS = {
    "check": ("check", "check"),
    "html": ("outputs", "html"),
    "pdf": ("outputs", "pdf"),
    "epub": ("outputs", "epub"),
    "fill": ("fill", "fill"),
    "links": ("links", "links"),
    "mv": ("mv", "mv"),
    "refs": ("refs", "refs"),
    "format": ("format", "format_sources"),
    "run": ("run", "run"),
    "verify": ("verify", "verify"),
    "records": ("records", "records"),
    "compare": ("compare", "compare"),
    "import": ("importing", "import_book"),
}
"""Each verb with its module in `bindery.commands` and its function there."""


def make_app(verbs: Iterable[str] = VERBS) -> typer.Typer:
    """The command line with these verbs. Each of them costs some hundredths of a second, most of
    which Typer needs to read its options."""
    app = typer.Typer(
        name="bindery",
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback(invoke_without_command=True)(start)
    for verb in verbs:
        module, function = VERBS[verb]
        command = getattr(import_module(f"bindery.commands.{module}"), function)
        settings = {"allow_extra_args": True} if verb == "run" else None
        app.command(name=verb, context_settings=settings)(command)
    return app


def start(
    version: Annotated[bool, typer.Option("--version", help="Print the version and stop.")] = False,
) -> None:
    """Bind a book of GitHub Markdown into a site, a PDF and an EPUB, every link checked."""
    if version:
        print(f"bindery {__version__}")
        raise typer.Exit(CLEAN)


def _stop(error: BookError, status: int) -> NoReturn:
    from bindery.report import format_finding

    for finding in error.findings:
        print(format_finding(finding, _read_file_line), file=sys.stderr)
    errors = sum(finding.severity is Severity.ERROR for finding in error.findings)
    print(f"stopped: {errors} error{'' if errors == 1 else 's'}", file=sys.stderr)
    sys.exit(status)


def _read_file_line(span: Span) -> str:
    """The line of a finding that came up before there was a book to read it from."""
    path = _find_root_argument() / span.path
    try:
        # A pipe would be waited for.
        text = path.read_text("utf-8-sig", errors="replace") if path.is_file() else ""
    except (OSError, ValueError):
        return ""
    lines = text.splitlines()
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
    # Names of files may be no text at all, and a terminal may not know all letters.
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    asked = sys.argv[1] if len(sys.argv) > 1 else ""
    try:
        make_app([asked] if asked in VERBS else VERBS)()
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
    except SystemExit as stop:
        # Typer turns Ctrl-C into an exit of its own, and says nothing.
        if isinstance(getattr(stop.__context__, "__cause__", None), KeyboardInterrupt):
            print("interrupted; what was there before is as it was", file=sys.stderr)
        raise
    except Exception:  # noqa: BLE001 - nothing above it could say more than the traceback
        traceback.print_exc()
        print("this is a bug of bindery; please report it with the lines above", file=sys.stderr)
        sys.exit(BUG)
