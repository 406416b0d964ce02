"""The options of the stores that live in this process, importable without any store's own packages."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from ragkit.errors import InvalidOption
from ragkit.store.options import validate_dimension


def validate_minimum(option: str, met: float, least: float) -> None:
    if not met >= least:
        raise InvalidOption(option, met, f">= {least:g}")


@dataclass(frozen=True)
class DuckdbOptions:
    """Options of the store `duckdb`."""

    path: str | Path
    """The file that holds the store; it and its directory are made when they are not there."""
    dimension: int | None = None
    """Columns of a row; None takes the width of the first rows, or what the file says."""

    def __post_init__(self) -> None:
        validate_dimension(self.dimension)


@dataclass(frozen=True)
class LancedbOptions:
    """Options of the store `lancedb`."""

    path: str | Path
    """The directory that holds the database; made when it is not there."""
    table: str = "ragkit"
    """The table in it; made when it is not there. A name that LanceDB does not take is replaced by its hash."""
    dimension: int | None = None
    """Columns of a row; None takes the width of the first rows, or what the table says."""
    method: Literal["exact", "ivf_pq", "hnsw"] = "exact"
    """`exact` scans all rows. The others make an index: they find nearly all of the nearest, sooner with many rows."""
    index_rows: int = 20_000
    """From how many rows on an index is made; fewer are scanned. At least 256."""
    nprobes: int = 32
    """Of an index: partitions that a search looks into; more find more and take longer."""
    refine: int = 16
    """Of an index: this many times as many candidates are scored again from their rows."""
    ef: int = 200
    """Of `hnsw`: candidates that a search keeps in each partition."""
    keep_seconds: float = 60.0
    """How long old versions are kept for readers in other processes that are still at work on them."""

    def __post_init__(self) -> None:
        validate_dimension(self.dimension)
        if self.method not in {"exact", "ivf_pq", "hnsw"}:
            raise InvalidOption("method", self.method, "'exact', 'ivf_pq' or 'hnsw'")
        validate_minimum("index_rows", self.index_rows, 256)
        validate_minimum("nprobes", self.nprobes, 1)
        validate_minimum("refine", self.refine, 1)
        validate_minimum("ef", self.ef, 1)
        validate_minimum("keep_seconds", self.keep_seconds, 0.01)


@dataclass(frozen=True)
class ChromaOptions:
    """Options of the store `chroma`: a server where `host` is given, else Chroma in this process."""

    path: str | Path = ""
    """The directory that holds the database; made when it is not there. Not used when there is a `host`."""
    host: str = ""
    """Where the server is: a name or an address."""
    port: int = 8000
    """Of the server."""
    ssl: bool = False
    """Whether the server is spoken to over TLS."""
    token: str = field(default="", repr=False)
    """Sent to the server as `X-Chroma-Token`, where it asks for one."""
    collection: str = "ragkit"
    """The collection that holds the store; made when it is not there. A name that Chroma does not take is hashed."""
    dimension: int | None = None
    """Columns of a row; None takes the width of the first rows, or what the collection says."""
    m: int = 16
    """Links of a row in Chroma's HNSW graph, 2 or more."""
    ef_construction: int = 128
    """Candidates looked at when a row is put in."""
    ef_search: int = 200
    """Candidates that a search looks at, at least; more find more and take longer."""

    def __post_init__(self) -> None:
        validate_dimension(self.dimension)
        if not 1 <= self.port <= 65535:
            raise InvalidOption("port", self.port, "1 to 65535")
        validate_minimum("m", self.m, 2)
        validate_minimum("ef_construction", self.ef_construction, 2)
        validate_minimum("ef_search", self.ef_search, 1)


@dataclass(frozen=True)
class FaissOptions:
    """Options of the store `faiss`."""

    path: str | Path
    """The directory that holds the store; made when it is not there."""
    dimension: int | None = None
    """Columns of a row; None takes the width of the first rows, or what the directory says."""
    method: Literal["flat", "hnsw", "ivfpq"] = "hnsw"
    """`flat` is exact; `hnsw` is the fastest to ask, slow to build; `ivfpq` takes the least memory."""
    index_rows: int = 10_000
    """From how many rows on there is an index; fewer are scanned exactly, which takes less than a millisecond."""
    exact_share: float = 0.2
    """A filter that lets through less than this share of the rows is answered exactly, from those rows alone."""
    m: int = 16
    """Of `hnsw`: links of a row, 2 or more."""
    ef_construction: int = 128
    """Of `hnsw`: candidates looked at when a row is put in."""
    ef_search: int = 96
    """Of `hnsw`: candidates that a search looks at; more find more and take longer."""
    nlist: int | None = None
    """Of `ivfpq`: cells that the rows are sorted into; None takes four times the square root of their number."""
    nprobe: int = 64
    """Of `ivfpq`: cells that a search looks into; more find more and take longer."""
    code_bytes: int | None = None
    """Of `ivfpq`: bytes that a row is told by, a divisor of its dimension; None takes about an eighth of it."""
    refine: int = 20
    """Of `ivfpq`: this many times as many candidates are scored again from their rows."""
    busy_seconds: float = 30.0
    """How long a write waits for another process that is writing."""

    def __post_init__(self) -> None:
        validate_dimension(self.dimension)
        if self.method not in {"flat", "hnsw", "ivfpq"}:
            raise InvalidOption("method", self.method, "'flat', 'hnsw' or 'ivfpq'")
        if not 0 <= self.exact_share <= 1:
            raise InvalidOption("exact_share", self.exact_share, "a share, 0 to 1,")
        for option in ("m", "ef_construction"):
            validate_minimum(option, getattr(self, option), 2)
        for option in ("ef_search", "nprobe", "refine", "nlist", "code_bytes"):
            validate_minimum(option, 1 if getattr(self, option) is None else getattr(self, option), 1)
        validate_minimum("index_rows", self.index_rows, 0)
        validate_minimum("busy_seconds", self.busy_seconds, 0)
