"""The MCP server with a model: cancelled requests, several clients, access, and indexing."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import httpx
import httpx2
import pytest
from mcp import Client, MCPError, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client

from ragkit import Document, KnowledgeBase
from ragkit.cli.commands.serve import create_application
from ragkit.knowledge_base.session import Session
from ragkit.server.mcp import http as mcp_http
from ragkit.server.mcp.http import create_mcp_app
from ragkit.server.mcp.server import McpServer
from ragkit.server.mcp.tools import McpAskOptions, McpTools
from ragkit.server.settings import ServerLimits, ServerSettings
from tests.server.mcp.parts import McpConnection, build, process, serving, text
from tests.wire.dialects import DIALECTS
from tests.wire.server import Fault, RecordedRequest, ToolCallTurn, Turn, WireServer

SEARCH = Turn(
    calls=(ToolCallTurn("search_knowledge_base", {"query": "refunds money back"}),),
    prompt_tokens=9,
    completion_tokens=9,
)
SLOW = Fault(turn=Turn(tuple(f"word{n} " for n in range(2_000))), pause_s=0.05)
"""An answer that takes 100 seconds."""
TOKEN = "a-token-of-the-test-0123456789"
MODEL = "openai:gpt-4o-mini"
QUESTION = "When does money come back?"


class Service(WireServer):
    """A model provider that signals its second request."""

    def __init__(self, *script: Turn | Fault) -> None:
        super().__init__(DIALECTS["openai"], script)
        self.answering = threading.Event()

    def __enter__(self) -> Service:
        super().__enter__()
        return self

    def next(self, request: RecordedRequest) -> Turn | Fault:
        result = super().next(request)
        if len(self.seen) > 1:
            self.answering.set()
        return result

    @property
    def environment(self) -> dict[str, str]:
        """Environment variables with its URL and key."""
        return {"OPENAI_API_KEY": "test-key", "OPENAI_BASE_URL": f"{self.url}/v1"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with documents and a knowledge base, not changed by tests."""
    return build(tmp_path_factory.mktemp("mcp"))


@pytest.fixture
def kb(folder: Path) -> Iterator[KnowledgeBase]:
    """The knowledge base, open in this process."""
    with KnowledgeBase.open(folder / "kb") as result:
        yield result


@pytest.fixture
def start_provider(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Service]:
    """Creates a provider, and sets the environment of this process to use it."""

    def start(*script: Turn | Fault) -> Service:
        service = Service(*script)
        for name, value in service.environment.items():
            monkeypatch.setenv(name, value)
        return service

    return start


def over_http(kb: KnowledgeBase, limits: ServerLimits | None = None, settings: ServerSettings | None = None) -> object:
    """An application in which OpenAI's model answers."""
    return create_mcp_app(McpServer(McpTools(kb, McpAskOptions(MODEL), limits=limits)), settings or ServerSettings())


def test_an_answer_of_a_model_carries_its_citations_and_what_it_cost(
    kb: KnowledgeBase, start_provider: Callable[..., Service]
) -> None:
    answer = Turn(("Within 14 days ", "[1]."), prompt_tokens=100, completion_tokens=10)
    with (
        start_provider(SEARCH, answer),
        serving(over_http(kb)) as url,
        McpConnection(lambda: Client(f"{url}/mcp")) as connection,
    ):
        output = connection.call("ask", question=QUESTION)
    assert not output.is_error, text(output)
    result = output.structured_content
    assert result["answer"] == "Within 14 days [1]." and result["model"] == MODEL
    assert [item["n"] for item in result["citations"]] == [1] and result["citations"][0]["verified"] is True
    assert result["usage"]["total_cost_usd"] > 0
    assert text(output).startswith("Within 14 days [1].\n\n[1] ")


def test_a_question_asked_before_costs_nothing_until_the_documents_change(
    tmp_path: Path, start_provider: Callable[..., Service]
) -> None:
    answers = [Turn(("Within 14 days ", "[1]."), prompt_tokens=100, completion_tokens=10)] * 2
    folder = build(tmp_path)
    with (
        KnowledgeBase.open(folder / "kb") as kb,
        start_provider(SEARCH, answers[0], SEARCH, answers[1]) as service,
        serving(over_http(kb)) as url,
        McpConnection(lambda: Client(f"{url}/mcp")) as connection,
    ):
        first, again = (connection.call("ask", question=QUESTION).structured_content for _ in range(2))
        assert len(service.seen) == 2
        assert again["answer"] == first["answer"] and again["citations"] == first["citations"]
        assert again["usage"]["total_cost_usd"] == 0
        assert again["usage"]["saved_cost_usd"] == pytest.approx(first["usage"]["total_cost_usd"])
        kb.add(Document("# Notes\n\nThe office opens at nine.", source="notes.md"))
        connection.call("ask", question=QUESTION)
        assert len(service.seen) == 4


@pytest.mark.parametrize("mode", ["auto", "legacy"])
@pytest.mark.parametrize("transport", ["stdio", "http"])
def test_a_request_that_is_cancelled_stops_the_work_and_leaves_the_session_open(
    folder: Path, kb: KnowledgeBase, start_provider: Callable[..., Service], transport: str, mode: str
) -> None:
    async def cancel_when_it_answers(client: Client) -> None:
        task = asyncio.create_task(client.call_tool("ask", {"question": QUESTION}))
        assert await asyncio.to_thread(service.answering.wait, 30)
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
        # the provider sees the closed connection, and stops charging
        assert await asyncio.to_thread(service.hung_up.wait, 30)
        assert len((await client.list_tools()).tools) == 7

    with start_provider(SEARCH, SLOW) as service:
        if transport == "stdio":
            server = process(folder, "--model", MODEL, env=service.environment)
            with McpConnection(lambda: Client(server, mode=mode)) as connection:
                connection.do(cancel_when_it_answers)
        else:
            with serving(over_http(kb)) as url, McpConnection(lambda: Client(f"{url}/mcp", mode=mode)) as connection:
                connection.do(cancel_when_it_answers)


def test_an_answer_that_exceeds_the_time_limit_is_cancelled_with_an_error(
    kb: KnowledgeBase, start_provider: Callable[..., Service]
) -> None:
    with start_provider(SEARCH, SLOW) as service, serving(over_http(kb, ServerLimits(answer_seconds=2))) as url:
        with McpConnection(lambda: Client(f"{url}/mcp")) as connection:
            assert connection.call_rejected("ask", question=QUESTION).startswith("budget of 2 seconds exceeded")
        assert service.hung_up.wait(30)


def test_answers_beyond_the_queue_limit_are_rejected_and_reads_continue(
    kb: KnowledgeBase, start_provider: Callable[..., Service]
) -> None:
    async def ask_twice(client: Client) -> str:
        first = asyncio.create_task(client.call_tool("ask", {"question": QUESTION}))
        assert await asyncio.to_thread(service.answering.wait, 30)
        second = await client.call_tool("ask", {"question": QUESTION})
        read = await client.call_tool("status", {})
        assert not read.is_error and second.is_error
        first.cancel()
        return text(second)

    limits = ServerLimits(max_running=1, max_waiting=0)
    with (
        start_provider(SEARCH, SLOW) as service,
        serving(over_http(kb, limits)) as url,
        McpConnection(lambda: Client(f"{url}/mcp")) as connection,
    ):
        assert connection.do(ask_twice) == "the queue is full: retry later"


def test_concurrent_clients_get_their_own_results(kb: KnowledgeBase, folder: Path) -> None:
    async def read(client: Client, name: str) -> set[str]:
        results = await asyncio.gather(
            *(client.call_tool("search_knowledge_base", {"query": f"{name} {n}", "top_k": 1}) for n in range(20)),
            *(client.call_tool("get_document", {"document": str(folder / "docs" / name)}) for _ in range(20)),
        )
        assert [item.structured_content["question"] for item in results[:20]] == [f"{name} {n}" for n in range(20)]
        return {item.structured_content["text"] for item in results[20:]}

    async def both(url: str, mode: str) -> list[set[str]]:
        async with asyncio.timeout(60), Client(url, mode=mode) as first, Client(url, mode=mode) as second:
            return list(await asyncio.gather(read(first, "refunds.md"), read(second, "retries.md")))

    with serving(create_mcp_app(McpServer(McpTools(kb)), ServerSettings())) as url:
        for mode in ("auto", "legacy"):
            result = asyncio.run(both(f"{url}/mcp", mode))
            assert result == [{(folder / "docs" / name).read_text()} for name in ("refunds.md", "retries.md")]


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        (Fault(401, "Incorrect API key provided: test-key"), "the model provider rejected the API key of this server"),
        (Fault(400, "test-key has a cold"), "the model provider failed"),
    ],
)
def test_a_failing_model_gives_a_one_line_error_without_its_key(
    kb: KnowledgeBase, start_provider: Callable[..., Service], fault: Fault, message: str
) -> None:
    with (
        start_provider(fault),
        serving(over_http(kb)) as url,
        McpConnection(lambda: Client(f"{url}/mcp")) as connection,
    ):
        result = connection.call_rejected("ask", question=QUESTION)
    assert result == message


def test_an_internal_error_is_logged_and_not_shown(
    folder: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(session: Session, *page: object) -> None:
        raise ZeroDivisionError("the secret of /etc/shadow")

    monkeypatch.setattr(Session, "list_documents", fail)
    with (
        KnowledgeBase.open(folder / "kb") as kb,
        serving(create_mcp_app(McpServer(McpTools(kb)), ServerSettings())) as url,
        McpConnection(lambda: Client(f"{url}/mcp")) as connection,
    ):
        assert (
            connection.call_rejected("list_documents")
            == "list_documents failed with an internal error: see the log of the server"
        )
        with pytest.raises(MCPError, match="internal error: see the log of the server"):
            connection.do(lambda client: client.list_resources())
        assert not connection.call("status").is_error
    assert "the secret of /etc/shadow" in caplog.text


# access

INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}},
}
ACCEPT = {"accept": "application/json, text/event-stream"}


def test_sessions_that_were_never_used_lock_nobody_out(kb: KnowledgeBase, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mcp_http, "MAX_SESSIONS", 5)
    app = create_mcp_app(McpServer(McpTools(kb)), ServerSettings())
    with serving(app) as url, httpx2.Client(base_url=url, headers=ACCEPT, timeout=30) as client:

        def call(session: str) -> int:
            body = {"jsonrpc": "2.0", "id": 2, "method": "tools/list"}
            headers = {"mcp-session-id": session, "mcp-protocol-version": "2025-06-18"}
            return client.post("/mcp", json=body, headers=headers).status_code

        opened = client.post("/mcp", json=INITIALIZE)
        used = opened.headers["mcp-session-id"]
        assert call(used) == 200
        flood = [client.post("/mcp", json=INITIALIZE) for _ in range(40)]
        assert {response.status_code for response in flood} == {200}
        assert call(used) == 200
        assert call(flood[-1].headers["mcp-session-id"]) == 200
        assert call(flood[0].headers["mcp-session-id"]) == 404


def test_a_client_closes_its_own_sessions_only_and_nobody_uses_those_of_others(
    kb: KnowledgeBase, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mcp_http, "MAX_CLIENT_SESSIONS", 5)
    monkeypatch.setattr(mcp_http, "MAX_SESSIONS", 8)
    tokens = [f"the-token-of-client-{n}" for n in range(3)]
    app = create_mcp_app(McpServer(McpTools(kb)), ServerSettings(tokens=tuple(tokens)))
    with serving(app) as url, httpx2.Client(base_url=url, headers=ACCEPT, timeout=30) as client:

        def initialize(owner: int) -> str:
            headers = {"authorization": f"Bearer {tokens[owner]}"}
            return client.post("/mcp", json=INITIALIZE, headers=headers).headers["mcp-session-id"]

        def call(owner: int, session: str) -> int:
            headers = {
                "authorization": f"Bearer {tokens[owner]}", "mcp-session-id": session,
                "mcp-protocol-version": "2025-06-18",
            }  # fmt: skip
            body = {"jsonrpc": "2.0", "id": 2, "method": "tools/list"}
            return client.post("/mcp", json=body, headers=headers).status_code

        kept = [initialize(1), initialize(2)]  # opened and not used yet
        flood = []
        for _ in range(20):
            flood.append(initialize(0))
            assert call(0, flood[-1]) == 200
        assert [call(1, kept[0]), call(2, kept[1])] == [200, 200]
        assert [call(0, session) for session in flood[:15]] == [404] * 15
        assert [call(0, session) for session in flood[15:]] == [200] * 5
        assert [call(1, flood[-1]), call(0, kept[0])] == [404, 404]


@pytest.fixture(scope="module")
def addresses(folder: Path) -> Iterator[dict[str, str]]:
    """A server without a token on loopback, and one that requires a token."""
    closed = ServerSettings(tokens=(TOKEN,), origins=("https://app.example",))
    with (
        KnowledgeBase.open(folder / "kb") as kb,
        serving(create_mcp_app(McpServer(McpTools(kb)), ServerSettings())) as open_url,
        serving(create_mcp_app(McpServer(McpTools(kb)), closed)) as closed_url,
    ):
        yield {"open": f"{open_url}/mcp", "closed": f"{closed_url}/mcp"}


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 200),
        ({"host": "localhost:1234"}, 200),
        ({"host": "evil.example"}, 421),
        ({"host": "127.0.0.1.evil.example"}, 421),
        ({"host": "localhost.evil.example:8322"}, 421),
        ({"host": "localhost@evil.example"}, 421),
        ({"origin": "https://evil.example"}, 403),
        ({"origin": "null"}, 403),
        ({"origin": "http://localhost.evil.example"}, 403),
        ({"host": "evil.example", "origin": "http://evil.example"}, 421),
    ],
)
def test_dns_rebinding_is_rejected(addresses: dict[str, str], headers: dict[str, str], status: int) -> None:
    answer = httpx.post(addresses["open"], json=INITIALIZE, headers={**ACCEPT, **headers}, timeout=30)
    assert answer.status_code == status, answer.text
    assert ("serverInfo" in answer.text) == (status == 200)


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 401),
        ({"authorization": "Bearer wrong-token-0123456789"}, 401),
        ({"authorization": f"Basic {TOKEN}"}, 401),
        ({"authorization": f"Bearer {TOKEN}x"}, 401),
        ({"authorization": f"Bearer {TOKEN}"}, 200),
        ({"authorization": f"Bearer {TOKEN}", "origin": "https://app.example"}, 200),
        ({"authorization": f"Bearer {TOKEN}", "origin": "https://evil.example"}, 403),
    ],
)
def test_a_server_with_a_token_rejects_requests_without_it(
    addresses: dict[str, str], headers: dict[str, str], status: int
) -> None:
    for method in ("POST", "GET", "DELETE"):
        body = INITIALIZE if method == "POST" else None
        answer = httpx.request(method, addresses["closed"], json=body, headers={**ACCEPT, **headers}, timeout=30)
        assert answer.status_code == status or (method != "POST" and status == 200 and answer.status_code == 400)
        assert TOKEN not in answer.text


def test_a_client_with_the_token_can_use_a_protected_server(addresses: dict[str, str]) -> None:
    async def ask() -> int:
        client = _client_with_token()
        transport = streamable_http_client(addresses["closed"], http_client=client)
        async with asyncio.timeout(60), client, Client(transport) as connection:
            return len((await connection.list_tools()).tools)

    assert asyncio.run(ask()) == 7


def _client_with_token() -> httpx2.AsyncClient:
    return httpx2.AsyncClient(headers={"authorization": f"Bearer {TOKEN}"}, timeout=30)


def test_a_request_that_is_too_large_is_refused(addresses: dict[str, str]) -> None:
    body = {**INITIALIZE, "params": {"x": "y" * 300_000}}
    assert httpx.post(addresses["open"], json=body, headers=ACCEPT, timeout=30).status_code == 413


# the command


def run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """`ragkit ...` in a separate process, with an empty stdin."""
    return subprocess.run(
        [sys.executable, "-m", "ragkit", *arguments],
        cwd=folder, input="", capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip


def test_stdout_contains_only_the_protocol(folder: Path) -> None:
    messages = [
        INITIALIZE,
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "status", "arguments": {}}},
        {"jsonrpc": "2.0", "id": 3, "method": "nothing/like/it"},
        {"jsonrpc": "2.0", "id": 4, "method": "tools/call", "params": {"name": "ask", "arguments": {}}},
    ]
    lines = "".join(f"{json.dumps(item)}\n" for item in messages)
    noisy = {**os.environ, "RAGKIT_LOG": "debug", "PYTHONWARNINGS": "default", "PYTHONDEVMODE": "1"}
    with subprocess.Popen(
        [sys.executable, "-m", "ragkit", "mcp", "-v", "--kb", "kb"],
        cwd=folder, env=noisy, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    ) as server:  # fmt: skip
        assert server.stdin is not None and server.stdout is not None and server.stderr is not None
        server.stdin.write("this is no JSON\n" + lines)
        server.stdin.flush()
        answers = [json.loads(server.stdout.readline()) for _ in range(4)]
        server.stdin.close()
        rest, messages_ = server.stdout.read(), server.stderr.read()
        assert server.wait(30) == 0
    assert rest == ""
    assert {answer["jsonrpc"] for answer in answers} == {"2.0"} and {item["id"] for item in answers} == {1, 2, 3, 4}
    assert "3 documents of kb over stdin and stdout" in messages_


def test_a_missing_knowledge_base_is_an_error_on_stderr(tmp_path: Path) -> None:
    result = run(tmp_path, "mcp")
    assert (result.returncode, result.stdout) == (1, "")
    assert result.stderr == "error: .ragkit is not a knowledge base: build it with `ragkit index FOLDER`\n"


def test_other_addresses_require_a_token(folder: Path) -> None:
    result = run(folder, "mcp", "--kb", "kb", "--http", "--host", "0.0.0.0", "--port", "0")
    assert result.returncode == 2 and "RAGKIT_SERVER_TOKEN" in result.stderr


def test_the_client_configuration_starts_the_server(folder: Path, tmp_path: Path) -> None:
    result = run(folder, "mcp", "--kb", "kb", "--client-config")
    entry = json.loads(result.stdout)["mcpServers"]["ragkit"]
    started = StdioServerParameters(**entry, cwd=tmp_path, env=dict(os.environ))
    with McpConnection(lambda: Client(started)) as connection:
        assert connection.call("status").structured_content["documents"] == 3


def test_over_http_it_prints_its_url_and_stops_on_a_signal(folder: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-m", "ragkit", "mcp", "--kb", "kb", "--http", "--port", "0", "--json"],
        cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    ) as server:  # fmt: skip
        assert server.stdout is not None
        url = json.loads(server.stdout.readline())["url"]
        assert re.fullmatch(r"http://127\.0\.0\.1:\d+/mcp", url)
        with McpConnection(lambda: Client(url, mode="legacy")) as connection:
            assert connection.call("status").structured_content["documents"] == 3
            server.send_signal(signal.SIGTERM)
            assert server.wait(30) == 0


def test_with_allow_index_a_client_can_index_new_files_but_no_other_folder(tmp_path: Path) -> None:
    folder = build(tmp_path)
    with McpConnection(lambda: Client(process(folder, "--allow-index"))) as connection:
        tools = {tool.name: tool for tool in connection.do(lambda client: client.list_tools()).tools}
        annotations = tools["index"].annotations
        assert annotations is not None and annotations.read_only_hint is False
        assert tools["index"].input_schema["properties"] == {}
        (folder / "docs" / "zebras.md").write_text("# Zebras\n\nZebras have stripes.\n")
        assert connection.call("list_documents", query="zebras").structured_content["documents"] == []
        assert "unknown parameter 'sources'" in connection.call_rejected("index", sources=["/etc"])
        report = connection.call("index").structured_content
        assert (report["files"]["added"], report["files"]["unchanged"]) == (1, 3)
        hits = connection.call("search_knowledge_base", query="zebras stripes", top_k=1).structured_content["hits"]
        assert [Path(hit["source"]).name for hit in hits] == ["zebras.md"]
        assert connection.call("index").structured_content["files"]["unchanged"] == 4


@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_the_web_server_serves_mcp_behind_the_same_middleware(kb: KnowledgeBase, mode: str) -> None:
    with serving(create_application({"": kb}, ServerSettings(tokens=(TOKEN,)))) as url:
        assert httpx.post(f"{url}/mcp", json=INITIALIZE, headers=ACCEPT, timeout=30).status_code == 401

        async def ask() -> object:
            http = _client_with_token()
            transport = streamable_http_client(f"{url}/mcp", http_client=http)
            async with asyncio.timeout(60), http, Client(transport, mode=mode) as client:
                return (await client.call_tool("status", {})).structured_content["documents"]

        assert asyncio.run(ask()) == 3
        assert httpx.get(f"{url}/health", timeout=30).status_code == 200
