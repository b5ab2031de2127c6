"""The page "What changed since your edition", and the feed of the same changes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime

from markdown_it import MarkdownIt
from markdown_it.token import Token

from bindery.book.past_editions import Change, Editions, Subject, find_editions
from bindery.book.this_edition import Edition
from bindery.check.inspect import Inspection
from bindery.core.cache import Cache
from bindery.core.config import Config
from bindery.core.model import ToFile
from bindery.core.repository import Tree
from bindery.core.wording import Wording
from bindery.render.addresses import find_file_url, quote_path, relate
from bindery.render.frames import Frames
from bindery.render.site.llms_and_sitemap import find_address
from bindery.render.site.model import Page, Site
from bindery.render.site.reading import Section

PAGE, FEED = "changes/index.html", "feed.xml"
CHANGE_LOG = "CHANGELOG.md"
_MOST_ENTRIES = 40
"""Maximum entries of the feed: a few months of a book in progress."""


def gather_editions(
    inspection: Inspection, places: Mapping[str, str], refs: str, cache: Cache | None
) -> Editions | None:
    """The editions of a book; None without a git history, or if a chapter has the page."""
    if PAGE in places.values():
        return None
    listed = {entry.path for entry in inspection.config.chapters}
    titles = {c.path: c.title for c in inspection.book.chapters if c.path in listed}
    return find_editions(inspection.config, titles, _read_log(inspection.tree), refs, cache)


def _read_log(tree: Tree) -> str:
    if tree.find_kind(CHANGE_LOG) != "file":
        return ""
    return (tree.root / CHANGE_LOG).read_text(encoding="utf-8", errors="replace")


def render_notes(markdown: str, config: Config, edition: Edition) -> str:
    """The change log of an edition as HTML, with headings one level below that of the edition.
    Links to files of the repository lead there, or become text."""
    parser = MarkdownIt("commonmark", {"html": False})
    tokens = parser.parse(markdown)
    for token in tokens:
        for child in token.children or ():
            _fix_link(child, config, edition)
    return str(parser.renderer.render(tokens, parser.options, {}))


def _fix_link(token: Token, config: Config, edition: Edition) -> None:
    href = str(token.attrs.get("href", ""))
    if token.type == "image":
        token.type, token.tag = "text", ""
    elif token.type == "link_open" and not href.startswith(("https://", "http://")):
        path, _, fragment = href.removeprefix("./").partition("#")
        address = find_file_url(ToFile(path, fragment=fragment), config, edition) if path else None
        if address:
            token.attrs["href"] = address
        else:
            del token.attrs["href"]


def describe_size(subject: Subject | Change, wording: Wording) -> str:
    """How much changed, in a few words."""
    counts = (("+", subject.added), ("\N{MINUS SIGN}", subject.removed))
    n = " ".join(f"{sign}{wording.number(f'{count:,}')}" for sign, count in counts if count)
    is_one = subject.added + subject.removed == 1
    shown = [wording("{n} word" if is_one else "{n} words", n=n)] if n else []
    if subject.rows:
        shown.append(wording.count(subject.rows, "table row"))
    files = subject.files if isinstance(subject.files, int) else len(subject.files)
    if files:
        shown.append(wording.count(files, "file"))
    return ", ".join(shown)


def write_feed(editions: Editions, config: Config, frames: Frames) -> str:
    """The changes of chapters and of numbers as an Atom feed (RFC 4287), newest first."""
    words = config.wording
    told: dict[int, list[str]] = {}
    for edition in editions.editions:
        for subject in edition.subjects:
            for change in subject.changes:
                size = describe_size(change, words) or words("updated")
                told.setdefault(change.place, []).append(f"{subject.title}: {size}")
    entries = [
        {
            "commit": editions.commits[place],
            "time": _write_time(editions.commits[place].time),
            "told": "; ".join(told[place]),
        }
        for place in sorted(told)[:_MOST_ENTRIES]
    ]
    page = find_address(PAGE, config.site)
    updated = _write_time(editions.commits[min(told, default=0)].time)
    values = {"entries": entries, "page": page, "feed": FEED, "updated": updated}
    return frames.fill_again(FEED, "site/feed.xml", values)


def _write_time(time: str) -> str:
    return datetime.fromisoformat(time).astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def make_page(site: Site) -> Iterator[Page]:
    """The page of changes, if there are any."""
    editions, config = site.editions, site.config
    if editions is None:
        return
    repository, words = config.repository, config.wording
    notes = {e.tag: render_notes(e.notes, config, site.edition) for e in editions.editions}
    values = {
        "editions": [
            (past, [(subject, describe_size(subject, words)) for subject in past.subjects])
            for past in editions.editions
        ],
        "tags": editions.tags,
        "is_whole": editions.is_whole,
        "links": {path: quote_path(relate(page, PAGE)) for path, page in site.places.items()},
        "notes": notes,
        "commit_url": f"{repository.url}/commit/" if repository else "",
        "feed_href": quote_path(relate(FEED, PAGE)) if config.site else "",
    }
    newest = editions.commits[0].day
    told = words("Changes, corrections (errata) and the change log of each edition, newest first.")
    sections = [Section("", "", told, "", "")]
    title = words("What changed since your edition")
    yield Page(PAGE, title, "site/changes.html", values, ("changes.js",), sections, changed=newest)
