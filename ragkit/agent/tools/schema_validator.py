"""Validate JSON values against JSON Schemas that come as data: of hand-written tools, of structured answers.

The library `jsonschema-rs` knows every keyword of drafts 6 to 2020-12. This module compiles the schemas once,
keeps them off the network and phrases the violations; `schema_complexity` limits the work.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, NoReturn

from ragkit.agent.tools.schema_complexity import MAX_EVALUATIONS, EvaluationCounter, count_nodes
from ragkit.errors import InvalidOption, closest_match, did_you_mean, shorten
from ragkit.records import JSON

if TYPE_CHECKING:  # slow to import, and agents whose tools are functions need no schema validator
    from jsonschema_rs import ValidationError, Validator

MAX_VIOLATIONS = 20
"""Violations that are reported; the rest is counted."""
_MAX_OPTIONS = 30
_RULES = {
    "const": "be {expected_value!r:.80}",
    "minimum": "be >= {limit}",
    "maximum": "be <= {limit}",
    "exclusiveMinimum": "be > {limit}",
    "exclusiveMaximum": "be < {limit}",
    "multipleOf": "be a multiple of {multiple_of}",
    "minLength": "have at least {limit} characters",
    "maxLength": "have at most {limit} characters",
    "minItems": "have at least {limit} items",
    "maxItems": "have at most {limit} items",
    "minProperties": "have at least {limit} properties",
    "maxProperties": "have at most {limit} properties",
    "uniqueItems": "have no item twice",
    "contains": "have an item that matches 'contains'",
    "pattern": "match {pattern!r}",
    "format": "be of format {format}",
}
_TYPES = ("array", "boolean", "integer", "null", "number", "object", "string")


def check_schema(schema: JSON, name: str = "the schema") -> None:
    """Raises InvalidOption if a schema is invalid, refers to another document or causes too much work."""
    _compile_schema(schema, name)


def find_violations(value: JSON, schema: JSON, name: str = "the value") -> list[str]:
    """Every violation of `schema` by `value`, one line each; empty if there is none.

    The time is bounded: patterns match in linear time, and a value that causes too many evaluations is a violation.

    Raises:
        InvalidOption: the schema is invalid, see `check_schema`.
    """
    validator, counter = _compile_schema(schema, "the schema")
    try:
        count_nodes(value)  # before anything recurses into the value
        value = json.loads(json.dumps(value, default=dict, ensure_ascii=False).encode(errors="replace"))
        count, limit = counter.count(value)
    except TypeError:
        return [f"{name!r} must be JSON (got {shorten(repr(value), 80)})"]
    except InvalidOption as error:
        return [f"{name!r} cannot be validated: {error}"]
    if count > limit:
        return [f"{name!r} cannot be validated: the schema causes {count} evaluations (limit {limit})"]
    if validator.is_valid(value):
        return []
    if count > MAX_EVALUATIONS // 50 + (limit - MAX_EVALUATIONS) // 10:  # `iter_errors` is far slower than `is_valid`
        return [f"{name!r} does not match the schema"]
    errors = list(validator.iter_errors(value))
    described = [line for error in errors[:MAX_VIOLATIONS] for line in _describe_error(error, schema, name)]
    lines, more = list(dict.fromkeys(described)), len(errors) - MAX_VIOLATIONS
    return [*lines, f"... and {more} more"] if more > 0 else lines


def compile_pattern(expression: str) -> Callable[[str], bool]:
    """Whether a text has a match of a regular expression, in time linear in the text. Raises InvalidOption."""
    return _compile_schema({"pattern": expression}, "the regular expression")[0].is_valid


def _compile_schema(schema: JSON, name: str) -> tuple[Validator, EvaluationCounter]:
    try:
        return _compile_text(json.dumps(schema, default=dict))
    except InvalidOption as error:
        raise InvalidOption(f"{error.option} of {name}", error.value, error.expected) from None
    except (TypeError, ValueError, RecursionError) as error:
        expected = "a JSON object or a boolean, nested less than 200 deep"
        raise InvalidOption(name, type(schema).__name__, expected) from error


@lru_cache(maxsize=64)
def _compile_text(text: str) -> tuple[Validator, EvaluationCounter]:
    schema = json.loads(text)
    if not isinstance(schema, dict | bool):
        raise TypeError(text)
    from jsonschema_rs import RegexOptions, ValidationError, validator_for

    counter = EvaluationCounter(schema)
    try:
        validator = validator_for(
            schema, pattern_options=RegexOptions(), validate_formats=True, retriever=_refuse_document
        )
    except ValidationError as error:
        keyword = repr(".".join(map(str, error.instance_path)))
        raise InvalidOption(keyword, error.instance, _describe_keyword(error)) from None
    return validator, counter


def _refuse_document(uri: str, /) -> NoReturn:
    raise ValueError(f"{uri} is another document")


def _describe_keyword(error: ValidationError) -> str:
    """What a keyword of a schema must be: completes the sentence "KEYWORD must ..."."""
    keyword = error.instance_path[-1] if error.instance_path else ""
    if keyword == "type":
        return f"one of {', '.join(_TYPES)}, or a list of them{did_you_mean(str(error.instance), _TYPES)}"
    if keyword == "pattern":
        return "a regular expression, without look-around and backreferences"
    rule = _describe_rule(error)
    return rule.removeprefix("be ") if rule.startswith("be ") else f"valid: it must {rule}"


def _describe_error(error: ValidationError, schema: JSON, name: str) -> list[str]:
    path = _format_path(name, error.instance_path)
    where = repr(path) if path else "the value"
    from jsonschema_rs import ValidationErrorKind as kinds

    match error.kind:
        case kinds.AdditionalProperties(unexpected) | kinds.UnevaluatedProperties(unexpected):
            known = _known_properties(schema, error.schema_path)
            return [f"{where} has an unknown property {name!r}{did_you_mean(name, known)}" for name in unexpected]
        case kinds.AnyOf(context) | kinds.OneOfNotValid(context) if not _are_simple(context, error):
            closest = min(context, key=len)
            lines = [line for nested in closest for line in _describe_error(nested, schema, name)]
            return lines if len(context) == 1 else [f"{where} matches none of {len(context)} alternatives: {lines[0]}"]
        case kinds.Required(name):
            text = f"has no {name!r}"
        case kinds.FalseSchema():
            nothing = error.schema_path[-1:] == ["additionalProperties"]
            text = "has a property, but none is allowed" if nothing else "is not allowed"
        case kinds.PropertyNames(nested):
            text = f"has an invalid property name: {nested.instance!r} must {_describe_rule(nested)}"
        case _:
            text = f"must {_describe_rule(error)} (got {_describe_value(error)})"
    return [f"{where} {text}"]


def _describe_rule(error: ValidationError) -> str:
    """What the value must be, as a verb phrase: `be >= 1`."""
    from jsonschema_rs import ValidationErrorKind as kinds

    match error.kind:
        case kinds.Type(types):
            return f"be of type {' or '.join(types)}"
        case kinds.Enum(options):
            more = ", ..." if len(options) > _MAX_OPTIONS else ""
            return f"be one of {', '.join(shorten(repr(option), 80) for option in options[:_MAX_OPTIONS])}{more}"
        case kinds.Not(schema):
            return f"not match {shorten(json.dumps(schema), 80)}"
        case kinds.OneOfMultipleValid(context):
            return f"match exactly one of {len(context)} alternatives, not {context.count([])}"
        case kinds.AnyOf(context) | kinds.OneOfNotValid(context):
            return " or ".join(dict.fromkeys(_describe_rule(nested[0]) for nested in context if nested))
    keyword = error.schema_path[-1] if error.schema_path else ""
    return _RULES.get(str(keyword), f"satisfy {str(keyword)!r}").format_map(error.kind.as_dict())


def _are_simple(context: Sequence[Sequence[ValidationError]], error: ValidationError) -> bool:
    """Whether each alternative has one violation, and of this value itself: then all are named."""
    return all(len(nested) == 1 and nested[0].instance_path == error.instance_path for nested in context)


def _describe_value(error: ValidationError) -> str:
    value, keyword = error.instance, error.schema_path[-1] if error.schema_path else ""
    if isinstance(value, str | list | dict) and " have at " in f" {_RULES.get(str(keyword))}":
        return str(len(value))
    from jsonschema_rs import ValidationErrorKind

    text, kind = shorten(repr(value), 80), error.kind
    similar = closest_match(str(value), map(str, kind.options)) if isinstance(kind, ValidationErrorKind.Enum) else None
    return f"{text}, did you mean {similar!r}?" if similar else text


def _known_properties(schema: JSON, path: Sequence[str | int]) -> list[str]:
    """The properties that are declared beside the keyword at `path`."""
    node = json.loads(json.dumps(schema, default=dict))
    for step in path[:-1]:
        node = node[step]
    return list(node.get("properties", ()))


def _format_path(name: str, path: Sequence[str | int]) -> str:
    text = name
    for step in path:
        text += f"[{step}]" if isinstance(step, int) else f".{step}" if text else step
    return text
