"""A service for embeddings that answers when a test lets it, so that a job stays where the test wants it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Condition

import pytest

from tests.wire_embed.dialects import EmbeddingRequest
from tests.wire_embed.server import WireServer

HELD = "embed: {name: openai, model: text-embedding-3-small}\n"
"""A pipeline that uses it."""
FILES = 300


class HeldEmbedder(WireServer):
    """A service whose requests with texts about newts wait until the test allows so many texts.

    A job that must not exceed a cost first embeds 8 texts, then 256 at a time, and reads 256 files meanwhile: of 300
    files, it has read 264 before `answer(8)`, then all, and has published 8.
    """

    def __init__(self) -> None:
        super().__init__("openai", self._wait)
        self._allowed = 0
        self._changed = Condition()

    def answer(self, texts: int) -> None:
        """Answer requests of so many more texts, in the order in which they came."""
        with self._changed:
            self._allowed += texts
            self._changed.notify_all()

    def release(self) -> None:
        """Answer every request from now on."""
        self.answer(10**6)

    def _wait(self, number: int, request: EmbeddingRequest) -> None:
        if not any("newt" in text for text in request.texts):
            return
        texts = [text for request in self.requests[:number] for text in request.texts]
        due = sum("newt" in text for text in texts)
        with self._changed:
            self._changed.wait_for(lambda: due <= self._allowed)

    @property
    def newts(self) -> list[int]:
        """How often each text about newts was embedded."""
        return [count for (_, text), count in self.answered.items() if "newt" in text]


@contextmanager
def held_embedder(monkeypatch: pytest.MonkeyPatch) -> Iterator[HeldEmbedder]:
    """A service that the environment names. At the end, no request waits."""
    held = HeldEmbedder()
    with held.running():
        for name, value in held.environment.items():
            monkeypatch.setenv(name, value)
        try:
            yield held
        finally:
            held.release()
