"""Every snippet of the specification runs and does what its document promises, or fails as examples/specification says.

The files are the snippets as they are written, but for the package's name.
"""

from __future__ import annotations

import json
import os
import re
import runpy
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

import ragkit
from ragkit import AgentResult
from ragkit.agent.providers.base import ModelRequest
from ragkit.agent.providers.scripted import FunctionProvider, ScriptedProvider
from ragkit.agent.tracing.trace import TURN_STEPS
from ragkit.knowledge_base.knowledge_base import KnowledgeBase
from ragkit.pipeline.settings import Pipeline
from tests.server.parts import SEARCH, serving
from tests.wire.dialects import DIALECTS
from tests.wire.server import ToolCallTurn, Turn, WireServer
from tests.wire.test_choice import point_to

FOLDER = Path(__file__).parents[2] / "examples" / "specification"
README = (FOLDER / "README.md").read_text(encoding="utf-8")
NOT_RUNNING = dict(re.findall(r"^\| `([\w/.]+)` \| `(.+?)` \|", README, re.MULTILINE))
"""File -> what happens, from the table of the README."""
FAILING = sorted(name for name in NOT_RUNNING if name.endswith(".py") and "/config_" not in name)
EXCHANGES = sorted(
    path.relative_to(FOLDER).as_posix()
    for path in (FOLDER / "4_chat_server").glob("*.json")
    if path.stem != "endpoints"
)
SCRIPT = (Turn(calls=(ToolCallTurn("add", {"a": 1, "b": 2}, "c1"),)), Turn(("It is ", "3.")))

Names = dict[str, Any]
"""The names that a snippet defines."""


def run(name: str) -> Names:
    """Run a file."""
    return runpy.run_path(str(FOLDER / name))


def result_of(name: str) -> AgentResult:
    """Run a file that ends with the result of an agent."""
    result = run(name)["result"]
    assert isinstance(result, AgentResult)
    return result


@pytest.fixture(autouse=True)
def _empty_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """An empty working directory and an environment without settings; changes by a snippet are undone."""
    before = dict(os.environ)
    for name in [name for name in os.environ if name.startswith("RAGKIT_") or name.endswith("_API_KEY")]:
        del os.environ[name]
    os.environ["XDG_CONFIG_HOME"] = str(tmp_path / "no-config")
    monkeypatch.chdir(tmp_path)
    yield
    os.environ.clear()
    os.environ.update(before)


@pytest.fixture
def services(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., list[WireServer]]]:
    """Start local services and set their URLs in the environment."""
    with ExitStack() as stack:

        def start(*names: str) -> list[WireServer]:
            servers = [stack.enter_context(WireServer(DIALECTS[name], SCRIPT)) for name in names]
            for name, server in zip(names, servers, strict=True):
                point_to(name, server.url, monkeypatch)
            return servers

        yield start


# --- every file ---


def test_every_file_is_tested() -> None:
    files = {path.relative_to(FOLDER).as_posix() for path in FOLDER.glob("*/*") if path.suffix in {".py", ".json"}}
    here = set(re.findall(r'"(\d_\w+/\w+\.\w+)"', Path(__file__).read_text(encoding="utf-8")))
    assert files == here | set(FAILING) | set(EXCHANGES)
    assert set(NOT_RUNNING) <= files


@pytest.mark.parametrize("name", FAILING)
def test_a_snippet_that_does_not_run_fails_as_the_readme_says(name: str) -> None:
    with pytest.raises(Exception) as caught:
        run(name)
    text = re.sub(r" \(/.*\)$", "", str(caught.value).splitlines()[0])
    assert f"{type(caught.value).__name__}: {text}" == NOT_RUNNING[name]


# --- 1: selectools ---


def test_adding_a_new_tool() -> None:
    names = run("1_selectools/new_tool.py")
    created = names["my_tool"]
    assert isinstance(created, ragkit.Tool)
    assert (names["result"], created.description) == ("Result: a, 10", "Your tool description")
    parameters: Any = created.parameters
    assert (parameters["required"], list(parameters["properties"])) == (["param1"], ["param1", "param2"])


def test_custom_hooks(capsys: pytest.CaptureFixture[str]) -> None:
    assert result_of("1_selectools/custom_hooks.py").content == "It is 3."
    assert capsys.readouterr().out == "Tool: add, Args: {'a': 1, 'b': 2}\n"


def test_response_caching(capsys: pytest.CaptureFixture[str]) -> None:
    names = run("1_selectools/response_caching.py")
    assert names["response1"].content == names["response2"].content
    assert capsys.readouterr().out.startswith("CacheStats(hits=1, misses=1, ")


def test_the_provider_is_switched_with_one_line(services: Callable[..., list[WireServer]]) -> None:
    services("openai", "anthropic", "gemini", "ollama")
    results: list[AgentResult] = run("1_selectools/switch_provider.py")["results"]
    assert [(item.content, item.tool_calls[0].content) for item in results] == [("It is 3.", "3")] * 4


def test_a_rag_agent_is_made_in_three_ways() -> None:
    for answer in run("1_selectools/rag_agent.py")["answers"]:
        assert [item.quote for item in answer.citations] == ["The hedge is cut in August."]


def test_stores_are_switched_without_changes() -> None:
    names = run("1_selectools/vector_store.py")
    assert [[result.document.id for result in results] for results in names["found"]] == [["a"], ["a"]]
    assert names["counts"] == [0, 0]


def test_the_rag_flow() -> None:
    matches = run("1_selectools/rag_flow.py")["matches"]
    assert matches[0].document.text.endswith("The hedge is cut in August.")
    assert matches[0].score > matches[1].score


def test_the_parts_of_the_tool_calling_flow_work_alone() -> None:
    names = run("1_selectools/tool_calling_parts.py")
    assert (names["checked"], names["result"]) == ({"a": 1, "b": 2}, "3")
    assert '"a"' in names["prompt"]
    assert len(names["Memory"].get_history()) == 1


def test_every_public_class_is_exported() -> None:
    assert run("1_selectools/all_names.py")["model"] is not None


def test_every_hook_is_called() -> None:
    names = run("1_selectools/hooks.py")
    assert set(names["seen"]) == set(names["names"])


def test_the_key_of_a_cached_response_depends_on_all_its_parts() -> None:
    names = run("1_selectools/cache_key.py")
    parts = [names[key] for key in ("model", "prompt", "messages", "tools", "temperature")]
    assert (len(names["key"]), names["cached"]) == (64, None)
    for index, other in enumerate(["other", "other", [*parts[2], *parts[2]], [], 0.1]):
        changed = [*parts[:index], other, *parts[index + 1 :]]
        assert ragkit.CacheKeyBuilder.build(*changed) != names["key"]
    assert ragkit.CacheKeyBuilder.build(*parts) == names["key"]


def test_a_provider_takes_the_parts_of_a_request() -> None:
    names = run("1_selectools/provider_complete.py")
    message, usage = names["response"]
    assert (message.content, usage.cost_usd) == ("It is 3.", 0.0)
    [request] = names["Provider"].requests
    assert request.model == "some-model"
    assert [item.content for item in request.messages] == [names["prompt"], "What is 1 + 2?"]


def test_the_local_provider_calls_the_tools_of_the_environment() -> None:
    result = result_of("1_selectools/mock_tool_calls.py")
    assert (result.content, [call.content for call in result.tool_calls]) == ("3", ["3"])


# --- 2: rules of the agent core ---


def test_a_result_has_content_trace_reasoning_and_usage() -> None:
    names = run("2_agent_core_rules/agent_result.py")
    assert (names["content"], names["reasoning"]) == ("It is 3.", "")
    assert names["trace"].steps
    assert names["usage"].iterations


def test_a_turn_has_the_eleven_steps_in_order() -> None:
    first, *_ = run("2_agent_core_rules/execution_flow.py")["turns"]
    assert [step for step in first if step in TURN_STEPS] == [step.value for step in TURN_STEPS]


@pytest.mark.parametrize("name", ["2_agent_core_rules/batch.py", "2_agent_core_rules/concurrent_arun.py"])
def test_concurrent_runs_of_one_agent_are_isolated(name: str) -> None:
    names = run(name)
    for key in {"results", "aresults"} & names.keys():
        assert [result.content for result in names[key]] == [f"message {number}" for number in range(20)]
        assert {len(result.messages) for result in names[key]} == {2}


def test_a_provider_can_return_no_content() -> None:
    names = run("2_agent_core_rules/no_content.py")
    assert (names["content"], names["result"].content) == ("", "")


def test_the_parser_does_not_take_structured_output_for_a_tool_call() -> None:
    result = result_of("2_agent_core_rules/structured_output.py")
    assert (result.tool_calls, getattr(result.parsed, "tool_name", "")) == ((), "add")


def test_observers_are_notified_of_trimmed_memory() -> None:
    assert len(run("2_agent_core_rules/memory_trim.py")["dropped"]) == 2


def test_an_iteration_ends_with_routing_only_too() -> None:
    names = run("2_agent_core_rules/routing_only.py")
    assert (len(names["ended"]), names["result"].stop_reason) == (1, "routing_only")


def test_an_observer_that_raises_does_not_stop_a_run() -> None:
    assert result_of("2_agent_core_rules/failing_observer.py").content == "hello"


# --- 3: groqqy ---


def test_a_bot_on_groq(services: Callable[..., list[WireServer]]) -> None:
    [server] = services("groq")
    server_names = run("3_groqqy/facade.py")
    assert server_names["response"] == "It is 3."
    body = server.seen[0].body
    assert (body["model"], body["messages"][0]["content"]) == (
        "llama-3.3-70b-versatile",
        "You are a helpful assistant.",
    )


def test_the_facade(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAGKIT_MOCK_JSON", '["hello"]')
    names = run("3_groqqy/api_contract.py")
    assert (names["response"], names["cost"]) == ("hello", 0.0)
    config = names["bot"].agent.config
    assert (config.model, config.max_iterations) == ("llama-3.3-70b", 20)


def test_the_conversation_manager() -> None:
    names = run("3_groqqy/conversation_manager.py")
    assert [message["role"] for message in names["history"]] == ["user", "assistant", "assistant", "tool"]
    assert len(names["manager"]) == 0


def test_the_tool_executor() -> None:
    names = run("3_groqqy/tool_executor.py")
    assert (names["result"], names["results"]) == ("3", [("c1", "3"), ("c2", "7")])


def test_the_error_of_a_tool_is_text() -> None:
    names = run("3_groqqy/tool_executor_errors.py")
    assert names["result"] == "3"
    assert all(names[key].startswith("Error executing add: ") for key in ("error", "same"))


def test_the_cost_tracker() -> None:
    names = run("3_groqqy/cost_tracker.py")
    assert names["total"] == pytest.approx(0.00008)
    assert [entry.metadata["iteration"] for entry in names["entries"]] == [1, 2]


def test_the_tool_registry() -> None:
    names = run("3_groqqy/tool_registry.py")
    assert names["names"] == ["read_file", "func"]
    assert names["registry"].get("func").description == "Find files"
    assert [schema["type"] for schema in names["schemas"]] == ["function", "function"]
    assert run("3_groqqy/tool_decorator.py")["registry"].get("analyze_code").description == "Analyze code for issues"


def test_a_tool_is_the_class_of_the_specification() -> None:
    names = run("3_groqqy/tool_class.py")
    sketch, real = names["tools"]
    assert [getattr(sketch, key) == getattr(real, key) for key in ("name", "description", "parameters")] == [True] * 3
    assert names["results"] == ["3", "3"]


def test_a_request_flows_through_a_bot() -> None:
    names = run("3_groqqy/request_flow_list_files.py")
    result = names["bot"].last_result
    assert (names["response"], result.iterations) == ("I found 2 Python files...", 2)
    assert result.tool_calls[0].content.split() == ["app.py", "test.py"]


def test_search_files_finds_files_by_their_name() -> None:
    assert run("3_groqqy/request_flow.py")["response"] == "I found 2 Python files..."


def test_a_conversation_is_kept_in_a_database() -> None:
    names = run("3_groqqy/database_conversation.py")
    assert names["db"].rows == [{"role": "user", "content": "Hello"}]


def test_a_provider_with_chat_and_get_cost(services: Callable[..., list[WireServer]]) -> None:
    assert run("3_groqqy/custom_provider.py")["agent"].max_iterations == 10
    result = result_of("3_groqqy/provider_interface.py")
    assert (result.content, result.total_cost) == ("hello", None)  # without usage the cost is unknown
    [server] = services("groq")
    result = result_of("3_groqqy/groq_provider.py")
    assert (result.response, result.usage.prompt_tokens) == ("It is 3.", 1000)
    assert result.total_cost == pytest.approx(0.00005 + 0.000008)
    first, *_, question = server.seen[0].body["messages"]
    assert (first["role"], question) == ("system", {"role": "user", "content": "hello"})


def test_the_log_has_fields(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level("INFO", "ragkit.agent"):
        run("3_groqqy/tool_executor_log.py")
    assert caplog.messages == ["Executing tool name='add' args={'a': 1}", "Tool failed name='add' error='no reason'"]


def test_a_team_collaborates() -> None:
    assert result_of("3_groqqy/agent_team.py").content == "done"


def test_a_planner_returns_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAGKIT_MOCK_JSON", json.dumps([json.dumps({"steps": ["book", "pack"]})]))
    assert run("3_groqqy/planner.py")["plan"] == ["book", "pack"]


def test_memories_are_recalled() -> None:
    assert run("3_groqqy/memory_manager.py")["recalled"] == {"name": "Ada"}


def test_custom_tools() -> None:
    assert run("3_groqqy/custom_tools.py")["bot"].tools.list_names() == ["analyze_contracts"]


def test_an_agent_with_a_planning_phase() -> None:
    result = result_of("3_groqqy/planning_agent.py")
    assert (result.content, result.messages[0].content) == ("two", "go: step 2")


def test_answers_piece_by_piece() -> None:
    assert run("3_groqqy/chat_stream_method.py")["chunks"] == ["one ", "two"]
    assert run("3_groqqy/chat_stream.py")["chunks"] == ["one ", "two"]


# --- 4: the chat server ---

TEXT = "# Garden\n\nThe hedge is cut in August.\n"
CITED = "It is cut in August [1]."


@pytest.fixture(scope="module")
def kb_directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A knowledge base of one document."""
    directory = tmp_path_factory.mktemp("served")
    (directory / "garden.md").write_text(TEXT, encoding="utf-8")
    with KnowledgeBase.open(directory / "kb", Pipeline.from_yaml("embed: {name: hashing, dimension: 64}\n")) as kb:
        kb.index(directory / "garden.md")
    return directory / "kb"


@pytest.fixture(scope="module")
def client(kb_directory: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A client of a server whose model searches once and then answers."""

    def answer(request: ModelRequest) -> Any:
        return SEARCH if request.messages[-1].role == "user" else CITED

    copy = Path(shutil.copytree(kb_directory, tmp_path_factory.mktemp("client") / "kb"))
    with serving(copy, FunctionProvider(answer)) as (_, result):
        yield result


def missing(expected: Any, actual: Any, place: str = "") -> list[str]:
    """The paths of expected keys that are missing or have values of another type."""
    if isinstance(expected, dict) and isinstance(actual, dict):
        pairs = [(f"{place}.{key}".lstrip("."), value, actual.get(key)) for key, value in expected.items()]
        return [path for name, value, result in pairs for path in missing(value, result, name)]
    if isinstance(expected, list) and isinstance(actual, list):
        return missing(expected[0], actual[0], f"{place}[]") if expected and actual else []
    numbers = isinstance(expected, int | float) and isinstance(actual, int | float)
    return [] if numbers or type(expected) is type(actual) else [place]


@pytest.mark.parametrize("name", EXCHANGES)
def test_the_server_answers_a_request_of_the_specification(name: str, client: Any) -> None:
    exchange = json.loads((FOLDER / name).read_text(encoding="utf-8"))
    session = client.post("/session/start", json={}).json()["id"]
    first = client.post("/chat", json={"message": "When is the hedge cut?", "session_id": session}).json()
    text = json.dumps(exchange).replace("sess_xxx", session)
    if "trace_xyz" in exchange["path"]:
        text = text.replace("trace_xyz", first["trace_id"])
    sent = json.loads(text)
    response = client.request(sent["method"], sent["path"], json=sent.get("request"))
    if response.is_error:
        happens = f"HTTP {response.status_code}: {response.json()['error']['message'].replace('`', '')}"
    else:
        lacking = missing(sent["response"], response.json())
        happens = f"the response lacks {', '.join(lacking)}" if lacking else ""
    assert happens == NOT_RUNNING.get(name, "")


def test_every_endpoint_exists(client: Any) -> None:
    endpoints = json.loads((FOLDER / "4_chat_server/endpoints.json").read_text(encoding="utf-8"))["endpoints"]
    assert len(endpoints) == 8
    for method, path in endpoints:
        response = client.request(method, path.replace("<id>", "unknown"), json={} if method == "POST" else None)
        is_unknown = "<id>" in path and response.json()["error"]["code"] in {"session_not_found", "trace_not_found"}
        assert response.status_code not in {404, 405} or is_unknown, path
    assert client.get("/").headers["content-type"].startswith("text/html")


def test_a_server_starts_without_sessions_and_traces(kb_directory: Path, tmp_path: Path) -> None:
    names = run("4_chat_server/storage.py")
    with serving(Path(shutil.copytree(kb_directory, tmp_path / "kb"))) as (_, fresh):
        assert fresh.get("/traces").json()["traces"] == names["traces"]
        assert fresh.get("/sessions").json()["sessions"] == list(names["sessions"])


def test_a_tool_is_executed_by_its_name() -> None:
    assert run("4_chat_server/execute_tool.py")["result"] == "1175"


def model_request(directory: Path, path: str, data: Names, earlier: str = "") -> ModelRequest:
    """The request that the model receives; `earlier` is an earlier message of the session."""
    provider = ScriptedProvider(["Good morning."] * (1 + bool(earlier)))
    copy = Path(shutil.copytree(directory, Path(tempfile.mkdtemp(dir=Path.cwd())) / "kb"))
    with serving(copy, provider) as (_, client):
        extra: Names = {}
        if earlier:
            extra["session_id"] = client.post("/session/start", json={}).json()["id"]
            assert not client.post("/chat", json={"message": earlier, **extra}).is_error
        response = client.post(path, json={**data, **extra})
        assert not response.is_error, response.text
    return provider.requests[-1]


def conversation(request: ModelRequest) -> list[dict[str, str]]:
    return [{"role": item.role.value, "content": item.content} for item in request.messages if item.role != "system"]


def test_a_session_gives_the_model_the_earlier_messages(kb_directory: Path) -> None:
    built = run("4_chat_server/conversation_building.py")
    request = model_request(kb_directory, "/v1/chat/completions", built["data"], "Hello")
    assert conversation(request) == built["messages"]
    merged = run("4_chat_server/session_merge.py")
    request = model_request(kb_directory, "/chat", merged["data"], "Hello")
    assert conversation(request) == merged["conversation_messages"]


def test_a_system_message_overrides_the_system_prompt(kb_directory: Path) -> None:
    names = run("4_chat_server/system_message.py")
    request = model_request(kb_directory, "/v1/chat/completions", names["data"])
    assert names["config"] == {"system_prompt": "Answer in Latin."}
    assert names["config"]["system_prompt"] in request.messages[0].content
    assert "Greek" not in request.messages[0].content
    assert conversation(request) == names["messages"]


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("4_chat_server/config_chat_completions.py", "/v1/chat/completions"),
        ("4_chat_server/config_given.py", "/v1/chat/completions"),
        ("4_chat_server/config_chat.py", "/chat"),
    ],
)
def test_the_parameters_of_a_request_reach_the_model(name: str, path: str, kb_directory: Path) -> None:
    names = run(name)
    request = model_request(kb_directory, path, names["data"])
    config = dict(names["config"])
    differing = [] if config.pop("system_prompt") in request.messages[0].content else ["another system_prompt"]
    for key, value in config.items():
        if getattr(request.settings, key) != value:
            differing.append(f"{key} {getattr(request.settings, key)}, not {value}")
    assert "; ".join(differing) == NOT_RUNNING.get(name, "")


# --- 5: ai-agents ---


def test_the_context_of_a_run_is_a_copy() -> None:
    names = run("5_ai_agents/context_isolation.py")
    assert (names["context"], names["result"].context) == ({"visits": [1]}, {"visits": [1, 2]})
    names = run("5_ai_agents/execution_flow.py")
    assert (names["context"], names["result"].context) == ({"visits": [1]}, {"visits": [1, 2]})


def test_a_tool_reads_the_context() -> None:
    assert result_of("5_ai_agents/weather_function.py").tool_calls[0].content == "Oslo: 12 degrees (key)"
    assert result_of("5_ai_agents/tool_wrapper.py").tool_calls[0].content == "Oslo: 12 degrees (key)"
    assert result_of("5_ai_agents/weather_tool.py").tool_calls[0].content == "Oslo: 12 degrees"


def test_a_tool_with_context_and_state() -> None:
    for name in ("5_ai_agents/custom_function.py", "5_ai_agents/custom_tool.py"):
        result = result_of(name)
        assert (result.tool_calls[0].content, result.state) == ("pay for 7", {"last_action": "pay for 7"})


def test_the_last_active_agent_continues() -> None:
    assert result_of("5_ai_agents/message_attribution.py").agent_name == "Billing"


def test_a_conversation_is_restored_and_continued() -> None:
    for name in ("5_ai_agents/conversation_state.py", "5_ai_agents/context_serialization.py"):
        following = run(name)["next_result"]
        assert following.content == "Continue conversation"
        assert (following.context, len(following.messages)) == ({"user_id": 7}, 4)


def test_a_custom_provider() -> None:
    assert result_of("5_ai_agents/own_provider.py").response == "heard: hello"
    names = run("5_ai_agents/custom_provider.py")
    assert (names["result"].response, names["agent"].provider.default_model) == ("hello", "custom-model")


def test_the_debug_log_shows_a_run() -> None:
    for name in ("5_ai_agents/debug_log_variable.py", "5_ai_agents/debug_log.py"):
        assert "[local provider, no model] hi" in run(name)["log"]


def test_the_callbacks(capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("5_ai_agents/callback_hooks.py", "5_ai_agents/callbacks.py"):
        run(name)
        assert capsys.readouterr().out == "Sending to LLM...\nReceived: hello\n"


def test_the_first_handoff_wins() -> None:
    result = result_of("5_ai_agents/handoffs.py")
    assert (result.agent_name, result.content) == ("support", "How can I help?")


def test_one_runner_serves_many_threads() -> None:
    results = run("5_ai_agents/two_tiers.py")["results"]
    assert [(item.content, item.context) for item in results] == [(f"message {n}", {"user": n}) for n in range(20)]
