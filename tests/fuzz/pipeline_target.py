"""Fuzz target of the options in pipeline files."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import is_dataclass
from functools import cache

from jsonschema import Draft202012Validator
from jsonschema.protocols import Validator

from ragkit.errors import PipelineError
from ragkit.masking import is_secret
from ragkit.pipeline.schema import Schema, json_schema
from ragkit.pipeline.serialize import options_to_dict, yaml_equal
from ragkit.pipeline.settings import Pipeline
from ragkit.records import JSON
from tests.fuzz.reader import Reader

ENVIRON = {"NAME": "value"}
SECRET = "s3cr3t-v4lue"
NUMBERS: Sequence[JSON] = (0, 1, 2, 3, 8, 64, 200, 4096, 1 << 31, 1 << 63, -1, 0.0, 0.25, 0.5, 1.0, 1.5, -0.5, 1e300)
TEXTS: Sequence[str] = (
    *("", "a", "a b", "null", "yes", "1e3", "0x1F", "1:30", "2024-01-01", "~", "- a", "# a", "a: b", "a #b", "'", '"'),
    *("{}", "[a", "&a", "*a", "!a", "%a", "@a", "`a", "|", ">", "\\", "\t", " a ", "a\n", "\na\n\n", "…", "é\u0301"),
    *("\u2028", "${NAME}", "$${NAME}", "a${NAME:-b}c", "${", "..", "/", "C:\\a", ".pdf", "**/*", "http://a", "\0"),
)


def options(data: bytes) -> None:
    """Options become what the file says, or a PipelineError; what the schema refuses is refused."""
    reader = Reader(data)
    key = reader.choice(sorted(components()))
    name = reader.choice(sorted(components()[key]))
    properties = components()[key][name]["properties"]
    assert isinstance(properties, dict)
    written: dict[str, JSON] = {"name": name} if name else {}
    for option, schema in properties.items():
        if option != "name" and reader.left and reader.number(4) == 1:
            assert isinstance(schema, dict)
            written[option] = SECRET if is_secret(option) and reader.number(4) else _value(reader, schema)
    errors = [error.message for error in validators()[key, name].iter_errors(written)]
    section = [{"name": "folder"}, written] if key == "load" and name != "folder" else written
    try:
        pipeline = Pipeline.from_yaml(json.dumps({"extends": "default", key: section}, ensure_ascii=False), ENVIRON)
    except PipelineError as error:
        assert str(error)
        return
    assert not errors, (written, errors)
    for complete in (False, True):
        copy = Pipeline.from_yaml(pipeline.to_yaml(complete=complete), ENVIRON)
        assert copy == pipeline, (pipeline.to_yaml(complete=complete), copy, pipeline)
    if SECRET in written.values():
        assert SECRET not in pipeline.to_yaml(hide=True), pipeline.to_yaml(hide=True)
    _check_values(pipeline, key, name, written)


def _check_values(pipeline: Pipeline, key: str, name: str, written: Mapping[str, JSON]) -> None:
    if key == "answer":
        found: dict[str, object] = options_to_dict(pipeline.answer, complete=True)
    else:
        component = next(each for section, _, each in pipeline.components() if section.key == key and each.name == name)
        found = component.head() | {"only": list(component.only)} | options_to_dict(component.options, complete=True)
    for option, value in written.items():
        set_by_caller = value == "" and option not in found  # the path of a store, for example
        if "$" not in json.dumps(value) and not set_by_caller:
            assert _is_read(value, found[option]), (option, found[option], value)


def _is_read(value: JSON, found: object) -> bool:
    """Whether a value in the file is the value in code: lists become tuples, paths Path, groups dataclasses."""
    if is_dataclass(found) and isinstance(value, dict):
        return all(_is_read(each, getattr(found, name)) for name, each in value.items())
    if isinstance(value, list):
        return isinstance(found, list | tuple) and len(value) == len(found) and all(map(_is_read, value, found))
    if isinstance(value, dict):
        if not isinstance(found, Mapping) or value.keys() != found.keys():
            return False
        return all(_is_read(each, found[name]) for name, each in value.items())
    return yaml_equal(value, found)


def _value(reader: Reader, schema: Schema) -> JSON:
    """Mostly a value that the schema allows."""
    kind = reader.number(16)
    if kind == 1:
        return _any(reader)
    if kind == 2 and "default" in schema:
        return schema["default"]
    match schema:
        case {"anyOf": list(cases)}:
            return _value(reader, _schema(reader.choice(cases)))
        case {"$ref": _}:
            return "${NAME}"
        case {"enum": list(values)}:
            value: JSON = reader.choice(values)
            return value
    return _typed_value(reader, schema)


def _typed_value(reader: Reader, schema: Schema) -> JSON:
    match schema.get("type"):
        case "boolean":
            return reader.number(2) == 1
        case "integer" | "number" as name:
            return reader.choice([number for number in NUMBERS if name == "number" or isinstance(number, int)])
        case "string":
            return _text(reader)
        case "array":
            return [_value(reader, _schema(schema.get("items"))) for _ in range(reader.number(4))]
        case "object":
            return _mapping(reader, schema)
    return _any(reader)


def _mapping(reader: Reader, schema: Schema) -> JSON:
    properties = schema.get("properties")
    if isinstance(properties, dict):
        return {name: _value(reader, _schema(each)) for name, each in properties.items() if reader.number(3) == 1}
    values = _schema(schema.get("additionalProperties"))
    return {_text(reader): _value(reader, values) for _ in range(reader.number(4))}


def _schema(value: JSON) -> Schema:
    """A part of a schema; one that allows every value if there is none."""
    return value if isinstance(value, dict) else {}


def _any(reader: Reader) -> JSON:
    choices: Sequence[JSON] = (None, True, False, [], {}, ["a"], {"a": 1}, *NUMBERS, *TEXTS)
    return reader.choice(choices)


def _text(reader: Reader) -> str:
    return reader.choice(TEXTS) if reader.number(4) else reader.text()


@cache
def components() -> Mapping[str, Mapping[str, Schema]]:
    """Section -> component, '' for `answer` -> its schema."""
    result: dict[str, dict[str, Schema]] = {}
    definitions = json_schema()["$defs"]
    assert isinstance(definitions, dict)
    for path, schema in definitions.items():
        section, _, name = path.partition(".")
        if isinstance(schema, dict) and (name or section == "answer"):
            result.setdefault(section, {})[name] = schema
    return result


@cache
def validators() -> Mapping[tuple[str, str], Validator]:
    """(Section, component) -> an independent validator."""
    definitions = json_schema()["$defs"]
    return {
        (section, name): Draft202012Validator({**schema, "$defs": definitions})
        for section, schemas in components().items()
        for name, schema in schemas.items()
    }
