"""The snippets of the documents that this agent answers to, run as they are written but for the package's name.

Left out: snippets that need a vendor's SDK, that speak of retrieval (tests of the answer station), and those that
the decisions have replaced (`chat(messages)` on a provider is `complete(request)`, an agent has no `conversation`).
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

import ragkit
from ragkit.agent.bot import Bot
from ragkit.agent.providers.scripted import LocalProvider, ScriptedProvider
from ragkit.agent.runner import AgentRunner, ConversationState
from ragkit.agent.tools.registry import ToolRegistry
from ragkit.compat.components import ConversationManager, CostTracker, ToolExecutor
from tests.agent.parts import call

if TYPE_CHECKING:
    from ragkit.agent.result import AgentResult


def run_snippet(text: str, /, **known: object) -> dict[str, object]:
    """Execute a snippet. Returns its names."""
    space: dict[str, object] = dict(known)
    exec(compile(text, "snippet", "exec"), space)
    return space


def test_adding_a_new_tool() -> None:
    space = run_snippet('''
from ragkit import tool

@tool(description="Your tool description")
def my_tool(param1: str, param2: int = 10) -> str:
    """Tool implementation."""
    return f"Result: {param1}, {param2}"
''')
    made = space["my_tool"]
    assert isinstance(made, ragkit.Tool)
    assert (made("a"), made.description) == ("Result: a, 10", "Your tool description")


def test_custom_hooks(capsys: pytest.CaptureFixture[str]) -> None:
    provider = ScriptedProvider([call("my_tool", x=1), "done"])

    @ragkit.tool
    def my_tool(x: int) -> str:
        """Do it."""
        return str(x)

    space = run_snippet(
        """
from ragkit import Agent, AgentConfig

def my_hook(tool_name, args):
    print(f"Tool: {tool_name}, Args: {args}")

config = AgentConfig(hooks={"on_tool_start": my_hook})
agent = Agent(tools=[my_tool], provider=provider, config=config)
result = agent.run("go")
""",
        provider=provider,
        my_tool=my_tool,
    )
    result: AgentResult = space["result"]  # type: ignore[assignment]
    assert result.content == "done"
    assert capsys.readouterr().out == "Tool: my_tool, Args: {'x': 1}\n"


def test_response_caching(capsys: pytest.CaptureFixture[str]) -> None:
    run_snippet(
        """
from ragkit import Agent, AgentConfig, InMemoryCache, Message, Role

cache = InMemoryCache(max_size=500, default_ttl=600)
config = AgentConfig(cache=cache)
agent = Agent(tools=[], provider=provider, config=config)

# Second identical call returns cached response (no LLM call)
response1 = agent.run([Message(role=Role.USER, content="Hello")])
agent.reset()
response2 = agent.run([Message(role=Role.USER, content="Hello")])

print(cache.stats)  # CacheStats(hits=1, misses=1, ...)
""",
        provider=LocalProvider(),
    )
    assert capsys.readouterr().out.startswith("CacheStats(hits=1, misses=1, ")


def test_the_facade(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAGKIT_MOCK_JSON", '["hello"]')
    custom_registry = ToolRegistry()
    space = run_snippet(
        """
bot = Groqqy()                           # Create bot
response, cost = bot.chat("message")     # Chat
bot.reset()                              # Reset

bot2 = Groqqy(
    model="llama-3.3-70b",               # Custom model
    tools=custom_registry,               # Custom tools
    max_iterations=20,                   # More reasoning steps
    system_instruction="..."             # Custom behavior
)
""",
        Groqqy=Bot,
        custom_registry=custom_registry,
    )
    assert (space["response"], space["cost"]) == ("hello", 0.0)
    bot = space["bot2"]
    assert isinstance(bot, Bot)
    assert (bot.agent.config.model, bot.agent.config.max_iterations) == ("llama-3.3-70b", 20)


def test_the_conversation_manager() -> None:
    space = run_snippet(
        """
manager = ConversationManager()

# Add messages
manager.add_user("Hello")
manager.add_assistant("Hi there!")
manager.add_tool_calls(text, tool_calls)
manager.add_tool_result(call_id, result)

# Retrieve
history = manager.get_history()  # List[Dict]

# Utilities
count = len(manager)        # Message count
manager.reset()     # Clear history
""",
        ConversationManager=ConversationManager,
        text="adding",
        tool_calls=[call("add", a=1)],
        call_id="c1",
        result="3",
    )
    history: list[dict[str, object]] = space["history"]  # type: ignore[assignment]
    assert (space["count"], [one["role"] for one in history]) == (4, ["user", "assistant", "assistant", "tool"])


def test_the_tool_executor() -> None:
    @ragkit.tool
    def add(a: int, b: int) -> str:
        """Add."""
        return str(a + b)

    space = run_snippet(
        """
executor = ToolExecutor(registry)

# Execute single tool
result = executor.execute(tool_call)  # Returns string (success or error)

# Execute multiple
results = executor.execute_all(tool_calls)  # Returns List[Tuple[id, result]]
""",
        ToolExecutor=ToolExecutor,
        registry=ToolRegistry([add]),
        tool_call={"id": "c1", "function": {"name": "add", "arguments": json.dumps({"a": 1, "b": 2})}},
        tool_calls=[call("add", "c2", a=3, b=4)],
    )
    assert (space["result"], space["results"]) == ("3", [("c2", "7")])


def test_the_cost_tracker() -> None:
    space = run_snippet(
        """
tracker = CostTracker()

# Add costs
tracker.add(0.000042, metadata={"iteration": 1, "model": "llama-3.1"})
tracker.add(0.000038, metadata={"iteration": 2})

# Retrieve
total = tracker.get_total()             # Float
entries = tracker.get_entries()         # List with metadata
tracker.reset()                         # Clear
""",
        CostTracker=CostTracker,
    )
    assert space["total"] == pytest.approx(0.00008)
    assert len(space["entries"]) == 2  # type: ignore[arg-type]


def test_the_tool_registry() -> None:
    def read_file(path: str) -> str:
        """Read a file."""
        return path

    space = run_snippet(
        """
from ragkit import Tool, ToolRegistry, tool

registry = ToolRegistry()
registry.register(tool_)                             # Tool object
registry.register_function(func, description)        # From function
found = registry.get("read_file")                    # Get by name
tools = registry.list_all()                          # All tools
names = registry.list_names()                        # Just names
schemas = registry.to_schemas()                      # OpenAI format
count = len(registry)            # Count
there = "read_file" in registry  # Check existence

@tool("Analyze code for issues")
def analyze_code(file_path: str) -> str:
    # Implementation
    pass

# Later:
registry.register_function(analyze_code)
""",
        tool_=ragkit.Tool.from_function(read_file),
        func=search_files,
        description="Find files",
    )
    registry = space["registry"]
    assert isinstance(registry, ToolRegistry)
    assert (space["count"], space["there"], space["names"]) == (2, True, ["read_file", "search_files"])
    assert registry.get("search_files").description == "Find files"
    assert registry.get("analyze_code").description == "Analyze code for issues"
    schemas: list[dict[str, object]] = space["schemas"]  # type: ignore[assignment]
    assert [one["type"] for one in schemas] == ["function", "function"]


def search_files(pattern: str) -> str:
    """Search."""
    return pattern


def test_custom_tools() -> None:
    space = run_snippet(
        '''
from ragkit import ToolRegistry

def analyze_contracts(pdf_path: str) -> str:
    """Analyze legal contracts for key terms."""
    # Your implementation
    return "Analysis results..."

registry = ToolRegistry()
registry.register_function(analyze_contracts)
bot = Groqqy(tools=registry)
''',
        Groqqy=Bot,
    )
    bot = space["bot"]
    assert isinstance(bot, Bot)
    assert bot.tools.list_names() == ["analyze_contracts"]


def test_a_provider_of_ones_own() -> None:
    space = run_snippet(
        """
from ragkit import Agent, Provider
from ragkit.agent.providers.base import Completion
from ragkit.agent.messages import Message

class OwnProvider(Provider):
    name = "own"

    def complete(self, request):
        # Call the service
        return Completion(Message.assistant(f"heard: {request.messages[-1].content}"))

agent = Agent(OwnProvider(), tools, max_iterations=10)
result = agent.run("hello")
""",
        tools=[],
    )
    result: AgentResult = space["result"]  # type: ignore[assignment]
    assert result.response == "heard: hello"


def test_an_agent_with_a_planning_phase() -> None:
    space = run_snippet(
        '''
from ragkit import Agent

class PlanningAgent(Agent):
    """Agent with explicit planning phase before acting."""

    def run(self, prompt):
        # 1. Planning phase
        plan = self._create_plan(prompt)

        # 2. Execution phase
        for step in plan:
            result = super().run(step)

        return result

    def _create_plan(self, prompt):
        return [f"{prompt}: step {n}" for n in (1, 2)]

result = PlanningAgent(provider).run("go")
''',
        provider=ScriptedProvider(["one", "two"]),
    )
    result: AgentResult = space["result"]  # type: ignore[assignment]
    assert (result.content, result.messages[0].content) == ("two", "go: step 2")


def test_a_conversation_is_restored_and_continued() -> None:
    runner = AgentRunner([ragkit.Agent(LocalProvider(), name="Billing")])
    result = runner.run("hello", context={"user_id": 7})
    space = run_snippet(
        """
import json

# Serialize context for persistence
context_json = ConversationState.from_result(result).to_json()

# Restore and continue conversation
restored_context = json.loads(context_json)
next_result = runner.run("Continue conversation", context=restored_context)
""",
        runner=runner,
        result=result,
        ConversationState=ConversationState,
    )
    following: AgentResult = space["next_result"]  # type: ignore[assignment]
    assert following.content == "[local provider, no model] Continue conversation"
    assert (following.context, len(following.messages)) == ({"user_id": 7}, 4)


def test_a_tool_with_context_and_state() -> None:
    space = run_snippet(
        """
from ragkit import tool, ToolContext

@tool(name="custom_action", description="Perform custom business logic")
def perform(tool_context: ToolContext, input: str) -> str:
    # Access context for state
    user_id = tool_context.context["user_id"]

    # Perform custom logic
    result = f"{input} for {user_id}"

    # Update shared state
    tool_context.state["last_action"] = result

    return result
"""
    )
    provider = ScriptedProvider([call("custom_action", input="pay"), "done"])
    result = ragkit.Agent(provider, [space["perform"]]).run("x", context={"user_id": 7})  # type: ignore[list-item]
    assert (result.tool_calls[0].content, result.state) == ("pay for 7", {"last_action": "pay for 7"})


def test_the_callbacks(capsys: pytest.CaptureFixture[str]) -> None:
    run_snippet(
        """
from ragkit import Agent, AgentConfig

config = AgentConfig(hooks={
    "new_message": lambda model, messages: print("Sending to LLM..."),
    "end_message": lambda response, usage: print(f"Received: {response.content}"),
})
Agent(provider, config=config).run("hi")
""",
        provider=ScriptedProvider(["hello"]),
    )
    assert capsys.readouterr().out == "Sending to LLM...\nReceived: hello\n"


def test_answers_piece_by_piece() -> None:
    space = run_snippet(
        '''
def chat_stream(self, message):
    """Yield response tokens as they arrive."""
    for chunk in self.chat_stream(message):
        yield chunk

chunks = list(chat_stream(bot, "hi"))
''',
        bot=Bot(provider=ScriptedProvider(["one two"])),
    )
    assert space["chunks"] == ["one ", "two"]
