"""Generate the JSON Schema of a pipeline file from the options dataclasses and the docstrings of their fields.

Editors use it for completion and hints. It covers keys, types and literals; `Pipeline.load` checks ranges as well.
"""

from __future__ import annotations

import ast
import inspect
import json
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import is_dataclass
from itertools import pairwise
from pathlib import Path
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Literal, TypeAlias, Union, get_args, get_origin

from ragkit.config.convert import TypeHint, field_default, get_field_hints, is_required, settable_fields
from ragkit.pipeline.components import AccessOptions, AnswerOptions, ComponentConfig
from ragkit.pipeline.sections import FOLDER_LOADER, SECTIONS, Section, section_keys
from ragkit.records import JSON

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

Schema: TypeAlias = dict[str, JSON]

SCHEMA_FILE_NAME = "ragkit.schema.json"
"""The file name, in the directory of the shipped pipelines."""

_VARIABLE: Schema = {"$ref": "#/$defs/variable"}
_JSON_TYPES: Mapping[TypeHint, str] = {
    bool: "boolean",
    int: "integer",
    float: "number",
    str: "string",
    Path: "string",
    NoneType: "null",
}


def json_schema(sections: Sequence[Section] = SECTIONS, *, plugins: bool = False) -> Schema:
    """The schema, as JSON Schema draft 2020-12.

    Args:
        sections: the sections of a file.
        plugins: include installed plugins; without them the schema is the same on every machine.
    """
    components = {section.key: _component_schemas(section, plugins) for section in sections}
    keys = section_keys(sections)
    section_refs: Schema = {key: {"$ref": f"#/$defs/{key}"} for key in keys}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "A ragkit pipeline",
        "type": "object",
        "properties": {
            "extends": {
                "type": "string",
                "description": "A shipped pipeline, or a file below the directory of this one.",
            },
            "kb": {
                "type": "string",
                "description": "The knowledge base that commands use: a directory, or postgresql://host/database.",
            },
            "access": _options_schema(AccessOptions, {}, frozenset()),
            **section_refs,
            "profiles": {
                "type": "object",
                "description": "Named overrides, selected with `--profile` or RAGKIT_PROFILE.",
                "additionalProperties": {"type": "object", "properties": section_refs, "additionalProperties": False},
            },
        },
        "additionalProperties": False,
        "$defs": {
            "variable": {"type": "string", "pattern": r"\$\{", "description": "An environment variable."},
            **{section.key: _section_schema(section, components[section.key]) for section in sections},
            **{f"{key}.{name}": part for key, schemas in components.items() for name, part in schemas.items() if name},
        },
    }


def field_descriptions(options: type[DataclassInstance]) -> dict[str, str]:
    """Field -> its docstring: the string below it in the source of the class or a base class."""
    descriptions: dict[str, str] = {}
    for base in reversed(inspect.getmro(options)):
        if is_dataclass(base):
            descriptions |= _field_docstrings(base)
    return descriptions


def _section_schema(section: Section, components: Mapping[str, Schema]) -> Schema:
    if section.registry is None:
        return components[""]
    component = _component_schema(section, components)
    if not section.allows_list:
        return component
    return {"anyOf": [component, {"type": "array", "items": component, "minItems": 1}]}


def _component_schema(section: Section, components: Mapping[str, Schema]) -> Schema:
    """The options of the named component; without a name (the extended file has it) those of all components."""
    definitions: dict[str, dict[str, str]] = {}
    for component, schema in components.items():
        properties = schema["properties"]
        assert isinstance(properties, dict)  # noqa: S101 - `_options_schema` creates a dict
        for option, definition in properties.items():
            path = f"#/$defs/{section.key}.{component}/properties/{option}"
            definitions.setdefault(option, {}).setdefault(json.dumps(definition), path)
    options: Schema = {
        option: _any_of([{"$ref": path} for path in distinct.values()]) for option, distinct in definitions.items()
    }
    cases: list[JSON] = [
        {
            "if": {"properties": {"name": {"const": name}}, "required": ["name"]},
            "then": {"$ref": f"#/$defs/{section.key}.{name}"},
        }
        for name in components
    ]
    kind = section.registry.kind if section.registry else section.key
    name: Schema = {"anyOf": [{"enum": list(components)}, _VARIABLE], "description": f"The name of a {kind}."}
    return {"type": "object", "properties": {**options, "name": name}, "additionalProperties": False, "allOf": cases}


def _component_schemas(section: Section, plugins: bool) -> dict[str, Schema]:
    """Name -> the schema of a component. The section without components has one with an empty name."""
    if section.registry is None:
        return {"": _options_schema(AnswerOptions, {}, frozenset())}
    names = section.registry.names() if plugins else sorted(section.registry.specs)
    schemas: dict[str, Schema] = {}
    for name in names:
        try:
            options = section.options_class(name)
        except (ImportError, AttributeError):  # a plugin that cannot be imported
            continue
        named: Schema = {"name": {"const": name}}
        if section.routes_files and name != FOLDER_LOADER:
            named["only"] = _add_description(_type_schema(tuple[str, ...]), field_descriptions(ComponentConfig)["only"])
        schemas[name] = _options_schema(options, named, section.deferred_options)
    return schemas


def _options_schema(options: type[DataclassInstance] | None, named: Schema, deferred: frozenset[str]) -> Schema:
    properties, required = dict(named), []
    if options is not None:
        hints, texts = get_field_hints(options), field_descriptions(options)
        for field in settable_fields(options):
            schema = _add_description(_allow_variable(_type_schema(hints[field.name])), texts.get(field.name, ""))
            if not is_required(field):
                schema["default"] = _to_json(field_default(field))
            elif field.name not in deferred:
                required.append(field.name)
            properties[field.name] = schema
    result: Schema = {"type": "object", "properties": properties, "additionalProperties": False}
    if required:
        result["required"] = required
    doc = inspect.getdoc(options) if options is not None else None
    return _add_description(result, doc.partition("\n\n")[0] if doc else "")


def _type_schema(hint: TypeHint) -> Schema:
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        return _any_of([_type_schema(argument) for argument in arguments])
    if origin is Literal:
        return {"enum": list(arguments)}
    if origin in (tuple, list, Sequence):
        return {"type": "array", "items": _allow_variable(_type_schema(arguments[0]))}
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return {"type": "object", "additionalProperties": _allow_variable(_type_schema(arguments[1]))}
    if isinstance(hint, type) and is_dataclass(hint):
        return _options_schema(hint, {}, frozenset())
    return {"type": _JSON_TYPES[hint]} if hint in _JSON_TYPES else {}


def _any_of(schemas: Sequence[Schema]) -> Schema:
    distinct: list[Schema] = []
    for schema in schemas:
        distinct += [schema] if schema not in distinct else []
    return distinct[0] if len(distinct) == 1 else {"anyOf": list(distinct)}


def _allow_variable(schema: Schema) -> Schema:
    """A value that is not a string can also be written as `${NAME}`."""
    if schema.get("type") in ("string", "array", "object"):
        return schema
    cases = schema.get("anyOf")
    choices = list(cases) if isinstance(cases, list) else [schema]
    return {"anyOf": [*choices, _VARIABLE]} if {"type": "string"} not in choices else schema


def _add_description(schema: Schema, text: str) -> Schema:
    return {"description": " ".join(text.split()), **schema} if text else schema


def _to_json(value: object) -> JSON:
    if isinstance(value, list | tuple):
        return [_to_json(item) for item in value]
    if isinstance(value, Mapping):
        return {str(key): _to_json(item) for key, item in value.items()}
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: _to_json(getattr(value, field.name)) for field in settable_fields(type(value))}
    return value if isinstance(value, bool | int | float | str) or value is None else str(value)


def _field_docstrings(options: type[DataclassInstance]) -> dict[str, str]:
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(options)))
    except (OSError, TypeError):  # created without a source file
        return {}
    body = tree.body[0].body if isinstance(tree.body[0], ast.ClassDef) else []
    docstrings: dict[str, str] = {}
    for field, below in pairwise(body):
        match field, below:
            case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(text))):
                docstrings[name] = text.strip()
    return docstrings
