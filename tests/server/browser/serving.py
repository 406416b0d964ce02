"""The real server in a thread of the test process, so that a test can pause the model."""

from __future__ import annotations

import json
import socket
import time
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from threading import Thread
from typing import Any

import uvicorn

from ragkit.pipeline.settings import Pipeline
from ragkit.server.app import create_app
from ragkit.server.settings import ServerLimits, ServerSettings
from tests.server.browser.stage import Play, Stage, StagedKnowledgeBase


class Serving:
    """A server over a knowledge base. Use it as a context manager."""

    def __init__(self, kb: Path, settings: ServerSettings | None = None, pipeline: Pipeline | None = None) -> None:
        kb.mkdir(exist_ok=True)
        self.kb = StagedKnowledgeBase.open(kb, pipeline)
        self.plays: dict[str, Play] = {}
        """The scripted answers by question; other questions get extractive answers."""
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.origin = f"http://127.0.0.1:{self._socket.getsockname()[1]}"
        # without a cache of answers: the scripts of tests answer the same question again
        app = create_app(self.kb, kb, settings or ServerSettings(limits=ServerLimits(cached_answers=0)))
        self._server = uvicorn.Server(uvicorn.Config(app, log_level="critical", timeout_graceful_shutdown=5))
        self._thread = Thread(target=self._server.run, kwargs={"sockets": [self._socket]}, daemon=True)

    def __enter__(self) -> Serving:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._server.should_exit = True
        self._thread.join(30)
        self.kb.close()

    def staged(self, plays: Mapping[str, Play]) -> None:
        """Use these scripted answers from now on; an empty mapping: extractive answers."""
        self.kb.stage = Stage(plays) if plays else None

    def ask(self, method: str, path: str, body: object = None, token: str = "") -> Any:
        """Send a request to the server without the page."""
        request = urllib.request.Request(f"{self.origin}/{path}", method=method)
        request.add_header("Content-Type", "application/json")
        if token:
            request.add_header("Authorization", f"Bearer {token}")
        data = None if body is None else json.dumps(body).encode()
        with urllib.request.urlopen(request, data, timeout=30) as response:
            return json.load(response)

    def message(self, session: str, index: int = -1) -> dict[str, Any]:
        """A message of a session, when no answer is running any more."""
        deadline = time.monotonic() + 20
        while True:
            history: list[dict[str, Any]] = self.ask("GET", f"session/{session}")["history"]
            if all(item["status"] != "running" for item in history) or time.monotonic() > deadline:
                return history[index]
            time.sleep(0.02)
