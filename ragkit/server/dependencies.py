"""The context that the routes of one application share, as a FastAPI dependency."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, TypeAlias

from fastapi import Depends, Request

from ragkit.records import JSON
from ragkit.server.answer_tasks import AnswerRunner
from ragkit.server.base import ServedKnowledgeBase
from ragkit.server.concurrency import ConcurrencyLimiter
from ragkit.server.database import StateDatabase
from ragkit.server.http_errors import ErrorResponse, RequestRejected, invalid_request
from ragkit.server.metrics import Metrics
from ragkit.server.sessions import SessionStore
from ragkit.server.settings import ServerSettings
from ragkit.server.traces import TraceStore

DEFAULT_MODEL = "ragkit"
"""Model name in requests for the default: the first of the server's models, else that of the pipeline."""


@dataclass(frozen=True)
class AppContext:
    """One knowledge base and its services in one process."""

    kb: ServedKnowledgeBase
    settings: ServerSettings
    state: StateDatabase
    sessions: SessionStore
    traces: TraceStore
    runner: AnswerRunner
    metrics: Metrics
    embedding_limiter: ConcurrencyLimiter
    """Limits requests for embeddings, which would otherwise take every thread."""

    @property
    def models(self) -> Mapping[str, str | None]:
        """Model names that requests may use -> `provider:model`, or None for the default of the pipeline."""
        names = self.settings.models
        return {DEFAULT_MODEL: names[0] if names else None, **{name: name for name in names}}

    def resolve_model(self, name: str | None) -> str | None:
        """The `provider:model` of a name in a request. Raises RequestRejected for an unknown name.

        With the setting `any_model`, an unknown name is that of the default.
        """
        if name is None or (self.settings.any_model and name not in self.models):
            return self.models[DEFAULT_MODEL]
        if name not in self.models:
            message = (
                f"unknown model {name!r}; available: {', '.join(self.models)}"
                " (to accept any name, start the server with --any-model)"
            )
            raise RequestRejected(ErrorResponse(404, message, "model_not_found", param="model"))
        return self.models[name]

    def check_question(self, text: str, param: str) -> None:
        """Raises RequestRejected if a question is empty or too long."""
        limit = self.settings.limits.question_chars
        if not text.strip():
            raise invalid_request("the question is empty", param, "empty")
        if len(text) > limit:
            message = f"the text is too long: at most {limit} characters (got {len(text)})"
            raise invalid_request(message, param, "too_long")


async def get_context(request: Request) -> AppContext:
    """The context of the application. Asynchronous: FastAPI runs synchronous dependencies in a thread."""
    context = request.app.state.service
    assert isinstance(context, AppContext)  # noqa: S101 - set by `create_app`
    return context


ContextDep: TypeAlias = Annotated[AppContext, Depends(get_context)]
JsonObject: TypeAlias = dict[str, JSON]
