"""`bindery html`, `pdf`, `epub`, and `build` for all three. Each ends with the completeness
proof."""

from __future__ import annotations

import gc
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click
from msgspec.structs import replace

from bindery.cli.console import (
    FINDINGS,
    Format,
    find_out,
    open_cache,
    out_option,
    print_findings,
    print_troubles,
    quiet_option,
    root_option,
    show_progress,
    why_option,
)
from bindery.core.config import PAPERS, Config
from bindery.core.model import ConfigError, Finding, Severity, refuse

if TYPE_CHECKING:
    from bindery.book.this_edition import Edition
    from bindery.check.inspect import Inspection
    from bindery.core.cache import Cache
    from bindery.render.completeness import Proof


lenient_option = click.option(
    "--lenient", is_flag=True, help="Build despite errors, and list them."
)
ORDER = ("pdf", "epub", "html")
"""The EPUB has the page numbers of the PDF, and the site offers both."""


@click.command("build")
@root_option
@out_option
@lenient_option
@quiet_option
@why_option
def build(root: Path, out: Path | None, lenient: bool, quiet: bool, why: bool) -> None:
    """Build all outputs: the PDF, the EPUB, and the site with links to both."""
    _build((), root, out, lenient, quiet, why)


@click.command("html")
@root_option
@out_option
@lenient_option
@quiet_option
@why_option
def html(root: Path, out: Path | None, lenient: bool, quiet: bool, why: bool) -> None:
    """Build the site."""
    _build(("html",), root, out, lenient, quiet, why)


@click.command("pdf")
@root_option
@out_option
@click.option(
    "--paper",
    type=click.Choice(PAPERS),
    help="Paper size, instead of that in chapters.yaml; with another --out you keep both.",
)
@lenient_option
@quiet_option
@why_option
def pdf(
    root: Path, out: Path | None, paper: str | None, lenient: bool, quiet: bool, why: bool
) -> None:
    """Build the PDF."""
    _build(("pdf",), root, out, lenient, quiet, why, paper)


@click.command("epub")
@root_option
@out_option
@lenient_option
@quiet_option
@why_option
def epub(root: Path, out: Path | None, lenient: bool, quiet: bool, why: bool) -> None:
    """Build the EPUB."""
    _build(("epub",), root, out, lenient, quiet, why)


def _build(
    outputs: Sequence[str],
    root: Path,
    out: Path | None,
    lenient: bool,
    quiet: bool,
    why: bool,
    paper: str | None = None,
) -> None:
    """Build these outputs, by default all that chapters.yaml lists."""
    with open_cache(root, why=why) as cache:
        inspection, edition, folder, skips_images = _begin_build(outputs, root, out, lenient, cache)
        if paper:
            inspection = replace(inspection, config=replace(inspection.config, paper=paper))
        chapters = len(inspection.book.chapters)
        wanted = outputs or [one for one in ORDER if one in inspection.config.formats]
        for number, output in enumerate(wanted):
            if number:
                gc.collect()  # automatic collection is off
            path = folder / ("site" if output == "html" else f"{inspection.config.name}.{output}")
            findings: Sequence[Finding] = ()
            if output == "html":
                from bindery.render.site.building import build_site

                with show_progress("site", chapters, quiet) as progress:
                    proof = build_site(
                        inspection, edition, path, progress, allows_losses=lenient, cache=cache
                    )
            elif output == "pdf":
                from bindery.render.pdf import pdf as paged

                with show_progress("PDF", chapters + paged.STEPS, quiet) as progress:
                    proof, findings = paged.build_pdf(
                        inspection, edition, path, progress,
                        lenient=skips_images, allows_losses=lenient,
                    )  # fmt: skip
            else:
                from bindery.render.epub import epub as reflowing

                steps = chapters + reflowing.STEPS
                with show_progress("EPUB", steps, quiet) as progress:
                    proof, findings = reflowing.build_epub(
                        inspection, edition, path, progress,
                        lenient=skips_images, allows_losses=lenient, cache=cache,
                    )  # fmt: skip
            print_troubles([*findings, *proof.report_lacks()], inspection.tree)
            _end_build(proof, edition, inspection.config, folder, path)


def _begin_build(
    outputs: Sequence[str], root: Path, out: Path | None, lenient: bool, cache: Cache
) -> tuple[Inspection, Edition, Path, bool]:
    """Inspect the book. Stop before anything is built if there are errors that are not accepted, or
    if chapters.yaml does not list an output. The last value is whether to build leniently."""
    from bindery.book.this_edition import find_edition
    from bindery.check.baseline_use import sift_listed
    from bindery.check.inspect import inspect_book
    from bindery.render.appendix import append_appendix
    from bindery.render.numbering import read_blocks

    inspection = inspect_book(root, cache=cache, prepare=read_blocks)
    formats = inspection.config.formats
    for output in outputs:
        if output not in formats:
            message = f"this book has no output '{output}'"
            hint = "add it to `outputs: formats:`"
            raise refuse(inspection.config.file, message, hint)
    sifted = sift_listed(inspection)
    findings, accepted = (*sifted.fresh, *sifted.gone), len(sifted.accepted)
    if findings:
        print_findings(findings, inspection, Format.TEXT, accepted=accepted, to_stderr=True)
    if any(f.severity is Severity.ERROR for f in sifted.fresh) and not lenient:
        hint = "nothing was built: fix the errors, or build anyway with --lenient"
        print(hint, file=sys.stderr)
        raise SystemExit(FINDINGS)
    if not inspection.book.chapters:
        print("nothing was built: no chapter could be read", file=sys.stderr)
        raise SystemExit(FINDINGS)
    if "html" in (outputs or formats):
        from bindery.render.site.building import find_clashes

        if clashes := find_clashes(inspection.config):
            raise ConfigError(*clashes)
    edition = find_edition(inspection.config)
    # Accepted errors, such as unreadable images, must not stop a build.
    lenient = lenient or any(f.severity is Severity.ERROR for f in sifted.accepted)
    return append_appendix(inspection, cache), edition, find_out(root, out), lenient


def _end_build(proof: Proof, edition: Edition, config: Config, folder: Path, path: Path) -> None:
    from bindery.core.repository import REPORT
    from bindery.render.completeness import write_proof

    write_proof(folder / REPORT, proof, edition, path.name)
    try:
        shown = path.relative_to(config.root.resolve())
    except ValueError:
        shown = path
    print(f"{shown}: {proof.summarise({entry.path for entry in config.chapters})}")
