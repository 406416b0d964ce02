"""The tables of a knowledge base in PostgreSQL, as numbered migrations. Imports no client of a database.

Rows are those of the local catalog with the same keys, so that a copy of them is a knowledge base directory with the
same scores. `version` of a row is the number of the publication that wrote it: a copy asks for the later ones.
"""

from __future__ import annotations

MIGRATIONS: tuple[str, ...] = (
    """
-- One row: this knowledge base. `token` counts the writers; a writer that lost its lease cannot publish.
CREATE TABLE ragkit (
    id text NOT NULL, format integer NOT NULL, version bigint NOT NULL,
    writer text, token bigint NOT NULL DEFAULT 0, lease_until timestamptz
);
CREATE TABLE meta (key text PRIMARY KEY, value text NOT NULL, version bigint NOT NULL);
CREATE TABLE roots (path text PRIMARY KEY, version bigint NOT NULL);
CREATE TABLE files (
    source text PRIMARY KEY,
    size bigint NOT NULL, mtime_ns bigint NOT NULL, ctime_ns bigint NOT NULL, inode bigint NOT NULL,
    content_hash text NOT NULL, recipe text NOT NULL, status text NOT NULL, reason text NOT NULL, hint text NOT NULL,
    document bigint, version bigint NOT NULL
);
CREATE INDEX files_by_version ON files (version);

-- body: the text, UTF-8, compressed with zlib.
CREATE TABLE documents (
    key bigint PRIMARY KEY, id text NOT NULL, source text NOT NULL, content_hash text NOT NULL, recipe text NOT NULL,
    title text NOT NULL, format text NOT NULL, language text NOT NULL, metadata text NOT NULL,
    page_starts text NOT NULL, headings text NOT NULL, body bytea NOT NULL, checksum bigint NOT NULL,
    version bigint NOT NULL
);
CREATE INDEX documents_by_version ON documents (version);
CREATE TABLE chunks (
    key bigint PRIMARY KEY, document bigint NOT NULL, text_hash bytea NOT NULL, id text NOT NULL,
    start bigint NOT NULL, "end" bigint NOT NULL, start_line bigint NOT NULL, end_line bigint NOT NULL,
    page bigint, heading text NOT NULL, text text NOT NULL, checksum bigint NOT NULL,
    context text, context_checksum bigint, terms text NOT NULL, length bigint NOT NULL,
    version bigint NOT NULL
);
CREATE INDEX chunks_by_document ON chunks (document);
CREATE INDEX chunks_by_version ON chunks (version);
CREATE INDEX chunks_by_text ON chunks (text_hash);

-- Vectors by a hash of their text. They are written when they are paid for, before anything refers to them.
CREATE TABLE embedders (
    key integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    fingerprint text NOT NULL UNIQUE, dimension integer NOT NULL, probe bytea
);
CREATE TABLE vectors (
    embedder integer NOT NULL REFERENCES embedders ON DELETE CASCADE,
    text_hash bytea NOT NULL, embedding vector NOT NULL,
    PRIMARY KEY (embedder, text_hash)
);
-- Sentences on chunks that models wrote, by a hash of the request.
CREATE TABLE contexts (request bytea PRIMARY KEY, sentence text NOT NULL, version bigint NOT NULL);
CREATE INDEX contexts_by_version ON contexts (version);

-- Chunks that were written to external vector stores.
CREATE TABLE derived (
    store text NOT NULL, chunk bigint NOT NULL, chunk_id text NOT NULL, version bigint NOT NULL,
    PRIMARY KEY (store, chunk)
);
CREATE INDEX derived_by_version ON derived (version);

-- Copies of web pages, and documents that programs added.
CREATE TABLE attachments (path text PRIMARY KEY, digest text NOT NULL, data bytea NOT NULL, version bigint NOT NULL);

-- What publications removed: `key` is the key of the row as text.
CREATE TABLE removed (
    kind text NOT NULL, key text NOT NULL, version bigint NOT NULL, PRIMARY KEY (kind, key)
);
CREATE INDEX removed_by_version ON removed (version);
""",
    """
-- Texts of the run that is going on, which any worker embeds. `texts`: JSON, compressed with zlib.
CREATE TABLE batches (
    key bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    embedder text NOT NULL, hashes bytea[] NOT NULL, texts bytea NOT NULL,
    worker text, lease_until timestamptz, tries integer NOT NULL DEFAULT 0, error text NOT NULL DEFAULT '',
    finished boolean NOT NULL DEFAULT false, tokens bigint NOT NULL DEFAULT 0, cost_usd double precision
);
CREATE TABLE workers (name text PRIMARY KEY, embedder text NOT NULL, seen timestamptz NOT NULL);
""",
    """
-- Processes that follow the knowledge base. version: the publication of their copies.
CREATE TABLE replicas (
    name text PRIMARY KEY, kind text NOT NULL, host text NOT NULL, pid integer NOT NULL,
    seen timestamptz NOT NULL, version bigint NOT NULL
);
ALTER TABLE ragkit ADD COLUMN published timestamptz;
""",
)
"""Number i of the list leads from format i to format i + 1. An older program refuses a newer format."""

FORMAT = len(MIGRATIONS)
"""The format of this version of ragkit."""
TABLES = ("meta", "roots", "files", "documents", "chunks", "contexts", "derived", "attachments", "removed", "embedders")
"""Everything that `clear_all` empties; the vectors follow their embedder."""
