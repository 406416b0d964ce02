"""Owners change users and tokens over HTTP, and see what the server was started with; nobody else does."""

from __future__ import annotations

import logging
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import click
import httpx2
import pytest

from ragkit.cli.commands.serve import command, create_application
from ragkit.index.access.rules import AccessSettings, Role, User, sign
from ragkit.index.access.tokens import create_token
from ragkit.index.catalog.lock import WriterLock
from ragkit.knowledge_base.knowledge_base import KnowledgeBase
from ragkit.server.api.administration import LIMITS
from ragkit.server.settings import ServerLimits, ServerSettings
from tests.server.api.test_limits import code_of
from tests.server.parts import Served

SETTINGS = ServerSettings(port=0, limits=ServerLimits(requests_per_minute=None))
FIRST, SECOND = "the-first-token-of-the-server", "the-second-token-of-the-server"
ROLES: dict[str, Role] = {"olga": "owner", "eve": "editor", "ann": "reader"}
ROUTES: tuple[tuple[str, str, Any], ...] = (
    ("GET", "/access", None),
    ("POST", "/access/users", {"user": "mallory", "role": "owner"}),
    ("PATCH", "/access/users/ann", {"role": "owner"}),
    ("POST", "/access/users/ann/tokens", {"name": "laptop"}),
    ("DELETE", "/access/users/ann/tokens/first", None),
    ("DELETE", "/access/users/ann", None),
    ("GET", "/settings", None),
)


@dataclass
class House:
    """A served knowledge base and the tokens of its users."""

    kb: KnowledgeBase
    served: Served
    tokens: dict[str, str] = field(default_factory=dict)

    def send(self, who: str, method: str, path: str, body: Any = None) -> httpx2.Response:
        """A request of a user, of a token, or of '' without one."""
        token = self.tokens.get(who, who)
        headers = {"authorization": f"Bearer {token}"} if token else {}
        with self.served.client(headers=headers) as client:
            return client.request(method, path, json=body)

    def users(self) -> dict[str, str]:
        """The roles that are stored."""
        return {user.name: user.role for user in self.kb.location.access.read().users}


@contextmanager
def open_house(base: Path, settings: ServerSettings = SETTINGS, roles: dict[str, Role] = ROLES) -> Iterator[House]:
    with KnowledgeBase.open(base) as kb:
        tokens: dict[str, str] = {}
        access = AccessSettings()
        for name, role in roles.items():
            tokens[name], stored = create_token()
            access = access.with_user(User(name, (), role, (stored,)))
        if roles:
            kb.location.access.update(lambda _: access)
        served = Served(kb, settings, create_application({"": kb}, settings))
        try:
            yield House(kb, served, tokens)
        finally:
            served.stop()


@pytest.mark.parametrize(("method", "path", "body"), ROUTES)
def test_only_owners_reach_the_routes(base: Path, method: str, path: str, body: Any) -> None:
    with open_house(base, replace(SETTINGS, tokens=(FIRST, SECOND))) as house:
        before = house.kb.location.access.read()
        for who in ("eve", "ann", SECOND):
            refused = house.send(who, method, path, body)
            assert code_of(refused) == (403, "not_owner"), (who, refused.text)
        for who in ("", "no-token-of-this-server"):
            assert house.send(who, method, path, body).status_code == 401
        assert house.kb.location.access.read() == before
        assert house.send("olga", method, path, body).status_code == 200


def test_the_first_token_of_the_server_is_that_of_an_owner(base: Path) -> None:
    with open_house(base, replace(SETTINGS, tokens=(FIRST, SECOND)), {}) as house:
        assert house.send(SECOND, "GET", "/access").status_code == 403
        listed = house.send(FIRST, "GET", "/access").json()
        assert (listed["you"], listed["open"], listed["users"]) == ("", False, [])
        assert house.send(FIRST, "POST", "/access/users", {"user": "ann"}).status_code == 200
        assert house.users() == {"ann": "reader"}
        assert house.send(FIRST, "DELETE", "/access/users/ann").json()["users"] == []


def test_a_user_is_added_changed_and_removed_and_each_change_holds_at_once(base: Path) -> None:
    with open_house(base) as house:
        body = {"user": "bob", "groups": ["hr", "hr"], "expires": "30d"}
        added = house.send("olga", "POST", "/access/users", body).json()
        house.tokens["bob"] = added["token"]
        assert added["token"].startswith("rk_")
        assert (added["user"]["role"], added["user"]["groups"]) == ("reader", ["hr"])
        [token] = added["user"]["tokens"]
        assert token["name"] == "first" and token["expires"] > token["created"] and not token["expired"]
        assert house.send("bob", "GET", "/documents").status_code == 200
        assert house.send("bob", "GET", "/access").status_code == 403

        changed = house.send("olga", "PATCH", "/access/users/bob", {"role": "owner"}).json()
        assert (changed["role"], changed["groups"]) == ("owner", ["hr"])
        assert house.send("bob", "GET", "/access").json()["you"] == "bob"
        changed = house.send("bob", "PATCH", "/access/users/bob", {"groups": [], "role": "editor"}).json()
        assert (changed["role"], changed["groups"]) == ("editor", [])
        assert house.send("bob", "GET", "/access").status_code == 403

        left = house.send("olga", "DELETE", "/access/users/bob").json()
        assert [user["user"] for user in left["users"]] == ["ann", "eve", "olga"]
        assert house.send("bob", "GET", "/documents").status_code == 401


def test_a_token_is_shown_once_and_revoked_alone(base: Path, caplog: pytest.LogCaptureFixture) -> None:
    with open_house(base) as house, caplog.at_level(logging.INFO, "ragkit"):
        made = house.send("olga", "POST", "/access/users/ann/tokens", {"name": "laptop", "expires": "1h"})
        text = made.json()["token"]
        house.tokens["laptop"] = text
        assert made.headers["cache-control"] == "no-store"
        assert [token["name"] for token in made.json()["user"]["tokens"]] == ["first", "laptop"]
        assert house.send("laptop", "GET", "/documents").status_code == 200
        shown = house.send("olga", "GET", "/access").text
        stored = (base / "access.json").read_text()
        assert text not in shown + stored
        assert all(token.digest not in shown for user in house.kb.location.access.read().users for token in user.tokens)
        left = house.send("olga", "DELETE", "/access/users/ann/tokens/laptop").json()
        assert [token["name"] for token in left["tokens"]] == ["first"]
        assert house.send("laptop", "GET", "/documents").status_code == 401
        assert house.send("ann", "GET", "/documents").status_code == 200
    lines = [record.getMessage() for record in caplog.records if record.name == "ragkit.server.audit"]
    assert lines == ["user:olga@ created the token laptop of ann", "user:olga@ revoked the token laptop of ann"]
    assert text not in caplog.text


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "code"),
    [
        ("POST", "/access/users", {"user": "ann"}, 409, "name_taken"),
        ("POST", "/access/users", {"user": "a b"}, 400, "invalid_value"),
        ("POST", "/access/users", {"user": "bob", "groups": ["a;b"]}, 400, "invalid_value"),
        ("POST", "/access/users", {"user": "bob", "expires": "tomorrow"}, 400, "invalid_value"),
        ("POST", "/access/users", {"user": "bob", "role": "king"}, 400, "invalid_request"),
        ("POST", "/access/users/ann/tokens", {"name": "first"}, 409, "name_taken"),
        ("POST", "/access/users/ann/tokens", {"name": ""}, 400, "invalid_value"),
        ("POST", "/access/users/bob/tokens", {"name": "x"}, 404, "user_not_found"),
        ("DELETE", "/access/users/ann/tokens/x", None, 404, "token_not_found"),
        ("PATCH", "/access/users/bob", {"role": "owner"}, 404, "user_not_found"),
        ("PATCH", "/access/users/ann", {"groups": ["a b"]}, 400, "invalid_value"),
        ("DELETE", "/access/users/bob", None, 404, "user_not_found"),
    ],
)
def test_mistakes_change_nothing(base: Path, method: str, path: str, body: Any, status: int, code: str) -> None:
    with open_house(base) as house:
        before = house.kb.location.access.read()
        refused = house.send("olga", method, path, body)
        assert code_of(refused) == (status, code), refused.text
        assert house.kb.location.access.read() == before


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("DELETE", "/access/users/olga", None),
        ("DELETE", "/access/users/olga/tokens/first", None),
        ("PATCH", "/access/users/olga", {"role": "editor"}),
    ],
)
def test_an_owner_with_a_token_is_always_left(base: Path, method: str, path: str, body: Any) -> None:
    with open_house(base) as house:
        refused = house.send("olga", method, path, body)
        assert code_of(refused) == (409, "last_owner")
        assert "add one first, or start the server with RAGKIT_SERVER_TOKEN" in refused.text
        house.send("olga", "POST", "/access/users", {"user": "otto", "role": "owner"})
        assert house.send("olga", method, path, body).status_code == 200
    with open_house(base, replace(SETTINGS, tokens=(FIRST,))) as house:
        assert house.send("olga", method, path, body).status_code == 200, "the server has a token of its own"


def test_the_first_user_of_an_open_server_is_an_owner_and_closes_it(base: Path) -> None:
    with open_house(base, roles={}) as house:
        assert house.send("", "GET", "/access").json()["open"] is True
        refused = house.send("", "POST", "/access/users", {"user": "ann"})
        assert code_of(refused) == (409, "last_owner")
        assert house.send("", "GET", "/documents").status_code == 200
        added = house.send("", "POST", "/access/users", {"user": "olga", "role": "owner"}).json()
        assert house.send("", "GET", "/documents").status_code == 401
        assert house.send("", "GET", "/access").status_code == 401
        assert house.send(added["token"], "GET", "/access").json()["you"] == "olga"


def test_an_owner_behind_a_proxy_needs_no_token(base: Path) -> None:
    secret = "s" * 32
    with open_house(base, replace(SETTINGS, proxy_secret=secret), {"olga": "owner"}) as house:
        with house.served.client(headers={"x-ragkit-user": sign(secret, "olga")}) as olga:
            assert olga.get("/access").json()["you"] == "olga"
            assert olga.delete("/access/users/olga/tokens/first").status_code == 200
            assert code_of(olga.delete("/access/users/olga")) == (409, "last_owner")
        with house.served.client(headers={"x-ragkit-user": sign(secret, "bob", ["owner"])}) as bob:
            assert code_of(bob.get("/access")) == (403, "not_owner")


def test_the_users_of_one_knowledge_base_are_not_those_of_another(base: Path, tmp_path: Path, built: Path) -> None:
    other = Path(shutil.copytree(built, tmp_path / "other"))
    with KnowledgeBase.open(base) as north, KnowledgeBase.open(other) as south:
        settings = SETTINGS
        served = Served(north, settings, create_application({"north": north, "south": south}, settings))
        try:
            with served.client() as client:
                refused = client.post("/kb/south/access/users", json={"user": "olga", "role": "owner"})
                assert code_of(refused) == (409, "token_required")
            text, stored = create_token()
            north.location.access.update(lambda s: s.with_user(User("olga", (), "owner", (stored,))))
            with served.client(headers={"authorization": f"Bearer {text}"}) as olga:
                assert olga.get("/kb/north/access").json()["you"] == "olga"
                for path in ("/kb/south/access", "/access?kb=south", "/kb/south/settings"):
                    assert olga.get(path).status_code == 404
                assert olga.post("/kb/south/access/users", json={"user": "eva"}).status_code == 404
            assert not south.location.access.read().users
        finally:
            served.stop()


def test_the_first_user_waits_for_an_index_job(base: Path) -> None:
    with open_house(base, replace(SETTINGS, tokens=(FIRST,)), {}) as house:
        with WriterLock(base):
            busy = house.send(FIRST, "POST", "/access/users", {"user": "ann"})
        assert (busy.status_code, busy.headers["retry-after"]) == (503, "5")
        assert "documents are being indexed" in busy.text and not house.users()
        assert house.send(FIRST, "POST", "/access/users", {"user": "ann"}).status_code == 200


def test_an_owner_who_was_demoted_while_the_request_came_changes_nothing(base: Path) -> None:
    with open_house(base) as house:
        store = house.kb.location.access
        update = type(store).update

        def demote_first(self: Any, change: Any) -> AccessSettings:
            olga = self.read().find_user("olga")
            otto = User("otto", (), "owner", olga.tokens)
            update(self, lambda s: s.with_user(otto).with_user(replace(olga, role="reader", tokens=())))
            return update(self, change)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(type(store), "update", demote_first)
            refused = house.send("olga", "DELETE", "/access/users/ann")
        assert code_of(refused) == (403, "access_revoked")
        assert house.users()["ann"] == "reader"


def test_settings_name_the_variables_of_keys_and_never_a_key(base: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    key = "sk-a-key-that-nobody-may-see"
    monkeypatch.setenv("OPENAI_API_KEY", key)
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
    limits = ServerLimits(answer_usd=0.5, requests_per_minute=None)
    with open_house(base, replace(SETTINGS, models=("extractive", "openai:gpt-4o-mini"), limits=limits)) as house:
        answer = house.send("olga", "GET", "/settings")
        shown = answer.json()
    assert key not in answer.text
    assert {row["service"]: row["set"] for row in shown["keys"]}["openai"] == "OPENAI_API_KEY"
    assert {row["service"]: row["set"] for row in shown["keys"]}["anthropic"] is None
    assert (shown["model"], shown["models"]) == ("extractive", ["openai:gpt-4o-mini"])
    assert {row["name"]: row["value"] for row in shown["limits"]}["answer_usd"] == 0.5
    assert {row["name"]: row["value"] for row in shown["limits"]}["requests_per_minute"] is None


def test_the_default_model_is_named_as_it_answers(base: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GEMINI_API_KEY", "GOOGLE_API_KEY", "GROQ_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    with open_house(base) as house:
        assert house.send("olga", "GET", "/settings").json()["model"] == "extractive"
        monkeypatch.setenv("OPENAI_API_KEY", "sk-a-key-that-nobody-may-see")
        assert house.send("olga", "GET", "/settings").json()["model"].startswith("openai:gpt-")


def test_every_limit_is_named_with_the_option_that_sets_it() -> None:
    options = {option: parameter.name for parameter in command.params if isinstance(parameter, click.Option)
               for option in parameter.opts}  # fmt: skip
    renamed = {"keep_days": "days", "keep_sessions": "max_sessions", "keep_mb": "max_bytes"}
    for part, name, _, option in LIMITS:
        stored = options[option] or ""
        assert renamed.get(stored, stored) == name
        assert hasattr(getattr(ServerSettings(), part), name)
