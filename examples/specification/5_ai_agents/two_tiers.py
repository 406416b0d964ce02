"""Two-Tier Execution Model: one runner for many threads"""

# --- Head: names that the snippet leaves out ---
from concurrent.futures import ThreadPoolExecutor

from ragkit import Agent, AgentRunner
from ragkit.agent.providers.scripted import EchoProvider

# --- The snippet ---
runner = AgentRunner([Agent(EchoProvider(), name="Assistant")])
with ThreadPoolExecutor(8) as pool:
    results = list(pool.map(lambda n: runner.run(f"message {n}", context={"user": n}), range(20)))
