"""The structure of the PDF as PDF/UA-1 wants it, seen with pikepdf."""

from pathlib import Path

import pikepdf
import pytest
from bindery.book.this_edition import find_edition
from bindery.check.inspect import inspect_book
from bindery.core.model import Finding
from bindery.render.pdf.pdf import build_pdf
from pdf_tags import find_faults, read_tags
from PIL import Image

HARD = """\
# Hard

##### Far too deep

Text with a footnote[^1], [a link](#deep-too) and `code`:

- one
  - inside
    1. deeper

       A paragraph in it.
- [ ] to do

![](p.png)

![A square](p.png)

![One](p.png) ![Two](p.png)

| Head | Number |
|:-----|-------:|
| a    | 1      |

<table>
<tr><th>Left</th><td>1</td></tr>
<tr><th>Right</th><td>2</td></tr>
</table>

<dl><dt>Term</dt><dd>What it means.</dd></dl>

> [!WARNING]
> Mind the *gap*.

```python
print("a line that is much longer than the page is wide, so that it has to be broken somewhere")
```

> Quoted
>
> # Deep too

---

<details><summary>More</summary>

Hidden text.

</details>

[^1]: The note, with `code`.
"""


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[Finding]]:
    """The PDF of a hard book, and what the engine said of it."""
    root = tmp_path_factory.mktemp("hard")
    Image.new("RGB", (40, 30), "#336699").save(root / "p.png")
    body = (
        HARD
        + "\n\n"
        + "Words to fill the pages.\n\n" * 120
        + "| a | b |\n|---|---|\n"
        + "| 1 | 2 |\n" * 90
    )
    (root / "chapters.yaml").write_text("title: A book\nparts:\n  - chapters: [a.md, b.md]\n")
    (root / "a.md").write_text(body)
    (root / "b.md").write_text("# B\n\n[Back](a.md#deep-too)\n")
    inspection = inspect_book(root)
    path = root / "dist" / "book.pdf"
    edition = find_edition(inspection.config)
    _, findings = build_pdf(inspection, edition, path, lambda step: None, lenient=True)
    return path, findings


@pytest.fixture
def hard(built: tuple[Path, list[Finding]]) -> Path:
    return built[0]


def test_a_hard_book_has_no_fault(built: tuple[Path, list[Finding]]) -> None:
    """Headings that jump, lists in lists, raw tables, images without text, tables over pages: the
    tags are in order all the same, and the engine has nothing to say."""
    path, findings = built
    assert [finding.message for finding in findings] == []
    assert find_faults(path) == []


def test_tags_say_what_things_are(hard: Path) -> None:
    """Captions, notes, code, contents and scopes are tagged as such."""
    with pikepdf.open(hard) as file:
        tags = read_tags(file)
        scopes = [str(tag.entry.A.Scope) for tag in tags.find("TH")]
        texts = [str(tag.entry.Alt) for tag in tags.find("Figure")]
        levels = [tag.role for tag in tags.top.walk() if tag.role in ("H1", "H2", "H3", "H5")]
        assert len(tags.find("Note")) == 1
        assert len(tags.find("Code")) >= 3
        captioned = {tag.parent.role for tag in tags.find("Caption") if tag.parent}
        assert captioned == {"Table", "Div"}
        assert tags.find("TOCI")
    assert scopes[:4] == ["/Column", "/Column", "/Row", "/Row"]
    assert texts == ["Figure 1.1", "A square", "One", "Two"]
    assert levels[:3] == ["H1", "H1", "H2"]  # contents, the chapter, its heading
