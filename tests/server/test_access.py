"""Users read what they may read, over every path of a server, and nothing of the rest."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from ragkit.index.access.rules import as_grants
from ragkit.knowledge_base.knowledge_base import KnowledgeBase
from ragkit.server.state.rights_filter import HIDDEN
from tests.server.access_parts import OWNER, PATHS, USERS, World, question, world

PAIRS = 320
SEED = 20


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """A served knowledge base with users."""
    with world(tmp_path_factory.mktemp("access")) as made:
        yield made


def ask_pairs(base: World, pairs: int, seed: int) -> Counter[str]:
    """Random users, paths and questions; the readable words that were seen, by path. Fails at the first leak."""
    rng = random.Random(seed)
    clients = {user: base.client(user) for user in (*USERS, OWNER)}
    seen: Counter[str] = Counter()
    for number in range(pairs):
        user, path = rng.choice(list(clients)), rng.choice(list(PATHS))
        asked = question(base, rng)
        text = PATHS[path](base, clients[user], user, asked, rng)
        assert not base.leaks(user, text), f"pair {number}: {user} asked {asked!r} over {path}"
        seen[path] += sum(secret.word in text.lower() for secret in base.secrets)
    for client in clients.values():
        client.close()
    return seen


def test_no_path_shows_what_a_user_may_not_read(base: World) -> None:
    seen = ask_pairs(base, PAIRS, SEED)
    assert set(seen) == set(PATHS) and min(seen.values()) > 0, seen  # every path shows something readable


def test_a_knowledge_base_in_a_database_shows_no_more(database_url: str, tmp_path: Path) -> None:
    with world(tmp_path, place=database_url) as base:
        seen = ask_pairs(base, PAIRS // 4, SEED + 2)
        assert sum(seen.values()) > PAIRS // 4
        with KnowledgeBase.open(database_url) as other:  # another process: users and rules are in the database
            assert other.location.access.read() == base.kb.location.access.read()
            hidden = next(secret for secret in base.secrets if secret.allowed == {"group:red"})
            asked = f"keyword of project aster{hidden.number}"
            assert hidden.word in other.as_user("zoe", ["red"]).search(asked, 1)[0].text
            assert all(hidden.word not in hit.text for hit in other.as_user("zoe").search(asked, 50))


@pytest.mark.slow
def test_ten_thousand_pairs(base: World) -> None:
    seen = ask_pairs(base, 10_000, SEED + 1)
    assert set(seen) == set(PATHS) and min(seen.values()) > 50, seen


def test_counts_and_names_are_those_of_readable_documents(base: World) -> None:
    for user in (*USERS, OWNER):
        readable = [secret for secret in base.secrets if secret.is_readable(user, USERS)]
        with base.client(user) as client:
            status = client.get("/status").json()
            rows = client.get("/documents", params={"limit": 200}).json()["documents"]
        assert status["documents"] == len(rows) == len(readable), user
        assert status["chunks"] == sum(row["chunks"] for row in rows)
        if user != OWNER:
            assert status["vectors"] == status["chunks"] and not status["bytes"] and not status["database"]


def test_a_user_finds_every_document_that_may_be_read(base: World) -> None:
    for user in (*USERS, OWNER):
        kb = base.kb if user == OWNER else base.kb.as_user(user, USERS[user])
        for secret in base.secrets:
            for mode in ("lexical", "hybrid"):
                hits = kb.search(f"keyword of project aster{secret.number}", 1, mode=mode)
                found = bool(hits) and secret.word in hits[0].text
                assert found == secret.is_readable(user, USERS), (user, secret, mode)


def test_terms_and_contents_are_those_of_readable_documents(base: World) -> None:
    for user in USERS:
        kb = base.kb.as_user(user, USERS[user])
        words = [secret.word for secret in base.secrets if not secret.is_readable(user, USERS)]
        with kb.session() as session:
            assert session.missing_terms(words) == words
            found = session.find_terms(["qx"])
            assert not base.leaks(user, session.describe_contents())
        assert not set(found) & set(words)
        assert set(found) >= {s.word for s in base.secrets if s.is_readable(user, USERS)}
        assert kb.aggregate().documents == sum(secret.is_readable(user, USERS) for secret in base.secrets)


def test_a_restricted_search_ranks_like_one_without_the_other_documents(base: World) -> None:
    for user in USERS:
        kb = base.kb.as_user(user, USERS[user])
        for secret in base.secrets[::5]:
            every = base.kb.search(f"keyword of project aster{secret.number}", 60, mode="dense")
            mine = kb.search(f"keyword of project aster{secret.number}", 60, mode="dense")
            ids = {hit.chunk.id for hit in mine}
            kept = [(hit.chunk.id, hit.score) for hit in every if hit.chunk.id in ids]
            assert [(hit.chunk.id, hit.score) for hit in mine] == kept


def test_rights_are_those_of_the_moment(base: World) -> None:
    secret = next(secret for secret in base.secrets if secret.allowed == {"group:blue"})
    asked = {"query": f"keyword of project aster{secret.number}", "top_k": 1}
    before = base.kb.location.access.read()
    try:
        with base.client("ann") as client:
            assert secret.word not in client.post("/v1/search", json=asked).text
            ann = before.find_user("ann")
            assert ann is not None
            ann_in_blue = replace(ann, groups=("red", "blue"))
            base.kb.location.access.update(lambda s: s.with_user(ann_in_blue))
            assert secret.word in client.post("/v1/search", json=asked).text
            session = client.post("/chat", json={"message": asked["query"]}).json()
            base.kb.location.access.update(lambda _: before)
            assert secret.word not in client.post("/v1/search", json=asked).text
            # of what was answered with rights that are gone, the user sees no word, but the rest
            for path in (f"/session/{session['session_id']}", f"/traces/{session['trace_id']}"):
                seen = client.get(path)
                assert seen.status_code == 200 and secret.word not in seen.text and HIDDEN in seen.text
    finally:
        base.kb.location.access.update(lambda _: before)


def test_a_new_rule_holds_for_documents_that_were_public(base: World) -> None:
    secret = next(secret for secret in base.secrets if not secret.allowed)
    asked = {"query": f"keyword of project aster{secret.number}", "top_k": 1}
    before = base.kb.location.access.read()
    with base.client("dan") as client, base.client("ann") as other:
        assert secret.word in client.post("/v1/search", json=asked).text
        base.kb.location.access.update(lambda settings: settings.with_rule("public/**", ["group:red"]))
        try:
            assert secret.word not in client.post("/v1/search", json=asked).text
            assert secret.word in other.post("/v1/search", json=asked).text
        finally:
            base.kb.location.access.update(lambda _: before)


def test_every_answer_is_logged_with_its_user_and_documents(base: World, caplog: pytest.LogCaptureFixture) -> None:
    secret = next(secret for secret in base.secrets if secret.allowed == {"group:red"})
    with caplog.at_level("INFO", "ragkit.server.audit"), base.client("ann") as client:
        answer = client.post("/chat", json={"message": f"What is the keyword of project aster{secret.number}?"}).json()
    [record] = [record for record in caplog.records if record.name == "ragkit.server.audit"]
    fields = vars(record)
    assert fields["user"] == "user:ann@" and fields["trace"] == answer["trace_id"]
    assert any(secret.word in source for source in fields["documents"])


def test_a_restricted_knowledge_base_cannot_be_changed(base: World) -> None:
    kb = base.kb.as_user("ann", ("red",))
    with pytest.raises(Exception, match="restricted to a user"):
        kb.clear()
    with pytest.raises(Exception, match="restricted to a user"):
        kb.as_user("bea")
    assert as_grants("ann", ("red",)) == {"everyone", "user:ann", "group:red"}
