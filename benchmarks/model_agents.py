"""Five tasks with tools for one language model, through ragkit's agent and through other libraries.

    python -m benchmarks.model_agents SYSTEM [--server http://127.0.0.1:8080/v1] [--tasks one-tool,...] [--out FILE]

SYSTEM is one of `SYSTEMS`; each runs as its own documentation shows, against a server with Chat Completions, without
streaming, at temperature 0 with at most 160 tokens an answer and 5 requests a task. A task is finished if its tools ran
with the right arguments and the answer holds what they gave. Calls and tokens are counted between library and server.
The Python of the others has

    pip install "pydantic-ai-slim[openai]" openai-agents "smolagents[openai]"
    pip install --no-deps selectools
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import wraps
from importlib.metadata import version
from pathlib import Path
from typing import Any

from benchmarks.model_peers import Meter

MAX_TOKENS = 160
MAX_CALLS = 5


@dataclass
class Log:
    """The calls of tools in one task, in order: name and arguments."""

    calls: list[tuple[str, tuple[object, ...]]] = field(default_factory=list)

    def tools(self) -> dict[str, Callable[..., str]]:
        """The tools of all tasks, as plain functions with type hints."""
        calls = self.calls

        def get_weather(city: str) -> str:
            """Say what the weather in a city is now.

            Args:
                city: Name of the city.
            """
            calls.append(("get_weather", (city.lower(),)))
            return f"{city}: 17 degrees, rain"

        def convert_currency(amount: float, source: str, target: str) -> str:
            """Convert an amount of money from one currency into another.

            Args:
                amount: The amount in the source currency.
                source: Code of the source currency, such as EUR.
                target: Code of the target currency, such as NOK.
            """
            calls.append(("convert_currency", (float(amount), source.upper(), target.upper())))
            return f"{amount} {source} are 347.10 {target}"

        def order_status(number: int) -> str:
            """Look up the status of an order.

            Args:
                number: Number of the order.
            """
            calls.append(("order_status", (int(number),)))
            if len(calls) == 1:
                raise RuntimeError("the service is busy, please call order_status again")
            return f"Order {number}: shipped on 4 May"

        def invoice_total(number: int) -> str:
            """Look up the total of an invoice.

            Args:
                number: Number of the invoice.
            """
            calls.append(("invoice_total", (int(number),)))
            return f"Invoice {number}: 249 euros"

        return {tool.__name__: tool for tool in (get_weather, convert_currency, order_status, invoice_total)}


@dataclass(frozen=True)
class Task:
    """What is asked, with which tools, and what shows that it was done."""

    question: str
    tools: tuple[str, ...] = ()
    wanted: tuple[tuple[str, tuple[object, ...]], ...] = ()
    holds: tuple[str, ...] = ()
    structured: bool = False
    handoff: bool = False

    def is_done(self, calls: list[tuple[str, tuple[object, ...]]], answer: object) -> bool:
        """Whether the calls were made, and the answer says what they gave."""
        if self.structured:
            return isinstance(answer, dict) and str(answer.get("name")).startswith("Ilse") and answer.get("age") == 41
        made = list(calls)
        for call in self.wanted:
            if call not in made:
                return False
            made.remove(call)
        return all(part in str(answer) for part in self.holds)


TASKS = {
    "one-tool": Task("What is the weather in Oslo now?", ("get_weather",), (("get_weather", ("oslo",)),), ("17",)),
    "two-tools": Task(
        "What is the weather in Oslo now, and how many NOK are 30 EUR?",
        ("get_weather", "convert_currency"),
        (("get_weather", ("oslo",)), ("convert_currency", (30.0, "EUR", "NOK"))),
        ("17", "347"),
    ),
    "retry": Task(
        "What is the status of order 7?",
        ("order_status",),
        (("order_status", (7,)), ("order_status", (7,))),
        ("shipped",),
    ),
    "structured": Task("Ilse Kramer is 41 years old and lives in Bergen. Who is this, and how old?", structured=True),
    "handoff": Task(
        "What is the total of invoice 12?", ("invoice_total",), (("invoice_total", (12,)),), ("249",), handoff=True
    ),
}
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "age": {"type": "integer"}},
    "required": ["name", "age"],
    "additionalProperties": False,
}
BILLING = "You answer questions about invoices. Use your tools."
BILLING_DESCRIPTION = "Knows invoices and payments."
TRIAGE = "Hand questions about invoices over to Billing."
GENERAL = "You are a helpful assistant. Use your tools where they help."

Run = Callable[[Task, dict[str, Callable[..., str]]], object]


def ragkit(task: Task, functions: dict[str, Callable[..., str]]) -> object:
    """`Agent` with functions as tools, `response_format` and `handoffs`."""
    from ragkit import Agent, AgentConfig, OpenAIProvider, tool

    model = OpenAIProvider(model="local")
    config = AgentConfig(max_tokens=MAX_TOKENS, temperature=0, max_iterations=MAX_CALLS)
    tools = [tool()(function) for function in functions.values()]
    if task.structured:
        config = replace(config, response_format=SCHEMA)
        return Agent(model, instructions=GENERAL, config=config).run(task.question).parsed
    if task.handoff:
        billing = Agent(
            model, tools, name="Billing", description=BILLING_DESCRIPTION, instructions=BILLING, config=config
        )
        triage = Agent(model, name="Triage", instructions=TRIAGE, handoffs=[billing], config=config)
        return triage.run(task.question).content
    return Agent(model, tools, instructions=GENERAL, config=config).run(task.question).content


def pydantic_ai(task: Task, functions: dict[str, Callable[..., str]]) -> object:
    """`Agent` with functions as tools, an output type, and a tool that runs the other agent (its delegation)."""
    from pydantic import BaseModel
    from pydantic_ai import Agent, ModelRetry
    from pydantic_ai.usage import UsageLimits

    class Person(BaseModel):
        name: str
        age: int

    def guarded(function: Callable[..., str]) -> Callable[..., str]:
        @wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            try:
                return function(*args, **kwargs)
            except RuntimeError as error:
                raise ModelRetry(str(error)) from error

        return call

    tools = [guarded(function) for function in functions.values()]
    settings: Any = {"max_tokens": MAX_TOKENS, "temperature": 0}
    limits = UsageLimits(request_limit=MAX_CALLS)
    if task.structured:
        person = Agent("openai-chat:local", instructions=GENERAL, output_type=Person, model_settings=settings)
        return person.run_sync(task.question, usage_limits=limits).output.model_dump()
    if task.handoff:
        billing = Agent("openai-chat:local", instructions=BILLING, tools=tools, model_settings=settings)

        async def ask_billing(question: str) -> str:
            """Hand a question about invoices and payments over to Billing."""
            return str((await billing.run(question, usage_limits=limits)).output)

        triage = Agent("openai-chat:local", instructions=TRIAGE, tools=[ask_billing], model_settings=settings)
        return triage.run_sync(task.question, usage_limits=limits).output
    agent = Agent("openai-chat:local", instructions=GENERAL, tools=tools, model_settings=settings)
    return agent.run_sync(task.question, usage_limits=limits).output


def openai_agents(task: Task, functions: dict[str, Callable[..., str]]) -> object:
    """`Agent` and `Runner` with `function_tool`, an output type, and `handoffs`."""
    from agents import Agent, ModelSettings, Runner, function_tool, set_default_openai_api, set_tracing_disabled
    from pydantic import BaseModel

    class Person(BaseModel):
        name: str
        age: int

    set_tracing_disabled(True)
    set_default_openai_api("chat_completions")
    tools: list[Any] = [function_tool(function) for function in functions.values()]
    settings: Any = {"model": "local", "model_settings": ModelSettings(max_tokens=MAX_TOKENS, temperature=0)}
    if task.structured:
        agent = Agent(name="Helper", instructions=GENERAL, output_type=Person, **settings)
        return Runner.run_sync(agent, task.question, max_turns=MAX_CALLS).final_output.model_dump()
    if task.handoff:
        billing = Agent(
            name="Billing", instructions=BILLING, tools=tools, handoff_description=BILLING_DESCRIPTION, **settings
        )
        agent = Agent(name="Triage", instructions=TRIAGE, handoffs=[billing], **settings)
    else:
        agent = Agent(name="Helper", instructions=GENERAL, tools=tools, **settings)
    return Runner.run_sync(agent, task.question, max_turns=MAX_CALLS).final_output


def smolagents(task: Task, functions: dict[str, Callable[..., str]]) -> object:
    """`ToolCallingAgent` with `@tool` functions, and `managed_agents`; structured output is asked for in the task."""
    from smolagents import OpenAIServerModel, ToolCallingAgent, tool

    model = OpenAIServerModel("local", max_tokens=MAX_TOKENS, temperature=0)
    tools = [tool(function) for function in functions.values()]
    if task.structured:
        asked = f"{task.question} Answer with a JSON object with the keys name and age."
        answer = ToolCallingAgent([], model, max_steps=MAX_CALLS, verbosity_level=0).run(asked)
        return answer if isinstance(answer, dict) else json.loads(str(answer))
    if task.handoff:
        billing = ToolCallingAgent(
            tools,
            model,
            instructions=BILLING,
            name="billing",
            description=BILLING_DESCRIPTION,
            max_steps=MAX_CALLS,
            verbosity_level=0,
        )
        triage = ToolCallingAgent(
            [], model, instructions=TRIAGE, managed_agents=[billing], max_steps=MAX_CALLS, verbosity_level=0
        )
        return triage.run(task.question)
    return ToolCallingAgent(tools, model, max_steps=MAX_CALLS, verbosity_level=0).run(task.question)


def selectools(task: Task, functions: dict[str, Callable[..., str]]) -> object:
    """`Agent` with `@tool` functions, a response format, and `SupervisorAgent` for two agents."""
    from pydantic import BaseModel
    from selectools import Agent, AgentConfig, OpenAIProvider, SupervisorAgent, SupervisorStrategy, tool

    class Person(BaseModel):
        name: str
        age: int

    provider = OpenAIProvider(api_key="none", default_model="local")
    tools = [tool()(function) for function in functions.values()]

    def config(instructions: str) -> Any:
        return AgentConfig(
            model="local",
            max_tokens=MAX_TOKENS,
            temperature=0,
            max_iterations=MAX_CALLS,
            request_timeout=1800,
            system_prompt=instructions,
        )

    if task.structured:
        found = Agent([], provider=provider, config=config(GENERAL)).run(task.question, response_format=Person)
        return found.parsed.model_dump() if found.parsed else found.content
    if task.handoff:
        agents = {"billing": Agent(tools, provider=provider, config=config(BILLING))}
        supervisor = SupervisorAgent(
            agents=agents, provider=provider, strategy=SupervisorStrategy.DYNAMIC, max_rounds=2
        )
        return supervisor.run(task.question).content
    return Agent(tools, provider=provider, config=config(GENERAL)).run(task.question).content


SYSTEMS: dict[str, tuple[str, Run]] = {
    "ragkit": ("ragkit-kb", ragkit),
    "pydantic-ai": ("pydantic-ai-slim", pydantic_ai),
    "openai-agents": ("openai-agents", openai_agents),
    "smolagents": ("smolagents", smolagents),
    "selectools": ("selectools", selectools),
}
"""Name -> (distribution, what runs one task)."""


def run_task(system: str, name: str, meter: Meter) -> dict[str, Any]:
    """One task through one system, and what it took."""
    task, log = TASKS[name], Log()
    functions = {key: function for key, function in log.tools().items() if key in task.tools}
    meter.requests.clear()
    started = time.monotonic()
    try:
        answer = SYSTEMS[system][1](task, functions)
    except Exception as error:  # noqa: BLE001 - a task that fails is one of the results
        answer = f"{type(error).__name__}: {error}"
    return {
        "system": system,
        "task": name,
        "done": task.is_done(log.calls, answer),
        "requests": len(meter.requests),
        "prompt_tokens": sum(usage.get("prompt_tokens", 0) for usage in meter.requests),
        "completion_tokens": sum(usage.get("completion_tokens", 0) for usage in meter.requests),
        "tool_calls": log.calls,
        "answer": str(answer)[:300],
        "seconds": round(time.monotonic() - started, 1),
    }


def main() -> None:
    """Run the tasks, and print one JSON object a line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("system", choices=SYSTEMS)
    parser.add_argument("--server", required=True, help="address of the model's Chat Completions, with its /v1")
    parser.add_argument("--tasks", default=",".join(TASKS))
    parser.add_argument("--out", type=Path, help="the lines are added to this file")
    options = parser.parse_args()
    meter = Meter(options.server.rstrip("/"))
    os.environ |= {"OPENAI_BASE_URL": meter.start(), "OPENAI_API_KEY": "none"}
    print(f"{options.system} {version(SYSTEMS[options.system][0])}", flush=True)
    for name in options.tasks.split(","):
        line = json.dumps(run_task(options.system, name, meter), ensure_ascii=False)
        print(line, flush=True)
        if options.out:
            with options.out.open("a", encoding="utf-8") as file:
                file.write(line + "\n")


if __name__ == "__main__":
    main()
