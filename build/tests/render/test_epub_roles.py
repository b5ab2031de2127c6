"""What readers' programs get around a chapter: captions and notes that pop up."""

import pytest
from bindery.render.epub.roles import dress_chapter
from bindery.render.numbering import Exhibit
from lxml import etree

NAMES = 'xmlns="http://www.w3.org/1999/xhtml" xmlns:epub="http://www.idpf.org/2007/ops"'
TABLE = Exhibit("table", "a.md", "t", "Table 1.1", "Rates")
FIGURE = Exhibit("figure", "a.md", "f", "Figure 1.2", "A curve")
CAPTION = '<span class="label">Figure 1.2</span> A curve'


def dress(body: str) -> str:
    text = f"<html {NAMES}><body><section>{body}</section></body></html>"
    dressed = dress_chapter(text, {"t": TABLE, "f": FIGURE}, {})
    section = etree.fromstring(dressed).find(".//{*}section")
    assert section is not None
    inner = "".join(etree.tostring(child, encoding="unicode") for child in section)
    return inner.replace(f" {NAMES}", "").replace(' xmlns:epub="http://www.idpf.org/2007/ops"', "")


@pytest.mark.parametrize(
    ("given", "dressed"),
    [
        ('<p class="figure"><img id="f"/></p>',
         f'<figure class="figure"><img id="f"/><figcaption>{CAPTION}</figcaption></figure>'),
        ('<ul><li>a <img id="f"/> b</li></ul>',
         (f'<ul><li>a <figure class="figure"><img id="f"/><figcaption>{CAPTION}</figcaption>'
          "</figure> b</li></ul>")),
        ('<figure><img id="f"/><figcaption>Mine</figcaption></figure>',
         ('<figure><img id="f"/><figcaption><span class="label">Figure 1.2</span> Mine'
          "</figcaption></figure>")),
        ('<p>in <img id="f"/> text</p>', '<p>in <img id="f"/> text</p>'),
        ('<table id="t"><caption>Mine</caption><tr/></table>',
         ('<table id="t"><caption><span class="label">Table 1.1</span> Mine</caption>'
          "<tr/></table>")),
        ('<pre><code class="language-sh">ls</code></pre>',
         '<pre data-language="Bash"><code class="language-sh">ls</code></pre>'),
    ],
)  # fmt: skip
def test_numbered_things_get_captions_and_code_its_language(given: str, dressed: str) -> None:
    """A caption is where its element allows one, an author's caption keeps its words, and nothing
    else is touched."""
    assert dress(given) == dressed


def test_footnotes_are_asides_that_pop_up() -> None:
    """Reference, note and way back have the types and roles that readers look for; the number
    that the list drew is still there."""
    shown = dress(
        '<p>a<sup class="note"><a id="r" href="#n">1</a></sup></p><hr class="footnotes"/>'
        '<ol class="footnotes"><li id="n"><p>Said. <a class="back" href="#r">b</a></p></li></ol>'
    )
    assert '<a id="r" href="#n" epub:type="noteref" role="doc-noteref">1</a>' in shown
    assert '<section class="footnotes" epub:type="footnotes" role="doc-endnotes"' in shown
    assert '<aside id="n" epub:type="footnote" role="doc-footnote"><p>' in shown
    assert '<span class="number">1.</span> Said. <a class="back" href="#r" role="doc-b' in shown
    assert "<hr" not in shown
