#!/usr/bin/env python3
# /// script
# requires-python = ">=3.11"
# dependencies = []
# ///
r"""Which few records of this dataset are enough to debug with, and how do I change them by hand?

Cuts a dataset down to a few records, unpacks records to folders where an editor can change them,
packs them again, and makes up records where there is no dataset yet.

    cut         the first N records of the shuffled source: the same ones for the same seed
    unpack      a folder for each record, with its texts as .txt, its images as files of the format
                they have, and all else in record.json; features.json says what is what
    pack        the folders, as they are now, as a dataset: what was not edited is as before, a
                folder that was removed is gone, and one that was copied is a new record; which
                ones these are is said, after the checksums that unpack leaves in unpacked.json
    synthesize  N records of --kind text, image-text or interleaved (lists of images and texts, with
                nothing where the other one is), all different, or with --repeat all the same

Physics
    Hand check: 10 million records of 100 kB are 1 TB, 2.8 hours to copy at 100 MB/s; 10 are 1 MB.
    Repeated records show whether a loss falls towards zero, which it has to where all are the
    same; unique ones, whether records get mixed up.

Sources of cut: a folder by save_to_disk, or a file: .parquet, .jsonl, .json, .csv, .txt. With --hub
the name of a dataset on the Hub; nothing else ever asks there. Loading scripts (.py) are refused:
datasets has dropped them, and they would run as programs.

Texts
    Each .txt has one newline more at its end than its text, and packing takes one away: editors
    that add one where there is none then find nothing to add. Without it the text is the same.

What is timed
    For each step its own work, but for the import of datasets.

How to run
    all of it       python make_tiny_dataset.py
    ten records     python make_tiny_dataset.py cut --source train.parquet --out tiny
    of the Hub      python make_tiny_dataset.py cut --hub --source owner/name --out tiny
    by hand         python make_tiny_dataset.py unpack --source tiny --out folders
                    vi folders/00003/text.txt
                    python make_tiny_dataset.py pack --source folders --out edited
    made up         python make_tiny_dataset.py synthesize --kind interleaved --out tiny
    Slurm           srun --ntasks 1 python make_tiny_dataset.py cut --source /data/set --out tiny
    pdsh            pdsh -w node01 python /shared/make_tiny_dataset.py synthesize --out /local/tiny

It needs datasets, but for unpacking and packing as the demonstration does it; and pillow for what
shows images. The results are folders for datasets.load_from_disk.

A good answer: `as it should be` for each kind: all that was not edited is as before, and nothing
else has changed.

Seen running so far: datasets 5.2 on local files. The Hub has not been asked.

Exit status: 0 done, 1 a record is not as it should be, or stopped by a signal, 2 wrong use.
"""

from __future__ import annotations

import sys

if __name__ == "__main__":  # Ctrl-C ends in silence, also while the rest is imported
    sys.excepthook = lambda *e: None if e[0] is KeyboardInterrupt else sys.__excepthook__(*e)

import argparse
import contextlib
import datetime
import errno
import hashlib
import importlib
import importlib.util
import json
import os
import platform
import random
import re
import shutil
import signal
import struct
import tempfile
import time
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

__version__ = "0.1.0"
METHOD = 1

# Plain literals: a runner reads them without importing this file.
PROFILES = {"toy": ["--records", "6"], "full": ["--records", "100"]}

# The unit of each column of the JSON's results that holds numbers.
UNITS = {
    "records": "1",
    "records_as_before": "1",
    "records_edited": "1",
    "bytes": "B",
    "seconds": "s",
}

ACTIONS = ("demonstrate", "cut", "unpack", "pack", "synthesize")
KINDS = ("text", "image-text", "interleaved")
READERS = {".parquet": "parquet", ".jsonl": "json", ".json": "json", ".csv": "csv", ".txt": "text"}
FEATURES_NAME = "features.json"
RECORD_NAME = "record.json"
SUMS_NAME = "unpacked.json"
IMAGE_SIDE = 8
# So many folders have names of five digits.
MOST_RECORDS = 99_999
# By their first bytes.
IMAGE_ENDINGS = {
    b"\x89PNG": ".png",
    b"\xff\xd8\xff": ".jpg",
    b"GIF8": ".gif",
    b"RIFF": ".webp",
    b"BM": ".bmp",
    b"II*\0": ".tif",
    b"MM\0*": ".tif",
}
IMAGE = {"_type": "Image"}
TEXT = {"dtype": "string", "_type": "Value"}
ID = {"dtype": "int64", "_type": "Value"}
FEATURES: dict[str, dict[str, Any]] = {
    "text": {"id": ID, "text": TEXT},
    "image-text": {"id": ID, "image": IMAGE, "text": TEXT},
    "interleaved": {
        "id": ID,
        "images": {"feature": IMAGE, "_type": "List"},
        "texts": {"feature": TEXT, "_type": "List"},
    },
}

Row = dict[str, Any]
Record = dict[str, Any]


class WrongUse(Exception):
    """The command line asks for what this tool or this device cannot do; exit status 2."""


class Stopped(Exception):
    """The run ends here, by a signal or by the budget; what was measured is kept."""


class StopSign:
    """Why the run has to end, if it has to: a signal, the budget, or the parent process."""

    def __init__(self) -> None:
        self.reason: str | None = None
        self.by_signal = False
        self.deadline: float | None = None

    def listen(self) -> None:
        """End the run on Ctrl-C, on SIGTERM, and on Slurm's early warning."""
        for name in ("SIGINT", "SIGTERM", "SIGUSR1"):
            if hasattr(signal, name):
                signal.signal(getattr(signal, name), self._receive)

    def _receive(self, number: int, _frame: Any) -> None:
        self.reason = f"stopped by {signal.Signals(number).name}"
        self.by_signal = True
        # A second signal of the same kind ends a run that hangs.
        signal.signal(number, signal.SIG_DFL)

    def check(self) -> None:
        """Raise Stopped where there is a reason to end."""
        if self.reason is None and self.deadline is not None and time.monotonic() > self.deadline:
            self.reason = "the budget is used up"
        if self.reason is not None:
            raise Stopped(self.reason)


# --- records that are made up ---


def make_png(draw: random.Random) -> bytes:
    """A small picture of random colours, as a PNG file."""

    def chunk(name: bytes, data: bytes) -> bytes:
        check = zlib.crc32(name + data)
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", check)

    # 8 bits for each of red, green and blue; each line begins with the number of its filter.
    header = struct.pack(">IIBBBBB", IMAGE_SIDE, IMAGE_SIDE, 8, 2, 0, 0, 0)
    lines = b"".join(b"\0" + draw.randbytes(3 * IMAGE_SIDE) for _ in range(IMAGE_SIDE))
    body = chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(lines)) + chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + body


def make_records(kind: str, count: int, seed: int, is_repeated: bool) -> list[Record]:
    """Records of a kind, all different or all the same; the same ones for the same seed."""
    records = []
    for index in range(count):
        number = 0 if is_repeated else index
        draw = random.Random(f"{seed} {number}")
        image = {"bytes": make_png(draw), "path": None}
        text = f"record {number}: {draw.choice('red green blue grey'.split())} {draw.random()}"
        record: Record = {"id": number}
        if kind == "text":
            record["text"] = text
        elif kind == "image-text":
            record |= {"image": image, "text": text}
        else:
            other = {"bytes": make_png(draw), "path": None}
            record |= {"images": [image, None, other], "texts": [None, text, None]}
        records.append(record)
    return records


# --- folders ---


def name_file(column: str) -> str:
    """The name of a column as that of a file, whatever is in it."""
    return quote(column, safe=" ").replace(".", "%2E")


def find_image_ending(data: bytes) -> str:
    """The ending that fits the bytes of an image."""
    return next((e for start, e in IMAGE_ENDINGS.items() if data.startswith(start)), ".bin")


def is_feature(feature: Any, kind: str) -> bool:
    """Whether a column, by its entry in the features, is of this kind."""
    return isinstance(feature, dict) and feature.get("_type") == kind


def is_image_list(feature: Any) -> bool:
    """Whether a column has a list of images in each record."""
    is_list = any(is_feature(feature, kind) for kind in ("List", "LargeList", "Sequence"))
    return is_list and is_feature(feature.get("feature"), "Image")


def unpack_records(folder: Path, records: Iterable[Record], features: Mapping[str, Any]) -> None:
    """Write a folder for each record, the features, and the checksums. Raises WrongUse."""
    text = json.dumps(features, indent=1) + "\n"
    (folder / FEATURES_NAME).write_text(text, encoding="utf-8")
    sums = {}
    for index, record in enumerate(records):
        home = folder / f"{index:05d}"
        home.mkdir()
        entries = {}
        for column, value in record.items():
            entries[column] = unpack_value(home, name_file(column), value, features[column])
        try:
            text = json.dumps(entries, indent=1, ensure_ascii=False) + "\n"
        except TypeError as error:
            raise WrongUse(f"a column cannot be unpacked: {error}; leave it out first") from error
        (home / RECORD_NAME).write_text(text, encoding="utf-8")
        sums[home.name] = sum_record(record)
    text = json.dumps(sums, indent=1) + "\n"
    (folder / SUMS_NAME).write_text(text, encoding="utf-8")


def sum_record(record: Record) -> str:
    """A checksum of all that is in a record, in whatever order its columns stand."""

    def sum_bytes(data: bytes) -> str:
        return hashlib.sha256(data).hexdigest()

    return sum_bytes(json.dumps(record, sort_keys=True, default=sum_bytes).encode("utf-8"))


def unpack_value(home: Path, name: str, value: Any, feature: Any) -> Any:
    """Write a text or an image to a file of its own; what record.json says of the value."""
    if value is None:
        return None
    if is_image_list(feature):
        return [
            unpack_value(home, f"{name}+{index:04d}", part, feature["feature"])
            for index, part in enumerate(value)
        ]
    if is_feature(feature, "Image"):
        file = f"{name}{find_image_ending(value['bytes'])}"
        (home / file).write_bytes(value["bytes"])
        return {"file": file, "path": value["path"]}
    if is_feature(feature, "Value") and isinstance(value, str):
        (home / f"{name}.txt").write_bytes(f"{value}\n".encode())
        return {"file": f"{name}.txt"}
    return value


def pack_records(folder: Path) -> tuple[dict[str, Record], dict[str, Any]]:
    """The records that are in the folders now, by their names and in that order; and the features.

    Raises WrongUse, with the file that is at fault.
    """
    features = read_object(folder / FEATURES_NAME)
    homes = sorted(path for path in folder.iterdir() if path.is_dir() and path.name[0] != ".")
    if not homes:
        raise WrongUse(f"--source: {folder} has no folder of a record")
    records = {}
    for home in homes:
        entries = read_object(home / RECORD_NAME)
        if entries.keys() != features.keys():
            odd = sorted(entries.keys() ^ features.keys())
            raise WrongUse(f"{home / RECORD_NAME}: '{odd[0]}' is not in both, it and the features")
        values = {c: pack_value(home, c, e, features[c]) for c, e in entries.items()}
        records[home.name] = values
    return records, features


def find_edits(folder: Path, records: Mapping[str, Record]) -> dict[str, list[str]] | None:
    """Which folders are as they were unpacked, edited, new, and removed; None where nothing tells.

    Raises WrongUse where the checksums were damaged.
    """
    if not (folder / SUMS_NAME).exists():
        return None
    sums = read_object(folder / SUMS_NAME)
    edits: dict[str, list[str]] = {"as before": [], "edited": [], "new": []}
    for name, record in records.items():
        is_same = sums.get(name) == sum_record(record)
        edits["as before" if is_same else "edited" if name in sums else "new"].append(name)
    return {**edits, "removed": [name for name in sums if name not in records]}


def list_names(names: Sequence[str], most: int = 10) -> str:
    """So many of the names, and how many there are more."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def pack_value(home: Path, column: str, entry: Any, feature: Any) -> Any:
    """A value out of what record.json says and the files beside it. Raises WrongUse."""
    if entry is None:
        return None
    if is_image_list(feature):
        if not isinstance(entry, list):
            raise WrongUse(f"{home / RECORD_NAME}: '{column}' has to be a list")
        return [pack_value(home, column, part, feature["feature"]) for part in entry]
    is_image = is_feature(feature, "Image")
    if not is_image and not (is_feature(feature, "Value") and feature.get("dtype") in STRINGS):
        return entry
    name = entry.get("file") if isinstance(entry, dict) else None
    if not isinstance(name, str) or Path(name).name != name:
        raise WrongUse(f"{home / RECORD_NAME}: '{column}' has to name a file beside it")
    path = home / name
    try:
        data = path.read_bytes()
        if not is_image:
            return data.decode("utf-8").removesuffix("\n")
    except OSError as error:
        raise WrongUse(f"could not read {path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise WrongUse(f"{path} is not UTF-8 (byte {error.start})") from error
    check_image(path, data)
    return {"bytes": data, "path": entry.get("path")}


STRINGS = ("string", "large_string")


def check_image(path: Path, data: bytes) -> None:
    """Raises WrongUse where the bytes are no image; without pillow the first few are looked at."""
    if importlib.util.find_spec("PIL") is None:
        if find_image_ending(data) == ".bin":
            raise WrongUse(f"{path} is no image")
        return
    import io

    from PIL import Image

    try:
        with Image.open(io.BytesIO(data)) as image:
            image.load()
    except (OSError, SyntaxError, ValueError) as error:
        raise WrongUse(f"{path} is no image, or is cut off") from error


def read_object(path: Path) -> dict[str, Any]:
    """A JSON object. Raises WrongUse."""
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise WrongUse(f"could not read {path}: {error.strerror}") from error
    except ValueError as error:
        raise WrongUse(f"{path} is no JSON: {error}") from error
    if not isinstance(value, dict):
        raise WrongUse(f"{path} has to hold an object in braces")
    return value


# --- datasets ---


def import_datasets() -> Any:
    """The package, without its progress bars. Raises WrongUse."""
    try:
        datasets = importlib.import_module("datasets")
    except ImportError as error:
        raise WrongUse(f"this needs datasets: pip install datasets ({error})") from error
    datasets.disable_progress_bars()
    # It would write them beside the source.
    datasets.disable_caching()
    return datasets


def load_source(options: argparse.Namespace, cache: Path) -> Any:
    """The dataset that --source names. Raises WrongUse."""
    datasets = import_datasets()
    source, split = options.source, options.split
    path = Path(source)
    try:
        if options.hub:
            loaded = datasets.load_dataset(source, split=split or "train")
        elif path.suffix == ".py":
            raise WrongUse("--source: loading scripts are not run; export the data to parquet")
        elif path.is_dir():
            loaded = datasets.load_from_disk(source)
        elif not path.is_file():
            raise WrongUse(f"--source: there is no {source} here (the Hub is asked with --hub)")
        elif path.suffix not in READERS:
            raise WrongUse(f"--source: {path.name} is none of {', '.join(READERS)}")
        elif path.stat().st_size == 0:
            raise WrongUse(f"--source: {source} is empty, without a byte in it")
        else:
            loaded = datasets.load_dataset(
                READERS[path.suffix], data_files=source, split="train", cache_dir=str(cache)
            )
    except WrongUse:
        raise
    except Exception as error:  # datasets raises those of whatever reads the file
        # Its own words for most is that an error occurred: the one below it says which.
        cause = error.__cause__ or error
        lines = str(cause).strip().splitlines() or [type(cause).__name__]
        if lines[0].endswith("corresponds to no data!"):
            raise WrongUse(f"--source: {source} has no records") from error
        raise WrongUse(f"--source: could not read {source}: {lines[0][:200]}") from error
    if isinstance(loaded, dict):
        names = ", ".join(loaded)
        if split not in loaded:
            raise WrongUse(f"--split: {source} has {names}; name one of them")
        loaded = loaded[split]
    return loaded


def undecode(feature: Any) -> Any:
    """The features with images as bytes."""
    datasets = import_datasets()
    if isinstance(feature, dict):
        return {name: undecode(part) for name, part in feature.items()}
    if isinstance(feature, datasets.Image):
        return datasets.Image(decode=False)
    if isinstance(feature, datasets.List):
        return datasets.List(undecode(feature.feature))
    return feature


def list_records(dataset: Any) -> list[Record]:
    """All records, with the bytes of their images, also of those that lie in other files."""
    datasets = import_datasets()
    features = dataset.features.to_dict()
    plain = dataset.cast(datasets.Features(undecode(dict(dataset.features))))
    records = [dict(record) for record in plain]
    for record in records:
        for column, value in record.items():
            images = value if is_image_list(features[column]) else [value]
            is_image = is_image_list(features[column]) or is_feature(features[column], "Image")
            for image in (images or []) if is_image else []:
                if image is not None and image["bytes"] is None:
                    read_image_file(image)
    return records


def read_image_file(image: dict[str, Any]) -> None:
    """Take the bytes of an image from the file that it names. Raises WrongUse."""
    path = Path(image["path"])
    try:
        image["bytes"] = path.read_bytes()
    except OSError as error:
        raise WrongUse(f"--source: could not read the image {path}: {error.strerror}") from error
    image["path"] = path.name


def make_dataset(records: Sequence[Record], features: Mapping[str, Any]) -> Any:
    """A dataset of the records. Raises WrongUse where they are not as the features say."""
    datasets = import_datasets()
    columns = {column: [record[column] for record in records] for column in features}
    try:
        return datasets.Dataset.from_dict(columns, features=datasets.Features.from_dict(features))
    except Exception as error:  # pyarrow's own, and Python's
        lines = str(error).strip().splitlines() or [type(error).__name__]
        raise WrongUse(f"the records are not as {FEATURES_NAME} says: {lines[0][:200]}") from error


# --- what is done ---


def write_folder(out: Path, fill: Callable[[Path], Any]) -> Any:
    """Let a folder be filled under another name, then move it; what `fill` gives."""
    partial = Path(tempfile.mkdtemp(prefix=f".{out.name}-", dir=out.resolve().parent))
    try:
        given = fill(partial)
        partial.chmod(0o755)
        partial.rename(out)
        return given
    except BaseException:
        shutil.rmtree(partial, ignore_errors=True)
        raise


def count_folder_bytes(folder: Path) -> int:
    """The bytes of all files in a folder."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def run_action(options: argparse.Namespace) -> tuple[Row, list[str]]:
    """Do what the command line asks for; its row, and what has to be said of it."""
    started = time.monotonic()
    out = options.out
    kind = "of the source"
    notes = []
    edits = None
    with tempfile.TemporaryDirectory(prefix="make_tiny_dataset_") as cache:
        if options.action == "unpack":
            dataset = load_source(options, Path(cache))
            if len(dataset) > MOST_RECORDS:
                raise WrongUse(f"--source: {len(dataset)} records are too many folders; cut first")
            features = dataset.features.to_dict()
            records = list_records(dataset)
            write_folder(out, lambda folder: unpack_records(folder, records, features))
        else:
            if options.action == "pack":
                if not Path(options.source).is_dir():
                    raise WrongUse(f"--source: there is no folder {options.source}")
                packed, features = pack_records(Path(options.source))
                records = list(packed.values())
                edits = find_edits(Path(options.source), packed)
                if edits is None:
                    notes.append(f"without {SUMS_NAME} nothing tells which records were edited")
            elif options.action == "synthesize":
                kind, features = options.kind, FEATURES[options.kind]
                records = make_records(kind, options.records, options.seed, options.repeat)
            else:
                records, features = cut_dataset(load_source(options, Path(cache)), options)
            made = make_dataset(records, features)
            write_folder(out, lambda folder: made.save_to_disk(str(folder)))
    if options.action == "cut" and len(records) < options.records:
        notes.append(f"the source has {len(records)} records only")
    for change in ("edited", "new", "removed") if edits else ():
        if names := edits[change]:
            notes.append(f"{change}: {list_names(names)}")
    row = {
        "step": options.action,
        "kind": kind,
        "records": len(records),
        "records_as_before": len(edits["as before"]) if edits else None,
        "records_edited": len(edits["edited"]) if edits else None,
        "bytes": count_folder_bytes(out),
        "seconds": round(time.monotonic() - started, 3),
        "verdict": "done",
    }
    return row, notes


def cut_dataset(dataset: Any, options: argparse.Namespace) -> tuple[list[Record], dict[str, Any]]:
    """The first records of the shuffled dataset, and the features."""
    count = min(options.records, len(dataset))
    # Only the order is shuffled, and in memory: the source's folder is not written to.
    order = dataset.shuffle(seed=options.seed, keep_in_memory=True)
    return list_records(order.select(range(count), keep_in_memory=True)), order.features.to_dict()


def show_kind(kind: str, options: argparse.Namespace, has_datasets: bool) -> Row:
    """Make up records, cut, unpack, edit and pack them, and compare; its row."""
    started = time.monotonic()
    faults = []
    asked = vars(options)
    features = FEATURES[kind]
    records = make_records(kind, options.records, options.seed, False)
    with tempfile.TemporaryDirectory(prefix="make_tiny_dataset_") as name:
        root = Path(name)
        if has_datasets:
            source = root / "source"
            made = make_dataset(make_records(kind, 2 * options.records, 0, False), features)
            made.save_to_disk(str(source))
            asked = {**asked, "source": str(source)}
            cuts = []
            for _ in range(2):
                loaded = load_source(argparse.Namespace(**asked), root / "cache")
                cuts.append(cut_dataset(loaded, options))
            records, features = cuts[0]
            if cuts[0] != cuts[1]:
                faults.append("another cut for the same seed")
            if len({record["id"] for record in records}) != options.records:
                faults.append("a record is there twice")
        folder = root / "folders"
        folder.mkdir()
        unpack_records(folder, records, features)
        size = count_folder_bytes(folder)
        again, features_again = pack_records(folder)
        if (list(again.values()), features_again) != (records, features):
            faults.append("not as before without an edit")
        edited_count = edit_folders(folder, len(records))
        packed, _ = pack_records(folder)
        edited = list(packed.values())
        edits = find_edits(folder, packed) or {}
        if {name: len(found) for name, found in edits.items()} != {
            "as before": len(records) - edited_count - 1,
            "edited": edited_count,
            "new": 0,
            "removed": 1,
        }:
            faults.append("the edits are not found")
        if has_datasets:
            make_dataset(edited, features).save_to_disk(str(root / "packed"))
            options_of_packed = argparse.Namespace(**{**asked, "source": str(root / "packed")})
            edited = list_records(load_source(options_of_packed, root / "cache"))
    same = sum(before == after for before, after in zip(records, edited, strict=False))
    if len(edited) != len(records) - 1 or same != len(edited) - edited_count:
        faults.append("something else changed than was edited")
    return {
        "step": "cut, unpack, edit, pack" if has_datasets else "unpack, edit, pack",
        "kind": kind,
        "records": len(records),
        "records_as_before": same,
        "records_edited": edited_count,
        "bytes": size,
        "seconds": round(time.monotonic() - started, 3),
        "verdict": "; ".join(faults) or "as it should be",
    }


def edit_folders(folder: Path, count: int) -> int:
    """Change the number of the first record and drop the last one; how many were changed."""
    path = folder / "00000" / RECORD_NAME
    entries = read_object(path)
    path.write_text(json.dumps({**entries, "id": -1}), encoding="utf-8")
    shutil.rmtree(folder / f"{count - 1:05d}")
    return 1


def make_datasets(
    options: argparse.Namespace, command: Sequence[str], stop: StopSign, origin: float
) -> int:
    """Do what is asked for, print and write what became of it; the exit status."""
    rows: list[Row] = []
    caveats: list[str] = []
    stopped = ""
    if options.action != "demonstrate":
        import_datasets()
        row, caveats = run_action(options)
        rows.append(row)
    else:
        has_datasets = importlib.util.find_spec("datasets") is not None
        if not has_datasets:
            caveats.append("cutting was left out, for want of datasets: pip install datasets")
        else:
            import_datasets()
        try:
            for kind in KINDS:
                stop.check()
                rows.append(show_kind(kind, options, has_datasets))
            stop.check()
        except Stopped as reason:
            stopped = str(reason)
            caveats.append(f"{stopped}, after {len(rows)} of {len(KINDS)} kinds")
    is_printed = print_report(rows, caveats)
    problems = [row for row in rows if row["verdict"] not in ("done", "as it should be")]
    for row in problems:
        print(f"problem: {row['kind']}: {row['verdict']}", file=sys.stderr)
    if options.json:
        document = {
            **make_document_head("make_tiny_dataset", (__version__, METHOD), command, origin),
            "complete": not stopped,
            "units": UNITS,
            "results": rows,
            "caveats": caveats,
            "details": {
                "platform": f"{platform.system()} {platform.machine()}",
                "python": platform.python_version(),
            },
        }
        write_document(options.json, document)
    return 1 if problems or stopped or not is_printed else 0


def print_report(rows: Sequence[Row], notes: Sequence[str]) -> bool:
    """The table to stdout, notes to stderr; False where stdout was not written."""
    cells = [
        [
            row["kind"],
            row["step"],
            str(row["records"]),
            "" if row["records_as_before"] is None else str(row["records_as_before"]),
            "" if row["records_edited"] is None else str(row["records_edited"]),
            f"{row['bytes'] / 1000:.1f}",
            f"{row['seconds']:.2f}",
            row["verdict"],
        ]
        for row in rows
    ]
    headings = ["kind", "step", "records", "as before", "edited", "kB", "seconds", "verdict"]
    is_printed = not cells or print_to_stdout(format_table(headings, cells))
    for note in notes:
        write_note(note)
    return is_printed


def hide_folders(text: str) -> str:
    """The text with absolute paths cut down to their last part: folders name people and hosts."""
    name, equals, value = text.partition("=")
    if equals and value.startswith(("/", "~")):
        return f"{name}={Path(value).name}"
    return Path(text).name if text.startswith(("/", "~")) else text


def make_portable_command(arguments: Sequence[str]) -> list[str]:
    """The command line as another machine would type it, without absolute paths."""
    script = Path(__file__)
    with contextlib.suppress(ValueError, OSError):  # a folder that was deleted has no name
        script = script.resolve().relative_to(Path.cwd().resolve())
    name = script.name if script.is_absolute() else script.as_posix()
    return ["python", name, *(hide_folders(argument) for argument in arguments)]


def write_document(path: Path, document: Mapping[str, Any]) -> None:
    """Write the JSON whole: under another name, then moved; a pipe or a device is written to, and
    a symbolic link followed. Raises WrongUse where it cannot be."""
    text = json.dumps(document, indent=1, allow_nan=False) + "\n"
    target = path.resolve()
    partial = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        if path.exists() and not path.is_file():
            path.write_text(text, encoding="utf-8")
            return
        partial.write_text(text, encoding="utf-8")
        partial.replace(target)
    except OSError as error:
        partial.unlink(missing_ok=True)
        raise WrongUse(f"--json: could not write {path}: {error.strerror}") from error


def check_json_path(path: Path | None) -> None:
    """Raises WrongUse where --json names a folder, or a file in a folder that is not there or takes
    no files."""
    if path is None:
        return
    if path.is_dir():
        raise WrongUse(f"--json: {path} is a folder; name a file in it")
    target = path.resolve()
    if not target.parent.is_dir():
        raise WrongUse(f"--json: there is no folder {target.parent}")
    if path.exists() and not path.is_file():  # a pipe or a device, which writing shows
        return
    partial = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        partial.touch()
        partial.unlink()
    except OSError as error:
        raise WrongUse(f"--json: could not write {path}: {error.strerror}") from error


def make_document_head(
    tool: str, numbers: tuple[str, int], command: Sequence[str], origin: float
) -> dict[str, Any]:
    """The opening of the JSON: tool, version and method, command, start, and seconds until now.

    `origin` is the reading of time.monotonic() when the run began.
    """
    seconds = time.monotonic() - origin
    started = datetime.datetime.now(datetime.UTC) - datetime.timedelta(seconds=seconds)
    return {
        "tool": tool,
        "version": numbers[0],
        "method": numbers[1],
        "command": list(command),
        "started": started.strftime("%Y-%m-%dT%H:%M:%SZ"),
        "seconds": round(seconds, 3),
    }


def print_to_stdout(text: str) -> bool:
    """Print at once; False, with a line that says so, where stdout could not be written."""
    try:
        print(text, flush=True)
    except OSError as error:
        # Python would write once more what is left, as it ends: that goes nowhere now.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        print(f"problem: stdout could not be written: {error.strerror}", file=sys.stderr)
        return False
    return True


def write_note(text: str) -> None:
    """One note for the reader, beside the table."""
    print(f"note: {text}", file=sys.stderr)


def format_table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table, the first column to the left and all others to the right."""
    cells = [list(headings), *(list(row) for row in rows)]
    widths = [max(3, *(len(row[i]) for row in cells)) for i in range(len(headings))]

    def join(row: Sequence[str]) -> str:
        padded = [
            cell.ljust(width) if i == 0 else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        return f"| {' | '.join(padded)} |"

    rule = [f":{'-' * (w - 1)}" if i == 0 else f"{'-' * (w - 1)}:" for i, w in enumerate(widths)]
    return "\n".join([join(cells[0]), f"| {' | '.join(rule)} |", *map(join, cells[1:])])


def parse_count(text: str) -> int:
    """A number of things to do or to show: a whole number from 1."""
    if not re.fullmatch(r"[1-9]\d*", text):
        raise argparse.ArgumentTypeError(f"'{text}' has to be a whole number from 1")
    return int(text)


def run_self_test() -> int:
    """Check records, folders and, where datasets is, a cut; 0, or 1 where a check fails."""
    checks: list[tuple[str, bool]] = []

    def check(name: str, passed: bool) -> None:
        checks.append((name, passed))
        print(f"{'ok    ' if passed else 'FAILED'} {name}", file=sys.stderr)

    unique = make_records("image-text", 20, 1, False)
    check("20 records, 20 images", len({r["image"]["bytes"] for r in unique}) == 20)
    repeated = make_records("image-text", 20, 1, True)
    check("or one image", len({r["image"]["bytes"] for r in repeated}) == 1)
    check("a column's name leads nowhere", name_file("../a.b") == "%2E%2E%2Fa%2Eb")
    has_datasets = importlib.util.find_spec("datasets") is not None
    if not has_datasets:
        write_note("cutting is left out: datasets is not installed")
    options = argparse.Namespace(records=4, seed=3, hub=False, split=None)
    for kind in KINDS:
        row = show_kind(kind, options, has_datasets)
        check(f"{kind}: {row['verdict']}", row["verdict"] == "as it should be")
    with tempfile.TemporaryDirectory(prefix="make_tiny_dataset_") as name:
        folder = Path(name)
        unpack_records(folder, unique[:2], FEATURES["image-text"])
        (folder / "00001/image.png").write_bytes(b"no image")
        try:
            pack_records(folder)
            words = ""
        except WrongUse as error:
            words = str(error)
        check("what is no image is named", "00001/image.png is no image" in words)
    failed = sum(not passed for _, passed in checks)
    print(f"self-test: {len(checks) - failed} of {len(checks)} checks passed", file=sys.stderr)
    return 1 if failed else 0


def build_parser() -> argparse.ArgumentParser:
    """The command line of this tool, for its own use and for checkers of documentation."""
    parser = argparse.ArgumentParser(
        prog="make_tiny_dataset.py",
        description="Cut a dataset to a few records, unpack, edit and pack them, or make some up.",
        allow_abbrev=False,
    )
    parser.add_argument(
        "action", nargs="?", choices=ACTIONS, default="demonstrate", help="default: demonstrate"
    )
    parser.add_argument("--source", metavar="PATH", help="a folder or a file; a name with --hub")
    parser.add_argument("--out", type=Path, metavar="FOLDER", help="to be made, not there yet")
    parser.add_argument("--records", type=parse_count, metavar="N", help="how many (default: 10)")
    parser.add_argument("--seed", type=int, metavar="N", help="default: 42")
    parser.add_argument("--split", metavar="NAME", help="of the source, where it has some")
    parser.add_argument("--hub", action="store_true", help="--source is on the Hub: ask there")
    parser.add_argument("--kind", choices=KINDS, help="of what is made up (image-text)")
    parser.add_argument("--repeat", action="store_true", help="make up one record, many times")
    parser.add_argument("--json", type=Path, metavar="PATH", help="write the results as JSON")
    parser.add_argument("--self-test", action="store_true", help="check this tool, then stop")
    parser.add_argument(
        "--version", action="version", version=f"make_tiny_dataset {__version__} (method {METHOD})"
    )
    return parser


def check_options(options: argparse.Namespace) -> None:
    """Raises WrongUse for what makes no sense, before anything is done."""
    check_json_path(options.json)
    action = options.action
    making = ("demonstrate", "cut", "synthesize")
    belongs = {"records": making, "seed": making, "split": ("cut", "unpack")}
    for name, actions in {**belongs, "kind": ("synthesize",)}.items():
        if getattr(options, name) is not None and action not in actions:
            raise WrongUse(f"--{name} does not go with {action}")
    options.records = options.records or 10
    options.seed = 42 if options.seed is None else options.seed
    options.kind = options.kind or "image-text"
    if options.records > MOST_RECORDS:
        raise WrongUse(f"--records: at most {MOST_RECORDS}; more is no tiny dataset")
    needs_source = action in ("cut", "unpack", "pack")
    if needs_source and not options.source:
        raise WrongUse(f"{action} needs --source")
    if not needs_source and options.source:
        raise WrongUse(f"--source does not go with {action}")
    if options.hub and action != "cut":
        raise WrongUse("--hub goes with cut alone")
    if options.repeat and action != "synthesize":
        raise WrongUse("--repeat goes with synthesize alone")
    if action == "demonstrate":
        if options.out:
            raise WrongUse("--out goes with cut, unpack, pack and synthesize")
        if options.records < 2:
            raise WrongUse("--records: the demonstration needs 2 or more")
        return
    if not options.out:
        raise WrongUse(f"{action} needs --out, a folder that is not there yet")
    if os.path.lexists(options.out):
        raise WrongUse(f"--out: {options.out} is there already; name a new folder")
    if not options.out.resolve().parent.is_dir():
        raise WrongUse(f"--out: there is no folder {options.out.resolve().parent}")


def main(arguments: list[str] | None = None) -> int:
    """Run the tool; the exit status."""
    origin = time.monotonic()
    arguments = sys.argv[1:] if arguments is None else arguments
    parser = build_parser()
    options = parser.parse_args(arguments)
    stop = StopSign()
    try:
        if options.self_test:
            if arguments != ["--self-test"]:
                raise WrongUse("--self-test takes no other option")
            os.environ["HF_HUB_OFFLINE"] = "1"
            return run_self_test()
        check_options(options)
        if not options.hub:
            # Read by what asks the Hub, when it is imported.
            os.environ["HF_HUB_OFFLINE"] = "1"
        if options.action == "demonstrate":
            stop.listen()
        else:
            # Whatever ends it, what is half done is removed.
            for name in ("SIGTERM", "SIGUSR1", "SIGHUP"):
                number = getattr(signal, name, None)
                if number and signal.getsignal(number) is signal.SIG_DFL:  # not under nohup
                    signal.signal(number, signal.default_int_handler)
        return make_datasets(options, make_portable_command(arguments), stop, origin)
    except WrongUse as error:
        parser.error(str(error))
    except OSError as error:
        print(f"problem: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:  # of an action, which leaves nothing behind then
        print("stopped", file=sys.stderr)
        return 1


def run_to_stdout(run: Callable[[], int]) -> int:
    """What `run` returns, once all that it printed is written; where stdout takes no more, a full
    disk or a closed pipe, one line says so, and it is 1."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # closed, by `>&-`: then nobody wants to read it
            setattr(sys, name, open(os.devnull, "w"))  # noqa: PTH123, SIM115 - to the end
    try:
        try:
            status = run()
        except SystemExit as ended:  # --help, --version, and wrong use
            status = int(ended.code or 0)
        sys.stdout.flush()
    except OSError as error:
        kinds = (errno.EPIPE, errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)
        if error.filename is not None or error.errno not in kinds:
            raise
        # What still waits would be complained of again at the end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        print(f"stdout could not be written: {error.strerror}", file=sys.stderr)
        return 1
    return status


if __name__ == "__main__":
    sys.exit(run_to_stdout(main))
