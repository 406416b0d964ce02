"""The options of the stores that are servers, importable without any store's own packages."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from ragkit.errors import InvalidOption
from ragkit.masking import register_secret
from ragkit.store.options import validate_dimension

PARTS_NAMESPACE_SUFFIX = "-parts"
"""What follows the name of a namespace of Pinecone in the one that holds the rest of long documents."""
_PINECONE_INDEX_NAME = re.compile(r"[a-z0-9]([a-z0-9-]{0,43}[a-z0-9])?")
_MILVUS_COLLECTION = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,254}")
MAX_TABLE_BYTES = 63
"""How long PostgreSQL lets a name be."""


def validate_minimum(option: str, met: float, least: float) -> None:
    if not met >= least:
        raise InvalidOption(option, met, f">= {least:g}")


@dataclass(frozen=True)
class PgvectorOptions:
    """Options of the store `pgvector`."""

    dsn: str = field(repr=False)
    """Where PostgreSQL is: `postgresql://user:password@host:5432/database`, or what libpq takes else."""
    table: str = "ragkit"
    """The table that holds the store; made when it is not there. It is looked for along the `search_path`."""
    dimension: int | None = None
    """Columns of a row; None takes the width of the first rows, or what the table says."""
    method: Literal["exact", "hnsw"] = "exact"
    """`hnsw` makes an index together with the table: faster with many rows, and finds nearly all of the nearest."""
    m: int = 16
    """Of `hnsw`: links of a row, 2 to 100."""
    ef_construction: int = 64
    """Of `hnsw`: candidates looked at when a row is put in, at least twice `m`, up to 1,000."""
    ef_search: int = 100
    """Of `hnsw`: candidates looked at by a search, 1 to 1,000; more find more and take longer."""
    lock_seconds: float = 30.0
    """How long a write waits for another one that is in its way."""

    def __post_init__(self) -> None:
        validate_dimension(self.dimension)
        register_secret(self.dsn)
        if not 1 <= len(self.table.encode("utf-8", "replace")) <= MAX_TABLE_BYTES or {*self.table} & {"\0", "%"}:
            raise InvalidOption("table", self.table, f"a name of 1 to {MAX_TABLE_BYTES} bytes, without '%',")
        if self.method not in {"exact", "hnsw"}:
            raise InvalidOption("method", self.method, "'exact' or 'hnsw'")
        if not 2 <= self.m <= 100:
            raise InvalidOption("m", self.m, "2 to 100")
        if not 2 * self.m <= self.ef_construction <= 1000:
            raise InvalidOption("ef_construction", self.ef_construction, f"{2 * self.m} (twice m) to 1000")
        if not 1 <= self.ef_search <= 1000:
            raise InvalidOption("ef_search", self.ef_search, "1 to 1000")
        validate_minimum("lock_seconds", self.lock_seconds, 0)


@dataclass(frozen=True)
class QdrantOptions:
    """Options of the store `qdrant`: a server where `url` is given, else the engine embedded in this process."""

    path: str | Path = ""
    """The directory of the embedded engine; made when it is not there. Not used when there is a `url`."""
    url: str = ""
    """Where the server is, `http://localhost:6333`; `:memory:` is the client's own imitation, for trying things out."""
    api_key: str = field(default="", repr=False)
    """What the server asks for; empty for none."""
    collection: str = "ragkit"
    """The collection of the server that holds the store; made when it is not there."""
    dimension: int | None = None
    """Columns of a row; None takes the width of the first rows, or what the collection says."""
    method: Literal["exact", "hnsw"] = "exact"
    """Of a server: `exact` looks at every row, `hnsw` uses the server's index. The embedded engine is exact."""
    ef: int = 128
    """Of `hnsw`: candidates looked at by a search; more find more and take longer."""
    timeout_seconds: int = 60
    """How long to wait for an answer of the server."""

    def __post_init__(self) -> None:
        validate_dimension(self.dimension)
        register_secret(self.api_key)
        if not self.collection or "/" in self.collection or "\0" in self.collection:
            raise InvalidOption("collection", self.collection, "a name without slashes")
        if self.method not in {"exact", "hnsw"}:
            raise InvalidOption("method", self.method, "'exact' or 'hnsw'")
        validate_minimum("ef", self.ef, 1)
        validate_minimum("timeout_seconds", self.timeout_seconds, 1)


@dataclass(frozen=True)
class PineconeOptions:
    """Options of the store `pinecone`."""

    api_key: str = field(repr=False)
    """The key of the project."""
    index_name: str = "ragkit"
    """The index that holds the store: lower-case letters, digits and `-`, at most 45; made when it is not there."""
    namespace: str = ""
    """The part of the index that is used; empty for the default one. Stores of one index need one dimension."""
    dimension: int | None = None
    """Columns of a row; None takes the width of the first rows, or what the index says."""
    cloud: str = "aws"
    """Where an index is made: aws, gcp or azure."""
    region: str = "us-east-1"
    """Where an index is made."""
    host: str = ""
    """Where the service is; empty for Pinecone's own address."""
    retries: int = 8
    """How often a request is tried again that the service was too busy for; it says how long to wait."""
    wait_seconds: float = 60.0
    """How long to wait until what was written is seen by readers."""

    def __post_init__(self) -> None:
        validate_dimension(self.dimension)
        register_secret(self.api_key)
        if not self.api_key:
            raise InvalidOption("api_key", "", "a key (app.pinecone.io shows it)")
        if not _PINECONE_INDEX_NAME.fullmatch(self.index_name):
            raise InvalidOption("index_name", self.index_name, "a name of up to 45 lower-case letters, digits and '-'")
        if (
            not self.namespace.isascii()
            or not self.namespace.isprintable()
            or self.namespace.endswith(PARTS_NAMESPACE_SUFFIX)
        ):
            raise InvalidOption(
                "namespace", self.namespace, f"printable ASCII that does not end in {PARTS_NAMESPACE_SUFFIX!r}"
            )
        validate_minimum("retries", self.retries, 0)
        validate_minimum("wait_seconds", self.wait_seconds, 0)


@dataclass(frozen=True)
class MilvusOptions:
    """Options of the store `milvus`: a server where `uri` is given, else Milvus Lite in this process."""

    path: str | Path = ""
    """The directory of Milvus Lite; made when it is not there. Not used when there is a `uri`."""
    uri: str = ""
    """Where the server is: `http://localhost:19530`."""
    token: str = field(default="", repr=False)
    """What the server asks for, `user:password` or a key; empty for none."""
    collection: str = "ragkit"
    """The collection that holds the store, letters, digits and `_`; made when it is not there."""
    dimension: int | None = None
    """Columns of a row; None takes the width of the first rows, or what the collection says."""
    method: Literal["exact", "hnsw"] = "exact"
    """The index that a collection is made with: none, or `hnsw`, which finds nearly all of the nearest."""
    m: int = 16
    """Of `hnsw`: links of a row, 2 to 2,048."""
    ef_construction: int = 200
    """Of `hnsw`: candidates looked at when a row is put in."""
    ef: int = 128
    """Of `hnsw`: candidates looked at by a search; more find more and take longer."""
    timeout_seconds: float = 60.0
    """How long to wait for an answer of the server."""

    def __post_init__(self) -> None:
        validate_dimension(self.dimension)
        register_secret(self.token)
        if not _MILVUS_COLLECTION.fullmatch(self.collection):
            raise InvalidOption("collection", self.collection, "a name of letters, digits and '_', no digit first,")
        if self.method not in {"exact", "hnsw"}:
            raise InvalidOption("method", self.method, "'exact' or 'hnsw'")
        if not 2 <= self.m <= 2048:
            raise InvalidOption("m", self.m, "2 to 2048")
        validate_minimum("ef_construction", self.ef_construction, 1)
        validate_minimum("ef", self.ef, 1)
        validate_minimum("timeout_seconds", self.timeout_seconds, 1)
