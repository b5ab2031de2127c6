"""`bindery html`, `pdf` and `epub`: one output each, with the proof that it is complete."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

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
from bindery.core.config import PAPERS
from bindery.core.model import ConfigError, Severity, refuse

if TYPE_CHECKING:
    from bindery.book.this_edition import Edition
    from bindery.check.inspect import Inspection
    from bindery.core.cache import Cache
    from bindery.render.completeness import Proof


lenient_option = click.option(
    "--lenient", is_flag=True, help="Build in spite of errors, and list them."
)


@click.command("html")
@root_option
@out_option
@lenient_option
@quiet_option
@why_option
def html(
    root: Path,
    out: Path | None,
    lenient: bool,
    quiet: bool,
    why: bool,
) -> None:
    """Build the site."""
    from bindery.render.site.building import build_site, find_clashes

    with open_cache(root, why=why) as cache:
        inspection, edition, folder, _ = _begin_build("html", root, out, lenient, cache)
        if clashes := find_clashes(inspection.config):
            raise ConfigError(*clashes)
        with show_progress("site", len(inspection.book.chapters), quiet) as progress:
            site = folder / "site"
            proof = build_site(
                inspection, edition, site, progress, allows_losses=lenient, cache=cache
            )
        print_troubles(proof.report_lacks(), inspection.tree)
        _end_build(proof, edition, folder, site, root)


@click.command("pdf")
@root_option
@out_option
@click.option(
    "--paper",
    type=click.Choice(PAPERS),
    help="Lay out for this paper, whatever chapters.yaml asks for; give --out too to keep both.",
)
@lenient_option
@quiet_option
def pdf(
    root: Path,
    out: Path | None,
    paper: str | None,
    lenient: bool,
    quiet: bool,
) -> None:
    """Build the PDF."""
    from bindery.render.pdf.pdf import STEPS, build_pdf

    inspection, edition, folder, skips_images = _begin_build("pdf", root, out, lenient)
    if paper:
        inspection = replace(inspection, config=replace(inspection.config, paper=paper))
    path = folder / f"{inspection.config.name}.pdf"
    with show_progress("PDF", len(inspection.book.chapters) + STEPS, quiet) as progress:
        proof, findings = build_pdf(
            inspection, edition, path, progress, lenient=skips_images, allows_losses=lenient
        )
    print_troubles([*findings, *proof.report_lacks()], inspection.tree)
    _end_build(proof, edition, folder, path, root)


@click.command("epub")
@root_option
@out_option
@lenient_option
@quiet_option
@why_option
def epub(
    root: Path,
    out: Path | None,
    lenient: bool,
    quiet: bool,
    why: bool,
) -> None:
    """Build the EPUB."""
    from bindery.render.epub.epub import STEPS, build_epub

    with open_cache(root, why=why) as cache:
        inspection, edition, folder, skips_images = _begin_build("epub", root, out, lenient, cache)
        path = folder / f"{inspection.config.name}.epub"
        with show_progress("EPUB", len(inspection.book.chapters) + STEPS, quiet) as progress:
            proof, findings = build_epub(
                inspection,
                edition,
                path,
                progress,
                lenient=skips_images,
                allows_losses=lenient,
                cache=cache,
            )
        print_troubles([*findings, *proof.report_lacks()], inspection.tree)
        _end_build(proof, edition, folder, path, root)


def _begin_build(
    output: str, root: Path, out: Path | None, lenient: bool, cache: Cache | None = None
) -> tuple[Inspection, Edition, Path, bool]:
    """Inspect the book and stop at its errors, accepted ones aside, or where chapters.yaml does not
    list the output, before anything is made. The last value is whether to build leniently."""
    from bindery.book.this_edition import find_edition
    from bindery.check.baseline_use import sift_listed
    from bindery.check.inspect import inspect_book
    from bindery.render.appendix import append_appendix

    inspection = inspect_book(root, cache=cache)
    if output not in inspection.config.formats:
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
    edition = find_edition(inspection.config)
    # What is accepted does not stop an output, an image that cannot be read as little as a link.
    lenient = lenient or any(f.severity is Severity.ERROR for f in sifted.accepted)
    return append_appendix(inspection), edition, find_out(root, out), lenient


def _end_build(proof: Proof, edition: Edition, folder: Path, path: Path, root: Path) -> None:
    from bindery.core.repository import REPORT
    from bindery.render.completeness import write_proof

    write_proof(folder / REPORT, proof, edition, path.name)
    try:
        shown = path.relative_to(root.resolve())
    except ValueError:
        shown = path
    print(f"{shown}: {proof.summarise()}")
