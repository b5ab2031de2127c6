"""make_tiny_dataset: what was not edited is as before, and what was edited is found."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

TOOL = "debug/tiny/make_tiny_dataset.py"

Record = dict[str, Any]
pytestmark = pytest.mark.needs("python:datasets", "python:PIL")


@pytest.fixture
def read_dataset(module: Any, monkeypatch: pytest.MonkeyPatch) -> Callable[[Path], list[Record]]:
    """The records of a saved dataset, images as bytes, read by datasets itself."""
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    datasets = pytest.importorskip("datasets")

    def read(folder: Path) -> list[Record]:
        return module.list_records(datasets.load_from_disk(str(folder), keep_in_memory=True))

    return read


@pytest.fixture
def odd_source(module: Any, tmp_path: Path) -> Path:
    """A saved dataset with columns of many kinds, holes, and a JPEG that is in another file."""
    datasets = pytest.importorskip("datasets")
    image = pytest.importorskip("PIL.Image")
    outside = tmp_path / "outside.jpg"
    image.new("RGB", (8, 8), (9, 99, 200)).save(outside)
    png = module.make_records("image-text", 1, 0, False)[0]["image"]["bytes"]
    text = datasets.Value("string")
    features = datasets.Features(
        {
            "../a.text": text,
            "image": datasets.Image(),
            "images": datasets.List(datasets.Image()),
            "numbers": datasets.List(datasets.Value("float32")),
            "label": datasets.ClassLabel(names=["cat", "dog"]),
            "nested": {"flag": datasets.Value("bool"), "words": datasets.List(text)},
            "source": {"file": text, "path": text},
        }
    )  # fmt: skip
    nested = {"flag": True, "words": ["é", None]}
    bare, file = {"bytes": png, "path": None}, {"bytes": None, "path": str(outside)}
    columns = {
        "../a.text": ["line\r\nline\u2028 ", "", None, "ω"],
        "image": [file, None, {"bytes": png, "path": "x.png"}, bare],
        "images": [[bare, None], [], None, [None]],
        "numbers": [[0.1, 1e-30], [], None, [3.0]],
        "label": [0, 1, None, 1],
        "nested": [nested, {"flag": None, "words": []}, nested, nested],
        "source": [{"file": "a.py", "path": "src"}] * 4,
    }
    folder = tmp_path / "source"
    datasets.disable_progress_bars()
    datasets.Dataset.from_dict(columns, features=features).save_to_disk(str(folder))
    return folder


def read_files(folder: Path) -> dict[str, bytes]:
    """The content of all files below a folder."""
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def test_edits_and_nothing_else_change(
    module: Any, odd_source: Path, read_dataset: Any, tmp_path: Path
) -> None:
    """All kinds of columns come back; an edited text, a copied and a removed folder too."""
    folders, out = tmp_path / "folders", tmp_path / "out"
    before = read_dataset(odd_source)
    sums = read_files(odd_source)
    before[0]["image"]["path"] = "outside.jpg"
    assert module.main(["unpack", "--source", str(odd_source), "--out", str(folders)]) == 0
    text = folders / "00003" / "..%2Fa.text.txt"
    assert text.read_text() == "ω\n"
    text.write_text("ψ")  # an editor that adds no newline
    shutil.copytree(folders / "00000", folders / "00007")
    shutil.rmtree(folders / "00001")
    (folders / ".trash").mkdir()
    assert module.main(["pack", "--source", str(folders), "--out", str(out)]) == 0
    edited = {**before[3], "../a.text": "ψ"}
    assert read_dataset(out) == [before[0], before[2], edited, before[0]]
    assert read_files(odd_source) == sums


@pytest.mark.parametrize("ending", ["folder", "parquet", "jsonl", "csv"])
def test_cut_of_local_files(module: Any, read_dataset: Any, tmp_path: Path, ending: str) -> None:
    """Different records of the source, the same for the same seed, and not simply the first."""
    import datasets

    kind = "image-text" if ending in ("folder", "parquet") else "text"
    records = module.make_records(kind, 50, 0, False)
    source = tmp_path / f"source.{ending}"
    module.save_dataset(tmp_path / "source.folder", records, module.FEATURES[kind])
    if ending != "folder":
        whole = datasets.load_from_disk(str(tmp_path / "source.folder"))
        getattr(whole, {"jsonl": "to_json"}.get(ending, f"to_{ending}"))(str(source))
    before = read_files(tmp_path)
    cuts = []
    for seed in ("1", "1", "2"):
        words = ["cut", "--source", str(source), "--records", "7", "--seed", seed]
        assert module.main([*words, "--out", str(tmp_path / "cut")]) == 0
        cuts.append(read_dataset(tmp_path / "cut"))
        shutil.rmtree(tmp_path / "cut")
    assert cuts[0] == cuts[1] != cuts[2]
    assert len({record["id"] for record in cuts[0]}) == 7
    assert all(record in records for record in cuts[0])
    assert cuts[0] != records[:7]
    assert read_files(tmp_path) == before


@pytest.mark.parametrize("kind", ["text", "image-text", "interleaved"])
def test_synthetic_records(module: Any, kind: str) -> None:
    """All different, or all the same."""
    for is_repeated, different in ((False, 6), (True, 1)):
        records = module.make_records(kind, 6, 0, is_repeated)
        assert len({json.dumps(record, default=str) for record in records}) == different


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("00001/record.json", b'{"id": 1}', "record.json does not have the columns"),
        ("00001/image.bmp", b"text", "00001/image.bmp is not an image"),
        ("00001/text.txt", b"caf\xe9", "cannot read .*00001/text.txt: 'utf-8' codec"),
    ],
)
def test_mistakes_of_an_editor_are_named(
    module: Any, tmp_path: Path, name: str, content: bytes, words: str
) -> None:
    """With the file, and nothing is written."""
    folder = tmp_path / "folders"
    folder.mkdir()
    records = module.make_records("image-text", 2, 0, False)
    module.unpack_records(folder, records, module.FEATURES["image-text"])
    (folder / name).write_bytes(content)
    with pytest.raises(module.UsageError, match=words):
        module.main(["pack", "--source", str(folder), "--out", str(tmp_path / "out")])
    assert [path.name for path in tmp_path.iterdir()] == ["folders"]
