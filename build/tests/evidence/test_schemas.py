"""The JSON Schemas that are published for people who write their own tools."""

import ast
import inspect
import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import jsonschema
import msgspec
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
NAMES = {"schema_number": "schema"}
RECORDS = sorted((ROOT / "scripts" / "records").rglob("*_2*.json"))


def write_schema(model: str) -> str:
    """The schema of a model, with the docstrings of its fields, which a program does not keep."""
    schema = msgspec.json.schema(getattr(records, model))
    definitions = schema["$defs"]
    for node in ast.parse(Path(records.__file__).read_text(encoding="utf-8")).body:
        if isinstance(node, ast.ClassDef) and node.name in definitions:
            describe_fields(definitions[node.name], node.body)
    dialect = {"$schema": "https://json-schema.org/draft/2020-12/schema"}
    whole = {**dialect, **definitions.pop(model), **({"$defs": definitions} if definitions else {})}
    return json.dumps(whole, indent=2, ensure_ascii=False) + "\n"


def describe_fields(schema: dict[str, Any], body: list[ast.stmt]) -> None:
    for statement, behind in pairwise(body):
        match statement, behind:
            case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=text)):
                field = schema["properties"][NAMES.get(name, name)]
                schema["properties"][NAMES.get(name, name)] = {
                    "description": inspect.cleandoc(text).replace("\n", " "),
                    **field,
                }


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
