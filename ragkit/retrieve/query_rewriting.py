"""Query rewriting by a language model: alternative wordings (multi-query), or hypothetical answers (HyDE).

The generated texts are only used to search. Tokens and cost count towards the search and its budget.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from ragkit.agent.agent import Agent
from ragkit.agent.loop.config import AgentConfig
from ragkit.agent.providers.base import Provider
from ragkit.agent.providers.credentials import KEY_VARIABLES
from ragkit.agent.providers.lookup import detect_provider, get_provider
from ragkit.embed.base import EmbeddingProvider, Row, normalize_rows
from ragkit.errors import InvalidOption
from ragkit.lru_cache import LruCache
from ragkit.records import Where
from ragkit.retrieve.base import Explanation, Retriever
from ragkit.retrieve.fusion import z_scores
from ragkit.retrieve.options import RewriteOptions, validate_top_k
from ragkit.usage.limits import Limits
from ragkit.usage.pricing import PriceBook

MAX_CACHED_QUESTIONS = 256
"""Questions whose rewrites are cached in memory, so that a repeated question costs nothing."""
HITS_PER_QUERY = 50
"""Hits per query that are merged."""
INSTRUCTIONS = "You write texts to search documents with. Never answer the question."
PROMPTS = {
    "multi_query": "Write {number} other wordings of this question, in the words that documents would use, each "
    "complete, one a line and nothing else: {question}",
    "hyde": "Write {number} short passages, of about three sentences each, as they might stand in a document that "
    "answers this question. They need not be true. Write one a line and nothing else: {question}",
}
"""The question stands within the request: where it is all of the message, small models answer it."""
_LOCAL_TOKENS = 100
"""Tokens of each text of a model on this machine: small ones go on for ever."""
_BULLET = re.compile(r"^\s*(?:[-*•]|\(?\d+[.):])\s+")


class QueryRewriter:
    """Rewrites questions with a language model. Thread-safe."""

    def __init__(self, options: RewriteOptions, provider: Provider | None = None) -> None:
        """`provider` defaults to the provider of the options.

        Raises:
            InvalidOption: the provider is `auto`, and no API key is set.
            UnknownName, MissingExtra, AuthenticationFailed: the provider is not available.
        """
        provider = provider or resolve_provider(options)
        self._agent = Agent(
            provider,
            config=AgentConfig(
                model=options.provider.partition(":")[2],
                max_iterations=1,
                temperature=0.0,
                max_tokens=options.number * _LOCAL_TOKENS if provider.on_this_machine else AgentConfig.max_tokens,
                limits=Limits(max_cost_usd=options.max_cost_usd),
                text_tool_calls=False,
                prices=PriceBook.from_price_files() if provider.remote else PriceBook(),
            ),
            name="rewrite",
            instructions=INSTRUCTIONS,
        )
        self._prompt, self._max_rewrites = PROMPTS[options.name], options.number
        self._cached_rewrites: LruCache[str, tuple[str, ...]] = LruCache(MAX_CACHED_QUESTIONS)

    def rewrite(self, question: str) -> tuple[str, ...]:
        """Up to `options.number` distinct texts, without the question itself; may be empty.

        Raises:
            ProviderError: the service rejected the request or is unreachable.
            BudgetExceeded: the cost exceeds `options.max_cost_usd`.
        """
        rewrites = self._cached_rewrites.get(question)
        if rewrites is None:
            output = self._agent.run(self._prompt.format(number=self._max_rewrites, question=question)).content
            rewrites = parse_rewrites(output, question)[: self._max_rewrites]
            self._cached_rewrites.set(question, rewrites)
        return rewrites


class HydeExpander:
    """Expands a question's vector to the mean of it and the vectors of hypothetical passages.

    Source: Gao et al., Precise Zero-Shot Dense Retrieval without Relevance Labels, ACL 2023, arXiv:2212.10496.
    """

    def __init__(self, passages: Callable[[], Sequence[str]], embedder: EmbeddingProvider) -> None:
        self._generate_passages, self._embedder = passages, embedder

    def __call__(self, query: Row) -> Row:
        """The mean vector, normalized."""
        passage_texts = self._generate_passages()
        if not passage_texts:
            return query
        return normalize_rows(np.vstack([query[None], self._embedder.embed_texts(passage_texts)]).mean(axis=0))


class MultiQueryRetriever(Retriever):
    """Searches with several wordings of the question. A hit's score is the mean of its standard scores over them.

    For a wording that does not find a hit, the lowest score of that wording counts.
    """

    def __init__(self, inner: Retriever, rewrite: Callable[[str], Sequence[str]], top_k: int) -> None:
        """`rewrite` returns alternative wordings; `top_k` is the default number of hits."""
        self._inner, self._generate_queries, self._top_k = inner, rewrite, top_k

    def explain(self, question: str, top_k: int | None = None, where: Where = None) -> list[Explanation]:
        """The best hits, with the ranks and score contributions of each wording.

        `dense` and `lexical` are the scores of the first wording that found the hit.
        """
        top_k = validate_top_k(self._top_k if top_k is None else top_k)
        if not question.strip():
            return []
        queries = [question, *self._generate_queries(question)]
        labels = ["question", *(f"wording {number}" for number in range(1, len(queries)))]
        rankings = [self._inner.explain(query, max(top_k, HITS_PER_QUERY), where) for query in queries]
        return merge_rankings(dict(zip(labels, rankings, strict=True)))[:top_k]


def merge_rankings(rankings: dict[str, list[Explanation]]) -> list[Explanation]:
    """Merge the rankings of several queries by mean standard score; ties keep the order of first appearance."""
    first: dict[str, Explanation] = {}
    for entry in (entry for ranking in rankings.values() for entry in ranking):
        first.setdefault(entry.hit.chunk.id, entry)
    indexes = {name: {entry.hit.chunk.id: i for i, entry in enumerate(ranking)} for name, ranking in rankings.items()}
    contributions: dict[str, dict[str, float]] = {key: {} for key in first}
    for name, ranking in rankings.items():
        if ranking:
            scores = z_scores(np.array([entry.hit.score for entry in ranking], np.float64)) / len(rankings)
            for key in first:
                contributions[key][name] = float(scores[indexes[name].get(key, -1)])
    totals = {key: sum(own.values()) for key, own in contributions.items()}
    order = sorted(first, key=lambda key: -totals[key])
    return [
        Explanation(
            replace(first[key].hit, score=totals[key], rank=rank),
            {name: index[key] + 1 for name, index in indexes.items() if key in index},
            contributions[key],
        )
        for rank, key in enumerate(order, start=1)
    ]


def parse_rewrites(text: str, question: str) -> tuple[str, ...]:
    """The distinct lines of a model's output, without bullets, numbers, quotation marks, and the question itself."""
    lines = (_BULLET.sub("", line).strip().strip("\"'“”").strip() for line in text.splitlines())
    return tuple(dict.fromkeys(line for line in lines if line and line.lower() != question.strip().lower()))


def resolve_provider(options: RewriteOptions) -> Provider:
    """The provider of the options. Raises the errors of `QueryRewriter`."""
    if options.provider != "auto":
        return get_provider(options.provider)
    provider = detect_provider()
    if provider is None:
        keys = " or ".join(names[0] for names in KEY_VARIABLES.values())
        expected = f"an available provider: set {keys}, or name a local model such as ollama:MODEL"
        raise InvalidOption("rewrite.provider", "auto", expected)
    return provider
