"""Thread Safety: batch() and abatch()"""

# --- Head: names that the snippet leaves out ---
import asyncio

from ragkit import Agent
from ragkit.agent.providers.scripted import EchoProvider

agent = Agent(EchoProvider())
inputs = [f"message {number}" for number in range(20)]

# --- The snippet ---
results = agent.batch(inputs)
aresults = asyncio.run(agent.abatch(inputs))
