"""wrong-unit: the unit of a number in the prose contradicts what the words around it say.

The convention: memory is counted in binary or decimal bytes (GiB, GB), rates are decimal (GBps,
Gbps), a capital B is bytes and a small one bits, FLOPS is a rate and FLOPs a count. What the
spelling alone does not decide is left alone, and so are names of products.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from bindery.check.rules.rule import Rule, Scope
from bindery.core.model import Finding, Severity
from bindery.markdown.prose import Passage

RULE = Rule("wrong-unit", Severity.WARNING, "a number has a unit that it cannot have")

_END = r"(?![\w/]|-\w*\d)"
_BYTES = re.compile(
    r"(?<=[\d+ \t\u00a0\u202f-])(?P<prefix>[kKmMgGtTpP])(?P<binary>[iI]?)(?P<base>[bB])"
    rf"(?P<rate>(?i:ps|/s(?:ec(?:ond)?)?)|s|[ ]per[ ]second)?{_END}"
)
_FLOPS = re.compile(
    r"(?<![A-Za-z_])(?P<prefix>[kKmMgGtTpPeEzZ]?)(?P<stem>FLOP|Flop|flop)(?P<plural>[sS]?)"
    rf"(?P<rate>(?:/s(?:ec(?:ond)?)?|ps|[ ]per[ ]second)?){_END}"
)
_HERTZ = re.compile(r"(?<=[\d \t\u00a0\u202f-])(?:[MGkKT]h[zZ]|[mgt][hH][zZ]|[MGT]HZ)\b")
_NUMBER_BEFORE = re.compile(
    r"(?:(?<=\d-)|(?<=\d[x×])|(?<![\w.,/=:#&-]))(?P<number>\d[\d,]*(?:\.\d+)?)"
    r"(?P<gap>\+?[ \t\u00a0\u202f-]?)$"
)
_MODEL_BEFORE = re.compile(r"\b[A-Z][A-Za-z]{0,9}[ -]?\d{1,4}[A-Za-z]{0,4}[ -](?:[A-Z]\w*[ -])?$")
"""The name of a product: what follows belongs to it, as in A100 80GB."""

_MEMORY = r"(?:memory|RAM|VRAM|DRAM|HBM\w*|storage|disk|swap|cache|files?|checkpoints?|buffers?)"
_ABOUT = r"(?:\s+(?:about|around|up\s+to|only|over|some))?\s*[~<>≈]?\s*$"
_MEMORY_BEHIND = re.compile(
    rf"\s*(?:of\s+)?(?:free\s+|usable\s+|system\s+|host\s+|device\s+|[CG]PU\s+|shared\s+)?{_MEMORY}\b"
    r"(?!\s+(?:bus|interface|chips?|dies?|devices?|bandwidth|throughput|traffic|speeds?|reads?"
    r"|writes?|access\w*))"
)
_MEMORY_BEFORE = re.compile(
    rf"\b(?:allocat\w+|(?:{_MEMORY}|page|weights|model)(?:\s+size)?\s+"
    rf"(?:of|is|was|at|to|has|holds|takes|needs|occupies)){_ABOUT}",
    re.I,
)
_DENSITY = re.compile(r"\b(?:dies?|chips?|density|densities|DIMMs?|modules?|NAND|flash)\b", re.I)
_SPEED = re.compile(
    r"\b(?:bandwidth|throughput|networks?|links?|interconnects?|EFA|InfiniBand|Ethernet|NVLink|RoCE"
    r"|NICs?|speeds?|\w+-?directional(?:ly)?|duplex)\b",
    re.I,
)
_PER = re.compile(
    r"\s*(?:/|per\b|each\b|for\s+(?:each|one|every)\b|in\s+total\b|of\s+(?:work|compute|training)\b)"
    r"\s*+(?!GPU|accelerator|card|device|chip|node|die)"
)
_RATE_OF_WORK = re.compile(
    r"\b(?:TFLOPS|GFLOPS|PFLOPS|MFU|HFU|peak|throughput|per\s+(?:GPU|accelerator|card|device|chip)"
    r"|reach\w*|achiev\w+|sustain\w*|getting|speeds?|slow|fast)\b"
)
_SENTENCE_END = re.compile(r"[.!?]\s+")
_EXPLAINED = re.compile(
    r"(?:lower|small|capital|upper|plural|means|stands? for|abbreviat\w+|notation)", re.I
)


@dataclass(frozen=True, slots=True)
class Slip:
    """A unit that is wrong: where in the text, why, and what to write."""

    start: int
    end: int
    message: str
    advice: str


def find_slips(passage: Passage) -> Iterator[Slip]:
    """The wrong units of a passage in reading order."""
    prose = passage.prose
    slips = [*_find_in_bytes(prose), *_find_flops(prose), *_find_hertz(prose)]
    yield from sorted(slips, key=lambda slip: (slip.start, slip.end))


def check(scope: Scope) -> Iterator[Finding]:
    for chapter, passage in scope.iterate_passages():
        if passage.is_quoted:
            continue
        for slip in find_slips(passage):
            if any(start <= slip.start < end for start, end in passage.links):
                continue  # often a title, in the words of others
            span = passage.place(slip.start, slip.end)
            if not scope.is_generated(chapter.path, span.line):
                yield RULE.find(span, slip.message, slip.advice)


@dataclass(frozen=True, slots=True)
class _Amount:
    """A number of bits or bytes, perhaps per second, and the words around it."""

    typed: str
    number: str
    gap: str
    prefix: str
    binary: str
    base: str
    rate: str
    before: str
    behind: str

    def write(self, unit: str) -> str:
        return f"write '{self.number}{self.gap}{unit}'"


def _find_in_bytes(prose: str) -> Iterator[Slip]:
    for match in _BYTES.finditer(prose):
        counted = _NUMBER_BEFORE.search(prose, max(match.start() - 16, 0), match.start())
        if counted is None:
            continue
        start, end = counted.start(), match.end()
        before, behind = prose[max(start - 60, 0) : start], prose[end : end + 60]
        if _MODEL_BEFORE.search(before[-24:]):
            continue
        named = {name: value or "" for name, value in match.groupdict().items()}
        amount = _Amount(
            prose[start:end], counted["number"], counted["gap"], **named,
            before=before, behind=behind,
        )  # fmt: skip
        judge = _judge_rate if amount.rate not in ("", "s") else _judge_bytes
        if fault := judge(amount):
            what, advice = fault
            yield Slip(start, end, f"'{amount.typed}' {what}", advice)


def _judge_bytes(amount: _Amount) -> tuple[str, str] | None:
    """What is wrong with a number of bits or bytes, and the advice."""
    prefix, base, before, behind = amount.prefix, amount.base, amount.before, amount.behind
    capital = prefix.upper()
    if amount.rate == "s":
        if behind.lstrip().startswith("of ") or _is_memory(before, behind):
            return None
        if not _SPEED.search(f"{before[-40:]} {behind[:40]}"):
            return None
        prefix = f"{capital}{amount.binary}"
        advice = amount.write(f"{prefix}{base}ps")
        if base == "b":
            advice += f" for bits, '{amount.number}{amount.gap}{prefix}Bps' for bytes"
        return "is a rate without its time", advice
    is_memory = base == "b" and _is_memory(before, behind)
    if amount.binary:
        right = f"{capital}iB"
        if f"{prefix}{amount.binary}" != f"{capital}i" or is_memory:
            return f"is not how {right} is written", amount.write(right)
        return None
    if prefix in "mgtp" and not behind.startswith("-"):
        advice = amount.write(f"{capital}B")
        if base == "b":
            advice += f"; '{capital}b' are bits"
        return "has its unit in small letters", advice
    if is_memory:
        right = f"{'k' if prefix == 'k' else capital}B"
        return "counts bits, and memory is bytes", amount.write(right)
    return None


def _judge_rate(amount: _Amount) -> tuple[str, str] | None:
    """What is wrong with a number of bits or bytes per second, and the advice."""
    prefix, base, unit = amount.prefix, amount.base, amount.rate.lower()
    capital = prefix.upper()
    if amount.binary:
        value = float(amount.number.replace(",", ""))
        decimal = f"{value * 1.024 ** (1 + 'KMGTP'.index(capital)):.4g}"
        advice = f"rates are decimal: write '{decimal}{amount.gap}{prefix}{base}{unit}'"
        return "is a rate with a binary prefix", advice
    if prefix in "mgtp" or amount.rate in ("PS", "Ps"):
        bits = f"{amount.number}{amount.gap}{capital}b{unit}"
        advice = f"{amount.write(f'{capital}B{unit}')} for bytes or '{bits}' for bits"
        return "does not say whether it counts bits or bytes", advice
    return None


def _is_memory(before: str, behind: str) -> bool:
    """Whether the words around a quantity say that it is a capacity, and not that of one chip."""
    if _DENSITY.search(f"{before[-30:]} {behind[:30]}"):
        return False
    if _MEMORY_BEHIND.match(behind):
        return True
    return bool(_MEMORY_BEFORE.search(before)) and not _SPEED.search(behind[:40])


def _find_hertz(prose: str) -> Iterator[Slip]:
    for match in _HERTZ.finditer(prose):
        counted = _NUMBER_BEFORE.search(prose, max(match.start() - 16, 0), match.start())
        if counted is not None:
            prefix = "k" if match[0][0] in "kK" else match[0][0].upper()
            message = f"'{counted[0]}{match[0]}' is not how {prefix}Hz is written"
            yield Slip(counted.start(), match.end(), message, f"write '{counted[0]}{prefix}Hz'")


def _find_flops(prose: str) -> Iterator[Slip]:
    """If one count of a sentence is meant as a rate, the others that can be one are too."""
    if "flop" not in prose.lower():
        return
    start = 0
    for end in (*(match.end() for match in _SENTENCE_END.finditer(prose)), len(prose)):
        matches = list(_FLOPS.finditer(prose, start, end))
        is_rate = any(_is_named_a_rate(match, prose, start, end) for match in matches)
        yield from filter(None, (_judge_flops(match, prose, is_rate) for match in matches))
        start = end


def _is_named_a_rate(match: re.Match[str], prose: str, start: int, end: int) -> bool:
    """Whether the words around FLOPs, in a sentence from `start` to `end`, say that they are done
    per second."""
    if match["plural"] != "s" or match["rate"] or _PER.match(prose, match.end()):
        return False
    around = f"{prose[max(match.start() - 100, start) : match.start()]} "
    around += prose[match.end() : min(match.end() + 60, end)]
    return bool(_RATE_OF_WORK.search(around)) and not _EXPLAINED.search(around)


def _judge_flops(match: re.Match[str], prose: str, is_rate: bool) -> Slip | None:
    """What is wrong with a number of floating point operations; `is_rate` says whether the
    sentence is about operations per second."""
    prefix, stem, plural, rate = match["prefix"], match["stem"], match["plural"], match["rate"]
    counted = _NUMBER_BEFORE.search(prose, max(match.start() - 16, 0), match.start())
    amount = counted[0] if counted else ""
    start = match.start() - len(amount)
    typed = f"{amount}{match[0]}"
    capital = "k" if prefix == "k" else prefix.upper()
    if rate and plural == "S" and (prefix or counted or " " in rate):
        advice = f"write '{amount}{capital}FLOPS'"
        return Slip(start, match.end(), f"'{typed}' is per second twice", advice)
    if not counted or not prefix:
        return None
    if stem != "FLOP" or prefix not in "kKMGTPEZ":
        advice = f"write '{amount}{capital}FLOP{'S' if plural and not rate else ''}{rate}'"
        if plural and not rate:
            advice += f" for a rate, '{amount}{capital}FLOPs' for a count"
        message = f"'{typed}' is not how {capital}FLOP is written"
        return Slip(start, match.end(), message, advice)
    if is_rate and plural == "s" and not rate and not _PER.match(prose, match.end()):
        message = f"'{typed}' is a count, and a rate is meant"
        return Slip(start, match.end(), message, f"write '{amount}{capital}FLOPS'")
    return None
