"""Check a JSON value against a JSON Schema, for schemas that come as data: of hand-written tools, of answers.

Known: type, enum, const, properties, required, additionalProperties, items, anyOf, oneOf, allOf, minimum,
maximum, minLength, maxLength, pattern, minItems, maxItems, and `$ref` into `$defs`. Other keywords are not
looked at.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from ragkit.errors import did_you_mean
from ragkit.records import JSON

_TYPES: Mapping[str, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "array": (list, tuple),
    "object": (Mapping,),
    "null": (type(None),),
}


def find_violations(value: JSON, schema: JSON, name: str = "the value") -> list[str]:
    """Every way in which `value` does not keep to `schema`, one line each; empty when it does."""
    root = schema if isinstance(schema, Mapping) else {}
    definitions = root.get("$defs")
    return list(_check_value(value, schema, name, definitions if isinstance(definitions, Mapping) else {}))


def _check_value(value: JSON, schema: JSON, name: str, table: Mapping[str, JSON]) -> Iterator[str]:
    if not isinstance(schema, Mapping):
        return
    reference = schema.get("$ref")
    if isinstance(reference, str):
        yield from _check_value(value, table.get(reference.rpartition("/")[2]), name, table)
    problem = _type_violation(value, schema, name)
    if problem:
        yield problem
        return
    yield from _check_alternatives(value, schema, name, table)
    if isinstance(value, str | int | float) and not isinstance(value, bool):
        yield from _check_bounds(value, schema, name)
    if isinstance(value, Mapping):
        yield from _check_properties(value, schema, name, table)
    elif isinstance(value, list | tuple):
        yield from _check_size(len(value), schema, name, "items", "minItems", "maxItems")
        for index, one in enumerate(value):
            yield from _check_value(one, schema.get("items"), f"{name}[{index}]", table)


def _type_violation(value: JSON, schema: Mapping[str, JSON], name: str) -> str:
    kind = schema.get("type")
    kinds = [kind] if isinstance(kind, str) else list(kind) if isinstance(kind, list | tuple) else []
    wanted = tuple(one for word in kinds for one in _TYPES.get(str(word), (object,)))
    whole = isinstance(value, float) and value.is_integer() and "integer" in kinds
    if kinds and not whole and (not isinstance(value, wanted) or (isinstance(value, bool) and "boolean" not in kinds)):
        return f"{name!r} is {_short_repr(value)}: {' or '.join(map(str, kinds))} is wanted"
    choices = schema.get("enum")
    if isinstance(choices, list | tuple) and value not in choices:
        hint = did_you_mean(str(value), map(str, choices))
        return f"{name!r} is {_short_repr(value)}: one of {', '.join(map(repr, choices))} is wanted{hint}"
    if "const" in schema and value != schema["const"]:
        return f"{name!r} is {_short_repr(value)}: {schema['const']!r} is wanted"
    return ""


def _check_alternatives(value: JSON, schema: Mapping[str, JSON], name: str, table: Mapping[str, JSON]) -> Iterator[str]:
    for part in _as_list(schema.get("allOf")):
        yield from _check_value(value, part, name, table)
    for key in ("anyOf", "oneOf"):
        found = [list(_check_value(value, part, name, table)) for part in _as_list(schema.get(key))]
        if found and all(found):
            yield (
                min(found, key=len)[0] if len(found) == 1 else f"{name!r} is {_short_repr(value)}: no alternative fits"
            )


def _check_bounds(value: str | int | float, schema: Mapping[str, JSON], name: str) -> Iterator[str]:
    if isinstance(value, str):
        yield from _check_size(len(value), schema, name, "characters", "minLength", "maxLength")
        pattern = schema.get("pattern")
        if isinstance(pattern, str) and not re.search(pattern, value):
            yield f"{name!r} is {_short_repr(value)}: text that matches {pattern!r} is wanted"
        return
    low, high = schema.get("minimum"), schema.get("maximum")
    if isinstance(low, int | float) and value < low:
        yield f"{name!r} is {value}: at least {low} is wanted"
    if isinstance(high, int | float) and value > high:
        yield f"{name!r} is {value}: at most {high} is wanted"


def _check_size(size: int, schema: Mapping[str, JSON], name: str, unit: str, low: str, high: str) -> Iterator[str]:
    least, most = schema.get(low), schema.get(high)
    if isinstance(least, int) and size < least:
        yield f"{name!r} has {size} {unit}: at least {least} are wanted"
    if isinstance(most, int) and size > most:
        yield f"{name!r} has {size} {unit}: at most {most} are wanted"


def _check_properties(
    value: Mapping[str, JSON], schema: Mapping[str, JSON], name: str, table: Mapping[str, JSON]
) -> Iterator[str]:
    properties = schema.get("properties")
    known: Mapping[str, JSON] = properties if isinstance(properties, Mapping) else {}
    for key in _as_list(schema.get("required")):
        if key not in value:
            yield f"{name!r} has no {key!r}"
    extra = schema.get("additionalProperties", True)
    for key, one in value.items():
        if key in known:
            yield from _check_value(one, known[key], f"{name}.{key}", table)
        elif extra is False:
            yield f"{name!r} has {key!r}, which is not known"
        else:
            yield from _check_value(one, extra, f"{name}.{key}", table)


def _as_list(value: JSON) -> list[JSON]:
    return list(value) if isinstance(value, list | tuple) else []


def _short_repr(value: JSON) -> str:
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."
