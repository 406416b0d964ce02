"""Servers for tests: in a thread of this process, or in a separate process."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import httpx2
import uvicorn
from fastapi import FastAPI

from ragkit.agent.memory.memory import ConversationMemory
from ragkit.agent.messages import Message, ToolCall
from ragkit.agent.providers.base import Completion, ModelRequest, Provider, StreamCompleted, StreamDelta, TextDelta
from ragkit.answer.agent import RAGAgent, RAGOptions
from ragkit.knowledge_base.knowledge_base import KnowledgeBase
from ragkit.server.app import create_app
from ragkit.server.serve import create_config, create_socket, socket_url
from ragkit.server.settings import ServerLimits, ServerSettings
from ragkit.usage.tokens import Tokens

SECONDS = 60.0
"""Seconds that a test waits for immediate events."""
SEARCH = ToolCall("search_knowledge_base", {"query": "when is the hedge cut"}, "call_1")
LOCAL = ServerSettings(port=0, limits=ServerLimits(cached_answers=0))
"""Without a cache of answers: the scripts of tests answer the same question again."""


class KnowledgeBaseWithProvider(KnowledgeBase):
    """A knowledge base whose agents use the provider of a test."""

    provider: Provider | None = None
    answer_search: Literal["first", "model"] = "model"
    """Scripts have the model's own searches."""

    def agent(
        self,
        model: str | Provider | None = None,
        max_cost_usd: float | None = None,
        memory: ConversationMemory | None = None,
        **options: Any,
    ) -> RAGAgent:
        """The agent."""
        base = super().agent(model, max_cost_usd, memory, **options)
        if self.provider is None:
            return base
        return RAGAgent(self, self.provider, base.config, RAGOptions(search=self.answer_search), memory)


class StepProvider(Provider):
    """A provider that emits a word per step of `steps`, and signals when it is cancelled."""

    name = "steps"
    default_model = "steps"

    def __init__(self, words: Sequence[str], steps: int = 0) -> None:
        self.words = list(words)
        self.steps = threading.Semaphore(steps)
        self.request_received = threading.Event()
        self.emitted_words: list[str] = []
        self.closed = threading.Event()

    async def astream(self, request: ModelRequest) -> AsyncIterator[StreamDelta]:
        """Stream the answer word by word."""
        import asyncio

        self.request_received.set()
        try:
            for word in self.words:
                while not self.steps.acquire(blocking=False):
                    await asyncio.sleep(0.005)
                self.emitted_words.append(word)
                yield TextDelta(word)
            yield StreamCompleted(Completion(Message.assistant("".join(self.words)), Tokens(7, 3, cost_usd=0.0)))
        finally:
            self.closed.set()


class _Server(uvicorn.Server):
    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.up = threading.Event()

    async def startup(self, sockets: Any = None) -> None:
        """Signal that the server is ready."""
        await super().startup(sockets)
        self.up.set()


class Served:
    """A server that runs in a thread."""

    def __init__(self, kb: KnowledgeBase, settings: ServerSettings, app: FastAPI | None = None) -> None:
        self.kb = kb
        sock = create_socket(settings)
        self.app = app or create_app(kb, kb.path, settings)
        self.server = _Server(create_config(self.app, settings))
        self.url = socket_url(sock)
        self.address: tuple[str, int] = sock.getsockname()[:2]
        self._thread = threading.Thread(target=self.server.run, args=([sock],), daemon=True)
        self._thread.start()
        assert self.server.up.wait(SECONDS), "the server does not start"

    def stop(self) -> None:
        """Stop the server as a signal does."""
        self.server.should_exit = True
        self._thread.join(SECONDS)
        assert not self._thread.is_alive(), "the server does not stop"

    def client(self, **options: Any) -> httpx2.Client:
        """A client of the server."""
        return httpx2.Client(base_url=self.url, timeout=SECONDS, **options)


@contextmanager
def serving(
    directory: Path,
    provider: Provider | None = None,
    settings: ServerSettings = LOCAL,
    search: Literal["first", "model"] = "model",
) -> Iterator[tuple[Served, httpx2.Client]]:
    """A server over a knowledge base, and a client of it."""
    kb = KnowledgeBaseWithProvider.open(directory)
    kb.provider, kb.answer_search = provider, search
    served = Served(kb, replace(settings, port=0))
    try:
        with served.client() as client:
            yield served, client
    finally:
        served.stop()
        kb.close()


def limited(**limits: Any) -> ServerSettings:
    """Settings with these limits."""
    return ServerSettings(port=0, limits=ServerLimits(**{"cached_answers": 0, **limits}))


class Process:
    """`ragkit serve` in a separate process."""

    def __init__(
        self,
        kb: Path,
        *options: str,
        env: Mapping[str, str] | None = None,
        max_files: int = 0,
        place: str = "",
        prefix: Sequence[str] = (),
    ) -> None:
        command = [
            *prefix,
            sys.executable,
            "-m",
            "ragkit",
            "serve",
            *([] if "--kb-folder" in options else ["--kb", place or str(kb)]),
            "--port",
            "0",
            "--json",
            *options,
        ]
        if max_files:
            command = ["sh", "-c", f'ulimit -n {max_files}; exec "$@"', "sh", *command]
        self.process = subprocess.Popen(
            command, env={**os.environ, **(env or {})}, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            cwd=kb.parent, start_new_session=True,
        )  # fmt: skip
        self.log = b""
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        assert self.process.stdout is not None
        ready, _, _ = select.select([self.process.stdout], [], [], SECONDS)
        line = self.process.stdout.readline() if ready else b""
        assert line, f"the server does not start: {self.stopped()}"
        self.url: str = json.loads(line)["url"]

    def client(self) -> httpx2.Client:
        """A client of the server."""
        return httpx2.Client(base_url=self.url, timeout=SECONDS)

    def kill(self) -> None:
        """Kill the process group."""
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(SECONDS)

    def stopped(self) -> str:
        """Send a signal and wait for the end; returns the log."""
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(SECONDS)
        except subprocess.TimeoutExpired:
            self.kill()
        self._reader.join(SECONDS)
        return self.log.decode()

    def _read(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.log += line


@contextmanager
def process(
    kb: Path,
    *options: str,
    env: Mapping[str, str] | None = None,
    max_files: int = 0,
    place: str = "",
    prefix: Sequence[str] = (),
) -> Iterator[Process]:
    """A server process that is killed at the end of the block.

    `max_files`: how many files it may open; `place`: the knowledge base as `--kb` names it; `prefix`: what the command
    begins with.
    """
    result = Process(kb, *options, env=env, max_files=max_files, place=place, prefix=prefix)
    try:
        yield result
    finally:
        if result.process.poll() is None:
            result.stopped()
        for pipe in (result.process.stdout, result.process.stderr):
            if pipe is not None:
                pipe.close()


def events(response: httpx2.Response) -> Iterator[tuple[str, dict[str, Any]]]:
    """The named events of a stream."""
    name = ""
    for line in response.iter_lines():
        if line.startswith("event: "):
            name = line[7:]
        elif line.startswith("data: "):
            yield name, json.loads(line[6:])
