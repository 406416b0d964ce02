"""A few components of each kind, so that messages stay the same when ragkit gets a new component."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from ragkit.errors import InvalidOption
from ragkit.pipeline.sections import Section
from ragkit.registry import ComponentSpec, Registry

HERE = "tests.pipeline.sample"


@dataclass(frozen=True)
class FolderOptions:
    """Which files are read."""

    include: tuple[str, ...] = ("**/*",)
    """Only files that match one of these."""
    max_file_mb: float = 50.0
    """Larger files are skipped."""
    hidden: bool = False
    """Read hidden files too."""


@dataclass(frozen=True)
class PdfOptions:
    """How PDF is read."""

    max_pages: int = 100
    """At most so many pages."""


@dataclass(frozen=True)
class RecursiveOptions:
    """How long chunks are."""

    chunk_size: int = 200
    """Units of one chunk."""
    chunk_overlap: int = 40
    """Units that two neighbours share."""
    unit: Literal["tokens", "characters"] = "tokens"
    """What is counted."""

    def __post_init__(self) -> None:
        if self.chunk_size < 1:
            raise InvalidOption("chunk_size", self.chunk_size, ">= 1")
        if not 0 <= self.chunk_overlap < self.chunk_size:
            raise InvalidOption("split.chunk_overlap", self.chunk_overlap, f"between 0 and {self.chunk_size - 1}")


@dataclass(frozen=True)
class RemoteOptions:
    """A model behind an address."""

    model: str
    """As the service names it."""
    api_key: str = ""
    """Empty: from the environment."""
    dimensions: int | None = None
    """Columns of a row; null: as many as the model has."""
    headers: Mapping[str, str] = field(default_factory=dict)
    """Sent with every request."""
    cache: Path | None = None
    """A folder for answers.

    A second paragraph, which is part of the docstring.
    """


@dataclass(frozen=True)
class FilesOptions:
    """A store in a folder."""

    path: str
    """The folder."""
    sync: bool = True
    """Wait for the disk."""


@dataclass(frozen=True)
class ServerOptions(FilesOptions):
    """A store behind an address."""

    retries: int = 3
    """How often a request is repeated."""


@dataclass(frozen=True)
class RerankOptions:
    """How hits are ordered again."""

    depth: int = 20
    """Hits that are looked at."""


@dataclass(frozen=True)
class MixedOptions:
    """Words and meaning."""

    top_k: int = 8
    """Hits at most."""
    weight: float = 0.5
    """Of meaning, in [0, 1]."""
    rerank: RerankOptions | None = None
    """Null: no reranking."""

    def __post_init__(self) -> None:
        if self.top_k < 1:
            raise InvalidOption("top_k", self.top_k, ">= 1")
        if not 0 <= self.weight <= 1:
            raise InvalidOption("weight", self.weight, "between 0 and 1")


class Part:
    """Stands for every component; it is never run."""


def _place(options: str = "", target: str = "Part", extra: str = "") -> ComponentSpec:
    return ComponentSpec(f"{HERE}:{target}", extra, f"{HERE}:{options}" if options else "")


def _registry(kind: str, **places: ComponentSpec) -> Registry[Part]:
    return Registry(kind, f"tests-{kind}", places)


LOADERS = _registry(
    "loader",
    folder=_place("FolderOptions"),
    markdown=_place(),
    pdf=_place("PdfOptions"),
    scans=ComponentSpec("tests.pipeline.no_such_package:Scans", "scans"),
)
SPLITTERS = _registry("splitter", recursive=_place("RecursiveOptions"), lines=_place())
EMBEDDERS = _registry("embedder", small=_place(), remote=_place("RemoteOptions"))
STORES = _registry("store", files=_place("FilesOptions"), server=_place("ServerOptions"))
RETRIEVERS = _registry("retriever", mixed=_place("MixedOptions"), words=_place())
PROVIDERS = _registry("provider", big=_place(), far=ComponentSpec("tests.pipeline.no_such_package:Far", "far"))

SECTIONS = (
    Section("load", "loaders", LOADERS, allows_list=True),
    Section("split", "splitters", SPLITTERS, allows_list=True),
    Section("embed", "embedder", EMBEDDERS),
    Section("store", "store", STORES, deferred_options=frozenset({"path"})),
    Section("retrieve", "retriever", RETRIEVERS),
    Section("answer", "answer", None, provider_registry=PROVIDERS),
)
