"""The author's own style sheets have the last word on each output."""

import zipfile

import pikepdf
from fixture_types import BookMaker, Runner

BOOK = {
    "README.md": "# A book\n\nWords.\n",
    "style/site.css": ":root { --link: #7a1f5c }\nh1 { background: url('dot.svg') }\n",
    "style/print.css": "@page { size: 120mm 150mm; margin: 5mm }\n",
    "style/dot.svg": '<svg xmlns="http://www.w3.org/2000/svg"/>',
    "chapters.yaml": """\
title: A book
parts: [{chapters: [README.md]}]
style: {html: style/site.css, epub: style/site.css, pdf: style/print.css}
""",
}


def test_style_sheets_come_last(make_book: BookMaker, run_bindery: Runner) -> None:
    root = make_book(BOOK)
    for output in ("html", "epub", "pdf"):
        assert run_bindery(output, folder=root).status == 0
    css = (root / "dist/site/site.css").read_text()
    assert css.endswith(
        "\n:root { --link: #7a1f5c }\nh1 { background: "
        'url("data:image/svg+xml;base64,PHN2ZyB4bWxucz0iaHR0cDovL3d3dy53My5vcmcvMjAwMC9zdmciLz4=") '
        "}\n"
    )
    with zipfile.ZipFile(root / "dist/book.epub") as epub:
        (sheet,) = (name for name in epub.namelist() if name.endswith(".css"))
        assert b"--link: #7a1f5c" in epub.read(sheet)
    with pikepdf.open(root / "dist/book.pdf") as pdf:
        sizes = {tuple(round(float(side)) for side in page.mediabox) for page in pdf.pages}
    assert sizes == {(0, 0, 340, 425)}  # 120 x 150 mm in points


def test_what_a_style_names_is_in_the_book(make_book: BookMaker, run_bindery: Runner) -> None:
    root = make_book(BOOK)
    (root / "style/dot.svg").unlink()
    ended = run_bindery("html", folder=root)
    assert ended.status == 2
    assert ended.stderr == (
        "style/site.css:2:1: error[config]: the style sheet names 'dot.svg', and there is no such "
        "file\n  |\n2 | h1 { background: url('dot.svg') }\n  | ^\n"
        "  = help: fonts and pictures of a style lie in the book\n"
        "stopped: 1 error\n"
    )
