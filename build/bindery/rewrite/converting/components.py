"""Read MDX components of Docusaurus and Hugging Face: `<Tip warning={true}>...</Tip>`."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Mapping, Sequence

from msgspec import Struct

_START = re.compile(r"(?P<indent>[ \t]*)<(?P<name>[A-Z]\w*|hfoptions?)(?=[\s/>]|$)")
_ATTRIBUTE = re.compile(
    r"(?P<key>[A-Za-z][\w-]*)(?:=(?:\"(?P<double>[^\"]*)\"|'(?P<single>[^']*)'"
    r"|\{(?P<braces>[^{}]*)\}))?"
)
_STATEMENT = re.compile(
    r"import\s+(?:[\w{}*,\s$]+\sfrom\s+)?([\"'])[^\"'\n]+\1;?[ \t]*(?:\n|$)"
    r"|export\s+(?:default|const|let|function|class)\b|export\s*\{"
)

DROPPED = ("CourseFloatingBanner", "FrameworkSwitchCourse", "DocNotebookDropdown", "DocCardList")
"""Buttons and menus of a site."""
UNWRAPPED = ("Tabs", "hfoptions")
"""Only their content is kept."""
LABELS = {"TabItem": ("label", "value"), "hfoption": ("id",)}
"""Tabs, and the attributes with their labels."""


class Component(Struct, frozen=True):
    """A component with no other text on its lines."""

    indent: str
    name: str
    attributes: Mapping[str, str]
    body: list[str]
    """The dedented lines between its tags; empty for a self-closing tag."""
    count: int
    """Its number of lines."""

    def find_label(self) -> str:
        """The label of a tab; its name if it has none."""
        keys = (key for key in LABELS[self.name] if key in self.attributes)
        return next((self.attributes[key] for key in keys), self.name)


def read_component(lines: Sequence[str], at: int) -> Component | None:
    """The component that starts on a line; None if there is none or it is not closed."""
    start = _START.match(lines[at])
    if start is None:
        return None
    text = "\n".join(lines[at:])
    opening = _find_end(text, start.end())
    if not opening:
        return None
    is_closed = text[opening - 2] == "/"
    end = close = opening
    if not is_closed:
        depth = 1
        for tag in re.finditer(rf"<(/?){start['name']}(?=[\s/>])", text[opening:]):
            tag_end = _find_end(text, opening + tag.end())
            if not tag_end:
                return None
            if tag[1] or text[tag_end - 2] != "/":
                depth += -1 if tag[1] else 1
            if not depth:
                end, close = opening + tag.start(), tag_end
                break
        else:
            return None
    rest = text[close:].partition("\n")[0]
    if rest.strip():
        return None
    attributes = {
        match["key"]: match["double"] or match["single"] or match["braces"] or ""
        for match in _ATTRIBUTE.finditer(text[start.end() : opening].rstrip("/>"))
    }
    inside = text[opening:end]
    body = textwrap.dedent(inside).strip("\n").split("\n") if not is_closed else []
    is_indented = all(
        line.startswith(start["indent"]) or not line.strip() for line in inside.split("\n")[1:]
    )
    indent = start["indent"] if is_indented else ""
    return Component(indent, start["name"], attributes, body, text.count("\n", 0, close) + 1)


def read_siblings(lines: Sequence[str], at: int) -> tuple[list[Component], int]:
    """The component on a line, those of the same name that follow, and their number of lines."""
    found: list[Component] = []
    number = end = at
    while number < len(lines) and (one := read_component(lines, number)):
        if found and one.name != found[0].name:
            break
        found.append(one)
        number = end = number + one.count
        while number < len(lines) and not lines[number].strip():
            number += 1
    return found, end - at


def _find_end(text: str, start: int) -> int:
    """The end of a tag, ignoring `>` inside braces; 0 if the tag is not closed."""
    depth = 0
    for match in re.finditer(r"[{}>]|\"[^\"]*\"", text[start:]):
        if match[0] == ">" and not depth:
            return start + match.end()
        depth += {"{": 1, "}": -1}.get(match[0], 0)
    return 0


def count_statements(lines: Sequence[str], at: int) -> int:
    """The number of lines of an import or export, which ends at a blank line; 0 for other text."""
    if not lines[at].startswith(("import ", "export ")):
        return 0
    block = "\n".join(lines[at:]).partition("\n\n")[0]
    return block.count("\n") + 1 if _STATEMENT.match(block) else 0
