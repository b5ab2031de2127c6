"""make_tiny_dataset: real datasets of local files, cut, unpacked, edited and packed again."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from needs import need

SCRIPTS = Path(__file__).resolve().parent.parent
TOOL = "debug/tiny/make_tiny_dataset.py"

Record = dict[str, Any]


@pytest.fixture(scope="module")
def tiny(load_tool: Callable[[str], Any]) -> Any:
    """The tool as a module."""
    os.environ["HF_HUB_OFFLINE"] = "1"
    return load_tool(TOOL)


@pytest.fixture
def read_dataset(tiny: Any) -> Callable[[Path], list[Record]]:
    """The records of a saved dataset, images as bytes, read by datasets itself."""
    datasets = pytest.importorskip("datasets")

    def read(folder: Path) -> list[Record]:
        return tiny.list_records(datasets.load_from_disk(str(folder), keep_in_memory=True))

    return read


@pytest.fixture
def odd_source(tiny: Any, tmp_path: Path) -> Path:
    """A saved dataset with columns of many kinds, holes, and a JPEG that lies in another file."""
    datasets = pytest.importorskip("datasets")
    image = pytest.importorskip("PIL.Image")
    outside = tmp_path / "outside.jpg"
    image.new("RGB", (8, 8), (9, 99, 200)).save(outside)
    png = tiny.make_records("image-text", 1, 0, False)[0]["image"]["bytes"]
    text = datasets.Value("string")
    features = datasets.Features(
        {
            "../a.text": text,
            "image": datasets.Image(),
            "images": datasets.List(datasets.Image()),
            "numbers": datasets.List(datasets.Value("float32")),
            "label": datasets.ClassLabel(names=["cat", "dog"]),
            "nested": {"flag": datasets.Value("bool"), "words": datasets.List(text)},
        }
    )  # fmt: skip
    nested = {"flag": True, "words": ["é", None]}
    columns = {
        "../a.text": ["line\r\nline\u2028 ", "", None, "ω"],
        "image": [
            {"bytes": None, "path": str(outside)},
            None,
            {"bytes": png, "path": "x.png"},
            {"bytes": png, "path": None},
        ],
        "images": [[{"bytes": png, "path": None}, None], [], None, [None]],
        "numbers": [[0.1, 1e-30], [], None, [3.0]],
        "label": [0, 1, None, 1],
        "nested": [nested, {"flag": None, "words": []}, nested, nested],
    }
    folder = tmp_path / "source"
    datasets.disable_progress_bars()
    datasets.Dataset.from_dict(columns, features=features).save_to_disk(str(folder))
    return folder


def read_files(folder: Path) -> dict[str, bytes]:
    """The content of all files below a folder."""
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def test_records_come_back_from_their_folders(
    call_tool: Callable[..., Any],
    read_dataset: Callable[[Path], list[Record]],
    odd_source: Path,
    tmp_path: Path,
) -> None:
    """Unpacked and packed without an edit, records of all kinds and the features are as before,
    and neither the source nor the folders have changed."""
    import datasets

    before = read_files(odd_source)
    folders, packed = tmp_path / "folders", tmp_path / "packed"
    done = call_tool(TOOL, "unpack", "--source", str(odd_source), "--out", str(folders))
    assert done.returncode == 0, done.stderr
    files = read_files(folders)
    done = call_tool(TOOL, "pack", "--source", str(folders), "--out", str(packed))
    assert done.returncode == 0, done.stderr
    assert read_files(odd_source) == before
    assert read_files(folders) == files
    assert "00000/image.jpg" in files
    assert "00000/images+0000.png" in files
    source, again = (datasets.load_from_disk(str(path)) for path in (odd_source, packed))
    assert again.features == source.features
    assert read_dataset(packed) == read_dataset(odd_source)
    assert again[0]["image"].size == (8, 8)


def save_again(editor: str, path: Path) -> None:
    """Open a text and save it as it is, as this editor does; most add a newline where none is."""
    words = {
        "vim": ["vim", "-N", "-u", "NONE", "-i", "NONE", "-es", "-c", "wq!", str(path)],
        "ed": ["ed", "-s", str(path)],
    }
    if editor == "by hand":
        data = path.read_bytes()
        path.write_bytes(data if data.endswith(b"\n") else data + b"\n")
    else:
        need(editor)
        subprocess.run(words[editor], input=b"w\nq\n", timeout=20, check=False)


@pytest.mark.parametrize("editor", ["by hand", "vim", "ed"])
def test_text_saved_again_is_no_edit(
    tiny: Any, odd_source: Path, tmp_path: Path, editor: str
) -> None:
    """Texts with and without newlines that an editor opened and saved are as before, one by one;
    and a text whose last newline was taken away by hand is the same text too."""
    loaded = tiny.load_source(tiny.argparse.Namespace(
        source=str(odd_source), split=None, hub=False), tmp_path)  # fmt: skip
    records, features = tiny.list_records(loaded), loaded.features.to_dict()
    column = "../a.text"
    for record, text in zip(records, ("a", "a\n", "a\n\n", "a\r\nb\r\n"), strict=True):
        record[column] = text
    records += [{**records[0], column: text} for text in ("", "a\r\nb", "line\u2028 ", "ω", None)]
    folders = tmp_path / "folders"
    folders.mkdir()
    tiny.unpack_records(folders, records, features)
    texts = sorted(folders.rglob("*.txt"))
    assert len(texts) == 8
    for path in texts:
        save_again(editor, path)
    packed, _ = tiny.pack_records(folders)
    assert list(packed.values()) == records
    edits = tiny.find_edits(folders, packed)
    assert edits == {"as before": list(packed), "edited": [], "new": [], "removed": []}
    texts[0].write_bytes(texts[0].read_bytes().removesuffix(b"\n"))
    assert list(tiny.pack_records(folders)[0].values()) == records


def test_edits_and_nothing_else_change(
    tiny: Any,
    call_tool: Callable[..., Any],
    read_dataset: Callable[[Path], Any],
    read_json: Callable[[Path], Any],
    tmp_path: Path,
) -> None:
    """An edited text, another image, a removed and a copied folder are all that changes, and the
    columns and notes say so; without the checksums they say that nothing tells."""
    pytest.importorskip("datasets")
    made, folders, packed = (tmp_path / name for name in ("made", "folders", "packed"))
    for words in (
        ["synthesize", "--records", "5", "--out", str(made)],
        ["unpack", "--source", str(made), "--out", str(folders)],
    ):
        assert call_tool(TOOL, *words).returncode == 0
    (folders / "00000/text.txt").write_bytes(b"edited")
    shutil.copyfile(folders / "00003/image.png", folders / "00001/image.png")
    shutil.rmtree(folders / "00002")
    shutil.copytree(folders / "00004", folders / "00005")
    report = tmp_path / "x.json"
    words = ["pack", "--source", str(folders), "--json", str(report), "--out"]
    done = call_tool(TOOL, *words, str(packed))
    assert done.returncode == 0, done.stderr
    assert done.stderr.splitlines() == [
        "note: edited: 00000, 00001", "note: new: 00005", "note: removed: 00002",
    ]  # fmt: skip
    (row,) = read_json(report)["results"]
    assert (row["records"], row["records_as_before"], row["records_edited"]) == (5, 2, 2)
    records = read_dataset(made)
    wanted = [
        {**records[0], "text": "edited"},
        {**records[1], "image": records[3]["image"]},
        records[3],
        records[4],
        records[4],
    ]
    assert read_dataset(packed) == wanted
    (folders / "unpacked.json").unlink()
    done = call_tool(TOOL, *words, str(tmp_path / "again"))
    assert done.returncode == 0, done.stderr
    assert "nothing tells which records were edited" in done.stderr
    (row,) = read_json(report)["results"]
    assert row["records_as_before"] is row["records_edited"] is None
    assert read_dataset(tmp_path / "again") == wanted


@pytest.mark.parametrize("ending", ["folder", "parquet", "jsonl", "csv"])
def test_cut_of_local_files(
    tiny: Any, read_dataset: Callable[[Path], Any], tmp_path: Path, ending: str
) -> None:
    """A cut has so many different records of the source, the same ones for the same seed, not its
    first ones; and the source is as before."""
    datasets = pytest.importorskip("datasets")
    datasets.disable_progress_bars()
    kind = "image-text" if ending in ("folder", "parquet") else "text"
    records = tiny.make_records(kind, 50, 0, False)
    whole = tiny.make_dataset(records, tiny.FEATURES[kind])
    source = tmp_path / f"source.{ending}"
    if ending == "folder":
        datasets.DatasetDict({"train": whole, "test": whole}).save_to_disk(str(source))
    else:
        getattr(whole, {"jsonl": "to_json"}.get(ending, f"to_{ending}"))(str(source))
    before = read_files(tmp_path)
    cuts = []
    for index, seed in enumerate(("1", "1", "2")):
        out = tmp_path / f"cut{index}"
        split = ["--split", "train"] if ending == "folder" else []
        words = ["cut", "--source", str(source), *split, "--records", "7", "--seed", seed]
        assert tiny.main([*words, "--out", str(out)]) == 0
        cuts.append(read_dataset(out))
        shutil.rmtree(out)
    assert cuts[0] == cuts[1] != cuts[2]
    assert len(cuts[0]) == 7
    assert len({record["id"] for record in cuts[0]}) == 7
    assert all(record in records for record in cuts[0])
    assert cuts[0] != records[:7]
    assert read_files(tmp_path) == before


def test_all_that_there_is(
    tiny: Any, call_tool: Callable[..., Any], read_dataset: Callable[[Path], Any], tmp_path: Path
) -> None:
    """A source with fewer records than asked for is cut to all of them, which is said."""
    pytest.importorskip("datasets")
    (tmp_path / "a.txt").write_text("one\ntwo\n")
    out = tmp_path / "out"
    done = call_tool(TOOL, "cut", "--source", str(tmp_path / "a.txt"), "--out", str(out))
    assert done.returncode == 0, done.stderr
    assert "has 2 records only" in done.stderr
    assert sorted(record["text"] for record in read_dataset(out)) == ["one", "two"]


@pytest.mark.parametrize("kind", ["text", "image-text", "interleaved"])
def test_made_up_records(
    tiny: Any, read_dataset: Callable[[Path], Any], tmp_path: Path, kind: str
) -> None:
    """Records are all different, or all the same with --repeat, and their images can be seen."""
    datasets = pytest.importorskip("datasets")
    for extra, different in (([], 6), (["--repeat"], 1)):
        out = tmp_path / f"out{different}"
        words = ["synthesize", "--kind", kind, "--records", "6", "--out", str(out)]
        assert tiny.main([*words, *extra]) == 0
        records = read_dataset(out)
        assert len(records) == 6
        assert len({repr(record) for record in records}) == different
        first = datasets.load_from_disk(str(out))[0]
        images = [first.get("image"), *(first.get("images") or [])]
        sizes = [image.size for image in images if image is not None]
        assert sizes == [(8, 8)] * {"text": 0, "image-text": 1, "interleaved": 2}[kind]


def damage_json(folders: Path) -> None:
    """Cut the file of a record in two."""
    path = folders / "00001/record.json"
    path.write_text(path.read_text()[:20])


def damage_column(folders: Path) -> None:
    """Take a column away."""
    path = folders / "00001/record.json"
    entries = json.loads(path.read_text())
    del entries["text"]
    path.write_text(json.dumps(entries))


def damage_name(folders: Path) -> None:
    """Let an image be somewhere else."""
    path = folders / "00001/record.json"
    entries = json.loads(path.read_text())
    path.write_text(json.dumps({**entries, "image": {"file": "../00000/image.png"}}))


def damage_type(folders: Path) -> None:
    """Write words where a number is to be."""
    path = folders / "00001/record.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "id": "many"}))


def damage_image(folders: Path) -> None:
    """Cut an image in two."""
    path = folders / "00001/image.png"
    path.write_bytes(path.read_bytes()[:100])


def damage_text(folders: Path) -> None:
    """Save a text in another encoding."""
    (folders / "00001/text.txt").write_bytes(b"caf\xe9")


def remove_text(folders: Path) -> None:
    """Remove a file that is named."""
    (folders / "00001/text.txt").unlink()


def damage_sums(folders: Path) -> None:
    """Cut the checksums in two."""
    (folders / "unpacked.json").write_text('{"00000": ')


def damage_features(folders: Path) -> None:
    """Leave out what a list is of."""
    path = folders / "features.json"
    features = json.loads(path.read_text())
    path.write_text(json.dumps({**features, "image": {"_type": "List"}}))


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (damage_sums, "unpacked.json is no JSON"),
        (damage_features, "the records are not as features.json says"),
        (damage_json, "00001/record.json is no JSON"),
        (damage_column, "00001/record.json: 'text' is not in both"),
        (damage_name, "00001/record.json: 'image' has to name a file beside it"),
        (damage_type, "the records are not as features.json says"),
        (damage_image, "00001/image.png is no image"),
        (damage_text, "00001/text.txt is not UTF-8 (byte 3)"),
        (remove_text, "could not read"),
    ],
)
def test_slips_of_an_editor_are_named(
    tiny: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    damage: Callable[[Path], None],
    words: str,
) -> None:
    """What cannot be packed is refused with the file that is at fault, and nothing is written."""
    pytest.importorskip("datasets")
    # WeasyPrint, which tests of the toolchain import, has Pillow put up with images that are cut.
    monkeypatch.setattr("PIL.ImageFile.LOAD_TRUNCATED_IMAGES", False)
    folders = tmp_path / "folders"
    folders.mkdir()
    records = tiny.make_records("image-text", 3, 0, False)
    tiny.unpack_records(folders, records, tiny.FEATURES["image-text"])
    damage(folders)
    with pytest.raises(SystemExit) as ended:
        tiny.main(["pack", "--source", str(folders), "--out", str(tmp_path / "out")])
    assert ended.value.code == 2

    def pack() -> None:
        packed, features = tiny.pack_records(folders)
        tiny.find_edits(folders, packed)
        tiny.make_dataset(list(packed.values()), features)

    with pytest.raises(tiny.WrongUse) as error:
        pack()
    assert words in str(error.value)
    assert [path.name for path in tmp_path.iterdir()] == ["folders"]


@pytest.mark.nightly
@pytest.mark.parametrize("name", ["SIGTERM", "SIGUSR1", "SIGHUP", "SIGINT"])
def test_ended_action_leaves_nothing(tmp_path: Path, name: str) -> None:
    """A signal while records are written, Slurm's and that of a terminal that closes too: status 1
    and no folder, whole or half."""
    pytest.importorskip("datasets")
    code = (
        f"import sys, time; sys.path.insert(0, {str((SCRIPTS / TOOL).parent)!r})\n"
        "import make_tiny_dataset as tool\n"
        "def wait(folder):\n"
        "    (folder / 'half').touch()\n"
        "    time.sleep(60)\n"
        "write = tool.write_folder\n"
        "tool.write_folder = lambda out, fill: write(out, wait)\n"
        "sys.exit(tool.main())\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code, "synthesize", "--out", str(tmp_path / "out")],
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        deadline = time.monotonic() + 60
        while not list(tmp_path.glob(".out-*/half")):
            assert process.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.02)
        process.send_signal(getattr(signal, name))
        _, notes = process.communicate(timeout=30)
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
    assert (process.returncode, notes) == (1, "stopped\n")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["cut", "--out", "x"], "cut needs --source"),
        (["cut", "--source", "a.jsonl"], "cut needs --out"),
        (["cut", "--source", "a.jsonl", "--out", "here"], "is there already"),
        (["cut", "--source", "none", "--out", "x"], "the Hub is asked with --hub"),
        (["cut", "--source", "script.py", "--out", "x"], "loading scripts are not run"),
        (["cut", "--source", "a.zip", "--out", "x"], "a.zip is none of .parquet"),
        (["cut", "--source", "a.jsonl", "--out", "x"], "could not read a.jsonl"),
        (["cut", "--source", "here", "--out", "x"], "could not read here"),
        (["cut", "--source", "empty.jsonl", "--out", "x"], "empty.jsonl is empty"),
        (["cut", "--source", "empty.csv", "--out", "x"], "empty.csv is empty"),
        (["cut", "--source", "blank.jsonl", "--out", "x"], "blank.jsonl has no records"),
        (["pack", "--source", "here", "--out", "x"], "could not read here/features.json"),
        (["pack", "--source", "a.zip", "--out", "x"], "there is no folder a.zip"),
        (["unpack", "--hub", "--source", "o/n", "--out", "x"], "--hub goes with cut alone"),
        (["synthesize", "--source", "x", "--out", "y"], "does not go with synthesize"),
        (["--repeat"], "goes with synthesize alone"),
        (["--records", "1"], "needs 2 or more"),
        (["cut", "--kind", "text", "--source", "a.jsonl", "--out", "x"], "--kind does not go"),
        (["pack", "--records", "3", "--source", "here", "--out", "x"], "--records does not go"),
        (["unpack", "--seed", "0", "--source", "here", "--out", "x"], "--seed does not go"),
        (["synthesize", "--split", "train", "--out", "x"], "--split does not go"),
        (["synthesize", "--out", "none/x"], "there is no folder"),
    ],
)
def test_wrong_use_is_one_line(
    tiny: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    words: str,
) -> None:
    """What cannot be done is refused with what to do, and nothing is left behind."""
    pytest.importorskip("datasets")
    (tmp_path / "here").mkdir()
    (tmp_path / "script.py").write_text("raise SystemExit('it ran')\n")
    (tmp_path / "a.zip").write_bytes(b"")
    (tmp_path / "a.jsonl").write_text("{no json\n")
    (tmp_path / "blank.jsonl").write_text("\n\n")
    for name in ("empty.jsonl", "empty.csv"):
        (tmp_path / name).touch()
    before = sorted(path.name for path in tmp_path.iterdir())
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as ended:
        tiny.main(arguments)
    assert ended.value.code == 2
    assert words in capsys.readouterr().err
    assert sorted(path.name for path in tmp_path.iterdir()) == before
