"""The index: terms where they are explained and used, tools and variables where they are used."""

import subprocess
import sys

from bindery.render.pdf.book_index import Subject, collect_index, write_index
from lxml import etree

FILLER = "".join(f"<p><code>{name}</code></p>" for name in ("AA_X", "BB_X", "CC_X", "DD_X"))
TWICE = f"<h2>a</h2>{FILLER}<h2>b</h2>{FILLER}"
"""Four subjects, so that one more makes an index."""
Place = tuple[str, bool]


def collect(
    *chapters: str, tools: tuple[str, ...] = (), kind: str = "chapter"
) -> dict[str, tuple[str, list[Place]]]:
    """Note and places of the subjects besides those of the filler. The last chapter is the
    glossary, if there is more than one."""
    sections = "".join(
        f'<section class="{kind if text != TWICE else "chapter"}" data-path="{number}">{text}'
        "</section>"
        for number, text in enumerate((TWICE, *chapters))
    )
    root = etree.fromstring(f"<body>{sections}</body>")
    subjects = collect_index(root, tools, str(len(chapters)) if len(chapters) > 1 else "")
    texts = {e.get("id"): "".join(e.itertext()) for e in root.iter() if e.get("id")}
    return {
        s.name: (s.note, [(texts[place], is_main) for place, is_main in s.places.items()])
        for s in subjects
        if s.name not in FILLER
    }


def test_a_term_has_its_explanation_and_the_places_that_use_it() -> None:
    """The explanation is the main place; then headings and the first use in each section, under
    any of its names."""
    found = collect(
        "<p>Ranks of a process.</p><p>A rank.</p><h2>On rank</h2><p>HBM is fast memory.</p>"
        "<pre>rank</pre>",
        "<ul><li><strong>Rank</strong>: the number.</li>"
        "<li><b>HBM</b> (fast memory): beside the chip.</li></ul>",
    )
    assert found == {
        "Rank": (
            "",
            [
                ("Rank: the number.", True),
                ("Ranks of a process.", False),
                ("On rank", False),
            ],
        ),
        "HBM": (
            "",
            [
                ("HBM (fast memory): beside the chip.", True),
                ("HBM is fast memory.", False),
            ],
        ),
    }


def test_each_name_of_a_term_has_an_entry() -> None:
    """The first one has all uses, under any name and in the plural; the others lead to the
    explanation."""
    found = collect(
        "<p>High-bandwidth memories.</p><p>High-bandwidth memory.</p>",
        "<table><tr><td>HBM (high-bandwidth memory)</td><td>beside the chip</td></tr></table>",
    )
    (note, places) = found["HBM"]
    assert note == "high-bandwidth memory"
    assert ("High-bandwidth memory.", False) in places
    assert ("HBM (high-bandwidth memory)", True) in places
    assert found["high-bandwidth memory"] == ("HBM", [("HBM (high-bandwidth memory)", True)])


def test_a_tool_is_named_as_code() -> None:
    """Its name may be a word of the language: it counts where it is code, also in commands."""
    found = collect(
        "<p>You feel it.</p><p>Run <code>feel</code> first.</p><h2>x</h2>"
        "<pre><code>python scripts/storage/feel.py --fast</code></pre>",
        tools=("feel", "unused"),
    )
    assert found == {
        "feel": ("", [("Run feel first.", False), ("python scripts/storage/feel.py --fast", False)])
    }


def test_a_variable_needs_two_sections_of_the_text() -> None:
    """`NCCL_DEBUG` is an entry where two sections name it; what the appendix repeats for each
    record is not counted."""
    once = "<p>Set <code>NCCL_DEBUG=INFO</code>.</p>"
    assert set(collect(f"{once}<h2>x</h2>{once}")) == {"NCCL_DEBUG"}
    assert collect(once + once) == {}
    assert collect(f"{once}<h2>x</h2>{once}", kind="chapter appended") == {}


def test_a_page_is_named_once() -> None:
    """Two places on one page are one number, bold where the term is explained there."""
    subject = Subject("busbw", places={"a": False, "b": True, "c": False, "gone": False})
    text = write_index([subject], {"a": 12, "b": 12, "c": 14})
    assert text == (
        '<p class="letter">B</p>\n<p class="entry">busbw '
        '<a href="#b" class="main">12</a>, <a href="#c">14</a></p>'
    )


def test_a_long_entry_names_the_chapters() -> None:
    """More than five pages are listed by chapter, below the page of the explanation."""
    places = {"a": False, "b": False, "c": False, "d": False, "e": False, "main": True}
    names = ("Network", "Network", "CPU", "CPU", "A & B", "Glossary")
    titles = dict(zip(places, names, strict=True))
    numbers = {place: number for number, place in enumerate(places, 10)}
    subject = Subject("NCCL", places=places, chapters=titles)
    tree = etree.fromstring(f"<div>{write_index([subject], numbers)}</div>")
    lines = ["".join(element.itertext()) for element in tree]
    assert lines == ["N", "NCCL 15", "Network 10, 11", "CPU 12, 13", "A & B 14"]
    del numbers["a"]
    assert "subentry" not in write_index([subject], numbers)


def test_places_know_their_chapters() -> None:
    """By the title of the chapter, without what is not its text."""
    chapters = "".join(
        f'<section class="chapter"><h1>On<sup>1</sup> {n}</h1>{TWICE}<pre>feel</pre></section>'
        for n in (1, 2)
    )
    subjects = collect_index(etree.fromstring(f"<body>{chapters}</body>"), ("feel",), "")
    found = next(subject for subject in subjects if subject.name == "feel")
    assert list(found.chapters.values()) == ["On 1", "On 2"]


SCRIPT = f"""
from bindery.render.pdf.book_index import collect_index
from lxml import etree
text = {TWICE!r} + {TWICE!r}.replace("AA", "EE")
root = etree.fromstring(f'<body><section class="chapter">{{text}}</section></body>')
print([s.places for s in collect_index(root, ("one", "two", "three"), "")])
"""


def test_the_order_of_hashes_does_not_matter(child_environment: dict[str, str]) -> None:
    """Places get the same ids in each process, so two PDFs of a book are the same bytes."""
    outputs = {
        subprocess.run(
            [sys.executable, "-c", SCRIPT],
            env={**child_environment, "PYTHONHASHSEED": seed},
            capture_output=True,
            check=True,
        ).stdout
        for seed in "123"
    }
    assert len(outputs) == 1
    assert b"index.1" in outputs.pop()
