"""Run 162 prompt injection attacks against a model that obeys them all, with and without defences.

python benchmarks/injection.py
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from ragkit.agent.loop.config import AgentConfig
from ragkit.agent.policy import ToolPolicy
from tests.security.injected import Damage, attacks, default_agent, unprotected_agent

POLICY = AgentConfig(text_tool_calls=False, policy=ToolPolicy(allow=["search_knowledge_base"], default="deny"))
AGENTS: dict[str, Callable[[Path], Damage]] = {
    "every tool, no marks, no policy": unprotected_agent,
    "ragkit, tools added, no policy": lambda folder: default_agent(folder, more_tools=True),
    "ragkit, tools added, policy": lambda folder: default_agent(folder, more_tools=True, config=POLICY),
    "ragkit, default settings": default_agent,
}


def main() -> None:
    """Print the table."""
    print(f"| agent, {len(attacks())} attacks | tool called | link with the secret | loads without a click |")
    print("| --- | ---: | ---: | ---: |")
    for name, agent in AGENTS.items():
        outcomes: list[Damage] = []
        for attack in attacks():
            with TemporaryDirectory() as folder:
                attack.write(Path(folder))
                outcomes.append(agent(Path(folder)))
        counts = [sum(getattr(outcome, kind) for outcome in outcomes) for kind in ("called", "rendered", "loads")]
        print(f"| {name} | {counts[0]} | {counts[1]} | {counts[2]} |")


if __name__ == "__main__":
    main()
