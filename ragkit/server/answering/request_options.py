"""Options of a request, and the agent that applies them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from ragkit.agent.messages import Message
from ragkit.agent.observers import AgentObserver
from ragkit.agent.policy import ToolPolicy
from ragkit.agent.tools.base import Tool
from ragkit.answer.agent import RAGAgent
from ragkit.answer.extractive.provider import ExtractiveProvider
from ragkit.knowledge_base.knowledge_base import KnowledgeBase
from ragkit.records import JSON, Where
from ragkit.server.http_errors import invalid_request
from ragkit.server.settings import ServerLimits


@dataclass(frozen=True, slots=True)
class RequestOptions:
    """Options of a request. None: the value of the pipeline."""

    model: str | None = None
    """`provider:model`, one of the server's models."""
    where: Where = None
    top_k: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    max_tokens: int | None = None
    instructions: str = ""
    """Wishes of the caller, below the rules of the system prompt."""
    tools: tuple[Tool, ...] = ()
    """Tools of the caller: the run is suspended when the model calls one."""
    response_schema: Mapping[str, JSON] | None = None
    """JSON Schema of the answer."""
    strict: bool | None = None
    """Whether an answer that the documents do not support is an error."""
    stop: tuple[str, ...] = ()
    """The answer ends before the first of these texts."""
    needs_model: str = ""
    """What in the request only a model can do, for the error without one; empty: nothing."""


DEFAULT_TEMPERATURE = 0.7
"""The specification's, the same on every endpoint."""
_TOOL_INSTRUCTIONS = "When a question needs no documents but one of these tools, answer it with them alone: {}."


def find_temperature(kb: KnowledgeBase, options: RequestOptions) -> float:
    """That of the request, else of the pipeline, else 0.7."""
    given = kb.pipeline.answer.temperature if options.temperature is None else options.temperature
    return DEFAULT_TEMPERATURE if given is None else given


def create_agent(
    kb: KnowledgeBase,
    options: RequestOptions,
    question: str,
    limits: ServerLimits,
    tools: tuple[Tool, ...] = (),
    observers: tuple[AgentObserver, ...] = (),
) -> RAGAgent:
    """The agent that answers a request, within the server's limits. `tools`: of the server, beside the search.

    Raises:
        KnowledgeBaseError: the knowledge base cannot be searched.
        BudgetTooSmall: the estimated cost exceeds the budget.
        RequestRejected: the request needs a model, and there is none.
    """
    with kb.session() as session:
        session.require_ready()
    base = kb.agent(options.model)
    if options.needs_model and answers_without_model(base):
        message = f"{options.needs_model} needs a model: start the server with --model PROVIDER:MODEL"
        raise invalid_request(message, options.needs_model.split()[0], "model_required")
    cost_limits = [usd for usd in (base.config.limits.max_cost_usd, limits.answer_usd) if usd is not None]
    config = replace(
        base.config,
        temperature=find_temperature(kb, options),
        top_p=base.config.top_p if options.top_p is None else options.top_p,
        max_iterations=limits.max_iterations,
        max_tokens=min(options.max_tokens or base.config.max_tokens, base.config.max_tokens),
        limits=replace(
            base.config.limits, max_cost_usd=min(cost_limits, default=None), max_seconds=limits.answer_seconds
        ),
        policy=ToolPolicy(review=[tool.name for tool in options.tools]) if options.tools else None,
        response_format=options.response_schema,
        observers=(*base.config.observers, *observers),
    )
    names = ", ".join(tool.name for tool in tools)
    parts = [base.options.instructions, _TOOL_INSTRUCTIONS.format(names) if names else ""]
    rag_options = replace(
        base.options,
        top_k=min(options.top_k or kb.components.top_k, limits.top_k),
        max_top_k=min(base.options.max_top_k, limits.top_k),
        where=options.where,
        instructions="\n".join(part for part in parts if part),
        extra_instructions="\n".join(part for part in (base.options.extra_instructions, options.instructions) if part),
        tools=(*tools, *options.tools),
        strict=base.strict if options.strict is None else options.strict,
    )
    agent = RAGAgent(kb, base.provider, config, rag_options)
    with kb.session() as session:
        session.check_budget(agent, question)
    return agent


def answers_without_model(agent: RAGAgent) -> bool:
    """Whether answers are quoted from the documents."""
    return isinstance(agent.provider, ExtractiveProvider)


def last_user_message(messages: tuple[Message, ...]) -> str:
    """The content of the last user message; empty if there is none."""
    return next((message.content for message in reversed(messages) if message.role == "user"), "")
