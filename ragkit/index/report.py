"""What an index run says of itself: events while it runs, a report when it is done."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias

from ragkit.records import JSON


@dataclass(frozen=True, slots=True)
class PlanCreated:
    """The plan is made; work begins."""

    files: int
    """How many files will be read."""
    bytes: int
    removed: int
    removed_sources: tuple[str, ...] = ()
    """The files that are gone from the sources."""


@dataclass(frozen=True, slots=True)
class FileRead:
    """One file was read and split, or could not be."""

    source: str
    chunks: int
    bytes: int
    error: str = ""


@dataclass(frozen=True, slots=True)
class TextsEmbedded:
    """Some chunks were embedded and their vectors are on disk."""

    texts: int
    tokens: int
    pending_texts: int
    """Texts that were read and still wait for their vectors."""


@dataclass(frozen=True, slots=True)
class GenerationPublished:
    """Searches see a new generation from here on."""

    generation: int
    files: int


IndexEvent: TypeAlias = PlanCreated | FileRead | TextsEmbedded | GenerationPublished


@dataclass(frozen=True, slots=True)
class FileFailure:
    """A file that could not be indexed."""

    source: str
    error: str
    hint: str


@dataclass(frozen=True, slots=True)
class EmbeddingEstimate:
    """What embedding is likely to cost."""

    model: str
    """`provider:model` of the embedder; its fingerprint when it does not say who charges for it."""
    tokens: int
    cost_usd: float | None
    """None: the price is unknown; 0.0: a local model."""
    exact: bool
    """Whether the tokens were counted with the model's own tokenizer; if not, they are a guess, some 10% off."""

    def to_json(self) -> dict[str, JSON]:
        """The fields by name."""
        return {"model": self.model, "tokens": self.tokens, "cost_usd": self.cost_usd, "exact": self.exact}


@dataclass(frozen=True)
class IndexReport:
    """What one run did. `files` and `chunks` have the keys of the contract's `index --json`."""

    kb: str
    files: dict[str, int]
    """added, updated, unchanged, removed, failed, skipped."""
    chunks: dict[str, int]
    """added, removed, reused: the last counts the chunks of updated files that stayed the same."""
    embedded: int
    """Texts that went through the embedder; equal texts and known ones do not."""
    tokens: int
    """Tokens of those texts, as the embedder counts them."""
    failures: tuple[FileFailure, ...]
    skipped: tuple[tuple[str, str], ...]
    """(source, reason)."""
    seconds: float
    stage_seconds: dict[str, float] = field(default_factory=dict)
    """Seconds of work at each station, `load`, `split`, `embed` and `store`, added up over all that work side by side:
    together they may be more than `seconds`."""
    dry_run: bool = False
    notes: tuple[str, ...] = ()
    """What else a person should know: repairs that were made, for instance."""
    usage: dict[str, JSON] = field(default_factory=dict)
    """As the contract's USAGE."""
    estimate: EmbeddingEstimate | None = None
    """Of a dry run: what the run would cost."""

    def to_json(self) -> dict[str, JSON]:
        """The contract's shape of `index --json`."""
        return {
            "kb": self.kb,
            "files": dict(self.files),
            "chunks": dict(self.chunks),
            "embedded": self.embedded,
            "tokens": self.tokens,
            "failures": [{"source": f.source, "error": f.error, "hint": f.hint} for f in self.failures],
            "skipped": [{"source": source, "reason": reason} for source, reason in self.skipped],
            "usage": dict(self.usage),
            "seconds": round(self.seconds, 3),
            "stations": dict(self.stage_seconds),
            "dry_run": self.dry_run,
            "notes": list(self.notes),
            "estimate": self.estimate.to_json() if self.estimate else None,
        }
