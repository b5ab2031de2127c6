"""Findings as SARIF 2.1.0, the format of code scanners.

Columns count UTF-16 units, SARIF's default. Fingerprints use file, rule and surrounding words, so
they survive moved lines.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Sequence
from typing import Any
from urllib.parse import quote

from bindery import __version__
from bindery.check.finding_identity import Identity, identify_finding
from bindery.check.rules import CHECKS
from bindery.check.rules.rule import Rule
from bindery.core.model import Finding, Severity, Span
from bindery.core.report import LineReader, write_json

_HOME = "https://github.com/executable-field-book/ml-engineering"
_RULES_PAGE = f"{_HOME}/blob/main/build/docs/rules.md"
_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
# Not GitHub's `primaryLocationLineHash`: its uploader computes that from the bare line and warns
# about any other value.
_FINGERPRINT = "findingIdentity/v1"


def format_sarif(findings: Sequence[Finding], read_line: LineReader, prefix: str = "") -> str:
    """One run with all rules and these findings. `prefix` is the book's folder in its repository,
    where the paths of results start."""
    descriptors = [_describe_rule(rule) for rule in CHECKS]
    known = {descriptor["id"] for descriptor in descriptors}
    others = sorted({finding.rule for finding in findings} - known)
    descriptors += [
        {"id": rule, "shortDescription": {"text": rule}, "helpUri": _RULES_PAGE} for rule in others
    ]
    index = {descriptor["id"]: number for number, descriptor in enumerate(descriptors)}
    seen: Counter[Identity] = Counter()
    results = []
    for finding in findings:
        line = read_line(finding.span)
        identity = identify_finding(finding, line)
        seen[identity] += 1
        results.append(
            {
                "ruleId": finding.rule,
                "ruleIndex": index[finding.rule],
                "level": _find_level(finding.severity),
                "message": {"text": _join_message(finding)},
                "locations": [_locate(finding.span, line, prefix)],
                "partialFingerprints": {_FINGERPRINT: _hash(identity, seen[identity])},
            }
        )
    driver = {
        "name": "bindery",
        "version": __version__,
        "informationUri": _HOME,
        "rules": descriptors,
    }
    run = {"tool": {"driver": driver}, "columnKind": "utf16CodeUnits", "results": results}
    log = {"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]}
    return f"{write_json(log, indent=2)}\n"


def _describe_rule(rule: Rule) -> dict[str, Any]:
    return {
        "id": rule.id,
        "shortDescription": {"text": rule.summary},
        "helpUri": _RULES_PAGE,
        "defaultConfiguration": {"level": _find_level(rule.severity)},
    }


def _find_level(severity: Severity) -> str:
    return "none" if severity is Severity.OFF else str(severity)


def _join_message(finding: Finding) -> str:
    return f"{finding.message}\n{finding.help}" if finding.help else finding.message


def _locate(span: Span, line: str, prefix: str) -> dict[str, Any]:
    region = {"startLine": span.line}
    if span.width:
        start = _count_units(line[: span.col - 1], span.col - 1)
        width = _count_units(line[span.col - 1 : span.col - 1 + span.width], span.width)
        region |= {"startColumn": start + 1, "endColumn": start + width + 1}
    path = f"{prefix}/{span.path}" if prefix else span.path
    location = {"uri": quote(path, errors="surrogateescape"), "uriBaseId": "%SRCROOT%"}
    return {"physicalLocation": {"artifactLocation": location, "region": region}}


def _count_units(text: str, characters: int) -> int:
    """The length of a text in UTF-16 units; characters beyond the line's end count as one each."""
    return len(text.encode("utf-16-le", "surrogatepass")) // 2 + characters - len(text)


def _hash(identity: Identity, number: int) -> str:
    """`number` distinguishes identical findings: first, second, and so on."""
    content = "\0".join((identity.path, identity.rule, identity.text, str(number)))
    return hashlib.sha256(content.encode("utf-8", "surrogateescape")).hexdigest()[:32]
