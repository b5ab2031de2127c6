"""The command line that a tool's argparse parser takes, read from its source without running it.

The statements that build the parser are followed as far as their values can be known: constants,
loops over literals, groups, parents, subcommands, and functions of the same file that are handed
the parser. Where a name cannot be known, the tool is not judged at all.
"""

from __future__ import annotations

import ast
import itertools
import re
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

Kind = Literal["text", "int", "float", "other"]


@dataclass(frozen=True, slots=True)
class Option:
    """An option or a positional argument of a parser."""

    names: tuple[str, ...]
    """`--json`, `-j`; of a positional argument what `add_argument` calls it."""
    least: int = 1
    """How many values it takes at least."""
    most: int | None = 1
    """At most; None for any number."""
    is_counted: bool = True
    """Whether the number of values is known."""
    kind: Kind = "text"
    choices: tuple[Any, ...] | None = None
    is_required: bool = False
    ends_run: bool = False
    """Whether it prints something and ends, as `--help` does."""
    takes_rest: bool = False
    """Whether everything behind it belongs to it."""
    rivals: int = 0
    """The number of the group of which only one may be given; 0 without."""
    is_hidden: bool = False
    """Whether `--help` does not tell of it."""

    @property
    def is_positional(self) -> bool:
        return not self.names[0].startswith("-")


@dataclass(frozen=True, slots=True)
class Parser:
    """What a command line may hold."""

    options: tuple[Option, ...]
    positionals: tuple[Option, ...] = ()
    commands: Mapping[str, Parser] | None = None
    """The subcommands by name, which stand behind the positionals; None where there are none."""
    is_command_required: bool = False
    is_open: bool = False
    """Whether it lets options pass that it does not know."""
    takes_abbreviations: bool = True
    takes_files: bool = False
    """Whether arguments may come from a file."""

    def find(self, name: str) -> Option | None:
        return next((option for option in self.options if name in option.names), None)


def read_parser(source: str) -> Parser | None:
    """The parser that a program reads its command line with, or None where it has none, or where
    it cannot be known for certain without running it."""
    if "add_argument" not in source or "argparse" not in source:
        return None
    try:
        module = _parse(_leave_out_strangers(source)) or _parse(source)
        return _Interpreter(module).read() if module else None
    except (_Unknowable, RecursionError):
        return None


_TOP_LEVEL = re.compile(r"^(?=[A-Za-z_@])", re.MULTILINE)
_DEFINITION = re.compile(r"(?:@.*\n)*(?:async )?(?:def|class) (?P<name>\w+)")
_RECORD = re.compile(r"@(?:dataclasses\.)?dataclass\b|class \w+\((?:typing\.)?NamedTuple\)")
_WORD = re.compile(r"[A-Za-z_]\w*")


def _leave_out_strangers(source: str) -> str:
    """The source without the functions and classes that have nothing to do with a parser. Most of
    a tool is such, and takes long to parse."""
    blocks: list[str] = []
    decorators: list[str] = []
    for block in _TOP_LEVEL.split(source):
        if block.startswith("@"):
            decorators.append(block)
        else:
            blocks.append("".join([*decorators, block]))
            decorators.clear()
    blocks += decorators
    definitions = [_DEFINITION.match(block) for block in blocks]
    words = [
        set(_WORD.findall(block)) if definitions[i] else set() for i, block in enumerate(blocks)
    ]
    telling = _spread(
        _TELLING,
        ((found["name"], used) for found, used in zip(definitions, words, strict=True) if found),
    )
    return "".join(
        block
        for block, found in zip(blocks, definitions, strict=True)
        if not found or found["name"] in telling or _RECORD.match(block)
    )


def _spread(seeds: Iterable[str], uses: Iterable[tuple[str, Iterable[str]]]) -> set[str]:
    """The seeds, what uses one of them, what uses that, and so on."""
    users: dict[str, list[str]] = {}
    for name, used in uses:
        for one in used:
            users.setdefault(one, []).append(name)
    reached = set(seeds)
    waiting = list(reached)
    while waiting:
        for user in users.get(waiting.pop(), ()):
            if user not in reached:
                reached.add(user)
                waiting.append(user)
    return reached


def _parse(source: str) -> ast.Module | None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return ast.parse(source)
        except (SyntaxError, ValueError, MemoryError):
            return None


class _Unknowable(Exception):
    """Something that matters is known only where the tool runs."""


class _Unknown:
    """The value of whatever cannot be known."""

    def __bool__(self) -> bool:
        raise _Unknowable


_UNKNOWN = _Unknown()
_Values = dict[str, Any]


@dataclass(eq=False)
class _Marker:
    """Something of the module argparse, or another imported name."""

    name: str


@dataclass(eq=False)
class _Drafted:
    """A parser as it is being built."""

    options: list[Option] = field(default_factory=list)
    positionals: list[Option] = field(default_factory=list)
    commands: dict[str, _Drafted] | None = None
    is_command_required: bool = False
    is_open: bool = False
    takes_abbreviations: bool = True
    takes_files: bool = False
    rivals: int = 0

    def finish(self) -> Parser:
        """What has been drafted. A command of several names is finished once, for commands of
        commands would be as many as the names multiplied."""
        commands: dict[str, Parser] | None = None
        if self.commands is not None:
            finished = {id(one): one.finish() for one in set(self.commands.values())}
            commands = {name: finished[id(one)] for name, one in self.commands.items()}
        return Parser(
            tuple(self.options),
            tuple(self.positionals),
            commands,
            self.is_command_required,
            self.is_open,
            self.takes_abbreviations,
            self.takes_files,
        )


@dataclass(eq=False)
class _Group:
    """A group of a parser, or what `add_subparsers` gives."""

    parser: _Drafted
    rivals: int = 0


@dataclass(eq=False)
class _Subcommands:
    parser: _Drafted


@dataclass(eq=False)
class _Function:
    node: ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(eq=False)
class _RecordClass:
    """A NamedTuple or frozen dataclass of the file: a tool may keep what its options are made of in
    it, and nothing changes it later."""

    fields: tuple[str, ...]
    defaults: _Values


@dataclass(eq=False)
class _Instance:
    values: _Values


@dataclass(eq=False)
class _Method:
    owner: _Drafted | _Group | _Subcommands
    name: str


_Building = (_Drafted, _Group, _Subcommands)
_TELLING = frozenset(
    ("add_argument", "ArgumentParser", "parse_args", "parse_known_args", "add_parser",
     "parse_intermixed_args", "add_subparsers", "add_argument_group",
     "add_mutually_exclusive_group")
)  # fmt: skip
_PARSING = frozenset(
    ("parse_args", "parse_known_args", "parse_intermixed_args", "parse_known_intermixed_args")
)
_HARMLESS_METHODS = frozenset(
    """set_defaults get_default print_help print_usage format_help format_usage error exit
    convert_arg_line_to_args""".split()
)
_HARMLESS_TAKERS = frozenset(("print", "repr", "str", "id", "isinstance", "type", "autocomplete"))
_PLAIN_METHODS: Mapping[type, frozenset[str]] = {
    str: frozenset("replace lower upper strip lstrip rstrip split join title".split()),
    dict: frozenset("keys values items get".split()),
    list: frozenset(("copy", "index", "count")),
    tuple: frozenset(("index", "count")),
}
_PLAIN_FUNCTIONS: Mapping[str, Any] = {
    "list": list, "tuple": tuple, "set": list, "frozenset": list, "sorted": sorted, "dict": dict,
    "str": str, "len": len, "range": range, "zip": zip, "enumerate": enumerate,
    "reversed": reversed,
}  # fmt: skip
_OWN_MAKING = frozenset(("__init__", "__new__", "__post_init__", "__getattr__", "__getattribute__"))
_LIMIT = 20_000
_LONGEST = 10_000


class _Returned(Exception):
    def __init__(self, value: Any) -> None:
        super().__init__()
        self.value = value


class _Interpreter:
    """Follows the statements of a module as `python tool.py` would run them."""

    def __init__(self, module: ast.Module) -> None:
        self.module = module
        self.globals: _Values = {"__name__": "__main__"}
        self.nodes, self.parents = _list_nodes(module)
        self.functions = {
            node.name: node
            for node in self.nodes
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        }
        self.telling = self._find_telling()
        self.mattering = self._find_mattering(_TELLING | self.telling)
        self.parsed: list[_Drafted] = []
        self.visited: set[ast.AST] = set()
        self.calls: list[ast.AST] = []
        self.steps = 0
        self.doubt = 0
        """How many conditions stand around the statement that cannot be known."""
        self.numbers = itertools.count(1)

    def read(self) -> Parser | None:
        self._run(self.module.body, self.globals)
        found = [draft.finish() for draft in self.parsed]
        if not found or not self._has_seen_all():
            return None
        widest = max(found, key=lambda parser: len(parser.options))
        if any(not set(_list_names(one)) <= set(_list_names(widest)) for one in found):
            return None
        return widest

    def _has_seen_all(self) -> bool:
        """Whether no argument is added in a place that was never reached."""
        return all(
            node in self.visited
            for node in self.nodes
            if isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr in ("add_argument", "add_parser")
        )

    def _find_telling(self) -> frozenset[str]:
        """The functions that have to do with a parser, or call one that has."""
        uses = {
            name: {
                part.attr if isinstance(part, ast.Attribute) else part.id
                for part in ast.walk(node)
                if isinstance(part, ast.Attribute | ast.Name)
            }
            for name, node in self.functions.items()
        }
        return frozenset(_spread(_TELLING, uses.items()) & uses.keys())

    def _find_mattering(self, names: frozenset[str]) -> set[ast.AST]:
        """The nodes that have to do with a parser, or hold one that has."""
        found: set[ast.AST] = set()
        for node in reversed(self.nodes):  # those inside come first
            own = isinstance(node, ast.Attribute) and node.attr in names
            if own or (isinstance(node, ast.Name) and node.id in names) or node in found:
                found.add(node)
                if node in self.parents:
                    found.add(self.parents[node])
        return found

    def _matters(self, nodes: Sequence[ast.AST]) -> bool:
        return any(node in self.mattering for node in nodes)

    # --- statements ---

    def _run(self, body: Sequence[ast.stmt], values: _Values) -> None:
        for statement in body:
            self.steps += 1
            if self.steps > _LIMIT:
                raise _Unknowable
            self._run_one(statement, values)

    def _run_one(self, statement: ast.stmt, values: _Values) -> None:
        match statement:
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                values[statement.name] = _Function(statement)
            case ast.ClassDef():
                values[statement.name] = self._read_class(statement, values)
            case ast.Import():
                for alias in statement.names:
                    values[alias.asname or alias.name.split(".")[0]] = _Marker(alias.name)
            case ast.ImportFrom():
                for alias in statement.names:
                    name = f"{statement.module}.{alias.name}"
                    values[alias.asname or alias.name] = _Marker(name)
            case ast.Assign():
                value = self._evaluate(statement.value, values)
                for target in statement.targets:
                    self._assign(target, value, values)
            case ast.AnnAssign(value=ast.expr() as expression):
                self._assign(statement.target, self._evaluate(expression, values), values)
            case ast.AugAssign():
                joined = ast.BinOp(_as_load(statement.target), statement.op, statement.value)
                self._assign(statement.target, self._evaluate(joined, values), values)
            case ast.Expr(value=expression) | ast.Raise(exc=ast.expr() as expression):
                self._evaluate(expression, values)
            case ast.Return():
                if statement.value is None:
                    raise _Returned(None)
                raise _Returned(self._evaluate(statement.value, values))
            case ast.If():
                self._branch(statement, values)
            case ast.For() | ast.AsyncFor():
                self._loop(statement, values)
            case ast.While():
                self._forget(statement.body, values)
                self._run_doubtfully(statement.body, values)
            case ast.With() | ast.AsyncWith():
                for item in statement.items:
                    value = self._evaluate(item.context_expr, values)
                    if item.optional_vars is not None:
                        self._assign(item.optional_vars, value, values)
                self._run(statement.body, values)
            case ast.Try():
                self._run(statement.body, values)
                for handler in statement.handlers:
                    self._run_doubtfully(handler.body, values)
                self._run(statement.orelse, values)
                self._run(statement.finalbody, values)
            case ast.Match():
                for one in statement.cases:
                    self._run_doubtfully(one.body, values)
            case _:
                pass

    def _branch(self, statement: ast.If, values: _Values) -> None:
        test = self._evaluate(statement.test, values)
        if isinstance(test, bool | int | str | type(None)):
            self._run(statement.body if test else statement.orelse, values)
            return
        self._run_doubtfully(statement.body, values)
        self._run_doubtfully(statement.orelse, values)

    def _run_doubtfully(self, body: Sequence[ast.stmt], values: _Values) -> None:
        """Run what may run or not: what it adds is optional, what it assigns is unknown after."""
        self.doubt += 1
        inner = _Layer(values)
        try:
            self._run(body, inner)
        except _Returned as returned:
            if isinstance(returned.value, _Building):
                raise _Unknowable from None
        finally:
            self.doubt -= 1
        for name in inner.own:
            old = values.get(name, _UNKNOWN)
            values[name] = inner[name] if old is inner[name] else _merge(old, inner[name])

    def _forget(self, body: Sequence[ast.stmt], values: _Values) -> None:
        for statement in body:
            for part in ast.walk(statement):
                if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store):
                    values[part.id] = _UNKNOWN

    def _loop(self, statement: ast.For | ast.AsyncFor, values: _Values) -> None:
        items = self._evaluate(statement.iter, values)
        if isinstance(items, dict):
            items = list(items)
        if not self._matters(statement.body):
            self._forget([statement], values)
            return
        if not isinstance(items, list | tuple | str | range):
            self._assign(statement.target, _UNKNOWN, values)
            self._forget(statement.body, values)
            self._run_doubtfully(statement.body, values)
            return
        for item in items:
            self._assign(statement.target, item, values)
            self._run(statement.body, values)

    def _assign(self, target: ast.expr, value: Any, values: _Values) -> None:
        match target:
            case ast.Name(id=name):
                values[name] = value
            case ast.Tuple(elts=elements) | ast.List(elts=elements):
                known = list(value) if isinstance(value, list | tuple | str) else []
                for index, element in enumerate(elements):
                    one = known[index] if len(known) == len(elements) else _UNKNOWN
                    self._assign(element, one, values)
            case ast.Attribute(value=ast.Name(id=owner), attr=name):
                if isinstance(values.get(owner), _Building):
                    raise _Unknowable
                values[f"{owner}.{name}"] = value
            case ast.Subscript(value=ast.Name(id=owner)):
                values[owner] = _UNKNOWN
            case _:
                pass

    def _read_class(self, statement: ast.ClassDef, values: _Values) -> Any:
        """A class that is a parser but for its messages is as good as the one it comes from."""
        bases = [self._evaluate(base, values) for base in statement.bases]
        if any(_is_parser_class(base) for base in bases):
            methods = {n.name for n in statement.body if isinstance(n, ast.FunctionDef)}
            if methods <= _HARMLESS_METHODS:
                return _Marker("argparse.ArgumentParser")
        if not _is_record(statement, bases, values, self._evaluate):
            return _UNKNOWN
        entries = [part for part in statement.body if isinstance(part, ast.AnnAssign)]
        names = tuple(part.target.id for part in entries if isinstance(part.target, ast.Name))
        defaults = {
            part.target.id: self._evaluate(part.value, values)
            for part in entries
            if isinstance(part.target, ast.Name) and part.value is not None
        }
        return _RecordClass(names, defaults)

    def _make_instance(self, node: ast.Call, owner: _RecordClass, values: _Values) -> Any:
        arguments = self._refuse_parsers(node, values)
        is_open = any(isinstance(one, ast.Starred) for one in node.args)
        if is_open or any(keyword.arg is None for keyword in node.keywords):
            return _UNKNOWN
        given = dict(zip(owner.fields, arguments, strict=False))
        named = {str(k.arg): self._evaluate(k.value, values) for k in node.keywords}
        return _Instance(owner.defaults | given | named)

    # --- expressions ---

    def _evaluate(self, node: ast.expr, values: _Values) -> Any:
        self.steps += 1
        if self.steps > _LIMIT:
            raise _Unknowable
        match node:
            case ast.Constant(value=value):
                return value
            case ast.Name(id=name):
                if name in values:
                    return values[name]
                return self.globals.get(name, _BUILTIN.get(name, _UNKNOWN))
            case ast.List(elts=elements) | ast.Tuple(elts=elements) | ast.Set(elts=elements):
                return self._join(elements, values)
            case ast.Dict():
                return self._read_dict(node, values)
            case ast.JoinedStr(values=parts):
                texts = [self._evaluate(part, values) for part in parts]
                known = all(isinstance(text, str) for text in texts)
                return self._bound("".join(texts)) if known else _UNKNOWN
            case ast.FormattedValue(value=inner, conversion=-1, format_spec=None):
                value = self._evaluate(inner, values)
                return str(value) if isinstance(value, str | int | float) else _UNKNOWN
            case ast.Attribute():
                return self._get_attribute(node, values)
            case ast.Call():
                return self._call(node, values)
            case ast.BinOp():
                left = self._evaluate(node.left, values)
                return self._bound(_compute(left, node.op, self._evaluate(node.right, values)))
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                value = self._evaluate(operand, values)
                return -value if isinstance(value, int | float) else _UNKNOWN
            case ast.Compare(left=left, ops=[ast.Eq()], comparators=[right]):
                pair = (self._evaluate(left, values), self._evaluate(right, values))
                return pair[0] == pair[1] if all(isinstance(p, str) for p in pair) else _UNKNOWN
            case ast.NamedExpr(target=target, value=inner):
                value = self._evaluate(inner, values)
                self._assign(target, value, values)
                return value
            case ast.Subscript(value=inner, slice=index):
                return _look_up(self._evaluate(inner, values), self._evaluate(index, values))
            case ast.ListComp() | ast.GeneratorExp() | ast.SetComp():
                return self._comprehend(node, values)
            case ast.Starred(value=inner):
                return self._evaluate(inner, values)
            case ast.Lambda():
                return _UNKNOWN
            case _:
                for part in ast.iter_child_nodes(node):
                    if isinstance(part, ast.expr) and self._matters([part]):
                        self._evaluate(part, values)
                return _UNKNOWN

    def _join(self, elements: Sequence[ast.expr], values: _Values) -> Any:
        items: list[Any] = []
        for element in elements:
            value = self._evaluate(element, values)
            if isinstance(element, ast.Starred):
                if not isinstance(value, list | tuple | dict | str):
                    return _UNKNOWN
                items.extend(value)
            else:
                items.append(value)
        return self._bound(items)

    def _bound(self, value: Any) -> Any:
        """A value, unless it is so long that sources could have us fill the memory with it. What
        it takes to make it counts as steps."""
        if isinstance(value, str | list | tuple):
            self.steps += len(value) // 100
            if len(value) > _LONGEST:
                return _UNKNOWN
        return value

    def _read_dict(self, node: ast.Dict, values: _Values) -> Any:
        known: dict[Any, Any] = {}
        for key, expression in zip(node.keys, node.values, strict=True):
            value = self._evaluate(expression, values)
            if key is None:
                if not isinstance(value, dict):
                    return _UNKNOWN
                known |= value
                continue
            name = self._evaluate(key, values)
            if not isinstance(name, str | int | float | bool):
                return _UNKNOWN
            known[name] = value
        return known

    def _comprehend(
        self, node: ast.ListComp | ast.GeneratorExp | ast.SetComp, values: _Values
    ) -> Any:
        if len(node.generators) != 1 or node.generators[0].ifs:
            return _UNKNOWN
        items = self._evaluate(node.generators[0].iter, values)
        if not isinstance(items, list | tuple | dict | str | range):
            return _UNKNOWN
        inner = _Layer(values)
        made = []
        for item in items:
            self._assign(node.generators[0].target, item, inner)
            made.append(self._evaluate(node.elt, inner))
        return made

    def _get_attribute(self, node: ast.Attribute, values: _Values) -> Any:
        if isinstance(node.value, ast.Name) and f"{node.value.id}.{node.attr}" in values:
            return values[f"{node.value.id}.{node.attr}"]
        owner = self._evaluate(node.value, values)
        if isinstance(owner, _Marker):
            return _Marker(f"{owner.name}.{node.attr}")
        if isinstance(owner, _Building):
            if node.attr.startswith("_"):
                raise _Unknowable
            return _Method(owner, node.attr)
        if isinstance(owner, _Instance):
            return owner.values.get(node.attr, _UNKNOWN)
        return _UNKNOWN

    # --- calls ---

    def _call(self, node: ast.Call, values: _Values) -> Any:
        function = self._evaluate(node.func, values)
        if isinstance(function, _Method):
            return self._call_method(node, function, values)
        if isinstance(function, _Function):
            if function.node.name in self.telling:
                return self._call_function(node, function.node, values)
            self._refuse_parsers(node, values)
            return _UNKNOWN
        if _is_parser_class(function):
            return self._make_parser(self._read_keywords(node, values))
        if isinstance(function, _RecordClass):
            return self._make_instance(node, function, values)
        if isinstance(node.func, ast.Attribute):
            plain = self._call_plain_method(node, node.func, values)
            if plain is not None:
                return plain
        name = node.func.id if isinstance(node.func, ast.Name) else ""
        arguments = self._refuse_parsers(node, values)
        if name in _PLAIN_FUNCTIONS and function is _UNKNOWN and not node.keywords:
            if name in ("str", "sorted") and not all(map(_is_plain, _flatten(arguments))):
                return _UNKNOWN
            try:
                value = _PLAIN_FUNCTIONS[name](*arguments)
                if name == "range" and len(value) > _LONGEST:
                    return _UNKNOWN
                return self._bound(value if isinstance(value, str | int | dict) else list(value))
            except (TypeError, ValueError, OverflowError, _Unknowable):
                return _UNKNOWN
        return _UNKNOWN

    def _refuse_parsers(self, node: ast.Call, values: _Values) -> list[Any]:
        """The values of the arguments. A parser in strange hands may come back another one."""
        arguments = [self._evaluate(one, values) for one in node.args]
        named = [self._evaluate(one.value, values) for one in node.keywords]
        name = node.func.attr if isinstance(node.func, ast.Attribute) else ""
        name = node.func.id if isinstance(node.func, ast.Name) else name
        if name not in _HARMLESS_TAKERS:
            for value in (*arguments, *named):
                if isinstance(value, (*_Building, _Method)):
                    raise _Unknowable
                if isinstance(value, list) and any(isinstance(v, _Building) for v in value):
                    raise _Unknowable
                if isinstance(value, _Function) and value.node.name in self.telling:
                    # Whoever is handed a function runs it, as in `sys.exit(guard(main))`.
                    handed = ast.Call(ast.Name(value.node.name), [], [])
                    self._call_function(handed, value.node, values)
        return arguments

    def _call_plain_method(
        self, node: ast.Call, function: ast.Attribute, values: _Values
    ) -> Any | None:
        owner = self._evaluate(function.value, values)
        name = function.attr
        if isinstance(owner, list) and name in ("append", "extend", "insert", "remove"):
            self._spoil(function.value, values)
            return None
        if isinstance(owner, dict) and name in ("update", "pop", "setdefault"):
            self._spoil(function.value, values)
            return None
        if name not in _PLAIN_METHODS.get(type(owner), ()) or node.keywords:
            return None
        arguments = [self._evaluate(one, values) for one in node.args]
        if any(value is _UNKNOWN for value in arguments):
            return None
        if not _is_small_work(owner, name, arguments):
            return _UNKNOWN
        try:
            value = getattr(owner, name)(*arguments)
        except (TypeError, ValueError, LookupError, AttributeError):
            return None
        known = value if isinstance(value, str | int | list | tuple) else list(value or ())
        return self._bound(known)

    def _spoil(self, target: ast.expr, values: _Values) -> None:
        if isinstance(target, ast.Name):
            values[target.id] = _UNKNOWN

    def _call_function(
        self, node: ast.Call, function: ast.FunctionDef | ast.AsyncFunctionDef, values: _Values
    ) -> Any:
        if function in self.calls or len(self.calls) > 20:
            return _UNKNOWN
        local = _Layer(self.globals)
        names = [one.arg for one in (*function.args.posonlyargs, *function.args.args)]
        every = [*names, *(one.arg for one in function.args.kwonlyargs)]
        for name in every:
            local.own[name] = _UNKNOWN
        defaults = function.args.defaults
        for name, expression in zip(names[len(names) - len(defaults) :], defaults, strict=True):
            local.own[name] = self._evaluate(expression, self.globals)
        for one, default in zip(function.args.kwonlyargs, function.args.kw_defaults, strict=True):
            if default is not None:
                local.own[one.arg] = self._evaluate(default, self.globals)
        if any(isinstance(one, ast.Starred) for one in node.args):
            self._refuse_parsers(node, values)
            names = []
        for name, expression in zip(names, node.args, strict=False):
            local.own[name] = self._evaluate(expression, values)
        for keyword in node.keywords:
            value = self._evaluate(keyword.value, values)
            if keyword.arg in every:
                local.own[str(keyword.arg)] = value
        for extra in node.args[len(names) :]:
            self._evaluate(extra, values)
        self.calls.append(function)
        try:
            self._run(function.body, local)
        except _Returned as returned:
            return returned.value
        finally:
            self.calls.pop()
        return None

    def _call_method(self, node: ast.Call, method: _Method, values: _Values) -> Any:
        self.visited.add(node)
        owner = method.owner
        drafted = owner if isinstance(owner, _Drafted) else owner.parser
        if isinstance(owner, _Subcommands):
            if method.name != "add_parser":
                raise _Unknowable
            return self._add_command(node, owner, values)
        match method.name:
            case "add_argument":
                rivals = owner.rivals if isinstance(owner, _Group) else 0
                self._add_argument(node, drafted, rivals, values)
                return _UNKNOWN
            case "add_argument_group":
                return _Group(drafted, owner.rivals if isinstance(owner, _Group) else 0)
            case "add_mutually_exclusive_group":
                return _Group(drafted, next(self.numbers))
            case "add_subparsers":
                keywords = self._read_keywords(node, values)
                if "parser_class" in keywords or drafted.commands is not None:
                    raise _Unknowable
                drafted.commands = {}
                drafted.is_command_required = keywords.get("required") is True and not self.doubt
                return _Subcommands(drafted)
            case name if name in _PARSING and isinstance(owner, _Drafted):
                for one in (*node.args, *(keyword.value for keyword in node.keywords)):
                    self._evaluate(one, values)
                drafted.is_open = drafted.is_open or "known" in name
                if drafted not in self.parsed:
                    self.parsed.append(drafted)
                return [_UNKNOWN, _UNKNOWN] if "known" in name else _UNKNOWN
            case name if name in _HARMLESS_METHODS:
                return _UNKNOWN
            case _:
                raise _Unknowable

    def _read_keywords(self, node: ast.Call, values: _Values) -> dict[str, Any]:
        keywords: dict[str, Any] = {}
        for keyword in node.keywords:
            value = self._evaluate(keyword.value, values)
            if keyword.arg is not None:
                keywords[keyword.arg] = value
            elif isinstance(value, dict):
                keywords |= value
            else:
                raise _Unknowable
        return keywords

    def _make_parser(self, keywords: Mapping[str, Any]) -> _Drafted:
        if keywords.get("prefix_chars", "-") != "-":
            raise _Unknowable
        draft = _Drafted(
            takes_abbreviations=keywords.get("allow_abbrev", True) is True,
            takes_files=keywords.get("fromfile_prefix_chars") is not None,
        )
        if keywords.get("add_help", True) is True:
            draft.options.append(Option(("-h", "--help"), 0, 0, ends_run=True))
        elif keywords["add_help"] is not False:
            raise _Unknowable
        parents = keywords.get("parents", [])
        if not isinstance(parents, list):
            raise _Unknowable
        for parent in parents:
            if not isinstance(parent, _Drafted) or parent.commands is not None:
                raise _Unknowable
            draft.options.extend(parent.options)
            draft.positionals.extend(parent.positionals)
        return draft

    def _add_command(self, node: ast.Call, owner: _Subcommands, values: _Values) -> _Drafted:
        keywords = self._read_keywords(node, values)
        name = self._evaluate(node.args[0], values) if node.args else keywords.get("name")
        aliases = keywords.get("aliases", [])
        known = isinstance(name, str) and isinstance(aliases, list)
        if not known or not all(isinstance(alias, str) for alias in aliases):
            raise _Unknowable
        draft = self._make_parser(keywords)
        assert owner.parser.commands is not None
        for one in (name, *aliases):
            owner.parser.commands[one] = draft
        return draft

    def _add_argument(
        self, node: ast.Call, drafted: _Drafted, rivals: int, values: _Values
    ) -> None:
        names = self._join(node.args, values)
        if not isinstance(names, list) or not names:
            raise _Unknowable
        if not all(isinstance(name, str) for name in names):
            raise _Unknowable
        keywords: dict[str, Any] = {
            keyword.arg: self._evaluate(keyword.value, values)
            for keyword in node.keywords
            if keyword.arg is not None
        }
        is_certain = True
        for keyword in node.keywords:
            if keyword.arg is None:
                more = self._evaluate(keyword.value, values)
                is_certain = is_certain and isinstance(more, dict)
                keywords |= more if isinstance(more, dict) else {}
        option = _make_option(tuple(names), keywords, rivals, is_certain=is_certain)
        if self.doubt and option.is_positional:
            drafted.is_open = True
            return
        if self.doubt:
            option = _loosen(option)
        target = drafted.positionals if option.is_positional else drafted.options
        target.append(option)


def _list_nodes(module: ast.Module) -> tuple[list[ast.AST], dict[ast.AST, ast.AST]]:
    """All nodes, those inside of others behind them, and in which each stands."""
    nodes: list[ast.AST] = [module]
    parents: dict[ast.AST, ast.AST] = {}
    for node in nodes:
        for child in ast.iter_child_nodes(node):
            nodes.append(child)
            parents[child] = node
    return nodes, parents


class _Layer(dict[str, Any]):
    """Names of a function or a branch above those around it, which it leaves as they are."""

    def __init__(self, outer: _Values) -> None:
        super().__init__()
        self.outer = outer
        self.own: _Values = {}

    def __contains__(self, name: object) -> bool:
        return name in self.own or name in self.outer

    def __getitem__(self, name: str) -> Any:
        return self.own[name] if name in self.own else self.outer[name]

    def get(self, name: str, default: Any = None) -> Any:
        return self.own[name] if name in self.own else self.outer.get(name, default)

    def __setitem__(self, name: str, value: Any) -> None:
        self.own[name] = value


_BUILTIN: Mapping[str, Any] = {
    "int": _Marker("int"), "float": _Marker("float"), "str": _Marker("str"),
}  # fmt: skip


def _is_record(
    statement: ast.ClassDef,
    bases: Sequence[Any],
    values: _Values,
    evaluate: Callable[[ast.expr, _Values], Any],
) -> bool:
    """Whether a class is a plain NamedTuple or frozen dataclass, whose fields are its own."""
    methods = {part.name for part in statement.body if isinstance(part, ast.FunctionDef)}
    if methods & _OWN_MAKING or not all(map(_is_plain_field, statement.body)):
        return False
    if not statement.decorator_list:
        return [_name_marker(base) for base in bases] == ["typing.NamedTuple"]
    decorator = statement.decorator_list[0]
    if bases or len(statement.decorator_list) > 1 or not isinstance(decorator, ast.Call):
        return False
    settings = {keyword.arg: keyword.value for keyword in decorator.keywords}
    frozen = settings.get("frozen")
    return (
        _name_marker(evaluate(decorator.func, values)) == "dataclasses.dataclass"
        and settings.keys() <= {"frozen", "slots", "eq", "order", "repr"}
        and isinstance(frozen, ast.Constant)
        and frozen.value is True
    )


def _is_plain_field(part: ast.stmt) -> bool:
    """Whether a line of a class is no field, or one that is given when an object is made."""
    if not isinstance(part, ast.AnnAssign):
        return True
    is_special = re.search(r"ClassVar|InitVar|KW_ONLY", ast.unparse(part.annotation))
    return not is_special and not isinstance(part.value, ast.Call)


def _name_marker(value: Any) -> str:
    return value.name if isinstance(value, _Marker) else ""


def _is_parser_class(value: Any) -> bool:
    return isinstance(value, _Marker) and value.name == "argparse.ArgumentParser"


def _merge(old: Any, new: Any) -> Any:
    if isinstance(old, _Building) or isinstance(new, _Building):
        raise _Unknowable
    plain = isinstance(old, str | int | None) and isinstance(new, str | int | None)
    return old if plain and old == new else _UNKNOWN


def _as_load(target: ast.expr) -> ast.expr:
    return ast.Name(target.id) if isinstance(target, ast.Name) else ast.Constant(...)


def _is_plain(value: Any) -> bool:
    return value is None or isinstance(value, str | int | float)


def _flatten(arguments: Sequence[Any]) -> Iterable[Any]:
    """The arguments, those of lists one by one."""
    for argument in arguments:
        if isinstance(argument, list | tuple | dict):
            yield from argument
        else:
            yield argument


def _is_small_work(owner: Any, name: str, arguments: Sequence[Any]) -> bool:
    """Whether a method of a plain value ends soon: lists of lists may hold each other so that to
    compare them takes for ever, and a text may be put into itself."""
    if not isinstance(owner, str):
        return all(map(_is_plain, arguments))
    if name == "join":
        texts = arguments[0] if arguments and isinstance(arguments[0], list | tuple) else ()
        length = sum(len(text) for text in texts if isinstance(text, str))
        return length + len(owner) * len(texts) <= _LONGEST
    if name == "replace":
        added = len(arguments[1]) if len(arguments) > 1 and isinstance(arguments[1], str) else 0
        return (len(owner) + 1) * (added + 1) <= 100 * _LONGEST
    return True


def _compute(left: Any, operator: ast.operator, right: Any) -> Any:
    if isinstance(operator, ast.Add):
        if isinstance(left, tuple | list) and isinstance(right, tuple | list):
            return [*left, *right]
        if isinstance(left, str) and isinstance(right, str):
            return left + right
    if isinstance(operator, ast.BitOr) and isinstance(left, dict) and isinstance(right, dict):
        return left | right
    return _UNKNOWN


def _look_up(owner: Any, index: Any) -> Any:
    if isinstance(owner, dict) and isinstance(index, str | int):
        return owner.get(index, _UNKNOWN)
    if isinstance(owner, list | tuple) and isinstance(index, int):
        return owner[index] if -len(owner) <= index < len(owner) else _UNKNOWN
    return _UNKNOWN


_ACTIONS_WITHOUT_VALUE = frozenset(
    ("store_true", "store_false", "store_const", "append_const", "count", "help", "version")
)
_KINDS: Mapping[str, Kind] = {"int": "int", "float": "float", "str": "text"}


def _make_option(
    names: tuple[str, ...], keywords: Mapping[str, Any], rivals: int, *, is_certain: bool
) -> Option:
    """What an `add_argument` adds. Without certainty nothing is said of its values."""
    action = keywords.get("action", "store")
    is_flag = names[0].startswith("-")
    if isinstance(action, _Marker) and action.name == "argparse.BooleanOptionalAction":
        negative = tuple(f"--no-{name[2:]}" for name in names if name.startswith("--"))
        return Option((*names, *negative), 0, 0, rivals=rivals)
    least, most, is_counted, takes_rest = _read_number(keywords.get("nargs"))
    if not isinstance(action, str):
        is_certain = False
    elif action in _ACTIONS_WITHOUT_VALUE:
        least, most = 0, 0
    elif action not in ("store", "append", "extend"):
        is_certain = False
    choices = keywords.get("choices")
    choices = list(choices) if isinstance(choices, dict | range) else choices
    is_listed = isinstance(choices, list | tuple) and all(
        isinstance(choice, str | int | float) for choice in choices
    )
    kind = _read_kind(keywords.get("type"))
    required = keywords.get("required") is True if is_flag else least > 0
    return Option(
        names,
        least,
        most,
        is_counted and is_certain,
        kind if is_certain else "other",
        tuple(choices or ()) if is_listed and kind != "other" and is_certain else None,
        required and is_certain,
        action in ("help", "version"),
        takes_rest,
        rivals,
        isinstance(hidden := keywords.get("help"), _Marker) and hidden.name.endswith("SUPPRESS"),
    )


def _read_kind(value: Any) -> Kind:
    if value is None:
        return "text"
    return _KINDS.get(value.name, "other") if isinstance(value, _Marker) else "other"


def _read_number(nargs: Any) -> tuple[int, int | None, bool, bool]:
    """Least, most, whether they are known, and whether all the rest is taken."""
    if isinstance(nargs, _Marker):
        nargs = {"REMAINDER": "...", "OPTIONAL": "?", "ZERO_OR_MORE": "*", "ONE_OR_MORE": "+"}.get(
            nargs.name.rpartition(".")[2], _UNKNOWN
        )
    match nargs:
        case None:
            return 1, 1, True, False
        case int():
            return nargs, nargs, True, False
        case "?":
            return 0, 1, True, False
        case "*":
            return 0, None, True, False
        case "+":
            return 1, None, True, False
        case "...":
            return 0, None, True, True
        case _:
            return 0, None, False, False


def _loosen(option: Option) -> Option:
    """An option that is perhaps not there, so that nobody can be asked for it."""
    return Option(
        option.names,
        option.least,
        option.most,
        option.is_counted,
        option.kind,
        option.choices,
        ends_run=option.ends_run,
        takes_rest=option.takes_rest,
        is_hidden=option.is_hidden,
    )


def _list_names(parser: Parser) -> list[str]:
    names = [name for option in parser.options for name in option.names]
    return [*names, *(option.names[0] for option in parser.positionals), *(parser.commands or ())]
