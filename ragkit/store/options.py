"""The options of every store, importable without any vendor package."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from ragkit.errors import InvalidOption
from ragkit.masking import register_secret

PARTS_NAMESPACE_SUFFIX = "-parts"
"""Suffix of the Pinecone namespace that holds the parts of long documents."""
MAX_TABLE_BYTES = 63
"""PostgreSQL's limit for the length of a name."""
_PINECONE_INDEX_NAME = re.compile(r"[a-z0-9]([a-z0-9-]{0,43}[a-z0-9])?")
_MILVUS_COLLECTION = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,254}")


def _validate_dimension(dimension: int | None) -> None:
    if dimension is not None and dimension < 1:
        raise InvalidOption("dimension", dimension, ">= 1")


def _validate_minimum(option: str, value: float, minimum: float) -> None:
    if not value >= minimum:  # refuses NaN as well
        raise InvalidOption(option, value, f">= {minimum:g}")


def _validate_range(option: str, value: float, minimum: float, maximum: float) -> None:
    if not minimum <= value <= maximum:
        raise InvalidOption(option, value, f"between {minimum} and {maximum}")


def _validate_choice(option: str, value: str, choices: Collection[str]) -> None:
    if value not in choices:
        *first, last = map(repr, choices)
        raise InvalidOption(option, value, f"{', '.join(first)} or {last}")


@dataclass(frozen=True)
class MemoryOptions:
    """Options of the store `memory`."""

    dimension: int | None = None
    """Dimension of the vectors; None takes that of the first vectors."""

    def __post_init__(self) -> None:
        _validate_dimension(self.dimension)


@dataclass(frozen=True)
class SqliteOptions:
    """Options of the store `sqlite`."""

    path: str | Path
    """The directory of the store; created if it does not exist."""
    dimension: int | None = None
    """Dimension of the vectors; None takes that of the stored or the first vectors."""
    busy_seconds: float = 30.0
    """Seconds that a write waits for another process that is writing."""

    def __post_init__(self) -> None:
        _validate_dimension(self.dimension)
        _validate_minimum("busy_seconds", self.busy_seconds, 0)


@dataclass(frozen=True)
class DuckdbOptions:
    """Options of the store `duckdb`."""

    path: str | Path
    """The database file; it and its directory are created if they do not exist."""
    dimension: int | None = None
    """Dimension of the vectors; None takes that of the stored or the first vectors."""

    def __post_init__(self) -> None:
        _validate_dimension(self.dimension)


@dataclass(frozen=True)
class LancedbOptions:
    """Options of the store `lancedb`."""

    path: str | Path
    """The directory of the database; created if it does not exist."""
    table: str = "ragkit"
    """The table; created if it does not exist. A name that LanceDB does not allow is replaced by its hash."""
    dimension: int | None = None
    """Dimension of the vectors; None takes that of the stored or the first vectors."""
    method: Literal["exact", "ivf_pq", "hnsw"] = "exact"
    """`exact` scans all vectors. `ivf_pq` and `hnsw` build an approximate index, faster for many vectors."""
    index_rows: int = 20_000
    """Number of vectors from which an index is built; fewer are scanned. At least 256."""
    nprobes: int = 32
    """For an index: partitions that a search reads; more raise recall and take longer."""
    refine: int = 16
    """For an index: `refine * top_k` candidates are scored again from their full vectors."""
    ef: int = 200
    """For `hnsw`: size of the candidate list of a search, in each partition."""
    keep_seconds: float = 60.0
    """Seconds that old versions are kept for readers in other processes."""

    def __post_init__(self) -> None:
        _validate_dimension(self.dimension)
        _validate_choice("method", self.method, ("exact", "ivf_pq", "hnsw"))
        _validate_minimum("index_rows", self.index_rows, 256)
        for option in ("nprobes", "refine", "ef"):
            _validate_minimum(option, getattr(self, option), 1)
        _validate_minimum("keep_seconds", self.keep_seconds, 0.01)


@dataclass(frozen=True)
class ChromaOptions:
    """Options of the store `chroma`: a server if `host` is set, else Chroma in this process."""

    path: str | Path = ""
    """The directory of the database; created if it does not exist. Ignored if `host` is set."""
    host: str = ""
    """Host name or address of the server."""
    port: int = 8000
    """Port of the server."""
    ssl: bool = False
    """Whether to connect to the server over TLS."""
    token: str = field(default="", repr=False)
    """Sent to the server as the header `X-Chroma-Token`; empty for none."""
    collection: str = "ragkit"
    """The collection; created if it does not exist. A name that Chroma does not allow is replaced by its hash."""
    dimension: int | None = None
    """Dimension of the vectors; None takes that of the stored or the first vectors."""
    m: int = 16
    """Links of a vector in the HNSW graph, at least 2."""
    ef_construction: int = 128
    """Size of the candidate list of an insertion."""
    ef_search: int = 200
    """Minimum size of the candidate list of a search; more raise recall and take longer."""

    def __post_init__(self) -> None:
        _validate_dimension(self.dimension)
        _validate_range("port", self.port, 1, 65535)
        _validate_minimum("m", self.m, 2)
        _validate_minimum("ef_construction", self.ef_construction, 2)
        _validate_minimum("ef_search", self.ef_search, 1)


@dataclass(frozen=True)
class FaissOptions:
    """Options of the store `faiss`."""

    path: str | Path
    """The directory of the store; created if it does not exist."""
    dimension: int | None = None
    """Dimension of the vectors; None takes that of the stored or the first vectors."""
    method: Literal["flat", "hnsw", "ivfpq"] = "hnsw"
    """`flat` is exact; `hnsw` is the fastest to search and slow to build; `ivfpq` takes the least memory."""
    index_rows: int = 10_000
    """Number of vectors from which an index is built; fewer are scanned, in less than a millisecond."""
    exact_share: float = 0.2
    """A filter that lets through less than this share of the vectors is answered by an exact scan of those."""
    m: int = 16
    """For `hnsw`: links of a vector, at least 2."""
    ef_construction: int = 128
    """For `hnsw`: size of the candidate list of an insertion."""
    ef_search: int = 96
    """For `hnsw`: size of the candidate list of a search; more raise recall and take longer."""
    nlist: int | None = None
    """For `ivfpq`: number of cells; None takes four times the square root of the number of vectors."""
    nprobe: int = 64
    """For `ivfpq`: cells that a search reads; more raise recall and take longer."""
    code_bytes: int | None = None
    """For `ivfpq`: bytes of a vector's code, a divisor of the dimension; None takes about an eighth of it."""
    refine: int = 20
    """For `ivfpq`: `refine * top_k` candidates are scored again from their full vectors."""
    busy_seconds: float = 30.0
    """Seconds that a write waits for another process that is writing."""

    def __post_init__(self) -> None:
        _validate_dimension(self.dimension)
        _validate_choice("method", self.method, ("flat", "hnsw", "ivfpq"))
        _validate_range("exact_share", self.exact_share, 0, 1)
        for option in ("m", "ef_construction"):
            _validate_minimum(option, getattr(self, option), 2)
        for option in ("ef_search", "nprobe", "refine", "nlist", "code_bytes"):
            _validate_minimum(option, 1 if getattr(self, option) is None else getattr(self, option), 1)
        _validate_minimum("index_rows", self.index_rows, 0)
        _validate_minimum("busy_seconds", self.busy_seconds, 0)


@dataclass(frozen=True)
class PgvectorOptions:
    """Options of the store `pgvector`."""

    dsn: str = field(repr=False)
    """Connection string, `postgresql://user:password@host:5432/database` or any other form that libpq accepts."""
    table: str = "ragkit"
    """The table, resolved along the `search_path`; created if it does not exist."""
    dimension: int | None = None
    """Dimension of the vectors; None takes that of the stored or the first vectors."""
    method: Literal["exact", "hnsw"] = "exact"
    """`hnsw` creates an approximate index with the table, faster for many vectors."""
    m: int = 16
    """For `hnsw`: links of a vector, 2 to 100."""
    ef_construction: int = 64
    """For `hnsw`: size of the candidate list of an insertion, `2 * m` to 1,000."""
    ef_search: int = 100
    """For `hnsw`: size of the candidate list of a search, 1 to 1,000; more raise recall and take longer."""
    lock_seconds: float = 30.0
    """Seconds that a write waits for a lock."""

    def __post_init__(self) -> None:
        _validate_dimension(self.dimension)
        register_secret(self.dsn)
        if not 1 <= len(self.table.encode("utf-8", "replace")) <= MAX_TABLE_BYTES or {*self.table} & {"\0", "%"}:
            raise InvalidOption("table", self.table, f"a name of 1 to {MAX_TABLE_BYTES} bytes without '%'")
        _validate_choice("method", self.method, ("exact", "hnsw"))
        _validate_range("m", self.m, 2, 100)
        if not 2 * self.m <= self.ef_construction <= 1000:
            raise InvalidOption("ef_construction", self.ef_construction, f"between {2 * self.m} (2 * m) and 1000")
        _validate_range("ef_search", self.ef_search, 1, 1000)
        _validate_minimum("lock_seconds", self.lock_seconds, 0)


@dataclass(frozen=True)
class QdrantOptions:
    """Options of the store `qdrant`: a server if `url` is set, else the engine embedded in this process."""

    path: str | Path = ""
    """The directory of the embedded engine; created if it does not exist. Ignored if `url` is set."""
    url: str = ""
    """URL of the server, `http://localhost:6333`; `:memory:` is the client's in-memory mode, for experiments."""
    api_key: str = field(default="", repr=False)
    """API key of the server; empty for none."""
    collection: str = "ragkit"
    """The collection on the server; created if it does not exist."""
    dimension: int | None = None
    """Dimension of the vectors; None takes that of the stored or the first vectors."""
    method: Literal["exact", "hnsw"] = "exact"
    """For a server: `exact` scans all vectors, `hnsw` uses the index. The embedded engine is always exact."""
    ef: int = 128
    """For `hnsw`: size of the candidate list of a search; more raise recall and take longer."""
    timeout_seconds: int = 60
    """Timeout of a request to the server."""

    def __post_init__(self) -> None:
        _validate_dimension(self.dimension)
        register_secret(self.api_key)
        if not self.collection or "/" in self.collection or "\0" in self.collection:
            raise InvalidOption("collection", self.collection, "a name without slashes")
        _validate_choice("method", self.method, ("exact", "hnsw"))
        _validate_minimum("ef", self.ef, 1)
        _validate_minimum("timeout_seconds", self.timeout_seconds, 1)


@dataclass(frozen=True)
class PineconeOptions:
    """Options of the store `pinecone`."""

    api_key: str = field(repr=False)
    """API key of the project."""
    index_name: str = "ragkit"
    """The index, at most 45 lowercase letters, digits and `-`; created if it does not exist."""
    namespace: str = ""
    """The namespace in the index; empty for the default one. All namespaces of an index share one dimension."""
    dimension: int | None = None
    """Dimension of the vectors; None takes that of the stored or the first vectors."""
    cloud: str = "aws"
    """Cloud of a new index: aws, gcp or azure."""
    region: str = "us-east-1"
    """Region of a new index."""
    host: str = ""
    """Address of the service; empty for Pinecone's own."""
    retries: int = 8
    """Retries of a rate-limited request; the service sets the delay."""
    wait_seconds: float = 60.0
    """Seconds to wait until a write is visible to readers."""

    def __post_init__(self) -> None:
        _validate_dimension(self.dimension)
        register_secret(self.api_key)
        if not self.api_key:
            raise InvalidOption("api_key", "", "an API key (see app.pinecone.io)")
        if not _PINECONE_INDEX_NAME.fullmatch(self.index_name):
            raise InvalidOption("index_name", self.index_name, "a name of up to 45 lowercase letters, digits and '-'")
        is_printable_ascii = self.namespace.isascii() and self.namespace.isprintable()
        if not is_printable_ascii or self.namespace.endswith(PARTS_NAMESPACE_SUFFIX):
            rule = f"printable ASCII that does not end in {PARTS_NAMESPACE_SUFFIX!r}"
            raise InvalidOption("namespace", self.namespace, rule)
        _validate_minimum("retries", self.retries, 0)
        _validate_minimum("wait_seconds", self.wait_seconds, 0)


@dataclass(frozen=True)
class MilvusOptions:
    """Options of the store `milvus`: a server if `uri` is set, else Milvus Lite in this process."""

    path: str | Path = ""
    """The directory of Milvus Lite; created if it does not exist. Ignored if `uri` is set."""
    uri: str = ""
    """URI of the server: `http://localhost:19530`."""
    token: str = field(default="", repr=False)
    """Credentials of the server, `user:password` or a key; empty for none."""
    collection: str = "ragkit"
    """The collection: letters, digits and `_`; created if it does not exist."""
    dimension: int | None = None
    """Dimension of the vectors; None takes that of the stored or the first vectors."""
    method: Literal["exact", "hnsw"] = "exact"
    """`exact` scans all vectors; `hnsw` creates an approximate index with the collection."""
    m: int = 16
    """For `hnsw`: links of a vector, 2 to 2,048."""
    ef_construction: int = 200
    """For `hnsw`: size of the candidate list of an insertion."""
    ef: int = 128
    """For `hnsw`: size of the candidate list of a search; more raise recall and take longer."""
    timeout_seconds: float = 60.0
    """Timeout of a request to the server."""

    def __post_init__(self) -> None:
        _validate_dimension(self.dimension)
        register_secret(self.token)
        if not _MILVUS_COLLECTION.fullmatch(self.collection):
            rule = "a name of letters, digits and '_' that does not start with a digit"
            raise InvalidOption("collection", self.collection, rule)
        _validate_choice("method", self.method, ("exact", "hnsw"))
        _validate_range("m", self.m, 2, 2048)
        _validate_minimum("ef_construction", self.ef_construction, 1)
        _validate_minimum("ef", self.ef, 1)
        _validate_minimum("timeout_seconds", self.timeout_seconds, 1)
