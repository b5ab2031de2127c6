"""A tool of the book."""

import argparse
import sys

DTYPES = {"bfloat16": 2, "float32": 4}


def add_sizes(group):
    for name in ("m", "n"):
        group.add_argument(f"--{name}", type=int, nargs="+")


def build_parser():
    parser = argparse.ArgumentParser(allow_abbrev=False)
    parser.add_argument("device")
    parser.add_argument("--dtype", choices=DTYPES, default="bfloat16")
    parser.add_argument("--num_iterations", type=int)
    parser.add_argument("--json", required=True, metavar="PATH")
    stop = parser.add_mutually_exclusive_group()
    stop.add_argument("--budget", type=float)
    stop.add_argument("--forever", action="store_true")
    add_sizes(parser.add_argument_group("sizes"))
    return parser


if __name__ == "__main__":
    print(build_parser().parse_args())
    sys.exit(0)
