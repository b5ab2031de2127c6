import argparse
import json
from pathlib import Path

parser = argparse.ArgumentParser()
for name in json.loads(Path("options.json").read_text()):
    parser.add_argument(f"--{name}")
arguments = parser.parse_args()
