"""The syntax of other book tools, rewritten as GitHub Markdown where that loses nothing.

Most of it is not Markdown to a parser, so a chapter is read line by line. Code and comments stay as
they are, and so does what has no counterpart: `foreign-syntax` reports it afterwards.
"""

from __future__ import annotations

import html
import itertools
import posixpath
import re
import textwrap
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from bindery.evidence.excerpts import Excerpt
from bindery.evidence.quotations import write_excerpt
from bindery.markdown.prose import INSERTED, MARKED, RAISED
from bindery.markdown.slugs import slugify_heading
from bindery.rewrite.converting import components


@dataclass(frozen=True, slots=True)
class Places:
    """What references of other tools name."""

    labels: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    """The chapter of each label, and the title of its place."""
    titles: Mapping[str, str] = field(default_factory=dict)
    """The title of each chapter, by its path."""
    folder: str = ""
    """Where the paths of chapters start that begin with a slash."""
    find_excerpt: Callable[[str], Excerpt] = lambda _: Excerpt(fault="there are no files")
    """What a file or a part of it says."""

    def find_chapter(self, target: str, here: str) -> str:
        """The chapter that a reference without ending names; empty where there is none."""
        start = self.folder if target.startswith("/") else posixpath.dirname(here)
        path = posixpath.normpath(posixpath.join(start, target.lstrip("/")))
        choices = (path, f"{path}.md", f"{path}/README.md", f"{path}/index.md")
        return next((choice for choice in choices if choice in self.titles), "")


_ALERTS = {
    "note": "NOTE", "info": "NOTE", "tip": "TIP", "hint": "TIP", "important": "IMPORTANT",
    "warning": "WARNING", "attention": "WARNING", "caution": "CAUTION", "danger": "CAUTION",
    "error": "CAUTION",
}  # fmt: skip
_TITLED = {
    "abstract": "NOTE", "summary": "NOTE", "tldr": "NOTE", "todo": "NOTE", "seealso": "NOTE",
    "question": "NOTE", "help": "NOTE", "faq": "NOTE", "example": "NOTE", "success": "TIP",
    "check": "TIP", "done": "TIP", "failure": "CAUTION", "fail": "CAUTION", "missing": "CAUTION",
    "bug": "CAUTION",
}  # fmt: skip
"""Admonitions whose name says more than the name of the alert, and becomes its title."""
_QUOTES = ("quote", "cite", "epigraph")
_KINDS = "|".join((*_ALERTS, *_TITLED))
_CODE_ROLE = re.compile(
    r"(?:(?:py|c|cpp|js|rst):)?(?:code|file|command|program|option|envvar|literal|func|class|meth"
    r"|mod|attr|obj|data|exc)"
)

_LIST_ITEM = re.compile(r"\s*(?:[-*+]|\d+[.)])\s")
_FENCE = re.compile(r"(?P<indent>\s*)(?P<marks>`{3,}(?!.*`)|~{3,}|:{3,}|/{3,})\s*(?P<info>.*?)\s*$")
_MKDOCS = re.compile(
    r"(?P<indent>\s*)(?P<mark>!!!|\?\?\?\+?) (?P<kind>[a-z][\w-]*)(?: [a-z]+)*"
    r'(?: "(?P<title>[^"]*)")?\s*$'
)
_TAB = re.compile(r'(?P<indent>\s*)===[!+]? "(?P<title>[^"]*)"\s*$')
_DIRECTIVE = re.compile(r"\{(?P<name>[A-Za-z][\w:-]*)\}\s*(?P<title>.*)")
_CALLOUT = re.compile(r"\{\s*\.callout-(?P<name>\w+)(?P<rest>[^}]*)\}")
_CONTAINER = re.compile(
    rf"(?P<name>{_KINDS}|details)(?:\[(?P<boxed>[^\]]*)\]|\s+(?P<title>[^{{]*))?(?:\{{[^}}]*\}})?"
)
_CELL = re.compile(r"\{\s*(?P<language>python|r|julia|bash|sql|\.[\w+-]+)\b[^}]*\}")
_CODE = re.compile(r'(?P<language>[\w+#-]*)\s+(?:[\w-]+="[^"]*").*')
_ANNOTATION = re.compile(r"(?<=[#/*;%-] )\((\d+)\)!")
_INCLUDE = re.compile(
    r"\{\{#(?P<kind>include|rustdoc_include|playground)\s+(?P<path>[^\s:}]+)"
    r"(?::(?P<name>[A-Za-z][\w-]*)|:(?P<first>\d*)(?P<to>:(?P<last>\d+))?)?(?:\s[^}]*)?\}\}\s*$"
)
_QUOTED_ALERT = re.compile(
    rf"> ?\*\*(?P<kind>{'|'.join(_ALERTS)})(?::?\*\*$|:\*\*|\*\*:)\s*(?P<rest>.*)$", re.I
)
_ALERT_IN_HTML = re.compile(rf'(?P<indent>\s*)<div class="(?P<kind>{"|".join(_ALERTS)})">\s*$')
_GENERATED = re.compile(r"\s*<!-- (?P<kind>table|plot|output|excerpt): ")
_FRAMEWORK = re.compile(r"\{#if fw === '(?P<name>pt|tf)'\}\s*$")
_FRAMEWORKS = {"pt": ("PyTorch", "TensorFlow"), "tf": ("TensorFlow", "PyTorch")}
"""Of the course of Hugging Face: the one that a text is for, and the other."""
_MARKDOWN_IN_HTML = re.compile(
    r'(?P<indent>\s*)<(?P<tag>figure|div)(?P<before>[^<>]*?)\s+markdown(?:="[^"]*")?'
    r"(?P<behind>[^<>]*)>\s*$"
)
_OPTION = re.compile(r":(?P<key>[\w-]+):\s*(?P<value>.*?)\s*$")
_TARGET = re.compile(r"\((?P<label>[\w:.-]+)\)=\s*$")
_D2L = re.compile(r"\s*:(?P<key>label|width|height):`(?P<value>[^`]+)`\s*$")
_HEADING = re.compile(r"(?P<marks>#{1,6})\s+(?P<title>.*?)\s*$")
_HEADING_ID = re.compile(r"\s*(?:\{:?\s*(?P<attributes>[#.-][^{}]*)\}|\[\[(?P<id>[\w.-]+)\]\])$")
_IMAGE = re.compile(
    r"(?P<indent>\s*)(?P<image>!\[(?P<alt>[^\]]*)\]\((?P<path>[^\s()]+)(?:\s+\"[^\"]*\")?\))"
    r"(?:\{:?\s*(?P<attributes>[^{}]*)\})?\s*$"
)
_ATTRIBUTE = re.compile(r'#(?P<id>[\w:.-]+)|(?P<key>[\w-]+)=(?:"(?P<quoted>[^"]*)"|(?P<bare>\S+))')
_CONTENTS = re.compile(r"\[(?:toc|TOC|\[_?(?:toc|TOC)_?\])\]\s*$")
_ATTRIBUTES = re.compile(r"\{:?\s*(?:\.[\w-]+\s*)+\}\s*$")
_DEFINITION = re.compile(r":\s+(?P<text>\S.*)$")
_MYST_COMMENT = re.compile(r"%\s+(?P<text>\S.*)$")
_MARKS = re.compile(r"[`*_$\[<&]")

_INLINE = re.compile(
    r"\{(?P<role>[a-z][\w:.-]*)\}`(?P<words>[^`]+)`"
    r"|(?<![\w`:]):(?P<sphinx>[a-z][\w:]*):`(?P<named>[^`]+)`"
    r"|(?P<code>(?<!`)(?P<ticks>`+)(?!`).*?(?<!`)(?P=ticks)(?!`))"
    r"|(?<!!)\[\]\((?P<empty>[^)\s]+)\)"
    r"|(?<![\w@/\[])@(?P<cross>(?:fig|tbl|sec|eq|lst)-[\w-]+)"
    r"|(?<!\])\[(?P<span>[^\]\[]*)\]\{\.[\w .-]*\}"
    r'|(?<=[):\]])(?P<attributes>\{:?\s*(?:[.#][\w-]+\s*|[\w-]+=(?:"[^"]*"|[^\s{}]+)\s*)+\})'
    r'|(?<![\w+{])\+\+(?P<keys>(?:[a-z0-9-]+|"[^"]+")(?:\+(?:[a-z0-9-]+|"[^"]+"))*)\+\+(?!\w)'
    r"|\{/\*(?P<remark>.*?)\*/\}"
    r"|\\\\\((?P<formula>.+?)\\\\\)"
    r'|<Youtube id="(?P<video>[\w-]+)"\s*/>'
    r"|(?P<frame><iframe\s[^<>]*>\s*</iframe>)"
    r"|\$[^$\s](?:[^$\n]*[^$\s])?\$|\]\([^()\s]*\)|</?[a-z][^<>]*>|https?://[^\s)>]+"  # stay
    rf"|(?<=\w)~(?P<sub>[^~\s]+)~(?!~)|{RAISED}|{MARKED}|{INSERTED}"
)
_KINDS_INSIDE = ("role", "sphinx", "empty", "cross", "span", "attributes", "keys", "remark",
                 "formula", "video", "frame", "sub", "sup", "mark", "ins")  # fmt: skip
_ROLE_TARGET = re.compile(r"(?P<text>.*?)\s*<(?P<target>[^<>]+)>$")


def find_labels(path: str, text: str) -> Iterator[tuple[str, tuple[str, str]]]:
    """The labels of a chapter, each with its path and the title of its place: of the heading below
    or above, or the caption of a figure."""
    title = waiting = ""
    for line in text.split("\n"):
        if heading := _HEADING.match(line):
            title = heading["title"]
            if found := _HEADING_ID.search(title):
                title = title[: found.start()].rstrip("# ")
                if label := found["id"] or _read_attributes(found["attributes"]).get("id"):
                    yield label, (path, title)
            if waiting:
                yield waiting, (path, title)
        elif image := _IMAGE.match(line):
            title = image["alt"]
            if label := _read_attributes(image["attributes"] or "").get("id"):
                yield label, (path, title)
        elif (label_below := _D2L.match(line)) and label_below["key"] == "label":
            yield label_below["value"], (path, title)
        elif (option := _OPTION.match(line.strip())) and option["key"] in ("name", "label"):
            yield option["value"], (path, "")
        target = _TARGET.match(line)
        if target:
            yield target["label"], (path, "")
        if line.strip():
            waiting = target["label"] if target else ""


def convert_text(
    text: str, path: str = "README.md", places: Places | None = None
) -> tuple[str, Counter[str]]:
    """The text of a chapter as GitHub Markdown, and how often each kind of syntax was rewritten."""
    converter = _Converter(path, places or Places())
    lines = text.split("\n")
    start = lines.index("---", 1) + 1 if lines[0] == "---" and "---" in lines[1:] else 0
    converted = [*lines[:start], *converter.convert(lines[start:], is_top=True)]
    return "\n".join(converted), converter.counts


def _read_attributes(text: str) -> dict[str, str]:
    """Id and named attributes of `#id .class key=value`."""
    found = {}
    for match in _ATTRIBUTE.finditer(text):
        found[match["key"] or "id"] = match["id"] or match["quoted"] or match["bare"] or ""
    return found


def _take_indented(lines: Sequence[str], start: int, indent: int) -> list[str]:
    """The lines from `start` that are blank or indented so far, without the indent."""
    end = start
    while end < len(lines) and (not lines[end].strip() or not lines[end][:indent].strip()):
        end += 1
    while end > start and not lines[end - 1].strip():
        end -= 1
    return [line[indent:] for line in lines[start:end]]


def _take_fenced(lines: Sequence[str], at: int, opening: re.Match[str]) -> list[str] | None:
    """The lines between a fence and its end, without its indent; None where it does not end.
    Containers of colons hold others."""
    marks, indent = opening["marks"], len(opening["indent"])
    depth = 1
    number = at + 1
    while number < len(lines):
        found = _FENCE.match(lines[number])
        if found and len(found["indent"]) >= indent + 4:
            pass  # text of the block
        elif found and found["marks"][0] == marks[0]:
            length = len(found["marks"])
            is_end = length == len(marks) if marks[0] == "/" else length >= len(marks)
            is_end = not found["info"] and (is_end or marks[0] == ":")
            depth += -1 if is_end else marks[0] == ":"
            if not depth:
                return [line[indent:] for line in lines[at + 1 : number]]
        elif found and found["info"] and marks[0] == ":":
            body = _take_fenced(lines, number, found)
            number += len(body) + 1 if body is not None else 0
        number += 1
    return None


def _take_options(body: list[str]) -> tuple[dict[str, str], list[str]]:
    """The options at the top of a directive, and the rest."""
    options = {}
    rest = body
    while rest and (option := _OPTION.match(rest[0])):
        options[option["key"]] = option["value"]
        rest = rest[1:]
    return options, rest


def _is_code(lines: Sequence[str]) -> bool:
    """Whether the lines are one block of code."""
    fence = _FENCE.match(lines[0])
    if fence is None or fence["marks"][0] not in "`~":
        return False
    body = _take_fenced(lines, 0, fence)
    return body is not None and len(body) + 2 == len(lines)


def _indent_lines(lines: Sequence[str], indent: str) -> list[str]:
    return [f"{indent}{line}" if line else "" for line in lines]


class _Converter:
    """Converts one chapter. A reader of a block gets the lines and where it is among them, and
    returns what it becomes and how many lines it took; None where it is nothing of its kind."""

    def __init__(self, path: str, places: Places) -> None:
        self.path = path
        self.places = places
        self.counts: Counter[str] = Counter()

    def convert(self, lines: Sequence[str], *, is_top: bool) -> list[str]:
        out: list[str] = []
        at = 0
        in_list = False
        while at < len(lines):
            line = lines[at]
            indent = len(line) - len(line.lstrip())
            is_blank_before = not (out and out[-1].strip())
            if _LIST_ITEM.match(line):
                in_list = True
            elif line.strip() and not indent and is_blank_before:
                in_list = False
            taken = self._read_block(lines, at, is_top=is_top, in_list=in_list)
            if taken is None:
                out.append(self._convert_inline(line))
                at += 1
                continue
            block, count = taken
            at += count
            is_blank_behind = at == len(lines) or not lines[at].strip()
            if block == list(lines[at - count : at]):
                out += block
            elif block:
                out += [*([] if is_blank_before else [""]), *block]
                out += [] if is_blank_behind else [""]
            elif is_blank_before and is_blank_behind:
                at += 1
        return out

    def _read_block(
        self, lines: Sequence[str], at: int, *, is_top: bool, in_list: bool
    ) -> tuple[list[str], int] | None:
        line = lines[at]
        if generated := _GENERATED.match(line):
            ending = f"<!-- /{generated['kind']}"
            ends = (n for n in range(at, len(lines)) if lines[n].lstrip().startswith(ending))
            if (end := next(ends, None)) is not None:
                return list(lines[at : end + 1]), end + 1 - at
        if line.startswith("{/*") and not line.rstrip().endswith("*/}"):
            ends = (n for n in range(at, len(lines)) if lines[n].rstrip().endswith("*/}"))
            if (end := next(ends, None)) is not None:
                self.counts["comment"] += 1
                text = "\n".join(lines[at : end + 1]).rstrip()[3:-3].replace("--", "- -")
                return [*f"<!--{text}-->".split("\n")], end + 1 - at
        if line.lstrip().startswith("<!--"):
            ends = (n for n in range(at, len(lines)) if "-->" in lines[n])
            count = next(ends, len(lines) - 1) + 1 - at
            return list(lines[at : at + count]), count
        if line.startswith("    ") and line.strip() and not in_list:  # code
            return [line], 1
        if fence := _FENCE.match(line):
            is_end = fence["marks"][0] == "/" and not fence["info"]
            body = None if is_end else _take_fenced(lines, at, fence)
            if body is None:
                return [line], 1
            block = self._convert_fence(fence, body, is_top=is_top and not fence["indent"])
            count = len(body) + 2
            if block is None and fence["marks"][0] in ":/":
                return None
            return (
                (list(lines[at : at + count]), count)
                if block is None
                else (_indent_lines(block, fence["indent"]), count)
            )
        blocks = (self._read_indented, self._read_quote, self._read_component, self._read_html)
        for read in (*blocks, self._read_image, self._read_formula, self._read_line):
            if (taken := read(lines, at, is_top)) is not None:
                return taken
        return self._read_definitions(lines, at)

    # --- blocks with a body ---

    def _write_alert(
        self, kind: str, title: str | None, body: Sequence[str], *, is_top: bool
    ) -> list[str]:
        """An alert at the top of a chapter; elsewhere, where GitHub has none, a quotation."""
        self.counts["admonition"] += 1
        inside = self.convert(body, is_top=False)
        name = kind.replace("-", " ").capitalize()
        alert = _ALERTS.get(kind) or _TITLED.get(kind, "NOTE")
        if title is None:
            title = "" if kind in _ALERTS or kind in (*_QUOTES, "admonition") else name
        if title.upper() == alert:
            title = ""
        if kind in _QUOTES:
            head = [f"**{title}**", ""] if title else []
        elif is_top:
            head = [f"[!{alert}]", *([f"**{title}**", ""] if title else [])]
        else:
            head = [f"**{title or name}**", ""]
        return [f"> {line}".rstrip() for line in (*head, *inside)]

    def _write_details(
        self, title: str, body: Sequence[str], *, is_top: bool, is_open: bool = False
    ) -> list[str]:
        self.counts["admonition"] += 1
        inside = self.convert(body, is_top=is_top)
        opening = "<details open>" if is_open else "<details>"
        summary = f"<summary>{html.escape(title, quote=False)}</summary>"
        return [opening, summary, "", *inside, "", "</details>"]

    def _read_indented(
        self, lines: Sequence[str], at: int, is_top: bool
    ) -> tuple[list[str], int] | None:
        """Admonitions and tabs of MkDocs."""
        match = _MKDOCS.match(lines[at]) or _TAB.match(lines[at])
        if match is None:
            return None
        indent = match["indent"]
        body = _take_indented(lines, at + 1, len(indent) + 4)
        if not body:
            return None
        count = 1 + len(body)
        body = _strip(body)
        is_top = is_top and not indent
        if match.re is _TAB:
            items = [(match["title"], body)]
            for number in range(at + count, len(lines)):
                following = _TAB.match(lines[number])
                if following and following["indent"] == indent:
                    body = _take_indented(lines, number + 1, len(indent) + 4)
                    count = number + 1 + len(body) - at
                    items.append((following["title"], _strip(body)))
                elif number >= at + count and lines[number].strip():
                    break
            block = self._write_tabs(items, is_top=is_top)
        elif match["mark"] == "!!!":
            block = self._write_alert(match["kind"], match["title"], body, is_top=is_top)
        else:
            title = match["title"] or match["kind"].capitalize()
            is_open = match["mark"].endswith("+")
            block = self._write_details(title, body, is_top=is_top, is_open=is_open)
        return _indent_lines(block, indent), count

    def _write_tabs(self, items: Sequence[tuple[str, list[str]]], *, is_top: bool) -> list[str]:
        """Tabs below their names; those of code alone as a list, which the site shows as tabs."""
        self.counts["tab"] += len(items)
        bodies = [self.convert(body, is_top=is_top) for _, body in items]
        is_code = len(items) > 1 and all(_is_code(body) for body in bodies)
        block: list[str] = []
        for (title, _), body in zip(items, bodies, strict=True):
            if is_code:
                block += [f"- {title}:", "", *_indent_lines(body, "  "), ""]
            else:
                block += [f"**{title}**", "", *body, ""]
        return block[:-1]

    def _read_quote(
        self, lines: Sequence[str], at: int, is_top: bool
    ) -> tuple[list[str], int] | None:
        """A quotation that begins with `**Note:**`."""
        opening = _QUOTED_ALERT.match(lines[at])
        if opening is None or not is_top or (at and lines[at - 1].startswith(">")):
            return None
        quoted = list(itertools.takewhile(lambda line: line.startswith(">"), lines[at:]))
        rest = [line[1:].removeprefix(" ") for line in quoted[1:]]
        body = [opening["rest"], *rest] if opening["rest"] else _strip(rest)
        return self._write_alert(opening["kind"].lower(), None, body, is_top=True), len(quoted)

    def _read_component(
        self, lines: Sequence[str], at: int, is_top: bool
    ) -> tuple[list[str], int] | None:
        """Components, imports, exports and conditions of MDX."""
        if count := components.count_statements(lines, at):
            self.counts["MDX statement"] += 1
            return [], count
        if (condition := _FRAMEWORK.match(lines[at])) and "{/if}" in lines[at:]:
            self.counts["MDX statement"] += 1
            end = lines.index("{/if}", at)
            body = list(lines[at + 1 : end])
            middle = body.index("{:else}") if "{:else}" in body else len(body)
            branches = (body[:middle], body[middle + 1 :])
            out: list[str] = []
            for name, branch in zip(_FRAMEWORKS[condition["name"]], branches, strict=True):
                if any(inside := self.convert(_strip(branch), is_top=is_top)):
                    out += ["", f"**{name}**", "", *inside]
            return out[1:], end + 1 - at
        found = components.read_component(lines, at)
        if found is None:
            return None
        is_top = is_top and not found.indent
        attributes, name, count = found.attributes, found.name, found.count
        kind = attributes.get("type", name.lower())
        if name in components.DROPPED and not found.body:
            self.counts["component"] += 1
            block = []
        elif name in components.UNWRAPPED:
            self.counts["component"] += 1
            block = self.convert(found.body, is_top=is_top)
        elif name in components.LABELS:
            tabs, count = components.read_siblings(lines, at)
            labels = components.LABELS[name]
            items = [
                (
                    next((tab.attributes[key] for key in labels if key in tab.attributes), name),
                    tab.body,
                )
                for tab in tabs
            ]
            block = self._write_tabs(items, is_top=is_top)
        elif (name == "Admonition" or kind in _ALERTS) and found.body:
            kind = "warning" if attributes.get("warning", "false") != "false" else kind
            title = attributes.get("title")
            block = self._write_alert(kind, title, found.body, is_top=is_top)
        else:
            return None
        return _indent_lines(block, found.indent), count

    def _read_html(
        self, lines: Sequence[str], at: int, is_top: bool
    ) -> tuple[list[str], int] | None:
        """HTML in which MkDocs reads Markdown: GitHub does so between blank lines. Alerts of
        mdBook."""
        opening = _MARKDOWN_IN_HTML.match(lines[at]) or _ALERT_IN_HTML.match(lines[at])
        if opening is None:
            return None
        tag = "div" if opening.re is _ALERT_IN_HTML else opening["tag"]
        indent = opening["indent"]
        ends = (n for n in range(at, len(lines)) if lines[n].rstrip() == f"{indent}</{tag}>")
        if (end := next(ends, None)) is None:
            return None
        body = textwrap.dedent("\n".join(lines[at + 1 : end])).replace("\n<figcap", "\n\n<figcap")
        body_lines = _strip(body.split("\n"))
        if opening.re is _ALERT_IN_HTML:
            kind, is_top = opening["kind"], is_top and not indent
            block = self._write_alert(kind, None, body_lines, is_top=is_top)
            return _indent_lines(block, indent), end + 1 - at
        self.counts["HTML block"] += 1
        inside = self.convert(body_lines, is_top=False)
        head = f"<{tag}{opening['before']}{opening['behind']}>"
        return _indent_lines([head, "", *inside, "", f"</{tag}>"], indent), end + 1 - at

    def _convert_fence(
        self, fence: re.Match[str], body: list[str], *, is_top: bool
    ) -> list[str] | None:
        """What a fence of another tool becomes; None for code, and for what has no counterpart."""
        info = fence["info"]
        if callout := _CALLOUT.match(info):
            while body and not body[0].strip():
                body = body[1:]
            named = _read_attributes(callout["rest"])
            title = named.get("title")
            if title is None and body and (heading := _HEADING.match(body[0])):
                title, body = heading["title"], body[1:]
            return self._write_admonition(
                callout["name"], title, _strip(body), is_top=is_top, folds="collapse" in named
            )
        if directive := _DIRECTIVE.match(info):
            options, rest = _take_options(body)
            block = self._convert_directive(
                directive["name"], directive["title"], options, rest, is_top=is_top
            )
            if block is None:
                return self._convert_code(fence, body)
            label = options.get("name") or options.get("label")
            return [f'<a id="{label}"></a>', "", *block] if label and block else block
        if fence["marks"][0] == "/":
            return self._convert_slashes(info, body, is_top=is_top)
        if info == "toc":  # of d2l
            return self._write_contents(body)
        if fence["marks"][0] != ":":
            return self._convert_code(fence, body)
        if container := _CONTAINER.fullmatch(info):
            title = container["boxed"] or (container["title"] or "").strip() or None
            folds = container["name"] == "details"
            return self._write_admonition(
                container["name"], title, _strip(body), is_top=is_top, folds=folds
            )
        return None

    def _convert_slashes(self, info: str, body: list[str], *, is_top: bool) -> list[str] | None:
        """A block of PyMdown: an admonition, one that folds, or a tab."""
        kind, _, title = (part.strip() for part in info.partition("|"))
        options = list(itertools.takewhile(lambda line: line.startswith("    "), body))
        body = _strip(body[len(options) :])
        if kind == "tab":
            return self._write_tabs([(title, body)], is_top=is_top)
        if kind in ("define", "caption", "figure-caption", "table-caption"):
            return None
        if kind == "html":  # its classes are for a style sheet
            self.counts["HTML block"] += 1
            return self.convert(body, is_top=is_top)
        kinds = (line.partition("type:")[2].strip() for line in options)
        if kind == "admonition":
            kind = next((name for name in kinds if name), kind)
        folds = kind == "details"
        return self._write_admonition(kind, title or None, body, is_top=is_top, folds=folds)

    def _write_admonition(
        self, kind: str, title: str | None, body: Sequence[str], *, is_top: bool, folds: bool
    ) -> list[str]:
        if folds:
            return self._write_details(title or kind.capitalize(), body, is_top=is_top)
        return self._write_alert(kind, title, body, is_top=is_top)

    def _convert_code(self, fence: re.Match[str], body: Sequence[str]) -> list[str] | None:
        """Code with its language alone, below its title; code that includes a file as an excerpt.
        Options of Quarto and what mdBook hides are left out."""
        info, marks = fence["info"], fence["marks"]
        if marks[0] == ":":
            return None
        if len(body) == 1 and (include := _INCLUDE.match(body[0])):
            return self._write_include(include)
        rest = [_ANNOTATION.sub(r"(\1)", line) for line in body]
        named = []
        if cell := _CELL.fullmatch(info) or _CODE.fullmatch(info):
            rest = list(itertools.dropwhile(lambda line: line.startswith("#|"), rest))
            attributes = _read_attributes(info.strip("{}"))
            info = cell["language"].lstrip(".")
            if name := attributes.get("filename") or attributes.get("title"):
                named = [f"**{name}**" if " " in name else f"`{name}`", ""]
        elif re.match(r"rust\b", info):
            rest = [line for line in rest if not re.match(r"\s*#(?:\s|$)", line)]
            shown = [re.sub(r"^(\s*)##", r"\1#", line) for line in rest]
            # mdBook hides lines of blocks labelled `rust` only, so `rs` says that this is done.
            info = f"rs{info.removeprefix('rust')}" if shown != rest else info
            rest = shown
        if info == fence["info"] and rest == body:
            return None
        self.counts["code block"] += 1
        return [*named, f"{marks}{info}", *rest, marks]

    def _write_include(self, include: re.Match[str]) -> list[str] | None:
        """An excerpt that `bindery fill` keeps; None where the file has no such part."""
        path = posixpath.normpath(posixpath.join(posixpath.dirname(self.path), include["path"]))
        if path.endswith(".md"):
            return None
        first, last = include["first"] or "", include["last"] or ""
        part = include["name"] or ""
        if first or last:
            part = f"L{first or 1}" + (f"-L{last}" if last else "")
        name = f"{path}#{part}" if part else path
        excerpt = self.places.find_excerpt(name)
        if excerpt.fault or (include["to"] is None and include[0].count(":") > 1):
            return None
        self.counts["excerpt"] += 1
        return write_excerpt(name, excerpt.text, excerpt.language)

    def _convert_directive(
        self,
        name: str,
        title: str,
        options: Mapping[str, str],
        body: list[str],
        *,
        is_top: bool,
    ) -> list[str] | None:
        """A directive of MyST or Sphinx, where Markdown has its like."""
        kinds = (*_ALERTS, *_TITLED, *_QUOTES)
        if name == "admonition" or name in kinds or name == "dropdown":
            classes = options.get("class", "").split()
            folds = name == "dropdown" or "dropdown" in classes
            if name == "admonition":
                name = next((one for one in classes if one in kinds), name)
            elif title and name != "dropdown":  # the text may begin on the line of the name
                title, body = "", [title, *body]
            return self._write_admonition(
                name, title or None, _strip(body), is_top=is_top, folds=folds
            )
        if name in ("figure", "image"):
            attributes = {"alt": "", **options, "id": ""}
            return self._write_figure(title, attributes, " ".join("\n".join(body).split()))
        if name in ("code-block", "code", "sourcecode", "code-cell"):
            self.counts["code block"] += 1
            language = {"ipython3": "python", "ipython": "python"}.get(title, title)
            caption = [options["caption"], ""] if options.get("caption") else []
            return [*caption, f"```{language}".rstrip(), *body, "```"]
        if name in ("math", "mermaid"):
            self.counts["formula" if name == "math" else "code block"] += 1
            return [f"```{name}", *([title] if title else []), *body, "```"]
        if name in ("contents", "tableofcontents") or (name == "toctree" and "hidden" in options):
            self.counts["chapter list"] += 1
            return []
        return self._write_contents(body) if name == "toctree" else None

    def _write_contents(self, body: list[str]) -> list[str] | None:
        """A list of chapters as links; None where one of them is not in the book."""
        _, rows = _take_options(body)
        entries = [_ROLE_TARGET.match(row) or row for row in rows if row.strip()]
        links = [
            self._write_reference(entry.strip(), "")
            if isinstance(entry, str)
            else self._write_reference(entry["target"], entry["text"])
            for entry in entries
        ]
        if None in links:
            return None
        self.counts["chapter list"] += 1
        return [f"- {link}" for link in links]

    # --- single lines ---

    def _read_image(
        self, lines: Sequence[str], at: int, _is_top: bool
    ) -> tuple[list[str], int] | None:
        """An image on a line of its own, with attributes behind it or below."""
        image = _IMAGE.match(lines[at])
        if image is None:
            return None
        named = _read_attributes(image["attributes"] or "")
        count = 1
        while at + count < len(lines) and (below := _D2L.match(lines[at + count])):
            named["id" if below["key"] == "label" else below["key"]] = below["value"]
            count += 1
        if image["attributes"] is None and count == 1:
            return None
        caption = image["alt"] if "id" in named else ""
        named["alt"] = named.get("fig-alt", image["alt"])
        return _indent_lines(
            self._write_figure(image["path"], named, caption), image["indent"]
        ), count

    def _write_figure(self, path: str, named: Mapping[str, str], caption: str) -> list[str]:
        """An image with its size, anchor and caption, as far as it has them."""
        self.counts["figure"] += 1
        sizes = "".join(
            f' {key}="{named[key].removesuffix("px")}"'
            for key in ("width", "height")
            if named.get(key)
        )
        alt = named["alt"] or caption
        shown = f"![{alt}]({path})"
        if sizes:
            shown = f'<img src="{html.escape(path)}" alt="{html.escape(alt)}"{sizes}>'
        block = [f'<a id="{named["id"]}"></a>', ""] if named.get("id") else []
        if not caption:
            return [*block, shown]
        return [*block, "<figure>", "", shown, "", "<figcaption>", "", caption, "",
                "</figcaption>", "</figure>"]  # fmt: skip

    def _read_line(
        self, lines: Sequence[str], at: int, _is_top: bool
    ) -> tuple[list[str], int] | None:
        """Anchors, places for contents, lines of attributes and comments."""
        line = lines[at]
        below = next((other for other in lines[at + 1 :] if other.strip()), "")
        if heading := _HEADING.match(line):
            attributes = _HEADING_ID.search(heading["title"])
            if attributes is None:
                return None
            title = self._convert_inline(heading["title"][: attributes.start()].rstrip("# "))
            label = attributes["id"] or _read_attributes(attributes["attributes"] or "").get("id")
            anchor = self._write_anchor(label, title)
            return [*anchor, *([""] if anchor else []), f"{heading['marks']} {title}"], 1
        if target := _TARGET.match(line):
            heading = _HEADING.match(below)
            return self._write_anchor(target["label"], heading["title"] if heading else ""), 1
        if (label_above := _D2L.match(line)) and label_above["key"] == "label":
            return self._write_anchor(label_above["value"], ""), 1
        if _CONTENTS.match(line):
            self.counts["chapter list"] += 1
            return [], 1
        if _ATTRIBUTES.match(line):
            self.counts["attribute list"] += 1
            return [], 1
        is_first = not at or not lines[at - 1].strip() or bool(_MYST_COMMENT.match(lines[at - 1]))
        is_last = at + 1 == len(lines) or not lines[at + 1][:1].isalnum()
        if is_first and is_last and (comment := _MYST_COMMENT.match(line)):
            self.counts["comment"] += 1
            return [f"<!-- {comment['text'].replace('--', '- -')} -->"], 1
        if (include := _INCLUDE.match(line)) and include["kind"] == "playground":
            block = self._write_include(include)
            return None if block is None else (block, 1)
        return None

    def _read_formula(
        self, lines: Sequence[str], at: int, _is_top: bool
    ) -> tuple[list[str], int] | None:
        """`\\\\[ formula \\\\]` of mdBook and Hugging Face, on one line or several."""
        indent, mark, _ = lines[at].partition(r"\\[")
        ends = (n for n in range(at, len(lines)) if lines[n].rstrip().endswith(r"\\]"))
        if not mark or indent.strip() or (end := next(ends, None)) is None:
            return None
        body = "\n".join(lines[at : end + 1]).strip()[3:-3].strip().split("\n")
        self.counts["formula"] += 1
        return _indent_lines(["$$", *(line.strip() for line in body), "$$"], indent), end + 1 - at

    def _write_anchor(self, label: str | None, title: str) -> list[str]:
        """An anchor that links of the book keep; none where GitHub makes the same."""
        if not label:
            self.counts["attribute list"] += 1
            return []
        self.counts["anchor"] += 1
        return [] if slugify_heading(title) == label else [f'<a id="{label}"></a>']

    def _read_definitions(self, lines: Sequence[str], at: int) -> tuple[list[str], int] | None:
        """A term with its definitions, as an item of a list."""
        term = lines[at]
        if not term.strip() or term[0] in " \t|>#<:-*+" or (at and lines[at - 1].strip()):
            return None
        number = at + 1
        found: list[list[str]] = []
        while number < len(lines):
            start = number + (not lines[number].strip())
            definition = _DEFINITION.match(lines[start]) if start < len(lines) else None
            if definition is None:
                break
            more = _take_indented(lines, start + 1, 2)
            rest = textwrap.dedent("\n".join(more)).split("\n") if more else []
            found.append([definition["text"], *rest])
            number = start + 1 + len(more)
        if not found or any("```" in line for text in found for line in text):
            return None
        self.counts["definition"] += 1
        texts = [self.convert(text, is_top=False) for text in found]
        if len(texts) == 1:
            first, *more = texts[0]
            return [f"- **{term}**: {first}", *_indent_lines(more, "  ")], number - at
        items = [[f"  - {first}", *_indent_lines(more, "    ")] for first, *more in texts]
        return [f"- **{term}**", *(line for item in items for line in item)], number - at

    # --- inside a line ---

    def _convert_inline(self, line: str) -> str:
        return _INLINE.sub(self._replace, line)

    def _replace(self, match: re.Match[str]) -> str:
        kind = next((key for key in _KINDS_INSIDE if match[key]), "")
        written: str | None = None
        noun = "reference"
        match kind:
            case "role" | "sphinx":
                name = match["role"] or match["sphinx"]
                written = self._write_role(name, match["words"] or match["named"])
                noun = "formula" if name == "math" else noun
            case "empty":
                written = self._write_reference(match["empty"].removeprefix("#"), "")
            case "cross":
                written = self._write_reference(match["cross"], "")
            case "span":
                written, noun = match["span"], "attribute list"
            case "attributes":
                written, noun = "", "attribute list"
            case "keys":
                names = re.findall(r'"([^"]+)"|([a-z0-9-]+)', match["keys"])
                names = [quoted or name.replace("-", " ").title() for quoted, name in names]
                written, noun = "+".join(f"<kbd>{name}</kbd>" for name in names), "key"
            case "remark":
                written, noun = f"<!--{match['remark']}-->", "comment"
            case "formula":
                written, noun = f"${match['formula'].strip()}$", "formula"
            case "frame":
                attributes = _read_attributes(match["frame"])
                address = attributes.get("src")
                written = f"[{attributes.get('title') or address}]({address})" if address else None
            case "sub" | "sup" | "mark" | "ins":
                written, noun = f"<{kind}>{match[kind]}</{kind}>", "text style"
            case "video":
                written = f"[Video](https://www.youtube.com/watch?v={match['video']})"
        if written is None:
            return match[0]
        self.counts[noun] += 1
        return written

    def _write_role(self, name: str, words: str) -> str | None:
        titled = _ROLE_TARGET.match(words)
        text, target = (titled["text"], titled["target"]) if titled else ("", words)
        match name:
            case "doc" | "ref" | "numref" if "%s" not in text:
                return self._write_reference(target, text)
            case "download":
                return f"[{text or posixpath.basename(target)}]({target})"
            case "math":
                return f"${words}$"
            case "kbd" | "sub" | "sup":
                return f"<{name}>{words}</{name}>"
            case "guilabel" | "menuselection":
                return f"**{words.replace('-->', '→')}**"
            case "term" | "abbr":
                return text or words
            case _ if _CODE_ROLE.fullmatch(name):
                return f"`{text or target.removeprefix('~').removeprefix('!')}`"
        return None

    def _write_reference(self, target: str, text: str) -> str | None:
        """A link to a label or a chapter, with its title where no text is given; None where the
        book has neither."""
        here = posixpath.dirname(self.path) or "."
        path, hash_mark, anchor = target.partition("#")
        if target in self.places.labels:
            chapter, title = self.places.labels[target]
            start = "" if chapter == self.path else posixpath.relpath(chapter, here)
            return f"[{text or title or target}]({start}#{target})"
        if chapter := self.places.find_chapter(path, self.path):
            title = self.places.titles[chapter]
            if anchor:
                title = self.places.labels.get(anchor, ("", title))[1]
            return f"[{text or title}]({posixpath.relpath(chapter, here)}{hash_mark}{anchor})"
        return None


def _strip(lines: list[str]) -> list[str]:
    """Without the blank lines before and after."""
    return "\n".join(lines).strip("\n").split("\n")
