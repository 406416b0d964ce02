"""The snippets of the documents that name a service's provider, as they are written, against its wire server."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from ragkit import AgentResult
from tests.agent.parts import add
from tests.agent.test_snippets import run_snippet
from tests.wire.dialects import DIALECTS
from tests.wire.server import Called, Turn, WireServer
from tests.wire.test_choice import pointed

SCRIPT = (Turn(calls=(Called("add", {"a": 1, "b": 2}, "c1"),)), Turn(("It is ", "3.")))
Point = Callable[[str], WireServer]


@pytest.fixture
def point(monkeypatch: pytest.MonkeyPatch) -> Iterator[Point]:
    """Starts a service and lets the environment name it."""
    servers: list[WireServer] = []

    def start(service: str) -> WireServer:
        server = WireServer(DIALECTS[service], SCRIPT)
        servers.append(server.__enter__())
        pointed(service, server.url, monkeypatch)
        return server

    yield start
    for one in servers:
        one.__exit__()


def test_an_agent_on_anthropic(point: Point) -> None:
    point("anthropic")
    space = run_snippet(
        """
from ragkit import Agent, AnthropicProvider

agent = Agent(AnthropicProvider(), tools, max_iterations=10)
result = agent.run("What is 1 + 2?")
""",
        tools=[add],
    )
    assert _result(space).content == "It is 3."


def test_a_bot_on_groq(point: Point) -> None:
    server = point("groq")
    space = run_snippet(
        """
from ragkit import Agent, GroqProvider

class Groqqy:
    def __init__(self, model, tools, system_instruction):
        self.provider = GroqProvider(model, system_instruction)
        self.tools = tools
        self.agent = Agent(self.provider, self.tools)

bot = Groqqy("llama-3.3-70b", tools, "You are a helpful assistant.")
result = bot.agent.run("What is 1 + 2?")
""",
        tools=[add],
    )
    assert _result(space).content == "It is 3."
    body = server.seen[0].body
    assert (body["model"], body["messages"][0]["content"]) == ("llama-3.3-70b", "You are a helpful assistant.")


@pytest.mark.parametrize(
    ("service", "made"),
    [
        ("openai", "OpenAIProvider(api_key='test-key', default_model='gpt-4o')"),
        ("anthropic", "AnthropicProvider(api_key='test-key', default_model='claude-haiku-4-5')"),
        ("gemini", "GeminiProvider(api_key='test-key', default_model='gemini-2.5-flash')"),
        ("groq", "GroqProvider(api_key='test-key', default_model='llama-3.3-70b-versatile')"),
        ("ollama", "OllamaProvider(default_model='llama3.2')"),
    ],
)
def test_the_provider_is_switched_with_one_line(service: str, made: str, point: Point) -> None:
    point(service)
    space = run_snippet(
        f"""
from ragkit import *

provider = {made}
config = AgentConfig(max_iterations=5)
agent = Agent(tools=tools, provider=provider, config=config)
result = agent.run([Message(role=Role.USER, content="What is 1 + 2?")])
""",
        tools=[add],
    )
    assert _result(space).content == "It is 3."
    assert _result(space).tool_calls[0].content == "3"


def _result(space: dict[str, object]) -> AgentResult:
    found = space["result"]
    assert isinstance(found, AgentResult)
    return found
