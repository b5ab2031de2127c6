"""Find wrong units in prose.

The convention: memory is in binary or decimal bytes (GiB, GB), rates are decimal (GBps, Gbps), B is
bytes and b is bits, FLOPS is a rate and FLOPs a count. Spelling that does not decide the meaning is
left alone, and so are product names.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from msgspec import Struct

from bindery.markdown.prose import Passage

_END = r"(?![\w/]|-\w*\d)"
_BYTES = re.compile(
    r"(?P<prefix>[kKmMgGtTpP])(?<=[\d+ \t\u00a0\u202f-].)(?P<binary>[iI]?)(?P<base>[bB])"
    rf"(?P<rate>(?i:ps|/s(?:ec(?:ond)?)?)|s|[ ]per[ ]second)?{_END}"
)
_FLOPS = re.compile(
    r"(?<![A-Za-z_])(?P<prefix>[kKmMgGtTpPeEzZ]?)(?P<stem>FLOP|Flop|flop)(?P<plural>[sS]?)"
    rf"(?P<rate>(?:/s(?:ec(?:ond)?)?|ps|[ ]per[ ]second)?){_END}"
)
_NUMBER_BEFORE = re.compile(
    r"(?:(?<=\d-)|(?<=\d[x×])|(?<![\w.,/=:#&-]))(?P<number>\d[\d,]*(?:\.\d+)?)"
    r"(?P<gap>\+?[ \t\u00a0\u202f-]?)$"
)
UNIT_LIKE = re.compile(
    r"[bBpPzZ](?:(?<=[kKmMgGtTpPiI][bB])(?:\b|ps|PS|s)|(?<=[Ff]lop)|(?<=FLOP)|(?<=hz)|(?<=HZ))"
)
"""Every unit that is checked contains this, and most passages do not."""

_MODEL_BEFORE = re.compile(r"\b[A-Z][A-Za-z]{0,9}[ -]?\d{1,4}[A-Za-z]{0,4}[ -](?:[A-Z]\w*[ -])?$")
"""A product name: an amount after it belongs to the name, as in A100 80GB."""

_MEMORY = r"(?:memory|RAM|VRAM|DRAM|HBM\w*|storage|disk|swap|cache|files?|checkpoints?|buffers?)"
_MEMORY_BEHIND = re.compile(
    rf"\s*(?:of\s+)?(?:free\s+|usable\s+|system\s+|host\s+|device\s+|[CG]PU\s+|shared\s+)?{_MEMORY}\b"
    r"(?!\s+(?:bus|interface|chips?|dies?|devices?|bandwidth|throughput|traffic|speeds?|reads?"
    r"|writes?|access\w*))"
)
_MEMORY_BEFORE = re.compile(
    rf"\b(?:allocat\w+|{_MEMORY}(?:\s+size)?\s+(?:of|is|was|at|to))"
    r"(?:\s+(?:about|around|up\s+to|only|over|some))?\s*[~<>≈]?\s*$"
)
# Patterns without capitals are searched in lower-case text: `re` is slower when it ignores case.
_HELD_BEFORE = re.compile(
    r"\b(?:memory|ram|vram|cache|file|checkpoint|buffer|page|weights|model)\s+"
    r"(?:of|has|holds|takes|needs|occupies)(?:\s+(?:about|around|up\s+to|only|over|some))?"
    r"\s*[~<>≈]?\s*$"
)
_DENSITY = re.compile(r"\b(?:dies?|chips?|density|densities|dimms?|modules?|nand|flash)\b")
_SPEED = re.compile(
    r"\b(?:bandwidth|throughput|networks?|links?|interconnects?|efa|infiniband|ethernet|nvlink|roce"
    r"|nics?|speeds?|\w+-?directional(?:ly)?|duplex)\b"
)
_RATE_BEFORE = re.compile(
    r"\b(?:bandwidth|throughput)\s+(?:(?:of|is|was|at|reaches|hits)\s+)"
    r"(?:(?:about|around|roughly|nearly|only|over|up\s+to|at\s+least|just)\s+)?[~<>≈]?\s*$"
)
_RATE_BEHIND = re.compile(r"\s+of\s+(?:\w+\s+)?bandwidth\b(?!\s+(?:a|per|each)\b)")
_SPAN_OF_TIME = re.compile(
    r"\s*(?:/|per\b|a\s+(?:second|day|month|hour)|each\b|every\b|of\b|payload|messages?\b|file"
    r"|buffer|transfer|block|data\b|HBM|memory\b|GPUs?\b|cards?\b|nodes?\b|disks?\b|drives?\b)"
)
"""Words after an amount that is not the bandwidth named before it."""
_TRAFFIC = re.compile(r"\b(?:month\w*|dai?ly|day|egress|quota|payloads?|messages?|sizes?)\b")

_DIFFERENCE = re.compile(
    r"\b(?:label\w*|sold|means?|meant|call\w*|actual\w*|really|decimal|binary|named?|not|\w+n't"
    r"|vs|versus|differ\w*|or)\b"
)

_BITS = {"FDR": 56, "EDR": 100, "HDR": 200, "NDR": 400, "XDR": 800}
"""InfiniBand generations and the Gbps of their ports."""
_PORT_BITS = frozenset(_BITS.values())
_PORT = re.compile(r"\s*(?:InfiniBand\s+|IB\s+)?(?P<name>FDR|EDR|HDR|NDR|XDR)\b")
_PORT_BEFORE = re.compile(
    r"\b(?P<name>FDR|EDR|HDR|NDR|XDR)\b(?:\s+(?:InfiniBand|IB|ports?|links?|NICs?))?"
    r"(?:\s+(?:is|at|of|with|runs\s+at|gives|has))?\s*[(:=]?\s*$"
)
_NVLINK = re.compile(r"\s*(?:\w+-?directional\s+)?(?:of\s+)?NVLink\b")
_NVLINK_BEFORE = re.compile(
    r"\bNVLink(?:[ -]?\d(?:\.\d)?)?(?:\s+(?:is|at|of|with|runs\s+at|gives|has|bandwidth))*"
    r"\s*[(:=]?\s*$"
)
_NVLINK_BYTES = frozenset((450, 600, 900, 1800, 3600))
"""Total NVLink GBps of an accelerator, in one direction and both."""
_TOGETHER = re.compile(r"\b(?:nodes?|total|aggregat\w+|combined|altogether|lanes?|racks?)\b")

_BINARY_GB = re.compile(
    r"(?<![\w.,])(?:1\s?(?P<step>[MGTP]B)\s*(?:=|is|equals|means)\s*1[,_]?024\s?[kKMGT]B\b"
    r"|(?:1\s?)?(?P<unit>[KMGT]B)\s*(?:\(|=|is|are|equals|means|i\.e\.)\s*(?:i\.e\.\s*)?"
    r"`?(?P<base>2|1[\d_,]{0,16})(?:(?:\*\*|\^)(?P<exponent>\d\d?))?(?![\d*^]))"
)
_HERTZ = re.compile(r"(?<=[\d \t\u00a0\u202f-])(?:[kKMGTmgt]hz|[MGTmgt]HZ)\b")
_MAYBE_BINARY = re.compile(r"[KMGTP]B[^.]{0,12}(?:2\*\*|2\^|1[,_]?024|1[,_]?048|1[,_]?073)")

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
    r"(?:lower|small|capital|upper|plural|means|stands? for|abbreviat\w+|notation)"
)


class Slip(Struct, frozen=True):
    """A wrong unit: its position, the reason, and a correction."""

    start: int
    end: int
    message: str
    advice: str


def find_slips(passage: Passage) -> Iterator[Slip]:
    """The wrong units of a passage in reading order."""
    text, prose = passage.text, passage.prose
    slips = list(_find_in_bytes(prose))
    if _MAYBE_BINARY.search(text):
        slips += _find_binary_names(text)
    if "flop" in text.lower():
        slips += _find_flops(prose)
    if "hz" in text or "HZ" in text:
        slips += _find_hertz(prose)
    yield from sorted(slips, key=lambda slip: (slip.start, slip.end))


class _Amount(Struct, frozen=True):
    """An amount or rate of bits or bytes, and the words around it."""

    number: str
    gap: str
    prefix: str
    binary: str
    base: str
    rate: str
    start: int
    end: int
    before: str
    behind: str

    @property
    def typed(self) -> str:
        return f"{self.number}{self.gap}{self.prefix}{self.binary}{self.base}{self.rate}"

    @property
    def value(self) -> float:
        return float(self.number.replace(",", ""))

    def write(self, unit: str) -> str:
        return f"write '{self.number}{self.gap}{unit}'"

    def slip(self, what: str, advice: str) -> Slip:
        return Slip(self.start, self.end, f"'{self.typed}' {what}", advice)


def _find_in_bytes(prose: str) -> Iterator[Slip]:
    amounts = list(_read_amounts(prose))
    for amount in amounts:
        slip = _judge_rate(amount) if amount.rate not in ("", "s") else _judge_bytes(amount)
        if slip is not None:
            yield slip
    if any(amount.binary for amount in amounts):
        yield from _find_contradictions(amounts, prose)


def _read_amounts(prose: str) -> Iterator[_Amount]:
    """Amounts of bits and bytes that are not part of a product name."""
    for match in _BYTES.finditer(prose):
        unit = match.start()
        counted = _NUMBER_BEFORE.search(prose, max(unit - 16, 0), unit)
        if counted is None:
            continue
        start, end = counted.start(), match.end()
        before, behind = prose[max(start - 60, 0) : start], prose[end : end + 60]
        if not _MODEL_BEFORE.search(before[-24:]):
            yield _Amount(
                counted["number"],
                counted["gap"],
                match["prefix"],
                match["binary"],
                match["base"],
                match["rate"] or "",
                start,
                end,
                before,
                behind,
            )


def _judge_bytes(amount: _Amount) -> Slip | None:
    prefix, base, before, behind = amount.prefix, amount.base, amount.before, amount.behind
    capital = prefix.upper()
    if amount.rate == "s":
        if re.match(r"\s+per\s+second\b|/s\b", behind):
            right = f"{prefix if prefix == 'k' else capital}{amount.binary}{base}"
            return amount.slip("has a plural 's' before 'per second'", amount.write(right))
        near = f"{before[-40:]} {behind[:40]}"
        if behind.lstrip().startswith("of ") or _is_memory(before, behind):
            return None
        if not _SPEED.search(near.lower()):
            return None
        prefix = f"{capital}{amount.binary}"
        advice = amount.write(f"{prefix}{base}ps")
        if base == "b":
            advice += f" for bits, '{amount.number}{amount.gap}{prefix}Bps' for bytes"
        return amount.slip("is a rate without 'per second'", advice)
    is_memory = base == "b" and _is_memory(before, behind)
    if amount.binary:
        right = f"{capital}iB"
        if f"{prefix}{amount.binary}" != f"{capital}i" or is_memory:
            return amount.slip(f"should be spelled {right}", amount.write(right))
        return None
    if base == "B" and _is_rate(before, behind):
        what = "is an amount, but bandwidth is a rate"
        return amount.slip(what, amount.write(f"{prefix}Bps"))
    if prefix in "mgtp" and not behind.startswith("-"):
        advice = amount.write(f"{capital}B")
        if base == "b":
            advice += f"; '{capital}b' means bits"
        return amount.slip("has a lower-case unit", advice)
    if is_memory:
        right = f"{'k' if prefix == 'k' else capital}B"
        return amount.slip("counts bits, but memory is in bytes", amount.write(right))
    return None


def _judge_rate(amount: _Amount) -> Slip | None:
    prefix, base, rate = amount.prefix, amount.base, amount.rate
    before, behind = amount.before, amount.behind
    capital, unit = prefix.upper(), rate.lower()
    if re.match(r"\s+per\s+second\b", behind):
        return amount.slip("is already per second", "remove 'per second'")
    if amount.binary:
        decimal = f"{amount.value * 1.024 ** (1 + 'KMGTP'.index(capital)):.4g}"
        advice = f"rates are decimal: write '{decimal}{amount.gap}{prefix}{base}{unit}'"
        return amount.slip("is a rate with a binary prefix", advice)
    if prefix not in "mgtp" and rate == "/S":
        right = f"{prefix}{base}{unit}"
        return amount.slip(f"should be spelled {right}", amount.write(right))
    if prefix in "mgtp" or rate in ("PS", "Ps"):
        bits = f"{amount.number}{amount.gap}{capital}b{unit}"
        advice = f"{amount.write(f'{capital}B{unit}')} for bytes or '{bits}' for bits"
        return amount.slip("could mean bits or bytes", advice)
    giga = amount.value * {"G": 1, "T": 1000}.get(capital, 0)
    if giga not in (_PORT_BITS if base == "B" else _NVLINK_BYTES):
        return None
    if _TOGETHER.search(f"{before} {behind}".lower()):
        return None
    port = _PORT.match(behind) or _PORT_BEFORE.search(before[-40:])
    if base == "B" and port is not None and _BITS[port["name"]] == giga:
        what = f"is eight times the rate of {port['name']}: its ports are specified in bits"
        return amount.slip(what, amount.write(f"{prefix}b{unit}"))
    is_nvlink = _NVLINK.match(behind) or _NVLINK_BEFORE.search(before[-40:])
    if base == "b" and is_nvlink:
        what = "is an eighth of the rate of NVLink, which is specified in bytes"
        return amount.slip(what, amount.write(f"{prefix}B{unit}"))
    return None


def _is_memory(before: str, behind: str) -> bool:
    """Whether the context makes an amount a capacity, and not that of a single chip."""
    if _DENSITY.search(f"{before[-30:]} {behind[:30]}".lower()):
        return False
    if _MEMORY_BEHIND.match(behind) or _MEMORY_BEFORE.search(before):
        return True
    is_held = _HELD_BEFORE.search(before.lower())
    return bool(is_held) and not _SPEED.search(behind[:40].lower())


def _is_rate(before: str, behind: str) -> bool:
    """Whether the context makes an amount of bytes a bandwidth."""
    near = f"{before} {behind}".lower()
    if not ("bandwidth" in near or "throughput" in near) or _TRAFFIC.search(near):
        return False
    if _RATE_BEHIND.match(behind):
        return True
    return bool(_RATE_BEFORE.search(before.lower())) and not _SPAN_OF_TIME.match(behind)


def _find_contradictions(amounts: Iterable[_Amount], prose: str) -> Iterator[Slip]:
    """The same number in GB and GiB in a passage that does not discuss the difference."""
    found: dict[tuple[str, str], dict[str, _Amount]] = {}
    for amount in amounts:
        if amount.base == "B" and not amount.rate:
            kinds = found.setdefault((amount.number, amount.prefix.upper()), {})
            kinds.setdefault(amount.binary, amount)
    for kinds in found.values():
        if len(kinds) < 2:
            continue
        first, second = sorted(kinds.values(), key=lambda amount: amount.start)
        if not _DIFFERENCE.search(prose, max(first.start - 16, 0), second.end + 24):
            yield second.slip(
                f"and '{first.typed}' in the same passage are different amounts",
                "use one unit, or say that they differ",
            )


def _find_binary_names(text: str) -> Iterator[Slip]:
    """Decimal names of powers of two, such as GB for 2**30."""
    for match in _BINARY_GB.finditer(text):
        group = "step" if match["step"] else "unit"
        unit = match[group]
        if group == "unit":
            base = int(match["base"].replace("_", "").replace(",", ""))
            if base ** int(match["exponent"] or 1) != 1024 ** ("KMGT".index(unit[0]) + 1):
                continue
        right = f"{unit[0]}iB"
        yield Slip(
            match.start(group),
            match.end(group),
            f"'{unit}' stands for a power of two here",
            f"write '{right}'",
        )


def _find_hertz(prose: str) -> Iterator[Slip]:
    for match in _HERTZ.finditer(prose):
        counted = _NUMBER_BEFORE.search(prose, max(match.start() - 16, 0), match.start())
        if counted is not None:
            prefix = "k" if match[0][0] in "kK" else match[0][0].upper()
            message = f"'{counted[0]}{match[0]}' should be spelled {prefix}Hz"
            advice = f"write '{counted[0]}{prefix}Hz'"
            yield Slip(counted.start(), match.end(), message, advice)


def _find_flops(prose: str) -> Iterator[Slip]:
    """If one count in a sentence is meant as a rate, so are the others that can be."""
    start = 0
    for end in (*(match.end() for match in _SENTENCE_END.finditer(prose)), len(prose)):
        matches = list(_FLOPS.finditer(prose, start, end))
        is_rate = any(_is_named_a_rate(match, prose, start, end) for match in matches)
        yield from filter(None, (_judge_flops(match, prose, is_rate) for match in matches))
        start = end


def _is_named_a_rate(match: re.Match[str], prose: str, start: int, end: int) -> bool:
    """Whether the words around FLOPs, in the sentence from `start` to `end`, make it a rate."""
    if match["plural"] != "s" or match["rate"] or _PER.match(prose, match.end()):
        return False
    around = f"{prose[max(match.start() - 100, start) : match.start()]} "
    around += prose[match.end() : min(match.end() + 60, end)]
    return bool(_RATE_OF_WORK.search(around)) and not _EXPLAINED.search(around.lower())


def _judge_flops(match: re.Match[str], prose: str, is_rate: bool) -> Slip | None:
    """What is wrong with a number of FLOPs; `is_rate` says whether the sentence is about a rate."""
    prefix, stem, plural, rate = match["prefix"], match["stem"], match["plural"], match["rate"]
    counted = _NUMBER_BEFORE.search(prose, max(match.start() - 16, 0), match.start())
    amount = counted[0] if counted else ""
    start = match.start() - len(amount)
    typed = f"{amount}{match[0]}"
    capital = "k" if prefix == "k" else prefix.upper()
    if rate and plural == "S" and (prefix or counted or " " in rate):
        advice = f"write '{amount}{capital}FLOPS'"
        return Slip(start, match.end(), f"'{typed}' says 'per second' twice", advice)
    if not counted or not prefix:
        return None
    if stem != "FLOP" or prefix not in "kKMGTPEZ":
        advice = f"write '{amount}{capital}FLOP{'S' if plural and not rate else ''}{rate}'"
        if plural and not rate:
            advice += f" for a rate, '{amount}{capital}FLOPs' for a count"
        message = f"'{typed}' should be spelled {capital}FLOP"
        return Slip(start, match.end(), message, advice)
    if is_rate and plural == "s" and not rate and not _PER.match(prose, match.end()):
        message = f"'{typed}' is a count, but a rate is meant"
        return Slip(start, match.end(), message, f"write '{amount}{capital}FLOPS'")
    return None
