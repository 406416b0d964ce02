"""The models that help `ragkit eval`: who judges, who writes questions, what they may cost, and what is kept."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from ragkit.agent.cache_disk import DiskCache
from ragkit.agent.providers import PROVIDERS
from ragkit.agent.providers.base import Provider
from ragkit.agent.providers.choose import automatic_provider, named_provider
from ragkit.cli.common import Shell
from ragkit.cli.money import dollars
from ragkit.errors import BudgetExceeded, PriceUnknown, RagkitError, UnknownName
from ragkit.evaluate.automatic import OFF_TOPIC_SHARE, off_topic
from ragkit.evaluate.judge import Judge
from ragkit.evaluate.model import Model
from ragkit.evaluate.questions import Question
from ragkit.evaluate.run import Outcome
from ragkit.evaluate.written import Writer
from ragkit.index.names import shown
from ragkit.pipeline.knowledge_base import KnowledgeBase
from ragkit.pipeline.providers import AUTO, EXTRACTIVE, model_name
from ragkit.records import JSON
from ragkit.retrieve.terms import terms
from ragkit.usage.ledger import FILE_NAME, Ledger
from ragkit.usage.meter import Meter, metered
from ragkit.usage.tokens import Tokens

CACHE = "judged.sqlite"
"""In the directory of the knowledge base: what models judged and wrote."""


@dataclass
class Helpers:
    """The models of one run, with one purse."""

    shell: Shell
    purse: Meter
    judge: Judge | None = None
    writer: Writer | None = None
    over: BudgetExceeded | None = None
    """Why judging stopped before the end."""
    unjudged: int = field(default=0)

    def write(self, kb: KnowledgeBase, count: int, seed: int) -> list[Question]:
        """Questions that the model wrote, and a fifth that the documents do not answer."""
        assert self.writer is not None  # noqa: S101 - asked for with --write-with
        outside = round(count * OFF_TOPIC_SHARE)
        with metered(self.purse):
            made = self.writer.write(list(kb.chunks()), count - outside, seed)
        self._say_dropped()
        documents = [found for source, _, _ in kb.documents() if (found := kb.document(source)) is not None]
        return [*(one.relative(shown) for one in made), *off_topic(documents, terms, outside, seed)]

    def judged(self, outcome: Outcome) -> Outcome:
        """The outcome with what the judge says, as long as there is money for one."""
        if self.judge is None:
            return outcome
        if self.over is not None:
            self.unjudged += bool(outcome.answer and not outcome.abstained)
            return outcome
        try:
            with metered(self.purse):
                return self.judge.judge(outcome)
        except BudgetExceeded as error:
            self.over, self.unjudged = error, self.unjudged + 1
            return outcome

    def to_dict(self) -> dict[str, dict[str, JSON]]:
        """`judge` and `writer` as a report has them."""
        found = {"writer": self.writer, "judge": self.judge}
        return {name: one.to_dict() for name, one in found.items() if one is not None}

    def lines(self) -> Sequence[str]:
        """What they cost, for people."""
        found = []
        for what, model in (("judged by", self.judge), ("questions written by", self.writer)):
            if model is not None:
                one = model.model
                saved = f", {one.known} known (saved {dollars(one.usage.saved_cost_usd)})" if one.known else ""
                cost = dollars(one.usage.total_cost_usd)
                found.append(f"{what} {one.label}: {one.requests} requests, {cost}{saved}")
        if self.judge is not None and self.judge.failures:
            found.append(f"{len(self.judge.failures)} answers were not judged: {self.judge.failures[0]}")
        if self.over is not None:
            found.append(f"{self.unjudged} answers were not judged: {self.over}")
        return found

    def _say_dropped(self) -> None:
        assert self.writer is not None  # noqa: S101 - as above
        dropped = ", ".join(f"{count} {reason}" for reason, count in sorted(self.writer.dropped.items()))
        if dropped:
            self.shell.say(f"{self.writer.shown} passages were shown; not kept: {dropped}")


@contextmanager
def helpers(shell: Shell, judge: str | None, writer: str | None, max_cost: float | None) -> Iterator[Helpers]:
    """The models that were asked for. Raises UnknownName, MissingExtra, AuthenticationFailed, PriceUnknown."""
    found = Helpers(shell, Meter(budget_usd=max_cost))
    if judge is None and writer is None:
        yield found
        return
    providers = {name: _provider(name) for name in (judge, writer) if name is not None}
    ledger = Ledger(shell.kb / FILE_NAME)
    with DiskCache(shell.kb / CACHE) as cache:
        try:
            for name in dict.fromkeys(name for name in (judge, writer) if name is not None):
                _check_price(providers[name], name, found.purse)
            if judge is not None:
                model = Model(providers[judge], model_name(judge), cache, ledger.writer("judge", "eval"))
                found.judge = Judge(model)
            if writer is not None:
                model = Model(providers[writer], model_name(writer), cache, ledger.writer("questions", "eval"))
                found.writer = Writer(model)
            yield found
        finally:
            ledger.close()


def _provider(name: str) -> Provider:
    kind = name.partition(":")[0]
    found = automatic_provider() if kind == AUTO else None if kind == EXTRACTIVE else _named(name)
    if found is None:
        raise RagkitError(f"{name} is no model: name one as provider:model, and set the key of its service")
    return found


def _named(name: str) -> Provider:
    kind = name.partition(":")[0]
    if kind not in PROVIDERS.names():
        raise UnknownName("provider", kind, (AUTO, *PROVIDERS.names()))
    return named_provider(name)


def _check_price(provider: Provider, name: str, purse: Meter) -> None:
    """A budget means nothing where nobody knows the price."""
    if purse.budget_usd is None or not provider.remote:
        return
    model = model_name(name) or provider.default_model
    if purse.prices.chat(provider.name, model, Tokens(1000, 100)) is None:
        raise PriceUnknown(f"{provider.name}:{model}", purse.budget_usd)
