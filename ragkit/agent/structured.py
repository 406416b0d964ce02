"""Answers of a given form: a pydantic model or a JSON Schema, read from what the model wrote."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, TypeAlias

from ragkit.agent.parser import balanced, read_object
from ragkit.agent.tools.jsonschema import violations
from ragkit.agent.tools.schema import plain_schema
from ragkit.errors import RagkitError
from ragkit.records import JSON

if TYPE_CHECKING:
    from pydantic import BaseModel

ResponseFormat: TypeAlias = "type[BaseModel] | Mapping[str, JSON]"
"""A pydantic model, or a JSON Schema."""


class AnswerInvalid(RagkitError):
    """A model's answer has not the form that was asked for. The message says what is wrong."""


def schema_of(form: ResponseFormat) -> Mapping[str, JSON]:
    """The JSON Schema of a form, with references written out."""
    return plain_schema(form if isinstance(form, Mapping) else form.model_json_schema())


def read_answer(text: str, form: ResponseFormat) -> object:
    """The object that an answer holds: an instance of the pydantic model, or parsed JSON for a schema.

    The object may stand in a fence or between words. Raises AnswerInvalid.
    """
    starts = [place for place in (text.find("{"), text.find("[")) if place >= 0]
    value = read_object(balanced(text, min(starts))) if starts else read_object(text) if text.strip() else None
    if isinstance(form, Mapping):
        problems = violations(value, form, "the answer")
        if problems:
            raise AnswerInvalid("; ".join(problems))
        return value
    from pydantic import ValidationError  # noqa: PLC0415 - only agents with a pydantic model pay for it

    try:
        return form.model_validate(value)
    except ValidationError as error:
        raise AnswerInvalid("; ".join(_line(one["loc"], one["msg"]) for one in error.errors())) from error


def repair_prompt(error: AnswerInvalid) -> str:
    """What is asked when an answer has not the right form."""
    return f"Your answer has not the form that was asked for: {error}. Answer again, with the corrected JSON only."


def _line(place: tuple[int | str, ...], message: str) -> str:
    return f"{'.'.join(map(str, place)) or 'the answer'}: {message}"
