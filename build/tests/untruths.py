"""What authors get wrong in sums, units, code and tables, and the same where it is right.

To have another kind planted, add an entry to `UNTRUTHS`; what looks like one and is none, to
`TRUTHS`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from plants import Ground


@dataclass(frozen=True)
class Claim:
    """Lines that say something, and what has to be found in them."""

    lines: tuple[str, ...]
    rule: str = ""
    row: int = 0
    typed: str = ""
    answer: str = ""


def _draw_product(ground: Ground) -> tuple[int, int, int, int]:
    """Two factors, their product, and a number that nobody takes for it."""
    one, other = ground.rng.randrange(12, 97), ground.rng.choice((3, 7, 9, 11, 13, 17, 23, 31))
    product = one * other
    wrong = product + ground.rng.choice((-1, 1)) * (product // 5 + 3)
    return one, other, product, wrong + (wrong % 10 == 0)


def _say_sum(ground: Ground, *, is_right: bool) -> Claim:
    one, other, product, wrong = _draw_product(ground)
    given = product if is_right else wrong
    big, big_wrong = product * 1009, wrong * 1009
    shown = big if is_right else big_wrong
    share = round(100 * one / (one + other), 1)
    told = share if is_right else round(share * 0.7, 1)
    forms = (
        (f"{one} * {other} = {given}", f"`{one} * {other} = {given}`"),
        (f"{one} × {other} = {given}", f"{one} × {other} = {given}"),
        (f"{given} = {one} * {other}", f"`{given} = {one} * {other}`"),
        (f"{one}*{other}*1009 = {shown:,}", f"`{one}*{other}*1009 = {shown:,}`"),
        (f"{one} × {other} GB = {given} GB", f"{one} × {other} GB = {given} GB"),
        (f"{one} / {one + other} = {told}%", f"`{one} / {one + other} = {told}%`"),
        (f"({one} + {other}) * 2 = {2 * (one + other) + (0 if is_right else 7)}",) * 2,
        (f"2**{other} = {2**other if is_right else 2**other + 2**other // 3 + 2}",) * 2,
    )
    typed, text = ground.rng.choice(forms)
    if ("(" in text and "`" not in text) or "**" in text:
        text = f"`{text}`"
    word = ground.word()
    frames = (
        (f"So it takes {text}, all told.",),
        ("- one", f"- a {word}: {text}"),
        (f"| {word} | {word} |", "|---|---|", f"| {word} | {text} |"),
        ("> Words,", f"> and {text}, said somebody."),
        (f"A {word}, which **is {text}**, and more."),
    )
    frame = ground.rng.choice(frames)
    lines = (frame,) if isinstance(frame, str) else frame
    row = next(n for n, line in enumerate(lines) if text in line)
    return Claim(lines, "" if is_right else "wrong-arithmetic", row, "" if is_right else typed)


def _wrong_sum(ground: Ground) -> Claim:
    return _say_sum(ground, is_right=False)


def _wrong_unit(ground: Ground) -> Claim:
    number = ground.rng.randrange(11, 89)
    typed, sentence = ground.rng.choice(
        (
            (f"{number} GiB/s", f"The link moves {number} GiB/s."),
            (f"{number} mib", f"The file takes {number} mib of space."),
            (f"{number} TFLOPS/s", f"The device reaches {number} TFLOPS/s here."),
            (f"{number} Gb", f"The device has {number} Gb of memory."),
        )
    )
    return Claim((sentence,), "wrong-unit", 0, typed)


def _broken_code(ground: Ground) -> Claim:
    word = ground.word()
    language, code, row = ground.rng.choice(
        (
            ("python", (f"{word} = 1", f"print({word}", "x = 2"), 1),
            ("python", (f"def {word}(x)", "    return x"), 0),
            ("bash", (f"cd {word}", f'echo "{word}'), 1),
            ("bash", (f"for x in {word}; do", "  echo $x"), 0),
            ("json", ("{", f'  "{word}": 1,', "}"), 1),
            ("yaml", (f"{word}:", "  a: 1", "  a: 2"), 2),
            ("toml", (f"{word} = nothing",), 0),
        )
    )
    fence = ground.rng.choice(("```", "~~~", "````"))
    return Claim((f"{fence}{language}", *code, fence), "broken-code", row + 1)


def _broken_table(ground: Ground) -> Claim:
    word = ground.word()
    lines, row = ground.rng.choice(
        (
            ((f"| {word} | b |", "|---|---|", "| 1 | 2 | 3 |"), 2),
            ((f"| {word} | b |", "|---|---|", "| `a|b` | 2 |"), 2),
            ((f"| {word} | b |", "|---|", "| 1 | 2 |"), 1),
            ((f"| {word} | b |", "| 1 | 2 |", "| 3 | 4 |"), 0),
            ((f"| {word} | b |", "|---|---|", "| 1 | 2 |", "", "| 3 | 4 |"), 4),
        )
    )
    return Claim(lines, "bad-table", row)


UNTRUTHS: dict[str, Callable[[Ground], Claim]] = {
    "wrong sum": _wrong_sum,
    "wrong unit": _wrong_unit,
    "broken code": _broken_code,
    "broken table": _broken_table,
}


def _right_sum(ground: Ground) -> Claim:
    return _say_sum(ground, is_right=True)


def _right_unit(ground: Ground) -> Claim:
    number = ground.rng.randrange(11, 89)
    sentences = (
        f"It has {number} GiB of memory and moves {number} GB/s, or {number + 1} Gbps.",
        f"The A100 80GB, `--memory {number}gb`, and {number} TFLOPS.",
        f"The log says `{number} mib/s`, in its own way.",
    )
    return Claim((ground.rng.choice(sentences),))


def _right_code(ground: Ground) -> Claim:
    word = ground.word()
    language, code = ground.rng.choice(
        (
            ("python", (f"{word} = [1, 2]", f"for x in {word}:", "    print(x)")),
            ("python", ("...", f"    {word}(a,", "         b)")),
            ("bash", (f"cat <<'EOF' > {word}", "it's (here", "EOF")),
            ("bash", (f"torchrun --nproc-per-node <n> {word}.py \\", '  --name "$USER"')),
            ("json", ('{"a": [1, 2], "b": null}',)),
            ("yaml", (f"{word}:", "  - a: 1", "  - a: 2")),
            ("text", (f"{word} (is not", "closed")),
            ("", (f'{word} "nor this',)),
        )
    )
    return Claim((f"```{language}", *code, "```"))


def _right_table(ground: Ground) -> Claim:
    word = ground.word()
    return Claim(
        ground.rng.choice(
            (
                (f"| {word} | b |", "|:--|--:|", "| `a\\|b` | 2 |"),
                (f"{word} | b", "--- | ---", "1 | 2"),
                (f"<!-- sorted by: {word} -->", f"| {word} |", "|---|", "| 3 |", "| 7 |", "| 12 |"),
                (f"A pipe | in {word} | is none.",),
            )
        )
    )


TRUTHS: tuple[Callable[[Ground], Claim], ...] = (
    _right_sum,
    _right_unit,
    _right_code,
    _right_table,
)
