"""What the routes of one application share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, TypeAlias

from fastapi import Depends, Request

from ragkit.records import JSON
from ragkit.server.answer_tasks import AnswerRunner
from ragkit.server.base import ServedKnowledgeBase
from ragkit.server.database import StateDatabase
from ragkit.server.http_errors import ErrorResponse, RequestRejected, invalid_request
from ragkit.server.metrics import Metrics
from ragkit.server.sessions import SessionStore
from ragkit.server.settings import ServerSettings
from ragkit.server.traces import TraceStore

DEFAULT_MODEL = "ragkit"
"""The name under which requests choose what the pipeline, or the first of the server's models, says."""


@dataclass(frozen=True)
class AppContext:
    """One knowledge base being served by one process."""

    kb: ServedKnowledgeBase
    settings: ServerSettings
    state: StateDatabase
    sessions: SessionStore
    traces: TraceStore
    runner: AnswerRunner
    metrics: Metrics

    @property
    def models(self) -> Mapping[str, str | None]:
        """The models that requests may name -> the name that the knowledge base knows."""
        chosen = self.settings.models
        return {DEFAULT_MODEL: chosen[0] if chosen else None, **{name: name for name in chosen}}

    def resolve_model(self, name: str | None) -> str | None:
        """What the knowledge base knows a model as. Raises RequestRejected."""
        if name is None:
            return self.models[DEFAULT_MODEL]
        if name not in self.models:
            known = ", ".join(self.models)
            raise RequestRejected(ErrorResponse(404, f"there is no model of that name here; known: {known}", "model_not_found",
                                param="model"))  # fmt: skip
        return self.models[name]

    def check_question(self, text: str, param: str) -> None:
        """Raises RequestRejected for a question that is empty or too long."""
        limit = self.settings.limits.question_chars
        if not text.strip():
            raise invalid_request("ask something: there are no words in it", param, "empty")
        if len(text) > limit:
            raise invalid_request(f"it has {len(text)} characters, and {limit} is the most", param, "too_long")


async def get_context(request: Request) -> AppContext:
    """The service that a request is for. Asynchronous, since FastAPI gives every other one to a thread to call."""
    found = request.app.state.service
    assert isinstance(found, AppContext)  # noqa: S101 - put there by `create_app`
    return found


ContextDep: TypeAlias = Annotated[AppContext, Depends(get_context)]
JsonObject: TypeAlias = dict[str, JSON]
