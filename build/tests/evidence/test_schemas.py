"""The JSON Schemas that are published for people who write their own tools."""

import json
import runpy
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from bindery.evidence import records
from bindery.evidence.records import SCHEMA

ROOT = Path(__file__).resolve().parents[3]
FOLDER = ROOT / "scripts" / "schemas"
PUBLISHED = {
    f"record-{SCHEMA}.json": "Record",
    f"tool-output-{SCHEMA}.json": "ToolOutput",
    f"machine-report-{SCHEMA}.json": "MachineReport",
}
RECORDS = sorted((ROOT / "scripts" / "records").rglob("*_2*.json"))


def write_schema(model: str, folder: Path) -> str:
    """The schema of a model, with the docstrings of its fields. A check does not read them: it
    would take longer than validating every record."""
    documented = folder / "documented_records.py"
    source = Path(records.__file__).read_text(encoding="utf-8")
    with_docstrings = "ConfigDict(use_attribute_docstrings=True, "
    documented.write_text(source.replace("ConfigDict(", with_docstrings), encoding="utf-8")
    models = runpy.run_path(str(documented))
    schema = models[model].model_json_schema(by_alias=True)
    dialect = {"$schema": "https://json-schema.org/draft/2020-12/schema"}
    return json.dumps({**dialect, **schema}, indent=2, ensure_ascii=False) + "\n"


@pytest.mark.parametrize("name", PUBLISHED)
def test_published_schemas_are_those_of_the_models(
    name: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """Each published schema is what its model gives, valid by draft 2020-12, and describes every
    field that a writer has to know."""
    text = write_schema(PUBLISHED[name], tmp_path)
    if request.config.getoption("--update"):
        FOLDER.mkdir(exist_ok=True)
        (FOLDER / name).write_text(text, encoding="utf-8")
    assert (FOLDER / name).read_text(encoding="utf-8") == text
    schema = json.loads(text)
    jsonschema.Draft202012Validator.check_schema(schema)
    fields = schema["properties"]
    assert [key for key, field in fields.items() if not field.get("description")] == []


@pytest.mark.parametrize("path", RECORDS, ids=lambda path: path.stem)
def test_records_are_valid_by_their_schema(path: Path) -> None:
    """What bindery takes for a record of this repository, any other reader of the schema does."""
    data: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    text = (FOLDER / f"record-{data['schema']}.json").read_text(encoding="utf-8")
    jsonschema.validate(data, json.loads(text), cls=jsonschema.Draft202012Validator)
