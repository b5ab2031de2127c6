"""Rewrite the syntax of other book tools as GitHub Markdown where nothing is lost.

A Markdown parser does not recognize most of it, so a chapter is read line by line. Code, comments
and syntax without a counterpart stay as they are; `foreign-syntax` reports what is left.
"""

from __future__ import annotations

import html
import itertools
import re
import textwrap
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from bindery.markdown.slugs import slugify_heading
from bindery.rewrite.converting import components
from bindery.rewrite.converting.code import INCLUDE, CodeConverter
from bindery.rewrite.converting.inline import (
    ROLE_TARGET,
    InlineConverter,
    Places,
    read_attributes,
)
from bindery.rewrite.converting.lines import (
    FENCE,
    OPTION,
    find_line,
    indent_lines,
    is_code,
    strip_blank,
    take_fenced,
    take_indented,
    take_options,
)

Taken = tuple[list[str], int] | None
"""What a block becomes, and how many lines it has; None if it is not of the expected kind."""

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
"""Admonitions whose name becomes the title of the alert, because it says more than the alert's."""
_QUOTES = ("quote", "cite", "epigraph")
_KINDS = "|".join((*_ALERTS, *_TITLED))

_LIST_ITEM = re.compile(r"\s*(?:[-*+]|\d+[.)])\s")
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
_ALERT_IN_HTML = re.compile(rf'(?P<indent>\s*)<div class="(?P<kind>{"|".join(_ALERTS)})">\s*$')
_GENERATED = re.compile(r"\s*<!-- (?P<kind>table|plot|output|excerpt): ")
_FRAMEWORK = re.compile(r"\{#if fw === '(?P<name>pt|tf)'\}\s*$")
_FRAMEWORKS = {"pt": ("PyTorch", "TensorFlow"), "tf": ("TensorFlow", "PyTorch")}
"""The framework of a branch in Hugging Face's course, and that of the other branch."""
_MARKDOWN_IN_HTML = re.compile(
    r'(?P<indent>\s*)<(?P<tag>figure|div)(?P<before>[^<>]*?)\s+markdown(?:="[^"]*")?'
    r"(?P<behind>[^<>]*)>\s*$"
)
_TARGET = re.compile(r"\((?P<label>[\w:.-]+)\)=\s*$")
_D2L = re.compile(r"\s*:(?P<key>label|width|height):`(?P<value>[^`]+)`\s*$")
_HEADING = re.compile(r"(?P<marks>#{1,6})\s+(?P<title>.*?)\s*$")
_HEADING_ID = re.compile(r"\s*(?:\{:?\s*(?P<attributes>[#.-][^{}]*)\}|\[\[(?P<id>[\w.-]+)\]\])$")
_IMAGE = re.compile(
    r"(?P<indent>\s*)(?P<image>!\[(?P<alt>[^\]]*)\]\((?P<path>[^\s()]+)(?:\s+\"[^\"]*\")?\))"
    r"(?:\{:?\s*(?P<attributes>[^{}]*)\})?\s*$"
)
_CONTENTS = re.compile(r"\[(?:toc|TOC|\[_?(?:toc|TOC)_?\])\]\s*$")
_ATTRIBUTES = re.compile(r"\{:?\s*(?:\.[\w-]+\s*)+\}\s*$")
_DEFINITION = re.compile(r":\s+(?P<text>\S.*)$")
_FIGURES = ("figure", "image")  # directives of MyST
_MYST_COMMENT = re.compile(r"%\s+(?P<text>\S.*)$")


def find_labels(path: str, text: str, figure: str) -> Iterator[tuple[str, tuple[str, str]]]:
    """The labels of a chapter, each with the chapter's path and a title: that of the heading it
    belongs to, or `figure` for those of figures."""
    title = waiting = ""
    for line in text.split("\n"):
        if heading := _HEADING.match(line):
            title = heading["title"]
            if found := _HEADING_ID.search(title):
                title = title[: found.start()].rstrip("# ")
                if label := found["id"] or read_attributes(found["attributes"]).get("id"):
                    yield label, (path, title)
            if waiting:
                yield waiting, (path, title)
        elif image := _IMAGE.match(line):
            title = figure
            if label := read_attributes(image["attributes"] or "").get("id"):
                yield label, (path, title)
        elif (label_below := _D2L.match(line)) and label_below["key"] == "label":
            yield label_below["value"], (path, title)
        elif line.lstrip("`:~ ").startswith("{"):
            title = figure if "{figure}" in line else ""
        elif (option := OPTION.match(line.strip())) and option["key"] in ("name", "label"):
            yield option["value"], (path, title if title == figure else "")
        target = _TARGET.match(line)
        if target:
            yield target["label"], (path, "")
        if line.strip():
            waiting = target["label"] if target else ""


def convert_text(
    text: str, path: str = "README.md", places: Places | None = None
) -> tuple[str, Counter[str]]:
    """A chapter as GitHub Markdown, and how many times each kind of syntax was rewritten."""
    converter = _Converter(path, places or Places())
    lines = text.split("\n")
    start = lines.index("---", 1) + 1 if lines[0] == "---" and "---" in lines[1:] else 0
    converted = [*lines[:start], *converter.convert(lines[start:], is_top=True)]
    return "\n".join(converted), converter.counts


class _Converter:
    """Converts one chapter. `_read_...` reads the block that begins on a line."""

    def __init__(self, path: str, places: Places) -> None:
        self.counts: Counter[str] = Counter()
        self.inline = InlineConverter(path, places, self.counts)
        self.code = CodeConverter(path, places, self.counts)

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
                out.append(self.inline.convert(line))
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

    def _read_block(self, lines: Sequence[str], at: int, *, is_top: bool, in_list: bool) -> Taken:
        line = lines[at]
        if generated := _GENERATED.match(line):
            ending = f"<!-- /{generated['kind']}"
            end = find_line(lines, at, lambda line: line.lstrip().startswith(ending))
            if end is not None:
                return list(lines[at : end + 1]), end + 1 - at
        if line.startswith("{/*") and not line.rstrip().endswith("*/}"):
            end = find_line(lines, at, lambda line: line.rstrip().endswith("*/}"))
            if end is not None:
                self.counts["comment"] += 1
                text = "\n".join(lines[at : end + 1]).rstrip()[3:-3].replace("--", "- -")
                return f"<!--{text}-->".split("\n"), end + 1 - at
        if line.lstrip().startswith("<!--"):
            end = find_line(lines, at, lambda line: "-->" in line)
            stop = len(lines) if end is None else end + 1
            return list(lines[at:stop]), stop - at
        if line.startswith("    ") and line.strip() and not in_list:  # code
            return [line], 1
        if fence := FENCE.match(line):
            is_end = fence["marks"][0] == "/" and not fence["info"]
            body = None if is_end else take_fenced(lines, at, fence)
            if body is None:
                return [line], 1
            block = self._convert_fence(fence, body, is_top=is_top and not fence["indent"])
            count = len(body) + 2
            if block is not None:
                return indent_lines(block, fence["indent"]), count
            return None if fence["marks"][0] in ":/" else (list(lines[at : at + count]), count)
        blocks = (self._read_indented, self._read_component, self._read_html)
        for read in (*blocks, self._read_image, self._read_formula, self._read_line):
            if (taken := read(lines, at, is_top)) is not None:
                return taken
        return self._read_definitions(lines, at)

    # --- blocks with a body ---

    def _write_admonition(
        self,
        kind: str,
        title: str | None,
        body: Sequence[str],
        *,
        is_top: bool,
        folds: bool = False,
        is_open: bool = False,
    ) -> list[str]:
        """An alert; a block quote where GitHub allows no alert, such as in lists; `<details>` if
        it folds."""
        self.counts["admonition"] += 1
        name = kind.replace("-", " ").capitalize()
        if folds:
            opening = "<details open>" if is_open else "<details>"
            summary = f"<summary>{html.escape(title or name, quote=False)}</summary>"
            inside = self.convert(body, is_top=is_top)
            return [opening, summary, "", *inside, "", "</details>"]
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
        inside = self.convert(body, is_top=False)
        return [f"> {line}".rstrip() for line in (*head, *inside)]

    def _read_indented(self, lines: Sequence[str], at: int, is_top: bool) -> Taken:
        """MkDocs admonitions and tabs."""
        match = _MKDOCS.match(lines[at]) or _TAB.match(lines[at])
        if match is None:
            return None
        indent = match["indent"]
        body = take_indented(lines, at + 1, len(indent) + 4)
        if not body:
            return None
        count = 1 + len(body)
        body = strip_blank(body)
        is_top = is_top and not indent
        if match.re is _TAB:
            items = [(match["title"], body)]
            for number in range(at + count, len(lines)):
                following = _TAB.match(lines[number])
                if following and following["indent"] == indent:
                    body = take_indented(lines, number + 1, len(indent) + 4)
                    count = number + 1 + len(body) - at
                    items.append((following["title"], strip_blank(body)))
                elif number >= at + count and lines[number].strip():
                    break
            block = self._write_tabs(items, is_top=is_top)
        else:
            block = self._write_admonition(
                match["kind"],
                match["title"],
                body,
                is_top=is_top,
                folds=match["mark"] != "!!!",
                is_open=match["mark"].endswith("+"),
            )
        return indent_lines(block, indent), count

    def _write_tabs(self, items: Sequence[tuple[str, list[str]]], *, is_top: bool) -> list[str]:
        """The content of each tab below its name; code blocks as a list, which the site shows as
        tabs."""
        self.counts["tab"] += len(items)
        bodies = [self.convert(body, is_top=is_top) for _, body in items]
        are_code = len(items) > 1 and all(map(is_code, bodies))
        block: list[str] = []
        for (title, _), body in zip(items, bodies, strict=True):
            if are_code:
                block += [f"- {title}:", "", *indent_lines(body, "  "), ""]
            else:
                block += [f"**{title}**", "", *body, ""]
        return block[:-1]

    def _read_component(self, lines: Sequence[str], at: int, is_top: bool) -> Taken:
        """MDX components, imports, exports and conditions."""
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
                if any(inside := self.convert(strip_blank(branch), is_top=is_top)):
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
            items = [(tab.find_label(), tab.body) for tab in tabs]
            block = self._write_tabs(items, is_top=is_top)
        elif (name == "Admonition" or kind in _ALERTS) and found.body:
            kind = "warning" if attributes.get("warning", "false") != "false" else kind
            title = attributes.get("title")
            block = self._write_admonition(kind, title, found.body, is_top=is_top)
        else:
            return None
        return indent_lines(block, found.indent), count

    def _read_html(self, lines: Sequence[str], at: int, is_top: bool) -> Taken:
        """mdBook's alerts, and HTML with Markdown inside for MkDocs: GitHub needs blank lines
        around the Markdown."""
        opening = _MARKDOWN_IN_HTML.match(lines[at]) or _ALERT_IN_HTML.match(lines[at])
        if opening is None:
            return None
        tag = "div" if opening.re is _ALERT_IN_HTML else opening["tag"]
        indent = opening["indent"]
        end = find_line(lines, at, lambda line: line.rstrip() == f"{indent}</{tag}>")
        if end is None:
            return None
        body = textwrap.dedent("\n".join(lines[at + 1 : end])).replace("\n<figcap", "\n\n<figcap")
        body_lines = strip_blank(body.split("\n"))
        if opening.re is _ALERT_IN_HTML:
            kind, is_top = opening["kind"], is_top and not indent
            block = self._write_admonition(kind, None, body_lines, is_top=is_top)
            return indent_lines(block, indent), end + 1 - at
        self.counts["HTML block"] += 1
        inside = self.convert(body_lines, is_top=False)
        head = f"<{tag}{opening['before']}{opening['behind']}>"
        return indent_lines([head, "", *inside, "", f"</{tag}>"], indent), end + 1 - at

    def _convert_fence(
        self, fence: re.Match[str], body: list[str], *, is_top: bool
    ) -> list[str] | None:
        """The replacement for a fenced block; None for plain code and for syntax without a
        counterpart."""
        info = fence["info"]
        if callout := _CALLOUT.match(info):
            while body and not body[0].strip():
                body = body[1:]
            named = read_attributes(callout["rest"])
            title = named.get("title")
            if title is None and body and (heading := _HEADING.match(body[0])):
                title, body = heading["title"], body[1:]
            return self._write_admonition(
                callout["name"], title, strip_blank(body), is_top=is_top, folds="collapse" in named
            )
        if directive := _DIRECTIVE.match(info):
            options, rest = take_options(body)
            block = self._convert_directive(
                directive["name"], directive["title"], options, rest, is_top=is_top
            )
            if block is None:
                return self.code.convert(fence, body)
            is_figure = directive["name"] in _FIGURES  # which have their anchor
            label = None if is_figure else options.get("name") or options.get("label")
            return [f'<a id="{label}"></a>', "", *block] if label and block else block
        if fence["marks"][0] == "/":
            return self._convert_slashes(info, body, is_top=is_top)
        if info == "toc":  # of d2l
            return self._write_contents(body)
        if fence["marks"][0] != ":":
            return self.code.convert(fence, body)
        if container := _CONTAINER.fullmatch(info):
            title = container["boxed"] or (container["title"] or "").strip() or None
            folds = container["name"] == "details"
            return self._write_admonition(
                container["name"], title, strip_blank(body), is_top=is_top, folds=folds
            )
        return None

    def _convert_slashes(self, info: str, body: list[str], *, is_top: bool) -> list[str] | None:
        """A PyMdown block: an admonition, folding or not, or a tab."""
        kind, _, title = (part.strip() for part in info.partition("|"))
        options = list(itertools.takewhile(lambda line: line.startswith("    "), body))
        body = strip_blank(body[len(options) :])
        if kind == "tab":
            return self._write_tabs([(title, body)], is_top=is_top)
        if kind in ("define", "caption", "figure-caption", "table-caption"):
            return None
        if kind == "html":  # its classes need a style sheet
            self.counts["HTML block"] += 1
            return self.convert(body, is_top=is_top)
        kinds = (line.partition("type:")[2].strip() for line in options)
        if kind == "admonition":
            kind = next((name for name in kinds if name), kind)
        folds = kind == "details"
        return self._write_admonition(kind, title or None, body, is_top=is_top, folds=folds)

    def _convert_directive(
        self,
        name: str,
        title: str,
        options: Mapping[str, str],
        body: list[str],
        *,
        is_top: bool,
    ) -> list[str] | None:
        """The Markdown for a MyST or Sphinx directive, if there is any."""
        kinds = (*_ALERTS, *_TITLED, *_QUOTES)
        if name == "admonition" or name in kinds or name == "dropdown":
            classes = options.get("class", "").split()
            folds = name == "dropdown" or "dropdown" in classes
            if name == "admonition":
                name = next((one for one in classes if one in kinds), name)
            elif title and name != "dropdown":  # the text may start on the first line
                title, body = "", [title, *body]
            return self._write_admonition(
                name, title or None, strip_blank(body), is_top=is_top, folds=folds
            )
        if name in _FIGURES:
            label = options.get("name") or options.get("label") or ""
            attributes = {"alt": "", **options, "id": label}
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
        """Links to the listed chapters; None if one of them is not in the book."""
        _, rows = take_options(body)
        links = []
        for row in filter(str.strip, rows):
            titled = ROLE_TARGET.match(row)
            target, text = (titled["target"], titled["text"]) if titled else (row.strip(), "")
            links.append(self.inline.write_reference(target, text))
        if None in links:
            return None
        self.counts["chapter list"] += 1
        return [f"- {link}" for link in links]

    # --- single lines ---

    def _read_image(self, lines: Sequence[str], at: int, _is_top: bool) -> Taken:
        """An image on its own line, with attributes after or below it."""
        image = _IMAGE.match(lines[at])
        if image is None:
            return None
        named = read_attributes(image["attributes"] or "")
        count = 1
        while at + count < len(lines) and (below := _D2L.match(lines[at + count])):
            named["id" if below["key"] == "label" else below["key"]] = below["value"]
            count += 1
        if image["attributes"] is None and count == 1:
            return None
        caption = image["alt"] if "id" in named else ""
        named["alt"] = named.get("fig-alt", image["alt"])
        return indent_lines(
            self._write_figure(image["path"], named, caption), image["indent"]
        ), count

    def _write_figure(self, path: str, named: Mapping[str, str], caption: str) -> list[str]:
        """An image with its size, anchor and caption, if it has any."""
        self.counts["figure"] += 1
        given = [key for key in ("width", "height") if named.get(key)]
        sizes = "".join(f' {key}="{named[key].removesuffix("px")}"' for key in given)
        alt = named["alt"] or caption
        shown = f"![{alt}]({path})"
        if sizes:
            shown = f'<img src="{html.escape(path)}" alt="{html.escape(alt)}"{sizes}>'
        anchor = f'<a id="{named["id"]}"></a>' if named.get("id") else ""
        if caption:
            anchor += f"**{self.inline.places.figure}:** {self.inline.convert(caption)}"
        return [anchor, "", shown] if anchor else [shown]

    def _read_line(self, lines: Sequence[str], at: int, _is_top: bool) -> Taken:
        """Anchors, tables of contents, attribute lists, comments."""
        line = lines[at]
        below = next((other for other in lines[at + 1 :] if other.strip()), "")
        if heading := _HEADING.match(line):
            attributes = _HEADING_ID.search(heading["title"])
            if attributes is None:
                return None
            title = self.inline.convert(heading["title"][: attributes.start()].rstrip("# "))
            label = attributes["id"] or read_attributes(attributes["attributes"] or "").get("id")
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
        if (include := INCLUDE.match(line)) and include["kind"] == "playground":
            block = self.code.write_include(include)
            return None if block is None else (block, 1)
        return None

    def _read_formula(self, lines: Sequence[str], at: int, _is_top: bool) -> Taken:
        """mdBook's and Hugging Face's `\\\\[ formula \\\\]`, on one or more lines."""
        indent, mark, _ = lines[at].partition(r"\\[")
        end = find_line(lines, at, lambda line: line.rstrip().endswith(r"\\]")) if mark else None
        if indent.strip() or end is None:
            return None
        body = "\n".join(lines[at : end + 1]).strip()[3:-3].strip().split("\n")
        self.counts["formula"] += 1
        return indent_lines(["$$", *(line.strip() for line in body), "$$"], indent), end + 1 - at

    def _write_anchor(self, label: str | None, title: str) -> list[str]:
        """An anchor for existing links; nothing if GitHub generates the same one."""
        if not label:
            self.counts["attribute list"] += 1
            return []
        self.counts["anchor"] += 1
        return [] if slugify_heading(title) == label else [f'<a id="{label}"></a>']

    def _read_definitions(self, lines: Sequence[str], at: int) -> Taken:
        """A term with its definitions as a list item."""
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
            more = take_indented(lines, start + 1, 2)
            rest = textwrap.dedent("\n".join(more)).split("\n") if more else []
            found.append([definition["text"], *rest])
            number = start + 1 + len(more)
        if not found or any("```" in line for text in found for line in text):
            return None
        self.counts["definition"] += 1
        texts = [self.convert(text, is_top=False) for text in found]
        if len(texts) == 1:
            first, *more = texts[0]
            return [f"- **{term}**: {first}", *indent_lines(more, "  ")], number - at
        items = [[f"  - {first}", *indent_lines(more, "    ")] for first, *more in texts]
        return [f"- **{term}**", *(line for item in items for line in item)], number - at
