"""Several knowledge bases in one server: chosen by path, parameter, model name and argument, and never mixed up."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx2
import pytest
from mcp import Client

from ragkit.cli import main
from ragkit.cli.commands.serve import create_application
from ragkit.knowledge_base.knowledge_base import KnowledgeBase
from ragkit.pipeline.settings import Pipeline
from ragkit.server.settings import ServerLimits, ServerSettings
from tests.server.mcp.parts import McpConnection
from tests.server.mcp.parts import serving as serving_app
from tests.server.parts import process

HASHING = "embed: {name: hashing, dimension: 64}\n"
NAMES = ("north", "south")
QUESTION = "Where does the saw hang?"
SETTINGS = ServerSettings(limits=ServerLimits(max_waiting=1000))


def secret(name: str) -> str:
    """A word that only stands in the documents of one knowledge base."""
    return f"{name}-hook"


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Two knowledge bases that answer the same question with other words."""
    folder = tmp_path_factory.mktemp("bases")
    for name in NAMES:
        (folder / f"{name}-docs").mkdir()
        (folder / f"{name}-docs" / "shed.md").write_text(f"# Shed\n\nThe saw hangs on the {secret(name)}.\n", "utf-8")
        with KnowledgeBase.open(folder / name, Pipeline.from_yaml(HASHING)) as kb:
            kb.index(folder / f"{name}-docs")
    return {name: folder / name for name in NAMES}


@pytest.fixture(scope="module")
def url(places: dict[str, Path]) -> Iterator[str]:
    """A server over both."""
    bases = {name: KnowledgeBase.open(place) for name, place in places.items()}
    with serving_app(create_application(bases, SETTINGS)) as address:
        yield address
    for kb in bases.values():
        kb.close()


@pytest.fixture(scope="module")
def client(url: str) -> Iterator[httpx2.Client]:
    """A client of the server."""
    with httpx2.Client(base_url=url, timeout=60) as opened:
        yield opened


def other(name: str) -> str:
    """The other knowledge base."""
    return NAMES[1 - NAMES.index(name)]


def named(response: httpx2.Response) -> dict[str, str]:
    """The ids in an answer of /chat."""
    data = response.json()
    return {"session": data["session_id"], "trace": data["trace_id"], "message": data["message"]["id"]}


def call(client: httpx2.Client, chance: random.Random, known: dict[str, list[dict[str, str]]]) -> list[str]:
    """One call to a random knowledge base; returns what is wrong with the response."""
    name = chance.choice(NAMES)
    kind = chance.choice(("search", "chat", "openai", "documents", "history", "traces", "foreign", "feedback"))
    prefix, params = chance.choice(((f"kb/{name}/", {}), ("", {"kb": name})))
    mine = known[name][chance.randrange(len(known[name]))]
    if kind == "search":
        response = client.post(f"{prefix}v1/search", params=params, json={"query": QUESTION})
    elif kind == "chat":
        response = client.post(f"{prefix}chat", params=params, json={"message": QUESTION})
        known[name].append(named(response))
    elif kind == "openai":
        messages = [{"role": "user", "content": QUESTION}]
        body = {"model": f"ragkit/{name}", "messages": messages}
        response = client.post("v1/chat/completions", json=body)
    elif kind == "documents":
        response = client.get(f"{prefix}documents", params=params)
    elif kind == "history":
        response = client.get(f"{prefix}session/{mine['session']}", params=params)
    elif kind == "traces":
        response = client.get(f"{prefix}traces/{mine['trace']}", params=params)
    elif kind == "feedback":
        body = {"message_id": mine["message"], "rating": "up"}
        response = client.post(f"kb/{other(name)}/feedback", json=body)
    else:
        response = client.get(f"kb/{other(name)}/session/{mine['session']}")
    wrong = [f"{kind} of {name} has a word of the other"] if secret(other(name)) in response.text else []
    if kind in ("foreign", "feedback"):
        return wrong if response.status_code == 404 else [*wrong, f"{kind}: {response.status_code}"]
    if response.status_code != 200:
        return [*wrong, f"{kind}: {response.status_code} {response.text[:200]}"]
    expected = f"{name}-docs" if kind == "documents" else secret(name)
    return wrong + ([] if expected in response.text else [f"{kind} of {name}: {response.text[:200]}"])


def test_800_calls_of_the_api_never_cross_knowledge_bases(client: httpx2.Client) -> None:
    known: dict[str, list[dict[str, str]]] = {}
    for name in NAMES:
        first = client.post(f"kb/{name}/chat", json={"message": QUESTION})
        known[name] = [named(first)]
    with ThreadPoolExecutor(8) as pool:
        results = pool.map(lambda seed: call(client, random.Random(seed), known), range(800))
        assert [line for lines in results for line in lines] == []
    for name in NAMES:
        listed = client.get(f"kb/{name}/sessions", params={"limit": 200}).json()["sessions"]
        own = {item["session"] for item in known[name]}
        assert {item["id"] for item in listed} & {item["session"] for item in known[other(name)]} == set()
        assert own & {item["id"] for item in listed}


def test_200_calls_of_mcp_never_cross_knowledge_bases(url: str) -> None:
    chance = random.Random(1)
    with (
        McpConnection(lambda: Client(f"{url}/mcp")) as both,
        McpConnection(lambda: Client(f"{url}/kb/south/mcp")) as south,
    ):
        tools = both.do(lambda session: session.list_tools()).tools
        assert {str(tool.input_schema["properties"]["kb"]["enum"]) for tool in tools} == {str(list(NAMES))}
        alone = south.do(lambda session: session.list_tools()).tools
        assert not any("kb" in tool.input_schema.get("properties", {}) for tool in alone)
        for _ in range(200):
            name, tool = chance.choice(NAMES), chance.choice(("search_knowledge_base", "ask", "list_documents"))
            arguments: dict[str, Any] = {
                "search_knowledge_base": {"query": QUESTION}, "ask": {"question": QUESTION}, "list_documents": {},
            }[tool]  # fmt: skip
            by_path = name == "south" and chance.random() < 0.3
            connection = south if by_path else both
            result = connection.call(tool, **arguments, **({} if by_path else {"kb": name}))
            found = json.dumps(result.structured_content)
            assert (secret(name) in found or f"{name}-docs" in found) and not result.is_error
            assert secret(other(name)) not in found
            assert f"{other(name)}-docs" not in found
        assert "unknown knowledge base 'east'" in both.call_rejected("ask", question=QUESTION, kb="east")


def test_uploads_go_into_the_chosen_knowledge_base(client: httpx2.Client, places: dict[str, Path]) -> None:
    body = b"The axe leans on the south wall."
    sent = client.post("kb/south/documents", params={"name": "axe.txt", "index": "false"}, content=body)
    assert sent.status_code == 200
    assert (places["south"] / "uploads" / "axe.txt").read_bytes() == body
    assert not (places["north"] / "uploads" / "axe.txt").exists()
    assert client.get("kb/north/sources").json()["uploads"]["files"] == 0


def test_the_first_knowledge_base_is_the_default(client: httpx2.Client) -> None:
    assert client.get("bases").json() == {"bases": list(NAMES), "current": "north", "managed": False}
    assert client.get("kb/south/bases").json()["current"] == "south"
    models = [item["id"] for item in client.get("v1/models").json()["data"]]
    assert models[:3] == ["ragkit", "ragkit/north", "ragkit/south"]
    assert secret("north") in client.post("v1/search", json={"query": QUESTION}).text
    assert client.get("v1/models/ragkit/south").json()["id"] == "ragkit/south"


@pytest.mark.parametrize(
    ("method", "path", "status", "message"),
    [
        ("GET", "status?kb=east", 404, "knowledge base 'east' not found; available: north, south"),
        ("GET", "kb/north/status?kb=south", 400, "kb must be north, as in the path (got south)"),
        ("GET", "kb/east/status", 404, "not found"),
        ("GET", "v1/models/ragkit/east", 404, "knowledge base 'east' not found; available: north, south"),
    ],
)
def test_an_unknown_knowledge_base_is_one_clear_line(
    client: httpx2.Client, method: str, path: str, status: int, message: str
) -> None:
    result = client.request(method, path)
    assert (result.status_code, result.json()["error"]["message"]) == (status, message)


def test_the_page_of_a_knowledge_base_has_its_own_address(client: httpx2.Client) -> None:
    moved = client.get("kb/south")
    assert (moved.status_code, moved.headers["location"]) == (307, "south/")
    assert "<title>ragkit</title>" in client.get("kb/south/").text
    assert client.get("kb/south/static/app.js").status_code == 200


@pytest.mark.slow
def test_the_command_serves_several_with_several_processes(places: dict[str, Path], tmp_path: Path) -> None:
    first, second = (f"{name}={place}" for name, place in places.items())
    with process(tmp_path, "--kb", second, "--workers", "2", place=first) as server, server.client() as connection:
        for name in NAMES:
            found = connection.post(f"kb/{name}/v1/search", json={"query": QUESTION}).text
            assert secret(name) in found
            assert secret(other(name)) not in found


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("serve", "--kb", "a=x", "--kb", "y"), "each of several --kb must be NAME=DIR or NAME=URL"),
        (("serve", "--kb", "a=x", "--kb", "a=y"), "each of several --kb must be NAME=DIR or NAME=URL"),
        (("status", "--kb", "x", "--kb", "y"), "--kb must be given once: only `ragkit serve` takes several"),
        (("--kb", "a=x", "--kb", "b=y", "status"), "--kb must be given once: only `ragkit serve` takes several"),
        (("--kb", "a=x", "--kb", "y", "serve"), "each of several --kb must be NAME=DIR or NAME=URL"),
    ],
)
def test_several_places_need_names_and_the_server(
    arguments: tuple[str, ...], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(list(arguments))
    assert message in capsys.readouterr().err
