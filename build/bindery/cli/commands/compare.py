"""`bindery compare`: compare a run with the book's records."""

from __future__ import annotations

from pathlib import Path

import click

from bindery.cli.console import (
    CLEAN,
    FINDINGS,
    USAGE_ERROR,
    ListFormat,
    list_format_option,
    read_amount,
    root_option,
)


@click.command("compare")
@click.argument(
    "target",
    metavar="RECORD",
    help="A record of the book, or the --json output of a tool.",
)
@click.option(
    "--against",
    default="",
    metavar="NAME",
    show_default=False,
    help="Compare with this record only.",
)
@click.option("--tolerance", default="5%", metavar="SHARE", help="Minimum tolerance: 5% or 0.05.")
@click.option(
    "--facts",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="JSON output of env_report.py on the machine of the run.",
)
@list_format_option
@root_option
def compare(
    target: str,
    against: str,
    tolerance: str,
    facts: Path | None,
    output: ListFormat,
    root: Path,
) -> None:
    """Compare a run with the newest comparable record. Exit status 0: as expected, better
    or not judged; 1: worse than expected; 2: no record is comparable."""
    import json

    from bindery.check.rules import RULES
    from bindery.core.config import load_config
    from bindery.evidence.compare import find as comparing
    from bindery.evidence.compare import words as verdicts
    from bindery.evidence.compare.judge import NothingAlikeError

    share = read_amount("--tolerance", tolerance, comparing.parse_share)
    try:
        config = load_config(root, RULES)
        comparison = comparing.compare_with_book(
            config, target, against=against, facts=facts, tolerance=share
        )
    except NothingAlikeError as error:
        if output is ListFormat.JSON:
            print(json.dumps({"record": None, "sentences": error.reasons}, indent=1))
        else:
            print("\n".join(("nothing to compare with", *error.reasons)))
        raise SystemExit(USAGE_ERROR) from None
    if output is ListFormat.JSON:
        document = verdicts.make_document(comparison, share)
        print(json.dumps(document, indent=1, ensure_ascii=False))
    else:
        print(
            "\n".join((*verdicts.write_sentences(comparison), "", verdicts.write_table(comparison)))
        )
    raise SystemExit(FINDINGS if comparison.is_worse else CLEAN)
