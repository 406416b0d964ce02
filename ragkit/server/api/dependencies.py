"""The context that the routes of one application share, as a FastAPI dependency."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Annotated, TypeAlias, TypeVar

from fastapi import Depends, Query, Request

from ragkit.knowledge_base.cost_estimate import embedder_name
from ragkit.knowledge_base.knowledge_base import KnowledgeBase
from ragkit.knowledge_base.session import Session
from ragkit.records import JSON
from ragkit.server.answering.answer_tasks import AnswerRunner
from ragkit.server.bases import BASE_KEY
from ragkit.server.concurrency import ConcurrencyLimiter, run_in_thread
from ragkit.server.http_errors import ErrorResponse, RequestRejected, invalid_request
from ragkit.server.metrics import Metrics
from ragkit.server.principals import CURRENT, check_base, visible_kbs
from ragkit.server.readiness import ReadinessCheck
from ragkit.server.settings import ServerSettings
from ragkit.server.state.database import StateDatabase
from ragkit.server.state.job_store import JobStore
from ragkit.server.state.jobs import JobRunner
from ragkit.server.state.sessions import SessionStore
from ragkit.server.state.shares import ShareStore
from ragkit.server.state.traces import TraceStore
from ragkit.server.state.uploads import UploadFolder
from ragkit.usage.meter import Meter

T = TypeVar("T")

DEFAULT_MODEL = "ragkit"
"""Model name in requests for the default: the first of the server's models, else that of the pipeline."""


@dataclass(frozen=True)
class AppContext:
    """One knowledge base and its services in one process."""

    kb: KnowledgeBase
    settings: ServerSettings
    state: StateDatabase
    sessions: SessionStore
    traces: TraceStore
    runner: AnswerRunner
    metrics: Metrics
    embedding_limiter: ConcurrencyLimiter
    """Limits requests for embeddings, which would otherwise take every processor."""
    search_limiter: ConcurrencyLimiter
    """Limits searches, and reads of documents and of the status."""
    readiness: ReadinessCheck
    """Whether the knowledge base can be searched."""
    uploads: UploadFolder
    upload_limiter: ConcurrencyLimiter
    """Limits uploads."""
    jobs: JobStore
    job_runner: JobRunner
    drawing_limiter: ConcurrencyLimiter
    """Limits the pages of files that are drawn at the same time, each in a process of its own."""

    shares: ShareStore
    name: str = ""
    """Its name among the knowledge bases of the server; empty for one without a name."""
    bases: Mapping[str, AppContext] = field(default_factory=dict, repr=False)
    """All knowledge bases of the server by name, this one among them; the first is the default."""

    def select(self, model: str | None) -> tuple[AppContext, str | None]:
        """The knowledge base that a model name chooses, and the name without it: `ragkit/NAME[/provider:model]`.

        Raises RequestRejected for an unknown knowledge base.
        """
        prefix, slash, rest = (model or "").partition("/")
        if prefix != DEFAULT_MODEL or not slash or not self.bases:
            return self, model
        name, _, model = rest.partition("/")
        return self.find_kb(name), model or None

    def find_kb(self, name: str) -> AppContext:
        """The knowledge base with this name. Raises RequestRejected."""
        if name not in self.bases:
            known = visible_kbs(self.bases)
            available = f"; available: {', '.join(known)}" if known else ""
            message = f"knowledge base {name[:80]!r} not found{available}"
            raise RequestRejected(ErrorResponse(404, message, "kb_not_found", param="kb"))
        check_base(CURRENT.get(), name)
        return self.bases[name]

    @property
    def models(self) -> Mapping[str, str | None]:
        """Model names that requests may use -> `provider:model`, or None for the default of the pipeline."""
        names = self.settings.models
        return {DEFAULT_MODEL: names[0] if names else None, **{name: name for name in names}}

    async def read(self, work: Callable[[Session], T]) -> T:
        """The result of `work` in a session of the knowledge base, in a thread; see `run`."""

        def read_in_session() -> T:
            with self.kb.session() as session:
                return work(session)

        return await self.run(read_in_session)

    async def run(self, work: Callable[[], T]) -> T:
        """The result of `work` in a thread. Raises RequestRejected if it must wait for too many others."""
        async with self.search_limiter.slot():
            return await run_in_thread(work)

    @property
    def embedder_name(self) -> str:
        """`provider:model` of the embedder, or its fingerprint."""
        return embedder_name(self.kb.components.embedder)

    def create_meter(self, command: str) -> Meter:
        """A meter that records its calls in the ledger under `command`."""
        return self.kb.location.create_meter(command, self.kb.pipeline.name)

    def resolve_model(self, name: str | None) -> str | None:
        """The `provider:model` of a name in a request. Raises RequestRejected for an unknown name.

        With the setting `any_model`, an unknown name is that of the default.
        """
        if name is None or (self.settings.any_model and name not in self.models):
            return self.models[DEFAULT_MODEL]
        if name not in self.models:
            known = f"available: {', '.join(self.models)}"
            message = (
                f"the model {name!r} embeds texts, it does not answer; {known}"
                if name == self.embedder_name
                else f"unknown model {name!r}; {known} (to accept any name: ragkit serve --accept-unknown-models)"
            )
            raise RequestRejected(ErrorResponse(404, message, "model_not_found", param="model"))
        return self.models[name]

    def check_question(self, text: str, param: str) -> None:
        """Raises RequestRejected if a question is empty or too long."""
        limit = self.settings.limits.question_chars
        if not text.strip():
            raise invalid_request("the question is empty", param, "empty")
        if len(text) > limit:
            message = (
                f"the question is too long: at most {limit} characters (got {len(text)});"
                " to allow more, start the server with --max-question"
            )
            raise invalid_request(message, param, "too_long")


KbName = Annotated[
    str | None,
    Query(
        max_length=40, description="Name of a knowledge base of the server; `/kb/NAME` before the path does the same."
    ),
]


async def get_context(request: Request, kb: KbName = None) -> AppContext:
    """The chosen knowledge base. Asynchronous: FastAPI runs synchronous dependencies in a thread."""
    context = request.app.state.service
    assert isinstance(context, AppContext)  # noqa: S101 - set by `create_app`
    in_path = request.scope.get(BASE_KEY)
    if kb is not None and in_path not in (None, kb):
        raise invalid_request(f"kb must be {in_path}, as in the path (got {kb})", "kb")
    name = in_path if kb is None else kb
    if name is None:
        check_base(CURRENT.get(), context.name)
        return context
    return context.find_kb(name)


ContextDep: TypeAlias = Annotated[AppContext, Depends(get_context)]
JsonObject: TypeAlias = dict[str, JSON]
