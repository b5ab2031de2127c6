import argparse
import json

parser = argparse.ArgumentParser()
for name in json.load(open("options.json")):
    parser.add_argument(f"--{name}")
arguments = parser.parse_args()
