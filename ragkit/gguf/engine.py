"""The engine: llama.cpp inside this process, through the package `xllamacpp`. One engine for each file and settings.

An engine answers several requests at once. What its last requests have in common with a new one is not read again.
"""

from __future__ import annotations

import atexit
import json
import os
import re
import secrets
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any
from weakref import WeakSet, WeakValueDictionary

from ragkit.errors import InvalidOption, MissingExtra
from ragkit.gguf.header import GGUFFile, Kind
from ragkit.gguf.memory import available_memory

try:
    import xllamacpp
except ImportError as error:
    raise MissingExtra("a model in a GGUF file", extra="gguf") from error

DEFAULT_WINDOW = 16_384
"""Tokens of prompt and answer by default, if the model and the memory allow as many: enough for an answer with its
passages and a long conversation."""
MIN_WINDOW = 512
_SLOTS = 4
_BATCH = 128
"""Tokens of a prompt that are read between two looks at whether the request is cancelled."""
_PROMPT_CACHE_MB = 512
"""Memory for the prompts of conversations that wait for their next turn."""
_WORK_BYTES = 200_000_000
"""What the engine needs beside weights and cache, about."""
_EXIT_WAIT_S = 15.0
_TOO_LONG = re.compile(r"input \((\d+) tokens\) is too large")


class EngineError(Exception):
    """The engine rejects a request."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


@dataclass(frozen=True, slots=True)
class EngineSettings:
    """How a model runs."""

    task: Kind = "chat"
    window: int = 0
    """Tokens of prompt and answer together; 0: that of the file, at most DEFAULT_WINDOW and what fits into memory."""
    threads: int = 0
    """0: one for each CPU that this process may use."""
    pooling: str = ""
    """Of an embedding model: `mean`, `cls` or `last`; empty: that of the file."""


def choose_window(file: GGUFFile, settings: EngineSettings, option: str) -> int:
    """The context window in tokens.

    Raises:
        InvalidOption: it is above that of the model, or model and window do not fit into memory.
    """
    limit = file.context_length or settings.window or DEFAULT_WINDOW
    least = min(MIN_WINDOW, limit) if settings.task == "chat" else 1
    if settings.window and not least <= settings.window <= limit:
        expected = f"between {least} and {limit} tokens, the context window of {file.path.name}"
        raise InvalidOption("context_window", settings.window, expected)
    free = available_memory() - file.size - _WORK_BYTES
    fitting = free // 2 // max(1, file.cache_bytes_per_token)
    window = settings.window or min(limit, DEFAULT_WINDOW, max(fitting, min(limit, 2048)))
    needed = window * file.cache_bytes_per_token
    if needed > free:
        raise InvalidOption(
            option,
            str(file.path),
            f"a model that fits into memory: this one needs {(file.size + needed + _WORK_BYTES) / 1e9:.1f} GB with a "
            f"context window of {window:,} tokens, and {available_memory() / 1e9:.1f} GB are available: choose a "
            "smaller model or quantization, or close other programs",
        )
    return window


class GGUFEngine:
    """A loaded model. Thread-safe."""

    def __init__(self, file: GGUFFile, settings: EngineSettings, option: str) -> None:
        """Load the file. Raises InvalidOption if the engine cannot."""
        self.pid = os.getpid()
        self.window = choose_window(file, settings, option)
        self._free = self.window
        """Tokens of the window that no running request may need."""
        self._changed = threading.Condition()
        self.running = 0
        self.stopped = False
        params = _to_params(file, settings, self.window)
        try:
            self._server: Any = xllamacpp.Server(params)
            self._server.handle_metrics()  # waits for the engine's loop: freed before it runs, the engine never ends
        except (RuntimeError, MemoryError) as error:
            raise InvalidOption(
                option,
                str(file.path),
                f"a model that xllamacpp {xllamacpp.__version__} can load: it failed on the architecture "
                f"{file.architecture!r} with {available_memory() / 1e9:.1f} GB of memory available: "
                "pip install --upgrade xllamacpp, or choose a smaller model",
            ) from error
        self.address: str = self._server.listening_address
        """Where the engine listens; it answers nobody without its key."""
        _RUNNING.add(self)

    def chat(self, payload: Mapping[str, object], on_chunk: Callable[[Any], bool]) -> None:
        """Answer a request of the Chat Completions API.

        Args:
            payload: the request.
            on_chunk: called with each chunk, also while the prompt is read; True stops the answer.

        Raises:
            EngineError: the request is rejected, or the answer breaks off.
        """
        text = json.dumps(payload, ensure_ascii=False)
        answer_tokens = payload.get("max_tokens")
        wanted = len(text.encode("utf-8", "replace")) // 2 + (answer_tokens if isinstance(answer_tokens, int) else 0)
        failures: list[Exception] = []

        def forward(chunk: Any) -> bool:
            try:
                _check(chunk)
                return on_chunk(chunk) or self.stopped
            except Exception as error:  # noqa: BLE001 - the engine drops errors of its callback
                failures.append(error)
                return True

        stream = {"stream": True, "stream_options": {"include_usage": True}, "return_progress": True}
        reserved = self._reserve(min(wanted, self.window))
        try:
            self._server.handle_chat_completions({**payload, **stream}, forward)
        finally:
            self._release(reserved)
        if failures:
            raise failures[0]

    def embed(self, text: str) -> tuple[list[float], int]:
        """The vector of a text, of which the window is read, and its tokens. Raises EngineError."""
        answer = self._call(self._server.handle_embeddings, lambda cut: {"input": [cut]}, text)
        vector = answer["data"][0]["embedding"]
        return (vector[0] if isinstance(vector[0], list) else vector), int(answer["usage"]["prompt_tokens"])

    def rerank(self, question: str, text: str) -> tuple[float, int]:
        """The score of a text, of which the window is read, and the tokens of the pair. Raises EngineError."""
        answer = self._call(
            self._server.handle_rerank, lambda cut: {"query": question or ".", "documents": [cut]}, text
        )
        return float(answer["results"][0]["relevance_score"]), int(answer["usage"]["total_tokens"])

    def _call(self, method: Callable[[Any], Any], payload: Callable[[str], Mapping[str, object]], text: str) -> Any:
        """The answer for the longest beginning of a text, about, that fits into the window."""
        reserved = self._reserve(self.window)
        try:
            while True:
                answer = method(payload(text or " "))
                too_long = _TOO_LONG.search(str(answer.get("error") or ""))
                if too_long is None or len(text) < 2:
                    break
                text = text[: min(len(text) - 1, int(len(text) * self.window / int(too_long[1]) * 0.98))]
        finally:
            self._release(reserved)
        _check(answer)
        return answer

    def _reserve(self, tokens: int) -> int:
        """Wait until the running requests leave so many tokens of the window: together they never exceed it."""
        with self._changed:
            self._changed.wait_for(lambda: self._free >= tokens)
            self._free -= tokens
            self.running += 1
        return tokens

    def _release(self, tokens: int) -> None:
        with self._changed:
            self._free += tokens
            self.running -= 1
            self._changed.notify_all()

    def stop(self) -> None:
        """Stop the answers in progress, and end the threads of the engine: they must not outlive the interpreter."""
        self.stopped = True
        if self.pid == os.getpid():
            with self._changed:
                ended = self._changed.wait_for(lambda: not self.running, _EXIT_WAIT_S)
            if ended:
                self._server = None


def get_engine(file: GGUFFile, settings: EngineSettings, option: str) -> GGUFEngine:
    """The engine of a file with these settings, loaded once in this process as long as it is in use.

    Raises:
        InvalidOption: the engine cannot load the file.
    """
    key = (os.getpid(), file.path.resolve(), settings)
    with _LOCK:
        engine = _ENGINES.get(key)
        if engine is None:
            engine = _ENGINES[key] = GGUFEngine(file, settings, option)
    return engine


def current_engine(engine: GGUFEngine | None) -> GGUFEngine | None:
    """The engine; None in a forked process, whose parent has its threads."""
    if engine is not None and engine.pid != os.getpid():
        _OF_PARENT.append(engine)
        return None
    return engine


_LOCK = threading.Lock()
_ENGINES: WeakValueDictionary[object, GGUFEngine] = WeakValueDictionary()
_RUNNING: WeakSet[GGUFEngine] = WeakSet()
_OF_PARENT: list[GGUFEngine] = []
"""Never freed: that would wait for threads which a fork does not copy."""


@atexit.register
def _stop_all() -> None:
    is_idle = _LOCK.acquire(timeout=_EXIT_WAIT_S)  # a model that is being loaded
    for engine in list(_RUNNING):
        engine.stop()
    if is_idle:
        _LOCK.release()


def _to_params(file: GGUFFile, settings: EngineSettings, window: int) -> Any:
    params = xllamacpp.CommonParams()
    params.model.path = str(file.path)
    params.verbosity = 0
    params.warmup = False
    params.fit_params = False
    params.use_jinja = True
    params.n_ctx = window
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = settings.threads or _cpu_count()
    # the engine also listens on a loopback port, which ragkit does not use: a random key protects it
    params.api_keys = [secrets.token_hex(32)]
    params.endpoint_slots = params.ui = False
    params.endpoint_metrics = True
    params.n_threads_http = 1
    if settings.task == "chat":
        params.n_batch = params.n_ubatch = _BATCH
        params.n_parallel, params.kv_unified = _SLOTS, True
        params.cache_ram_mib = _PROMPT_CACHE_MB
        return params
    # one text at a time, as a whole: its vector does not depend on the others
    params.embedding = True
    params.n_batch = params.n_ubatch = window
    params.n_parallel, params.cache_ram_mib = 1, 0
    kinds = xllamacpp.llama_pooling_type
    name = "RANK" if settings.task == "reranker" else settings.pooling.upper()
    if name:
        params.pooling_type = getattr(kinds, f"LLAMA_POOLING_TYPE_{name}")
    return params


def _cpu_count() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _check(answer: Any) -> None:
    """Raise EngineError if a chunk or an answer is an error."""
    error = answer.get("error") if isinstance(answer, dict) else None
    if error:
        raise EngineError(int(error.get("code") or 500), str(error.get("message", error)))
