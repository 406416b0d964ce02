"""Structured output: answers are validated against a response format."""

import pytest
from pydantic import BaseModel

from ragkit.agent.loop.config import AgentConfig
from ragkit.agent.loop.structured_output import InvalidStructuredOutput, parse_structured_output, to_json_schema
from ragkit.agent.messages import Message
from ragkit.agent.providers.base import Completion
from ragkit.agent.result import partial_result
from ragkit.agent.tracing.trace import StepType
from ragkit.errors import InvalidOption, RunError
from ragkit.records import JSON
from ragkit.usage.tokens import Tokens
from tests.agent.parts import AT_ONCE, call, request_messages, scripted


class City(BaseModel):
    name: str
    people: int


SCHEMA: dict[str, JSON] = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "people": {"type": "integer", "minimum": 0}},
    "required": ["name"],
    "additionalProperties": False,
}


@pytest.mark.parametrize(
    "text", ['{"name": "Oslo", "people": 700000}', 'Here:\n```json\n{"name": "Oslo", "people": 700000}\n```\nDone.']
)
def test_an_answer_is_parsed_from_json_in_any_wrapping(text: str) -> None:
    assert parse_structured_output(text, City) == City(name="Oslo", people=700000)
    assert parse_structured_output(text, SCHEMA) == {"name": "Oslo", "people": 700000}


def test_an_invalid_answer_reports_its_violations() -> None:
    with pytest.raises(InvalidStructuredOutput, match="people: Field required"):
        parse_structured_output('{"name": "Oslo"}', City)
    with pytest.raises(InvalidStructuredOutput, match="'the answer' has no 'name'"):
        parse_structured_output('{"people": 1}', SCHEMA)
    with pytest.raises(InvalidStructuredOutput, match="must be of type object"):
        parse_structured_output("I do not know", SCHEMA)
    with pytest.raises(InvalidStructuredOutput, match=r"must be of type object \(got None\)"):
        parse_structured_output("", SCHEMA)


def test_a_run_returns_the_object_and_the_model_gets_the_schema() -> None:
    config = AgentConfig(response_format=City)
    agent, provider = scripted(['{"name": "Oslo", "people": 1}'], config=config)
    assert agent.run("Which city?").parsed == City(name="Oslo", people=1)
    assert provider.requests[0].settings.response_schema == to_json_schema(City)


def test_one_repair_is_requested() -> None:
    agent, provider = scripted(
        ['{"name": "Oslo"}', '{"name": "Oslo", "people": 2}'], config=AgentConfig(response_format=City)
    )
    result = agent.run("Which city?")
    assert (result.parsed, result.iterations) == (City(name="Oslo", people=2), 1)
    repair_request = "Your answer does not match the required format: people: Field required. "
    assert request_messages(provider)[-1] == ("user", repair_request + "Answer again with the corrected JSON only.")


def test_a_second_invalid_answer_ends_the_run_with_its_partial_result() -> None:
    agent, _ = scripted(["nonsense", "more nonsense"], config=AgentConfig(response_format=City, retry=AT_ONCE))
    with pytest.raises(RunError, match="the answer does not match response_format after a repair request") as raised:
        agent.run("Which city?")
    partial = partial_result(raised.value)
    assert partial is not None
    assert [message.content for message in partial.messages][::2] == ["Which city?", partial.messages[2].content]
    assert partial.iterations == 1


def test_a_repair_costs_tokens_but_no_iteration() -> None:
    turns = [Completion(Message.assistant(text), Tokens(100, 10, cost_usd=0.5)) for text in ("no", "no", '{"a": 1}')]
    form: dict[str, JSON] = {"type": "object", "required": ["a"]}
    config = AgentConfig(response_format=form, max_iterations=1, max_repairs=2, retry=AT_ONCE)
    agent, _ = scripted(turns, config=config)
    result = agent.run("x")
    assert (result.parsed, result.stop_reason, result.iterations) == ({"a": 1}, "stop", 1)
    assert (result.usage.prompt_tokens, result.usage.total_cost_usd) == (300, 1.5)
    assert [stats.prompt_tokens for stats in result.usage.iterations] == [300]
    assert len(result.trace.find_spans(StepType.REPAIR)) == 2


def test_the_number_of_repairs_is_an_option() -> None:
    for repairs, words in [(0, "response_format: "), (2, "response_format after 2 repair requests: ")]:
        config = AgentConfig(response_format=City, max_repairs=repairs)
        agent, provider = scripted(["nonsense"] * (repairs + 1), config=config)
        with pytest.raises(RunError, match=f"the answer does not match {words}"):
            agent.run("Which city?")
        assert len(provider.requests) == repairs + 1
    with pytest.raises(InvalidOption, match=r"max_repairs must be >= 0 \(got -1\)"):
        AgentConfig(max_repairs=-1)


def test_a_repair_may_call_tools() -> None:
    config = AgentConfig(response_format=City)
    agent, _ = scripted(["nonsense", call("add", a=1, b=2), '{"name": "three", "people": 3}'], config=config)
    result = agent.run("x")
    assert (result.parsed, result.iterations, result.tool_calls_made) == (City(name="three", people=3), 2, 1)


def test_a_structured_answer_is_never_parsed_as_a_tool_call() -> None:
    text = '{"tool_name": "add", "parameters": {"a": 1, "b": 2}}'
    form: dict[str, JSON] = {"type": "object", "required": ["tool_name"]}
    agent, _ = scripted([f"TOOL_CALL {text}"], config=AgentConfig(response_format=form))
    result = agent.run("x")
    assert result.parsed == {"tool_name": "add", "parameters": {"a": 1, "b": 2}}
    assert result.tool_calls == ()


def test_tools_work_before_a_structured_answer() -> None:
    agent, _ = scripted(
        [call("add", a=1, b=2), '{"name": "three", "people": 3}'], config=AgentConfig(response_format=City)
    )
    result = agent.run("x")
    assert (result.parsed, result.tool_calls[0].content) == (City(name="three", people=3), "3")
