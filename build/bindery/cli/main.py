"""The command line: subcommands, and the exit status of each error.

0 success, 1 findings, 2 usage or configuration error, 70 internal error.
"""

from __future__ import annotations

import io
import os
import sys
import traceback
from importlib import import_module
from pathlib import Path
from typing import NoReturn

import click

from bindery import __version__
from bindery.cli.console import (
    BROKEN_PIPE,
    BUG,
    FINDINGS,
    USAGE_ERROR,
    explain_trouble,
    print_troubles,
)
from bindery.core.model import BookError, ConfigError, Severity

VERBS = {
    "init": ("init", "init"),
    "new": ("new", "new"),
    "check": ("check", "check"),
    "serve": ("serve", "serve"),
    "build": ("outputs", "build"),
    "html": ("outputs", "html"),
    "pdf": ("outputs", "pdf"),
    "epub": ("outputs", "epub"),
    "fill": ("fill", "fill"),
    "links": ("links", "links"),
    "mv": ("mv", "mv"),
    "refs": ("refs", "refs"),
    "format": ("format", "format_sources"),
    "run": ("run", "run"),
    "submit": ("submit", "submit"),
    "bundle": ("bundle", "bundle"),
    "verify": ("verify", "verify"),
    "records": ("records", "records"),
    "compare": ("compare", "compare"),
    "count": ("count", "count"),
    "import": ("importing", "import_book"),
}
"""Subcommands with their module in `bindery.cli.commands` and their function."""


class _Verbs(click.Group):
    """The subcommands, each imported on use."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in VERBS:
            from bindery.core.suggestions import find_nearest

            nearest = find_nearest(cmd_name, VERBS)
            ctx.fail(
                f"There is no command '{cmd_name}'."
                + (f" Did you mean '{nearest}'?" if nearest else "")
            )
        module, function = VERBS[cmd_name]
        command = getattr(import_module(f"bindery.cli.commands.{module}"), function)
        assert isinstance(command, click.Command)
        return command

    def invoke(self, ctx: click.Context) -> object:
        try:
            return super().invoke(ctx)
        except BrokenPipeError:  # click would exit with 1, which means findings
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            sys.exit(BROKEN_PIPE)


@click.group(
    cls=_Verbs,
    context_settings={
        "help_option_names": ["-h", "--help"],
        "show_default": True,
        "max_content_width": 100,
    },
    no_args_is_help=True,
)
@click.version_option(
    __version__, message="bindery %(version)s", help="Print the version and exit."
)
def bindery() -> None:
    """Build a site, a PDF and an EPUB from a book in GitHub Markdown, and check every link."""


def _stop(error: BookError, status: int) -> NoReturn:
    from bindery.core.repository import Tree

    print_troubles(error.findings, Tree(_find_root_argument()))
    errors = sum(finding.severity is Severity.ERROR for finding in error.findings)
    print(f"stopped: {errors} error{'' if errors == 1 else 's'}", file=sys.stderr)
    sys.exit(status)


def _find_root_argument() -> Path:
    arguments = sys.argv[1:]
    for position, argument in enumerate(arguments):
        if argument == "--root" and position + 1 < len(arguments):
            return Path(arguments[position + 1])
        if argument.startswith("--root="):
            return Path(argument.removeprefix("--root="))
    return Path()


def main() -> None:
    """Run the program and exit."""
    # File names may be invalid UTF-8, and a terminal may not support every character.
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    try:
        # click returns the exit status as a number.
        sys.exit(bindery.main(prog_name="bindery", standalone_mode=False))
    except click.ClickException as error:
        error.show()
        sys.exit(USAGE_ERROR)
    except ConfigError as error:
        _stop(error, USAGE_ERROR)
    except BookError as error:
        _stop(error, FINDINGS)
    except OSError as error:
        _stop(explain_trouble(error), USAGE_ERROR)
    except (KeyboardInterrupt, click.Abort):
        print("interrupted; existing files are unchanged", file=sys.stderr)
        sys.exit(130)
    except Exception:  # noqa: BLE001 - report any bug with its traceback
        traceback.print_exc()
        print("this is a bug in bindery; please report it with the lines above", file=sys.stderr)
        sys.exit(BUG)
