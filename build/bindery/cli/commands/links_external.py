"""`bindery links --external`: check links to the web, politely, and remember the answers."""

from __future__ import annotations

import asyncio
import sys
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from msgspec import Struct, field
from msgspec.structs import replace

from bindery import __version__
from bindery.book.git_history import find_added_lines
from bindery.check.baseline_use import prepare_carrying, read_listed, sift_listed
from bindery.check.inspect import Inspection, inspect_book
from bindery.cli.console import CLEAN, FINDINGS, Format, print_findings
from bindery.core.config import Config
from bindery.core.model import Finding
from bindery.core.report import count_noun, format_diff
from bindery.core.transaction import Change, change_files
from bindery.web.addresses import (
    Address,
    Gathered,
    ReasonNotToAsk,
    find_host,
    find_reason_not_to_ask,
    gather_addresses,
)
from bindery.web.answers import Answer
from bindery.web.archive import WAYBACK, find_copies
from bindery.web.asking import Asker
from bindery.web.findings import find_faults, summarise
from bindery.web.fixing import RULE, plan_fixes
from bindery.web.manners import Manners
from bindery.web.memory import DEFAULT_SHELF_LIFE, Memory, is_fresh, open_memory
from bindery.web.network import LookUp, look_up
from bindery.web.robots import AGENT
from bindery.web.sweep import sweep

INTERRUPTED = 130


class Wishes(Struct, frozen=True):
    """The command-line options."""

    since: str = ""
    fix: bool = False
    dry_run: bool = False
    archive: bool = False
    shelf_life: timedelta = DEFAULT_SHELF_LIFE
    output: Format = Format.TEXT
    quiet: bool = False


class Web(Struct, frozen=True):
    """Access to the web and its limits. Tests use a local one."""

    manners: Manners = field(default_factory=Manners)
    find_reason: ReasonNotToAsk = find_reason_not_to_ask
    look_up: LookUp = look_up
    wayback: str = WAYBACK


def ask_web(inspection: Inspection, wishes: Wishes, web: Web) -> int:
    """Check the web links of a book, print findings, and return the exit status.

    Raises ConfigError for options that cannot be used.
    """
    return _Run(inspection, wishes, web).run()


class _Run:
    """A run and its answers so far, since it can be interrupted at any time."""

    def __init__(self, inspection: Inspection, wishes: Wishes, web: Web) -> None:
        self.inspection = inspection
        self.wishes = wishes
        self.web = web
        self.gathered, self.addresses = self._choose(inspection)
        self.waiting: Sequence[Address] = ()
        self.asked: dict[str, Answer] = {}
        self.targets: dict[str, Answer] = {}
        """New addresses from earlier runs, and their current answers."""

    def run(self) -> int:
        read_listed(self.inspection.config)  # report a broken baseline before the first request
        memory = open_memory(self.inspection.tree.root, self.inspection.config)
        now = datetime.now(UTC)
        self.waiting = [
            address
            for address in self.addresses
            if (answer := memory.known.get(address.url)) is None
            or not is_fresh(answer, now, self.wishes.shelf_life)
        ]
        before = len(self.addresses) - len(self.waiting)
        is_interrupted = False
        try:
            asyncio.run(self._ask(memory))
        except KeyboardInterrupt:
            is_interrupted = True
        refused: Sequence[Finding] = ()
        if self.wishes.fix and not is_interrupted:
            refused = self._fix(memory)
        memory.compact(address.url for address in self.gathered.addresses)
        answers = self._list_answers(memory)
        faults = find_faults(self.inspection, self.addresses, answers)
        findings = [*sift_listed(self.inspection, tuple(faults)).fresh, *refused]
        summary = summarise(
            answers.values(),
            asked=len(self.asked),
            hosts=len({find_host(address.page) for address in self.waiting}),
            known=before,
            left_out=self.gathered.left_out,
            not_asked=len(self.waiting) - len(self.asked),
        )
        print_findings(findings, self.inspection, self.wishes.output, summary=summary)
        if is_interrupted:
            print("interrupted; the answers so far are saved", file=sys.stderr)
            return INTERRUPTED
        if self.asked and all(a.verdict == "unreachable" for a in self.asked.values()):
            print("no host answered: is this machine online?", file=sys.stderr)
            return FINDINGS
        return FINDINGS if findings else CLEAN

    def _choose(self, inspection: Inspection) -> tuple[Gathered, tuple[Address, ...]]:
        """All addresses in the book, and those to check in this run."""
        gathered = gather_addresses(inspection, self.web.find_reason)
        if not self.wishes.since:
            return gathered, gathered.addresses
        added = find_added_lines(inspection.tree.root, self.wishes.since)
        new = tuple(
            address
            for address in gathered.addresses
            if any(place.line in added.get(place.path, ()) for place in address.places)
        )
        return gathered, new

    def _list_answers(self, memory: Memory) -> dict[str, Answer]:
        """The answers of this run, and earlier ones that are still valid."""
        waiting = {address.url for address in self.waiting}
        return {
            address.url: memory.known[address.url]
            for address in self.addresses
            if address.url in self.asked
            or (address.url in memory.known and address.url not in waiting)
        }

    async def _ask(self, memory: Memory) -> None:
        def report(answer: Answer) -> None:
            memory.add(answer)
            self.asked[answer.url] = answer
            self._log(format_progress(answer, len(self.asked), len(self.waiting)))

        if self.waiting:
            self._log(describe_queues(self.waiting, self.web.manners.delay))
        agent = name_agent(self.inspection.config)
        web = self.web
        async with Asker(agent, web.manners, web.find_reason, web.look_up) as asker:
            await sweep(asker, self.waiting, report)
            if self.wishes.fix:
                old = [a for a in self._list_answers(memory).values() if a.url not in self.asked]
                targets = dict.fromkeys(a.target for a in old if a.verdict == "moved")
                await sweep(asker, (Address(url, ()) for url in targets), self._note_target)
            if self.wishes.archive:
                dead = [
                    answer
                    for answer in self._list_answers(memory).values()
                    if answer.verdict == "dead" and not answer.archived
                ]
                copies = await find_copies(asker, (a.url for a in dead), self.web.wayback)
                for answer in dead:
                    if answer.url in copies:
                        memory.add(replace(answer, archived=copies[answer.url]))

    def _note_target(self, answer: Answer) -> None:
        self.targets[answer.url] = answer

    def _log(self, line: str) -> None:
        if not self.wishes.quiet:
            print(line, file=sys.stderr)

    def _fix(self, memory: Memory) -> Sequence[Finding]:
        """Write new addresses, or show the changes. Returns findings about the remaining links."""
        targets: dict[str, Answer] = {}
        for answer in self._list_answers(memory).values():
            if answer.verdict == "moved" and answer.anchor != "missing":
                # For an address of this run, the redirect has already been followed.
                followed = replace(answer, url=answer.target, verdict="live", target="")
                known = followed if answer.url in self.asked else self.targets.get(answer.target)
                if known and known.verdict == "live" and known.anchor != "missing":
                    targets[answer.url] = known
        urls = {old: new.url for old, new in targets.items()}
        count, texts, findings = plan_fixes(self.inspection, urls)
        links = f"{count_noun(count, 'link')} in {count_noun(len(texts), 'chapter')}"
        if self.wishes.dry_run:
            is_text = self.wishes.output is Format.TEXT
            for path, (before, after) in sorted(texts.items()):
                diff = format_diff(path, before, after)
                print(diff, end="", file=sys.stdout if is_text else sys.stderr)
            self._log(f"would write the new addresses of {links}")
            return findings
        if texts:
            carry = prepare_carrying(self.inspection.config, RULE)
            root = self.inspection.tree.root
            for path in change_files(root, Change(RULE, texts), carry):
                self._log(f"{path}: updated the accepted findings")
        for answer in targets.values():
            memory.add(answer)
        # Positions and texts have changed.
        self.inspection = inspect_book(self.inspection.config.root)
        self.gathered, self.addresses = self._choose(self.inspection)
        self._log(f"wrote the new addresses of {links}")
        return findings


def name_agent(config: Config) -> str:
    """The User-Agent, so that hosts can find out who asks and block the program by name."""
    about = config.repository.url if config.repository else config.newest
    return f"{AGENT}/{__version__} ({f'+{about}; ' if about else ''}checks the links of a book)"


def describe_queues(waiting: Sequence[Address], delay: float) -> str:
    """What will be requested, and the least time it takes."""
    queues = Counter(map(find_host, {address.page for address in waiting}))
    host, pages = max(queues.items(), key=lambda item: (item[1], item[0]))
    links = f"{count_noun(len(waiting), 'link')} on {count_noun(len(queues), 'host')}"
    longest = f"{host}: {count_noun(pages, 'page')}, at least {pages * delay:.0f} s"
    return f"checking {links}; the longest queue is {longest}"


def format_progress(answer: Answer, count: int, total: int) -> str:
    """A progress line for an answer."""
    width = len(str(total))
    line = f"{count:>{width}}/{total} {answer.verdict:<11} {answer.url}"
    if answer.target:
        line += f" -> {answer.target}"
    if answer.reason:
        line += f" ({answer.reason})"
    if answer.anchor == "missing":
        line += " (the page has no such anchor)"
    return line
