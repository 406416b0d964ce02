"""A knowledge base whose documents only some users may read, each with words that are nowhere else."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any

import httpx2

from ragkit.cli.commands.serve import create_application
from ragkit.index.access.rules import AccessSettings, Role, User
from ragkit.index.access.tokens import create_token
from ragkit.knowledge_base.knowledge_base import KnowledgeBase
from ragkit.pipeline.settings import Pipeline
from ragkit.server.settings import ServerLimits, ServerSettings
from tests import reads
from tests.load.sample_files import pdf
from tests.server.parts import Served

HASHING = """
load: [{name: folder}, {name: csv, records: {text: [note], title: note, metadata: [access]}}]
embed: {name: hashing, dimension: 64}
"""
USERS: Mapping[str, tuple[str, ...]] = {
    "ann": ("red",), "bea": ("red", "blue"), "cal": ("blue",), "dan": ("green",), "eve": (), "fay": ("red", "green"),
}  # fmt: skip
OWNER = "olga"
RULES = {"red/**": "group:red", "blue/**": "group:blue", "green/**": "group:green", "eve/**": "user:eve"}
KINDS = ("public", "for red", "for cal and green", "red", "blue", "eve")
"""By turns: read by everyone, by front matter, or by the rule of their folder."""
FRONT_MATTER = {"for red": "[group:red]", "for cal and green": "cal, group:green"}
ALLOWED = {
    "public": frozenset[str](),
    "for red": frozenset({"group:red"}),
    "for cal and green": frozenset({"user:cal", "group:green"}),
    "red": frozenset({"group:red"}),
    "blue": frozenset({"group:blue"}),
    "eve": frozenset({"user:eve"}),
}
DOCUMENTS = 48


@dataclass(frozen=True)
class Secret:
    """A document, or a row of one, and the word that is in its text, title, headings and name."""

    number: int
    word: str
    allowed: frozenset[str]
    """The users and groups that may read it; empty: everyone."""

    def is_readable(self, user: str, groups: Mapping[str, tuple[str, ...]]) -> bool:
        """Whether a user may read it; owners may read everything."""
        grants = {f"user:{user}", *(f"group:{group}" for group in groups.get(user, ()))}
        return user == OWNER or not self.allowed or bool(grants & self.allowed)


@dataclass
class World:
    """A served knowledge base with its users."""

    folder: Path
    """The documents."""
    kb: KnowledgeBase
    served: Served
    secrets: list[Secret]
    tokens: dict[str, str]
    document_ids: list[str] = field(default_factory=list)
    mcp_sessions: dict[str, str] = field(default_factory=dict)

    def client(self, user: str) -> httpx2.Client:
        """A client with the token of a user."""
        return self.served.client(headers={"authorization": f"Bearer {self.tokens[user]}"})

    def leaks(self, user: str, text: str, groups: Mapping[str, tuple[str, ...]] = USERS) -> list[str]:
        """The words in a text of documents that a user may not read."""
        lowered = text.lower()
        return [s.word for s in self.secrets if s.word in lowered and not s.is_readable(user, groups)]


def word_of(number: int) -> str:
    """The word of a document: letters that the analyzers do not change."""
    digest = sha256(f"secret {number}".encode()).hexdigest()
    return "qx" + "".join(chr(ord("a") + int(digit, 16)) for digit in digest[:9]) + "z"


def write_documents(folder: Path) -> list[Secret]:
    """Markdown by front matter and by rules, HTML, PDF, and rows of a table."""
    secrets, rows = [], ["note,access"]
    for number in range(DOCUMENTS):
        kind = KINDS[number % len(KINDS)]
        front = f"access: {FRONT_MATTER[kind]}" if kind in FRONT_MATTER else ""
        place, allowed = ("notes" if front else kind), ALLOWED[kind]
        word = word_of(number)
        (folder / place).mkdir(exist_ok=True, parents=True)
        path = folder / place / f"{word}-report"
        lines = f"The keyword of project aster{number} is {word}. It is kept by the garden office, room {word}."
        if number % 8 == 7 and not front:
            path.with_suffix(".pdf").write_bytes(pdf([[f"Report {word}", lines]]))
        elif number % 8 == 5 and not front:
            body = f"<h1>Report {word}</h1><h2>Keyword of {word}</h2><p>{lines}</p>"
            path.with_suffix(".html").write_text(f"<html><title>{word}</title><body>{body}</body></html>")
        else:
            head = f"---\n{front}\nauthor: {word}\n---\n" if front else ""
            path.with_suffix(".md").write_text(f"{head}# Report {word}\n\n## The keyword of {word}\n\n{lines}\n")
        secrets.append(Secret(number, word, allowed))
    for number, name in enumerate(("", "group:blue", "eve", "group:red", "group:green", "dan"), DOCUMENTS):
        word = word_of(number)
        rows.append(f"The keyword of project aster{number} is {word},{name or 'everyone'}")
        allowed = frozenset({name if ":" in name else f"user:{name}"}) if name else frozenset()
        secrets.append(Secret(number, word, allowed))
    (folder / "public").mkdir(exist_ok=True)
    (folder / "public" / "rows.csv").write_text("\n".join(rows) + "\n")
    return secrets


def grant_everyone(kb: KnowledgeBase) -> dict[str, str]:
    """Create the users and rules; returns the tokens by user."""
    tokens: dict[str, str] = {}
    settings = AccessSettings()
    for name in (*USERS, OWNER):
        tokens[name], digest = create_token()
        role: Role = "owner" if name == OWNER else "reader"
        settings = settings.with_user(User(name, USERS.get(name, ()), role, (digest,)))
    for path, who in RULES.items():
        settings = settings.with_rule(path, [who])
    kb.location.access.update(lambda _: settings)
    return tokens


@contextmanager
def world(folder: Path, settings: ServerSettings | None = None, place: str = "") -> Iterator[World]:
    """A server over the documents, with a token for each user."""
    secrets = write_documents(folder / "docs")
    with KnowledgeBase.open(place or folder / "kb", Pipeline.from_yaml(HASHING)) as kb:
        kb.index(folder / "docs")
        tokens = grant_everyone(kb)
        chosen = settings or ServerSettings(port=0, limits=ServerLimits(requests_per_minute=None))
        served = Served(kb, chosen, create_application({"": kb}, chosen))
        try:
            made = World(folder / "docs", kb, served, secrets, tokens)
            made.document_ids = [row.id for row in reads.list_documents(kb, "", 1000)]
            yield made
        finally:
            served.stop()


Ask = Callable[[World, httpx2.Client, str, str, random.Random], str]


def _search(world: World, client: httpx2.Client, user: str, question: str, rng: random.Random) -> str:
    mode = rng.choice(["dense", "lexical", "hybrid", None])
    body = {"query": question, "mode": mode, "explain": True, "top_k": rng.choice([3, 8, 50])}
    return client.post("/v1/search", json=body).text


def _chat(world: World, client: httpx2.Client, user: str, question: str, rng: random.Random) -> str:
    answer = client.post("/chat", json={"message": question, "stream": rng.random() < 0.3})
    found = answer.text
    if answer.headers["content-type"].startswith("application/json"):
        data = answer.json()
        for path in (f"/session/{data['session_id']}", f"/session/{data['session_id']}/export?format=markdown",
                     f"/session/{data['session_id']}/suggestions", f"/traces/{data['trace_id']}"):  # fmt: skip
            found += client.get(path).text
    return found


def _completion(world: World, client: httpx2.Client, user: str, question: str, rng: random.Random) -> str:
    body = {"model": "ragkit", "messages": [{"role": "user", "content": question}], "stream": rng.random() < 0.5}
    return client.post("/v1/chat/completions", json=body).text


def _response(world: World, client: httpx2.Client, user: str, question: str, rng: random.Random) -> str:
    streamed = client.post("/v1/responses", json={"input": question, "stream": True, "store": False}).text
    first = client.post("/v1/responses", json={"input": question})
    body = {"input": "Is there more?", "previous_response_id": first.json()["id"]}
    return streamed + first.text + client.post("/v1/responses", json=body).text


def _mcp(world: World, client: httpx2.Client, user: str, question: str, rng: random.Random) -> str:
    headers = {"accept": "application/json, text/event-stream"}
    if user not in world.mcp_sessions:
        params: dict[str, Any] = {
            "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"},
        }  # fmt: skip
        started = client.post("/mcp", json=rpc("initialize", params), headers=headers)
        world.mcp_sessions[user] = started.headers["mcp-session-id"]
        notice = {"jsonrpc": "2.0", "method": "notifications/initialized"}
        client.post("/mcp", json=notice, headers={**headers, "mcp-session-id": world.mcp_sessions[user]})
    headers["mcp-session-id"] = world.mcp_sessions[user]
    call = rng.choice(
        [
            rpc("tools/call", {"name": "search_knowledge_base", "arguments": {"query": question}}),
            rpc("tools/call", {"name": "ask", "arguments": {"question": question}}),
            rpc("tools/call", {"name": "status", "arguments": {}}),
            rpc("tools/call", {"name": "aggregate_records", "arguments": {"function": "count"}}),
            rpc("resources/list", {}),
            rpc("resources/read", {"uri": f"ragkit://document/{rng.choice(world.document_ids)}"}),
        ]
    )
    return client.post("/mcp", json=call, headers=headers).text


def rpc(method: str, params: dict[str, Any]) -> dict[str, Any]:
    """A request of MCP."""
    return {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}


def _documents(world: World, client: httpx2.Client, user: str, question: str, rng: random.Random) -> str:
    prefix = rng.choice(world.secrets).word[: rng.randint(2, 8)]
    return client.get("/documents", params={"limit": 200, "q": rng.choice(["", prefix, "report"])}).text


def _document(world: World, client: httpx2.Client, user: str, question: str, rng: random.Random) -> str:
    identity = rng.choice(world.document_ids)
    path = rng.choice(["", "/file", "/html", "/rectangles?start=0&end=40", "/pages/1?width=100"])
    answer = client.get(f"/documents/{identity}{path}")
    return answer.text + str(answer.headers)


def _lists(world: World, client: httpx2.Client, user: str, question: str, rng: random.Random) -> str:
    prefix = rng.choice(world.secrets).word[:6]
    paths = ["/suggestions", "/folders", "/status", "/sessions", f"/sessions?q={prefix}", "/traces", "/v1/models",
             "/sources", "/jobs", "/metrics", "/bases", "/ready", "/openapi.json", "/labels", "/access",
             "/settings"]  # fmt: skip
    return client.get(rng.choice(paths)).text


def _filter(world: World, client: httpx2.Client, user: str, question: str, rng: random.Random) -> str:
    partial = f"notes/{rng.choice(world.secrets).word[:7]}"
    source = rng.choice(["", "red", "notes", "public", "public/rows.csv", partial])
    where = rng.choice([None, "has(access)", 'format == "markdown"', "not has(access)", "acess == 1", "pages >= 1"])
    body = {"message": question, "source": source and str(world.folder / source), "where": where}
    return client.post("/chat", json=body).text


PATHS: Mapping[str, Ask] = {
    "search": _search, "chat": _chat, "completion": _completion, "response": _response, "mcp": _mcp,
    "documents": _documents, "document": _document, "lists": _lists, "filter": _filter,
}  # fmt: skip


def question(world: World, rng: random.Random) -> str:
    """A question about a document, that does not hold its word: at most the beginning of it."""
    secret = rng.choice(world.secrets)
    return rng.choice(
        [
            f"What is the keyword of project aster{secret.number}?",
            f"Which room keeps the keyword of aster{secret.number}, and what does the report say?",
            f"{secret.word[:-2]} report",
            "List all keywords of all projects",
            "What do the reports of the garden office contain?",
            f"author {secret.word[:6]}",
        ]
    )
