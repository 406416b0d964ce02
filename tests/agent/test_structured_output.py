"""Structured output: answers are validated against a response format."""

import pytest
from pydantic import BaseModel

from ragkit.agent.config import AgentConfig
from ragkit.agent.result import partial_result
from ragkit.agent.structured_output import InvalidStructuredOutput, parse_structured_output, to_json_schema
from ragkit.errors import RunError
from ragkit.records import JSON
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
    assert (result.parsed, result.iterations) == (City(name="Oslo", people=2), 2)
    repair_request = "Your answer does not match the required format: people: Field required. "
    assert request_messages(provider)[-1] == ("user", repair_request + "Answer again with the corrected JSON only.")


def test_a_second_invalid_answer_ends_the_run_with_its_partial_result() -> None:
    agent, _ = scripted(["nonsense", "more nonsense"], config=AgentConfig(response_format=City, retry=AT_ONCE))
    with pytest.raises(RunError, match="the answer does not match response_format after a repair request") as raised:
        agent.run("Which city?")
    partial = partial_result(raised.value)
    assert partial is not None
    assert [message.content for message in partial.messages][::2] == ["Which city?", partial.messages[2].content]
    assert partial.iterations == 2


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
