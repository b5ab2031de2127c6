"""Diagrams: drawn by the program mmdc when asked, shown by all outputs, and never out of date."""

import re
import stat
import sys
import zipfile
from pathlib import Path

import pytest
from bindery.check.rules.broken_image import find_drawing_fault
from fixture_types import BookMaker, Runner
from validators import read_words

CHAPTER = """\
# Pipes

See [Figure](#pipe).

<a id="pipe"></a>**Figure:** From a to b.

```mermaid
graph LR
  alpha[Alpha] -->|"<x>"| beta
```
"""
STAND_IN = f"""\
#!{sys.executable}
import json, pathlib, sys

options = dict(zip(sys.argv[2::2], sys.argv[3::2]))
assert sys.argv[1] == "-q"
assert json.loads(pathlib.Path(options["-c"]).read_text())["htmlLabels"] is False
source = pathlib.Path(options["-i"]).read_text()
if "wrong" in source:
    sys.exit("Error: Parse error on line 1:\\n" + source)
text = '<g id="a"/><text id="a" x="4" y="20">Drawn</text>'
text = "<foreignObject/>" if "mindmap" in source else text
pathlib.Path(options["-o"]).write_text(
    '<svg xmlns="http://www.w3.org/2000/svg" width="100%" style="max-width: 90px"'
    f' viewBox="0 0 90 40.5">{{text}}</svg>'
)
"""
DRAWING = "figures/mermaid-872e3ae06cc0e0c3.svg"


@pytest.fixture
def stand_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A program that is called like mmdc, and says how it was called."""
    program = tmp_path / "programs" / "mmdc"
    program.parent.mkdir()
    program.write_text(STAND_IN)
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", str(program.parent), prepend=":")


@pytest.mark.usefixtures("stand_in")
def test_a_diagram_is_drawn_and_shown(make_book: BookMaker, run_bindery: Runner) -> None:
    """Without a drawing the outputs show the code; afterwards the drawing, with the code as its
    description. It has a size of its own, a number, and the same bytes each time."""
    root = make_book({"a.md": CHAPTER}, extra="outputs: {name: b}\n")
    page = root / "dist/site/a.html"
    assert run_bindery("html", folder=root).status == 0
    assert '<pre id="code.1"' in page.read_text()
    assert run_bindery("fill", "--check", folder=root).status == 1

    ended = run_bindery("fill", folder=root)
    assert (ended.status, ended.stdout.splitlines()[0]) == (0, f"{DRAWING}: drawn")
    drawn = (root / DRAWING).read_text()
    assert drawn.startswith('<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 90 40.5" width')
    assert find_drawing_fault(drawn.encode()) == ""
    assert drawn.count('id="a"') == 1  # ebooks may not hold one twice
    assert "drawn" not in run_bindery("fill", folder=root).stdout
    assert run_bindery("check", folder=root).status == 0
    (root / DRAWING).unlink()
    assert run_bindery("fill", folder=root).status == 0
    assert (root / DRAWING).read_text() == drawn

    for command in ("pdf", "epub", "html", "links"):
        assert run_bindery(command, folder=root).status == 0
    alt = 'alt="graph LR alpha[Alpha] --&gt;|&quot;&lt;x&gt;&quot;| beta"'
    assert f'<img id="code.1" src="{DRAWING}" {alt} width="90" height="40"' in page.read_text()
    with zipfile.ZipFile(root / "dist/b.epub") as book:
        text = book.read("EPUB/text/ch001.xhtml").decode()
        (image,) = re.findall(rf'<img id="a--code.1" src="../(.+?)" {re.escape(alt)}', text)
        assert book.read(f"EPUB/{image}").decode() == drawn
    words = " ".join(word.text for word in read_words(root / "dist/b.pdf"))
    assert re.search(r"See Figure 1.1 .*Drawn .*From a to b", words)


@pytest.mark.usefixtures("stand_in")
def test_what_mmdc_cannot_draw_is_told(make_book: BookMaker, run_bindery: Runner) -> None:
    """A diagram with an error, or one whose text ebooks would not show, is left undrawn, and the
    others are drawn."""
    chapter = CHAPTER + "\n```mermaid\nwrong\n```\n\n```mermaid\nmindmap\n```\n"
    ended = run_bindery("fill", folder=make_book({"a.md": chapter}))
    assert ended.status == 1
    assert f"{DRAWING}: drawn" in ended.stdout
    assert ended.stderr.splitlines() == [
        "a.md:12: not drawn: mmdc: Error: Parse error on line 1:",
        "a.md:16: not drawn: mmdc writes the text of this kind of diagram as HTML, for browsers",
    ]
    assert ended.stdout.count("[undrawn-diagram]") == 2


@pytest.mark.nightly
@pytest.mark.needs("mmdc")
def test_the_program_itself_draws(make_book: BookMaker, run_bindery: Runner) -> None:
    """Its drawings hold their words as text, on paper too."""
    root = make_book({"a.md": CHAPTER}, extra="outputs: {name: b}\n")
    ended = run_bindery("fill", folder=root)
    assert ended.status == 0, ended.stderr
    assert run_bindery("check", folder=root).status == 0
    assert run_bindery("pdf", folder=root).status == 0
    assert "Alpha" in {word.text for word in read_words(root / "dist/b.pdf")}
