"""The index: terms where they are explained, tools where they are used, each page once."""

from __future__ import annotations

import subprocess
import sys
from xml.etree import ElementTree

import pytest
from bindery.render.pdf.book_index import Subject, collect_index, write_index

FILLER = (
    "<p>The <em>first phase</em>, the <em>second phase</em> and the <em>third phase</em>.</p>"
    "<p>A first phase, a second phase and a third phase.</p>"
    "<p>Third phase, second phase, first phase.</p>"
    "<p>Data parallelism (DP) is here.</p>"
)
"""Four subjects, so that one more makes an index."""


def collect(
    *chapters: str, tools: tuple[str, ...] = (), glossary: str = ""
) -> dict[str, tuple[str, list[tuple[str, bool]]]]:
    """Name, long form and places of the subjects besides those of the filler."""
    sections = "".join(
        f'<section class="chapter in-part" data-path="{number}.md">{text}</section>'
        for number, text in enumerate((*chapters, FILLER))
    )
    root = ElementTree.fromstring(f"<body>{sections}</body>")
    subjects = collect_index(root, tools, glossary)
    texts = {e.get("id"): "".join(e.itertext()) for e in root.iter() if e.get("id")}
    return {
        s.name: (s.note, [(texts[place], is_main) for place, is_main in s.places.items()])
        for s in subjects
        if "phase" not in s.name and s.name != "DP"
    }


@pytest.mark.parametrize(
    ("text", "letters", "long_form"),
    [
        ("Model FLOPS utilisation (MFU) is", "MFU", "Model FLOPS utilisation"),
        ("a mixture of experts (MOE)", "MOE", "mixture of experts"),
    ],
)
def test_an_abbreviation_brings_its_long_form(text: str, letters: str, long_form: str) -> None:
    """The words before the parenthesis, as far as their first letters make the abbreviation."""
    assert collect(f"<p>{text}</p>") == {letters: (long_form, [(text, True)])}


@pytest.mark.parametrize(
    "text",
    [
        "Some words (XYZ) that do not match",
        "Stressed: <em>not</em> and <em>every</em> word, every word",
        "A word in italics that is <em>never used</em> again",
        "<em>1,024</em> things, 1,024 of them",
    ],
)
def test_what_is_no_term(text: str) -> None:
    """Stress is not explanation, and a parenthesis is not always an abbreviation."""
    assert collect(f"<p>{text}</p>", "<p>not every word</p>") == {}


def test_places_of_a_term() -> None:
    """The explanation is the main place; then headings, and the first use in other chapters."""
    found = collect(
        "<p>Two at a time (<em>pairing</em>).</p><p>Pairing again.</p>",
        "<p>Nothing.</p><p>Pairing here.</p><p>Pairing there.</p><h2>On pairing</h2>",
    )
    assert found == {
        "pairing": (
            "",
            [
                ("Two at a time (pairing).", True),
                ("Pairing here.", False),
                ("On pairing", False),
            ],
        )
    }


def test_a_tool_is_named_as_code() -> None:
    """Its name may be a word of the language: it counts where it is code, also in commands."""
    found = collect(
        "<p>You feel it.</p><p>Run <code>feel</code> first.</p>",
        "<pre><code>python scripts/storage/feel.py --fast</code></pre>",
        tools=("feel", "unused"),
    )
    assert found == {
        "feel": ("", [("Run feel first.", False), ("python scripts/storage/feel.py --fast", False)])
    }


def test_a_glossary_explains_its_terms() -> None:
    """What a glossary sets in bold is a term, wherever it is used, and is explained there."""
    found = collect(
        "<p>The rank of a process.</p>",
        "<ul><li><strong>Rank</strong>: the number of a process.</li></ul>",
        glossary="1.md",
    )
    assert found == {
        "Rank": ("", [("Rank: the number of a process.", True), ("The rank of a process.", False)])
    }


def test_a_page_is_named_once() -> None:
    """Two places on one page are one number, bold where the term is explained there."""
    subject = Subject("busbw", places={"a": False, "b": True, "c": False, "gone": False})
    text = write_index([subject], {"a": 12, "b": 12, "c": 14})
    assert text == (
        '<p class="letter">B</p>\n<p class="entry">busbw '
        '<a href="#b" class="main">12</a>, <a href="#c">14</a></p>'
    )


def spread(word: str, count: int = 3) -> str:
    """Sections that each say a word once."""
    return "".join(f"<h2>Part {n}</h2><p>It is {word} here, part {n}.</p>" for n in range(count))


@pytest.mark.parametrize(
    "name",
    ["NCCL", "NVLink", "InfiniBand", "ZeRO-3", "Megatron-LM", "RoCE", "FP8", "H100"],
)
def test_a_name_that_stands_in_many_sections(name: str) -> None:
    """Abbreviations, capitals inside and letters with a number need no italics."""
    (places,) = [places for _, places in collect(spread(name)).values()]
    assert [text for text, _ in places] == [f"It is {name} here, part {n}." for n in range(3)]
    assert collect(spread(name, 2)) == {}


@pytest.mark.parametrize(
    "word",
    [
        *("GiB", "GBps", "MHz", "TFLOPS", "README", "JSON", "MAX", "CUDA-based", "word", "Lustre"),
        *("<code>--max-size</code>", "<code>git</code>", "<code>run.sh</code>", "<sup>AB</sup>"),
    ],
)
def test_what_is_no_name(word: str) -> None:
    """Units, stress in capitals, flags, files and programs of every shell."""
    assert collect(f"<p>The max, a max, one more max, any max.</p>{spread(word)}") == {}


@pytest.mark.parametrize(
    ("code", "name"),
    [
        ("NCCL_DEBUG=INFO", "NCCL_DEBUG"),
        ("srun --ntasks=2", "srun"),
        ("nvidia-smi", "nvidia-smi"),
        ("torch.compile()", "torch.compile"),
    ],
)
def test_programs_and_variables_are_named_as_code(code: str, name: str) -> None:
    """What the text names as code in several sections, without its values and options."""
    assert list(collect(spread(f"<code>{code}</code>"))) == [name]


def test_the_appendix_brings_no_names() -> None:
    """What each record of a list says again is looked up by nobody."""
    for kind, expected in (("chapter", True), ("chapter appended", False)):
        root = ElementTree.fromstring(
            f'<body><section class="chapter" data-path="a.md">{FILLER}'
            f"<p>Tensor parallelism (TP).</p></section>"
            f'<section class="{kind}" data-path="b.md">{spread("NCCL")}</section></body>'
        )
        names = {subject.name for subject in collect_index(root, (), "")}
        assert ("NCCL" in names) is expected
        assert "TP" in names


MANY_CODES = f"""
import subprocess
import sys
from xml.etree import ElementTree
from bindery.render.pdf.book_index import collect_index

codes = [f"<code>{{name}}</code>" for name in ("ALPHA_X", "BETA_X", "GAMMA_X", "DELTA_X")]
alone = "".join(f"<p>{{code}}</p>" for code in codes)
text = f"<h2>a</h2><p>{{' '.join(codes)}}</p><h2>b</h2>{{alone}}<h2>c</h2>{{alone}}"
sections = "".join(
    f'<section class="chapter" data-path="{{n}}.md">{{part}}</section>'
    for n, part in enumerate((text, {FILLER!r}, {FILLER!r}))
)
root = ElementTree.fromstring(f"<body>{{sections}}</body>")
tools = ("one_tool", "two_tool", "three_tool")
print([list(s.places) for s in collect_index(root, tools, "")])
print(ElementTree.tostring(root))
"""


def test_the_order_of_hashes_does_not_matter(child_environment: dict[str, str]) -> None:
    """The places get the same ids in each process, so two PDFs of a book are the same bytes."""
    outputs = {
        subprocess.run(
            [sys.executable, "-c", MANY_CODES],
            env={**child_environment, "PYTHONHASHSEED": seed},
            capture_output=True,
            check=True,
        ).stdout
        for seed in "123"
    }
    assert len(outputs) == 1
    assert b"ALPHA_X" in outputs.pop()
