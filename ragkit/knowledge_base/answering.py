"""Answers questions from a session of a knowledge base: with a model in the agent loop, without one in a line."""

from __future__ import annotations

import sys
from collections.abc import AsyncGenerator, Callable, Generator, Sequence
from contextlib import aclosing
from dataclasses import replace
from typing import TYPE_CHECKING

from ragkit.agent.providers.credentials import is_any_configured
from ragkit.knowledge_base.cost_estimate import check_estimate, embedder_name, embedding_cost, lowest_limit
from ragkit.knowledge_base.filters import Where, read_filter
from ragkit.knowledge_base.location import Location
from ragkit.knowledge_base.question_options import QuestionOptions
from ragkit.knowledge_base.session import Session
from ragkit.pipeline.assemble import PipelineComponents
from ragkit.retrieve.options import validate_top_k
from ragkit.usage.limits import Limits
from ragkit.usage.meter import Meter
from ragkit.usage.pricing import PriceBook

if TYPE_CHECKING:  # an answer without a model loads no agent
    from ragkit.agent.loop.context_window import ContextWindow
    from ragkit.agent.memory.memory import ConversationMemory
    from ragkit.agent.tools.base import Tool, ToolCallable
    from ragkit.answer.agent import RAGAgent
    from ragkit.answer.answer_events import AnswerEvent
    from ragkit.answer.base import Answer, Searchable
    from ragkit.answer.summaries import SummaryPlan


EXTRACTIVE = "extractive"
"""The provider without a model."""
LOCAL_TIMEOUT_S = 600.0
"""Seconds to the next byte of a model on a machine of one's own: without a GPU it reads long prompts slowly."""


class Answering:
    """The answers of one knowledge base."""

    def __init__(self, components: PipelineComponents, location: Location) -> None:
        """Every answer writes to the cost ledger of `location`."""
        self._components = components
        self._pipeline = components.pipeline
        self._location = location
        self._window: ContextWindow | None = None
        """Shared by all agents, since it learns the windows of models whose services say them in errors."""

    def ask(
        self,
        session: Session,
        question: str,
        options: QuestionOptions,
        on_text: Callable[[str], None] | None = None,
        on_restart: Callable[[], None] | None = None,
    ) -> Answer:
        """See `KnowledgeBase.ask`."""
        if not self.needs_model(options):
            answer = self._quote(session, question, options)
            if on_text is not None:
                on_text(answer.text)
            return answer
        agent = self.prepare(session, question, options)
        return agent.ask(question, on_text=on_text, on_restart=on_restart)

    async def aask(self, session: Session, question: str, options: QuestionOptions) -> Answer:
        """See `KnowledgeBase.aask`."""
        import asyncio

        if not self.needs_model(options):
            return await asyncio.to_thread(self._quote, session, question, options)
        agent = await asyncio.to_thread(self.prepare, session, question, options)
        result = await agent.arun(question)
        return await asyncio.to_thread(agent.build_answer, question, result)

    def stream(self, session: Session, question: str, options: QuestionOptions) -> Generator[AnswerEvent, None, None]:
        """See `KnowledgeBase.stream`."""
        if self.needs_model(options):
            yield from self.prepare(session, question, options).stream_answer(question)
        else:
            yield from self._quoted_events(session, question, options)

    async def astream(
        self, session: Session, question: str, options: QuestionOptions
    ) -> AsyncGenerator[AnswerEvent, None]:
        """See `KnowledgeBase.astream`."""
        import asyncio

        if not self.needs_model(options):
            for event in await asyncio.to_thread(self._quoted_events, session, question, options):
                yield event
            return
        agent = await asyncio.to_thread(self.prepare, session, question, options)
        async with aclosing(agent.astream_answer(question)) as events:
            async for event in events:
                yield event

    def _quoted_events(self, session: Session, question: str, options: QuestionOptions) -> list[AnswerEvent]:
        from ragkit.answer.answer_events import AnswerTextDelta, last_events

        answer = self._quote(session, question, options)
        return [AnswerTextDelta(answer.text), *last_events(answer)]

    def needs_model(self, options: QuestionOptions) -> bool:
        """Whether a model may answer, by its name and the environment; the package of a service may be missing."""
        name = options.model or self._pipeline.answer.provider
        return name != EXTRACTIVE and (name != "auto" or is_any_configured())

    def prepare(self, session: Session, question: str, options: QuestionOptions) -> RAGAgent:
        """The agent for one question, whose cost was checked."""
        session.require_ready()
        condition = session.create_filter(options.where, options.source)
        agent = self.create_agent(session, options, condition)
        session.check_budget(agent, question, known=options.max_cost_usd is not None)
        return agent

    def _quote(self, session: Session, question: str, options: QuestionOptions) -> Answer:
        """The answer without a model."""
        from ragkit.answer.extractive.answer import ExtractiveOptions, answer_question

        session.require_ready()
        settings, embedder = self._pipeline.answer, self._components.embedder
        extractive = ExtractiveOptions(
            self._top_k(options), session.create_filter(options.where, options.source), settings.passages_budget
        )
        record = self._location.ledger.call_recorder("ask", self._pipeline.name)
        if embedding_cost(embedder, 1) == 0:
            return answer_question(session, question, extractive, Meter(on_call=record))
        limit = settings.max_cost_usd if options.max_cost_usd is None else options.max_cost_usd
        cost = session.estimate_search_cost(question)
        check_estimate(embedder_name(embedder), cost, lowest_limit(limit), known=options.max_cost_usd is not None)
        meter = Meter(PriceBook.from_price_files(), budget_usd=limit, on_call=record)
        return answer_question(session, question, extractive, meter)

    def summarize(
        self, session: Session, name: str, options: QuestionOptions, on_plan: Callable[[SummaryPlan], None]
    ) -> Answer:
        """See `KnowledgeBase.summarize`."""
        from ragkit.answer.extractive.answer import quoted_answer
        from ragkit.answer.extractive.whole.look_up import find_document, summarize_extract

        session.require_ready()
        source = find_document(session, name)
        record = self._location.ledger.call_recorder("summarize", self._pipeline.name)
        agent = self.create_agent(session, options) if self.needs_model(options) else None
        if agent is None or agent.provider.name == EXTRACTIVE or not session.chunks_between(source, 0, sys.maxsize):
            extract = summarize_extract(session, source)
            return quoted_answer(f"Summarize {name}", extract, session, Meter(on_call=record))
        from ragkit.answer.summaries import ModelSummary

        limit = agent.config.limits.max_cost_usd
        summary = ModelSummary(session, source, agent.provider, replace(agent.config, limits=Limits(), on_call=record))
        plan = summary.plan()
        on_plan(plan)
        check_estimate(plan.model, plan.cost_usd, lowest_limit(limit), known=options.max_cost_usd is not None)
        return summary.write(Meter(agent.config.prices, budget_usd=limit, on_call=record))

    def create_agent(
        self,
        documents: Searchable,
        options: QuestionOptions,
        where: Where = None,
        memory: ConversationMemory | None = None,
        tools: Sequence[Tool | ToolCallable] = (),
    ) -> RAGAgent:
        """The agent that answers from `documents`: the knowledge base, or a session of it.

        Args:
            documents: what it searches.
            options: `model`, `max_cost_usd` and `top_k` apply.
            where: a metadata filter that applies to every search.
            memory: the conversation that it continues, if any.
            tools: tools in addition to `search_knowledge_base`.
        """
        from ragkit.agent.loop.config import AgentConfig
        from ragkit.agent.loop.context_window import ContextWindow
        from ragkit.answer.agent import RAGAgent, RAGOptions
        from ragkit.knowledge_base.answer_provider import model_name, resolve_answer_provider

        answer = self._pipeline.answer
        name = options.model or answer.provider
        provider = resolve_answer_provider(name, documents)
        limit = answer.max_cost_usd if options.max_cost_usd is None else options.max_cost_usd
        has_cost = provider.remote or embedding_cost(self._components.embedder, 1) != 0
        if self._window is None:
            self._window = ContextWindow(answer.context_window)
        config = AgentConfig(
            model=model_name(name),
            temperature=answer.temperature or 0.0,
            max_tokens=answer.max_tokens,
            context_window=self._window,
            max_iterations=answer.max_iterations,
            request_timeout_s=LOCAL_TIMEOUT_S if provider.writes_calls else AgentConfig.request_timeout_s,
            on_max_iterations="answer",
            limits=Limits(max_cost_usd=limit) if has_cost else Limits(),
            prices=PriceBook.from_price_files() if has_cost else PriceBook(),
            on_call=self._location.ledger.call_recorder("ask" if memory is None else "chat", self._pipeline.name),
            # a service with native tool calls never writes them into its text, as documents may do
            text_tool_calls=not provider.native_tools or provider.writes_calls,
        )
        rag_options = RAGOptions(
            self._top_k(options),
            document_tools=answer.tools,
            where=read_filter(where),
            extra_instructions=answer.instructions,
            passages=answer.passages,
            passages_budget=answer.passages_budget,
            tools=tools,
            search=answer.search,
            strict=answer.strict,
        )
        return RAGAgent(documents, provider, config, rag_options, memory)

    def _top_k(self, options: QuestionOptions) -> int:
        return validate_top_k(self._components.top_k if options.top_k is None else options.top_k)
