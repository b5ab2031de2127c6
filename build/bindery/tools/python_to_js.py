"""Translate pure Python functions to JavaScript with the same numeric results.

The subset is deliberately small: assignments, `if`, `return`, arithmetic, comparisons, tuples,
dictionaries, some `math` functions, and calls of functions in the same module. Everything else is
rejected with its line, because an almost correct translation is worse than none. Integers become
BigInt, other numbers Number; the site's `python.js` has Python's operations on them.
"""

from __future__ import annotations

import ast
import json
import math
from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct, field

_BINARY: Mapping[type[ast.operator], str] = {
    ast.Add: "add",
    ast.Sub: "sub",
    ast.Mult: "mul",
    ast.Div: "div",
    ast.Pow: "pow",
}
_COMPARISONS: Mapping[type[ast.cmpop], str] = {
    ast.Lt: "lt",
    ast.LtE: "le",
    ast.Gt: "gt",
    ast.GtE: "ge",
    ast.Eq: "eq",
    ast.NotEq: "ne",
}
_MATHS = frozenset(("ceil", "exp", "expm1", "log2", "sqrt"))


class TranslationError(ValueError):
    """Code without a translation, with its line from 1."""

    def __init__(self, reason: str, line: int) -> None:
        super().__init__(reason)
        self.line = line


class Functions(Struct, frozen=True):
    """Functions of a module, with the constants and functions that they need, as JavaScript."""

    text: str
    """Declarations; names are Python's with a `$` in front."""
    parameters: Mapping[str, tuple[str, ...]]
    """The parameters of each function."""


def translate_functions(module: ast.Module, names: Iterable[str]) -> Functions:
    """Translate the named functions and what they need. Raises TranslationError."""
    translator = _Translator(module)
    for name in names:
        translator.add_function(name, 1)
    return Functions("\n".join(translator.texts.values()), translator.parameters)


def translate_expression(text: str, known: Iterable[str], functions: Mapping[str, str]) -> str:
    """Translate an expression in known names and functions, which have these names in `python.js`.
    Raises TranslationError; its line is that in the text."""
    try:
        tree = ast.parse(text.strip(), mode="eval")
    except (SyntaxError, ValueError) as error:
        raise TranslationError(f"'{text}' is not an expression: {error}", 1) from None
    return _Scope(None, frozenset(known), functions).write(tree.body)


def write_literal(value: object) -> str:
    """A constant as JavaScript. Raises ValueError for anything else."""
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case int():
            return f"{value}n"
        case float() if math.isfinite(value):
            return repr(value)
        case str():
            # In a page, `</script>` would end the script.
            return json.dumps(value).replace("<", "\\u003c")
        case tuple() | list():
            return f"[{', '.join(map(write_literal, value))}]"
        case dict():
            pairs = (f"[{write_literal(k)}, {write_literal(v)}]" for k, v in value.items())
            return f"new Map([{', '.join(pairs)}])"
        case _:
            raise ValueError(f"'{value!r}' is not a plain value")


class _Translator(Struct):
    """Collects the required declarations, dependencies first."""

    module: ast.Module
    texts: dict[str, str] = field(default_factory=dict)
    parameters: dict[str, tuple[str, ...]] = field(default_factory=dict)

    def find_function(self, name: str) -> ast.FunctionDef | None:
        found = [n for n in self.module.body if isinstance(n, ast.FunctionDef) and n.name == name]
        return found[-1] if found else None

    def add_function(self, name: str, line: int) -> None:
        if name in self.parameters:
            return
        node = self.find_function(name)
        if node is None:
            raise TranslationError(f"there is no function '{name}' in this file", line)
        asked = node.args
        if (
            node.decorator_list
            or asked.vararg
            or asked.kwarg
            or asked.defaults
            or any(default is not None for default in asked.kw_defaults)
        ):
            reason = f"'{name}' has decorators, defaults or a variable number of arguments"
            raise TranslationError(reason, node.lineno)
        names = tuple(a.arg for a in (*asked.posonlyargs, *asked.args, *asked.kwonlyargs))
        self.parameters[name] = names
        scope = _Scope(self, frozenset((*names, *_find_assigned(node.body))), {})
        body = scope.write_block(node.body, "  ")
        others = sorted(set(_find_assigned(node.body)) - set(names))
        declared = f"  let {', '.join(map(write_name, others))};\n" if others else ""
        head = f"function {write_name(name)}({', '.join(map(write_name, names))})"
        self.texts[name] = f"{head} {{\n{declared}{body}}}"

    def add_constant(self, name: str, line: int) -> None:
        if name in self.texts:
            return
        values = [
            node.value
            for node in self.module.body
            if isinstance(node, ast.Assign)
            and any(isinstance(target, ast.Name) and target.id == name for target in node.targets)
        ]
        if len(values) != 1:
            raise TranslationError(f"'{name}' is not a constant assigned once in this file", line)
        try:
            literal = write_literal(ast.literal_eval(values[0]))
        except (ValueError, TypeError):
            reason = f"'{name}' must be a plain literal to be translated"
            raise TranslationError(reason, values[0].lineno) from None
        self.texts[name] = f"const {write_name(name)} = {literal};"


def write_name(name: str) -> str:
    """A Python name in JavaScript, where it cannot clash with a keyword."""
    return f"${name}"


def _find_assigned(body: Sequence[ast.stmt]) -> list[str]:
    return [
        node.id
        for statement in body
        for node in ast.walk(statement)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
    ]


class _Scope(Struct, frozen=True):
    """A scope for names: a function, or a separate expression."""

    translator: _Translator | None
    known: frozenset[str]
    functions: Mapping[str, str]

    def write_block(self, body: Sequence[ast.stmt], indent: str) -> str:
        return "".join(self.write_statement(statement, indent) for statement in body)

    def write_statement(self, node: ast.stmt, indent: str) -> str:
        match node:
            case ast.Expr(value=ast.Constant(value=str())):
                return ""
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                return f"{indent}{write_name(name)} = {self.write(value)};\n"
            case ast.Assign(targets=[ast.Tuple(elts=elements)], value=value):
                names = [e.id for e in elements if isinstance(e, ast.Name)]
                if len(names) == len(elements):
                    targets = ", ".join(map(write_name, names))
                    held = f"python.unpack({self.write(value)}, {len(names)})"
                    return f"{indent}[{targets}] = {held};\n"
            case ast.If(test=test, body=body, orelse=other):
                text = f"{indent}if (python.truth({self.write(test)})) {{\n"
                text += self.write_block(body, indent + "  ")
                if other:
                    text += f"{indent}}} else {{\n{self.write_block(other, indent + '  ')}"
                return f"{text}{indent}}}\n"
            case ast.Return(value=ast.expr() as value):
                return f"{indent}return {self.write(value)};\n"
        raise self._refuse(node)

    def write(self, node: ast.expr) -> str:
        inner = self.write
        match node:
            case ast.Constant(value=value):
                try:
                    return write_literal(value)
                except ValueError:
                    raise self._refuse(node) from None
            case ast.Name(id=name):
                if name not in self.known:
                    if self.translator is None:
                        raise TranslationError(f"the name '{name}' is unknown", node.lineno)
                    self.translator.add_constant(name, node.lineno)
                return write_name(name)
            case ast.Tuple(elts=elements) | ast.List(elts=elements):
                return f"[{', '.join(map(inner, elements))}]"
            case ast.Dict(keys=keys, values=values):
                pairs = [
                    f"...{inner(value)}" if key is None else f"[{inner(key)}, {inner(value)}]"
                    for key, value in zip(keys, values, strict=True)
                ]
                return f"new Map([{', '.join(pairs)}])"
            case ast.BinOp(left=left, op=operator, right=right) if type(operator) in _BINARY:
                return f"python.{_BINARY[type(operator)]}({inner(left)}, {inner(right)})"
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                return f"python.neg({inner(operand)})"
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                return f"!python.truth({inner(operand)})"
            case ast.Compare(left=left, ops=[operator], comparators=[right]) if (
                type(operator) in _COMPARISONS
            ):
                return f"python.{_COMPARISONS[type(operator)]}({inner(left)}, {inner(right)})"
            case ast.IfExp(test=test, body=body, orelse=other):
                return f"(python.truth({inner(test)}) ? {inner(body)} : {inner(other)})"
            case ast.Subscript(value=value, slice=key) if not isinstance(key, ast.Slice):
                return f"python.item({inner(value)}, {inner(key)})"
            case ast.Call(func=function, args=arguments, keywords=keywords):
                return self._write_call(node, function, arguments, keywords)
        raise self._refuse(node)

    def _write_call(
        self,
        node: ast.Call,
        function: ast.expr,
        arguments: Sequence[ast.expr],
        keywords: Sequence[ast.keyword],
    ) -> str:
        given = [self.write(argument) for argument in arguments]
        match function:
            case ast.Name(id=name) if name in self.functions and not keywords:
                return f"python.{self.functions[name]}({', '.join(given)})"
            case _ if self.translator is None:
                pass
            case ast.Attribute(value=ast.Name(id="math"), attr=name) if (
                name in _MATHS and len(given) == 1 and not keywords
            ):
                return f"python.{name}({given[0]})"
            case ast.Name(id="min" | "max" as name) if len(given) > 1 and not keywords:
                return f"python.{name}({', '.join(given)})"
            case ast.Name(id="sum") if len(given) == 1 and not keywords:
                return f"python.sum({given[0]})"
            case ast.Attribute(value=value, attr="values") if not given and not keywords:
                return f"python.values({self.write(value)})"
            case ast.Name(id=name) if self.translator.find_function(name):
                self.translator.add_function(name, node.lineno)
                names = self.translator.parameters[name]
                by_name = {k.arg: self.write(k.value) for k in keywords if k.arg}
                rest = names[len(given) :]
                if len(by_name) == len(keywords) and set(by_name) == set(rest):
                    given += [by_name[name] for name in rest]
                    return f"{write_name(name)}({', '.join(given)})"
        raise self._refuse(node)

    def _refuse(self, node: ast.stmt | ast.expr) -> TranslationError:
        text = ast.unparse(node).split("\n")[0]
        shown = text if len(text) <= 60 else f"{text[:57]}..."
        return TranslationError(f"`{shown}` cannot be translated to JavaScript", node.lineno)
