"""Give agents of ragkit and of other libraries five small tasks, with the same model behind a server.

    python -m benchmarks.model_agents SYSTEM --server http://127.0.0.1:8080/v1 [--tasks one-tool ...]

SYSTEM is one of `SYSTEMS`; each is used as its own documentation shows, with at most eight requests. A task is finished
if its answer holds what was asked and the tools were called that it needs. Calls and tokens are counted between system
and server. The Python of the others has one of

    pip install openai-agents
    pip install 'pydantic-ai-slim[openai]'
    pip install 'smolagents[openai]'
    pip install selectools
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any

from pydantic import BaseModel

from benchmarks.model_peers import Meter

MAX_REQUESTS = 8
MAX_TOKENS = 200
INSTRUCTIONS = "You help the visitors of a boat house. Use the tools; never guess."
CALLED: list[str] = []
"""The tools that were called in the present task, in order; a failed call ends with `!`."""


class Booking(BaseModel):
    """A booking of a table."""

    name: str
    guests: int
    day: str


def find_price(item: str) -> str:
    """The price of an item of the shop.

    Args:
        item: the name of the item.
    """
    CALLED.append("find_price")
    return f"{item}: 7.40 pounds"


def find_distance(start: str, end: str) -> str:
    """The distance between two places, in kilometres.

    Args:
        start: the first place.
        end: the second place.
    """
    CALLED.append("find_distance")
    return "120"


def to_miles(kilometres: float) -> str:
    """Convert kilometres to miles.

    Args:
        kilometres: the distance.
    """
    CALLED.append("to_miles")
    return f"{kilometres * 0.621371:.2f}"


def find_order(number: str) -> str:
    """The state of an order.

    Args:
        number: the number of the order.
    """
    if not number.startswith("A-"):
        CALLED.append("find_order!")
        raise ValueError(f"order numbers begin with A-, as A-1000: call again with A-{number.lstrip('#')}")
    CALLED.append("find_order")
    return f"order {number}: shipped on 3 May"


def find_invoice(customer: str) -> str:
    """The open invoice of a customer.

    Args:
        customer: the name of the customer.
    """
    CALLED.append("find_invoice")
    return f"{customer} owes 61.20 pounds"


@dataclass(frozen=True)
class Task:
    """A task, and when it is finished."""

    question: str
    tools: tuple[Callable[..., str], ...] = ()
    called: tuple[str, ...] = ()
    """Tools that must have been called."""
    holds: tuple[str, ...] = ()
    """The answer has one of these."""
    structured: bool = False
    handoff: bool = False
    """The tools are those of a second agent, Billing, to which the first hands over."""


TASKS = {
    "one tool": Task("What does the lake map cost?", (find_price,), ("find_price",), ("7.40", "7.4 ")),
    "two tools": Task(
        "How far is it from Dorn to Veyle? Find the distance, then convert it to miles.",
        (find_distance, to_miles),
        ("find_distance", "to_miles"),
        ("74.56", "74.6", "74.5"),
    ),
    "error and retry": Task("Where is order 1234?", (find_order,), ("find_order!", "find_order"), ("3 May", "May 3")),
    "structured output": Task(
        "Ilse Brandt books a table for four guests on Friday.", holds=("Brandt",), structured=True
    ),
    "handoff": Task(
        "What does Ilse Brandt owe on her invoice?", (find_invoice,), ("find_invoice",), ("61.20", "61.2"), handoff=True
    ),
}
Run = Callable[[Task], Any]


def ragkit() -> Run:
    """Agent, with `response_format` and `handoffs`."""
    from ragkit import Agent, AgentConfig, Tool
    from ragkit.agent.providers.lookup import get_provider

    provider = get_provider(os.environ.get("RAGKIT_BENCHMARK_MODEL", "openai:local"))

    def run(task: Task) -> Any:
        config = AgentConfig(
            model="local",
            temperature=0.0,
            max_tokens=MAX_TOKENS,
            max_iterations=MAX_REQUESTS,
            request_timeout_s=1800,
            response_format=Booking if task.structured else None,
        )
        tools = [Tool.from_function(function) for function in task.tools]
        agent = Agent(provider, [] if task.handoff else tools, config=config, instructions=INSTRUCTIONS)
        if task.handoff:
            billing = Agent(
                provider,
                tools,
                config=config,
                name="Billing",
                description="Knows invoices and payments.",
                instructions="You answer questions about invoices. Use the tools; never guess.",
            )
            agent = Agent(provider, [], config=config, instructions=INSTRUCTIONS, handoffs=[billing])
        result = agent.run(task.question)
        return result.parsed if task.structured else result.content

    return run


def openai_agents() -> Run:
    """Agent and Runner, with `output_type` and `handoffs`."""
    from agents import Agent, ModelSettings, OpenAIChatCompletionsModel, Runner, function_tool, set_tracing_disabled
    from openai import AsyncOpenAI

    set_tracing_disabled(disabled=True)
    client = AsyncOpenAI(base_url=os.environ["OPENAI_BASE_URL"], api_key="none", timeout=1800)
    model = OpenAIChatCompletionsModel("local", client)
    settings = ModelSettings(temperature=0.0, max_tokens=MAX_TOKENS)

    def run(task: Task) -> Any:
        tools = [function_tool(function) for function in task.tools]
        common = {"model": model, "model_settings": settings}
        agent = Agent(
            "Assistant",
            instructions=INSTRUCTIONS,
            tools=[] if task.handoff else tools,
            output_type=Booking if task.structured else None,
            **common,
        )
        if task.handoff:
            billing = Agent(
                "Billing",
                handoff_description="Knows invoices and payments.",
                instructions="You answer questions about invoices. Use the tools; never guess.",
                tools=tools,
                **common,
            )
            agent.handoffs = [billing]
        return Runner.run_sync(agent, task.question, max_turns=MAX_REQUESTS).final_output

    return run


def pydantic_ai() -> Run:
    """Agent with `output_type`; an output function hands over; a tool raises ModelRetry."""
    from functools import wraps

    from pydantic_ai import Agent, ModelRetry
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.providers.openai import OpenAIProvider
    from pydantic_ai.usage import UsageLimits

    model = OpenAIChatModel("local", provider=OpenAIProvider(os.environ["OPENAI_BASE_URL"], "none"))
    settings = {"temperature": 0.0, "max_tokens": MAX_TOKENS, "timeout": 1800}

    def retrying(function: Callable[..., str]) -> Callable[..., str]:
        @wraps(function)
        def call(*args: Any, **options: Any) -> str:
            try:
                return function(*args, **options)
            except ValueError as error:
                raise ModelRetry(str(error)) from error

        return call

    def run(task: Task) -> Any:
        tools = [retrying(function) for function in task.tools]
        limits = UsageLimits(request_limit=MAX_REQUESTS)
        output: Any = Booking if task.structured else str
        if task.handoff:
            instructions = "You answer questions about invoices. Use the tools; never guess."
            billing = Agent(model, instructions=instructions, tools=tools, model_settings=settings)

            async def hand_over_to_billing(query: str) -> str:
                """Hand over to the agent that knows invoices and payments."""
                return str((await billing.run(query)).output)

            output, tools = [hand_over_to_billing, str], []
        agent = Agent(model, instructions=INSTRUCTIONS, tools=tools, output_type=output, model_settings=settings)
        return agent.run_sync(task.question, usage_limits=limits).output

    return run


def smolagents() -> Run:
    """ToolCallingAgent, with `managed_agents`; it has no structured output but the words of the task."""
    from smolagents import OpenAIModel, ToolCallingAgent, tool

    model = OpenAIModel("local", os.environ["OPENAI_BASE_URL"], api_key="none", temperature=0.0, max_tokens=MAX_TOKENS)

    def run(task: Task) -> Any:
        tools = [tool(function) for function in task.tools]
        options = {"model": model, "max_steps": MAX_REQUESTS, "verbosity_level": 0}
        question = task.question
        if task.structured:
            question += f" Answer with JSON of this schema alone: {json.dumps(Booking.model_json_schema())}"
        if not task.handoff:
            answer = ToolCallingAgent(tools, instructions=INSTRUCTIONS, **options).run(question)
            return Booking.model_validate_json(answer) if task.structured and isinstance(answer, str) else answer
        billing = ToolCallingAgent(tools, name="billing", description="Knows invoices and payments.", **options)
        return ToolCallingAgent([], managed_agents=[billing], instructions=INSTRUCTIONS, **options).run(question)

    return run


SYSTEMS: dict[str, tuple[str, Callable[[], Run]]] = {
    "ragkit": ("ragkit-kb", ragkit),
    "openai-agents": ("openai-agents", openai_agents),
    "pydantic-ai": ("pydantic-ai-slim", pydantic_ai),
    "smolagents": ("smolagents", smolagents),
}
"""Name -> (distribution, what makes a function that carries out a task)."""


def carry_out(name: str, run: Run, meter: Meter) -> dict[str, Any]:
    """One task."""
    task = TASKS[name]
    CALLED.clear()
    meter.requests.clear()
    started = time.monotonic()
    try:
        answer = run(task)
    except Exception as error:  # noqa: BLE001 - a task that fails is one of its results
        answer = f"{type(error).__name__}: {error}"
    text = answer.model_dump_json() if isinstance(answer, BaseModel) else str(answer)
    return {
        "task": name,
        "finished": is_finished(task, answer, text),
        "text": text,
        "called": list(CALLED),
        "calls": len(meter.requests),
        "tokens": sum(usage.get("prompt_tokens", 0) + usage.get("completion_tokens", 0) for usage in meter.requests),
        "seconds": round(time.monotonic() - started, 1),
    }


def is_finished(task: Task, answer: Any, text: str) -> bool:
    """Whether the answer is right and came of the tools."""
    if task.structured:
        return isinstance(answer, Booking) and answer.guests == 4 and "friday" in answer.day.lower()
    right = any(part in f"{text} " for part in task.holds)
    return right and not text.startswith("{") and set(task.called) <= set(CALLED)


def main(arguments: Sequence[str] | None = None) -> None:
    """Carry out the tasks, and print a row for each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("system", choices=SYSTEMS)
    parser.add_argument("--server", required=True, help="address of the model's Chat Completions, with its /v1")
    parser.add_argument("--tasks", nargs="+", choices=TASKS, default=list(TASKS))
    options = parser.parse_args(arguments)
    meter = Meter(options.server.rstrip("/"))
    os.environ |= {"OPENAI_BASE_URL": meter.start(), "OPENAI_API_KEY": "none"}
    distribution, make = SYSTEMS[options.system]
    print(options.system, version(distribution), flush=True)
    run = make()
    for name in options.tasks:
        print(json.dumps(carry_out(name, run, meter), ensure_ascii=False), flush=True)


if __name__ == "__main__":
    main()
