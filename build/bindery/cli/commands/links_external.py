"""`bindery links --external`: the links to the web, asked politely and remembered."""

from __future__ import annotations

import asyncio
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta

from bindery import __version__
from bindery.book.git_history import find_added_lines
from bindery.check.baseline_use import prepare_carrying, read_listed, sift_listed
from bindery.check.inspect import Inspection, inspect_book
from bindery.cli.console import CLEAN, FINDINGS, Format, print_findings
from bindery.core.config import Config
from bindery.core.model import ConfigError, Finding, Span
from bindery.core.report import count_noun
from bindery.core.transaction import Texts
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
from bindery.web.findings import find_faults, summarise
from bindery.web.manners import LEAST_DELAY, Manners
from bindery.web.memory import DEFAULT_SHELF_LIFE, Memory, is_fresh, open_memory
from bindery.web.mending import RULE, Mending, format_mending, plan_mending, write_mending
from bindery.web.network import LookUp, look_up
from bindery.web.robots import AGENT
from bindery.web.sweep import open_asker, sweep

INTERRUPTED = 130


@dataclass(frozen=True, slots=True)
class Wishes:
    """What the command line asks for."""

    since: str = ""
    fix: bool = False
    dry_run: bool = False
    archive: bool = False
    shelf_life: timedelta = DEFAULT_SHELF_LIFE
    output: Format = Format.TEXT
    quiet: bool = False


@dataclass(frozen=True, slots=True)
class Web:
    """The web, and how it is treated. Tests have one of their own, which lies on this machine."""

    manners: Manners = field(default_factory=Manners)
    find_reason: ReasonNotToAsk = find_reason_not_to_ask
    look_up: LookUp = look_up
    wayback: str = WAYBACK


def check_web(
    inspection: Inspection,
    *,
    since: str = "",
    fix: bool = False,
    dry_run: bool = False,
    archive: bool = False,
    shelf_life: timedelta = DEFAULT_SHELF_LIFE,
    delay: float = LEAST_DELAY,
    output: Format = Format.TEXT,
    quiet: bool = False,
) -> int:
    """Ask the web about the links of a book, print what comes out, and give the exit status.

    Raises ConfigError where an option asks for what cannot be, and where another run is at it.
    """
    if not LEAST_DELAY <= delay < float("inf"):
        message = f"--delay cannot be {delay:g}: a host is asked once in {LEAST_DELAY:g} s at most"
        hint = "a longer delay is more polite; a shorter one gets programs shut out"
        raise ConfigError(Finding(Span.whole("--delay"), "config", message, hint))
    if dry_run and not fix:
        message = "--dry-run shows what --fix would change, and --fix is not given"
        raise ConfigError(Finding(Span.whole("--dry-run"), "config", message))
    wishes = Wishes(since, fix, dry_run, archive, shelf_life, output, quiet)
    return ask_web(inspection, wishes, Web(Manners(delay=delay)))


def ask_web(inspection: Inspection, wishes: Wishes, web: Web) -> int:
    """The same as `check_web`, for any web."""
    return _Run(inspection, wishes, web).run()


class _Run:
    """One run, and what it knows so far: it may be interrupted at any time."""

    def __init__(self, inspection: Inspection, wishes: Wishes, web: Web) -> None:
        self.inspection = inspection
        self.wishes = wishes
        self.web = web
        self.gathered, self.addresses = self._choose(inspection)
        self.waiting: Sequence[Address] = ()
        self.asked: dict[str, Answer] = {}
        self.targets: dict[str, Answer] = {}
        """New addresses that an earlier run has found, as they answer now."""

    def run(self) -> int:
        read_listed(self.inspection.config)  # a list that is broken is told before the web is asked
        shown = self.inspection.config.link_memory
        with open_memory(self.inspection.tree.root / shown, shown) as memory:
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
                refused = self._mend(memory)
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
            print("interrupted; what is known is kept, and is not asked again", file=sys.stderr)
            return INTERRUPTED
        if self.asked and all(a.verdict == "unreachable" for a in self.asked.values()):
            print("no host answers: is this machine on the web?", file=sys.stderr)
            return FINDINGS
        return FINDINGS if findings else CLEAN

    def _choose(self, inspection: Inspection) -> tuple[Gathered, tuple[Address, ...]]:
        """All addresses of the book, and those that this run is about."""
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
        """What this run has to tell: what it asked, and what was known and still counts."""
        waiting = {address.url for address in self.waiting}
        return {
            address.url: memory.known[address.url]
            for address in self.addresses
            if address.url in self.asked
            or (address.url in memory.known and address.url not in waiting)
        }

    async def _ask(self, memory: Memory) -> None:
        def tell(answer: Answer) -> None:
            memory.add(answer)
            self.asked[answer.url] = answer
            if not self.wishes.quiet:
                count = len(self.asked)
                print(format_progress(answer, count, len(self.waiting)), file=sys.stderr)

        if self.waiting and not self.wishes.quiet:
            print(describe_queues(self.waiting, self.web.manners.delay), file=sys.stderr)
        agent = name_agent(self.inspection.config)
        web = self.web
        async with open_asker(agent, web.manners, web.find_reason, web.look_up) as asker:
            await sweep(asker, self.waiting, tell)
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

    def _mend(self, memory: Memory) -> Sequence[Finding]:
        """Write new addresses, or show what would be written. Gives what could not be."""
        targets: dict[str, Answer] = {}
        for answer in self._list_answers(memory).values():
            if answer.verdict == "moved" and answer.anchor != "missing":
                # One that was just asked has been followed to its new address.
                followed = replace(answer, url=answer.target, verdict="live", target="")
                known = followed if answer.url in self.asked else self.targets.get(answer.target)
                if known and known.verdict == "live" and known.anchor != "missing":
                    targets[answer.url] = known
        mending = plan_mending(self.inspection, {old: new.url for old, new in targets.items()})
        carried: Texts = {}
        if self.wishes.dry_run:
            is_text = self.wishes.output is Format.TEXT
            print(format_mending(mending), end="", file=sys.stdout if is_text else sys.stderr)
        else:
            carry = prepare_carrying(self.inspection.config, RULE) if mending.texts else None
            carried = write_mending(self.inspection.tree.root, mending, carry)
            for answer in targets.values():
                memory.add(answer)
            # Places and texts are others now.
            self.inspection = inspect_book(self.inspection.config.root)
            self.gathered, self.addresses = self._choose(self.inspection)
        if not self.wishes.quiet:
            for path in carried:
                print(f"{path}: the accepted findings follow", file=sys.stderr)
            print(describe_mending(mending, would=self.wishes.dry_run), file=sys.stderr)
        return mending.findings


def name_agent(config: Config) -> str:
    """Who asks, as hosts are told: they can find out what it is, and shut it out by its name."""
    about = config.repository.url if config.repository else config.newest
    return f"{AGENT}/{__version__} ({f'+{about}; ' if about else ''}checks the links of a book)"


def describe_queues(waiting: Sequence[Address], delay: float) -> str:
    """What is about to be asked, and how long that takes at least."""
    queues = Counter(map(find_host, {address.page for address in waiting}))
    host, pages = max(queues.items(), key=lambda item: (item[1], item[0]))
    links = f"{count_noun(len(waiting), 'link')} on {count_noun(len(queues), 'host')}"
    longest = f"{host}: {count_noun(pages, 'page')}, {pages * delay:.0f} s at least"
    return f"asking {links}; the longest queue is that of {longest}"


def format_progress(answer: Answer, count: int, total: int) -> str:
    """One line for a verdict that has just come in."""
    width = len(str(total))
    line = f"{count:>{width}}/{total} {answer.verdict:<11} {answer.url}"
    if answer.target:
        line += f" -> {answer.target}"
    if answer.reason:
        line += f" ({answer.reason})"
    if answer.anchor == "missing":
        line += " (the page has no such anchor)"
    return line


def describe_mending(mending: Mending, *, would: bool) -> str:
    """What was written, in one line."""
    verb = "would write" if would else "wrote"
    links = count_noun(mending.count, "link")
    return f"{verb} the new addresses of {links} in {count_noun(len(mending.texts), 'chapter')}"
