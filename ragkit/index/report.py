"""Events and report of an index run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from ragkit.records import JSON


@dataclass(frozen=True, slots=True)
class PlanCreated:
    """The plan is complete; processing starts."""

    files: int
    """Number of files to read."""
    bytes: int
    removed: int
    removed_sources: tuple[str, ...] = ()
    """Files that no longer exist in the sources."""
    suffix_bytes: Mapping[str, int] = field(default_factory=dict)
    """Suffix -> bytes of the files to read that have it."""


@dataclass(frozen=True, slots=True)
class FileRead:
    """One file was read and split, or failed."""

    source: str
    chunks: int
    bytes: int
    error: str = ""
    hint: str = ""
    """What to do about the error."""
    pending_texts: int = 0
    """Texts that were read and are not embedded yet, as far as the run embeds while it reads."""


@dataclass(frozen=True, slots=True)
class TextsEmbedded:
    """A batch was embedded, and its vectors are on disk."""

    texts: int
    tokens: int
    pending_texts: int
    """Texts that were read and are not embedded yet."""


@dataclass(frozen=True, slots=True)
class GenerationPublished:
    """A new generation is visible to searches."""

    generation: int
    files: int


@dataclass(frozen=True, slots=True)
class SearchReady:
    """Everything that was read can be searched; the chunks without a vector are embedded now."""

    chunks: int
    """Chunks of the knowledge base."""
    unembedded: int
    """Those of them that have no vector yet."""
    report: IndexReport
    """What the run has done so far."""


IndexEvent: TypeAlias = "PlanCreated | FileRead | TextsEmbedded | GenerationPublished | SearchReady"


@dataclass(frozen=True, slots=True)
class FileFailure:
    """A file that could not be indexed, or whose field `access` was not understood: then only owners may read it."""

    source: str
    error: str
    hint: str


@dataclass(frozen=True, slots=True)
class EmbeddingEstimate:
    """Estimated cost of embedding."""

    model: str
    """`provider:model` of the embedder; its fingerprint if its provider is unknown."""
    tokens: int
    cost_usd: float | None
    """None: the price is unknown; 0.0: a local model."""
    exact: bool
    """Whether the model's own tokenizer counted the tokens; otherwise an estimate, within about 10%."""

    def to_json(self) -> dict[str, JSON]:
        """The fields by name."""
        return {"model": self.model, "tokens": self.tokens, "cost_usd": self.cost_usd, "exact": self.exact}


@dataclass(frozen=True, slots=True)
class ContextEstimate:
    """Estimated cost of the contexts of chunks that are not known yet."""

    model: str
    """`provider:model`."""
    requests: int
    """One per chunk."""
    prompt_tokens: int
    completion_tokens: int
    """With sentences of the maximum length."""
    cost_usd: float | None
    """None: the price is unknown; 0.0: a local model."""

    def to_json(self) -> dict[str, JSON]:
        """The fields by name."""
        return {
            "model": self.model,
            "requests": self.requests,
            "prompt_tokens": self.prompt_tokens,
            "completion_tokens": self.completion_tokens,
            "cost_usd": self.cost_usd,
        }


@dataclass(frozen=True)
class IndexReport:
    """Result of one index run. `files` and `chunks` have the keys of `index --json`."""

    kb: str
    files: dict[str, int]
    """added, updated, unchanged, removed, failed, skipped."""
    chunks: dict[str, int]
    """added, removed, reused. `reused` counts unchanged chunks of updated files."""
    embedded: int
    """Texts sent to the embedder, without duplicates and texts whose vectors are known."""
    tokens: int
    """Tokens of these texts, as the embedder counts them."""
    failures: tuple[FileFailure, ...]
    skipped: tuple[tuple[str, str], ...]
    """(source, reason)."""
    seconds: float
    stage_seconds: dict[str, float] = field(default_factory=dict)
    """Seconds spent in `load`, `split`, `embed` and `store`, summed over parallel workers: may exceed `seconds`."""
    dry_run: bool = False
    notes: tuple[str, ...] = ()
    """Further messages for the user, such as repairs."""
    usage: dict[str, JSON] = field(default_factory=dict)
    """Token usage and cost, as in `--json`."""
    estimate: EmbeddingEstimate | None = None
    """The estimated cost of embedding; set by a dry run."""
    unembedded: int = 0
    """Chunks of the knowledge base that have no vector yet; searches embed those that questions need."""
    contexts: int = 0
    """Sentences that a model wrote on chunks (`split.context`); in a dry run, those to write."""
    context_estimates: tuple[ContextEstimate, ...] = ()
    """Their estimated cost by model; set by a dry run."""

    def __str__(self) -> str:
        """One line: `files: 3 added (1 skipped); chunks: 12 added, 0 removed, 12 embedded, 0.8 s`."""
        added, removed = self.chunks.get("added", 0), self.chunks.get("removed", 0)
        left = f" ({self.unembedded:,} have no vector yet)" if self.unembedded else ""
        chunks = f"chunks: {added:,} added, {removed:,} removed, {self.embedded:,} embedded{left}"
        return f"files: {self.file_changes()}; {chunks}, {self.seconds:.1f} s"

    def file_changes(self) -> str:
        """What became of the files: `3 added, 1 updated (12 unchanged)`."""
        if not any(self.files.values()):
            return "no files found"
        changed, rest = (
            ", ".join(f"{self.files[key]:,} {key}" for key in keys if self.files.get(key))
            for keys in (("added", "updated", "removed"), ("unchanged", "skipped", "failed"))
        )
        return (changed or "nothing changed") + (f" ({rest})" if rest else "")

    def to_json(self) -> dict[str, JSON]:
        """The output of `index --json`."""
        return {
            "kb": self.kb,
            "files": dict(self.files),
            "chunks": dict(self.chunks),
            "embedded": self.embedded,
            "unembedded": self.unembedded,
            "tokens": self.tokens,
            "failures": [{"source": f.source, "error": f.error, "hint": f.hint} for f in self.failures],
            "skipped": [{"source": source, "reason": reason} for source, reason in self.skipped],
            "usage": dict(self.usage),
            "seconds": round(self.seconds, 3),
            "stations": dict(self.stage_seconds),
            "dry_run": self.dry_run,
            "notes": list(self.notes),
            "estimate": self.estimate.to_json() if self.estimate else None,
            "contexts": self.contexts,
            "context_estimates": [estimate.to_json() for estimate in self.context_estimates],
        }
