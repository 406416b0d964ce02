"""What is counted for Prometheus. Names begin with `ragkit_`; times are in seconds, money in US dollars."""

from __future__ import annotations

import os

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.multiprocess import MultiProcessCollector

from ragkit.records import JSON

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
MULTIPROC_DIR_ENV = "PROMETHEUS_MULTIPROC_DIR"
"""Environment variable: where worker processes put their figures, so that any of them can tell them all. It must be
set before `prometheus_client` is imported."""
_LATENCY_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)


class Metrics:
    """The figures of one application."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        made = self.registry
        self.requests = Counter("ragkit_requests", "Requests answered.", ("route", "status"), registry=made)
        self.request_seconds = Histogram(
            "ragkit_request_seconds", "From the request to the end of its answer.", ("route",), buckets=_LATENCY_BUCKETS,
            registry=made,
        )  # fmt: skip
        self.answers = Counter("ragkit_answers", "Answers by how they ended.", ("status",), registry=made)
        self.answer_seconds = Histogram(
            "ragkit_answer_seconds", "From the start of an answer to its end.", buckets=_LATENCY_BUCKETS, registry=made
        )
        self.first_text_seconds = Histogram(
            "ragkit_first_text_seconds",
            "From the start of an answer to its first word.",
            buckets=_LATENCY_BUCKETS,
            registry=made,
        )
        self.tokens = Counter("ragkit_tokens", "Tokens used by answers and searches.", ("kind",), registry=made)
        self.cost = Counter("ragkit_cost_usd", "US dollars spent, as far as prices are known.", registry=made)
        self.running = Gauge(
            "ragkit_answers_running", "Answers being worked on.", registry=made, multiprocess_mode="livesum"
        )
        self.waiting = Gauge(
            "ragkit_answers_waiting", "Answers waiting for their turn.", registry=made, multiprocess_mode="livesum"
        )

    def set_queue(self, running: int, waiting: int) -> None:
        """So many answers are worked on, and so many wait."""
        self.running.set(running)
        self.waiting.set(waiting)

    def count_usage(self, usage: dict[str, JSON]) -> None:
        """Count what an answer or a search used."""
        for kind in ("prompt_tokens", "completion_tokens", "embedding_tokens", "cached_tokens"):
            count = usage.get(kind)
            if isinstance(count, int) and count:
                self.tokens.labels(kind.removesuffix("_tokens")).inc(count)
        for key in ("llm_cost_usd", "embedding_cost_usd"):
            cost = usage.get(key)
            if isinstance(cost, int | float) and cost:
                self.cost.inc(cost)

    def render(self) -> bytes:
        """The figures in Prometheus' text format, those of all workers."""
        if MULTIPROC_DIR_ENV not in os.environ:
            return generate_latest(self.registry)
        shared = CollectorRegistry()
        MultiProcessCollector(shared)  # type: ignore[no-untyped-call]
        return generate_latest(shared)
