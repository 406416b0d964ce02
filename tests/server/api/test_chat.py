"""`/chat`, sessions and traces: streaming and storage."""

from __future__ import annotations

import logging
import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import httpx2
import pytest

from ragkit.agent.providers.scripted import FunctionProvider, ScriptedProvider
from ragkit.errors import InvalidRequest, KnowledgeBaseDamaged
from ragkit.server.logs import JsonFormatter
from ragkit.server.settings import Retention
from ragkit.server.state.database import StateDatabase
from tests.server.api.test_limits import wait_until
from tests.server.parts import LOCAL, SEARCH, StepProvider, events, serving

CITED = "It is cut in August [1]."


def test_a_streamed_answer_has_an_event_per_step_and_ends_with_the_message(base: Path) -> None:
    with (
        serving(base, ScriptedProvider([SEARCH, CITED])) as (_, client),
        client.stream("POST", "/chat", json={"message": "When is the hedge cut?", "stream": True}) as response,
    ):
        received = list(events(response))
        assert response.headers["content-type"].startswith("text/event-stream")
    names = [name for name, _ in received]
    assert names[:3] == ["start", "tool", "tool_result"]
    assert set(names[3:-1]) == {"text", "citation"}
    first, tool, result = (data for _, data in received[:3])
    assert (tool["name"], tool["arguments"]) == ("search_knowledge_base", {"query": "when is the hedge cut"})
    assert (result["id"], result["ok"]) == (tool["id"], True)
    assert result["summary"].startswith("3 passages, evidence ")
    assert "".join(data["delta"] for name, data in received if name == "text") == CITED
    name, done = received[-1]
    assert name == "done"
    message = done["message"]
    assert (message["role"], message["content"], message["status"]) == ("assistant", CITED, "done")
    assert (message["citations"][0]["n"], message["citations"][0]["quote"]) == (1, "The hedge is cut in August.")
    assert done["trace_id"] == message["trace_id"] == first["trace_id"]
    assert done["session"]["id"] == first["session_id"]
    assert done["session"]["title"] == "When is the hedge cut?"


def test_a_complete_answer_is_the_message_stored_in_the_session(base: Path) -> None:
    with serving(base, ScriptedProvider([SEARCH, CITED])) as (_, client):
        result = client.post("/chat", json={"message": "When is the hedge cut?"}).json()
        session = client.get(f"/session/{result['session_id']}").json()
        assert session["history"][1] == result["message"]
        assert (result["response"], session["message_count"]) == (CITED, 2)
        assert result["trace"] == client.get(f"/traces/{result['trace_id']}").json()
        document = client.get(f"/documents/{result['message']['citations'][0]['document_id']}").json()
    citation = result["message"]["citations"][0]
    assert document["text"][citation["start"] : citation["end"]] == citation["quote"]


def test_a_trace_has_the_steps_of_the_answer_and_no_text_of_it(base: Path) -> None:
    with serving(base, ScriptedProvider([SEARCH, CITED])) as (_, client):
        result = client.post("/chat", json={"message": "When is the hedge cut?"}).json()["trace"]
        [listed] = client.get("/traces", params={"session_id": result["session_id"]}).json()["traces"]
    spans = result["spans"]
    types = [span["type"] for span in spans]
    assert (types[0], types.count("iteration"), types.count("llm_call"), types.count("tool")) == ("run", 2, 2, 1)
    assert all(spans[span["parent"]]["start"] <= span["start"] <= span["end"] for span in spans[1:])
    assert (result["status"], result["question"]) == ("done", "When is the hedge cut?")
    assert "August" not in str(spans)
    details = {"spans", "turns", "tool_calls", "config", "total_tokens"}
    assert listed == {key: value for key, value in result.items() if key not in details}


def test_a_trace_has_the_turns_tool_calls_settings_and_tokens_of_the_answer(base: Path) -> None:
    with serving(base, ScriptedProvider([SEARCH, CITED])) as (_, client):
        body = {"message": "When is the hedge cut?", "temperature": 0.5, "max_tokens": 90}
        result = client.post("/chat", json=body).json()
        trace = client.get(f"/traces/{result['trace_id']}").json()
    assert trace == result["trace"]
    assert trace["trace_id"] == trace["id"] == result["trace_id"]
    assert (trace["started_at"], trace["completed_at"]) == (trace["started"], trace["ended"])
    question, call, passages, answer = trace["turns"]
    assert (question["role"], question["content"]) == ("user", "When is the hedge cut?")
    assert call["tool_calls"] == [
        {"id": "call_1", "name": "search_knowledge_base", "arguments": dict(SEARCH.arguments)}
    ]
    assert (passages["role"], passages["tool_call_id"]) == ("tool", "call_1")
    assert (answer["role"], answer["content"]) == ("assistant", CITED)
    times = [turn["timestamp"] for turn in trace["turns"]]
    assert times == sorted(times)
    assert trace["started_at"] <= times[0] <= times[-1] <= trace["completed_at"]
    [executed] = trace["tool_calls"]
    assert (executed["name"], executed["arguments"], executed["ok"]) == (SEARCH.name, dict(SEARCH.arguments), True)
    assert executed["result"] == passages["content"]
    assert "The hedge is cut in August." in executed["result"]
    assert executed["full_result_length"] == len(executed["result"])
    assert executed["duration_ms"] > 0
    assert (trace["config"]["temperature"], trace["config"]["max_tokens"], trace["config"]["top_p"]) == (0.5, 90, 1.0)
    assert trace["config"]["model"] == "scripted"
    assert trace["total_tokens"] == trace["usage"]["prompt_tokens"] + trace["usage"]["completion_tokens"] > 0


def test_the_trace_of_a_failed_answer_has_the_turns_before_the_failure(base: Path) -> None:
    with serving(base, ScriptedProvider([SEARCH, InvalidRequest("svc", "secret words")])) as (_, client):
        client.post("/chat", json={"message": "When?"})
        [listed] = client.get("/traces").json()["traces"]
        trace = client.get(f"/traces/{listed['trace_id']}").json()
    assert [turn["role"] for turn in trace["turns"]] == ["user", "assistant", "tool"]
    assert [call["name"] for call in trace["tool_calls"]] == ["search_knowledge_base"]
    assert "secret words" not in str((trace["turns"], trace["tool_calls"]))


def test_the_model_gets_the_earlier_messages_of_a_session(base: Path) -> None:
    provider = ScriptedProvider([SEARCH, CITED, "In August."])
    with serving(base, provider) as (_, client):
        session = client.post("/chat", json={"message": "When is the hedge cut?"}).json()["session_id"]
        client.post("/chat", json={"message": "Again?", "session_id": session})
    assert [item.content for item in provider.requests[-1].messages[1:]] == [
        "When is the hedge cut?",
        "It is cut in August [1].",
        "Again?",
    ]


def test_an_answer_without_a_session_is_not_stored(base: Path) -> None:
    body = {"messages": [{"role": "user", "content": "When is the hedge cut?"}]}
    with serving(base, ScriptedProvider([SEARCH, CITED])) as (_, client):
        result = client.post("/v1/chat/completions", json=body).json()
        assert client.get("/sessions").json() == {"sessions": [], "next": None}
        trace = client.get(f"/traces/{result['trace_id']}").json()
    assert (trace["session_id"], trace["question"]) == (None, "")
    assert (trace["turns"], trace["tool_calls"]) == ([], [])
    assert [turn["role"] for turn in result["trace"]["turns"]] == ["user", "assistant", "tool", "assistant"]
    assert {**result["trace"], "turns": [], "tool_calls": []} == trace
    assert b"hedge" not in b"".join(path.read_bytes() for path in base.glob("server.sqlite*"))


def test_with_any_model_unknown_names_are_answered_by_the_default(base: Path) -> None:
    messages = [{"role": "user", "content": "When?"}]
    with serving(base, ScriptedProvider(["One.", "Two."]), replace(LOCAL, any_model=True)) as (_, client):
        completion = client.post("/v1/chat/completions", json={"model": "gpt-4o", "messages": messages}).json()
        assert (completion["model"], completion["answered_by"]) == ("gpt-4o", "scripted")
        assert client.post("/chat", json={"message": "When?", "model": "gpt-4o"}).json()["response"] == "Two."
        assert client.get("/v1/models/gpt-4o").json()["id"] == "gpt-4o"
        assert client.post("/v1/embeddings", json={"model": "gpt-4o", "input": "x"}).status_code == 404
    with serving(base) as (_, client):
        unknown = client.post("/v1/chat/completions", json={"model": "gpt-4o", "messages": messages})
        assert unknown.status_code == 404
        assert unknown.json()["error"]["message"] == (
            "unknown model 'gpt-4o'; available: ragkit (to accept any name: ragkit serve --accept-unknown-models)"
        )


def test_each_tool_call_is_logged_without_its_arguments(base: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "ragkit.server")
    broken = replace(SEARCH, id="call_2", arguments={"nonsense": "secret words"})
    with serving(base, ScriptedProvider([SEARCH, broken, CITED])) as (_, client):
        result = client.post("/chat", json={"message": "When?"}).json()
    lines = [record for record in caplog.records if hasattr(record, "tool")]
    assert [line.getMessage() for line in lines] == [
        "tool search_knowledge_base returned",
        "tool search_knowledge_base failed",
    ]
    assert [line.__dict__["ok"] for line in lines] == [True, False]
    assert {line.__dict__["trace"] for line in lines} == {result["trace_id"]}
    assert lines[0].__dict__["seconds"] > 0
    printed = [JsonFormatter().format(line) for line in lines]
    assert not any("hedge" in line or "secret words" in line for line in printed)


def test_sessions_are_named_renamed_ended_and_exported(base: Path) -> None:
    with serving(base, ScriptedProvider([SEARCH, CITED])) as (_, client):
        session = client.post("/session/start", json={"title": "  My \n garden "}).json()
        assert (session["title"], session["messages"], session["ended"]) == ("My garden", 0, None)
        path = f"/session/{session['id']}"
        client.post("/chat", json={"message": "When?", "session_id": session["id"]})
        assert client.patch(path, json={"title": "The garden"}).json()["title"] == "The garden"
        text = client.get(f"{path}/export", params={"format": "markdown"})
        assert text.headers["content-type"].startswith("text/markdown")
        assert text.text.startswith("# The garden\n")
        assert "## You\n\nWhen?\n\n## Answer\n\nIt is cut in August [1].\n\n[1] " in text.text
        assert client.get(f"{path}/export").json() == client.get(path).json()
        ended = client.post("/session/end", json={"session_id": session["id"]}).json()["ended"]
        assert ended is not None
        assert client.post("/session/end", json={"session_id": session["id"]}).json()["ended"] == ended
        refused = client.post("/chat", json={"message": "When?", "session_id": session["id"]})
    assert (refused.status_code, refused.json()["error"]["code"]) == (409, "session_ended")


def test_a_session_has_the_keys_of_the_specification(base: Path) -> None:
    with serving(base, ScriptedProvider([SEARCH, CITED])) as (_, client):
        started = client.post("/session/start", json={}).json()
        assert started["session_id"] == started["id"]
        assert started["session_id"].startswith("sess_")
        assert (started["started_at"], started["status"]) == (started["created"], "active")
        trace = client.post("/chat", json={"message": "When?", "session_id": started["id"]}).json()["trace_id"]
        ended = client.post("/session/end", json={"session_id": started["session_id"]}).json()
        assert (ended["session_id"], ended["message_count"], ended["status"]) == (started["id"], 2, "completed")
        assert ended["ended_at"] == ended["ended"]
        session = client.get(f"/session/{started['session_id']}").json()
    assert session["traces"] == [trace]
    assert session["messages"] == [{"role": "user", "content": "When?"}, {"role": "assistant", "content": CITED}]
    assert (session["session_id"], session["status"], session["started_at"], session["ended_at"]) == (
        started["session_id"], "completed", started["started_at"], ended["ended_at"],
    )  # fmt: skip


def turns(*texts: str) -> list[dict[str, str]]:
    """Messages of the user and the assistant in turn."""
    return [{"role": ("user", "assistant")[at % 2], "content": text} for at, text in enumerate(texts)]


def contents(client: httpx2.Client, session: str) -> list[str]:
    """The texts of the stored messages."""
    return [message["content"] for message in client.get(f"/session/{session}").json()["history"]]


def test_a_new_session_stores_the_whole_history_of_the_request(base: Path) -> None:
    provider = ScriptedProvider(["a2"])
    with serving(base, provider) as (_, client):
        result = client.post("/chat", json={"messages": turns("h1", "a1", "h2")}).json()
        assert contents(client, result["session_id"]) == ["h1", "a1", "h2", "a2"]
        assert result["session"]["message_count"] == 4
    assert [message.content for message in provider.requests[-1].messages[1:]] == ["h1", "a1", "h2"]


def test_a_history_that_repeats_the_session_is_not_stored_twice(base: Path) -> None:
    provider = ScriptedProvider(["a1", "a2", "a3"])
    with serving(base, provider) as (_, client):
        session = client.post("/chat", json={"message": "h1"}).json()["session_id"]
        client.post("/chat", json={"messages": turns("h1", "a1", "h2"), "session_id": session})
        assert contents(client, session) == ["h1", "a1", "h2", "a2"]
        # a client that sends only the last messages
        client.post("/chat", json={"messages": turns("h2", "a2", "h3"), "session_id": session})
        assert contents(client, session) == ["h1", "a1", "h2", "a2", "h3", "a3"]
    sent = [message.content for message in provider.requests[-1].messages[1:]]
    assert sent == ["h1", "a1", "h2", "a2", "h3"]


def test_a_history_that_the_session_lacks_is_added_to_it(base: Path) -> None:
    provider = ScriptedProvider(["a1", "a3", "a5"])
    with serving(base, provider) as (_, client):
        session = client.post("/session/start").json()["id"]
        client.post("/chat", json={"messages": turns("h1"), "session_id": session})
        client.post("/chat", json={"messages": turns("h1", "a1", "h2", "a2", "h3"), "session_id": session})
        assert contents(client, session) == ["h1", "a1", "h2", "a2", "h3", "a3"]
        client.post("/chat", json={"messages": turns("h4", "a4", "h5"), "session_id": session})
        assert contents(client, session)[6:] == ["h4", "a4", "h5", "a5"]
    sent = [message.content for message in provider.requests[-1].messages[1:]]
    assert sent == ["h1", "a1", "h2", "a2", "h3", "a3", "h4", "a4", "h5"]


def test_a_history_that_does_not_fit_the_session_is_rejected(base: Path) -> None:
    keeping = replace(LOCAL, retention=Retention(max_messages=4))
    with serving(base, ScriptedProvider(["a3"]), keeping) as (_, client):
        full = client.post("/chat", json={"messages": turns("h1", "a1", "h2", "a2", "h3")})
        assert (full.status_code, full.json()["error"]["code"]) == (409, "session_full")
        assert client.get("/sessions").json()["sessions"] == []


def test_sessions_are_listed_by_page_most_recently_used_first(base: Path) -> None:
    with serving(base) as (_, client):
        created = [client.post("/session/start", json={"title": str(n)}).json()["id"] for n in range(5)]
        listed: list[str] = []
        cursor = None
        while True:
            page = client.get("/sessions", params={"limit": 2, **({"cursor": cursor} if cursor else {})}).json()
            listed += [item["id"] for item in page["sessions"]]
            cursor = page["next"]
            if cursor is None:
                break
        assert listed == created[::-1]
        invalid = client.get("/sessions", params={"cursor": "WzEsMl0"})
    assert (invalid.status_code, invalid.json()["error"]["code"]) == (400, "invalid_cursor")


def test_a_failed_answer_is_stored_as_failed(base: Path) -> None:
    with serving(base, ScriptedProvider([SEARCH, InvalidRequest("svc", "secret words")])) as (_, client):
        session = client.post("/session/start").json()["id"]
        failed = client.post("/chat", json={"message": "When?", "session_id": session})
        assert (failed.status_code, failed.json()["error"]["code"]) == (502, "provider_failed")
        _, message = client.get(f"/session/{session}").json()["history"]
        assert (message["status"], message["error"]["code"]) == ("error", "provider_failed")
        trace = client.get(f"/traces/{message['trace_id']}").json()
    assert (trace["status"], trace["error"]) == ("error", "the model provider failed")
    assert [span["name"] for span in trace["spans"] if span["type"] == "tool"] == ["search_knowledge_base"]
    assert "secret" not in str((failed.text, message, trace["error"]))


def test_a_session_has_one_running_answer_at_a_time(base: Path) -> None:
    provider = StepProvider(["one ", "two"])
    with serving(base, provider) as (served, client):
        session = client.post("/session/start").json()["id"]
        body = {"message": "When?", "session_id": session, "stream": True}
        with served.client() as other, other.stream("POST", "/chat", json=body) as stream:
            received = events(stream)
            assert next(received)[0] == "start"
            refused = client.post("/chat", json={"message": "And?", "session_id": session})
            assert (refused.status_code, refused.json()["error"]["code"]) == (409, "session_busy")
            provider.steps.release(2)
            assert list(received)[-1][0] == "done"
        assert client.get(f"/session/{session}").json()["message_count"] == 2


def test_an_answer_in_the_background_goes_on_without_its_client_and_stops_when_it_is_told_to(base: Path) -> None:
    provider = StepProvider(["one ", "two ", "three"])
    with serving(base, provider) as (served, client):
        session = client.post("/session/start").json()["id"]
        body = {"message": "When?", "session_id": session, "stream": True, "background": True}
        with served.client() as other, other.stream("POST", "/chat", json=body) as stream:
            provider.steps.release(1)
            assert next(data for name, data in events(stream) if name == "text") == {"delta": "one"}
        assert client.get(f"/session/{session}").json()["history"][-1]["status"] == "running"
        assert client.post("/session/stop", json={"session_id": session}).json()["id"] == session
        stopped = client.get(f"/session/{session}").json()["history"][-1]
        assert (stopped["status"], stopped["content"]) == ("cancelled", "one")
        assert client.post("/session/stop", json={"session_id": session}).status_code == 200
        provider.steps.release(3)


def test_text_before_a_tool_call_is_a_paragraph_of_its_own(base: Path) -> None:
    first = replace(SEARCH, id="call_9")

    def answer(request: object) -> object:
        from ragkit.agent.messages import Message

        message_count = len(getattr(request, "messages", ()))
        return Message.assistant("I look it up.", [first]) if message_count == 2 else CITED

    with (
        serving(base, FunctionProvider(answer)) as (_, client),  # type: ignore[arg-type]
        client.stream("POST", "/chat", json={"message": "When?", "stream": True}) as response,
    ):
        received = list(events(response))
    assert "".join(data["delta"] for name, data in received if name == "text") == f"I look it up.\n\n{CITED}"
    assert received[-1][1]["message"]["content"] == CITED


def test_old_and_surplus_sessions_are_deleted_and_full_ones_are_closed(base: Path) -> None:
    keeping = replace(LOCAL, retention=Retention(max_sessions=2, max_messages=2))
    with serving(base, ScriptedProvider(["One.", "Two."]), keeping) as (_, client):
        ids = [client.post("/session/start", json={"title": str(n)}).json()["id"] for n in range(3)]
        statuses = [client.get(f"/session/{item}").status_code for item in ids]
        assert statuses == [404, 200, 200]
        body = {"message": "When?", "session_id": ids[1]}
        assert client.post("/chat", json=body).status_code == 200
        full = client.post("/chat", json=body)
    assert (full.status_code, full.json()["error"]["code"]) == (409, "session_full")


def test_sessions_that_are_never_used_push_out_no_conversations(base: Path) -> None:
    keeping = replace(LOCAL, retention=Retention(max_sessions=20))
    with serving(base, FunctionProvider(lambda request: "Yes."), keeping) as (_, client):
        talks = [client.post("/chat", json={"message": "When?"}).json()["session_id"] for _ in range(5)]
        empty = [client.post("/session/start").json()["id"] for _ in range(50)]
        assert [client.get(f"/session/{talk}").status_code for talk in talks] == [200] * 5
        kept = [client.get(f"/session/{session}").status_code for session in empty]
        assert kept == [404] * 35 + [200] * 15


def test_a_new_session_stays_while_all_others_are_conversations(base: Path) -> None:
    keeping = replace(LOCAL, retention=Retention(max_sessions=11))
    with serving(base, FunctionProvider(lambda request: "Yes."), keeping) as (_, client):
        talks = [client.post("/chat", json={"message": "When?"}).json()["session_id"] for _ in range(11)]
        started = client.post("/session/start").json()["id"]
        client.post("/chat", json={"message": "When?"})
        assert client.get(f"/session/{started}").status_code == 200
        assert [client.get(f"/session/{talk}").status_code for talk in talks[:3]] == [404, 200, 200]


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/chat", r'{"message": "a\ud800b"}'),
        ("/chat", r'{"message": "x", "where": {"year": "\udfff"}}'),
        ("/chat", r'{"messages": [{"role": "user", "content": "a\ud800b"}]}'),
        ("/v1/search", r'{"query": "a\ud800b"}'),
        ("/v1/embeddings", r'{"input": ["x", "a\ud800b"]}'),
        ("/v1/chat/completions", r'{"messages": [{"role": "user", "content": [{"type": "text", "text": "\ud800"}]}]}'),
        ("/session/start", r'{"title": "a\ud800b"}'),
    ],
)
def test_half_a_character_is_an_invalid_request(base: Path, path: str, body: str) -> None:
    headers = {"content-type": "application/json"}
    with serving(base, ScriptedProvider([])) as (_, client):
        rejected = client.post(path, content=body, headers=headers)
        assert (rejected.status_code, rejected.json()["error"]["code"]) == (400, "invalid_request")
        assert rejected.json()["error"]["message"].endswith("a text has a lone surrogate: send valid Unicode")
        pair = client.post("/v1/search", content=r'{"query": "\ud83d\ude00 hedge"}', headers=headers)
        assert pair.json()["question"] == "😀 hedge"


def test_the_texts_of_a_deleted_session_leave_its_traces(base: Path) -> None:
    keeping = replace(LOCAL, retention=Retention(max_sessions=1))
    with serving(base, ScriptedProvider([SEARCH, CITED, "Yes."])) as (_, client):
        trace = client.post("/chat", json={"message": "When is the hedge cut?"}).json()["trace_id"]
        client.post("/chat", json={"message": "Is it?"})
    with serving(base, settings=keeping) as (_, client):
        wait_until(lambda: client.get(f"/traces/{trace}").json()["question"] == "")
        left = client.get(f"/traces/{trace}").json()
    assert (left["turns"], left["tool_calls"], left["config"]["top_p"]) == ([], [], 1.0)


def test_a_state_file_of_a_later_version_is_refused_with_what_to_do(base: Path) -> None:
    with closing(sqlite3.connect(base / "server.sqlite")) as connection:
        connection.execute("PRAGMA user_version = 99")
    with pytest.raises(KnowledgeBaseDamaged, match=r"was written by a later version of ragkit: use that version$"):
        StateDatabase(base)


def test_a_state_file_of_an_earlier_version_is_upgraded(base: Path) -> None:
    with serving(base, ScriptedProvider([SEARCH, CITED, "Two."])) as (_, client):
        trace = client.post("/chat", json={"message": "When?"}).json()["trace_id"]
    with closing(sqlite3.connect(base / "server.sqlite")) as connection:
        connection.executescript(
            "DROP INDEX sessions_by_owner;"
            "ALTER TABLE sessions DROP COLUMN owner; ALTER TABLE sessions DROP COLUMN bytes;"
            "ALTER TABLE sessions DROP COLUMN labels; ALTER TABLE sessions DROP COLUMN note;"
            "ALTER TABLE traces DROP COLUMN owner; ALTER TABLE suspended DROP COLUMN owner;"
            "ALTER TABLE traces DROP COLUMN record; PRAGMA user_version = 1"
        )
    with serving(base, ScriptedProvider(["Two."])) as (_, client):
        old = client.get(f"/traces/{trace}").json()
        assert (old["question"], old["turns"], old["config"]) == ("When?", [], {})
        assert len(client.post("/chat", json={"message": "And?"}).json()["trace"]["turns"]) == 2


def test_invalid_requests_are_rejected(base: Path) -> None:
    with serving(base) as (_, client):

        def refused(method: str, path: str, **options: object) -> tuple[int, str, str | None]:
            response: httpx2.Response = client.request(method, path, **options)  # type: ignore[arg-type]
            error = response.json()["error"]
            return response.status_code, error["code"], error["param"]

        assert refused("POST", "/chat", json={"message": " "}) == (400, "empty", "message")
        assert refused("POST", "/chat", json={"mesage": "x"}) == (400, "invalid_request", "mesage")
        assert refused("POST", "/chat", content=b"{") == (400, "invalid_request", None)
        assert refused("POST", "/chat", json={"message": "x", "session_id": "ses_x"}) == (
            404,
            "session_not_found",
            None,
        )
        assert refused("POST", "/chat", json={"message": "x", "model": "gpt"}) == (404, "model_not_found", "model")
        assert refused("GET", "/traces/trc_x") == (404, "trace_not_found", None)
        assert refused("GET", "/nowhere") == (404, "not_found", None)
        assert refused("DELETE", "/chat") == (405, "method_not_allowed", None)
        assert client.delete("/session/ses_x").headers["allow"] == "GET, PATCH"
