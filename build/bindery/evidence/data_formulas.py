"""Arithmetic in data files: numbers, names, + - * / ** and parentheses."""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable, Mapping

_OPERATORS: Mapping[type[ast.operator], Callable[[float, float], float]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.Pow: math.pow,
}


class NoArithmeticError(ValueError):
    """The expression cannot be evaluated; the message explains why."""


def evaluate(expression: str, names: Mapping[str, float | None]) -> float:
    """Evaluate an expression in floating point, with a number per name.

    Raises NoArithmeticError for anything but arithmetic, and for names without a number.
    """
    try:
        tree = ast.parse(expression.strip(), mode="eval")
        value = _evaluate(tree.body, names)
    except SyntaxError:
        raise NoArithmeticError(f"'{expression}' is not arithmetic") from None
    except NoArithmeticError:
        raise
    except (ZeroDivisionError, OverflowError, ValueError) as error:
        raise NoArithmeticError(f"'{expression}' has no value: {error}") from None
    if not math.isfinite(value):
        raise NoArithmeticError(f"'{expression}' has no value")
    return value


def _evaluate(node: ast.expr, names: Mapping[str, float | None]) -> float:
    match node:
        case ast.Constant(value=int() | float() as value) if not isinstance(value, bool):
            return float(value)
        case ast.Name(id=name):
            number = names.get(name)
            if number is None:
                raise NoArithmeticError(f"'{name}' has no number here")
            return number
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_evaluate(operand, names)
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _OPERATORS:
            first, second = _evaluate(left, names), _evaluate(right, names)
            return _OPERATORS[type(op)](first, second)
        case _:
            raise NoArithmeticError(f"'{ast.unparse(node)}' is not arithmetic")


def agrees(typed: float | str, value: float) -> bool:
    """Whether a value rounds to a typed number."""
    text = str(typed).lower().lstrip("+-")
    mantissa, _, exponent = text.partition("e")
    decimals = len(mantissa.partition(".")[2]) - int(exponent or 0)
    return abs(float(typed) - value) <= 0.5000001 * 10.0**-decimals
