#!/usr/bin/env python3
# /// script
# requires-python = ">=3.11"
# dependencies = []
# ///
"""Which few records of this dataset are enough to debug with, and how do I edit them by hand?

- `cut`: the first N records of the shuffled source, the same for the same seed
- `unpack`: a folder per record, with its texts as .txt, its images as image files, and the rest in
  record.json
- `pack`: the folders as a dataset again. Delete or copy folders to remove or add records.
- `synthesize`: N records of `--kind` text, image-text or interleaved (lists of images and texts),
  all different, or with `--repeat` all the same: the loss should fall towards zero on these

Sources are folders by save_to_disk and files: .parquet, .jsonl, .json, .csv, .txt. `--hub` takes
the name of a dataset on the Hub. Results are folders for load_from_disk. Each .txt ends with one
newline more than its text, which pack removes, because editors add one.

## How to run

    python make_tiny_dataset.py cut --source train.parquet --out tiny
    python make_tiny_dataset.py unpack --source tiny --out folders
    vi folders/00003/text.txt
    python make_tiny_dataset.py pack --source folders --out edited
    python make_tiny_dataset.py synthesize --kind interleaved --out made_up

It needs datasets (not for --demo). --demo unpacks synthetic records, edits one, packs them, and
prints `as expected` where nothing else has changed. Exit status: 0 done, 1 something else has
changed, 2 usage error.
"""

import argparse
import random
import struct
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from kit.cli import Parser, UsageError, positive_int, start
from kit.ranks import first_line
from kit.report import Report, Row, format_table, read_json, write_json

__version__ = "0.2.0"

PROFILES = {"demo": ["--records", "6"], "full": ["--demo", "--records", "100"]}
READERS = {".parquet": "parquet", ".jsonl": "json", ".json": "json", ".csv": "csv", ".txt": "text"}
FEATURES_NAME, RECORD_NAME = "features.json", "record.json"
IMAGE_ENDINGS = {
    b"\x89PNG": ".png", b"\xff\xd8\xff": ".jpg", b"GIF8": ".gif", b"RIFF": ".webp", b"BM": ".bmp",
    b"II*\0": ".tif", b"MM\0*": ".tif",
}  # fmt: skip
"""The ending of an image file by its first bytes."""
ID, TEXT = ({"dtype": dtype, "_type": "Value"} for dtype in ("int64", "string"))
IMAGE = {"_type": "Image"}
IMAGES, TEXTS = ({"feature": kind, "_type": "List"} for kind in (IMAGE, TEXT))
FEATURES: dict[str, dict[str, Any]] = {
    "text": {"id": ID, "text": TEXT},
    "image-text": {"id": ID, "image": IMAGE, "text": TEXT},
    "interleaved": {"id": ID, "images": IMAGES, "texts": TEXTS},
}


def make_image(draw: random.Random) -> bytes:
    """A small image of random colors, as a BMP file of 24 bits."""
    side, size = 8, 3 * 8 * 8
    file = struct.pack("<2sIHHI", b"BM", 54 + size, 0, 0, 54)
    form = struct.pack("<IiiHHIIiiII", 40, side, side, 1, 24, 0, size, 0, 0, 0, 0)
    return file + form + draw.randbytes(size)


def make_records(kind: str, count: int, seed: int, is_repeated: bool) -> list[Row]:
    """Synthetic records, all different or all the same; the same for the same seed."""
    records = []
    for index in range(count):
        number = 0 if is_repeated else index
        draw = random.Random(f"{seed} {number}")
        image, other = ({"bytes": make_image(draw), "path": None} for _ in range(2))
        text = f"record {number}: {draw.choice('red green blue grey'.split())} {draw.random()}"
        images, texts = [image, None, other], [None, text, None]
        values = {"id": number, "image": image, "text": text, "images": images, "texts": texts}
        records.append({column: values[column] for column in FEATURES[kind]})
    return records


def unpack_records(folder: Path, records: Iterable[Row], features: Mapping[str, Any]) -> None:
    """Write a folder per record, and the features."""
    for index, record in enumerate(records):
        home = folder / f"{index:05d}"
        home.mkdir()
        try:
            entries = {c: unpack_value(home, quote(c, safe=" "), v) for c, v in record.items()}
            write_json(home / RECORD_NAME, entries)
        except TypeError as error:
            raise UsageError(f"cannot unpack a column: {error}; drop it first") from error
    write_json(folder / FEATURES_NAME, features)


def unpack_value(home: Path, name: str, value: Any) -> Any:
    """Write a text, an image or each image of a list to its own file; the entry of record.json."""
    if isinstance(value, list) and any(isinstance(part, dict) for part in value):
        return [unpack_value(home, f"{name}+{i:04d}", part) for i, part in enumerate(value)]
    if isinstance(value, dict) and value.keys() == {"bytes", "path"}:
        data = value["bytes"]
        endings = (ending for head, ending in IMAGE_ENDINGS.items() if data.startswith(head))
        file = f"{name}{next(endings, '.bin')}"
        (home / file).write_bytes(data)
        return {"saved_as": file, "path": value["path"]}
    if isinstance(value, str):
        (home / f"{name}.txt").write_bytes(f"{value}\n".encode())
        return {"saved_as": f"{name}.txt"}
    return value


def pack_records(folder: Path) -> tuple[list[Row], dict[str, Any]]:
    """The records in the folders, and the features. Raises UsageError that names the file."""
    features = read_json("--source", folder / FEATURES_NAME)
    records = []
    for path in sorted(folder.glob(f"[!.]*/{RECORD_NAME}")):
        entries = read_json("--source", path)
        if entries.keys() != features.keys():
            raise UsageError(f"{path} does not have the columns of {FEATURES_NAME}")
        records.append({c: pack_value(path.parent, entry) for c, entry in entries.items()})
    if not records:
        raise UsageError(f"--source: {folder} has no folder with a {RECORD_NAME}")
    return records, features


def pack_value(home: Path, entry: Any) -> Any:
    """A value from its entry in record.json and the file next to it. Raises UsageError."""
    if isinstance(entry, list):
        return [pack_value(home, part) for part in entry]
    is_image = isinstance(entry, dict) and entry.keys() == {"saved_as", "path"}
    if not is_image and not (isinstance(entry, dict) and entry.keys() == {"saved_as"}):
        return entry
    path = home / Path(entry["saved_as"]).name
    try:
        data = path.read_bytes()
        if not is_image:
            return data.decode("utf-8").removesuffix("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"cannot read {path}: {error}") from error
    if not data.startswith(tuple(IMAGE_ENDINGS)):
        raise UsageError(f"{path} is not an image")
    return {"bytes": data, "path": entry["path"]}


def import_datasets() -> Any:
    """The package, without progress bars. Raises UsageError."""
    try:
        import datasets
    except ImportError as error:
        raise UsageError(f"this needs datasets: pip install datasets ({error})") from error
    datasets.disable_progress_bars()
    datasets.disable_caching()  # a cache would be written next to the source
    return datasets


def load_source(options: argparse.Namespace, cache: str) -> Any:
    """The dataset that --source names. Raises UsageError."""
    datasets = import_datasets()
    source, path = options.source, Path(options.source)
    if not options.hub and not path.is_dir() and path.suffix not in READERS:
        raise UsageError(f"--source: {source} is neither a folder nor {', '.join(READERS)}")
    try:
        if options.hub:
            return datasets.load_dataset(source, split=options.split)
        if not path.is_dir():
            files = {"data_files": source, "split": "train", "cache_dir": cache}
            return datasets.load_dataset(READERS[path.suffix], **files)
        loaded = datasets.load_from_disk(source)
    except Exception as error:  # whatever the library that reads the file raises
        cause = first_line(error.__cause__ or error)
        raise UsageError(f"--source: cannot read {source}: {cause}") from error
    if isinstance(loaded, dict):
        raise UsageError(f"--source: name a folder in {source}: {', '.join(loaded)}")
    return loaded


def list_records(dataset: Any) -> list[Row]:
    """All records, with the bytes of their images, also of images in other files."""
    from datasets.table import embed_table_storage

    return list(embed_table_storage(dataset.with_format("arrow")[:]).to_pylist())


def save_dataset(folder: Path, records: Sequence[Row], features: Mapping[str, Any]) -> None:
    """Save records as a dataset. Raises UsageError where they do not fit the features."""
    datasets = import_datasets()
    columns = {column: [record[column] for record in records] for column in features}
    try:
        made = datasets.Dataset.from_dict(columns, datasets.Features.from_dict(features))
    except Exception as error:  # those of pyarrow too
        cause = first_line(error)
        raise UsageError(f"the records do not fit {FEATURES_NAME}: {cause}") from error
    made.save_to_disk(str(folder))


def run_action(kind: str, options: argparse.Namespace) -> Row:
    """Do what the command line asks for in a new folder; its row. `kind` is for synthesize."""
    place = options.out.absolute().parent
    with tempfile.TemporaryDirectory(dir=place, prefix=".partial-") as partial:
        if options.action == "pack":
            records, features = pack_records(Path(options.source))
        elif options.action == "synthesize":
            features = FEATURES[kind]
            records = make_records(kind, options.records, options.seed, options.repeat)
        else:
            dataset = load_source(options, f"{partial}/cache")
            if options.action == "cut":
                count = min(options.records, len(dataset))
                # In memory: nothing is written to the folder of the source.
                order = dataset.shuffle(seed=options.seed, keep_in_memory=True)
                dataset = order.select(range(count), keep_in_memory=True)
            records, features = list_records(dataset), dataset.features.to_dict()
        folder = Path(partial, "made")
        folder.mkdir()
        write = unpack_records if options.action == "unpack" else save_dataset
        write(folder, records, features)
        folder.rename(options.out)
    kind = kind if options.action == "synthesize" else "of the source"
    return {"kind": kind, "step": options.action, "records": len(records), "verdict": "done"}


def run_demo(kind: str, options: argparse.Namespace) -> Row:
    """Unpack synthetic records, edit the first, pack them, and compare; a row."""
    records, features = make_records(kind, options.records, options.seed, False), FEATURES[kind]
    with tempfile.TemporaryDirectory() as folder:
        unpack_records(Path(folder), records, features)
        path = Path(folder, "00000", RECORD_NAME)
        write_json(path, {**read_json("--source", path), "id": -1})
        packed = pack_records(Path(folder))
    records[0]["id"] = -1
    verdict = "as expected" if packed == (records, features) else "something else has changed"
    return {"kind": kind, "step": "unpack, edit, pack", "records": len(records), "verdict": verdict}


def build_parser() -> Parser:
    parser = Parser(__doc__, tool="make_tiny_dataset", version=__version__, demo=PROFILES["demo"])
    add = parser.add_argument
    # fmt: off
    add("action", nargs="?", choices=("cut", "unpack", "pack", "synthesize"), help="what to do")
    add("--source", metavar="PATH", help="folder or file; with --hub a name")
    add("--out", type=Path, metavar="FOLDER", help="new folder for the result")
    add("--records", type=positive_int, default=10, help="how many to cut or make (default: 10)")
    add("--seed", type=int, default=42, help="for cut and synthesize (default: 42)")
    add("--split", default="train", metavar="NAME", help="split, with --hub (default: train)")
    add("--hub", action="store_true", help="cut: --source is the name of a dataset on the Hub")
    add("--kind", choices=tuple(FEATURES), default="image-text",
        help="kind of synthetic records (default: image-text)")
    add("--repeat", action="store_true", help="synthesize: one record, many times")
    # fmt: on
    return parser


def main(arguments: list[str] | None = None) -> int:
    options = build_parser().parse_args(arguments)
    needs_source = options.action in ("cut", "unpack", "pack")
    if not options.demo and (not options.action or needs_source != bool(options.source)):
        raise UsageError("name cut, unpack or pack and a --source, or synthesize, or use --demo")
    if not options.demo and (not options.out or options.out.exists()):
        raise UsageError("--out: name a new folder")
    report = Report("make_tiny_dataset", __version__, 1, options.json)
    run, kinds = (run_demo, [*FEATURES]) if options.demo else (run_action, [options.kind])
    report.rows = [run(kind, options) for kind in kinds]
    report.complete = True
    print(format_table(list(report.rows[0]), [list(row.values()) for row in report.rows]))
    report.save()
    return int(any(row["verdict"] not in ("done", "as expected") for row in report.rows))


if __name__ == "__main__":
    start(main)
