"""How a request wants its answer, and the agent that answers so."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from ragkit.agent.messages import Message
from ragkit.agent.policy import ToolPolicy
from ragkit.agent.tools.base import Tool
from ragkit.answer.agent import INSTRUCTIONS, RAGAgent, RAGOptions
from ragkit.answer.base import Where
from ragkit.records import JSON
from ragkit.server.base import ServedKnowledgeBase
from ragkit.server.filtered_searcher import FilteredSearcher
from ragkit.server.settings import ServerLimits


@dataclass(frozen=True, slots=True)
class RequestOptions:
    """How a request wants its answer. None: as the pipeline says."""

    model: str | None = None
    """`provider:model`, one of those that the server offers."""
    where: Where = None
    top_k: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    max_tokens: int | None = None
    instructions: str = ""
    """What the caller adds to ours."""
    tools: tuple[Tool, ...] = ()
    """The caller's own: the run is suspended when the model calls one."""
    response_schema: Mapping[str, JSON] | None = None
    """JSON Schema that the answer must keep."""


def create_agent(kb: ServedKnowledgeBase, wishes: RequestOptions, question: str, limits: ServerLimits) -> RAGAgent:
    """The agent that answers a request, within the server's limits.

    Raises:
        KnowledgeBaseError: there is nothing to search.
        BudgetTooSmall: the answer is likely to cost more than it may.
    """
    kb.require_ready()
    base = kb.agent(wishes.model)
    usd = [one for one in (base.config.limits.max_cost_usd, limits.answer_usd) if one is not None]
    config = replace(
        base.config,
        temperature=base.config.temperature if wishes.temperature is None else wishes.temperature,
        top_p=base.config.top_p if wishes.top_p is None else wishes.top_p,
        max_tokens=min(wishes.max_tokens or base.config.max_tokens, base.config.max_tokens),
        limits=replace(base.config.limits, max_cost_usd=min(usd, default=None), max_seconds=limits.answer_seconds),
        policy=ToolPolicy(review=[tool.name for tool in wishes.tools]) if wishes.tools else None,
        response_format=wishes.response_schema,
    )
    added = f"\n{wishes.instructions}" if wishes.instructions else ""
    options = RAGOptions(min(wishes.top_k or kb.top_k, limits.top_k), None, INSTRUCTIONS + added, wishes.tools)
    agent = RAGAgent(FilteredSearcher(kb, wishes.where, limits.top_k), base.provider, config, options)
    kb.check_budget(agent, question)
    return agent


def last_user_message(messages: tuple[Message, ...]) -> str:
    """What the user said last."""
    return next((one.content for one in reversed(messages) if one.role == "user"), "")
