"""Command lines: a parser whose --help is the tool's docstring, and types for sizes and times."""

import argparse
import math
import re
import signal
import sys
from collections.abc import Callable, Sequence
from typing import Any, NoReturn


class UsageError(Exception):
    """The command line asks for something this tool or this machine cannot do; exit status 2."""


class Parser(argparse.ArgumentParser):
    """The parser of a tool. Its help is the tool's docstring and its options.

    Adds --version, --json PATH (unless `json` is False) and --demo. `demo` is the list of
    arguments that --demo stands for; options given beside --demo override them. An option may be
    typed with underscores too (`--num_iterations` for `--num-iterations`).
    """

    def __init__(
        self,
        doc: str | None = None,
        tool: str = "",
        version: str = "",
        method: int | None = None,
        demo: Sequence[str] | None = None,
        *,
        json: bool = True,
        **options: Any,
    ) -> None:
        if tool:
            options["prog"] = f"{tool}.py"
        options.setdefault("formatter_class", argparse.RawDescriptionHelpFormatter)
        super().__init__(description=doc, allow_abbrev=False, **options)
        self.demo = demo
        self.takes_underscores = True
        if version:
            text = f"{tool} {version}" + (f" (method {method})" if method else "")
            self.add_argument("--version", action="version", version=text)
        if version and json:
            self.add_argument("--json", metavar="PATH", help="write the results as JSON")
        if demo is not None:
            text = "run at toy size on a CPU and check the answers"
            self.add_argument("--demo", action="store_true", help=text)

    def parse_known_args(  # type: ignore[override]
        self, args: Sequence[str] | None = None, namespace: Any = None
    ) -> tuple[Any, list[str]]:
        """Parse, with hyphens for underscores in the names of known options."""
        given = list(sys.argv[1:] if args is None else args)
        end = given.index("--") if "--" in given else len(given)
        given[:end] = map(self._hyphenate, given[:end])
        if self.demo and "--demo" in given[:end]:  # in front: a subcommand does not know it
            rest = [one for one in given[:end] if one != "--demo"]
            given = ["--demo", *self.demo, *rest, *given[end:]]
        return super().parse_known_args(given, namespace)

    def split_command(self, args: Sequence[str] | None = None) -> tuple[list[str], list[str]]:
        """The arguments of this tool, and the command that follows them: what comes after `--`, or
        from the first word on that is neither an option nor its value."""
        given = list(sys.argv[1:] if args is None else args)
        end = 0
        while end < len(given) and given[end].startswith("-") and given[end] != "--":
            name, equals, _ = self._hyphenate(given[end]).partition("=")
            action = self._option_string_actions.get(name)
            end += 2 if action is not None and action.nargs != 0 and not equals else 1
        return given[:end], given[end + 1 :] if given[end : end + 1] == ["--"] else given[end:]

    def _hyphenate(self, argument: str) -> str:
        name, equals, value = argument.partition("=")
        option = name.replace("_", "-")
        if name.startswith("--") and option in self._option_string_actions:
            return option + equals + value
        return argument


def start(main: Callable[[], int | None]) -> NoReturn:
    """Run main() and exit: its status, 2 on UsageError or where a file of the command line cannot
    be used, 130 on Ctrl-C; a closed pipe ends it as any other program."""
    try:
        status = main() or 0
        sys.stdout.flush()
    except UsageError as error:
        print(f"{sys.argv[0].rpartition('/')[2]}: error: {error}", file=sys.stderr)
        status = 2
    except KeyboardInterrupt:
        status = 130
    except BrokenPipeError:  # the end of a program that leaves SIGPIPE alone
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)
        signal.raise_signal(signal.SIGPIPE)
        raise
    except OSError as error:
        if error.filename is None or not any(str(error.filename) in word for word in sys.argv):
            raise
        print(f"{sys.argv[0].rpartition('/')[2]}: error: {error}", file=sys.stderr)
        status = 2
    sys.exit(status)


def positive_int(text: str) -> int:
    """An integer of at least 1."""
    if not re.fullmatch(r"[1-9]\d*", text):
        raise argparse.ArgumentTypeError(f"'{text}' is not an integer of at least 1")
    return int(text)


def natural_int(text: str) -> int:
    """An integer of at least 0."""
    if not re.fullmatch(r"\d+", text):
        raise argparse.ArgumentTypeError(f"'{text}' is not an integer of at least 0")
    return int(text)


def positive_float(text: str) -> float:
    """A finite number above 0."""
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < math.inf:
        raise argparse.ArgumentTypeError(f"'{text}' is not a number above 0")
    return value


def size(text: str) -> int:
    """Bytes from `32KiB`, `4GB` (decimal), `16G` and `16g` (binary, as in nccl-tests and fio)."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([kKmMgGtTpP]?)(i?)(B?)", text.strip())
    if found is None or (found[3] and not found[2]):
        raise argparse.ArgumentTypeError(f"'{text}' is not a size: write 32KiB, 4MB or 16GiB")
    base = 1000 if found[4] and not found[3] else 1024
    value = float(found[1]) * base ** " KMGTP".index(found[2].upper() or " ")
    if value < 1 or value != int(value):
        raise argparse.ArgumentTypeError(f"'{text}' is not a whole number of bytes")
    return int(value)


def large_number(text: str) -> float:
    """A number with a suffix: `70B`, `1.5T`, `300M` (powers of 1000), `128Ki` (of 1024), `8192`."""
    found = re.fullmatch(r"(\d*\.?\d+(?:[eE][+-]?\d+)?)(?:([kKMBGTPE])|([KMGTPE])i)?", text.strip())
    if found is None:
        raise argparse.ArgumentTypeError(f"'{text}' is not a number: write 70B, 1.5T or 8192")
    if found[3]:
        return float(found[1]) * 1024.0 ** " KMGTPE".index(found[3])
    exponent = {"": 0, "k": 3, "K": 3, "M": 6, "B": 9, "G": 9, "T": 12, "P": 15, "E": 18}
    return float(found[1]) * 10.0 ** exponent[found[2] or ""]


def duration(text: str) -> float:
    """Seconds from `90`, `45s`, `100ms`, `10m`, `1h30m` or `2d`."""
    pattern = r"(?:(\d+)d)?(?:(\d+)h)?(?:(\d+)m)?(?:(\d+(?:\.\d+)?)s?)?|(\d+)ms"
    found = re.fullmatch(pattern, text.strip())
    parts = [float(part or 0) for part in found.groups()] if found else [0.0] * 5
    seconds = 86400 * parts[0] + 3600 * parts[1] + 60 * parts[2] + parts[3] + parts[4] / 1000
    if seconds <= 0:
        raise argparse.ArgumentTypeError(f"'{text}' is not a duration: write 90s, 10m or 1h30m")
    return seconds


def regex_pattern(text: str) -> re.Pattern[str]:
    """A regular expression."""
    try:
        return re.compile(text)
    except re.error as error:
        message = f"'{text}' is not a regular expression: {error}"
        raise argparse.ArgumentTypeError(message) from error
