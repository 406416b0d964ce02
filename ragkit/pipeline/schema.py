"""The JSON Schema of a pipeline file, made from the options' dataclasses and the docstrings of their fields.

Editors read it for completion and hints. It says less than `Pipeline.load` checks: types, words and keys, no ranges.
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

from ragkit.pipeline.components import AnswerOptions, ComponentConfig
from ragkit.pipeline.convert import TypeHint, field_default, get_field_hints, is_required, settable_fields
from ragkit.pipeline.sections import FOLDER_LOADER, SECTIONS, Section, section_keys
from ragkit.records import JSON

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

Schema: TypeAlias = dict[str, JSON]

SCHEMA_FILE_NAME = "ragkit.schema.json"
"""Its name beside the shipped pipelines."""

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
        sections: what a file consists of.
        plugins: with the parts of installed plugins; without them every machine makes the same schema.
    """
    parts = {section.key: _component_schemas(section, plugins) for section in sections}
    keys = section_keys(sections)
    whole: Schema = {key: {"$ref": f"#/$defs/{key}"} for key in keys}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "A ragkit pipeline",
        "type": "object",
        "properties": {
            "extends": {"type": "string", "description": "A shipped pipeline, or a file below this one's folder."},
            **whole,
            "profiles": {
                "type": "object",
                "description": "Changes by name, chosen with `--profile` or RAGKIT_PROFILE.",
                "additionalProperties": {"type": "object", "properties": whole, "additionalProperties": False},
            },
        },
        "additionalProperties": False,
        "$defs": {
            "variable": {"type": "string", "pattern": r"\$\{", "description": "A variable of the environment."},
            **{section.key: _section_schema(section, parts[section.key]) for section in sections},
            **{f"{key}.{name}": part for key, found in parts.items() for name, part in found.items() if name},
        },
    }


def schema_text() -> str:
    """The schema as the file beside the shipped pipelines holds it."""
    return json.dumps(json_schema(), indent=2, ensure_ascii=False) + "\n"


def field_descriptions(options: type[DataclassInstance]) -> dict[str, str]:
    """Field -> its docstring: the text below it in the source of the class, or of the class that it comes from."""
    found: dict[str, str] = {}
    for one in reversed(inspect.getmro(options)):
        if is_dataclass(one):
            found |= _field_docstrings(one)
    return found


def _section_schema(section: Section, parts: Mapping[str, Schema]) -> Schema:
    if section.registry is None:
        return parts[""]
    one = _component_schema(section, parts)
    if not section.allows_list:
        return one
    return {"anyOf": [one, {"type": "array", "items": one, "minItems": 1}]}


def _component_schema(section: Section, parts: Mapping[str, Schema]) -> Schema:
    """A part is found by its name. Without one it is that of the file below: any part's option may stand here."""
    every: dict[str, dict[str, str]] = {}
    for part, schema in parts.items():
        properties = schema["properties"]
        assert isinstance(properties, dict)  # noqa: S101 - made so by `_options_schema`
        for option, one in properties.items():
            every.setdefault(option, {}).setdefault(
                json.dumps(one), f"#/$defs/{section.key}.{part}/properties/{option}"
            )
    options: Schema = {
        option: _any_of([{"$ref": place} for place in found.values()]) for option, found in every.items()
    }
    cases: list[JSON] = [
        {
            "if": {"properties": {"name": {"const": name}}, "required": ["name"]},
            "then": {"$ref": f"#/$defs/{section.key}.{name}"},
        }
        for name in parts
    ]
    kind = section.registry.kind if section.registry else section.key
    name: Schema = {"anyOf": [{"enum": list(parts)}, _VARIABLE], "description": f"The name of a {kind}."}
    return {"type": "object", "properties": {**options, "name": name}, "additionalProperties": False, "allOf": cases}


def _component_schemas(section: Section, plugins: bool) -> dict[str, Schema]:
    """Name -> the schema of a part. The section without parts has one without a name."""
    if section.registry is None:
        return {"": _options_schema(AnswerOptions, {}, frozenset())}
    names = section.registry.names() if plugins else sorted(section.registry.specs)
    found: dict[str, Schema] = {}
    for name in names:
        try:
            options = section.options_class(name)
        except (ImportError, AttributeError):  # a plugin that cannot be imported here
            continue
        named: Schema = {"name": {"const": name}}
        if section.allows_list and name != FOLDER_LOADER:
            named["only"] = _add_description(_type_schema(tuple[str, ...]), field_descriptions(ComponentConfig)["only"])
        found[name] = _options_schema(options, named, section.deferred_options)
    return found


def _options_schema(options: type[DataclassInstance] | None, named: Schema, supplied: frozenset[str]) -> Schema:
    properties, required = dict(named), []
    if options is not None:
        hints, texts = get_field_hints(options), field_descriptions(options)
        for one in settable_fields(options):
            schema = _add_description(_allow_variable(_type_schema(hints[one.name])), texts.get(one.name, ""))
            if not is_required(one):
                schema["default"] = _to_json(field_default(one))
            elif one.name not in supplied:
                required.append(one.name)
            properties[one.name] = schema
    made: Schema = {"type": "object", "properties": properties, "additionalProperties": False}
    if required:
        made["required"] = required
    words = inspect.getdoc(options) if options is not None else None
    return _add_description(made, words.partition("\n\n")[0] if words else "")


def _type_schema(hint: TypeHint) -> Schema:
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        return _any_of([_type_schema(one) for one in arguments])
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
    """A value that is no text may also be written as `${NAME}`."""
    if schema.get("type") in ("string", "array", "object"):
        return schema
    cases = schema.get("anyOf")
    listed = list(cases) if isinstance(cases, list) else [schema]
    return {"anyOf": [*listed, _VARIABLE]} if {"type": "string"} not in listed else schema


def _add_description(schema: Schema, words: str) -> Schema:
    return {"description": " ".join(words.split()), **schema} if words else schema


def _to_json(value: object) -> JSON:
    if isinstance(value, list | tuple):
        return [_to_json(one) for one in value]
    if isinstance(value, Mapping):
        return {str(key): _to_json(one) for key, one in value.items()}
    if is_dataclass(value) and not isinstance(value, type):
        return {one.name: _to_json(getattr(value, one.name)) for one in settable_fields(type(value))}
    return value if isinstance(value, bool | int | float | str) or value is None else str(value)


def _field_docstrings(options: type[DataclassInstance]) -> dict[str, str]:
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(options)))
    except (OSError, TypeError):  # made without a source file
        return {}
    body = tree.body[0].body if isinstance(tree.body[0], ast.ClassDef) else []
    found: dict[str, str] = {}
    for field, below in pairwise(body):
        match field, below:
            case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(words))):
                found[name] = words.strip()
    return found
