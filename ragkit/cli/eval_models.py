"""The models that help `ragkit eval`: who judges, who writes questions, what they may cost, and what is kept."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from ragkit.agent.cache_disk import DiskCache
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
from ragkit.index.source_ids import display_name
from ragkit.knowledge_base.answer_provider import AUTO, EXTRACTIVE, model_name
from ragkit.knowledge_base.knowledge_base import KnowledgeBase
from ragkit.lexical.analyzer import extract_terms
from ragkit.records import JSON
from ragkit.usage.ledger import FILE_NAME, Ledger
from ragkit.usage.meter import Meter, use_meter
from ragkit.usage.tokens import Tokens

CACHE_FILE = "judged.sqlite"
"""In the directory of the knowledge base: what models judged and wrote."""


@dataclass
class EvalModels:
    """The models of one run, with one purse."""

    shell: CliContext
    meter: Meter
    judge: Judge | None = None
    writer: QuestionWriter | None = None
    budget_error: BudgetExceeded | None = None
    """Why judging stopped before the end."""
    unjudged_count: int = field(default=0)

    def write_questions(self, kb: KnowledgeBase, count: int, seed: int) -> list[Question]:
        """Questions that the model wrote, and a fifth that the documents do not answer."""
        assert self.writer is not None  # noqa: S101 - asked for with --write-with
        outside = round(count * OFF_TOPIC_SHARE)
        with use_meter(self.meter):
            made = self.writer.write(list(kb.chunks()), count - outside, seed)
        self._log_dropped()
        documents = [found for source, _, _ in kb.documents() if (found := kb.document(source)) is not None]
        return [
            *(one.with_display_sources(display_name) for one in made),
            *generate_off_topic_questions(documents, extract_terms, outside, seed),
        ]

    def judge_outcome(self, outcome: QuestionResult) -> QuestionResult:
        """The outcome with what the judge says, as long as there is money for one."""
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
        """`judge` and `writer` as a report has them."""
        found = {"writer": self.writer, "judge": self.judge}
        return {name: one.to_dict() for name, one in found.items() if one is not None}

    def summary_lines(self) -> Sequence[str]:
        """What they cost, for people."""
        found = []
        for what, model in (("judged by", self.judge), ("questions written by", self.writer)):
            if model is not None:
                one = model.model
                saved = (
                    f", {one.cache_hits} known (saved {format_usd(one.usage.saved_cost_usd)})" if one.cache_hits else ""
                )
                cost = format_usd(one.usage.total_cost_usd)
                found.append(f"{what} {one.label}: {one.requests} requests, {cost}{saved}")
        if self.judge is not None and self.judge.failures:
            found.append(f"{len(self.judge.failures)} answers were not judged: {self.judge.failures[0]}")
        if self.budget_error is not None:
            found.append(f"{self.unjudged_count} answers were not judged: {self.budget_error}")
        return found

    def _log_dropped(self) -> None:
        assert self.writer is not None  # noqa: S101 - as above
        dropped = ", ".join(f"{count} {reason}" for reason, count in sorted(self.writer.drop_counts.items()))
        if dropped:
            self.shell.log(f"{self.writer.passage_count} passages were shown; not kept: {dropped}")


@contextmanager
def open_eval_models(
    shell: CliContext, judge: str | None, writer: str | None, max_cost: float | None
) -> Iterator[EvalModels]:
    """The models that were asked for. Raises UnknownName, MissingExtra, AuthenticationFailed, PriceUnknown."""
    found = EvalModels(shell, Meter(budget_usd=max_cost))
    if judge is None and writer is None:
        yield found
        return
    providers = {name: _find_provider(name) for name in (judge, writer) if name is not None}
    ledger = Ledger(shell.kb / FILE_NAME)
    with DiskCache(shell.kb / CACHE_FILE) as cache:
        try:
            for name in dict.fromkeys(name for name in (judge, writer) if name is not None):
                _check_price(providers[name], name, found.meter)
            if judge is not None:
                model = StructuredModel(
                    providers[judge], model_name(judge), cache, ledger.call_recorder("judge", "eval")
                )
                found.judge = Judge(model)
            if writer is not None:
                model = StructuredModel(
                    providers[writer], model_name(writer), cache, ledger.call_recorder("questions", "eval")
                )
                found.writer = QuestionWriter(model)
            yield found
        finally:
            ledger.close()


def _find_provider(name: str) -> Provider:
    kind = name.partition(":")[0]
    found = detect_provider() if kind == AUTO else None if kind == EXTRACTIVE else _find_named_provider(name)
    if found is None:
        raise RagkitError(f"{name} is no model: name one as provider:model, and set the key of its service")
    return found


def _find_named_provider(name: str) -> Provider:
    kind = name.partition(":")[0]
    if kind not in PROVIDERS.names():
        raise UnknownName("provider", kind, (AUTO, *PROVIDERS.names()))
    return get_provider(name)


def _check_price(provider: Provider, name: str, purse: Meter) -> None:
    """A budget means nothing where nobody knows the price."""
    if purse.budget_usd is None or not provider.remote:
        return
    model = model_name(name) or provider.default_model
    if purse.prices.chat_cost(provider.name, model, Tokens(1000, 100)) is None:
        raise PriceUnknown(f"{provider.name}:{model}", purse.budget_usd)
