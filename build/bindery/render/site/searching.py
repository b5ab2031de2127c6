"""What the search of a site looks into: Pagefind's index for pages that come from a server, and a
small index that a page opened as a file can read as well."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from pathlib import Path

from bindery.core.model import BookError, Finding, Span
from bindery.core.processes import CommandMissingError, CommandTimeoutError, run_command
from bindery.render.addresses import quote_path
from bindery.render.site.model import Page

INDEX = "search-index.js"
PAGEFIND = "pagefind"
_SECONDS = 300.0
_NEEDED = (".js", ".pf_meta", ".pf_fragment", ".pf_index", ".pagefind", ".json")
_UNUSED = ("component-ui", "modular-ui", "-ui.", "highlight")
"""Ready-made widgets of Pagefind, half a megabyte of them: the site has its own."""


def write_index(pages: Iterable[Page]) -> str:
    """A script that holds the text of every section: for each page its address, its title, its
    sections as [anchor, heading, text], and its weight. Scripts are all that a file may read
    beside it."""
    entries = [
        [
            quote_path(page.place),
            page.title,
            [[section.slug, section.title, section.text] for section in page.sections],
            page.weight,
        ]
        for page in pages
        if page.sections is not None
    ]
    text = json.dumps(entries, ensure_ascii=False, separators=(",", ":"))
    # These two end a line of a script, though not one of JSON.
    text = text.replace("\N{LINE SEPARATOR}", " ").replace("\N{PARAGRAPH SEPARATOR}", " ")
    return f"window.searchIndex = {text};\n"


def run_pagefind(site: Path) -> None:
    """Let Pagefind index the pages of a site: everything in an element `data-pagefind-body`.

    Raises BookError if it fails.
    """
    command = (sys.executable, "-m", "pagefind", "--site", str(site))
    try:
        answer = run_command((*command, "--output-subdir", PAGEFIND), folder=site, timeout=_SECONDS)
    except CommandMissingError as error:
        raise BookError(_report(str(error))) from None
    except CommandTimeoutError:
        raise BookError(_report(f"no answer within {_SECONDS:g} s")) from None
    if answer.returncode:
        said = (answer.stderr or answer.stdout).strip().splitlines()
        raise BookError(_report(said[-1] if said else f"it ended with status {answer.returncode}"))
    for path in (site / PAGEFIND).iterdir():
        if path.is_file() and (
            not path.name.endswith(_NEEDED) or any(part in path.name for part in _UNUSED)
        ):
            path.unlink()


def _report(reason: str) -> Finding:
    message = f"the search index could not be built: {reason}"
    hint = "install bindery again, pagefind comes with it"
    return Finding(Span.whole("site"), "engine-message", message, hint)
