"""Embed the chunks of a published generation that have no vector yet, in batches that are durable one by one."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

import numpy as np

from ragkit.embed.base import EmbeddingProvider, Row, embed_probe
from ragkit.errors import KnowledgeBaseDamaged
from ragkit.index.build_fingerprint import check_embedder_weights
from ragkit.index.catalog.directory import CATALOG_FILE, repair_command
from ragkit.index.catalog.sqlite import STATIC_KEY, Catalog, EmbedderRow, heading_from_json
from ragkit.index.catalog.write_session import WriteSession
from ragkit.index.kept_vectors import KeptVectors
from ragkit.index.on_demand import embedding_texts_by_key
from ragkit.index.report import TextsEmbedded
from ragkit.records import Chunk
from ragkit.store.native.vector_file import VectorFile
from ragkit.usage.meter import current_meter

FILL_BATCH_SIZE = 64
"""Texts that are embedded and written at once: a second or so of work, for which a request to a server may wait."""


@dataclass(frozen=True, slots=True)
class FillCounts:
    """What was embedded."""

    texts: int = 0
    tokens: int = 0


class VectorFill:
    """Gives chunks that have only a static vector one of the embedder. The caller holds the write session.

    Each batch is one transaction after its vectors were synced: after an interruption, what was embedded stays.
    """

    def __init__(
        self,
        session: WriteSession,
        embedder: EmbeddingProvider,
        file: VectorFile,
        embedding_texts: Callable[[Sequence[Chunk]], list[str]],
    ) -> None:
        """`file`: the vector file of the embedder, with every row committed."""
        self._session, self._catalog, self._file = session, session.catalog, file
        self._embedder, self._embedding_texts = embedder, embedding_texts
        self._weights_checked = False
        self._chunks_by_hash = self._find_lacking()

    def run(self, on_event: Callable[[TextsEmbedded], None], stop: Callable[[], bool]) -> FillCounts:
        """Take what searches have computed, and embed the rest; `stop` is asked before each batch."""
        self._take_kept()
        counts = FillCounts()
        while self._chunks_by_hash and not stop():
            event = self._embed_batch()
            counts = FillCounts(counts.texts + event.texts, counts.tokens + event.tokens)
            on_event(event)
        self._drop_unused_static_vectors()
        return counts

    def _take_kept(self) -> None:
        """Move the vectors that searches have computed into the catalog."""
        kept = KeptVectors(self._session.directory, self._embedder.fingerprint, self._embedder.dimension)
        with kept.take() as vectors:
            wanted = {key: row for key, row in vectors.items() if key in self._chunks_by_hash}
            if wanted:
                self._write(wanted)

    def _embed_batch(self) -> TextsEmbedded:
        """Embed the next texts, first those at the beginnings of documents."""
        if not self._weights_checked:
            self._check_weights()
        hashes = list(islice(self._chunks_by_hash, FILL_BATCH_SIZE))
        texts, before = self._read_texts(hashes), _metered_tokens()
        rows = self._embedder.embed_texts([texts[key] for key in hashes])
        self._write(dict(zip(hashes, rows, strict=True)))
        return TextsEmbedded(len(hashes), _metered_tokens() - before, len(self._chunks_by_hash))

    def _find_lacking(self) -> dict[bytes, list[int]]:
        """Text hash -> chunks without a vector, the first chunks of all documents before the second ones."""
        static = self._catalog.static_embedder()
        if static is None:
            return {}
        rows = self._catalog.connection.execute(
            "SELECT v.text_hash, c.key FROM chunks c LEFT JOIN vectors v ON v.embedder = ? AND v.row = ~c.vector"
            " WHERE c.live = 1 AND c.vector < 0"
            " ORDER BY row_number() OVER (PARTITION BY c.document ORDER BY c.key), c.key",
            (static.key,),
        )
        found: dict[bytes, list[int]] = defaultdict(list)
        for text_hash, key in rows:
            if text_hash is None:
                directory = self._session.directory
                reason = f"has no vector for chunk {key}"
                raise KnowledgeBaseDamaged(str(directory / CATALOG_FILE), reason, repair_command(directory))
            found[text_hash].append(key)
        return dict(found)

    def _read_texts(self, hashes: Sequence[bytes]) -> dict[bytes, str]:
        keys = {self._chunks_by_hash[text_hash][0]: text_hash for text_hash in hashes}
        texts = embedding_texts_by_key(_read_chunks(self._catalog, list(keys)), self._embedding_texts)
        return {keys[key]: text for key, text in texts.items()}

    def _write(self, vectors: Mapping[bytes, Row]) -> None:
        first = self._file.append(np.stack(list(vectors.values())))
        self._file.sync()
        checksums = self._file.checksums(first, len(vectors)).tolist()
        rows = [(first + i, key) for i, text_hash in enumerate(vectors) for key in self._chunks_by_hash[text_hash]]
        with self._catalog.transaction():
            self._catalog.add_vectors(self._require_row().key, first, list(vectors), checksums)
            self._catalog.set_vectors(rows)
        for text_hash in vectors:
            del self._chunks_by_hash[text_hash]

    def _check_weights(self) -> None:
        """Compare the weights of the embedder with those of the stored vectors."""
        self._weights_checked = True
        row, probe = self._require_row(), embed_probe(self._embedder)
        if row.probe is not None:
            check_embedder_weights(str(self._session.directory), row.probe, probe)
            return
        with self._catalog.transaction():
            self._catalog.set_probe(row.key, probe.tobytes())

    def _require_row(self) -> EmbedderRow:
        row = self._catalog.embedder(self._embedder.fingerprint)
        assert row is not None  # noqa: S101 - it has a file
        return row

    def _drop_unused_static_vectors(self) -> None:
        """Delete the static vectors if all chunks have vectors; the session deletes their file."""
        static = self._catalog.static_embedder()
        if static is not None and not self._chunks_by_hash:
            with self._catalog.transaction():
                self._catalog.delete_embedder(static.key)
                self._catalog.connection.execute("DELETE FROM meta WHERE key = ?", (STATIC_KEY,))
                self._catalog.set_vectors(())


def open_static_vectors(session: WriteSession, static: EmbeddingProvider) -> VectorFile | None:
    """The file of the static vectors; None if chunks have vectors of another static model, for example of an earlier
    version."""
    catalog = session.catalog
    if catalog.get_meta(STATIC_KEY) not in {None, static.fingerprint}:
        return None
    _, file = session.open_vectors(static.fingerprint, static.dimension)
    if catalog.get_meta(STATIC_KEY) is None:
        with catalog.transaction():
            catalog.set_meta(STATIC_KEY, static.fingerprint)
    return file


def _read_chunks(catalog: Catalog, keys: Sequence[int]) -> dict[int, Chunk]:
    """What is embedded of these chunks, by key."""
    rows = catalog.connection.execute(
        "SELECT c.key, c.id, c.text, c.heading, d.source, d.title, coalesce(x.sentence, '') FROM chunks c"
        " JOIN documents d ON d.key = c.document LEFT JOIN chunk_contexts x ON x.chunk = c.key"
        " WHERE c.key IN (SELECT value FROM json_each(?))",
        (json.dumps(list(keys)),),
    )
    chunks: dict[int, Chunk] = {}
    for key, identity, text, heading, source, title, context in rows:
        path, place = heading_from_json(heading)
        chunks[key] = Chunk(
            identity, "", source, text, 0, len(text), 1, 1, heading=path, title=title, place=place, context=context
        )
    return chunks


def _metered_tokens() -> int:
    meter = current_meter()
    return meter.usage().embedding_tokens if meter else 0
