"""Keys, tokens and passwords are never printed, logged, exported or stored."""

from __future__ import annotations

import json
import logging
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, cast

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

import ragkit as package
from ragkit.agent.agent import Agent
from ragkit.agent.cache.redis import CacheUnreachable, RedisCache
from ragkit.agent.exporters.audit import AuditLog, PrivacyLevel
from ragkit.agent.exporters.otel import OpenTelemetryObserver
from ragkit.agent.loop.config import AgentConfig
from ragkit.agent.providers.base import Provider
from ragkit.agent.providers.groq import GroqProvider
from ragkit.agent.providers.ollama import OllamaProvider
from ragkit.agent.providers.openai import OpenAIProvider
from ragkit.cli import COMMANDS as ALL_COMMANDS
from ragkit.embed import EMBEDDERS
from ragkit.errors import ProviderError, RagkitError
from ragkit.knowledge_base.knowledge_base import KnowledgeBase
from ragkit.masking import mask_secrets
from ragkit.pipeline.settings import Pipeline
from ragkit.server.logs import JsonFormatter
from ragkit.server.settings import ServerSettings
from ragkit.store import STORES
from ragkit.store.base import Store
from tests.cli.conftest import HASHING, Ragkit, ragkit, workplace  # noqa: F401 - fixtures
from tests.server.parts import serving
from tests.wire.dialects import DIALECTS
from tests.wire.server import Fault, WireServer
from tests.wire_embed.dialects import DIALECTS as EMBEDDING
from tests.wire_embed.server import Fault as EmbedFault
from tests.wire_embed.server import WireServer as EmbedServer

KEY = "zq-4711-neverprintme-0815-zq"
"""A key that matches no pattern of secrets."""
PART = KEY[:14]
"""Part of the key, which is secret as well."""
STATUSES = [400, 401, 403, 404, 429, 500]
VARIABLES = ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GEMINI_API_KEY", "GROQ_API_KEY", "COHERE_API_KEY",
             "VOYAGE_API_KEY", "PINECONE_API_KEY", "QDRANT_API_KEY", "RAGKIT_SERVER_TOKEN", "DB_PASSWORD")  # fmt: skip

CONNECT: dict[str, Callable[[str, str | None], Provider]] = {
    "openai": lambda url, key: OpenAIProvider("gpt-4o-mini", api_key=key, base_url=f"{url}/v1"),
    "anthropic": lambda url, key: package.AnthropicProvider("claude-haiku-4-5", api_key=key, base_url=url),
    "gemini": lambda url, key: package.GeminiProvider("gemini-2.5-flash", api_key=key, base_url=url),
    "groq": lambda url, key: GroqProvider("llama-3.3-70b-versatile", api_key=key, base_url=url),
    "ollama": lambda url, _: OllamaProvider("llama3.2", base_url=url),
}


def echo(padding: int = 0) -> str:
    """The response of some services to a wrong key; so long that truncation may split the key."""
    return f"{'the gateway says no. ' * 40}"[:padding] + f"Incorrect API key provided: {KEY}, Bearer {KEY}"


@pytest.fixture
def no_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def keys(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The key in every key variable, and in a URL."""
    for name in VARIABLES:
        monkeypatch.setenv(name, KEY)
    monkeypatch.setenv("DATABASE_URL", f"postgresql://anna:{KEY}@127.0.0.1:9/db")
    monkeypatch.setenv("REDIS_URL", f"redis://:{KEY}@127.0.0.1:9/0")


def error_text(error: BaseException) -> str:
    """Everything that a caller can print of an error: str, repr, attributes."""
    return f"{error} {error!r} {vars(error)}"


@pytest.mark.usefixtures("no_keys")
@pytest.mark.rotating
@pytest.mark.parametrize("padding", [0, 150, 255, 265])
@pytest.mark.parametrize("service", sorted(CONNECT))
def test_errors_do_not_quote_a_key_echoed_by_a_chat_service(
    service: str, padding: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(type(DIALECTS[service]), "wrong", lambda self, seen: "")  # any key will do
    if service == "ollama":  # without a key: the key of another service in the response is hidden as well
        OpenAIProvider(api_key=KEY, base_url="http://127.0.0.1:9/v1")
    with WireServer(DIALECTS[service], [Fault(status, echo(padding)) for status in STATUSES]) as server:
        provider = CONNECT[service](server.url, KEY)
        for _ in STATUSES:
            with pytest.raises(ProviderError) as caught:
                Agent(provider).run("hello")
            assert PART not in error_text(caught.value)
    assert PART not in repr(provider)


@pytest.mark.parametrize("padding", [0, 440, 455])
@pytest.mark.parametrize("service", sorted(EMBEDDING))
def test_errors_do_not_quote_a_key_echoed_by_an_embedding_service(
    service: str, padding: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    statuses = iter([400, 401, 403, 404])

    def fault(number: int, request: object) -> EmbedFault:
        return EmbedFault("status", next(statuses), echo(padding))

    monkeypatch.setattr("tests.wire_embed.dialects.KEY", KEY)
    with EmbedServer(service, fault).running() as server:
        for name, value in server.environment.items():
            monkeypatch.setenv(name, value)
        if service == "ollama":
            monkeypatch.setenv("OLLAMA_API_KEY", KEY)
        options = EMBEDDERS.options_class(service)
        assert options is not None
        embedder = EMBEDDERS.find(service)(options(dimensions=16))  # type: ignore[call-arg]  # options of a service
        for _ in range(4):
            with pytest.raises(ProviderError) as caught:
                embedder.embed_texts(["a"])
            assert PART not in error_text(caught.value)


@contextmanager
def echo_server() -> Iterator[str]:
    """A server that rejects every request and echoes all headers."""

    class Handler(BaseHTTPRequestHandler):
        def answer(self) -> None:
            self.rfile.read(int(self.headers.get("content-length") or 0))
            result = json.dumps({"error": {"message": f"refused: {dict(self.headers)} {KEY}"}, "status": KEY}).encode()
            self.send_response(403)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(result)))
            self.end_headers()
            self.wfile.write(result)

        do_GET = do_POST = do_PUT = do_DELETE = answer  # noqa: N815 - names of the library

        def log_message(self, format: str, *args: object) -> None:
            """Log nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def closed() -> int:
    """An unused port."""
    with socket.socket() as item:
        item.bind(("127.0.0.1", 0))
        return int(item.getsockname()[1])


STORE_OPTIONS: dict[str, list[dict[str, Any]]] = {
    "qdrant": [{"url": "{url}", "api_key": KEY}, {"url": f"http://anna:{KEY}@127.0.0.1:{{port}}"}],
    "pinecone": [{"api_key": KEY, "host": "{url}"}, {"api_key": KEY, "host": "http://127.0.0.1:{port}", "retries": 1}],
    "pgvector": [
        {"dsn": f"postgresql://anna:{KEY}@127.0.0.1:{{port}}/db"},
        {"dsn": f"postgresql://anna:{KEY}@127.0.0.1:notaport/db"},
        {"dsn": f"postgresql://anna:{KEY}@[::1/db"},
        {"dsn": f"anna:{KEY}@127.0.0.1/db"},
        {"dsn": f"host=127.0.0.1 port={{port}} password={KEY} {KEY}"},
        {"dsn": f"host=127.0.0.1 port={{port}} pasword={KEY}"},
    ],
    "milvus": [{"uri": "{url}", "token": KEY, "timeout_seconds": 1}],
}  # fmt: skip
COMMANDS = [(name, number) for name, all_of_it in STORE_OPTIONS.items() for number in range(len(all_of_it))]


@pytest.mark.usefixtures("no_keys")
@pytest.mark.filterwarnings("ignore:Api key is used with an insecure connection")
@pytest.mark.parametrize(("name", "number"), COMMANDS)
def test_errors_of_a_store_do_not_contain_its_key(name: str, number: int, caplog: pytest.LogCaptureFixture) -> None:
    with echo_server() as url, caplog.at_level(logging.DEBUG, "ragkit"):
        texts = STORE_OPTIONS[name][number]
        port = closed()
        arguments = {k: v.format(url=url, port=port) if isinstance(v, str) else v for k, v in texts.items()}
        options = STORES.options_class(name)
        assert options is not None
        with pytest.raises(RagkitError) as caught:
            cast("Callable[..., Store]", STORES.find(name))(options(**arguments)).count()
    assert PART not in error_text(caught.value)
    assert "\n" not in str(caught.value)
    assert PART not in repr(options(**arguments)) or "url" in arguments  # `repr` contains the URL, messages do not
    assert PART not in caplog.text


def test_errors_of_an_unreachable_cache_do_not_contain_its_password() -> None:
    with pytest.raises(CacheUnreachable, match=r"no Redis at redis://:\(hidden\)@127") as caught:
        RedisCache(f"redis://:{KEY}@127.0.0.1:{closed()}/0").ping()
    assert PART not in error_text(caught.value)


PIPELINE = """\
embed: {name: hashing, dimension: 64}
profiles:
  remote: {store: {name: pgvector, dsn: "${DATABASE_URL}", table: t}}
  pieces: {store: {name: pgvector, dsn: "postgresql://anna:${DB_PASSWORD}@127.0.0.1:9/db", table: t}}
  search: {store: {name: qdrant, url: "http://127.0.0.1:9", api_key: "${QDRANT_API_KEY}"}}
  written: {store: {name: pinecone, api_key: "KEY", host: "http://127.0.0.1:9"}}
  wrong: {store: {name: pgvector, dsn: 4711, tabel: "${DB_PASSWORD}", m: "${DB_PASSWORD}", method: "${DB_PASSWORD}"}}
""".replace('KEY"', f'{KEY}"')
PROFILES = ("remote", "pieces", "search", "written", "wrong")
STORED = ("--set", "store.name=pgvector", "--set", "store.dsn=${DATABASE_URL}")
SAID: list[tuple[str, ...]] = [
    ("init", "new"), ("index", "docs", "--dry-run"), ("index", "docs", "--retry-failed"),
    ("index", "docs", *STORED), ("index", "docs", "--rebuild", *STORED),
    ("search", "hedge", "--explain"), ("ask", "hedge"), ("ask", "hedge", "--trace"),
    ("ask", "hedge", "--model", "openai:gpt-4o-mini"), ("ask", "hedge", "--model", f"openai:{KEY}"),
    ("chat",), ("status",), ("list",), ("list", "--chunks"), ("list", "--failed"), ("show", "docs/a.md"),
    ("summarize", "docs/a.md"),
    ("verify",), ("copy", "--to", "qdrant", "--dry-run"), ("copy", "--to", "pgvector", *STORED[2:]),
    ("bench", "--stores", "pgvector,qdrant"), ("eval", "questions.jsonl"),
    ("explain", "hedge", "--expect", "docs/a.md"),
    ("tune", "grid.yaml"), ("pipeline", "list"), ("pipeline", "schema"), ("doctor",), ("sources",), ("models",),
    ("worker",), ("usage",), ("mcp", "--client-config"), ("serve", "--host", "0.0.0.0", "--port", "-1"),
    ("access", "list"), ("access", "grant", "anna", "--path", "docs/**"), ("access", "test", "anna"),
    ("remove", "nothing"), ("clear", "--yes"),
    *(("pipeline", verb, "ragkit.yaml", "--profile", name, *more)
      for name in PROFILES
      for verb, more in (("show", ()), ("show", ("--resolved",)), ("validate", ()))),
]  # fmt: skip


@pytest.fixture
def place(workplace: Path, keys: None, monkeypatch: pytest.MonkeyPatch) -> Path:  # noqa: F811 - fixtures
    """A knowledge base and a pipeline with secrets from the environment, and one in the file."""
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9/v1")
    (workplace / "docs").mkdir()
    (workplace / "docs/a.md").write_text("The hedge is cut in August.\n")
    (workplace / "ragkit.yaml").write_text(HASHING)
    (workplace / "questions.jsonl").write_text('{"question": "When is the hedge cut?", "sources": ["docs/a.md"]}\n')
    (workplace / "grid.yaml").write_text("questions: questions.jsonl\ngrid: {split.chunk_size: [50, 100]}\n")
    with KnowledgeBase.open(workplace / ".ragkit", Pipeline.from_yaml(HASHING)) as kb:
        kb.index(workplace / "docs")
    (workplace / "ragkit.yaml").write_text(PIPELINE)
    return workplace


def test_no_command_prints_a_secret(place: Path, ragkit: Ragkit) -> None:  # noqa: F811
    leaks = []
    for verb in SAID:
        for arguments in (verb, (*verb, "--json")):
            result = ragkit(*arguments, code=None)
            assert "Traceback" not in result.err, arguments
            if PART in result.out + result.err and KEY not in str(verb):
                leaks.append(arguments)
    assert leaks == []
    assert {verb[0] for verb in SAID} == set(ALL_COMMANDS)
    displayed = ragkit("pipeline", "show", "ragkit.yaml", "--profile", "written").out
    assert "api_key: (hidden)" in displayed
    displayed = ragkit("pipeline", "show", "ragkit.yaml", "--profile", "pieces").out
    assert "postgresql://anna:${DB_PASSWORD}@127.0.0.1:9/db" in displayed
    stored = [path for path in (place / ".ragkit").rglob("*") if path.is_file() and KEY.encode() in path.read_bytes()]
    assert stored == []  # `${NAME}` is stored, never its value


def failing(service: str = "openai") -> tuple[Fault, ...]:
    return tuple(Fault(401, echo()) for _ in range(4))


@pytest.mark.usefixtures("no_keys")
def test_traces_and_logs_of_a_run_contain_no_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(type(DIALECTS["openai"]), "wrong", lambda self, seen: "")
    spans = InMemorySpanExporter()
    tracing = TracerProvider()
    tracing.add_span_processor(SimpleSpanProcessor(spans))
    levels: tuple[PrivacyLevel, ...] = ("full", "masked", "hashed", "none")
    audits = [AuditLog(tmp_path / f"{level}.jsonl", privacy=level) for level in levels]
    with WireServer(DIALECTS["openai"], failing()) as server:
        config = AgentConfig(observers=(OpenTelemetryObserver(tracing), *audits))
        agent = Agent(OpenAIProvider("gpt-4o-mini", api_key=KEY, base_url=f"{server.url}/v1"), config=config)
        with pytest.raises(RagkitError) as caught:
            agent.run("hello")
    tracing.shutdown()
    exported = [span.to_json() for span in spans.get_finished_spans()]
    assert len(exported) > 0
    partial = getattr(caught.value, "partial", None)
    written = "".join(path.read_text() for path in tmp_path.iterdir())
    assert "authentication" in written.lower() or "API key was rejected" in written
    assert PART not in str([exported, written, partial and partial.trace.to_dict(), error_text(caught.value)])


@pytest.mark.usefixtures("no_keys")
def test_a_server_puts_no_secret_in_responses_sessions_traces_or_its_log(
    place: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(type(DIALECTS["openai"]), "wrong", lambda self, seen: "")
    token = "a-token-of-the-server-0815"
    (place / "ragkit.yaml").write_text(HASHING)
    headers = {"authorization": f"Bearer {token}"}
    with WireServer(DIALECTS["openai"], failing()) as wire, caplog.at_level(logging.DEBUG):
        provider = OpenAIProvider("gpt-4o-mini", api_key=KEY, base_url=f"{wire.url}/v1")
        settings = ServerSettings(port=0, tokens=(token,))
        with serving(place / ".ragkit", provider, settings) as (served, client):
            client.headers.update(headers)
            session = client.post("/session/start", json={}).json()["id"]
            body = {"message": "When is the hedge cut?", "session_id": session}
            seen = [client.post("/chat", json=body), client.post("/chat", json={**body, "stream": True})]
            seen += [client.post("/v1/chat/completions", json={"model": "ragkit", "messages": [
                {"role": "user", "content": "hedge?"}]})]  # fmt: skip
            paths = [
                "/status",
                "/traces",
                f"/session/{session}",
                "/sessions",
                "/metrics",
                "/openapi.json",
                "/v1/models",
            ]
            seen += [client.get(path) for path in paths]
            seen += [client.get(f"/traces/{item['id']}") for item in client.get("/traces").json()["traces"]]
            seen += [client.get("/status", headers={"authorization": f"Bearer {token}x"})]
            client.headers.clear()
            assert repr(served.app.state).find(token) == -1
    texts = "".join(item.text + str(item.headers) for item in seen)
    assert [item.status_code for item in seen if item.status_code >= 500 and item.status_code != 502] == []
    formatted = "".join(JsonFormatter().format(record) for record in caplog.records if record.name.startswith("ragkit"))
    assert formatted.count('"path"') >= 10
    for what in (texts, formatted, repr(settings)):
        assert PART not in what
        assert token not in what
    stored = [path for path in (place / ".ragkit").rglob("*") if path.is_file()]
    assert not [path for path in stored if KEY.encode() in path.read_bytes() or token.encode() in path.read_bytes()]


def test_the_log_of_a_server_hides_secrets_in_errors() -> None:
    ServerSettings(tokens=(KEY,))
    try:
        raise RuntimeError(f"postgresql://anna:hunter22@host/db does not take Bearer {KEY}")
    except RuntimeError as error:
        record = logging.LogRecord("ragkit", logging.ERROR, "x.py", 1, "it failed", None, (RuntimeError, error, None))
    line = json.loads(JsonFormatter().format(record))
    assert line["traceback"] == "RuntimeError: postgresql://anna:(hidden)@host/db does not take Bearer (hidden)"


def test_text_without_secrets_is_unchanged(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PWD", "/home/anna/documents")
    monkeypatch.setenv("SHORT_KEY", "docs")
    text = "/home/anna/documents/docs: see https://host:8080/a@b, postgresql://anna@host/db, max_tokens: 4711"
    assert mask_secrets(text) == text
    monkeypatch.setenv("SOME_TOKEN", "documents")
    assert mask_secrets(text).startswith("/home/anna/[SOME_TOKEN]/docs")
