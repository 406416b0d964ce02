"""Faults of HTTP servers, tested in the library and the command line."""

from __future__ import annotations

import ast
import builtins
import importlib
import json
import socket
import sqlite3
import sys
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

import ragkit as package
from ragkit.agent.memory.stores import SQLiteConversationStore
from ragkit.agent.providers.credentials import find_key
from ragkit.agent.providers.lookup import get_provider
from ragkit.embed import EMBEDDERS
from ragkit.embed.service_requests import resolve_api_key
from ragkit.errors import AuthenticationFailed, InvalidFilter, PipelineError, RagkitError
from ragkit.index.catalog.directory import CATALOG_FILE
from ragkit.knowledge_base.knowledge_base import KnowledgeBase
from ragkit.pipeline.settings import Pipeline
from ragkit.registry import Registry
from ragkit.retrieve import RETRIEVERS
from ragkit.store import STORES
from ragkit.store.filters.language import parse_filter
from ragkit.store.filters.where_syntax import parse_where
from tests import reads
from tests.cli.conftest import HASHING, Ragkit, ragkit, workplace  # noqa: F401 - fixtures

SOURCE = Path(package.__file__).parent
REGISTRIES: list[Registry[object]] = [EMBEDDERS, STORES, RETRIEVERS]  # type: ignore[list-item]  # of whatever they hold


def index_kb(folder: Path, name: str, text: str) -> KnowledgeBase:
    (folder / f"{name}.md").write_text(text)
    kb = KnowledgeBase.open(folder / name, Pipeline.from_yaml(HASHING))
    kb.index(folder / f"{name}.md")
    return kb


# 1: an unknown model name imports, builds and requests nothing


NAMES = [
    "os:system",
    "evil.module:Model",
    "../evil",
    "/tmp/evil.py",
    "http://127.0.0.1:9/model",
    "hf.co/evil/model",
    "minilm\0",
    "MINILM",
    "__class__",
    "",
]


class UnexpectedAccess(AssertionError):
    """An import, file or connection for an unknown name."""


@pytest.fixture
def untouched(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """A function that forbids files, connections and imports of other packages from its call on."""

    really = importlib.import_module

    def touched(*arguments: object, **options: object) -> object:
        raise UnexpectedAccess(arguments)

    def imported(name: str, package: str | None = None) -> object:
        if name in sys.modules or name.startswith("ragkit."):
            return really(name, package)
        raise UnexpectedAccess(name)

    def begin() -> None:
        for owner, name in ((builtins, "open"), (socket.socket, "connect")):
            monkeypatch.setattr(owner, name, touched)
        for where in ("importlib", "ragkit.registry"):
            monkeypatch.setattr(f"{where}.import_module", imported)

    return begin


@pytest.mark.parametrize("name", NAMES)
def test_an_unknown_component_name_imports_and_opens_nothing(name: str, untouched: Callable[[], None]) -> None:
    for registry in REGISTRIES:
        registry.names()
    untouched()
    for registry in REGISTRIES:
        with pytest.raises(RagkitError, match=r"is named|known"):
            registry.find(name)


@pytest.mark.parametrize("name", [name for name in NAMES if "\0" not in name])
def test_a_model_named_by_a_file_or_a_flag_is_not_built(name: str, untouched: Callable[[], None]) -> None:
    texts = [
        f"{section}: {{name: {json.dumps(name)}}}\n" for section in ("embed", "store", "load", "split", "retrieve")
    ]
    with pytest.raises(PipelineError):
        Pipeline.from_yaml(texts[0])  # imports the YAML reader
    untouched()
    for text in texts:
        with pytest.raises(PipelineError, match=r"name"):
            Pipeline.from_yaml(text)
    for model in (name, f"{name}:x"):
        with pytest.raises(RagkitError, match=r"provider"):
            get_provider(model)


# 19: names of callers are SQL parameters, never part of the SQL


SQL = ["' OR 1=1 --", "'; DROP TABLE documents; --", '" OR ""="', "x' UNION SELECT value FROM meta --", "%", "_", "*",
       "a.md' --", "\\", "'", "1; ATTACH 'x' AS y", "\ufffd"]  # fmt: skip


@pytest.mark.rotating
@pytest.mark.parametrize("name", SQL)
def test_sql_in_a_name_matches_and_changes_nothing(tmp_path: Path, name: str) -> None:
    with index_kb(tmp_path, "one", "The hedge is cut.\n") as kb:
        results = [
            reads.chunk(kb, name),
            reads.document(kb, name),
            reads.find_document(kb, name),
            reads.is_stale(kb, name),
            kb.remove(name),
        ]
        assert results == [None, None, None, True, 0]
        assert len(reads.list_documents(kb, text=name)) == (name in reads.documents(kb)[0][0])
        assert kb.search("hedge", where={name: {"$eq": name}}) == []
        assert kb.search("hedge", where={"source": {"$in": [name]}}) == []
        kb.search(name, mode="lexical")
        assert (len(reads.documents(kb)), kb.verify().is_sound) == (1, True)
    store = SQLiteConversationStore(tmp_path / "talks.db", "anna")
    store.save("hers")
    assert SQLiteConversationStore(tmp_path / "talks.db", name).load() is None
    SQLiteConversationStore(tmp_path / "talks.db", name).save("his")
    assert (store.load(), store.keys()) == ("hers", sorted(["anna", name]))


# 37: ids are valid only for their knowledge base, conversation and owner


def test_ids_of_one_knowledge_base_are_unknown_in_another(tmp_path: Path) -> None:
    with (
        index_kb(tmp_path, "hers", "The hedge is cut.\n") as hers,
        index_kb(tmp_path, "his", "The roses are red.\n") as his,
    ):
        [chunk] = reads.chunks(hers)
        assert reads.chunk(his, chunk.id) is None
        assert reads.document(his, chunk.source) is None
        assert reads.find_document(his, chunk.document_id) is None
        assert his.remove(chunk.source) == 0
        assert reads.chunk(hers, chunk.id) == chunk


@pytest.mark.parametrize("name", ["Anna", "anna ", " anna", "ann", "anna%", "a_na", "ANNA", "anna\0", "ann\u0430"])
def test_a_conversation_is_opened_only_by_its_exact_name(tmp_path: Path, name: str) -> None:
    SQLiteConversationStore(tmp_path / "talks.db", "anna").save("hers")
    other = SQLiteConversationStore(tmp_path / "talks.db", name)
    assert other.load() is None
    other.save("his")
    assert SQLiteConversationStore(tmp_path / "talks.db", "anna").load() == "hers"


# 38: no command listens beyond loopback without a token, on any interface


LISTENING = [("serve",), ("mcp", "--http")]
OPEN = ["0.0.0.0", "::", "192.0.2.1", "example.org", "localhost.example.org", "127.0.0.1.nip.io"]


@pytest.mark.rotating
@pytest.mark.parametrize("host", OPEN)
@pytest.mark.parametrize("verb", LISTENING)
def test_no_command_listens_beyond_loopback_without_a_token(
    workplace: Path,  # noqa: F811
    ragkit: Ragkit,  # noqa: F811
    verb: tuple[str, ...],
    host: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    index_kb(workplace, "one", "The hedge is cut.\n").close()
    for token in ("", " ", "null", "None", "x" * 15, "\n\n", "sixteen letters\u00e9"):
        monkeypatch.setenv("RAGKIT_SERVER_TOKEN", token)
        result = ragkit(*verb, "--kb", "one", "--host", host, "--port", "0", code=2)
        assert result.err.count("\n") == 1
        assert "token" in result.err
        assert not token.strip() or token not in result.err


# 39: tokens are checked in one place, and keys have the same checks everywhere


def test_tokens_are_compared_in_one_place() -> None:
    """One file reads the header with the token; it and the one of the users' tokens use `compare_digest`."""
    readers, comparers = set(), set()
    for path in SOURCE.rglob("*.py"):
        tree = ast.parse(path.read_text("utf-8"))
        texts = {
            node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str)
        }
        names = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
        name = path.relative_to(SOURCE).as_posix()
        readers |= {name} if {"authorization", "x-api-key"} & texts else set()
        comparers |= {name} if "compare_digest" in names else set()
    assert comparers == {"server/middleware.py", "index/access/rules.py"}
    assert readers == {"server/middleware.py"}


NO_KEYS = ["", " ", "\n", "\t "]
BROKEN_KEYS = ["sk-a b", "sk-a\nb", "sk-a\0b", "sk-\u00e9", "sk-a\x7fb", "sk-\u200ba"]


@pytest.mark.parametrize("way", [lambda: find_key("openai"), lambda: resolve_api_key("openai", None, "OPENAI_API_KEY")])
def test_chat_and_embedding_keys_have_the_same_checks(way: Callable[[], str], monkeypatch: pytest.MonkeyPatch) -> None:
    for value in NO_KEYS:
        monkeypatch.setenv("OPENAI_API_KEY", value)
        with pytest.raises(AuthenticationFailed, match="no API key"):
            way()
    for value in [item for item in BROKEN_KEYS if "\0" not in item]:
        monkeypatch.setenv("OPENAI_API_KEY", value)
        with pytest.raises(AuthenticationFailed, match="invalid character") as caught:
            way()
        assert value not in str(caught.value)
    monkeypatch.setenv("OPENAI_API_KEY", " sk-right\n")
    assert way() == "sk-right"


# 41: length, depth and number are limited or take linear time


LONG: dict[str, Callable[[KnowledgeBase], object]] = {
    "a question of a megabyte": lambda kb: kb.search("hedge " * 170_000),
    "a word of a megabyte": lambda kb: kb.search("h" * 1_000_000),
    "more hits than there are": lambda kb: kb.search("hedge", 10**30),
    "an id of a megabyte": lambda kb: reads.document(kb, "x" * 1_000_000),
    "a name of a megabyte": lambda kb: reads.list_documents(kb, text="%" * 1_000_000),
}


@pytest.mark.parametrize("what", LONG)
def test_long_input_is_processed_quickly(tmp_path: Path, what: str) -> None:
    with index_kb(tmp_path, "one", "The hedge is cut.\n") as kb:
        kb.search("hedge")
        started_at = time.process_time()
        LONG[what](kb)
        assert time.process_time() - started_at < 10


def nested(depth: int) -> dict[str, object]:
    results: dict[str, object] = {"a": 1}
    for _ in range(depth):
        results = {"$not": results}
    return results


BOUNDS: dict[str, Callable[[], object]] = {
    "at most 100000 are allowed": lambda: parse_where("(" * 60_000 + "a == 1" + ")" * 60_000),
    "at most 50 levels of parentheses": lambda: parse_where("(" * 5_000 + "a == 1" + ")" * 5_000),
    "nested up to": lambda: parse_filter(nested(100_000)),  # type: ignore[arg-type]  # not JSON's own type
}


@pytest.mark.parametrize("said", BOUNDS)
def test_filters_are_limited_in_length_and_depth(said: str) -> None:
    started_at = time.process_time()
    with pytest.raises(InvalidFilter, match=said):
        BOUNDS[said]()
    assert time.process_time() - started_at < 2


def test_questions_are_not_written_to_the_catalog(tmp_path: Path) -> None:
    with index_kb(tmp_path, "one", "The hedge is cut.\n") as kb:
        before = dump_catalog(tmp_path / "one" / CATALOG_FILE)
        for name in SQL:
            kb.search(name)
            kb.ask(name)
            reads.document(kb, name)
    assert dump_catalog(tmp_path / "one" / CATALOG_FILE) == before


def dump_catalog(catalog: Path) -> list[str]:
    with closing(sqlite3.connect(catalog)) as connection:
        return list(connection.iterdump())
