"""`bindery bundle`: companion tools as single files."""

from __future__ import annotations

import hashlib
from pathlib import Path

import click

from bindery.cli.console import CLEAN, root_option
from bindery.core.model import refuse


@click.command("bundle")
@click.argument("tools", nargs=-1, metavar="[TOOL]...")
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Output folder.  [default: dist/tools]",
)
@root_option
def bundle(*, tools: tuple[str, ...], out: Path | None, root: Path) -> None:
    """Bundle companion tools, by default all of them, into single files that run alone.

    Each file contains the tool and the kit modules it uses. Prints the SHA-256 of each file.
    """
    from bindery.check.rules import RULES
    from bindery.core.config import load_config
    from bindery.core.whole_files import write_whole
    from bindery.runs.plan_run import find_tool
    from bindery.tools.bundle import BundleError, bundle_file

    config = load_config(root.resolve(), RULES)
    entries = [find_tool(config, name) for name in tools] or list(config.tools)
    folder = out or root / "dist/tools"
    folder.mkdir(parents=True, exist_ok=True)
    for entry in entries:
        try:
            text = bundle_file(root, entry.path)
        except BundleError as error:
            raise refuse(error.span, str(error)) from None
        except OSError as error:
            raise refuse(entry.path, str(error)) from None
        target = folder / Path(entry.path).name
        write_whole(target, text.encode())
        print(f"{hashlib.sha256(text.encode()).hexdigest()}  {target}")
    raise SystemExit(CLEAN)
