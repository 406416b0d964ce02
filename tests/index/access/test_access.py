"""Users, rules and where they are stored."""

from __future__ import annotations

import json
import stat
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest

from ragkit.errors import InvalidOption, KnowledgeBaseDamaged
from ragkit.index.access.audit import audit_access
from ragkit.index.access.rules import (
    AccessRule,
    AccessSettings,
    User,
    as_grants,
    check_principal,
    from_json,
    read_signed,
    sign,
    to_json,
)
from ragkit.index.access.stores import AccessFile, AccessStore, AccessTable
from ragkit.index.access.tokens import Token, create_token, parse_lifetime
from ragkit.index.catalog.database_url import DatabaseUrl
from ragkit.index.catalog.sqlite import Catalog
from ragkit.knowledge_base.index_options import IndexOptions
from ragkit.knowledge_base.knowledge_base import KnowledgeBase
from ragkit.pipeline.settings import Pipeline
from ragkit.records import JSON, Document

SECRET = "s" * 32
HASHING = Pipeline.from_yaml("embed: {name: hashing, dimension: 16}\n")
SETTINGS = AccessSettings(
    (User("ann", ("red",), "editor", (create_token()[1],)),), (AccessRule("hr/**", ("group:red",)),)
)


@pytest.mark.parametrize(
    ("path", "source", "matches"),
    [
        ("hr/**", "/docs/hr/a.md", True),
        ("hr/**", "/docs/hr/2026/a.md", True),
        ("hr/**", "/docs/thr/a.md", False),
        ("hr/**", "hr/a.md", True),
        ("hr", "/docs/hr/a.md", True),
        ("hr", "/docs/hr.md", False),
        ("*.secret.md", "/docs/a.secret.md", True),
        ("*.secret.md", "/docs/a.secret.md.txt", False),
        ("2026/*.md", "/docs/2026/a.md", True),
        ("2026/*.md", "/docs/2026/deep/a.md", False),
        ("rows.csv", "/docs/rows.csv/3", True),
        ("mail.eml", "/docs/mail.eml#attachment.pdf", True),
        ("box.zip", "/docs/box.zip!/in/a.md", True),
        ("a+b/**", "/docs/a+b/c", True),
        ("a.b", "/docs/axb/c", False),
        ("/hr/**", "/docs/hr/a.md", True),
        ("Hr/**", "/docs/hr/a.md", False),
        ("hr/**", "/docs/hr/a\nb.md", True),
        ("hr/*.md", "/docs/hr/a\nb.md", True),
        ("*.md", "/docs/a.md\n", False),
        ("b\u00fcro/**", "/docs/bu\u0308ro/a.md", True),
    ],
)
def test_a_rule_matches_the_end_of_a_source_and_what_is_below(path: str, source: str, matches: bool) -> None:
    assert AccessRule(path).matches(source) == matches


@pytest.mark.parametrize(
    ("path", "source"),
    [
        ("hr", "https://i.example/hr?page=2"),
        ("hr/**", "https://i.example/hr/pay?page=2"),
        ("*.secret.md", "https://i.example/top.secret.md?dl=1"),
        ("*.secret.md", "https://i.example/top.secret.md#part"),
        ("*.secret.md", "https://i.example/top.secret.md;jsessionid=7"),
        ("hr/**", "https://i.example/%68r/pay"),
        ("hr/**", "https://i.example/%2568r/pay"),
        ("hr/**", "https://i.example/x/../hr/pay"),
        ("hr/**", "https://i.example//hr//./pay"),
        ("%68r/**", "https://i.example/hr/pay"),
        ("b\u00fcro/**", "https://i.example/b%C3%BCro/a"),
        ("b\u00fcro/**", "https://i.example/bu%CC%88ro/a"),
        ("i.example/hr/**", "https://I.EXAMPLE/hr/pay"),
        ("I.Example/hr/**", "https://i.example/hr/pay"),
        ("I.Example/hr/**", "HTTPS://I.example:443/hr/pay"),
        ("https://I.Example/hr/**", "https://i.example/hr/pay?x=1"),
        ("page.php?id=7", "https://i.example/page.php?id=7"),
        ("hr/**", "sql://staff/hr%2Fpay"),
        ("a b/**", "s3://box/a%20b/c"),
    ],
)
def test_an_address_matches_however_it_is_written(path: str, source: str) -> None:
    assert AccessRule(path).matches(source)


@pytest.mark.parametrize(
    ("path", "source"),
    [("hr/**", "https://i.example/HR/pay"), ("hr/**", "/docs/%68r/a.md"), ("Notes.md", "/docs/notes.md")],
)
def test_what_is_another_document_does_not_match(path: str, source: str) -> None:
    assert not AccessRule(path).matches(source)


@pytest.mark.parametrize(("ignores_case", "matches"), [(True, True), (False, False)])
def test_paths_are_compared_as_the_system_compares_files(
    monkeypatch: pytest.MonkeyPatch, ignores_case: bool, matches: bool
) -> None:
    monkeypatch.setattr("ragkit.index.access.rules.IGNORES_CASE", ignores_case)
    assert AccessRule("hr/**").matches("/docs/HR/pay.md") == matches
    assert AccessRule("hr/**").matches_in_any_case("/docs/HR/pay.md")


def test_with_the_default_closed_a_document_that_nobody_shared_is_for_owners() -> None:
    settings = AccessSettings((), (AccessRule("hr/**", ("group:red",)),)).with_default("closed")
    grants = as_grants("ann", ("red",))
    assert not settings.may_read(grants, "/docs/a.md", {})
    assert settings.may_read(grants, "/docs/hr/a.md", {})
    assert settings.may_read(grants, "/docs/a.md", {"access": "everyone"})
    assert from_json(to_json(settings), "here") == settings
    assert from_json('{"users": [], "rules": []}', "here").default == "open"  # written by an older version
    with pytest.raises(InvalidOption, match="open or closed"):
        settings.with_default("shut")


@pytest.mark.parametrize("place", ["directory", "database"])
def test_the_default_is_set_before_a_document_can_be_read_and_is_kept(
    tmp_path: Path, place: str, request: pytest.FixtureRequest
) -> None:
    address = str(tmp_path / "kb") if place == "directory" else request.getfixturevalue("database_url")
    (tmp_path / "a.md").write_text("The okapi.")
    (tmp_path / "b.md").write_text("---\naccess: ann\n---\nThe heron.")
    text = "embed: {name: hashing, dimension: 16}\naccess: {default: closed}\n"
    pipeline = Pipeline.from_yaml(text)
    assert Pipeline.from_yaml(pipeline.to_yaml()) == pipeline
    with KnowledgeBase.open(address, pipeline) as kb:
        kb.index(tmp_path / "a.md", options=IndexOptions(dry_run=True))
        kb.index(tmp_path / "a.md", tmp_path / "b.md")
        kb.add(Document("The newt.", source="newt"))
    with KnowledgeBase.open(address, HASHING) as kb:  # a pipeline that says nothing of it
        kb.index(tmp_path / "a.md")
        assert kb.location.access.read().default == "closed"
        assert {Path(hit.source).name for hit in kb.as_user("ann").search("okapi heron newt")} == {"b.md"}
        assert len(kb.search("okapi heron newt")) == 3
        settings = kb.location.access.read()
        with kb.session() as session, session.snapshot() as snapshot:
            documents = list(audit_access(Catalog(snapshot.connection), settings))
        audit = {Path(found.source).name: [why for _, why in found.conditions] for found in documents}
        assert audit == {"a.md": ["default"], "b.md": ["field"], "newt": ["default"]}
        if place == "directory":
            (tmp_path / "kb" / "access.json").unlink()
            with pytest.raises(KnowledgeBaseDamaged, match="is missing"):
                kb.as_user("ann").search("okapi")


@pytest.mark.parametrize(
    ("metadata", "readable"),
    [
        ({}, True),
        ({"access": "everyone"}, True),
        ({"access": "ann"}, True),
        ({"access": "user:ann"}, True),
        ({"access": "bob, group:red"}, True),
        ({"access": ["bob", "group:red"]}, True),
        ({"access": "red"}, False),
        ({"access": "group:blue"}, False),
        ({"access": ""}, False),
        ({"access": []}, False),
        ({"access": None}, False),
        ({"access": 7}, False),
        ({"access": {"group": "red"}}, False),
        ({"access": [["ann"]]}, False),
        ({"access": "Ann"}, False),
    ],
)
def test_the_field_of_a_document_allows_whom_it_names(metadata: Mapping[str, JSON], readable: bool) -> None:
    grants = as_grants("ann", ("red",))
    assert AccessSettings().may_read(grants, "/docs/a.md", metadata) == readable
    assert not AccessSettings((), (AccessRule("docs/**"),)).may_read(grants, "/docs/a.md", metadata)


def test_a_signed_header_names_a_user_for_a_minute() -> None:
    now = time.time()
    user = read_signed(SECRET, sign(SECRET, "ann", ("red", "blue"), "manuals"), "manuals")
    assert user is not None and (user.name, user.groups) == ("ann", ("red", "blue"))
    assert read_signed(SECRET, sign(SECRET, "ann", now=now - 50)) is not None
    for header in (
        sign(SECRET, "ann", now=now - 70), sign(SECRET, "ann", now=now + 70), sign(SECRET, "ann", base="other"),
        sign("t" * 32, "ann"), sign(SECRET, ""), sign(SECRET, "a b"), sign(SECRET, "ann", ("x y",)), "", ";", ";;;;",
        sign(SECRET, "ann") + "0", sign(SECRET, "ann").upper(), "1;ann;;;\udc80",
    ):  # fmt: skip
        assert read_signed(SECRET, header) is None, header


@pytest.mark.parametrize("name", ["", "a b", "a;b", "a,b", "a/b", "x" * 101, "a\n"])
def test_names_are_words(name: str) -> None:
    with pytest.raises(InvalidOption):
        as_grants(name)
    with pytest.raises(InvalidOption):
        check_principal(f"group:{name}")


def test_a_token_is_stored_as_its_hash() -> None:
    token, digest = create_token()
    settings = AccessSettings().with_user(User("ann", tokens=(digest,)))
    assert token not in to_json(settings)
    assert settings.find_token(token) == (settings.find_user("ann"), digest)
    assert settings.find_token(digest.digest) is None and settings.find_token("") is None


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "{}", '{"users": [{}], "rules": []}', '{"users": [], "rules": [{"path": "a"}]}']
)
def test_what_cannot_be_understood_is_an_error(text: str) -> None:
    with pytest.raises(KnowledgeBaseDamaged, match="does not hold users and rules"):
        from_json(text, "access.json")
    assert from_json(to_json(SETTINGS), "") == SETTINGS


Open = Callable[[], AccessStore]


@pytest.fixture(params=["directory", "database"])
def open_store(request: pytest.FixtureRequest, tmp_path: Path, database_url: str) -> Open:
    """Opens the users and rules of one knowledge base."""
    if request.param == "directory":
        return lambda: AccessFile(tmp_path / "kb")
    return lambda: AccessTable(DatabaseUrl.parse(database_url))


def test_changes_hold_for_others_and_none_is_lost(open_store: Open) -> None:
    stores = [open_store() for _ in range(4)]
    assert [store.read() for store in stores] == [AccessSettings()] * 4

    def add(number: int) -> None:
        stores[number % 4].update(lambda settings: settings.with_user(User(f"user{number}")))

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(add, range(24)))
    with closing(open_store()) as other:
        assert len(other.read().users) == 24
        other.update(lambda _: SETTINGS)
    deadline = time.monotonic() + 60
    while [store.read() for store in stores] != [SETTINGS] * 4:
        assert time.monotonic() < deadline
    for store in stores:
        store.close()


def test_the_file_is_that_of_its_owner_and_its_loss_opens_nothing(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text("# A\n\nThe lamp is green.\n")
    with KnowledgeBase.open(tmp_path / "kb", HASHING) as kb:
        kb.index(tmp_path / "a.md")
        kb.location.access.update(lambda _: SETTINGS)
        assert stat.S_IMODE((tmp_path / "kb" / "access.json").stat().st_mode) == 0o600
        assert len(kb.as_user("ann").search("lamp")) == 1
        (tmp_path / "kb" / "access.json").rename(tmp_path / "kept")
        for store in (kb.location.access, AccessFile(tmp_path / "kb")):
            with pytest.raises(KnowledgeBaseDamaged, match="is missing"):
                store.read()
            with pytest.raises(KnowledgeBaseDamaged, match="is missing"):
                store.update(lambda settings: settings.with_user(User("eve")))
        with pytest.raises(KnowledgeBaseDamaged, match="is missing"):
            kb.as_user("ann").search("lamp")
        (tmp_path / "kept").rename(tmp_path / "kb" / "access.json")
        kb.clear()
        kb.index(tmp_path / "a.md")
        assert kb.location.access.read() == SETTINGS


def test_copies_take_users_and_rules_along(tmp_path: Path, database_url: str) -> None:
    (tmp_path / "hr").mkdir()
    (tmp_path / "hr" / "a.md").write_text("# A\n\nThe lamp is green.\n")
    with KnowledgeBase.open(tmp_path / "kb", HASHING) as kb:
        kb.index(tmp_path / "hr")
        kb.location.access.update(lambda _: SETTINGS)
        kb.copy_to(database_url)
    with KnowledgeBase.open(database_url) as kb:
        assert kb.location.access.read() == SETTINGS
        assert not kb.as_user("eve").search("lamp") and kb.as_user("eve", ["red"]).search("lamp")
        kb.copy_to(tmp_path / "back")
    with KnowledgeBase.open(tmp_path / "back") as kb:
        assert kb.location.access.read() == SETTINGS
        assert not kb.as_user("eve").search("lamp")
        kb.location.access.update(lambda _: AccessSettings())
        kb.copy_to(tmp_path / "free")
    with KnowledgeBase.open(tmp_path / "free") as kb:
        assert kb.location.access.read() == AccessSettings()
        kb.location.access.update(lambda _: SETTINGS)
    with KnowledgeBase.open(tmp_path / "back") as kb:
        kb.copy_to(tmp_path / "free", overwrite=True)
    with KnowledgeBase.open(tmp_path / "free") as kb:  # a copy without users does not remove those of its target
        assert kb.location.access.read() == SETTINGS


def test_tokens_of_earlier_versions_go_on_with_names() -> None:
    text, stored = create_token()
    old = json.dumps({"users": [{"name": "ann", "groups": [], "role": "reader", "tokens": ["0" * 64, stored.digest]}],
                      "rules": []})  # fmt: skip
    settings = from_json(old, "access.json")
    assert settings.find_token(text) == (settings.users[0], Token(stored.digest, "token-2"))
    assert [token.name for token in settings.users[0].tokens] == ["first", "token-2"]
    assert from_json(to_json(settings), "access.json") == settings


@pytest.mark.parametrize(("text", "seconds"), [("12h", 43_200), ("30d", 2_592_000), ("8w", 4_838_400)])
def test_the_lifetime_of_a_token_is_in_hours_days_or_weeks(text: str, seconds: float) -> None:
    before = time.time()
    _, token = create_token("laptop", parse_lifetime(text))
    assert token.expires is not None and token.created is not None and not token.has_expired
    assert token.expires - token.created == seconds and token.created >= before


@pytest.mark.parametrize("text", ["", "30", "d", "0d", "-1d", "1.5d", "30 days", "100000d", "1y"])
def test_another_lifetime_is_an_error(text: str) -> None:
    with pytest.raises(InvalidOption, match="hours, days or weeks"):
        parse_lifetime(text)
