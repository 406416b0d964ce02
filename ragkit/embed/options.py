"""Options of the local embedders. Importable without optional dependencies."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from ragkit.errors import InvalidOption

EmbedTime = Literal["question", "index"]


@dataclass(frozen=True, slots=True)
class MiniLMOptions:
    """How the bundled model runs. No option changes a vector."""

    threads: int = 0
    """Number of threads; 0: one per CPU that this process may use."""
    token_budget: int = 256
    """Maximum number of tokens per batch (at least one text). Small batches fit into the CPU cache."""
    when: EmbedTime = "question"
    """`question`: an index run publishes first; then it embeds, and searches embed the candidates that have no vector
    yet. Only with the store `sqlite` in a directory. `index`: an index run publishes chunks with their vectors."""

    def __post_init__(self) -> None:
        if self.threads < 0:
            raise InvalidOption("embed.threads", self.threads, "0 (one thread per CPU) or greater")
        if self.token_budget < 1:
            raise InvalidOption("embed.token_budget", self.token_budget, ">= 1")
        validate_when(self.when)


@dataclass(frozen=True, slots=True)
class MultilingualOptions:
    """How `multilingual` runs. No option changes a vector."""

    threads: int = 0
    """Number of threads; 0: one per CPU that this process may use."""
    when: EmbedTime = "question"
    """As of `minilm`."""

    def __post_init__(self) -> None:
        if self.threads < 0:
            raise InvalidOption("embed.threads", self.threads, "0 (one thread per CPU) or greater")
        validate_when(self.when)


@dataclass(frozen=True, slots=True)
class HashingOptions:
    """Options of `hashing`."""

    dimension: int = 256
    """Dimension of the vectors. A smaller dimension has more hash collisions."""

    def __post_init__(self) -> None:
        if self.dimension < 1:
            raise InvalidOption("embed.dimension", self.dimension, ">= 1")


@dataclass(frozen=True, slots=True)
class OnnxOptions:
    """A model folder with an ONNX graph. What is not set is read from the configuration files of the folder."""

    path: str
    """Folder with `config.json`, `tokenizer.json` and a graph in `onnx/model.onnx` or `model.onnx`."""
    file: str = ""
    """The graph, relative to the folder, such as a quantized one: `onnx/model_quantized.onnx`; empty: `model.onnx`."""
    dimensions: int = 0
    """Truncate vectors to this dimension, for models trained for it (Matryoshka); 0: no truncation."""
    document_prompt: str | None = None
    """Prefix of every text; null: that of the folder."""
    query_prompt: str | None = None
    """Prefix of every question; null: that of the folder."""
    max_tokens: int = 0
    """Maximum number of tokens of a text; 0: the limit of the model, which is never exceeded."""
    threads: int = 0
    """Number of threads; 0: one per CPU that this process may use."""
    token_budget: int = 512
    """Maximum number of tokens per batch (at least one text)."""
    when: EmbedTime = "index"
    """`index` or `question`, as of `minilm`; candidates are found by words and by static vectors for English."""

    def __post_init__(self) -> None:
        if not self.path:
            raise InvalidOption("embed.path", self.path, "a folder with an exported model")
        for name, least in (("dimensions", 0), ("max_tokens", 0), ("threads", 0), ("token_budget", 1)):
            if getattr(self, name) < least:
                raise InvalidOption(f"embed.{name}", getattr(self, name), f"{least} or greater")
        validate_when(self.when)
        if 0 < self.max_tokens < 8:
            raise InvalidOption("embed.max_tokens", self.max_tokens, "0 (the limit of the model), or 8 or greater")


@dataclass(frozen=True, slots=True)
class GGUFOptions:
    """A model in a GGUF file. Prompts are not in the file: see what its authors say."""

    path: str
    """The file; of a model in parts the first one."""
    pooling: Literal["", "mean", "cls", "last"] = ""
    """How the vectors of tokens become one; empty: what the file says."""
    document_prompt: str = ""
    """Prefix of every text."""
    query_prompt: str = ""
    """Prefix of every question."""
    max_tokens: int = 0
    """Maximum number of tokens of a text; 0: the limit of the model, at most 2048."""
    threads: int = 0
    """Number of threads; 0: one per CPU that this process may use."""

    def __post_init__(self) -> None:
        if not self.path:
            raise InvalidOption("embed.path", self.path, "a GGUF file: `ragkit models --local` lists those found")
        if self.pooling not in {"", "mean", "cls", "last"}:
            raise InvalidOption("embed.pooling", self.pooling, "mean, cls, last, or empty (what the file says)")
        for name in ("max_tokens", "threads"):
            if getattr(self, name) < 0:
                raise InvalidOption(f"embed.{name}", getattr(self, name), "0 or greater")


def validate_when(when: str) -> None:
    """Raise InvalidOption unless `when` is an `EmbedTime`."""
    if when not in get_args(EmbedTime):
        raise InvalidOption("embed.when", when, f"one of {', '.join(get_args(EmbedTime))}")
