"""The catalog of a knowledge base: reads and writes its rows."""

from __future__ import annotations

import json
import sqlite3
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

from ragkit.records import Chunk, Document, Heading, Metadata, Place

VECTORS_KEY = "vectors"
"""Key of the place of the vectors, in a copy that leaves them in its database: `database`."""
STATIC_KEY = "static_embedder"
"""Key of the fingerprint of the static embedder, while there are chunks whose `vector` is one of its rows."""
FILLED_KEY = "filled"
"""Key of how many times chunks got their vectors after they were published."""
SETTINGS_CHECKSUM_KEY = "settings_checksum"
"""Key of the checksum of the values of `SETTINGS_KEYS`."""
FILE_FILTERS_KEY = "chosen-files"
"""Key of the include and exclude patterns of each source in the catalog."""
ACCESS_KEY = "access"
"""Key of `meta` that says that there are rules on who may read, so that nothing opens when their file is lost."""
SETTINGS_KEYS = ("recipe", "embedder", "pipeline", "pipeline_name", FILE_FILTERS_KEY, ACCESS_KEY)
"""What a run was told. The marker file repeats it, so that a damaged catalog can be rebuilt with it."""


class FileRow(NamedTuple):
    """The indexing state of one file. A tuple, since every search compares the rows of thousands of files."""

    source: str
    size: int
    mtime_ns: int
    ctime_ns: int
    inode: int
    content_hash: str
    recipe: str
    status: str
    """indexed, empty, skipped or failed; `part` for a document inside the file `reason`."""
    reason: str = ""
    """Why it has this status; of an indexed file: what of its `access` was not understood."""
    hint: str = ""
    document: int | None = None
    """Key of its live document."""

    @property
    def has_failure(self) -> bool:
        """Whether an index run reports it: it could not be indexed, or its `access` was not understood."""
        return self.status == "failed" or (self.status == "indexed" and self.reason != "")


@dataclass(frozen=True, slots=True)
class EmbedderRow:
    """One embedder with vectors in this knowledge base."""

    key: int
    fingerprint: str
    dimension: int
    file: str
    file_id: bytes
    rows: int
    probe: bytes | None


class Catalog:
    """Reads and writes rows over one connection. Every write must run inside `transaction()`."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self.connection = connection

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Commit all writes of the block, or none on an error."""
        with self.connection:  # around the start: Ctrl-C may raise as soon as it has begun
            self.connection.execute("BEGIN IMMEDIATE")
            yield

    # meta

    def get_meta(self, key: str) -> str | None:
        """A value of the `meta` table."""
        row = self.connection.execute("SELECT value FROM meta WHERE key = ?", (key,)).fetchone()
        return None if row is None else str(row[0])

    def has_vectors(self) -> bool:
        """Whether the vectors are in files beside the catalog; a copy of a database may leave them there."""
        return self.get_meta(VECTORS_KEY) is None

    def set_meta(self, key: str, value: str) -> None:
        """Set a value of the `meta` table."""
        self.connection.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (key, value))

    def settings(self) -> dict[str, str]:
        """The values of `meta` that the documents cannot give again, by `SETTINGS_KEYS`; a new catalog lacks some."""
        values = ((key, self.get_meta(key)) for key in SETTINGS_KEYS)
        return {key: value for key, value in values if value is not None}

    def set_settings(self, settings: Mapping[str, str]) -> None:
        """Set values of `SETTINGS_KEYS`, and the checksum of all of them, in the caller's transaction."""
        for key, value in settings.items():
            if self.get_meta(key) != value:
                self.set_meta(key, value)
        checksum = settings_checksum(self.settings())
        if self.get_meta(SETTINGS_CHECKSUM_KEY) != checksum:
            self.set_meta(SETTINGS_CHECKSUM_KEY, checksum)

    def has_intact_settings(self) -> bool:
        """Whether the settings match their checksum. Earlier versions wrote none."""
        checksum = self.get_meta(SETTINGS_CHECKSUM_KEY)
        return checksum is None or checksum == settings_checksum(self.settings())

    def generation(self) -> int:
        """How many times the visible content has changed."""
        return int(self.get_meta("generation") or 0)

    # roots and files

    def add_roots(self, paths: Iterable[str]) -> None:
        """Add sources."""
        self.connection.executemany("INSERT OR IGNORE INTO roots VALUES (?)", [(path,) for path in paths])

    def roots(self) -> list[str]:
        """All sources, sorted."""
        return [row[0] for row in self.connection.execute("SELECT path FROM roots ORDER BY path")]

    def remove_roots(self, paths: Iterable[str]) -> None:
        """Remove sources."""
        self.connection.executemany("DELETE FROM roots WHERE path = ?", [(path,) for path in paths])

    def files(self) -> dict[str, FileRow]:
        """The rows of all files, by source, without those of documents inside files."""
        query = f"SELECT {_FILE_COLUMNS} FROM files WHERE status <> 'part' ORDER BY source"  # noqa: S608
        return {row[0]: FileRow._make(row) for row in self.connection.execute(query)}

    def parts(self, source: str) -> list[FileRow]:
        """The rows of the documents inside a file, at any depth."""
        query = f"SELECT {_FILE_COLUMNS} FROM files WHERE source > ? AND source < ? AND status = 'part' AND reason = ?"  # noqa: S608
        rows = self.connection.execute(query, (f"{source}/", f"{source}0", source))  # "0" follows "/"
        return [FileRow._make(row) for row in rows]

    def file(self, source: str) -> FileRow | None:
        """The row of one file."""
        query = f"SELECT {_FILE_COLUMNS} FROM files WHERE source = ?"  # noqa: S608
        row = self.connection.execute(query, (source,)).fetchone()
        return None if row is None else FileRow._make(row)

    def put_files(self, rows: Iterable[FileRow]) -> None:
        """Insert or replace file rows."""
        self.connection.executemany("INSERT OR REPLACE INTO files VALUES (?,?,?,?,?,?,?,?,?,?,?)", rows)

    def delete_files(self, sources: Iterable[str]) -> None:
        """Delete file rows; their documents stay."""
        self.connection.executemany("DELETE FROM files WHERE source = ?", [(source,) for source in sources])

    # documents and chunks

    def add_document(self, document: Document, content_hash: str, recipe: str, *, live: bool) -> int:
        """Insert a document; returns its key."""
        values = document_to_row(document)
        cursor = self.connection.execute(
            "INSERT INTO documents (id, source, title, format, language, metadata, page_starts, headings, body,"
            " content_hash, recipe, live, checksum) VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?)",
            (*values, content_hash, recipe, int(live), row_checksum(values)),
        )
        return int(cursor.lastrowid or 0)

    def seen_documents(self, folder: str) -> list[tuple[str, str, str]]:
        """Source, document id and content hash of each document at or below a folder, file or page."""
        query = (
            "SELECT f.source, d.id, f.content_hash FROM files f JOIN documents d ON d.key = f.document"
            " WHERE f.source = ?1 OR (f.source > ?1 || '/' AND f.source < ?1 || '0') ORDER BY f.source"
        )
        return [tuple(row) for row in self.connection.execute(query, (folder.rstrip("/"),))]

    def add_chunks(self, document: int, chunks: Sequence[Chunk], vectors: Sequence[int], *, live: bool) -> range:
        """Insert chunks in order, each with its vector row; returns their keys.

        A row < 0 is row `~row` of the static embedder: the chunk has no vector of the current one yet.
        """
        first = int(self.connection.execute("SELECT coalesce(max(key), 0) + 1 FROM chunks").fetchone()[0])
        rows: list[tuple[object, ...]] = []
        for chunk, vector in zip(chunks, vectors, strict=True):
            values = chunk_to_row(chunk)
            rows.append((first + len(rows), document, vector, int(live), row_checksum(values), *values))
        self.connection.executemany(
            "INSERT INTO chunks (key, document, vector, live, checksum, id, start, end, start_line, end_line,"
            " page, heading, text) VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?)",
            rows,
        )
        contexts = [(first + i, chunk.context) for i, chunk in enumerate(chunks) if chunk.context]
        self.connection.executemany(
            "INSERT INTO chunk_contexts VALUES (?,?,?)", [(*values, row_checksum(values)) for values in contexts]
        )
        return range(first, first + len(rows))

    def staged_documents(self) -> dict[tuple[str, str, str], int]:
        """Documents that are not published: (source, content hash, recipe) -> key."""
        rows = self.connection.execute("SELECT source, content_hash, recipe, key FROM documents WHERE live = 0")
        return {(row[0], row[1], row[2]): row[3] for row in rows}

    def chunk_keys(self, documents: Iterable[int]) -> list[int]:
        """The keys of these documents' chunks."""
        query = "SELECT key FROM chunks WHERE document IN (SELECT value FROM json_each(?)) ORDER BY document, key"
        return [row[0] for row in self.connection.execute(query, (json.dumps(list(documents)),))]

    def delete_documents(self, documents: Sequence[int]) -> None:
        """Delete documents with their chunks. The caller deletes their lexical index rows first."""
        keys = [(document,) for document in documents]
        of_document = "chunk IN (SELECT key FROM chunks WHERE document = ?)"
        self.connection.executemany(f"DELETE FROM chunk_contexts WHERE {of_document}", keys)  # noqa: S608
        self.connection.executemany("DELETE FROM chunks WHERE document = ?", keys)
        self.connection.executemany("DELETE FROM documents WHERE key = ?", keys)

    def publish(self, documents: Sequence[int]) -> None:
        """Make staged documents live."""
        keys = [(document,) for document in documents]
        self.connection.executemany("UPDATE documents SET live = 1 WHERE key = ?", keys)
        self.connection.executemany("UPDATE chunks SET live = 1 WHERE document = ?", keys)

    # contexts

    def has_contexts(self) -> bool:
        """Whether the tables of contexts exist: those of a catalog that only older versions wrote do not."""
        query = "SELECT count(*) FROM sqlite_master WHERE type = 'table' AND name IN ('contexts', 'chunk_contexts')"
        return bool(self.connection.execute(query).fetchone()[0] == 2)

    def find_contexts(self, requests: Sequence[bytes]) -> dict[bytes, str]:
        """The sentence of each request for a context; requests without an answer are left out."""
        query = "SELECT request, sentence, checksum FROM contexts WHERE request = ?"
        rows = [row for request in requests for row in self.connection.execute(query, (request,))]
        return {request: sentence for request, sentence, crc in rows if row_checksum((request, sentence)) == crc}

    def iter_contexts(self) -> Iterator[tuple[bytes, str]]:
        """Every request for a context whose row is intact, with its sentence."""
        for request, sentence, crc in self.connection.execute("SELECT request, sentence, checksum FROM contexts"):
            if row_checksum((request, sentence)) == crc:
                yield request, sentence

    def add_contexts(self, contexts: Iterable[tuple[bytes, str]]) -> None:
        """Record the sentences of requests."""
        rows = [(*values, row_checksum(values)) for values in contexts]
        self.connection.executemany("INSERT OR REPLACE INTO contexts VALUES (?,?,?)", rows)

    def delete_unused_contexts(self, keep: int) -> None:
        """Delete the sentences that no chunk has, if there are more than `keep` of them and more than of the others.

        Some are kept, because texts come back: a change is undone, a file is restored.
        """
        unused = "contexts WHERE sentence NOT IN (SELECT sentence FROM chunk_contexts)"
        used = int(self.connection.execute("SELECT count(*) FROM chunk_contexts").fetchone()[0])
        if self.connection.execute(f"SELECT count(*) FROM {unused}").fetchone()[0] > max(keep, used):  # noqa: S608
            self.connection.execute(f"DELETE FROM {unused}")  # noqa: S608

    # vectors

    def embedders(self) -> list[EmbedderRow]:
        """All embedders, in the order in which they were added."""
        return [EmbedderRow(*row) for row in self.connection.execute(f"{_EMBEDDERS_SQL} ORDER BY key")]

    def embedder(self, fingerprint: str) -> EmbedderRow | None:
        """The embedder with this fingerprint."""
        row = self.connection.execute(f"{_EMBEDDERS_SQL} WHERE fingerprint = ?", (fingerprint,)).fetchone()
        return None if row is None else EmbedderRow(*row)

    def current_embedder(self) -> EmbedderRow | None:
        """The embedder of the live chunks; None before the first publication."""
        return self.embedder(self.get_meta("embedder") or "")

    def static_embedder(self) -> EmbedderRow | None:
        """The static embedder of the chunks without a vector of the current one; None if all have theirs."""
        return self.embedder(self.get_meta(STATIC_KEY) or "")

    def filled(self) -> int:
        """How many times chunks got their vectors after they were published."""
        return int(self.get_meta(FILLED_KEY) or 0)

    def count_chunks(self) -> int:
        """The number of live chunks."""
        return int(self.connection.execute("SELECT count(*) FROM chunks WHERE live = 1").fetchone()[0])

    def count_unembedded(self) -> int:
        """The number of live chunks without a vector of the current embedder."""
        query = "SELECT count(*) FROM chunks WHERE live = 1 AND vector < 0"
        return int(self.connection.execute(query).fetchone()[0])

    def set_vectors(self, rows: Iterable[tuple[int, int]]) -> None:
        """Point chunks at rows of the current embedder's file: (row, chunk key) each."""
        self.connection.executemany("UPDATE chunks SET vector = ? WHERE key = ?", rows)
        self.set_meta(FILLED_KEY, str(self.filled() + 1))

    def delete_embedder(self, embedder: int) -> None:
        """Delete an embedder with its vectors."""
        self.connection.execute("DELETE FROM vectors WHERE embedder = ?", (embedder,))
        self.connection.execute("DELETE FROM embedders WHERE key = ?", (embedder,))

    def find_text_hashes(self, embedder: int, rows: Sequence[int]) -> dict[int, bytes]:
        """The text hash of each of these vector rows."""
        query = "SELECT row, text_hash FROM vectors WHERE embedder = ? AND row IN (SELECT value FROM json_each(?))"
        return dict(self.connection.execute(query, (embedder, json.dumps(list(rows)))))

    def add_embedder(self, fingerprint: str, dimension: int, file: str, file_id: bytes) -> EmbedderRow:
        """Insert an embedder without vectors."""
        self.connection.execute(
            "INSERT INTO embedders (fingerprint, dimension, file, file_id, rows) VALUES (?,?,?,?,0)",
            (fingerprint, dimension, file, file_id),
        )
        added = self.embedder(fingerprint)
        assert added is not None  # noqa: S101 - inserted above
        return added

    def set_probe(self, embedder: int, probe: bytes) -> None:
        """Store the embedder's vector of the probe text: float32, little-endian."""
        self.connection.execute("UPDATE embedders SET probe = ? WHERE key = ?", (probe, embedder))

    def find_vector_rows(self, embedder: int, hashes: Sequence[bytes]) -> dict[bytes, int]:
        """The vector row of each text hash; hashes without a vector are left out."""
        rows: dict[bytes, int] = {}
        for start in range(0, len(hashes), 500):
            batch = hashes[start : start + 500]
            marks = ",".join("?" * len(batch))
            query = f"SELECT text_hash, row FROM vectors WHERE embedder = ? AND text_hash IN ({marks})"  # noqa: S608
            rows.update(self.connection.execute(query, (embedder, *batch)))
        return rows

    def add_vectors(self, embedder: int, first: int, hashes: Sequence[bytes], checksums: Sequence[int]) -> None:
        """Record rows first, first + 1, ... of the embedder's file. The caller syncs the file first."""
        rows = [(embedder, key, first + i, checksums[i]) for i, key in enumerate(hashes)]
        self.connection.executemany("INSERT OR REPLACE INTO vectors VALUES (?,?,?,?)", rows)
        self.connection.execute("UPDATE embedders SET rows = ? WHERE key = ?", (first + len(hashes), embedder))


_EMBEDDERS_SQL = "SELECT key, fingerprint, dimension, file, file_id, rows, probe FROM embedders"
_FILE_COLUMNS = "source, size, mtime_ns, ctime_ns, inode, content_hash, recipe, status, reason, hint, document"


def unchanged_sources(catalog: Catalog, documents: Mapping[str, str]) -> list[str]:
    """Those sources of documents, given as ids by source, that still have the document with this id."""
    query = "SELECT f.source, d.id FROM files f JOIN documents d ON d.key = f.document WHERE f.source = ?"
    rows = [catalog.connection.execute(query, (source,)).fetchone() for source in documents]
    return [row[0] for row in rows if row is not None and documents[row[0]] == row[1]]


def settings_checksum(settings: Mapping[str, str]) -> str:
    """CRC-32 of the settings, as `meta` stores it."""
    return str(row_checksum(sorted(settings.items())))


def row_checksum(values: Sequence[object]) -> int:
    """CRC-32 of a row's values."""
    return zlib.crc32(repr(values).encode("utf-8", "surrogatepass"))


def document_to_row(document: Document) -> tuple[str | bytes, ...]:
    """The stored columns of a document, in the order that `document_from_row` reads."""
    return (
        document.id,
        document.source,
        document.title,
        document.format,
        document.language,
        json.dumps(dict(document.metadata), ensure_ascii=False, sort_keys=True),
        _positions_to_json(document),
        json.dumps([heading.to_row() for heading in document.headings], ensure_ascii=False),
        zlib.compress(document.text.encode("utf-8"), 1),
    )


def document_from_row(values: Sequence[str | bytes]) -> Document:
    """The document that `document_to_row` stored."""
    identity, source, title, form, language, metadata, pages, headings, body = values
    assert isinstance(body, bytes)  # noqa: S101 - the schema is STRICT
    return Document(
        text=zlib.decompress(body).decode("utf-8"),
        metadata=json.loads(metadata),
        source=str(source),
        title=str(title),
        page_starts=positions_from_json(str(pages))[0],
        headings=tuple(Heading(*row) for row in json.loads(headings)),
        format=str(form),
        language=str(language),
        id=str(identity),
        places=positions_from_json(str(pages))[1],
    )


def filter_metadata(source: str, title: str, metadata: str) -> Metadata:
    """The metadata that filters match: the column `metadata`, with source and title as defaults."""
    return {"source": source, "title": title, **json.loads(metadata)}


def _positions_to_json(document: Document) -> str:
    """The column `page_starts`: a list of pages, or an object if the document has places too."""
    if not document.places:
        return json.dumps(document.page_starts)
    return json.dumps({"pages": document.page_starts, "places": [place.to_row() for place in document.places]})


@lru_cache(maxsize=16)  # the passages of one search are often from few documents
def positions_from_json(text: str) -> tuple[tuple[int, ...], tuple[Place, ...]]:
    """The page starts and places of the column `page_starts`."""
    stored = json.loads(text)
    if isinstance(stored, dict):
        return tuple(stored["pages"]), tuple(Place(*row) for row in stored["places"])
    return tuple(stored), ()


def heading_from_json(text: str) -> tuple[tuple[str, ...], str]:
    """The heading path and the place of a chunk, from its column `heading`: an object, or once the path alone."""
    stored = json.loads(text)
    return (tuple(stored["path"]), str(stored["place"])) if isinstance(stored, dict) else (tuple(stored), "")


def stored_text_length(body: bytes) -> int:
    """Number of characters of a stored text."""
    return len(zlib.decompress(body).decode("utf-8"))


def chunk_to_row(chunk: Chunk) -> tuple[str | int | None, ...]:
    """The stored columns of a chunk. Source, title and metadata are stored with its document."""
    return (
        chunk.id,
        chunk.start,
        chunk.end,
        chunk.start_line,
        chunk.end_line,
        chunk.page,
        json.dumps({"path": chunk.heading, "place": chunk.place}, ensure_ascii=False),
        chunk.text,
    )
