"""Read the calculators that a tool declares, and translate their functions to JavaScript.

A tool declares calculators in its constant CALCULATORS, a tuple of `Calculator(...)`, a NamedTuple
in the same file with name, title, question, inputs, outputs, a pure function (the formula), source,
and conditions on the inputs. Its literals are evaluated here; the tool is never run.
"""

from __future__ import annotations

import ast
import re
import textwrap
from collections.abc import Mapping, Sequence
from functools import cache, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct, field
from msgspec.structs import astuple

from bindery.tools.python_to_js import (
    Functions,
    TranslationError,
    translate_expression,
    translate_functions,
    write_literal,
    write_name,
)
from bindery.tools.tool_source import parse_module, read_constants

if TYPE_CHECKING:
    from jinja2 import Template

FUNCTIONS = {name: name for name in "sqrt exp expm1 log2 ceil min max".split()}
"""Functions that conditions may call."""
_NEEDED = ("name", "title", "question", "inputs", "outputs", "function", "source")
_CONSTANT = "CALCULATORS"


class Input(Struct, frozen=True):
    """An input of a calculator, in base units. `kind` is `choice`, `boolean`, `integer` or
    `number`."""

    name: str
    label: str
    unit: str
    default: Any
    minimum: int | float | None = None
    maximum: int | float | None = None
    choices: tuple[Any, ...] = ()

    @property
    def kind(self) -> str:
        if self.choices:
            return "choice"
        if isinstance(self.default, bool):
            return "boolean"
        return "integer" if isinstance(self.default, int) else "number"


class Output(Struct, frozen=True):
    """An output of a calculator, in base units."""

    name: str
    label: str
    unit: str


class Calculator(Struct, frozen=True):
    """A calculator as a page shows it, and what its script is made of."""

    name: str
    title: str
    question: str
    inputs: tuple[Input, ...]
    outputs: tuple[Output, ...]
    formula: str
    """Its functions, as Python."""
    source: str
    function: str
    functions: str
    """Its functions, as JavaScript."""
    parameters: tuple[str, ...]
    requires: tuple[tuple[str, str], ...]
    """Conditions on the inputs, as JavaScript, and what is said where one does not hold."""

    @property
    def script(self) -> str:
        """JavaScript that sets `window.calculator`; it needs `python.js`."""
        return _read_template().render(one=self)


@lru_cache(maxsize=64)
def read_calculators(source: str) -> tuple[Calculator, ...]:
    """The calculators of a tool. Raises TranslationError if it has none, or if one cannot be read
    or translated."""
    try:
        module, constants = parse_module(source), read_constants(source)
    except SyntaxError as error:
        raise TranslationError(f"this is not valid Python: {error}", 1) from None
    if _CONSTANT not in constants:
        raise TranslationError(f"this tool has no constant {_CONSTANT}", 1)
    reader = _Reader(module, constants)
    declared = reader.read(constants[_CONSTANT])
    if not isinstance(declared, tuple):
        raise TranslationError(
            f"{_CONSTANT} must be a tuple of calculators", constants[_CONSTANT].lineno
        )
    return tuple(_make_calculator(module, source, one) for one in declared)


class _Made(Struct, frozen=True):
    """A NamedTuple of the tool with its values."""

    kind: str
    values: Mapping[str, Any]
    line: int


class _Function(Struct, frozen=True):
    """A function named by a calculator."""

    name: str


class _Reader(Struct):
    """Evaluates literals, constants and NamedTuples of a module."""

    module: ast.Module
    constants: Mapping[str, ast.expr]
    known: dict[str, Any] = field(default_factory=dict)

    def read(self, node: ast.expr) -> Any:
        match node:
            case ast.Constant(value=value):
                return value
            case ast.Tuple(elts=elements):
                return tuple(map(self.read, elements))
            case ast.List(elts=elements):
                return list(map(self.read, elements))
            case ast.Dict(keys=keys, values=values) if None not in keys:
                pairs = zip(keys, values, strict=True)
                return {self.read(key): self.read(value) for key, value in pairs if key is not None}
            case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() | float() as value)):
                return -value
            case ast.Name(id=name):
                return self._read_name(name, node)
            case ast.Call(func=ast.Name(id="tuple"), args=[value], keywords=[]):
                return tuple(self.read(value))
            case ast.Call(func=ast.Name(id=name), args=given, keywords=keywords):
                named = {k.arg or "": self.read(k.value) for k in keywords}
                return self._make(name, node, [self.read(value) for value in given], named)
        raise TranslationError(f"`{ast.unparse(node)[:60]}` cannot be read here", node.lineno)

    def _read_name(self, name: str, node: ast.expr) -> Any:
        if name in self.known:
            return self.known[name]
        if name in self.constants:
            self.known[name] = self.read(self.constants[name])
            return self.known[name]
        if any(isinstance(n, ast.FunctionDef) and n.name == name for n in self.module.body):
            return _Function(name)
        raise TranslationError(f"the name '{name}' is unknown here", node.lineno)

    def _make(
        self, name: str, node: ast.expr, given: Sequence[Any], keywords: Mapping[str, Any]
    ) -> _Made:
        for kind in self.module.body:
            if isinstance(kind, ast.ClassDef) and kind.name == name:
                fields = {
                    node.target.id: node.value
                    for node in kind.body
                    if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name)
                }
                usual = {n: self.read(v) for n, v in fields.items() if v is not None}
                values = {**usual, **dict(zip(fields, given, strict=False)), **keywords}
                return _Made(name, values, node.lineno)
        raise TranslationError(f"there is no class '{name}' in this file", node.lineno)


def _make_calculator(module: ast.Module, source: str, made: object) -> Calculator:
    if not isinstance(made, _Made) or made.kind != "Calculator":
        raise TranslationError(f"{_CONSTANT} contains something other than Calculator", 1)
    values, line = made.values, made.line
    for key in _NEEDED:
        if not values.get(key):
            raise TranslationError(f"this calculator has no '{key}'", line)
    if not re.fullmatch(r"(?!index$)[a-z0-9][a-z0-9-]*", str(values["name"])):
        raise TranslationError("its name may contain only lower-case letters, digits and -", line)
    if not isinstance(values["function"], _Function):
        raise TranslationError("'function' must name a function in this file", line)
    try:
        inputs = tuple(Input(**one.values) for one in values["inputs"])
        outputs = tuple(Output(**one.values) for one in values["outputs"])
    except (AttributeError, TypeError):
        reason = "its inputs or outputs have the wrong fields"
        raise TranslationError(reason, line) from None
    function, asked = values["function"].name, [one.name for one in inputs]
    functions = translate_functions(module, [function])
    parameters = functions.parameters[function]
    if set(parameters) != set(asked):
        raise TranslationError(f"'{function}' does not take the inputs of its calculator", line)
    try:
        write_literal([astuple(one) for one in (*inputs, *outputs)])  # the script needs them so
        requires = [
            (translate_expression(text, asked, FUNCTIONS), write_literal(said))
            for text, said in values.get("requires", ())
        ]
    except (TranslationError, ValueError) as error:
        raise TranslationError(f"'{values['name']}': {error}", line) from None
    return Calculator(
        str(values["name"]), str(values["title"]), str(values["question"]), inputs, outputs,
        _quote_functions(module, source, functions), str(values["source"]), function,
        functions.text, parameters, tuple(requires),
    )  # fmt: skip


def _quote_functions(module: ast.Module, source: str, functions: Functions) -> str:
    """The body of the first function, and the other functions, without docstrings."""
    lines = source.split("\n")
    texts: list[str] = []
    for name in functions.parameters:
        *_, node = (n for n in module.body if isinstance(n, ast.FunctionDef) and n.name == name)
        first = node.body[1] if ast.get_docstring(node) is not None else node.body[0]
        text = textwrap.dedent("\n".join(lines[first.lineno - 1 : node.end_lineno]))
        if texts:
            text = f"def {name}({ast.unparse(node.args)}):\n{textwrap.indent(text, '    ')}"
        texts.append(text)
    return "\n\n".join(texts)


@cache
def _read_template() -> Template:
    import jinja2  # needed only for calculators

    environment = jinja2.Environment(
        trim_blocks=True, undefined=jinja2.StrictUndefined, keep_trailing_newline=True
    )
    environment.filters["literal"] = write_literal
    environment.filters["variable"] = write_name
    path = Path(__file__).with_name("calculator_script.js")
    return environment.from_string(path.read_text(encoding="utf-8"))
