"""`bindery compare`: a run beside the records of the book."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from bindery.console import CLEAN, FINDINGS, WRONG_USE, ListAs, ListFormat, Root, read_amount


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

    share = read_amount("--tolerance", tolerance, comparing.parse_share)
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
