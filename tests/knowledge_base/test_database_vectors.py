"""A copy that leaves its vectors in the database finds what a copy with vectors finds."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
from psycopg import sql

from ragkit.errors import InvalidOption
from ragkit.index.access.rules import AccessSettings
from ragkit.index.catalog import postgres_vectors
from ragkit.index.catalog.database_url import DatabaseUrl
from ragkit.index.catalog.directory import open_catalog
from ragkit.index.catalog.postgres import PostgresCatalog
from ragkit.index.catalog.postgres_vectors import DatabaseVectors
from ragkit.knowledge_base.database_location import DatabaseLocation
from ragkit.knowledge_base.knowledge_base import KnowledgeBase
from ragkit.pipeline.settings import Pipeline

PIPELINE = Pipeline.from_yaml(
    "embed: {name: hashing, dimension: 64}\nsplit: {name: recursive, chunk_size: 30, chunk_overlap: 0}\n"
)
WORDS = ("pump", "valve", "oil", "door", "key", "red", "leaks", "needs", "holds", "seven", "gasket", "shed", "hinge")

Open = Callable[..., KnowledgeBase]


@pytest.fixture
def opened(tmp_path: Path, database_url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Open]:
    """Opens the knowledge base in the database, with options of the address, with a cache of its own."""
    monkeypatch.setenv("RAGKIT_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(postgres_vectors, "MIN_INDEXED_VECTORS", 50)
    result: list[KnowledgeBase] = []

    def open_with(options: str = "") -> KnowledgeBase:
        result.append(KnowledgeBase.open(database_url + options, PIPELINE))
        return result[-1]

    yield open_with
    for kb in result:
        kb.close()


@pytest.fixture
def docs(tmp_path: Path) -> Path:
    folder = tmp_path / "docs"
    folder.mkdir()
    choose = random.Random(5)
    for number in range(40):
        lines = (" ".join(choose.choices(WORDS, k=12)) + f" {number}." for _ in range(6))
        (folder / f"doc{number}.md").write_text("\n\n".join(lines))
    return folder


def hits(kb: KnowledgeBase, question: str, where: object = None, mode: str = "hybrid") -> list[tuple[str, object]]:
    found = kb.search(question, 8, where, mode)  # type: ignore[arg-type]
    return [(hit.chunk.id, pytest.approx(hit.score, abs=2e-6)) for hit in found]


def questions(count: int) -> list[str]:
    choose = random.Random(7)
    return [" ".join(choose.choices(WORDS, k=choose.randint(1, 6))) for _ in range(count)]


@pytest.mark.parametrize("listed", [20_000, 0])
def test_hits_are_those_of_a_copy_with_vectors(
    opened: Open, docs: Path, listed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`listed` 0: every search without a filter scans all vectors, or asks the index."""
    monkeypatch.setattr(postgres_vectors, "MAX_LISTED_KEYS", listed)
    whole = opened()
    whole.index(docs)
    bare = opened("&max_gb=0")
    assert bare.path != whole.path
    assert bare.status().vectors == whole.status().vectors > 100
    assert not [path for path in bare.path.glob("vectors-*") if path.stat().st_size > 1_000]
    some = {"source": {"$in": [str(path) for path in docs.glob("*1*.md")]}}
    for question in questions(30):
        for where in (None, some, {"source": "nowhere"}):
            for mode in ("dense", "hybrid"):
                assert hits(bare, question, where, mode) == hits(whole, question, where, mode), (question, where, mode)
    assert bare.verify().is_sound


def test_the_index_is_made_by_a_writer_whose_address_has_a_bound(
    opened: Open, docs: Path, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgres_vectors, "MAX_LISTED_KEYS", 0)
    opened().index(docs)
    assert vector_indexes(database_url) == []
    (docs / "more.md").write_text("The red door holds the key of the shed.")
    writer = opened("&max_gb=0")
    writer.index(docs)
    assert len(vector_indexes(database_url)) == 1
    whole, wanted = opened(), 0
    for question in questions(40):
        exact, found = hits(whole, question, mode="dense"), hits(writer, question, mode="dense")
        wanted += len({key for key, _ in exact} & {key for key, _ in found})
    assert wanted / (40 * 8) > 0.98
    where = {"source": str(docs / "more.md")}
    assert hits(writer, "red door", where, "dense") == hits(whole, "red door", where, "dense") != []


def test_publications_reach_a_copy_without_vectors(opened: Open, docs: Path) -> None:
    writer, reader = opened(), opened("&max_gb=0")
    writer.index(docs)
    reader.location.refresh()
    gone = hits(reader, "pump oil", mode="dense")[0][0]
    source = next(hit.source for hit in reader.search("pump oil", 1, mode="dense"))
    Path(source).unlink()
    (docs / "new.md").write_text("A pelican reads the atlas.")
    writer.index(docs)
    # as in the second before a reader hears of it: what is gone in the database is missing, nothing is wrong
    assert isinstance(reader.location, DatabaseLocation)
    reader.location._checked_at = float("inf")
    assert gone not in dict(hits(reader, "pump oil", mode="dense"))
    assert reader.search("pump oil", 5)
    reader.location.refresh()
    assert hits(reader, "pelican atlas", mode="dense") == hits(writer, "pelican atlas", mode="dense")
    assert reader.verify().is_sound


def test_a_copy_that_outgrows_its_bound_drops_its_vectors(opened: Open, docs: Path, tmp_path: Path) -> None:
    writer = opened()
    few = tmp_path / "few"
    few.mkdir()
    (few / "one.md").write_text("The pump needs oil.")
    writer.index(few)
    location = writer.location
    assert isinstance(location, DatabaseLocation)
    limit = (location.database.copy_bytes() + 20_000) / 1e9
    reader = opened(f"&max_gb={limit:.9f}")
    before = hits(reader, "pump oil")
    assert has_vectors(reader)
    writer.index(docs)
    reader.location.refresh()
    assert not has_vectors(reader)
    assert hits(reader, "red door") == hits(writer, "red door")
    writer.remove(docs)
    for table in ("documents", "chunks"):  # PostgreSQL keeps the space of deleted rows until then
        vacuum = sql.SQL("VACUUM FULL {}").format(sql.Identifier(location.url.schema, table))
        location.database.run_alone(lambda c, statement=vacuum: c.execute(statement))  # type: ignore[misc]
    reader.location.refresh()
    assert has_vectors(reader)
    assert hits(reader, "pump oil") == before


def test_a_user_finds_only_what_the_user_may_read(opened: Open, docs: Path) -> None:
    whole = opened()
    whole.index(docs)
    whole.location.access.update(lambda _: AccessSettings().with_rule("doc1*.md", ["group:hr"]))
    bare = opened("&max_gb=0")
    for question in questions(10):
        found = bare.as_user("anna").search(question, 8, mode="dense")
        assert not [hit.source for hit in found if Path(hit.source).name.startswith("doc1")]
        expected = whole.as_user("anna").search(question, 8, mode="dense")
        assert [hit.chunk.id for hit in found] == [hit.chunk.id for hit in expected]


def test_what_reads_all_vectors_is_refused(opened: Open, docs: Path, tmp_path: Path) -> None:
    opened().index(docs)
    with pytest.raises(InvalidOption, match=r"max_gb must be an address without it: this reads all vectors"):
        opened("&max_gb=0").copy_to(tmp_path / "target")
    with pytest.raises(InvalidOption, match="max_gb must be GB, from 0 to 1000000"):
        opened("&max_gb=-1")


def test_vectors_of_another_embedder_are_not_found(opened: Open, docs: Path, database_url: str) -> None:
    opened().index(docs)
    with closing(DatabaseVectors(DatabaseUrl.parse(database_url))) as vectors:
        assert vectors.count() > 100
        assert vectors.search("another", np.full(64, 1 / 8, np.float32), 5, np.arange(500)) == []
        assert vectors.fetch("another", [1, 2]) == {}


def has_vectors(kb: KnowledgeBase) -> bool:
    """Whether the vectors are in the copy."""
    with closing(open_catalog(kb.path, verify_checksums=False)) as connection:
        count = connection.execute("SELECT count(*) FROM vectors").fetchone()[0]
    return bool(count > 0)


def vector_indexes(database_url: str) -> list[str]:
    with closing(PostgresCatalog(DatabaseUrl.parse(database_url))) as catalog:
        query = "SELECT relname FROM pg_class WHERE relname LIKE 'vectors_hnsw_%' AND relkind = 'i'"
        return [str(row[0]) for row in catalog.run(lambda c: c.execute(query).fetchall())]


def test_settings_of_the_database_stand_in_the_address(database_url: str) -> None:
    url = DatabaseUrl.parse(f"{database_url}&max_gb=0&options=-c%20work_mem%3D7MB%20-c%20IntervalStyle%3Diso_8601")
    with closing(PostgresCatalog(url)) as catalog:
        query = "SELECT current_setting('work_mem'), current_setting('IntervalStyle')"
        assert catalog.run(lambda c: c.execute(query).fetchone()) == ("7MB", "iso_8601")
    assert DatabaseUrl.parse("postgresql://host/db?application_name=a+b%20c").dsn.endswith("=a%2Bb%20c")
