"""Agents that work as a team, plans of steps, and facts that outlive a conversation."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from threading import Lock

import numpy as np

from ragkit.agent.agent import Agent
from ragkit.agent.bot import default_provider
from ragkit.agent.loop.config import AgentConfig
from ragkit.agent.loop.definition import HandoffTool
from ragkit.agent.providers.base import Provider
from ragkit.agent.result import AgentResult
from ragkit.agent.runner import AgentRunner
from ragkit.argument_types import check_types
from ragkit.embed import EMBEDDERS
from ragkit.embed.base import EmbeddingProvider
from ragkit.errors import InvalidOption
from ragkit.records import JSON

_PLAN: dict[str, JSON] = {
    "type": "object",
    "properties": {"steps": {"type": "array", "items": {"type": "string"}, "minItems": 1}},
    "required": ["steps"],
    "additionalProperties": False,
}


@check_types()
class AgentTeam:
    """Agents that hand a task over to each other; the first one starts.

    Args:
        agents: one or more, with unique names. Each can hand over to every other.
    """

    def __init__(self, agents: Sequence[Agent]) -> None:
        names = [agent.name for agent in agents]
        self.agents = [_with_colleagues(agent, names) for agent in agents]
        self._runner = AgentRunner(self.agents)

    def collaborate(self, task: str) -> AgentResult:
        """The result of the agent that finishes the task. Raises the errors of `Agent.run`."""
        return self._runner.run(task)


def _with_colleagues(agent: Agent, names: Sequence[str]) -> Agent:
    known = {handoff.target_name for handoff in agent.registry if isinstance(handoff, HandoffTool)}
    added = [name for name in names if name != agent.name and name not in known]
    return replace(agent, handoffs=[*agent.handoffs, *added])


@check_types()
class Planner:
    """Lets a model break a goal into steps.

    Args:
        provider: by default `default_provider()`.
        config: the settings of the request; `response_format` is the planner's own.
    """

    def __init__(self, provider: Provider | None = None, *, config: AgentConfig | None = None) -> None:
        self._agent = Agent(
            provider if provider is not None else default_provider(),
            config=replace(config or AgentConfig(), response_format=_PLAN),
            name="planner",
            instructions="Break the goal of the user into a few short steps, in the order of their execution.",
        )

    def create_plan(self, goal: str) -> list[str]:
        """The steps, in order. Raises the errors of `Agent.run`, a RunError if the model returns no list of steps."""
        parsed = self._agent.run(goal).parsed
        steps = parsed.get("steps") if isinstance(parsed, dict) else None
        return [str(step) for step in steps or ()]


@check_types()
class MemoryManager:
    """Facts under keys that persist across conversations, and a search for those that concern a question.

    Args:
        path: a SQLite file, created if missing; None: in memory only.
        embedder: ranks the facts by their similarity to a question; by default the bundled model.
    """

    def __init__(self, path: str | Path | None = None, *, embedder: EmbeddingProvider | None = None) -> None:
        self._embedder = embedder
        self._lock = Lock()
        self._database = sqlite3.connect(str(path or ":memory:"), check_same_thread=False)
        with self._lock, self._database:
            self._database.execute("CREATE TABLE IF NOT EXISTS facts (key TEXT PRIMARY KEY, value TEXT, vector BLOB)")

    def store(self, key: str, value: JSON) -> None:
        """Keep a JSON value under a key, in place of an earlier one."""
        text = json.dumps(value, ensure_ascii=False)
        vector = self._get_embedder().embed_texts([f"{key}: {text}"])[0]
        with self._lock, self._database:
            row = (key, text, vector.astype(np.float32).tobytes())
            self._database.execute("INSERT OR REPLACE INTO facts VALUES (?, ?, ?)", row)

    def recall(self, query: str, top_k: int = 3) -> dict[str, JSON]:
        """At most `top_k` facts, those that are nearest to the question first."""
        if top_k < 1:
            raise InvalidOption("top_k", top_k, ">= 1")
        with self._lock, closing(self._database.execute("SELECT key, value, vector FROM facts ORDER BY key")) as rows:
            facts = rows.fetchall()
        if not facts:
            return {}
        question = self._get_embedder().embed_query(query)
        scores = np.stack([np.frombuffer(vector, np.float32) for _, _, vector in facts]) @ question
        best = np.argsort(-scores, kind="stable")[:top_k]
        return {facts[index][0]: json.loads(facts[index][1]) for index in best}

    def close(self) -> None:
        """Close the file."""
        self._database.close()

    def _get_embedder(self) -> EmbeddingProvider:
        if self._embedder is None:
            self._embedder = EMBEDDERS.find("minilm")()
        return self._embedder
