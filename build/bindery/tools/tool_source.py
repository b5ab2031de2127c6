"""Read constants from a tool's source, without running it."""

from __future__ import annotations

import ast
import inspect
import io
import tokenize
from collections.abc import Mapping
from functools import lru_cache


@lru_cache(maxsize=64)  # records, pages and bundles of tools are made from the same sources
def parse_module(source: str) -> ast.Module:
    """The syntax tree of a source, not to be changed. Raises SyntaxError where it is not Python."""
    try:
        return ast.parse(source)
    except ValueError as error:  # a NUL
        raise SyntaxError(str(error)) from None


def read_constants(source: str) -> Mapping[str, ast.expr]:
    """The expression that each name of the module is assigned last, as `ast.literal_eval` takes
    it; one that is assigned in parts, such as `N += 1`, is not a literal.

    Raises SyntaxError where the source is not Python.
    """
    constants: dict[str, ast.expr] = {}
    for node in parse_module(source).body:
        match node:
            case ast.Assign(targets=targets, value=value):
                names = [target.id for target in targets if isinstance(target, ast.Name)]
                constants |= dict.fromkeys(names, value)
            case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value):
                constants[name] = value
            case ast.AugAssign(target=ast.Name(id=name)):
                constants[name] = ast.Name(name)
            case _:
                pass
    return constants


def read_method(source: str) -> int | None:
    """A tool's constant METHOD, 1 if it has none; None if it is not an integer literal, or the
    source is not valid Python."""
    if "METHOD" not in source:
        return 1
    try:
        value = read_constants(source).get("METHOD", ast.Constant(1))
    except SyntaxError:
        return None
    match value:
        case ast.Constant(value=int() as method) if not isinstance(method, bool):
            return method
        case _:
            return None


def read_version(source: str) -> str:
    """A tool's constant __version__; empty if it is not a string literal."""
    try:
        value = read_constants(source).get("__version__")
    except SyntaxError:
        return ""
    match value:
        case ast.Constant(value=str() as version):
            return version
        case _:
            return ""


def read_docstring(source: str) -> str:
    """The docstring of a module; empty if it has none, or the source is not Python."""
    try:
        for token in tokenize.generate_tokens(io.StringIO(source).readline):
            if token.type == tokenize.STRING:
                return inspect.cleandoc(str(ast.literal_eval(token.string)))
            if token.type not in (tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE):
                break
    except (tokenize.TokenError, SyntaxError, ValueError):
        pass
    return ""
