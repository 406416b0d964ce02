"""The models of `ragkit eval` that judge answers and write questions, with their budget and cache."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from ragkit.agent.cache.disk import DiskCache
from ragkit.agent.providers import PROVIDERS
from ragkit.agent.providers.base import Provider
from ragkit.agent.providers.lookup import detect_provider, get_provider
from ragkit.cli.common import CliContext
from ragkit.cli.costs import format_usd
from ragkit.errors import BudgetExceeded, PriceUnknown, RagkitError, UnknownName
from ragkit.evaluate.judge import Judge
from ragkit.evaluate.model_questions import QuestionWriter
from ragkit.evaluate.questions import Question
from ragkit.evaluate.rule_questions import OFF_TOPIC_SHARE, generate_off_topic_questions
from ragkit.evaluate.run import QuestionResult
from ragkit.evaluate.structured_model import StructuredModel
from ragkit.index.sources.ids import display_name
from ragkit.knowledge_base.answer_provider import AUTO, EXTRACTIVE, model_name
from ragkit.knowledge_base.knowledge_base import KnowledgeBase
from ragkit.lexical.analyzer import extract_terms
from ragkit.records import JSON
from ragkit.usage.ledger import FILE_NAME, Ledger
from ragkit.usage.meter import Meter, use_meter
from ragkit.usage.tokens import Tokens

CACHE_FILE = "judged.sqlite"
"""Cache of model responses, in the directory of the knowledge base."""


@dataclass
class EvalModels:
    """The models of one run, with one budget."""

    context: CliContext
    meter: Meter
    judge: Judge | None = None
    writer: QuestionWriter | None = None
    budget_error: BudgetExceeded | None = None
    """Why judging stopped early."""
    unjudged_count: int = field(default=0)

    def write_questions(self, kb: KnowledgeBase, count: int, seed: int) -> list[Question]:
        """Questions written by the model, with a share of OFF_TOPIC_SHARE that the documents do not answer."""
        assert self.writer is not None  # noqa: S101 - set by --question-model
        off_topic = round(count * OFF_TOPIC_SHARE)
        with kb.session() as session:
            chunks, documents = list(session.chunks()), session.texts()
        with use_meter(self.meter):
            questions = self.writer.write(chunks, count - off_topic, seed)
        self._log_dropped()
        return [
            *(question.with_display_sources(display_name) for question in questions),
            *generate_off_topic_questions(documents, extract_terms, off_topic, seed),
        ]

    def judge_outcome(self, outcome: QuestionResult) -> QuestionResult:
        """The result with the judgment, as long as the budget lasts."""
        if self.judge is None:
            return outcome
        if self.budget_error is not None:
            self.unjudged_count += bool(outcome.answer and not outcome.abstained)
            return outcome
        try:
            with use_meter(self.meter):
                return self.judge.judge(outcome)
        except BudgetExceeded as error:
            self.budget_error, self.unjudged_count = error, self.unjudged_count + 1
            return outcome

    def to_dict(self) -> dict[str, dict[str, JSON]]:
        """`judge` and `writer` for the report."""
        models = {"writer": self.writer, "judge": self.judge}
        return {name: model.to_dict() for name, model in models.items() if model is not None}

    def summary_lines(self) -> Sequence[str]:
        """Requests and costs of the models, as text."""
        lines = []
        for task, user in (("judged by", self.judge), ("questions written by", self.writer)):
            if user is not None:
                model = user.model
                hits = f", {model.cache_hits} cache hits (saved {format_usd(model.usage.saved_cost_usd)})"
                cost = format_usd(model.usage.total_cost_usd)
                saved = hits if model.cache_hits else ""
                lines.append(f"{task} {model.label}: {model.requests} requests, {cost}{saved}")
        if self.judge is not None and self.judge.failures:
            lines.append(f"{len(self.judge.failures)} answers were not judged: {self.judge.failures[0]}")
        if self.budget_error is not None:
            lines.append(f"{self.unjudged_count} answers were not judged: {self.budget_error}")
        return lines

    def _log_dropped(self) -> None:
        assert self.writer is not None  # noqa: S101 - set by --question-model
        dropped = ", ".join(f"{count} {reason}" for reason, count in sorted(self.writer.drop_counts.items()))
        if dropped:
            self.context.log(f"{self.writer.passage_count} passages sent to the model; discarded questions: {dropped}")


@contextmanager
def open_eval_models(
    context: CliContext, judge: str | None, writer: str | None, max_cost: float | None
) -> Iterator[EvalModels]:
    """Open the selected models. Raises UnknownName, MissingExtra, AuthenticationFailed, PriceUnknown."""
    models = EvalModels(context, Meter(budget_usd=max_cost))
    if judge is None and writer is None:
        yield models
        return
    providers = {name: _find_provider(name) for name in (judge, writer) if name is not None}
    ledger = Ledger(context.kb / FILE_NAME)
    with DiskCache(context.kb / CACHE_FILE) as cache:
        try:
            for name in dict.fromkeys(name for name in (judge, writer) if name is not None):
                _check_price(providers[name], name, models.meter)
            if judge is not None:
                on_call = ledger.call_recorder("judge", "eval")
                models.judge = Judge(StructuredModel(providers[judge], model_name(judge), cache, on_call))
            if writer is not None:
                on_call = ledger.call_recorder("questions", "eval")
                models.writer = QuestionWriter(StructuredModel(providers[writer], model_name(writer), cache, on_call))
            yield models
        finally:
            ledger.close()


def _find_provider(name: str) -> Provider:
    kind = name.partition(":")[0]
    if kind not in (AUTO, EXTRACTIVE, *PROVIDERS.names()):
        raise UnknownName("provider", kind, (AUTO, *PROVIDERS.names()))
    provider = detect_provider() if kind == AUTO else None if kind == EXTRACTIVE else get_provider(name)
    if provider is None:
        raise RagkitError(f"{name} is not a model: use provider:model and set its API key")
    return provider


def _check_price(provider: Provider, name: str, meter: Meter) -> None:
    """Raises PriceUnknown if there is a budget, but no price."""
    if meter.budget_usd is None or not provider.remote:
        return
    model = model_name(name) or provider.default_model
    if meter.prices.chat_cost(provider.name, model, Tokens(1000, 100)) is None:
        raise PriceUnknown(f"{provider.name}:{model}", meter.budget_usd)
