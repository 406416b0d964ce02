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
    """Selection of files."""

    include: tuple[str, ...] = ("**/*",)
    """Patterns of the files to read."""
    max_file_mb: float = 50.0
    """Larger files are skipped."""
    hidden: bool = False
    """Read hidden files too."""


@dataclass(frozen=True)
class PdfOptions:
    """Options for PDF files."""

    max_pages: int = 100
    """Maximum number of pages."""


@dataclass(frozen=True)
class RecursiveOptions:
    """Size of chunks."""

    chunk_size: int = 200
    """Units per chunk."""
    chunk_overlap: int = 40
    """Units shared by neighboring chunks."""
    unit: Literal["tokens", "characters"] = "tokens"
    """The unit of both options."""

    def __post_init__(self) -> None:
        if self.chunk_size < 1:
            raise InvalidOption("chunk_size", self.chunk_size, ">= 1")
        if not 0 <= self.chunk_overlap < self.chunk_size:
            raise InvalidOption("split.chunk_overlap", self.chunk_overlap, f"between 0 and {self.chunk_size - 1}")


@dataclass(frozen=True)
class RemoteOptions:
    """A remote model."""

    model: str
    """The name of the model."""
    api_key: str = ""
    """Empty: read from the environment."""
    dimensions: int | None = None
    """Dimension of the vectors; null: the default of the model."""
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
    """Call fsync after each write."""


@dataclass(frozen=True)
class ServerOptions(FilesOptions):
    """A remote store."""

    retries: int = 3
    """Maximum number of retries."""


@dataclass(frozen=True)
class RerankOptions:
    """Options of reranking."""

    depth: int = 20
    """Number of hits to rerank."""


@dataclass(frozen=True)
class MixedOptions:
    """Options of hybrid search."""

    top_k: int = 8
    """Maximum number of hits."""
    weight: float = 0.5
    """Weight of the vector score, in [0, 1]."""
    rerank: RerankOptions | None = None
    """Null: no reranking."""

    def __post_init__(self) -> None:
        if self.top_k < 1:
            raise InvalidOption("top_k", self.top_k, ">= 1")
        if not 0 <= self.weight <= 1:
            raise InvalidOption("weight", self.weight, "between 0 and 1")


class Component:
    """Placeholder for every component; it is never run."""


def _spec(options: str = "", target: str = "Component", extra: str = "") -> ComponentSpec:
    return ComponentSpec(f"{HERE}:{target}", extra, f"{HERE}:{options}" if options else "")


def _registry(kind: str, **specs: ComponentSpec) -> Registry[Component]:
    return Registry(kind, f"tests-{kind}", specs)


LOADERS = _registry(
    "loader",
    folder=_spec("FolderOptions"),
    markdown=_spec(),
    pdf=_spec("PdfOptions"),
    scans=ComponentSpec("tests.pipeline.no_such_package:Scans", "scans"),
)
SPLITTERS = _registry("splitter", recursive=_spec("RecursiveOptions"), lines=_spec())
EMBEDDERS = _registry("embedder", small=_spec(), remote=_spec("RemoteOptions"))
STORES = _registry("store", files=_spec("FilesOptions"), server=_spec("ServerOptions"))
RETRIEVERS = _registry("retriever", mixed=_spec("MixedOptions"), words=_spec())
PROVIDERS = _registry("provider", big=_spec(), far=ComponentSpec("tests.pipeline.no_such_package:Far", "far"))

SECTIONS = (
    Section("load", "loaders", LOADERS, allows_list=True),
    Section("split", "splitters", SPLITTERS, allows_list=True),
    Section("embed", "embedder", EMBEDDERS),
    Section("store", "store", STORES, deferred_options=frozenset({"path"})),
    Section("retrieve", "retriever", RETRIEVERS),
    Section("answer", "answer", None, provider_registry=PROVIDERS),
)
