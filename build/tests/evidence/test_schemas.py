"""The JSON Schemas that are published for people who write their own tools."""

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from bindery.evidence.records import SCHEMA, MachineReport, Record, ToolOutput
from pydantic import BaseModel

ROOT = Path(__file__).resolve().parents[3]
FOLDER = ROOT / "scripts" / "schemas"
PUBLISHED: dict[str, type[BaseModel]] = {
    f"record-{SCHEMA}.json": Record,
    f"tool-output-{SCHEMA}.json": ToolOutput,
    f"machine-report-{SCHEMA}.json": MachineReport,
}
RECORDS = sorted((ROOT / "scripts" / "records").rglob("*_2*.json"))


def write_schema(model: type[BaseModel]) -> str:
    schema = model.model_json_schema(by_alias=True)
    dialect = {"$schema": "https://json-schema.org/draft/2020-12/schema"}
    return json.dumps({**dialect, **schema}, indent=2, ensure_ascii=False) + "\n"


@pytest.mark.parametrize("name", PUBLISHED)
def test_published_schemas_are_those_of_the_models(
    name: str, request: pytest.FixtureRequest
) -> None:
    """Each published schema is what its model gives, valid by draft 2020-12, and describes every
    field that a writer has to know."""
    text = write_schema(PUBLISHED[name])
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
