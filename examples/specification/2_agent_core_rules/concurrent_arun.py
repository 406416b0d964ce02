"""Thread Safety: concurrent arun() on one agent, without the known limitation"""

# --- Head: names that the snippet leaves out ---
import asyncio

from ragkit import Agent
from ragkit.agent.providers.scripted import EchoProvider

agent = Agent(EchoProvider())

# --- The snippet ---
async def main():
    return await asyncio.gather(*(agent.arun(f"message {number}") for number in range(20)))

results = asyncio.run(main())
