"""Titles, tags and the like that chat programs ask for: answered without a search, and not kept.

The prompts are those of Open WebUI 0.12 (`open_webui/config.py`, `open_webui/routers/tasks.py`) and of LibreChat's
agents (`src/utils/title.ts`, `src/run.ts`), shortened where only their words differ from another.
"""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import httpx2
import pytest

from ragkit.agent.messages import Message
from ragkit.agent.providers.base import Completion
from ragkit.agent.providers.scripted import ScriptedProvider
from ragkit.server.answering.client_tasks import find_client_task
from ragkit.usage.tokens import Tokens
from tests.server.parts import serving

HISTORY = (
    "USER: Hello!\nASSISTANT: Hello.\nUSER: When is the hedge cut?\nASSISTANT: In August [1].\nUSER: And the lawn?"
)
CHAT = f"### Chat History:\n<chat_history>\n{HISTORY}\n</chat_history>"
TITLE = (
    "### Task:\nGenerate a concise title summarizing the chat history.\n### Guidelines:\n- Keep it short.\n"
    f'### Output:\nJSON format: {{ "title": "your concise title here" }}\n### Examples:\n- {{ "title": "A" }}\n{CHAT}'
)
TAGS = f'### Task:\nGenerate 1-3 broad tags.\n\n### Output:\nJSON format: {{ "tags": ["tag1", "tag2"] }}\n\n{CHAT}'
FOLLOW_UPS = (
    "### Task:\nPredict 3-5 useful messages.\n### Guidelines:\n- Response must be a JSON object.\n"
    f'### Output:\nJSON format: {{ "follow_ups": ["Message 1"] }}\n{CHAT}'
)
QUERIES = (
    "### Task:\nAnalyze the chat history to determine the necessity of generating search queries.\n\n"
    '- respond in the format: { "queries": ["query1", "query2"] }\n\n### Output:\nStrictly return in JSON format: \n'
    f'{{\n  "queries": ["query1", "query2"]\n}}\n\n{CHAT}\n'
)
IMAGE = f'### Task:\nGenerate a detailed prompt for an image.\n\n### Output:\n{{\n    "prompt": "Yours."\n}}\n\n{CHAT}'
COMPLETE = (
    "### Task:\nYou are an autocompletion system. Continue the text in `<text>`.\n5. If unsure, return: "
    '`{ "text": "" }`.\n### Context:\n'
    f"<chat_history>\n{HISTORY}\n</chat_history>\n<type>General</type>  \n<text>How do I</text>  \n#### Output:\n"
)
BARE_TITLE = f"Create a concise, 3-5 word title for the chat history.\n<chat_history>\n{HISTORY}\n</chat_history>"
LIBRECHAT = (
    "Provide a concise, 5-word-or-less title for the conversation, using title case conventions. Only return the title"
    " itself.\n\nConversation:\nUser: When is the hedge cut?\nAI: In August [1]."
)
LIBRECHAT_STRUCTURED = (
    "Analyze this conversation and provide:\n1. The detected language of the conversation\n2. A concise title in the"
    " detected language (5 words or less, no punctuation or quotation)\n\nUser: When is the hedge cut?\nAI: In August."
)
EXPECTED: list[tuple[str, object]] = [
    (TITLE, {"title": "When is the hedge cut"}),
    (TAGS, {"tags": ["General"]}),
    (FOLLOW_UPS, {"follow_ups": []}),
    (QUERIES, {"queries": ["And the lawn?"]}),
    (IMAGE, {"prompt": "And the lawn?"}),
    (COMPLETE, {"text": ""}),
    (BARE_TITLE, "When is the hedge cut"),
    (LIBRECHAT, "When is the hedge cut"),
    (LIBRECHAT_STRUCTURED, "When is the hedge cut"),
]
NOT_TASKS = [
    "Which title does the chat history have?",
    'Why does the answer have the key "title": is it JSON?',
    "Generate a title for my book about hedges.",
    "What does `<chat_history>` mean in the template?",
    "Summarize this.\nUser: When?\nAI: August.",
    "Provide the title that User: has.",
]
TITLE_SCHEMA: Any = {
    "type": "object",
    "properties": {"language": {"type": "string"}, "title": {"type": "string"}},
    "required": ["language", "title"],
}


def ask(client: httpx2.Client, text: str, **options: Any) -> Any:
    response = client.post("/v1/chat/completions", json={"messages": [{"role": "user", "content": text}], **options})
    assert response.status_code == 200, response.text
    return response.json()


def assert_nothing_is_kept(client: httpx2.Client) -> None:
    assert client.get("/sessions").json()["sessions"] == []
    assert client.get("/traces").json()["traces"] == []


def test_without_a_model_each_task_has_a_result_of_its_shape(base: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "ragkit.server.audit"), serving(base) as (_, client):
        for text, expected in EXPECTED:
            result = ask(client, text, max_tokens=1000)
            content = result["choices"][0]["message"]["content"]
            assert (json.loads(content) if isinstance(expected, dict) else content) == expected
            assert "citations" not in result
        response = client.post("/v1/responses", json={"input": TITLE}).json()
        assert json.loads(response["output"][0]["content"][0]["text"]) == EXPECTED[0][1]
        assert_nothing_is_kept(client)
    assert [record for record in caplog.records if record.name == "ragkit.server.audit"] == []


def test_a_title_of_a_schema_or_of_a_tool_has_its_shape(base: Path) -> None:
    form = {"type": "json_schema", "json_schema": {"name": "title", "schema": TITLE_SCHEMA}}
    tool = {"type": "function", "function": {"name": "extract", "parameters": TITLE_SCHEMA}}
    choice = {"type": "function", "function": {"name": "extract"}}
    expected = {"language": "", "title": "When is the hedge cut"}
    with serving(base) as (_, client):
        result = ask(client, LIBRECHAT_STRUCTURED, response_format=form)
        assert json.loads(result["choices"][0]["message"]["content"]) == expected
        result = ask(client, LIBRECHAT_STRUCTURED, tools=[tool], tool_choice=choice)
        [call] = result["choices"][0]["message"]["tool_calls"]
        assert (call["function"]["name"], json.loads(call["function"]["arguments"])) == ("extract", expected)
    provider = ScriptedProvider(['{"language": "English", "title": "Hedge"}'] * 2)
    with serving(base, provider) as (_, client):
        result = ask(client, LIBRECHAT_STRUCTURED, response_format=form)
        assert json.loads(result["choices"][0]["message"]["content"])["title"] == "Hedge"
        result = ask(client, LIBRECHAT_STRUCTURED, tools=[tool], tool_choice=choice)
        [call] = result["choices"][0]["message"]["tool_calls"]
        assert json.loads(call["function"]["arguments"])["title"] == "Hedge"
        assert_nothing_is_kept(client)


@pytest.mark.parametrize("streamed", [False, True])
def test_a_model_does_a_task_without_a_search(base: Path, streamed: bool) -> None:
    written = '{ "title": "Hedge Cutting" }'
    provider = ScriptedProvider([Completion(Message.assistant(written), Tokens(20, 5, cost_usd=0.0))])
    with serving(base, provider) as (_, client):
        body = {"messages": [{"role": "user", "content": TITLE}], "max_tokens": 17, "stream": streamed}
        response = client.post("/v1/chat/completions", json=body)
        assert_nothing_is_kept(client)
    if streamed:
        *lines, done = [line[6:] for line in response.text.splitlines() if line.startswith("data: ")]
        chunks = [json.loads(line) for line in lines]
        assert done == "[DONE]"
        assert "".join(chunk["choices"][0]["delta"].get("content", "") for chunk in chunks) == written
    else:
        assert response.json()["choices"][0]["message"]["content"] == written
        assert response.json()["usage"]["completion_tokens"] == 5
    [request] = provider.requests
    assert (request.tools, request.settings.max_tokens) == ((), 17)
    assert [message.content for message in request.messages] == [TITLE]


def test_questions_are_no_tasks() -> None:
    for text in NOT_TASKS:
        assert find_client_task([Message.user(text)]) is None, text
    conversation = [Message.user("Hello"), Message.assistant("Hello."), Message.user(TITLE)]
    assert find_client_task(conversation) is None


@pytest.mark.rotating
@pytest.mark.parametrize(
    ("question", "title"),
    [
        ("wie wird die Hecke geschnitten?", "Wie wird die Hecke geschnitten"),
        ("**What** is `x`? And why?", "What is x"),
        ("word " * 30, "Word word word word word word word word…"),
        ("x" * 200, "X" + "x" * 59 + "…"),
        ("How much is paid for meals on a full day away?", "How much is paid for meals…"),
        ("What is it all about?", "What is it all about"),
        ("???", "New chat"),
        ("Hi", "Hi"),
        ("生け垣はいつ刈りますか？", "生け垣はいつ刈りますか"),
    ],
)
def test_a_title_is_the_beginning_of_the_first_question(base: Path, question: str, title: str) -> None:
    text = TITLE.replace(HISTORY, f"USER: {question}\nASSISTANT: Yes.")
    with serving(base) as (_, client):
        content = ask(client, text)["choices"][0]["message"]["content"]
    assert json.loads(content) == {"title": title}


def test_questions_of_open_webui_and_librechat_are_answered(base: Path) -> None:
    """Their requests: `open_webui/routers/openai.py`, and `packages/api/src/endpoints/openai` of LibreChat."""
    question = {"role": "user", "content": "When is the hedge cut?"}
    open_webui = {
        "model": "ragkit",
        "messages": [{"role": "system", "content": "Today is Monday."}, question],
        "stream": True,
        "stream_options": {"include_usage": True},
        "user": {"name": "A", "id": "1", "email": "a@example.org", "role": "user"},
        "max_tokens": 1000,
        "logit_bias": {"50256": -100},
        "num_ctx": 4096,
    }
    librechat = {
        "model": "ragkit",
        "messages": [
            {"role": "system", "content": [{"type": "text", "text": "Be brief."}]},
            {"role": "user", "content": [{"type": "text", "text": "When is the hedge cut?"}]},
        ],
        "stream": True,
        "stream_options": {"include_usage": True},
        "user": "65f0",
        "max_completion_tokens": 500,
        "temperature": 1,
        "top_p": 1,
        "presence_penalty": 0,
        "frequency_penalty": 0,
        "stop": [],
    }
    responses = {
        "model": "ragkit",
        "input": [
            {"type": "message", "role": "user", "content": [{"type": "input_text", "text": question["content"]}]}
        ],
        "instructions": "Today is Monday.",
        "stream": True,
        "max_output_tokens": 1000,
        "store": False,
    }
    with serving(base) as (_, client):
        for body in (open_webui, librechat):
            lines = client.post("/v1/chat/completions", json=body).text.splitlines()
            chunks = [json.loads(line[6:]) for line in lines if line.startswith("data: {")]
            text = "".join(choice["delta"].get("content", "") for chunk in chunks for choice in chunk["choices"])
            assert text.startswith("The hedge is cut in August.")
            assert "prompt_tokens" in chunks[-1]["usage"]
        lines = client.post("/v1/responses", json=responses).text.splitlines()
        final = json.loads([line[6:] for line in lines if line.startswith("data: {")][-1])
        assert final["response"]["output"][0]["content"][0]["text"].startswith("The hedge is cut in August.")
