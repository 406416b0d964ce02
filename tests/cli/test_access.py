"""`ragkit access` as a user meets it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.conftest import Ragkit


@pytest.fixture
def base(ragkit: Ragkit, hashing: Path) -> Path:
    """A knowledge base with a document for everyone, and one that a rule keeps."""
    folder = hashing.parent / "docs"
    (folder / "hr").mkdir(parents=True)
    (folder / "hr" / "salaries.md").write_text("# Salaries\n\nThe director earns 90,000 pounds.\n")
    (folder / "garden.md").write_text("# Garden\n\nThe director cuts the hedge in May.\n")
    ragkit("index", folder)
    return folder


@pytest.mark.parametrize("place", ["directory", "database"])
def test_a_document_whose_field_is_damaged_is_reported_and_closed(
    ragkit: Ragkit, base: Path, place: str, request: pytest.FixtureRequest
) -> None:
    kb = () if place == "directory" else ("--kb", request.getfixturevalue("database_url"))
    plan = base / "plan.md"
    plan.write_text("---\ntitle: Plans\naccess: @board\n---\nThe director builds a house.\n")
    for _ in range(2):  # the second run changes nothing
        failed = ragkit(*kb, "index", base, code=7)
        assert "docs/plan.md: line 3: `access` cannot be read (line 3: invalid YAML" in failed.err
    [failure] = ragkit(*kb, "index", base, "--json", code=7).json["failures"]
    assert (failure["source"], failure["hint"]) == ("docs/plan.md", "correct it and run `ragkit index` again")
    assert ragkit(*kb, "list", "--failed", "--json").json == failure
    found = ragkit(*kb, "access", "test", "ann", "director", "--json").json
    assert found["hidden"] == ["docs/plan.md"]
    assert "plan.md" in ragkit(*kb, "search", "director").out
    lines = {line["source"]: line for line in ragkit(*kb, "access", "audit", "--json").lines}
    assert lines["docs/plan.md"]["conditions"] == [{"allow": [], "why": "field"}]
    assert lines["docs/plan.md"]["problem"] == failure["error"]
    assert lines["docs/garden.md"]["conditions"] == []
    assert "docs/plan.md  owners only (field)\n    line 3: " in ragkit(*kb, "access", "audit").out
    plan.unlink()
    ragkit(*kb, "index", base)


def test_a_rule_says_how_many_documents_it_matches(ragkit: Ragkit, base: Path) -> None:
    (base / "HR").mkdir()
    (base / "HR" / "pay.md").write_text("The director is paid in May.\n")
    ragkit("index", base)
    granted = ragkit("access", "grant", "group:hr", "--path", "hr/**")
    assert "group:hr may read hr/** (1 document)" in granted.err and "warning" not in granted.err
    missed = ragkit("access", "grant", "group:hr", "--path", "hR/**").err
    assert "warning: no document matches hR/**: 2 documents would match in another case" in missed
    assert ragkit("access", "grant", "group:hr", "--path", "x/**", "--json").json["documents"] == 0
    ragkit("access", "grant", "ann", "--group", "hr")
    lines = {line["source"]: line for line in ragkit("access", "audit", "--json").lines}
    assert lines["docs/hr/salaries.md"]["users"] == ["ann"]
    assert lines["docs/hr/salaries.md"]["conditions"] == [{"allow": ["group:hr"], "why": "rule hr/**"}]
    assert "docs/garden.md  everyone (no field, no rule)" in ragkit("access", "audit").out


def test_the_default_of_the_configuration_is_listed(ragkit: Ragkit, base: Path) -> None:
    (base.parent / "ragkit.yaml").write_text("access: {default: closed}\nembed: {name: hashing, dimension: 64}\n")
    ragkit("index", base)
    assert ragkit("access", "list").out == "without a field and a rule: owners only\n"
    assert ragkit("access", "list", "--json").json == {"default": "closed"}
    assert len(ragkit("access", "test", "ann", "director", "--json").json["hidden"]) == 2
    (base.parent / "ragkit.yaml").write_text("access: {default: shut}\n")
    assert "default must be open or closed" in ragkit("status", code=None).err


@pytest.mark.parametrize("place", ["directory", "database"])
def test_users_and_rules_are_granted_listed_tested_and_revoked(
    ragkit: Ragkit, base: Path, place: str, request: pytest.FixtureRequest
) -> None:
    kb: tuple[str, ...] = ()
    if place == "database":
        kb = ("--kb", request.getfixturevalue("database_url"))
        ragkit(*kb, "index", base)
    assert "everyone who reaches" in ragkit(*kb, "access", "list").err
    token = ragkit(*kb, "access", "grant", "ann", "--group", "hr", "--json").json
    assert token["token"].startswith("rk_") and token["groups"] == ["hr"]
    changed = ragkit(*kb, "access", "grant", "ann", "--group", "board", "--role", "editor")
    assert (changed.out, changed.err) == ("", "ann is editor in hr, board\n"), "no further token"
    other = ragkit(*kb, "access", "grant", "ann", "--token", "laptop", "--expires", "30d").out.strip()
    assert other.startswith("rk_") and other != token["token"]
    ragkit(*kb, "access", "grant", "group:hr", "--path", "hr/**")
    assert ragkit(*kb, "access", "list").out == (
        "ann  editor  tokens: 2  groups: hr, board\nhr/**  may be read by: group:hr\n"
    )
    listed = ragkit(*kb, "access", "list", "--json")
    assert listed.lines == [
        {"user": "ann", "role": "editor", "groups": ["hr", "board"], "tokens": 2},
        {"path": "hr/**", "allow": ["group:hr"]},
    ]
    assert token["token"] not in listed.out
    tokens = ragkit(*kb, "access", "tokens", "--json")
    assert [(line["user"], line["token"], line["expired"]) for line in tokens.lines] == [
        ("ann", "first", False), ("ann", "laptop", False)
    ]  # fmt: skip
    assert tokens.lines[0]["expires"] is None and tokens.lines[1]["expires"] > tokens.lines[1]["created"]
    assert "rk_" not in tokens.out and "digest" not in tokens.out
    assert "ann  laptop  created 20" in ragkit(*kb, "access", "tokens", "ann").out
    assert "the token first" in ragkit(*kb, "access", "revoke", "ann", "--token", "first").err
    assert [line["token"] for line in ragkit(*kb, "access", "tokens", "ann", "--json").lines] == ["laptop"]
    found = ragkit(*kb, "access", "test", "ann", "What does the director earn?", "--json").json
    assert (sorted(found["found"]), found["hidden"]) == (["docs/garden.md", "docs/hr/salaries.md"], [])
    stranger = ragkit(*kb, "access", "test", "zoe", "What does the director earn?")
    assert stranger.out == "finds   docs/garden.md\nhidden  docs/hr/salaries.md\n"
    assert "zoe has no token here" in stranger.err
    assert "hidden" not in ragkit(*kb, "access", "test", "zoe", "What does the director earn?", "--group", "hr").out
    ragkit(*kb, "access", "revoke", "ann", "--group", "hr")
    assert ragkit(*kb, "access", "test", "ann", "director", "--json").json["hidden"] == ["docs/hr/salaries.md"]
    assert "only owners" in ragkit(*kb, "access", "revoke", "group:hr", "--path", "hr/**").err
    assert ragkit(*kb, "access", "test", "zoe", "director", "--group", "hr", "--json").json["found"] == [
        "docs/garden.md"
    ]
    ragkit(*kb, "access", "revoke", "ann")
    assert ragkit(*kb, "access", "list").out == "hr/**  may be read by: owners only\n"


@pytest.mark.rotating
@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (("grant", "a b"), 2, "name must be 1 to 100 letters, digits and . _ @ + - (got 'a b')"),
        (("grant", "ann", "--group", "x;y"), 2, "name must be 1 to 100 letters"),
        (("grant", "team:red", "--path", "a"), 2, "principal must be user:NAME, group:NAME or everyone"),
        (("grant", "ann", "--path", "/"), 2, "path must be a path or a pattern"),
        (("grant", "ann", "--path", "a", "--role", "owner"), 2, "give --group, --role, --token and --expires without"),
        (("grant", "ann", "--expires", "soon"), 2, "expires must be hours, days or weeks from now: 12h, 30d, 8w"),
        (("grant", "ann", "--token", "a b"), 2, "token must be 1 to 100 letters"),
        (("revoke", "ann", "--token", "first"), 2, "user must be one of: no users (got 'ann')"),
        (("revoke", "ann", "--token", "first", "--group", "a"), 2, "give --token without --group and --path"),
        (("tokens", "ann"), 2, "user must be one of: no users (got 'ann')"),
        (("grant", "ann", "--role", "king"), 2, "'king' is not one of 'reader', 'editor', 'owner'"),
        (("revoke", "ann"), 2, "user must be one of: no users (got 'ann')"),
        (("revoke", "ann", "--path", "a"), 2, "one that `ragkit access list` shows for a"),
        (("test", "a b", "question"), 2, "name must be"),
    ],
)
def test_mistakes_are_one_clear_line(
    ragkit: Ragkit, base: Path, arguments: tuple[str, ...], code: int, message: str
) -> None:
    result = ragkit("access", *arguments, code=None)
    assert (result.code, message in result.err) == (code, True), result.err
    assert not (base.parent / ".ragkit" / "access.json").exists()


def test_a_token_is_created_and_named_once(ragkit: Ragkit, base: Path) -> None:
    ragkit("access", "grant", "ann")
    taken = ragkit("access", "grant", "ann", "--token", "first", code=None)
    assert (taken.code, "`ragkit access tokens ann` lists those in use" in taken.err) == (2, True)
    late = ragkit("access", "grant", "ann", "--expires", "30d", code=None)
    assert (late.code, "with --token NAME: ann is known" in late.err) == (2, True)
    unknown = ragkit("access", "revoke", "ann", "--token", "laptop", code=None)
    assert (unknown.code, "token must be one of: first (got 'laptop')" in unknown.err) == (2, True)
    assert ragkit("access", "grant", "ann", "--group", "hr", "--json").json["token"] is None
    assert len(ragkit("access", "tokens", "--json").lines) == 1


def test_without_a_knowledge_base_nothing_is_granted(ragkit: Ragkit, hashing: Path) -> None:
    result = ragkit("access", "grant", "ann", code=None)
    assert result.code and "ragkit index" in result.err and not list(hashing.parent.glob("*/access.json"))
