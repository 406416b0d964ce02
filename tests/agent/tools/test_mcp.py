"""The tools of MCP servers in an agent, over stdio and HTTP, with real servers."""

from __future__ import annotations

import asyncio
import inspect
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from ragkit import KnowledgeBase
from ragkit.agent.agent import Agent
from ragkit.agent.events import Event
from ragkit.agent.providers.scripted import ScriptedProvider, ScriptedTurn
from ragkit.agent.runtime.cancellation import Cancellation
from ragkit.agent.tools.base import Tool, tool
from ragkit.agent.tools.mcp import McpConnection, McpServerError, mcp_tools
from ragkit.errors import InvalidOption, RunCancelled
from ragkit.server.mcp.http import create_mcp_app
from ragkit.server.mcp.server import McpServer
from ragkit.server.mcp.tools import McpTools
from ragkit.server.settings import ServerSettings
from tests.agent.parts import call, final_result, tool_messages
from tests.agent.tools.mcp_server import PIXEL, create_server
from tests.server.mcp.parts import build, serving
from tests.servers.base import free_port

PROGRAM = (sys.executable, ["-m", "tests.agent.tools.mcp_server"])
ROOT = str(Path(__file__).parents[3])
ENVIRONMENT = {"PYTHONPATH": ROOT}


def local() -> McpConnection:
    """A server in a process of its own."""
    return mcp_tools(*PROGRAM, env=ENVIRONMENT)


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """The same server over HTTP."""
    with serving(create_server().streamable_http_app()) as url:
        yield f"{url}/mcp"


@pytest.fixture(scope="module", params=["stdio", "http"])
def tools(request: pytest.FixtureRequest) -> Iterator[dict[str, Tool]]:
    """The tools of a connection, by name."""
    connection = local() if request.param == "stdio" else mcp_tools(request.getfixturevalue("address"))
    with connection as listed:
        yield {tool.name: tool for tool in listed}


def run_tool(tool: Tool, /, **arguments: object) -> tuple[str, object]:
    """Call a tool as a run would: its text and its data."""
    provider = ScriptedProvider([call(tool.name, **arguments), "done"])
    result = Agent(provider, [tool]).run("go")
    return result.tool_calls[0].content, result.tool_calls[0].data


@pytest.mark.parametrize("mode", ["run", "arun", "stream", "astream"])
def test_an_agent_calls_the_tools_of_a_server(tools: dict[str, Tool], mode: str) -> None:
    agent = Agent(
        ScriptedProvider([[call("add", a=1, b=2), call("add", "c2", a=3, b=4)], "done"]), list(tools.values())
    )

    async def collect() -> list[Event]:
        return [event async for event in agent.astream("go")]

    if mode == "run":
        result = agent.run("go")
    elif mode == "arun":
        result = asyncio.run(agent.arun("go"))
    else:
        events = list(agent.stream("go")) if mode == "stream" else asyncio.run(collect())
        result = final_result(events)
    assert tool_messages(result) == ["3", "7"]


def test_the_schema_of_a_tool_reaches_the_model_without_references(tools: dict[str, Tool]) -> None:
    place = {
        "type": "object",
        "description": "A place on a map.",
        "properties": {
            "x": {"type": "integer", "minimum": 0, "description": "columns from the left"},
            "y": {"type": "integer", "default": 0},
        },
        "required": ["x"],
    }
    assert tools["distance"].parameters == {
        "type": "object",
        "properties": {"start": place, "end": place},
        "required": ["start", "end"],
    }
    assert tools["distance"].description == "The distance between two places."


def test_arguments_are_validated_before_the_server_is_asked(tools: dict[str, Tool]) -> None:
    text, _ = run_tool(tools["distance"], start={"x": -1}, end={"x": 1})
    assert "'start.x' must be >= 0 (got -1)" in text


def test_names_are_made_safe_and_stay_distinct(tools: dict[str, Tool]) -> None:
    assert run_tool(tools["files_list_all"])[0] == "a.txt\nb.txt"
    [again] = [tool for name, tool in tools.items() if name.startswith("files_list_all_")]
    assert run_tool(again)[0] == "c.txt"


def test_a_structured_result_is_text_for_the_model_and_data_for_the_caller(tools: dict[str, Tool]) -> None:
    text, data = run_tool(tools["distance"], start={"x": 1}, end={"x": 5, "y": 2})
    assert ("".join(text.split()), data) == ('{"x":4,"y":2}', {"x": 4, "y": 2})


def test_the_parts_of_a_result_are_described_in_order(tools: dict[str, Tool]) -> None:
    text, data = run_tool(tools["picture"])
    assert (
        text
        == f"a dot\n[image: image/png, {len(PIXEL)} bytes, not shown]\nthe note\n[resource: more, note://2]\nthe end"
    )
    assert isinstance(data, list)
    assert [part["type"] for part in data] == ["text", "image", "resource", "resource_link", "text"]


def test_the_error_of_a_tool_goes_back_to_the_model(tools: dict[str, Tool]) -> None:
    assert (
        run_tool(tools["broken"], reason="no luck")[0] == "Error executing broken: Error executing tool broken: no luck"
    )


def test_a_call_outside_a_run_works_in_any_event_loop(tools: dict[str, Tool]) -> None:
    for coroutine in (tools["add"].execute(a=1, b=1), tools["add"](a=1, b=1)):
        assert inspect.iscoroutine(coroutine)
        assert asyncio.run(coroutine).content == "2"


@pytest.mark.parametrize("mode", ["run", "arun"])
def test_a_call_that_takes_too_long_is_cancelled_on_the_server(
    tools: dict[str, Tool], mode: str, tmp_path: Path
) -> None:
    marker = tmp_path / "cancelled"
    provider = ScriptedProvider([call("slow", seconds=60, cancelled_file=str(marker)), "done"])
    agent = Agent(provider, [replace(tools["slow"], timeout_s=0.4)])
    result = agent.run("go") if mode == "run" else asyncio.run(agent.arun("go"))
    assert tool_messages(result) == ["Error executing slow: slow did not answer within 0.4 seconds"]
    wait_for(marker)


@pytest.mark.parametrize("mode", ["run", "arun"])
def test_a_cancelled_run_cancels_the_call_on_the_server(tools: dict[str, Tool], mode: str, tmp_path: Path) -> None:
    marker, cancel = tmp_path / "cancelled", Cancellation()

    @tool
    def stop() -> str:
        """Cancel the run."""
        time.sleep(0.4)
        cancel.cancel()
        return "stopped"

    calls = [call("slow", seconds=60, cancelled_file=str(marker)), call("stop", "c2")]
    agent = Agent(ScriptedProvider([calls, "done"]), [tools["slow"], stop])
    with pytest.raises(RunCancelled, match="the run was cancelled"):
        _ = agent.run("go", cancel=cancel) if mode == "run" else asyncio.run(agent.arun("go", cancel=cancel))
    wait_for(marker)


def test_a_server_that_died_is_started_again_by_the_next_call() -> None:
    script: list[ScriptedTurn] = [call("process_id"), call("die", "c2"), call("process_id", "c3"), "done"]
    with local() as listed:
        result = Agent(ScriptedProvider(script), listed).run("go")
    before, died, after = tool_messages(result)
    assert died.startswith(
        f"Error executing die: the MCP server {sys.executable} -m tests.agent.tools.mcp_server failed: "
    )
    assert before != after and after.isdigit()


def test_a_restarted_http_server_is_connected_to_again() -> None:
    port = free_port()
    url = f"http://127.0.0.1:{port}/mcp"
    connection = mcp_tools(url, timeout_s=5)
    with serving(create_server().streamable_http_app(), port):
        adding = {tool.name: tool for tool in connection.connect()}["add"]
        assert run_tool(adding, a=1, b=2)[0] == "3"
    assert run_tool(adding, a=1, b=2)[0].startswith(f"Error executing add: the MCP server {url} failed: ")
    with serving(create_server().streamable_http_app(), port):
        assert run_tool(adding, a=1, b=2)[0] == "3"
        connection.close()


def test_closing_ends_the_process_and_later_calls_say_so() -> None:
    connection = local()
    listed = {tool.name: tool for tool in connection.connect()}
    process = psutil.Process(int(run_tool(listed["process_id"])[0]))
    connection.close()
    connection.close()
    assert not process.is_running()
    assert run_tool(listed["add"], a=1, b=1)[0].endswith("is closed")


def test_async_with_closes_the_connection_and_await_keeps_it() -> None:
    async def main() -> tuple[str, str]:
        async with local() as listed:
            inside = await Agent(ScriptedProvider([call("process_id"), "done"]), listed).arun("go")
        connection = local()
        agent = Agent(ScriptedProvider([call("process_id"), "done"]), [*await connection])
        kept = await agent.arun("go")
        alive = psutil.pid_exists(int(tool_messages(kept)[0]))
        await connection.aclose()
        return tool_messages(inside)[0], str(alive)

    inside, alive = asyncio.run(main())
    assert (psutil.pid_exists(int(inside)), alive) == (False, "True")


def test_a_program_that_ends_with_open_connections_leaves_no_process_and_prints_nothing() -> None:
    code = (
        "import asyncio, sys\nfrom ragkit import mcp_tools\n"
        "async def main():\n"
        "    tools = {t.name: t for t in await mcp_tools(sys.executable, ['-m', 'tests.agent.tools.mcp_server'],"
        f" env={ENVIRONMENT!r})}}\n"
        "    print((await tools['process_id'].execute()).content)\n"
        "asyncio.run(main())\n"
    )
    environment = {**os.environ, "PYTHONPATH": ROOT}
    command = [sys.executable, "-W", "error", "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=60, check=True)
    assert done.stderr == ""
    assert not psutil.pid_exists(int(done.stdout))


@pytest.mark.parametrize(
    ("target", "words"),
    [
        (("no-such-program",), "the MCP server no-such-program failed: .*No such file or directory"),
        ((sys.executable, ["-c", "pass"]), "the MCP server .* -c pass failed: Connection closed"),
        ((sys.executable, ["-c", "import time; time.sleep(60)"]), "failed: no answer within 1 seconds"),
        (("http://user:secret@127.0.0.1:9/mcp",), "the MCP server http://127.0.0.1:9/mcp failed: "),
    ],
)
def test_a_server_that_cannot_be_reached_is_a_clear_error(target: tuple[str, list[str]], words: str) -> None:
    with pytest.raises(McpServerError, match=words) as caught:
        mcp_tools(*target, timeout_s=1).connect()
    assert "secret" not in str(caught.value)


def test_options_that_do_not_fit_the_server_are_rejected() -> None:
    with pytest.raises(InvalidOption, match="args and env"):
        mcp_tools("http://127.0.0.1:9/mcp", ["--verbose"])
    with pytest.raises(InvalidOption, match="headers"):
        mcp_tools("program", headers={"Authorization": "Bearer x"})
    with pytest.raises(InvalidOption, match="timeout_s must be > 0"):
        mcp_tools("program", timeout_s=0)
    with pytest.raises(InvalidOption, match=r"mcp_tools\(...\)"):
        Agent(ScriptedProvider(["hi"]), mcp_tools("program"))  # type: ignore[arg-type]


def test_only_named_environment_variables_reach_the_program(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-not-for-others")
    with mcp_tools(*PROGRAM, env={**ENVIRONMENT, "CITY": "Oslo"}) as listed:
        variable = next(tool for tool in listed if tool.name == "variable")
        assert [run_tool(variable, name=name)[0] for name in ("CITY", "OPENAI_API_KEY")] == ["Oslo", "(unset)"]


def test_headers_are_sent_with_every_request() -> None:
    seen: list[str] = []
    app = create_server().streamable_http_app()

    async def recording(scope, receive, send):  # type: ignore[no-untyped-def]
        if scope["type"] == "http":
            seen.append(dict(scope["headers"]).get(b"authorization", b"").decode())
        await app(scope, receive, send)

    with serving(recording) as url, mcp_tools(f"{url}/mcp", headers={"Authorization": "Bearer abc"}) as listed:
        run_tool({tool.name: tool for tool in listed}["add"], a=1, b=1)
    assert len(seen) >= 2 and set(seen) == {"Bearer abc"}


@tool
def add(first: int) -> str:
    """A tool of the program with the name of one of the server."""
    return f"own {first}"


@pytest.mark.parametrize("own_first", [True, False])
def test_a_taken_name_gets_the_name_of_the_server_as_prefix(tools: dict[str, Tool], own_first: bool) -> None:
    given = [add, tools["add"]] if own_first else [tools["add"], add]
    agent = Agent(ScriptedProvider([[call("add", first=1), call("small_add", "c2", a=1, b=2)], "done"]), given)
    assert tool_messages(agent.run("go")) == ["own 1", "3"]


def test_two_servers_with_the_same_names_need_a_prefix(address: str) -> None:
    with mcp_tools(address) as first, mcp_tools(address) as second, mcp_tools(address, prefix="two") as third:
        with pytest.raises(InvalidOption, match="the name of a tool"):
            Agent(ScriptedProvider(["hi"]), [*first, *second, *first])
        assert {f"two_{tool.name}" for tool in first} >= {tool.name for tool in third if "list_all_" not in tool.name}
        Agent(ScriptedProvider(["hi"]), [*first, *third])


def test_ragkit_is_a_server_for_an_agent_over_stdio_and_http(tmp_path: Path) -> None:
    folder = build(tmp_path)
    script: list[ScriptedTurn] = [call("search_knowledge_base", query="money back refunds", top_k=1), "14 days"]
    program = mcp_tools(sys.executable, ["-m", "ragkit", "mcp", "--kb", str(folder / "kb")], env=ENVIRONMENT)
    with program as listed:
        over_stdio = tool_messages(Agent(ScriptedProvider(script), listed).run("When?"))
    with (
        KnowledgeBase.open(folder / "kb") as kb,
        serving(create_mcp_app(McpServer(McpTools(kb)), ServerSettings())) as url,
        mcp_tools(f"{url}/mcp") as listed,
    ):
        over_http = tool_messages(Agent(ScriptedProvider(script), listed).run("When?"))
    assert over_stdio == over_http
    assert over_stdio[0].startswith("[1] ") and "refunds.md" in over_stdio[0]


def wait_for(path: Path) -> None:
    """Wait until a file exists."""
    deadline = time.monotonic() + 10
    while not path.exists():
        assert time.monotonic() < deadline, f"{path} was not written"
        time.sleep(0.02)
