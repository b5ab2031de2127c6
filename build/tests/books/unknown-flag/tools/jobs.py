import argparse

parser = argparse.ArgumentParser()
commands = parser.add_subparsers(dest="command", required=True)
listing = commands.add_parser("list", aliases=["ls"])
listing.add_argument("--all", action="store_true")
cancel = commands.add_parser("cancel")
cancel.add_argument("job", type=int)
arguments = parser.parse_args()
