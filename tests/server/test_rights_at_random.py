"""Random users, groups, rules, documents and conversations: no route ever shows a word that a user may not read now.

After each step every route is read as one user, which checks as many pairs of a user and a document as there were
documents: `--pairs N` is their number at least. Over HTTP, with the state in a directory and in PostgreSQL.
"""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import httpx2
import pytest

from ragkit.cli.commands.serve import create_application
from ragkit.index.access.rules import AccessSettings, Role, User
from ragkit.index.access.tokens import create_token
from ragkit.knowledge_base.knowledge_base import KnowledgeBase
from ragkit.pipeline.settings import Pipeline
from ragkit.server.settings import ServerLimits, ServerSettings
from ragkit.server.state.rights_filter import HIDDEN
from tests.server.access_parts import HASHING, rpc, word_of
from tests.server.parts import KnowledgeBaseWithProvider, Served
from tests.server.slow_narrator import SlowNarrator

GROUPS = ("red", "blue", "green")
FOLDERS = ("open", "red", "blue")
ROLES: dict[str, Role] = {"ann": "reader", "bea": "reader", "cal": "editor", "dan": "reader", "olga": "owner"}
ACCEPT = {"accept": "application/json, text/event-stream"}


@dataclass
class Version:
    """One text that a document had."""

    word: str
    path: str
    access: tuple[str, ...] | None
    """The names in its front matter; None: it has none."""


@dataclass
class RandomHouse:
    """The system and, beside it, what it should do: `may_read`."""

    rng: random.Random
    folder: Path
    kb: KnowledgeBaseWithProvider
    served: Served
    tokens: dict[str, str] = field(default_factory=dict)
    versions: list[Version] = field(default_factory=list)
    current: dict[str, Version] = field(default_factory=dict)
    groups: dict[str, set[str]] = field(default_factory=dict)
    rules: dict[str, set[str]] = field(default_factory=dict)
    answers: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    links: list[tuple[str, str]] = field(default_factory=list)
    notes: dict[str, str] = field(default_factory=dict)
    """The word of each note and label, and whose conversation has it."""
    seen: Counter[str] = field(default_factory=Counter)
    pairs: int = 0
    hidden: int = 0

    def may_read(self, user: str, version: Version) -> bool:
        """The reference: the version and the one that stands in its place now allow the user, and so do the rules."""
        if user not in self.groups:
            return False
        if ROLES[user] == "owner":
            return True
        if version.path not in self.current:
            return False
        names = {"everyone", f"user:{user}", *(f"group:{group}" for group in self.groups[user])}
        own = (version.access, self.current[version.path].access)
        top = version.path.partition("/")[0]
        return all(access is None or names & set(access) for access in own) and (
            top not in self.rules or bool(names & self.rules[top])
        )

    def may_find(self, user: str, word: str) -> bool:
        """Whether a user may read a version with this word."""
        return any(self.may_read(user, version) for version in self.versions if version.word == word)

    def check(self, user: str, place: str, text: str) -> None:
        """Fail if a text has a word that a user may not read now."""
        lowered = text.lower()
        for word in {version.word for version in self.versions if version.word in lowered}:
            assert self.may_find(user, word), f"{user} is shown {word} by {place}: {text[:2000]}"
            self.seen[place] += 1
        for word in (word for word in self.notes if word in text):
            is_own = self.notes[word] == user or ROLES[user] == "owner"
            assert is_own and "shared" not in place, f"{user} is shown the note {word} by {place}: {text[:2000]}"
            self.seen["note"] += 1
        self.hidden += HIDDEN in text

    # changes

    def write(self) -> None:
        """Write a new document, or a new version of one, and index."""
        rng = self.rng
        path = f"{rng.choice(FOLDERS)}/note{rng.randrange(6)}.md"
        names = [f"group:{group}" for group in GROUPS] + [f"user:{user}" for user in ROLES if user != "olga"]
        access = rng.choice([None, None, tuple(rng.sample(names, rng.randint(1, 3))), ("everyone",)])
        is_tagged_anew = path in self.current and rng.random() < 0.6
        word = self.current[path].word if is_tagged_anew else word_of(len(self.versions))
        self._store(Version(word, path, access))

    def _store(self, version: Version) -> None:
        front = "" if version.access is None else f"---\naccess: [{', '.join(version.access)}]\n---\n"
        word, project = version.word, f"project aster{int(version.path.removesuffix('.md')[-1]) % 7}"
        text = f"The keyword of {project} is {word}. It is kept in room {word}."
        file = self.folder / version.path
        file.parent.mkdir(exist_ok=True, parents=True)
        file.write_text(f"{front}# Report {word}\n\n## The keyword {word}\n\n{text}\n")
        self.versions.append(version)
        self.current[version.path] = version
        self.index()

    def delete(self) -> None:
        """Delete a document, and index."""
        if len(self.current) > 3:
            path = self.rng.choice(sorted(self.current))
            (self.folder / path).unlink()
            del self.current[path]
            self.index()

    def index(self) -> None:
        """Index with another instance, as another process does."""
        with KnowledgeBase(self.kb.location.reopen(), self.kb.pipeline, self.kb.components) as writer:
            writer.index(self.folder)

    def regroup(self) -> None:
        """Give a user other groups."""
        user = self.rng.choice([name for name in self.groups if name != "olga"] or ["ann"])
        self.groups[user] = set(self.rng.sample(GROUPS, self.rng.randint(0, 2)))
        self.publish()

    def revoke(self) -> None:
        """Remove a user, who comes back at the next grant with a new token and the conversations of before."""
        user = self.rng.choice([name for name in ROLES if name != "olga"])
        if user in self.groups:
            del self.groups[user]
        else:
            self.groups[user] = set(self.rng.sample(GROUPS, self.rng.randint(0, 2)))
        self.publish()

    def rule(self) -> None:
        """Change or remove the rule of a folder; or one that concerns no document."""
        top = self.rng.choice([*FOLDERS, "nowhere"])
        if top in self.rules and self.rng.random() < 0.5:
            del self.rules[top]
        else:
            names = ["everyone", *(f"group:{group}" for group in GROUPS)]
            self.rules[top] = set(self.rng.sample(names, self.rng.randint(1, 2)))
        self.publish()

    def publish(self) -> None:
        """Write the users and rules."""
        old = self.kb.location.access.read()
        settings = AccessSettings()
        for name, groups in self.groups.items():
            known = old.find_user(name)
            if known is None:
                self.tokens[name], digest = create_token()
                known = User(name, role=ROLES[name], tokens=(digest,))
            settings = settings.with_user(replace(known, groups=tuple(sorted(groups))))
        for top, names in self.rules.items():
            settings = settings.with_rule(f"{top}/**", sorted(names))
        self.kb.location.access.update(lambda _: settings)

    # conversations

    def client(self, user: str) -> httpx2.Client:
        """A client of a user."""
        return self.served.client(headers={"authorization": f"Bearer {self.tokens[user]}"})

    def question(self) -> str:
        """A question that holds no word; often one that was asked before."""
        number = self.rng.randrange(7)
        return self.rng.choice(
            [
                f"What is the keyword of project aster{number}?",
                "Which room keeps the keyword?",
                "And the other projects?",
            ]
        )

    def ask(self, user: str, client: httpx2.Client) -> None:
        """Ask in a new session or in one of before, over one of the APIs."""
        rng = self.rng
        own = [answer["session_id"] for name, answer in self.answers if name == user]
        body: dict[str, Any] = {"message": self.question()}
        if own and rng.random() < 0.5:
            body["session_id"] = rng.choice(own)
        if rng.random() < 0.3:
            v1 = {"messages": [{"role": "user", "content": body["message"]}], "stream": rng.random() < 0.5}
            self.check(user, "completion", client.post("/v1/chat/completions", json=v1).text)
            return
        response = client.post("/chat", json=body)
        self.check(user, "chat", response.text)
        if response.status_code == 200:
            self.answers.append((user, response.json()))

    def lose_in_mid_stream(self, user: str, client: httpx2.Client) -> None:
        """Take rights away while an answer is told slowly: a second later nothing more of what was lost comes."""
        self.kb.provider = SlowNarrator()
        late: list[str] = []
        lost_at = [float("inf")]

        def read() -> None:
            body = {"message": self.question(), "stream": True}
            try:
                with client.stream("POST", "/chat", json=body) as response:
                    for line in response.iter_lines():
                        if time.monotonic() > lost_at[0] + 1:
                            late.append(line)
            except httpx2.TransportError:
                pass

        reader = threading.Thread(target=read)
        reader.start()
        time.sleep(0.7)
        self.rng.choice([self.regroup, self.revoke, self.rule])()
        lost_at[0] = time.monotonic()
        reader.join(30)
        self.kb.provider = None
        assert not reader.is_alive()
        self.check(user, "stream", "\n".join(late))

    def share(self, user: str, client: httpx2.Client) -> None:
        """Share a session."""
        own = [answer["session_id"] for name, answer in self.answers if name == user]
        if own:
            response = client.post(f"/session/{self.rng.choice(own)}/share")
            if response.status_code == 200:
                self.links.append((user, response.json()["share_id"]))

    def annotate(self, user: str, client: httpx2.Client) -> None:
        """Give a conversation a note and a label, or try to: whose it is not may not."""
        if self.answers:
            whose, answer = self.rng.choice(self.answers)
            word = f"zzlabel{len(self.notes)}z"
            body = {"labels": [word], "note": f"Remember {word}."}
            response = client.patch(f"/session/{answer['session_id']}", json=body)
            if response.status_code == 200:
                assert user == whose or ROLES[user] == "owner"
                self.notes[word] = whose
                self.check(user, "note", response.text)

    def try_to_rule(self, user: str, client: httpx2.Client) -> None:
        """The routes of owners: nobody else reaches one, whatever they send."""
        is_owner = user in self.groups and ROLES[user] == "owner"
        for path in ("/access", "/settings"):
            assert (client.get(path).status_code == 200) == is_owner, f"{user} reads {path}"
        if not is_owner:
            role = {"role": "owner", "groups": list(GROUPS)}
            before = self.kb.location.access.read()
            requests = [("POST", "/access/users", {"user": "mallory", **role}),
                        ("PATCH", f"/access/users/{user}", role),
                        ("POST", "/access/users/olga/tokens", {"name": "x"}),
                        ("DELETE", "/access/users/olga/tokens/first", None),
                        ("DELETE", "/access/users/olga", None), ("POST", "/bases", {"name": "x"}),
                        ("DELETE", "/bases/x", None)]  # fmt: skip
            method, path, body = self.rng.choice(requests)
            assert client.request(method, path, json=body).status_code in (401, 403), f"{user} {method} {path}"
            assert self.kb.location.access.read() == before
            self.seen["refused"] += 1

    def read_everything(self, user: str, client: httpx2.Client) -> None:
        """Read every route as a user: own and others' conversations, lists, searches, documents, MCP."""
        rng = self.rng
        self.pairs += len(self.versions)
        version = rng.choice(self.versions)
        paths = ["/sessions?limit=200", f"/sessions?q={version.word}", f"/sessions?q={version.word[:6]}",
                 "/traces?limit=200", "/documents?limit=200", f"/documents?q={version.word[:7]}", "/folders",
                 "/suggestions", "/status", "/sources", "/jobs", "/metrics", "/v1/models", "/labels"]  # fmt: skip
        if self.notes:
            word = rng.choice(sorted(self.notes))
            paths += [f"/sessions?label={word}", f"/sessions?q={word}"]
        for _, answer in rng.sample(self.answers, min(4, len(self.answers))):
            session, trace = answer["session_id"], answer["trace_id"]
            paths += [f"/session/{session}", f"/session/{session}/export", f"/session/{session}/suggestions",
                      f"/session/{session}/export?format=markdown", f"/traces/{trace}",
                      f"/traces?session_id={session}"]  # fmt: skip
            rating = {"message_id": answer["message"]["id"], "rating": rng.choice(["up", "down", None])}
            self.check(user, "feedback", client.post("/feedback", json=rating).text)
        paths += [f"/shared/{link}" for _, link in rng.sample(self.links, min(2, len(self.links)))]
        for path in paths:
            name = path.partition("?")[0]
            place = "/".join(part for part in name.split("/") if "_" not in part)
            self.check(user, place, client.get(path).text)
        found = client.get(f"/sessions?q={version.word}").json()
        assert self.may_find(user, version.word) or not found.get("sessions"), f"{user} can search for {version.word}"
        query = {"query": self.question(), "top_k": 50}
        self.check(user, "search", client.post("/v1/search", json=query).text)
        call = rpc("tools/call", {"name": "ask", "arguments": {"question": self.question()}})
        start = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
        opened = client.post("/mcp", json=rpc("initialize", start), headers=ACCEPT)
        if opened.status_code == 200:
            headers = {**ACCEPT, "mcp-session-id": opened.headers["mcp-session-id"]}
            client.post("/mcp", json={"jsonrpc": "2.0", "method": "notifications/initialized"}, headers=headers)
            self.check(user, "mcp", client.post("/mcp", json=call, headers=headers).text)
            client.delete("/mcp", headers=headers)

    def step(self) -> None:
        """Change something or not, let a user do something, then read every route as a user."""
        rng = self.rng
        changes = [self.write, self.write, self.delete, self.regroup, self.rule, self.revoke]
        if rng.random() < 0.6:
            rng.choice(changes)()
        user = rng.choice(sorted(self.tokens))
        with self.client(user) as client:
            kind = rng.random()
            if kind < 0.6:
                self.ask(user, client)
            elif kind < 0.75:
                self.share(user, client)
            elif kind < 0.85 and user in self.groups:
                self.lose_in_mid_stream(user, client)
            else:
                self.annotate(user, client)
            self.try_to_rule(user, client)
        reader = rng.choice(sorted(self.tokens))
        with self.client(reader) as client:
            self.read_everything(reader, client)


def run(folder: Path, place: str | Path, seed: int, pairs: int) -> RandomHouse:
    """Steps until so many pairs of a user and a document were checked."""
    with ExitStack() as stack:
        kb = stack.enter_context(KnowledgeBaseWithProvider.open(place, Pipeline.from_yaml(HASHING)))
        settings = ServerSettings(port=0, limits=ServerLimits(requests_per_minute=None))
        docs = folder / "docs"
        docs.mkdir()
        house = RandomHouse(random.Random(seed), docs, kb, Served.__new__(Served))
        for number, top in enumerate(FOLDERS):
            access = None if number else ("group:red", "user:dan")
            house._store(Version(word_of(len(house.versions)), f"{top}/note{number}.md", access))
        house.groups = {name: {GROUPS[number % 3]} for number, name in enumerate(ROLES)}
        house.publish()
        house.served = Served(kb, settings, create_application({"": kb}, settings))
        stack.callback(house.served.stop)
        while house.pairs < pairs:
            house.step()
        return house


@pytest.mark.parametrize("state", ["directory", "postgresql"])
def test_no_route_ever_shows_what_a_user_may_not_read_now(
    state: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    place = tmp_path / "kb" if state == "directory" else request.getfixturevalue("database_url")
    pairs = int(request.config.getoption("--pairs"))
    house = run(tmp_path, place, 56, pairs)
    print(f"{house.pairs} pairs, {len(house.answers)} answers, {house.hidden} texts blanked; {dict(house.seen)}")  # noqa: T201
    assert sum(house.seen.values()) > pairs / 100, house.seen
