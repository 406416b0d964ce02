"""Prometheus metrics. Names start with `ragkit_`; times are in seconds, costs in US dollars."""

from __future__ import annotations

import ipaddress
import os
import time
from functools import partial

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.multiprocess import MultiProcessCollector

from ragkit.records import JSON
from ragkit.server.concurrency import PRINCIPAL

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
MULTIPROC_DIR_ENV = "PROMETHEUS_MULTIPROC_DIR"
"""Environment variable with the directory in which worker processes share their metrics. It must be set before
`prometheus_client` is imported."""
_LATENCY_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)


def principal_label() -> str:
    """The current principal; empty for a client without a token: addresses would be labels without number."""
    name = PRINCIPAL.get()
    try:
        ipaddress.ip_network(name, strict=False)
    except ValueError:
        return name
    return ""


class Metrics:
    """The metrics of one application."""

    def __init__(self) -> None:
        self.registry = registry = CollectorRegistry()
        latency = partial(Histogram, buckets=_LATENCY_BUCKETS, registry=registry)
        gauge = partial(Gauge, registry=registry, multiprocess_mode="livesum")
        self.requests = Counter("ragkit_requests", "Requests.", ("route", "status"), registry=registry)
        request_help = "Time from the request to the end of the response."
        self.request_seconds = latency("ragkit_request_seconds", request_help, ("route",))
        whose = ("model", "kb", "principal")
        answers_help = "Answers by final status. `principal`: the name of a token; empty without one."
        self.answers = Counter("ragkit_answers", answers_help, ("status", *whose), registry=registry)
        self.answer_seconds = latency("ragkit_answer_seconds", "Time from the start of an answer to its end.")
        first_text_help = "Time from the start of an answer to its first text."
        self.first_text_seconds = latency("ragkit_first_text_seconds", first_text_help)
        tokens_help, cost_help = "Tokens of answers and searches.", "US dollars spent, for models with a known price."
        self.tokens = Counter("ragkit_tokens", tokens_help, ("kind", *whose), registry=registry)
        self.cost = Counter("ragkit_cost_usd", cost_help, whose, registry=registry)
        self.running = gauge("ragkit_answers_running", "Running answers.")
        self.waiting = gauge("ragkit_answers_waiting", "Waiting answers.")
        newest = partial(Gauge, registry=registry, multiprocess_mode="max")
        self.index_time = newest("ragkit_index_timestamp_seconds", "Time of the last write to the index.", ("kb",))
        start = newest("ragkit_process_start_time_seconds", "When the last process of the server started.")
        start.set(time.time())

    def set_queue(self, running: int, waiting: int) -> None:
        """Set the numbers of running and waiting answers."""
        self.running.set(running)
        self.waiting.set(waiting)

    def count_answer(self, status: str, seconds: float, model: str, kb: str) -> None:
        """Count an answer of the current principal."""
        self.answers.labels(status, model, kb, principal_label()).inc()
        self.answer_seconds.observe(seconds)

    def count_usage(self, usage: dict[str, JSON], model: str, kb: str) -> None:
        """Count the tokens and cost of an answer or search of the current principal."""
        whose = (model, kb, principal_label())
        for kind in ("prompt_tokens", "completion_tokens", "embedding_tokens", "cached_tokens"):
            count = usage.get(kind)
            if isinstance(count, int) and count:
                self.tokens.labels(kind.removesuffix("_tokens"), *whose).inc(count)
        for key in ("llm_cost_usd", "embedding_cost_usd"):
            cost = usage.get(key)
            if isinstance(cost, int | float) and cost:
                self.cost.labels(*whose).inc(cost)

    def render(self) -> bytes:
        """The metrics of all workers in the text format of Prometheus."""
        if MULTIPROC_DIR_ENV not in os.environ:
            return generate_latest(self.registry)
        shared = CollectorRegistry()
        MultiProcessCollector(shared)  # type: ignore[no-untyped-call]
        return generate_latest(shared)
