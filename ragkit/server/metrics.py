"""Prometheus metrics. Names start with `ragkit_`; times are in seconds, costs in US dollars."""

from __future__ import annotations

import os
from functools import partial

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.multiprocess import MultiProcessCollector

from ragkit.records import JSON

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
MULTIPROC_DIR_ENV = "PROMETHEUS_MULTIPROC_DIR"
"""Environment variable with the directory in which worker processes share their metrics. It must be set before
`prometheus_client` is imported."""
_LATENCY_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)


class Metrics:
    """The metrics of one application."""

    def __init__(self) -> None:
        self.registry = registry = CollectorRegistry()
        latency = partial(Histogram, buckets=_LATENCY_BUCKETS, registry=registry)
        gauge = partial(Gauge, registry=registry, multiprocess_mode="livesum")
        self.requests = Counter("ragkit_requests", "Requests.", ("route", "status"), registry=registry)
        request_help = "Time from the request to the end of the response."
        self.request_seconds = latency("ragkit_request_seconds", request_help, ("route",))
        self.answers = Counter("ragkit_answers", "Answers by final status.", ("status",), registry=registry)
        self.answer_seconds = latency("ragkit_answer_seconds", "Time from the start of an answer to its end.")
        first_text_help = "Time from the start of an answer to its first text."
        self.first_text_seconds = latency("ragkit_first_text_seconds", first_text_help)
        self.tokens = Counter("ragkit_tokens", "Tokens used by answers and searches.", ("kind",), registry=registry)
        self.cost = Counter("ragkit_cost_usd", "US dollars spent, for models with a known price.", registry=registry)
        self.running = gauge("ragkit_answers_running", "Running answers.")
        self.waiting = gauge("ragkit_answers_waiting", "Waiting answers.")

    def set_queue(self, running: int, waiting: int) -> None:
        """Set the numbers of running and waiting answers."""
        self.running.set(running)
        self.waiting.set(waiting)

    def count_usage(self, usage: dict[str, JSON]) -> None:
        """Count the tokens and cost of an answer or search."""
        for kind in ("prompt_tokens", "completion_tokens", "embedding_tokens", "cached_tokens"):
            count = usage.get(kind)
            if isinstance(count, int) and count:
                self.tokens.labels(kind.removesuffix("_tokens")).inc(count)
        for key in ("llm_cost_usd", "embedding_cost_usd"):
            cost = usage.get(key)
            if isinstance(cost, int | float) and cost:
                self.cost.inc(cost)

    def render(self) -> bytes:
        """The metrics of all workers in the text format of Prometheus."""
        if MULTIPROC_DIR_ENV not in os.environ:
            return generate_latest(self.registry)
        shared = CollectorRegistry()
        MultiProcessCollector(shared)  # type: ignore[no-untyped-call]
        return generate_latest(shared)
