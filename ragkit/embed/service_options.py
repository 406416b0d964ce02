"""Options of the embedding services and of sentence-transformers. Importable without optional dependencies.

API keys are no options: they come from the environment variables of the services.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal, TypeVar

from ragkit.errors import InvalidOption
from ragkit.masking import is_key_like, register_secret


@dataclass(frozen=True, slots=True)
class ServiceOptions:
    """How texts are sent to a service. No option changes a vector."""

    batch_size: int = 64
    """Maximum number of texts per request."""
    batch_tokens: int = 50_000
    """Maximum number of estimated tokens per request; a longer text is sent alone."""
    concurrency: int = 4
    """Maximum number of parallel requests."""
    requests_per_minute: int = 0
    """Maximum number of requests per minute; 0: no limit."""
    tokens_per_minute: int = 0
    """Maximum number of estimated tokens per minute; 0: no limit."""
    attempts: int = 8
    """Maximum number of attempts per request when the service is busy or unreachable."""
    timeout_s: float = 60.0
    """Timeout of a request, in seconds."""
    base_url: str = ""
    """URL of the service; empty: its default, or the one in the environment."""

    def __post_init__(self) -> None:
        for name in ("batch_size", "batch_tokens", "concurrency", "attempts"):
            if getattr(self, name) < 1:
                raise InvalidOption(f"embed.{name}", getattr(self, name), ">= 1")
        for name in ("requests_per_minute", "tokens_per_minute"):
            if getattr(self, name) < 0:
                raise InvalidOption(f"embed.{name}", getattr(self, name), "0 (no limit) or greater")
        if not self.timeout_s > 0:
            raise InvalidOption("embed.timeout_s", self.timeout_s, "> 0")


@dataclass(frozen=True, slots=True)
class ModelOptions(ServiceOptions):
    """Options of a service with a choice of models."""

    model: str = ""
    """The model name of the service."""
    dimensions: int = 0
    """Dimension of the vectors, if the model supports a choice; 0: the default of the model."""

    def __post_init__(self) -> None:
        ServiceOptions.__post_init__(self)
        if not self.model:
            raise InvalidOption("embed.model", self.model, "the name of a model")
        if self.dimensions < 0:
            raise InvalidOption("embed.dimensions", self.dimensions, "0 (the model's default) or greater")


OptionsT = TypeVar("OptionsT", bound=ModelOptions)


def select_options(
    options_class: type[OptionsT], model: str | OptionsT, base_url: str = "", dimensions: int = 0
) -> OptionsT:
    """The options of an embedder: the given ones or those of a model, with a URL and dimension that are not empty.

    Raises InvalidOption if `model` is an API key: it would be sent and logged as the model.
    """
    if isinstance(model, str):
        if is_key_like(model):
            register_secret(model)
            raise InvalidOption("model", f"{model[:4]}...", "the name of a model; pass a key as api_key=...")
        options = options_class(model=model) if model else options_class()
    else:
        options = model
    return replace(options, base_url=base_url or options.base_url, dimensions=dimensions or options.dimensions)


@dataclass(frozen=True, slots=True)
class OpenAIEmbeddingOptions(ModelOptions):
    """OpenAI, or an OpenAI-compatible server (`base_url`)."""

    model: str = "text-embedding-3-small"
    """The model name of the service."""
    batch_size: int = 128
    """Maximum number of texts per request. The service accepts 2,048."""


@dataclass(frozen=True, slots=True)
class CohereEmbeddingOptions(ModelOptions):
    """Cohere, API version 2."""

    model: str = "embed-v4.0"
    """The model name of the service."""
    batch_size: int = 96
    """Maximum number of texts per request. The service accepts 96."""


@dataclass(frozen=True, slots=True)
class GeminiEmbeddingOptions(ModelOptions):
    """Google Gemini."""

    model: str = "gemini-embedding-001"
    """The model name of the service."""
    batch_size: int = 100
    """Maximum number of texts per request. The service accepts 100."""


@dataclass(frozen=True, slots=True)
class VoyageEmbeddingOptions(ModelOptions):
    """Voyage, recommended by Anthropic."""

    model: str = "voyage-3.5"
    """The model name of the service."""
    batch_size: int = 128
    """Maximum number of texts per request. The service accepts 1,000."""


@dataclass(frozen=True, slots=True)
class OllamaEmbeddingOptions(ModelOptions):
    """A model served by Ollama."""

    model: str = "nomic-embed-text"
    """The model name, as in `ollama list`."""
    batch_size: int = 32
    """Maximum number of texts per request."""
    concurrency: int = 2
    """Maximum number of parallel requests, which share one processor."""
    timeout_s: float = 300.0
    """Timeout of a request, in seconds; the first request loads the model."""
    document_prompt: str = ""
    """Prefix of every text; `search_document: ` for nomic-embed-text."""
    query_prompt: str = ""
    """Prefix of every question; `search_query: ` for nomic-embed-text."""


@dataclass(frozen=True, slots=True)
class SentenceTransformersOptions:
    """A local sentence-transformers model."""

    model: str = "sentence-transformers/all-MiniLM-L6-v2"
    """Model folder, or model name on the Hugging Face hub, from which it is downloaded once."""
    revision: str = ""
    """Tag or commit of a model on the hub; empty: the latest."""
    device: str = ""
    """`cpu`, `cuda`, `mps`, `cuda:1`; empty: the best available."""
    batch_size: int = 32
    """Texts per batch."""
    dimensions: int = 0
    """Truncate vectors to this dimension, for models trained for it (Matryoshka); 0: no truncation."""
    document_prompt: str = ""
    """Prefix of every text; `passage: ` for E5 models."""
    query_prompt: str = ""
    """Prefix of every question; `query: ` for E5 models."""
    precision: Literal["float32", "float16", "bfloat16"] = "float32"
    """Data type of the computation. Vectors are always float32."""

    def __post_init__(self) -> None:
        if not self.model:
            raise InvalidOption("embed.model", self.model, "a model folder, or a model name on the Hugging Face hub")
        if self.batch_size < 1:
            raise InvalidOption("embed.batch_size", self.batch_size, ">= 1")
        if self.dimensions < 0:
            raise InvalidOption("embed.dimensions", self.dimensions, "0 (no truncation) or greater")
