"""Calculators of a tool in the browser: the same numbers as in Python."""

import argparse
import ast
import json
import math
import random
import runpy
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from bindery.core.facts import decode, encode
from bindery.tools.calculators import Calculator, read_calculators
from bindery.tools.python_to_js import TranslationError, translate_functions
from fixture_types import BookMaker, Runner

ROOT = Path(__file__).parents[3]
TOOL = ROOT / "scripts/training/calculators.py"
RUNTIME = (ROOT / "build/bindery/render/site/static/python.js").read_text()
POINTS = 5000
# exp, expm1, log2 and ** of a browser are its own, and may differ from those of the C library in
# the last digit. What is computed from them differs as much: a share 1 - 1 / wall near 0 by that
# of the 1. All other outputs are equal bit by bit.
OF_MATHS = {
    "number-format": {"decimal_digits", "doublings"},
    "checkpoint": {"lost_share", "own_lost_share"},
}
COMPUTE = """(cases) => JSON.stringify(JSON.parse(cases).map((inputs) => {
    const given = new Map(inputs.map(([name, kind, text]) =>
        [name, kind === "int" ? BigInt(text) : kind === "float" ? Number(text) : text]));
    const reason = calculator.check(given);
    if (reason) return [reason, []];
    const found = calculator.compute(given);
    return [reason, calculator.outputs.map(({ name }) => {
        const value = found.get(name);
        return [name, typeof value === "bigint" ? "int" : "float", String(value)];
    })];
}))"""


@pytest.fixture(scope="module")
def tool() -> SimpleNamespace:
    return SimpleNamespace(**runpy.run_path(str(TOOL)))


def draw_input(asked: Any, chance: random.Random) -> Any:
    """A random value of an input: of its choices, or between its bounds on a log scale."""
    if asked.choices:
        return chance.choice(asked.choices)
    if asked.kind == "boolean":
        return chance.random() < 0.5
    low, high = asked.minimum or 0.0, asked.maximum or 1.0
    if low > 0:
        value = math.exp(chance.uniform(math.log(low), math.log(high)))
    else:
        value = chance.choice((0.0, math.exp(chance.uniform(0.0, math.log(max(high, 2.0))))))
    value = min(max(value, low), high)
    return round(value) if asked.kind == "integer" else float(f"{value:.6g}")


def type_value(name: str, value: Any) -> list[Any]:
    kind = type(value).__name__
    return [name, kind, repr(value) if kind in ("int", "float") else value]


def draw_points(tool: Any, calculator: Any) -> list[tuple[Any, Any, str]]:
    """Random inputs with what Python makes of them: outputs, or why it refuses."""
    chance = random.Random(calculator.name)
    points: list[tuple[Any, Any, str]] = []
    for _ in range(POINTS):
        given = {one.name: draw_input(one, chance) for one in calculator.inputs}
        if chance.random() < 0.9:  # otherwise most would be refused
            for whole, part in (("heads", "kv_heads"), ("heads", "tensor_ranks"),
                                ("micro_batches", "stages"), ("experts", "active_experts"),
                                ("hardware_flop", "model_flop")):  # fmt: skip
                if whole in given and part in given:
                    given[part] = min(given[part], given[whole])
                    if "heads" in whole or whole == "micro_batches":
                        given[whole] -= given[whole] % given[part]
        try:
            points.append((*tool.calculate(calculator, given), ""))
        except tool.UsageError as error:
            points.append((given, {}, str(error).removeprefix(f"{calculator.name}: ")))
    return points


NAMES = [one.name for one in read_calculators(TOOL.read_text())]


@pytest.mark.nightly
@pytest.mark.parametrize("name", NAMES)
def test_a_calculator_gives_what_python_gives(browser: Any, tool: Any, name: str) -> None:
    """Thousands of random inputs give the same whole numbers, and the same floats bit by bit,
    except from functions of which a browser has its own. Inputs that break a condition are refused
    with the same sentence."""
    (calculator,) = (one for one in tool.CALCULATORS if one.name == name)
    (script,) = (one.script for one in read_calculators(TOOL.read_text()) if one.name == name)
    cases = draw_points(tool, calculator)
    page = browser.new_page()
    page.add_script_tag(content=RUNTIME)
    page.add_script_tag(content=script)
    # sum() has added otherwise before Python 3.12.
    page.evaluate(f"python.compensates = {json.dumps(sys.version_info >= (3, 12))}")
    asked = [[type_value(key, value) for key, value in inputs.items()] for inputs, *_ in cases]
    answers = json.loads(page.evaluate(COMPUTE, json.dumps(asked)))
    page.close()
    assert any(refusal for *_, refusal in cases) is bool(calculator.requires)
    for (inputs, outputs, refusal), (reason, found) in zip(cases, answers, strict=True):
        assert reason == refusal
        if refusal:
            continue
        assert [key for key, _, _ in found] == list(outputs)
        for key, kind, text in found:
            value: Any = int(text) if kind == "int" else float(text)
            assert type(value) is type(outputs[key]), (key, inputs)
            if key in OF_MATHS.get(name, ()):
                near = math.isclose(value, outputs[key], rel_tol=4e-16, abs_tol=4e-15)
                assert near, (key, inputs, value, outputs[key])
            else:
                assert value == outputs[key], (key, inputs)


def test_a_stored_calculator_is_the_same() -> None:
    """Its integer bounds stay integers: in JavaScript they are of another type."""
    calculators = read_calculators(TOOL.read_text(encoding="utf-8"))
    stored = decode(encode(calculators), tuple[Calculator, ...])
    assert [one.script for one in stored] == [one.script for one in calculators]


@pytest.mark.nightly
def test_answers_are_shown_as_the_tool_prints_them(
    browser: Any, tool: Any, make_book: BookMaker, run_bindery: Runner
) -> None:
    """Prefixes, days and hours, thousands and four digits, a half rounded to even; numbers of
    things are read alike as well, 70B among them."""
    chance = random.Random(5)
    cases: list[tuple[Any, str]] = []
    for unit in ("1", "1/s", "s", "B", "B/s", "FLOP", "FLOP/s", "J", "Hz", "W"):
        floats = [math.exp(chance.uniform(-20, 60)) for _ in range(300)]
        floats += [0.0, 0.5, 1234.5, 1235.5, 999.95, 0.125, 2.5e-4, 59.99, 60.0, 7200.0, 3.6e6]
        cases += [(value, unit) for value in floats]
        cases += [(chance.getrandbits(chance.randint(1, 60)), unit) for _ in range(200)]
    root = make_book(
        {
            "chapters.yaml": "title: B\nparts: [{chapters: [a.md]}]\n"
            "tools: {calculators: {path: calculators.py, calculators: true}}\n",
            "a.md": "# A\n",
            "calculators.py": TOOL.read_text(),
        }
    )
    assert run_bindery("html", folder=root).status == 0
    page = browser.new_page()
    page.goto((root / "dist/site/tools/calculators/batch.html").as_uri())
    typed = ["70B", "7.5T", "128k", "4Mi", "2e3B", " 7B ", ".5G", "7.5GB", "70b", "", "-1", "1.2.3"]
    amounts = page.evaluate("(typed) => typed.map(readAmount)", typed)
    said = page.evaluate(
        """(cases) => JSON.parse(cases).map(([kind, text, unit]) =>
            showQuantity(kind === "int" ? BigInt(text) : Number(text), unit))""",
        json.dumps([[type(value).__name__, repr(value), unit] for value, unit in cases]),
    )
    page.close()
    for text, amount in zip(typed, amounts, strict=True):
        try:
            expected = tool.large_number(text)
        except argparse.ArgumentTypeError as error:
            expected = str(error)
        assert amount == expected
    for (value, unit), text in zip(cases, said, strict=True):
        assert text == tool.format_quantity(value, unit), (value, unit)


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("    return x % 2", "x % 2"),
        ("    return [y for y in x]", "[y for y in x]"),
        ("    for y in x:\n        pass", "for y in x:"),
        ("    return 1 < x < 2", "1 < x < 2"),
        ("    x += 1\n    return x", "x += 1"),
        ("    return math.gamma(x)", "math.gamma(x)"),
    ],
)
def test_what_cannot_be_translated_is_named(body: str, said: str) -> None:
    """Anything outside the subset is refused with the text and the line of it."""
    module = ast.parse(f"import math\n\ndef f(x):\n{body}\n")
    with pytest.raises(TranslationError) as caught:
        translate_functions(module, ["f"])
    assert f"`{said}`" in str(caught.value)
    assert caught.value.line >= 4


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("x = 1\n", "no constant CALCULATORS"),
        ("def f(:\n", "this is not valid Python"),
        ("CALCULATORS = 3\n", "must be a tuple"),
        ("CALCULATORS = (Calculator(1),)\n", "no class 'Calculator'"),
        ("CALCULATORS = (lost,)\n", "'lost' is unknown"),
    ],
)
def test_a_tool_without_calculators_is_refused(source: str, said: str) -> None:
    """What CALCULATORS lacks is said."""
    with pytest.raises(TranslationError, match=said):
        read_calculators(source)
