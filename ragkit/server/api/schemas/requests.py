"""The bodies of requests, and what routes share.

Requests are pydantic models, responses TypedDicts: responses are described, not validated.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, model_validator
from pydantic_core import PydanticCustomError

from ragkit.records import SearchMode

Id = Annotated[str, Field(max_length=100)]
Label = Annotated[str, Field(max_length=50)]
Filter = dict[str, Any]
"""A filter as JSON."""

EVENT_STREAM_RESPONSE: dict[str, Any] = {
    # no `type`: OpenAPI 3.1 cannot say whether it is that of the stream or of each event, and tools differ
    "content": {"text/event-stream": {"schema": {"description": "Server-sent events, each a name and a JSON object"}}}
}
"""The response of routes that can also stream server-sent events."""


class UnicodeBody(BaseModel):
    """A request body whose texts can be encoded: JSON can escape halves of characters, which UTF-8 cannot hold."""

    @model_validator(mode="before")
    @classmethod
    def check_texts(cls, data: object) -> object:
        """Rejects lone surrogates, at every depth."""
        if has_lone_surrogate(data):
            raise PydanticCustomError("lone_surrogate", "a text has a lone surrogate: send valid Unicode")
        return data


class RequestBody(UnicodeBody):
    """A request body. Unknown keys are errors, so that a typo is not ignored."""

    model_config = ConfigDict(extra="forbid")


def has_lone_surrogate(data: object) -> bool:
    """Whether a text in JSON data cannot be encoded."""
    if isinstance(data, str):
        try:
            data.encode()  # faster than a look at each character: bodies may be long
        except UnicodeEncodeError:
            return True
        return False
    if isinstance(data, dict):
        return any(has_lone_surrogate(item) for pair in data.items() for item in pair)
    return isinstance(data, list) and any(map(has_lone_surrogate, data))


FeedbackReason: TypeAlias = Literal["wrong", "incomplete", "missing", "unanswerable", "other"]


class ChatBody(RequestBody):
    """A message to a session; without `session_id`, to a new one."""

    message: str | None = Field(None, description="The question.")
    messages: list[ChatMessageBody] | None = Field(
        None,
        description="Instead of `message`: a conversation that ends with a question. Its system messages are added to "
        "the instructions.",
    )
    session_id: Id | None = Field(None, description="The session to continue.")
    where: Filter | str | None = Field(
        None, description="A filter on metadata, as JSON or in the syntax of the command line."
    )
    source: str = Field("", max_length=4000, description="Only this file, folder or URL. Empty: all documents.")
    top_k: int | None = Field(None, ge=1, description="Passages per search.")
    model: str | None = Field(
        None, max_length=200, description="`ragkit` for the pipeline's model, or a name from `GET /v1/models`."
    )
    temperature: float | None = Field(None, ge=0, le=2, description="Sampling temperature of the model.")
    top_p: float | None = Field(None, ge=0, le=1, description="Nucleus sampling: the probability mass to sample from.")
    max_tokens: int | None = Field(
        None, ge=1, description="Maximum tokens of the answer, at most the pipeline's limit."
    )
    strict: bool | None = Field(
        None, description="Fail with 422 if the documents do not support the answer. Default: the pipeline's."
    )
    stream: bool = Field(False, description="Stream the answer as server-sent events.")
    background: bool = Field(
        False,
        description="With `stream`: go on with the answer when the client disconnects. `POST /session/stop` ends it, "
        "`GET /session/{session_id}` has its text.",
    )
    replace: Id | None = Field(
        None,
        description="The `trace_id` of an answer of the session: its question and all messages after it are deleted "
        "first. To edit a question, or to ask it again.",
    )


class FeedbackBody(RequestBody):
    """What a reader says about an answer."""

    message_id: Id = Field(description="The id of the answer.")
    rating: Literal["up", "down"] | None = Field(description="Good or bad; null: takes an earlier rating back.")
    reason: FeedbackReason | None = Field(
        None,
        description="What is bad: `wrong`, `incomplete`, `missing` (the documents contain an answer), `unanswerable` "
        "(they contain none), `other`.",
    )
    note: str = Field("", max_length=2000, description="In words.")


class ChatMessageBody(RequestBody):
    """A message of a conversation."""

    role: Literal["system", "user", "assistant"]
    content: str = Field(description="The text.")


class StartSessionBody(RequestBody):
    """Options of a new session."""

    title: str = Field("", max_length=1000, description="The title. Default: the first question.")


class EndSessionBody(RequestBody):
    """The session to end."""

    session_id: Id = Field(description="The id of the session.")


class StopAnswerBody(RequestBody):
    """The session whose running answer is to stop."""

    session_id: Id = Field(description="The id of the session.")


class ChangeSessionBody(RequestBody):
    """What to change of a session. Null: as it is."""

    title: str | None = Field(
        None, min_length=1, max_length=1000, pattern=r"\S", description="The new title, on one line."
    )
    labels: list[Label] | None = Field(
        None, max_length=20, description="All labels from now on: words of one's own, to find the session in the list."
    )
    note: str | None = Field(None, max_length=4000, description="A note on the session; no model reads it.")


class SearchBody(RequestBody):
    """A search request."""

    query: str = Field(description="A question or keywords.")
    top_k: int | None = Field(None, ge=1, description="Number of passages.")
    where: Filter | str | None = Field(
        None, description="A filter on metadata, as JSON or in the syntax of the command line."
    )
    mode: SearchMode | None = Field(None, description="The search mode. Default: the pipeline's.")
    explain: bool = Field(False, description="Add `explain` to each hit.")
