"""Run linkchecker over a built site."""

from __future__ import annotations

import csv
import io
import os
import shutil
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import unquote, urlsplit
from urllib.request import url2pathname

from bindery.core.processes import CommandTimeoutError, run_command

_TIMEOUT = 900.0
# Threads make it slower. It gets every page as an argument, because it treats pages outside the
# first one's folder as "filtered" and valid; so it need not follow links.
_SETTINGS = """\
[checking]
threads=0
recursionlevel=1
[AnchorCheck]
[filtering]
checkextern=0
[csv]
parts=urlname,parentname,result,warningstring,valid,url
"""
_SETTINGS_NAME = "settings.ini"


class CrawlError(Exception):
    """linkchecker failed; the message explains why."""


def ask_linkchecker(site: Path) -> Mapping[str, str]:
    """linkchecker's complaint about each place in the site (see `reading.find_place`); empty for
    a place without one.

    Raises CrawlError if it fails or checks nothing.
    """
    with tempfile.TemporaryDirectory(prefix="bindery-crawl-") as name:
        folder = Path(name).resolve()
        # Copy the site: when run as root, linkchecker switches to "nobody", who may not be able to
        # read the folder, and then reports every page as dead.
        copy = folder / "site"
        shutil.copytree(site, copy)
        (folder / _SETTINGS_NAME).write_text(_SETTINGS, encoding="utf-8")
        for path in (folder, *folder.rglob("*")):
            path.chmod(0o755 if path.is_dir() else 0o644)
        done = _run(folder, copy)
        return _read_log(done, f"{copy}{os.sep}")


def _run(folder: Path, site: Path) -> str:
    """The output of linkchecker."""
    program = [sys.executable, "-m", "bindery.crawl.crawler"]
    options = [f"--config={folder / _SETTINGS_NAME}", "--no-status", "--verbose", "--output=csv"]
    command = [*program, *options, *(page.as_uri() for page in sorted(site.rglob("*.html")))]
    paths = (str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH"))
    own = {"HOME": str(folder), "PYTHONPATH": os.pathsep.join(filter(None, paths))}
    try:
        done = run_command(
            command, folder=site, timeout=_TIMEOUT, environment={**os.environ, **own}
        )
    except CommandTimeoutError as error:
        raise CrawlError(str(error)) from None
    if done.returncode not in (0, 1):
        last = (done.stderr.strip() or done.stdout.strip()).splitlines()
        reason = last[-1] if last else f"exit status {done.returncode}"
        raise CrawlError(f"linkchecker failed: {reason}")
    return done.stdout


def _read_log(text: str, folder: str) -> Mapping[str, str]:
    verdicts: dict[str, str] = {}
    links = 0
    for row in csv.DictReader(io.StringIO(text, newline=""), delimiter=";"):
        links += bool(row["parentname"])
        is_valid = row["valid"] == "True"
        warning = " ".join(row["warningstring"].split())
        # linkchecker appends every anchor of the page.
        said = (warning if is_valid else row["result"]).partition(" Available anchors:")[0]
        parts = urlsplit(row["url"] or row["urlname"])
        place = url2pathname(parts.path).removeprefix(folder)
        place += f"#{unquote(parts.fragment)}" if parts.fragment else ""
        if not verdicts.get(place):
            verdicts[place] = " ".join(said.replace(folder, "").split())
    if not links:
        raise CrawlError("linkchecker checked no links")
    return verdicts
