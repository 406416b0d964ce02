"""No text is embedded twice: in one call, in several calls, or in another process."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from pathlib import Path
from threading import Thread

import numpy as np
import pytest

from ragkit.embed.base import Row, Rows
from ragkit.embed.hashing import HashingEmbedder
from ragkit.embed.options import HashingOptions
from ragkit.errors import KnowledgeBaseDamaged, KnowledgeBaseLocked
from scripts.cached_embedder import CachedEmbedder, SqliteVectorCache, VectorCache, text_cache_key


class RecordingEmbedder:
    """The hashing embedder; records all texts."""

    def __init__(self, dimension: int = 32) -> None:
        self._hashing = HashingEmbedder(HashingOptions(dimension=dimension))
        self.embedded: list[str] = []
        self.dimension = dimension
        self.fingerprint = self._hashing.fingerprint

    def embed_texts(self, texts: Sequence[str]) -> Rows:
        self.embedded += texts
        return self._hashing.embed_texts(texts)

    def embed_query(self, text: str) -> Row:
        self.embedded.append(f"query: {text}")
        return self._hashing.embed_query(text)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "vectors.sqlite"


@pytest.fixture
def cache(path: Path) -> Iterator[VectorCache]:
    with SqliteVectorCache(path) as cache:
        yield cache


def test_equal_texts_of_one_call_are_embedded_once(cache: VectorCache) -> None:
    inner = RecordingEmbedder()
    rows = CachedEmbedder(inner, cache).embed_texts(["red", "green", "red"])
    assert inner.embedded == ["red", "green"]
    np.testing.assert_array_equal(rows, HashingEmbedder(HashingOptions(32)).embed_texts(["red", "green", "red"]))


def test_only_new_texts_are_embedded_and_the_order_is_kept(cache: VectorCache) -> None:
    inner = RecordingEmbedder()
    cached = CachedEmbedder(inner, cache)
    cached.embed_texts(["green", "blue"])
    rows = cached.embed_texts(["red", "green", "white", "blue"])
    assert inner.embedded == ["green", "blue", "red", "white"]
    np.testing.assert_array_equal(rows, RecordingEmbedder().embed_texts(["red", "green", "white", "blue"]))


def test_vectors_survive_closing_the_file(path: Path) -> None:
    inner = RecordingEmbedder()
    with SqliteVectorCache(path) as first:
        rows = CachedEmbedder(inner, first).embed_texts(["red"])
    with SqliteVectorCache(path) as second:
        np.testing.assert_array_equal(CachedEmbedder(inner, second).embed_texts(["red"]), rows)
    assert inner.embedded == ["red"]


def test_another_embedder_does_not_get_these_vectors(cache: VectorCache) -> None:
    CachedEmbedder(RecordingEmbedder(32), cache).embed_texts(["red"])
    other = RecordingEmbedder(16)
    assert CachedEmbedder(other, cache).embed_texts(["red"]).shape == (1, 16)
    assert other.embedded == ["red"]


def test_questions_and_texts_are_cached_separately(cache: VectorCache) -> None:
    inner = RecordingEmbedder()
    cached = CachedEmbedder(inner, cache)
    cached.embed_texts(["red"])
    first, second = cached.embed_query("red"), cached.embed_query("red")
    np.testing.assert_array_equal(first, second)
    assert inner.embedded == ["red", "query: red"]


def test_no_texts_need_no_request(cache: VectorCache) -> None:
    inner = RecordingEmbedder()
    assert CachedEmbedder(inner, cache).embed_texts([]).shape == (0, 32)
    assert inner.embedded == []


def test_texts_with_a_lone_surrogate_or_nul_are_cached(cache: VectorCache) -> None:
    inner = RecordingEmbedder()
    cached = CachedEmbedder(inner, cache)
    for _ in range(2):
        cached.embed_texts(["a\ud800", "b\x00", ""])
    assert inner.embedded == ["a\ud800", "b\x00", ""]


def test_the_cached_embedder_has_the_dimension_and_fingerprint_of_the_inner_one(cache: VectorCache) -> None:
    cached = CachedEmbedder(RecordingEmbedder(), cache)
    assert (cached.dimension, cached.fingerprint) == (32, "hashing-1:32")


@pytest.mark.parametrize("raw", [b"\0" * 8, b"\0" * 7])
def test_a_row_of_the_wrong_size_is_embedded_again(path: Path, cache: VectorCache, raw: bytes) -> None:
    inner = RecordingEmbedder()
    with sqlite3.connect(path) as connection:
        connection.execute("INSERT INTO vectors VALUES (?, ?)", (text_cache_key(inner.fingerprint, "red"), raw))
    connection.close()
    rows = CachedEmbedder(inner, cache).embed_texts(["red"])
    assert inner.embedded == ["red"]
    np.testing.assert_array_equal(rows, RecordingEmbedder().embed_texts(["red"]))


def test_thousands_of_keys_are_looked_up_in_one_call(cache: VectorCache) -> None:
    rows = {f"key {n}": np.full(4, n, np.float32) for n in range(3000)}
    cache.put_many(rows)
    found = cache.get_many([*rows, "missing"])
    assert {key: row.tolist() for key, row in found.items()} == {key: row.tolist() for key, row in rows.items()}


def test_threads_share_one_cache(cache: VectorCache) -> None:
    cached = CachedEmbedder(RecordingEmbedder(), cache)
    texts = [f"text {n}" for n in range(50)]
    expected = RecordingEmbedder().embed_texts(texts)
    equal: list[bool] = []
    threads = [
        Thread(target=lambda: equal.append(np.array_equal(cached.embed_texts(texts), expected))) for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert equal == [True] * 8


def test_an_invalid_cache_file_is_rejected(path: Path) -> None:
    path.write_bytes(b"something else entirely, and long enough for a header of SQLite" * 20)
    with pytest.raises(
        KnowledgeBaseDamaged, match=r"vectors\.sqlite cannot be used as a vector cache .*not a database.*run `rm"
    ):
        SqliteVectorCache(path)


def test_a_missing_folder_is_reported(tmp_path: Path) -> None:
    with pytest.raises(KnowledgeBaseDamaged, match="unable to open database file"):
        SqliteVectorCache(tmp_path / "missing" / "vectors.sqlite")


def test_a_lock_of_another_process_is_reported(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("scripts.cached_embedder.BUSY_TIMEOUT_S", 0.05)
    with SqliteVectorCache(path) as cache:
        writer = sqlite3.connect(path)
        writer.execute("BEGIN IMMEDIATE")
        with pytest.raises(KnowledgeBaseLocked, match=r"vectors\.sqlite is locked by another process"):
            cache.put_many({"key": np.ones(2, np.float32)})
        writer.close()
        cache.put_many({"key": np.ones(2, np.float32)})
        assert list(cache.get_many(["key"])) == ["key"]
