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

from ragkit.pipeline.choice import AnswerOptions, Choice
from ragkit.pipeline.convert import Hint, default_of, fields_of, hints_of, is_required
from ragkit.pipeline.parts import FOLDER, SECTIONS, Section, section_keys
from ragkit.records import JSON

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

Schema: TypeAlias = dict[str, JSON]

FILE_NAME = "ragkit.schema.json"
"""Its name beside the shipped pipelines."""

_VARIABLE: Schema = {"$ref": "#/$defs/variable"}
_TYPES: Mapping[Hint, str] = {
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
    parts = {section.key: _parts(section, plugins) for section in sections}
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
            **{section.key: _section(section, parts[section.key]) for section in sections},
            **{f"{key}.{name}": part for key, found in parts.items() for name, part in found.items() if name},
        },
    }


def schema_text() -> str:
    """The schema as the file beside the shipped pipelines holds it."""
    return json.dumps(json_schema(), indent=2, ensure_ascii=False) + "\n"


def descriptions(options: type[DataclassInstance]) -> dict[str, str]:
    """Field -> its docstring: the text below it in the source of the class, or of the class that it comes from."""
    found: dict[str, str] = {}
    for one in reversed(inspect.getmro(options)):
        if is_dataclass(one):
            found |= _docstrings(one)
    return found


def _section(section: Section, parts: Mapping[str, Schema]) -> Schema:
    if section.names is None:
        return parts[""]
    one = _one_of(section, parts)
    if not section.routed:
        return one
    return {"anyOf": [one, {"type": "array", "items": one, "minItems": 1}]}


def _one_of(section: Section, parts: Mapping[str, Schema]) -> Schema:
    """A part is found by its name. Without one it is that of the file below: any part's option may stand here."""
    every: dict[str, dict[str, str]] = {}
    for part, schema in parts.items():
        properties = schema["properties"]
        assert isinstance(properties, dict)  # noqa: S101 - made so by `_object`
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
    kind = section.names.kind if section.names else section.key
    name: Schema = {"anyOf": [{"enum": list(parts)}, _VARIABLE], "description": f"The name of a {kind}."}
    return {"type": "object", "properties": {**options, "name": name}, "additionalProperties": False, "allOf": cases}


def _parts(section: Section, plugins: bool) -> dict[str, Schema]:
    """Name -> the schema of a part. The section without parts has one without a name."""
    if section.names is None:
        return {"": _object(AnswerOptions, {}, frozenset())}
    names = section.names.names() if plugins else sorted(section.names.places)
    found: dict[str, Schema] = {}
    for name in names:
        try:
            options = section.options_of(name)
        except (ImportError, AttributeError):  # a plugin that cannot be imported here
            continue
        named: Schema = {"name": {"const": name}}
        if section.routed and name != FOLDER:
            named["only"] = _described(_type(tuple[str, ...]), descriptions(Choice)["only"])
        found[name] = _object(options, named, section.supplied)
    return found


def _object(options: type[DataclassInstance] | None, named: Schema, supplied: frozenset[str]) -> Schema:
    properties, required = dict(named), []
    if options is not None:
        hints, texts = hints_of(options), descriptions(options)
        for one in fields_of(options):
            schema = _described(_with_variable(_type(hints[one.name])), texts.get(one.name, ""))
            if not is_required(one):
                schema["default"] = _json(default_of(one))
            elif one.name not in supplied:
                required.append(one.name)
            properties[one.name] = schema
    made: Schema = {"type": "object", "properties": properties, "additionalProperties": False}
    if required:
        made["required"] = required
    words = inspect.getdoc(options) if options is not None else None
    return _described(made, words.partition("\n\n")[0] if words else "")


def _type(hint: Hint) -> Schema:
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        return _any_of([_type(one) for one in arguments])
    if origin is Literal:
        return {"enum": list(arguments)}
    if origin in (tuple, list, Sequence):
        return {"type": "array", "items": _with_variable(_type(arguments[0]))}
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return {"type": "object", "additionalProperties": _with_variable(_type(arguments[1]))}
    if isinstance(hint, type) and is_dataclass(hint):
        return _object(hint, {}, frozenset())
    return {"type": _TYPES[hint]} if hint in _TYPES else {}


def _any_of(schemas: Sequence[Schema]) -> Schema:
    distinct: list[Schema] = []
    for schema in schemas:
        distinct += [schema] if schema not in distinct else []
    return distinct[0] if len(distinct) == 1 else {"anyOf": list(distinct)}


def _with_variable(schema: Schema) -> Schema:
    """A value that is no text may also be written as `${NAME}`."""
    if schema.get("type") in ("string", "array", "object"):
        return schema
    cases = schema.get("anyOf")
    listed = list(cases) if isinstance(cases, list) else [schema]
    return {"anyOf": [*listed, _VARIABLE]} if {"type": "string"} not in listed else schema


def _described(schema: Schema, words: str) -> Schema:
    return {"description": " ".join(words.split()), **schema} if words else schema


def _json(value: object) -> JSON:
    if isinstance(value, list | tuple):
        return [_json(one) for one in value]
    if isinstance(value, Mapping):
        return {str(key): _json(one) for key, one in value.items()}
    if is_dataclass(value) and not isinstance(value, type):
        return {one.name: _json(getattr(value, one.name)) for one in fields_of(type(value))}
    return value if isinstance(value, bool | int | float | str) or value is None else str(value)


def _docstrings(options: type[DataclassInstance]) -> dict[str, str]:
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
