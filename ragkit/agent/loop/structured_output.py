"""Structured output: parse the model's answer and validate it against a pydantic model or a JSON Schema."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, TypeAlias

from ragkit.agent.providers.parser import extract_balanced, next_bracket, parse_lenient_json
from ragkit.agent.tools.function_schema import inline_references
from ragkit.agent.tools.schema_validator import check_schema, find_violations
from ragkit.errors import RagkitError
from ragkit.records import JSON

if TYPE_CHECKING:
    from pydantic import BaseModel

ResponseFormat: TypeAlias = "type[BaseModel] | Mapping[str, JSON]"
"""A pydantic model, or a JSON Schema."""


class InvalidStructuredOutput(RagkitError):
    """A model's answer does not match the response format. The message lists the violations."""


def to_json_schema(form: ResponseFormat) -> Mapping[str, JSON]:
    """The JSON Schema of a response format, with references written out. Raises InvalidOption for an invalid schema."""
    if isinstance(form, Mapping):
        check_schema(form, "response_format")
    return inline_references(form if isinstance(form, Mapping) else form.model_json_schema())


def parse_structured_output(text: str, form: ResponseFormat) -> object:
    """Parse an answer: an instance of the pydantic model, or JSON for a schema.

    The JSON may be in a fence or inside text. Raises InvalidStructuredOutput.
    """
    start = next_bracket(text)
    source = extract_balanced(text, start) if start >= 0 else text
    value = parse_lenient_json(source) if source.strip() else None
    if isinstance(form, Mapping):
        problems = find_violations(value, form, "the answer")
        if problems:
            raise InvalidStructuredOutput("; ".join(problems))
        return value
    from pydantic import ValidationError  # noqa: PLC0415 - needed for pydantic models only

    try:
        return form.model_validate(value)
    except ValidationError as error:
        lines = [f"{'.'.join(map(str, detail['loc'])) or 'the answer'}: {detail['msg']}" for detail in error.errors()]
        raise InvalidStructuredOutput("; ".join(lines)) from error


def build_repair_prompt(error: InvalidStructuredOutput) -> str:
    """The repair request after an invalid answer."""
    return f"Your answer does not match the required format: {error}. Answer again with the corrected JSON only."
