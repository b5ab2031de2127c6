"""Markdown that nobody should write: what the tests with arbitrary text are made of."""

from hypothesis import strategies as st

NASTY = [
    *("[x](", "a.md", ")", "![", "](b.svg)", "[", "]", "(", "<", ">", "<a href='", "'>", "</a>"),
    *("<p>", "</p>", "<div", "</div>", "<jobid>", "<!--", "-->", "<!-- table: x -->", "<pre>"),
    *("<!-- /table -->", "<!-- bindery: allow x", "because", "</pre>", "<h2>", "</h2>", "<td>"),
    *("|", "|---|---|\n", "| a | b |\n", "\\|", "\n- ", "\n  - ", "\n1. ", "\n> ", "\n\n", "\n"),
    *("# ", "\n## ", "\n===\n", "\n---\n", "```", "\n```python\n", "~~~\n", "    ", "\t", "*"),
    *("**", "_", "~~", "`", "``", "&amp;", "&#0;", "&", "\x00", "\x07", "\x1b", "\r", "\u2028"),
    *("\ufeff", "\uffff", "[^1]", "\n[^1]: ", "[ref]: a.md\n", "[ref]", "<https://e.org>"),
    *("https://e.org/", "www.e.org", "me@e.org", "- [ ] ", "> [!NOTE]\n", "$x$", "<br>", "<img "),
    *(
        "é",
        "src=",
        '"',
        "'",
        "  \n",
        "\\\n",
        "word",
        " ",
        "<a id=Own>",
        "<style>",
        "<script>",
        "</",
        "/>",
    ),
]
"""What Markdown and HTML are made of, and characters that nothing should be made of."""

MARKDOWN = st.lists(st.sampled_from(NASTY) | st.text(max_size=5), max_size=40).map("".join)
"""Texts of these fragments and of any character, in any order."""
