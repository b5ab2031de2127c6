"""The second opinion on links: linkchecker over the built site, and the targets in the ebooks.

It shares no code with the resolver. Where the two disagree, that is a finding of its own.
"""

from __future__ import annotations

import csv
import io
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import unquote, urlsplit
from urllib.request import url2pathname

from bindery.edition import Edition
from bindery.model import BookError, Chapter, Finding, Severity, Span, ToWeb
from bindery.pipeline import Inspection
from bindery.render.addresses import find_page
from bindery.render.html import SiteDialect
from bindery.run import CommandTimeoutError, run_command

RULE = "second-opinion"
_TIMEOUT = 900.0
_TIMEOUT_ON_WEB = 4 * 3600.0
# One process, no threads: more of them make it slower. Every page is given to it, because what
# lies outside the folder of the first page would be "filtered", which it counts as valid. On the
# web it asks a host once a second, as `robots.txt` allows.
_SETTINGS = """\
[checking]
threads={threads}
maxrequestspersecond=1
timeout=30
[AnchorCheck]
[filtering]
checkextern={external}
[csv]
parts=urlname,parentname,result,warningstring,valid,line,column
"""


def crawl_outputs(
    inspection: Inspection,
    edition: Edition,
    folder: Path,
    progress: Callable[[str], None],
    *,
    external: bool = False,
) -> tuple[list[Finding], str]:
    """Findings on the outputs that lie in `folder`, and the line that sums them up.

    With `external` the links to the web are followed too, which takes minutes; what does not
    answer there is a warning, for it may answer tomorrow.

    Raises BookError where there is no site to crawl.
    """
    site = folder / "site"
    if not site.is_dir():
        raise BookError(_report_missing(inspection, "site", "html"))
    progress("site")
    findings, count = _crawl_site(inspection, edition, site, external=external)
    checked = [f"{count:,} links of the site".replace(",", "\N{NO-BREAK SPACE}")]
    name = inspection.config.name
    for ending, check in (("epub", _check_epub), ("pdf", _check_pdf)):
        path = folder / f"{name}.{ending}"
        if path.is_file():
            progress(ending.upper())
            missing, total = check(path)
            checked.append(f"{total:,} of the {ending.upper()}".replace(",", "\N{NO-BREAK SPACE}"))
            findings += [
                Finding(
                    Span.whole(inspection.config.file),
                    RULE,
                    f"a link of the {ending.upper()} leads nowhere: {target}",
                    "the resolver saw no fault in it; please report this",
                )
                for target in missing
            ]
    summary = f"crawled {', '.join(checked)}: {len(findings)} " + (
        "finding" if len(findings) == 1 else "findings"
    )
    return findings, summary


def _report_missing(inspection: Inspection, what: str, session: str) -> Finding:
    message = f"there is no {what} to crawl"
    return Finding(
        Span.whole(inspection.config.file), RULE, message, f"run `bindery {session}` first"
    )


# --- the site ---


@contextmanager
def _readable_copy(site: Path) -> Iterator[Path]:
    """The site where linkchecker can read it: run as root it becomes "nobody", who may not enter
    the folders of others, and then it calls every page dead."""
    if not hasattr(os, "geteuid") or os.geteuid() != 0:
        yield site
        return
    with tempfile.TemporaryDirectory(prefix="bindery-crawl-") as name:
        copy = Path(name) / "site"
        shutil.copytree(site, copy)
        for path in (Path(name), copy, *copy.rglob("*")):
            path.chmod(0o755 if path.is_dir() else 0o644)
        yield copy


def _crawl_site(
    inspection: Inspection, edition: Edition, site: Path, *, external: bool
) -> tuple[list[Finding], int]:
    with _readable_copy(site) as copy, tempfile.NamedTemporaryFile("w", suffix=".ini") as settings:
        settings.write(_SETTINGS.format(threads=4 * external, external=int(external)))
        settings.flush()
        Path(settings.name).chmod(0o644)
        pages = sorted(str(page) for page in copy.rglob("*.html"))
        command = [sys.executable, "-m", "linkcheck", f"--config={settings.name}"]
        command += ["--no-status", "--verbose", "--output=csv", *pages]
        limit = _TIMEOUT_ON_WEB if external else _TIMEOUT
        environment = dict(os.environ) | {"HOME": tempfile.gettempdir()}
        try:
            done = run_command(command, folder=copy, timeout=limit, environment=environment)
        except CommandTimeoutError as error:
            raise BookError(Finding(Span.whole(inspection.config.file), RULE, str(error))) from None
        if done.code not in (0, 1):
            last = (done.stderr.strip() or done.stdout.strip()).splitlines()
            reason = last[-1] if last else f"exit status {done.code}"
            raise BookError(
                Finding(Span.whole(inspection.config.file), RULE, f"linkchecker failed: {reason}")
            )
        rows = list(_read_rows(done.stdout))
        links = [row for row in rows if row["parentname"]]
        if not links:
            message = "linkchecker looked at no link at all, so its silence means nothing"
            raise BookError(Finding(Span.whole(inspection.config.file), RULE, message))
        places = _find_places(inspection, edition)
        findings = [
            _report_row(row, copy, places, inspection.config.file)
            for row in rows
            if row["valid"].lower() != "true" or row["warningstring"].strip()
        ]
    return findings, len(links)


def _read_rows(text: str) -> Iterator[dict[str, str]]:
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    yield from csv.DictReader(io.StringIO("\n".join(lines)), delimiter=";")


def _find_places(inspection: Inspection, edition: Edition) -> Mapping[tuple[str, str], Span]:
    """Where the author wrote the link that a page of the site holds, by page and address."""
    config = inspection.config
    pages = {c.path: find_page(c.path, config.folder) for c in inspection.book.chapters}
    dialect = SiteDialect(config, edition, pages)
    places: dict[tuple[str, str], Span] = {}

    def note(chapter: Chapter, address: str | None, span: Span) -> None:
        if address is not None:
            places.setdefault((pages[chapter.path], unquote(address)), span)

    for chapter in inspection.book.chapters:
        for link in chapter.links:
            target = inspection.resolved.find_target(link)
            if isinstance(target, ToWeb):
                note(chapter, target.url, link.span)
            elif target is not None:
                if link.is_image:
                    image = dialect.write_image(target, chapter)
                    note(chapter, image.src if image else None, link.span)
                else:
                    note(chapter, dialect.write_href(target, chapter), link.span)
    return places


def _report_row(
    row: Mapping[str, str], site: Path, places: Mapping[tuple[str, str], Span], fallback: str
) -> Finding:
    page = _find_parent(row["parentname"], site)
    span = places.get((page, unquote(row["urlname"])), Span.whole(fallback))
    is_web = row["urlname"].startswith(("http:", "https:"))
    valid = row["valid"].lower() == "true"
    said = " ".join((row["warningstring"] if valid else row["result"]).split())
    message = f"linkchecker does not follow '{row['urlname']}' on the page '{page}': {said}"
    hint = "the resolver saw no fault in it, so one of the two is wrong; please report this"
    if is_web:
        hint = "look at the page, and mend or replace the link"
    return Finding(span, RULE, message, hint, Severity.WARNING if is_web else Severity.ERROR)


def _find_parent(address: str, site: Path) -> str:
    path = Path(url2pathname(urlsplit(address).path))
    try:
        return path.relative_to(site).as_posix()
    except ValueError:
        return address


# --- the ebooks ---


def _check_pdf(path: Path) -> tuple[list[str], int]:
    """Destinations that no page has, and how many links there are."""
    from bindery.render.pdf import list_link_faults

    return list_link_faults(path)


def _check_epub(path: Path) -> tuple[list[str], int]:
    from bindery.render.epub import list_link_faults

    return list_link_faults(path)
