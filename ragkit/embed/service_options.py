"""The options of the embedders that are services: plain values, importable without any of their packages.

Keys are none of them: they come from the environment, by the names that the services themselves use.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from ragkit.errors import InvalidOption


@dataclass(frozen=True, slots=True)
class ServiceOptions:
    """How texts are sent to a service. None of these changes a vector."""

    batch_size: int = 64
    """Texts of one request at most."""
    batch_tokens: int = 50_000
    """Tokens of one request at most, estimated; a text that is longer goes alone."""
    concurrency: int = 4
    """Requests under way at once."""
    requests_per_minute: int = 0
    """Requests sent in a minute at most; 0: no limit but the service's own."""
    tokens_per_minute: int = 0
    """Tokens sent in a minute at most, estimated; 0: no limit but the service's own."""
    attempts: int = 8
    """How often a request is sent at most when the service is busy or cannot be reached."""
    timeout_s: float = 60.0
    """Seconds that one request may take."""
    base_url: str = ""
    """Where the service is; empty: its own address, or the one in the environment."""

    def __post_init__(self) -> None:
        for name in ("batch_size", "batch_tokens", "concurrency", "attempts"):
            if getattr(self, name) < 1:
                raise InvalidOption(f"embed.{name}", getattr(self, name), ">= 1")
        for name in ("requests_per_minute", "tokens_per_minute"):
            if getattr(self, name) < 0:
                raise InvalidOption(f"embed.{name}", getattr(self, name), "0 (no limit) or a number above it")
        if not self.timeout_s > 0:
            raise InvalidOption("embed.timeout_s", self.timeout_s, "> 0")


@dataclass(frozen=True, slots=True)
class ModelOptions(ServiceOptions):
    """Which model of a service, and how wide its rows are."""

    model: str = ""
    """The model's name as the service knows it."""
    dimensions: int = 0
    """Columns of every row, where the model lets you choose; 0: as many as it has."""

    def __post_init__(self) -> None:
        ServiceOptions.__post_init__(self)
        if not self.model:
            raise InvalidOption("embed.model", self.model, "the name of a model")
        if self.dimensions < 0:
            raise InvalidOption("embed.dimensions", self.dimensions, "0 (the model's own) or a number above it")


@dataclass(frozen=True, slots=True)
class OpenAIEmbeddingOptions(ModelOptions):
    """OpenAI, or any server that speaks as it does (`base_url`)."""

    model: str = "text-embedding-3-small"
    """The model's name as the service knows it."""
    batch_size: int = 128
    """Texts of one request at most. The service takes 2,048."""


@dataclass(frozen=True, slots=True)
class CohereEmbeddingOptions(ModelOptions):
    """Cohere, version 2 of its interface."""

    model: str = "embed-v4.0"
    """The model's name as the service knows it."""
    batch_size: int = 96
    """Texts of one request at most. The service takes 96."""


@dataclass(frozen=True, slots=True)
class GeminiEmbeddingOptions(ModelOptions):
    """Google Gemini."""

    model: str = "gemini-embedding-001"
    """The model's name as the service knows it."""
    batch_size: int = 100
    """Texts of one request at most. The service takes 100."""


@dataclass(frozen=True, slots=True)
class VoyageEmbeddingOptions(ModelOptions):
    """Voyage, the embedder that Anthropic recommends."""

    model: str = "voyage-3.5"
    """The model's name as the service knows it."""
    batch_size: int = 128
    """Texts of one request at most. The service takes 1,000."""


@dataclass(frozen=True, slots=True)
class OllamaEmbeddingOptions(ModelOptions):
    """A model that runs in Ollama."""

    model: str = "nomic-embed-text"
    """The model's name as `ollama list` shows it."""
    batch_size: int = 32
    """Texts of one request at most."""
    concurrency: int = 2
    """Requests under way at once: they share one processor."""
    timeout_s: float = 300.0
    """Seconds that one request may take; the first one loads the model."""
    document_prompt: str = ""
    """Put before every text; `search_document: ` for nomic-embed-text."""
    query_prompt: str = ""
    """Put before every question; `search_query: ` for nomic-embed-text."""


@dataclass(frozen=True, slots=True)
class SentenceTransformersOptions:
    """A sentence-transformers model, run on this machine."""

    model: str = "sentence-transformers/all-MiniLM-L6-v2"
    """A folder that holds the model, or its name on the Hugging Face hub, from where it is fetched once."""
    revision: str = ""
    """Which version of a model on the hub: a tag or a commit; empty: the newest."""
    device: str = ""
    """`cpu`, `cuda`, `mps`, `cuda:1`; empty: the best there is."""
    batch_size: int = 32
    """Texts computed in one go."""
    dimensions: int = 0
    """Only the first columns of every row, for models that were trained for it; 0: all."""
    document_prompt: str = ""
    """Put before every text; `passage: ` for the models of the E5 family."""
    query_prompt: str = ""
    """Put before every question; `query: ` for the models of the E5 family."""
    precision: Literal["float32", "float16", "bfloat16"] = "float32"
    """What the model computes in. The rows are float32 in any case."""

    def __post_init__(self) -> None:
        if not self.model:
            raise InvalidOption("embed.model", self.model, "a folder, or a name on the Hugging Face hub")
        if self.batch_size < 1:
            raise InvalidOption("embed.batch_size", self.batch_size, ">= 1")
        if self.dimensions < 0:
            raise InvalidOption("embed.dimensions", self.dimensions, "0 (all) or a number above it")
