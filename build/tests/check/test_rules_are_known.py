"""Every rule that a finding can name is explained by `bindery check --explain`."""

import ast
from pathlib import Path

import bindery
import pytest
from bindery.check.rules import REPORTED_ELSEWHERE, RULES
from fixture_types import Runner


def list_named_rules() -> set[str]:
    """Literals that are the rule of a Finding, and constants called RULE."""
    names: set[str] = set()
    for path in Path(bindery.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_bytes())):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "Finding":
                values = node.args[1:2]
            elif isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "RULE":
                values = [node.value]
            else:
                continue
            names |= {v.value for v in values if isinstance(v, ast.Constant)}
    return names


def test_every_rule_is_known() -> None:
    """None is printed that nobody can look up."""
    assert list_named_rules() - set(RULES) - set(REPORTED_ELSEWHERE) == set()


@pytest.mark.parametrize("name", ["bad-data", "nested-url", "engine-message", "web-dead"])
def test_a_rule_is_explained(run_bindery: Runner, tmp_path: Path, name: str) -> None:
    """In one sentence that begins with its name; nothing of the library is mixed in."""
    ended = run_bindery("check", "--explain", name, folder=tmp_path)
    assert ended.status == 0
    assert ended.stdout.startswith(name)
    assert "functools" not in ended.stdout.lower()
