"""The body of errors.

It is a model: FastAPI builds its schema for every route and status, which takes 1 ms for a TypedDict and 0.1 ms for a
model.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, Field
from typing_extensions import TypedDict


class ErrorDetail(TypedDict):
    """An error in OpenAI's format."""

    message: Annotated[str, Field(description="What is wrong, and what is allowed.")]
    type: Annotated[str, Field(description="The kind of error, as in OpenAI's API.")]
    param: Annotated[str | None, Field(description="The invalid field.")]
    code: Annotated[str, Field(description="The error code.")]


class ErrorSchema(BaseModel):
    """The body of every error response."""

    error: ErrorDetail
