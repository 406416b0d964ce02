"""A response cache that also answers requests whose last question means the same."""

from __future__ import annotations

import logging
import re
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, replace
from threading import Lock
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from ragkit.agent.cache.base import CacheKeyBuilder, CacheStats
from ragkit.agent.messages import Role
from ragkit.agent.prompt import own_text
from ragkit.agent.providers.base import Completion, ModelRequest
from ragkit.argument_types import check_types
from ragkit.errors import InvalidOption, RagkitError

LOG = logging.getLogger("ragkit.agent")
Vector = NDArray[np.float32]
_NUMBER = re.compile(r"\d+(?:[.,]\d+)*")


class QueryEmbedder(Protocol):
    """What the cache needs of an embedder; every `EmbeddingProvider` is one."""

    def embed_query(self, text: str) -> Vector:
        """The vector of a text, shape (dimension,)."""


@dataclass(frozen=True, slots=True)
class _CachedAnswer:
    text: str
    vector: Vector
    completion: Completion
    expires_at: float


@check_types()
class SemanticCache:
    """Answers a request from the cache if an earlier one differs only in the words of its last user message.

    Provider, model, settings, system prompt, tools and all other messages must be the same. The texts of the last user
    messages are compared by the cosine of their vectors, and must have the same numbers. The cost of embedding is in
    the usage of the run. If the embedder fails, the model is asked.

    Args:
        embedder: such as that of the knowledge base.
        threshold: the least cosine of two texts that mean the same, above 0 and up to 1. It depends on the embedder:
            try it with questions of your own.
        max_size: entries; the least recently used one is evicted first.
        default_ttl: seconds until an entry expires; None: never.
        clock: monotonic seconds; for tests.
    """

    blocking = True

    def __init__(
        self,
        embedder: QueryEmbedder,
        threshold: float = 0.95,
        *,
        max_size: int = 1000,
        default_ttl: float | None = 300.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        if not 0 < threshold <= 1:
            raise InvalidOption("threshold", threshold, "> 0 and <= 1")
        if max_size < 1:
            raise InvalidOption("max_size", max_size, ">= 1")
        self.embedder, self.threshold, self.max_size, self.default_ttl = embedder, threshold, max_size, default_ttl
        self._clock = clock
        self._lock = Lock()
        self._answers: OrderedDict[str, _CachedAnswer] = OrderedDict()
        self._keys_by_rest: dict[str, set[str]] = {}
        self._vectors: OrderedDict[str, Vector] = OrderedDict()
        self._hits = self._misses = self._evictions = 0

    @property
    def stats(self) -> CacheStats:
        """The usage counters."""
        with self._lock:
            return CacheStats(self._hits, self._misses, self._evictions, len(self._answers))

    @staticmethod
    def build_key(provider: str, request: ModelRequest) -> str:
        """The key of a request: the hash of everything but the last user text, and that text."""
        messages = list(request.messages)
        index = max((index for index, message in enumerate(messages) if message.role is Role.USER), default=None)
        if index is None:
            return f"{CacheKeyBuilder.build(provider, request)}\n"
        text = own_text(messages[index])
        results = messages[index].content.removesuffix(text)  # of the agent's own calls: compared exactly
        messages[index] = replace(messages[index], content=results)
        return f"{CacheKeyBuilder.build(provider, replace(request, messages=tuple(messages)))}\n{text}"

    def get(self, key: str) -> Completion | None:
        """The unexpired answer to the nearest text above the threshold, or None."""
        rest, _, text = key.partition("\n")
        vector = self._embed(text)
        with self._lock:
            self._drop_expired(rest)
            best = key if key in self._answers else self._find_nearest(rest, text, vector)
            if best is None:
                self._misses += 1
                return None
            self._hits += 1
            self._answers.move_to_end(best)
            return self._answers[best].completion

    def set(self, key: str, completion: Completion) -> None:
        """Store an answer under its key."""
        rest, _, text = key.partition("\n")
        vector = self._embed(text)
        if vector is None:
            return
        expires_at = float("inf") if self.default_ttl is None else self._clock() + self.default_ttl
        with self._lock:
            self._answers[key] = _CachedAnswer(text, vector, completion, expires_at)
            self._answers.move_to_end(key)
            self._keys_by_rest.setdefault(rest, set()).add(key)
            while len(self._answers) > self.max_size:
                self._remove(next(iter(self._answers)))

    def clear(self) -> None:
        """Remove every entry and reset the counters."""
        with self._lock:
            self._answers.clear()
            self._keys_by_rest.clear()
            self._vectors.clear()
            self._hits = self._misses = self._evictions = 0

    def _find_nearest(self, rest: str, text: str, vector: Vector | None) -> str | None:
        if vector is None:
            return None
        numbers = sorted(_NUMBER.findall(text))
        best, highest = None, self.threshold
        for key in self._keys_by_rest.get(rest, ()):
            answer = self._answers[key]
            if sorted(_NUMBER.findall(answer.text)) != numbers:
                continue
            cosine = float(answer.vector @ vector)
            if cosine >= highest:
                best, highest = key, cosine
        return best

    def _drop_expired(self, rest: str) -> None:
        now = self._clock()
        for key in [key for key in self._keys_by_rest.get(rest, ()) if self._answers[key].expires_at <= now]:
            self._remove(key)

    def _remove(self, key: str) -> None:
        del self._answers[key]
        self._evictions += 1
        rest = key.partition("\n")[0]
        keys = self._keys_by_rest[rest]
        keys.discard(key)
        if not keys:
            del self._keys_by_rest[rest]

    def _embed(self, text: str) -> Vector | None:
        """The vector of a text, of length 1; None if the embedder fails. The latest ones are kept."""
        with self._lock:
            known = self._vectors.get(text)
        if known is not None:
            return known
        try:
            vector = np.asarray(self.embedder.embed_query(text), dtype=np.float32).reshape(-1)
        except RagkitError as error:
            LOG.warning("the semantic cache is not used, because the embedder failed: %s", error)
            return None
        vector = vector / (float(np.linalg.norm(vector)) or 1.0)
        with self._lock:
            self._vectors[text] = vector
            while len(self._vectors) > self.max_size:
                self._vectors.popitem(last=False)
        return vector
