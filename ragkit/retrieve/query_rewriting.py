"""A model writes the question anew: in other words, or as a passage that might answer it.

What it writes is only searched for, never shown. Its tokens and its cost are those of the search, and of its budget.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import replace
from threading import Lock

import numpy as np

from ragkit.agent.agent import Agent
from ragkit.agent.config import AgentConfig
from ragkit.agent.providers.base import Provider
from ragkit.agent.providers.credentials import KEY_VARIABLES
from ragkit.agent.providers.lookup import detect_provider, get_provider
from ragkit.embed.base import EmbeddingProvider, Row, normalize_rows
from ragkit.errors import InvalidOption
from ragkit.records import Hit
from ragkit.retrieve.base import NO_EXTRA_TERMS, ChunkIndex, Explanation, ExtraTerms, Retriever, Where
from ragkit.retrieve.fusion import z_scores
from ragkit.retrieve.options import RewriteOptions, validate_top_k
from ragkit.usage.limits import Limits
from ragkit.usage.pricing import PriceBook

MAX_CACHED_QUESTIONS = 256
"""Questions whose rewritings are kept in memory: the same question is not paid for twice."""
HITS_PER_QUERY = 50
"""How many hits of each question are brought together."""
PROMPTS = {
    "multi_query": "Ask the user's question in {number} other ways, in the words that documents would use, each of "
    "them complete. Write one a line and nothing else.",
    "hyde": "Write {number} short passages, of about three sentences each, as they might stand in a document that "
    "answers the user's question. They need not be true. Write one a line and nothing else.",
}
_BULLET = re.compile(r"^\s*(?:[-*•]|\(?\d+[.):])\s+")


class QueryRewriter:
    """Asks a model to write questions anew. Any number of threads may ask."""

    def __init__(self, options: RewriteOptions, provider: Provider | None = None) -> None:
        """Without a provider it is the one that the options name.

        Raises:
            InvalidOption: `auto`, and no service's key is set.
            UnknownName, MissingExtra, AuthenticationFailed: the provider that is named cannot be had.
        """
        writer = provider or resolve_provider(options)
        self._agent = Agent(
            writer,
            config=AgentConfig(
                model=options.provider.partition(":")[2],
                max_iterations=1,
                temperature=0.0,
                limits=Limits(max_cost_usd=options.max_cost_usd),
                text_tool_calls=False,
                prices=PriceBook.from_price_files() if writer.remote else PriceBook(),
            ),
            name="rewrite",
            instructions=PROMPTS[options.name].format(number=options.number),
        )
        self._max_rewrites = options.number
        self._cached_rewrites: OrderedDict[str, tuple[str, ...]] = OrderedDict()
        self._lock = Lock()

    def rewrite(self, question: str) -> tuple[str, ...]:
        """At most as many texts as the options say, none twice and none the question itself; possibly none at all.

        Raises:
            ProviderError: the service refused, or cannot be reached.
            BudgetExceeded: it would cost more than it may.
        """
        with self._lock:
            if question in self._cached_rewrites:
                self._cached_rewrites.move_to_end(question)
                return self._cached_rewrites[question]
        written = self._agent.run(question).content
        found = parse_rewrites(written, question)[: self._max_rewrites]
        with self._lock:
            self._cached_rewrites[question] = found
            while len(self._cached_rewrites) > MAX_CACHED_QUESTIONS:
                self._cached_rewrites.popitem(last=False)
        return found


class HydeExpander:
    """Keeps `QueryExpander`: the row moves from the question's to the mean of it and of the passages that might answer it.

    Source: Gao et al., Precise Zero-Shot Dense Retrieval without Relevance Labels, ACL 2023, arXiv:2212.10496.
    """

    def __init__(self, passages: Callable[[], Sequence[str]], embedder: EmbeddingProvider) -> None:
        self._generate_passages, self._embedder = passages, embedder

    def expand_vector(self, query: Row, passages: ChunkIndex, where: Where) -> Row:
        """The mean, of length 1."""
        written = self._generate_passages()
        if not written:
            return query
        return normalize_rows(np.vstack([query[None], self._embedder.embed_texts(written)]).mean(axis=0))

    def expand_terms(self, terms: Sequence[str], passages: ChunkIndex, where: Where) -> ExtraTerms:
        """None: what a model makes up has names and numbers that are in no document."""
        return NO_EXTRA_TERMS


class MultiQueryRetriever:
    """Searches for the question in several wordings. A hit's score is the mean of its standard scores in all of them.

    A hit that a wording does not find has the score of the last one that it does find.
    """

    def __init__(self, inner: Retriever, rewrite: Callable[[str], Sequence[str]], top_k: int) -> None:
        """`rewrite` gives the other wordings; `top_k` is how many hits there are when nobody says."""
        self._inner, self._generate_queries, self._top_k = inner, rewrite, top_k

    def retrieve(self, question: str, top_k: int | None = None, where: Where = None) -> list[Hit]:
        """The best hits; `dense` and `lexical` are those of the first wording that finds a hit."""
        return [one.hit for one in self.explain(question, top_k, where)]

    def explain(self, question: str, top_k: int | None = None, where: Where = None) -> list[Explanation]:
        """The same hits, with their rank for each wording and what each of them adds to the score."""
        top_k = validate_top_k(self._top_k if top_k is None else top_k)
        if not question.strip():
            return []
        asked = [question, *self._generate_queries(question)]
        lists = [self._inner.explain(one, max(top_k, HITS_PER_QUERY), where) for one in asked]
        return merge_rankings(dict(zip(_query_labels(len(asked)), lists, strict=True)))[:top_k]


def merge_rankings(lists: dict[str, list[Explanation]]) -> list[Explanation]:
    """The hits of some searches as one ranking, by the mean of their standard scores; equal ones as they came."""
    first: dict[str, Explanation] = {}
    for one in (one for found in lists.values() for one in found):
        first.setdefault(one.hit.chunk.id, one)
    places = {name: {one.hit.chunk.id: at for at, one in enumerate(found)} for name, found in lists.items()}
    shares: dict[str, dict[str, float]] = {key: {} for key in first}
    for name, found in lists.items():
        if found:
            scores = z_scores(np.array([one.hit.score for one in found], np.float64)) / len(lists)
            for key in first:
                shares[key][name] = float(scores[places[name].get(key, -1)])
    totals = {key: sum(own.values()) for key, own in shares.items()}
    order = sorted(first, key=lambda key: -totals[key])
    return [
        Explanation(
            replace(first[key].hit, score=totals[key], rank=rank),
            {name: at[key] + 1 for name, at in places.items() if key in at},
            shares[key],
        )
        for rank, key in enumerate(order, start=1)
    ]


def parse_rewrites(text: str, question: str) -> tuple[str, ...]:
    """The lines that a model wrote, without bullets, numbers and quotation marks, none twice and none the question."""
    lines = (_BULLET.sub("", line).strip().strip("\"'“”").strip() for line in text.splitlines())
    return tuple(dict.fromkeys(line for line in lines if line and line.lower() != question.strip().lower()))


def resolve_provider(options: RewriteOptions) -> Provider:
    """The provider that the options name. Raises as `QueryRewriter` does."""
    if options.provider != "auto":
        return get_provider(options.provider)
    found = detect_provider()
    if found is None:
        keys = " or ".join(names[0] for names in KEY_VARIABLES.values())
        wanted = f"a model to write with (set {keys}, or name one that runs here, such as ollama:MODEL)"
        raise InvalidOption("rewrite.provider", "auto", wanted)
    return found


def _query_labels(count: int) -> list[str]:
    return ["question", *(f"wording {number}" for number in range(1, count))]
