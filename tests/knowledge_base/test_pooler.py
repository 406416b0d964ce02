"""A pooler that gives each transaction another session: no knowledge base reads or writes the tables of another."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import psycopg
import pytest

from ragkit.index.access.rules import User
from ragkit.index.catalog.database_url import DatabaseUrl
from ragkit.knowledge_base.knowledge_base import KnowledgeBase
from ragkit.pipeline.settings import Pipeline
from ragkit.server.settings import Retention
from ragkit.server.state.database import StateDatabase
from ragkit.server.state.rights_filter import RightsFilter
from ragkit.server.state.sessions import SessionStore
from tests import reads
from tests.servers.pgbouncer import PgBouncer

HASHING = Pipeline.from_yaml("embed: {name: hashing, dimension: 64}\n")
NAMES = ("north", "south")


@pytest.fixture(params=[1, 3], ids=["one session", "three sessions"])
def pooler(request: pytest.FixtureRequest, database_url: str) -> Iterator[PgBouncer]:
    host = psycopg.conninfo.conninfo_to_dict(DatabaseUrl.parse(database_url).dsn)["host"]
    with PgBouncer(Path(str(host)), size=request.param) as started:
        yield started


@pytest.fixture
def address(pooler: PgBouncer) -> Callable[[str], str]:
    """The address of a knowledge base by its name."""
    suffix = secrets.token_hex(4)
    return lambda name: f"{pooler.dsn}?schema={name}_{suffix}&lease=3"


def write_note(folder: Path, name: str, number: int) -> Path:
    folder.mkdir(exist_ok=True)
    path = folder / f"{name}{number}.md"
    path.write_text(f"# Note {number}\n\nThe pump of the {name} runs on oil number {number}.\n")
    return path


def sources(kb: KnowledgeBase) -> set[str]:
    return {Path(source).stem.rstrip("0123456789") for source, _, _ in reads.documents(kb)}


def test_knowledge_bases_of_one_pool_never_see_each_other(
    address: Callable[[str], str], pooler: PgBouncer, tmp_path: Path
) -> None:
    def play(name: str) -> None:
        for number in range(3):
            with KnowledgeBase.open(address(name), HASHING) as kb:
                kb.index(write_note(tmp_path / name, name, number))
                assert sources(kb) == {name}
                hits = kb.search("which pump runs on oil?", top_k=10)
                assert {hit.chunk.source.rpartition("/")[2][:5] for hit in hits} == {name}
                kb.location.access.update(lambda settings: settings.with_user(User(f"ann-{name}")))
                assert [user.name for user in kb.location.access.read().users] == [f"ann-{name}"]

    with ThreadPoolExecutor(2) as pool:  # both create their tables and write at once
        list(pool.map(play, NAMES))
    with psycopg.connect(pooler.dsn) as connection:
        query = "SELECT tablename FROM pg_tables WHERE schemaname = 'public' AND tablename IN ('ragkit', 'chunks')"
        assert connection.execute(query).fetchall() == []


def test_the_database_searches_vectors_through_a_pooler(address: Callable[[str], str], tmp_path: Path) -> None:
    for name in NAMES:
        with KnowledgeBase.open(f"{address(name)}&max_gb=0", HASHING) as kb:
            kb.index(*[write_note(tmp_path / name, name, number) for number in range(12)])
    with (
        KnowledgeBase.open(f"{address('north')}&max_gb=0") as north,
        KnowledgeBase.open(f"{address('south')}&max_gb=0") as south,
    ):
        for _ in range(10):  # more often than a client prepares statements
            for kb, name in ((north, "north"), (south, "south")):
                hits = kb.search("pump oil", top_k=3, mode="dense")
                assert [name in hit.chunk.source for hit in hits] == [True] * 3


def test_sessions_through_a_pooler_stay_in_their_schema(address: Callable[[str], str]) -> None:
    states = [StateDatabase(DatabaseUrl.parse(address(name))) for name in NAMES for _ in range(2)]
    stores = [SessionStore(state, Retention(), RightsFilter(None)) for state in states]

    async def play() -> list[Any]:
        for number, store in enumerate(stores):
            turn = await store.add_question(None, f"question {number}", f"trace{number}")
            await store.finish_answer(turn, "done", "answer", {})
        return [(await store.list(None, 10))[0] for store in stores]

    try:
        lists = asyncio.run(play())
        titles = [sorted(session["title"] for session in sessions) for sessions in lists]
        assert titles == [["question 0", "question 1"]] * 2 + [["question 2", "question 3"]] * 2
    finally:
        for state in states:
            state.close()


def test_a_reader_behind_a_pooler_follows_publications(address: Callable[[str], str], tmp_path: Path) -> None:
    with KnowledgeBase.open(address("north"), HASHING) as writer:
        writer.index(write_note(tmp_path / "north", "north", 0))
        with KnowledgeBase.open(address("north")) as reader:
            reader.location.follow()
            writer.index(write_note(tmp_path / "north", "north", 1))
            deadline = time.monotonic() + 20
            while len(reads.documents(reader)) < 2:
                assert time.monotonic() < deadline
                time.sleep(0.1)
